/* A publisher, a listener and a channel of Grid SOAP Events, on the classes that wsdl2h and soapcpp2
   make of the gateway's own description, and on that of gsoap_grid.h, which the gateway does not know.

     publish CHANNEL NUMBER             three events, one of each class, the first with a number in
                                        sequence; a line for each answer
     listen CHANNEL HANDBACK TYPE       subscribes, with TYPE as the filter ("" is none), and serves
     channel                            serves; whom it granted a lease gets what it is called with

   Before these: --1999, of the schema's drafts of that year; --shared, values that are said once and
   referred to, and the event of the base class itself, all of them behind the call; --embedded, where
   they come first.

   Who serves prints its port (and the lease), then a line for each call, until its input ends. */

#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <string>
#include <vector>

#include "soapH.h"
#include "EventListener.nsmap"

static const char BINDING[] = "urn:gsoap-listener";
static bool is_channel = false, is_shared = false;
static std::vector<std::string> listeners;

static char *text(const char *value)
{
    return const_cast<char *>(value);
}

static void check(struct soap *soap, int result, const char *operation)
{
    if (result == SOAP_OK)
        return;
    fprintf(stderr, "%s: ", operation);
    soap_print_fault(soap, stderr);
    exit(1);
}

static void print(const char *name, const char *value)
{
    printf("\t%s=%s", name, value ? value : "null");
}

static void print(const char *name, LONG64 value)
{
    printf("\t%s=%" PRId64, name, static_cast<int64_t>(value));
}

static void print(const ns2__Event *event)
{
    const char *kind = "Event";
    const ns3__MachineUtilizationEvent *machine =
        dynamic_cast<const ns3__MachineUtilizationEvent *>(event);
    const run__RunEvent *run = dynamic_cast<const run__RunEvent *>(event);
    if (machine)
        kind = "MachineUtilizationEvent";
    else if (run)
        kind = "RunEvent";
    printf("%s", kind);
    print("eventNamespace", event->eventNamespace);
    print("eventType", event->eventType);
    print("source", event->source);
    print("timestamp", event->timestamp ? *event->timestamp : -1);
    print("seqNo", event->seqNo ? *event->seqNo : -1);
    print("message", event->message);
    print("handback", event->handback);
    if (machine) {
        printf("\tcpuUtilization=%.2f", machine->cpuUtilization);
        print("memoryUsed", machine->memoryUsed);
    } else if (run) {
        print("iterations", run->iterations);
        print("solver", run->solver);
    }
    printf("\n");
    fflush(stdout);
}

int ns1__handleEvent(struct soap *soap, ns2__Event *event, struct ns1__handleEventResponse &)
{
    if (!event)
        return soap_sender_fault(soap, "no event", NULL);
    print(event);
    for (const std::string &listener : listeners) {
        struct soap *client = soap_new();
        client->send_timeout = client->recv_timeout = client->connect_timeout = 10;
        struct ns1__handleEventResponse answer;
        check(client,
              soap_call_ns1__handleEvent(client, listener.c_str(), NULL, event, answer),
              "passed on");
        soap_destroy(client);
        soap_end(client);
        soap_free(client);
    }
    return SOAP_OK;
}

/* The description has it in two bindings; that of listeners is the other one. */
int ns1__handleEvent_(struct soap *soap, ns2__Event *event, struct ns1__handleEventResponse_ &)
{
    struct ns1__handleEventResponse answer;
    return ns1__handleEvent(soap, event, answer);
}

int ns1__subscribeLease(struct soap *soap, ns4__soaprmi_x002eport_x002ePort *port,
                        ns2__Event *filter, LONG64 duration, char *handback,
                        struct ns1__subscribeLeaseResponse &answer)
{
    if (!is_channel || !port || !port->endpoint || !port->endpoint->location)
        return soap_sender_fault(soap, "no lease for that", NULL);
    listeners.push_back(port->endpoint->location);
    printf("subscribeLease");
    print("location", port->endpoint->location);
    print("binding", port->endpoint->binding ? port->endpoint->binding->name : NULL);
    print("eventType", filter ? filter->eventType : NULL);
    print("leaseDuration", duration);
    print("handback", handback);
    printf("\n");
    fflush(stdout);
    answer.return_ = soap_new_ns2__EventLease(soap, -1);
    answer.return_->leaseDuration = static_cast<LONG64 *>(soap_malloc(soap, sizeof(LONG64)));
    *answer.return_->leaseDuration = duration / 2;
    return SOAP_OK;
}

static LONG64 moment = 982862312897LL;

static void fill(ns2__Event *event, const char *name, const char *type, LONG64 *number)
{
    event->eventNamespace = text(name);
    event->eventType = text(type);
    event->source = text("bench7.example.org");
    event->timestamp = &moment;
    event->seqNo = number;
    event->message = text("waves of <9> metres & more");
}

/* Calls as soap_call_ns1__handleEvent does, with an event that is referred to twice: it is no part of
   the call then, but behind it. */
static int call_by_reference(struct soap *soap, const char *channel, ns2__Event *event)
{
    struct ns1__handleEvent call;
    call.p1 = event;
    struct ns1__handleEventResponse answer;
    const char *tag = "ns1:handleEvent", *action = "urn:dragoman:grid-events:channel#handleEvent";
    soap_begin(soap);
    soap->encodingStyle = "http://schemas.xmlsoap.org/soap/encoding/";
    soap_serializeheader(soap);
    soap_serialize_ns1__handleEvent(soap, &call);
    soap_serialize_ns1__handleEvent(soap, &call);
    if (soap_begin_count(soap) || soap_envelope_begin_out(soap) || soap_body_begin_out(soap)
        || soap_put_ns1__handleEvent(soap, &call, tag, "") || soap_body_end_out(soap)
        || soap_envelope_end_out(soap) || soap_end_count(soap)
        || soap_connect(soap, channel, action)
        || soap_envelope_begin_out(soap) || soap_body_begin_out(soap)
        || soap_put_ns1__handleEvent(soap, &call, tag, "") || soap_body_end_out(soap)
        || soap_envelope_end_out(soap) || soap_end_send(soap))
        return soap_closesock(soap);
    return soap_recv_ns1__handleEvent(soap, answer);
}

static int publish(struct soap *soap, const char *channel, LONG64 number)
{
    ns2__Event base;
    ns3__MachineUtilizationEvent machine;
    run__RunEvent run;
    base.soap_default(soap);
    machine.soap_default(soap);
    run.soap_default(soap);
    fill(&base, "http://example.org/lab", "storm.coast", &number);
    fill(&machine, "http://www.extreme.indiana.edu/soap/events/resdat#MachineUtilizationEvent",
         "resdata.machine.utilization", NULL);
    machine.cpuUtilization = 0.88;
    machine.memoryUsed = 123988;
    fill(&run, "http://example.org/lab", "run.done", NULL);
    run.iterations = 1234567890123LL;
    run.solver = text("LinearSolver");
    ns2__Event *events[] = {&base, &machine, &run};
    if (is_shared) {
        moment += number; /* The same number in sequence would be the same event. */
        for (ns2__Event *event : events) {
            event->message = event->source;
            event->seqNo = event->timestamp;
        }
        run.solver = run.source;
    }
    for (ns2__Event *event : events) {
        struct ns1__handleEventResponse answer;
        int result = is_shared && event == &base
                         ? call_by_reference(soap, channel, event)
                         : soap_call_ns1__handleEvent(soap, channel, NULL, event, answer);
        check(soap, result, "handleEvent");
        printf("handleEvent %d\n", soap->status);
    }
    return 0;
}

static void subscribe(struct soap *soap, const char *channel, int port, const char *handback,
                      const char *type)
{
    ns4__soaprmi_x002eport_x002eBinding binding;
    ns4__soaprmi_x002eport_x002eEndpoint endpoint;
    ns4__soaprmi_x002eport_x002ePort reference;
    ns2__Event filter;
    binding.soap_default(soap);
    endpoint.soap_default(soap);
    reference.soap_default(soap);
    filter.soap_default(soap);
    binding.name = text(BINDING);
    char location[64];
    snprintf(location, sizeof location, "http://127.0.0.1:%d/listener", port);
    endpoint.binding = &binding;
    endpoint.location = location;
    reference.endpoint = &endpoint;
    filter.eventType = text(type);
    struct ns1__subscribeLeaseResponse answer;
    check(soap,
          soap_call_ns1__subscribeLease(soap, channel, NULL, &reference, *type ? &filter : NULL,
                                        60000, text(handback), answer),
          "subscribeLease");
    printf("%" PRId64 "\n", static_cast<int64_t>(*answer.return_->leaseDuration));
    fflush(stdout);
}

static void serve(struct soap *soap)
{
    for (;;) {
        struct pollfd ends[] = {{soap->master, POLLIN, 0}, {0, POLLIN, 0}};
        if (poll(ends, 2, 50000) <= 0 || ends[1].revents)
            return;
        if (!soap_valid_socket(soap_accept(soap)))
            check(soap, soap->error, "accept");
        if (soap_serve(soap) != SOAP_OK && soap->error >= SOAP_CLI_FAULT && soap->fault) {
            const char **reason = soap_faultstring(soap);
            printf("Fault\t%s\n", reason && *reason ? *reason : "");
            fflush(stdout);
        }
        soap_destroy(soap);
        soap_end(soap);
    }
}

/* And understand no other: without the patterns of the table. */
static void speak_of_1999()
{
    for (struct Namespace *one = namespaces; one->id; one++) {
        const bool instance = !strcmp(one->id, "xsi");
        if (!instance && strcmp(one->id, "xsd"))
            continue;
        one->ns = instance ? "http://www.w3.org/1999/XMLSchema-instance"
                           : "http://www.w3.org/1999/XMLSchema";
        one->in = NULL;
    }
}

int main(int count, char **words)
{
    soap_mode graph = 0;
    for (; count > 1 && !strncmp(words[1], "--", 2); count--, words++) {
        if (!strcmp(words[1], "--1999"))
            speak_of_1999();
        else if (!strcmp(words[1], "--shared"))
            is_shared = true;
        else if (!strcmp(words[1], "--embedded"))
            graph = SOAP_XML_GRAPH;
        else
            return 2;
    }
    std::string mode = count > 1 ? words[1] : "";
    is_channel = mode == "channel";
    /* What is not in the classes is a fault, as the paper wants it for an unknown type. */
    struct soap *soap = soap_new1(graph | (mode == "listen" ? SOAP_XML_STRICT : 0));
    soap->send_timeout = soap->recv_timeout = soap->connect_timeout = 10;
    soap->bind_flags = SO_REUSEADDR;
    if (mode == "publish" && count == 4)
        return publish(soap, words[2], atoll(words[3]));
    if (!(mode == "listen" && count == 5) && !(is_channel && count == 2))
        return 2;
    /* A namespace of its own for the method, which it compares. */
    for (struct Namespace *one = namespaces; one->id; one++)
        if (!strcmp(one->id, "ns1"))
            one->ns = BINDING;
    if (!soap_valid_socket(soap_bind(soap, "127.0.0.1", 0, 10)))
        check(soap, soap->error, "bind");
    struct sockaddr_in name;
    socklen_t size = sizeof name;
    getsockname(soap->master, reinterpret_cast<struct sockaddr *>(&name), &size);
    printf("%d\n", ntohs(name.sin_port));
    fflush(stdout);
    if (!is_channel) {
        struct soap *client = soap_copy(soap);
        client->master = SOAP_INVALID_SOCKET;
        subscribe(client, words[2], ntohs(name.sin_port), words[3], words[4]);
        soap_destroy(client);
        soap_end(client);
        soap_free(client);
    }
    serve(soap);
    soap_destroy(soap);
    soap_end(soap);
    soap_free(soap);
    return 0;
}
