/* launch.cpp - launches: their limits, their arguments, running one twice in different orders; modules. */
#include "cuda_host/launch.h"
#include "cuda_host/state.h"

#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

namespace cuda_host {

/* ---- arguments that a GPU could not read ---- */

/* Whether the address is mapped into this process, according to /proc; slow, so answers are kept. */
static bool is_mapped(uint64_t word) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[600];
    bool found = false;
    unsigned long long from, to;
    while (maps && !found && fgets(line, sizeof line, maps))
        found = sscanf(line, "%llx-%llx", &from, &to) == 2 && word >= from && word < to;
    if (maps) fclose(maps);
    return found;
}

/* Looks for addresses of the host among arguments: kernels here could follow them, on a GPU they fault. A
 * word that only looks like an address is recognized because nothing is mapped there, or because its lower
 * half is a small number (and its upper half old contents of a struct's padding). Not under AddressSanitizer,
 * which maps nearly everything that two adjacent numbers can look like. */
static bool holds_host_address(const void *argument, size_t bytes, uint64_t *which) {
#ifdef __SANITIZE_ADDRESS__
    bytes = 0;
#endif
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        uint64_t word;
        memcpy(&word, static_cast<const char *>(argument) + i, 8);
        if ((uint32_t)word < 1u << 20 || word >> 47 || gpu().harmless.count(word)) continue;
        const allocation *a = allocation_of(reinterpret_cast<const void *>(word), 0);
        if (!a && is_mapped(word)) {
            *which = word;
            return true;
        }
        if (!a && gpu().harmless.size() < 100000) gpu().harmless.insert(word);
    }
    return false;
}

/* ---- running a launch twice ---- */

/* Only libraries' workspaces and whole sessions are larger than 16 MiB: they are not compared. */
constexpr size_t COPY_MOST = 16 << 20;
using copy_of_memory = std::map<uintptr_t, std::vector<char>>;

/* A copy of the GPU's memory, by allocation. */
static copy_of_memory memory_save() {
    copy_of_memory copy;
    for (const auto &m : gpu().memory) {
        const char *at = reinterpret_cast<const char *>(m.first);
        if (m.second.bytes <= COPY_MOST) copy[m.first].assign(at, at + m.second.bytes);
    }
    return copy;
}

/* Restores the memory from before the launch, runs it in another order and compares every byte with the first
 * run's. */
static void run_again(const std::function<void()> &call, const cudaLaunchConfig_t &c,
                      const copy_of_memory &before) {
    copy_of_memory first = memory_save();
    for (const auto &m : before) memcpy(reinterpret_cast<void *>(m.first), m.second.data(), m.second.size());
    if (!grid_run(call, c.gridDim, c.blockDim, c.dynamicSmemBytes, gpu().random.next())) return;
    for (const auto &m : first)
        for (size_t i = 0; i < m.second.size(); i++)
            if (m.second[i] != reinterpret_cast<const char *>(m.first)[i]) {
                trouble("a kernel of %u blocks of %u threads leaves other bits when its threads run in "
                        "another order (byte "
                        "%zu of %zu at %#lx)",
                        c.gridDim.x * c.gridDim.y * c.gridDim.z, c.blockDim.x * c.blockDim.y * c.blockDim.z,
                        i, m.second.size(), (unsigned long)m.first);
                return;
            }
}

static void launch_run(const std::function<void()> &call, const cudaLaunchConfig_t &c) {
    bool twice = gpu().run_twice;
    copy_of_memory before;
    if (twice) before = memory_save();
    bool good = grid_run(call, c.gridDim, c.blockDim, c.dynamicSmemBytes, gpu().random.next());
    gpu().launches++;
    if (good && twice) run_again(call, c, before);
}

/* CUDA's limits of grids and blocks. */
static bool fits(const cudaLaunchConfig_t &c) {
    const dim3 &g = c.gridDim, &b = c.blockDim;
    bool some = g.x && g.y && g.z && b.x && b.y && b.z;
    return some && g.x <= 2147483647u && g.y <= 65535 && g.z <= 65535 && b.x <= 1024 && b.y <= 1024 &&
           b.z <= 64 && (uint64_t)b.x * b.y * b.z <= 1024;
}

/* More than 48 KiB of dynamic shared memory must have been allowed by cudaFuncSetAttribute. */
cudaError_t launch(const void *kernel, const cudaLaunchConfig_t *config, std::function<void()> call,
                   const void *const *args, const size_t *bytes, int n_args) {
    guard g(gpu().lock);
    cudaLaunchConfig_t c = *config;
    if (cudaError_t no = refused()) return no;
    cudaStream_t s = stream_of(c.stream);
    if (!s) return answer(cudaErrorInvalidResourceHandle);
    if (c.numAttrs) return answer(cudaErrorNotSupported);
    if (!fits(c)) return answer(cudaErrorInvalidConfiguration);
    auto allowed = gpu().dynamic_shared.find(kernel);
    if (c.dynamicSmemBytes > (size_t)(allowed == gpu().dynamic_shared.end() ? 48 << 10 : allowed->second))
        return answer(cudaErrorInvalidValue);
    for (int i = 0; i < n_args; i++) {
        uint64_t word;
        if (!holds_host_address(args[i], bytes[i], &word)) continue;
        trouble("argument %d of a kernel holds %#llx, an address of the host", i, (unsigned long long)word);
        return answer(cudaErrorLaunchFailure);
    }
    return add_work(s, "a kernel", [=] { launch_run(call, c); });
}

cudaError_t set_attribute(const void *kernel, cudaFuncAttribute attribute, int value) {
    guard g(gpu().lock);
    if (cudaError_t no = refused()) return no;
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || value > 227 << 10) return answer(cudaErrorInvalidValue);
    gpu().dynamic_shared[kernel] = value;
    return cudaSuccess;
}

/* Copies of the arguments of a module's kernel, since the work runs later. */
struct argument_copies {
    std::vector<std::vector<char>> each;
    std::vector<void *> at;
    argument_copies(const cuda_host::kernel &k, void **args) {
        for (int i = 0; i < k.n_args; i++) {
            const char *from = static_cast<const char *>(args[i]);
            each.emplace_back(from, from + k.bytes[i]);
        }
        for (auto &a : each) at.push_back(a.data());
    }
};

} // namespace cuda_host

using namespace cuda_host;

extern "C" {

/* Kernels of modules only: `function` is the module's cuda_host::kernel. */
cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t shared,
                             cudaStream_t stream) {
    {
        guard g(gpu().lock);
        if (!gpu().module_kernels.count(function)) return answer(cudaErrorInvalidDeviceFunction);
    }
    const cuda_host::kernel *k = static_cast<const cuda_host::kernel *>(function);
    auto copies = std::make_shared<argument_copies>(*k, args);
    cudaLaunchConfig_t config = {grid, block, shared, stream, nullptr, 0};
    return launch(
        function, &config, [=] { k->call(copies->at.data()); }, args, k->bytes, k->n_args);
}

/* ---- modules: "cuda_host:", the size of a shared object as a number, ":", its bytes; kernel NAME is its
 * `cuda_host::kernel NAME_kernel` ---- */

/* The loader needs a file, so there is one while it loads. */
static void *object_load(const char *bytes, size_t count) {
    char path[] = "/tmp/cuda_host_XXXXXX";
    int file = mkstemp(path);
    bool good = file >= 0 && write(file, bytes, count) == (ssize_t)count;
    void *handle = good ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (file >= 0) {
        close(file);
        unlink(path);
    }
    return handle;
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, cudaJitOption *, void **, unsigned,
                                cudaLibraryOption *, void **, unsigned) {
    guard g(gpu().lock);
    if (cudaError_t no = refused()) return no;
    if (cudaError_t no = unsafe_call()) return no;
    size_t count = 0;
    int begin = 0;
    const char *text = static_cast<const char *>(code);
    if (sscanf(text, "cuda_host:%zu:%n", &count, &begin) != 1 || !begin)
        return answer(cudaErrorNoKernelImageForDevice);
    void *handle = object_load(text + begin, count);
    if (!handle) return answer(cudaErrorNoKernelImageForDevice);
    *library = new CUlib_st{handle};
    return cudaSuccess;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name) {
    guard g(gpu().lock);
    void *found = dlsym(library->handle, (std::string(name) + "_kernel").c_str());
    if (!found) return answer(cudaErrorSymbolNotFound);
    gpu().module_kernels.insert(found);
    *kernel = static_cast<cudaKernel_t>(found);
    return cudaSuccess;
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
    guard g(gpu().lock);
    if (cudaError_t no = unsafe_call()) return no;
    if (gpu().trouble.empty()) drain(current_device(), false);
    dlclose(library->handle);
    delete library;
    return refused();
}

} /* extern "C" */
