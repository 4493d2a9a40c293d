//gsoap p service name: peer
//gsoap p service style: document
//gsoap p service encoding: literal
//gsoap p service namespace: urn:gsoap-peer
//gsoap p schema form: qualified

//gsoap p service method-action: note urn:gsoap-peer:note
int p__note(char *text, void);

//gsoap p service method-action: answer urn:gsoap-peer:answer
int p__answer(char *text, void);

//gsoap p service method-action: ask urn:gsoap-peer:ask
//gsoap p service method-output-action: ask urn:gsoap-peer:answer
int p__ask(char *text, struct p__answer *answer);
