// Writes records of a size and syncs each: how often a disk can say "it is there" to one who waits. Prints times a second.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int count, char **words) {
  if (count < 4) return 2;
  size_t bytes = atol(words[2]);
  double seconds = atof(words[3]);
  int file = open(words[1], O_CREAT | O_WRONLY | O_TRUNC | O_APPEND, 0600);
  char *record = calloc(1, bytes);
  double begun = now();
  long syncs = 0;
  while (now() - begun < seconds) {
    if (write(file, record, bytes) != (ssize_t)bytes || fdatasync(file)) return 1;
    syncs++;
  }
  printf("%.0f\n", syncs / (now() - begun));
}
