/* emit.h - the wire format of Protocol Buffers, written: the counterpart of wire.h. Messages are made in
 * memory, where their lengths become known; elements of tensors are not among them, they go from a store to
 * the file (export/save.c). */
#ifndef WEFT_INTERCHANGE_ONNX_FORMAT_EMIT_H
#define WEFT_INTERCHANGE_ONNX_FORMAT_EMIT_H

#include "runtime/data/kit.h"

/* Bytes that grow. The first failure stays. */
typedef struct emit {
    kit_arena *arena;
    uint8_t *bytes;
    size_t length;
    bool is_out; /* of memory */
} emit;

void emit_integer(emit *e, uint32_t number, int64_t value);
void emit_real(emit *e, uint32_t number, float value);
void emit_text(emit *e, uint32_t number, const char *text);
void emit_data(emit *e, uint32_t number, const void *data, size_t bytes);
/* A field of bytes whose `bytes` bytes follow, and are written by the caller. */
void emit_head(emit *e, uint32_t number, uint64_t bytes);
/* A message within: what is written up to emit_end() is in it. */
size_t emit_begin(emit *e, uint32_t number);
void emit_end(emit *e, size_t begin);

/* Bytes of a field of bytes with them, as emit_head() begins it. */
uint64_t emit_size(uint32_t number, uint64_t bytes);

#endif
