/* comm_options.h - what the arguments of a communicator mean, for all communicators that Weft brings. */
#ifndef WEFT_DIST_CORE_COMM_OPTIONS_H
#define WEFT_DIST_CORE_COMM_OPTIONS_H

#include "graph/core/error.h"
#include "weft/comm.h"

/* WEFT_ARGUMENT for a time that is negative, NaN, or above 1e9 seconds. */
weft_status comm_options_check(const weft_comm_options *options, weft_error *error);
/* The deadline in seconds, above 0: the option, or WEFT_COMM_DEADLINE if it is 0 or there are no options. */
double comm_deadline(const weft_comm_options *options);
/* `launch`, or if that is NULL what the environment of this process says, in *found. NULL with *error, which
 * names the function `call`, if the rank is not one of the world. */
const weft_launch *comm_launch(const weft_launch *launch, const char *call, weft_launch *found,
                               weft_error *error);

#endif
