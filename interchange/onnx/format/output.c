/* output.c - see output.h. */
#include "interchange/onnx/format/output.h"

static weft_status failed(const char *path, int code, weft_error *error) {
    return code ? weft_error_io(error, path, "cannot be written", code) : WEFT_OK;
}

weft_status output_open(output *o, kit_arena *arena, const char *path, weft_error *error) {
    size_t n = strlen(path) + sizeof ".new";
    *o = (output){.io = weft_files(&arena->env), .path = path, .beside = kit_take(arena, n, 1)};
    if (!o->beside) return kit_no_memory(error, path);
    snprintf(o->beside, n, "%s.new", path);
    return failed(o->beside, o->io->open_write(o->io->context, o->beside, &o->handle), error);
}

weft_status output_put(output *o, const void *from, size_t bytes, weft_error *error) {
    return failed(o->beside, o->io->write(o->io->context, o->handle, from, bytes), error);
}

weft_status output_close(output *o, weft_status status, weft_error *error) {
    const weft_io *io = o->io;
    if (!status) status = failed(o->beside, io->sync(io->context, o->handle), error);
    int code = io->close(io->context, o->handle);
    if (!status) status = failed(o->beside, code, error);
    if (!status) status = failed(o->path, io->rename(io->context, o->beside, o->path), error);
    if (status) io->remove(io->context, o->beside);
    return status;
}
