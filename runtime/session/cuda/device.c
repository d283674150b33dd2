/* device.c - a GPU's memory and its selection, as runtime/store/device.h asks for them. */
#include "runtime/session/cuda/session.h"

#include <string.h>

/* CUDA calls a driver that is not there too old: its version is 0. */
static const char *words_of(cudaError_t result) {
    int version = 0;
    if (result != cudaErrorInsufficientDriver) return cudaGetErrorString(result);
    bool is_there = cudaDriverGetVersion(&version) == cudaSuccess && version > 0;
    return is_there ? "the NVIDIA driver is older than the CUDA of this build: update the driver"
                    : "no NVIDIA driver found: nvidia-smi shows one that works, and device cpu needs none";
}

weft_status cuda_fail(weft_error *error, cudaError_t result, const char *doing) {
    bool is_memory = result == cudaErrorMemoryAllocation;
    cudaGetLastError(); /* clears CUDA's record of it, or the next check would report it again */
    return error_set(error, is_memory ? WEFT_MEMORY : WEFT_DEVICE, "the GPU: %s: %s", doing,
                     words_of(result));
}

/* cudaMalloc aligns to at least 256 bytes. 0 bytes become 1, so that NULL always means failure. */
static void *cuda_alloc(const weft_env *env, size_t bytes, weft_error *error) {
    void *memory = NULL;
    cudaError_t result = cudaMalloc(&memory, bytes ? bytes : 1);
    if (result == cudaSuccess) return memory;
    error_set(error, result == cudaErrorMemoryAllocation ? WEFT_MEMORY : WEFT_DEVICE,
              "the GPU: %zu bytes could not be allocated: %s", bytes, words_of(result));
    cudaGetLastError();
    return NULL;
}

static void cuda_free(const weft_env *env, void *memory, size_t bytes) {
    cudaFree(memory);
}

/* A session that captures in another thread is waited for first. */
static cudaError_t wait_for(const device_work *work) {
    cudaError_t result = cudaSuccess;
    cuda_captures_hold(work->index);
    for (int i = 0; i < DEVICE_QUEUES && result == cudaSuccess; i++)
        result = cudaStreamSynchronize((cudaStream_t)work->queues[i]);
    cuda_captures_release(work->index);
    return result;
}

/* Waits for the sessions' streams only, and copies on the calling thread's own stream: neither breaks the
 * capture of a session in another thread, as cudaDeviceSynchronize would, and cudaMemcpy where somebody
 * captures a blocking stream. */
static weft_status copy(const device_work *after, void *to, const void *from, size_t bytes,
                        enum cudaMemcpyKind kind, weft_error *error) {
    for (; after; after = after->next) CUDA_TRY(wait_for(after), "waiting for its work");
    CUDA_TRY(cudaMemcpyAsync(to, from, bytes, kind, cudaStreamPerThread), "copying");
    CUDA_TRY(cudaStreamSynchronize(cudaStreamPerThread), "copying");
    return WEFT_OK;
}

static weft_status read(const device_work *after, void *into, const void *from, size_t bytes,
                        weft_error *error) {
    return copy(after, into, from, bytes, cudaMemcpyDeviceToHost, error);
}

static weft_status write(const device_work *after, void *to, const void *from, size_t bytes,
                         weft_error *error) {
    return copy(after, to, from, bytes, cudaMemcpyHostToDevice, error);
}

/* Waits, since streams of sessions do not wait for the thread's. */
static weft_status clear(void *to, size_t bytes, weft_error *error) {
    CUDA_TRY(cudaMemsetAsync(to, 0, bytes, cudaStreamPerThread), "clearing");
    CUDA_TRY(cudaStreamSynchronize(cudaStreamPerThread), "clearing");
    return WEFT_OK;
}

/* What all processes have left of the GPU's memory. */
static weft_status room(size_t *left, size_t *all, weft_error *error) {
    CUDA_TRY(cudaMemGetInfo(left, all), "asking for its memory");
    return WEFT_OK;
}

/* ---- pinned memory ---- */

/* Whole pages, so any alignment that is asked for. Without pinned memory plain memory does, but slower;
 * whether there is a GPU is for stores to say. */
static void *pinned_alloc(void *context, size_t bytes, size_t alignment) {
    void *memory = NULL;
    if (cudaMallocHost(&memory, bytes) == cudaSuccess) return memory;
    cudaGetLastError();
    return mem_new(NULL, bytes);
}

static void pinned_free(void *context, void *memory, size_t bytes) {
    struct cudaPointerAttributes about = {0};
    bool is_pinned =
        cudaPointerGetAttributes(&about, memory) == cudaSuccess && about.type == cudaMemoryTypeHost;
    cudaGetLastError();
    if (is_pinned)
        cudaFreeHost(memory);
    else
        mem_free(NULL, memory, bytes);
}

static const weft_allocator pinned_memory = {.alloc = pinned_alloc, .free = pinned_free};

extern const executor executor_cuda; /* cuda/session.c */
const device device_cuda = {WEFT_DEVICE_CUDA, "cuda",        cuda_alloc, cuda_free, read, write, clear, room,
                            &pinned_memory,   &executor_cuda};

/* For the calling thread, as cudaSetDevice: before stores and sessions are made. */
weft_status weft_cuda_select(int index, weft_error *error) {
    int count = 0;
    cudaError_t result = cudaGetDeviceCount(&count);
    if (result != cudaSuccess || count == 0)
        return error_set(error, WEFT_DEVICE, "there is no GPU here: %s",
                         result == cudaSuccess ? "the driver lists none" : words_of(result));
    if (index < 0 || index >= count)
        return error_set(error, WEFT_ARGUMENT, "there is no GPU number %d: this machine has %d", index,
                         count);
    CUDA_TRY(cudaSetDevice(index), "choosing it");
    return WEFT_OK;
}
