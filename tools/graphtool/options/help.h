/* help.h - graphtool COMMAND --help. */
#ifndef WEFT_TOOLS_GRAPHTOOL_OPTIONS_HELP_H
#define WEFT_TOOLS_GRAPHTOOL_OPTIONS_HELP_H

#include "tools/graphtool/options/option_table.h"

#include <jansson.h>

void help_print(const command *c);
/* What stands between a command's name and its options: "MODEL", "[OP]", "ACTION DIR [DIR]"; and after an
 * action: "DIR DIR". */
const char *command_arguments(const command *c);
const char *action_arguments(const command_action *a);
/* The rows of a command as JSON: name, letter, argument, help, group, words and file of each option. */
json_t *options_json(const command *c);
/* The heading that an option stands under; NULL: none, and --help would leave it out. */
const char *help_group(const option_row *row);
/* Columns of a line of help: the terminal's within limits, 80 where standard output is not a terminal. */
int help_columns(void);

#endif
