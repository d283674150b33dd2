/* wire.h - the wire format of Protocol Buffers, read in place. A message is a range of a file; its fields are
 * found one after the other, and only what is asked for is copied. So a file of many gigabytes costs no
 * memory, and messages within messages cost no stack. (protobuf-c unpacks a file whole: all weights are in
 * memory twice, and a hostile file chooses how deep it recurses.)
 *
 * https://protobuf.dev/programming-guides/encoding: a field is a varint, number << 3 | kind, and its
 * value. */
#ifndef WEFT_INTERCHANGE_ONNX_FORMAT_WIRE_H
#define WEFT_INTERCHANGE_ONNX_FORMAT_WIRE_H

#include "runtime/data/kit.h"

/* Bytes of a file, from begin on and before end. */
typedef struct wire_range {
    uint64_t begin, end;
} wire_range;

/* An open file, with a window of it in memory. The first failure stays. */
typedef struct wire_file {
    const weft_io *io;
    void *handle;
    const char *path; /* for errors */
    uint64_t bytes;
    weft_error error;
    uint64_t window_begin;
    size_t window_bytes;
    uint8_t window[1 << 16];
} wire_file;

/* How a field's value is written. */
typedef enum wire_kind {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2, /* texts, messages, packed numbers */
    WIRE_FIXED32 = 5,
} wire_kind;

typedef struct wire_field {
    uint32_t number;
    wire_kind kind;
    uint64_t value;   /* of a varint, or the bits of a fixed one */
    wire_range bytes; /* WIRE_BYTES: where they are */
} wire_field;

/* A place in a message. */
typedef struct wire {
    wire_file *file;
    uint64_t at, end;
} wire;

weft_status wire_open(wire_file *file, const char *path, const weft_env *env, weft_error *error);
void wire_close(wire_file *file);
/* Records that a file breaks a rule; false. */
bool wire_broken(wire_file *file, const char *format, ...) __attribute__((format(printf, 2, 3)));

wire wire_of(wire_file *file, wire_range message);
/* The next field; false at the end of the message and after a failure. */
bool wire_next(wire *w, wire_field *field);
/* The next varint of packed numbers; false as above. */
bool wire_varint(wire *w, uint64_t *value);
/* The bits of the next number of 4 or 8 bytes, little-endian; false as above. */
bool wire_fixed(wire *w, size_t bytes, uint64_t *value);
/* Copies bytes out. */
bool wire_copy(wire_file *file, uint64_t begin, void *into, size_t bytes);
/* A text of the file, with a 0 after it, in the arena. Bytes of 0 within it are an error. "": after a
 * failure. */
const char *wire_text(wire_file *file, kit_arena *arena, wire_range text);

#endif
