/* audio.c - windows over samples, and weights that gather the frequencies of a spectrum into mels. */
#include "interchange/onnx/operators/families.h"
#include "interchange/onnx/import/types.h"

#include <math.h>

static const double TURN = 6.283185307179586476925;

/* A constant of numbers that were computed as doubles. */
static weft_value *constant_of(onnx_call *c, int ndim, const int64_t *shape, const double *numbers) {
    weft_dtype dtype;
    if (!numbers || !onnx_dtype_of(c, "output_datatype", WEFT_F32, &dtype)) return NULL;
    return onnx_as(weft_constant_tensor(onnx_graph_of(c), WEFT_F64, ndim, shape, numbers), dtype);
}

/* ---- windows: a - b cos(t) + e cos(2 t) once around; one that is not periodic ends where it began ---- */

static weft_value *window(onnx_call *c, double a, double b, double e) {
    enum { MOST = 1 << 22 };
    int64_t n = onnx_integer(c, 0, 0), around = onnx_int(c, "periodic", 1) ? n : n - 1;
    if (c->in->error->status) return NULL;
    if (n < 0 || n > MOST) return onnx_refuse(c, "a window of %jd numbers; %d are the most", n, MOST);
    double *numbers = kit_take(c->in->arena, (size_t)n + 1, sizeof *numbers);
    for (int64_t i = 0; numbers && i < n; i++) {
        double t = TURN * (double)i / (double)around;
        numbers[i] = a - b * cos(t) + e * cos(2 * t);
    }
    return constant_of(c, 1, &n, numbers);
}

weft_value *onnx_build_hann_window(onnx_call *c) {
    return window(c, 0.5, 0.5, 0);
}

weft_value *onnx_build_hamming_window(onnx_call *c) {
    return window(c, 25.0 / 46, 21.0 / 46, 0);
}

weft_value *onnx_build_blackman_window(onnx_call *c) {
    return window(c, 0.42, 0.5, 0.08);
}

/* ---- mels ---- */

static double mel_of(double hertz) {
    return 2595 * log10(1 + hertz / 700);
}

static double hertz_of(double mel) {
    return 700 * (pow(10, mel / 2595) - 1);
}

typedef struct mels {
    int64_t count, rows, length, rate;
    double low, high; /* mel */
} mels;

/* The row of the spectrum where edge i is: mels are equally far from one another. */
static int64_t edge(const mels *m, int64_t i) {
    double mel = m->low + (double)i * (m->high - m->low) / (double)(m->count + 2);
    return (int64_t)floor((double)(m->length + 1) * hertz_of(mel) / (double)m->rate);
}

/* A triangle from one edge over the next to the one after it. */
static bool triangle(onnx_call *c, const mels *m, int64_t i, double *weights) {
    int64_t left = edge(m, i), middle = edge(m, i + 1), right = edge(m, i + 2);
    if (left < 0 || middle >= m->rows || right > m->rows)
        return onnx_refuse(c, "a frequency is outside of the spectrum");
    if (left == middle) weights[middle * m->count + i] = 1;
    for (int64_t j = left; left < middle && j <= middle; j++)
        weights[j * m->count + i] = (double)(j - left) / (double)(middle - left);
    for (int64_t j = middle; j < right; j++)
        weights[j * m->count + i] = (double)(right - j) / (double)(right - middle);
    return true;
}

weft_value *onnx_build_mel_weight_matrix(onnx_call *c) {
    enum { MOST = 1 << 22 };
    mels m = {.count = onnx_integer(c, 0, 0), .length = onnx_integer(c, 1, 0), .rate = onnx_integer(c, 2, 0)};
    m.low = mel_of(onnx_number(c, 3, 0));
    m.high = mel_of(onnx_number(c, 4, 0));
    if (c->in->error->status) return NULL;
    if (m.count < 1 || m.length < 1 || m.rate < 1 || m.count > MOST || m.length > MOST ||
        m.count * (m.length / 2 + 1) > MOST)
        return onnx_refuse(c, "%jd mels of %jd samples at a rate of %jd", m.count, m.length, m.rate);
    m.rows = m.length / 2 + 1;
    double *weights = kit_take(c->in->arena, (size_t)(m.rows * m.count), sizeof *weights);
    for (int64_t i = 0; weights && i < m.count; i++)
        if (!triangle(c, &m, i, weights)) return NULL;
    return constant_of(c, 2, (int64_t[]){m.rows, m.count}, weights);
}
