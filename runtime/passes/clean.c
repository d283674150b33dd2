/* clean.c - what must run before what: operands, and readers and writers of one variable.
 *
 * A value read from a variable is the variable as it was when the read was built: parameters as of the start
 * of the run, state as the last earlier assign left it. A write therefore waits for all readers of the old
 * value and for earlier writes. graph_order_edges stores this as edges (node->after), so that later passes
 * may move nodes freely as long as they respect operands and edges.
 *
 * Where a reader of the old value also depends on the write (y = old + new, or an output), it reads a copy
 * made before the write instead. It may depend on the write through readers and writers of other variables
 * too (a = b, b = a): where edges form a cycle, all readers that come after such a write get copies; then the
 * list as it was built is an order that respects all edges.
 *
 * Updates wait for the `gate`, where there is one: it says whether the step is bad. */
#include "graph/core/compare.h"
#include "graph/core/limits.h"
#include "ops/kit/ops.h"
#include "runtime/passes/passes.h"

#include <stdlib.h>
#include <string.h>

/* ---- what nodes write ---- */

/* The variable that n writes through operand i (weft_op.writes), or for i = -1 by OP_WRITES; or NULL. */
static const weft_variable *written_by(const weft_node *n, int i) {
    if (i < 0) return n->op->flags & OP_WRITES ? n->variable : NULL;
    return i < 32 && n->op->writes >> i & 1 && n->in[i] ? n->in[i]->variable : NULL;
}

static bool is_writer(const weft_node *n) {
    return n->op->flags & OP_WRITES || n->op->writes;
}

/* Variables that overlap have one owner: the bucket is the owner of its parts. */
static const weft_variable *owner_of(const weft_variable *v) {
    return variable_is_part(v) ? v->bucket : v;
}

/* Whether two variables share memory: ranges of one bucket, or a bucket and a part of it. */
static bool overlaps(const weft_variable *a, const weft_variable *b) {
    if (!variable_is_part(a) || !variable_is_part(b)) return owner_of(a) == owner_of(b);
    return a->bucket == b->bucket && a->offset < b->offset + type_elements(&b->type) &&
           b->offset < a->offset + type_elements(&a->type);
}

/* Whether n overwrites memory of v. */
static bool writes(const weft_node *n, const weft_variable *v) {
    for (int i = -1; i < n->n_in; i++)
        if (written_by(n, i) && overlaps(written_by(n, i), v)) return true;
    return false;
}

/* Whether n overwrites all of v. */
static bool covers(const weft_node *n, const weft_variable *v) {
    for (int i = -1; i < n->n_in; i++) {
        const weft_variable *w = written_by(n, i);
        if (w && (w == v || w == owner_of(v))) return true;
    }
    return false;
}

/* The owners of all that a writer writes, each once: at most 32 operands and its own variable. */
enum { MOST_OWNERS = 33 };
static int owners_of(const weft_node *writer, const weft_variable **list) {
    int count = 0;
    for (int i = -1; i < writer->n_in; i++) {
        const weft_variable *v = written_by(writer, i);
        bool is_known = !v;
        for (int k = 0; v && k < count; k++) is_known |= list[k] == owner_of(v);
        if (!is_known) list[count++] = owner_of(v);
    }
    return count;
}

/* ---- readers by variable ---- */

/* A node that reads or writes a variable, in a list of all those of one owner. */
typedef struct reader {
    weft_node *node;
    const weft_value *root;        /* the value that it reads, below views; NULL: it writes */
    const weft_variable *variable; /* the variable that it reads or writes, a part of the owner */
    int number;                    /* in the order of finding */
    struct reader *next;
} reader;

/* An output that shows a variable's value, in a list of those of one owner. */
typedef struct output_entry {
    graph_output *output;
    struct output_entry *next;
} output_entry;

/* A reader that comes after the writer but reads the older value. */
typedef struct late_pair {
    weft_node *writer;
    const reader *reader;
} late_pair;

/* The state of one call. Variables with shared memory have one owner (owner_of); lists are by the owner's
 * index. */
typedef struct orderer {
    weft_graph *g;
    weft_node *gate;         /* before all updates; NULL: none */
    const weft_value **root; /* by value id: the value below its views */
    int n_ids, n_variables;
    int n_readers;
    reader **first, **last; /* by owner: its readers, linked in the order of the list */
    output_entry **shown;   /* by owner: the outputs that show it */
    late_pair *late;
    size_t n_late;
    /* by value id: the last walk of waits_for that met it; a copy of each value may be made meanwhile */
    int *met, walk;
    int64_t steps;    /* Nodes that waits_for may still visit; below 0: every late reader is taken to wait. */
    bool is_unsorted; /* a node may come before one that it waits for */
} orderer;

enum { WALKS = 64 }; /* budget of waits_for, in walks over the whole list */

static const weft_value *looked_at(const orderer *o, const weft_value *v) {
    return v->id < o->n_ids ? o->root[v->id] : v;
}

/* Arrays are by value id or by variable index, so their sizes are known here. */
static bool orderer_open(orderer *o, weft_graph *g) {
    weft_model *m = g->model;
    *o = (orderer){.g = g,
                   .n_ids = g->next_id,
                   .n_variables = m->n_variables,
                   .root = scratch_array(m, g->next_id, sizeof *o->root),
                   .met = scratch_array(m, 2 * (int64_t)g->next_id, sizeof *o->met),
                   .first = scratch_array(m, m->n_variables, sizeof *o->first),
                   .last = scratch_array(m, m->n_variables, sizeof *o->last),
                   .shown = scratch_array(m, m->n_variables, sizeof *o->shown)};
    return o->root && o->met && o->first && o->last && o->shown;
}

static reader *new_reader(orderer *o, weft_node *n, const weft_value *root, const weft_variable *v) {
    reader *r = scratch_array(o->g->model, 1, sizeof *r);
    if (r) *r = (reader){n, root, v, o->n_readers++, NULL};
    return r;
}

/* Appends node n, which reads `root`, to its owner's list. */
static bool add_reader(orderer *o, weft_node *n, const weft_value *root) {
    int owner = owner_of(root->variable)->index;
    reader *r = new_reader(o, n, root, root->variable), *last = o->last[owner];
    *(last ? &last->next : &o->first[owner]) = r;
    o->last[owner] = r;
    return r;
}

/* Operands come first in the list, so their roots are known. */
static void find_roots(orderer *o, weft_node *n) {
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k].id < o->n_ids)
            o->root[n->out[k].id] = n->op->flags & OP_VIEW ? looked_at(o, n->in[0]) : &n->out[k];
}

/* Lists the outputs that show a variable, by owner. */
static bool find_outputs(orderer *o) {
    memset(o->shown, 0, (size_t)o->n_variables * sizeof *o->shown);
    for (graph_output *out = o->g->outputs; out; out = out->next) {
        const weft_variable *v = looked_at(o, out->value)->variable;
        if (!v) continue;
        output_entry *e = scratch_array(o->g->model, 1, sizeof *e), **first = &o->shown[owner_of(v)->index];
        if (!e) return false;
        *e = (output_entry){out, *first};
        *first = e;
    }
    return true;
}

/* Lists all readers in the order of the list; sets node->mark to the place in it. */
static bool find_readers(orderer *o) {
    o->n_readers = 0;
    memset(o->first, 0, (size_t)o->n_variables * sizeof *o->first);
    memset(o->last, 0, (size_t)o->n_variables * sizeof *o->last);
    graph_number(o->g);
    for (weft_node *n = o->g->first; n; n = n->next) {
        find_roots(o, n);
        for (int i = 0; i < n->n_in; i++) {
            const weft_value *root = n->in[i] ? looked_at(o, n->in[i]) : NULL;
            if (root && root->variable && !add_reader(o, n, root)) return false;
        }
    }
    return find_outputs(o);
}

/* Whether `root` is a parameter as of the start of the run, so older than any write. */
static bool is_first(const weft_value *root) {
    return root->variable->kind == VARIABLE_PARAMETER && root->node->op != &weft_op_assign;
}

/* Whether `root` is a value that its variable had before `writer` writes it. Those of state, and of a
 * parameter that was assigned, are older if their node was built earlier (ids increase). */
static bool is_old(const weft_value *root, const weft_node *writer) {
    if (!root->variable || root->node == writer || !writes(writer, root->variable)) return false;
    return is_first(root) || root->node->id < writer->id;
}

/* ---- copies ---- */

/* A copy of v, made right after its node, and one for all readers. */
static weft_value *copy_of(weft_value *v) {
    weft_graph *g = v->node->graph;
    if (v->mapped) return v->mapped;
    build_place at;
    build_begin(&at, g, v->node->scope, v->node);
    v->mapped = node_value(g, &weft_op_reorder, 1, &v, NULL);
    build_end(&at);
    if (v->mapped) v->mapped->node->mark = v->node->mark;
    return v->mapped;
}

/* Sets value->mapped to the value's first copy, so that a second run makes no more. */
static void find_copies(weft_graph *g) {
    graph_clear_mapped(g);
    for (weft_node *n = g->first; n; n = n->next)
        if (n->op == &weft_op_reorder && !n->in[0]->mapped) n->in[0]->mapped = &n->out[0];
}

/* Replaces the operands of n that are older than `writer` by copies. */
static bool copy_operands(orderer *o, weft_node *n, const weft_node *writer) {
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i] || !is_old(looked_at(o, n->in[i]), writer)) continue;
        weft_value *copy = copy_of(n->in[i]);
        if (copy && copy->node == n) continue; /* the copy itself */
        if (!copy || !add_reader(o, copy->node, looked_at(o, n->in[i]))) return false;
        n->in[i] = copy;
        o->is_unsorted = true; /* the copy may be an existing one, further down the list */
    }
    return true;
}

/* Whether `n`, which comes after `writer`, depends on it through operands: one walk over the nodes between
 * them. Once the budget is spent the answer is yes, which costs a copy but is never wrong. */
static bool waits_for(orderer *o, const weft_node *n, weft_node *writer) {
    if (o->steps < 0) return true;
    o->walk++;
    for (weft_node *m = writer;; m = m->next) {
        bool late = m == writer;
        for (int i = 0; i < m->n_in; i++) late |= m->in[i] && o->met[m->in[i]->id] == o->walk;
        for (int k = 0; k < m->n_out && late; k++) o->met[m->out[k].id] = o->walk;
        o->steps--;
        if (m == n) return late;
    }
}

/* ---- readers after a writer ---- */

/* A writer of an owner, sorted by place in the list. */
typedef struct write_entry {
    const weft_variable *owner;
    weft_node *writer;
    int newest; /* the largest id among it and the owner's earlier writers */
} write_entry;

static int by_owner(const void *pa, const void *pb) {
    const write_entry *a = pa, *b = pb;
    return by_numbers(a->owner->index, b->owner->index, a->writer->mark, b->writer->mark);
}

/* Sorts pairs by writer, then by reader, so that copies are made in an order that does not depend on
 * find_late. */
static int by_writer(const void *pa, const void *pb) {
    const late_pair *a = pa, *b = pb;
    return by_numbers(a->writer->mark, b->writer->mark, a->reader->number, b->reader->number);
}

/* Every writer once for each of its owners, sorted by owner and place; NULL: no memory. */
static write_entry *find_writes(orderer *o, size_t *n) {
    const weft_variable *owners[MOST_OWNERS];
    int64_t room = 0;
    for (const weft_node *w = o->g->first; w; w = w->next) room += is_writer(w) ? owners_of(w, owners) : 0;
    write_entry *list = scratch_array(o->g->model, room, sizeof *list);
    *n = 0;
    for (weft_node *w = o->g->first; w && list; w = w->next) {
        int count = is_writer(w) ? owners_of(w, owners) : 0;
        for (int h = 0; h < count; h++) list[(*n)++] = (write_entry){owners[h], w, w->id};
    }
    if (list) qsort(list, *n, sizeof *list, by_owner);
    for (size_t i = 1; i < *n; i++)
        if (list[i].owner == list[i - 1].owner && list[i].newest < list[i - 1].newest)
            list[i].newest = list[i - 1].newest;
    return list;
}

/* How many of an owner's writers list[0 .. count) come before `place`: a binary search. */
static size_t writes_before(const write_entry *list, size_t count, int64_t place) {
    size_t low = 0;
    while (low < count) {
        size_t middle = low + (count - low) / 2;
        if (list[middle].writer->mark < place)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

static bool add_late(orderer *o, weft_node *writer, const reader *r) {
    late_pair *more = arena_grow(&o->g->model->scratch, o->late, o->n_late, sizeof *more);
    if (!more) return false;
    o->late = more;
    o->late[o->n_late++] = (late_pair){writer, r};
    return true;
}

/* For each reader of an owner, whose writers are list[0 .. count), goes back over the writers before it,
 * until all earlier ones are older than the value that it reads. */
static bool find_late(orderer *o, const write_entry *list, size_t count) {
    for (const reader *r = o->first[list->owner->index]; r; r = r->next) {
        bool is_parameter = is_first(r->root);
        if (r->node->op->writes) continue; /* an update in place reads what is there */
        for (size_t i = writes_before(list, count, r->node->mark); i--;) {
            if (!is_parameter && list[i].newest <= r->root->node->id) break;
            if (is_old(r->root, list[i].writer) && !add_late(o, list[i].writer, r)) return false;
        }
    }
    return true;
}

/* O(readers + writers x log) plus the walks of waits_for. Readers that depend on the writer read copies; the
 * others get an edge. */
static bool copy_for_late_readers(orderer *o) {
    size_t count, end;
    write_entry *list = find_writes(o, &count);
    if (!list) return false;
    for (size_t i = 0; i < count; i = end) {
        for (end = i; end < count && list[end].owner == list[i].owner;) end++;
        if (end - i > MODEL_MAX_WRITES)
            return model_fail(o->g->model, NULL, WEFT_UNSUPPORTED,
                              "graph %s: %s is written more than %d times in one run", o->g->name,
                              list[i].owner->path, MODEL_MAX_WRITES);
        if (!find_late(o, list + i, end - i)) return false;
    }
    if (o->n_late) qsort(o->late, o->n_late, sizeof *o->late, by_writer);
    for (const late_pair *l = o->late; l < o->late + o->n_late; l++)
        if (waits_for(o, l->reader->node, l->writer) && !copy_operands(o, l->reader->node, l->writer))
            return false;
    return true;
}

/* Outputs show the end of the run, so one that names an old value always gets a copy. After that it names no
 * variable, and later writers pass over it. */
static bool copy_outputs(orderer *o, const weft_node *writer) {
    const weft_variable *owners[MOST_OWNERS];
    int count = owners_of(writer, owners);
    for (int h = 0; h < count; h++)
        for (const output_entry *e = o->shown[owners[h]->index]; e; e = e->next) {
            weft_value **shown = &e->output->value;
            if (is_old(looked_at(o, *shown), writer) && !(*shown = copy_of(*shown))) return false;
        }
    return true;
}

static bool make_copies(orderer *o) {
    find_copies(o->g);
    if (!find_readers(o) || !copy_for_late_readers(o)) return false;
    for (weft_node *n = o->g->first; n; n = n->next)
        if (is_writer(n) && !copy_outputs(o, n)) return false;
    return find_readers(o);
}

/* ---- edges ----
 * A writer waits for the readers of what was there before, and for earlier writers. A reader or writer whose
 * variable the writer overwrites completely leaves the list, because later writers wait for it through this
 * one: n readers make n edges, however many writers there are. */

static int by_place(const void *pa, const void *pb) {
    const weft_node *const *a = pa, *const *b = pb;
    return by_number((*a)->mark, (*b)->mark);
}

/* By id: the order of building, which is the order of a variable's versions. */
static int by_id(const void *pa, const void *pb) {
    const weft_node *const *a = pa, *const *b = pb;
    return by_numbers((*a)->id, (*b)->id, (*a)->mark, (*b)->mark);
}

/* The id of the version that a reader sees; -1 for a parameter as of the start, older than any writer.
 * Writers with a larger id must wait. */
static int version_of(const reader *r) {
    return is_first(r->root) ? -1 : r->root->node->id;
}

static int by_version(const void *pa, const void *pb) {
    const reader *a = *(reader *const *)pa, *b = *(reader *const *)pb;
    int order = by_number(owner_of(a->variable)->index, owner_of(b->variable)->index);
    return order ? order : by_numbers(version_of(a), version_of(b), a->number, b->number);
}

/* Sorts each owner's list by the versions that its readers see, the oldest first. */
static bool sort_readers(orderer *o) {
    reader **list = scratch_array(o->g->model, o->n_readers, sizeof *list), *after = NULL;
    size_t count = 0;
    if (!list) return false;
    for (int v = 0; v < o->n_variables; v++)
        for (reader *r = o->first[v]; r; r = r->next) list[count++] = r;
    qsort(list, count, sizeof *list, by_version);
    for (size_t i = count; i--; after = list[i]) {
        bool is_last = !after || owner_of(after->variable) != owner_of(list[i]->variable);
        list[i]->next = is_last ? NULL : after;
        o->first[owner_of(list[i]->variable)->index] = list[i];
    }
    return true;
}

/* Whether n updates something that outlasts the step: gradients do not. */
static bool is_gated(const weft_node *n) {
    bool is_kept = false;
    for (int i = -1; i < n->n_in; i++) {
        const weft_variable *v = written_by(n, i);
        is_kept |= v && v->kind != VARIABLE_GRADIENT;
    }
    return n->is_update && is_kept;
}

/* Adds to `found` the owner's readers and writers that `n` waits for, and drops those that it covers. */
static int waited_for(orderer *o, const weft_node *n, int owner, weft_node **found, int count) {
    for (reader **link = &o->first[owner], *r; (r = *link);) {
        if (r->root && version_of(r) >= n->id) break; /* the rest see versions that are as new */
        bool must = r->root ? is_old(r->root, n) : r->node != n && writes(n, r->variable);
        if (must && r->node != n && !(r->node->op->flags & OP_VIEW)) found[count++] = r->node;
        if (must && covers(n, r->variable))
            *link = r->next;
        else
            link = &r->next;
    }
    return count;
}

/* Puts n at the front of the lists of what it writes, where later writers find it. */
static bool add_writer(orderer *o, weft_node *n) {
    for (int i = -1; i < n->n_in; i++) {
        const weft_variable *v = written_by(n, i);
        reader *r = v ? new_reader(o, n, NULL, v) : NULL;
        if (!v) continue;
        if (!r) return false;
        r->next = o->first[owner_of(v)->index];
        o->first[owner_of(v)->index] = r;
    }
    return true;
}

/* Sets n->after: sorted by place, each node once. `found` has room for every reader and writer. */
static bool set_edges(orderer *o, weft_node *n, weft_node **found) {
    const weft_variable *owners[MOST_OWNERS];
    int count = owners_of(n, owners), edges = 0, kept = 0;
    for (int h = 0; h < count; h++) edges = waited_for(o, n, owners[h]->index, found, edges);
    if (o->gate && is_gated(n)) found[edges++] = o->gate;
    qsort(found, (size_t)edges, sizeof *found, by_place);
    for (int i = 0; i < edges; i++)
        if (!i || found[i] != found[i - 1]) found[kept++] = found[i];
    n->n_after = kept;
    if (kept) {
        if (!(n->after = model_array(o->g->model, kept, sizeof *n->after))) return false;
        memcpy(n->after, found, (size_t)kept * sizeof *found);
        o->is_unsorted |= found[kept - 1]->mark >= n->mark;
    }
    return add_writer(o, n);
}

/* Writers get their edges in the order of building, each after all that it may wait for. */
static bool set_all_edges(orderer *o) {
    weft_graph *g = o->g;
    int room = o->n_readers + 1; /* the gate */
    size_t count = 0;
    weft_node **writers = scratch_array(g->model, g->n_nodes, sizeof *writers);
    for (weft_node *n = g->first; n && writers; n = n->next) {
        for (int i = -1; i < n->n_in; i++) room += written_by(n, i) != NULL;
        if (is_writer(n)) writers[count++] = n;
    }
    weft_node **found = scratch_array(g->model, room, sizeof *found);
    if (!writers || !found || !sort_readers(o)) return false;
    qsort(writers, count, sizeof *writers, by_id);
    for (size_t i = 0; i < count; i++)
        if (!set_edges(o, writers[i], found)) return false;
    return true;
}

/* One attempt with a budget of `steps`. *is_unsorted: a node may come before one that it waits for. */
static bool order_edges(weft_graph *g, int64_t steps, bool *is_unsorted) {
    orderer o;
    bool any = false;
    weft_node *gate = NULL;
    for (weft_node *n = g->first; n; n = n->next) {
        any |= is_writer(n);
        n->n_after = 0;
        if (n->op == &weft_op_gate) gate = n;
    }
    *is_unsorted = false;
    if (!any) return true; /* no writer: operands are the only order */
    if (!orderer_open(&o, g)) return false;
    o.steps = steps;
    o.gate = gate;
    if (!make_copies(&o) || !set_all_edges(&o)) return false;
    *is_unsorted = o.is_unsorted;
    return true;
}

bool graph_order_edges(weft_graph *g) {
    const weft_node *circle;
    bool is_unsorted;
    if (!order_edges(g, WALKS * (int64_t)graph_node_count(g), &is_unsorted)) return false;
    if (!is_unsorted) return true;
    if (!graph_sort_unless(g, &circle)) return false;
    /* A cycle: again with copies for all late readers. The list was left as built, so the result can be
     * sorted. */
    return !circle || (order_edges(g, -1, &is_unsorted) && graph_sort(g));
}
