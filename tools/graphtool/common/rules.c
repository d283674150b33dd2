/* rules.c - which option needs what to have an effect: one table, checked at four moments (rules.h). A rule
 * is checked at the first moment at which its condition is known. tests/tools/test_tools_effects.c has a
 * row for every option of every command. */
#include "tools/graphtool/common/rules.h"

#include "tools/graphtool/common/tools.h"

#include "graph/settings/ddp.h"
#include "graph/settings/flow.h"
#include "graph/settings/minimize.h"

#include <string.h>

/* What an option may need. */
typedef enum need {
    OTHER,     /* another option, with the word after '=' if there is one */
    NO_OTHER,  /* the absence of another option */
    CUDA,      /* a plan for a GPU */
    COMPILED,  /* dot compiles, and does not draw the graph as it is written */
    RANKS,     /* a world of more than one rank, or a launcher's of any size */
    SHARDS,    /* ZeRO, by --zero, --ddp or the model's own weft_ddp */
    SHARING,   /* a subgraph without a zero of its own, by --ddp or weft_ddp */
    TRAINS,    /* a graph that trains, among those that are compiled */
    TRAINABLE, /* a graph that trains, in the model */
    UNSAID,    /* a graph of the flow to run whose number of micro-batches the flow does not say */
    DRAWS,     /* random numbers, of the graph or as initial values that no file replaces */
    PARAMETERS,
    NEEDS
} need;

static const struct rule {
    const char *commands; /* the commands it is for; NULL: all that take the option */
    const char *options;  /* each of these options needs it */
    need need;            /* see above; `other` is for OTHER and NO_OTHER */
    const char *other;
} rules[] = {
    {"ops", "markdown", NO_OTHER, "json"},
    {"plan", "dump", NO_OTHER, "json"},
    {"plan", "bytes", NO_OTHER, "estimate"},            /* which has them too */
    {"plan", "bytes estimate dump", NO_OTHER, "after"}, /* it implies a dump */
    {"plan", "bytes estimate", NO_OTHER, "dump"},
    {NULL, "estimate", CUDA, NULL},
    {"train", "optimizer-state", OTHER, "output"},
    {"train", "guard on-bad-step", NO_OTHER, "keep-going"},
    {"train", "on-bad-step", NO_OTHER, "guard=off"},
    {"train", "epochs", OTHER, "data"},
    {"train", "val-every metric best early-stop keep-best", OTHER, "val-data"},
    {"train", "checkpoint-every keep keep-best", OTHER, "checkpoint-dir"},
    {"eval predict", "random-weights", NO_OTHER, "weights"},
    {NULL, "random-weights weights", PARAMETERS, NULL},
    {NULL, "rename partial", OTHER, "weights"},
    {"eval predict", "seed", DRAWS, NULL},
    {NULL, "rank", OTHER, "world"},
    {NULL, "tf32 calibration no-capture comm=nccl deterministic", CUDA, NULL},
    {"dot",
     "threads isa device dtype precision accumulate world strategy ddp zero shard bucket-cap-mb serial",
     COMPILED, NULL},
    {"dot", "depth", NO_OTHER, "view=plan"},
    {"dot", "all", NO_OTHER, "view=program"},
    {"dot", "all", NO_OTHER, "view=plan"},
    {NULL, "zero reduce serial timeout rings comm", RANKS, NULL},
    {NULL, "shard", SHARDS, NULL},
    {NULL, "zero", SHARING, NULL},
    {NULL, "accumulate guard reduce serial lr optimizer clip-norm ema schedule optimizer-state", TRAINS,
     NULL},
    {NULL, "strategy zero bucket-cap-mb ddp world", TRAINABLE, NULL},
    {NULL, "accumulate", UNSAID, NULL},
};

/* The rest of the message where a need is missing: "plan: --zero has no effect ...". */
static const char *const told[NEEDS] = {
    [CUDA] = "without --device=cuda",
    [COMPILED] = "on a graph as written: --view=program, --view=plan or --all is needed",
    [SHARDS] = "without --zero",
    [SHARING] = "where every subgraph has its own zero: leave one of the two out",
    [TRAINS] = "where no graph trains",
    [UNSAID] = "with a flow that says it for each graph",
    [TRAINABLE] = "on a model without a graph that trains",
    [DRAWS] = "on a graph that draws no random numbers, with weights from a file or none",
    [PARAMETERS] = "on a model without parameters",
    [RANKS] =
        "on one rank alone: --world=N is needed", /* of those that compile for a world; see rules_alone */
};

static bool is_of(const struct rule *r, const command *c) {
    /* no command's name is part of another's */
    const char *at = r->commands ? strstr(r->commands, c->name) : NULL;
    return at || !r->commands;
}

/* Rejects the first given option of a rule whose need is decided (bit in `known`) and not met (bit in
 * `facts`). */
static void check(const options *o, unsigned known, unsigned facts) {
    static const char *const joins[NEEDS] = {[OTHER] = "without --", [NO_OTHER] = "with --"};
    char name[WORD_ROOM];
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const struct rule *r = &rules[i];
        if (!is_of(r, o->command) || !(known >> r->need & 1)) continue;
        bool other = r->other && option_is_given(o, r->other);
        bool met = r->need == OTHER ? other : r->need == NO_OTHER ? !other : facts >> r->need & 1;
        for (const char *at = met ? "" : r->options; next_word(&at, name);)
            if (option_is_given(o, name))
                tool_fail("%s: --%s has no effect %s%s", o->command->name, name,
                          r->other ? joins[r->need] : "", r->other ? r->other : told[r->need]);
    }
}

bool rules_allow(const options *o, const char *option) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const struct rule *r = &rules[i];
        if (r->other && is_of(r, o->command) && has_word(r->options, option) &&
            option_is_given(o, r->other) != (r->need == OTHER))
            return false;
    }
    return true;
}

/* On one rank a --ddp acts that has a field of buckets, or of what a training may leave out. */
static bool acts_alone(const char *ddp) {
    bool acts = false;
    for (int k = 0; ddp_attr_table[k].name; k++)
        acts |= ddp_acts_alone[k] && strstr(ddp, ddp_attr_table[k].name);
    return acts;
}

/* A command that compiles for --world, and has none. */
static void check_alone(const options *o) {
    check(o, 1u << RANKS, 0);
    for (int i = 0; i < o->ddp.n; i++)
        if (!acts_alone(o->ddp.v[i]))
            tool_fail("%s: --ddp=%s has no effect %s", o->command->name, o->ddp.v[i], told[RANKS]);
}

/* Rejects a field that two --ddp give for one path. */
static void check_ddp_twice(const text_list *ddp) {
    option_fields all = {0};
    for (int i = 0; i < ddp->n; i++) option_add_fields(&all, "ddp", ddp->v[i]);
    for (int i = 1; i < all.n; i++)
        for (int k = 0; k < i; k++) {
            const option_given *a = &all.list[k], *b = &all.list[i];
            if (a->value != b->value && strcmp(a->name, b->name) == 0 && strcmp(a->field, b->field) == 0)
                tool_fail("--ddp=%s: %s of this path is given twice, in --ddp=%s too", b->value, b->field,
                          a->value);
        }
}

void rules_together(const options *o) {
    bool compiles = o->all || (o->view && strcmp(o->view, "graph"));
    unsigned known = 1u << OTHER | 1u << NO_OTHER | 1u << CUDA | 1u << COMPILED, facts = 0;
    if (o->compile.device == WEFT_DEVICE_CUDA) facts |= 1u << CUDA;
    if (compiles) facts |= 1u << COMPILED;
    check(o, known, facts);
    check_ddp_twice(&o->ddp);
    if (command_has_option(o->command, "world") && o->compile.world < 2) check_alone(o);
}

void rules_alone(const options *o) {
    text t = {0};
    char name[WORD_ROOM];
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        for (const char *at = rules[i].need == RANKS ? rules[i].options : ""; next_word(&at, name);)
            if (option_is_given(o, name)) text_add(&t, "%s--%s", t.length ? ", " : "", name);
    for (int i = 0; i < o->ddp.n; i++)
        if (!acts_alone(o->ddp.v[i])) text_add(&t, "%s--ddp=%s", t.length ? ", " : "", o->ddp.v[i]);
    if (t.length) tool_note("%s: one rank alone, without effect: %s", o->command->name, tool_take(&t));
}

/* ---- the model ---- */

/* Does any subgraph use ZeRO? */
static bool shards(const options *o, const weft_model *m) {
    const char *strategy = o->compile.strategy ? o->compile.strategy : m->strategy;
    bool zero = o->compile.zero > 0 || (strategy && strncmp(strategy, "zero", 4) == 0);
    for (const ddp_entry *e = m->ddps; e; e = e->next) zero = zero || e->attrs.zero > 0;
    return zero;
}

/* Does any parameter belong to a subgraph that takes --zero? */
static bool takes_zero(const weft_model *m) {
    bool is_any = false;
    for (const weft_variable *v = m->variables; v; v = v->next) {
        const ddp_entry *e = v->kind == VARIABLE_PARAMETER ? ddp_find(m, v->path) : NULL;
        if (v->kind == VARIABLE_PARAMETER && (!e || !e->attrs.zero)) return true;
        is_any |= e != NULL;
    }
    return !is_any; /* a model without parameters is told so elsewhere */
}

/* Does --accumulate hold for a graph: of the flow to run, or of the model if that has none? */
static bool leaves_accumulate(const options *o, const weft_model *m) {
    const char *name = tool_flow(m, o);
    const flow_entry *e = flow_find(m, name ? name : FLOW_DEFAULT);
    for (const weft_graph *g = m->graphs; g; g = g->next) {
        bool is_run = !e || !name, is_said = false;
        for (int i = 0; e && i < e->n; i++) {
            bool is_its = strcmp(e->steps[i].graph, g->name) == 0;
            is_run |= is_its;
            is_said |= is_its && e->steps[i].accumulate;
        }
        if (is_run && !is_said && graph_accumulates(g)) return true;
    }
    return false;
}

void rules_model(const options *o, const weft_model *m) {
    unsigned facts = shards(o, m) ? 1u << SHARDS : 0;
    facts |= leaves_accumulate(o, m) ? 1u << UNSAID : 0;
    facts |= takes_zero(m) ? 1u << SHARING : 0;
    for (const weft_graph *g = m->graphs; g; g = g->next) {
        if (!graph_trains(g)) continue;
        facts |= 1u << TRAINABLE;
        if (!o->graph || strcmp(o->graph, g->name) == 0) facts |= 1u << TRAINS;
    }
    for (const weft_variable *v = m->variables; v; v = v->next)
        if (v->kind == VARIABLE_PARAMETER) facts |= 1u << PARAMETERS;
    check(o, 1u << SHARDS | 1u << SHARING | 1u << TRAINS | 1u << TRAINABLE | 1u << UNSAID | 1u << PARAMETERS,
          facts);
}

void rules_graph(const options *o, const weft_graph *g) {
    bool draws = false;
    /* a file of weights may lack state, and parameters only with --partial */
    bool has_all = o->weights && !o->partial;
    for (const weft_variable *v = g->model->variables; v; v = v->next)
        draws = draws || (v->init.kind >= WEFT_INIT_UNIFORM && !(v->kind == VARIABLE_PARAMETER && has_all));
    for (const weft_node *n = g->first; n; n = n->next) draws = draws || n->op->flags & OP_RANDOM;
    check(o, 1u << DRAWS, draws ? 1u << DRAWS : 0);
}
