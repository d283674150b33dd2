/* test_segment.c - memory that processes share: found by its key alone; an error when it is something else or
 * does not fit; without a name. Tests that need limits of their own run in a child process. */
#define _GNU_SOURCE /* unshare */
#include "dist/shm/segment.h"
#include "support/test.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 20 };
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
    segment_key key;
    int fd = segment_make(&key, why);
    NEED(fd >= 0 && segment_grow(fd, BYTES, why));
    char *at = segment_map(fd, BYTES, why);
    NEED(at && at[0] == 0);
    at[BYTES - 1] = 7;
    CHECK(in_child(find_and_answer, &key) == 0);
    CHECK(at[0] == 9);
    segment_unmap(at, BYTES);
    close(fd);
}

TEST(what_another_process_has_under_the_same_number_is_not_opened) {
    segment_key key, other;
    int fd = segment_make(&key, why), second = segment_make(&other, why);
    NEED(fd >= 0 && second >= 0);
    key.fd = other.fd;
    CHECK(segment_open(&key, why) < 0);
    CHECK_HOLDS(why, "is another file: the ranks are in different PID namespaces");
    key.pid = 0x3fffffff; /* no process's */
    CHECK(segment_open(&key, why) < 0);
    CHECK_HOLDS(why, "No such file");
    close(fd);
    close(second);
}

enum { NOT_ALLOWED = 77 };

/* Of 64 KiB, and empty; no other process sees it. */
static bool own_dev_shm(void) {
    return !unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
           !mount("none", "/dev/shm", "tmpfs", 0, "size=64k");
}

/* The empty file of a name would stay when its maker is killed before it has removed it. */
static int names_in_dev_shm(void) {
    int n = 0;
    DIR *d = opendir("/dev/shm");
    for (struct dirent *e; d && (e = readdir(d));) n += *e->d_name != '.';
    if (d) closedir(d);
    return n;
}

static int make_beside_names(const segment_key *unused) {
    segment_key key;
    (void)unused;
    if (!own_dev_shm()) return NOT_ALLOWED;
    int fd = segment_make(&key, why);
    if (fd < 0 || names_in_dev_shm()) return 1;
    return !segment_grow(fd, BYTES, why) || names_in_dev_shm();
}

TEST(it_has_no_name_that_could_stay_and_no_use_of_dev_shm) {
    int status = in_child(make_beside_names, NULL);
    if (status == NOT_ALLOWED) printf("left out: a mount of our own on /dev/shm is not allowed\n");
    CHECK_SAYS(status == 0 || status == NOT_ALLOWED, "status %d", status);
}

/* Without a look at the limit SIGXFSZ would end the process. */
static int grow_beyond_limit(const segment_key *key) {
    const struct rlimit limit = {BYTES / 2, BYTES / 2};
    if (setrlimit(RLIMIT_FSIZE, &limit)) return 2;
    int fd = segment_open(key, why);
    return segment_grow(fd, BYTES, why) ? 1 : strstr(why, "ulimit -f") ? 0 : 3;
}

TEST(a_limit_of_file_sizes_is_an_error_not_a_signal) {
    segment_key key;
    int fd = segment_make(&key, why);
    CHECK(fd >= 0 && in_child(grow_beyond_limit, &key) == 0);
    close(fd);
}

SUITE("segments", {T(another_process_finds_it_by_the_key),
                   T(what_another_process_has_under_the_same_number_is_not_opened),
                   T(it_has_no_name_that_could_stay_and_no_use_of_dev_shm),
                   T(a_limit_of_file_sizes_is_an_error_not_a_signal)})
