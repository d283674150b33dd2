/* verify.c - graphtool verify: compiles with the verifier after every pass. If that finds something, it
 * compiles again, stopping after each pass in turn, to name the first pass that made a wrong plan. */
#include "tools/graphtool/common/tools.h"

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

static int verify_run(const options *o) {
    int status = EXIT_FINE, passes = 0;
    weft_compile_options c;
    weft_error error = {0};
    json_t *fingerprint = NULL;
    weft_model *m = tool_load(o, &status);
    if (!m) return status;
    if ((status = tool_compile_options(o, &c)) < 0) {
        c.graph = o->graph;
        bool is_wrong = prove(m, &c, NULL, &fingerprint, &error) != WEFT_OK;
        weft_error there = {0};
        while (weft_pass_name(passes) && (!is_wrong || !prove(m, &c, weft_pass_name(passes), NULL, &there)))
            passes++;
        const char *wrong = weft_pass_name(passes);
        status = error.status ? EXIT_WRONG : EXIT_FINE;
        /* the options do not fit the model: no such graph, ... */
        if (error.status && error.status != WEFT_INTERNAL) status = EXIT_MISUSED;
        if (o->json)
            out_json(NULL, json_pack("{s:b, s:s, s:s, s:i, s:O?}", "fine", !error.status, "error", error.text,
                                     "pass", wrong && error.status ? wrong : "", "passes", passes,
                                     "fingerprint", fingerprint));
        else if (error.status)
            tool_fail("%s: behind pass %s: %s", o->model, wrong ? wrong : "(all)", error.text);
        else
            printf("%s: fine after each of %d passes\n", weft_model_name(m), passes);
        json_decref(fingerprint);
    }
    weft_model_free(m);
    return status;
}

const command command_verify = {
    .name = "verify",
    .summary = "Proves the plan after every pass of the compiler",
    .takes_model = true,
    .options = OPTIONS_COMPILE OPTIONS_STEP OPTIONS_SPREAD OPTIONS_IMAGINE "graph json",
    .example = "graphtool verify dcgan28.bin",
    .run = verify_run,
};
