/* window.c - the window of the ranks of one machine (dist/shm/share.h) over MPI, which carries the keys and
 * the votes and nothing else: its own shared memory (MPI_Win_allocate_shared) waits for ever where /dev/shm
 * is too small for one rank only. */
#include "dist/mpi/transport.h"

/* Fills `ranks`: the ranks in the world of this machine's ranks. Returns an MPI error code. */
static int name_ranks(const mpi_transport *m, int *ranks) {
    MPI_Group all = MPI_GROUP_NULL, here = MPI_GROUP_NULL;
    int code = MPI_Comm_group(m->data, &all);
    if (!code) code = MPI_Comm_group(m->host, &here);
    for (int i = 0; !code && i < m->t.local_world; i++)
        code = MPI_Group_translate_ranks(here, 1, &i, all, &ranks[i]);
    if (here != MPI_GROUP_NULL) MPI_Group_free(&here);
    if (all != MPI_GROUP_NULL) MPI_Group_free(&all);
    return code;
}

static weft_status gather_keys(transport *t, const char *what, void *parts, size_t bytes, weft_error *error) {
    return mpi_gather((mpi_transport *)t, what, parts, bytes, error);
}

static weft_status find_least(transport *t, const char *what, int64_t *value, weft_error *error) {
    mpi_transport *m = (mpi_transport *)t;
    weft_status status = mpi_least(m, what, *value, error);
    *value = m->least;
    return status;
}

static weft_status vote_on(transport *t, const char *what, const char *why, vote *outcome,
                           weft_error *error) {
    mpi_transport *m = (mpi_transport *)t;
    weft_status status = mpi_settle(m, m->host, what, why, error);
    outcome->first = m->vote.first;
    text_cut(outcome->why, m->vote.why, sizeof outcome->why);
    return status;
}

weft_status mpi_window_open(mpi_transport *m, weft_error *error) {
    static const share_calls calls = {gather_keys, find_least, vote_on};
    int code = name_ranks(m, m->counts);
    if (code) return mpi_fail(error, "MPI_Group_translate_ranks", code);
    const share_options options = {&m->env, m->window_bytes, m->counts};
    return share_window(&m->t, &calls, &options, error);
}
