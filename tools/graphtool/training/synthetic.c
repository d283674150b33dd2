/* synthetic.c - synthetic batches: fixed-seed numbers of the kind that each input expects. */
#include "tools/graphtool/training/dataset.h"

#include "graph/core/element.h"
#include "graph/core/graph.h"

#include <math.h>
#include <string.h>

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t splitmix(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* One of Box and Muller's two normal numbers. */
static double normal(uint64_t *state) {
    double u = ((double)(splitmix(state) >> 11) + 0.5) * 0x1p-53,
           v = (double)(splitmix(state) >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* The exclusive upper limit of an integer input, found at the ops that read it, through casts and reshapes;
 * 0: none found. */
static int64_t limit_of(const weft_node *input) {
    bool *from = tool_new((size_t)input->graph->next_id + 1, 1); /* values made from the input */
    from[input->out[0].id] = true;
    for (const weft_node *n = input->next; n; n = n->next) {
        bool second = n->n_in > 1 && n->in[1] && from[n->in[1]->id];
        if (second && strcmp(n->op->name, "cross_entropy") == 0) return n->in[0]->type.shape[1];
        if (second && strcmp(n->op->name, "embedding") == 0) return n->in[0]->type.shape[0];
        if (n->n_in == 1 && n->n_out == 1 && n->in[0] && from[n->in[0]->id]) from[n->out[0].id] = true;
    }
    return 0;
}

/* Of the first training graph that has the input. */
static int64_t limit_named(const weft_model *m, const char *name) {
    for (const weft_graph *g = m->graphs; g; g = g->next)
        for (const weft_node *n = g->mode == WEFT_TRAIN ? g->first : NULL; n; n = n->next)
            if (n->op == &weft_op_input && strcmp(input_name(n), name) == 0) return limit_of(n);
    return 0;
}

/* Integers are in [0, below). */
static void fill_random(tensor *into, int64_t count, int64_t below, uint64_t *state) {
    bool is_real = into->type.dtype == WEFT_F32 || into->type.dtype == WEFT_F64; /* never bf16 or f16 */
    for (int64_t i = 0; i < count; i++) {
        uint64_t whole = splitmix(state) % (uint64_t)below;
        element_set(into, &i,
                    is_real                         ? normal(state)
                    : into->type.dtype == WEFT_BOOL ? whole & 1
                                                    : (double)whole);
    }
}

/* What weft_preprocess and a loader call draws: uniform in [0, 1). */
static void fill_draws(float *into, size_t count, uint64_t *state) {
    for (size_t i = 0; i < count; i++) into[i] = (float)(splitmix(state) >> 40) * 0x1p-24f;
}

static weft_status read_again(void *context, int64_t i, void *const *into, weft_error *error) {
    const weft_source *rows = context;
    return rows->read(rows->context, i % rows->count, into, error);
}

/* The rows of input i over and over: more than any step needs. */
static const weft_source *endless(dataset *d, int i) {
    enum { TIMES = 1 << 20 };
    d->again[i] = d->rows[i];
    d->again[i].count *= TIMES;
    d->again[i].read = read_again;
    d->again[i].context = &d->rows[i];
    return &d->again[i];
}

/* Makes the batches of one input. */
static void add_input(dataset *d, const weft_port *p, const weft_plan *plan, int64_t below, uint64_t seed) {
    int i = d->of.n;
    int64_t shape[WEFT_MAX_NDIM];
    memcpy(shape, p->shape, sizeof shape);
    if (!p->ndim || shape[0] != weft_plan_batch(plan))
        tool_fail("input %s has no batch axis: give it with --data", p->name);
    shape[0] *= SYNTHETIC_BATCHES;
    d->arrays[i] = tool_got(weft_array_new(p->dtype, p->ndim, shape, NULL, NULL, &tool_why));
    tool_must(weft_array_source(d->arrays[i], &d->rows[i], &tool_why));
    d->names[i] = tool_text("%s", p->name);
    if (below <= 0 || (p->dtype == WEFT_U8 && below > 256)) below = p->dtype == WEFT_U8 ? 256 : 2;
    uint64_t state = hash_text(p->name, seed + 1234); /* not that of initial values */
    size_t count = p->bytes / dtype_bytes(p->dtype) * SYNTHETIC_BATCHES;
    tensor values = {.data = weft_array_mutable_data(d->arrays[i]), .type = {p->dtype, 1}, .stride = {1}};
    if (p->dtype == WEFT_F32 && strcmp(p->name, "draws") == 0)
        fill_draws(values.data, count, &state);
    else
        fill_random(&values, (int64_t)count, below, &state);
    d->sources[i] = endless(d, i);
    d->n_names = ++d->of.n;
}

/* The inputs of all training graphs, each once: two graphs with an input of one name share its batches, and
 * the trainer compares their types. */
static int inputs_of(const weft_model *m, const weft_plan *plan, weft_port list[OPTIONS_MAX_DATA]) {
    int n = 0;
    weft_port p;
    for (const weft_graph *g = m->graphs; g; g = g->next)
        for (int i = 0; g->mode == WEFT_TRAIN && weft_plan_input(plan, g->name, i, &p); i++) {
            int k = 0;
            while (k < n && strcmp(list[k].name, p.name)) k++;
            if (k == OPTIONS_MAX_DATA) tool_fail("more than %d inputs: too many for bench", k);
            if (k == n) list[n++] = p;
        }
    return n;
}

uint64_t dataset_synthetic_bytes(const weft_model *m, const weft_plan *plan) {
    uint64_t bytes = 0;
    weft_port list[OPTIONS_MAX_DATA];
    for (int i = inputs_of(m, plan, list); i-- > 0;) bytes += (uint64_t)list[i].bytes * SYNTHETIC_BATCHES;
    return bytes;
}

dataset *dataset_synthetic(const weft_model *m, const weft_plan *plan, const options *o) {
    dataset *d = dataset_new();
    weft_port list[OPTIONS_MAX_DATA];
    for (int i = 0, n = inputs_of(m, plan, list); i < n; i++)
        add_input(d, &list[i], plan, limit_named(m, list[i].name), o->seed);
    return d;
}
