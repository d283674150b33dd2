/* cuda_runtime.h - CUDA's C++ for kernels, emulated on the CPU: indices of threads, barriers, warps, atomics,
 * arithmetic, launching. The threads of a block are fibers of one thread (block.cpp), so plain code is
 * atomic. */
#ifndef CUDA_HOST_RUNTIME_H
#define CUDA_HOST_RUNTIME_H

#include "cuda_host/cuda_runtime_api.h"

#ifdef __cplusplus
#include "cuda_host/launch.h"
#include "cuda_host/arithmetic.h"
#include "cuda_host/warp.h"
#endif
#endif
