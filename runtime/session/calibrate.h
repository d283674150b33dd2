/* calibrate.h - measures a table of kernel choices (ops/calibration.h) on the GPU of a session. */
#ifndef WEFT_RUNTIME_SESSION_CALIBRATE_H
#define WEFT_RUNTIME_SESSION_CALIBRATE_H

#include "runtime/session/state.h"

/* Writes the whole table, begun with `comment`: a line for every node of the plan whose kernel has several
 * ways, equal nodes once. *n becomes the number of lines. Uses GPU memory of its own, node by node. */
weft_status session_calibrate(weft_session *s, const char *comment, text *table, int *n, weft_error *error);

#endif
