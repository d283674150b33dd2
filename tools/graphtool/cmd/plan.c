/* plan.c - graphtool plan: the compiled model as a summary (summary.h), as text that reads back, as JSON,
 * or as a table of its work (work_table.h). */
#include "tools/graphtool/timeline/summary.h"
#include "tools/graphtool/timeline/work_table.h"
#include "tools/graphtool/model/tools.h"

/* The summary needs streams, which a plan that was stopped early has not. */
static void write_text(text *t, const weft_plan *plan, const options *o) {
    if (o->bytes || o->estimate) {
        work_table_text(t, plan, o->estimate);
    } else if (!o->dump && !o->compile.stop_after && !o->json) {
        plan_summary(t, plan, o->output ? 0 : out_columns(stdout, 0));
    } else {
        char *all = o->json ? weft_plan_json(plan) : weft_plan_text(plan);
        if (!all || !out_json_is_whole()) tool_fail("out of memory");
        text_add(t, "%s", all);
        weft_text_free(all);
    }
}

/* Whether this machine could run it, which need not be the one that will. */
static void note_memory(const weft_plan *plan, const weft_model *m, const options *o) {
    weft_error error = {0};
    if (o->compile.stop_after) return;
    weft_compile_options how = tool_compile_options(o);
    how.graph = o->graph;
    how.flow = tool_flow(m, o);
    weft_fit_options fit = {.model = m, .compile = &how, .words = &tool_fit_words};
    if (weft_plan_fits(plan, &fit, &error) == WEFT_MEMORY) tool_note("%s", error.text);
}

static int plan_run(const options *o) {
    text t = {0};
    weft_model *m = tool_load(o);
    const weft_plan *plan = tool_compile(m, o, o->graph);
    note_memory(plan, m, o);
    if (o->json && (o->bytes || o->estimate)) {
        out_json(o->output, work_table_json(plan, o->estimate));
        return EXIT_FINE;
    }
    write_text(&t, plan, o);
    out_text(o->output, &t);
    return EXIT_FINE;
}

const command command_plan = {
    .name = "plan",
    .summary = "Compiles a model and prints the plan: buckets, collectives, streams, memory",
    .options = OPTIONS_COMPILE OPTIONS_STEP OPTIONS_SPREAD OPTIONS_IMAGINE
    "graph guard after dump bytes estimate json output",
    .details =
        "--dump and --after print it node by node instead, with kernels and memory offsets; --bytes and "
        "--estimate print a table by op.",
    .example = "graphtool plan dcgan28.bin --world 4096 --rank 4095 --zero 2",
    .writes_text = true,
    .run = plan_run,
};
