/* A typed client of WS-BaseNotification, on the stubs that wsdl2h and soapcpp2 make of the gateway's
   own description. Arguments: the address of the endpoint, and that of a consumer. It prints one line
   for each answer. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "soapH.h"
#include "svc.nsmap"

static struct soap *soap;

static void check(int result, const char *operation)
{
    if (result == SOAP_OK)
        return;
    fprintf(stderr, "%s: ", operation);
    soap_print_fault(soap, stderr);
    exit(1);
}

static void print_lease(const char *operation, time_t end, time_t now)
{
    printf("%s %ld\n", operation, (long)(end - now));
}

int main(int count, char **words)
{
    if (count != 3)
        return 2;
    const char *endpoint = words[1];
    soap = soap_new1(SOAP_XML_INDENT);

    struct wsa5__EndpointReferenceType consumer;
    soap_default_wsa5__EndpointReferenceType(soap, &consumer);
    struct wsa5__AttributedURIType address;
    soap_default_wsa5__AttributedURIType(soap, &address);
    address.__item = words[2];
    consumer.Address = &address;
    struct _wsnt__Subscribe subscribe;
    soap_default__wsnt__Subscribe(soap, &subscribe);
    subscribe.ConsumerReference = &consumer;
    subscribe.InitialTerminationTime = "PT1H";
    struct _wsnt__SubscribeResponse subscribed;
    check(soap_call___ns1__Subscribe(soap, endpoint, NULL, &subscribe, &subscribed), "Subscribe");
    print_lease("Subscribe", *subscribed.TerminationTime, *subscribed.CurrentTime);
    const char *manager = soap_strdup(soap, subscribed.SubscriptionReference->Address->__item);

    struct wsnt__NotificationMessageHolderType holder;
    soap_default_wsnt__NotificationMessageHolderType(soap, &holder);
    holder.Message.__any = "<w:storm xmlns:w=\"urn:weather\">gsoap</w:storm>";
    struct _wsnt__Notify notify;
    soap_default__wsnt__Notify(soap, &notify);
    notify.__sizeNotificationMessage = 1;
    notify.NotificationMessage_ = &holder;
    check(soap_send___ns1__Notify(soap, endpoint, NULL, &notify), "Notify");
    check(soap_recv_empty_response(soap), "Notify");
    printf("Notify\n");

    struct _wsnt__Renew renew;
    soap_default__wsnt__Renew(soap, &renew);
    renew.TerminationTime = "PT2H";
    struct _wsnt__RenewResponse renewed;
    check(soap_call___ns1__Renew(soap, manager, NULL, &renew, &renewed), "Renew");
    print_lease("Renew", renewed.TerminationTime, *renewed.CurrentTime);

    struct _wsnt__CreatePullPoint create;
    soap_default__wsnt__CreatePullPoint(soap, &create);
    struct _wsnt__CreatePullPointResponse created;
    check(soap_call___ns1__CreatePullPoint(soap, endpoint, NULL, &create, &created),
          "CreatePullPoint");
    const char *box = soap_strdup(soap, created.PullPoint->Address->__item);
    address.__item = (char *)box;
    check(soap_call___ns1__Subscribe(soap, endpoint, NULL, &subscribe, &subscribed), "Subscribe");
    check(soap_send___ns1__Notify(soap, endpoint, NULL, &notify), "Notify");
    check(soap_recv_empty_response(soap), "Notify");
    struct _wsnt__GetMessages get;
    soap_default__wsnt__GetMessages(soap, &get);
    get.MaximumNumber = "5";
    struct _wsnt__GetMessagesResponse got;
    for (int tries = 0; tries < 1000; tries++) {
        check(soap_call___ns1__GetMessages(soap, box, NULL, &get, &got), "GetMessages");
        if (got.__sizeNotificationMessage)
            break;
    }
    const char *message = got.NotificationMessage_ ? got.NotificationMessage_->Message.__any : "";
    printf("GetMessages %d %d\n", got.__sizeNotificationMessage, strstr(message, "gsoap") != NULL);
    struct _wsnt__DestroyPullPoint destroy;
    soap_default__wsnt__DestroyPullPoint(soap, &destroy);
    struct _wsnt__DestroyPullPointResponse destroyed;
    check(soap_call___ns1__DestroyPullPoint(soap, box, NULL, &destroy, &destroyed),
          "DestroyPullPoint");
    printf("DestroyPullPoint\n");

    struct _wsnt__Unsubscribe unsubscribe;
    soap_default__wsnt__Unsubscribe(soap, &unsubscribe);
    struct _wsnt__UnsubscribeResponse unsubscribed;
    check(soap_call___ns1__Unsubscribe(soap, manager, NULL, &unsubscribe, &unsubscribed),
          "Unsubscribe");
    printf("Unsubscribe\n");
    soap_call___ns1__Unsubscribe(soap, manager, NULL, &unsubscribe, &unsubscribed);
    struct SOAP_ENV__Detail *detail = NULL;
    if (soap->fault)
        detail = soap->fault->SOAP_ENV__Detail ? soap->fault->SOAP_ENV__Detail : soap->fault->detail;
    printf("ResourceUnknownFault %d\n", detail && detail->wsrfr__ResourceUnknownFault);
    soap_destroy(soap);
    soap_end(soap);
    soap_free(soap);
    return 0;
}
