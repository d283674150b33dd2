/* sums.c - see sums.h. Rows are found by name in the order in which they are first met. */
#include "tools/graphtool/diff/sums.h"

#include "ops/work.h"
#include "runtime/plan/value.h"
#include "tools/graphtool/output/end.h"
#include "tools/graphtool/timeline/summary.h"

#include <stdlib.h>
#include <string.h>

const char *const sum_units[] = {"count", "bytes", "flop"};

static void free_sums(void *l) {
    free(((sum_list *)l)->v);
}

static sum_list *new_sums(void) {
    return tool_keep(tool_new(1, sizeof(sum_list)), free_sums);
}

static void add_sum(sum_list *l, int side, const char *name, sum_unit unit, double value) {
    int i = 0;
    while (i < l->n && strcmp(l->v[i].name, name)) i++;
    if (i == l->n) {
        l->v = tool_need(mem_grow(NULL, l->v, &l->room, (size_t)l->n + 1, sizeof *l->v));
        l->v[l->n++] = (sum_row){.name = name, .unit = unit};
    }
    l->v[i].v[side] += value;
}

static void add_variables(sum_list *l, int side, const weft_model *m) {
    for (const weft_variable *v = m->variables; v; v = v->next) {
        if (v->kind != VARIABLE_PARAMETER) continue;
        add_sum(l, side, "parameters", SUM_COUNT, 1);
        add_sum(l, side, "numbers in parameters", SUM_COUNT, (double)type_elements(&v->type));
    }
}

/* "d_step", and of a program of several "d_step, the last run" */
static const char *graph_name(const program *p) {
    static const char *const phases[] = {
        [PHASE_WHOLE] = "",          [PHASE_FIRST] = ", first run", [PHASE_ADD] = ", runs that add",
        [PHASE_LAST] = ", last run", [PHASE_UPDATE] = ", update",   [PHASE_LOSS] = ", loss"};
    return tool_text("%s%s", p->name, phases[p->phase]);
}

static void add_program(sum_list *l, int side, const program *p) {
    const char *name = graph_name(p);
    double nodes = 0, moved = 0, collectives = 0;
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        nodes += !node_is_silent(n);
        if (!node_starts_collective(n)) continue;
        collectives++;
        moved += (double)type_bytes(&n->out[0].type);
    }
    add_sum(l, side, tool_text("%s: nodes that run", name), SUM_COUNT, nodes);
    add_sum(l, side, tool_text("%s: FLOP", name), SUM_FLOP, program_flops(p));
    add_sum(l, side, tool_text("%s: arena", name), SUM_BYTES, (double)p->arena_bytes);
    add_sum(l, side, tool_text("%s: collectives", name), SUM_COUNT, collectives);
    add_sum(l, side, tool_text("%s: sent by collectives", name), SUM_BYTES, moved);
    add_sum(l, side, tool_text("%s: launches", name), SUM_COUNT, p->n_launches);
}

const sum_list *sums_of(const weft_plan *const plans[2]) {
    sum_list *l = new_sums();
    for (int side = 0; side < 2; side++) add_variables(l, side, plans[side]->model);
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < plans[side]->n_programs; i++) add_program(l, side, &plans[side]->programs[i]);
    return l;
}

const sum_list *sums_of_memory(const weft_plan *const plans[2]) {
    sum_list *l = new_sums();
    for (int side = 0; side < 2; side++) {
        memory_row rows[PLAN_MEMORY_ROWS];
        int n = plan_memory_rows(plans[side], rows);
        for (int i = 0; i < n; i++) add_sum(l, side, rows[i].what, SUM_BYTES, (double)rows[i].bytes);
    }
    return l;
}

const sum_list *sums_of_kernels(const weft_plan *const plans[2]) {
    sum_list *l = new_sums();
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < plans[side]->n_programs; i++)
            for (const weft_node *n = plans[side]->programs[i].graph->first; n; n = n->next)
                if (n->kernel && !node_is_silent(n))
                    add_sum(l, side, tool_text("%s by %s", n->op->name, n->kernel->name), SUM_COUNT, 1);
    return l;
}

/* ---- the peak ---- */

static void free_peak(void *p) {
    free(((peak *)p)->v);
}

/* Numbers that are a whole part of a path become "*". */
static const char *without_numbers(const char *path) {
    text t = {0};
    for (const char *at = path; *at;) {
        size_t n = strcspn(at, "/");
        bool is_number = n && strspn(at, "0123456789") >= n;
        text_add(&t, "%s%.*s", t.length ? "/" : "", is_number ? 1 : (int)n, is_number ? "*" : at);
        at += n + (at[n] == '/');
    }
    return tool_take(&t);
}

static peak_row *peak_row_of(peak *p, name_table *known, arena *memory, const char *scope, const char *op) {
    const char *key = tool_text("%s\t%s", scope, op);
    int place = (int)(intptr_t)table_find(known, key) - 1;
    if (place >= 0) return &p->v[place];
    p->v = tool_need(mem_grow(NULL, p->v, &p->room, (size_t)p->n + 1, sizeof *p->v));
    p->v[p->n] = (peak_row){.scope = scope, .op = op};
    if (!table_add(known, memory, key, (void *)(intptr_t)(p->n + 1))) tool_fail("out of memory");
    return &p->v[p->n++];
}

/* The path of the first's scope that the second's is. */
static const char *scope_name(const diff_graph *g, int side, const weft_node *n) {
    const match_side *s = g->pair ? g->pair->side : NULL;
    int at = s && side ? s[1].scopes[s[1].scope[match_place(&s[1], n)]].other : -1;
    return without_numbers(at >= 0 ? s[0].scopes[at].path : n->scope);
}

static int by_gap(const void *pa, const void *pb) {
    const peak_row *a = pa, *b = pb;
    double x = (double)a->bytes[0] - (double)a->bytes[1], y = (double)b->bytes[0] - (double)b->bytes[1];
    if (x < 0) x = -x;
    if (y < 0) y = -y;
    if (x != y) return x < y ? 1 : -1;
    int scopes = strcmp(a->scope, b->scope);
    return scopes ? scopes : strcmp(a->op, b->op);
}

const peak *peak_of(const diff_graph *g) {
    peak *p = tool_keep(tool_new(1, sizeof *p), free_peak);
    name_table known = {0};
    arena memory;
    arena_init(&memory, NULL);
    p->g = g;
    for (int side = 0; side < 2; side++) {
        if (!g->p[side]) continue;
        p->alive[side] = alive_of(g->p[side]);
        const alive_list *l = &p->alive[side];
        for (int i = 0; i < l->n; i++) {
            const alive_buffer *b = &l->v[i];
            if (b->first > l->peak || b->last < l->peak) continue;
            const char *op = b->value ? b->node->op->name : tool_text("scratch of %s", b->node->op->name);
            peak_row *row = peak_row_of(p, &known, &memory, scope_name(g, side, b->node), op);
            row->bytes[side] += b->bytes;
            row->buffers[side]++;
        }
    }
    arena_free(&memory);
    if (p->n) qsort(p->v, (size_t)p->n, sizeof *p->v, by_gap);
    return p;
}
