/* initial.c - how parameters begin where no weights are loaded: with numbers that have the mean and the
 * deviation of the file's. Where all are equal, and in state, they are that number. */
#include "interchange/onnx/import/import.h"

#include <math.h>

enum { SAMPLE = 1 << 14 }; /* of the first elements */

static weft_init of_numbers(const float *x, size_t n, bool is_state) {
    double sum = 0, squares = 0;
    bool is_one = true;
    for (size_t i = 0; i < n; i++) {
        sum += (double)x[i];
        is_one = is_one && x[i] == x[0];
    }
    double mean = sum / (double)n;
    for (size_t i = 0; i < n; i++) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    double deviation = sqrt(squares / (double)n);
    if (!isfinite(mean) || !isfinite(deviation)) return (weft_init){0};
    if (is_one || is_state || deviation == 0)
        return (weft_init){WEFT_INIT_CONSTANT, is_one ? (double)x[0] : mean, 0};
    return (weft_init){WEFT_INIT_NORMAL, mean, deviation};
}

weft_init onnx_initial(importer *in, const onnx_tensor *t, bool is_state) {
    weft_init made = {0};
    size_t bytes = onnx_tensor_bytes(t), most = SAMPLE * sizeof(float), n = bytes < most ? bytes : most;
    if (t->type != ONNX_FLOAT || !n) return made;
    float *x = kit_take(in->arena, n, 1);
    if (!x)
        kit_no_memory(in->error, t->name);
    else if (!onnx_tensor_read(&in->onnx->file, t, 0, x, n, in->error))
        made = of_numbers(x, n / sizeof *x, is_state);
    kit_drop(in->arena, x);
    return made;
}
