/* device.h - where tensors lie, and how the host reaches them: one table a kind of device. The CPU's is plain memory. */
#ifndef WEFT_RUNTIME_STORE_DEVICE_H
#define WEFT_RUNTIME_STORE_DEVICE_H

#include "graph/core/mem.h"
#include "weft/plan.h"

typedef struct device {
    weft_device kind;
    const char *name; /* "cpu", "cuda" */
    /* Memory aligned to MEM_ALIGN; NULL after filling *error. */
    void *(*alloc)(const weft_env *env, size_t bytes, weft_error *error);
    void (*free)(const weft_env *env, void *memory, size_t bytes); /* NULL is fine */
    /* Between the host's memory and the device's, behind all work that was put on the device before. */
    weft_status (*read)(void *into, const void *from, size_t bytes, weft_error *error);
    weft_status (*write)(void *to, const void *from, size_t bytes, weft_error *error);
    weft_status (*clear)(void *to, size_t bytes, weft_error *error); /* to zeros */
    /* Bytes that are in use on the device, whoever has them; NULL: nobody can tell. */
    weft_status (*in_use)(uint64_t *bytes, weft_error *error);
    const struct executor *executor; /* how sessions run there: session/state.h */
} device;

extern const device device_cpu;

/* d->alloc; the error says for what: "store of model mlp: ...". */
void *device_alloc(const device *d, const weft_env *env, size_t bytes, const char *what, const char *model,
                   weft_error *error);

/* WEFT_UNSUPPORTED, and NULL, when this build has none of that kind. */
const device *device_of(weft_device kind, weft_error *error);

#endif
