/* comm_options.c - see comm_options.h. */
#include "dist/core/comm_options.h"

#include "weft/field.h"

extern char **environ; /* POSIX declares it nowhere */

#define MOST_SECONDS 1e9 /* 31 years; in nanoseconds it fits a uint64_t */

static const weft_field fields[] = {
    WEFT_FIELD(weft_comm_options, deadline_seconds, REAL, 0, MOST_SECONDS, "300",
               "seconds for each step of a collective"),
    WEFT_FIELD(weft_comm_options, nap_seconds, REAL, 0, MOST_SECONDS,
               "0.00005 on one machine, 0.0005 on several", "seconds between two looks for progress"),
    WEFT_FIELD(weft_comm_options, window_bytes, COUNT, -WEFT_COUNT_MOST, WEFT_COUNT_MOST,
               "8 MiB; of threads no memory",
               "bytes per rank of memory that a machine's ranks share; negative: no such memory"),
    WEFT_FIELD_END(weft_comm_options),
};

const weft_field *weft_comm_fields(void) {
    return fields;
}

weft_status comm_options_check(const weft_comm_options *options, weft_error *error) {
    return options ? weft_fields_check(fields, options, "weft_comm_options", error) : WEFT_OK;
}

double comm_deadline(const weft_comm_options *options) {
    return options && options->deadline_seconds > 0 ? options->deadline_seconds : WEFT_COMM_DEADLINE;
}

const weft_launch *comm_launch(const weft_launch *launch, const char *call, weft_launch *found,
                               weft_error *error) {
    if (!launch && weft_launch_read("auto", environ, found, error)) return NULL;
    if (!launch) launch = found;
    if (launch->rank >= 0 && launch->rank < launch->world) return launch;
    error_set(error, WEFT_ARGUMENT, "%s: rank %d of %d", call, launch->rank, launch->world);
    return NULL;
}
