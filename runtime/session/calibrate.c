/* calibrate.c - times the ways of each tunable kernel of a plan; see calibrate.h. */
#include "runtime/session/calibrate.h"

#include "ops/calibration.h"

#include <stdlib.h>
#include <string.h>

/* Whether the table has a line for this key: nodes with one signature share a line. */
static bool is_known(const text *table, const char *key) {
    size_t length = strlen(key);
    for (const char *at = table->data; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, key, length) == 0 && strncmp(at + length, " -> ", 4) == 0) return true;
    }
    return false;
}

/* Measures one node unless its key is known. Errors of the measurement itself end the whole table. */
static weft_status calibrate_node(weft_session *s, const weft_node *n, text *table, int *count,
                                  weft_error *error) {
    char *key = calibration_key(n, &s->kernels), *choice = NULL;
    text found = {0};
    weft_status status = WEFT_OK;
    if (!key) return error_memory(error, "calibrate");
    if (!is_known(table, key)) {
        status = n->kernel->tune(n, &s->kernels, &found, error);
        choice = text_detach(&found);
        if (!choice && status == WEFT_OK) status = error_memory(error, "calibrate");
        if (status == WEFT_OK) calibration_write(table, key, choice);
        *count += status == WEFT_OK;
    }
    free(choice);
    free(key);
    return status;
}

/* The table's text keeps its own failure (no memory), which is looked at once at the end. */
weft_status session_calibrate(weft_session *s, const char *comment, text *table, int *n, weft_error *error) {
    *n = 0;
    calibration_head(table, comment);
    for (int i = 0; i < s->plan->n_programs; i++)
        for (const weft_node *node = s->plan->programs[i].graph->first; node; node = node->next) {
            if (!node->kernel || !node->kernel->tune) continue;
            weft_status status = calibrate_node(s, node, table, n, error);
            if (status != WEFT_OK) return status;
        }
    return table->failed ? error_memory(error, "calibrate") : WEFT_OK;
}
