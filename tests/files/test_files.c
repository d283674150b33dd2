/* test_files.c - the one way in which files are written (graph/file/io.h), on a real disk: links, devices and
 * pipes, remains of killed writers, folders and files without permission, names that are too long. */
#include "graph/file/io.h"
#include "graph/file/io_posix.h"
#include "support/faults.h"
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char owner[] = "/tmp/weft_files_XXXXXX";

static void leave(void) {
    char command[80];
    snprintf(command, sizeof command, "rm -rf %s", owner);
    if (system(command)) fprintf(stderr, "%s stays\n", owner);
}

/* Each test case has an empty folder of its own, where the process is. */
static bool enter(const char *name) {
    static bool made;
    if (!made && mkdtemp(owner)) made = atexit(leave) == 0;
    return CHECK(made && chdir(owner) == 0 && mkdir(name, 0755) == 0 && chdir(name) == 0);
}

static weft_status put(const char *path, const char *text, weft_error *error) {
    *error = (weft_error){0};
    return file_write_atomic(NULL, path, text, strlen(text), error);
}

static void puts_well(const char *path, const char *text) {
    weft_error error;
    CHECK_SAYS(put(path, text, &error) == WEFT_OK, "%s: %s", path, error.text);
}

static void holds(const char *path, const char *want) {
    char got[100] = "";
    FILE *f = fopen(path, "rb");
    if (!CHECK_SAYS(f != NULL, "there is no %s", path)) return;
    got[fread(got, 1, sizeof got - 1, f)] = 0;
    fclose(f);
    CHECK_TEXT(got, want);
}

/* Files of the folder, hidden ones too. */
static int count_files(void) {
    FILE *f = popen("ls -A | wc -l", "r");
    int n = -1;
    if (f && fscanf(f, "%d", &n) != 1) n = -1;
    if (f) pclose(f);
    return n;
}

TEST(a_link_stays_and_what_it_leads_to_is_replaced) {
    weft_error error;
    struct stat st;
    NEED(enter("links") && mkdir("deep", 0755) == 0);
    puts_well("deep/real", "old");
    CHECK(symlink("real", "deep/near") == 0 && symlink("deep/near", "far") == 0);
    puts_well("far", "new");
    holds("deep/real", "new");
    CHECK(lstat("far", &st) == 0 && S_ISLNK(st.st_mode) && lstat("deep/near", &st) == 0 &&
          S_ISLNK(st.st_mode));
    CHECK(symlink("deep/not_yet", "dangling") == 0);
    puts_well("dangling", "made");
    holds("deep/not_yet", "made");
    CHECK(symlink("b", "a") == 0 && symlink("a", "b") == 0);
    CHECK(put("a", "x", &error) == WEFT_IO);
    CHECK_HOLDS(error.text, "a: cannot be written: Too many levels");
    CHECK(count_files() == 5); /* deep, far, dangling, a, b */
}

TEST(a_file_keeps_its_permissions) {
    struct stat st;
    NEED(enter("modes"));
    puts_well("f", "old");
    CHECK(chmod("f", 0640) == 0);
    puts_well("f", "new");
    CHECK(stat("f", &st) == 0 && (st.st_mode & 0777) == 0640);
}

TEST(pipes_and_devices_are_written_through) {
    char got[10] = "";
    struct stat st;
    weft_error error;
    NEED(enter("devices") && mkfifo("pipe", 0600) == 0);
    int reader = open("pipe", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    CHECK(file_try(NULL, "pipe", &error) == WEFT_OK);
    puts_well("pipe", "through");
    CHECK(read(reader, got, sizeof got) == 7);
    CHECK_TEXT(got, "through");
    close(reader);
    CHECK(stat("pipe", &st) == 0 && S_ISFIFO(st.st_mode));
    if (mknod("null", S_IFCHR | 0600, 1 << 8 | 3) == 0) { /* as root: one of our own */
        puts_well("null", "gone");
        CHECK(stat("null", &st) == 0 && S_ISCHR(st.st_mode));
    }
    CHECK(put("/dev/full", "x", &error) == WEFT_IO && file_try(NULL, "/dev/full", &error) == WEFT_IO);
    CHECK_HOLDS(error.text, "/dev/full: cannot be written: No space left");
    CHECK(put(".", "x", &error) == WEFT_IO);
    CHECK_HOLDS(error.text, "cannot be written: Is a directory");
}

/* What is open as a descriptor is not opened again: a file there continues where it is. */
TEST(a_descriptor_by_name_is_that_descriptor) {
    char name[40];
    NEED(enter("descriptors"));
    int fd = open("out", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    snprintf(name, sizeof name, "/dev/fd/%d", fd);
    CHECK(write(fd, "one ", 4) == 4);
    CHECK(symlink(name, "link") == 0);
    puts_well(name, "two ");
    puts_well("link", "three");
    close(fd);
    holds("out", "one two three");
    CHECK(count_files() == 2);
}

/* A child that has begun to write `path` and waits; it ends well when it reads a byte. */
static pid_t begin_in_child(const char *path, int *go) {
    int ready[2], end[2];
    char byte = 0;
    if (pipe(ready) || pipe(end)) return -1;
    pid_t child = fork();
    if (child == 0) {
        file_writer w;
        bool good = !file_begin(&w, NULL, path, NULL) && !file_append(&w, "child", 5) &&
                    write(ready[1], "", 1) == 1 && read(end[0], &byte, 1) == 1 && !file_finish(&w, WEFT_OK);
        _exit(!good);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    close(ready[1]);
    close(end[0]);
    *go = end[1];
    return child;
}

TEST(parts_of_killed_writers_go_and_those_of_living_ones_stay) {
    int go_killed, go_living, status;
    NEED(enter("parts"));
    puts_well("w.st.12345.weft-part.bak", "not ours");
    puts_well("w.st.x.weft-part", "not ours");
    pid_t killed = begin_in_child("w.st", &go_killed), living = begin_in_child("w.st", &go_living);
    NEED(killed > 0 && living > 0);
    CHECK(count_files() == 4);
    kill(killed, SIGKILL);
    CHECK(waitpid(killed, &status, 0) == killed);
    CHECK(count_files() == 4); /* it could not be removed */
    puts_well("w.st", "parent");
    CHECK(count_files() == 4); /* the other two, the living one's part, and the file */
    CHECK(write(go_living, "", 1) == 1 && waitpid(living, &status, 0) == living && status == 0);
    holds("w.st", "child");
    CHECK(count_files() == 3);
    close(go_killed);
    close(go_living);
}

/* Others cut files into parts too, and number them. */
TEST(what_only_looks_like_a_part_stays) {
    static const char *const names[] = {"data.1.part",          "data.001.part",      "data.1.2.part",
                                        "data.001.2.part",      "data.7.weft-part.1", "data.01.weft-part",
                                        "data.1.02.weft-part",  "data.0.weft-part",   "data.weft-part",
                                        "data.1.2.3.weft-part", "data1.weft-part",    "data.1.weft-parts",
                                        "data.st.1.weft-part"};
    enum { NAMES = sizeof names / sizeof *names };
    NEED(enter("neighbours"));
    for (int i = 0; i < NAMES; i++) {
        int fd = open(names[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        CHECK(fd >= 0 && write(fd, "mine", 4) == 4 && close(fd) == 0);
    }
    puts_well("data", "ours");
    for (int i = 0; i < NAMES; i++) holds(names[i], "mine");
    CHECK(count_files() == NAMES + 1);
}

/* Two writers of one path, both under way: the last to finish is what stays, and whole. */
static void write_twice(const weft_env *env, const char *path) {
    file_writer one, two;
    CHECK(file_begin(&one, env, path, NULL) == WEFT_OK);
    CHECK(file_begin(&two, env, path, NULL) == WEFT_OK);
    CHECK(file_append(&one, "one ", 4) == WEFT_OK && file_append(&two, "two", 3) == WEFT_OK);
    CHECK(file_append(&one, "and all", 7) == WEFT_OK);
    CHECK(file_finish(&two, WEFT_OK) == WEFT_OK && file_finish(&one, WEFT_OK) == WEFT_OK);
}

TEST(writers_of_one_process_have_parts_of_their_own) {
    faults f;
    NEED(enter("twice"));
    write_twice(NULL, "w.st");
    holds("w.st", "one and all");
    CHECK(count_files() == 1);
    faults_init(&f);
    write_twice(&f.env, "w.st");
    const fake_file *file = fake_get(&f, "w.st");
    CHECK(file && file->bytes == 11 && memcmp(file->data, "one and all", 11) == 0 && fake_count(&f) == 1);
    faults_end(&f);
}

static void name_part(char to[60], const char *end) {
    snprintf(to, 60, "w.st.%ld%s.weft-part", (long)getpid(), end);
}

/* Left by a process with our number, and locked as where there are no locks: its death cannot be detected. */
TEST(parts_that_cannot_be_removed_are_passed_by) {
    static const char *const ends[] = {"", ".1", ".2"};
    char name[60];
    int held[3];
    NEED(enter("passed"));
    for (int i = 0; i < 3; i++) {
        name_part(name, ends[i]);
        held[i] = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        CHECK(held[i] >= 0 && flock(held[i], LOCK_EX) == 0);
    }
    puts_well("w.st", "new");
    holds("w.st", "new");
    CHECK(count_files() == 4);
    for (int i = 0; i < 3; i++) close(held[i]);
    puts_well("w.st", "newer"); /* now they have no owner */
    CHECK(count_files() == 1);
}

/* A log is written while others may empty it, as logrotate(8) does with copytruncate. */
TEST(a_file_that_is_emptied_meanwhile_has_no_hole) {
    void *file;
    NEED(enter("emptied"));
    CHECK(posix_io.open_write(NULL, "log", &file) == 0 && posix_io.write(NULL, file, "first", 5) == 0);
    CHECK(truncate("log", 0) == 0 && posix_io.write(NULL, file, "next", 4) == 0);
    CHECK(posix_io.close(NULL, file) == 0);
    holds("log", "next");
    CHECK(posix_io.open_append(NULL, "log", 2, &file) == 0 && posix_io.write(NULL, file, "w", 1) == 0);
    CHECK(truncate("log", 1) == 0 && posix_io.write(NULL, file, "o", 1) == 0);
    CHECK(posix_io.close(NULL, file) == 0);
    holds("log", "no");
}

TEST(what_could_not_be_written_is_told_before) {
    char name[256];
    weft_error error;
    NEED(enter("tries"));
    CHECK(file_try(NULL, "new", &error) == WEFT_OK && file_try(NULL, NULL, &error) == WEFT_ARGUMENT);
    memset(name, 'n', 250);
    name[250] = 0; /* fits, but not with ".PID.weft-part" added */
    CHECK(file_try(NULL, name, &error) == WEFT_IO);
    CHECK_HOLDS(error.text, "cannot be written: File name too long");
    CHECK(file_try(NULL, "no/such", &error) == WEFT_IO);
    puts_well("old", "old");
    CHECK(file_try(NULL, "old", &error) == WEFT_OK);
    holds("old", "old");
    CHECK(count_files() == 1);
}

/* As a user other than root, who may do all of this. */
TEST(permissions_are_kept) {
    weft_error error;
    NEED(enter("permissions"));
    bool was_root = geteuid() == 0;
    CHECK(mkdir("blind", 0333) == 0);
    puts_well("shut", "old");
    CHECK(chmod("shut", 0444) == 0 && chmod(".", 0777) == 0 && chmod("blind", 0333) == 0 &&
          chmod(owner, 0777) == 0);
    if (was_root) CHECK(seteuid(65534) == 0);
    puts_well("blind/file", "in a folder that cannot be read");
    CHECK(put("shut", "new", &error) == WEFT_IO);
    CHECK_HOLDS(error.text, "shut: cannot be written: Permission denied");
    if (was_root) CHECK(seteuid(0) == 0);
    CHECK(chmod("blind", 0755) == 0);
    holds("blind/file", "in a folder that cannot be read");
    holds("shut", "old");
}

SUITE("files",
      {T(a_link_stays_and_what_it_leads_to_is_replaced), T(a_file_keeps_its_permissions),
       T(pipes_and_devices_are_written_through), T(a_descriptor_by_name_is_that_descriptor),
       T(parts_of_killed_writers_go_and_those_of_living_ones_stay), T(what_only_looks_like_a_part_stays),
       T(writers_of_one_process_have_parts_of_their_own), T(parts_that_cannot_be_removed_are_passed_by),
       T(a_file_that_is_emptied_meanwhile_has_no_hole), T(what_could_not_be_written_is_told_before),
       T(permissions_are_kept)})
