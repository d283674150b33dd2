/* flow.c - see flow.h. Of the micro-batches that a step takes, rank r gets the r-th block: so w ranks with k
 * each do what one rank with w k does. A step that runs on batches which another took has k of its K, every
 * (K / k)-th, which are the same ones in any world, too. */
#include "tools/graphtool/common/flow.h"

#include "tools/graphtool/common/world.h"

#include "graph/core/flow.h"

#include <stdlib.h>
#include <string.h>

/* ---- binding ---- */

static int graph_index(const flow *f, const char *name) {
    for (int i = 0; i < f->n_graphs; i++)
        if (strcmp(f->graphs[i].name, name) == 0) return i;
    return -1;
}

static int bind(flow *f, const weft_plan *plan, const char *name, const batches *b) {
    if (f->n_graphs == FLOW_MAX_GRAPHS) return tool_fail("more than %d graphs in a flow", FLOW_MAX_GRAPHS);
    graph_run *r = &f->graphs[f->n_graphs];
    int status = graph_run_bind(r, plan, name, b, b->batch, NULL);
    if (status >= 0) return status;
    f->n_graphs++;
    for (int i = 0; i < r->n_out && f->n_values < FLOW_VALUES; i++) f->names[f->n_values++] = r->out[i].name;
    return -1;
}

int flow_open(flow *f, const weft_plan *plan, const batches *b, const options *o) {
    *f = (flow){.rank = world_rank(o), .world = world_size(o)};
    f->graphs = calloc(FLOW_MAX_GRAPHS, sizeof *f->graphs);
    if (!f->graphs) return tool_fail("out of memory");
    while (f->n_steps < FLOW_STEPS && weft_plan_flow(plan, f->n_steps, &f->steps[f->n_steps])) {
        const char *name = f->steps[f->n_steps].graph;
        int status = graph_index(f, name) < 0 ? bind(f, plan, name, b) : -1;
        if (status >= 0) return status;
        f->graph_of[f->n_steps++] = graph_index(f, name);
    }
    return batches_all_used(b, f->n_graphs, f->graphs);
}

void flow_close(flow *f) {
    free(f->graphs);
    *f = (flow){0};
}

/* ---- iterations ---- */

int64_t flow_takes(const flow *f, int64_t iteration) {
    int64_t takes = 0;
    for (int i = 0; i < f->n_steps; i++) {
        const weft_flow_step *s = &f->steps[i];
        if (flow_runs_in(s, iteration) && flow_batch(f->steps, i, iteration) == WEFT_FLOW_NEXT)
            takes += (int64_t)s->repeat * s->accumulate;
    }
    return takes * f->world;
}

/* Iterations of one epoch that begins with iteration `from`, at most `most`; steps over those that take
 * equally many. */
static int64_t in_epoch(const flow *f, int64_t from, int64_t batches, int64_t most) {
    int64_t now = from, takes;
    while (now - from < most && batches >= (takes = flow_takes(f, now))) {
        int64_t alike = flow_change(f->n_steps, f->steps, now) - now, n = takes ? batches / takes : alike;
        if (n > alike) n = alike;
        if (n > most - (now - from)) n = most - (now - from);
        now += n;
        batches -= n * takes;
    }
    return now - from;
}

int flow_count(const flow *f, int64_t epochs, int64_t batches, int64_t most, int64_t *iterations) {
    *iterations = 0;
    for (int64_t i = 0; i < epochs && *iterations < most; i++) {
        int64_t n = in_epoch(f, *iterations, batches, most - *iterations);
        if (!n)
            return tool_fail(
                "iteration %lld of the flow takes %lld batches on all ranks, and the data have %lld: "
                "use --batch=N",
                (long long)*iterations, (long long)flow_takes(f, *iterations), (long long)batches);
        *iterations += n;
    }
    if (*iterations < INT64_MAX) return -1;
    return tool_fail(
        "from some iteration on the flow takes no batches, so the epoch does not end: use --steps=N");
}

/* ---- running ---- */

/* Micro-batches that a step took: those of all ranks begin at `begin`, each rank has `each`. */
typedef struct taken {
    int64_t begin, each;
} taken;

/* Where the outputs of a graph begin among all values. */
static int values_of(const flow *f, int graph) {
    int at = 0;
    for (int i = 0; i < graph; i++) at += f->graphs[i].n_out;
    return at;
}

/* One run of step i: its micro-batches, after the last of which the graph updates. */
static int run_step(flow *f, int i, const taken *of, weft_session *session, batches *b) {
    graph_run *r = &f->graphs[f->graph_of[i]];
    int at = values_of(f, f->graph_of[i]), micro = f->steps[i].accumulate;
    for (int k = 0; k < micro; k++) {
        if (r->n_in) batches_seek(b, of->begin + f->rank * of->each + k * (of->each / micro));
        int status = r->n_in ? batches_next(b) : -1;
        if (status != -1) return status == BATCHES_END ? tool_fail("the data ended inside an epoch") : status;
        if ((status = graph_run_once(r, session, b)) >= 0) return status;
        for (int v = 0; v < r->n_out && at + v < FLOW_VALUES; v++) f->values[at + v] += (double)r->values[v];
    }
    f->runs[f->graph_of[i]] += micro;
    return -1;
}

/* Sums become means. */
static void note_values(flow *f) {
    for (int g = 0, at = 0; g < f->n_graphs; g++)
        for (int i = 0; i < f->graphs[g].n_out && at < FLOW_VALUES; i++, at++) {
            f->has_value[at] = f->runs[g] > 0;
            if (f->runs[g]) f->values[at] /= (double)f->runs[g];
        }
}

int flow_run(flow *f, weft_session *session, batches *b) {
    int64_t begin = b->taken;
    taken now = {begin, 0};
    memset(f->values, 0, sizeof f->values);
    memset(f->runs, 0, sizeof f->runs);
    for (int i = 0; i < f->n_steps; i++) {
        const weft_flow_step *s = &f->steps[i];
        if (!flow_runs_in(s, f->iteration)) continue;
        bool is_new = flow_batch(f->steps, i, f->iteration) == WEFT_FLOW_NEXT;
        for (int k = 0; k < s->repeat; k++) {
            if (is_new) now = (taken){begin, s->accumulate};
            if (is_new) begin += (int64_t)s->accumulate * f->world;
            int status = run_step(f, i, &now, session, b);
            if (status >= 0) return status;
        }
    }
    note_values(f);
    f->rows = flow_takes(f, f->iteration) * b->rows;
    batches_seek(b, begin);
    f->iteration++;
    return -1;
}
