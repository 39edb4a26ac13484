// A bare epoll loop: the limit of a thread that reads and writes sockets. It finds the end of each request
// head and answers each request with the same bytes. It parses only the version of HTTP, because 1.0 ends the
// connection.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static const char reply[] =
    "HTTP/1.1 200 OK\r\nDate: Fri, 20 Nov 2026 23:47:12 GMT\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\nhello, world\n";
static const int on = 1;
static char in[65536], out[1 << 20];

static void accept_all(int epoll, int listener) {
  for (;;) {
    int peer = accept4(listener, 0, 0, SOCK_NONBLOCK);
    if (peer < 0) return;
    setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = peer};
    epoll_ctl(epoll, EPOLL_CTL_ADD, peer, &event);
  }
}

static int is_last(size_t bytes) {
  char *line_end = memchr(in, '\r', bytes);
  return line_end && line_end[-1] == '0';
}

static void answer(int peer) {
  ssize_t bytes = read(peer, in, sizeof in);
  if (bytes <= 0) {
    close(peer);
    return;
  }
  size_t length = 0;
  char *end = in + bytes;
  for (char *at = in; (at = memmem(at, end - at, "\r\n\r\n", 4)); at += 4) {
    memcpy(out + length, reply, sizeof reply - 1);
    length += sizeof reply - 1;
  }
  if (length && (write(peer, out, length) < 0 || is_last(bytes))) close(peer);
}

int main(int count, char **words) {
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(count > 1 ? atoi(words[1]) : 0),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (bind(listener, (void *)&address, sizeof address) || listen(listener, 4096)) return 1;
  int epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[512];
  epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
  for (;;) {
    int ready = epoll_wait(epoll, events, 512, -1);
    for (int i = 0; i < ready; i++) {
      if (events[i].data.fd == listener) accept_all(epoll, listener);
      else answer(events[i].data.fd);
    }
  }
}
