/* rates.c - the learning rates that a training was asked for, by the model or by options.checkpoints.rates.
 * They are notes of its checkpoints: one that resumes keeps the rates of its store, which a plateau may have
 * lowered, but for those that it is now asked to have otherwise. */
#include "runtime/train/trainer.h"

#include "weft/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char head[] = "optimizer.", tail[] = "/lr";

/* The name in "optimizer.NAME/lr"; 0: the path is another one. */
static int name_in(const char *path, const char **name) {
    size_t n = strlen(path), around = sizeof head - 1 + sizeof tail - 1;
    if (n <= around || strncmp(path, head, sizeof head - 1) || strcmp(path + n - (sizeof tail - 1), tail))
        return 0;
    *name = path + sizeof head - 1;
    return (int)(n - around);
}

static weft_status read_rate(const weft_trainer *t, const asked_rate *r, double *lr, weft_error *error) {
    return weft_store_get(t->store, r->path, lr, sizeof *lr, error);
}

void rates_note(const asked_rate *r, char into[200]) {
    const char *name;
    int n = name_in(r->path, &name);
    snprintf(into, 200, "trainer/lr/%.*s", n < 180 ? n : 180, name);
}

weft_status rates_open(weft_trainer *t, weft_error *error) {
    checkpoints *c = &t->checkpoints;
    const char *path, *name;
    int n = 0;
    for (int i = 0; (path = weft_store_path(t->store, i)); i++) n += name_in(path, &name) > 0;
    if (!(c->rates = kit_new_array(t->env, (size_t)n + 1, sizeof *c->rates)))
        return kit_no_memory(error, "trainer");
    c->n_rates = n;
    n = 0;
    for (int i = 0; (path = weft_store_path(t->store, i)); i++)
        if (name_in(path, &name)) c->rates[n++] = (asked_rate){path, NAN};
    return WEFT_OK;
}

void rates_close(weft_trainer *t) {
    checkpoints *c = &t->checkpoints;
    kit_free_array(t->env, c->rates, (size_t)c->n_rates + 1, sizeof *c->rates);
}

weft_status rates_begin(weft_trainer *t, weft_error *error) {
    weft_status status = WEFT_OK;
    const weft_trainer_checkpoints *o = &t->options.checkpoints;
    for (int i = 0; !status && i < o->n_rates; i++)
        status = weft_store_set_lr(t->store, o->rates[i].optimizer, o->rates[i].lr, error);
    return status;
}

weft_status rates_keep(weft_trainer *t, weft_error *error) {
    weft_status status = WEFT_OK;
    for (int i = 0; !status && i < t->checkpoints.n_rates; i++) {
        asked_rate *r = &t->checkpoints.rates[i];
        if (isnan(r->lr)) status = read_rate(t, r, &r->lr, error);
    }
    return status;
}

/* What is asked of an optimizer now, the last of it; NULL: nothing. */
static const weft_rate *asked_now(const weft_trainer *t, const char *name, int n) {
    const weft_trainer_checkpoints *o = &t->options.checkpoints;
    for (int i = o->n_rates; i-- > 0;) {
        const char *of = o->rates[i].optimizer;
        if (!of || (strlen(of) == (size_t)n && strncmp(of, name, (size_t)n) == 0)) return &o->rates[i];
    }
    return NULL;
}

static weft_status resume_one(weft_trainer *t, const weft_checkpoint *c, asked_rate *r, weft_error *error) {
    const char *name;
    char note[200], own[1500], line[500];
    int n = name_in(r->path, &name);
    const weft_rate *now = asked_now(t, name, n);
    double old;
    rates_note(r, note);
    r->lr = weft_checkpoint_note(c, note);
    if (!now || now->lr == r->lr) return WEFT_OK;
    snprintf(own, sizeof own, "%.*s", n, name);
    weft_status status = read_rate(t, r, &old, error);
    if (!status) status = weft_store_set_lr(t->store, own, now->lr, error);
    if (status) return status;
    r->lr = now->lr;
    snprintf(line, sizeof line, "the learning rate of %.200s was %.9g, and is %.9g from iteration %lld on",
             own, old, now->lr, (long long)t->progress.iteration);
    trainer_log(t, line);
    return WEFT_OK;
}

weft_status rates_resume(weft_trainer *t, const weft_checkpoint *c, weft_error *error) {
    weft_status status = WEFT_OK;
    for (int i = 0; !status && i < t->checkpoints.n_rates; i++)
        status = resume_one(t, c, &t->checkpoints.rates[i], error);
    return status ? status : rates_keep(t, error);
}
