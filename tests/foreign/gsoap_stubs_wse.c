/* A typed client of WS-Eventing, on the stubs that wsdl2h and soapcpp2 make of the gateway's own
   description. Arguments: the address of the endpoint, and that of a consumer. It prints one line for
   each answer. */

#include <stdio.h>
#include <stdlib.h>

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

int main(int count, char **words)
{
    if (count != 3)
        return 2;
    soap = soap_new1(SOAP_XML_INDENT);
    char notify_to[1000];
    snprintf(notify_to, sizeof notify_to,
             "<e:NotifyTo xmlns:e=\"http://schemas.xmlsoap.org/ws/2004/08/eventing\""
             " xmlns:a=\"http://schemas.xmlsoap.org/ws/2004/08/addressing\"><a:Address>%s"
             "</a:Address></e:NotifyTo>", words[2]);
    char *any[] = {notify_to};
    struct wse__DeliveryType delivery;
    soap_default_wse__DeliveryType(soap, &delivery);
    delivery.__size = 1;
    delivery.__any = any;
    struct _wse__Subscribe subscribe;
    soap_default__wse__Subscribe(soap, &subscribe);
    subscribe.Delivery = &delivery;
    subscribe.Expires = "PT1H";
    struct _wse__SubscribeResponse subscribed;
    check(soap_call___ns1__Subscribe(soap, words[1], NULL, &subscribe, &subscribed), "Subscribe");
    printf("Subscribe %s\n", subscribed.Expires);
    const char *manager = soap_strdup(soap, subscribed.SubscriptionManager->Address->__item);

    struct _wse__Renew renew;
    soap_default__wse__Renew(soap, &renew);
    renew.Expires = "PT2H";
    struct _wse__RenewResponse renewed;
    check(soap_call___ns1__Renew(soap, manager, NULL, &renew, &renewed), "Renew");
    printf("Renew %s\n", renewed.Expires);

    struct _wse__GetStatus get;
    soap_default__wse__GetStatus(soap, &get);
    struct _wse__GetStatusResponse status;
    check(soap_call___ns1__GetStatus(soap, manager, NULL, &get, &status), "GetStatus");
    printf("GetStatus %.4s\n", status.Expires);
    fflush(stdout);
    getchar(); /* until something was published */

    struct _wse__Unsubscribe unsubscribe;
    soap_default__wse__Unsubscribe(soap, &unsubscribe);
    struct __ns1__UnsubscribeResponse unsubscribed;
    check(soap_call___ns1__Unsubscribe(soap, manager, NULL, &unsubscribe, &unsubscribed),
          "Unsubscribe");
    printf("Unsubscribe\n");
    printf("fault %d\n", soap_call___ns1__GetStatus(soap, manager, NULL, &get, &status) != SOAP_OK);
    soap_destroy(soap);
    soap_end(soap);
    soap_free(soap);
    return 0;
}
