/* gpu.c - see gpu.h: the context, copies of operands on the GPU, and one run of a kernel. */
#include "cuda/support/gpu.h"

#include "ops/cpu/isa.h"
#include "support/test.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef WEFT_CUDA_HOST
#include "cuda_host/cuda_host.h"
#endif

/* MAX_BLOCKS: operands and results of one node. ALIGNMENT: test_memory's. */
enum { MAX_BLOCKS = 64, ALIGNMENT = 64 };

/* A failed check with the runtime's text; returns whether the call succeeded. */
static bool works(cudaError_t result, const char *what) {
    return CHECK_SAYS(result == cudaSuccess, "%s: %s", what, cudaGetErrorString(result));
}

int gpu_missing(void) {
    enum { FAILED = 1, SKIPPED = 77 };
    int count = 0;
    cudaError_t result = cudaGetDeviceCount(&count);
    if (result == cudaSuccess && count > 0) return 0;
    bool is_needed = getenv("WEFT_NEEDS_GPU") != NULL;
    fprintf(stderr, "%s: there is no GPU here: %s\n",
            is_needed ? "failed, since WEFT_NEEDS_GPU is set" : "skipped",
            result == cudaSuccess ? "the driver lists none" : cudaGetErrorString(result));
    return is_needed ? FAILED : SKIPPED;
}

/* What a session's open does for its context (runtime/session/cuda), with one device. */
static bool context_fill(gpu *g) {
    struct cudaDeviceProp properties;
    cuda_context *c = &g->context;
    if (!works(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties")) return false;
    c->multiprocessors = properties.multiProcessorCount;
    c->capability = properties.major * 10 + properties.minor;
    c->programs = cuda_programs_new(NULL);
    bool good = CHECK(c->programs);
    good = good &&
           works(cudaStreamCreateWithFlags((cudaStream_t *)&c->stream, cudaStreamNonBlocking), "a stream");
    good = good && CHECK(cublasLtCreate((cublasLtHandle_t *)&c->blas) == CUBLAS_STATUS_SUCCESS);
    good = good && CHECK(cudnnCreate((cudnnHandle_t *)&c->dnn) == CUDNN_STATUS_SUCCESS);
    good = good && CHECK(cudnnSetStream(c->dnn, c->stream) == CUDNN_STATUS_SUCCESS);
    good = good && works(cudaMalloc((void **)&c->failure, sizeof *c->failure), "cudaMalloc");
    return good && works(cudaMalloc((void **)&g->run, sizeof *g->run), "cudaMalloc");
}

/* One context for the whole suite. */
gpu *gpu_open(void) {
    /* the same as kernel_run's for the CPU */
    static const run_state run = {.seed = 11, .step = 3, .micro = 1};
    gpu *g = test_memory(sizeof *g);
    if (!context_fill(g) ||
        !works(cudaMemcpy(g->run, &run, sizeof run, cudaMemcpyHostToDevice), "cudaMemcpy")) {
        gpu_close(g);
        return NULL;
    }
    g->env = (kernel_env){.isa = isa_best(), .threads = 1, .device = WEFT_DEVICE_CUDA, .cuda = &g->context};
    return g;
}

void gpu_close(gpu *g) {
    if (g->context.dnn) CHECK(cudnnDestroy(g->context.dnn) == CUDNN_STATUS_SUCCESS);
    if (g->context.blas) CHECK(cublasLtDestroy(g->context.blas) == CUBLAS_STATUS_SUCCESS);
    if (g->context.stream) works(cudaStreamDestroy(g->context.stream), "cudaStreamDestroy");
    cuda_programs_free(g->context.programs);
    works(cudaFree(g->context.failure), "cudaFree");
    works(cudaFree(g->run), "cudaFree");
    free(g);
}

/* ---- operands ---- */

/* Memory of the host and its copy on the GPU. Operands and results at one address share a twin. */
typedef struct twin {
    char *host, *device, *allocated;
    size_t bytes;
    bool is_read, is_written;
} twin;

typedef struct twins {
    int n;
    twin each[MAX_BLOCKS];
    tensor in[MAX_BLOCKS], out[MAX_BLOCKS];
} twins;

/* Bytes from the tensor's first element to the end of its last. */
static size_t span(const tensor *t) {
    int64_t last = 0;
    for (int i = 0; i < t->type.ndim; i++) last += (t->type.shape[i] - 1) * t->stride[i];
    return (size_t)(last + 1) * dtype_bytes(t->type.dtype);
}

static twin *twin_of(twins *w, const tensor *t) {
    for (int i = 0; i < w->n; i++)
        if (w->each[i].host == t->data) return &w->each[i];
    twin *made = &w->each[w->n++];
    *made = (twin){.host = t->data, .bytes = span(t)};
    /* as far from an aligned address as on the host: kernels choose by that */
    size_t shift = (uintptr_t)t->data % ALIGNMENT;
    /* elements that a run does not write stay NaN */
    bool good = works(cudaMalloc((void **)&made->allocated, shift + made->bytes), "cudaMalloc") &&
                works(cudaMemset(made->allocated, 0xff, shift + made->bytes), "cudaMemset");
    made->device = good ? made->allocated + shift : NULL;
    return good ? made : NULL;
}

/* *there = t with its data on the GPU. An operand that is absent (no data) needs no memory. Returns false
 * when the GPU's memory is out. */
static bool move(twins *w, const tensor *t, bool is_read, bool is_written, tensor *there) {
    *there = *t;
    if (!t->data) return true;
    twin *mine = twin_of(w, t);
    there->data = mine ? mine->device : NULL;
    if (!mine) return false;
    mine->is_read |= is_read;
    mine->is_written |= is_written;
    return true;
}

/* Copies operands to the GPU; one that the op updates in place counts as written. */
static bool send(twins *w, const weft_node *n, const tensor *in, const tensor *out) {
    for (int i = 0; i < n->n_in; i++)
        if (!move(w, &in[i], true, i < 32 && n->op->writes >> i & 1, &w->in[i])) return false;
    for (int k = 0; k < n->n_out; k++)
        if (!move(w, &out[k], false, true, &w->out[k])) return false;
    for (int i = 0; i < w->n; i++) {
        const twin *t = &w->each[i];
        if (t->is_read &&
            !works(cudaMemcpy(t->device, t->host, t->bytes, cudaMemcpyHostToDevice), "cudaMemcpy"))
            return false;
    }
    return true;
}

/* Copies everything back, and checks that the kernel did not write its operands. */
static void fetch(twins *w, const char *name) {
    for (int i = 0; i < w->n; i++) {
        const twin *t = &w->each[i];
        char *back = test_memory(t->bytes);
        if (!works(cudaMemcpy(back, t->device, t->bytes, cudaMemcpyDeviceToHost), "cudaMemcpy"))
            memset(back, 0xff, t->bytes);
        if (!t->is_written) CHECK_SAYS(memcmp(back, t->host, t->bytes) == 0, "%s writes operand %d", name, i);
        memcpy(t->host, back, t->bytes);
        free(back);
    }
}

/* Waits for the GPU; a value that broke the kernel's rule is an error, as at the end of a session's run. */
static weft_status outcome(const kernel_call *c, const weft_kernel *kernel) {
    cuda_failure failure = {0};
    cudaError_t result = cudaStreamSynchronize(c->cuda->stream);
    if (result == cudaSuccess)
        result = cudaMemcpy(&failure, c->cuda->failure, sizeof failure, cudaMemcpyDeviceToHost);
    if (result != cudaSuccess) return error_set(c->error, WEFT_DEVICE, "%s", cudaGetErrorString(result));
    if (!failure.order) return WEFT_OK;
    return error_set(c->error, WEFT_DATA, "value %lld: %s", (long long)failure.value,
                     kernel->data_rule ? kernel->data_rule : "(the row has no data_rule)");
}

/* A wrong program breaks a GPU for everything that follows; the emulated one can be repaired. */
static void mend(void) {
#ifdef WEFT_CUDA_HOST
    cuda_host_forget_trouble();
#endif
}

/* What the emulated GPU has run so far: kernels, copies and calls of libraries; 0 on a real one. */
static int64_t launches_so_far(void) {
#ifdef WEFT_CUDA_HOST
    cuda_host_counts c = cuda_host_count();
    return c.launches + c.copies + c.calls;
#else
    return 0;
#endif
}

/* The work that a plan expects of this kernel. Not of slices, which may begin where a library lacks an
 * epilogue: then a launch follows the product. */
static void check_work(weft_node *n, const weft_kernel *kernel, int64_t launched) {
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->base) return;
    const weft_kernel *own = n->kernel;
    n->kernel = kernel;
    node_work w = node_work_of(n);
    n->kernel = own;
    CHECK_SAYS(launched == w.launches, "%s by %s: %lld launches, not %d", n->op->name, kernel->name,
               (long long)launched, w.launches);
}

/* Every operand gets memory exactly as long as it is, so that a write past its end is found. */
weft_status gpu_run(weft_node *n, const weft_kernel *kernel, const kernel_env *env, const tensor *in,
                    const tensor *out, weft_error *error) {
    twins w = {0};
    void *state = NULL, *workspace = NULL;
    /* the context is the first member of gpu */
    const gpu *g = (const gpu *)env->cuda;
    size_t bytes = kernel->workspace ? kernel->workspace(n, env) : 0;
    weft_status status = kernel->open ? kernel->open(n, env, &state, error) : WEFT_OK;
    bool good =
        send(&w, n, in, out) && works(cudaMemset(g->context.failure, 0, sizeof(cuda_failure)), "cudaMemset");
    /* NaN, as all fresh memory is on the emulated GPU: what a kernel reads there it has written */
    if (good && bytes)
        good = works(cudaMalloc(&workspace, bytes), "cudaMalloc") &&
               works(cudaMemset(workspace, 0xff, bytes), "cudaMemset");
    kernel_call c = {.node = n,
                     .attrs = n->attrs,
                     .n_in = n->n_in,
                     .n_out = n->n_out,
                     .in = w.in,
                     .out = w.out,
                     .workspace = workspace,
                     .threads = 1,
                     .run = g->run,
                     .error = error,
                     .cuda = env->cuda};
    /* the stream does not wait for the copies, which are not its own */
    if (good && status == WEFT_OK) {
        works(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        int64_t before = launches_so_far();
        status = kernel->run(state, &c);
        cudaStreamSynchronize(g->context.stream);
        if (g->expects_work && status == WEFT_OK) check_work(n, kernel, launches_so_far() - before);
        weft_status end = outcome(&c, kernel);
        status = status == WEFT_OK ? end : status;
        if (status == WEFT_OK) fetch(&w, n->op->name);
    }
    if (kernel->close) kernel->close(state);
    mend();
    works(cudaFree(workspace), "cudaFree");
    for (int i = 0; i < w.n; i++) works(cudaFree(w.each[i].allocated), "cudaFree");
    return good ? status : error_set(error, WEFT_DEVICE, "the GPU's memory");
}
