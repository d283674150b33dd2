/* graphtool.c - the program: dispatches to the subcommands of cmd/list.h, each in one file of its name. */
#define _GNU_SOURCE /* dladdr */
#include "tools/graphtool/common/help.h"
#include "tools/graphtool/common/names.h"
#include "tools/graphtool/common/output.h"
#include "tools/graphtool/common/paths.h"
#include "tools/graphtool/common/table.h"
#include "tools/graphtool/common/world.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define X(name) extern const command command_##name;
#include "tools/graphtool/cmd/list.h"
#undef X

static const command *const commands[] = {
#define X(name) &command_##name,
#include "tools/graphtool/cmd/list.h"
#undef X
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static int help(void) {
    text t = {0};
    int columns = help_columns();
    const char *bold = out_is_coloured(stdout) ? "\033[1m" : "", *plain = *bold ? "\033[0m" : "";
    text_wrap(
        &t,
        "Usage: graphtool COMMAND [MODEL] [OPTION]...\nInspects, draws, compiles, trains and runs models "
        "of static op graphs.\n\n",
        0, 0, columns);
    for (int i = 0; i < COMMANDS; i++) {
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
    if (t.data) fputs(t.data, stdout);
    free(text_detach(&t));
    return EXIT_FINE;
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
static int print_table(void) {
    json_t *list = json_array();
    for (int i = 0; i < COMMANDS; i++) {
        char room[40];
        const command *c = commands[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "name", c->name,
                                              "summary", c->summary, "details", c->details ? c->details : "",
                                              "example", c->example, "arguments", command_arguments(c, room),
                                              "actions", actions_json(c), "options", options_json(c)));
    }
    return out_json(NULL, json_pack("{s:s, s:o}", "version", weft_version(), "commands", list));
}

/* NULL: there is none of that name. */
static const command *find_command(const char *name) {
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    return NULL;
}

static int refuse_command(const char *name) {
    names known = names_for(name);
    for (int i = 0; i < COMMANDS; i++) names_add(&known, commands[i]->name);
    return names_refuse(&known, "no command '%.60s'", name);
}

/* graphtool help COMMAND */
static int help_of(const char *name) {
    const command *c = find_command(name);
    if (!c) return refuse_command(name);
    help_print(c);
    return EXIT_FINE;
}

static int version(void) {
    printf("graphtool (Weft) %s\n", weft_version());
    return EXIT_FINE;
}

/* If descriptor 0, 1 or 2 is closed, the first file opened would get its number and receive what is printed.
 * So closed ones are opened in the wrong direction, and each use fails. A file that grows past its limit is a
 * write error, not a signal. */
static void guard_process(void) {
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd) return;
    signal(SIGXFSZ, SIG_IGN);
}

/* Options and what a command opens are on the stack, and threads get as much of it as the first one. Returns
 * -1, or the exit status. */
enum { STACK_KIB = 256 };
static int check_stack(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur >= STACK_KIB << 10) return -1;
    return tool_fail("the stack may have %llu KiB (ulimit -s), and %d are needed",
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

/* Joins the other ranks as the command's row says, and runs it. */
static int run_joined(const command *c, options *o) {
    if (c->ranks == COMMAND_ALONE || c->ranks == COMMAND_JOINS_LATER) return command_run(c, o);
    int status = world_open(o, c->ranks == COMMAND_LEADS ? WORLD_LEADS : WORLD_JOINS, NULL);
    return world_close(o, status >= 0 ? status : command_run(c, o));
}

/* Errors of parsing are JSON, too. */
static bool asks_for_json(const command *c, int argc, char **argv) {
    bool is_json = false;
    for (int i = 1; i < argc; i++) is_json |= strcmp(argv[i], "--json") == 0 || strcmp(argv[i], "-j") == 0;
    return is_json && command_has_option(c, "json");
}

static int run_command(const command *c, int argc, char **argv) {
    options o;
    if (asks_for_json(c, argc, argv)) tool_speak_json();
    int status = check_stack();
    if (status >= 0) return status;
    if (c->ranks != COMMAND_ALONE) tool_calm_threads(argv); /* first: a file of options may be a pipe */
    status = options_parse(c, argc - 1, argv + 1, &o);
    if (status < 0) status = paths_check(&o);
    if (status < 0) status = run_joined(c, &o);
    options_free(&o);
    return status;
}

int main(int argc, char **argv) {
    /* after the restart by tool_calm_threads the name would be "exe" */
    prctl(PR_SET_NAME, "graphtool", 0, 0, 0);
    give_signals_back();
    guard_process();
    out_watch_json();
    if (argc < 2) return tool_fail("a command is needed; see graphtool --help");
    const char *name = argv[1];
    if (strcmp(name, "help") == 0 && argc > 2) return out_end(help_of(argv[2]));
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
        return out_end(help());
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) return out_end(version());
    if (strcmp(name, "--table") == 0) return out_end(print_table());
    const command *c = find_command(name);
    return c ? out_end(run_command(c, argc, argv)) : refuse_command(name);
}
