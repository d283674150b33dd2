/* trainer_fields.c - the options of a trainer, and of its checkpoints, as data (weft/field.h). */
#include "runtime/train/trainer.h"

#include <stddef.h>

#define OF weft_trainer_options
static const weft_field trainer_fields[] = {
    WEFT_FIELD(OF, seed, SEED, 0, 0, NULL, "seed of initial values and of the order of samples"),
    WEFT_FIELD(OF, in_order, FLAG, 0, 1, NULL, "training takes its samples in their order"),
    WEFT_FIELD(OF, sampler_count, COUNT, 1, WEFT_COUNT_MOST, "as many as the data have",
               "samples of an epoch of the sampler's"),
    WEFT_FIELD(OF, val_graph, TEXT, 0, 0, "val", "the graph of validations"),
    WEFT_FIELD(OF, test_graph, TEXT, 0, 0, "test, or as val_graph", "the graph of tests"),
    WEFT_FIELD(OF, set, TEXT, 0, 0, NULL, "numbers for inputs without a batch axis: tau=0.07"),
    WEFT_FIELD(OF, epochs, COUNT, 1, WEFT_COUNT_MOST, "as many as iterations need, or 1",
               "passes over the data"),
    WEFT_FIELD(OF, iterations, COUNT, 1, WEFT_COUNT_MOST, "those of the epochs", "most iterations"),
    WEFT_FIELD(OF, first_iteration, COUNT, 1, WEFT_COUNT_MOST, NULL, "iterations of earlier trainings"),
    WEFT_FIELD(OF, val_epochs, COUNT, -1, WEFT_COUNT_MOST, "1", "epochs between two validations; -1: never"),
    WEFT_FIELD(OF, val_iterations, COUNT, 1, WEFT_COUNT_MOST, NULL, "iterations between two validations"),
    WEFT_FIELD(OF, metrics_every, COUNT, 1, WEFT_COUNT_MOST, "1",
               "iterations between two whose metrics are taken"),
    WEFT_FIELD(OF, without_averages, FLAG, 0, 1, NULL, "validations read parameters, not their averages"),
    WEFT_FIELD(OF, keep_going, FLAG, 0, 1, NULL, "NaN and infinities do not end the training"),
    WEFT_FIELD(OF, check, FLAG, 0, 1, NULL, "each node's results are checked, in all that runs"),
    WEFT_FIELD(OF, no_capture, FLAG, 0, 1, NULL, "a GPU's launches are made node by node"),
    WEFT_FIELD(OF, own_guard, FLAG, 0, 1, NULL, "the guard is what compile.guard says, 0 too"),
    WEFT_FIELD(OF, skip_bad_steps, COUNT, 1, WEFT_COUNT_MOST, NULL, "bad steps that are skipped in a row"),
    WEFT_FIELD_END(OF),
};
#undef OF

#define OF weft_trainer_checkpoints
static const weft_field checkpoints_fields[] = {
    WEFT_FIELD(OF, folder, TEXT, 0, 0, NULL, "where checkpoints are written"),
    WEFT_FIELD(OF, every, COUNT, 1, WEFT_COUNT_MOST, NULL, "iterations between two"),
    WEFT_FIELD(OF, minutes, REAL, 0, 1e9, "0", "minutes between two"),
    WEFT_FIELD(OF, keep, INT, 1, INT32_MAX, "3", "how many stay, the newest"),
    WEFT_FIELD(OF, best, TEXT, 0, 0, NULL, "metric of the validation whose best checkpoint stays"),
    WEFT_FIELD(OF, max, FLAG, 0, 1, NULL, "that metric should grow; else it should fall"),
    WEFT_FIELD(OF, most_failures, INT, -1, INT32_MAX, "3",
               "failures in a row that end the training; -1: none does"),
    WEFT_FIELD(OF, resume, TEXT, 0, 0, NULL, "a checkpoint, a folder of them, or auto"),
    WEFT_FIELD(OF, no_snapshot, FLAG, 0, 1, NULL, "no memory for a copy"),
    WEFT_FIELD_END(OF),
};
#undef OF

const weft_field *weft_trainer_fields(void) {
    return trainer_fields;
}

const weft_field *weft_trainer_checkpoints_fields(void) {
    return checkpoints_fields;
}
