/* comm_options.c - see comm_options.h. A NaN fails every comparison, so the check asks for what is
 * allowed. */
#include "dist/core/comm_options.h"

#define MOST_SECONDS 1e9 /* 31 years; in nanoseconds it fits a uint64_t */

static weft_status check(const char *field, double seconds, weft_error *error) {
    if (seconds >= 0 && seconds <= MOST_SECONDS) return WEFT_OK; /* false for NaN */
    return error_set(error, WEFT_ARGUMENT,
                     "weft_comm_options: %s is %g: a number of seconds from 0 (the default) to %g is needed",
                     field, seconds, MOST_SECONDS);
}

weft_status comm_options_check(const weft_comm_options *options, weft_error *error) {
    if (!options) return WEFT_OK;
    weft_status status = check("deadline_seconds", options->deadline_seconds, error);
    return status ? status : check("nap_seconds", options->nap_seconds, error);
}

double comm_deadline(const weft_comm_options *options) {
    return options && options->deadline_seconds > 0 ? options->deadline_seconds : WEFT_COMM_DEADLINE;
}
