// Returns freed memory to the system once a second. Build: gcc -shared -fPIC -o trim.so trim.c -lpthread,
// then preload it with LD_PRELOAD. Blocks longer than TRIM_MMAP_THRESHOLD bytes are mapped separately.
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static void *run(void *unused) {
    (void)unused;
    for (;;) {
        sleep(1);
        malloc_trim(0);
    }
}

__attribute__((constructor)) static void start(void) {
    pthread_t thread;
    const char *threshold = getenv("TRIM_MMAP_THRESHOLD");
    if (threshold) mallopt(M_MMAP_THRESHOLD, atoi(threshold));
    pthread_create(&thread, NULL, run, NULL);
}
