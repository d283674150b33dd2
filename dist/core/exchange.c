/* exchange.c - bytes of one rank, or a number of each, see exchange.h. */
#include "dist/core/exchange.h"

weft_status comm_share(weft_comm *comm, int from, const char *name, void *bytes, size_t n,
                       weft_error *error) {
    weft_collective c = {.kind = WEFT_COLLECTIVE_BROADCAST,
                         .dtype = WEFT_U8,
                         .root = from,
                         .name = name,
                         .buffer = bytes,
                         .count = n};
    return comm && comm->world > 1 ? weft_comm_run(comm, &c, error) : WEFT_OK;
}

weft_status comm_exchange(weft_comm *comm, const char *name, int32_t *votes, int32_t own, weft_error *error) {
    weft_collective all = {.kind = WEFT_COLLECTIVE_ALL_GATHER,
                           .dtype = WEFT_I32,
                           .name = name,
                           .buffer = votes,
                           .count = (size_t)comm->world};
    votes[comm->rank] = own;
    return weft_comm_run(comm, &all, error);
}
