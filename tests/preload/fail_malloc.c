/* fail_malloc.c - for LD_PRELOAD: the FAIL_AT-th call of malloc, calloc or realloc in the process fails. */
#include <errno.h>
#include <stdlib.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);

static long left;

static int fails(void) {
    if (left <= 0 || __atomic_sub_fetch(&left, 1, __ATOMIC_RELAXED)) return 0;
    errno = ENOMEM;
    return 1;
}

__attribute__((constructor)) static void begin(void) {
    const char *n = getenv("FAIL_AT");
    left = n ? atol(n) : 0;
}

void *malloc(size_t bytes) {
    return fails() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes) {
    return fails() ? NULL : __libc_calloc(n, bytes);
}

void *realloc(void *old, size_t bytes) {
    return fails() ? NULL : __libc_realloc(old, bytes);
}
