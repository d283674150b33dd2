/* checkpoints.c - see checkpoints.h. */
#include "tools/graphtool/common/checkpoints.h"

#include "tools/graphtool/common/output.h"

#include <string.h>

bool checkpoints_every(const char *text, int64_t *iterations, double *minutes) {
    size_t digits = strspn(text, "0123456789");
    int64_t n = digits && digits <= 15 ? strtoll(text, NULL, 10) : 0;
    const char *unit = text + digits;
    double of_minute = strcmp(unit, "s") == 0   ? 1.0 / 60
                       : strcmp(unit, "m") == 0 ? 1
                       : strcmp(unit, "h") == 0 ? 60
                                                : 0;
    *iterations = of_minute > 0 ? 0 : n;
    *minutes = (double)n * of_minute;
    return n > 0 && (of_minute > 0 || !*unit);
}

void checkpoints_read(const options *o, weft_trainer_checkpoints *into) {
    *into = (weft_trainer_checkpoints){.folder = o->checkpoint_dir,
                                       .resume = o->resume,
                                       .keep = (int)o->keep,
                                       .minutes = o->checkpoint_dir ? 10 : 0};
    if (o->checkpoint_every) checkpoints_every(o->checkpoint_every, &into->every, &into->minutes);
}

bool checkpoints_there(const options *o) {
    int n = 0;
    int64_t *steps = NULL;
    bool is_auto = strcmp(o->resume, "auto") == 0;
    if (!is_auto || !o->checkpoint_dir) return !is_auto; /* else the trainer says what is wrong */
    weft_checkpoint_steps(o->checkpoint_dir, NULL, &steps, &n, NULL);
    free(steps);
    return n > 0;
}

static void tell_line(void *context, const char *line) {
    (void)context;
    tool_note("%s", line);
}

const weft_env checkpoints_env = {.log = tell_line};
