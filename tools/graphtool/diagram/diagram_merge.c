/* diagram_merge.c - merges units until there are few: first those of one kind that read each other, then any
 * of one phase that do, and at last those of one kind that are joined to the same others. A unit joins its
 * reader where it has no other, or where that reads nothing else, so no circle comes to be. Inputs, outputs,
 * state, random numbers, minimize and closed boxes stay. */
#include "tools/graphtool/diagram/diagram.h"

#include "ops/kit/ops.h"

#include <stdlib.h>

/* Two groups of units, the second of which reads the first. */
typedef struct merge_edge {
    int from, to;
} merge_edge;

typedef struct merging {
    diagram *s;
    int *group;     /* by unit: the first unit of its group */
    int *in, *out;  /* by group: how many groups it reads, and is read by */
    uint64_t *ends; /* by group: hash of these */
    bool *is_new;   /* by group: it has grown in this round */
    merge_edge *edges;
    int n_edges, n_groups;
    bool of_one_kind;
} merging;

static int by_ends(const void *a, const void *b) {
    const merge_edge *x = a, *y = b;
    return x->from != y->from ? (x->from > y->from) - (x->from < y->from) : (x->to > y->to) - (x->to < y->to);
}

/* Lists the edges between groups, each once, and counts them by group. */
static void list_edges(merging *m) {
    const diagram *s = m->s;
    int n = 0, kept = 0;
    for (const diagram_read *r = s->reads; r < s->reads + s->n_reads; r++) {
        merge_edge e = {m->group[r->from->unit - s->units], m->group[r->to->unit - s->units]};
        if (e.from != e.to) m->edges[n++] = e;
    }
    qsort(m->edges, (size_t)n, sizeof *m->edges, by_ends);
    for (int u = 0; u < s->n_units; u++) m->ends[u] = (uint64_t)(m->in[u] = m->out[u] = m->is_new[u] = 0);
    for (int i = 0; i < n; i++) {
        if (kept && by_ends(&m->edges[kept - 1], &m->edges[i]) == 0) continue;
        m->edges[kept++] = m->edges[i];
        m->out[m->edges[i].from]++;
        m->in[m->edges[i].to]++;
        m->ends[m->edges[i].from] += diagram_mix(1, (uint64_t)m->edges[i].to);
        m->ends[m->edges[i].to] += diagram_mix(2, (uint64_t)m->edges[i].from);
    }
    m->n_edges = kept;
}

static bool can_merge(const diagram_unit *u) {
    static const bool stays[KINDS] = {[KIND_INPUT] = true,
                                      [KIND_OUTPUT] = true,
                                      [KIND_STATE] = true,
                                      [KIND_RANDOM] = true,
                                      [KIND_CLOSED] = true};
    return !stays[diagram_unit_kind(u)] && u->item->node->op != &weft_op_minimize;
}

static bool fit_together(const merging *m, const merge_edge *e) {
    const diagram_unit *a = &m->s->units[e->from], *b = &m->s->units[e->to];
    if (!can_merge(a) || !can_merge(b) || diagram_box_of(a) != diagram_box_of(b)) return false;
    if (diagram_unit_phase(a) != diagram_unit_phase(b)) return false;
    return !m->of_one_kind || diagram_unit_kind(a) == diagram_unit_kind(b);
}

/* The first unit of a group is the one that comes first in the graph; `into` is drawn for both. */
static void merge_two(merging *m, int a, int b) {
    int into = a < b ? a : b, other = a < b ? b : a;
    for (int u = 0; u < m->s->n_units; u++)
        if (m->group[u] == other) m->group[u] = into;
    m->is_new[a] = m->is_new[b] = true;
    m->n_groups--;
}

/* One round: each group merges once at most, as the counts hold for the groups before it. */
static bool merge_round(merging *m) {
    int before = m->n_groups;
    list_edges(m);
    for (const merge_edge *e = m->edges; e < m->edges + m->n_edges && m->n_groups > m->s->how.max_nodes;
         e++) {
        if (m->is_new[e->from] || m->is_new[e->to] || !fit_together(m, e)) continue;
        if (m->in[e->to] == 1 || m->out[e->from] == 1) merge_two(m, e->from, e->to);
    }
    return m->n_groups < before;
}

/* Merges groups that are joined to the same others. */
static bool merge_twins(merging *m) {
    const diagram *s = m->s;
    int before = m->n_groups;
    list_edges(m);
    for (int a = 0; a < s->n_units; a++)
        for (int b = a + 1; b < s->n_units && m->group[a] == a && m->n_groups > s->how.max_nodes; b++) {
            if (m->group[b] != b || m->ends[a] != m->ends[b] || !m->ends[a]) continue;
            if (fit_together(m, &(merge_edge){a, b})) merge_two(m, a, b);
        }
    return m->n_groups < before;
}

/* Makes the groups units. */
static void pack_units(const merging *m) {
    diagram *s = m->s;
    int *place = diagram_new(s, s->n_units, sizeof *place), n = 0;
    for (int u = 0; u < s->n_units; u++) {
        int g = m->group[u];
        if (g == u) {
            place[u] = n;
            s->units[n++] = s->units[u];
        } else {
            s->units[place[g]].parts += s->units[u].parts;
            s->units[place[g]].stands += s->units[u].stands;
            if (s->units[u].last > s->units[place[g]].last) s->units[place[g]].last = s->units[u].last;
        }
    }
    for (diagram_item *i = s->items; i < s->items + s->n_items; i++)
        i->unit = &s->units[place[m->group[i->unit - s->units]]];
    s->n_units = n;
}

void diagram_merge(diagram *s) {
    merging m = {.s = s, .n_groups = s->n_units};
    m.group = diagram_new(s, s->n_units, sizeof *m.group);
    m.in = diagram_new(s, s->n_units, sizeof *m.in);
    m.out = diagram_new(s, s->n_units, sizeof *m.out);
    m.ends = diagram_new(s, s->n_units, sizeof *m.ends);
    m.is_new = diagram_new(s, s->n_units, sizeof *m.is_new);
    m.edges = diagram_new(s, s->n_reads + 1, sizeof *m.edges);
    for (int u = 0; u < s->n_units; u++) m.group[u] = u;
    for (int pass = 0; pass < 2; pass++) {
        m.of_one_kind = pass == 0;
        while (m.n_groups > s->how.max_nodes && merge_round(&m)) {
        }
    }
    m.of_one_kind = true;
    while (m.n_groups > s->how.max_nodes && merge_twins(&m)) {
    }
    pack_units(&m);
}
