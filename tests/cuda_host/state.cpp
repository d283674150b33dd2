/* state.cpp - the emulator's state, its errors and the switches for tests; devices. */
#include "cuda_host/state.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace cuda_host {

static thread_local cudaError_t last_error = cudaSuccess;
static thread_local int device_now = 0;

gpu_state::gpu_state() {
    const char *seed = getenv("WEFT_CUDA_HOST_SEED"), *twice = getenv("WEFT_CUDA_HOST_TWICE");
    if (seed) random.state = strtoull(seed, nullptr, 10);
    run_twice = twice && *twice == '1';
}

gpu_state &gpu() {
    /* outlives every destructor that may still free something */
    static gpu_state *state = new gpu_state();
    return *state;
}

cudaError_t answer(cudaError_t error) {
    if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
    return error;
}

static bool has_driver() {
    return gpu().driver >= CUDART_VERSION;
}

cudaError_t refused() {
    if (!has_driver()) return answer(cudaErrorInsufficientDriver);
    if (!gpu().trouble.empty()) return answer(cudaErrorLaunchFailure);
    if (gpu().in_host_function) return answer(cudaErrorNotPermitted);
    return cudaSuccess;
}

int current_device() {
    return device_now;
}

/* Only the first trouble is kept: what follows is usually its consequence. */
void trouble(const char *format, ...) {
    char text[1000];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    guard g(gpu().lock);
    if (gpu().trouble.empty()) gpu().trouble = text;
}

uint64_t random() {
    guard g(gpu().lock);
    return gpu().random.next();
}

} // namespace cuda_host

using namespace cuda_host;

extern "C" {

/* ---- switches for tests ---- */

void cuda_host_seed(uint64_t seed) {
    guard g(gpu().lock);
    gpu().random.state = seed;
}
void cuda_host_run_twice(int on) {
    guard g(gpu().lock);
    gpu().run_twice = on != 0;
}
void cuda_host_driver(int version) {
    guard g(gpu().lock);
    gpu().driver = version;
}
void cuda_host_devices(int count) {
    guard g(gpu().lock);
    gpu().devices = count;
}
void cuda_host_memory(size_t bytes) {
    guard g(gpu().lock);
    gpu().memory_bytes = bytes;
}
void cuda_host_fail_allocation(int n) {
    guard g(gpu().lock);
    gpu().fail_allocation = n;
}
void cuda_host_patience(double seconds) {
    guard g(gpu().lock);
    gpu().patience = seconds;
}
const char *cuda_host_trouble(void) {
    guard g(gpu().lock);
    return gpu().trouble.c_str();
}
void cuda_host_break(void) {
    trouble("the test broke the GPU");
}
void cuda_host_forget_trouble(void) {
    guard g(gpu().lock);
    gpu().trouble.clear();
    for (cudaStream_t s : gpu().streams) s->queue.clear();
    last_error = cudaSuccess;
}

/* Also starts a new count of the most bytes in use. */
cuda_host_counts cuda_host_count(void) {
    guard g(gpu().lock);
    gpu_state &s = gpu();
    cuda_host_counts c = {};
    for (const auto &m : s.memory) (m.second.is_pinned ? c.pinned : c.allocations)++;
    for (const auto &u : s.used) c.bytes += u.second;
    c.streams = (int)(s.streams.size() - s.default_streams.size() - s.thread_streams.size());
    c.events = (int)s.events.size();
    c.graphs = (int)(s.graphs.size() + s.execs.size());
    c.most_bytes = s.most_bytes;
    c.launches = s.launches;
    c.copies = s.copies;
    c.calls = s.calls;
    s.most_bytes = c.bytes;
    return c;
}

/* ---- errors: names and texts are CUDA's ---- */

static const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorSymbolNotFound, "cudaErrorSymbolNotFound", "named symbol not found"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
};

const char *cudaGetErrorString(cudaError_t error) {
    if (error == cudaErrorLaunchFailure && !gpu().trouble.empty()) return gpu().trouble.c_str();
    for (const auto &e : errors)
        if (e.error == error) return e.text;
    return "unspecified launch failure";
}

const char *cudaGetErrorName(cudaError_t error) {
    for (const auto &e : errors)
        if (e.error == error) return e.name;
    return "cudaErrorLaunchFailure";
}

cudaError_t cudaGetLastError(void) {
    cudaError_t error = last_error;
    last_error = gpu().trouble.empty() ? cudaSuccess : cudaErrorLaunchFailure;
    return error;
}

cudaError_t cudaPeekAtLastError(void) {
    return last_error;
}

/* ---- devices: a GPU of capability 9.0 with few multiprocessors, so that loops that stride by the grid
 * repeat ---- */

enum { MULTIPROCESSORS = 4 };

static bool is_device(int device) {
    return device >= 0 && device < gpu().devices;
}

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 0;
    if (!has_driver()) return answer(cudaErrorInsufficientDriver);
    *count = gpu().devices;
    return gpu().devices ? cudaSuccess : answer(cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device) {
    if (!is_device(device)) return answer(cudaErrorInvalidDevice);
    device_now = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
    *device = device_now;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device) {
    if (!is_device(device)) return answer(cudaErrorInvalidDevice);
    *p = cudaDeviceProp();
    snprintf(p->name, sizeof p->name, "CPU that plays a GPU");
    snprintf(p->uuid.bytes, sizeof p->uuid.bytes, "gpu %u", (unsigned)device % 100000);
    p->totalGlobalMem = gpu().memory_bytes;
    p->sharedMemPerBlock = 48 << 10;
    p->sharedMemPerBlockOptin = 227 << 10;
    p->sharedMemPerMultiprocessor = 228 << 10;
    p->regsPerBlock = 65536;
    p->warpSize = 32;
    p->maxThreadsPerBlock = 1024;
    const int threads[3] = {1024, 1024, 64}, grid[3] = {2147483647, 65535, 65535};
    memcpy(p->maxThreadsDim, threads, sizeof threads);
    memcpy(p->maxGridSize, grid, sizeof grid);
    p->major = 9;
    p->multiProcessorCount = MULTIPROCESSORS;
    p->maxThreadsPerMultiProcessor = 2048;
    p->l2CacheSize = 1 << 20;
    p->pciBusID = device + 1;
    p->memoryBusWidth = 64;
    p->concurrentKernels = 1;
    p->asyncEngineCount = 2;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    if (!is_device(device)) return answer(cudaErrorInvalidDevice);
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
        *value = 1024;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = 48 << 10;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = 227 << 10;
        break;
    case cudaDevAttrWarpSize:
        *value = 32;
        break;
    case cudaDevAttrClockRate:
        *value = 1000000;
        break;
    case cudaDevAttrMemoryClockRate:
        *value = 1000000;
        break;
    case cudaDevAttrGlobalMemoryBusWidth:
        *value = 64;
        break;
    case cudaDevAttrL2CacheSize:
        *value = 1 << 20;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = MULTIPROCESSORS;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = 9;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        break;
    default:
        return answer(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device) {
    if (!is_device(device)) return answer(cudaErrorInvalidDevice);
    snprintf(text, (size_t)length, "0000:%02x:00.0", (unsigned)(device + 1) & 0xff);
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = gpu().driver;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

} /* extern "C" */
