/* plan.c - reads back what passes have noted at the end of a node's line: scope, marks, kernel, place in the
 * schedule, place of each result, workspace, reasons:
 *     " in d/conv1 bwd by onednn @5 +0x4000,=%3+16,- work+0x0:4096 # simd: not f32"
 */
#include "graph/core/kernel.h"
#include "graph/core/words.h"
#include "graph/text/read.h"

#include <limits.h>
#include <string.h>

/* Looks the name up among the op's kernels of both devices; their names differ. */
static bool kernel_read(reader *r, weft_node *n) {
    const weft_kernel *list[32];
    kernel_env env = {.isa = WEFT_ISA_AVX512, .threads = 1, .env = &r->m->env};
    int count =
        kernels_of(r->m->catalog, n->op, &env, list, 24); /* the kernels of the CPU, then those of CUDA */
    env.device = WEFT_DEVICE_CUDA;
    count += kernels_of(r->m->catalog, n->op, &env, list + count, 32 - count);
    size_t length = strcspn(r->at, " \n");
    for (int k = 0; k < n->n_out; k++)
        if (type_is_empty(&n->out[k].type))
            return reader_fail(r, "%s: no kernel runs a node whose result has no elements", n->op->name);
    for (int i = 0; i < count && !n->kernel; i++)
        if (word_is(list[i]->name, r->at, length)) n->kernel = list[i];
    if (!n->kernel)
        return reader_fail(r, "%s has no kernel '%s'", n->op->name, show_name(r->at, length).text);
    r->at += length;
    r->has_kernels = true;
    return true;
}

/* Reads the place of one result. A later line may make the base, so its number plus 1 is kept in v->mark for
 * graph_resolve; 0 means none. */
static bool place_read(reader *r, weft_value *v) {
    const int64_t most = (int64_t)1 << 46;
    if (reader_accept(r, "-")) return true;
    if (reader_accept(r, "+")) return reader_int(r, 0, most, &v->arena_offset);
    if (!reader_want(r, "=")) return false;
    if (reader_accept(r, "%")) {
        if (!reader_int(r, 0, INT_MAX - 1, &v->mark)) return false;
        v->mark++;
    } else if (!value_read(r, "+", &v->base)) {
        return false;
    }
    return reader_want(r, "+") && reader_int(r, 0, most, &v->base_offset);
}

/* Each part may be missing: a dump may come from any stage of the compiler. */
static bool plan_read(reader *r, weft_node *n) {
    const int64_t most = (int64_t)1 << 46;
    int64_t number;
    n->order = -1;
    if (reader_accept(r, " by ") && !kernel_read(r, n)) return false;
    if (reader_accept(r, " @")) {
        if (!reader_int(r, 0, INT_MAX, &number)) return false;
        n->order = (int)number;
    }
    if (strncmp(r->at, " +", 2) == 0 || strncmp(r->at, " =", 2) == 0 || strncmp(r->at, " -", 2) == 0) {
        for (int k = 0; k < n->n_out; k++)
            if (!reader_want(r, k ? "," : " ") || !place_read(r, &n->out[k])) return false;
    }
    if (reader_accept(r, " work+")) {
        if (!reader_int(r, 0, most, &n->workspace_offset) || !reader_want(r, ":") ||
            !reader_int(r, 1, most, &number))
            return false;
        n->workspace_bytes = (size_t)number;
    }
    if (reader_accept(r, " # ")) {
        size_t length = strcspn(r->at, "\n");
        n->declined = arena_printf(&r->m->arena, "%.*s", (int)length, r->at);
        if (!n->declined) return reader_fail(r, "out of memory");
        r->at += length;
    }
    return true;
}

/* Body nodes have the scope of their fused node. */
static bool scope_read(reader *r, weft_node *n) {
    if (reader_accept(r, " in ")) {
        char *path = reader_name(r, " ");
        if (!path) return false;
        if (!path_is_valid(path)) return reader_fail(r, "'%s' cannot be a scope", SHOW(path));
        n->scope = scope_intern(r->m, path);
        if (!n->scope) return false;
    }
    n->is_backward = reader_accept(r, " bwd");
    n->is_update = reader_accept(r, " upd");
    for (int b = 0; b < n->n_body; b++) n->body[b]->scope = n->scope;
    return true;
}

bool notes_read(reader *r, weft_node *n) {
    return scope_read(r, n) && plan_read(r, n);
}

/* Follows the bases of v to a value without one; false where they form a cycle. `round` marks the values of
 * this walk, so all walks together are linear. */
static bool base_is_sound(weft_value *v, int64_t round) {
    for (; v && v->mark <= 0; v = v->base) v->mark = round;
    return !v || v->mark != round;
}

/* Three walks: bases and layouts, cycles, then clearing the marks. */
bool graph_resolve(reader *r) {
    int64_t round = 0;
    weft_graph *g = r->g;
    g->next_id = r->free_id > r->n_values ? r->free_id : r->n_values;
    for (weft_node *n = g->first; n; n = n->next)
        for (int k = 0; k < n->n_out; k++) {
            weft_value *v = &n->out[k];
            if (r->has_kernels && !v->has_layout) {
                v->has_layout = true;
                stride_row_major(&v->type, v->stride);
            }
            if (v->mark > 0 && (v->mark > r->n_values || !(v->base = r->values[v->mark - 1])))
                return reader_fail(r, "graph %s: %%%d is in the buffer of a value that no line defines",
                                   g->name, v->id);
            v->mark = 0;
        }
    for (weft_node *n = g->first; n; n = n->next)
        for (int k = 0; k < n->n_out; k++)
            if (n->out[k].mark == 0 && !base_is_sound(&n->out[k], ++round))
                return reader_fail(r, "graph %s: %%%d is in the buffer of itself", g->name, n->out[k].id);
    for (weft_node *n = g->first; n; n = n->next)
        for (int k = 0; k < n->n_out; k++) n->out[k].mark = 0;
    return true;
}
