/* view.c - graphtool view: the compiled model as a page for a browser, or two of them with what differs. */
#include "tools/graphtool/model/tools.h"
#include "tools/graphtool/view/view.h"

#include <string.h>

static void free_texts(void *texts) {
    arena_free(&((view_texts *)texts)->memory);
}

static view_plan *plan_of(view_texts *texts, const options *o, const char *file, const char *fields) {
    options own = *o;
    own.model = file;
    weft_model *m = tool_load(&own);
    view_plan *v = view_collect(texts, m, &own, fields);
    if (o->profile) view_measure(v, m, &own);
    return v;
}

static const char *file_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Two plans of one name are called by their files, and by what --against changes. */
static void tell_apart(view_plan *const plans[2], const options *o) {
    if (strcmp(plans[0]->name, plans[1]->name) != 0) return;
    plans[0]->name = file_of(o->model);
    plans[1]->name = o->other ? file_of(o->other) : tool_text("%s, %s", file_of(o->model), o->against);
}

static int view_run(const options *o) {
    if (!o->output) tool_fail("view: -o FILE.html is needed");
    out_check(o->output);
    view_texts *texts = tool_keep(tool_new(1, sizeof *texts), free_texts);
    bool has_two = o->other || o->against;
    view_plan *plans[2] = {plan_of(texts, o, o->model, NULL)};
    if (has_two) plans[1] = plan_of(texts, o, o->other ? o->other : o->model, o->against);
    if (has_two) tell_apart(plans, o);
    view_write(o->output, view_json(texts, plans, has_two ? 2 : 1));
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
