/* commands.h - all subcommands, for the two that start others: the program and launch. */
#ifndef WEFT_TOOLS_GRAPHTOOL_CMD_COMMANDS_H
#define WEFT_TOOLS_GRAPHTOOL_CMD_COMMANDS_H

#include "tools/graphtool/output/names.h"
#include "tools/graphtool/options/options.h"

#include <string.h>

#define X(name) extern const command command_##name;
#include "tools/graphtool/cmd/list.h"
#undef X

/* In the order of list.h; NULL ends them. */
static const command *const commands[] = {
#define X(name) &command_##name,
#include "tools/graphtool/cmd/list.h"
#undef X
    NULL};

/* NULL: there is none of that name. */
static inline const command *command_find(const char *name) {
    for (int i = 0; commands[i]; i++)
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    return NULL;
}

/* The names of others, for an error about this one. */
static inline names command_names(const char *name) {
    names known = names_for(name);
    for (int i = 0; commands[i]; i++)
        if (strcmp(commands[i]->name, name)) names_add(&known, commands[i]->name);
    return known;
}

#endif
