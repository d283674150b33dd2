/* guard.cu - what decides that a step is bad. Formulas in ops/optimizer/guard.c; the bits are the CPU's: all
 * is f64, and what is added are multiples of 2^-16. A thread for each loss. */
#include "ops/cuda/kit/kernel.cuh"
#include "ops/cuda/kit/parts.h"

extern "C" {
#include "ops/optimizer/update.h"
}

#include <math.h>

/* The losses from number `begin` on that one launch takes. */
struct guard_losses {
    int64_t begin, losses, count; /* numbers from `losses` on to `count` have no loss here */
    double factor;
    const cuda_failure *failure;
    int order; /* of the guard itself */
    struct {
        const void *loss;
        weft_dtype dtype;
        const double *mean; /* NULL: none, spikes are good */
    } at[NORM_PARTS];
};

__device__ static double loss_at(const void *loss, weft_dtype dtype) {
    switch (dtype) {
    case WEFT_F64:
        return *static_cast<const double *>(loss);
    case WEFT_BF16:
        return to_float(*static_cast<const __nv_bfloat16 *>(loss));
    case WEFT_F16:
        return to_float(*static_cast<const __half *>(loss));
    default:
        return *static_cast<const float *>(loss);
    }
}

__device__ static double size_of(double loss) {
    const double unit = 65536, most = 16777216;
    return isfinite(loss) ? rint(fmin(fabs(loss), most) * unit) / unit : 0;
}

/* A value has broken a kernel's rule in this run, before the losses: all of them are bad. */
__device__ static bool is_broken(const guard_losses &g) {
    const cuda_failure *f = g.failure;
    return f->order && f->order <= g.order && f->program == f->running;
}

/* flags [count], and with a factor sums of sizes [count] after them. */
__global__ void __launch_bounds__(NORM_PARTS)
    flags_of_losses(guard_losses g, const run_state *run, double *flags) {
    int64_t i = g.begin + threadIdx.x;
    const double *carried = run->carried;
    if (i >= g.count) return;
    bool is_here = i < g.losses;
    double loss = is_here ? loss_at(g.at[threadIdx.x].loss, g.at[threadIdx.x].dtype) : 0;
    double mean = is_here && g.at[threadIdx.x].mean ? *g.at[threadIdx.x].mean : -1;
    bool is_bad = !isfinite(loss) || (mean >= 0 && fabs(loss) > g.factor * mean) || is_broken(g);
    flags[i] = (is_bad ? 1 : 0) + (carried ? carried[i] : 0);
    if (g.factor > 0) flags[g.count + i] = size_of(loss) + (carried ? carried[g.count + i] : 0);
}

extern "C" weft_status cuda_guard_run(void *, const kernel_call *c) {
    const guard_attrs *a = static_cast<const guard_attrs *>(c->attrs);
    weft_status status = WEFT_OK;
    for (int64_t begin = 0; begin < a->count && status == WEFT_OK; begin += NORM_PARTS) {
        guard_losses g = {begin, a->losses, a->count, a->factor, c->cuda->failure, c->node->order, {}};
        for (int k = 0; k < NORM_PARTS && begin + k < a->losses; k++) {
            const tensor *loss = &c->in[begin + k];
            g.at[k].loss = loss->data;
            g.at[k].dtype = loss->type.dtype;
            if (a->factor > 0) g.at[k].mean = static_cast<const double *>(c->in[a->losses + begin + k].data);
        }
        status = launch(c, flags_of_losses, dim3(1), dim3(NORM_PARTS), 0, g, c->run,
                        static_cast<double *>(c->out[0].data));
    }
    return status;
}

/* ---- gate ---- */

struct gate_norms {
    int64_t begin, count;
    const double *norm[NORM_PARTS]; /* NULL: none */
};

/* flags [count at least], norms [] -> flags [count] */
__global__ void __launch_bounds__(NORM_PARTS) add_norms(gate_norms g, const double *flags, double *out) {
    int64_t i = g.begin + threadIdx.x;
    const double *norm = g.norm[threadIdx.x];
    if (i < g.count) out[i] = flags[i] + (norm && !isfinite(*norm) ? 1 : 0);
}

extern "C" weft_status cuda_gate_run(void *, const kernel_call *c) {
    const guard_attrs *a = static_cast<const guard_attrs *>(c->attrs);
    weft_status status = WEFT_OK;
    for (int64_t begin = 0; begin < a->count && status == WEFT_OK; begin += NORM_PARTS) {
        gate_norms g = {begin, a->count, {}};
        for (int k = 0; k < NORM_PARTS && begin + k + 1 < c->n_in; k++)
            g.norm[k] = static_cast<const double *>(c->in[begin + k + 1].data);
        status = launch(c, add_norms, dim3(1), dim3(NORM_PARTS), 0, g,
                        static_cast<const double *>(c->in[0].data), static_cast<double *>(c->out[0].data));
    }
    return status;
}

/* ---- guard_mean ---- */

__global__ void move_mean(const double *sum, double parts, const double *mean, double *next) {
    double now = *sum / parts;
    *next = *mean < 0 ? now : *mean + (now - *mean) / GUARD_WARMTH;
}

extern "C" weft_status cuda_guard_mean_run(void *, const kernel_call *c) {
    const guard_mean_attrs *a = static_cast<const guard_mean_attrs *>(c->attrs);
    return launch(c, move_mean, dim3(1), dim3(1), 0, static_cast<const double *>(c->in[0].data) + a->index,
                  (double)a->parts, static_cast<const double *>(c->in[1].data),
                  static_cast<double *>(c->out[0].data));
}
