/* segment.c - see segment.h. */
#include "dist/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/memfd.h>
#include <sys/syscall.h>
#endif

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u /* Linux 6.3 */
#endif

const char *segment_way_name(segment_way way) {
    return way == SEGMENT_MEMFD ? "memfd" : "shm_open";
}

static int fail(char why[SEGMENT_WHY], const char *what, int code) {
    char reason[100];
    if (strerror_r(code, reason, sizeof reason)) snprintf(reason, sizeof reason, "error %d", code);
    snprintf(why, SEGMENT_WHY, "%.80s: %s", what, reason);
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

/* 128 random bits: nobody guesses it, and nobody has it already. */
static int make_shm(segment_key *key) {
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != sizeof random) return -1;
    snprintf(key->name, sizeof key->name, "/weft.%016llx%016llx", (unsigned long long)random[0],
             (unsigned long long)random[1]);
    int fd = shm_open(key->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) *key->name = 0; /* not ours to remove */
    return fd;
}

int segment_make(segment_way way, segment_key *key, char why[SEGMENT_WHY]) {
    struct stat is;
    *key = (segment_key){.way = way, .pid = (int32_t)getpid()};
    int fd = way == SEGMENT_MEMFD ? make_memfd() : make_shm(key);
    if (fd < 0) return fail(why, way == SEGMENT_MEMFD ? "memfd_create" : "shm_open", errno);
    key->fd = fd;
    if (fstat(fd, &is)) {
        int code = errno;
        close(fd);
        segment_hide(key);
        return fail(why, "fstat", code);
    }
    key->device = (uint64_t)is.st_dev;
    key->inode = (uint64_t)is.st_ino;
    return fd;
}

void segment_hide(segment_key *key) {
    if (key->way == SEGMENT_SHM && *key->name) shm_unlink(key->name);
    *key->name = 0;
}

/* ---- opening ---- */

static bool is_it(const segment_key *key, const struct stat *is) {
    return (uint64_t)is->st_dev == key->device && (uint64_t)is->st_ino == key->inode;
}

/* Looked at before it is opened: in another PID namespace the number is somebody else's, and to open whatever that
 * one has (a terminal, a FIFO) would do something. */
static int open_memfd(const segment_key *key, char why[SEGMENT_WHY]) {
    char path[64];
    struct stat is;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)key->pid, (int)key->fd);
    if (stat(path, &is)) return fail(why, path, errno);
    if (!is_it(key, &is)) {
        snprintf(why, SEGMENT_WHY, "%s is something else: another PID namespace", path);
        return -1;
    }
    int fd = open(path, O_RDWR | O_CLOEXEC);
    return fd < 0 ? fail(why, path, errno) : fd;
}

int segment_open(const segment_key *key, char why[SEGMENT_WHY]) {
    struct stat is;
    if (key->way == SEGMENT_MEMFD) return open_memfd(key, why);
    int fd = shm_open(key->name, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0) return fail(why, key->name, errno);
    if (fstat(fd, &is) == 0 && is_it(key, &is)) return fd;
    close(fd);
    snprintf(why, SEGMENT_WHY, "%s is something else: another /dev/shm", key->name);
    return -1;
}

/* ---- memory ---- */

/* Beyond the limit of `ulimit -f` a signal would come, not an error. */
bool segment_grow(int fd, size_t bytes, char why[SEGMENT_WHY]) {
    struct rlimit limit;
    int code = EFBIG;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes) {
        fail(why, "the limit of file sizes (ulimit -f)", code);
        return false;
    }
    if (bytes > (size_t)INT64_MAX || ftruncate(fd, (off_t)bytes)) {
        fail(why, "ftruncate", bytes > (size_t)INT64_MAX ? EFBIG : errno);
        return false;
    }
    while ((code = posix_fallocate(fd, 0, (off_t)bytes)) == EINTR) {
    }
    if (code) fail(why, "posix_fallocate", code);
    return code == 0;
}

void *segment_map(int fd, size_t bytes, char why[SEGMENT_WHY]) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) return at;
    fail(why, "mmap", errno);
    return NULL;
}

void segment_unmap(void *memory, size_t bytes) {
    if (memory) munmap(memory, bytes);
}
