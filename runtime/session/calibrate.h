/* calibrate.h - measuring a table of choices (ops/calibration.h) on the GPU of a session. */
#ifndef WEFT_RUNTIME_SESSION_CALIBRATE_H
#define WEFT_RUNTIME_SESSION_CALIBRATE_H

#include "runtime/session/state.h"

/* The whole table for every node of the session's plan whose kernel has several ways, begun with `comment`. Takes memory
 * of its own on the GPU, node by node. *n: lines. */
weft_status session_calibrate(weft_session *s, const char *comment, text *table, int *n, weft_error *error);

#endif
