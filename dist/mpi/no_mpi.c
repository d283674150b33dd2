/* no_mpi.c - libweft_mpi in a build without MPI: weft_comm_mpi fails and explains how to build with MPI. */
#include "graph/core/error.h"
#include "weft/comm.h"

weft_comm *weft_comm_mpi(const weft_launch *launch, const weft_comm_options *options, weft_error *error) {
    (void)launch, (void)options;
    error_set(error, WEFT_UNSUPPORTED,
              "this build has no MPI: install one (libopenmpi-dev) and configure with "
              "-DWEFT_MPI=ON");
    return NULL;
}
