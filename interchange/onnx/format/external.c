/* external.c - elements of a tensor in another file, which must be in the folder of the file that names it:
 * files may be hostile. Links may lead within it, as for the onnx package's checker; or within the folder of
 * the file that a link of the model's name leads to, since the cache of Hugging Face has both there. */
#include "interchange/onnx/format/file.h"

#include <limits.h>
#include <stdlib.h>

/* Whether a name stays in the folder of the file that names it. */
static bool is_inside(const char *location) {
    if (!*location || *location == '/') return false;
    for (const char *part = location; part; part = strchr(part, '/')) {
        if (*part == '/') part++;
        size_t n = strcspn(part, "/");
        if (n == 2 && !strncmp(part, "..", 2)) return false;
    }
    return !strchr(location, '\\');
}

/* The length of a path up to its last slash, with it. */
static size_t folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* "FOLDER/LOCATION", beside the file itself. */
static const char *beside(onnx_file *file, const char *location) {
    size_t folder = folder_of(file->wire.path), n = strlen(location);
    char *path = kit_take(file->arena, folder + n + 1, 1);
    if (!path) return NULL;
    memcpy(path, file->wire.path, folder);
    memcpy(path + folder, location, n);
    return path;
}

/* Whether a path without links is in the folder of another one. */
static bool is_in_folder_of(const char *path, const char *other) {
    size_t n = folder_of(other);
    return n && !strncmp(path, other, n);
}

/* Whether links lead out of the folder, in the operating system's files. What cannot be followed cannot be
 * opened either, and opening it has the error. */
static bool leads_out(onnx_file *file, const char *path) {
    char real[PATH_MAX], model[PATH_MAX], folder[PATH_MAX + 2];
    char *named = kit_copy(file->arena, file->wire.path);
    if (!named || file->arena->env.io || !realpath(path, real)) return !named;
    named[folder_of(named)] = 0;
    bool is_found = realpath(*named ? named : ".", folder) && realpath(file->wire.path, model);
    kit_drop(file->arena, named);
    if (!is_found) return true;
    strcat(folder, "/");
    return !is_in_folder_of(real, folder) && !is_in_folder_of(real, model);
}

static weft_status outside(onnx_file *file, const onnx_tensor *t, const char *why, weft_error *error) {
    return kit_fail(error, WEFT_FILE, "%.300s: tensor '%.80s' is in '%.200s', %soutside of the file's folder",
                    file->wire.path, t->name, t->location, why);
}

weft_status onnx_external_read(onnx_file *file, const onnx_tensor *t, size_t begin, void *into, size_t bytes,
                               weft_error *error) {
    const weft_io *io = file->wire.io;
    void *handle;
    uint64_t length, whole = onnx_tensor_bytes(t);
    if (!is_inside(t->location)) return outside(file, t, "", error);
    const char *path = beside(file, t->location);
    if (!path) return kit_no_memory(error, t->location);
    if (leads_out(file, path)) return outside(file, t, "a link to what is ", error);
    int code = io->open_read(io->context, path, &handle, &length);
    if (code) return weft_error_io(error, path, "cannot be opened", code);
    weft_status status = WEFT_OK;
    if (t->offset > length || whole > length - t->offset || (t->length && t->length != whole))
        status = kit_fail(error, WEFT_FILE,
                          "%.300s: tensor '%.80s' of %ju bytes is said to be at %ju; the file has %ju", path,
                          t->name, whole, t->offset, length);
    else if ((code = io->read(io->context, handle, t->offset + begin, into, bytes)))
        status = weft_error_io(error, path, "cannot be read", code);
    io->close(io->context, handle);
    return status;
}
