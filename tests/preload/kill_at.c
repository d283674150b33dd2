/*
 * kill_at.c - for LD_PRELOAD: rank KILL_RANK of an MPI job dies at its KILL_AT-th call that changes something
 * below a folder "step-N": it opens a file to write it, writes (then it dies in the middle), flushes, closes,
 * renames, removes, makes a folder. Each rank that ends writes how many such calls it made to the file
 * KILL_COUNT.RANK.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DESCRIPTORS = 4096 };
static atomic_long calls;
static atomic_bool is_watched[DESCRIPTORS];

static const char *rank(void) {
    const char *r = getenv("OMPI_COMM_WORLD_RANK");
    return r ? r : getenv("PMI_RANK");
}

/* Whether this call is the last one. */
static int is_time(void) {
    const char *victim = getenv("KILL_RANK"), *at = getenv("KILL_AT");
    long n = atomic_fetch_add(&calls, 1) + 1;
    return victim && at && rank() && strcmp(victim, rank()) == 0 && n == atol(at);
}

static void die(void) {
    raise(SIGKILL);
}

static int is_of_save(const char *path) {
    return path && strstr(path, "/step-") != NULL;
}

static int is_of_fd(int fd) {
    return fd >= 0 && fd < DESCRIPTORS && is_watched[fd];
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
    va_end(more);
    int is_one = is_of_save(path) && (flags & O_ACCMODE) != O_RDONLY;
    if (is_one && is_time()) die();
    int fd = NEXT(open)(path, flags, mode);
    if (fd >= 0 && fd < DESCRIPTORS) is_watched[fd] = is_one;
    return fd;
}

ssize_t write(int fd, const void *from, size_t bytes) {
    if (is_of_fd(fd) && is_time()) {
        if (NEXT(write)(fd, from, bytes / 2) >= 0) die();
        die();
    }
    return NEXT(write)(fd, from, bytes);
}

int fsync(int fd) {
    if (is_of_fd(fd) && is_time()) die();
    return NEXT(fsync)(fd);
}

int close(int fd) {
    if (is_of_fd(fd) && is_time()) die();
    if (fd >= 0 && fd < DESCRIPTORS) is_watched[fd] = 0;
    return NEXT(close)(fd);
}

int rename(const char *from, const char *to) {
    if (is_of_save(from) && is_time()) die();
    return NEXT(rename)(from, to);
}

int remove(const char *path) {
    if (is_of_save(path) && is_time()) die();
    return NEXT(remove)(path);
}

int mkdir(const char *path, mode_t mode) {
    if (is_of_save(path) && is_time()) die();
    return NEXT(mkdir)(path, mode);
}

__attribute__((destructor)) static void tell(void) {
    char path[512];
    const char *head = getenv("KILL_COUNT");
    if (!head || !rank()) return;
    snprintf(path, sizeof path, "%s.%s", head, rank());
    FILE *f = fopen(path, "w");
    if (f) fprintf(f, "%ld\n", (long)calls), fclose(f);
}
