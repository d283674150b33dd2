/* memory.cpp - the GPU's memory: allocations exactly as long as asked for, filled with NaN, forbidden to the
 * host (under AddressSanitizer) while the GPU does not run; copies and fills. */
#include "cuda_host/state.h"

#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define __asan_poison_memory_region(at, bytes)   ((void)(at), (void)(bytes))
#define __asan_unpoison_memory_region(at, bytes) ((void)(at), (void)(bytes))
#endif

namespace cuda_host {

const allocation *allocation_of(const void *at, size_t bytes) {
    uintptr_t place = reinterpret_cast<uintptr_t>(at);
    auto found = gpu().memory.upper_bound(place);
    if (found == gpu().memory.begin()) return nullptr;
    --found;
    bool inside =
        place - found->first <= found->second.bytes && bytes <= found->second.bytes - (place - found->first);
    return inside ? &found->second : nullptr;
}

bool is_pinned(const void *at, size_t bytes) {
    const allocation *a = allocation_of(at, bytes);
    return a && a->is_pinned;
}

bool is_device_memory(const void *at, size_t bytes) {
    guard g(gpu().lock);
    const allocation *a = allocation_of(at, bytes);
    return a && !a->is_pinned;
}

/* Opens memory to the GPU's side, or closes it to the host. Pages of its own are closed both for
 * AddressSanitizer and for the processor. */
static void hand(uintptr_t at, const allocation &a, bool to_gpu) {
    void *memory = reinterpret_cast<void *>(at);
    if (a.is_pinned) return;
    if (a.mapped) {
        if (mprotect(memory, a.mapped, to_gpu ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) abort();
    } else if (to_gpu) {
        __asan_unpoison_memory_region(memory, a.bytes);
    } else {
        __asan_poison_memory_region(memory, a.bytes);
    }
}

void memory_open() {
    if (gpu().on_gpu++ > 0) return;
    for (const auto &m : gpu().memory) hand(m.first, m.second, true);
}

void memory_close() {
    if (--gpu().on_gpu > 0) return;
    for (const auto &m : gpu().memory) hand(m.first, m.second, false);
}

/* ---- allocating and freeing ---- */

constexpr size_t LARGE = 4 << 20; /* bytes from which memory has pages of its own */

/* Large memory costs nothing until it is touched: its pages are copy-on-write pages of one file of 0xff. */
static void *map_large(size_t bytes, size_t *mapped) {
    static const int file = [] {
        std::vector<char> all(LARGE, (char)0xff);
        int made = memfd_create("cuda_host", 0);
        return made >= 0 && write(made, all.data(), all.size()) == (ssize_t)all.size() ? made : -1;
    }();
    /* there is always something after it, and that is poisoned */
    *mapped = (bytes / LARGE + 1) * LARGE;
    void *memory = mmap(nullptr, *mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || file < 0) return nullptr;
    for (size_t at = 0; at < *mapped; at += LARGE)
        if (mmap(static_cast<char *>(memory) + at, LARGE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file, 0) == MAP_FAILED)
            return nullptr;
    __asan_poison_memory_region(static_cast<char *>(memory) + bytes, *mapped - bytes);
    return memory;
}

static void *take_bytes(allocation *a) {
    void *memory = nullptr;
    if (a->bytes >= LARGE && !a->is_pinned) return map_large(a->bytes, &a->mapped);
    if (posix_memalign(&memory, 256, a->bytes) != 0) return nullptr;
    return memset(memory, 0xff, a->bytes);
}

/* A later read gets NaN, or faults. */
static void give_bytes(void *memory, const allocation &a) {
    __asan_unpoison_memory_region(memory, a.mapped ? a.mapped : a.bytes);
    if (a.mapped) {
        munmap(memory, a.mapped);
        return;
    }
    memset(memory, 0xff, a.bytes);
    free(memory);
}

/* Device memory counts against the GPU's size; pinned memory does not. */
static cudaError_t take(void **memory, size_t bytes, bool pinned) {
    guard g(gpu().lock);
    gpu_state &s = gpu();
    if (cudaError_t no = refused()) return no;
    if (cudaError_t no = unsafe_call()) return no;
    *memory = nullptr;
    if (bytes == 0) return cudaSuccess;
    int device = current_device();
    bool fails = s.fail_allocation > 0 && --s.fail_allocation == 0;
    if (fails || (!pinned && bytes > s.memory_bytes - s.used[device]))
        return answer(cudaErrorMemoryAllocation);
    allocation a = {bytes, device, pinned, 0};
    if (!(*memory = take_bytes(&a))) return answer(cudaErrorMemoryAllocation);
    s.memory[reinterpret_cast<uintptr_t>(*memory)] = a;
    if (s.on_gpu == 0) hand(reinterpret_cast<uintptr_t>(*memory), a, false);
    if (pinned) return cudaSuccess;
    size_t all = 0;
    s.used[device] += bytes;
    for (const auto &u : s.used) all += u.second;
    if (all > s.most_bytes) s.most_bytes = all;
    return cudaSuccess;
}

/* cudaFree: waits for the device, then frees; pinned and device memory are not mixed up. */
static cudaError_t give(void *memory, bool pinned) {
    guard g(gpu().lock);
    gpu_state &s = gpu();
    if (!memory) return cudaSuccess;
    if (s.in_host_function) return answer(cudaErrorNotPermitted);
    if (cudaError_t no = unsafe_call()) return no;
    if (s.trouble.empty()) /* cudaFree waits; an error of that work is returned by later calls */
        drain(current_device(), false);
    auto found = s.memory.find(reinterpret_cast<uintptr_t>(memory));
    if (found == s.memory.end() || found->second.is_pinned != pinned) return answer(cudaErrorInvalidValue);
    if (!pinned) s.used[found->second.device] -= found->second.bytes;
    allocation a = found->second;
    s.memory.erase(found);
    give_bytes(memory, a);
    return s.trouble.empty() ? cudaSuccess : answer(cudaErrorLaunchFailure);
}

/* Whether both ends are where `kind` says. */
static bool ends_fit(const void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    bool to_gpu = is_device_memory(to, bytes), from_gpu = is_device_memory(from, bytes);
    switch (kind) {
    case cudaMemcpyHostToHost:
        return !to_gpu && !from_gpu;
    case cudaMemcpyHostToDevice:
        return to_gpu && !from_gpu;
    case cudaMemcpyDeviceToHost:
        return !to_gpu && from_gpu;
    case cudaMemcpyDeviceToDevice:
        return to_gpu && from_gpu;
    case cudaMemcpyDefault:
        return true;
    }
    return false;
}

/* Runs now what is not queued: copies that the host waits for. */
static void at_once(const std::function<void()> &run) {
    memory_open();
    run();
    memory_close();
}

/* Waits for blocking streams only: work of non-blocking ones may still be to come, as in CUDA. */
static cudaError_t default_stream_waits() {
    if (cudaError_t no = refused()) return no;
    if (cudaError_t no = legacy_call()) return no;
    if (cudaError_t no = unsafe_call()) return no;
    return drain(current_device(), true);
}

/* A copy of `height` rows of `width` bytes, `pitch` bytes from row to row. */
struct plane {
    void *to;
    const void *from;
    size_t to_pitch, from_pitch, width, height;
    void run() const {
        for (size_t row = 0; row < height; row++)
            memmove(static_cast<char *>(to) + row * to_pitch,
                    static_cast<const char *>(from) + row * from_pitch, width);
        gpu().copies++;
    }
};

/* Copies between pinned and device memory run later; pageable memory is read now, or written while the host
 * waits. */
static cudaError_t copy_async(plane p, cudaMemcpyKind kind, cudaStream_t stream) {
    guard g(gpu().lock);
    cudaStream_t s = stream_of(stream);
    if (cudaError_t no = refused()) return no;
    if (!s) return answer(cudaErrorInvalidResourceHandle);
    if (p.width == 0 || p.height == 0) return cudaSuccess;
    size_t to_bytes = (p.height - 1) * p.to_pitch + p.width,
           from_bytes = (p.height - 1) * p.from_pitch + p.width;
    if (p.to_pitch < p.width || p.from_pitch < p.width || !ends_fit(p.to, p.from, p.width, kind))
        return answer(cudaErrorInvalidValue);
    bool to_gpu = is_device_memory(p.to, to_bytes), from_gpu = is_device_memory(p.from, from_bytes);
    bool from_pageable = !from_gpu && !is_pinned(p.from, from_bytes),
         to_pageable = !to_gpu && !is_pinned(p.to, to_bytes);
    if (!from_pageable && !to_pageable) return add_work(s, "a copy", [p] { p.run(); });
    /* a capture cannot wait for the host */
    if (s->capture) {
        s->capture->is_broken = true;
        return answer(cudaErrorStreamCaptureUnsupported);
    }
    /* the host waits */
    if (to_pageable) {
        if (cudaError_t failed = add_work(s, "a copy", [p] { p.run(); })) return failed;
        return run_until([s] { return s->queue.empty(); }, "a copy to pageable memory")
                   ? cudaSuccess
                   : answer(cudaErrorLaunchFailure);
    }
    /* read now */
    auto staged = std::make_shared<std::vector<char>>(from_bytes);
    memcpy(staged->data(), p.from, from_bytes);
    return add_work(s, "a copy", [p, staged] {
        plane q = p;
        q.from = staged->data();
        q.run();
    });
}

} // namespace cuda_host

using namespace cuda_host;

extern "C" {

cudaError_t cudaMalloc(void **memory, size_t bytes) {
    return take(memory, bytes, false);
}
cudaError_t cudaMallocHost(void **memory, size_t bytes) {
    return take(memory, bytes, true);
}
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned) {
    return take(memory, bytes, true);
}
cudaError_t cudaFree(void *memory) {
    return give(memory, false);
}
cudaError_t cudaFreeHost(void *memory) {
    return give(memory, true);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *about, const void *memory) {
    guard g(gpu().lock);
    const allocation *a = allocation_of(memory, 1);
    *about = {};
    about->device = a ? a->device : -1;
    about->type = !a             ? cudaMemoryTypeUnregistered
                  : a->is_pinned ? cudaMemoryTypeHost
                                 : cudaMemoryTypeDevice;
    return refused();
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    guard g(gpu().lock);
    *total = gpu().memory_bytes;
    *free = gpu().memory_bytes - gpu().used[current_device()];
    return refused();
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    guard g(gpu().lock);
    if (cudaError_t no = default_stream_waits()) return no;
    if (bytes == 0) return cudaSuccess;
    if (!ends_fit(to, from, bytes, kind)) return answer(cudaErrorInvalidValue);
    at_once([&] { plane{to, from, bytes, bytes, bytes, 1}.run(); });
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    return copy_async({to, from, bytes, bytes, bytes, 1}, kind, stream);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
    return copy_async({to, from, to_pitch, from_pitch, width, height}, kind, stream);
}

cudaError_t cudaMemset(void *memory, int value, size_t bytes) {
    guard g(gpu().lock);
    if (cudaError_t no = default_stream_waits()) return no;
    if (bytes == 0) return cudaSuccess;
    if (!is_device_memory(memory, bytes)) return answer(cudaErrorInvalidValue);
    at_once([&] { memset(memory, value, bytes); });
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream) {
    guard g(gpu().lock);
    cudaStream_t s = stream_of(stream);
    if (cudaError_t no = refused()) return no;
    if (!s) return answer(cudaErrorInvalidResourceHandle);
    if (bytes == 0) return cudaSuccess;
    if (!is_device_memory(memory, bytes)) return answer(cudaErrorInvalidValue);
    return add_work(s, "a fill", [=] { memset(memory, value, bytes); });
}

} /* extern "C" */
