/* view.c - graphtool view: the compiled model as a page for a browser, or two of them with what differs. */
#include "tools/graphtool/model/tools.h"
#include "tools/graphtool/view/view.h"

#include <string.h>

static void free_texts(void *texts) {
    arena_free(&((view_texts *)texts)->memory);
}

/* What both plans share. */
static const char of_both[] = "graph profile output config";

static view_plan *plan_of(view_texts *texts, const options *o) {
    weft_model *m = tool_load(o);
    tool_need_graph(m, o);
    view_plan *v = view_collect(texts, m, o);
    if (o->profile) view_measure(v, m, o);
    return v;
}

/* Two plans of one name are called by their files, and by what --against changes. */
static void tell_apart(view_plan *const plans[2], const options *o, const options *second) {
    if (strcmp(plans[0]->name, plans[1]->name) != 0) return;
    plans[0]->name = path_leaf(o->model);
    plans[1]->name = path_leaf(second->model);
    if (second->against) plans[1]->name = tool_text("%s (%s)", plans[1]->name, second->against);
}

static int view_run(const options *o) {
    if (!o->output) tool_fail("view: -o FILE.html is needed");
    out_check(o->output);
    view_texts *texts = tool_keep(tool_new(1, sizeof *texts), free_texts);
    const options *second = options_second(o, of_both);
    view_plan *plans[2] = {plan_of(texts, o)};
    if (second) plans[1] = plan_of(texts, second);
    if (second) tell_apart(plans, o, second);
    view_write(o->output, view_json(texts, plans, second ? 2 : 1));
    return EXIT_FINE;
}

const command command_view = {
    .name = "view",
    .summary = "Writes a plan as a page for a browser: graphs, memory, streams, passes",
    .takes_two = true,
    .options =
        OPTIONS_COMPILE OPTIONS_STEP OPTIONS_SPREAD OPTIONS_IMAGINE "graph guard against profile output",
    .details = "The page needs no other file and no network. With a second model, or --against, it has both "
               "plans and what differs.",
    .example = "graphtool view dcgan28.bin -o dcgan28.html",
    .writes_text = true,
    .run = view_run,
};
