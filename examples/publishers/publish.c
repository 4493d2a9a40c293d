/* Publishes one event of Grid SOAP Events: publish 127.0.0.1 8080 TYPE MESSAGE */
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
/* Writes text as the text of an element; there is room for five characters for each of its own. */
static void escape(char *to, const char *text) {
  for (*to = 0; *text; text++) {
    char own[2] = {*text, 0};
    const char *as = *text == '&' ? "&amp;" : *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : own;
    to += sprintf(to, "%s", as);
  }
}
int main(int count, char **args) {
  char body[48000], type[2048], message[40000], head[512], name[256] = "", status[64] = "";
  struct addrinfo *to, wanted = {.ai_socktype = SOCK_STREAM};
  if (count != 5 || getaddrinfo(args[1], args[2], &wanted, &to)) return 2;
  gethostname(name, sizeof name - 1);
  if (strlen(args[3]) > 200 || strlen(args[4]) > 7000) return fputs("too long\n", stderr), 2;
  escape(type, args[3]);
  escape(message, args[4]);
  int size = snprintf(body, sizeof body,
      "<e:Envelope xmlns:e='http://schemas.xmlsoap.org/soap/envelope/'><e:Body>"
      "<m:handleEvent xmlns:m='urn:example'><event><eventNamespace>http://example.org/publishers"
      "</eventNamespace><eventType>%s</eventType><source>%s</source><timestamp>%lld</timestamp>"
      "<message>%s</message></event></m:handleEvent></e:Body></e:Envelope>",
      type, name, 1000LL * time(NULL), message);
  int length = snprintf(head, sizeof head, "POST /soap HTTP/1.0\r\nHost: %.99s\r\n"
      "Content-Type: text/xml; charset=utf-8\r\nContent-Length: %d\r\n"
      "SOAPAction: \"urn:example#handleEvent\"\r\n\r\n", args[1], size);
  int peer = socket(to->ai_family, SOCK_STREAM, 0);
  if (size >= (int)sizeof body || connect(peer, to->ai_addr, to->ai_addrlen)) return 1;
  if (write(peer, head, length) != length || write(peer, body, size) != size) return 1;
  for (size_t got = 0; got < 12; got++) /* HTTP/1.0 200 */
    if (read(peer, status + got, 1) != 1) return 1;
  if (!strcmp(status + 8, " 200")) return 0;
  return fprintf(stderr, "refused:%s\n", status + 8), 1;
}
