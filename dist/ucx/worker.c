/* worker.c - what a rank opens of UCX before it meets the others; its errors, tags and requests.
 *
 * UCX is a guest in the process: it sets handlers for signals like SIGSEGV when it is loaded, patches mmap to
 * know of GPU memory, and prints to stdout. The first is undone here, the others are switched off unless the
 * user's UCX_ variables ask for them. */
#include "dist/ucx/transport.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/debug.h>

extern char **environ; /* POSIX declares it nowhere */

enum { OWN_FILES = 64, FILES_EACH = 4 }; /* files that UCX opens, and about as many for each rank */

weft_status ucx_fail(weft_error *error, weft_status kind, const char *what, ucs_status_t status) {
    return error_set(error, kind, "%s failed: %s (UCX)", what, ucs_status_string(status));
}

uint64_t ucx_tag(ucx_kind kind, int from, uint32_t number) {
    return (uint64_t)kind << 60 | (uint64_t)from << 32 | number;
}

bool ucx_is_over(ucs_status_ptr_t *request, ucs_status_t *status) {
    *status = UCS_OK;
    if (!*request) return true;
    *status = UCS_PTR_IS_ERR(*request) ? UCS_PTR_STATUS(*request) : ucp_request_check_status(*request);
    if (*status == UCS_INPROGRESS) return false;
    if (!UCS_PTR_IS_ERR(*request)) ucp_request_free(*request);
    *request = NULL;
    return true;
}

/* Is the variable in the environment? */
static bool is_set(const char *name) {
    size_t n = strlen(name);
    for (char **e = environ; e && *e; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=') return true;
    return false;
}

/* What UCX does to the process when it is loaded, as far as it can be undone. */
void ucx_tame(void) {
    static const int errors[] = {SIGILL, SIGSEGV, SIGBUS, SIGFPE};
    for (size_t i = 0; i < sizeof errors / sizeof *errors && !is_set("UCX_HANDLE_ERRORS"); i++)
        ucs_debug_disable_signal(errors[i]);
    if (!is_set("UCX_LOG_LEVEL")) ucs_global_opts_set_value("LOG_LEVEL", "fatal");
    if (!is_set("UCX_MEMTYPE_CACHE")) ucs_global_opts_set_value("MEMTYPE_CACHE", "n");
}

static void log_line(const ucx_transport *u, const char *line) {
    if (u->env.log) u->env.log(u->env.log_context, line);
}

/* UCX's own words for a limit that it meets are of many kinds, and some end the process. */
static void ask_for_files(const ucx_transport *u) {
    char line[160];
    uint64_t likes = OWN_FILES + FILES_EACH * (uint64_t)u->t.world, has = meet_raise_files(likes);
    snprintf(line, sizeof line, "the limit of open files is %llu (ulimit -n), and %d ranks may need %llu",
             (unsigned long long)has, u->t.world, (unsigned long long)likes);
    if (has < likes && !u->t.rank) log_line(u, line);
}

/* ---- the context and the worker ---- */

/* Without a network of its own, a job stays on the machine. `ways`: those that UCX may use; NULL: all. */
static ucs_status_t open_context(ucx_transport *u, const char *ways) {
    ucp_config_t *config = NULL;
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS |
                                               UCP_PARAM_FIELD_MT_WORKERS_SHARED,
                                 .features = UCP_FEATURE_TAG,
                                 .estimated_num_eps = (size_t)u->t.world};
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);
    if (status) return status;
    bool is_here = strncmp(u->launch.address, "127.", 4) == 0 || strcmp(u->launch.address, "::1") == 0 ||
                   strcmp(u->launch.address, "localhost") == 0;
    if (is_here && !is_set("UCX_NET_DEVICES")) ucp_config_modify(config, "NET_DEVICES", "lo");
    if (!is_set("UCX_KEEPALIVE_INTERVAL")) ucp_config_modify(config, "KEEPALIVE_INTERVAL", "2s");
    if (ways) ucp_config_modify(config, "TLS", ways);
    status = ucp_init(&params, config, &u->context);
    ucp_config_release(config);
    return status;
}

static ucs_status_t open_worker(ucx_transport *u) {
    const ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SINGLE};
    return ucp_worker_create(u->context, &worker, &u->worker);
}

/* Room of /dev/shm, where UCX puts memory that it shares between ranks, 4 MiB each; -1: nobody knows. */
static double shared_mib(void) {
    struct statvfs s;
    return statvfs("/dev/shm", &s) ? -1 : (double)s.f_bavail * (double)s.f_frsize / (1 << 20);
}

/* The ranks of a machine share memory of their own (dist/shm), so UCX's is not a loss. */
static ucs_status_t open_without_shared(ucx_transport *u) {
    char line[200];
    snprintf(line, sizeof line,
             "rank %d: UCX has no room in /dev/shm (%.1f MiB are left): it connects ranks in other ways",
             u->t.rank, shared_mib());
    ucp_cleanup(u->context);
    u->context = NULL;
    ucs_status_t status = open_context(u, "^shm");
    if (!status) status = open_worker(u);
    if (!status) log_line(u, line);
    return status;
}

weft_status ucx_open_worker(ucx_transport *u, weft_error *error) {
    ask_for_files(u);
    ucs_status_t status = open_context(u, NULL);
    if (status) return ucx_fail(error, WEFT_IO, "ucp_init", status);
    status = open_worker(u);
    /* the last is what 1.18 says; where memory lacks indeed, the second try says so, too */
    bool lacks_room =
        status == UCS_ERR_NO_RESOURCE || status == UCS_ERR_SHMEM_SEGMENT || status == UCS_ERR_NO_MEMORY;
    if (lacks_room && !is_set("UCX_TLS")) status = open_without_shared(u);
    if (!status) return WEFT_OK;
    if (!lacks_room || !is_set("UCX_TLS")) return ucx_fail(error, WEFT_IO, "ucp_worker_create", status);
    return error_set(
        error, WEFT_IO,
        "ucp_worker_create failed: %s (UCX): memory that it shares needs room in /dev/shm, which has "
        "%.1f MiB left: UCX_TLS=tcp,self leaves it out",
        ucs_status_string(status), shared_mib());
}
