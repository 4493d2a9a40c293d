/* A SOAP peer made with gSOAP, whose DIME code has nothing in common with ours.
 *
 *   gsoap_peer publish tcp|http URL FILE [--attach FILE ID TYPE]... [--stream] [-n N]
 *                                        [--request] [--action URI]
 *   gsoap_peer subscribe tcp|http URL NOTIFYTO [--hold]
 *   gsoap_peer consume PORT COUNT
 *
 * "tcp" is DIME straight on TCP (soap.tcp), "http" is DIME in HTTP. FILE holds what the body has.
 * Every message that arrives is printed as one line of JSON; attachments in hexadecimal.
 * "publish" is one-way, except with --request; all N messages go over one connection; --stream
 * sends attachments in chunks. "subscribe"
 * subscribes, renews and unsubscribes (WS-Eventing 2004/08); with --hold it unsubscribes when its
 * standard input ends. "consume" takes COUNT messages of either kind on one port; PORT 0 is any.
 *
 * Exit code 1 after a line on standard error. No wait is without end.
 */

#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "peer.nsmap"
#include "soapH.h"

#define SECONDS 20      /* for a connection, an octet, a message to arrive */
#define LIFETIME 120    /* of the whole process */
#define CONNECTIONS 16
#define ATTACHMENTS 8
#define HEADER 12

#define WSA "http://schemas.xmlsoap.org/ws/2004/08/addressing"
#define WSE "http://schemas.xmlsoap.org/ws/2004/08/eventing"
#define ANONYMOUS WSA "/role/anonymous"

/* ---- DIME on a bare connection ----
 *
 * gSOAP skips octets up to 32 as white space before it looks for a DIME header, whose first octet
 * is 12 to 15. So each message is preceded by a letter, which makes gSOAP call fparse, as for HTTP;
 * that says "DIME follows". The lengths are followed only to know where the next message starts. */

struct framing {
    size_t (*receive)(struct soap *, char *, size_t);
    char raw[4096];
    size_t used, have;
    unsigned char header[HEADER];
    size_t header_have;
    uint64_t left; /* octets of the record behind its header, padding included */
    int inside;    /* a message */
};

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static size_t big_endian(const unsigned char *from, int octets) {
    size_t value = 0;
    while (octets-- > 0)
        value = value << 8 | *from++;
    return value;
}

static uint64_t padded(size_t length) { return ((uint64_t)length + 3) & ~(uint64_t)3; }

static size_t receive_with_letters(struct soap *soap, char *to, size_t room) {
    struct framing *framing = soap->user;
    size_t done = 0;

    if (framing->used == framing->have) {
        framing->used = 0;
        framing->have = framing->receive(soap, framing->raw, sizeof framing->raw);
        if (framing->have == 0)
            return 0;
    }
    if (!framing->inside) {
        framing->inside = 1;
        framing->header_have = 0;
        *to = 'D';
        return 1;
    }
    while (framing->used < framing->have && done < room && framing->inside) {
        const char *from = framing->raw + framing->used;
        size_t size = smaller(framing->have - framing->used, room - done);
        if (framing->header_have < HEADER) {
            unsigned char *header = framing->header;
            size = smaller(size, HEADER - framing->header_have);
            memcpy(header + framing->header_have, from, size);
            framing->header_have += size;
            if (framing->header_have == HEADER)
                framing->left = padded(big_endian(header + 2, 2)) + padded(big_endian(header + 4, 2))
                    + padded(big_endian(header + 6, 2)) + padded(big_endian(header + 8, 4));
        } else {
            if (framing->left < size)
                size = (size_t)framing->left;
            framing->left -= size;
        }
        memcpy(to + done, from, size);
        done += size;
        framing->used += size;
        if (framing->header_have == HEADER && framing->left == 0) {
            framing->header_have = 0;
            framing->inside = !(framing->header[0] & 2); /* until the record that has ME */
        }
    }
    return done;
}

static int parse_letter(struct soap *soap) {
    if (soap_getchar(soap) != 'D')
        return soap->error = SOAP_EOF;
    soap->imode |= SOAP_ENC_DIME;
    soap->body = 1;
    soap->keep_alive = 1;
    return SOAP_OK;
}

static int frame(struct soap *soap) {
    struct framing *framing = calloc(1, sizeof *framing);
    if (!framing)
        return SOAP_EOM;
    framing->receive = soap->frecv;
    soap->user = framing;
    soap->frecv = receive_with_letters;
    soap->fparse = parse_letter;
    return SOAP_OK;
}

static int has_more(struct soap *soap) {
    struct framing *framing = soap->user;
    return soap->bufidx < soap->buflen || (framing && framing->used < framing->have);
}

/* ---- What arrived, as a line of JSON ---- */

static void print_string(const char *name, const char *text) {
    printf("\"%s\": ", name);
    if (!text) {
        printf("null");
        return;
    }
    putchar('"');
    for (; *text; text++) {
        unsigned char octet = (unsigned char)*text;
        if (octet == '"' || octet == '\\')
            printf("\\%c", octet);
        else if (octet < 32)
            printf("\\u%04x", octet);
        else
            putchar(octet);
    }
    putchar('"');
}

static void print_message(struct soap *soap, const char *transport, const char *body) {
    const struct SOAP_ENV__Header *header = soap->header;
    const struct soap_multipart *part;
    const char *separator = "";

    printf("{");
    print_string("transport", transport);
    printf(", ");
    print_string("action", header ? header->wsa__Action : NULL);
    printf(", ");
    print_string("message_id", header ? header->wsa__MessageID : NULL);
    printf(", ");
    print_string("relates_to", header ? header->wsa__RelatesTo : NULL);
    printf(", ");
    print_string("to", header ? header->wsa__To : NULL);
    printf(", ");
    print_string("body", body);
    printf(", \"attachments\": [");
    for (part = soap->dime.list; part; part = soap_next_multipart((struct soap_multipart *)part)) {
        size_t n;
        if (!part->size && !part->type)
            continue; /* The closing empty record: gSOAP takes it for an attachment. */
        printf("%s{", separator);
        separator = ", ";
        print_string("id", part->id);
        printf(", ");
        print_string("type", part->type);
        printf(", \"data\": \"");
        for (n = 0; n < part->size; n++)
            printf("%02x", (unsigned char)part->ptr[n]);
        printf("\"}");
    }
    printf("]}\n");
    fflush(stdout);
}

static int failed(struct soap *soap, const char *what) {
    fprintf(stderr, "%s: ", what);
    soap_print_fault(soap, stderr);
    return 1;
}

/* ---- Requests ---- */

struct attachment {
    const char *id, *type;
    char *data;
    size_t size, sent;
};

/* gSOAP cuts into chunks what it reads through functions, and whose length it does not know. */

static void *open_stream(struct soap *soap, void *attachment, const char *id, const char *type,
                         const char *options) {
    (void)soap, (void)id, (void)type, (void)options;
    ((struct attachment *)attachment)->sent = 0;
    return attachment;
}

static size_t read_stream(struct soap *soap, void *handle, char *to, size_t room) {
    struct attachment *one = handle;
    size_t size = smaller(room, one->size - one->sent);
    (void)soap;
    memcpy(to, one->data + one->sent, size);
    one->sent += size;
    return size;
}

static void close_stream(struct soap *soap, void *handle) { (void)soap, (void)handle; }

static char *contents(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    long length;

    if (file && !fseek(file, 0, SEEK_END) && (length = ftell(file)) >= 0) {
        data = malloc((size_t)length + 1);
        rewind(file);
        if (data && fread(data, 1, (size_t)length, file) == (size_t)length) {
            data[length] = 0;
            *size = (size_t)length;
        } else {
            free(data);
            data = NULL;
        }
    }
    if (file)
        fclose(file);
    if (!data)
        perror(path);
    return data;
}

static struct soap *client(int tcp, int chunked) {
    struct soap *soap = soap_new2(SOAP_IO_KEEPALIVE, SOAP_IO_KEEPALIVE | (tcp ? SOAP_ENC_PLAIN : 0)
                                                         | (!tcp && chunked ? SOAP_IO_CHUNK : 0));
    if (!soap)
        return NULL;
    soap->connect_timeout = soap->send_timeout = soap->recv_timeout = SECONDS;
    if (tcp && frame(soap))
        return NULL;
    return soap;
}

static void finish(struct soap *soap) {
    soap->keep_alive = 0;
    soap_closesock(soap);
    free(soap->user);
    soap_destroy(soap);
    soap_end(soap);
    soap_free(soap);
}

/* Send *body*; `soap->header` says what it is. */
static int send_message(struct soap *soap, const char *url, char *body,
                        struct attachment *attachments, int count) {
    static int number;
    static char message_id[64];

    snprintf(message_id, sizeof message_id, "urn:gsoap-peer:%ld:%ld:%d", (long)time(NULL),
             (long)getpid(), ++number);
    soap->header->wsa__MessageID = message_id;
    soap_set_dime(soap);
    for (; count-- > 0; attachments++) {
        int stream = soap->fdimereadopen == open_stream;
        soap_set_dime_attachment(soap, stream ? (char *)attachments : attachments->data,
                                 stream ? 0 : attachments->size, attachments->type,
                                 attachments->id, 0, NULL);
    }
    return soap_send___p__exchange(soap, url, soap->header->wsa__Action, body);
}

static int publish(int tcp, const char *url, const char *path, char **options) {
    struct soap *soap;
    struct SOAP_ENV__Header header = {.wsa__Action = "urn:gsoap-peer:event"};
    struct wsa__EndpointReference anonymous = {ANONYMOUS};
    struct attachment attachments[ATTACHMENTS];
    int attached = 0, times = 1, request = 0, stream = 0;
    size_t size;
    char *body = contents(path, &size);

    if (!body)
        return 1;
    for (; *options; options++) {
        if (!strcmp(*options, "--attach") && options[1] && options[2] && options[3]
            && attached < ATTACHMENTS) {
            struct attachment *one = &attachments[attached++];
            if (!(one->data = contents(options[1], &one->size)))
                return 1;
            one->id = options[2];
            one->type = options[3];
            options += 3;
        } else if (!strcmp(*options, "-n") && options[1])
            times = atoi(*++options);
        else if (!strcmp(*options, "--action") && options[1])
            header.wsa__Action = *++options;
        else if (!strcmp(*options, "--request"))
            request = 1;
        else if (!strcmp(*options, "--stream"))
            stream = 1;
        else {
            fprintf(stderr, "unknown option: %s\n", *options);
            return 1;
        }
    }
    if (!(soap = client(tcp, stream)))
        return 1;
    if (stream) {
        soap->fdimereadopen = open_stream;
        soap->fdimeread = read_stream;
        soap->fdimereadclose = close_stream;
    }
    header.wsa__To = (char *)url;
    while (times-- > 0) {
        struct __p__exchangeResponse reply = {NULL};
        header.wsa__ReplyTo = request ? &anonymous : NULL;
        soap->header = &header;
        if (send_message(soap, url, body, attachments, attached))
            return failed(soap, "send");
        if (request) {
            if (soap_recv___p__exchange(soap, &reply))
                return failed(soap, "reply");
            print_message(soap, tcp ? "tcp" : "http", reply.__reply);
        } else if (!tcp && soap_recv_empty_response(soap))
            return failed(soap, "answer");
        soap_destroy(soap);
        soap_end(soap);
    }
    while (attached-- > 0)
        free(attachments[attached].data);
    free(body);
    finish(soap);
    return 0;
}

/* ---- A subscription ---- */

/* The text of the element *name* in *xml*, or NULL; the caller frees it. */
static char *text_of(const char *xml, const char *name) {
    const char *start = strstr(xml, name), *end;
    start = start ? strchr(start, '>') : NULL;
    end = start ? strchr(++start, '<') : NULL;
    return end ? strndup(start, (size_t)(end - start)) : NULL;
}

/* Ask with *body* and print the reply; its text (freed with the context), or NULL. */
static char *ask(struct soap *soap, int tcp, const char *url, const char *identifier,
                 const char *operation, char *body) {
    static struct wsa__EndpointReference anonymous = {ANONYMOUS};
    static char action[128];
    static struct SOAP_ENV__Header header;
    struct __p__exchangeResponse reply = {NULL};

    snprintf(action, sizeof action, WSE "/%s", operation);
    memset(&header, 0, sizeof header);
    header.wsa__Action = action;
    header.wsa__To = (char *)url;
    header.wsa__ReplyTo = &anonymous;
    header.wse__Identifier = (char *)identifier;
    soap->header = &header;
    if (send_message(soap, url, body, NULL, 0) || soap_recv___p__exchange(soap, &reply)) {
        failed(soap, operation);
        return NULL;
    }
    print_message(soap, tcp ? "tcp" : "http", reply.__reply);
    return reply.__reply;
}

static int subscribe(int tcp, const char *url, const char *notify_to, int hold) {
    struct soap *soap = client(tcp, 0);
    char body[2048], *reply, *manager, *identifier;

    if (!soap)
        return 1;
    snprintf(body, sizeof body,
             "<e:Subscribe xmlns:e=\"" WSE "\" xmlns:a=\"" WSA "\"><e:Delivery><e:NotifyTo>"
             "<a:Address>%s</a:Address></e:NotifyTo></e:Delivery><e:Expires>PT10M</e:Expires>"
             "</e:Subscribe>", notify_to);
    if (!(reply = ask(soap, tcp, url, NULL, "Subscribe", body)))
        return 1;
    manager = text_of(reply, "Address");
    identifier = text_of(reply, "Identifier");
    if (!manager || !identifier) {
        fprintf(stderr, "the reply names no subscription manager\n");
        return 1;
    }
    soap_destroy(soap);
    soap_end(soap);
    if (!ask(soap, tcp, manager, identifier, "Renew",
             "<e:Renew xmlns:e=\"" WSE "\"><e:Expires>PT20M</e:Expires></e:Renew>"))
        return 1;
    soap_destroy(soap);
    soap_end(soap);
    while (hold && getchar() != EOF)
        ;
    if (!ask(soap, tcp, manager, identifier, "Unsubscribe", "<e:Unsubscribe xmlns:e=\"" WSE "\"/>"))
        return 1;
    free(manager);
    free(identifier);
    finish(soap);
    return 0;
}

/* ---- A consumer ---- */

/* Take one message; 1, or 0 when the connection has ended, or -1. */
static int take(struct soap *soap) {
    struct __p__exchange message = {NULL};

    soap_begin(soap);
    if (soap_begin_recv(soap))
        return soap->error == SOAP_EOF ? 0 : (failed(soap, "message"), -1);
    if (soap_envelope_begin_in(soap) || soap_recv_header(soap) || soap_body_begin_in(soap)
        || !soap_get___p__exchange(soap, &message, "-p:exchange", NULL) || soap_body_end_in(soap)
        || soap_envelope_end_in(soap) || soap_end_recv(soap))
        return failed(soap, "message"), -1;
    print_message(soap, soap->user ? "tcp" : "http", message.__request);
    soap->dime.list = NULL; /* Or gSOAP would answer with what it got, and crash. */
    if (!soap->user && soap_send_empty_response(soap, 202) != SOAP_STOP && soap->error)
        return failed(soap, "answer"), -1;
    soap_destroy(soap);
    soap_end(soap);
    return 1;
}

/* HTTP begins with a capital letter; DIME does not. */
static int take_connection(struct soap *master, struct soap **taken) {
    char first;
    struct pollfd ready;

    if (!soap_valid_socket(soap_accept(master)) || !(*taken = soap_copy(master)))
        return failed(master, "accept");
    ready.fd = master->socket;
    ready.events = POLLIN;
    if (poll(&ready, 1, SECONDS * 1000) != 1 || recv(ready.fd, &first, 1, MSG_PEEK) != 1) {
        fprintf(stderr, "nothing came over a connection\n");
        return 1;
    }
    master->socket = SOAP_INVALID_SOCKET;
    return first < 32 ? frame(*taken) : 0;
}

static int consume(int port, int count) {
    struct soap *master = soap_new2(SOAP_IO_KEEPALIVE, SOAP_IO_KEEPALIVE);
    struct soap *connections[CONNECTIONS];
    struct pollfd ready[CONNECTIONS + 1];
    struct sockaddr_in here;
    socklen_t size = sizeof here;
    int open = 0, n;

    if (!master)
        return 1;
    master->accept_timeout = master->send_timeout = master->recv_timeout = SECONDS;
    master->bind_flags = SO_REUSEADDR;
    master->max_keep_alive = 0;
    if (!soap_valid_socket(soap_bind(master, "127.0.0.1", port, CONNECTIONS)))
        return failed(master, "bind");
    if (getsockname(master->master, (struct sockaddr *)&here, &size))
        return 1;
    printf("{\"port\": %d}\n", ntohs(here.sin_port));
    fflush(stdout);
    while (count > 0) {
        int was_open = open;
        ready[0].fd = master->master;
        ready[0].events = open < CONNECTIONS ? POLLIN : 0;
        for (n = 0; n < open; n++) {
            ready[n + 1].fd = connections[n]->socket;
            ready[n + 1].events = POLLIN;
        }
        if (poll(ready, (nfds_t)open + 1, LIFETIME * 1000) < 1)
            return 1;
        if (ready[0].revents && take_connection(master, &connections[open++]))
            return 1;
        for (n = was_open; n-- > 0;) {
            int taken = 1;
            if (!ready[n + 1].revents)
                continue;
            while (taken == 1 && count > 0) {
                taken = take(connections[n]);
                count -= taken == 1;
                if (!has_more(connections[n]))
                    break;
            }
            if (taken < 0)
                return 1;
            if (taken == 0) {
                finish(connections[n]);
                connections[n] = connections[--open];
            }
        }
    }
    for (n = 0; n < open; n++)
        finish(connections[n]);
    finish(master);
    return 0;
}

int main(int argc, char **argv) {
    int tcp = argc > 2 && !strcmp(argv[2], "tcp");

    alarm(LIFETIME);
    if (argc == 4 && !strcmp(argv[1], "consume"))
        return consume(atoi(argv[2]), atoi(argv[3]));
    if (argc >= 5 && (tcp || !strcmp(argv[2], "http"))) {
        if (!strcmp(argv[1], "publish"))
            return publish(tcp, argv[3], argv[4], argv + 5);
        if (!strcmp(argv[1], "subscribe"))
            return subscribe(tcp, argv[3], argv[4], argc > 5 && !strcmp(argv[5], "--hold"));
    }
    fprintf(stderr, "usage: see the top of gsoap_peer.c\n");
    return 2;
}
