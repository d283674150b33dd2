/* synthetic.c - synthetic batches: fixed-seed numbers of the kind that each input expects. */
#include "tools/graphtool/training/dataset.h"

#include "tools/graphtool/ranks/world.h"

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

/* Of the first graph that implies one for the input of that name. */
static int64_t limit_named(const weft_model *m, const char *name) {
    int64_t limit = 0;
    for (const weft_graph *g = m->graphs; g && !limit; g = g->next)
        for (const weft_node *n = g->first; n && !limit; n = n->next)
            if (n->op == &weft_op_input && strcmp(input_name(n), name) == 0) limit = limit_of(n);
    return limit;
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

/* ---- inputs ---- */

/* The inputs that need data. */
typedef struct wanted {
    int n;
    weft_port list[OPTIONS_MAX_DATA];
    int64_t rows; /* of a batch */
} wanted;

static bool is_set(const text_list *set, const char *name) {
    size_t n = strlen(name);
    for (int i = 0; i < set->n; i++)
        if (strncmp(set->v[i], name, n) == 0 && set->v[i][n] == '=') return true;
    return false;
}

/* Adds the inputs of a graph that are not there yet. Returns whether a shape names WEFT_BATCH. */
static bool add_inputs(wanted *w, const weft_plan *plan, const char *graph, const options *o) {
    weft_port p;
    bool names_batch = false;
    for (int i = 0; weft_plan_input(plan, graph, i, &p); i++) {
        int k = 0;
        while (k < w->n && strcmp(w->list[k].name, p.name)) k++;
        if (k == OPTIONS_MAX_DATA) tool_fail("more than %d inputs: too many for bench", k);
        if (k < w->n || is_set(&o->set, p.name)) continue;
        w->list[w->n++] = p;
        if (p.ndim && !w->rows) w->rows = p.shape[0];
        names_batch = names_batch || p.has_batch;
    }
    return names_batch;
}

/* The inputs of the flow's graphs, each once: two graphs with an input of one name share its batches, and the
 * trainer compares their types. Where no shape names WEFT_BATCH, a batch is what the first axis says. */
static wanted inputs_of(const weft_plan *plan, const options *o) {
    wanted w = {.rows = 0};
    weft_flow_step s;
    bool names_batch = false;
    for (int i = 0; weft_plan_flow(plan, i, &s); i++)
        names_batch = add_inputs(&w, plan, s.graph, o) || names_batch;
    if (names_batch) w.rows = weft_plan_batch(plan);
    return w;
}

static bool has_rows(const wanted *w, const weft_port *p) {
    return p->has_batch || (p->ndim && p->shape[0] == w->rows);
}

/* Adds "NAME=0.5" to the numbers of the training; of an integer 1, where there is one below its limit. */
static void add_number(const weft_port *p, int64_t below, const options *o, const char **set) {
    bool is_real = p->dtype == WEFT_F32 || p->dtype == WEFT_F64;
    const char *number = is_real ? "0.5" : below == 1 ? "0" : "1";
    *set = tool_text("%s%s%s=%s", *set ? *set : "", *set ? " " : "", p->name, number);
    if (world_rank(o) == 0)
        tool_note("input %s has no batch axis: it is %s in each step, unless --set %s=NUMBER says another",
                  p->name, number, p->name);
}

/* Makes the batches of one input. */
static void add_input(dataset *d, const weft_port *p, int64_t below, uint64_t seed) {
    int i = d->of.n;
    int64_t shape[WEFT_MAX_NDIM];
    memcpy(shape, p->shape, sizeof shape);
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

uint64_t dataset_synthetic_bytes(const weft_plan *plan, const options *o) {
    uint64_t bytes = 0;
    const wanted w = inputs_of(plan, o);
    for (int i = 0; i < w.n; i++)
        if (has_rows(&w, &w.list[i])) bytes += (uint64_t)w.list[i].bytes * SYNTHETIC_BATCHES;
    return bytes;
}

dataset *dataset_synthetic(const weft_model *m, const weft_plan *plan, const options *o, const char **set) {
    dataset *d = dataset_new();
    const wanted w = inputs_of(plan, o);
    for (int i = 0; i < w.n; i++) {
        const weft_port *p = &w.list[i];
        int64_t below = limit_named(m, p->name);
        if (has_rows(&w, p))
            add_input(d, p, below, o->seed);
        else
            add_number(p, below, o, set);
    }
    return d;
}
