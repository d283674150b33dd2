/* random_training.h - random models with trainings: one or two training graphs over shared networks of every
 * kind of layer (random_net.h), gradient penalties, frozen scopes, a teacher that another graph moves, all of
 * Weft's optimizers with schedules, parameter groups, averages and clipping, in f32, bf16 and f16. A model is
 * `local` if its ranks are not alike: state of each rank's own that a loss reads, norms over ranks, process
 * groups. It trains in one world alone. */
#ifndef WEFT_TEST_RANDOM_TRAINING_H
#define WEFT_TEST_RANDOM_TRAINING_H

#include "support/models/random_net.h"

enum { TRAINING_BATCH = 3, TRAINING_CLASSES = 4, TRAINING_NETS = 3, TRAINING_WORLD = 6 };

typedef struct random_training {
    weft_model *model;
    random_net nets[TRAINING_NETS];
    net_kind kind;        /* of the input x of all graphs */
    int n_nets, features; /* features of a vector input */
    uint64_t seed, optimizers;
    bool is_local, is_whole;      /* is_whole: an optimizer that no flat shards can have */
    bool has_teacher;             /* of graph "move", which moves it */
    bool averages_state;          /* ema_buffers: only training graphs may write that state */
    weft_compile_options options; /* of the training that the others are compared with */
} random_training;

random_training training_draw(uint64_t seed, test_random *r);
/* Writes the shape of input x of all graphs, and returns the number of axes. */
int training_axes(const random_training *d, int64_t shape[4]);
weft_value *training_input(random_training *d, const char *graph, weft_mode mode);
/* The model from its text, or from a file; NULL, and a failed check: it cannot be read back. */
weft_model *training_copy(const weft_model *m, bool by_file);
/* World, ZeRO stage, buckets and whatever else changes no bit. `micros`: of each step of a training graph,
 * over all ranks, up to a 0. */
void training_layout(test_random *r, const random_training *d, const int *micros, weft_compile_options *o);

#endif
