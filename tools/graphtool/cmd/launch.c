/* launch.c - graphtool launch: starts the ranks of a job on this machine, without MPI, and ends them
 * together.
 *
 * Each rank is a process in a group of its own, so that a terminal's Ctrl-C comes here alone and is passed on
 * once. It has torchrun's variables and a token that nobody else knows. When one fails the others are told to
 * end (SIGTERM), and killed after the grace time; when this process is killed, so are they. */
#include "tools/graphtool/common/names.h"
#include "tools/graphtool/common/options.h"
#include "tools/graphtool/common/output.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define X(name) extern const command command_##name;
#include "tools/graphtool/cmd/list.h"
#undef X

enum { OWN_SECONDS = 3 }; /* for ranks to end themselves after one has failed */

typedef struct launched {
    int n, left;  /* ranks; those that run */
    pid_t *pids;  /* [n]; 0: it has ended */
    int status;   /* exit status of the first rank that failed, and of the job */
    bool is_over; /* a rank has failed, or somebody told this process to end */
    bool is_told; /* the others have been told, too */
    double since; /* when: of is_over, then of is_told */
} launched;

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- what the ranks are given ---- */

/* A port of this machine that nobody has now; 0: there is none. */
static int find_port(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good =
        fd >= 0 && !bind(fd, (struct sockaddr *)&at, n) && !getsockname(fd, (struct sockaddr *)&at, &n);
    if (fd >= 0) close(fd);
    return good ? ntohs(at.sin_port) : 0;
}

static bool set_number(const char *name, int value) {
    char text[20];
    snprintf(text, sizeof text, "%d", value);
    return setenv(name, text, 1) == 0;
}

/* The variables that all ranks share. Those of a launcher around this one are not for them. */
static bool set_job(int n) {
    static const char *const others[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"};
    unsigned char secret[16];
    char token[2 * sizeof secret + 1];
    int port = find_port();
    if (getrandom(secret, sizeof secret, 0) != (ssize_t)sizeof secret || !port) return false;
    for (size_t i = 0; i < sizeof secret; i++) snprintf(token + 2 * i, 3, "%02x", secret[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) unsetenv(others[i]);
    return set_number("WORLD_SIZE", n) && set_number("LOCAL_WORLD_SIZE", n) &&
           set_number("MASTER_PORT", port) && setenv("MASTER_ADDR", "127.0.0.1", 1) == 0 &&
           setenv("WEFT_JOB_TOKEN", token, 1) == 0;
}

/* ---- starting ---- */

/* In the new process: becomes the rank, or returns. */
static void be_rank(int rank, pid_t parent, const sigset_t *signals, char **argv) {
    static char name[] = "graphtool";
    bool is_ours = !strchr(argv[0], '/');
    if (is_ours) *--argv = name; /* in the place of "launch", or of its last option */
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0, 0, 0);
    if (getppid() != parent || !set_number("RANK", rank) || !set_number("LOCAL_RANK", rank)) return;
    sigprocmask(SIG_UNBLOCK, signals, NULL);
    if (is_ours)
        execv("/proc/self/exe", argv);
    else
        execv(argv[0], argv);
    fprintf(stderr, "graphtool: launch: %s cannot be run: %s\n", argv[0], strerror(errno));
}

/* True: all run. */
static bool start_all(launched *l, const sigset_t *signals, char **argv) {
    pid_t own = getpid();
    fflush(NULL);
    for (int i = 0; i < l->n; i++) {
        l->pids[i] = fork();
        if (l->pids[i] == 0) {
            be_rank(i, own, signals, argv);
            _exit(EXIT_MISUSED);
        }
        if (l->pids[i] < 0) {
            l->pids[i] = 0;
            l->status = tool_fail("launch: rank %d could not be started: %s", i, strerror(errno));
            return false;
        }
        l->left++;
    }
    return true;
}

/* ---- ending ---- */

static void pass_on(const launched *l, int signal) {
    for (int i = 0; i < l->n; i++)
        if (l->pids[i]) kill(l->pids[i], signal);
}

/* Tells all to end, and from when on the grace time counts. */
static void tell_to_end(launched *l, int signal) {
    pass_on(l, signal);
    if (!l->is_told) l->since = seconds_now();
    l->is_over = l->is_told = true;
}

/* Takes in the ranks that have ended. The first that failed ends the others, after a while in which they may
 * end with an error of their own. */
static void reap(launched *l) {
    for (int i = 0; i < l->n; i++) {
        int how;
        if (!l->pids[i] || waitpid(l->pids[i], &how, WNOHANG) != l->pids[i]) continue;
        l->pids[i] = 0;
        l->left--;
        int status = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
        if (!status || l->status) continue;
        l->status = status;
        if (WIFSIGNALED(how) && !l->is_over)
            fprintf(stderr, "graphtool: launch: rank %d was ended by signal %d (%s)\n", i, WTERMSIG(how),
                    strsignal(WTERMSIG(how)));
        if (!l->is_over) l->since = seconds_now();
        l->is_over = true;
    }
}

static void end_late(launched *l, double grace) {
    if (l->is_over && !l->is_told && seconds_now() - l->since > OWN_SECONDS) tell_to_end(l, SIGTERM);
    if (!l->is_told || seconds_now() - l->since < grace) return;
    for (int i = 0; i < l->n; i++)
        if (l->pids[i])
            fprintf(stderr, "graphtool: launch: rank %d did not end within %g s, and is killed\n", i, grace);
    pass_on(l, SIGKILL);
    l->since = seconds_now();
}

/* Until all have ended. */
static void attend(launched *l, const sigset_t *signals, double grace) {
    const struct timespec look = {.tv_nsec = 200000000};
    while (l->left) {
        int signal = sigtimedwait(signals, NULL, &look);
        if (signal > 0 && signal != SIGCHLD) tell_to_end(l, signal);
        reap(l);
        end_late(l, grace);
    }
}

/* ---- the command ---- */

/* A name without '/' is a command of graphtool. */
static int check_command(const char *name) {
    static const command *const all[] = {
#define X(name) &command_##name,
#include "tools/graphtool/cmd/list.h"
#undef X
    };
    names known;
    if (strchr(name, '/')) return -1;
    known = names_for(name);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(all[i]->name, name) == 0 && all[i] != &command_launch) {
            names_end(&known);
            return -1;
        }
        if (all[i] != &command_launch) names_add(&known, all[i]->name);
    }
    return names_refuse(&known, "launch: no command '%.60s' (a program is named with its folder: ./%.60s)",
                        name, name);
}

/* Signals that end the job, or tell that a rank has ended. Under nohup(1) SIGHUP stays ignored, as it does in
 * a training: a signal that is blocked would come here all the same. */
static void take_signals(sigset_t *signals) {
    struct sigaction now;
    bool is_nohup = !sigaction(SIGHUP, NULL, &now) && now.sa_handler == SIG_IGN;
    sigemptyset(signals);
    sigaddset(signals, SIGCHLD), sigaddset(signals, SIGTERM), sigaddset(signals, SIGINT);
    sigaddset(signals, SIGUSR1), sigaddset(signals, SIGUSR2);
    if (!is_nohup) sigaddset(signals, SIGHUP);
}

static int launch_run(const options *o) {
    sigset_t signals, before;
    int status = check_command(o->rest[0]);
    if (status >= 0) return status;
    launched l = {.n = (int)o->ranks};
    if (!set_job(l.n)) return tool_fail("launch: no port or no random bytes for the job");
    l.pids = calloc((size_t)l.n, sizeof *l.pids);
    if (!l.pids) return tool_fail("out of memory");
    take_signals(&signals);
    sigprocmask(SIG_BLOCK, &signals, &before);
    if (!start_all(&l, &signals, o->rest)) tell_to_end(&l, SIGTERM);
    attend(&l, &signals, o->grace);
    sigprocmask(SIG_SETMASK, &before, NULL);
    free(l.pids);
    return l.status;
}

const command command_launch = {
    .name = "launch",
    .summary = "Starts a command as several ranks on this machine, without MPI",
    .takes_command = true,
    .options = "ranks grace",
    .details =
        "COMMAND is one of graphtool, or a program of yours with its folder (./train). Its options stand "
        "behind it. The exit status is that of the first rank that failed.",
    .example = "graphtool launch -n 4 train model.bin --data image=train.npy --threads 2",
    .run = launch_run,
    .defaults = {.ranks = 2, .grace = 30},
};
