/* apart.c - exporters store equal tensors once, and biases and norms begin equal: all zeros, or all ones.
 * Such a vector is taken apart again, into an initializer for each layer that reads it, as the module had
 * them: where it is read by way of an Identity, whose result has the name of the parameter, and where
 * PyTorch's exporter says that another module reads it. Matrices, and vectors of different numbers, are equal
 * because they are tied, and stay one. */
#include "interchange/onnx/import/import.h"

enum { MOST_APART = 4096, SHOWN_APART = 3 };

/* A node that reads a vector, and the name that it reads it by. */
typedef struct reader {
    const onnx_tensor *of;
    const char *op, *module; /* of the node */
    int operand;
    const char *name;
} reader;

typedef struct parting {
    importer *in;
    onnx_uses names;
    int n_readers, n_made;
    reader *readers;
    onnx_tensor *made;
    kit_line shown;
} parting;

/* ---- names ---- */

static bool read_names(parting *p, onnx_graph *g) {
    p->readers = kit_take(p->in->arena, MOST_APART, sizeof *p->readers);
    p->made = kit_take(p->in->arena, MOST_APART, sizeof *p->made);
    if (!p->readers || !p->made || !onnx_uses_of(&p->names, p->in->arena, g)) return false;
    for (int i = 0; i < g->n_inputs; i++)
        if (!onnx_use_of(&p->names, g->inputs[i].name)) return false;
    return true;
}

static const onnx_use *use_of(const parting *p, const char *name) {
    return onnx_table_find(&p->names.table, name);
}

/* "encoder.ln_2.weight" of "encoder.ln_1.weight" in the module encoder.ln_2; with a number where something
 * has that name. NULL: out of memory. */
static const char *name_in(parting *p, const onnx_tensor *t, const char *module) {
    const char *dot = strrchr(t->name, '.'), *leaf = dot ? dot + 1 : t->name;
    size_t n = strlen(module) + strlen(leaf) + 16;
    char *name = kit_take(p->in->arena, n, 1);
    if (!name) return NULL;
    snprintf(name, n, "%s%s%s", module, *module ? "." : "", leaf);
    size_t length = strlen(name);
    for (int i = 2; use_of(p, name); i++) snprintf(name + length, n - length, "_%d", i);
    return name;
}

/* ---- vectors ---- */

/* Whether an initializer is what exporters take for equal by chance: numbers along one axis, all the same. */
static bool is_even_vector(importer *in, onnx_tensor *t) {
    int long_axes = 0;
    size_t bytes = onnx_tensor_bytes(t);
    for (int i = 0; i < t->ndim; i++) long_axes += t->shape[i] > 1;
    if (long_axes != 1 || t->type != ONNX_FLOAT) return false;
    t->sample = onnx_sample_of(in, t, in->error);
    return t->sample.is_one && t->sample.n * sizeof(float) == bytes; /* the sample is all of it */
}

static bool is_plain_identity(const onnx_node *n) {
    return !strcmp(n->op, "Identity") && !*n->domain && n->n_in == 1 && n->n_out == 1 && !n->n_attributes &&
           *n->out[0];
}

/* An initializer of the same elements under another name. */
static void take_apart(parting *p, const onnx_tensor *t, const char *name) {
    if (p->n_made < SHOWN_APART) kit_add(&p->shown, "%s%.80s", p->n_made ? ", " : "", name);
    p->made[p->n_made] = *t;
    p->made[p->n_made++].name = name;
    if (!onnx_use_of(&p->names, name)) kit_no_memory(p->in->error, name);
}

/* The reader before this one that is of the same module, and reads it in the same place: the vector is one
 * for both. */
static const reader *reader_like(const parting *p, const reader *r) {
    for (int i = 0; i < p->n_readers; i++) {
        const reader *other = &p->readers[i];
        if (other->of == r->of && other->operand == r->operand && !strcmp(other->op, r->op) &&
            !strcmp(other->module, r->module))
            return other;
    }
    return NULL;
}

static bool has_reader(const parting *p, const onnx_tensor *t) {
    int i = 0;
    while (i < p->n_readers && p->readers[i].of != t) i++;
    return i < p->n_readers;
}

/* Operand j of a node, which says its module: the first reader has the vector itself. */
static void part_operand(parting *p, onnx_node *n, int j, const onnx_tensor *t) {
    reader r = {t, n->op, n->module, j, t->name};
    const reader *like = reader_like(p, &r);
    if (!like && has_reader(p, t)) {
        r.name = name_in(p, t, n->module);
        if (!r.name) {
            kit_no_memory(p->in->error, t->name);
            return;
        }
        take_apart(p, t, r.name);
    }
    if (!like) p->readers[p->n_readers++] = r;
    n->in[j] = like ? like->name : r.name;
}

/* Whether the node is gone: its result is an initializer. */
static bool part_node(parting *p, onnx_node *n) {
    for (int j = 0; j < n->n_in; j++) {
        const onnx_use *use = use_of(p, n->in[j]);
        onnx_tensor *t = use ? use->initializer : NULL;
        bool is_identity = is_plain_identity(n), is_full = p->n_readers + p->n_made >= MOST_APART;
        if (!t || is_full || !(is_identity || n->module) || !onnx_reads_weight(n, t)) continue;
        if (!is_even_vector(p->in, t)) continue;
        if (!is_identity) {
            part_operand(p, n, j, t);
            continue;
        }
        take_apart(p, t, n->out[0]);
        return true;
    }
    return false;
}

static bool add_initializers(parting *p, onnx_graph *g) {
    size_t n = (size_t)g->n_initializers;
    onnx_tensor *all = kit_take(p->in->arena, n + (size_t)p->n_made, sizeof *all);
    if (!all) return false;
    memcpy(all, g->initializers, n * sizeof *all);
    memcpy(all + n, p->made, (size_t)p->n_made * sizeof *all);
    g->initializers = all;
    g->n_initializers += p->n_made;
    return true;
}

bool onnx_take_apart(importer *in, onnx_graph *g) {
    parting p = {.in = in};
    int kept = 0;
    if (!read_names(&p, g)) return kit_no_memory(in->error, g->name), false;
    for (int i = 0; i < g->n_nodes; i++)
        if (!part_node(&p, &g->nodes[i])) g->nodes[kept++] = g->nodes[i];
    g->n_nodes = kept;
    in->onnx->n_apart = p.n_made;
    in->onnx->apart = kit_copy(in->arena, p.shown.text);
    if (!in->onnx->apart || (p.n_made && !add_initializers(&p, g))) kit_no_memory(in->error, g->name);
    kit_drop(in->arena, p.readers);
    kit_drop(in->arena, p.made);
    return !in->error->status;
}
