/* model_case.h - a model as text (JSON), with its data and the results that it must have: what tests/models writes,
 * tests/model_cases.c and tests/test_models.c run. tests/models/README.md has the format. A case is ours, so one that
 * cannot be read ends the program. */
#ifndef WEFT_TEST_MODEL_CASE_H
#define WEFT_TEST_MODEL_CASE_H

#include "weft/weft.h"

#include <jansson.h>

/* The model through the public API, as configuration number `config` has it; its error, if it has one, is the model's. */
weft_model *case_model(const json_t *c, size_t config);

/* What came out under one configuration. */
typedef struct case_outcome {
    bool is_good;
    int compared;    /* tensors */
    int skipped;     /* of them no result is known at this precision */
    double worst;    /* the largest difference as a part of what is allowed */
    char text[1300]; /* what is wrong: "differ: 0:a/w[3] is ..., wanted ..., allowed ..." */
} case_outcome;

/* Builds, compiles and runs the case under a configuration, and compares with "want". */
void case_run(const json_t *c, size_t config, case_outcome *outcome);

#endif
