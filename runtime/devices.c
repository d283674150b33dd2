/* devices.c - the CPU as a device, and the list of devices of this build. Without CUDA, its public functions
 * are here too, and return errors that say how to build it in. */
#include "runtime/devices.h"

#include "graph/core/error.h"
#include "runtime/plan/program.h"
#include "runtime/store/device.h"
#include "weft/session.h"

#include <string.h>

#ifdef WEFT_HAS_CUDA
extern const device device_cuda; /* runtime/session/cuda/device.c */
#endif

/* From the user's allocator, aligned to MEM_ALIGN. */
static void *cpu_alloc(const weft_env *env, size_t bytes, weft_error *error) {
    void *memory = mem_raw(env, bytes);
    if (!memory) error_set(error, WEFT_MEMORY, "%zu bytes could not be allocated", bytes);
    return memory;
}

static void cpu_free(const weft_env *env, void *memory, size_t bytes) {
    mem_free(env, memory, bytes);
}

/* Host and device are one here, so read and write are the same copy. */
static weft_status copy(const device_work *after, void *to, const void *from, size_t bytes,
                        weft_error *error) {
    memcpy(to, from, bytes);
    return WEFT_OK;
}

static weft_status clear(void *to, size_t bytes, weft_error *error) {
    memset(to, 0, bytes);
    return WEFT_OK;
}

extern const struct executor executor_cpu; /* session/run.c */
static const device device_cpu = {WEFT_DEVICE_CPU, "cpu", cpu_alloc, cpu_free,     copy, copy,
                                  clear,           NULL,  NULL,      &executor_cpu};

#ifndef WEFT_HAS_CUDA
/* Stubs, so that programs link with any build and learn at run time what it lacks. */
weft_comm *weft_comm_nccl(weft_comm *control, const weft_comm_options *options, weft_error *error) {
    error_set(error, WEFT_UNSUPPORTED,
              "this build of Weft has no NCCL (configure with -DWEFT_CUDA=ON, where nvcc is)");
    return NULL;
}

weft_comm *weft_comm_nccl_launch(const weft_launch *launch, const weft_comm_options *options,
                                 weft_error *error) {
    return weft_comm_nccl(NULL, options, error);
}

weft_status weft_cuda_select(int index, weft_error *error) {
    return error_set(error, WEFT_UNSUPPORTED,
                     "this build of Weft has no CUDA (configure with -DWEFT_CUDA=ON, where nvcc is)");
}
#endif

const weft_allocator *weft_plan_feed_memory(const weft_plan *plan) {
    return plan && plan->device ? plan->device->feed_memory : NULL;
}

const device *device_of(weft_device kind) {
    if (kind == WEFT_DEVICE_CPU) return &device_cpu;
#ifdef WEFT_HAS_CUDA
    if (kind == WEFT_DEVICE_CUDA) return &device_cuda;
#endif
    return NULL;
}
