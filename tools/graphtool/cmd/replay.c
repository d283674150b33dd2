/* replay.c - graphtool replay: runs the bad step of a training again, node by node, from its file. */
#include "tools/graphtool/options/paths.h"
#include "tools/graphtool/model/replayed.h"
#include "tools/graphtool/model/tools.h"

/* Of the file, or of that of a run's folder. */
static int replay_run(const options *o) {
    weft_error error = {0};
    replayed r;
    const char *path = tool_text("%s%s", o->model, path_is_folder(o->model) ? "/bad.step" : "");
    char *report = replayed_open(&r, path, &error) ? replayed_run(&r, &error) : NULL;
    replayed_close(&r);
    if (!report && error.status) tool_error(&error);
    if (!report) tool_tell("%s: the step is not bad here: its losses are finite", path);
    printf("%s", report ? report : "");
    free(report);
    return report ? EXIT_FINE : EXIT_WRONG;
}

const command command_replay = {
    .name = "replay",
    .summary =
        "Runs a bad step again from its bad.step, with its ranks as threads, and says what made it bad",
    .file = "the bad.step of a training, or the folder of its run",
    .options = "",
    .details = "FILE is what the training wrote, or the folder that it is in. Exits with status 0 when the "
               "step is bad here, too.",
    .example = "graphtool replay bad.step",
    .run = replay_run,
};
