// A bare epoll loop that sends files. It answers each request with the next of some files of one length, by
// sendfile or by one write of head and content from memory. It waits for requests asleep, or stays awake, so
// that a client that sends a request need not wake it.
//
// Arguments: port, `sendfile` or `memory`, `asleep` or `awake`, files. A connection stores only the position
// in its reply.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_MAX = 1024, PEERS_MAX = 4096 };

struct file {
  int descriptor;
  char *content;
};
struct peer {
  const struct file *file;
  size_t left;
};

static const int on = 1, unsent_bytes = 32 << 10;
static struct file files[FILES_MAX];
static struct peer peers[PEERS_MAX];
static int files_count, next_file, by_sendfile;
static size_t head_bytes, file_bytes;
static char head[512], in[65536];

static void accept_all(int epoll, int listener) {
  for (;;) {
    int peer = accept4(listener, 0, 0, SOCK_NONBLOCK);
    if (peer < 0) return;
    setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(peer, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_bytes, sizeof unsent_bytes);
    peers[peer] = (struct peer){0};
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.fd = peer};
    epoll_ctl(epoll, EPOLL_CTL_ADD, peer, &event);
  }
}

static ssize_t send_some(int socket, const struct peer *peer) {
  size_t sent = head_bytes + file_bytes - peer->left;
  size_t of_head = sent < head_bytes ? sent : head_bytes;
  off_t offset = sent - of_head;
  if (by_sendfile && of_head < head_bytes) return send(socket, head + of_head, head_bytes - of_head, MSG_MORE | MSG_NOSIGNAL);
  if (by_sendfile) return sendfile(socket, peer->file->descriptor, &offset, peer->left);
  struct iovec both[] = {{head + of_head, head_bytes - of_head}, {peer->file->content + offset, file_bytes - offset}};
  struct msghdr message = {.msg_iov = both, .msg_iovlen = 2};
  return sendmsg(socket, &message, MSG_NOSIGNAL);
}

// Reads requests, one at a time as wrk sends them, and sends replies, until one of both would wait.
static void serve(int socket) {
  struct peer *peer = &peers[socket];
  for (;;) {
    while (peer->left) {
      ssize_t sent = send_some(socket, peer);
      if (sent <= 0) return;
      peer->left -= sent;
    }
    ssize_t came = read(socket, in, sizeof in);
    if (came == 0) close(socket);
    if (came <= 0) return;
    *peer = (struct peer){&files[next_file++ % files_count], head_bytes + file_bytes};
  }
}

static int load(int count, char **names) {
  for (files_count = 0; files_count < count && files_count < FILES_MAX; files_count++) {
    struct file *file = &files[files_count];
    struct stat status;
    file->descriptor = open(names[files_count], O_RDONLY);
    if (file->descriptor < 0 || fstat(file->descriptor, &status)) return 0;
    file_bytes = status.st_size;
    file->content = malloc(file_bytes);
    if (pread(file->descriptor, file->content, file_bytes, 0) != status.st_size) return 0;
  }
  head_bytes = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %zu\r\n\r\n", file_bytes);
  return files_count;
}

int main(int count, char **words) {
  if (count < 5 || !load(count - 4, words + 4)) return 2;
  signal(SIGPIPE, SIG_IGN);
  by_sendfile = !strcmp(words[2], "sendfile");
  const int wait_ms = strcmp(words[3], "awake") ? -1 : 0;
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (bind(listener, (void *)&address, sizeof address) || listen(listener, 4096)) return 1;
  int epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[512];
  epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
  for (;;) {
    int ready = epoll_wait(epoll, events, 512, wait_ms);
    for (int i = 0; i < ready; i++) {
      if (events[i].data.fd == listener) accept_all(epoll, listener);
      else serve(events[i].data.fd);
    }
  }
}
