/* no_ucx.c - libweft_ucx in a build without UCX: weft_comm_ucx fails and explains how to build with it. */
#include "graph/core/error.h"
#include "weft/comm.h"

weft_comm *weft_comm_ucx(const weft_launch *launch, const weft_comm_options *options, weft_error *error) {
    (void)launch, (void)options;
    error_set(error, WEFT_UNSUPPORTED,
              "this build has no UCX: install it (libucx-dev) and configure with -DWEFT_UCX=ON");
    return NULL;
}
