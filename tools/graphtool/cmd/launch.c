/* launch.c - graphtool launch: starts the ranks of a job on this machine, without MPI, and ends them
 * together.
 *
 * Each rank is a process in a group of its own, so that a terminal's Ctrl-C comes here alone and is passed on
 * once. It has torchrun's variables and a token that nobody else knows. When one fails the others are asked
 * to end (SIGTERM, and SIGCONT for one that is stopped), and killed after the grace time; when this process
 * is killed, so are they. */
#include "tools/graphtool/cmd/commands.h"
#include "tools/graphtool/options/paths.h"
#include "tools/graphtool/model/tools.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* For ranks to end themselves after one has failed. Where it has lost another rank (EXIT_PEER), those that
 * can do so end within seconds by themselves, and nothing is saved any more: so both times are short then. */
enum { OWN_SECONDS = 3, LOST_OWN_SECONDS = 1, LOST_GRACE_SECONDS = 7 };

typedef struct launched {
    int n, left;   /* ranks; those that run */
    pid_t *pids;   /* [n]; 0: it has ended */
    int status;    /* exit status of the first rank that failed, and of the job */
    bool is_ours;  /* the command is one of graphtool: its ranks tell their errors */
    bool is_over;  /* a rank has failed, or somebody told this process to end */
    bool is_asked; /* somebody did */
    bool is_told;  /* the others were asked, too */
    double since;  /* when: of is_over, then of is_told */
    double grace;  /* --grace */
} launched;

/* ---- what the ranks are given ---- */

/* A free port of this machine, which stays rank 0's while *holder is open: where both set SO_REUSEADDR, rank
 * 0 can bind the port again and listen, and the system gives it to no other program. 0: no port is free. */
static int keep_port(int *holder) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int on = 1, fd = *holder = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) &&
                !bind(fd, (struct sockaddr *)&at, n) && !getsockname(fd, (struct sockaddr *)&at, &n);
    return good ? ntohs(at.sin_port) : 0;
}

static bool set_number(const char *name, int value) {
    return setenv(name, tool_text("%d", value), 1) == 0;
}

/* The variables that all ranks share. Those of a launcher around this one are not for them. */
static bool set_job(int n, int *holder) {
    static const char *const others[] = {
        "OMPI_COMM_WORLD_RANK", "PMI_RANK",       "PMIX_RANK",
        "SLURM_PROCID",         "WEFT_MEET_PORT", "TORCHELASTIC_USE_AGENT_STORE"};
    unsigned char secret[16];
    char token[2 * sizeof secret + 1];
    int port = keep_port(holder);
    if (getrandom(secret, sizeof secret, 0) != (ssize_t)sizeof secret || !port) return false;
    for (size_t i = 0; i < sizeof secret; i++) snprintf(token + 2 * i, 3, "%02x", secret[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) unsetenv(others[i]);
    return set_number("WORLD_SIZE", n) && set_number("LOCAL_WORLD_SIZE", n) &&
           set_number("MASTER_PORT", port) && setenv("MASTER_ADDR", "127.0.0.1", 1) == 0 &&
           setenv("WEFT_JOB_TOKEN", token, 1) == 0;
}

/* ---- starting ---- */

/* In the new process: becomes the rank, or returns. */
static void be_rank(int rank, pid_t parent, const sigset_t *signals, bool is_ours, char **argv) {
    static char name[] = "graphtool";
    if (is_ours) *--argv = name; /* in the place of "launch", or of its last option */
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0, 0, 0);
    if (getppid() != parent || !set_number("RANK", rank) || !set_number("LOCAL_RANK", rank)) return;
    sigprocmask(SIG_UNBLOCK, signals, NULL);
    if (is_ours)
        execv("/proc/self/exe", argv);
    else
        execvp(argv[0], argv);
    fprintf(stderr, "graphtool: launch: %s cannot be run: %s\n", argv[0], strerror(errno));
}

/* True: all run. */
static bool start_all(launched *l, const sigset_t *signals, char **argv) {
    pid_t own = getpid();
    fflush(NULL);
    for (int i = 0; i < l->n; i++) {
        l->pids[i] = fork();
        if (l->pids[i] == 0) {
            be_rank(i, own, signals, l->is_ours, argv);
            _exit(EXIT_MISUSED);
        }
        if (l->pids[i] < 0) {
            l->pids[i] = 0;
            tool_tell("launch: rank %d could not be started: %s", i, strerror(errno));
            l->status = EXIT_MISUSED;
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

/* Tells all to end, and from when on the grace time counts. A rank that is stopped hears it, too. */
static void tell_to_end(launched *l, int signal) {
    pass_on(l, signal);
    pass_on(l, SIGCONT);
    if (!l->is_told) l->since = clock_seconds();
    l->is_over = l->is_told = true;
}

/* How the first that failed has ended; a rank of graphtool has said why itself, unless it was killed. */
static void say_ended(const launched *l, int rank, int how) {
    if (WIFSIGNALED(how))
        fprintf(stderr, "graphtool: launch: rank %d was ended by signal %d (%s)\n", rank, WTERMSIG(how),
                strsignal(WTERMSIG(how)));
    else if (!l->is_ours)
        fprintf(stderr, "graphtool: launch: rank %d ended with status %d\n", rank, WEXITSTATUS(how));
}

/* A rank has failed. Those that miss another one (EXIT_PEER) may be seen to end before it. */
static void note_failure(launched *l, int rank, int how) {
    int status = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
    bool is_cause = l->is_ours && l->status == EXIT_PEER && status != EXIT_PEER && !l->is_told;
    if (l->status && !is_cause) return;
    l->status = status;
    if (!l->is_over || is_cause) say_ended(l, rank, how);
    if (!l->is_over) l->since = clock_seconds();
    l->is_over = true;
}

/* Takes in the ranks that have ended. The first that failed ends the others, after a while in which they may
 * end with an error of their own. */
static void reap(launched *l) {
    for (int i = 0; i < l->n; i++) {
        int how;
        if (!l->pids[i] || waitpid(l->pids[i], &how, WNOHANG) != l->pids[i]) continue;
        l->pids[i] = 0;
        l->left--;
        if (how) note_failure(l, i, how);
    }
}

/* A job that was asked to end, and of which a rank had to be killed, is not one that has ended in order. */
static void kill_all(launched *l, double grace) {
    for (int i = 0; i < l->n; i++)
        if (l->pids[i])
            fprintf(stderr, "graphtool: launch: rank %d did not end within %g s, and is killed\n", i, grace);
    pass_on(l, SIGKILL);
    if (l->is_asked) l->status = 128 + SIGKILL;
    l->since = clock_seconds();
}

static void end_late(launched *l) {
    bool is_lost = l->is_ours && l->status == EXIT_PEER && !l->is_asked;
    double own = is_lost ? LOST_OWN_SECONDS : OWN_SECONDS, now = clock_seconds();
    double grace = is_lost && l->grace > LOST_GRACE_SECONDS ? LOST_GRACE_SECONDS : l->grace;
    if (l->is_over && !l->is_told && now - l->since > own) tell_to_end(l, SIGTERM);
    if (l->is_told && now - l->since >= grace) kill_all(l, grace);
}

/* Until all have ended. */
static void attend(launched *l, const sigset_t *signals) {
    const struct timespec look = {.tv_nsec = 200000000};
    while (l->left) {
        int signal = sigtimedwait(signals, NULL, &look);
        if (signal > 0 && signal != SIGCHLD) {
            l->is_asked = true;
            tell_to_end(l, signal);
        }
        reap(l);
        end_late(l);
    }
}

/* ---- the command ---- */

/* Whether a word is an option of launch, which no other command has. */
static bool is_misplaced(const char *word) {
    return strncmp(word, "-n", 2) == 0 || strncmp(word, "--ranks", 7) == 0 ||
           strncmp(word, "--grace", 7) == 0;
}

/* At the end of a command line that could not be read. */
static void tell_misplaced(void *name) {
    if (tool_status == EXIT_MISUSED)
        tool_note("options of launch come before the command: graphtool launch -n 4 %s ...", (char *)name);
}

/* The command line of one of graphtool's commands is read here once, so that its errors, and --help, come
 * once; the ranks read it again. */
static void check_line(const command *c, char **words) {
    options *o = tool_new(1, sizeof *o);
    int n = 0;
    bool is_misled = false;
    while (words[n]) is_misled |= is_misplaced(words[n++]);
    if (is_misled) tool_keep(words[0], tell_misplaced);
    char **copy = tool_new((size_t)(n + 1), sizeof *copy); /* reading it moves the words */
    memcpy(copy, words, (size_t)n * sizeof *copy);
    options_parse(c, n, copy, o);
    paths_check(o);
}

/* Is it a program in a folder of PATH? */
static bool is_in_path(const char *name) {
    struct stat is;
    const char *at = getenv("PATH");
    for (size_t n; at && *at; at += n + (at[n] == ':')) {
        n = strcspn(at, ":");
        const char *file = tool_text("%.*s/%s", n ? (int)n : 1, n ? at : ".", name);
        if (access(file, X_OK) == 0 && stat(file, &is) == 0 && S_ISREG(is.st_mode)) return true;
    }
    return false;
}

/* A name without '/' is a command of graphtool, else a program in PATH, as for a shell. Whether it is the
 * first. */
static bool check_command(char **words) {
    const char *name = words[0];
    bool is_path = strchr(name, '/') != NULL;
    const command *c = command_find(name);
    if (is_path && access(name, X_OK)) tool_fail("launch: %s cannot be run: %s", name, strerror(errno));
    if (c && c != &command_launch) {
        check_line(c, words);
        return true;
    }
    if (is_path || is_in_path(name)) return false;
    names known = command_names(name);
    names_refuse(&known,
                 "launch: no command '%.60s', and no program of that name in PATH (one is named with its "
                 "folder: ./%.60s)",
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

static void run_ranks(launched *l, char **argv) {
    sigset_t signals, before;
    take_signals(&signals);
    sigprocmask(SIG_BLOCK, &signals, &before);
    if (!start_all(l, &signals, argv)) tell_to_end(l, SIGTERM);
    attend(l, &signals);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

static int launch_run(const options *o) {
    int holder;
    launched l = {.n = (int)o->ranks, .grace = o->grace, .is_ours = check_command(o->rest)};
    l.pids = tool_new((size_t)l.n, sizeof *l.pids);
    if (!set_job(l.n, &holder)) tool_fail("launch: no port or no random bytes for the job");
    run_ranks(&l, o->rest);
    close(holder);
    return l.status;
}

const command command_launch = {
    .name = "launch",
    .summary = "Starts a command as several ranks on this machine, without MPI",
    .takes_command = true,
    .options = "ranks grace",
    .details =
        "COMMAND is one of graphtool, or a program of yours, in PATH or with its folder (./train). Its "
        "options come after it. The exit status is that of the first rank that failed, or 137 where one had "
        "to be killed.",
    .example = "graphtool launch -n 4 train model.bin --data image=train.npy --threads 2",
    .run = launch_run,
    .defaults = {.ranks = 2, .grace = 30},
};
