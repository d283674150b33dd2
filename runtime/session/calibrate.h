/* calibrate.h - measures a table of kernel choices (ops/calibration.h) on the GPU of a session, node by node:
 * it takes minutes, and whoever stops it has a table of what is measured so far. */
#ifndef WEFT_RUNTIME_SESSION_CALIBRATE_H
#define WEFT_RUNTIME_SESSION_CALIBRATE_H

#include "ops/calibration.h"
#include "runtime/session/state.h"

/* A node to measure, and the key of its line. */
typedef struct calibrated {
    const weft_node *node;
    char *key;
} calibrated;

/* Between begin and end. */
typedef struct calibrating {
    weft_session *session;
    /* A node for every line: nodes whose kernel has several ways, those of training graphs first, equal nodes
     * once. */
    calibrated *nodes;
    int n_nodes, n_done, n_skipped; /* n_skipped: of the first n_done, those that have no line */
    text table;                     /* a whole table of the first n_done nodes */
    tuned last;                     /* what was found for node n_done - 1 */
    weft_error why;                 /* why that node was skipped; WEFT_OK: it was measured */
} calibrating;

/* The table begins with `comment`. Call calibrate_end also after a failure. */
weft_status calibrate_begin(calibrating *c, weft_session *s, const char *comment, weft_error *error);
/* Measures the next node, with GPU memory of its own. A node that no way can run is skipped; an error is out
 * of memory, or a device that failed, as the nodes after it would fail too. Not to be called once n_done is
 * n_nodes. */
weft_status calibrate_next(calibrating *c, weft_error *error);
/* WEFT_UNSUPPORTED if all nodes so far were skipped and there is one. */
weft_status calibrate_check(const calibrating *c, weft_error *error);
void calibrate_end(calibrating *c);

#endif
