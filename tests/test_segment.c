/* test_segment.c - memory that processes share: found by its key alone, refused when it is something else or does not
 * fit, and without a name by the time it takes memory. What needs limits of its own runs in a child. */
#define _GNU_SOURCE /* unshare */
#include "dist/segment.h"
#include "support/test.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 20 };
static const segment_way ways[] = {SEGMENT_MEMFD, SEGMENT_SHM};
static char why[SEGMENT_WHY];

/* The exit status of `run` in a child; -1: a signal ended it. */
static int in_child(int (*run)(const segment_key *key), const segment_key *key) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) _exit(run(key));
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Reads what the parent wrote, and answers. */
static int find_and_answer(const segment_key *key) {
    int fd = segment_open(key, why);
    char *at = fd < 0 ? NULL : segment_map(fd, BYTES, why);
    if (!at || at[BYTES - 1] != 7) return 1;
    at[0] = 9;
    return 0;
}

TEST(another_process_finds_it_by_the_key) {
    for (int i = 0; i < 2; i++) {
        segment_key key;
        int fd = segment_make(ways[i], &key, why);
        if (!CHECK_SAYS(fd >= 0 && segment_grow(fd, BYTES, why), "%s", why)) continue;
        char *at = segment_map(fd, BYTES, why);
        if (!CHECK(at)) continue;
        CHECK(at[0] == 0);
        at[BYTES - 1] = 7;
        CHECK_SAYS(in_child(find_and_answer, &key) == 0, "%s", segment_way_name(ways[i]));
        CHECK(at[0] == 9);
        segment_hide(&key);
        segment_unmap(at, BYTES);
        close(fd);
    }
}

TEST(what_another_process_has_under_the_same_number_is_not_opened) {
    segment_key key, other;
    int fd = segment_make(SEGMENT_MEMFD, &key, why), second = segment_make(SEGMENT_MEMFD, &other, why);
    NEED(fd >= 0 && second >= 0);
    key.fd = other.fd;
    CHECK(segment_open(&key, why) < 0);
    CHECK_HOLDS(why, "is something else: another PID namespace");
    key.pid = 0x3fffffff; /* nobody's */
    CHECK(segment_open(&key, why) < 0);
    CHECK_HOLDS(why, "No such file");
    close(fd);
    close(second);
}

TEST(a_name_is_of_an_empty_file_that_only_its_user_may_open_and_is_soon_gone) {
    segment_key key;
    struct stat is;
    char path[80];
    int fd = segment_make(SEGMENT_SHM, &key, why);
    NEED(fd >= 0);
    snprintf(path, sizeof path, "/dev/shm%s", key.name);
    CHECK(strlen(key.name) == strlen("/weft.") + 32);
    CHECK(stat(path, &is) == 0 && is.st_size == 0 && (is.st_mode & 0777) == 0600);
    segment_hide(&key);
    CHECK(stat(path, &is) && errno == ENOENT);
    CHECK(segment_grow(fd, BYTES, why));
    close(fd);
    fd = segment_make(SEGMENT_MEMFD, &key, why);
    CHECK(fd >= 0 && !*key.name);
    close(fd);
}

/* Without a look at the limit SIGXFSZ would end the process. */
static int grow_beyond_limit(const segment_key *key) {
    const struct rlimit limit = {BYTES / 2, BYTES / 2};
    if (setrlimit(RLIMIT_FSIZE, &limit)) return 2;
    int fd = segment_open(key, why);
    return segment_grow(fd, BYTES, why) ? 1 : strstr(why, "ulimit -f") ? 0 : 3;
}

TEST(a_limit_of_file_sizes_is_an_error_not_a_signal) {
    for (int i = 0; i < 2; i++) {
        segment_key key;
        int fd = segment_make(ways[i], &key, why);
        CHECK(fd >= 0 && in_child(grow_beyond_limit, &key) == 0);
        segment_hide(&key);
        close(fd);
    }
}

enum { NOT_ALLOWED = 77 };

static int grow_beyond_mount(const segment_key *unused) {
    segment_key key;
    (void)unused;
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", "/dev/shm", "tmpfs", 0, "size=64k"))
        return NOT_ALLOWED;
    int fd = segment_make(SEGMENT_SHM, &key, why);
    segment_hide(&key);
    if (fd < 0 || segment_grow(fd, BYTES, why) || !strstr(why, "No space left")) return 1;
    fd = segment_make(SEGMENT_MEMFD, &key, why);
    return fd < 0 || !segment_grow(fd, BYTES, why);
}

TEST(a_small_dev_shm_is_an_error_and_not_met_without_names) {
    int status = in_child(grow_beyond_mount, NULL);
    if (status == NOT_ALLOWED) printf("left out: a mount of our own on /dev/shm is not allowed\n");
    CHECK_SAYS(status == 0 || status == NOT_ALLOWED, "status %d", status);
}

SUITE("segments", {T(another_process_finds_it_by_the_key),
                   T(what_another_process_has_under_the_same_number_is_not_opened),
                   T(a_name_is_of_an_empty_file_that_only_its_user_may_open_and_is_soon_gone),
                   T(a_limit_of_file_sizes_is_an_error_not_a_signal),
                   T(a_small_dev_shm_is_an_error_and_not_met_without_names)})
