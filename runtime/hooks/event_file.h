/* event_file.h - event files of TensorBoard: records of a length, bytes and their checks, each an Event of
 * tensorflow/core/util/event.proto. */
#ifndef WEFT_RUNTIME_HOOKS_EVENT_FILE_H
#define WEFT_RUNTIME_HOOKS_EVENT_FILE_H

#include "runtime/hooks/grid.h"
#include "runtime/hooks/log.h"

/* Makes the folder and a file of a new name in it, at the first call. */
weft_status event_file_open(log_file *l, const weft_env *env, weft_error *error);
/* "PHASE/NAME" at a step, a summary of all values. */
void event_file_scalars(log_file *l, int64_t step, const char *phase, const log_values *values);
/* A PNG file as "NAME" at a step. */
void event_file_image(log_file *l, int64_t step, const char *name, const grid_file *picture);

#endif
