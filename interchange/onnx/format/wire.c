/* wire.c - see wire.h. */
#include "interchange/onnx/format/wire.h"

#include <stdarg.h>

weft_status wire_open(wire_file *file, const char *path, const weft_env *env, weft_error *error) {
    *file = (wire_file){.io = weft_files(env), .path = path};
    int code = file->io->open_read(file->io->context, path, &file->handle, &file->bytes);
    return code ? weft_error_io(error, path, "cannot be opened", code) : WEFT_OK;
}

void wire_close(wire_file *file) {
    if (file->handle) file->io->close(file->io->context, file->handle);
    file->handle = NULL;
}

bool wire_broken(wire_file *file, const char *format, ...) {
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!file->error.status) kit_fail(&file->error, WEFT_FILE, "%.300s: %s", file->path, text);
    return false;
}

/* ---- bytes ---- */

static bool read_from(wire_file *file, uint64_t begin, void *into, size_t bytes) {
    int code = file->io->read(file->io->context, file->handle, begin, into, bytes);
    if (code) weft_error_io(&file->error, file->path, "cannot be read", code);
    return !code;
}

/* Moves the window so that it begins at a byte of the file. */
static bool move_window(wire_file *file, uint64_t begin) {
    uint64_t left = file->bytes - begin;
    file->window_begin = begin;
    file->window_bytes = left < sizeof file->window ? (size_t)left : sizeof file->window;
    if (read_from(file, begin, file->window, file->window_bytes)) return true;
    file->window_bytes = 0;
    return false;
}

bool wire_copy(wire_file *file, uint64_t begin, void *into, size_t bytes) {
    if (file->error.status) return false;
    if (begin > file->bytes || bytes > file->bytes - begin)
        return wire_broken(file, "%zu bytes at %ju, past the end", bytes, begin);
    if (bytes > sizeof file->window) return read_from(file, begin, into, bytes);
    bool is_here = begin >= file->window_begin && begin - file->window_begin <= file->window_bytes &&
                   bytes <= file->window_bytes - (size_t)(begin - file->window_begin);
    if (!is_here && !move_window(file, begin)) return false;
    memcpy(into, file->window + (begin - file->window_begin), bytes);
    return true;
}

/* ---- fields ---- */

wire wire_of(wire_file *file, wire_range message) {
    return (wire){file, message.begin, message.end};
}

bool wire_varint(wire *w, uint64_t *value) {
    enum { LONGEST = 10 }; /* bytes of 7 bits, the lowest first */
    *value = 0;
    if (w->at >= w->end) return false;
    for (int i = 0; i < LONGEST; i++) {
        uint8_t byte;
        if (w->at >= w->end) return wire_broken(w->file, "a number at %ju is cut off", w->at);
        if (!wire_copy(w->file, w->at++, &byte, 1)) return false;
        *value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (!(byte & 0x80)) return true;
    }
    return wire_broken(w->file, "a number at %ju has more than 10 bytes", w->at);
}

bool wire_fixed(wire *w, size_t bytes, uint64_t *value) {
    uint8_t byte[8];
    if (w->at >= w->end) return false;
    if (w->end - w->at < bytes) return wire_broken(w->file, "a number at %ju is cut off", w->at);
    if (!wire_copy(w->file, w->at, byte, bytes)) return false;
    *value = 0;
    for (size_t i = 0; i < bytes; i++) *value |= (uint64_t)byte[i] << (8 * i);
    w->at += bytes;
    return true;
}

static bool next_bytes(wire *w, wire_range *bytes) {
    uint64_t length;
    if (!wire_varint(w, &length)) return wire_broken(w->file, "a field at %ju has no length", w->at);
    if (length > w->end - w->at)
        return wire_broken(w->file, "a field at %ju is longer than its message", w->at);
    *bytes = (wire_range){w->at, w->at + length};
    w->at += length;
    return true;
}

bool wire_next(wire *w, wire_field *field) {
    uint64_t tag;
    *field = (wire_field){0};
    if (w->file->error.status || !wire_varint(w, &tag)) return false;
    if (tag >> 3 == 0 || tag >> 3 > UINT32_MAX)
        return wire_broken(w->file, "byte %ju begins no field", w->at);
    field->number = (uint32_t)(tag >> 3);
    field->kind = (wire_kind)(tag & 7);
    switch (field->kind) {
    case WIRE_VARINT:
        return wire_varint(w, &field->value) || wire_broken(w->file, "byte %ju: no value", w->at);
    case WIRE_FIXED64:
        return wire_fixed(w, 8, &field->value) || wire_broken(w->file, "byte %ju: no value", w->at);
    case WIRE_FIXED32:
        return wire_fixed(w, 4, &field->value) || wire_broken(w->file, "byte %ju: no value", w->at);
    case WIRE_BYTES:
        return next_bytes(w, &field->bytes);
    }
    return wire_broken(w->file, "byte %ju begins a field of kind %u, which is not known", w->at,
                       (unsigned)(tag & 7));
}

const char *wire_text(wire_file *file, kit_arena *arena, wire_range text) {
    enum { LONGEST = 1 << 20 };
    size_t bytes = (size_t)(text.end - text.begin);
    if (text.end - text.begin > LONGEST)
        return wire_broken(file, "a name at %ju has %zu bytes", text.begin, bytes), "";
    char *copy = kit_take(arena, bytes + 1, 1);
    if (!copy || !wire_copy(file, text.begin, copy, bytes)) return "";
    if (memchr(copy, 0, bytes)) return wire_broken(file, "the name at %ju has a byte of 0", text.begin), "";
    return copy;
}
