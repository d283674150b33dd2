/* exchange.h - bytes from one rank to all, or one number of each rank to all. */
#ifndef WEFT_DIST_CORE_EXCHANGE_H
#define WEFT_DIST_CORE_EXCHANGE_H

#include "weft/comm.h"

/* All ranks get one number of each: votes[world]. `comm` is not NULL. */
weft_status comm_exchange(weft_comm *comm, const char *name, int32_t *votes, int32_t own, weft_error *error);
/* All ranks have the bytes of rank `from` when it returns. `comm` NULL, or of one rank: nothing is sent. */
weft_status comm_share(weft_comm *comm, int from, const char *name, void *bytes, size_t n, weft_error *error);

#endif
