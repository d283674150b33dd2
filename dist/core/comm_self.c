/* comm_self.c - the world of one rank. Every collective is done when it is started and copies nothing,
 * because the sum of one contribution is that contribution. Only a failure or an abort that the program
 * itself reports can make it fail. */
#include "dist/core/collective.h"
#include "dist/core/comm_options.h"

typedef struct self_comm {
    weft_comm comm; /* first: what the caller holds */
    weft_env env;
    uint64_t started;
    weft_error failure; /* set by fail and abort; sticky */
} self_comm;

/* The sticky failure; WEFT_OK while there is none. */
static weft_status self_failed(const self_comm *s, weft_error *error) {
    if (error && s->failure.status) *error = s->failure;
    return s->failure.status;
}

/* In place: the buffer already holds the result, whatever the kind and root. */
static weft_status self_start(weft_comm *comm, const weft_collective *c, uint64_t *ticket,
                              weft_error *error) {
    self_comm *s = (self_comm *)comm;
    (void)c;
    *ticket = ++s->started;
    return self_failed(s, error);
}

/* A ticket is the count of started collectives; all that were issued are done. */
static weft_status self_test(weft_comm *comm, uint64_t ticket, bool *is_done, weft_error *error) {
    const self_comm *s = (self_comm *)comm;
    *is_done = ticket <= s->started;
    return self_failed(s, error);
}

static weft_status self_wait(weft_comm *comm, uint64_t ticket, weft_error *error) {
    (void)ticket;
    return self_failed((self_comm *)comm, error);
}

/* The only possible group is this rank again; weft_comm_group has checked the list. */
static weft_status self_group(weft_comm *comm, const int *ranks, int n, weft_comm **group,
                              weft_error *error) {
    const self_comm *s = (self_comm *)comm;
    (void)ranks, (void)n;
    *group = weft_comm_self(&(weft_comm_options){.env = &s->env}, error);
    return *group ? WEFT_OK : WEFT_MEMORY;
}

static weft_status self_poll(weft_comm *comm, weft_error *error) {
    return self_failed((self_comm *)comm, error);
}

/* The first failure is kept; abort replaces it. */
static void self_fail(weft_comm *comm, const char *reason) {
    weft_error *failure = &((self_comm *)comm)->failure;
    if (!failure->status) error_set(failure, WEFT_PEER, "%s", reason);
}

static void self_abort(weft_comm *comm, const char *reason) {
    error_set(&((self_comm *)comm)->failure, WEFT_PEER, "rank 0 was aborted: %s", reason);
}

static void self_free(weft_comm *comm) {
    weft_env env = ((self_comm *)comm)->env;
    mem_free(&env, comm, sizeof(self_comm));
}

static const weft_comm_calls self_calls = {
    .start = self_start,
    .test = self_test,
    .wait = self_wait,
    .group = self_group,
    .abort = self_abort,
    .free = self_free,
    .poll = self_poll,
    .fail = self_fail,
};

/* The environment is copied, as groups and free need it later. */
weft_comm *weft_comm_self(const weft_comm_options *options, weft_error *error) {
    const weft_env *env = options ? options->env : NULL;
    if (comm_options_check(options, error)) return NULL;
    self_comm *s = mem_new(env, sizeof *s);
    if (!s) {
        error_memory(error, "a communicator");
        return NULL;
    }
    if (env) s->env = *env;
    s->comm = (weft_comm){&self_calls, "self", 0, 1, 0, 1};
    return &s->comm;
}
