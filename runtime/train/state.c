/* state.c - what a trainer holds and where it is: its parts, its session, its clock, its log, and how ranks
 * learn of an error. */
#include "runtime/train/trainer.h"

#include <stdarg.h>

/* ---- parts ---- */

const weft_progress *weft_trainer_progress(const weft_trainer *t) {
    return t ? &t->progress : NULL;
}

weft_store *weft_trainer_store(const weft_trainer *t) {
    return t ? t->store : NULL;
}

weft_loader *weft_trainer_loader(const weft_trainer *t) {
    return t ? t->data.loader : NULL;
}

const weft_plan *weft_trainer_plan(const weft_trainer *t) {
    return t ? t->plan : NULL;
}

weft_session *weft_trainer_session(weft_trainer *t, weft_error *error) {
    weft_error own;
    error = kit_error(error, &own);
    if (trainer_check_trains(t, error)) return NULL;
    if (t->session) return t->session;
    t->session = t->options.comm ? weft_session_open_on(t->plan, t->store, t->options.comm, error)
                                 : weft_session_open(t->plan, t->store, error);
    if (t->session) weft_session_set_check(t->session, t->options.check);
    if (t->session) weft_session_set_capture(t->session, !t->options.no_capture);
    return t->session;
}

const char *model_graph(const weft_model *m, const char *name, const char *head, weft_error *error) {
    const char *own, *near = NULL;
    for (int i = 0; (own = weft_graph_name(m, i)); i++) {
        if (strcmp(own, name) == 0) return own;
        near = weft_nearest(name, near, own);
    }
    if (error) kit_fail(error, WEFT_NAME, "%s has no graph '%.80s'%s", head, name, NEAR(near));
    return NULL;
}

/* ---- where it is ---- */

double trainer_clock(void) {
    return 1e-9 * (double)weft_clock_ns();
}

double trainer_seconds(const weft_trainer *t) {
    return t->progress.seconds - t->val_seconds;
}

int64_t log_step(const weft_trainer *t) {
    return t->options.first_iteration + t->progress.iteration;
}

/* Counted from 1. What comes after an epoch and before the next one, such as a test, is of the one before. */
int64_t log_epoch(const weft_trainer *t) {
    int64_t ended = t->first_epoch + t->progress.epoch;
    return ended + (t->is_in_epoch || !ended);
}

void trainer_log(const weft_trainer *t, const char *format, ...) {
    char line[sizeof(weft_error)];
    va_list args;
    if (!t->env || !t->env->log || t->progress.rank) return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    t->env->log(t->env->log_context, line);
}

/* ---- errors ---- */

weft_status trainer_check_trains(const weft_trainer *t, weft_error *error) {
    if (!t) return kit_fail(error, WEFT_ARGUMENT, "trainer: it is NULL");
    if (t->options.compile.graph)
        return kit_fail(error, WEFT_ORDER,
                        "trainer: it is for graph %s alone (options.compile.graph), and does not train",
                        t->options.compile.graph);
    return WEFT_OK;
}

weft_status trainer_check_outside(const weft_trainer *t, const char *call, weft_error *error) {
    if (trainer_check_trains(t, error)) return error->status;
    if (!t->hook_depth && !t->is_in_step) return WEFT_OK;
    return kit_fail(error, WEFT_ORDER, "%s: it must not be called from a hook or options.train_step", call);
}

/* WEFT_PEER has come from another rank. */
weft_status trainer_tell(const weft_trainer *t, weft_status status, const weft_error *error) {
    if (!status || status == WEFT_PEER || t->is_common || t->progress.world == 1) return status;
    weft_comm_fail(t->options.comm, error->text); /* they say which rank it was */
    return status;
}
