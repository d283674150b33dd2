/* replay.c - graphtool replay: runs the bad step of a training again, node by node, from its file. */
#include "tools/graphtool/common/replayed.h"
#include "tools/graphtool/common/tools.h"

#include <stdlib.h>

static int replay_run(const options *o) {
    weft_error error = {0};
    replayed r;
    char *report = replayed_open(&r, o->model, &error) ? replayed_run(&r, &error) : NULL;
    int status = EXIT_FINE;
    if (report)
        printf("%s", report);
    else if (error.status)
        status = tool_error(&error);
    else {
        tool_fail("%s: the step is not bad here: its losses are finite", o->model);
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
    .file = "the bad.step of a training",
    .options = "",
    .details = "FILE is what the training wrote. Exits with status 0 when the step is bad here, too.",
    .example = "graphtool replay bad.step",
    .run = replay_run,
};
