/* dnn_tune.cu - times cuDNN's engines for a convolution, on memory of its own, for `graphtool calibrate`.
 * Each is opened from its text, as a session with the table will be: what cannot be opened again is not
 * chosen. */
#include "ops/cuda/dnn/dnn.cuh"
#include "ops/cuda/kit/timing.cuh"

#include <stdlib.h>
#include <string.h>

/* PyTorch's cudnn.benchmark tries 10 engines; building a plan may take longer than timing it. */
enum { ENGINES = 16, PLACE = 256 /* alignment of the buffers in bytes */ };

/* One convolution's buffers, all within `memory` on the GPU. */
typedef struct trial {
    char *memory;
    size_t bytes;
    dnn_buffers at;
} trial;

/* Numbers near 0.01 in bf16 and f32, near 1 in f16: zeros draw less power, so the GPU would clock higher than
 * with real data. */
static weft_status trial_open(const dnn_conv *what, cudaStream_t stream, trial *t, weft_error *error) {
    size_t big = size_align(type_bytes(&what->big.type), PLACE),
           small = size_align(type_bytes(&what->small.type), PLACE),
           weight = size_align(type_bytes(&what->weight.type), PLACE);
    t->bytes = big + small + weight + what->workspace_bytes;
    cudaError_t result = cudaMalloc((void **)&t->memory, t->bytes);
    if (result == cudaSuccess) result = cudaMemsetAsync(t->memory, 0x3c, t->bytes, stream);
    if (result != cudaSuccess)
        return error_set(error, result == cudaErrorMemoryAllocation ? WEFT_MEMORY : WEFT_DEVICE,
                         "calibrate: %zu bytes for a convolution: %s", t->bytes, cudaGetErrorString(result));
    char *at = t->memory;
    t->at = {at, at + big, at + big + small, at + big + small + weight};
    return WEFT_OK;
}

/* Times the engine of this text; one that cannot be opened, or that fails, is not a way: *why tells. */
static bool is_fastest(const dnn_conv *what, const kernel_env *env, const char *name, const trial *t,
                       timing *clock, weft_error *why) {
    dnn *d;
    if (dnn_new_exactly(what, env, name, &d, why) != WEFT_OK) return false;
    bool is_best = timing_way(clock, [&] { return dnn_run(d, env->cuda, &t->at, why) == WEFT_OK; });
    cudaStreamSynchronize(clock->stream); /* the plan must outlive its runs */
    dnn_free(d);
    return is_best;
}

/* Goes through `names`, a line for each engine, and keeps the fastest. */
static weft_status time_all(const dnn_conv *what, const kernel_env *env, char *names, const trial *t,
                            timing *clock, tuned *found, weft_error *error) {
    const char *best = NULL;
    weft_error why = {};
    char *rest = NULL, *line = strtok_r(names, "\n", &rest);
    for (int n = 0; line && n < ENGINES; line = strtok_r(NULL, "\n", &rest), n++)
        if (is_fastest(what, env, line, t, clock, &why)) best = line;
    found->ms = clock->best;
    found->ways = clock->ways;
    found->dropped = clock->dropped;
    if (!best)
        return error_set(error, why.status == WEFT_MEMORY ? WEFT_MEMORY : WEFT_UNSUPPORTED,
                         "cuDNN: none of its engines runs a convolution%s%.600s", *why.text ? ": " : "",
                         why.text);
    text_add(&found->choice, "%s", best);
    return WEFT_OK;
}

weft_status dnn_tune(const dnn_conv *what, const kernel_env *env, tuned *found, weft_error *error) {
    trial t = {};
    timing clock = {};
    text list = {};
    weft_status status = dnn_engines(what, env, &list, &found->skipped, error);
    char *names = text_detach(&list);
    if (status == WEFT_OK && !names) status = error_memory(error, "calibrate");
    cudaStream_t stream = (cudaStream_t)env->cuda->stream;
    if (status == WEFT_OK) status = trial_open(what, stream, &t, error);
    if (status == WEFT_OK && timing_open(&clock, stream) != cudaSuccess)
        status = error_set(error, WEFT_DEVICE, "calibrate: CUDA makes no events");
    if (status == WEFT_OK) status = time_all(what, env, names, &t, &clock, found, error);
    timing_close(&clock);
    if (t.memory) cudaFree(t.memory);
    free(names);
    return timing_status(status, stream, error);
}
