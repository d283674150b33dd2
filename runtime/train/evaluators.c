/* evaluators.c - the evaluators of a sweep: binds what they read to outputs and inputs, calls them with each
 * batch, and reports what follows from all. */
#include "runtime/train/trainer.h"

/* The function's error begins with the evaluator's name. */
static weft_status told(const weft_evaluator *e, weft_tally *t, weft_status status, const weft_error *own,
                        weft_error *error) {
    const weft_error *first = status ? own : t ? &t->error : own;
    if (!status && t) status = t->error.status;
    if (!status) return WEFT_OK;
    weft_error why = *first;
    if (t) t->error = (weft_error){0};
    return kit_fail(error, status, "evaluator %.80s: %s", e->name, why.text[0] ? why.text : "it failed");
}

static int reads_of(const weft_evaluator *e) {
    int n = 0;
    while (n < WEFT_MAX_READS && e->reads[n]) n++;
    return n;
}

void evaluator_copy(weft_evaluator *into, const weft_evaluator *from, kit_arena *memory) {
    *into = *from;
    into->name = kit_copy(memory, from->name);
    for (int i = 0; i < reads_of(from); i++) into->reads[i] = kit_copy(memory, from->reads[i]);
}

weft_status measures_open(measures *m, int n, const weft_evaluator *list, const weft_env *env,
                          weft_error *error) {
    *m = (measures){.memory = kit_arena_of(env), .n = n, .list = list};
    m->tallies = kit_take(&m->memory, n, sizeof *m->tallies);
    for (int i = 0; i < 2; i++) m->reads[i] = kit_take(&m->memory, n, sizeof *m->reads[i]);
    return m->memory.is_out ? kit_no_memory(error, "trainer") : WEFT_OK;
}

void measures_close(measures *m) {
    for (int i = 0; m->tallies && i < m->n; i++) kit_release(m->tallies[i].memory);
    kit_release(m->memory);
    *m = (measures){.n = 0};
}

/* Tensor k of an evaluator: an output, which is fetched from now on, or an input. */
static weft_status find_read(measure_reads *into, int k, const weft_plan *plan, bound *r, const char *name,
                             weft_error *error) {
    weft_port p;
    const char *near = NULL;
    bool is_output = find_port(plan, r->graph, false, name, &p, &near) >= 0;
    int input = is_output ? -1 : find_port(plan, r->graph, true, name, &p, &near);
    into->source[k] = input < 0 ? -1 : r->source[input];
    if (!is_output && input < 0)
        return kit_fail(error, WEFT_NAME, "graph %s has neither an output nor an input '%.80s'%s", r->graph,
                        name, NEAR(near));
    into->reads[k] = (weft_view){.name = p.name, .dtype = p.dtype, .ndim = p.ndim};
    memcpy(into->reads[k].shape, p.shape, sizeof p.shape);
    if (!is_output && into->source[k] < 0) into->reads[k].data = r->feeds[input].data; /* a number's */
    return is_output ? bound_fetch(r, &p, &into->reads[k].data, error) : WEFT_OK;
}

/* Its tally; for the smaller batch it must be as large. */
static weft_status keep(weft_tally *t, int which, const weft_evaluator *e, const weft_tally_size *size,
                        const weft_env *env, weft_error *error) {
    if (!which) return tally_open(t, e->name, size, env, error);
    if (size->counts == t->n_counts && size->sums == t->n_sums && size->width == t->width) return WEFT_OK;
    return kit_fail(error, WEFT_SHAPE,
                    "it keeps other counts, sums or widths of rows for the last, smaller batch");
}

static weft_status bind_one(measures *m, int which, int i, const weft_plan *plan, bound *r, int64_t rows,
                            weft_error *error) {
    const weft_evaluator *e = &m->list[i];
    measure_reads *reads = &m->reads[which][i];
    weft_tally_size size = {0};
    for (int k = 0; k < reads_of(e); k++)
        if (find_read(reads, k, plan, r, e->reads[k], error)) return error->status;
    weft_view shapes[WEFT_MAX_READS];
    memcpy(shapes, reads->reads, sizeof shapes);
    for (int k = 0; k < WEFT_MAX_READS; k++) shapes[k].data = NULL;
    weft_status status = e->open(e->self, rows, shapes, &size, error);
    return status ? status : keep(&m->tallies[i], which, e, &size, &m->memory.env, error);
}

weft_status measures_bind(measures *m, int which, const weft_plan *plan, bound *r, int64_t rows,
                          weft_error *error) {
    for (int i = 0; i < m->n; i++) {
        weft_error own = {0};
        const char *name = m->list[i].name;
        if (told(&m->list[i], NULL, bind_one(m, which, i, plan, r, rows, &own), &own, error))
            return error->status;
        for (int k = 0; k < r->n_out; k++)
            if (strcmp(r->out[k].name, name) == 0)
                return kit_fail(error, WEFT_NAME, "evaluator %.80s: graph %s has an output of this name",
                                name, r->graph);
    }
    return WEFT_OK;
}

void measures_clear(measures *m) {
    for (int i = 0; i < m->n; i++) tally_clear(&m->tallies[i]);
}

weft_status measures_batch(measures *m, int which, const batches *b, weft_error *error) {
    for (int i = 0; i < m->n; i++) {
        const weft_evaluator *e = &m->list[i];
        measure_reads *of = &m->reads[which][i];
        weft_error own = {0};
        for (int k = 0; k < reads_of(e); k++)
            if (of->source[k] >= 0) of->reads[k].data = b->data[of->source[k]];
        weft_status status = e->batch(e->self, b->rows, of->reads, &m->tallies[i], &own);
        if (told(e, &m->tallies[i], status, &own, error)) return error->status;
    }
    return WEFT_OK;
}

/* Room for the graph's own metrics and all that is reported. */
static weft_status append(measures *m, weft_metrics *out, weft_error *error) {
    int all = out->n, n = out->n;
    for (int i = 0; i < m->n; i++) all += m->tallies[i].n_reports;
    weft_metric *given = kit_grow(&m->memory, m->given, all, sizeof *given);
    if (!given) return kit_no_memory(error, "trainer");
    m->given = given;
    for (int i = 0; i < n; i++) m->given[i] = out->list[i];
    for (int i = 0; i < m->n; i++)
        for (int k = 0; k < m->tallies[i].n_reports; k++) {
            const report *r = &m->tallies[i].reports[k];
            m->given[n++] = (weft_metric){r->name, r->value};
        }
    out->list = m->given;
    out->n = n;
    return WEFT_OK;
}

weft_status measures_report(measures *m, weft_comm *comm, weft_metrics *out, weft_error *error) {
    for (int i = 0; i < m->n; i++) {
        const weft_evaluator *e = &m->list[i];
        weft_tally *t = &m->tallies[i];
        weft_error own = {0};
        weft_status status = tally_merge(t, comm, error);
        if (!status) status = told(e, t, e->report(e->self, t, &own), &own, error);
        rows_drop(t);
        if (status) return status;
    }
    return m->n ? append(m, out, error) : WEFT_OK;
}
