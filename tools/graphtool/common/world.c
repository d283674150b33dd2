/* world.c - this process's rank, sums of a few numbers over ranks, and how all ranks end when one cannot go
 * on. */
#include "tools/graphtool/common/world.h"

#include "tools/graphtool/common/lost.h"
#include "tools/graphtool/common/rules.h"

#include "runtime/plan/program.h"

#include <string.h>
#include <unistd.h>

extern char **environ; /* no POSIX header declares it */

/* How this process was started; static because the communicator's log needs it too. */
static weft_launch launch = {.launcher = "none", .world = 1};

bool world_is_launched(void) {
    return strcmp(launch.launcher, "none") != 0;
}

int world_rank(const options *o) {
    return o->comm ? o->comm->rank : 0;
}

int world_size(const options *o) {
    return o->comm ? o->comm->world : 1;
}

/* ---- joining ---- */

/* A rank other than 0 does the same work and shows none of it. */
static int be_silent(options *o) {
    o->output = o->log = o->work_dir = NULL;
    o->profile = false;
    return freopen("/dev/null", "w", stdout) ? -1 : tool_fail("/dev/null cannot be opened");
}

/* A way that joins the ranks through the host's memory. */
typedef struct host_way {
    const char *name;
    weft_comm *(*join)(const weft_launch *launch, const weft_comm_options *how, weft_error *error);
} host_way;

static const host_way *find_way(const char *name) {
#define WAY(name, joins) {#name, joins},
    static const host_way ways[] = {WEFT_COMM_LIST(WAY)};
#undef WAY
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i].name, name) == 0) return &ways[i];
    return NULL;
}

/* Through the host's memory: as --comm says, or by MPI; ranks of torchrun and graphtool launch know nothing
 * of MPI, and need no library if they are all on this machine. */
static weft_comm *join_host(const char *name, const weft_comm_options *how, weft_error *error) {
    bool is_env = strcmp(launch.launcher, "env") == 0, is_here = launch.local_world == launch.world;
    if (!name) name = !is_env ? "mpi" : is_here ? "local" : "ucx";
    return find_way(name)->join(&launch, how, error);
}

/* How the ranks join: as --comm says, else by NCCL where each has a GPU, alone or beside MPI. */
static weft_status join_launcher(options *o, const weft_comm_options *how, weft_error *error) {
    const char *said = option_choice(o->way, option_ways) ? o->way : NULL; /* NULL: auto */
    bool is_nccl = said ? strcmp(said, "nccl") == 0 : o->compile.device == WEFT_DEVICE_CUDA;
    bool is_alone = is_nccl && (said || strcmp(launch.launcher, "env") == 0);
    if (!is_alone) o->comm = join_host(said, how, error);
    if (!is_alone && !o->comm) return error->status;
    if (!is_nccl) return WEFT_OK;
    int gpu = is_alone ? launch.local_rank : o->comm->local_rank;
    if (weft_cuda_select(gpu, error)) return error->status;
    weft_comm *nccl =
        is_alone ? weft_comm_nccl_launch(&launch, how, error) : weft_comm_nccl(o->comm, NULL, error);
    if (!nccl) return error->status;
    o->comm = nccl;
    return WEFT_OK;
}

/* Compares the command, then options, model and environment, before they are used. Data are compared where
 * loaders open them. */
static int compare_ranks(const options *o) {
    option_settings all;
    weft_setting settings[SETTINGS_MOST], command = {"the command is", o->command->name};
    weft_error error = {0};
    options_settings(o, &all);
    for (int i = 0; i < all.n; i++) settings[i] = (weft_setting){all.names[i], all.values[i]};
    weft_status status = weft_comm_compare(o->comm, &command, 1, &error);
    if (!status) status = weft_comm_compare(o->comm, settings, all.n, &error);
    options_settings_free(&all);
    return status ? tool_error(&error) : -1;
}

/* A file that rank 0 writes may be named by all ranks or by rank 0 alone; a different file on another rank
 * would never be written. */
static int compare_file(const options *o, const char *name, const char *own) {
    enum { PATH_BYTES = 1024 };
    char first[PATH_BYTES] = "";
    weft_error error = {0};
    if (!o->comm->rank) snprintf(first, sizeof first, "%s", own ? own : "");
    weft_collective all = {.kind = WEFT_BROADCAST,
                           .dtype = WEFT_U8,
                           .buffer = first,
                           .count = sizeof first,
                           .name = "names of files"};
    if (weft_comm_run(o->comm, &all, &error)) return tool_error(&error);
    if (!own || strncmp(own, first, sizeof first - 1) == 0) return -1;
    return tool_fail("--%s=%s: only rank 0 writes, and it was given %s: give this rank the same, or none",
                     name, SHOW_PATH(own), *first ? SHOW_PATH(first) : "not given");
}

/* Prints how the ranks communicate; called on the first rank of each machine. */
static void tell_log(void *context, const char *line) {
    (void)context;
    if (launch.rank)
        fprintf(stderr, "rank %d: %s\n", launch.rank, line);
    else
        fprintf(stderr, "%s\n", line);
}

/* Who this rank is, once, as sessions tell their logs; the strategy if it was asked for, as a model is read
 * later. */
static void tell_rank(const options *o) {
    fprintf(stderr, "rank %d of %d: %s, %s%s%s\n", o->comm->rank, o->comm->world,
            device_name(o->compile.device), o->comm->kind, o->compile.strategy ? ", strategy " : "",
            o->compile.strategy ? o->compile.strategy : "");
}

/* Ranks that did not come are told by each that waited for them. MPI may hang when the process ends. */
static int fail_to_join(const options *o, const weft_error *error) {
    if (!o->comm && error->status == WEFT_PEER) {
        tool_report(error->text, NULL);
        lost_end_in(3);
        return EXIT_PEER;
    }
    int status = tool_error(error);
    if (!o->comm) tool_tell_held(NULL);
    return status;
}

int world_open(options *o, world_use use, const weft_comm_options *how) {
    weft_error error = {0};
    if (weft_launch_read(o->launcher, environ, &launch, &error)) return tool_error(&error);
    /* a launcher may start a single rank, so that one script works for any number */
    bool is_alone = use == WORLD_LEADS ? launch.rank == 0 : !world_is_launched();
    if (is_alone) rules_alone(o);
    if (launch.world == 1) return -1;
    if (use == WORLD_LEADS) return launch.rank ? EXIT_FINE : -1;
    tool_speak_as(launch.rank);
    const weft_env env = {.log = tell_log};
    weft_comm_options with = how ? *how : (weft_comm_options){0};
    with.deadline_seconds = o->timeout;
    with.env = &env;
    with.lost = lost_tell;
    const char *output = o->output, *log = o->log;
    int status = lost_prepare(o, launch.rank);
    if (status < 0 && launch.rank) status = be_silent(o);
    if (status >= 0) return status;
    if (join_launcher(o, &with, &error)) return fail_to_join(o, &error);
    tell_rank(o);
    status = lost_watch(o->comm);
    if (status < 0) status = compare_ranks(o);
    if (status < 0) status = compare_file(o, "output", output);
    return status < 0 ? compare_file(o, "log", log) : status;
}

/* ---- leaving ---- */

/* An error is printed once, by the rank that met it, before it ends the others. Ranks that only learned of it
 * wait before they print; if all ranks met the same error, rank 0 prints first.
 * Numbers that all ranks have found to be none need no abort: the status of each is the launcher's. */
int world_close(options *o, int status) {
    if (lost_is_told()) status = EXIT_PEER;
    bool is_common = status == EXIT_FINE || status == EXIT_INTERRUPTED || status == EXIT_NUMBERS;
    if (o->comm && is_common) {
        tool_tell_once();
        lost_leave();
        weft_comm_free(o->comm);
    } else if (o->comm) {
        if (!lost_is_told()) lost_leave(); /* SIGTERM ends those that wait behind the rank that tells it */
        tool_tell_held(o->comm);
        fflush(stdout);
        weft_comm_abort(o->comm, "graphtool ended with an error");
    }
    o->comm = NULL;
    return status;
}

/* ---- sums ---- */

/* 64 KiB of scratch are enough for WORLD_MOST numbers in worlds of up to 8,192 ranks. */
int world_sum(const options *o, int n, double *values) {
    enum { SCRATCH = 1 << 16 };
    _Alignas(64) char scratch[SCRATCH];
    weft_error error = {0};
    if (!o->comm) return -1;
    weft_collective sum = {.kind = WEFT_ALL_REDUCE,
                           .dtype = WEFT_F64,
                           .buffer = values,
                           .count = (size_t)n,
                           .scratch = scratch,
                           .scratch_bytes = sizeof scratch,
                           .name = "figures"};
    return weft_comm_run(o->comm, &sum, &error) ? tool_error(&error) : -1;
}
