/* Sends three events to a URL, with gSOAP's plugin for Digest of HTTP (http_da): the first without
 * credentials, the others with the nonce that it was answered. Prints the status of each.
 *
 *     gsoap_digest URL USER PASSWORD
 */
#include "digest.nsmap"
#include "httpda.h"
#include "soapH.h"

static int
send_event(struct soap *soap, const char *url)
{
  return soap_send_ns__event(soap, url, NULL, "7") || soap_recv_empty_response(soap);
}

int
main(int count, char **words)
{
  struct soap *soap = soap_new1(SOAP_C_UTFSTRING | SOAP_IO_KEEPALIVE);
  struct http_da_info known;
  int number;

  if (count != 4)
    return 2;
  memset(&known, 0, sizeof known);
  soap_register_plugin(soap, http_da);
  for (number = 0; number < 3; number++) {
    if (number)
      http_da_restore(soap, &known);
    if (send_event(soap, words[1]) && soap->error == 401 && soap->authrealm) {
      http_da_save(soap, &known, soap->authrealm, words[2], words[3]);
      send_event(soap, words[1]);
    }
    printf("%d\n", soap->error ? soap->error : soap->status);
    if (soap->error)
      break;
  }
  http_da_release(soap, &known);
  soap_destroy(soap);
  soap_end(soap);
  soap_free(soap);
  return 0;
}
