/* exchange.h - a few bytes between ranks: from one to all, or one number of each. */
#ifndef WEFT_DIST_CORE_EXCHANGE_H
#define WEFT_DIST_CORE_EXCHANGE_H

#include "weft/comm.h"

/* One number of each rank: votes[world]. */
weft_status comm_exchange(weft_comm *comm, const char *name, int32_t *votes, int32_t own, weft_error *error);
/* All ranks have the bytes of rank `from` when it returns. `comm` NULL, or of one rank: nothing is sent. */
weft_status comm_send(weft_comm *comm, int from, const char *name, void *bytes, size_t n, weft_error *error);

#endif
