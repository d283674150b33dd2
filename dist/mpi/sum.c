/* sum.c - sums in whatever order MPI chooses: MPI_Iallreduce and its relatives, in place, on the communicator
 * of the world or of a group. They are started here and polled with the other requests. Only making a
 * communicator waits. */
#include "dist/mpi/transport.h"

#include "dist/core/ordered.h"

/* An MPI_User_function; MPI has no bf16, so the data are declared as uint16. */
static void add_bf16(void *from, void *into, int *count, MPI_Datatype *type) {
    (void)type;
    bf16_add(into, from, (size_t)*count);
}

/* Makes the operation for bf16 and the memory of the first group. */
weft_status mpi_sums_open(mpi_transport *m, weft_error *error) {
    int code = MPI_Op_create(add_bf16, 1, &m->add_bf16);
    if (code) return mpi_fail(error, "MPI_Op_create", code);
    m->spare = mem_new(&m->env, sizeof *m->spare);
    return m->spare ? WEFT_OK : error_memory(error, "a communicator");
}

void mpi_sums_close(mpi_transport *m) {
    while (m->groups) {
        mpi_group *g = m->groups;
        m->groups = g->next;
        MPI_Comm_free(&g->comm);
        mem_free(&m->env, g, sizeof *g);
    }
    mem_free(&m->env, m->spare, sizeof *m->spare);
    MPI_Op_free(&m->add_bf16);
}

/* Makes the communicator of a group; the members alone call it. The tag must fit MPI's least upper bound,
 * 32767. */
static int make_group(const mpi_transport *m, uint32_t id, const int *ranks, int n, MPI_Comm *comm) {
    MPI_Group all, some = MPI_GROUP_NULL;
    int code = MPI_Comm_group(m->data, &all);
    if (code) return code;
    code = MPI_Group_incl(all, n, ranks, &some);
    if (!code) code = MPI_Comm_create_group(m->data, some, (int)(id % 32768), comm);
    if (some != MPI_GROUP_NULL) MPI_Group_free(&some);
    MPI_Group_free(&all);
    return code;
}

/* The members have just met in a barrier, so none waits long for the others. A rank without memory must not
 * return before the MPI call, in which the others would wait for it. So the memory for a group is allocated
 * when the group before it is made. */
weft_status mpi_group_open(transport *t, uint32_t id, const int *ranks, int n, weft_error *error) {
    mpi_transport *m = (mpi_transport *)t;
    mpi_group *g = m->spare;
    int code = make_group(m, id, ranks, n, &g->comm);
    if (code) return mpi_fail(error, "making a group's communicator", code);
    g->id = id;
    g->next = m->groups;
    m->groups = g;
    m->spare = mem_new(&m->env, sizeof *m->spare);
    return m->spare ? WEFT_OK : error_memory(error, "a group of ranks");
}

/* The communicator of a group; the world's for id 0. */
static MPI_Comm comm_of(const mpi_transport *m, uint32_t id) {
    for (const mpi_group *g = m->groups; g; g = g->next)
        if (g->id == id) return g->comm;
    return m->data;
}

/* Starts the sum as the only request of its transfer; mpi_progress finds it done. */
weft_status mpi_sum(transport *t, uint32_t group, const unordered_sum *sum, weft_error *error) {
    mpi_transport *m = (mpi_transport *)t;
    MPI_Comm comm = comm_of(m, group);
    MPI_Request *request = &m->requests[m->n_transfers * PIECES];
    MPI_Datatype type = sum->dtype == WEFT_F64    ? MPI_DOUBLE
                        : sum->dtype == WEFT_BF16 ? MPI_UINT16_T
                                                  : MPI_FLOAT;
    MPI_Op op = sum->dtype == WEFT_BF16 ? m->add_bf16 : MPI_SUM;
    int code = 0, rank = 0;
    if (sum->kind == WEFT_COLLECTIVE_ALL_REDUCE)
        code = MPI_Iallreduce(MPI_IN_PLACE, sum->buffer, (int)sum->count, type, op, comm, request);
    if (sum->kind == WEFT_COLLECTIVE_REDUCE) {
        code = MPI_Comm_rank(comm, &rank);
        bool is_root = rank == sum->root;
        if (!code)
            code = MPI_Ireduce(is_root ? MPI_IN_PLACE : sum->buffer, is_root ? sum->buffer : NULL,
                               (int)sum->count, type, op, sum->root, comm, request);
    }
    if (sum->kind == WEFT_COLLECTIVE_REDUCE_SCATTER) {
        for (int i = 0; i < sum->n; i++) m->counts[i] = (int)(sum->counts[i].end - sum->counts[i].begin);
        code = MPI_Ireduce_scatter(MPI_IN_PLACE, sum->buffer, m->counts, type, op, comm, request);
    }
    if (code) return mpi_fail(error, "a sum", code);
    m->transfers[m->n_transfers++] = (transfer){.left = 0}; /* one request and no further pieces */
    m->n_under_way++;
    return WEFT_OK;
}
