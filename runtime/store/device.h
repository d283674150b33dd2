/* device.h - the memory of a kind of device, and how the host reaches it: a table of functions for each kind.
 * The CPU's is plain memory. */
#ifndef WEFT_RUNTIME_STORE_DEVICE_H
#define WEFT_RUNTIME_STORE_DEVICE_H

#include "graph/core/mem.h"
#include "weft/plan.h"

/* Where a session's work is queued on a device (CUDA streams). A store lists those of its sessions, so that
 * who reads or writes it waits for them alone. The CPU works at once and has none. */
enum { DEVICE_QUEUES = 3 };
typedef struct device_work {
    void *queues[DEVICE_QUEUES];
    int index; /* of the GPU, by CUDA's count */
    struct device_work *next;
} device_work;

typedef struct device {
    weft_device kind;
    const char *name; /* "cpu", "cuda" */
    /* Memory aligned to MEM_ALIGN, or NULL after setting *error. */
    void *(*alloc)(const weft_env *env, size_t bytes, weft_error *error);
    void (*free)(const weft_env *env, void *memory, size_t bytes); /* memory may be NULL */
    /* Copies between the host's memory and the device's, after all work queued in the list `after`. */
    weft_status (*read)(const device_work *after, void *into, const void *from, size_t bytes,
                        weft_error *error);
    weft_status (*write)(const device_work *after, void *to, const void *from, size_t bytes,
                         weft_error *error);
    /* Sets all bytes to 0. No queued work may use them. */
    weft_status (*clear)(void *to, size_t bytes, weft_error *error);
    /* Bytes that are free there, and all that it has; NULL: it is the host's memory. */
    weft_status (*room)(size_t *left, size_t *all, weft_error *error);
    /* Host memory that the device copies from by itself; NULL: any is as good. */
    const weft_allocator *feed_memory;
    const struct executor *executor; /* runs programs there: session/state.h */
} device;

/* d->alloc, with the purpose in the error: "store of model mlp: ...". The caller frees with d->free. */
void *device_alloc(const device *d, const weft_env *env, size_t bytes, const char *what, const char *model,
                   weft_error *error);

/* The plan's; NULL and WEFT_UNSUPPORTED when this build has none of its kind. */
const device *plan_device(const weft_plan *plan, weft_error *error);

#endif
