//gsoap ns service name: digest
//gsoap ns schema namespace: urn:digest
int ns__event(char *n, void);
