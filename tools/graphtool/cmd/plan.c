/* plan.c - graphtool plan: the compiled model as a summary (summary.h), as text that reads back, as JSON,
 * or as a table of its work (work_table.h). */
#include "tools/graphtool/timeline/summary.h"
#include "tools/graphtool/timeline/work_table.h"
#include "tools/graphtool/common/tools.h"

#include <stdlib.h>
#include <string.h>

static char *plan_json(const weft_plan *plan) {
    char *text = weft_plan_json(plan);
    if (out_json_is_whole()) return text;
    free(text);
    return NULL;
}

/* The summary needs streams, which a plan that was stopped early has not. */
static char *written(const weft_plan *plan, const options *o) {
    const roof *gpu = o->estimate ? roof_find(o->estimate) : NULL;
    if (o->bytes || gpu) return work_table_text(plan, gpu);
    if (o->json) return plan_json(plan);
    return o->dump || o->compile.stop_after ? weft_plan_text(plan)
                                            : plan_summary(plan, o->output ? 0 : out_columns(stdout, 0));
}

/* Whether this machine could run it, which need not be the one that will. */
static void note_memory(const weft_plan *plan, const weft_model *m, const options *o) {
    weft_compile_options how;
    weft_error error = {0};
    if (o->compile.stop_after || tool_compile_options(o, &how) >= 0) return;
    how.graph = o->graph;
    how.flow = tool_flow(m, o);
    weft_fit_options fit = {.model = m, .compile = &how, .words = &tool_fit_words};
    if (weft_plan_fits(plan, &fit, &error) == WEFT_MEMORY) tool_note("%s", error.text);
}

static int plan_run(const options *o) {
    int status = EXIT_FINE;
    weft_model *m = tool_load(o, &status);
    if (!m) return status;
    weft_plan *plan = tool_compile(m, o, o->graph, &status);
    if (plan) note_memory(plan, m, o);
    weft_model_free(m);
    if (!plan) return status;
    if (o->json && (o->bytes || o->estimate)) {
        status = out_json(o->output, work_table_json(plan, o->estimate ? roof_find(o->estimate) : NULL));
        weft_plan_free(plan);
        return status;
    }
    char *all = written(plan, o);
    status = all ? out_write(o->output, all, strlen(all)) : tool_fail("out of memory");
    free(all);
    weft_plan_free(plan);
    return status;
}

const command command_plan = {
    .name = "plan",
    .summary = "Compiles a model and prints the plan: buckets, collectives, streams, memory",
    .takes_model = true,
    .options = OPTIONS_COMPILE OPTIONS_STEP OPTIONS_SPREAD OPTIONS_IMAGINE
    "graph guard after dump bytes estimate json output",
    .details =
        "--dump and --after print it node by node instead, with kernels and memory offsets; --bytes and "
        "--estimate print a table by op.",
    .example = "graphtool plan dcgan28.bin --world 4096 --rank 4095 --zero 2",
    .writes_text = true,
    .run = plan_run,
};
