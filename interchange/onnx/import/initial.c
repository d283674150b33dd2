/* initial.c - how parameters begin where no weights are loaded: with numbers that have the mean and the
 * deviation of the file's. Where all are equal, and in state, they are that number. */
#include "interchange/onnx/import/import.h"

#include <math.h>

static onnx_sample of_numbers(const float *x, size_t n) {
    onnx_sample s = {.n = n, .is_finite = true, .is_one = true, .first = (double)x[0]};
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)x[i];
        s.is_one = s.is_one && x[i] == x[0];
        s.is_finite = s.is_finite && isfinite(x[i]);
    }
    s.mean = sum / (double)n;
    for (size_t i = 0; i < n; i++) squares += ((double)x[i] - s.mean) * ((double)x[i] - s.mean);
    s.deviation = sqrt(squares / (double)n);
    return s;
}

onnx_sample onnx_sample_of(importer *in, const onnx_tensor *t, weft_error *error) {
    const size_t most = (1 << 14) * sizeof(float);
    onnx_sample s = {.is_finite = true};
    size_t bytes = onnx_tensor_bytes(t), n = bytes < most ? bytes : most;
    if (t->sample.n || t->type != ONNX_FLOAT || !n) return t->sample.n ? t->sample : s;
    float *x = kit_take(in->arena, n, 1);
    if (!x)
        kit_no_memory(error, t->name);
    else if (!onnx_tensor_read(&in->onnx->file, t, 0, x, n, error))
        s = of_numbers(x, n / sizeof *x);
    kit_drop(in->arena, x);
    return s;
}

weft_init onnx_initial(importer *in, const onnx_tensor *t, bool is_state) {
    onnx_sample s = onnx_sample_of(in, t, in->error);
    if (!s.n || !isfinite(s.mean) || !isfinite(s.deviation)) return (weft_init){0};
    if (s.is_one || is_state || s.deviation == 0)
        return (weft_init){WEFT_INIT_CONSTANT, s.is_one ? s.first : s.mean, 0};
    return (weft_init){WEFT_INIT_NORMAL, s.mean, s.deviation};
}
