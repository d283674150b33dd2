/* verify.c - graphtool verify: compiles with the verifier after every pass. If that finds something, it
 * compiles again, stopping after each pass in turn, to name the first pass that made a wrong plan. Of a world
 * it proves the plans of the other ranks, too, and that all fit together. */
#include "tools/graphtool/common/tools.h"

#include "runtime/verify/verify.h"

/* Ranks whose plans are compared collective by collective; those of a larger world that are compiled. */
enum { COMPARED = 16, SAMPLED = 64 };

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

/* ---- the other ranks ---- */

static weft_plan *plan_of(const weft_model *m, const weft_compile_options *base, int rank,
                          weft_error *error) {
    weft_compile_options c = *base;
    c.rank = rank;
    weft_plan *plan = weft_compile(m, &c, error);
    if (plan && !weft_plan_verify(plan, error)) return plan;
    weft_plan_free(plan);
    return NULL;
}

static weft_status prove_all(const weft_model *m, const weft_compile_options *c, weft_error *error) {
    weft_plan *plans[COMPARED] = {0};
    int n = 0;
    while (n < c->world && (plans[n] = plan_of(m, c, n, error))) n++;
    if (n == c->world) verify_world((const weft_plan *const *)plans, n, error);
    while (n--) weft_plan_free(plans[n]);
    return error->status;
}

/* Ranks spread over the world, its first and its last among them. The fingerprint has all that ranks must
 * agree on, their collectives in order included. */
static weft_status prove_some(const weft_model *m, const weft_compile_options *c, int some,
                              weft_error *error) {
    uint64_t first = 0;
    for (int i = 0; i < some; i++) {
        int rank = (int)((int64_t)i * (c->world - 1) / (some - 1));
        weft_plan *plan = plan_of(m, c, rank, error);
        if (!plan) return error->status;
        uint64_t its = plan->fingerprint;
        weft_plan_free(plan);
        if (!i) first = its;
        if (its != first)
            return error_set(error, WEFT_INTERNAL,
                             "L12: the plan of rank %d is %016llx, that of rank 0 %016llx", rank,
                             (unsigned long long)its, (unsigned long long)first);
    }
    return WEFT_OK;
}

/* With --rank that rank is proved alone. How many ranks are. */
static int ranks_of(const options *o, const weft_compile_options *c) {
    if (c->world <= 1 || option_is_given(o, "rank")) return 1;
    return c->world > SAMPLED ? SAMPLED : c->world;
}

static weft_status prove_world(const weft_model *m, const weft_compile_options *c, int ranks,
                               weft_error *error) {
    return ranks <= COMPARED ? prove_all(m, c, error) : prove_some(m, c, ranks, error);
}

/* ---- what it prints ---- */

/* What was found; `pass` NULL: after the last one. */
typedef struct proof {
    int passes, ranks;
    const char *pass;
    json_t *fingerprint;
    weft_error error;
} proof;

static void print(const proof *p, const weft_model *m, const options *o, int world) {
    if (o->json) {
        out_json(NULL,
                 json_pack("{s:b, s:s, s:s, s:i, s:i, s:O?}", "fine", !p->error.status, "error", p->error.text,
                           "pass", p->pass && p->error.status ? p->pass : "", "passes", p->passes, "ranks",
                           p->ranks, "fingerprint", p->fingerprint));
        return;
    }
    if (p->error.status) {
        tool_tell("%s: after pass %s: %s", o->model, p->pass ? p->pass : "(all)", p->error.text);
        return;
    }
    printf("%s: fine after each of %d passes", weft_model_name(m), p->passes);
    if (p->ranks > 1) printf(p->ranks == world ? ", on all %d ranks" : ", on %d of %d ranks", p->ranks, world);
    printf("\n");
}

static int verify_run(const options *o) {
    const weft_model *m = tool_load(o);
    weft_compile_options c = tool_compile_options(o);
    weft_error there = {0};
    c.graph = o->graph;
    proof p = {.ranks = ranks_of(o, &c)};
    bool is_wrong = prove(m, &c, NULL, &p.fingerprint, &p.error) != WEFT_OK;
    for (; (p.pass = weft_pass_name(p.passes)); p.passes++)
        if (is_wrong && prove(m, &c, p.pass, NULL, &there)) break;
    if (!is_wrong && p.ranks > 1) prove_world(m, &c, p.ranks, &p.error);
    print(&p, m, o, c.world);
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
