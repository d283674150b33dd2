/* test_cuda_work_host.c - the work that plans count (ops/work.h): every node of trained models launches on
 * the emulated GPU what the plan says. test_work.c has the bytes. */
#include "cuda/support/narrow.h"
#include "cuda_host/cuda_host.h"
#include "ops/work.h"
#include "runtime/plan/refresh.h"
#include "runtime/session/state.h"

#include <string.h>

static int64_t launches_so_far(void) {
    cuda_host_counts c = cuda_host_count();
    return c.launches + c.copies + c.calls;
}

/* ---- launches ---- */

/* Nodes are traced one by one; the launches since the last one are the node's. A run begins with launches
 * that belong to no node: the copy of its inputs, its seed and step. They are counted with the first node. */
typedef struct watch {
    const weft_session *session;
    int64_t seen;
    const program *steady; /* the program that runs, once nothing is new to the session; NULL before */
    bool begins;
    int nodes;
} watch;

static const weft_node *node_of(const weft_session *s, const weft_node_event *e) {
    for (int i = 0; i < s->plan->n_programs; i++) {
        const program *p = &s->plan->programs[i];
        for (const weft_node *n = p->graph->first; n && strcmp(p->name, e->graph) == 0; n = n->next)
            if (n->kernel && n->n_out && n->out[0].id == e->id) return n;
    }
    return NULL;
}

static void count_node(void *context, const weft_node_event *e) {
    watch *w = context;
    const weft_node *n = node_of(w->session, e);
    int64_t now = launches_so_far();
    if (!CHECK_SAYS(n, "%%%d of %s is not a node of the plan", e->id, e->graph)) return;
    node_work work = node_work_of(n);
    bool good = now - w->seen == work.launches || (w->begins && now - w->seen > work.launches);
    CHECK_SAYS(good, "%s: %s %%%d by %s: %lld launches, the plan says %d", e->graph, e->op, e->id, e->kernel,
               (long long)(now - w->seen), work.launches);
    CHECK(work.launches == 0 || work.written > 0);
    CHECK_SAYS(!w->steady || program_runs_node(w->steady, n), "%s: %s %%%d runs, the plan does not count it",
               e->graph, e->op, e->id);
    w->seen = now;
    w->begins = false;
    w->nodes++;
}

/* Nodes with a kernel that a run of the program executes in a steady training. */
static int nodes_in_run(const program *p) {
    int count = 0;
    for (const weft_node *n = p->graph->first; n; n = n->next) count += n->kernel && program_runs_node(p, n);
    return count;
}

/* Three steps of all training graphs in turn, as a trainer runs them: from the second on nothing is new to
 * the session, and just the nodes run that the plan counts. Then the other graphs. */
static void train_watched(world_rank *r) {
    watch w = {.session = r->session};
    weft_session_trace(r->session, count_node, &w);
    for (int i = 0; i < 4 * r->plan->n_programs && !r->error.status; i++) {
        const program *p = &r->plan->programs[i % r->plan->n_programs];
        int step = i / r->plan->n_programs, before = w.nodes;
        if (p->trains != (step < 3)) continue;
        w.steady = step == 1 || step == 2 ? p : NULL;
        w.seen = launches_so_far();
        w.begins = true;
        world_micro(r, p->name, step, NULL);
        CHECK_SAYS(!w.steady || w.nodes - before == nodes_in_run(p), "%s: %d nodes ran, the plan counts %d",
                   p->name, w.nodes - before, nodes_in_run(p));
    }
    CHECK(w.nodes > 20);
}

TEST(every_node_launches_what_its_plan_counts) {
    static const weft_dtype types[] = {WEFT_F32, WEFT_BF16};
    for (int i = 0; i < NARROW_MODELS; i++) {
        weft_model *m = narrow_build(&narrow_models[i], &narrow_clipped);
        for (int k = 0; k < 2; k++)
            world_free(narrow_train(
                m, (weft_compile_options){.device = WEFT_DEVICE_CUDA, .precision = types[k]}, train_watched));
        weft_model_free(m);
    }
}

/* ---- times ---- */

static void profile(world_rank *r) {
    world_micro(r, "train", 0, NULL);
    weft_session_set_profile(r->session, true);
    for (int i = 1; i < 4; i++) world_micro(r, "train", i, NULL);
    for (int i = 0; i < r->session->programs[0].n_steps; i++) {
        const step *st = &r->session->programs[0].steps[i];
        CHECK_SAYS(st->runs == 3 && st->nanoseconds >= 0 && st->nanoseconds < 60e9, "%s: %g ns in %lld runs",
                   st->node->op->name, st->nanoseconds, (long long)st->runs);
    }
}

TEST(a_profile_times_each_node_by_events_of_its_stream) {
    weft_model *m = narrow_build(&narrow_models[1], &narrow_clipped);
    cuda_host_counts before = cuda_host_count();
    world_free(narrow_train(m, (weft_compile_options){.device = WEFT_DEVICE_CUDA}, profile));
    CHECK(cuda_host_count().events == before.events);
    weft_model_free(m);
}

SUITE("work on a GPU",
      {T(every_node_launches_what_its_plan_counts), T(a_profile_times_each_node_by_events_of_its_stream)})
