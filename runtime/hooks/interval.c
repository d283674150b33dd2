/* interval.c - what logs show: means of metrics since the last line, weighted by samples, and rates. */
#include "runtime/hooks/log.h"
#include "weft/plateau.h"

/* Names of the line's own numbers: a metric that has one becomes metric/NAME. */
static bool is_reserved(const char *name) {
    static const char *const own[] = {"step",      "epoch",      "samples", "seconds", "samples_per_second",
                                      "data_time", "memory_mib", "lr"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(name, own[i]) == 0) return true;
    return strncmp(name, "lr/", 3) == 0;
}

static void put_name(char into[LOG_NAME], const char *metric) {
    snprintf(into, LOG_NAME, "%s%s", is_reserved(metric) ? "metric/" : "", metric);
}

/* Metrics come in the same order each time. */
static interval_sum *sum_of(interval *i, const char *name, int guess) {
    int at = guess < i->n && strcmp(i->sums[guess].name, name) == 0 ? guess : 0;
    while (at < i->n && strcmp(i->sums[at].name, name)) at++;
    if (at < i->n) return &i->sums[at];
    interval_sum *sums = kit_grow(i->memory, i->sums, i->n + 1, sizeof *sums);
    if (!sums) return NULL;
    i->sums = sums;
    i->sums[i->n] = (interval_sum){.sum = 0};
    snprintf(i->sums[i->n].name, LOG_NAME, "%s", name);
    return &i->sums[i->n++];
}

void interval_note(interval *i, const weft_progress *p) {
    const weft_metrics *m = &p->train;
    double weight = m->samples > 0 ? (double)m->samples : 1; /* graphs without inputs: iterations count */
    for (int k = 0; k < m->n; k++) {
        char name[LOG_NAME];
        put_name(name, m->list[k].name);
        interval_sum *s = sum_of(i, name, k);
        if (s) s->sum += weight * m->list[k].value, s->weight += weight;
    }
}

bool interval_is_due(const interval *i, const weft_progress *p) {
    int64_t every = i->every > 0 ? i->every : LOG_EVERY;
    bool is_last = p->iterations && p->iteration == p->iterations;
    return is_last || (double)p->iteration - i->iteration >= (double)every;
}

void interval_open(interval *i, kit_arena *memory, weft_hook_number kept[INTERVAL_KEPT]) {
    i->memory = memory;
    kept[0] = (weft_hook_number){"iteration", &i->iteration};
    kept[1] = (weft_hook_number){"samples", &i->samples};
    kept[2] = (weft_hook_number){"seconds", &i->seconds};
    kept[3] = (weft_hook_number){"data_seconds", &i->data_seconds};
}

void interval_restart(interval *i, const weft_trainer *t) {
    for (int k = 0; k < i->n; k++) i->sums[k].sum = i->sums[k].weight = 0;
    i->iteration = (double)t->progress.iteration;
    i->samples = (double)t->progress.samples;
    i->seconds = trainer_seconds(t);
    i->data_seconds = t->progress.data_seconds;
}

static void add_value(const interval *i, log_values *into, log_kind kind, const char *name, double value) {
    log_value *list = kit_grow(i->memory, into->list, into->n + 1, sizeof *list);
    if (!list) return;
    into->list = list;
    log_value *v = &list[into->n++];
    *v = (log_value){.kind = kind, .value = value};
    snprintf(v->name, LOG_NAME, "%s", name);
}

void interval_means(const interval *i, log_values *into) {
    for (int k = 0; k < i->n; k++)
        if (i->sums[k].weight > 0)
            add_value(i, into, LOG_METRIC, i->sums[k].name, i->sums[k].sum / i->sums[k].weight);
}

void interval_rates(const interval *i, const weft_trainer *t, log_values *into) {
    const weft_progress *p = &t->progress;
    const char *optimizer, *second;
    double lr, other, seconds = trainer_seconds(t) - i->seconds;
    bool is_one = !weft_store_lr(t->plan, t->store, 1, &second, &other);
    for (int k = 0; weft_store_lr(t->plan, t->store, k, &optimizer, &lr); k++) {
        char name[LOG_NAME] = "lr";
        if (!is_one) snprintf(name, sizeof name, "lr/%s", optimizer);
        add_value(i, into, LOG_RATE, name, lr);
    }
    double samples = (double)p->samples - i->samples, iterations = (double)p->iteration - i->iteration;
    if (seconds > 0 && samples > 0) add_value(i, into, LOG_MACHINE, "samples_per_second", samples / seconds);
    if (t->data.loader && iterations > 0)
        add_value(i, into, LOG_MACHINE, "data_time", (p->data_seconds - i->data_seconds) / iterations);
    add_value(i, into, LOG_MACHINE, "memory_mib", (double)weft_plan_memory(t->plan).total / (1 << 20));
}

static void add_all(const interval *i, log_values *into, const weft_metrics *m) {
    for (int k = 0; k < m->n; k++) {
        char name[LOG_NAME];
        put_name(name, m->list[k].name);
        add_value(i, into, LOG_METRIC, name, m->list[k].value);
    }
}

bool interval_line(interval *i, const weft_trainer *t, weft_hook_point point, const char **phase,
                   log_values *into) {
    const weft_progress *p = &t->progress;
    into->n = 0;
    if (point == WEFT_AFTER_ITERATION) interval_note(i, p);
    bool is_left = point == WEFT_AFTER_RUN && (double)p->iteration > i->iteration;
    if (is_left || (point == WEFT_AFTER_ITERATION && interval_is_due(i, p))) {
        *phase = "train";
        interval_means(i, into);
        interval_rates(i, t, into);
        interval_restart(i, t);
        return true;
    }
    if (point != WEFT_AFTER_VAL && point != WEFT_AFTER_TEST) return false;
    *phase = point == WEFT_AFTER_VAL ? "val" : "test";
    add_all(i, into, point == WEFT_AFTER_VAL ? &p->val : &p->test);
    return true;
}
