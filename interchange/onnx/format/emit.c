/* emit.c - see emit.h. */
#include "interchange/onnx/format/emit.h"

#include "interchange/onnx/format/wire.h"

enum { LONGEST = 10 }; /* bytes of a varint */

static void put_in(emit *e, const void *data, size_t bytes) {
    uint8_t *room = e->is_out ? NULL : kit_grow(e->arena, e->bytes, e->length + bytes, 1);
    e->is_out = !room;
    if (!room) return;
    e->bytes = room;
    if (bytes) memcpy(e->bytes + e->length, data, bytes);
    e->length += bytes;
}

/* 7 bits a byte, the lowest first; returns how many bytes. */
static size_t varint(uint64_t value, uint8_t bytes[LONGEST]) {
    size_t n = 0;
    for (; value > 0x7f; value >>= 7) bytes[n++] = (uint8_t)(value | 0x80);
    bytes[n++] = (uint8_t)value;
    return n;
}

static void put_varint(emit *e, uint64_t value) {
    uint8_t bytes[LONGEST];
    put_in(e, bytes, varint(value, bytes));
}

static void put_tag(emit *e, uint32_t number, wire_kind kind) {
    put_varint(e, (uint64_t)number << 3 | kind);
}

void emit_integer(emit *e, uint32_t number, int64_t value) {
    put_tag(e, number, WIRE_VARINT);
    put_varint(e, (uint64_t)value);
}

void emit_real(emit *e, uint32_t number, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint8_t bytes[] = {(uint8_t)bits, (uint8_t)(bits >> 8), (uint8_t)(bits >> 16), (uint8_t)(bits >> 24)};
    put_tag(e, number, WIRE_FIXED32);
    put_in(e, bytes, sizeof bytes);
}

void emit_head(emit *e, uint32_t number, uint64_t bytes) {
    put_tag(e, number, WIRE_BYTES);
    put_varint(e, bytes);
}

void emit_data(emit *e, uint32_t number, const void *data, size_t bytes) {
    emit_head(e, number, bytes);
    put_in(e, data, bytes);
}

void emit_text(emit *e, uint32_t number, const char *text) {
    emit_data(e, number, text, strlen(text));
}

size_t emit_begin(emit *e, uint32_t number) {
    put_tag(e, number, WIRE_BYTES);
    return e->length;
}

/* The length goes before what is there. */
void emit_end(emit *e, size_t begin) {
    uint8_t head[LONGEST];
    size_t bytes = e->length - begin, n = varint(bytes, head);
    put_in(e, head, n);
    if (e->is_out) return;
    memmove(e->bytes + begin + n, e->bytes + begin, bytes);
    memcpy(e->bytes + begin, head, n);
}

uint64_t emit_size(uint32_t number, uint64_t bytes) {
    uint8_t unused[LONGEST];
    return varint((uint64_t)number << 3 | WIRE_BYTES, unused) + varint(bytes, unused) + bytes;
}
