/*
 * fail_malloc.c - for LD_PRELOAD: the FAIL_AT-th malloc, calloc or realloc after the entry of main fails.
 *
 * What runs before main belongs to libraries: the CUDA runtime registers its kernels there, and crashes
 * without memory.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
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

typedef int entry(int argc, char **argv, char **environment);
typedef int starter(entry *program, int argc, char **argv, void (*init)(void), void (*fini)(void),
                    void (*unload)(void), void *stack_end);

static entry *real_main;

static int counted_main(int argc, char **argv, char **environment) {
    const char *n = getenv("FAIL_AT");
    left = n ? atol(n) : 0;
    return real_main(argc, argv, environment);
}

/* The C library's function that calls main. */
extern starter __libc_start_main;

int __libc_start_main(entry *program, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*unload)(void), void *stack_end) {
    starter *next = (starter *)dlsym(RTLD_NEXT, "__libc_start_main");
    real_main = program;
    return next(counted_main, argc, argv, init, fini, unload, stack_end);
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
