/* narrow.h - the zoo's models, narrow enough for the emulated GPU, and training them in a world of
 * threads. */
#ifndef WEFT_TEST_NARROW_H
#define WEFT_TEST_NARROW_H

#include "examples/zoo.h"
#include "support/world.h"

typedef struct narrow_model {
    const char *name;
    zoo_options size;
    int64_t most; /* how far losses may differ, in units of 1e-5 of their size */
} narrow_model;

enum { NARROW_MODELS = 4, NARROW_STEPS = 3 }; /* step by step: node by node, captured, replayed */
extern const narrow_model narrow_models[NARROW_MODELS];
extern const weft_optimizer narrow_clipped;

/* optimizer NULL: the zoo's own. Free with weft_model_free. */
weft_model *narrow_build(const narrow_model *c, const weft_optimizer *optimizer);
weft_model *narrow_two_graphs(void); /* graphs "left" and "right", each with parameters of its own */
/* Trains in options.world ranks (0: one); free with world_free. */
world_rank *narrow_train(const weft_model *m, weft_compile_options options, void (*run)(world_rank *r));

#endif
