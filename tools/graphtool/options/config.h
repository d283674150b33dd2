/* config.h - options in a file of JSON, by their names: what --config reads. */
#ifndef WEFT_TOOLS_GRAPHTOOL_OPTIONS_CONFIG_H
#define WEFT_TOOLS_GRAPHTOOL_OPTIONS_CONFIG_H

#include "tools/graphtool/options/option_table.h"

/* Reads the file of --config: options that the command line has are passed over. */
void config_read(options *o);
/* Whether a value of this option, or what follows NAME in it, is never a number. */
bool config_is_word(const option_row *row);

#endif
