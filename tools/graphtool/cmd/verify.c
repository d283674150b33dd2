/* verify.c - graphtool verify: compiles with the verifier after every pass. If that finds something, it
 * compiles again, stopping after each pass in turn, to name the first pass that made a wrong plan. For a
 * world it proves the plans of the other ranks, too, and that all fit together (ranks/world_proof.c). */
#include "tools/graphtool/model/tools.h"
#include "tools/graphtool/ranks/world_proof.h"

/* Verifies the plan that stops after `pass` (NULL: the whole one, whose fingerprint it gives). */
static weft_status prove(const weft_model *m, const weft_compile_options *base, const char *pass,
                         json_t **fingerprint, weft_error *error) {
    weft_compile_options c = *base;
    c.stop_after = pass;
    c.verify = true;
    weft_plan *plan = weft_compile(m, &c, error);
    if (!plan) return error->status;
    if (!pass) weft_plan_verify(plan, error);
    if (!pass) *fingerprint = tool_fingerprint(plan);
    weft_plan_free(plan);
    return error->status;
}

/* ---- what it prints ---- */

/* What was proved. */
typedef struct proof {
    int passes;                /* before the wrong one */
    int ranks, classes, whole; /* different plans, and how many of them were proved whole */
    const char *wrong;         /* the first pass after which a rule is broken; NULL: no one */
    json_t *fingerprint;
    weft_error error;
} proof;

static void print_fine(const weft_model *m, const proof *p) {
    printf("%s: fine after each of %d passes", weft_model_name(m), p->passes);
    if (p->ranks > 1) printf(", on all %d ranks", p->ranks);
    if (p->classes == 1 && p->ranks > 1) printf(", which have the same plan");
    if (p->classes > 1 && p->classes < p->ranks) printf(", which have %d different plans", p->classes);
    if (p->whole < p->classes) printf(", %d of them proved whole (--rank R proves another)", p->whole);
    printf("\n");
}

static void print_proof(const options *o, const weft_model *m, const proof *p) {
    if (o->json)
        out_json(NULL, json_pack("{s:b, s:s, s:s, s:i, s:i, s:i, s:i, s:O?}", "fine", !p->error.status,
                                 "error", p->error.text, "pass", p->wrong ? p->wrong : "", "passes",
                                 p->passes, "ranks", p->ranks, "classes", p->classes, "whole", p->whole,
                                 "fingerprint", p->fingerprint));
    else if (p->wrong)
        tool_tell("%s: after pass %s: %s", o->model, p->wrong, p->error.text);
    else if (p->error.status)
        tool_tell("%s: %s", o->model, p->error.text);
    else
        print_fine(m, p);
}

/* ---- proving ---- */

static void prove_passes(const weft_model *m, const weft_compile_options *c, proof *p) {
    weft_error there = {0};
    bool is_wrong = prove(m, c, NULL, &p->fingerprint, &p->error) != WEFT_OK;
    while (weft_pass_name(p->passes) && (!is_wrong || !prove(m, c, weft_pass_name(p->passes), NULL, &there)))
        p->passes++;
    p->wrong = is_wrong ? weft_pass_name(p->passes) : NULL;
}

/* With --rank that rank is proved alone. */
static void prove_ranks(const options *o, const weft_model *m, const weft_compile_options *c, proof *p) {
    world_proof all = {.model = m, .compile = c};
    p->ranks = c->world > 1 && !option_is_given(o, "rank") ? c->world : 1;
    if (p->error.status || p->ranks == 1) return;
    world_prove(&all, &p->error);
    p->classes = all.n;
    p->whole = all.n_whole;
    world_proof_free(&all);
}

static int verify_run(const options *o) {
    const weft_model *m = tool_load(o);
    weft_compile_options c = tool_compile_options(o);
    proof p = {.classes = 1, .whole = 1};
    c.graph = o->graph;
    prove_passes(m, &c, &p);
    prove_ranks(o, m, &c, &p);
    print_proof(o, m, &p);
    json_decref(p.fingerprint);
    /* else the options do not fit the model: no such graph, ... */
    bool is_found = p.error.status == WEFT_INTERNAL;
    return !p.error.status ? EXIT_FINE : is_found ? EXIT_WRONG : EXIT_MISUSED;
}

const command command_verify = {
    .name = "verify",
    .summary = "Proves the plan after every pass of the compiler, on all ranks",
    .options = OPTIONS_COMPILE OPTIONS_STEP OPTIONS_SPREAD OPTIONS_IMAGINE "graph json",
    .example = "graphtool verify dcgan28.bin",
    .run = verify_run,
};
