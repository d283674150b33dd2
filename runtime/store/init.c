/* init.c - the first value of a variable, from the seed and its path alone: no pass, order or world changes
 * it. Gains and fans as in torch.nn.init: fan_in = shape[1] * window, fan_out = shape[0] * window. */
#include "runtime/store/init.h"

#include "ops/kit/philox.h"

#include <math.h>

/* fan_in (axis 1) or fan_out (axis 0): the axis times the convolution's window. */
static double fan(const tensor_type *t, int axis) {
    double n = (double)t->shape[axis];
    for (int i = 2; i < t->ndim; i++) n *= (double)t->shape[i];
    return n;
}

/* The bound of the uniform or the deviation of the normal distribution. init.a is the gain; 0: 1 for Xavier,
 * sqrt(2) for Kaiming. A vector has fans of 1. */
static double init_spread(const tensor_type *t, weft_init init) {
    double in = t->ndim > 1 ? fan(t, 1) : 1, out = t->ndim > 1 ? fan(t, 0) : 1;
    double xavier = (init.a == 0 ? 1 : init.a) / sqrt(in + out),
           kaiming = (init.a == 0 ? sqrt(2) : init.a) / sqrt(in);
    switch (init.kind) {
    case WEFT_INIT_XAVIER_UNIFORM:
        return xavier * sqrt(6);
    case WEFT_INIT_XAVIER_NORMAL:
        return xavier * sqrt(2);
    case WEFT_INIT_KAIMING_UNIFORM:
        return kaiming * sqrt(3);
    case WEFT_INIT_KAIMING_NORMAL:
        return kaiming;
    default:
        return init.b;
    }
}

/* The only filler for f64, which the optimizers' counters and learning rates are, and for i64. */
static void fill_constant(void *data, const tensor_type *t, double value) {
    int64_t n = type_elements(t);
    for (int64_t i = 0; i < n; i++) {
        if (t->dtype == WEFT_F64)
            ((double *)data)[i] = value;
        else if (t->dtype == WEFT_I64)
            ((int64_t *)data)[i] = (int64_t)value;
        else
            ((float *)data)[i] = (float)value;
    }
}

/* Uniform in [low, high): `below` is the largest f32 under high, for results that round up to it. */
static void fill_uniform(float *data, int64_t n, const philox_stream *s, double low, double high) {
    float below = nextafterf((float)high, (float)low);
    for (int64_t i = 0; i < n; i++)
        data[i] = philox_uniform(philox_word(s, (uint64_t)i), (float)low, (float)(high - low), below);
}

/* Philox gives four words at a time, and each pair of words two normal values (Box-Muller). */
static void fill_normal(float *data, int64_t n, const philox_stream *s, double mean, double std) {
    for (int64_t i = 0; i < n; i += 4) {
        uint32_t words[4];
        float z[4];
        philox_block(s, (uint64_t)i / 4, words);
        philox_normal_pair(words[0], words[1], &z[0], &z[1]);
        philox_normal_pair(words[2], words[3], &z[2], &z[3]);
        for (int64_t k = 0; k < 4 && i + k < n; k++) data[i + k] = (float)mean + (float)std * z[k];
    }
}

/* Element i always comes from word i of the variable's own stream. */
void init_fill(void *data, const tensor_type *t, const char *path, weft_init init, uint64_t seed) {
    run_state run = {.seed = seed};
    philox_stream s = philox_stream_of(&run, hash_text(path, 0));
    int64_t n = type_elements(t);
    double width = init_spread(t, init);
    switch (init.kind) {
    case WEFT_INIT_ZEROS:
        fill_constant(data, t, 0);
        return;
    case WEFT_INIT_ONES:
        fill_constant(data, t, 1);
        return;
    case WEFT_INIT_CONSTANT:
        fill_constant(data, t, init.a);
        return;
    case WEFT_INIT_UNIFORM:
        fill_uniform(data, n, &s, init.a, init.b);
        return;
    case WEFT_INIT_NORMAL:
        fill_normal(data, n, &s, init.a, init.b);
        return;
    case WEFT_INIT_XAVIER_UNIFORM:
    case WEFT_INIT_KAIMING_UNIFORM:
        fill_uniform(data, n, &s, -width, width);
        return;
    case WEFT_INIT_XAVIER_NORMAL:
    case WEFT_INIT_KAIMING_NORMAL:
        fill_normal(data, n, &s, 0, width);
        return;
    }
}
