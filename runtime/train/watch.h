/* watch.h - a metric of validations, and whether the last one is the best so far (struct watch). */
#ifndef WEFT_RUNTIME_TRAIN_WATCH_H
#define WEFT_RUNTIME_TRAIN_WATCH_H

#include "runtime/train/trainer.h"

/* WEFT_NAME when the trainer's validations will not give the metric, WEFT_ORDER when there are none. What
 * evaluators of the user report is known only then. */
weft_status watch_open(const watch *w, const char *hook, const weft_trainer *t, weft_error *error);
/* *value is the metric of the last validation; *is_better: by more than min_delta than all before it. NaN is
 * never better. WEFT_NAME: the validation gives no such metric. */
weft_status watch_look(watch *w, const weft_trainer *t, double *value, bool *is_better, weft_error *error);

#endif
