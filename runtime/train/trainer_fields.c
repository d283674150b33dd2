/* trainer_fields.c - the options of a trainer, and of its checkpoints, as data (weft/field.h). */
#include "runtime/train/trainer.h"

#include <stddef.h>

#define FIELD(field, kind, least, most, otherwise, means)                                                    \
    { #field, WEFT_FIELD_##kind, offsetof(OF, field), least, most, NULL, 0, otherwise, means }

#define OF weft_trainer_options
static const weft_field trainer_fields[] = {
    FIELD(seed, SEED, 0, 0, NULL, "seed of initial values and of the order of samples"),
    FIELD(in_order, FLAG, 0, 1, NULL, "training takes its samples in their order"),
    FIELD(sampler_count, COUNT, 1, WEFT_COUNT_MOST, "as many as the data have",
          "samples of an epoch of the sampler's"),
    FIELD(val_graph, TEXT, 0, 0, "val", "the graph of validations"),
    FIELD(test_graph, TEXT, 0, 0, "test, or as val_graph", "the graph of tests"),
    FIELD(epochs, COUNT, 1, WEFT_COUNT_MOST, "as many as iterations need, or 1", "passes over the data"),
    FIELD(iterations, COUNT, 1, WEFT_COUNT_MOST, "those of the epochs", "most iterations"),
    FIELD(first_iteration, COUNT, 1, WEFT_COUNT_MOST, NULL, "iterations of earlier trainings"),
    FIELD(val_epochs, COUNT, -1, WEFT_COUNT_MOST, "1", "epochs between two validations; -1: never"),
    FIELD(val_iterations, COUNT, 1, WEFT_COUNT_MOST, NULL, "iterations between two validations"),
    FIELD(metrics_every, COUNT, 1, WEFT_COUNT_MOST, "1", "iterations between two whose metrics are taken"),
    FIELD(without_averages, FLAG, 0, 1, NULL, "validations read parameters, not their averages"),
    FIELD(keep_going, FLAG, 0, 1, NULL, "NaN and infinities do not end the training"),
    FIELD(own_guard, FLAG, 0, 1, NULL, "the guard is what compile.guard says, 0 too"),
    FIELD(skip_bad_steps, COUNT, 1, WEFT_COUNT_MOST, NULL, "bad steps that are skipped in a row"),
    {.offset = sizeof(OF)},
};
#undef OF

#define OF weft_trainer_checkpoints
static const weft_field checkpoints_fields[] = {
    FIELD(folder, TEXT, 0, 0, NULL, "where checkpoints are written"),
    FIELD(every, COUNT, 1, WEFT_COUNT_MOST, NULL, "iterations between two"),
    FIELD(minutes, REAL, 0, 1e9, "0", "minutes between two"),
    FIELD(keep, INT, 1, INT32_MAX, "3", "how many stay, the newest"),
    FIELD(best, TEXT, 0, 0, NULL, "metric of the validation whose best checkpoint stays"),
    FIELD(max, FLAG, 0, 1, NULL, "that metric shall grow; else it shall fall"),
    FIELD(most_failures, INT, -1, INT32_MAX, "3", "failures in a row that end the training; -1: none does"),
    FIELD(resume, TEXT, 0, 0, NULL, "a checkpoint, a folder of them, or auto"),
    FIELD(no_snapshot, FLAG, 0, 1, NULL, "no memory for a copy"),
    {.offset = sizeof(OF)},
};
#undef OF

const weft_field *weft_trainer_fields(void) {
    return trainer_fields;
}

const weft_field *weft_trainer_checkpoints_fields(void) {
    return checkpoints_fields;
}
