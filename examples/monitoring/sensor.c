/* A sensor of a few kilobytes: publishes how busy this machine and its network are, from texts with
   holes of a constant length.  Usage: sensor HOST PORT SOURCE [SECONDS BETWEEN] */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BEFORE(type, space) \
    "<e:Envelope xmlns:e='http://schemas.xmlsoap.org/soap/envelope/' " \
    "xmlns:i='http://www.w3.org/2001/XMLSchema-instance'><e:Body>" \
    "<m:handleEvent xmlns:m='urn:example'><p1 i:type='r:" type "' xmlns:r='" space "'>"
#define BEHIND "</p1></m:handleEvent></e:Body></e:Envelope>"
#define RESOURCES "http://www.extreme.indiana.edu/soap/events/resdat"
#define MONITORING "http://example.org/monitoring"

static const char utilization[] =
    BEFORE("MachineUtilizationEvent", RESOURCES "/")
    "<eventNamespace>" RESOURCES "#MachineUtilizationEvent</eventNamespace>"
    "<eventType>resdata.machine.utilization</eventType><source>%s</source>"
    "<timestamp>%020lld</timestamp><cpuUtilization>%.6f</cpuUtilization>"
    "<memoryUsed>%020lld</memoryUsed>" BEHIND;
static const char octets[] =
    BEFORE("NetworkEvent", MONITORING)
    "<eventNamespace>" MONITORING "</eventNamespace>"
    "<eventType>resdata.network.octets</eventType><source>%s</source>"
    "<timestamp>%020lld</timestamp><octetsReceived>%020lld</octetsReceived>"
    "<octetsSent>%020lld</octetsSent>" BEHIND;

static double busy(void) {
  static unsigned long long busy_before, all_before;
  unsigned long long t[8] = {0}, all = 0, used;
  FILE *file = fopen("/proc/stat", "r");
  if (!file) return 0;
  int got = fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", t, t + 1, t + 2, t + 3, t + 4,
                   t + 5, t + 6, t + 7);
  fclose(file);
  if (got != 8) return 0;
  for (int at = 0; at < 8; at++) all += t[at];
  used = all - t[3] - t[4];
  double share = all > all_before ? (double)(used - busy_before) / (double)(all - all_before) : 0;
  busy_before = used;
  all_before = all;
  return share < 0 ? 0 : share > 1 ? 1 : share;
}

static long long memory(void) {
  long long all = 0, left = 0;
  char line[256];
  FILE *file = fopen("/proc/meminfo", "r");
  while (file && fgets(line, sizeof line, file)) {
    sscanf(line, "MemTotal: %lld", &all);
    sscanf(line, "MemAvailable: %lld", &left);
  }
  if (file) fclose(file);
  return all - left;
}

static void network(long long *received, long long *sent) {
  char line[512];
  FILE *file = fopen("/proc/net/dev", "r");
  *received = *sent = 0;
  while (file && fgets(line, sizeof line, file)) {
    long long in, out;
    char *numbers = strchr(line, ':'); /* The two lines of titles have none. */
    if (numbers &&
        sscanf(numbers + 1, "%lld %*s %*s %*s %*s %*s %*s %*s %lld", &in, &out) == 2) {
      *received += in;
      *sent += out;
    }
  }
  if (file) fclose(file);
}

static int publish(const struct addrinfo *to, const char *host, const char *body, int size) {
  char head[512], status[16] = "";
  struct timeval patience = {.tv_sec = 10};
  int length = snprintf(head, sizeof head,
      "POST /soap HTTP/1.0\r\nHost: %.99s\r\nContent-Type: text/xml; charset=utf-8\r\n"
      "Content-Length: %d\r\nSOAPAction: \"urn:example#handleEvent\"\r\n\r\n", host, size);
  int peer = socket(to->ai_family, SOCK_STREAM, 0), well = -1;
  setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (!connect(peer, to->ai_addr, to->ai_addrlen) && write(peer, head, length) == length &&
      write(peer, body, size) == size && read(peer, status, 12) == 12)
    well = strcmp(status + 8, " 200") ? -1 : 0;
  close(peer);
  return well;
}

static int sense(const struct addrinfo *to, const char *host, const char *source) {
  char body[2048];
  struct timespec now;
  long long in, out;
  clock_gettime(CLOCK_REALTIME, &now);
  const long long at = now.tv_sec * 1000LL + now.tv_nsec / 1000000;
  int size = snprintf(body, sizeof body, utilization, source, at, busy(), memory());
  int well = publish(to, host, body, size);
  network(&in, &out);
  size = snprintf(body, sizeof body, octets, source, at, in, out);
  return publish(to, host, body, size) ? -1 : well;
}

int main(int count, char **args) {
  struct addrinfo *to, wanted = {.ai_socktype = SOCK_STREAM};
  if (count < 4 || strlen(args[3]) > 255 || getaddrinfo(args[1], args[2], &wanted, &to)) return 2;
  double seconds = count > 4 ? atof(args[4]) : 1;
  struct timespec pause = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
  for (busy();;) {
    nanosleep(&pause, NULL);
    if (sense(to, args[1], args[3])) fprintf(stderr, "%s: the gateway did not take it\n", args[3]);
  }
}
