/* update.cu - optimizer steps over flat buffers at the speed of memory: one launch for each bucket, every
 * buffer read and written once. Learning rate, step and scale are read from the GPU's memory, so that replays
 * of a captured run follow them. Compiled without fused multiply-add (CMakeLists.txt): the bits of an element
 * do not depend on its position in the buffer, which ZeRO's shards need, and they are the CPU's. */
#include "ops/cuda/optimizer/update.cuh"

/* A skipped step (a scale below 0) leaves p as it is; the result is then a copy of p. */
template <int N, class R> __device__ static inline void keep(const R *p, R *out, int64_t i) {
    if (out != p) store<N>(out + i, load<N>(p + i));
}

/* What a schedule multiplies a number by; 1 without a schedule. */
__device__ static inline double factor(const double *scheduled) {
    return scheduled ? *scheduled : 1.0;
}

/* ---- sgd: formulas in ops/optimizer/sgd_update.c ---- */

template <class R> struct sgd_step {
    using real = R;
    /* Computed once for each block. */
    struct numbers {
        R lr, scale, momentum, decay;
        bool is_first, is_skipped;
    };
    R *p, *buf, *out;
    const R *g;
    const double *lr, *step, *scale, *momentum_factor, *decay_factor;
    double lr_scale, momentum, decay;
    R enters; /* enters: the share of the gradient that enters the buffer, 1 - dampening */
    bool nesterov;

    __device__ numbers prepare() const {
        numbers s;
        s.lr = (R)(*lr * lr_scale);
        s.scale = (R)(scale ? *scale : 1.0);
        s.momentum = (R)(momentum * factor(momentum_factor));
        s.decay = (R)(decay * factor(decay_factor));
        s.is_first = !step || *step <= 1;
        s.is_skipped = s.scale < 0;
        return s;
    }
    /* d: the gradient with weight decay; becomes the direction of the step. On the first step the buffer
     * becomes d, whatever it held. */
    template <int N> __device__ void move(const numbers &s, int64_t i, vector_of<R, N> &d) const {
        vector_of<R, N> b = d;
        if (!s.is_first) {
            b = load<N>(buf + i);
            UNROLL for (int k = 0; k < N; k++) b.v[k] = s.momentum * b.v[k] + enters * d.v[k];
        }
        store<N>(buf + i, b);
        R moved = s.is_first ? R(1) + s.momentum : s.momentum, straight = s.is_first ? R(0) : R(1);
        UNROLL for (int k = 0; k < N; k++) d.v[k] = nesterov ? straight * d.v[k] + moved * b.v[k] : b.v[k];
    }
    template <int N> __device__ void run(const numbers &s, int64_t i) const {
        if (s.is_skipped) return keep<N>(p, out, i);
        vector_of<R, N> w = load<N>(p + i), d = load<N>(g + i);
        UNROLL for (int k = 0; k < N; k++) d.v[k] = s.scale * d.v[k] + s.decay * w.v[k];
        if (momentum != 0) move<N>(s, i, d);
        UNROLL for (int k = 0; k < N; k++) w.v[k] -= s.lr * d.v[k];
        store<N>(p + i, w);
        /* the same memory in a session */
        if (out != p) store<N>(out + i, w);
    }
};

/* The operands by position, as ops/optimizer/update.h lists them. */
template <class R> static weft_status sgd_launch(const kernel_call *c) {
    enum { P, G, BUF, LR, STEP, SCALE, MOMENTUM, DECAY };
    const sgd_update_attrs *a = static_cast<const sgd_update_attrs *>(c->attrs);
    sgd_step<R> s = {};
    s.p = flat<R>(&c->in[P]);
    s.g = flat<R>(&c->in[G]);
    s.buf = flat<R>(&c->in[BUF]);
    s.out = flat<R>(&c->out[0]);
    s.lr = scalar_at(c, LR);
    s.step = scalar_at(c, STEP);
    s.scale = scalar_at(c, SCALE);
    s.lr_scale = a->lr_scale;
    s.momentum_factor = scalar_at(c, MOMENTUM);
    s.decay_factor = scalar_at(c, DECAY);
    s.momentum = a->momentum;
    s.enters = (R)(1 - a->dampening);
    s.decay = a->weight_decay;
    s.nesterov = a->nesterov;
    const void *buffers[] = {s.p, s.g, s.out, a->momentum != 0 ? s.buf : s.p};
    return update_launch(c, s, buffers, 4);
}

extern "C" weft_status cuda_sgd_update_run(void *, const kernel_call *c) {
    return with_real(c, [&](auto zero) { return sgd_launch<decltype(zero)>(c); });
}

/* ---- adam: formulas in ops/optimizer/adam_update.c ---- */

template <class R> struct adam_step {
    using real = R;
    struct numbers {
        /* shrink: for decoupled decay; rate, unroot: with the bias corrections of m and of sqrt(v) */
        R scale, shrink, rate, unroot;
        R decay, keep1; /* keep1: 1 - beta1 */
        bool is_skipped;
    };
    R *p, *m, *v, *out;
    const R *g;
    const double *lr, *step, *scale, *momentum_factor, *decay_factor;
    double lr_scale, beta1, beta2, weight_decay;
    bool decoupled;
    R second, keep2, eps; /* second: beta2; keep2: 1 - beta2 */

    __device__ numbers prepare() const {
        /* powers and corrections in f64, once for each block */
        double rate = *lr * lr_scale, t = *step;
        double first = beta1 * factor(momentum_factor), shrinks = weight_decay * factor(decay_factor);
        numbers s;
        s.scale = (R)(scale ? *scale : 1.0);
        s.shrink = decoupled ? (R)(1 - rate * shrinks) : R(1);
        s.decay = decoupled ? R(0) : (R)shrinks;
        s.keep1 = (R)(1 - first);
        s.rate = (R)(rate / (1 - pow(first, t)));
        s.unroot = (R)(1 / sqrt(1 - pow(beta2, t)));
        s.is_skipped = s.scale < 0;
        return s;
    }
    template <int N> __device__ void run(const numbers &s, int64_t i) const {
        if (s.is_skipped) return keep<N>(p, out, i);
        vector_of<R, N> w = load<N>(p + i), d = load<N>(g + i), mi = load<N>(m + i), vi = load<N>(v + i);
        UNROLL for (int k = 0; k < N; k++) {
            R grad = s.scale * d.v[k] + s.decay * w.v[k];
            mi.v[k] = mi.v[k] + s.keep1 * (grad - mi.v[k]);
            vi.v[k] = second * vi.v[k] + keep2 * grad * grad;
            w.v[k] = w.v[k] * s.shrink - s.rate * mi.v[k] / (root(vi.v[k]) * s.unroot + eps);
        }
        store<N>(m + i, mi);
        store<N>(v + i, vi);
        store<N>(p + i, w);
        if (out != p) store<N>(out + i, w);
    }
};

template <class R> static weft_status adam_launch(const kernel_call *c) {
    enum { P, G, M, V, LR, STEP, SCALE, MOMENTUM, DECAY };
    const adam_update_attrs *a = static_cast<const adam_update_attrs *>(c->attrs);
    adam_step<R> s = {};
    s.p = flat<R>(&c->in[P]);
    s.g = flat<R>(&c->in[G]);
    s.m = flat<R>(&c->in[M]);
    s.v = flat<R>(&c->in[V]);
    s.out = flat<R>(&c->out[0]);
    s.lr = scalar_at(c, LR);
    s.step = scalar_at(c, STEP);
    s.scale = scalar_at(c, SCALE);
    s.momentum_factor = scalar_at(c, MOMENTUM);
    s.decay_factor = scalar_at(c, DECAY);
    s.lr_scale = a->lr_scale;
    s.beta1 = a->beta1;
    s.beta2 = a->beta2;
    s.weight_decay = a->weight_decay;
    s.decoupled = a->decoupled;
    s.second = (R)a->beta2;
    s.keep2 = (R)(1 - a->beta2);
    s.eps = (R)a->eps;
    const void *buffers[] = {s.p, s.g, s.m, s.v, s.out};
    return update_launch(c, s, buffers, 5);
}

extern "C" weft_status cuda_adam_update_run(void *, const kernel_call *c) {
    return with_real(c, [&](auto zero) { return adam_launch<decltype(zero)>(c); });
}

/* ---- renew: a copy ---- */

template <class R> struct renew_step {
    using real = R;
    struct numbers {};
    R *p, *out;
    const R *from;

    __device__ numbers prepare() const {
        return {};
    }
    template <int N> __device__ void run(const numbers &, int64_t i) const {
        vector_of<R, N> v = load<N>(from + i);
        store<N>(p + i, v);
        /* the same memory in a session */
        if (out != p) store<N>(out + i, v);
    }
};

/* Operand 1, the gradient, is not read. */
template <class R> static weft_status renew_launch(const kernel_call *c) {
    renew_step<R> s = {};
    s.p = flat<R>(&c->in[0]);
    s.from = flat<R>(&c->in[2]);
    s.out = flat<R>(&c->out[0]);
    const void *buffers[] = {s.p, s.from, s.out};
    return s.p == s.from && s.p == s.out ? WEFT_OK : update_launch(c, s, buffers, 3);
}

extern "C" weft_status cuda_renew_run(void *, const kernel_call *c) {
    return with_real(c, [&](auto zero) { return renew_launch<decltype(zero)>(c); });
}

/* ---- accumulate: the binary tree of ops/optimizer/accumulate.c, each element in registers ---- */

enum { LEVELS = 21 }; /* of at most 2^20 micro-batches */

template <class R> struct accumulate_step {
    using real = R;
    struct numbers {
        int64_t local; /* number of this micro-batch in the step */
        int top;       /* the highest level in use after this run */
    };
    R *level[LEVELS], *out; /* level[l]: a sum of 2^l micro-batches that waits for its neighbour */
    const R *g;             /* nullptr: the last micro-batch has been added before */
    const run_state *run_numbers;
    int64_t of;
    int levels;
    bool last;

    __device__ numbers prepare() const {
        numbers s;
        s.local = run_numbers->local < of ? run_numbers->local : of - 1;
        for (s.top = 0; (s.local + 1) >> (s.top + 1); s.top++) {
        }
        return s;
    }
    template <int N> __device__ static void add(vector_of<R, N> &to, const vector_of<R, N> &more) {
        UNROLL for (int k = 0; k < N; k++) to.v[k] = to.v[k] + more.v[k];
    }
    /* Full levels are added to the new gradient, as in binary counting; the last micro-batch also adds all
     * levels that are in use, the highest first. */
    template <int N> __device__ void run(const numbers &s, int64_t i) const {
        if (g) {
            vector_of<R, N> carry = load<N>(g + i);
            int l = 0;
            for (; s.local >> l & 1; l++) add<N>(carry, load<N>(level[l] + i));
            store<N>(level[l] + i, carry);
        }
        vector_of<R, N> total = load<N>(level[levels - 1] + i);
        if (last) {
            total = load<N>(level[s.top] + i);
            for (int k = s.top - 1; k >= 0; k--)
                if ((s.local + 1) >> k & 1) add<N>(total, load<N>(level[k] + i));
            store<N>(level[levels - 1] + i, total);
        }
        if (out != level[levels - 1]) store<N>(out + i, total);
    }
};

/* Operands: the levels from the top down, then the new gradient, if there is one. */
template <class R> static weft_status accumulate_launch(const kernel_call *c) {
    const accumulate_attrs *a = static_cast<const accumulate_attrs *>(c->attrs);
    accumulate_step<R> s = {};
    const void *buffers[LEVELS + 2];
    s.levels = accumulate_levels(a->of);
    /* `of` is at most 2^20 */
    if (s.levels > LEVELS) return WEFT_INTERNAL;
    for (int l = 0; l < s.levels; l++) {
        s.level[l] = flat<R>(&c->in[s.levels - 1 - l]);
        buffers[l] = s.level[l];
    }
    s.g = c->n_in > s.levels ? flat<R>(&c->in[s.levels]) : nullptr;
    s.out = flat<R>(&c->out[0]);
    s.run_numbers = c->run;
    s.of = a->of;
    s.last = a->last;
    buffers[s.levels] = s.out;
    buffers[s.levels + 1] = s.g;
    return update_launch(c, s, buffers, s.levels + (s.g ? 2 : 1));
}

extern "C" weft_status cuda_accumulate_run(void *, const kernel_call *c) {
    return with_real(c, [&](auto zero) { return accumulate_launch<decltype(zero)>(c); });
}
