/* world.c - this process's rank, sums of a few numbers over ranks, and how all ranks end when one cannot
 * continue. */
#include "tools/graphtool/ranks/world.h"

#include "tools/graphtool/ranks/lost.h"
#include "tools/graphtool/options/rules.h"

#include "runtime/plan/program.h"

#include <string.h>
#include <time.h>

extern char **environ; /* no POSIX header declares it */

/* How this process was started; static because the communicator's log needs it too. */
static weft_launch launch = {.launcher = "none", .world = 1};

int world_rank(const options *o) {
    return o->comm ? o->comm->rank : 0;
}

int world_size(const options *o) {
    return o->comm ? o->comm->world : 1;
}

/* ---- joining ---- */

/* A rank other than 0 does the same work and shows none of it. */
static void be_silent(options *o) {
    o->output = o->log = o->work_dir = NULL;
    o->profile = false;
    if (!freopen("/dev/null", "w", stdout)) tool_fail("/dev/null cannot be opened");
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
static void compare_ranks(const options *o) {
    weft_setting all[SETTINGS_MOST], command = {"the command is", o->command->name};
    int n = options_settings(o, all);
    tool_must(weft_comm_compare(o->comm, &command, 1, &tool_why));
    tool_must(weft_comm_compare(o->comm, all, n, &tool_why));
}

/* A file that rank 0 writes may be named by all ranks or by rank 0 alone; a different file on another rank
 * would never be written. */
static void compare_file(const options *o, const char *name, const char *own) {
    enum { PATH_BYTES = 1024 };
    char first[PATH_BYTES] = "";
    if (!o->comm->rank) snprintf(first, sizeof first, "%s", own ? own : "");
    world_broadcast(o, 0, first, sizeof first, "names of files");
    if (own && strncmp(own, first, sizeof first - 1))
        tool_fail("--%s=%s: only rank 0 writes, and it was given %s: give this rank the same, or none", name,
                  own, *first ? first : "not given");
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

/* Ranks that did not come are reported by each that waited for them. MPI may hang when the process ends. */
static void fail_to_join(const options *o) {
    if (o->comm || tool_why.status != WEFT_PEER) tool_error(&tool_why);
    tool_report(tool_why.text, NULL);
    lost_end_in(3);
    tool_end(EXIT_PEER);
}

/* At the end. An error is printed once, by the rank that met it, before it ends the others. Ranks that only
 * learned of it wait before they print; if all ranks met the same error, rank 0 prints first.
 * Numbers that all ranks have found not to be finite need no abort: the status of each is the launcher's. */
static void leave(void *joined) {
    const options *o = joined;
    if (lost_is_told()) tool_status = EXIT_PEER;
    bool is_common =
        tool_status == EXIT_FINE || tool_status == EXIT_INTERRUPTED || tool_status == EXIT_NUMBERS;
    if (o->comm && is_common) {
        tool_tell_once();
        lost_leave();
        weft_comm_free(o->comm);
        return;
    }
    /* SIGTERM ends those that wait for the rank that reports it */
    if (o->comm && !lost_is_told()) lost_leave();
    tool_tell_held(o->comm);
    fflush(stdout);
    if (o->comm) weft_comm_abort(o->comm, "graphtool ended with an error");
}

static void number_job(const options *o) {
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t job = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    world_broadcast(o, 0, &job, sizeof job, "number of the job");
    lost_note_job(job);
}

void world_open(options *o, const weft_comm_options *how) {
    tool_must(weft_launch_read(o->launcher, environ, &launch, &tool_why));
    /* a launcher may start a single rank, so that one script works for any number */
    bool leads = o->command->ranks == COMMAND_LEADS;
    if (leads ? launch.rank == 0 : strcmp(launch.launcher, "none") == 0) rules_alone(o);
    if (leads && launch.rank) tool_end(EXIT_FINE);
    if (leads || launch.world == 1) return;
    tool_speak_as(launch.rank);
    tool_keep(o, leave);
    const weft_env env = {.log = tell_log};
    weft_comm_options with = how ? *how : (weft_comm_options){0};
    with.deadline_seconds = o->timeout;
    with.env = &env;
    with.lost = lost_tell;
    const char *output = o->output, *log = o->log;
    lost_prepare(o, launch.rank);
    if (launch.rank) be_silent(o);
    if (join_launcher(o, &with, &tool_why)) fail_to_join(o);
    tell_rank(o);
    lost_watch(o->comm);
    number_job(o);
    compare_ranks(o);
    compare_file(o, "output", output);
    compare_file(o, "log", log);
}

/* ---- a few numbers ---- */

static void run(const options *o, const weft_collective *c) {
    if (o->comm) tool_must(weft_comm_run(o->comm, c, &tool_why));
}

void world_broadcast(const options *o, int root, void *data, size_t bytes, const char *name) {
    run(o, &(weft_collective){.kind = WEFT_COLLECTIVE_BROADCAST,
                              .dtype = WEFT_U8,
                              .buffer = data,
                              .count = bytes,
                              .root = root,
                              .name = name});
}

/* 64 KiB of scratch are enough for WORLD_MOST numbers in worlds of up to 8,192 ranks. */
void world_sum(const options *o, int n, double *values) {
    enum { SCRATCH = 1 << 16, MOST = 64 };
    _Alignas(64) char scratch[SCRATCH];
    for (int i = 0; i < n; i += MOST)
        run(o, &(weft_collective){.kind = WEFT_COLLECTIVE_ALL_REDUCE,
                                  .dtype = WEFT_F64,
                                  .buffer = values + i,
                                  .count = (size_t)(n - i < MOST ? n - i : MOST),
                                  .scratch = scratch,
                                  .scratch_bytes = sizeof scratch,
                                  .name = "figures"});
}
