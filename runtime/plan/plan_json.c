/* plan_json.c - a plan as JSON. Its keys are stable, and documented in docs/graphtool.md. Objects take over
 * the references that they are built from (jansson's "o"), so nothing is released on the way but the root. */
#include "ops/cpu/isa.h"
#include "runtime/plan/program.h"
#include "runtime/plan/value.h"

#include "ops/structure/collective.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static json_t *memory_json(const weft_memory *m) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "parameters",
                     (json_int_t)m->parameters, "gradients", (json_int_t)m->gradients, "optimizer",
                     (json_int_t)m->optimizer, "derived", (json_int_t)m->derived, "activations",
                     (json_int_t)m->activations, "workspace", (json_int_t)m->workspace, "communication",
                     (json_int_t)m->communication, "inputs", (json_int_t)m->inputs, "in_flight",
                     (json_int_t)m->in_flight, "total", (json_int_t)m->total, "checkpoint",
                     (json_int_t)m->checkpoint);
}

static json_t *ranks_json(const subgraph *g) {
    json_t *list = json_array();
    for (int i = 0; i < g->n_ranks; i++) json_array_append_new(list, json_integer(g->ranks[i]));
    return list;
}

/* "begin" and "end" are this rank's range in elements. Other ranks appear only in the number of those that
 * own a range. */
static json_t *shard_json(const weft_plan *plan, const weft_variable *s) {
    int64_t begin, end;
    int owners = 0;
    shard_range(plan, s, &begin, &end);
    for (int r = 0; r < plan->subgraphs[s->subgraph].n_ranks; r++) owners += s->shards[r] > 0;
    return json_pack("{s:i, s:I, s:I}", "owners", owners, "begin", (json_int_t)begin, "end", (json_int_t)end);
}

/* "own" is null for a bucket that every rank updates whole. */
static json_t *bucket_json(const weft_plan *plan, const weft_variable *s) {
    json_t *members = json_array();
    for (int i = 0; i < s->n_members; i++) json_array_append_new(members, json_string(s->members[i]->path));
    return json_pack("{s:s, s:I, s:o, s:o}", "id", s->path, "bytes", (json_int_t)type_bytes(&s->type),
                     "parameters", members, "own", s->shards ? shard_json(plan, s) : json_null());
}

/* What a subgraph contains: elements, bytes, and its buckets as JSON. */
typedef struct contents {
    json_int_t parameters, bytes;
    json_t *buckets;
} contents;

/* of[] is indexed by subgraph and starts as zeros. */
static void find_contents(const weft_plan *plan, contents *of) {
    for (int i = 0; i < plan->n_subgraphs; i++) of[i].buckets = json_array();
    for (const weft_variable *v = plan->model->variables; v; v = v->next) {
        contents *c = &of[v->subgraph];
        if (v->kind == VARIABLE_PARAMETER) {
            c->parameters += type_elements(&v->type);
            c->bytes += (json_int_t)type_bytes(&v->type);
        }
        if (v->kind == VARIABLE_BUCKET) json_array_append_new(c->buckets, bucket_json(plan, v));
    }
}

/* The word or number of one option in this plan. Three are not the stored value: a process group is the list
 * of its ranks (its text means other ranks in other worlds), the way of sharding is "none" without ZeRO, and
 * the wire is the type that travels. */
static void option_add(json_t *to, const subgraph *g, const op_attr *f) {
    const char *at = (const char *)&g->ddp + f->offset;
    if (f->offset == offsetof(ddp_attrs, process_group))
        json_object_set_new(to, f->name, ranks_json(g));
    else if (f->offset == offsetof(ddp_attrs, bf16_wire))
        json_object_set_new(to, "wire", json_string(g->ddp.bf16_wire ? "bf16" : "f32"));
    else if (f->offset == offsetof(ddp_attrs, shard) && !g->ddp.zero)
        json_object_set_new(to, f->name, json_string("none"));
    else if (f->kind == ATTR_REAL)
        json_object_set_new(to, f->name, json_real(*(const double *)at));
    else if (f->kind == ATTR_INT && f->words)
        json_object_set_new(to, f->name, json_string(f->words[*(const int64_t *)at]));
    else if (f->kind == ATTR_INT)
        json_object_set_new(to, f->name, json_integer(*(const int64_t *)at));
    else if (f->kind == ATTR_BOOL)
        json_object_set_new(to, f->name, json_boolean(*(const bool *)at));
    else
        json_object_set_new(to, f->name, json_string(*(const char *const *)at));
}

/* Whether it takes part in sums ("ddp"), and whether this rank holds all gradients of a bucket or only its
 * range. */
static json_t *subgraph_json(const weft_plan *plan, const subgraph *g, const contents *c) {
    bool is_shared = plan->options.world > 1 && json_array_size(c->buckets);
    /* the gradients of many micro-batches are kept whole */
    bool holds_all = g->ddp.zero == 2 && (plan->accumulate_most > 1 || plan->options.manual);
    json_t *all = json_pack("{s:s, s:I, s:I, s:b, s:b}", "name", g->name, "parameters", c->parameters,
                            "bytes", c->bytes, "ddp", is_shared, "holds_full_gradients",
                            is_shared && (g->ddp.zero < 2 || holds_all));
    for (const op_attr *f = ddp_attr_table; f->name; f++) option_add(all, g, f);
    json_object_set_new(all, "buckets", c->buckets);
    return all;
}

/* Where collectives are in the schedule. By id of a value: the wait for the collective that makes it, and the
 * first node that reads a wait's result, perhaps through views. By id of a node: the number of nodes with
 * work before it. */
typedef struct timeline {
    const weft_node **wait, **reader;
    int *before;
    arena memory;
} timeline;

/* Follows views down from each operand, since a view of a wait's result reads it too. */
static void note_readers(timeline *t, const weft_node *n) {
    for (int i = 0; i < n->n_in; i++)
        for (const weft_value *v = n->in[i]; v; v = v->base)
            if (v->node->op == &weft_op_wait && v->node != n && !t->reader[v->id]) t->reader[v->id] = n;
}

/* The caller frees t->memory in any case. */
static bool timeline_open(timeline *t, const program *p) {
    size_t ids = (size_t)p->graph->next_id + 1;
    int count = 0;
    arena_init(&t->memory, &p->plan->env);
    t->wait = arena_new_array(&t->memory, ids, sizeof *t->wait);
    t->reader = arena_new_array(&t->memory, ids, sizeof *t->reader);
    t->before = arena_new_array(&t->memory, ids, sizeof *t->before);
    if (!t->wait || !t->reader || !t->before) return false;
    for (const weft_node *n = p->graph->first; n; n = n->next) {
        if (n->n_out) t->before[n->id] = count;
        if (n->op == &weft_op_wait && !t->wait[n->in[0]->id]) t->wait[n->in[0]->id] = n;
        if (node_is_silent(n)) continue;
        count++;
        note_readers(t, n);
    }
    return true;
}

/* "nodes_between" counts the nodes with work that run between start and wait, which is what can overlap it. A
 * gather has no wait in its program: 0 and an empty reader. */
static json_t *collective_json(const weft_plan *plan, const timeline *t, const weft_node *n) {
    char ready[200], needed[200] = "";
    const collective_attrs *a = n->attrs;
    const weft_node *from = n->in[0]->node; /* an update, for a gather; a bucket of gradients, for a sum */
    const weft_node *wait = t->wait[n->id], *reader = wait ? t->reader[wait->id] : NULL;
    int between = wait ? t->before[wait->id] - t->before[n->id] - !node_is_silent(n) : 0;
    if (reader) node_show(reader, needed);
    return json_pack("{s:I, s:s, s:s, s:s, s:I, s:s, s:s, s:i}", "order", (json_int_t)a->order, "op",
                     n->op->name, "subgraph", plan->subgraphs[a->group].name, "bucket", a->path, "bytes",
                     (json_int_t)type_bytes(&n->out[0].type), "ready_after",
                     node_show(n->op == &weft_op_all_gather ? from : plan_ready_after(from), ready),
                     "needed_by", needed, "nodes_between", between);
}

/* "waits" is a launch's index, null for none; "in_flight" are the paths of the buckets whose gathers it waits
 * for. */
static json_t *launch_json(const launch_entry *l) {
    json_t *in_flight = json_array();
    for (int i = 0; i < l->n_in_flight; i++)
        json_array_append_new(in_flight, json_string(l->in_flight[i]->path));
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:o, s:o, s:b, s:b}", "kind", launch_name(l->kind), "stream",
                     l->kind == LAUNCH_COLLECTIVE ? "communication" : "compute", "first", l->first, "last",
                     l->last, "nodes", l->n_nodes, "waits",
                     l->waits < 0 ? json_null() : json_integer(l->waits), "in_flight", in_flight, "records",
                     l->records, "gates", l->gates);
}

/* Counts nodes with work, from the end of the schedule back to the first deferred one. */
static int deferred_nodes(const program *p) {
    int count = 0;
    for (const weft_node *n = p->graph->last; n && n->order >= p->deferred; n = n->prev)
        count += !node_is_silent(n);
    return count;
}

/* The key "lanes" means the streams; it keeps the name that readers know. */
static json_t *graph_json(const program *p) {
    static const char *const phases[] = {"whole", "first", "add", "last", "update", "loss"};
    json_t *collectives = json_array();
    timeline t;
    bool has_timeline = timeline_open(&t, p);
    for (const weft_node *n = p->graph->first; n && has_timeline; n = n->next)
        if (node_starts_collective(n)) json_array_append_new(collectives, collective_json(p->plan, &t, n));
    arena_free(&t.memory);
    if (!has_timeline) {
        json_decref(collectives);
        return NULL;
    }
    int nodes = graph_node_count(p->graph), moved = (int)json_array_size(collectives);
    json_t *lanes = json_pack("[{s:s, s:i}]", "name", "compute", "nodes", nodes - moved);
    if (moved) json_array_append_new(lanes, json_pack("{s:s, s:i}", "name", "communication", "nodes", moved));
    json_t *launches = json_array();
    for (int i = 0; i < p->n_launches; i++) json_array_append_new(launches, launch_json(&p->launches[i]));
    return json_pack("{s:s, s:s, s:s, s:i, s:o, s:o, s:o, s:i, s:I, s:I}", "name", p->name, "mode",
                     p->graph->mode == WEFT_TRAIN ? "train" : "eval", "phase", phases[p->phase], "nodes",
                     nodes, "collectives", collectives, "lanes", lanes, "launches", launches,
                     "deferred_nodes", deferred_nodes(p), "peak_bytes", (json_int_t)p->arena_bytes, "flops",
                     (json_int_t)program_flops(p));
}

/* The steps of the flow, with what each says or has by default; "to" is null where a step has no end. */
static json_t *flow_json(const weft_plan *plan) {
    static const char *const batches[] = {
        [WEFT_FLOW_AUTO] = "auto", [WEFT_FLOW_NEXT] = "next", [WEFT_FLOW_SAME] = "same"};
    json_t *steps = json_array();
    weft_flow_step s;
    for (int i = 0; weft_plan_flow(plan, i, &s); i++)
        json_array_append_new(steps,
                              json_pack("{s:s, s:i, s:i, s:s, s:I, s:o}", "graph", s.graph, "repeat",
                                        s.repeat, "accumulate", s.accumulate, "batch", batches[s.batch],
                                        "from", (json_int_t)s.from, "to",
                                        s.to == INT64_MAX ? json_null() : json_integer((json_int_t)s.to)));
    return steps;
}

/* null where no library computes anything. */
static json_t *library_json(const plan_library *l) {
    if (!l->name) return json_null();
    json_t *list = json_array();
    for (const char *at = l->implementations; *at;) {
        size_t n = strcspn(at, ",");
        json_array_append_new(list, json_stringn(at, n));
        at += n + (at[n] == ',');
    }
    return json_pack("{s:s, s:s, s:s, s:o}", "name", l->name, "version", l->version, "isa", l->isa,
                     "implementations", list);
}

/* NULL when memory is out. Allocated by jansson; the caller frees it. */
char *weft_plan_json(const weft_plan *plan) {
    if (!plan) return NULL;
    json_t *subgraphs = json_array(), *graphs = json_array(), *unused = json_array();
    /* room for parameters of no subgraph, which count in the first */
    size_t count = (size_t)plan->n_subgraphs + 1;
    contents *of = mem_new_array(&plan->env, count, sizeof *of);
    if (of) find_contents(plan, of);
    for (int i = 0; of && i < plan->n_subgraphs; i++)
        json_array_append_new(subgraphs, subgraph_json(plan, &plan->subgraphs[i], &of[i]));
    mem_free(&plan->env, of, count * sizeof *of);
    for (int i = 0; i < plan->n_unused; i++)
        json_array_append_new(unused, json_pack("{s:s, s:s}", "graph", plan->unused[i].graph, "parameter",
                                                plan->unused[i].path));
    bool good = of != NULL;
    for (int i = 0; i < plan->n_programs; i++)
        good &= json_array_append_new(graphs, graph_json(&plan->programs[i])) == 0;
    char fingerprint[20];
    snprintf(fingerprint, sizeof fingerprint, "%016jx", plan->fingerprint);
    json_t *root = json_pack(
        "{s:s, s:i, s:i, s:s, s:b, s:s*, s:s, s:I, s:i, s:s, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:i}",
        "device", device_name(plan->options.device), "world", plan->options.world, "rank", plan->options.rank,
        "strategy", plan->strategy.text, "compressed", plan->strategy.is_compressed, "fingerprint",
        plan->can_run ? fingerprint : NULL, "model", plan->model->name, "batch",
        (json_int_t)plan->options.batch, "threads", plan->options.threads, "isa", isa_name(plan->options.isa),
        "library", library_json(&plan->library), "dtype", dtype_name(plan->options.precision), "reduce",
        plan->options.reduce == WEFT_REDUCE_FAST ? "fast" : "ordered", "subgraphs", subgraphs, "graphs",
        graphs, "memory", memory_json(&plan->memory), "unused", unused, "flow", flow_json(plan), "schema", 1);
    char *text = root && good ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    return text;
}
