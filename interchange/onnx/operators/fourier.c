/* fourier.c - DFT and STFT: products with matrices of cosines and sines, so gradients are products, too. */
#include "interchange/onnx/operators/families.h"

#include <math.h>

enum { LONGEST = 1024 }; /* of which a matrix has 16 MiB */

/* A transform of `in` numbers to `out` ones, of a signal of length n. */
typedef struct fourier {
    int64_t n, in, out;
    bool inverse, is_half; /* half: a real signal has the bins 0 to n / 2 alone */
} fourier;

/* What element j of the transform's input counts in element k of its result: the real part of the factor, or
 * the imaginary one. */
static double factor(const fourier *f, int64_t j, int64_t k, bool is_imaginary) {
    double angle = 2 * acos(-1.0) * (double)(j * k % f->n) / (double)f->n;
    double part = is_imaginary ? (f->inverse ? sin(angle) : -sin(angle)) : cos(angle);
    bool is_twice = f->inverse && f->is_half && j > 0 && 2 * j != f->n;
    return part * (is_twice ? 2 : 1) / (f->inverse ? (double)f->n : 1);
}

/* [parts x in, out]: rows of real parts, then (parts 2) rows of imaginary ones, to one part of the result. */
static weft_value *matrix(onnx_call *c, const fourier *f, int parts, bool is_imaginary) {
    int64_t shape[] = {parts * f->in, f->out};
    size_t n = (size_t)(shape[0] * shape[1]);
    double *data = kit_take(c->in->arena, n, sizeof *data);
    if (!data) return kit_no_memory(c->in->error, c->node->op), NULL;
    for (size_t i = 0; i < n; i++) {
        int64_t row = (int64_t)i / f->out, k = (int64_t)i % f->out, j = row % f->in;
        bool of_imaginary = row >= f->in; /* i x i = -1 */
        double part = factor(f, j, k, is_imaginary != of_imaginary);
        data[i] = of_imaginary && !is_imaginary ? -part : part;
    }
    weft_value *made = weft_constant_tensor(onnx_graph_of(c), WEFT_F64, 2, shape, data);
    kit_drop(c->in->arena, data);
    return made;
}

/* Cut, or with zeros after it, so that an axis is n long. */
static weft_value *fitted(weft_value *x, int axis, int64_t n) {
    int64_t own = weft_dim(x, axis);
    return own > n ? weft_slice(x, axis, 0, n) : own < n ? weft_pad(x, axis, 0, n - own) : x;
}

/* x[..., parts] along an axis that is not the last one, in f64: bins that cancel out are 0 to all digits. */
static weft_value *transformed(onnx_call *c, const fourier *f, weft_value *x, int axis) {
    weft_dtype dtype = weft_value_dtype(x);
    int last = weft_ndim(x) - 1, parts = (int)weft_dim(x, last);
    weft_value *part[2], *y[2];
    x = fitted(weft_cast(x, WEFT_F64), axis, f->in);
    for (int i = 0; i < parts; i++)
        part[i] = weft_transpose(weft_squeeze(weft_slice(x, last, i, i + 1), last), axis, last - 1);
    weft_value *all = parts == 2 ? weft_concat(2, part, last - 1) : part[0];
    int made = f->inverse && f->is_half ? 1 : 2;
    for (int i = 0; i < made; i++)
        y[i] = weft_transpose(weft_matmul(all, matrix(c, f, parts, i), false, false), axis, last - 1);
    weft_value *result = weft_stack(made, y, last);
    return weft_cast(result, dtype);
}

static bool is_signal(onnx_call *c, weft_value *x) {
    int n = weft_ndim(x);
    int64_t parts = n > 1 ? weft_dim(x, n - 1) : 0;
    return parts == 1 || parts == 2 ||
           onnx_refuse(c, "its last axis must be 1 or 2 long: real and imaginary parts");
}

static bool is_length(onnx_call *c, int64_t n) {
    return (n >= 1 && n <= LONGEST) ||
           onnx_refuse(c, "a transform of length %jd; 1 to %d are taken", n, LONGEST);
}

static weft_value *dft(onnx_call *c, int64_t at) {
    int axis;
    int64_t own[WEFT_MAX_NDIM];
    weft_value *x = onnx_in(c, 0);
    fourier f = {.inverse = onnx_int(c, "inverse", 0), .is_half = onnx_int(c, "onesided", 0)};
    if (!x || c->in->error->status || !is_signal(c, x) || !onnx_axis_of(c, at, weft_ndim(x), &axis))
        return NULL;
    if (axis == weft_ndim(x) - 1) return onnx_refuse(c, "its axis is that of real and imaginary parts");
    onnx_shape_of(c, 0, own);
    if (own[axis] < 0) return onnx_refuse(c, "its axis is the batch, or depends on it");
    if (f.is_half && (weft_dim(x, weft_ndim(x) - 1) == 2) != f.inverse)
        return onnx_refuse(c, "onesided: a real signal is transformed, and its bins back");
    f.n = onnx_integer(c, 1, f.inverse && f.is_half ? 2 * (own[axis] - 1) : own[axis]);
    if (c->in->error->status || !is_length(c, f.n)) return NULL;
    f.in = f.inverse && f.is_half ? f.n / 2 + 1 : f.n;
    f.out = !f.inverse && f.is_half ? f.n / 2 + 1 : f.n;
    return transformed(c, &f, x, axis);
}

weft_value *onnx_build_dft_17(onnx_call *c) {
    return dft(c, onnx_int(c, "axis", 1));
}

weft_value *onnx_build_dft(onnx_call *c) {
    return dft(c, onnx_integer(c, 2, -2));
}

/* Frames of signal[B, T, parts], each times the window, and transformed: [B, frames, bins, 2]. */
weft_value *onnx_build_stft(onnx_call *c) {
    enum { SIGNAL, STEP, WINDOW, LENGTH, MOST_FRAMES = 4096 };
    int64_t own[WEFT_MAX_NDIM];
    weft_value *x = onnx_in(c, SIGNAL), *window = onnx_in(c, WINDOW);
    int64_t step = onnx_integer(c, STEP, 0);
    fourier f = {.is_half = onnx_int(c, "onesided", 1)};
    if (!x || c->in->error->status || !is_signal(c, x)) return NULL;
    f.n = f.in = onnx_integer(c, LENGTH, window ? weft_dim(window, 0) : 0);
    f.out = f.is_half ? f.n / 2 + 1 : f.n;
    onnx_shape_of(c, SIGNAL, own);
    if (c->in->error->status || !is_length(c, f.n)) return NULL;
    if (weft_ndim(x) != 3 || own[1] < f.n || step < 1 || (window && weft_dim(window, 0) != f.n))
        return onnx_refuse(c, "frames of %jd numbers, a step of %jd, and a signal of %jd", f.n, step, own[1]);
    if (f.is_half && own[2] == 2) return onnx_refuse(c, "onesided: the signal must be real");
    int64_t frames = (own[1] - f.n) / step + 1;
    if (frames > MOST_FRAMES) return onnx_refuse(c, "%jd frames; %d are the most", frames, MOST_FRAMES);
    weft_value **frame = kit_take(c->in->arena, (size_t)frames, sizeof *frame);
    if (!frame) return kit_no_memory(c->in->error, "STFT"), NULL;
    for (int64_t i = 0; i < frames; i++) frame[i] = weft_slice(x, 1, i * step, i * step + f.n);
    weft_value *all = weft_stack((int)frames, frame, 1);
    if (window) all = weft_mul(all, weft_unsqueeze(window, 1));
    return transformed(c, &f, all, 2);
}
