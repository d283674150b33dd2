/* rules.c - which option needs what to have an effect: one table. A rule is checked at the first moment at
 * which it is known whether its need is met. tests/tools/test_tools_effects.c has a row for every option of
 * every command. */
#include "tools/graphtool/options/rules.h"

#include "graph/settings/ddp.h"

#include <string.h>

static const struct rule {
    const char *commands; /* the commands it is for; NULL: all that take the option */
    const char *options;  /* each of these options needs it */
    option_need need;     /* see above; `other` is for NEEDS_OTHER and NEEDS_NO_OTHER */
    const char *other;
} rules[] = {
    {"ops", "markdown", NEEDS_NO_OTHER, "json"},
    {"info", "parameters", NEEDS_NO_OTHER, "json"}, /* which has them too */
    {"info", "depth", NEEDS_NO_OTHER, "parameters"},
    {"plan", "dump", NEEDS_NO_OTHER, "json"},
    {"plan", "bytes", NEEDS_NO_OTHER, "estimate"},            /* which has them too */
    {"plan", "bytes estimate dump", NEEDS_NO_OTHER, "after"}, /* it implies a dump */
    {"plan", "bytes estimate", NEEDS_NO_OTHER, "dump"},
    {NULL, "estimate", NEEDS_CUDA},
    {"view", "profile", NEEDS_NO_OTHER, "world"}, /* one rank alone is run */
    {"view", "profile", NEEDS_TRAINING},
    {"bench", "check-accuracy", NEEDS_NO_OTHER, "data"}, /* it makes its batch */
    {"bench", "compare profile check-accuracy", NEEDS_NO_OTHER, "against"},
    {"train", "optimizer-state", NEEDS_OTHER, "output"},
    {"train", "guard on-bad-step", NEEDS_NO_OTHER, "keep-going"},
    {"train", "on-bad-step", NEEDS_NO_OTHER, "guard=off"},
    {"train", "epochs", NEEDS_OTHER, "data"},
    {"train", "val-every metric best early-stop keep-best", NEEDS_OTHER, "val-data"},
    {"train", "checkpoint-every keep keep-best", NEEDS_OTHER, "checkpoint-dir"},
    {"import", "minimize trainable batch-norm", NEEDS_OTHER, "loss"},
    {"eval predict export", "random-weights", NEEDS_NO_OTHER, "weights"},
    {"export", "seed", NEEDS_OTHER, "random-weights"},
    {NULL, "random-weights weights", NEEDS_PARAMETERS},
    {NULL, "rename partial", NEEDS_OTHER, "weights"},
    {"eval predict", "seed", NEEDS_DRAWS},
    {NULL, "rank", NEEDS_OTHER, "world"},
    {NULL, "tf32 calibration no-capture comm=nccl deterministic", NEEDS_CUDA},
    {"dot",
     "threads isa device dtype precision accumulate world strategy ddp zero shard bucket-cap-mb serial",
     NEEDS_COMPILED},
    {"dot", "depth focus expand", NEEDS_NO_OTHER, "view=plan"},
    {"dot", "hops", NEEDS_OTHER, "focus"},
    {"dot", "all", NEEDS_NO_OTHER, "view=program"},
    {"dot", "all", NEEDS_NO_OTHER, "view=plan"},
    {NULL, "zero reduce serial timeout rings comm", NEEDS_RANKS},
    {NULL, "shard", NEEDS_SHARDS},
    {NULL, "zero", NEEDS_SHARING},
    {NULL, "accumulate guard reduce serial lr optimizer clip-norm ema schedule optimizer-state",
     NEEDS_TRAINING},
    {NULL, "strategy zero bucket-cap-mb ddp world", NEEDS_TRAINABLE},
    {NULL, "accumulate", NEEDS_UNSAID},
    {NULL},
};

/* The rest of the message where a need is missing: "plan: --zero has no effect ...". */
static const char *const told[] = {
    [NEEDS_OTHER] = "without --",
    [NEEDS_NO_OTHER] = "with --",
    [NEEDS_CUDA] = "without --device=cuda",
    [NEEDS_COMPILED] = "on a graph as written: --view=program, --view=plan or --all is needed",
    [NEEDS_SHARDS] = "without --zero",
    [NEEDS_SHARING] = "where every subgraph has its own zero: leave one of the two out",
    [NEEDS_TRAINING] = "where no graph trains",
    [NEEDS_UNSAID] = "with a flow that says it for each graph",
    [NEEDS_TRAINABLE] = "on a model without a graph that trains",
    [NEEDS_DRAWS] = "on a graph that draws no random numbers, with weights from a file or none",
    [NEEDS_PARAMETERS] = "on a model without parameters",
    [NEEDS_RANKS] =
        "on one rank alone: --world=N is needed", /* of those that compile for a world; see rules_alone */
};

static bool is_of(const struct rule *r, const command *c) {
    /* no command's name is part of another's */
    return !r->commands || strstr(r->commands, c->name);
}

/* Whether another option leaves those of the rule with an effect. */
static bool other_allows(const struct rule *r, const options *o) {
    return !r->other || option_is_given(o, r->other) == (r->need == NEEDS_OTHER);
}

void rules_check(const options *o, option_need need, bool is_met) {
    char name[WORD_ROOM];
    for (const struct rule *r = rules; r->options; r++) {
        if (r->need != need || !is_of(r, o->command) || (is_met && other_allows(r, o))) continue;
        for (const char *at = r->options; next_word(&at, name);)
            if (option_is_given(o, name))
                tool_fail("%s: --%s has no effect %s%s", o->command->name, name, told[need],
                          r->other ? r->other : "");
    }
}

bool rules_allow(const options *o, const char *option) {
    for (const struct rule *r = rules; r->options; r++)
        if (is_of(r, o->command) && has_word(r->options, option) && !other_allows(r, o)) return false;
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
    rules_check(o, NEEDS_RANKS, false);
    for (int i = 0; i < o->ddp.n; i++)
        if (!acts_alone(o->ddp.v[i]))
            tool_fail("%s: --ddp=%s has no effect %s", o->command->name, o->ddp.v[i], told[NEEDS_RANKS]);
}

/* Rejects a field that two --ddp give for one path. */
static void check_ddp_twice(const text_list *ddp) {
    option_fields all = {0};
    for (int i = 0; i < ddp->n; i++) option_add_fields(&all, "ddp", ddp->v[i]);
    for (int i = 1; i < all.n; i++)
        for (int k = 0; k < i; k++) {
            const option_given *a = &all.list[k], *b = &all.list[i];
            if (a->value != b->value && strcmp(a->name, b->name) == 0 && strcmp(a->field, b->field) == 0)
                option_refuse_twice(a, b, "this path");
        }
}

void rules_together(const options *o) {
    rules_check(o, NEEDS_OTHER, true);
    rules_check(o, NEEDS_NO_OTHER, true);
    rules_check(o, NEEDS_CUDA, o->compile.device == WEFT_DEVICE_CUDA);
    rules_check(o, NEEDS_COMPILED, o->all || (o->view && strcmp(o->view, "graph")));
    check_ddp_twice(&o->ddp);
    if (command_has_option(o->command, "world") && o->compile.world < 2) check_alone(o);
}

void rules_alone(const options *o) {
    text t = {0};
    char name[WORD_ROOM];
    for (const struct rule *r = rules; r->options; r++)
        for (const char *at = r->need == NEEDS_RANKS ? r->options : ""; next_word(&at, name);)
            if (option_is_given(o, name)) text_add(&t, "%s--%s", t.length ? ", " : "", name);
    for (int i = 0; i < o->ddp.n; i++)
        if (!acts_alone(o->ddp.v[i])) text_add(&t, "%s--ddp=%s", t.length ? ", " : "", o->ddp.v[i]);
    if (t.length) tool_note("%s: one rank alone, without effect: %s", o->command->name, tool_take(&t));
}
