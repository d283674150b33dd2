/* launch.h - cudaLaunchKernelEx and cudaFuncSetAttribute for kernels of .cu files; arguments are copied at
 * the call, as CUDA does. */
#ifndef CUDA_HOST_LAUNCH_H
#define CUDA_HOST_LAUNCH_H

#include "cuda_host/cuda_host.h"

namespace cuda_host {
/* `args` and `bytes` are the arguments' memory, which is searched for addresses of the host. */
cudaError_t launch(const void *kernel, const cudaLaunchConfig_t *config, std::function<void()> call,
                   const void *const *args, const size_t *bytes, int n_args);
cudaError_t set_attribute(const void *kernel, cudaFuncAttribute attribute, int value);
} // namespace cuda_host

template <class... P, class... A>
static inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...),
                                             A &&...args) {
    std::tuple<P...> copy(static_cast<P>(std::forward<A>(args))...);
    const void *at[sizeof...(P) + 1] = {};
    const size_t bytes[sizeof...(P) + 1] = {sizeof(P)..., 0};
    int n = 0;
    /* Padding between members holds garbage that may look like an address of the host. In an array of
       structures that have padding GCC 12 clears members too: arguments of kernels have no such array. */
    std::apply([&](auto &...each) { (__builtin_clear_padding(&each), ...); }, copy);
    std::apply([&](const auto &...each) { ((at[n++] = &each), ...); }, copy);
    return cuda_host::launch(
        reinterpret_cast<const void *>(kernel), config, [=] { std::apply(kernel, copy); }, at, bytes,
        (int)sizeof...(P));
}

template <class T>
static inline cudaError_t cudaFuncSetAttribute(T *kernel, cudaFuncAttribute attribute, int value) {
    return cuda_host::set_attribute(reinterpret_cast<const void *>(kernel), attribute, value);
}

#endif
