/* plan.c - graphtool plan: the compiled model as a summary (summary.h), as text that reads back, or as
 * JSON. */
#include "tools/graphtool/timeline/summary.h"
#include "tools/graphtool/common/tools.h"

#include <stdlib.h>
#include <string.h>

static int plan_run(const options *o) {
    int status = EXIT_FINE;
    weft_model *m = tool_load(o, &status);
    if (!m) return status;
    weft_plan *plan = tool_compile(m, o, o->graph, 0, &status);
    weft_model_free(m);
    if (!plan) return status;
    /* the summary needs streams, which a plan that was stopped early has not */
    char *all = o->json               ? weft_plan_json(plan)
                : o->dump || o->after ? weft_plan_text(plan)
                                      : plan_summary(plan);
    if (!all)
        status = tool_fail("out of memory");
    else
        status = out_write(o->output, all, strlen(all));
    free(all);
    weft_plan_free(plan);
    return status;
}

const command command_plan = {
    .name = "plan",
    .summary = "Compiles a model and prints the plan: buckets, collectives, streams, memory",
    .takes_model = true,
    .options = OPTIONS_COMPILE OPTIONS_SPREAD OPTIONS_IMAGINE "graph after dump json output",
    .details = "--dump and --after print it node by node instead, with kernels and memory offsets.",
    .example = "graphtool plan dcgan28.bin --world 4096 --rank 4095 --zero 2",
    .run = plan_run,
};
