// Writes records of one size and syncs each of them: the limit of acknowledgements for one client alone.
// Prints syncs per second.
//
// Arguments: file, bytes, seconds, and how the file grows. "append": each write makes it longer. "zero": it
// never grows, because it is filled with zeros at the start. "runway": a write that reaches the end of the
// zeros adds 128 KiB of zeros after itself.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

enum { ZEROS = 64 << 20, RUNWAY = 128 << 10 };

static int fill(int file) {
  char *zeros = calloc(1, ZEROS);
  return write(file, zeros, ZEROS) != ZEROS || fsync(file);
}

int main(int count, char **words) {
  if (count < 5) return 2;
  size_t bytes = atol(words[2]), at = 0, end = 0;
  double seconds = atof(words[3]);
  int file = open(words[1], O_CREAT | O_WRONLY | O_TRUNC, 0600);
  if (!strcmp(words[4], "zero") && fill(file)) return 1;
  size_t ahead = strcmp(words[4], "runway") ? 0 : RUNWAY;
  char *record = calloc(1, bytes + ahead);
  memset(record, 'x', bytes);
  double begun = now();
  long syncs = 0;
  for (; now() - begun < seconds; syncs++, at = (at + bytes) % ZEROS) {
    size_t length = at + bytes > end ? bytes + ahead : bytes;
    if (pwrite(file, record, length, at) != (ssize_t)length || fdatasync(file)) return 1;
    if (at + length > end) end = at + length;
  }
  printf("%.0f\n", syncs / (now() - begun));
}
