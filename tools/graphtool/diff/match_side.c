/* match_side.c - one graph, made ready to be compared: its nodes in the order of making, their keys, its
 * scopes as a tree. */
#include "tools/graphtool/diff/match.h"

#include "tools/graphtool/output/end.h"
#include "tools/graphtool/output/output.h"

#include "ops/kit/ops.h"

#include <stdlib.h>
#include <string.h>

uint64_t match_mix(uint64_t a, uint64_t b) {
    const uint64_t both[2] = {a, b};
    return hash_bytes(both, sizeof both, 0);
}

bool match_is_named(const weft_node *n) {
    return n->op == &weft_op_input || (n->op->flags & OP_IS_VARIABLE && !n->n_in);
}

bool match_compares(const weft_node *n, const op_attr *f) {
    return f->kind != ATTR_KEY && !(n->op->flags & OP_VARIABLE && f->offset == 0);
}

/* ---- nodes ---- */

/* Results are numbered as nodes are made; a node without any has the number of the next result. */
static int in_order_of_making(const void *pa, const void *pb) {
    const weft_node *a = *(const weft_node *const *)pa, *b = *(const weft_node *const *)pb;
    if (a->id != b->id) return a->id < b->id ? -1 : 1;
    return (a->n_out > 0) - (b->n_out > 0);
}

static void collect_nodes(match_side *s) {
    bool is_sorted = true;
    s->n = graph_node_count(s->g);
    s->nodes = match_new(s->memory, (size_t)s->n + 1, sizeof *s->nodes);
    s->of_value = match_new(s->memory, (size_t)s->g->next_id + 1, sizeof *s->of_value);
    int i = 0;
    for (const weft_node *n = s->g->first; n; n = n->next, i++) {
        s->nodes[i] = n;
        is_sorted &= !i || in_order_of_making(&s->nodes[i - 1], &s->nodes[i]) <= 0;
    }
    if (!is_sorted) qsort(s->nodes, (size_t)s->n, sizeof *s->nodes, in_order_of_making);
    for (i = 0; i < s->n; i++)
        for (int k = 0; k < s->nodes[i]->n_out; k++) s->of_value[s->nodes[i]->out[k].id] = i;
}

int match_place(const match_side *s, const weft_node *n) {
    if (n->n_out) return s->of_value[n->out[0].id];
    int low = 0, high = s->n;
    while (low < high) { /* the first node of that number */
        int middle = low + (high - low) / 2;
        if (s->nodes[middle]->id < n->id)
            low = middle + 1;
        else
            high = middle;
    }
    while (low < s->n && s->nodes[low] != n) low++;
    return low;
}

/* ---- scopes ---- */

static int scope_at(match_side *s, size_t *room, const char *path) {
    intptr_t known = (intptr_t)table_find(&s->by_path, path);
    if (known) return (int)known - 1;
    const char *slash = strrchr(path, '/');
    int parent = !*path ? -1 : scope_at(s, room, slash ? tool_cut(path, slash) : "");
    int place = s->n_scopes++;
    s->scopes = tool_need(mem_grow(NULL, s->scopes, room, (size_t)s->n_scopes, sizeof *s->scopes));
    s->scopes[place] = (match_scope){.path = path,
                                     .name = path_leaf(path),
                                     .parent = parent,
                                     .first = -1,
                                     .last = -1,
                                     .next = -1,
                                     .other = -1,
                                     .content = 1,
                                     .calls = 1};
    if (parent >= 0) {
        match_scope *around = &s->scopes[parent];
        if (around->last >= 0)
            s->scopes[around->last].next = place;
        else
            around->first = place;
        around->last = place;
    }
    if (!table_add(&s->by_path, s->memory, path, (void *)(intptr_t)(place + 1))) tool_fail("out of memory");
    return place;
}

static void collect_scopes(match_side *s) {
    size_t room = 0;
    scope_at(s, &room, "");
    for (int i = 0; i < s->n; i++) {
        const char *path = s->nodes[i]->scope;
        bool is_last = i && path == s->nodes[i - 1]->scope;
        s->scope[i] = is_last ? s->scope[i - 1] : scope_at(s, &room, path);
    }
    tool_keep(s->scopes, free);
}

/* ---- keys ---- */

static uint64_t mix_type(uint64_t h, const tensor_type *type) {
    h = match_mix(h, (uint64_t)type->dtype << 32 | (uint64_t)type->ndim);
    return hash_bytes(type->shape, (size_t)type->ndim * sizeof *type->shape, h);
}

/* The path as it is within a scope: equal for layers that differ in the scopes around them alone. */
static uint64_t mix_path(uint64_t h, const char *scope, const char *path) {
    size_t n = strlen(scope);
    bool is_in = n && strncmp(path, scope, n) == 0 && path[n] == '/';
    return hash_text(is_in ? path + n + 1 : path, h);
}

/* `t` is for its memory. */
static uint64_t mix_fields(uint64_t h, const weft_node *n, text *t) {
    t->length = 0;
    for (const op_attr *f = n->op->attrs; f && f->name; f++)
        if (match_compares(n, f)) attr_write(t, f, n->attrs);
    if (t->failed) tool_fail("out of memory");
    return t->length ? hash_bytes(t->data, t->length, h) : h;
}

static uint64_t call_key(uint64_t h, const weft_node *n, text *t) {
    h = mix_fields(h, n, t);
    for (int i = 0; i < n->n_body; i++) h = mix_fields(hash_text(n->body[i]->op->name, h), n->body[i], t);
    return n->variable ? mix_path(h, n->scope, n->variable->path) : h;
}

static uint64_t exact_key(uint64_t h, const weft_node *n) {
    for (int i = 0; i < n->n_in; i++) {
        const weft_value *v = n->in[i];
        h = v ? mix_type(h, &v->type) : match_mix(h, 1);
        if (v && match_is_named(v->node) && v->node->variable)
            h = mix_path(h, n->scope, v->node->variable->path);
    }
    for (int k = 0; k < n->n_out; k++) h = mix_type(h, &n->out[k].type);
    return h;
}

static void make_keys(match_side *s) {
    text t = {0};
    for (int i = 0; i < s->n; i++) {
        const weft_node *n = s->nodes[i];
        uint64_t h = hash_text(n->op->name, (uint64_t)n->is_backward + 2 * (uint64_t)n->is_update);
        s->key[KEY_OP][i] = h;
        s->key[KEY_CALL][i] = h = call_key(h, n, &t);
        s->key[KEY_EXACT][i] = exact_key(h, n);
    }
    free(text_detach(&t));
}

/* Children come after the scopes that they are in. */
static void sign_scopes(match_side *s) {
    for (int i = 0; i < s->n; i++) {
        match_scope *in = &s->scopes[s->scope[i]];
        in->nodes++;
        if (s->nodes[i]->is_backward || s->nodes[i]->is_update) continue;
        in->content = match_mix(in->content, s->key[KEY_EXACT][i]);
        in->calls = match_mix(in->calls, s->key[KEY_CALL][i]);
    }
    for (int i = s->n_scopes - 1; i >= 0; i--) {
        match_scope *it = &s->scopes[i];
        for (int c = it->first; c >= 0; c = s->scopes[c].next) {
            it->content = match_mix(hash_text(s->scopes[c].name, it->content), s->scopes[c].content);
            it->calls = match_mix(hash_text(s->scopes[c].name, it->calls), s->scopes[c].calls);
            it->nodes += s->scopes[c].nodes;
        }
    }
}

/* Outputs are known by their names. */
static void add_outputs(match_side *s) {
    for (const graph_output *o = s->g->outputs; o; o = o->next) {
        uint64_t *key = &s->key[KEY_EXACT][s->of_value[o->value->id]];
        *key = hash_text(o->name, *key);
    }
}

void match_read_side(match_side *s, const weft_graph *g) {
    *s = (match_side){.g = g, .memory = s->memory};
    collect_nodes(s);
    s->scope = match_new(s->memory, (size_t)s->n + 1, sizeof *s->scope);
    s->other = match_new(s->memory, (size_t)s->n + 1, sizeof *s->other);
    for (int i = 0; i < s->n; i++) s->other[i] = -1;
    for (int k = 0; k < MATCH_KEYS; k++)
        s->key[k] = match_new(s->memory, (size_t)s->n + 1, sizeof *s->key[k]);
    collect_scopes(s);
    make_keys(s);
    sign_scopes(s);
    add_outputs(s);
}
