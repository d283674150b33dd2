/* segment.c - see segment.h: making a memfd, opening that of another process, allocating and mapping its
 * memory. */
#include "dist/shm/segment.h"

#include "graph/core/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/memfd.h>
#include <sys/syscall.h>
#endif

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u /* since Linux 6.3 */
#endif

/* Writes "what: reason of the errno code" into why and returns -1. */
static int segment_fail(char why[SEGMENT_WHY], const char *what, int code) {
    snprintf(why, SEGMENT_WHY, "%.80s: %s", what, errno_show(code).text);
    return -1;
}

/* ---- making ---- */

static int make_memfd(void) {
#ifdef MFD_CLOEXEC
    long fd = syscall(SYS_memfd_create, "weft", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) /* older kernels do not know the second flag */
        fd = syscall(SYS_memfd_create, "weft", MFD_CLOEXEC);
    return (int)fd;
#else
    errno = ENOSYS;
    return -1;
#endif
}

/* The key is valid while the descriptor is open; pid is 0 after a failure. */
int segment_make(segment_key *key, char why[SEGMENT_WHY]) {
    struct stat is;
    int fd = make_memfd();
    *key = (segment_key){0};
    if (fd < 0) return segment_fail(why, "memfd_create", errno);
    if (fstat(fd, &is)) {
        int code = errno;
        close(fd);
        return segment_fail(why, "fstat", code);
    }
    *key = (segment_key){(int32_t)getpid(), fd, (uint64_t)is.st_dev, (uint64_t)is.st_ino};
    return fd;
}

/* ---- opening ---- */

/* Is this the file of the key? */
static bool is_it(const segment_key *key, const struct stat *is) {
    return (uint64_t)is->st_dev == key->device && (uint64_t)is->st_ino == key->inode;
}

/* stat comes before open: in another PID namespace the number belongs to some other process, and opening what
 * that has there (a terminal, a FIFO) could have effects. */
int segment_open(const segment_key *key, char why[SEGMENT_WHY]) {
    char path[64];
    struct stat is;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)key->pid, (int)key->fd);
    if (stat(path, &is)) return segment_fail(why, path, errno);
    if (!is_it(key, &is)) {
        snprintf(why, SEGMENT_WHY, "%s is another file: the ranks are in different PID namespaces", path);
        return -1;
    }
    int fd = open(path, O_RDWR | O_CLOEXEC);
    return fd < 0 ? segment_fail(why, path, errno) : fd;
}

/* ---- memory ---- */

/* Growing beyond `ulimit -f` raises SIGXFSZ instead of an error, so the limit is read first. */
bool segment_grow(int fd, size_t bytes, char why[SEGMENT_WHY]) {
    struct rlimit limit;
    int code = EFBIG;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes) {
        segment_fail(why, "the limit of file sizes (ulimit -f)", code);
        return false;
    }
    if (bytes > (size_t)INT64_MAX || ftruncate(fd, (off_t)bytes)) {
        segment_fail(why, "ftruncate", bytes > (size_t)INT64_MAX ? EFBIG : errno);
        return false;
    }
    while ((code = posix_fallocate(fd, 0, (off_t)bytes)) == EINTR) {
    }
    if (code) segment_fail(why, "posix_fallocate", code);
    return code == 0;
}

void *segment_map(int fd, size_t bytes, char why[SEGMENT_WHY]) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) return at;
    segment_fail(why, "mmap", errno);
    return NULL;
}

void segment_unmap(void *memory, size_t bytes) {
    if (memory) munmap(memory, bytes);
}
