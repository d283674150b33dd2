/* comm_options.h - what the options of a communicator mean, the same for all that Weft brings. */
#ifndef WEFT_DIST_CORE_COMM_OPTIONS_H
#define WEFT_DIST_CORE_COMM_OPTIONS_H

#include "graph/core/error.h"
#include "weft/comm.h"

/* Times that are no times: WEFT_ARGUMENT. */
weft_status comm_options_check(const weft_comm_options *options, weft_error *error);
double comm_deadline(const weft_comm_options *options); /* seconds, above 0 */

#endif
