// Independent clients: each request is sent when it is due, whatever happened to earlier requests.
//
// offer PORT FILE DEPTH CLIENTS RATE SECONDS
//
// FILE has the bytes that a client sends at once: a turn of DEPTH requests. RATE is the number of requests
// per second, so turns are DEPTH / RATE seconds apart. When a turn is due, a client that has all its replies
// sends it. If there is none, a new client connects, up to CLIENTS at once. With RATE 0, CLIENTS clients send
// as fast as they are answered. One second after the end, clients that still wait are closed.
//
// Prints, in this order: 200 replies in time, all 200 replies, 503 replies, 503 replies without Retry-After,
// other replies, broken connections, turns without a free client, the longest delay of a turn, and the p99.
// The p99 counts from the moment when a turn was due to its last reply. Delay and p99 are in milliseconds.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ADDRESSES 8
#define IN_BYTES 65536

enum state { GONE, IDLE, BUSY };

struct client {
  enum state state;
  // Whether the client is in the list `idle`. Such a client may have left since.
  int is_listed;
  int fd;
  double due;
  size_t sent, replies, taken, refused;
  // Bytes of an incomplete reply head, and bytes of the reply's content that have not arrived.
  size_t held, content;
  int closes;
  char head[1024];
};

static struct client *clients;
static int *idle, idle_count, client_count, client_max, epoll;
static struct sockaddr_in server = {.sin_family = AF_INET};
static char *request;
static size_t request_bytes, depth;
static double ends_at;
static size_t in_time, taken, refused, bare, others, broken, unsent;
static float *latencies;
static size_t latency_count, latency_max;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

static void leave(struct client *client) {
  if (client->state == BUSY) broken++;
  close(client->fd);
  client->state = GONE;
  client_count--;
}

static void flush(struct client *client) {
  while (client->sent < request_bytes) {
    ssize_t sent = send(client->fd, request + client->sent, request_bytes - client->sent, MSG_NOSIGNAL);
    // The socket accepts no more bytes now. If the server refused the client, a read shows it.
    if (sent < 0) return;
    client->sent += sent;
  }
}

static void ask(struct client *client, double due) {
  client->state = BUSY;
  client->due = due;
  client->sent = client->replies = client->taken = client->refused = 0;
  flush(client);
}

static struct client *come(void) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
  if (fd < 0) return 0;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  static unsigned number;
  struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + number++ % ADDRESSES)};
  setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  if (bind(fd, (void *)&own, sizeof own) || (connect(fd, (void *)&server, sizeof server) && errno != EINPROGRESS)) {
    close(fd);
    return 0;
  }
  static unsigned place;
  while (clients[place % client_max].state != GONE) place++;
  struct client *client = clients + place % client_max;
  *client = (struct client){.fd = fd, .state = IDLE, .is_listed = client->is_listed};
  client_count++;
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = client};
  epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
  return client;
}

static struct client *somebody(void) {
  while (idle_count) {
    struct client *client = clients + idle[--idle_count];
    client->is_listed = 0;
    if (client->state == IDLE) return client;
  }
  return client_count < client_max ? come() : 0;
}

static const char *field(const char *head, const char *name) {
  const char *at = strcasestr(head, name);
  return at ? at + strlen(name) : 0;
}

// Counts the reply whose head is complete in `head`, as a string.
static void take(struct client *client) {
  int status = atoi(client->head + 9);
  const char *length = field(client->head, "\r\nContent-Length: ");
  client->content = length ? atoi(length) : 0;
  client->closes = field(client->head, "\r\nConnection: close") != 0;
  client->replies++;
  if (status == 200) client->taken++;
  else if (status == 503) {
    client->refused++;
    if (!field(client->head, "\r\nRetry-After: ")) bare++;
  } else others++;
}

static void done(struct client *client) {
  double at = now();
  // Requests after the last reply of a connection get no reply. They count as refused.
  client->refused += depth - client->replies;
  refused += client->refused;
  taken += client->taken;
  if (at <= ends_at) in_time += client->taken;
  if (client->taken && latency_count < latency_max) latencies[latency_count++] = at - client->due;
  client->state = IDLE;
  if (client->closes) return leave(client);
  if (!client->is_listed) idle[idle_count++] = client - clients;
  client->is_listed = 1;
}

// Parses the replies in some received bytes.
static void digest(struct client *client, const char *bytes, size_t count) {
  while (count) {
    if (client->content) {
      size_t part = count < client->content ? count : client->content;
      client->content -= part, bytes += part, count -= part;
      continue;
    }
    size_t room = sizeof client->head - 1 - client->held, part = count < room ? count : room;
    memcpy(client->head + client->held, bytes, part);
    char *end = memmem(client->head, client->held + part, "\r\n\r\n", 4);
    if (!end) {
      client->held += part;
      if (part == room) others++, leave(client);
      return;
    }
    size_t head_bytes = end + 4 - client->head - client->held;
    bytes += head_bytes, count -= head_bytes;
    end[2] = 0;
    client->held = 0;
    take(client);
  }
}

static void hear(struct client *client) {
  static char in[IN_BYTES];
  while (client->state != GONE) {
    ssize_t count = recv(client->fd, in, sizeof in, 0);
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) return leave(client);
    digest(client, in, count);
    if (client->state == BUSY && !client->content && !client->held && (client->closes || client->replies == depth)) {
      done(client);
    }
  }
}

static void wait_for(double seconds) {
  struct epoll_event events[512];
  struct timespec patience = {.tv_nsec = seconds > 0 ? (seconds < 0.1 ? seconds : 0.1) * 1e9 : 0};
  int ready = epoll_pwait2(epoll, events, 512, &patience, 0);
  for (int i = 0; i < ready; i++) {
    struct client *client = events[i].data.ptr;
    if (client->state == BUSY && client->sent < request_bytes && events[i].events & EPOLLOUT) flush(client);
    if (client->state != GONE && events[i].events & ~EPOLLOUT) hear(client);
  }
}

static double saturate(void) {
  while (now() < ends_at) {
    for (struct client *client; now() < ends_at && (client = somebody()); ) ask(client, now());
    wait_for(0.1);
  }
  return 0;
}

static double offer(double begun, double pause) {
  double behind = 0;
  for (size_t number = 0; begun + number * pause < ends_at; number++) {
    double due = begun + number * pause, left;
    do {
      left = due - now();
      // Replies are also read when sending is late: after every 16 turns.
      if (left > 0 || number % 16 == 0) wait_for(left);
    } while (left > 0 && now() < due);
    if (-left > behind) behind = -left;
    struct client *client = somebody();
    if (client) ask(client, due);
    else unsent++;
  }
  return behind;
}

static int ascending(const void *one, const void *other) {
  float a = *(const float *)one, b = *(const float *)other;
  return (a > b) - (a < b);
}

static void load(const char *path) {
  struct stat stat;
  int fd = open(path, O_RDONLY);
  if (fd < 0 || fstat(fd, &stat)) exit(2);
  request = malloc(request_bytes = stat.st_size);
  if (read(fd, request, request_bytes) != (ssize_t)request_bytes) exit(2);
  close(fd);
}

int main(int count, char **words) {
  if (count != 7) return 2;
  load(words[2]);
  server.sin_port = htons(atoi(words[1]));
  server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  depth = atoi(words[3]), client_max = atoi(words[4]);
  double rate = atof(words[5]), seconds = atof(words[6]);
  struct rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  clients = calloc(client_max, sizeof *clients);
  idle = calloc(client_max, sizeof *idle);
  latencies = malloc((latency_max = 1 << 24) * sizeof *latencies);
  epoll = epoll_create1(0);

  double begun = now();
  ends_at = begun + seconds;
  double behind = rate > 0 ? offer(begun, depth / rate) : saturate();
  while (now() < ends_at + 1) wait_for(0.1);

  qsort(latencies, latency_count, sizeof *latencies, ascending);
  double p99 = latency_count ? latencies[latency_count * 99 / 100] * 1000 : 0;
  printf("%zu %zu %zu %zu %zu %zu %zu %.2f %.2f\n", in_time, taken, refused, bare, others, broken, unsent, behind * 1000, p99);
}
