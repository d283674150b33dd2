/* help.h - graphtool COMMAND --help. */
#ifndef WEFT_TOOLS_GRAPHTOOL_COMMON_HELP_H
#define WEFT_TOOLS_GRAPHTOOL_COMMON_HELP_H

#include "tools/graphtool/common/option_table.h"

void help_print(const command *c);
/* The heading that an option stands under; NULL: none, and --help would leave it out. */
const char *help_group(const option_row *row);
/* Columns of a line of help: the terminal's within limits, 80 where standard output is not a terminal. */
int help_columns(void);

#endif
