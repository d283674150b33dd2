/* config.h - options in a file of JSON, by their names: what --config reads and --print-config prints. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_CONFIG_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_CONFIG_H

#include "tools/graphtool/common/options.h"

/* Reads the file of --config: options that the command line has are passed over. */
void config_read(options *o);
/* Prints what holds, or writes it to `path`. */
void config_print(const options *o, const char *path);
/* Whether that file is there and says the same. */
bool config_is_in(const options *o, const char *path);

#endif
