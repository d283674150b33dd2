/* model_case.h - a model as text (JSON) with its data and the results that it must have. tests/models writes
 * cases; tests/pytorch/model_cases.c and tests/pytorch/test_models.c run them. tests/models/README.md has
 * the format. A case that cannot be read ends the program. */
#ifndef WEFT_TEST_MODEL_CASE_H
#define WEFT_TEST_MODEL_CASE_H

#include "weft/weft.h"

#include <jansson.h>

/* Builds the model of configuration `config` by the public API. An error, if there is one, is the model's. */
weft_model *case_model(const json_t *c, size_t config);

enum { CASE_OPS = 256 }; /* at least op_count() */

/* The outcome of one configuration. */
typedef struct case_outcome {
    bool is_good;
    bool ran[CASE_OPS]; /* by the order of ops/list.h: what the model and its plans have */
    int compared;       /* tensors */
    int skipped;        /* of those, without a known result at this precision */
    double worst;       /* the largest difference, relative to the allowed one */
    char text[1300];    /* the error: "differ: 0:a/w[3] is ..., wanted ..., allowed ..." */
} case_outcome;

/* Builds, compiles and runs the case under a configuration, and compares with "want". */
void case_run(const json_t *c, size_t config, case_outcome *outcome);

#endif
