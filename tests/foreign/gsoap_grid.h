//gsoap run schema namespace: http://example.org/lab
//gsoap run schema form: unqualified

class run__RunEvent : public ns2__Event
{ public:
    LONG64 iterations 1;
    char *solver 0;
};
