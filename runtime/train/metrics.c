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
    size_t room = (size_t)m->room;
    for (int i = 0; i < m->n; i++) weft_memory_free(m->env, m->names[i], strlen(m->names[i]) + 1);
    kit_free_array(m->env, m->names, room, sizeof *m->names);
    kit_free_array(m->env, m->given, room, sizeof *m->given);
    kit_free_array(m->env, m->sum, room, sizeof *m->sum);
    kit_free_array(m->env, m->weight, room, sizeof *m->weight);
    *m = (metrics){.env = m->env};
}

/* Room for so many more. Where one array fails, those before it are longer than `room` says; so they are all
 * made first. */
static bool grow(metrics *m, int more) {
    metrics next = {.env = m->env, .room = m->n + more + 1, .n = m->n};
    size_t room = (size_t)next.room, n = (size_t)m->n;
    next.names = kit_new_array(m->env, room, sizeof *next.names);
    next.given = kit_new_array(m->env, room, sizeof *next.given);
    next.sum = kit_new_array(m->env, room, sizeof *next.sum);
    next.weight = kit_new_array(m->env, room, sizeof *next.weight);
    bool is_good = next.names && next.given && next.sum && next.weight;
    if (is_good && n) {
        memcpy(next.names, m->names, n * sizeof *next.names);
        memcpy(next.sum, m->sum, n * sizeof *next.sum);
        memcpy(next.weight, m->weight, n * sizeof *next.weight);
    }
    metrics *old = is_good ? m : &next; /* names stay: they belong to one of the two */
    old->n = 0;
    metrics_close(old);
    if (is_good) *m = next;
    return is_good;
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
        for (int k = 0; k < r->first; k++) is_taken = is_taken || strcmp(m->names[k], r->out[i].name) == 0;
        if (!(m->names[m->n] = named(m->env, r->graph, r->out[i].name, is_taken)))
            return kit_no_memory(error, "trainer");
        m->n++;
    }
    return WEFT_OK;
}

void metrics_clear(metrics *m) {
    for (int i = 0; i < m->n; i++) m->sum[i] = m->weight[i] = 0;
}

void metrics_note(metrics *m, const bound *r, double weight) {
    for (int i = 0; i < r->n_out; i++) {
        m->sum[r->first + i] += weight * bound_number(r, i);
        m->weight[r->first + i] += weight;
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
    copy(numbers, m->sum, n);
    copy(numbers + n, m->weight, n);
    copy(numbers + 2 * n, extra, n_extra);
    weft_status status = ranks_sum(m->env, comm, all, numbers, error);
    if (!status) {
        copy(m->sum, numbers, n);
        copy(m->weight, numbers + n, n);
        copy(extra, numbers + 2 * n, n_extra);
    }
    kit_free_array(m->env, numbers, all + 1, sizeof *numbers);
    return status;
}

weft_status metrics_means(metrics *m, weft_comm *comm, double *extra, size_t n_extra, weft_metrics *out,
                          weft_error *error) {
    weft_status status = comm && comm->world > 1 ? over_ranks(m, comm, extra, n_extra, error) : WEFT_OK;
    *out = (weft_metrics){.list = m->given};
    for (int i = 0; !status && i < m->n; i++)
        if (m->weight[i] > 0) m->given[out->n++] = (weft_metric){m->names[i], m->sum[i] / m->weight[i]};
    return status;
}
