/* rotary.cu - a thread has a pair of columns of one row, whose angle it computes once, in f64, and rotates it
 * in some heads; columns that are not rotated are threads of their own. */
#include "ops/cuda/kit/vectors.cuh"

extern "C" {
#include "ops/attention/rotary.h"
}

/* 2^20 heads (rotary.c) are 65,536 blocks of 16, one more than a grid may have: so 32. */
enum { THREADS = 128, HEADS = 32 };

struct rotary_shape {
    int axes;                                                    /* before the last two */
    int64_t heads, length[WEFT_MAX_NDIM], stride[WEFT_MAX_NDIM]; /* of x; the last two strides follow */
    int64_t row, column;
    int rows, columns, pairs;
    double log2_base;
    int64_t offset;
    bool interleaved, inverse;

    /* The first element of a head of x. */
    __device__ int64_t head_at(int64_t head) const {
        int64_t at = 0;
        for (int i = axes - 1; i >= 0; i--) {
            at += head % length[i] * stride[i];
            head /= length[i];
        }
        return at;
    }
};

static rotary_shape rotary_shape_of(const kernel_call *c) {
    const rotary_attrs *a = static_cast<const rotary_attrs *>(c->attrs);
    const tensor *x = &c->in[0];
    rotary_shape z = {};
    z.axes = x->type.ndim - 2;
    z.heads = 1;
    for (int i = 0; i < z.axes; i++) {
        z.length[i] = x->type.shape[i];
        z.stride[i] = x->stride[i];
        z.heads *= z.length[i];
    }
    z.row = x->stride[z.axes];
    z.column = x->stride[z.axes + 1];
    z.rows = (int)x->type.shape[z.axes];
    z.columns = (int)x->type.shape[z.axes + 1];
    z.pairs = (int)rotary_pairs(a, z.columns);
    z.log2_base = log2(a->base);
    z.offset = a->offset;
    z.interleaved = a->interleaved;
    z.inverse = a->inverse;
    return z;
}

/* cos and sin of pair i of row t. Whole turns are taken off in f64, the rest is in [-pi, pi]. */
__device__ static inline void rotary_angle(const rotary_shape &z, int t, int i, float *c, float *s) {
    constexpr double PI2 = 6.283185307179586;
    double turns = (double)(z.offset + t) * exp2(-z.log2_base * i / z.pairs) / PI2;
    float angle = (float)((turns - rint(turns)) * PI2);
    *c = cosf(angle);
    *s = z.inverse ? -sinf(angle) : sinf(angle);
}

/* Block (x, y): THREADS pairs of rows and columns, of HEADS heads. x and y may be the same memory. */
template <class T> __global__ void __launch_bounds__(THREADS) rotate(rotary_shape z, const T *x, T *y) {
    int places = z.columns - z.pairs, id = (int)(blockIdx.x * THREADS + threadIdx.x), i = id % places;
    int t = id / places, a = i, b = i + z.pairs;
    if (t >= z.rows) return;
    bool is_pair = i < z.pairs;
    float c = 1, s = 0;
    if (is_pair) rotary_angle(z, t, i, &c, &s);
    if (!is_pair) a = b;
    if (is_pair && z.interleaved) {
        a = 2 * i;
        b = a + 1;
    }
    int64_t head = (int64_t)blockIdx.y * HEADS, past = head + HEADS < z.heads ? head + HEADS : z.heads;
    for (; head < past; head++) {
        const T *from = x + z.head_at(head) + t * z.row;
        T *to = y + (head * z.rows + t) * z.columns;
        float p = to_float(from[a * z.column]), q = to_float(from[b * z.column]);
        to[a] = from_float<T>(is_pair ? p * c - q * s : p);
        if (is_pair) to[b] = from_float<T>(q * c + p * s);
    }
}

extern "C" weft_status cuda_rotary_run(void *, const kernel_call *c) {
    rotary_shape z = rotary_shape_of(c);
    int64_t places = (int64_t)z.rows * (z.columns - z.pairs);
    dim3 blocks((unsigned)((places + THREADS - 1) / THREADS), (unsigned)((z.heads + HEADS - 1) / HEADS));
    return with_float(c, c->in[0].type.dtype, [&](auto zero) {
        using T = decltype(zero);
        return launch(c, rotate<T>, blocks, dim3(THREADS), 0, z, static_cast<const T *>(c->in[0].data),
                      static_cast<T *>(c->out[0].data));
    });
}
