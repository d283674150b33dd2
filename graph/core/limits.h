/* limits.h - what a model that comes from a file or a text may cost at most. Far above any real model (a GPT
 * of 48 layers has 1,500 calls), low enough that a hostile file costs seconds and megabytes. docs/formats.md
 * states them.
 */
#ifndef WEFT_GRAPH_CORE_LIMITS_H
#define WEFT_GRAPH_CORE_LIMITS_H

enum {
    MODEL_MAX_FILE_BYTES = 64 << 20,
    MODEL_MAX_TEXT_BYTES = 16 << 20,
    MODEL_MAX_UNPACKED_BYTES = 256 << 20, /* while model.bin is read; and at most 64 times the file + 1 MiB */
    MODEL_MAX_GRAPHS = 256,
    MODEL_MAX_NODES = 1 << 17, /* over all graphs */
    MODEL_MAX_OPERANDS = 1 << 20,
    MODEL_MAX_INPUTS = 4096, /* a graph; outputs too */
    MODEL_MAX_VARIABLES = 1 << 15,
    MODEL_MAX_SUBGRAPHS = 4096, /* with options of their own */
    MODEL_MAX_TRAININGS = 256,  /* minimize calls; each goes through all variables */
    MODEL_MAX_WRITES = 256,     /* of one variable in one run; each waits for all readers before it */

    /* What autodiff may make in a graph: for each call of the user's, and besides. Most ops take 1 to 4 values. */
    GRADIENT_VALUES_A_CALL = 64,
    GRADIENT_VALUES = 1 << 16,
    GRADIENT_STEPS = 1 << 25, /* nodes that it may look at, for all its losses together */
};

#endif
