/* apart.c - exporters store equal tensors once, and biases and norms begin equal: all zeros, or all ones.
 * Such a vector is taken apart again, into an initializer for each layer that reads it, as the module had
 * them:
 *
 *   by an Identity   PyTorch's older exporter: its result has the name of the parameter
 *   by modules       the newer one stores all under the first name, and says which module a node is of. The
 *                    nodes of the module in that name keep the vector, those of each other one get theirs. A
 *                    file that has equal vectors twice was not made so: what it shares is tied.
 *
 * Matrices, and vectors of different numbers, are equal because they are tied, and stay one. */
#include "interchange/onnx/import/import.h"

#include <stdio.h>

enum { MOST_APART = 4096, SHOWN_APART = 3, ROLES = 5 };

/* What PyTorch's modules call the operands of some operators. */
static const struct role_names {
    const char *op, *operands[ROLES];
} roles[] = {
    {"LayerNormalization", {NULL, "weight", "bias"}},
    {"GroupNormalization", {NULL, "weight", "bias"}},
    {"InstanceNormalization", {NULL, "weight", "bias"}},
    {"BatchNormalization", {NULL, "weight", "bias", "running_mean", "running_var"}},
    {"RMSNormalization", {NULL, "weight"}},
    {"Gemm", {NULL, NULL, "bias"}},
    {"Conv", {NULL, NULL, "bias"}},
    {"ConvTranspose", {NULL, NULL, "bias"}},
};

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
    onnx_table inputs;
    int n_readers, n_made, n_parameters;
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
        if (!onnx_use_of(&p->names, g->inputs[i].name) ||
            !onnx_table_add(&p->inputs, p->in->arena, g->inputs[i].name, &g->inputs[i]))
            return false;
    return true;
}

static const onnx_use *use_of(const parting *p, const char *name) {
    return onnx_table_find(&p->names.table, name);
}

/* "weight"; NULL: the operator does not say. */
static const char *role_of(const onnx_node *n, int operand) {
    for (size_t i = 0; i < sizeof roles / sizeof *roles && operand < ROLES; i++)
        if (!*n->domain && !strcmp(n->op, roles[i].op)) return roles[i].operands[operand];
    return NULL;
}

/* The part of a name after its module: "weight" of "encoder.ln_1.weight". */
static const char *leaf_of(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* Whether the vector has the name that operand j of the node has in its module. */
static bool is_owner(const onnx_node *n, int j, const onnx_tensor *t) {
    const char *leaf = leaf_of(t->name), *role = role_of(n, j);
    size_t length = leaf == t->name ? 0 : (size_t)(leaf - t->name) - 1;
    return strlen(n->module) == length && !strncmp(n->module, t->name, length) &&
           (!role || !strcmp(role, leaf));
}

/* "encoder.ln_2.weight" of "encoder.ln_1.weight" in the module encoder.ln_2; with a number where something
 * has that name. NULL: out of memory. */
static const char *name_in(parting *p, const onnx_tensor *t, const onnx_node *n, int j) {
    const char *role = role_of(n, j), *leaf = role ? role : leaf_of(t->name);
    size_t room = strlen(n->module) + strlen(leaf) + 16;
    char *name = kit_take(p->in->arena, room, 1);
    if (!name) return NULL;
    snprintf(name, room, "%s%s%s", n->module, *n->module ? "." : "", leaf);
    size_t length = strlen(name);
    for (int i = 2; use_of(p, name); i++) snprintf(name + length, room - length, "_%d", i);
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

/* Whether two such vectors are equal: nothing stored them once. */
static bool has_equal_vectors(parting *p, onnx_graph *g) {
    onnx_table met = {0};
    for (int i = 0; i < g->n_initializers; i++) {
        onnx_tensor *t = &g->initializers[i];
        char key[80];
        if (!is_even_vector(p->in, t)) continue;
        snprintf(key, sizeof key, "%zu of %a", t->sample.n, t->sample.first);
        if (onnx_table_find(&met, key)) return true;
        const char *kept = kit_copy(p->in->arena, key);
        if (!kept || !onnx_table_add(&met, p->in->arena, kept, t)) kit_no_memory(p->in->error, g->name);
    }
    return false;
}

/* An Identity whose result is a parameter: one of the graph has a name like "/layer/Identity_output_0". */
static bool is_renaming(const onnx_node *n) {
    return !n->module && !strcmp(n->op, "Identity") && !*n->domain && n->n_in == 1 && n->n_out == 1 &&
           !n->n_attributes && *n->out[0] && *n->out[0] != '/';
}

/* An initializer of the same elements under another name. */
static void take_apart(parting *p, const onnx_tensor *t, const char *name) {
    p->made[p->n_made] = *t;
    p->made[p->n_made++].name = name;
    if (!onnx_use_of(&p->names, name)) kit_no_memory(p->in->error, name);
}

static void count_parameter(parting *p, const char *name) {
    if (p->n_parameters < SHOWN_APART) kit_add(&p->shown, "%s%.80s", p->n_parameters ? ", " : "", name);
    p->n_parameters++;
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

/* Operand j of a node, which says its module. Where no node has the vector by its name, the first reader has
 * it. What reads no weights, as a subtraction, had a buffer. */
static void part_operand(parting *p, onnx_node *n, int j, const onnx_tensor *t) {
    reader r = {t, n->op, n->module, j, t->name};
    const reader *like = reader_like(p, &r);
    if (!like && has_reader(p, t)) {
        r.name = name_in(p, t, n, j);
        if (!r.name) {
            kit_no_memory(p->in->error, t->name);
            return;
        }
        take_apart(p, t, r.name);
        if (onnx_reads_weight(n, t)) count_parameter(p, r.name);
    }
    if (!like) p->readers[p->n_readers++] = r;
    n->in[j] = like ? like->name : r.name;
}

/* The vector that operand j reads, if it may be several; NULL: anything else. */
static onnx_tensor *vector_of(const parting *p, const onnx_node *n, int j) {
    const onnx_use *use = use_of(p, n->in[j]);
    onnx_tensor *t = use ? use->initializer : NULL;
    bool is_full = p->n_readers + p->n_made >= MOST_APART;
    if (!t || is_full || onnx_table_find(&p->inputs, t->name)) return NULL;
    return is_even_vector(p->in, t) ? t : NULL;
}

/* Notes the nodes that have a vector by its name. */
static void note_owners(parting *p, const onnx_node *n) {
    for (int j = 0; j < n->n_in && n->module; j++) {
        const onnx_tensor *t = vector_of(p, n, j);
        if (!t || !is_owner(n, j, t)) continue;
        reader r = {t, n->op, n->module, j, t->name};
        if (!reader_like(p, &r)) p->readers[p->n_readers++] = r;
    }
}

static void part_operands(parting *p, onnx_node *n) {
    for (int j = 0; j < n->n_in && n->module; j++) {
        const onnx_tensor *t = vector_of(p, n, j);
        if (t && (onnx_reads_weight(n, t) || has_reader(p, t))) part_operand(p, n, j, t);
    }
}

/* Whether the node is gone: its result is an initializer. */
static bool part_identity(parting *p, const onnx_node *n) {
    const onnx_tensor *t = is_renaming(n) ? vector_of(p, n, 0) : NULL;
    if (!t) return false;
    take_apart(p, t, n->out[0]);
    count_parameter(p, n->out[0]);
    return true;
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
    bool by_modules = !has_equal_vectors(&p, g);
    for (int i = 0; i < g->n_nodes && by_modules; i++) note_owners(&p, &g->nodes[i]);
    for (int i = 0; i < g->n_nodes && by_modules; i++) part_operands(&p, &g->nodes[i]);
    for (int i = 0; i < g->n_nodes; i++)
        if (!part_identity(&p, &g->nodes[i])) g->nodes[kept++] = g->nodes[i];
    g->n_nodes = kept;
    in->onnx->n_apart = p.n_parameters;
    in->onnx->apart = kit_copy(in->arena, p.shown.text);
    if (!in->onnx->apart || (p.n_made && !add_initializers(&p, g))) kit_no_memory(in->error, g->name);
    kit_drop(in->arena, p.readers);
    kit_drop(in->arena, p.made);
    return !in->error->status;
}
