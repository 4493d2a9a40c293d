/* Both ends of a sequence of WS-ReliableMessaging, made with gSOAP's plugin wsrm.
 *
 *   gsoap_reliable send URL note|ask COUNT [CALLBACK PORT] [--soap12]
 *   gsoap_reliable serve PORT
 *
 * "send" makes a sequence, sends COUNT messages in it, one-way ("note") or requests ("ask"), again
 * until each is acknowledged and answered, and ends the sequence. With CALLBACK, an address at which
 * PORT is reached, acknowledgements and replies come there, else on its own connections. "serve"
 * takes messages of any sequence, and answers those that ask, until its standard input ends.
 * PORT 0 is any. It prints a line for each thing that happens:
 *
 *   port NUMBER        it listens
 *   got TEXT           a message, or a reply
 *   left NUMBER        messages that are not acknowledged, before the sequence is closed
 *   ended              the sequence is terminated
 *
 * Which version of the protocol it speaks is decided when it is compiled. Exit code 1 after a line
 * on standard error. No wait is without end. */

#include <poll.h>
#include <unistd.h>

#include "peer.nsmap"
#include "soapH.h"
#include "wsrmapi.h"

#define SECONDS 5       /* for a connection, an octet */
#define LIFETIME 100    /* of the whole process */
#define EXPIRES 600000  /* of a sequence, in milliseconds */
#define TRIES 60
#define PAUSE 100000    /* microseconds */

#define PEER "urn:gsoap-peer"

static int failed(struct soap *soap, const char *what) {
    fprintf(stderr, "%s: ", what);
    soap_print_fault(soap, stderr);
    return 1;
}

static int is_silent(const char *address) {
    return !address || !strcmp(address, soap_wsa_anonymousURI) || !strcmp(address, soap_wsa_noneURI);
}

static struct soap *made(void) {
    struct soap *soap = soap_new1(SOAP_XML_INDENT);
    soap_register_plugin(soap, soap_wsa);
    soap_register_plugin(soap, soap_wsrm);
    soap->connect_timeout = soap->send_timeout = soap->recv_timeout = SECONDS;
    soap->bind_flags = SO_REUSEADDR;
    return soap;
}

static int listening(struct soap *soap, int port) {
    struct sockaddr_in bound;
    socklen_t size = sizeof bound;
    if (!soap_valid_socket(soap_bind(soap, "127.0.0.1", port, 100))
        || getsockname(soap->master, (struct sockaddr *)&bound, &size))
        return failed(soap, "bind");
    printf("port %d\n", ntohs(bound.sin_port));
    fflush(stdout);
    return 0;
}

/* ---- What comes ---- */

static int taken;

static void got(const char *text) {
    taken++;
    printf("got %s\n", text);
    fflush(stdout);
}

/* An acknowledgement on the connection of a one-way message: gSOAP itself sends one only elsewhere. */
static int acknowledge_here(struct soap *soap) {
    if (soap_wsrm_reply(soap, NULL, SOAP_NAMESPACE_OF_wsrm "/SequenceAcknowledgement"))
        return soap->error;
    soap_serializeheader(soap);
    if (soap_begin_count(soap)
        || (soap->mode & SOAP_IO_LENGTH
            && (soap_envelope_begin_out(soap) || soap_putheader(soap) || soap_body_begin_out(soap)
                || soap_body_end_out(soap) || soap_envelope_end_out(soap)))
        || soap_end_count(soap) || soap_response(soap, SOAP_OK) || soap_envelope_begin_out(soap)
        || soap_putheader(soap) || soap_body_begin_out(soap) || soap_body_end_out(soap)
        || soap_envelope_end_out(soap) || soap_end_send(soap))
        return soap->error;
    return soap_closesock(soap);
}

int p__note(struct soap *soap, char *text) {
    struct soap_wsrm_sequence *sequence = soap_wsrm_seq(soap);
    int here = !sequence || is_silent(soap_wsrm_acksto(sequence));
    int error;

    error = here ? soap_wsrm_check(soap) : soap_wsrm_check_send_empty_response(soap);
    if (!error) {
        got(text);
        error = here ? acknowledge_here(soap) : soap_wsrm_acknowledgement(soap, sequence, NULL);
        if (!here)
            error = SOAP_OK; /* It is sent again. */
    }
    soap_wsrm_seq_release(soap, sequence);
    return error;
}

int p__ask(struct soap *soap, char *text, struct p__answer *answer) {
    if (soap_wsrm_check(soap))
        return soap->error;
    got(text);
    answer->text = text;
    return soap_wsrm_reply(soap, soap_wsa_rand_uuid(soap), PEER ":answer");
}

int p__answer(struct soap *soap, char *text) {
    if (soap_wsrm_check_send_empty_response(soap))
        return soap->error;
    got(text);
    return SOAP_OK;
}

int SOAP_ENV__Fault(struct soap *soap, char *faultcode, char *faultstring, char *faultactor,
                    struct SOAP_ENV__Detail *detail, struct SOAP_ENV__Code *code,
                    struct SOAP_ENV__Reason *reason, char *node, char *role,
                    struct SOAP_ENV__Detail *Detail) {
    (void)faultcode, (void)faultactor, (void)detail, (void)code, (void)node, (void)role, (void)Detail;
    printf("fault %s\n", faultstring ? faultstring : reason ? reason->SOAP_ENV__Text : "");
    fflush(stdout);
    return soap_send_empty_response(soap, 202);
}

/* Take what comes, for a while. */
static void listen_for(struct soap *soap, int microseconds) {
    soap->accept_timeout = -microseconds;
    while (soap_valid_socket(soap_accept(soap))) {
        soap_serve(soap);
        soap_destroy(soap);
        soap_end(soap);
    }
}

static int serve(int port) {
    struct soap *soap = made(), *sender = made();
    struct pollfd input = {0, POLLIN, 0};

    if (listening(soap, port))
        return 1;
    while (poll(&input, 1, 0) == 0) {
        listen_for(soap, PAUSE);
        /* Acknowledgements. Replies do not go again: gSOAP keeps none that goes elsewhere. */
        soap_wsrm_pulse(sender, 1);
        soap_destroy(sender);
        soap_end(sender);
    }
    return 0;
}

/* ---- What is sent ---- */

struct sending {
    struct soap *soap, *callback;
    soap_wsrm_sequence_handle sequence;
    const char *url, *source;
    int asks;
};

static void wait_a_while(struct sending *at) {
    if (at->callback)
        listen_for(at->callback, PAUSE);
    else
        usleep(PAUSE);
}

/* Read an answer without a body: nothing, or an acknowledgement. */
static void read_acknowledgement(struct soap *soap) {
    struct __wsrm__SequenceAcknowledgement nothing;
    soap_recv___wsrm__SequenceAcknowledgement(soap, &nothing);
}

/* 202, and an envelope whose body is empty, are answers, too. */
static int is_answered(struct soap *soap) {
    if (soap->error == 202 || soap->error == SOAP_NO_TAG)
        soap->error = SOAP_OK;
    return soap->error == SOAP_OK;
}

static void ask_too(struct soap *soap, soap_wsrm_sequence_handle sequence) {
    if (!soap->header) {
        soap_header(soap);
        soap_default_SOAP_ENV__Header(soap, soap->header);
    }
    soap->header->wsrm__AckRequested = soap_malloc(soap, sizeof(struct wsrm__AckRequestedType));
    soap_default_wsrm__AckRequestedType(soap, soap->header->wsrm__AckRequested);
    soap->header->wsrm__AckRequested->Identifier = soap_strdup(soap, sequence->id);
    soap->header->__sizeAckRequested = 1;
}

static int create(struct sending *at) {
    char *id = strdup(soap_wsa_rand_uuid(at->soap));
    char *offer = strdup(at->asks ? soap_wsa_rand_uuid(at->soap) : "");
    int tries, error, waits;

    for (tries = 0; tries < TRIES; tries++) {
        error = soap_wsrm_create_offer(at->soap, at->url, at->source, offer, EXPIRES, NoDiscard, id,
                                       &at->sequence);
        if (!error) {
            for (waits = 0; waits < 10; waits++) {
                if (soap_wsrm_seq_created(at->soap, at->sequence)) {
                    free(id);
                    free(offer);
                    return 0;
                }
                wait_a_while(at);
            }
        }
        soap_wsrm_seq_free(at->soap, at->sequence);
        wait_a_while(at);
    }
    return failed(at->soap, "create");
}

/* A message goes again as the same message. gSOAP's own way to do so, soap_wsrm_check_retry, wants the
 * header blocks that its failure to read an answer has removed. */
static int send_message(struct sending *at, ULONG64 number) {
    struct soap *soap = at->soap;
    const char *action = at->asks ? PEER ":ask" : PEER ":note";
    char *id = strdup(soap_wsa_rand_uuid(soap)), text[24];
    struct p__answer answer = {NULL};
    int tries;

    snprintf(text, sizeof text, "%d", (int)number);
    for (tries = 0; tries < TRIES; tries++) {
        const char *to = soap_wsrm_to(at->sequence);
        soap->header = NULL;
        if (soap_wsrm_request_num(soap, at->sequence, id, action, number)
            || (at->source && soap_wsa_add_ReplyTo(soap, at->source)))
            break;
        ask_too(soap, at->sequence);
        if (at->asks)
            soap_call_p__ask(soap, to, action, text, &answer);
        else if (!soap_send_p__note(soap, to, action, text))
            read_acknowledgement(soap);
        if (is_answered(soap) && (!at->asks || at->source || answer.text)) {
            if (answer.text)
                got(answer.text);
            free(id);
            return 0;
        }
        wait_a_while(at);
    }
    return failed(soap, text);
}

/* What comes back when gSOAP sends a message again is not looked at by it. */
static void ask_for_acknowledgement(struct sending *at) {
    struct soap *soap = at->soap;

    soap->header = NULL;
    ask_too(soap, at->sequence);
    if (!soap_wsa_request(soap, NULL, at->url, SOAP_NAMESPACE_OF_wsrm "/AckRequested")
        && !soap_send___wsrm__AckRequested(soap, at->url, SOAP_NAMESPACE_OF_wsrm "/AckRequested"))
        read_acknowledgement(soap);
    soap->header = NULL;
}

/* soap_wsrm_nack counts only those that the other side asked for (Nack). */
static int left(const struct sending *at) {
    const struct soap_wsrm_message *message;
    int count = 0;
    for (message = at->sequence->messages; message; message = message->next)
        count += message->list != NULL;
    return count;
}

/* Wait until everything is acknowledged, and every reply is there. */
static void complete(struct sending *at, int replies) {
    int tries;
    for (tries = 0; tries < TRIES && (left(at) || taken < replies); tries++) {
        wait_a_while(at);
        if (left(at)) {
            soap_wsrm_resend(at->soap, at->sequence, 0, 0);
            ask_for_acknowledgement(at);
        }
    }
    if (at->callback)
        soap_wsrm_pulse(at->soap, SECONDS);
}

/* gSOAP has one state for a sequence and the one for its replies: the end of the latter, which may come
 * first, or in 1.0 as the answer to TerminateSequence, is a fault for it. */
static int is_other_end(const struct sending *at) {
    return at->asks
        && (at->sequence->fault == wsrm__SequenceTerminated || at->sequence->fault == wsrm__UnknownSequence);
}

static int ended(struct sending *at, const char *what,
                 int (*end)(struct soap *, soap_wsrm_sequence_handle, const char *)) {
    char *id = strdup(soap_wsa_rand_uuid(at->soap));
    int tries;
    for (tries = 0; tries < TRIES; tries++) {
        end(at->soap, at->sequence, id);
        wait_a_while(at);
        if (is_answered(at->soap) || is_other_end(at)) {
            free(id);
            return 0;
        }
        at->soap->header = NULL;
    }
    return failed(at->soap, what);
}

static int send_all(struct sending *at, int count) {
    int number;

    if (create(at))
        return 1;
    for (number = 1; number <= count; number++) {
        if (send_message(at, (ULONG64)number))
            return 1;
    }
    complete(at, at->asks ? count : 0);
    printf("left %d\n", left(at));
#ifdef SOAP_WSRM_2005
    /* It is a message of the sequence, and must not be made twice. */
    soap_wsrm_close(at->soap, at->sequence, soap_wsa_rand_uuid(at->soap));
    complete(at, at->asks ? count : 0);
#else
    if (ended(at, "close", soap_wsrm_close))
        return 1;
#endif
    if (left(at))
        return failed(at->soap, "close");
    if (ended(at, "terminate", soap_wsrm_terminate))
        return 1;
    printf("ended\n");
    fflush(stdout);
    return 0;
}

int main(int count, char **words) {
    struct sending at = {0};

    alarm(LIFETIME);
    if (count == 3 && !strcmp(words[1], "serve"))
        return serve(atoi(words[2]));
    if (count < 5 || strcmp(words[1], "send"))
        return 2;
    at.soap = made();
    at.url = words[2];
    at.asks = !strcmp(words[3], "ask");
    if (!strcmp(words[count - 1], "--soap12")) {
        soap_set_version(at.soap, 2);
        count--;
    }
    if (count == 7) {
        at.source = words[5];
        at.callback = made();
        if (listening(at.callback, atoi(words[6])))
            return 1;
    }
    return send_all(&at, atoi(words[4]));
}
