/* hook.h - what the hooks that Weft brings share beside their logs: refusing wrong arguments, and folders
 * that are looked at before the first step. Each keeps its state in a kit_object. */
#ifndef WEFT_RUNTIME_HOOKS_HOOK_H
#define WEFT_RUNTIME_HOOKS_HOOK_H

#include "runtime/train/trainer.h"
#include "weft/hooks.h"

/* A hook that weft_trainer_new() refuses, with this static text ("curves: a path is needed"); NULL: out of
 * memory. */
weft_hook hook_refused(const char *why);
/* The hook; where its object had no memory for something, it ends, and is refused. */
weft_hook hook_made(weft_hook hook);
/* WEFT_IO when rank 0 could not make the file `path` (NULL: fine), as its folder is not there. */
weft_status hook_check_folder(const weft_trainer *t, const char *hook, const char *path, weft_error *error);

#endif
