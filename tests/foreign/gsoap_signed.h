#import "wsse.h"
//gsoap e service name: signing
//gsoap e schema namespace: urn:event
//gsoap e schema form: qualified
int e__event(char *e__text, void);
