/* layout.c - a row and a column for each cell of a scope, apart for each phase: a node of the scope, or a
 * scope in it, closed. The page makes coordinates of them, so that an opened scope makes its row taller and
 * the rest keeps its order.
 *
 * Data flow from row to row: a cell is one row below the lowest that it reads, and one that reads nothing of
 * its phase is just above its first reader. Backward rows are counted from the bottom, so that a layer's
 * gradient is beside it. Cells are put in an order in which data flow; a scope that is applied several times
 * reads what it makes, and of such a cycle, the cell that runs first comes first: edges against the order
 * move nothing. Columns are barycentres of neighbours (Sugiyama,
 * Tagawa and Toda 1981), in a few sweeps. Equal scopes share the cell of the first. */
#include "tools/graphtool/view/view.h"

#include <stdlib.h>
#include <string.h>

enum {
    WIDEST = 16, /* cells in a row; more begin another one */
    SWEEPS = 4
};

/* A cell is a node, or n_nodes + a scope. */
typedef struct flow {
    int scope, from, to;
} flow;

/* The cells of one scope in one phase, in the order of their first nodes. */
typedef struct grid {
    int n, n_rows;
    int *cell, *row, *column;
    bool *floats;    /* reads nothing of the scope and the phase but what floats */
    int *in, *in_at; /* places of the cells that it reads: in[in_at[i]] ..., and of its readers */
    int *out, *out_at;
    double *pull; /* barycentre */
    int *by_row;  /* places, row by row; row r begins at row_at[r] */
    int *row_at;
} grid;

/* ---- flows between cells ---- */

/* The flow from a to b in the innermost scope that has both. Scopes that are equal to another one are left on
 * the way up, as the first of them has their cell. */
static flow flow_between(const view_graph *g, int a, int b) {
    int x = g->nodes[a].scope, y = g->nodes[b].scope;
    while (g->scopes[x].depth > g->scopes[y].depth)
        a = g->n_nodes + g->scopes[x].same, x = g->scopes[x].parent;
    while (g->scopes[y].depth > g->scopes[x].depth)
        b = g->n_nodes + g->scopes[y].same, y = g->scopes[y].parent;
    while (x != y) {
        a = g->n_nodes + g->scopes[x].same, x = g->scopes[x].parent;
        b = g->n_nodes + g->scopes[y].same, y = g->scopes[y].parent;
    }
    return (flow){x, a, b};
}

static int by_scope_and_reader(const void *pa, const void *pb) {
    const flow *a = pa, *b = pb;
    if (a->scope != b->scope) return a->scope < b->scope ? -1 : 1;
    if (a->to != b->to) return a->to < b->to ? -1 : 1;
    return (a->from > b->from) - (a->from < b->from);
}

/* The flows of a phase, by scope, each once. */
static int find_flows(const view_graph *g, int phase, flow *list) {
    int n = 0, kept = 0;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i].n_reads && g->nodes[i].phase == phase; k++) {
            int value = g->reads[g->nodes[i].reads + k].value;
            if (value < 0 || g->nodes[g->values[value].node].phase != phase) continue;
            flow f = flow_between(g, g->values[value].node, i);
            if (f.from != f.to) list[n++] = f;
        }
    if (n) qsort(list, (size_t)n, sizeof *list, by_scope_and_reader);
    for (int i = 0; i < n; i++)
        if (!kept || by_scope_and_reader(&list[kept - 1], &list[i])) list[kept++] = list[i];
    return kept;
}

/* ---- the order of cells ---- */

/* Moves the last of a heap of n places up, the least on top. */
static void heap_up(int *heap, int n) {
    for (int i = n - 1, up; i > 0 && heap[up = (i - 1) / 2] > heap[i]; i = up) {
        int t = heap[i];
        heap[i] = heap[up], heap[up] = t;
    }
}

/* Takes the top of a heap of n places. */
static int heap_take(int *heap, int n) {
    int top = heap[0];
    heap[0] = heap[n - 1];
    for (int i = 0, down; (down = 2 * i + 1) < n - 1; i = down) {
        if (down + 1 < n - 1 && heap[down + 1] < heap[down]) down++;
        if (heap[i] <= heap[down]) break;
        int t = heap[i];
        heap[i] = heap[down], heap[down] = t;
    }
    return top;
}

/* Renumbers the cells, which are in the order in which they begin, so that each comes after what it reads;
 * where a cycle leaves no such cell, the one that begins first is next. by_row, row, row_at and out are
 * free until then: the heap, the reads that are left, and the readers of each cell. */
static void order_cells(grid *d, const flow *list, int n, int *place) {
    int *heap = d->by_row, *left = d->row, *at = d->row_at, *order = d->column, waiting = 0, done = 0,
        next = 0;
    memset(left, 0, (size_t)d->n * sizeof *left);
    memset(at, 0, ((size_t)d->n + 2) * sizeof *at);
    for (int i = 0; i < n; i++) left[place[list[i].to]]++, at[place[list[i].from] + 2]++;
    for (int i = 2; i < d->n + 2; i++) at[i] += at[i - 1];
    for (int i = 0; i < n; i++) d->out[at[place[list[i].from] + 1]++] = place[list[i].to];
    for (int i = 0; i < d->n; i++)
        if (left[i] == 0) heap[waiting++] = i, heap_up(heap, waiting);
    while (done < d->n) {
        while (waiting == 0 && left[next] <= 0) next++;
        int c = waiting ? heap_take(heap, waiting--) : next;
        left[c] = -1;
        order[done++] = c;
        for (int k = at[c]; k < at[c + 1]; k++)
            if (left[d->out[k]] > 0 && --left[d->out[k]] == 0)
                heap[waiting++] = d->out[k], heap_up(heap, waiting);
    }
    for (int i = 0; i < d->n; i++) left[i] = d->cell[order[i]];
    for (int i = 0; i < d->n; i++) d->cell[i] = left[i], place[left[i]] = i;
}

/* ---- rows ---- */

/* Lists of neighbours from flows; only those that lead to a later cell. place[]: by cell. */
static void join_cells(grid *d, const flow *list, int n, const int *place) {
    memset(d->in_at, 0, ((size_t)d->n + 2) * sizeof *d->in_at);
    memset(d->out_at, 0, ((size_t)d->n + 2) * sizeof *d->out_at);
    for (int i = 0; i < n; i++)
        if (place[list[i].from] < place[list[i].to])
            d->in_at[place[list[i].to] + 2]++, d->out_at[place[list[i].from] + 2]++;
    for (int i = 2; i < d->n + 2; i++) d->in_at[i] += d->in_at[i - 1], d->out_at[i] += d->out_at[i - 1];
    for (int i = 0; i < n; i++) {
        int from = place[list[i].from], to = place[list[i].to];
        if (from < to) d->in[d->in_at[to + 1]++] = from, d->out[d->out_at[from + 1]++] = to;
    }
}

static void find_rows(grid *d) {
    for (int i = 0; i < d->n; i++) {
        d->row[i] = 0, d->floats[i] = true;
        for (int k = d->in_at[i]; k < d->in_at[i + 1]; k++) {
            if (d->row[d->in[k]] >= d->row[i]) d->row[i] = d->row[d->in[k]] + 1;
            d->floats[i] &= d->floats[d->in[k]];
        }
    }
    for (int i = d->n - 1; i >= 0; i--)
        for (int k = d->out_at[i], first = k; d->floats[i] && k < d->out_at[i + 1]; k++)
            if (k == first || d->row[d->out[k]] <= d->row[i]) d->row[i] = d->row[d->out[k]] - 1;
}

/* Fills by_row and row_at; cells of a row stay in their order. */
static void sort_rows(grid *d) {
    d->n_rows = 0;
    for (int i = 0; i < d->n; i++)
        if (d->row[i] >= d->n_rows) d->n_rows = d->row[i] + 1;
    memset(d->row_at, 0, ((size_t)d->n_rows + 2) * sizeof *d->row_at);
    for (int i = 0; i < d->n; i++) d->row_at[d->row[i] + 2]++;
    for (int r = 2; r < d->n_rows + 2; r++) d->row_at[r] += d->row_at[r - 1];
    for (int i = 0; i < d->n; i++) d->by_row[d->row_at[d->row[i] + 1]++] = i;
}

/* A row of many cells becomes several, and one of none is left out. */
static void fold_rows(grid *d) {
    int rows = 0;
    for (int r = 0; r < d->n_rows; r++) {
        int n = d->row_at[r + 1] - d->row_at[r];
        for (int i = 0; i < n; i++) d->row[d->by_row[d->row_at[r] + i]] = rows + i / WIDEST;
        rows += (n + WIDEST - 1) / WIDEST;
    }
    sort_rows(d);
}

/* ---- columns ---- */

/* The place of a cell across, as if rows were centred. */
static double across(const grid *d, int i) {
    int r = d->row[i];
    return d->column[i] - 0.5 * (d->row_at[r + 1] - d->row_at[r] - 1);
}

static double barycentre(const grid *d, int i, const int *list, const int *at) {
    double sum = 0;
    for (int k = at[i]; k < at[i + 1]; k++) sum += across(d, list[k]);
    return at[i + 1] > at[i] ? sum / (at[i + 1] - at[i]) : across(d, i);
}

/* Sorts a row by `pull`, by insertion: rows are short, and equal ones keep their order. */
static void sort_row(grid *d, int r) {
    for (int i = d->row_at[r] + 1; i < d->row_at[r + 1]; i++) {
        int moved = d->by_row[i], at = i;
        for (; at > d->row_at[r] && d->pull[d->by_row[at - 1]] > d->pull[moved]; at--)
            d->by_row[at] = d->by_row[at - 1];
        d->by_row[at] = moved;
    }
}

static void number_columns(grid *d, int r) {
    for (int i = d->row_at[r]; i < d->row_at[r + 1]; i++) d->column[d->by_row[i]] = i - d->row_at[r];
}

static void find_columns(grid *d) {
    for (int r = 0; r < d->n_rows; r++) number_columns(d, r);
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (int step = 0; step < d->n_rows; step++) {
            bool down = sweep % 2 == 0;
            int r = down ? step : d->n_rows - 1 - step;
            if (d->row_at[r + 1] - d->row_at[r] < 2) continue;
            for (int i = d->row_at[r]; i < d->row_at[r + 1]; i++) {
                int c = d->by_row[i];
                d->pull[c] = barycentre(d, c, down ? d->in : d->out, down ? d->in_at : d->out_at);
            }
            sort_row(d, r);
            number_columns(d, r);
        }
}

/* ---- all scopes ---- */

/* Room for the largest scope. */
static grid grid_new(view_graph *g, int flows) {
    int n = g->n_nodes + g->n_scopes + 2;
    grid d = {0};
    int **lists[] = {&d.cell, &d.row, &d.column, &d.in_at, &d.out_at, &d.by_row, &d.row_at};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        *lists[i] = view_new(&g->memory, n + 2, sizeof(int));
    d.in = view_new(&g->memory, flows, sizeof *d.in);
    d.out = view_new(&g->memory, flows, sizeof *d.out);
    d.floats = view_new(&g->memory, n, sizeof *d.floats);
    d.pull = view_new(&g->memory, n, sizeof *d.pull);
    return d;
}

/* The first node of each scope in this phase, with those below it; n_nodes: it has none. */
static void find_firsts(const view_graph *g, int phase, int *first) {
    for (int s = 0; s < g->n_scopes; s++) first[s] = g->n_nodes;
    for (int i = g->n_nodes - 1; i >= 0; i--)
        if (g->nodes[i].phase == phase) first[g->nodes[i].scope] = i;
    for (int s = g->n_scopes - 1; s > 0; s--)
        if (first[s] < first[g->scopes[s].parent]) first[g->scopes[s].parent] = first[s];
}

/* A cell, and its first node. */
typedef struct begun {
    int cell, first;
} begun;

static int by_first(const void *pa, const void *pb) {
    const begun *a = pa, *b = pb;
    return a->first != b->first ? (a->first > b->first) - (a->first < b->first)
                                : (a->cell > b->cell) - (a->cell < b->cell);
}

/* The cells of a scope. */
static void find_cells(const view_graph *g, const view_scope *s, int phase, const int *first, begun *list,
                       grid *d) {
    int own = s->end;
    d->n = 0;
    for (int c = s->first_child; c >= 0; c = g->scopes[c].next) {
        if (g->scopes[c].begin < own) own = g->scopes[c].begin;
        if (g->scopes[c].same == c && first[c] < g->n_nodes) list[d->n++] = (begun){g->n_nodes + c, first[c]};
    }
    for (int i = s->begin; i < own; i++)
        if (g->nodes[g->by_scope[i]].phase == phase) list[d->n++] = (begun){g->by_scope[i], g->by_scope[i]};
    if (d->n) qsort(list, (size_t)d->n, sizeof *list, by_first);
    for (int i = 0; i < d->n; i++) d->cell[i] = list[i].cell;
}

static void store(view_graph *g, const grid *d, int phase) {
    for (int i = 0; i < d->n; i++) {
        int row = phase == VIEW_BACKWARD ? d->n_rows - 1 - d->row[i] : d->row[i], cell = d->cell[i];
        if (cell < g->n_nodes) {
            g->row[cell] = row, g->column[cell] = d->column[i];
            continue;
        }
        g->scopes[cell - g->n_nodes].row[phase] = row;
        g->scopes[cell - g->n_nodes].column[phase] = d->column[i];
    }
}

/* Equal scopes are where the first of them is. */
static void copy_equal(view_graph *g) {
    for (int s = 0; s < g->n_scopes; s++)
        for (int p = 0; p < VIEW_PHASES; p++) {
            g->scopes[s].row[p] = g->scopes[g->scopes[s].same].row[p];
            g->scopes[s].column[p] = g->scopes[g->scopes[s].same].column[p];
        }
}

void view_layout(view_graph *g) {
    int cells = g->n_nodes + g->n_scopes;
    flow *flows = view_new(&g->memory, g->n_reads, sizeof *flows);
    begun *list = view_new(&g->memory, cells, sizeof *list);
    int *first = view_new(&g->memory, g->n_scopes, sizeof *first);
    int *place = view_new(&g->memory, cells, sizeof *place);
    grid d = grid_new(g, g->n_reads);
    g->row = view_new(&g->memory, g->n_nodes, sizeof *g->row);
    g->column = view_new(&g->memory, g->n_nodes, sizeof *g->column);
    for (int phase = 0; phase < VIEW_PHASES; phase++) {
        int n = find_flows(g, phase, flows), at = 0;
        find_firsts(g, phase, first);
        for (int s = 0; s < g->n_scopes; s++) {
            int begin = at;
            while (at < n && flows[at].scope == s) at++;
            find_cells(g, &g->scopes[s], phase, first, list, &d);
            for (int i = 0; i < d.n; i++) place[d.cell[i]] = i;
            order_cells(&d, flows + begin, at - begin, place);
            join_cells(&d, flows + begin, at - begin, place);
            find_rows(&d);
            sort_rows(&d);
            fold_rows(&d);
            find_columns(&d);
            store(g, &d, phase);
        }
    }
    copy_equal(g);
}
