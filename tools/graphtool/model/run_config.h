/* run_config.h - the settings of a run as a file for --config: what --print-config prints. */
#ifndef WEFT_TOOLS_GRAPHTOOL_MODEL_RUN_CONFIG_H
#define WEFT_TOOLS_GRAPHTOOL_MODEL_RUN_CONFIG_H

#include "tools/graphtool/options/options.h"

/* Prints what holds, or writes it to `path`. */
void config_print(const options *o, const char *path);
/* Whether that file is there and says the same. */
bool config_is_in(const options *o, const char *path);

#endif
