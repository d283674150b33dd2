/* run_config.h - the settings of a run as a file for --config: what --print-config prints. */
#ifndef WEFT_TOOLS_GRAPHTOOL_MODEL_RUN_CONFIG_H
#define WEFT_TOOLS_GRAPHTOOL_MODEL_RUN_CONFIG_H

#include "tools/graphtool/options/options.h"

#include <jansson.h>

/* Prints what holds, or writes it to `path`. */
void config_print(const options *o, const char *path);
/* Whether that file is there and says the same. */
bool config_is_in(const options *o, const char *path);

/* What a model has from weft_model_set_ddp and weft_model_set_precision, by path; `whole` is the key of the
 * whole model's options. */
json_t *ddp_json(const weft_model *m, const char *whole);
json_t *precisions_json(const weft_model *m);

#endif
