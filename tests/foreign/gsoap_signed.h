#import "wsa5.h"
#import "wsse.h"
//gsoap e service name: signing
//gsoap e schema namespace: urn:event
//gsoap e schema form: qualified
//gsoap wsnt schema namespace: http://docs.oasis-open.org/wsn/b-2
mutable struct SOAP_ENV__Header { char *wsnt__Topic; };
int e__event(char *e__text, void);
