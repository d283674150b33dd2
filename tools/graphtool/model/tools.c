/* tools.c - loading and compiling as the command line asks, and the small things that commands share. */
#include "tools/graphtool/model/tools.h"

#include "tools/graphtool/output/names.h"
#include "tools/graphtool/model/model_rules.h"
#include "tools/graphtool/model/optimizers.h"
#include "tools/graphtool/ranks/world.h"

#include "graph/core/own_op.h"
#include "graph/core/table.h"
#include "graph/settings/flow.h"
#include "runtime/options.h"
#include "runtime/plan/compile_fields.h"
#include "runtime/plan/program.h"

#include <string.h>

static const weft_dtype precisions[] = {WEFT_F32, WEFT_BF16, WEFT_F16}; /* by precision_words */

/* The last step of a change of the model: functions, not macros, as errors must not name a line here. */
static void need(weft_model *m, weft_status status) {
    if (status) tool_error(weft_model_error(m));
}

/* Applies --ddp PATH:FIELDS in order: a later one adds to an earlier one of the same path. */
static void apply_ddp(weft_model *m, const text_list *ddp) {
    for (int i = 0; i < ddp->n; i++) {
        const char *fields, *path = option_kind_of(ddp->v[i], &fields);
        need(m, (weft_model_set_ddp_text)(m, path, fields));
    }
}

/* Applies --precision PATH:TYPE. The last ':' counts: no type has one. */
static void apply_precision(weft_model *m, const text_list *precision) {
    for (int i = 0; i < precision->n; i++) {
        const char *said = precision->v[i], *colon = strrchr(said, ':');
        int type = option_choice(colon + 1, precision_words);
        need(m, (weft_model_set_precision)(m, tool_cut(said, colon), precisions[type]));
    }
}

static void check_graph_name(const weft_model *m, const options *o) {
    if (!o->graph || graph_find(m, o->graph)) return;
    names known = names_for(o->graph);
    for (const weft_graph *g = m->graphs; g; g = g->next) names_add(&known, g->name);
    names_refuse(&known, "%s: the model has no graph '%s'", o->model, o->graph);
}

/* Ops of a program are shown, though their functions are not here. */
const weft_env tool_shows = {.ops = &own_ops_shown};

static void free_model(void *m) {
    weft_model_free(m);
}

weft_model *tool_keep_model(weft_model *m) {
    return tool_keep(m, free_model);
}

/* Options without effect on this model are rejected here, before anything is compiled. --flow names a flow of
 * the model, or is one. */
weft_model *tool_load(const options *o) {
    weft_model *m = tool_keep_model(tool_got(weft_load(o->model, &tool_shows, &tool_why)));
    tool_check_flow(m, o->flow);
    check_graph_name(m, o);
    apply_ddp(m, &o->ddp);
    apply_precision(m, &o->precision);
    if (o->flow && !flow_find(m, o->flow)) need(m, (weft_model_set_flow)(m, o->flow));
    optimizers_apply(m, o);
    rules_model(o, m);
    return m;
}

void tool_need_graph(const weft_model *m, const options *o) {
    if (!m->graphs) tool_fail("%s: the model has no graph", o->model);
}

void tool_need_weights(const weft_model *m, const options *o) {
    int n = 0;
    for (const weft_variable *v = m->variables; v; v = v->next) n += v->kind == VARIABLE_PARAMETER;
    if (n && !o->weights && !o->random_weights)
        tool_fail("%s: its %d parameters have no values: use --weights=FILE, or --random-weights for initial "
                  "ones",
                  o->model, n);
}

/* By way of the host unordered sums are not faster. */
static weft_reduce reduce_of(const options *o) {
    bool by_host = o->comm && strcmp(o->comm->kind, "nccl") != 0;
    return o->compile.reduce == WEFT_REDUCE_AUTO && by_host ? WEFT_REDUCE_ORDERED : o->compile.reduce;
}

/* --guard */
static void guard_read(const options *o, weft_compile_options *into) {
    const char *said = o->guard ? o->guard : "off", *factor = strchr(said, '=');
    const char *word = tool_cut(said, said + strcspn(said, "="));
    int i = option_choice(word, guard_words);
    char *end = NULL;
    if (factor) into->guard_factor = strtod(factor + 1, &end);
    into->guard = (weft_guard)i;
    if (strcmp(guard_words[i], word) ||
        (factor && (i != WEFT_GUARD_SPIKE || !factor[1] || *end || !(into->guard_factor > 1))))
        tool_fail("%s: --guard=%s: it must be nan, spike, spike=F with F above 1, grad or off",
                  o->command->name, said);
}

/* World and rank are those of the communicator if there is one, else those of the command line. */
weft_compile_options tool_compile_options(const options *o) {
    weft_compile_options c = o->compile;
    if (o->comm) c.world = o->comm->world, c.rank = o->comm->rank;
    c.reduce = reduce_of(o);
    guard_read(o, &c);
    if (c.isa > WEFT_ISA_REFERENCE) tool_must(weft_limit_isa(c.isa, &tool_why));
    return c;
}

/* What a plan of this model is compiled with. */
static weft_compile_options options_for(const weft_model *m, const options *o, const char *graph) {
    weft_compile_options c = tool_compile_options(o);
    c.graph = graph;
    c.flow = graph && !o->flow ? NULL : tool_flow(m, o);
    if (o->data.n && !m->names_batch) c.batch = 0;
    return c;
}

void tool_select_device(const options *o) {
    if (o->compile.device == WEFT_DEVICE_CUDA)
        tool_must(weft_cuda_select(o->comm ? o->comm->local_rank : 0, &tool_why));
}

static void free_plan(void *plan) {
    weft_plan_free(plan);
}

/* An error names the model's file. pass NULL: as far as the options say. */
static weft_plan *compile(const weft_model *m, const options *o, const char *graph, const char *pass) {
    weft_compile_options c = options_for(m, o, graph);
    if (pass) c.stop_after = pass;
    weft_plan *plan = weft_compile(m, &c, &tool_why);
    if (!plan) tool_error_in(o->model);
    return plan;
}

weft_plan *tool_compile_until(const weft_model *m, const options *o, const char *pass) {
    return compile(m, o, o->graph, pass);
}

weft_plan *tool_compile(const weft_model *m, const options *o, const char *graph) {
    return tool_keep(compile(m, o, graph, NULL), free_plan);
}

/* More threads are slower, by far where they wait for each other in every node. */
static void warn_of_threads(const options *o) {
    int cores = usable_cores();
    if (o->compile.threads > cores && world_rank(o) == 0)
        tool_warn("%s: --threads=%d: this process may use %d core%s: more threads than cores are slower",
                  o->command->name, o->compile.threads, cores, cores > 1 ? "s" : "");
}

const weft_fit_words tool_fit_words = {.batch = "--batch ",
                                       .accumulate = "--accumulate ",
                                       .zero = "--zero ",
                                       .bf16 = "--dtype bf16",
                                       .no_memory_check = "--no-memory-check"};

static void free_trainer(void *t) {
    weft_trainer_free(t);
}

weft_trainer *tool_trainer(const weft_model *m, const options *o, const weft_trainer_options *how) {
    warn_of_threads(o);
    weft_trainer *t = weft_trainer_new(m, how, &tool_why);
    weft_status status = tool_why.status;
    bool is_models = status != WEFT_PEER && status != WEFT_IO && status != WEFT_FILE;
    if (!t && is_models) tool_error_in(o->model);
    return tool_keep(tool_got(t), free_trainer);
}

void tool_need_training(const weft_plan *plan) {
    for (int i = 0; i < plan->n_programs; i++) {
        if (plan->programs[i].trains) return;
        for (const weft_node *n = plan->programs[i].graph->first; n; n = n->next)
            if (n->op == &weft_op_assign) return; /* it renews state */
    }
    tool_fail("train: no graph of the flow minimizes a loss or writes state, so nothing would be trained: "
              "name one that does, or use graphtool eval");
}

const char *tool_model_hash(const weft_model *m) {
    char *all = weft_model_text(m);
    if (!all) tool_fail("out of memory");
    const char *hash = tool_text("%016llx", (unsigned long long)hash_text(all, 0));
    weft_text_free(all);
    return hash;
}

json_t *tool_fingerprint(const weft_plan *plan) {
    return json_sprintf("%016llx", (unsigned long long)plan->fingerprint);
}

/* --set NAME=NUMBER, each a word of one text; NULL: it was not given. */
static const char *numbers_of(const text_list *set) {
    text t = {0};
    for (int i = 0; i < set->n; i++) text_add(&t, "%s%s", i ? " " : "", set->v[i]);
    return set->n ? tool_take(&t) : NULL;
}

weft_trainer_options tool_trainer_options(const weft_model *m, const options *o) {
    weft_compile_options c = options_for(m, o, NULL);
    tool_select_device(o);
    return (weft_trainer_options){.comm = o->comm,
                                  .seed = (uint64_t)o->seed,
                                  .set = numbers_of(&o->set),
                                  .own_guard = o->guard != NULL,
                                  .check = o->check,
                                  .no_capture = o->no_capture,
                                  .fit_words = &tool_fit_words,
                                  .compile = c};
}

/* See tool_graph; NULL when no graph fits. */
static const weft_graph *pick_graph(const weft_model *m, const char *name, const char *wanted) {
    if (name) return graph_find(m, name);
    const weft_graph *g = graph_find(m, wanted);
    for (const weft_graph *any = m->graphs; !g && any; any = any->next)
        if (any->mode == WEFT_EVAL) g = any;
    return g;
}

/* Each failure names the way out. */
const char *tool_graph(const weft_model *m, const options *o, const char *wanted) {
    const weft_graph *g = pick_graph(m, o->graph, wanted);
    if (!g) tool_fail("%s: no graph in eval mode; use --graph", o->model);
    if (graph_trains(g))
        tool_fail("%s: graph %s trains: it would change the weights; choose a --graph that does not",
                  o->model, g->name);
    rules_graph(o, g);
    return g->name;
}
