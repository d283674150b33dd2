/* diff.c - graphtool diff: what differs between two models and their plans, or between two plans of one
 * model. */
#include "tools/graphtool/diff/report.h"
#include "tools/graphtool/model/tools.h"

#include <string.h>

/* One of the two: loaded and compiled. */
typedef struct side {
    const weft_model *model;
    const weft_plan *plan;
} side;

/* What both share. */
static const char of_both[] = "graph view all json output config";

static side side_of(const options *o) {
    side s = {.model = tool_load(o)};
    s.plan = tool_compile(s.model, o, o->graph);
    return s;
}

static const char *name_with(const char *file, const char *against) {
    return against ? tool_text("%s (%s)", file, against) : file;
}

static int diff_run(const options *o) {
    const options *second = options_second(o, of_both);
    if (!second)
        tool_fail("diff: a second model is needed, or --against=OPTIONS, other options for the same one");
    const side a = side_of(o), b = side_of(second);
    const weft_model *const models[2] = {a.model, b.model};
    const weft_plan *const plans[2] = {a.plan, b.plan};
    bool is_written = !o->view || strcmp(o->view, "graph") == 0;
    diff_report r = {.names = {o->model, name_with(second->model, o->against)},
                     .plans = {a.plan, b.plan},
                     .as_they_run = diff_plans(a.plan, b.plan),
                     .all = o->all,
                     .has_graphs = !o->view || strcmp(o->view, "plan")};
    r.changes = is_written ? diff_models(models, plans) : r.as_they_run;
    if (o->json) {
        out_json(o->output, diff_json(&r));
    } else {
        text t = {0};
        diff_text(&t, &r, o->output ? 0 : out_columns(stdout, 0));
        out_text(o->output, &t);
    }
    return diff_is_same(&r) ? EXIT_FINE : EXIT_WRONG;
}

const command command_diff = {
    .name = "diff",
    .summary = "Compares two models and their plans: what was added, removed and changed, and what it costs",
    .takes_two = true,
    .options = OPTIONS_COMPILE OPTIONS_STEP OPTIONS_SPREAD OPTIONS_IMAGINE
    "graph guard against view all json output",
    .details =
        "Exit status 1 where anything differs. The second model is the first one where it is not given; "
        "--against changes its options.",
    .example = "graphtool diff old.bin new.bin && echo same",
    .writes_text = true,
    .run = diff_run,
};
