/* limits.h - limits for a model that comes from a file or a text. They are far above any real model (a GPT of
 * 48 layers has 1,500 calls) and low enough that a hostile file costs seconds and megabytes. docs/formats.md
 * lists them. */
#ifndef WEFT_GRAPH_CORE_LIMITS_H
#define WEFT_GRAPH_CORE_LIMITS_H

enum {
    MODEL_MAX_FILE_BYTES = 64 << 20,
    MODEL_MAX_TEXT_BYTES = 16 << 20,
    /* memory while model.bin is read; also at most 64 times the file's size + 1 MiB */
    MODEL_MAX_UNPACKED_BYTES = 256 << 20,
    MODEL_MAX_CONSTANT_BYTES = 32 << 20, /* of one constant_tensor */
    MODEL_MAX_GRAPHS = 256,
    MODEL_MAX_NODES = 1 << 17, /* in all graphs together */
    MODEL_MAX_OPERANDS = 1 << 20,
    MODEL_MAX_INPUTS = 4096, /* per graph; the same for outputs */
    MODEL_MAX_VARIABLES = 1 << 15,
    MODEL_MAX_SUBGRAPHS = 4096, /* paths with options of weft_model_set_ddp */
    MODEL_MAX_FLOWS = 256,
    MODEL_MAX_TRAININGS = 256, /* minimize calls: each of them walks over all variables */
    MODEL_MAX_WRITES = 256,    /* writes of one variable in one run: each waits for all earlier readers */

    /* Values that autodiff may make in a graph: GRADIENT_VALUES, and so many more for each call of the
     * user's. Most ops take 1 to 4 values for their gradient. */
    GRADIENT_VALUES_A_CALL = 64,
    GRADIENT_VALUES = 1 << 16,
    GRADIENT_STEPS = 1 << 25, /* nodes that autodiff may visit, over all losses of a graph */
};

#endif
