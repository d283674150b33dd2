/* flow.c - an iteration: the steps of the plan's flow, or what options.train_step runs.
 *
 * Rank r gets the r-th block of the micro-batches that a step takes: so w ranks with k each do what one rank
 * with w k does. A step that runs on batches which another took has k of its K, every (K / k)-th, which are
 * the same ones in any world, too. */
#include "runtime/train/trainer.h"
#include "weft/bad_step.h"

/* ---- binding ---- */

int flow_graph(const weft_trainer *t, const char *name) {
    for (int i = 0; i < t->n_graphs; i++)
        if (strcmp(t->graphs[i].graph, name) == 0) return i;
    return -1;
}

/* Micro-batches of a graph: those of the flow, or of the options where it is in no step. */
static int accumulate_of(const weft_trainer *t, const char *graph) {
    weft_flow_step s;
    for (int i = 0; weft_plan_flow(t->plan, i, &s); i++)
        if (strcmp(s.graph, graph) == 0) return s.accumulate;
    return t->options.compile.accumulate > 1 ? t->options.compile.accumulate : 1;
}

weft_status flow_bind_graph(weft_trainer *t, const char *name, weft_error *error) {
    const char *own = model_graph(t->model, name, "trainer: the model", error);
    if (!own) return error->status;
    bound *r = &t->graphs[t->n_graphs];
    weft_status status = bound_open(r, t->plan, own, &t->data, &t->fed, t->data.batch, NULL, error);
    r->accumulate = accumulate_of(t, own);
    if (!status) status = metrics_add(&t->metrics, r, error);
    if (status) bound_close(r);
    if (!status) t->n_graphs++;
    return status;
}

weft_status flow_bind(weft_trainer *t, weft_error *error) {
    weft_flow_step s;
    t->graphs = kit_take(&t->memory, weft_graph_count(t->model), sizeof *t->graphs);
    if (!t->graphs) return kit_no_memory(error, "trainer");
    for (int i = 0; weft_plan_flow(t->plan, i, &s); i++)
        if (flow_graph(t, s.graph) < 0 && flow_bind_graph(t, s.graph, error)) return error->status;
    if (t->options.train_step) return WEFT_OK; /* it may run other graphs */
    return batches_all_used(&t->data, t->n_graphs, t->graphs, error);
}

/* ---- how many batches ---- */

int64_t flow_takes(const weft_trainer *t, int64_t iteration) {
    int64_t takes = 0;
    weft_flow_step s[WEFT_MAX_FLOW_STEPS];
    if (t->options.train_step) return t->most_taken;
    int n = weft_plan_iteration(t->plan, iteration, s);
    for (int i = 0; i < n; i++)
        if (s[i].batch == WEFT_FLOW_NEXT) takes += (int64_t)s[i].repeat * s[i].accumulate;
    return takes * t->progress.world;
}

/* The first iteration after `iteration` in which other steps run; INT64_MAX: none. */
static int64_t next_change(const weft_trainer *t, int64_t iteration) {
    int64_t next = INT64_MAX;
    weft_flow_step s;
    for (int i = 0; weft_plan_flow(t->plan, i, &s); i++) {
        if (s.from > iteration && s.from < next) next = s.from;
        if (s.to > iteration && s.to < next) next = s.to;
    }
    return next;
}

/* Iterations of one epoch that begins with iteration `from`; steps over those that take equally many. */
static int64_t in_epoch(const weft_trainer *t, int64_t from) {
    int64_t now = from, takes, left = batches_count(&t->data);
    while (now < INT64_MAX && left >= (takes = flow_takes(t, now))) {
        int64_t alike = next_change(t, now) - now, n = takes ? left / takes : alike;
        if (n > alike) n = alike;
        now += n;
        left -= n * takes;
    }
    return now - from;
}

weft_status flow_count(const weft_trainer *t, int64_t epochs, int64_t *iterations, weft_error *error) {
    *iterations = 0;
    int64_t most = t->options.iterations ? t->options.iterations : INT64_MAX;
    for (int64_t i = 0; i < epochs && *iterations < most; i++) {
        int64_t n = in_epoch(t, *iterations);
        if (!n)
            return kit_fail(error, WEFT_DATA,
                            "trainer: iteration %jd of the flow takes %jd batches on all ranks, and the data "
                            "have %jd: use a smaller batch",
                            *iterations, flow_takes(t, *iterations), batches_count(&t->data));
        if (n >= INT64_MAX - *iterations)
            return kit_fail(
                error, WEFT_ARGUMENT,
                "trainer: from some iteration on the flow takes no batches, so the epoch does not "
                "end: say how many iterations there are");
        *iterations += n;
    }
    return WEFT_OK;
}

int64_t flow_runs(const weft_trainer *t, const char *graph) {
    int64_t runs = 0, next, last = t->progress.iterations;
    for (int64_t now = 0; now < last; now = next) {
        weft_flow_step s[WEFT_MAX_FLOW_STEPS];
        next = next_change(t, now);
        if (next > last) next = last;
        int n = weft_plan_iteration(t->plan, now, s);
        for (int i = 0; i < n; i++)
            if (strcmp(s[i].graph, graph) == 0) runs += (next - now) * s[i].repeat;
    }
    return runs;
}

/* ---- running ---- */

static weft_status next_micro_batch(weft_trainer *t, const bound *r, int k, weft_error *error) {
    int64_t number = flow_micro_batch(t, r, t->progress.rank, k);
    bool is_there = true;
    batches_seek(&t->data, number);
    weft_comm_place(t->options.comm, "wait for data");
    weft_status status = batches_next(&t->data, &is_there, error);
    if (status || is_there) return status;
    return kit_fail(error, WEFT_DATA, "trainer: the epoch has no batch %jd", number);
}

/* One run of a graph: its micro-batches, after the last of which it updates. */
weft_status flow_run_graph(weft_trainer *t, bound *r, weft_error *error) {
    t->last_run = r;
    metrics_mark(&t->metrics);
    for (int k = 0; k < r->accumulate; k++) {
        int64_t bad = weft_bad_steps(t->session);
        if (bound_reads(r) && next_micro_batch(t, r, k, error)) return error->status;
        weft_status status = bound_run(r, t->session, &t->data, t->fetches, error);
        if (status == WEFT_DATA) return step_failed(t, r, k, weft_bad_steps(t->session) > bad, error);
        if (status) return status;
        if (t->fetches) metrics_note(&t->metrics, r, 1);
    }
    t->has_run = true;
    return WEFT_OK;
}

void flow_take(weft_trainer *t, const bound *r) {
    t->micro_begin = t->begin;
    t->micro_each = r->accumulate;
    t->begin += (int64_t)r->accumulate * t->progress.world;
    t->taken += (int64_t)r->accumulate * t->progress.world;
}

/* Numbers of the batches that this rank reads in an iteration that begins at batch `begin`, at most `most`,
 * into list; returns how many, and moves *begin after those of all ranks. */
static int iteration_batches(const weft_trainer *t, int64_t iteration, int64_t *begin, int64_t *list,
                             int most) {
    weft_flow_step steps[WEFT_MAX_FLOW_STEPS];
    int64_t first = *begin, each = 0;
    int n = 0, n_steps = weft_plan_iteration(t->plan, iteration, steps);
    for (const weft_flow_step *s = steps; s < steps + n_steps; s++) {
        bool reads = bound_reads(&t->graphs[flow_graph(t, s->graph)]);
        for (int k = 0; k < s->repeat; k++) {
            if (s->batch == WEFT_FLOW_NEXT) {
                first = *begin, each = s->accumulate;
                *begin += (int64_t)s->accumulate * t->progress.world;
            }
            for (int m = 0; reads && m < s->accumulate && n < most; m++)
                list[n++] = first + t->progress.rank * each + m * (each / s->accumulate);
        }
    }
    return n;
}

/* Tells the loader what this rank reads next, so that it reads nothing else ahead: this iteration and, where
 * the epoch has it, the one after. */
static weft_status follow(weft_trainer *t, weft_error *error) {
    enum { MOST = 64 };
    int64_t list[2 * MOST], begin = t->begin, next = t->progress.iteration + 1;
    if (!t->data.loader) return WEFT_OK;
    int n = iteration_batches(t, t->progress.iteration, &begin, list, MOST);
    if (n < MOST && flow_takes(t, next) <= batches_count(&t->data) - begin)
        n += iteration_batches(t, next, &begin, list + n, MOST);
    return n ? weft_loader_follow(t->data.loader, n, list, error) : WEFT_OK;
}

weft_status flow_run(weft_trainer *t, weft_error *error) {
    weft_flow_step s[WEFT_MAX_FLOW_STEPS];
    int n = weft_plan_iteration(t->plan, t->progress.iteration, s);
    if (follow(t, error)) return error->status;
    for (int i = 0; i < n; i++) {
        bound *r = &t->graphs[flow_graph(t, s[i].graph)];
        for (int k = 0; k < s[i].repeat; k++) {
            if (s[i].batch == WEFT_FLOW_NEXT) flow_take(t, r);
            if (flow_run_graph(t, r, error)) return error->status;
        }
    }
    return WEFT_OK;
}
