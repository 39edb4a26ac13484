// Writes records of a size and syncs each: how often a disk can say "it is there" to one who waits. Prints times a second.
// Arguments: file, bytes, seconds, and "zero" to write into a file of zeros instead of appending to an empty one.
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

enum { ZEROS = 64 << 20 };

static int fill(int file) {
  char *zeros = calloc(1, ZEROS);
  return write(file, zeros, ZEROS) != ZEROS || fsync(file);
}

int main(int count, char **words) {
  if (count < 4) return 2;
  size_t bytes = atol(words[2]), at = 0;
  double seconds = atof(words[3]);
  int file = open(words[1], O_CREAT | O_WRONLY | O_TRUNC, 0600);
  if (count > 4 && !strcmp(words[4], "zero") && fill(file)) return 1;
  char *record = calloc(1, bytes);
  memset(record, 'x', bytes);
  double begun = now();
  long syncs = 0;
  for (; now() - begun < seconds; syncs++, at = (at + bytes) % ZEROS) {
    if (pwrite(file, record, bytes, at) != (ssize_t)bytes || fdatasync(file)) return 1;
  }
  printf("%.0f\n", syncs / (now() - begun));
}
