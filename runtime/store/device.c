/* device.c - the device that a plan is for, and its memory. */
#include "runtime/store/device.h"

#include "graph/core/error.h"
#include "runtime/plan/program.h"

void *device_alloc(const device *d, const weft_env *env, size_t bytes, const char *what, const char *model,
                   weft_error *error) {
    weft_error why = {0};
    void *memory = d->alloc(env, bytes, &why);
    if (!memory) error_set(error, why.status, "%s of model %s: %s", what, model, why.text);
    return memory;
}

const device *plan_device(const weft_plan *plan, weft_error *error) {
    const char *kind = device_name(plan->options.device);
    if (!plan->device)
        error_set(
            error, WEFT_UNSUPPORTED,
            "a plan for %s: this build of Weft has no %s backend (configure with -DWEFT_CUDA=ON, where nvcc "
            "is)",
            kind, kind);
    return plan->device;
}
