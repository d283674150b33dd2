/* session_run.c - one run: feeds are bound, an array of prepared calls is walked, outputs are copied. While it steps, a
 * session makes no heap allocation of its own. */
#include "runtime/session_state.h"

#include <omp.h>
#include <string.h>

static runnable *find_runnable(weft_session *s, const char *graph, program_phase phase) {
    for (int i = 0; i < s->plan->n_programs; i++)
        if (s->programs[i].p->phase == phase && strcmp(s->programs[i].p->name, graph) == 0)
            return &s->programs[i];
    return NULL;
}

/* The program of this run: with accumulation the first, the middle ones, the last. */
static runnable *choose(weft_session *s, const char *graph, runnable **head) {
    runnable *whole = find_runnable(s, graph, PHASE_WHOLE);
    *head = whole ? whole : find_runnable(s, graph, PHASE_FIRST);
    if (whole || !*head || (*head)->micro == 0) return *head;
    bool last = (*head)->micro == s->plan->options.accumulate - 1;
    return find_runnable(s, graph, last ? PHASE_LAST : PHASE_ADD);
}

static weft_status feed(runnable *r, const weft_feed *feeds, int n_feeds, weft_error *error) {
    for (int i = 0; i < r->n_inputs; i++) r->inputs[i].data = NULL;
    for (int f = 0; f < n_feeds; f++) {
        int i = 0;
        while (i < r->n_inputs && (!feeds[f].name || strcmp(r->inputs[i].name, feeds[f].name))) i++;
        if (i == r->n_inputs)
            return error_set(error, WEFT_NAME, "graph %s has no input '%s'", r->p->name, SHOW(feeds[f].name));
        const fed *in = &r->inputs[i];
        if (in->data)
            return error_set(error, WEFT_NAME, "graph %s: input '%s' is fed twice", r->p->name, in->name);
        if (feeds[f].bytes != in->bytes)
            return error_set(error, WEFT_SHAPE, "graph %s: input '%s' is %s, %zu bytes; it was fed %zu",
                             r->p->name, in->name, TYPE(&in->value->type), in->bytes, feeds[f].bytes);
        if (!feeds[f].data || (uintptr_t)feeds[f].data % dtype_bytes(in->value->type.dtype))
            return error_set(error, WEFT_ARGUMENT,
                             "graph %s: the data of input '%s' are NULL or not aligned to %zu", r->p->name,
                             in->name, dtype_bytes(in->value->type.dtype));
        r->inputs[i].data = feeds[f].data;
    }
    for (int i = 0; i < r->n_inputs; i++)
        if (!r->inputs[i].data)
            return error_set(error, WEFT_NAME, "graph %s: input '%s' (%s) is not fed", r->p->name,
                             r->inputs[i].name, TYPE(&r->inputs[i].value->type));
    for (int i = 0; i < r->n_patches; i++) {
        const patch *p = &r->patches[i];
        p->operand->data = (char *)(uintptr_t)r->inputs[p->input].data + p->offset;
    }
    return WEFT_OK;
}

static const fetched *find_output(const runnable *r, const char *name) {
    for (int i = 0; i < r->n_outputs; i++)
        if (name && strcmp(r->outputs[i].name, name) == 0) return &r->outputs[i];
    return NULL;
}

static weft_status check_fetches(const runnable *r, const weft_fetch *fetches, int n, weft_error *error) {
    for (int f = 0; f < n; f++) {
        const fetched *o = find_output(r, fetches[f].name);
        if (!o)
            return error_set(error, WEFT_NAME, "graph %s has no output '%s'", r->p->name,
                             SHOW(fetches[f].name));
        if (fetches[f].bytes != o->bytes || !fetches[f].data)
            return error_set(error, WEFT_SHAPE,
                             "graph %s: output '%s' has %zu bytes; the caller has room for %zu", r->p->name,
                             o->name, o->bytes, fetches[f].data ? fetches[f].bytes : 0);
    }
    return WEFT_OK;
}

static void fetch(const runnable *r, const weft_fetch *fetches, int n) {
    for (int f = 0; f < n; f++) {
        const fetched *o = find_output(r, fetches[f].name);
        const void *from = o->memory ? o->memory : r->inputs[o->input].data;
        memcpy(fetches[f].data, from, o->bytes);
    }
}

static weft_status walk(weft_session *s, runnable *r, weft_error *error) {
    weft_status status = WEFT_OK;
    int reached = 0;
    bool is_timed = s->profiles || s->event;
    for (; reached < r->n_steps && !status; reached++) {
        step *st = &r->steps[reached];
        if (st->version && *st->version == *st->packed) continue;
        if (s->n_carried && (status = lane_arrive(s, st, error))) break;
        uint64_t began = is_timed ? clock_ns() : 0;
        st->call.error = error;
        status = st->kernel ? st->kernel->run(st->state, &st->call) : lane_run(s, r, st, error);
        if (is_timed) note_time(s, r, st, began);
        st->runs++;
        if (st->version && !status) *st->packed = *st->version;
    }
    if (status && r->p->n_collectives) lane_drain(s, r, reached);
    for (int i = 0; i < r->n_written; i++) ++*r->written[i];
    return status;
}

weft_status weft_run(weft_session *s, const char *graph, const weft_feed *feeds, int n_feeds,
                     const weft_fetch *fetches, int n_fetches, weft_error *error) {
    if (!s || !graph) return error_set(error, WEFT_ARGUMENT, "run: a session and a graph's name are needed");
    weft_error own = {0};
    runnable *head, *r = choose(s, graph, &head);
    if (!r) return error_set(error, WEFT_NAME, "run: the plan has no graph '%s'", SHOW(graph));
    weft_status status = feed(r, feeds, n_feeds, error);
    if (!status) status = check_fetches(r, fetches, n_fetches, error);
    if (status) return status;
    r->run.step = r->counter ? (int64_t)*r->counter : 0;
    r->run.local = head->micro;
    r->run.micro = head->micro + (s->comm ? (int64_t)s->comm->rank * s->plan->options.accumulate : 0);
    if (r->p->n_collectives) s->run++;
    int threads = omp_get_max_threads();
    omp_set_num_threads(s->plan->kernels.threads);
    status = walk(s, r, error ? error : &own);
    omp_set_num_threads(threads);
    if (status) return status;
    fetch(r, fetches, n_fetches);
    bool step_done = r->p->phase == PHASE_WHOLE || r->p->phase == PHASE_LAST;
    head->micro = step_done ? 0 : head->micro + 1;
    if (r->counter && step_done) *r->counter += 1;
    return WEFT_OK;
}
