/* metrics.c - numbers by name: each is a sum with weights (runs, or samples), which becomes a mean over all
 * ranks by one sum of the whole table. */
#include "runtime/train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

double weft_metrics_get(const weft_metrics *metrics, const char *name) {
    for (int i = 0; metrics && name && i < metrics->n; i++)
        if (strcmp(metrics->list[i].name, name) == 0) return metrics->list[i].value;
    return NAN;
}

void metrics_close(metrics *m) {
    for (int i = 0; i < m->n; i++) weft_memory_free(m->env, m->list[i].name, strlen(m->list[i].name) + 1);
    kit_free_array(m->env, m->list, m->room, sizeof *m->list);
    kit_free_array(m->env, m->given, m->room_given, sizeof *m->given);
    *m = (metrics){.env = m->env};
}

/* Room for so many more, and never none. */
static bool grow(metrics *m, int more) {
    size_t least = (size_t)(m->n + more) + 1;
    metric_sum *list = kit_grow(m->env, m->list, &m->room, least, sizeof *list);
    if (!list) return false;
    m->list = list;
    weft_metric *given = kit_grow(m->env, m->given, &m->room_given, least, sizeof *given);
    if (!given) return false;
    m->given = given;
    return true;
}

/* "loss" or, joined, "d_step/loss". */
static char *named(const weft_env *env, const char *graph, const char *name, bool is_joined) {
    size_t bytes = strlen(name) + 1 + (is_joined ? strlen(graph) + 1 : 0);
    char *text = weft_memory_new(env, bytes);
    if (text) snprintf(text, bytes, "%s%s%s", is_joined ? graph : "", is_joined ? "/" : "", name);
    return text;
}

weft_status metrics_add(metrics *m, bound *r, weft_error *error) {
    r->first = m->n;
    if (!grow(m, r->n_out)) return kit_no_memory(error, "trainer");
    for (int i = 0; i < r->n_out; i++) {
        bool is_taken = false;
        for (int k = 0; k < r->first; k++)
            is_taken = is_taken || strcmp(m->list[k].name, r->out[i].name) == 0;
        if (!(m->list[m->n].name = named(m->env, r->graph, r->out[i].name, is_taken)))
            return kit_no_memory(error, "trainer");
        m->n++;
    }
    return WEFT_OK;
}

void metrics_clear(metrics *m) {
    for (int i = 0; i < m->n; i++) m->list[i].sum = m->list[i].weight = 0;
}

void metrics_mark(metrics *m) {
    for (metric_sum *s = m->list; s < m->list + m->n; s++)
        s->sum_before = s->sum, s->weight_before = s->weight;
}

void metrics_rewind(metrics *m) {
    for (metric_sum *s = m->list; s < m->list + m->n; s++)
        s->sum = s->sum_before, s->weight = s->weight_before;
}

void metrics_note(metrics *m, const bound *r, double weight) {
    for (int i = 0; i < r->n_out; i++) {
        m->list[r->first + i].sum += weight * bound_number(r, i);
        m->list[r->first + i].weight += weight;
    }
}

weft_status ranks_sum(const weft_env *env, weft_comm *comm, size_t n, double *numbers, weft_error *error) {
    size_t bytes = weft_collective_scratch(WEFT_ALL_REDUCE, WEFT_F64, 0, n, comm->world);
    void *scratch = weft_memory_new(env, bytes + 1);
    if (!scratch) return kit_no_memory(error, "trainer");
    weft_collective sum = {.kind = WEFT_ALL_REDUCE,
                           .dtype = WEFT_F64,
                           .buffer = numbers,
                           .count = n,
                           .scratch = scratch,
                           .scratch_bytes = bytes,
                           .name = "metrics"};
    weft_status status = weft_comm_run(comm, &sum, error);
    weft_memory_free(env, scratch, bytes + 1);
    return status;
}

/* memcpy of nothing may be from nowhere here. */
static void copy(double *to, const double *from, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = from[i];
}

/* One sum for all: sums, weights, and what the caller adds. */
static weft_status over_ranks(metrics *m, weft_comm *comm, double *extra, size_t n_extra, weft_error *error) {
    size_t n = (size_t)m->n, all = 2 * n + n_extra;
    double *numbers = kit_new_array(m->env, all + 1, sizeof *numbers);
    if (!numbers) return kit_no_memory(error, "trainer");
    for (size_t i = 0; i < n; i++) numbers[i] = m->list[i].sum, numbers[n + i] = m->list[i].weight;
    copy(numbers + 2 * n, extra, n_extra);
    weft_status status = ranks_sum(m->env, comm, all, numbers, error);
    for (size_t i = 0; !status && i < n; i++) m->list[i].sum = numbers[i], m->list[i].weight = numbers[n + i];
    if (!status) copy(extra, numbers + 2 * n, n_extra);
    kit_free_array(m->env, numbers, all + 1, sizeof *numbers);
    return status;
}

weft_status metrics_means(metrics *m, weft_comm *comm, double *extra, size_t n_extra, weft_metrics *out,
                          weft_error *error) {
    weft_status status = comm && comm->world > 1 ? over_ranks(m, comm, extra, n_extra, error) : WEFT_OK;
    *out = (weft_metrics){.list = m->given};
    for (const metric_sum *s = m->list; !status && s < m->list + m->n; s++)
        if (s->weight > 0) m->given[out->n++] = (weft_metric){s->name, s->sum / s->weight};
    return status;
}
