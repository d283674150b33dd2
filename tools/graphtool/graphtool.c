/* graphtool.c - the program: dispatches to the subcommands of cmd/list.h, each in one file of its name. */
#define _GNU_SOURCE /* dladdr */
#include "tools/graphtool/cmd/commands.h"
#include "tools/graphtool/options/help.h"
#include "tools/graphtool/options/paths.h"
#include "tools/graphtool/output/table.h"
#include "tools/graphtool/ranks/world.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

static void help(void) {
    text t = {0};
    int columns = help_columns();
    const char *bold = out_is_coloured(stdout) ? "\033[1m" : "", *plain = *bold ? "\033[0m" : "";
    text_wrap(
        &t,
        "Usage: graphtool COMMAND [MODEL] [OPTION]...\nInspects, draws, compiles, trains and runs models "
        "of static op graphs.\n\n",
        0, 0, columns);
    for (int i = 0; commands[i]; i++) {
        enum { TEXT = 13 }; /* the column where summaries begin */
        text_add(&t, "  %s%-9s%s", bold, commands[i]->name, plain);
        text_wrap(&t, commands[i]->summary, TEXT - 2, TEXT, columns);
        text_end_line(&t);
    }
    text_wrap(
        &t,
        "\ngraphtool help COMMAND lists its options. Exit status: 0 success, 1 failure, 2 wrong usage, 7 "
        "another rank is lost, 8 a bad step or numbers that are not finite, 130 stopped and saved.\n"
        "Example: graphtool dot model.bin -T svg -o model.svg\n",
        0, 0, columns);
    out_text(NULL, &t);
}

/* The actions of a command: name, arguments, summary and options of each. */
static json_t *actions_json(const command *c) {
    json_t *list = json_array();
    for (const command_action *a = c->actions; a && a->name; a++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "name", a->name, "arguments",
                                              action_arguments(a), "summary", a->summary));
    return list;
}

/* Prints all commands and their options for tools/scripts/manual.py, which makes manual pages and completions
 * from them. */
static void print_table(void) {
    json_t *list = json_array();
    for (int i = 0; commands[i]; i++) {
        const command *c = commands[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "name", c->name,
                                              "summary", c->summary, "details", c->details ? c->details : "",
                                              "example", c->example, "arguments", command_arguments(c),
                                              "actions", actions_json(c), "options", options_json(c)));
    }
    out_json(NULL, json_pack("{s:s, s:o}", "version", weft_version(), "commands", list));
}

static const command *need_command(const char *name) {
    const command *c = command_find(name);
    if (c) return c;
    names known = command_names(name);
    names_refuse(&known, "no command '%.60s'", name);
}

/* If descriptor 0, 1 or 2 is closed, the first file opened would get its number and receive what is printed.
 * So closed ones are opened in the wrong direction, and each use fails. A file that grows past its limit is a
 * write error, not a signal. */
static void guard_process(void) {
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd) return;
    signal(SIGXFSZ, SIG_IGN);
}

/* Options and what a command opens are on the stack, and threads get as much of it as the first one. */
enum { STACK_KIB = 256 };
static void check_stack(void) {
    struct rlimit limit;
    if (!getrlimit(RLIMIT_STACK, &limit) && limit.rlim_cur < STACK_KIB << 10)
        tool_fail("the stack may have %llu KiB (ulimit -s), and %d are needed",
                  (unsigned long long)limit.rlim_cur >> 10, STACK_KIB);
}

/* UCX takes SIGHUP and the signals of errors when it is loaded, before main. What holds before that is noted
 * by a function of .preinit_array, and given back. */
static const int taken[] = {SIGHUP, SIGILL, SIGBUS, SIGFPE, SIGSEGV};
enum { TAKEN = sizeof taken / sizeof *taken };
static struct sigaction noted[TAKEN];

static void note_signals(int argc, char **argv, char **environment) {
    (void)argc, (void)argv, (void)environment;
    for (int i = 0; i < TAKEN; i++) sigaction(taken[i], NULL, &noted[i]);
}
__attribute__((section(".preinit_array"), used)) static void (*const noting)(int, char **,
                                                                             char **) = note_signals;

static void give_signals_back(void) {
    for (int i = 0; i < TAKEN; i++) {
        struct sigaction now;
        Dl_info of;
        if (sigaction(taken[i], NULL, &now) || now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)
            continue;
        bool is_ucx = dladdr((const void *)(uintptr_t)now.sa_handler, &of) && of.dli_fname &&
                      strstr(of.dli_fname, "libucs");
        if (is_ucx) sigaction(taken[i], &noted[i], NULL);
    }
}

/* Errors of parsing are JSON, too. */
static bool asks_for_json(const command *c, int argc, char **argv) {
    bool is_json = false;
    for (int i = 1; i < argc; i++) is_json |= strcmp(argv[i], "--json") == 0 || strcmp(argv[i], "-j") == 0;
    return is_json && command_has_option(c, "json");
}

/* Makes OpenMP's threads sleep sooner when they wait, by restarting the program with GOMP_SPINCOUNT set,
 * which libgomp reads before main. Returns if it is set already or the restart fails; then nothing has
 * changed.
 *
 * libgomp's threads spin for milliseconds before they sleep. On a machine with other work that delays the
 * very thread they wait for. Steps on 2 cores of a Zen 5, medians in ms, all in one run in turns
 * (GOMP_SPINCOUNT=N graphtool bench gpt.bin -t 2, layers 2, d 64, ctx 32, batch 32; convnet, batch 16, f32
 * and bf16), alone and beside a busy process:
 *     spins        alone: gpt, convnet, bf16      beside: gpt, convnet, bf16
 *     0            9.9    13.9    9.2             7.8     13.7    10.2
 *     500          5.5    9.6     7.1             10.4    15.6    12.4
 *     3000         4.9    8.4     7.1             15.5    24.8    17.0
 *     10000        4.9    9.1     7.2             16.7    29.1    12.7
 *     one thread   6.9    13.1    9.1             6.7     12.6    9.3
 * bench/busy.sh makes such a table; docs/benchmarks.md has one. */
static void calm_threads(char **argv) {
    char self[4096];
    if (getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY")) return;
    /* not the link itself: ps would show "exe" */
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) return;
    self[n] = 0;
    if (setenv("GOMP_SPINCOUNT", "500", 1) == 0) execv(self, argv);
}

/* Joins the other ranks as the command's row says. */
static int run_command(const command *c, int argc, char **argv) {
    options *o = tool_new(1, sizeof *o);
    if (asks_for_json(c, argc, argv)) tool_speak_json();
    check_stack();
    if (c->ranks != COMMAND_ALONE) calm_threads(argv); /* first: a file of options may be a pipe */
    options_parse(c, argc - 1, argv + 1, o);
    paths_check(o);
    if (c->ranks == COMMAND_JOINS || c->ranks == COMMAND_LEADS) world_open(o, NULL);
    return o->action ? o->action->run(o) : c->run(o);
}

static bool is_one_of(const char *name, const char *is, const char *or_is) {
    return strcmp(name, is) == 0 || strcmp(name, or_is) == 0;
}

int main(int argc, char **argv) {
    /* after the restart by calm_threads the name would be "exe" */
    prctl(PR_SET_NAME, "graphtool", 0, 0, 0);
    give_signals_back();
    guard_process();
    out_watch_json();
    if (argc < 2) tool_fail("a command is needed; see graphtool --help");
    const char *name = argv[1];
    int status = EXIT_FINE;
    if (strcmp(name, "help") == 0 && argc > 2)
        help_print(need_command(argv[2]));
    else if (is_one_of(name, "--help", "-h") || strcmp(name, "help") == 0)
        help();
    else if (is_one_of(name, "--version", "-V"))
        printf("graphtool (Weft) %s\n", weft_version());
    else if (strcmp(name, "--table") == 0)
        print_table();
    else
        status = run_command(need_command(name), argc, argv);
    tool_end(status);
}
