/* log_tensorboard.c - every interval, validation and test as scalars of an event file. */
#include "runtime/hooks/event_file.h"

static void write_scalars(log_lines *l, const weft_trainer *t, const char *phase) {
    event_file_scalars(&l->file, log_step(t), phase, &l->values);
}

weft_hook weft_hook_tensorboard(const char *folder, int64_t every) {
    static const log_form form = {.name = "tensorboard",
                                  .without = "tensorboard: a folder is needed",
                                  .is_events = true,
                                  .write = write_scalars};
    return log_lines_hook(&form, folder, every);
}
