/* comm.c - the public weft_comm_* calls: they check the arguments that every communicator needs checked,
 * then call through the communicator's table of functions. A function that the table leaves out (place,
 * poll, fail) does nothing. */
#include "dist/core/collective.h"

/* The collective is checked here once, so the tables' functions rely on its arguments. */
weft_status weft_comm_start(weft_comm *comm, const weft_collective *c, uint64_t *ticket, weft_error *error) {
    if (!comm || !c || !ticket)
        return error_set(error, WEFT_ARGUMENT, "weft_comm_start: an argument is NULL");
    weft_status status = collective_check(c, comm->world, error);
    return status ? status : comm->calls->start(comm, c, ticket, error);
}

weft_status weft_comm_test(weft_comm *comm, uint64_t ticket, bool *is_done, weft_error *error) {
    if (!comm || !is_done) return error_set(error, WEFT_ARGUMENT, "weft_comm_test: an argument is NULL");
    return comm->calls->test(comm, ticket, is_done, error);
}

weft_status weft_comm_wait(weft_comm *comm, uint64_t ticket, weft_error *error) {
    if (!comm) return error_set(error, WEFT_ARGUMENT, "weft_comm_wait: no communicator");
    return comm->calls->wait(comm, ticket, error);
}

/* For callers that have nothing to do meanwhile. */
weft_status weft_comm_run(weft_comm *comm, const weft_collective *c, weft_error *error) {
    uint64_t ticket;
    weft_status status = weft_comm_start(comm, c, &ticket, error);
    return status ? status : weft_comm_wait(comm, ticket, error);
}

/* A group needs 1 to world different ranks. Only the table's function knows how a group of that transport
 * is made. */
weft_status weft_comm_group(weft_comm *world, const int *ranks, int n, weft_comm **group, weft_error *error) {
    if (!world || !group || (n && !ranks))
        return error_set(error, WEFT_ARGUMENT, "weft_comm_group: an argument is NULL");
    *group = NULL;
    if (n < 1 || n > world->world)
        return error_set(error, WEFT_ARGUMENT, "a group of %d ranks in a world of %d", n, world->world);
    for (int i = 0; i < n; i++) {
        if (ranks[i] < 0 || ranks[i] >= world->world)
            return error_set(error, WEFT_ARGUMENT, "a group names rank %d, but the world has %d ranks",
                             ranks[i], world->world);
        for (int k = 0; k < i; k++)
            if (ranks[k] == ranks[i])
                return error_set(error, WEFT_ARGUMENT, "a group names rank %d twice", ranks[i]);
    }
    return world->calls->group(world, ranks, n, group, error);
}

void weft_comm_place(weft_comm *comm, const char *place) {
    if (comm && comm->calls->place) comm->calls->place(comm, place);
}

/* A communicator without `poll` cannot fail between calls. */
weft_status weft_comm_poll(weft_comm *comm, weft_error *error) {
    if (!comm) return error_set(error, WEFT_ARGUMENT, "weft_comm_poll: no communicator");
    return comm->calls->poll ? comm->calls->poll(comm, error) : WEFT_OK;
}

static const char *some(const char *reason) {
    return reason ? reason : "no reason given";
}

void weft_comm_fail(weft_comm *comm, const char *reason) {
    if (comm && comm->calls->fail) comm->calls->fail(comm, some(reason));
}

bool weft_comm_write_ring(weft_comm *comm, int fd, uint64_t job, uint64_t job_ns) {
    return comm && comm->calls->write_ring && comm->calls->write_ring(comm, fd, job, job_ns);
}

/* Every table has abort and free. */
void weft_comm_abort(weft_comm *comm, const char *reason) {
    if (comm) comm->calls->abort(comm, some(reason));
}

void weft_comm_free(weft_comm *comm) {
    if (comm) comm->calls->free(comm);
}
