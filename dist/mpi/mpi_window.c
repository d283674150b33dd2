/* mpi_window.c - the window of the ranks of one machine, in memory from MPI_Win_allocate_shared. Where it cannot be had
 * (a full /dev/shm, an MPI without it), messages do: all ranks of the machine decide alike. */
#include "dist/mpi/mpi_transport.h"

/* The least of all ranks' values. */
static int agree(const mpi_transport *m, int64_t *value) {
    return MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_INT64_T, MPI_MIN, m->host);
}

static int take_memory(mpi_transport *m, size_t bytes) {
    MPI_Info info;
    void *own;
    int code = MPI_Info_create(&info);
    if (code) return code;
    code = MPI_Info_set(info, "alloc_shared_noncontig", "true"); /* every piece near its rank */
    if (!code)
        code = MPI_Win_allocate_shared((MPI_Aint)(bytes + MEM_ALIGN), 1, info, m->host, &own, &m->memory);
    MPI_Info_free(&info);
    if (code) return code;
    m->has_memory = true;
    return MPI_Win_lock_all(MPI_MODE_NOCHECK, m->memory);
}

/* Pages begin alike in all processes, so every rank finds the same place for a piece. */
static int find_pieces(const mpi_transport *m, window *w) {
    int code = 0;
    for (int i = 0; i < w->n && !code; i++) {
        MPI_Aint bytes;
        int unit;
        char *at;
        code = MPI_Win_shared_query(m->memory, i, &bytes, &unit, &at);
        if (!code) w->pieces[i] = at + (size_t)(-(uintptr_t)at % MEM_ALIGN);
    }
    return code;
}

static window *make_window(const mpi_transport *m, size_t data_bytes) {
    int n = m->t.local_world;
    int *ranks = mem_new_array(&m->env, (size_t)n, sizeof *ranks);
    window *w = NULL;
    if (!ranks) return NULL;
    if (MPI_Allgather(&m->t.rank, 1, MPI_INT, ranks, 1, MPI_INT, m->host) == MPI_SUCCESS)
        w = window_new(&m->env, m->t.world, ranks, n, m->t.local_rank, data_bytes);
    mem_free(&m->env, ranks, (size_t)n * sizeof *ranks);
    return w;
}

weft_status mpi_window_open(mpi_transport *m, weft_error *error) {
    int n = m->t.local_world;
    int64_t bytes = m->window_bytes ? m->window_bytes : WINDOW_DEFAULT;
    int code = agree(m, &bytes);
    if (code) return mpi_fail(error, "asking for a window", code);
    if (n < 2 || bytes < 0 || !window_is_enough(n, (size_t)bytes)) return WEFT_OK;
    window *w = make_window(m, (size_t)bytes);
    int64_t is_good = w && !take_memory(m, w->piece_bytes) && !find_pieces(m, w);
    if (is_good) window_clean(w);
    code = agree(m, &is_good); /* and all pieces are clean now */
    m->t.window = is_good ? w : NULL;
    if (!is_good) window_free(w);
    return code ? mpi_fail(error, "making a window", code) : WEFT_OK;
}

void mpi_window_close(mpi_transport *m) {
    if (!m->has_memory) return;
    MPI_Win_unlock_all(m->memory);
    MPI_Win_free(&m->memory);
}
