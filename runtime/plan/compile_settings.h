/* compile_settings.h - the table of weft_compile_options, made from compile_list.h. */
#ifndef WEFT_RUNTIME_PLAN_COMPILE_SETTINGS_H
#define WEFT_RUNTIME_PLAN_COMPILE_SETTINGS_H

#include "graph/settings/setting.h"
#include "weft/plan.h"

/* One for each field of weft_compile_options but own_strategy. */
extern const setting compile_settings[];
/* In the order of their enums; NULL ends them. Of the types of numbers, those that `precision` may be. */
extern const char *const reduce_words[], *const precision_words[], *const guard_words[];

#endif
