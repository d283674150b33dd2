/* rates.c - the learning rates that a training was given, by the model or by options.checkpoints.rates.
 * They are notes of its checkpoints: one that resumes keeps the rates of its store, which a plateau may have
 * lowered, except rates that the caller changes. */
#include "runtime/train/trainer.h"

#include <math.h>

static weft_status read_rate(const weft_trainer *t, const asked_rate *r, double *lr, weft_error *error) {
    return weft_store_get(t->store, r->path, lr, sizeof *lr, error);
}

weft_status rates_open(weft_trainer *t, weft_error *error) {
    checkpoints *c = &t->checkpoints;
    weft_stored value;
    int n = 0;
    for (int i = 0; weft_store_at(t->store, i, &value); i++) n += value.kind == WEFT_STORED_LR;
    if (!(c->rates = kit_take(&t->memory, n, sizeof *c->rates))) return kit_no_memory(error, "trainer");
    c->n_rates = n;
    n = 0;
    for (int i = 0; weft_store_at(t->store, i, &value); i++)
        if (value.kind == WEFT_STORED_LR) c->rates[n++] = (asked_rate){value.path, value.of, NAN};
    return WEFT_OK;
}

weft_status rates_begin(weft_trainer *t, weft_error *error) {
    const weft_trainer_checkpoints *o = &t->options.checkpoints;
    for (int i = 0; i < o->n_rates; i++)
        if (weft_store_set_lr(t->store, o->rates[i].optimizer, o->rates[i].lr, error)) return error->status;
    return WEFT_OK;
}

weft_status rates_keep(weft_trainer *t, weft_error *error) {
    for (int i = 0; i < t->checkpoints.n_rates; i++) {
        asked_rate *r = &t->checkpoints.rates[i];
        if (isnan(r->lr) && read_rate(t, r, &r->lr, error)) return error->status;
    }
    return WEFT_OK;
}

/* What is asked of an optimizer now, the last of it; NULL: nothing. */
static const weft_optimizer_lr *asked_now(const weft_trainer *t, const char *optimizer) {
    const weft_trainer_checkpoints *o = &t->options.checkpoints;
    for (int i = o->n_rates; i-- > 0;) {
        const char *of = o->rates[i].optimizer;
        if (!of || strcmp(of, optimizer) == 0) return &o->rates[i];
    }
    return NULL;
}

static weft_status resume_one(weft_trainer *t, asked_rate *r, weft_error *error) {
    const weft_optimizer_lr *now = asked_now(t, r->optimizer);
    double old;
    if (!now || now->lr == r->lr) return WEFT_OK;
    if (read_rate(t, r, &old, error) || weft_store_set_lr(t->store, r->optimizer, now->lr, error))
        return error->status;
    r->lr = now->lr;
    trainer_log(t, "the learning rate of %.200s was %.9g, and is %.9g from iteration %jd on", r->optimizer,
                old, now->lr, t->progress.iteration);
    return WEFT_OK;
}

weft_status rates_resume(weft_trainer *t, weft_error *error) {
    for (int i = 0; i < t->checkpoints.n_rates; i++)
        if (resume_one(t, &t->checkpoints.rates[i], error)) return error->status;
    return rates_keep(t, error);
}
