/* interval.c - what logs show: means of metrics since the last line, weighted by samples, and rates. */
#include "runtime/train/log.h"
#include "weft/plateau.h"

#include <string.h>

void interval_note(interval *i, const weft_progress *p) {
    const weft_metrics *m = &p->train;
    double weight = m->samples > 0 ? (double)m->samples : 1; /* graphs without inputs: iterations count */
    for (int k = 0; k < m->n; k++) {
        int at = 0;
        while (at < i->n && strncmp(i->names[at], m->list[k].name, LOG_NAME - 1)) at++;
        if (at == LOG_MOST / 2) continue;
        if (at == i->n) snprintf(i->names[i->n++], LOG_NAME, "%s", m->list[k].name);
        i->sums[at] += weight * m->list[k].value;
        i->weights[at] += weight;
    }
}

bool interval_is_due(const interval *i, const weft_progress *p) {
    int64_t every = i->every > 0 ? i->every : LOG_EVERY;
    bool is_last = p->iterations && p->iteration == p->iterations;
    return is_last || p->iteration - i->iteration >= every;
}

void interval_restart(interval *i, const weft_progress *p) {
    memset(i->sums, 0, sizeof i->sums);
    memset(i->weights, 0, sizeof i->weights);
    i->iteration = p->iteration;
    i->samples = p->samples;
    i->seconds = p->seconds;
}

static void add_value(log_values *into, const char *name, double value) {
    if (into->n == LOG_MOST) return;
    snprintf(into->list[into->n].name, LOG_NAME, "%s", name);
    into->list[into->n++].value = value;
}

void interval_means(const interval *i, log_values *into) {
    for (int k = 0; k < i->n; k++)
        if (i->weights[k] > 0) add_value(into, i->names[k], i->sums[k] / i->weights[k]);
}

void interval_rates(const interval *i, const weft_trainer *t, log_values *into) {
    const weft_progress *p = &t->progress;
    const char *optimizer, *second;
    double lr, other, seconds = p->seconds - i->seconds;
    bool is_one = !weft_plan_lr(t->plan, t->store, 1, &second, &other);
    for (int k = 0; weft_plan_lr(t->plan, t->store, k, &optimizer, &lr); k++) {
        char name[LOG_NAME] = "lr";
        if (!is_one) snprintf(name, sizeof name, "lr/%s", optimizer);
        add_value(into, name, lr);
    }
    if (seconds > 0 && p->samples > i->samples)
        add_value(into, "samples_per_second", (double)(p->samples - i->samples) / seconds);
    add_value(into, "memory_mib", (double)weft_plan_memory(t->plan).total / (1 << 20));
}

static void add_all(log_values *into, const weft_metrics *m) {
    for (int k = 0; k < m->n; k++) add_value(into, m->list[k].name, m->list[k].value);
}

bool interval_line(interval *i, const weft_trainer *t, weft_point point, const char **phase,
                   log_values *into) {
    const weft_progress *p = &t->progress;
    into->n = 0;
    if (point == WEFT_AFTER_ITERATION) interval_note(i, p);
    bool is_left = point == WEFT_AFTER_RUN && p->iteration > i->iteration;
    if (is_left || (point == WEFT_AFTER_ITERATION && interval_is_due(i, p))) {
        *phase = "train";
        interval_means(i, into);
        interval_rates(i, t, into);
        interval_restart(i, p);
        return true;
    }
    if (point != WEFT_AFTER_VAL && point != WEFT_AFTER_TEST) return false;
    *phase = point == WEFT_AFTER_VAL ? "val" : "test";
    add_all(into, point == WEFT_AFTER_VAL ? &p->val : &p->test);
    return true;
}
