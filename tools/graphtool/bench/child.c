/* child.c - see child.h. */
#include "tools/graphtool/bench/child.h"

#include "tools/graphtool/output/end.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Where an output goes: a file without a name, which cannot be full as a pipe can. */
static FILE *new_file(void) {
    FILE *f = tmpfile();
    if (!f) tool_fail("a temporary file cannot be made: %s", strerror(errno));
    return f;
}

/* All of it as text; closes the file. */
static char *text_of(FILE *f) {
    char part[4096];
    text t = {0};
    rewind(f);
    for (size_t n; (n = fread(part, 1, sizeof part, f));) text_bytes(&t, part, n);
    if (ferror(f)) tool_fail("a temporary file cannot be read");
    fclose(f);
    return t.length ? tool_take(&t) : tool_text("%s", "");
}

static _Noreturn void be_child(const char *file, char *const argv[], FILE *out, FILE *err) {
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0, 0, 0);
    bool good = dup2(fileno(out), STDOUT_FILENO) >= 0 && dup2(fileno(err), STDERR_FILENO) >= 0;
    if (good) execvp(file, argv);
    fprintf(stderr, "graphtool: %s cannot be run: %s\n", file, strerror(errno));
    fflush(stderr);
    _exit(EXIT_MISUSED);
}

child child_run(const char *file, char *const argv[]) {
    int how;
    FILE *out = new_file(), *err = new_file();
    fflush(NULL);
    pid_t pid = fork(), ended;
    if (pid < 0) tool_fail("%s could not be started: %s", file, strerror(errno));
    if (pid == 0) be_child(file, argv, out, err);
    while ((ended = waitpid(pid, &how, 0)) < 0 && errno == EINTR) {
    }
    if (ended != pid) tool_fail("%s: its end is not known: %s", file, strerror(errno));
    return (child){.status = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how),
                   .out = text_of(out),
                   .err = text_of(err)};
}

const char *child_self(void) {
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0) tool_fail("/proc/self/exe cannot be read: %s", strerror(errno));
    return tool_cut(path, path + n);
}

const char *child_beside(const char *name) {
    const char *self = child_self();
    const char *beside = tool_text("%.*s/%s", (int)(strrchr(self, '/') - self), self, name);
    return access(beside, X_OK) == 0 ? beside : name;
}
