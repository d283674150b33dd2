/* own_step.c - options.train_step in place of a flow: it runs graphs by weft_trainer_run(). */
#include "runtime/train/trainer.h"
#include "weft/bad_step.h"

/* Where it calls weft_run_update() by itself, a bad step is the error of that call. After a bad step that it
 * skips itself it continues with another run, whose errors are not bad steps. */
weft_status own_step_run(weft_trainer *t, weft_error *error) {
    int64_t bad = weft_bad_steps(t->session);
    weft_status status = t->options.train_step(t, t->options.user, error);
    bool is_bad = weft_bad_steps(t->session) > bad && weft_bad_step(t->session);
    if (status && !error->status) kit_fail(error, status, "options.train_step failed");
    if (status != WEFT_DATA || !is_bad || t->failure.is_there) return status;
    status = step_failed(t, t->last_run, 0, true, error);
    if (!status) metrics_clear(&t->metrics);
    return status;
}

static weft_status take_new(weft_trainer *t, const bound *r, weft_error *error) {
    int64_t needs = (int64_t)r->accumulate * t->progress.world;
    if (t->begin + needs > batches_count(&t->data)) {
        if (needs > batches_count(&t->data))
            return kit_fail(error, WEFT_DATA,
                            "trainer: graph %s takes %jd batches on all ranks, the data have %jd", r->graph,
                            needs, batches_count(&t->data));
        if (trainer_cross_epoch(t, error)) return error->status;
    }
    flow_take(t, r);
    return WEFT_OK;
}

weft_status weft_trainer_run(weft_trainer *t, const char *graph, weft_flow_batch batch, weft_error *error) {
    weft_error own;
    error = kit_error(error, &own);
    if (!t || !graph) return kit_fail(error, WEFT_ARGUMENT, "weft_trainer_run: trainer or graph is NULL");
    if (!t->is_in_step)
        return kit_fail(error, WEFT_ORDER, "weft_trainer_run: graphs run within options.train_step");
    int i = flow_graph(t, graph);
    if (i < 0 && flow_bind_graph(t, graph, error)) return error->status;
    bound *r = &t->graphs[i < 0 ? t->n_graphs - 1 : i];
    bool reads = bound_reads(r);
    bool is_new = reads && (batch == WEFT_FLOW_NEXT || (batch == WEFT_FLOW_AUTO && !t->micro_each));
    if (reads && !is_new && (!t->micro_each || t->micro_each % r->accumulate))
        return kit_fail(error, WEFT_ORDER,
                        "trainer: graph %s runs on %d micro-batches of the run before it, which had %jd",
                        r->graph, r->accumulate, t->micro_each);
    if (is_new && take_new(t, r, error)) return error->status;
    return flow_run_graph(t, r, error);
}
