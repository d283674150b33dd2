/* prelude.h - included before every .cu when a plain C++ compiler builds it: CUDA's keywords, and our macros
 * for shared memory, which the emulator allocates itself so that it can fill it with NaN between blocks. */
#ifndef CUDA_HOST_PRELUDE_H
#define CUDA_HOST_PRELUDE_H

#define __global__
#define __device__
#define __host__
#define __constant__
#define __launch_bounds__(...)
#define __align__(n)    __attribute__((aligned(n)))
#define __forceinline__ inline __attribute__((always_inline))
#define __shared__      write_SHARED_ARRAY_of_kernel_cuh_instead_of_shared
#define __grid_constant__

#include <cstddef>

namespace cuda_host {
/* Shared memory of the running block: one array for each key, the same for all its threads. shared_dynamic:
 * the dynamic one. */
void *shared_array(const void *key, size_t bytes);
void *shared_dynamic();
} // namespace cuda_host

#define SHARED_MEMORY(type, name) type *name = static_cast<type *>(cuda_host::shared_dynamic())
#define SHARED_ARRAY(type, name, dimensions)                                                                 \
    static const char name##_key = 0;                                                                        \
    using name##_type = type dimensions;                                                                     \
    name##_type &name = *static_cast<name##_type *>(cuda_host::shared_array(&name##_key, sizeof(name##_type)))

#endif
