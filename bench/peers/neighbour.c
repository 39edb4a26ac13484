// A client that behaves well, and that no other client makes wait. Its latencies are therefore caused by the
// server.
//
// neighbour PORT PATH CONNECTIONS RATE SECONDS
//
// Each connection sends requests at random moments, all with the same mean rate. The sum of these rates is
// RATE, and replies that are late do not change it. Prints the number of replies that are not 200, then the
// milliseconds of each 200 reply. They count from the moment when the request was due. Exits 1 if a
// connection breaks.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <math.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

struct connection {
  int fd, is_asked;
  double due;
  size_t held;
  char in[65536];
};

static struct connection *all;
static int connections, waiting, epoll;
static char request[1024];
static size_t request_bytes, taken, others, room;
static double rate, ends_at, *took;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

static double pause_of(double rate) { return -log(1 - drand48()) / rate; }

static void must(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "neighbour: %s\n", what);
  exit(1);
}

static int come(int port) {
  struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  must(fd >= 0 && !connect(fd, (void *)&server, sizeof server), "no connection");
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

// Returns the bytes of the reply in the buffer, or 0 while it is incomplete.
static size_t whole(struct connection *connection) {
  connection->in[connection->held] = 0;
  char *end = strstr(connection->in, "\r\n\r\n"), *length = strcasestr(connection->in, "\r\nContent-Length: ");
  if (!end || !length || length > end) return 0;
  size_t bytes = end + 4 - connection->in + atol(length + strlen("\r\nContent-Length: "));
  return bytes <= connection->held ? bytes : 0;
}

// Sends the requests that are due. Returns the time of the next request, or the end if that is earlier.
static double ask_those_due(void) {
  double next = ends_at, at = now();
  for (struct connection *one = all; one < all + connections; one++) {
    if (!one->is_asked && one->due <= at && one->due < ends_at) {
      must(send(one->fd, request, request_bytes, MSG_NOSIGNAL) == (ssize_t)request_bytes, "a connection broke");
      one->is_asked = 1;
      waiting++;
    }
    if (!one->is_asked && one->due < next) next = one->due;
  }
  return next;
}

static void hear(struct connection *one) {
  ssize_t came = recv(one->fd, one->in + one->held, sizeof one->in - 1 - one->held, 0);
  must(came > 0 && one->is_asked, "a connection broke");
  one->held += came;
  if (!whole(one)) return;
  if (!memcmp(one->in + 9, "200", 3) && taken < room) took[taken++] = (now() - one->due) * 1000;
  else others++;
  one->held = one->is_asked = 0;
  one->due += pause_of(rate / connections);
  waiting--;
}

// After `ends_at` no request is due, so the wait for late replies is one second at a time.
static void hear_until(double next) {
  double left = next < ends_at ? next - now() : waiting ? 1 : ends_at - now();
  struct timespec patience = {.tv_sec = left > 0 ? left : 0, .tv_nsec = left > 0 ? (left - (long)left) * 1e9 : 0};
  struct epoll_event events[64];
  int ready = epoll_pwait2(epoll, events, 64, &patience, 0);
  for (int i = 0; i < ready; i++) hear(events[i].data.ptr);
}

int main(int count, char **words) {
  if (count != 6) return 2;
  connections = atoi(words[3]), rate = atof(words[4]);
  double seconds = atof(words[5]);
  request_bytes = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", words[2]);
  all = calloc(connections, sizeof *all);
  took = malloc((room = 2 * rate * seconds + 1000) * sizeof *took);
  epoll = epoll_create1(0);
  srand48(time(0));
  sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1});

  double begun = now();
  ends_at = begun + seconds;
  for (int i = 0; i < connections; i++) {
    all[i].fd = come(atoi(words[1]));
    all[i].due = begun + pause_of(rate / connections);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = all + i};
    epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].fd, &event);
  }
  while (waiting || now() < ends_at) hear_until(ask_those_due());
  printf("%zu", others);
  for (size_t i = 0; i < taken; i++) printf(" %.4f", took[i]);
  putchar('\n');
}
