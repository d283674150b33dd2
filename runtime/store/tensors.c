/* tensors.c - one tensor of a safetensors file at a time, without a store: what a file holds, and its bytes.
 * The file is checked when it is opened, as by weft_weights_load. */
#include "runtime/store/safetensors.h"
#include "weft/file.h"

#include <string.h>

struct weft_tensors {
    safetensors file;
    char *path; /* the file's own copy */
};

weft_tensors *weft_tensors_open(const char *path, const weft_env *env, weft_error *error) {
    weft_env own = env ? *env : (weft_env){0};
    if (error) *error = (weft_error){0};
    if (!path) return error_set(error, WEFT_ARGUMENT, "weft_tensors_open: a path is needed"), NULL;
    size_t room = strlen(path) + 1;
    weft_tensors *t = mem_new(&own, sizeof *t);
    char *copy = t ? mem_new(&own, room) : NULL;
    if (copy) memcpy(copy, path, room);
    weft_status status =
        copy ? safetensors_open(&t->file, copy, &own, error) : error_memory(error, "weft_tensors_open");
    if (!status) {
        t->path = copy;
        return t;
    }
    if (copy) mem_free(&own, copy, room);
    if (t) mem_free(&own, t, sizeof *t);
    return NULL;
}

void weft_tensors_close(weft_tensors *t) {
    if (!t) return;
    weft_env env = t->file.env;
    safetensors_close(&t->file);
    mem_free(&env, t->path, strlen(t->path) + 1);
    mem_free(&env, t, sizeof *t);
}

bool weft_tensors_at(const weft_tensors *t, int index, weft_port *port) {
    if (!t || !port || index < 0 || index >= t->file.n) return false;
    const safetensors_tensor *from = &t->file.tensors[index];
    *port = (weft_port){.name = from->name,
                        .dtype = from->type.dtype,
                        .ndim = from->type.ndim,
                        .bytes = (size_t)(from->end - from->begin)};
    memcpy(port->shape, from->type.shape, (size_t)from->type.ndim * sizeof *port->shape);
    return true;
}

weft_status weft_tensors_read(const weft_tensors *t, const char *name, void *into, size_t bytes,
                              weft_error *error) {
    if (error) *error = (weft_error){0};
    if (!t || !name || (bytes && !into))
        return error_set(error, WEFT_ARGUMENT, "weft_tensors_read: a file, a name and room are needed");
    const safetensors_tensor *from = safetensors_find(&t->file, name);
    if (!from)
        return error_set(error, WEFT_NAME, "%.400s: there is no tensor %s; weft_tensors_at lists them",
                         t->path, SHOW(name));
    if (from->end - from->begin != bytes)
        return error_set(error, WEFT_SHAPE, "%.400s: %s is %s, %ju bytes; the caller has room for %zu",
                         t->path, SHOW(name), TYPE(&from->type), from->end - from->begin, bytes);
    return safetensors_read(&t->file, from, into, error);
}
