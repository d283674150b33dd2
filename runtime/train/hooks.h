/* hooks.h - what the hooks that Weft brings share beside their logs: refusing wrong arguments, copies of
 * texts, and what they look at when a trainer is made, so that wrong names are found before the first step.
 */
#ifndef WEFT_RUNTIME_TRAIN_HOOKS_H
#define WEFT_RUNTIME_TRAIN_HOOKS_H

#include "runtime/train/trainer.h"
#include "weft/hooks.h"

/* A hook that weft_trainer_new() refuses, with this static text ("curves: a path is needed"); NULL: out of
 * memory. */
weft_hook hook_refused(const char *why);
/* A copy of a text that need not be there: false when there is no memory for it. */
bool hook_copy(char **into, const char *text);
void hook_free_copy(char *text);
/* WEFT_IO when rank 0 could not make the file `path` (NULL: fine), as its folder is not there. */
weft_status hook_check_folder(const weft_trainer *t, const char *hook, const char *path, weft_error *error);

/* Each hook's function, and what it looks at when the trainer is made. */
weft_status early_stop_at(void *self, weft_trainer *t, weft_point point, weft_error *error);
weft_status early_stop_open(void *self, const weft_trainer *t, weft_error *error);
weft_status best_at(void *self, weft_trainer *t, weft_point point, weft_error *error);
weft_status best_open(void *self, const weft_trainer *t, weft_error *error);
weft_status plateau_at(void *self, weft_trainer *t, weft_point point, weft_error *error);
weft_status plateau_open(void *self, const weft_trainer *t, weft_error *error);
weft_status curves_at(void *self, weft_trainer *t, weft_point point, weft_error *error);
weft_status curves_open(void *self, const weft_trainer *t, weft_error *error);
weft_status samples_at(void *self, weft_trainer *t, weft_point point, weft_error *error);
weft_status samples_open(void *self, const weft_trainer *t, weft_error *error);

#endif
