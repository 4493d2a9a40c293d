/* A peer made with gSOAP's wsseapi, which signs, makes tokens and verifies by itself.
 *
 *   gsoap_signed publish URL KEY CERTIFICATE    sign an event, and send it
 *   gsoap_signed token FORM URL USER PASSWORD   send one with a UsernameToken, "text" or "digest"
 *   gsoap_signed read AUTHORITY                 read one message of standard input
 *
 * "read" prints the text of the event, once its Timestamp, Body and certificate are verified. Files
 * are in PEM. Exit code 1 after a line on standard error. No wait is without end.
 *
 * Of encryption there is nothing: gSOAP 2.8.124 calls RSA-OAEP what is PKCS #1 1.5 (mecevp.c sets the
 * padding of the cipher instead of the key's). */

#include <unistd.h>

#include "signing.nsmap"
#include "soapH.h"
#include "wsseapi.h"

#define SECONDS 20

static int failed(struct soap *soap, const char *what) {
    fprintf(stderr, "%s: ", what);
    soap_print_fault(soap, stderr);
    return 1;
}

static void *read_pem(const char *path, int certificate) {
    FILE *file = fopen(path, "r");
    void *found = NULL;
    if (file != NULL) {
        found = certificate ? (void *)PEM_read_X509(file, NULL, NULL, NULL)
                            : (void *)PEM_read_PrivateKey(file, NULL, NULL, NULL);
        fclose(file);
    }
    if (found == NULL) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(1);
    }
    return found;
}

static int send_event(struct soap *soap, const char *url) {
    if (soap_send_e__event(soap, url, "", "high water") || soap_recv_empty_response(soap))
        return failed(soap, "send");
    printf("sent\n");
    return 0;
}

static int publish(struct soap *soap, char **words) {
    EVP_PKEY *key = read_pem(words[1], 0);
    X509 *certificate = read_pem(words[2], 1);
    soap_wsse_add_Timestamp(soap, "Time", 60);
    soap_wsse_add_BinarySecurityTokenX509(soap, "Token", certificate);
    soap_wsse_add_KeyInfo_SecurityTokenReferenceX509(soap, "#Token");
    if (soap_wsse_sign_body(soap, SOAP_SMD_SIGN_RSA_SHA256, key, 0))
        return failed(soap, "sign");
    return send_event(soap, words[0]);
}

static int publish_with_token(struct soap *soap, char **words) {
    int (*add)(struct soap *, const char *, const char *, const char *) =
        strcmp(words[0], "digest") ? soap_wsse_add_UsernameTokenText
                                   : soap_wsse_add_UsernameTokenDigest;
    if (add(soap, "User", words[2], words[3]))
        return failed(soap, "token");
    return send_event(soap, words[1]);
}

/* wsa5.h declares it, for faults that are sent to an address. Header blocks that a program does not
 * declare, other than empty ones, gSOAP finds to be another's: their text is not kept. */
int SOAP_ENV__Fault(struct soap *soap, char *code, char *text, char *actor,
                    struct SOAP_ENV__Detail *detail, struct SOAP_ENV__Code *code_1_2,
                    struct SOAP_ENV__Reason *reason, char *node, char *role,
                    struct SOAP_ENV__Detail *detail_1_2) {
    return SOAP_FAULT;
}

int e__event(struct soap *soap, char *text) {
    if (soap_wsse_verify_Timestamp(soap) || soap_wsse_verify_body(soap))
        return soap->error;
    printf("%s\n", text);
    return SOAP_OK;
}

static int read_one(struct soap *soap, const char *authority) {
    soap->cafile = authority;
    soap_wsse_verify_auto(soap, SOAP_SMD_NONE, NULL, 0);
    if (soap_begin_serve(soap) || soap_serve_request(soap))
        return failed(soap, "read");
    return 0;
}

int main(int count, char **words) {
    struct soap *soap = soap_new1(SOAP_XML_CANONICAL);
    alarm(SECONDS);
    soap->connect_timeout = soap->send_timeout = soap->recv_timeout = SECONDS;
    soap_register_plugin(soap, soap_wsse);
    if (count > 4 && !strcmp(words[1], "publish"))
        return publish(soap, words + 2);
    if (count > 5 && !strcmp(words[1], "token"))
        return publish_with_token(soap, words + 2);
    if (count > 2 && !strcmp(words[1], "read"))
        return read_one(soap, words[2]);
    fprintf(stderr, "usage: see the source\n");
    return 1;
}
