/* checkpoints.c - see checkpoints.h. */
#include "tools/graphtool/options/checkpoints.h"

#include "tools/graphtool/output/output.h"

#include <string.h>

void checkpoints_read(const options *o, weft_trainer_checkpoints *into) {
    *into = (weft_trainer_checkpoints){.folder = o->checkpoint_dir,
                                       .resume = o->resume,
                                       .keep = (int)o->keep,
                                       .minutes = o->checkpoint_dir ? 10 : 0};
    if (o->checkpoint_every) option_interval(o->checkpoint_every, &into->every, &into->minutes);
}

bool checkpoints_there(const options *o) {
    int n = 0;
    int64_t *steps = NULL;
    bool is_auto = strcmp(o->resume, "auto") == 0;
    if (!is_auto || !o->checkpoint_dir) return !is_auto; /* else the trainer says what is wrong */
    weft_checkpoint_steps(o->checkpoint_dir, NULL, &steps, &n, NULL);
    weft_checkpoint_steps_free(steps);
    return n > 0;
}

static void tell_line(void *context, const char *line) {
    (void)context;
    tool_note("%s", line);
}

const weft_env checkpoints_env = {.log = tell_line};
