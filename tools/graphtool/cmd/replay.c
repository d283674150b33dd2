/* replay.c - graphtool replay: runs the bad step of a training again, node by node, from its file. */
#include "tools/graphtool/common/paths.h"
#include "tools/graphtool/common/replayed.h"
#include "tools/graphtool/common/tools.h"

#include <stdio.h>
#include <stdlib.h>

/* The file, or that of a run's folder. */
static void find_step(const char *given, char path[PATHS_ROOM]) {
    snprintf(path, PATHS_ROOM, "%s%s", given, path_is_folder(given) ? "/bad.step" : "");
}

static int replay_run(const options *o) {
    weft_error error = {0};
    replayed r;
    char path[PATHS_ROOM];
    find_step(o->model, path);
    char *report = replayed_open(&r, path, &error) ? replayed_run(&r, &error) : NULL;
    int status = EXIT_FINE;
    if (report)
        printf("%s", report);
    else if (error.status)
        status = tool_error(&error);
    else {
        tool_fail("%s: the step is not bad here: its losses are finite", SHOW_PATH(path));
        status = EXIT_WRONG;
    }
    free(report);
    replayed_close(&r);
    return status;
}

const command command_replay = {
    .name = "replay",
    .summary =
        "Runs a bad step again from its bad.step, with its ranks as threads, and says what made it bad",
    .takes_model = true,
    .file = "the bad.step of a training, or the folder of its run",
    .options = "",
    .details = "FILE is what the training wrote, or the folder that it is in. Exits with status 0 when the "
               "step is bad here, too.",
    .example = "graphtool replay bad.step",
    .run = replay_run,
};
