/* calibrate.c - times the ways of each tunable kernel of a plan; see calibrate.h. */
#include "runtime/session/calibrate.h"

#include <stdlib.h>
#include <string.h>

/* ---- which nodes ---- */

static bool is_listed(const calibrating *c, const char *key) {
    for (int i = 0; i < c->n_nodes; i++)
        if (strcmp(c->nodes[i].key, key) == 0) return true;
    return false;
}

/* Lists the node unless one with the same key is: they share a line. */
static weft_status list_node(calibrating *c, const weft_node *n, weft_error *error) {
    char *key = calibration_key(n, &c->session->kernels);
    if (!key) return error_memory(error, "calibrate");
    if (is_listed(c, key)) {
        free(key);
        return WEFT_OK;
    }
    c->nodes[c->n_nodes++] = (calibrated){n, key};
    return WEFT_OK;
}

/* Room for all nodes that may be listed. */
static weft_status reserve_list(calibrating *c, weft_error *error) {
    const weft_plan *plan = c->session->plan;
    size_t most = 1;
    for (int i = 0; i < plan->n_programs; i++)
        for (const weft_node *n = plan->programs[i].graph->first; n; n = n->next)
            most += n->kernel && n->kernel->tune;
    c->nodes = arena_new_array(&c->session->arena, most, sizeof *c->nodes);
    return c->nodes ? WEFT_OK : error_memory(error, "calibrate");
}

/* Graphs that train first: where time runs out, their nodes are worth more. */
static weft_status list_nodes(calibrating *c, weft_error *error) {
    const weft_plan *plan = c->session->plan;
    weft_status status = WEFT_OK;
    for (int trains = 1; trains >= 0; trains--)
        for (int i = 0; i < plan->n_programs; i++) {
            if (plan->programs[i].trains != (trains != 0)) continue;
            for (const weft_node *n = plan->programs[i].graph->first; n && !status; n = n->next)
                if (n->kernel && n->kernel->tune) status = list_node(c, n, error);
        }
    return status;
}

/* ---- the table ---- */

static void forget_last(calibrating *c) {
    free(text_detach(&c->last.choice));
    free(text_detach(&c->last.skipped));
    c->last = (tuned){0};
    c->why = (weft_error){0};
}

weft_status calibrate_begin(calibrating *c, weft_session *s, const char *comment, weft_error *error) {
    *c = (calibrating){.session = s};
    calibration_head(&c->table, comment);
    if (c->table.failed) return error_memory(error, "calibrate");
    weft_status status = reserve_list(c, error);
    return status ? status : list_nodes(c, error);
}

/* An error of the measurement itself leaves the table as it was. */
weft_status calibrate_next(calibrating *c, weft_error *error) {
    const calibrated *next = &c->nodes[c->n_done];
    forget_last(c);
    weft_status status = next->node->kernel->tune(next->node, &c->session->kernels, &c->last, &c->why);
    if (status == WEFT_MEMORY || status == WEFT_DEVICE) return error_set(error, status, "%s", c->why.text);
    if (!status && !c->last.choice.failed) calibration_write(&c->table, next->key, c->last.choice.data);
    if (c->last.choice.failed || c->table.failed) return error_memory(error, "calibrate");
    c->n_skipped += status != WEFT_OK;
    c->n_done++;
    return WEFT_OK;
}

weft_status calibrate_check(const calibrating *c, weft_error *error) {
    if (!c->n_done || c->n_skipped < c->n_done) return WEFT_OK;
    return error_set(error, WEFT_UNSUPPORTED,
                     "calibrate: none of %d nodes could be measured; the last one: %s", c->n_done,
                     c->why.text);
}

void calibrate_end(calibrating *c) {
    forget_last(c);
    for (int i = 0; i < c->n_nodes; i++) free(c->nodes[i].key);
    free(text_detach(&c->table));
    *c = (calibrating){0};
}
