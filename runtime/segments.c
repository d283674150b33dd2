/* segments.c - parameters that are trained alike are laid one after the other, in the order in which a backward
 * pass finishes their gradients (the reverse of their first use in the first graph that trains them).
 *
 * Two parameters share a segment when they belong to one subgraph (top-level scope) and the same minimize calls
 * train both in the same parameter group (with ZeRO, when one rank owns both, too). So every update, of any graph, covers whole segments. A segment holds up
 * to bucket_cap_mb, as PyTorch's buckets do; the first of a subgraph 1 MiB (its sum over ranks begins early), the
 * last the same where it can.
 */
#include "runtime/program.h"

#include "graph/minimize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = 1 << 20 /* bytes */, SEGMENT_ALIGN = 16 /* elements: 64 bytes of f32 */ };

typedef struct trained {
    weft_variable *parameter; /* in the plan's model */
    const char *subgraph;     /* interned top-level scope */
    int subgraph_order;
    int owner;          /* ZeRO: rank + 1; 0: everyone */
    uint64_t signature; /* of the (minimize, group) pairs that train it; 0: none */
    int64_t first_use;  /* place in its first minimizing graph */
} trained;

static const char *top_scope(weft_model *m, const char *path) {
    char name[256];
    size_t n = strcspn(path, "/");
    if (!path[n]) return scope_intern(m, "");
    snprintf(name, sizeof name, "%.*s", (int)n, path);
    return scope_intern(m, name);
}

static int64_t first_use(const weft_graph *g, const char *path) {
    int64_t at = 0;
    for (const weft_node *n = g->first; n; n = n->next, at++)
        if (n->op == &weft_op_parameter && strcmp(n->variable->path, path) == 0) return at;
    return at;
}

/* Adds minimize call number `call` to the signature of every parameter that it trains. */
static void sign(trained *list, int count, const weft_graph *g, const weft_node *minimize, int call) {
    const minimize_attrs *a = minimize->attrs;
    for (int i = 0; i < count; i++) {
        weft_variable *v = list[i].parameter;
        double lr, decay;
        if (v->is_frozen || !path_matches(a->pattern, v->path)) continue;
        if (!list[i].signature) list[i].first_use = first_use(g, v->path);
        int group = minimize_group(a, v->path, &lr, &decay);
        char text[40];
        snprintf(text, sizeof text, "%d.%d", call, group);
        list[i].signature = hash_text(text, list[i].signature) | 1;
    }
}

static int compare(const void *pa, const void *pb) {
    const trained *a = pa, *b = pb;
    if (a->subgraph_order != b->subgraph_order) return a->subgraph_order - b->subgraph_order;
    if (a->signature != b->signature) return a->signature < b->signature ? -1 : 1;
    if (a->owner != b->owner) return a->owner - b->owner;
    if (a->first_use != b->first_use) return a->first_use > b->first_use ? -1 : 1;
    return b->parameter->index - a->parameter->index;
}

static int64_t padded(const weft_variable *v) {
    return (int64_t)size_align((size_t)type_elements(&v->type), SEGMENT_ALIGN);
}

static bool make_segment(weft_model *m, const trained *list, int count, int number) {
    char path[300];
    int64_t total = 0;
    snprintf(path, sizeof path, "%s.%d", *list[0].subgraph ? list[0].subgraph : "model", number);
    weft_variable **members = arena_new_array(&m->arena, (size_t)count, sizeof *members);
    if (!members) return model_fail(m, NULL, WEFT_MEMORY, "segments: memory could not be had");
    for (int i = 0; i < count; i++) {
        members[i] = list[i].parameter;
        members[i]->offset = total;
        total += padded(members[i]);
    }
    tensor_type type = type_of(WEFT_F32, 1, &total);
    weft_variable *s = variable_new(m, path, VARIABLE_SEGMENT, &type, (weft_init){0});
    if (!s) return false;
    s->members = members;
    s->owner = list[0].owner;
    s->n_members = count;
    for (int i = 0; i < count; i++) members[i]->segment = s;
    return true;
}

static int64_t bytes_of(const trained *t) {
    return padded(t->parameter) * (int64_t)sizeof(float);
}

/* How many of the parameters [0, count), all alike, the next segment takes: at least one, then up to `cap` bytes. */
static int fill(const trained *list, int count, int64_t cap) {
    int64_t bytes = bytes_of(&list[0]);
    int n = 1;
    for (; n < count && bytes + bytes_of(&list[n]) <= cap; n++) bytes += bytes_of(&list[n]);
    return n;
}

/* Of the last segment's parameters, those at its end that stay together as a small one: its sum over ranks is the
 * one that nothing hides. */
static int tail(const trained *list, int count) {
    int64_t bytes = 0;
    int n = 0;
    for (; n < count && bytes + bytes_of(&list[count - 1 - n]) <= SMALL; n++)
        bytes += bytes_of(&list[count - 1 - n]);
    return n < count ? n : 0;
}

/* Cuts `count` parameters that are trained alike, numbering on from *number. */
static bool cut_run(weft_model *m, const trained *list, int count, int64_t cap, int *number) {
    while (count) {
        bool first = *number == 0;
        int n = fill(list, count, first && cap > SMALL ? SMALL : cap);
        if (n == count && tail(list, count)) n -= tail(list, count);
        if (!make_segment(m, list, n, (*number)++)) return false;
        list += n;
        count -= n;
    }
    return true;
}

/* ---- owners: whole parameters, the largest first, to the rank with the least so far, as torch's
 * ZeroRedundancyOptimizer deals them; each subgraph for itself ---- */

static int by_size(const void *pa, const void *pb) {
    const trained *a = pa, *b = pb;
    if (a->subgraph_order != b->subgraph_order) return a->subgraph_order - b->subgraph_order;
    int64_t x = type_elements(&a->parameter->type), y = type_elements(&b->parameter->type);
    if (x != y) return x > y ? -1 : 1;
    return a->parameter->index - b->parameter->index;
}

static bool deal(weft_model *m, trained *list, int count, int world) {
    int64_t *load = arena_new_array(&m->arena, (size_t)world, sizeof *load);
    if (!load) return model_fail(m, NULL, WEFT_MEMORY, "segments: memory could not be had");
    qsort(list, (size_t)count, sizeof *list, by_size);
    for (int i = 0; i < count; i++) {
        int least = 0;
        if (i && list[i].subgraph != list[i - 1].subgraph) memset(load, 0, (size_t)world * sizeof *load);
        for (int r = 1; r < world; r++)
            if (load[r] < load[least]) least = r;
        load[least] += type_elements(&list[i].parameter->type);
        list[i].owner = least + 1;
    }
    return true;
}

/* list is sorted: runs of one (subgraph, signature, owner) are cut each for itself. */
static bool cut_runs(weft_model *m, const trained *list, int count, int64_t cap) {
    int number = 0;
    for (int i = 0, end; i < count; i = end) {
        if (i && list[i].subgraph != list[i - 1].subgraph) number = 0;
        for (end = i; end < count; end++)
            if (list[end].subgraph != list[i].subgraph || list[end].signature != list[i].signature ||
                list[end].owner != list[i].owner)
                break;
        if (!cut_run(m, list + i, end - i, cap, &number)) return false;
    }
    return true;
}

bool segments_cut(weft_model *m, const weft_model *source, const weft_compile_options *o) {
    trained *list = arena_new_array(&m->arena, (size_t)m->n_variables + 1, sizeof *list);
    if (!list) return model_fail(m, NULL, WEFT_MEMORY, "segments: memory could not be had");
    int count = 0, call = 0, kept = 0;
    for (weft_variable *v = m->variables; v; v = v->next) {
        if (v->kind != VARIABLE_PARAMETER) continue;
        trained t = {.parameter = v, .subgraph = top_scope(m, v->path), .subgraph_order = count};
        if (!t.subgraph) return false;
        for (int i = 0; i < count; i++)
            if (list[i].subgraph == t.subgraph) t.subgraph_order = list[i].subgraph_order;
        list[count++] = t;
    }
    for (const weft_graph *g = source->graphs; g; g = g->next)
        for (const weft_node *n = g->first; n; n = n->next)
            if (n->op == &weft_op_minimize) sign(list, count, g, n, call++);
    for (int i = 0; i < count; i++)
        if (list[i].signature) list[kept++] = list[i];
    if (o->zero && o->world > 1 && !deal(m, list, kept, o->world)) return false;
    qsort(list, (size_t)kept, sizeof *list, compare);
    return cut_runs(m, list, kept, (int64_t)(o->bucket_cap_mb * (1 << 20)));
}
