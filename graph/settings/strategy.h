/* strategy.h - the text that chooses a strategy: NAME or NAME:key=value,key=value. What a name means is
 * runtime/strategy.c's; files and dumps hold nothing but the text. */
#ifndef WEFT_GRAPH_SETTINGS_STRATEGY_H
#define WEFT_GRAPH_SETTINGS_STRATEGY_H

#include "graph/core/graph.h"

enum { STRATEGY_MAX_TEXT_BYTES = 1000, STRATEGY_MAX_KEYS = 16, STRATEGY_WHY = 200 };

typedef struct strategy_parts {
    const char *name;
    int n; /* keys, each once */
    const char *keys[STRATEGY_MAX_KEYS], *values[STRATEGY_MAX_KEYS];
} strategy_parts;

/* Paths of what a strategy keeps for a bucket begin so, with the bucket's name and '/' after it. */
#define STRATEGY_STATE "strategy/"
bool strategy_keeps(variable_kind kind, const char *path);

/* Copies the parts of a text into the arena. False: `why` holds the reason, "" when memory is out. */
bool strategy_parse(const char *text, arena *a, strategy_parts *into, char why[STRATEGY_WHY]);
/* Checks the text and copies it into the model; NULL: none. False after recording the model's error. */
bool strategy_set(weft_model *m, const char *text);

#endif
