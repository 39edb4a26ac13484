// Copies the rows of one SQLite database into another by one prepared INSERT in one transaction, from memory:
// the limit of a loader.
//
// Arguments: the database with the rows, the database to make, the table. Makes all tables and indexes of the
// first database before the clock starts. Prints the seconds until the last byte is synced and the database
// is closed, and the version of SQLite.
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct value {
  int type, bytes;
  union {
    sqlite3_int64 integer;
    double real;
    char *content;
  };
};

static sqlite3 *from, *to;
static struct value *values;
static size_t count, room;
static int width;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

static void must(int ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "%s: %s\n", what, sqlite3_errmsg(to));
  exit(1);
}

static void run(const char *sql) { must(sqlite3_exec(to, sql, 0, 0, 0) == SQLITE_OK, sql); }

static void make_tables(void) {
  sqlite3_stmt *made;
  const char *sql = "SELECT sql FROM sqlite_master WHERE sql NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY type DESC";
  must(sqlite3_prepare_v2(from, sql, -1, &made, 0) == SQLITE_OK, sql);
  while (sqlite3_step(made) == SQLITE_ROW) run((const char *)sqlite3_column_text(made, 0));
  sqlite3_finalize(made);
}

static struct value kept(sqlite3_stmt *row, int column) {
  struct value value = {.type = sqlite3_column_type(row, column)};
  if (value.type == SQLITE_INTEGER) value.integer = sqlite3_column_int64(row, column);
  if (value.type == SQLITE_FLOAT) value.real = sqlite3_column_double(row, column);
  if (value.type == SQLITE_TEXT || value.type == SQLITE_BLOB) {
    const void *content = sqlite3_column_blob(row, column);
    value.bytes = sqlite3_column_bytes(row, column);
    value.content = malloc(value.bytes + 1);
    memcpy(value.content, content, value.bytes);
  }
  return value;
}

static void read_rows(const char *table) {
  char sql[256];
  snprintf(sql, sizeof sql, "SELECT * FROM \"%s\" ORDER BY rowid", table);
  sqlite3_stmt *row;
  must(sqlite3_prepare_v2(from, sql, -1, &row, 0) == SQLITE_OK, sql);
  width = sqlite3_column_count(row);
  while (sqlite3_step(row) == SQLITE_ROW) {
    if (count + width > room) values = realloc(values, (room = 2 * room + 4096) * sizeof *values);
    for (int column = 0; column < width; column++) values[count++] = kept(row, column);
  }
  sqlite3_finalize(row);
}

static void bind(sqlite3_stmt *insert, int at, struct value *value) {
  switch (value->type) {
    case SQLITE_INTEGER: sqlite3_bind_int64(insert, at, value->integer); break;
    case SQLITE_FLOAT: sqlite3_bind_double(insert, at, value->real); break;
    case SQLITE_TEXT: sqlite3_bind_text(insert, at, value->content, value->bytes, SQLITE_STATIC); break;
    case SQLITE_BLOB: sqlite3_bind_blob(insert, at, value->content, value->bytes, SQLITE_STATIC); break;
    default: sqlite3_bind_null(insert, at);
  }
}

static void insert_rows(const char *table) {
  char sql[4096];
  int length = snprintf(sql, sizeof sql, "INSERT INTO \"%s\" VALUES (?", table);
  for (int column = 1; column < width; column++) length += snprintf(sql + length, sizeof sql - length, ",?");
  snprintf(sql + length, sizeof sql - length, ")");
  run("BEGIN");
  sqlite3_stmt *insert;
  must(sqlite3_prepare_v2(to, sql, -1, &insert, 0) == SQLITE_OK, sql);
  for (size_t at = 0; at < count; at += width) {
    for (int column = 0; column < width; column++) bind(insert, column + 1, &values[at + column]);
    must(sqlite3_step(insert) == SQLITE_DONE, sql);
    sqlite3_reset(insert);
  }
  sqlite3_finalize(insert);
  run("COMMIT");
}

int main(int words, char **word) {
  if (words < 4) return 2;
  if (sqlite3_open_v2(word[1], &from, SQLITE_OPEN_READONLY, 0) || sqlite3_open(word[2], &to)) return 1;
  run("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL");
  make_tables();
  read_rows(word[3]);
  double begun = now();
  insert_rows(word[3]);
  must(sqlite3_close(to) == SQLITE_OK, "close");
  printf("%.6f %s\n", now() - begun, sqlite3_libversion());
}
