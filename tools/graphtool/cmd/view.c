/* view.c - graphtool view: the compiled model as a page for a browser: graphs, memory, streams, passes. */
#include "tools/graphtool/model/tools.h"
#include "tools/graphtool/view/view.h"

static void free_texts(void *texts) {
    arena_free(&((view_texts *)texts)->memory);
}

static int view_run(const options *o) {
    if (!o->output) tool_fail("view: -o FILE.html is needed");
    out_check(o->output);
    view_texts *texts = tool_keep(tool_new(1, sizeof *texts), free_texts);
    view_plan *plan = view_collect(texts, tool_load(o), o);
    view_write(o->output, view_json(texts, &plan, 1));
    return EXIT_FINE;
}

const command command_view = {
    .name = "view",
    .summary = "Writes a plan as a page for a browser: graphs, memory, streams, passes",
    .options = OPTIONS_COMPILE OPTIONS_STEP OPTIONS_SPREAD OPTIONS_IMAGINE "graph guard output",
    .details = "The page needs no other file and no network.",
    .example = "graphtool view dcgan28.bin -o dcgan28.html",
    .writes_text = true,
    .run = view_run,
};
