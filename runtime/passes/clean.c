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
#include "graph/core/graph.h"

#include "graph/core/limits.h"
#include "ops/kit/ops.h"
#include "runtime/passes/passes.h"

#include <stdlib.h>
#include <string.h>

/* Whether two variables share memory: ranges of one bucket, or a bucket and a part of it. */
static bool overlaps(const weft_variable *a, const weft_variable *b) {
    if (!a || !b) return false;
    if (variable_is_part(a) && variable_is_part(b))
        return a->bucket == b->bucket && a->offset < b->offset + type_elements(&b->type) &&
               b->offset < a->offset + type_elements(&a->type);
    return a == b || (variable_is_part(a) && a->bucket == b) || (variable_is_part(b) && b->bucket == a);
}

/* Whether n overwrites memory of v, as an assign or in place (weft_op.writes). */
static bool writes(const weft_node *n, const weft_variable *v) {
    if (n->op->flags & OP_WRITES && overlaps(n->variable, v)) return true;
    for (int i = 0; i < n->n_in && i < 32; i++)
        if (n->op->writes >> i & 1 && n->in[i] && overlaps(n->in[i]->variable, v)) return true;
    return false;
}

static bool is_writer(const weft_node *n) {
    return n->op->flags & OP_WRITES || n->op->writes;
}

/* ---- readers by variable ---- */

/* A node that reads or writes a variable, in a list of all those of one owner. */
typedef struct reader {
    weft_node *node;
    const weft_value *root;        /* the value that it reads, below views; NULL: it writes */
    const weft_variable *variable; /* the variable that it reads or writes, a part of the owner */
    int64_t place;                 /* of the node in the list */
    int next;                      /* number of the owner's next entry, counted from 1; 0: none */
} reader;

/* An output that shows a variable's value, in a list of those of one owner. */
typedef struct output_entry {
    graph_output *output;
    int next; /* number of the next one of the owner; 0: none */
} output_entry;

/* The state of one call. Variables with shared memory have one owner (owner_of); lists are by the owner's
 * index. */
typedef struct orderer {
    weft_graph *g;
    weft_node *gate;         /* before all updates; NULL: none */
    const weft_value **root; /* by value id: the value below its views */
    int n_ids, n_variables;
    reader *readers; /* numbered from 1; writers are added once they have their edges */
    int count;
    size_t room;
    int *first, *last; /* by owner: its first and last reader, linked in the order of the list */
    int *writers;      /* by owner: how many nodes write it */
    int *shown;        /* by owner: the first output that shows it, numbered from 1; 0: none */
    output_entry *outputs;
    size_t n_outputs, output_room;
    int64_t steps;    /* Nodes that waits_for may still visit; below 0: every late reader is taken to wait. */
    bool is_unsorted; /* a node may come before one that it waits for */
} orderer;

enum { WALKS = 64 }; /* budget of waits_for, in walks over the whole list */

/* Variables that overlap have one owner: the bucket is the owner of its parts. */
static const weft_variable *owner_of(const weft_variable *v) {
    return variable_is_part(v) ? v->bucket : v;
}

static const weft_value *looked_at(const orderer *o, const weft_value *v) {
    return v->id < o->n_ids ? o->root[v->id] : v;
}

static bool out_of_memory(const weft_graph *g) {
    return model_fail(g->model, (weft_graph *)g, WEFT_MEMORY, "order: out of memory");
}

/* Arrays are by value id or by variable index, so their sizes are known here. */
static bool orderer_open(orderer *o, weft_graph *g) {
    const weft_env *env = &g->model->env;
    *o = (orderer){.g = g, .n_ids = g->next_id, .n_variables = g->model->n_variables};
    o->root = mem_new_array(env, (size_t)o->n_ids, sizeof *o->root);
    o->first = mem_new_array(env, (size_t)o->n_variables, sizeof *o->first);
    o->last = mem_new_array(env, (size_t)o->n_variables, sizeof *o->last);
    o->writers = mem_new_array(env, (size_t)o->n_variables, sizeof *o->writers);
    o->shown = mem_new_array(env, (size_t)o->n_variables, sizeof *o->shown);
    if (!o->root || !o->first || !o->last || !o->writers || !o->shown) return out_of_memory(g);
    return true;
}

static void orderer_close(orderer *o) {
    const weft_env *env = &o->g->model->env;
    mem_free(env, o->root, (size_t)o->n_ids * sizeof *o->root);
    mem_free(env, o->first, (size_t)o->n_variables * sizeof *o->first);
    mem_free(env, o->last, (size_t)o->n_variables * sizeof *o->last);
    mem_free(env, o->writers, (size_t)o->n_variables * sizeof *o->writers);
    mem_free(env, o->shown, (size_t)o->n_variables * sizeof *o->shown);
    mem_free(env, o->outputs, o->output_room * sizeof *o->outputs);
    mem_free(env, o->readers, o->room * sizeof *o->readers);
}

/* Adds an entry; returns its number, 0 after an error. */
static int new_reader(orderer *o, reader r) {
    reader *more = mem_grow(&o->g->model->env, o->readers, &o->room, (size_t)o->count + 2, sizeof *more);
    if (!more) return out_of_memory(o->g);
    o->readers = more;
    o->readers[++o->count] = r;
    return o->count;
}

/* Appends node n, which reads `root`, to its owner's list. */
static bool add_reader(orderer *o, weft_node *n, const weft_value *root) {
    int owner = owner_of(root->variable)->index;
    int number = new_reader(o, (reader){n, root, root->variable, n->mark, 0});
    if (!number) return false;
    *(o->last[owner] ? &o->readers[o->last[owner]].next : &o->first[owner]) = number;
    o->last[owner] = number;
    return true;
}

/* Operands come first in the list, so their roots are known. */
static void find_roots(orderer *o, weft_node *n) {
    for (int k = 0; k < n->n_out; k++)
        if (n->out[k].id < o->n_ids)
            o->root[n->out[k].id] = n->op->flags & OP_VIEW ? looked_at(o, n->in[0]) : &n->out[k];
}

/* Lists the outputs that show a variable, by owner. */
static bool find_outputs(orderer *o) {
    o->n_outputs = 0;
    memset(o->shown, 0, (size_t)o->n_variables * sizeof *o->shown);
    for (graph_output *out = o->g->outputs; out; out = out->next) {
        const weft_variable *v = looked_at(o, out->value)->variable;
        if (!v) continue;
        output_entry *more =
            mem_grow(&o->g->model->env, o->outputs, &o->output_room, o->n_outputs + 2, sizeof *more);
        if (!more) return out_of_memory(o->g);
        int *first = &o->shown[owner_of(v)->index];
        o->outputs = more;
        o->outputs[++o->n_outputs] = (output_entry){out, *first};
        *first = (int)o->n_outputs;
    }
    return true;
}

/* Lists all readers in the order of the list; sets node->mark to the place in it, from 1. */
static bool find_readers(orderer *o) {
    int64_t place = 0;
    o->count = 0;
    memset(o->first, 0, (size_t)o->n_variables * sizeof *o->first);
    memset(o->last, 0, (size_t)o->n_variables * sizeof *o->last);
    for (weft_node *n = o->g->first; n; n = n->next) {
        n->mark = ++place;
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

/* The owners of all that a writer writes, each once: at most 32 operands and its own variable. */
static int owners_of(const weft_node *writer, const weft_variable **list) {
    int count = 0;
    if (writer->op->flags & OP_WRITES && writer->variable) list[count++] = owner_of(writer->variable);
    for (int i = 0; i < writer->n_in && i < 32; i++) {
        const weft_variable *v =
            writer->op->writes >> i & 1 && writer->in[i] ? writer->in[i]->variable : NULL;
        bool is_known = !v;
        for (int k = 0; v && k < count; k++) is_known |= list[k] == owner_of(v);
        if (!is_known) list[count++] = owner_of(v);
    }
    return count;
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
    for (weft_node *n = g->first; n; n = n->next)
        for (int k = 0; k < n->n_out; k++) n->out[k].mapped = NULL;
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
static bool waits_for(orderer *o, const weft_node *n, weft_node *writer, bool *waits) {
    size_t ids = (size_t)o->g->next_id;
    const weft_env *env = &o->g->model->env;
    *waits = true;
    if (o->steps < 0) return true;
    bool *is_late = mem_new_array(env, ids, sizeof *is_late);
    if (!is_late) return out_of_memory(o->g);
    o->steps -= (int64_t)ids / 16;
    for (const weft_node *m = writer;; m = m->next) {
        bool late = m == writer;
        for (int i = 0; i < m->n_in; i++) late |= m->in[i] && is_late[m->in[i]->id];
        for (int k = 0; k < m->n_out; k++) is_late[m->out[k].id] = late;
        o->steps--;
        *waits = late;
        if (m == n) break;
    }
    mem_free(env, is_late, ids * sizeof *is_late);
    return true;
}

/* ---- readers after a writer ---- */

/* A writer of an owner, sorted by place in the list. */
typedef struct write_entry {
    int owner;
    weft_node *writer;
    int newest; /* the largest id among it and the owner's earlier writers */
} write_entry;

/* A reader that comes after the writer but reads the older value. */
typedef struct late_pair {
    weft_node *writer;
    int reader;
} late_pair;

typedef struct late_list {
    late_pair *v;
    size_t count, room;
} late_list;

static int by_owner(const void *pa, const void *pb) {
    const write_entry *a = pa, *b = pb;
    if (a->owner != b->owner) return (a->owner > b->owner) - (a->owner < b->owner);
    return (a->writer->mark > b->writer->mark) - (a->writer->mark < b->writer->mark);
}

/* Sorts pairs by writer, then by reader, so that copies are made in an order that does not depend on
 * find_late. */
static int by_writer(const void *pa, const void *pb) {
    const late_pair *a = pa, *b = pb;
    if (a->writer != b->writer)
        return (a->writer->mark > b->writer->mark) - (a->writer->mark < b->writer->mark);
    return (a->reader > b->reader) - (a->reader < b->reader);
}

/* Lists every writer once for each of its owners, sorted by owner and place; false after an error. */
static bool find_writes(orderer *o, write_entry *list, size_t *n) {
    const weft_variable *owners[33];
    *n = 0;
    for (weft_node *w = o->g->first; w; w = w->next) {
        int count = is_writer(w) ? owners_of(w, owners) : 0;
        for (int h = 0; h < count; h++) {
            if (++o->writers[owners[h]->index] > MODEL_MAX_WRITES)
                return model_fail(o->g->model, NULL, WEFT_UNSUPPORTED,
                                  "graph %s: %s is written more than %d times in one run", o->g->name,
                                  owners[h]->path, MODEL_MAX_WRITES);
            list[(*n)++] = (write_entry){owners[h]->index, w, w->id};
        }
    }
    qsort(list, *n, sizeof *list, by_owner);
    for (size_t i = 1; i < *n; i++)
        if (list[i].owner == list[i - 1].owner && list[i].newest < list[i - 1].newest)
            list[i].newest = list[i - 1].newest;
    return true;
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

static bool add_late(orderer *o, late_list *l, late_pair pair) {
    late_pair *more = mem_grow(&o->g->model->env, l->v, &l->room, l->count + 1, sizeof *more);
    if (!more) return out_of_memory(o->g);
    l->v = more;
    l->v[l->count++] = pair;
    return true;
}

/* For each reader goes back over the writers before it, until all earlier ones are older than the value that
 * it reads. */
static bool find_late(orderer *o, const write_entry *list, size_t count, late_list *late) {
    for (int r = o->first[list->owner]; r; r = o->readers[r].next) {
        const reader *e = &o->readers[r];
        bool is_parameter = is_first(e->root);
        if (e->node->op->writes) continue; /* an update in place reads what is there */
        for (size_t i = writes_before(list, count, e->place); i--;) {
            if (!is_parameter && list[i].newest <= e->root->node->id) break;
            if (is_old(e->root, list[i].writer) && !add_late(o, late, (late_pair){list[i].writer, r}))
                return false;
        }
    }
    return true;
}

/* Makes copies for the pairs whose reader depends on the writer; the others get an edge. */
static bool copy_late(orderer *o, const late_list *late) {
    for (size_t i = 0; i < late->count; i++) {
        weft_node *n = o->readers[late->v[i].reader].node;
        bool waits;
        if (!waits_for(o, n, late->v[i].writer, &waits)) return false;
        if (waits && !copy_operands(o, n, late->v[i].writer)) return false;
    }
    return true;
}

/* O(readers + writers x log) plus the walks of waits_for. */
static bool copy_for_late_readers(orderer *o) {
    const weft_env *env = &o->g->model->env;
    const weft_variable *owners[33];
    size_t room = 0, count = 0, end;
    late_list late = {0};
    for (const weft_node *n = o->g->first; n; n = n->next)
        room += is_writer(n) ? (size_t)owners_of(n, owners) : 0;
    write_entry *list = mem_new_array(env, room, sizeof *list);
    bool good = list ? find_writes(o, list, &count) : out_of_memory(o->g);
    for (size_t i = 0; good && i < count; i = end) {
        for (end = i; end < count && list[end].owner == list[i].owner;) end++;
        good = find_late(o, list + i, end - i, &late);
    }
    if (good && late.count) qsort(late.v, late.count, sizeof *late.v, by_writer);
    good = good && copy_late(o, &late);
    mem_free(env, list, room * sizeof *list);
    mem_free(env, late.v, late.room * sizeof *late.v);
    return good;
}

/* Outputs show the end of the run, so one that names an old value always gets a copy. After that it names no
 * variable, and later writers pass over it. */
static bool copy_outputs(orderer *o, const weft_node *writer) {
    const weft_variable *owners[33];
    int count = owners_of(writer, owners);
    for (int h = 0; h < count; h++)
        for (int i = o->shown[owners[h]->index]; i; i = o->outputs[i].next) {
            graph_output *out = o->outputs[i].output;
            if (is_old(looked_at(o, out->value), writer) && !(out->value = copy_of(out->value))) return false;
        }
    return true;
}

/* ---- edges ----
 * A writer waits for the readers of what was there before, and for earlier writers. A reader or writer whose
 * variable the writer overwrites completely leaves the list, because later writers wait for it through this
 * one: n readers make n edges, however many writers there are. */

static int by_place(const void *pa, const void *pb) {
    const weft_node *const *a = pa, *const *b = pb;
    return ((*a)->mark > (*b)->mark) - ((*a)->mark < (*b)->mark);
}

/* By id: the order of building, which is the order of a variable's versions. */
static int by_id(const void *pa, const void *pb) {
    const weft_node *const *a = pa, *const *b = pb;
    return (*a)->id != (*b)->id ? ((*a)->id > (*b)->id) - ((*a)->id < (*b)->id) : by_place(pa, pb);
}

/* The variable that the node writes through operand i, or for i = -1 by OP_WRITES; or NULL. */
static const weft_variable *written_by(const weft_node *n, int i) {
    if (i < 0) return n->op->flags & OP_WRITES ? n->variable : NULL;
    return i < 32 && n->op->writes >> i & 1 && n->in[i] ? n->in[i]->variable : NULL;
}

/* Whether n overwrites all of v. */
static bool covers(const weft_node *n, const weft_variable *v) {
    for (int i = -1; i < n->n_in; i++) {
        const weft_variable *w = written_by(n, i);
        if (w && (w == v || w == owner_of(v))) return true;
    }
    return false;
}

/* The id of the version that a reader sees; -1 for a parameter as of the start, older than any writer.
 * Writers with a larger id must wait. */
static int version_of(const reader *r) {
    return is_first(r->root) ? -1 : r->root->node->id;
}

/* A reader, to be sorted by the version that it sees. */
typedef struct sight {
    int owner, version, reader;
} sight;

static int by_version(const void *pa, const void *pb) {
    const sight *a = pa, *b = pb;
    if (a->owner != b->owner) return (a->owner > b->owner) - (a->owner < b->owner);
    if (a->version != b->version) return (a->version > b->version) - (a->version < b->version);
    return (a->reader > b->reader) - (a->reader < b->reader);
}

/* Sorts each owner's list by the versions that its readers see, the oldest first. */
static bool sort_readers(orderer *o) {
    const weft_env *env = &o->g->model->env;
    size_t count = (size_t)o->count;
    sight *list = mem_new_array(env, count, sizeof *list);
    if (!list) return out_of_memory(o->g);
    for (int r = 1; r <= o->count; r++)
        list[r - 1] = (sight){owner_of(o->readers[r].variable)->index, version_of(&o->readers[r]), r};
    qsort(list, count, sizeof *list, by_version);
    for (size_t i = count; i--;) {
        bool is_last = i + 1 == count || list[i + 1].owner != list[i].owner;
        o->readers[list[i].reader].next = is_last ? 0 : list[i + 1].reader;
        o->first[list[i].owner] = list[i].reader;
    }
    mem_free(env, list, count * sizeof *list);
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

static bool must_precede(const reader *r, const weft_node *writer) {
    return r->root ? is_old(r->root, writer) : r->node != writer && writes(writer, r->variable);
}

/* Adds to `found` the owner's readers and writers that `n` waits for, and drops those that it covers. */
static int waited_for(orderer *o, const weft_node *n, int owner, weft_node **found, int count) {
    for (int *link = &o->first[owner]; *link;) {
        const reader *r = &o->readers[*link];
        if (r->root && version_of(r) >= n->id) break; /* the rest see versions that are as new */
        bool must = must_precede(r, n);
        if (must && r->node != n && !(r->node->op->flags & OP_VIEW)) found[count++] = r->node;
        if (must && covers(n, r->variable))
            *link = r->next;
        else
            link = &o->readers[*link].next;
    }
    return count;
}

/* Puts n at the front of the lists of what it writes, where later writers find it. */
static bool add_writer(orderer *o, weft_node *n) {
    for (int i = -1; i < n->n_in; i++) {
        const weft_variable *v = written_by(n, i);
        int *first = v ? &o->first[owner_of(v)->index] : NULL;
        if (v && !(*first = new_reader(o, (reader){n, NULL, v, n->mark, *first}))) return false;
    }
    return true;
}

/* Sets n->after: sorted by place, each node once. `found` has room for every reader and writer. */
static bool set_edges(orderer *o, weft_node *n, weft_node **found) {
    const weft_variable *owners[33];
    int count = owners_of(n, owners), edges = 0, kept = 0;
    for (int h = 0; h < count; h++) edges = waited_for(o, n, owners[h]->index, found, edges);
    if (o->gate && is_gated(n)) found[edges++] = o->gate;
    qsort(found, (size_t)edges, sizeof *found, by_place);
    for (int i = 0; i < edges; i++)
        if (!i || found[i] != found[i - 1]) found[kept++] = found[i];
    n->n_after = kept;
    if (kept) {
        n->after = arena_new_array(&o->g->model->arena, (size_t)kept, sizeof *n->after);
        if (!n->after) return out_of_memory(o->g);
        memcpy(n->after, found, (size_t)kept * sizeof *found);
        o->is_unsorted |= found[kept - 1]->mark >= n->mark;
    }
    return add_writer(o, n);
}

static bool make_copies(orderer *o) {
    find_copies(o->g);
    if (!find_readers(o)) return false;
    if (!copy_for_late_readers(o)) return false;
    for (weft_node *n = o->g->first; n; n = n->next)
        if (is_writer(n) && !copy_outputs(o, n)) return false;
    return find_readers(o);
}

/* Writers get their edges in the order of building, each after all that it may wait for. */
static bool set_all_edges(orderer *o) {
    weft_graph *g = o->g;
    const weft_env *env = &g->model->env;
    size_t room = (size_t)o->count + 2, count = 0, n_writers = 0;
    for (const weft_node *n = g->first; n; n = n->next) n_writers += is_writer(n);
    for (const weft_node *n = g->first; n; n = n->next)
        for (int i = -1; i < n->n_in && is_writer(n); i++) room += written_by(n, i) != NULL;
    weft_node **writers = mem_new_array(env, n_writers, sizeof *writers);
    weft_node **found = mem_new_array(env, room, sizeof *found);
    bool good = ((writers && found) || out_of_memory(g)) && sort_readers(o);
    for (weft_node *n = g->first; n && good; n = n->next)
        if (is_writer(n)) writers[count++] = n;
    if (good) qsort(writers, count, sizeof *writers, by_id);
    for (size_t i = 0; i < count && good; i++) good = set_edges(o, writers[i], found);
    mem_free(env, writers, n_writers * sizeof *writers);
    mem_free(env, found, room * sizeof *found);
    return good;
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
    bool good = orderer_open(&o, g);
    o.steps = steps;
    o.gate = gate;
    good = good && make_copies(&o) && set_all_edges(&o);
    *is_unsorted = o.is_unsorted;
    orderer_close(&o);
    return good;
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
