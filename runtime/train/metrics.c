/* metrics.c - numbers by name: each is a sum with weights (runs, or samples), which becomes a mean over all
 * ranks by one sum of the whole table. */
#include "runtime/train/trainer.h"

#include <math.h>

double weft_metrics_get(const weft_metrics *metrics, const char *name) {
    for (int i = 0; metrics && name && i < metrics->n; i++)
        if (strcmp(metrics->list[i].name, name) == 0) return metrics->list[i].value;
    return NAN;
}

/* "loss" or, where an earlier graph has that name, "d_step/loss". */
static char *name_of(metrics *m, const bound *r, const char *name) {
    kit_line joined = {0};
    bool is_taken = false;
    for (int k = 0; k < r->first; k++) is_taken = is_taken || strcmp(m->list[k].name, name) == 0;
    kit_add(&joined, "%s%s%s", is_taken ? r->graph : "", is_taken ? "/" : "", name);
    return kit_copy(&m->memory, joined.text);
}

weft_status metrics_add(metrics *m, bound *r, weft_error *error) {
    size_t least = (size_t)(m->n + r->n_out) + 1;
    metric_sum *list = kit_grow(&m->memory, m->list, least, sizeof *list);
    weft_metric *given = kit_grow(&m->memory, m->given, least, sizeof *given);
    if (list) m->list = list;
    if (given) m->given = given;
    if (!list || !given) return kit_no_memory(error, "trainer");
    r->first = m->n;
    for (int i = 0; i < r->n_out; i++) {
        if (!(list[m->n].name = name_of(m, r, r->out[i].name))) return kit_no_memory(error, "trainer");
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
    if (!comm || comm->world < 2) return WEFT_OK;
    size_t bytes = weft_collective_scratch(WEFT_COLLECTIVE_ALL_REDUCE, WEFT_F64, 0, n, comm->world);
    void *scratch = weft_memory_new(env, bytes + 1);
    if (!scratch) return kit_no_memory(error, "trainer");
    weft_collective sum = {.kind = WEFT_COLLECTIVE_ALL_REDUCE,
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

/* One sum for all: sums, weights, and what the caller adds. */
static weft_status over_ranks(metrics *m, weft_comm *comm, double *extra, weft_error *error) {
    size_t n = (size_t)m->n;
    double *numbers = kit_take(&m->memory, 2 * n + 1, sizeof *numbers);
    if (!numbers) return kit_no_memory(error, "trainer");
    for (size_t i = 0; i < n; i++) numbers[i] = m->list[i].sum, numbers[n + i] = m->list[i].weight;
    numbers[2 * n] = *extra;
    weft_status status = ranks_sum(&m->memory.env, comm, 2 * n + 1, numbers, error);
    for (size_t i = 0; !status && i < n; i++) m->list[i].sum = numbers[i], m->list[i].weight = numbers[n + i];
    if (!status) *extra = numbers[2 * n];
    kit_drop(&m->memory, numbers);
    return status;
}

weft_status metrics_means(metrics *m, weft_comm *comm, double *extra, weft_metrics *out, weft_error *error) {
    weft_status status = comm && comm->world > 1 ? over_ranks(m, comm, extra, error) : WEFT_OK;
    *out = (weft_metrics){.list = m->given};
    for (const metric_sum *s = m->list; !status && s < m->list + m->n; s++)
        if (s->weight > 0) m->given[out->n++] = (weft_metric){s->name, s->sum / s->weight};
    return status;
}
