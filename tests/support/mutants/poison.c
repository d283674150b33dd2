/* poison.c - see poison.h. The kernel of each step is replaced by one that fills memory, calls it, and fills
 * memory again. */
#include "support/mutants/poison.h"

#include "ops/optimizer/update.h"
#include "runtime/session/state.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory as it comes ---- */

static void *filled(void *context, size_t bytes, size_t alignment) {
    void *memory = aligned_alloc(alignment, size_align(bytes, alignment));
    return memory ? memset(memory, *(const int *)context, bytes) : NULL;
}

static void give(void *context, void *memory, size_t bytes) {
    (void)context, (void)bytes;
    free(memory);
}

const weft_env *poison_env(int byte) {
    static const int bytes[] = {POISON_ZERO, POISON_LARGE, POISON_NAN};
    static const weft_allocator allocators[] = {{filled, give, (void *)&bytes[0]},
                                                {filled, give, (void *)&bytes[1]},
                                                {filled, give, (void *)&bytes[2]}};
    static const weft_env envs[] = {
        {.allocator = &allocators[0]}, {.allocator = &allocators[1]}, {.allocator = &allocators[2]}};
    return &envs[byte == POISON_NAN ? 2 : byte == POISON_LARGE];
}

/* ---- kernels between fills ---- */

typedef struct region {
    char *data;
    size_t bytes;
} region;

typedef struct wrapped {
    poison *of;
    step *step;
    const weft_kernel *kernel; /* its own */
    void *state;
    weft_kernel filling;
    region *before, *behind; /* ended by one of no bytes */
} wrapped;

struct poison {
    int byte, n;
    wrapped *steps;
    int64_t runs;
};

static void fill(const poison *p, const region *r) {
    for (; r->bytes; r++) memset(r->data, p->byte, r->bytes);
}

static weft_status run(void *state, const kernel_call *c) {
    wrapped *w = state;
    weft_status status = kernel_check_call(w->kernel, c, c->error);
    if (status) return status;
    fill(w->of, w->before);
    if (c->workspace) memset(c->workspace, w->of->byte, c->node->workspace_bytes);
    status = w->kernel->run(w->state, c);
    if (!status) fill(w->of, w->behind);
    w->of->runs++;
    return status;
}

/* ---- which step writes a value first, and which reads it last ---- */

typedef struct lives {
    int *first, *last; /* steps, by id of a value that owns memory of the arena */
    int n;
} lives;

static lives lives_of(const program *p) {
    const weft_graph *g = p->graph;
    lives l = {.n = g->next_id + 1};
    l.first = test_memory(sizeof *l.first * (size_t)l.n);
    l.last = test_memory(sizeof *l.last * (size_t)l.n);
    for (int i = 0; i < l.n; i++) l.first[i] = INT32_MAX, l.last[i] = -1;
    for (const weft_node *n = g->first; n; n = n->next) {
        for (int k = 0; k < n->n_out; k++) {
            int id = value_root(&n->out[k])->id;
            if (n->order < l.first[id]) l.first[id] = n->order;
            if (n->order > l.last[id]) l.last[id] = n->order;
        }
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i] && n->order > l.last[value_root(n->in[i])->id])
                l.last[value_root(n->in[i])->id] = n->order;
    }
    for (const graph_output *o = g->outputs; o; o = o->next) l.last[value_root(o->value)->id] = INT32_MAX;
    /* The session copies their flags after the kernel, and the next step may write there. */
    for (const weft_node *n = g->first; n; n = n->next)
        if ((n->op == &weft_op_guard || n->op == &weft_op_gate) && l.last[n->out[0].id] == n->order)
            l.last[n->out[0].id] = INT32_MAX;
    return l;
}

/* Regions of values whose life begins (or ends) in step `order`. */
static region *regions_at(const weft_session *s, const program *p, const int *ends, int order) {
    region *list = test_memory(sizeof *list * (size_t)(p->graph->next_id + 1));
    int count = 0;
    for (const weft_node *n = p->graph->first; n; n = n->next)
        for (int k = 0; k < n->n_out; k++) {
            const weft_value *v = &n->out[k];
            if (v->base || v->variable || v->arena_offset < 0 || n->op == &weft_op_input ||
                ends[v->id] != order)
                continue;
            list[count++] = (region){s->memory + v->arena_offset, value_span(v)};
        }
    list[count] = (region){0};
    return list;
}

static void wrap(weft_session *s, poison *p, const program *of, const lives *l, step *st) {
    wrapped *w = &p->steps[p->n++];
    *w = (wrapped){.of = p, .step = st, .kernel = st->kernel, .state = st->state, .filling = *st->kernel};
    w->before = regions_at(s, of, l->first, st->node->order);
    w->behind = regions_at(s, of, l->last, st->node->order);
    w->filling.run = run;
    st->kernel = &w->filling;
    st->state = w;
}

poison *poison_put(weft_session *s, int byte) {
    poison *p = test_memory(sizeof *p);
    int steps = 0;
    for (int i = 0; i < s->plan->n_programs; i++) steps += s->programs[i].n_steps;
    *p = (poison){.byte = byte, .steps = test_memory(sizeof *p->steps * (size_t)(steps + 1))};
    for (int i = 0; i < s->plan->n_programs; i++) {
        bound_program *r = &s->programs[i];
        lives l = lives_of(r->p);
        for (int k = 0; k < r->n_steps; k++)
            if (r->steps[k].kernel) wrap(s, p, r->p, &l, &r->steps[k]);
        free(l.first);
        free(l.last);
    }
    return p;
}

int64_t poison_end(poison *p) {
    int64_t runs = p->runs;
    for (int i = 0; i < p->n; i++) {
        wrapped *w = &p->steps[i];
        w->step->kernel = w->kernel;
        w->step->state = w->state;
        free(w->before);
        free(w->behind);
    }
    free(p->steps);
    free(p);
    return runs;
}
