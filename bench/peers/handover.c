// The cost for a worker until 128 bytes are written or synced, and the worker has noticed it. Prints
// microseconds per call, of the clock and of the processor.
//
// Arguments: file, seconds, the operation ("write" or "sync"), and its way:
//   own     the worker calls pwrite, and for a sync fdatasync, itself
//   thread  a thread makes the call: a futex wakes the thread, and an eventfd in epoll wakes the worker
//   spin    a thread makes the call: worker and thread each read a number until it changes
//   uring   the kernel does it by io_uring, with an eventfd in epoll; for a sync, the worker writes itself
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { RECORD = 128, AHEAD = 128 << 10, FILE_MAX = 64 << 20 };

static int file, woken, readiness, is_sync, is_spinning;
static long at, end;
static char bytes[RECORD + AHEAD];
static _Atomic int asked, done;

static void check(int is_well, const char *what) {
  if (is_well) return;
  perror(what);
  exit(1);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

static double processor_s(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

// The file grows by 128 KiB of zeros at a time, as segments do.
static size_t next_length(void) {
  if (at + RECORD > FILE_MAX) at = 0;
  if (at + RECORD <= end) return RECORD;
  end = at + RECORD + AHEAD;
  return RECORD + AHEAD;
}

static void write_and_sync(void) {
  size_t length = next_length();
  check(pwrite(file, bytes, length, at) == (ssize_t)length, "pwrite");
  at += RECORD;
  if (is_sync) check(fdatasync(file) == 0, "fdatasync");
}

static void wake_worker(void) {
  unsigned long one = 1;
  check(write(woken, &one, sizeof one) == sizeof one, "eventfd");
}

static void wait_for_wake(void) {
  struct epoll_event event;
  unsigned long count;
  check(epoll_wait(readiness, &event, 1, -1) == 1, "epoll_wait");
  check(read(woken, &count, sizeof count) == sizeof count, "eventfd");
}

static void *serve(void *unused) {
  for (int served = 0;; served++) {
    while (atomic_load(&asked) == served)
      if (!is_spinning) syscall(SYS_futex, &asked, FUTEX_WAIT_PRIVATE, served, NULL, NULL, 0);
    write_and_sync();
    atomic_fetch_add(&done, 1);
    if (!is_spinning) wake_worker();
  }
  return unused;
}

static void ask_thread(void) {
  int number = atomic_fetch_add(&asked, 1) + 1;
  if (is_spinning) {
    while (atomic_load(&done) != number) continue;
    return;
  }
  syscall(SYS_futex, &asked, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
  wait_for_wake();
}

static struct {
  int descriptor;
  _Atomic unsigned *submit_tail, *complete_head;
  unsigned *submit_mask, *submit_array, *complete_mask;
  struct io_uring_sqe *entries;
  struct io_uring_cqe *results;
} ring;

static char *map(size_t length, off_t offset) {
  char *place = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.descriptor, offset);
  check(place != MAP_FAILED, "mmap");
  return place;
}

static void open_ring(void) {
  struct io_uring_params made = {0};
  ring.descriptor = syscall(SYS_io_uring_setup, 8, &made);
  check(ring.descriptor >= 0, "io_uring_setup");
  char *submit = map(made.sq_off.array + made.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
  char *complete = map(made.cq_off.cqes + made.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
  ring.entries = (void *)map(made.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
  ring.submit_tail = (void *)(submit + made.sq_off.tail);
  ring.submit_mask = (void *)(submit + made.sq_off.ring_mask);
  ring.submit_array = (void *)(submit + made.sq_off.array);
  ring.complete_head = (void *)(complete + made.cq_off.head);
  ring.complete_mask = (void *)(complete + made.cq_off.ring_mask);
  ring.results = (void *)(complete + made.cq_off.cqes);
  check(syscall(SYS_io_uring_register, ring.descriptor, IORING_REGISTER_EVENTFD, &woken, 1) == 0, "register");
}

static struct io_uring_sqe *next_entry(int operation) {
  unsigned index = atomic_load(ring.submit_tail) & *ring.submit_mask;
  ring.submit_array[index] = index;
  struct io_uring_sqe *entry = &ring.entries[index];
  memset(entry, 0, sizeof *entry);
  entry->opcode = operation;
  entry->fd = file;
  return entry;
}

static void ask_ring(void) {
  size_t length = next_length();
  if (is_sync) {
    check(pwrite(file, bytes, length, at) == (ssize_t)length, "pwrite");
    next_entry(IORING_OP_FSYNC)->fsync_flags = IORING_FSYNC_DATASYNC;
  } else {
    struct io_uring_sqe *entry = next_entry(IORING_OP_WRITE);
    entry->addr = (unsigned long)bytes, entry->len = length, entry->off = at;
  }
  at += RECORD;
  atomic_fetch_add(ring.submit_tail, 1);
  check(syscall(SYS_io_uring_enter, ring.descriptor, 1, 0, 0, NULL, 0) == 1, "io_uring_enter");
  wait_for_wake();
  unsigned head = atomic_fetch_add(ring.complete_head, 1);
  check(ring.results[head & *ring.complete_mask].res >= 0, "io_uring");
}

int main(int count, char **words) {
  if (count < 5) return 2;
  file = open(words[1], O_CREAT | O_RDWR | O_TRUNC, 0600);
  check(file >= 0, words[1]);
  double seconds = atof(words[2]);
  is_sync = !strcmp(words[3], "sync");
  is_spinning = !strcmp(words[4], "spin");
  int is_ring = !strcmp(words[4], "uring"), is_own = !strcmp(words[4], "own");
  memset(bytes, 'x', RECORD);
  woken = eventfd(0, 0);
  readiness = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  check(epoll_ctl(readiness, EPOLL_CTL_ADD, woken, &event) == 0, "epoll_ctl");
  pthread_t thread;
  if (is_ring) open_ring();
  else if (!is_own) check(pthread_create(&thread, NULL, serve, NULL) == 0, "pthread_create");
  double begun = now(), used = processor_s();
  long asks = 0;
  for (; now() - begun < seconds; asks++) {
    if (is_ring) ask_ring();
    else if (is_own) write_and_sync();
    else ask_thread();
  }
  double took = now() - begun;
  printf("%s by %s: %.2f us, processor %.2f us\n", words[3], words[4], took / asks * 1e6, (processor_s() - used) / asks * 1e6);
  exit(0);
}
