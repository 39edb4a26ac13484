// Inserts rows of six columns by one prepared statement, with a thousand rows in each transaction. Prints the
// rows per second that SQLite accepts.
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int count, char **words) {
  if (count < 3) return 2;
  double seconds = atof(words[2]);
  sqlite3 *base;
  sqlite3_stmt *insert;
  if (sqlite3_open(words[1], &base)) return 1;
  sqlite3_exec(base,
               "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
               "CREATE TABLE t (at TEXT, client TEXT, path TEXT, status INTEGER, took_us INTEGER, score REAL)", 0, 0, 0);
  if (sqlite3_prepare_v2(base, "INSERT INTO t VALUES (?,?,?,?,?,?)", -1, &insert, 0)) return 1;
  double begun = now();
  long rows = 0;
  while (now() - begun < seconds) {
    sqlite3_exec(base, "BEGIN", 0, 0, 0);
    for (int i = 0; i < 1000; i++, rows++) {
      sqlite3_bind_text(insert, 1, "2026-01-01T00:00:00.000000Z", -1, SQLITE_STATIC);
      sqlite3_bind_text(insert, 2, "127.0.0.1", -1, SQLITE_STATIC);
      sqlite3_bind_text(insert, 3, "/recorded", -1, SQLITE_STATIC);
      sqlite3_bind_int(insert, 4, 200);
      sqlite3_bind_int64(insert, 5, rows);
      sqlite3_bind_double(insert, 6, rows * 2.0 + 1);
      if (sqlite3_step(insert) != SQLITE_DONE) return 1;
      sqlite3_reset(insert);
    }
    sqlite3_exec(base, "COMMIT", 0, 0, 0);
  }
  printf("%.0f\n", rows / (now() - begun));
}
