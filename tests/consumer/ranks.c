/* ranks.c - a program that links libweft_mpi, or libweft_ucx: with one rank or several, the sum of ones is
 * the number of ranks. */
#include "consumer.h"

#include <stdlib.h>

#ifndef OVER
#define OVER weft_comm_mpi
#endif

int main(void) {
    weft_error error = {WEFT_OK, ""};
    weft_comm *comm = OVER(NULL, NULL, &error);
    if (!comm) return puts(error.text), 1;
    double one = 1;
    size_t bytes = weft_collective_scratch(WEFT_COLLECTIVE_ALL_REDUCE, WEFT_F64, 0, 1, comm->world);
    void *scratch = aligned_alloc(64, (bytes + 64) / 64 * 64);
    weft_collective sum = {.kind = WEFT_COLLECTIVE_ALL_REDUCE,
                           .dtype = WEFT_F64,
                           .buffer = &one,
                           .count = 1,
                           .scratch = scratch,
                           .scratch_bytes = bytes};
    weft_comm_run(comm, &sum, &error);
    printf("rank %d of %d: %g %s\n", comm->rank, comm->world, one, error.text);
    int wrong = error.status || one != comm->world || !own_names();
    weft_comm_free(comm);
    free(scratch);
    return wrong;
}
