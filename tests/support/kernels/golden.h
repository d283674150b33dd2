/* golden.h - reads the golden files (safetensors made by tests/golden/make_goldens.py). An error in one ends
 * the program. */
#ifndef WEFT_TEST_GOLDEN_H
#define WEFT_TEST_GOLDEN_H

#include "weft/model.h"

typedef struct golden_tensor {
    char name[100];
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_NDIM];
    const void *data;
    size_t bytes;
} golden_tensor;

typedef struct golden {
    int n;
    golden_tensor *tensors;
    char *file;
} golden;

golden golden_read(const char *path); /* TEST_DATA "/golden/ops.safetensors" */
void golden_free(golden *g);
/* NULL when there is none of that name ("softmax" and "out" make "softmax.out"). */
const golden_tensor *golden_find(const golden *g, const char *of, const char *name);
/* |a - b| / |b| over f32 tensors as vectors. */
double golden_distance(const float *a, const golden_tensor *b);

#endif
