//gsoap p service name: peer
//gsoap p service style: document
//gsoap p service encoding: literal
//gsoap p schema namespace: urn:gsoap-peer
//gsoap wsa schema namespace: http://schemas.xmlsoap.org/ws/2004/08/addressing
//gsoap wsa schema form: qualified
//gsoap wse schema namespace: http://schemas.xmlsoap.org/ws/2004/08/eventing
//gsoap wse schema form: qualified


struct wsa__EndpointReference {
    char *Address 1;
};

struct SOAP_ENV__Header {
    char *wsa__Action 0;
    char *wsa__MessageID 0;
    char *wsa__RelatesTo 0;
    char *wsa__To 0;
    struct wsa__EndpointReference *wsa__ReplyTo 0;
    char *wse__Identifier 0;
};

int __p__exchange(_XML __request, struct __p__exchangeResponse { _XML __reply; } *response);
