/* model_file.c - see model_file.h. Protobuf alone takes a file cut at the end of a field for a smaller
 * complete model, and a changed byte for another number: hence the seal. The checksum is XXH3 (xxhash.com,
 * stable since 0.8.0). */
#include "graph/file/model_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <string.h>

/* The seal's fixed bytes: field 1 "WEFT" and field 2, the version. Then the tags of fields 10 and 11, each
 * before 8 little-endian bytes; start[] ends with the first tag. */
enum { VERSION_AT = 6 };
static const uint8_t start[SEAL_LENGTH_AT] = {0x0d, 'W', 'E', 'F', 'T', 0x10, MODEL_VERSION, 0x51};
static const uint8_t checksum_tag = 0x59;

/* 64 bits, little-endian on any machine. */
static void put_little_endian(uint8_t *to, uint64_t v) {
    for (int i = 0; i < 8; i++) to[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t get(const uint8_t *from) {
    uint64_t v = 0;
    for (int i = 0; i < 8; i++) v |= (uint64_t)from[i] << (8 * i);
    return v;
}

void seal_write(uint8_t seal[SEAL_BYTES], const uint8_t *rest, size_t rest_bytes) {
    memcpy(seal, start, sizeof start);
    put_little_endian(seal + SEAL_LENGTH_AT, (uint64_t)rest_bytes + SEAL_BYTES);
    seal[SEAL_CHECKSUM_AT - 1] = checksum_tag;
    put_little_endian(seal + SEAL_CHECKSUM_AT, XXH3_64bits(rest, rest_bytes));
}

seal_state seal_check(const uint8_t *file, size_t bytes, uint64_t *promised) {
    /* Even a file of fewer bytes than the fixed part counts as cut off, if these bytes are right. */
    if (memcmp(file, start, bytes < VERSION_AT ? bytes : VERSION_AT)) return SEAL_OTHER_FORMAT;
    *promised = bytes > VERSION_AT ? file[VERSION_AT] : MODEL_VERSION;
    if (*promised != MODEL_VERSION) return SEAL_OTHER_VERSION;
    *promised = SEAL_BYTES;
    if (bytes < SEAL_BYTES) return SEAL_CUT;
    if (file[SEAL_LENGTH_AT - 1] != start[SEAL_LENGTH_AT - 1]) return SEAL_CHANGED;
    if (file[SEAL_CHECKSUM_AT - 1] != checksum_tag) return SEAL_CHANGED;
    *promised = get(file + SEAL_LENGTH_AT);
    if (bytes != *promised) return bytes < *promised ? SEAL_CUT : SEAL_LONGER;
    bool good = get(file + SEAL_CHECKSUM_AT) == XXH3_64bits(file + SEAL_BYTES, bytes - SEAL_BYTES);
    return good ? SEAL_GOOD : SEAL_CHANGED;
}

const Weft__Attribute__ValueCase attribute_case[] = {
    [ATTR_INT] = WEFT__ATTRIBUTE__VALUE_INTEGER,         [ATTR_REAL] = WEFT__ATTRIBUTE__VALUE_REAL,
    [ATTR_BOOL] = WEFT__ATTRIBUTE__VALUE_FLAG,           [ATTR_DTYPE] = WEFT__ATTRIBUTE__VALUE_DTYPE,
    [ATTR_STRING] = WEFT__ATTRIBUTE__VALUE_TEXT,         [ATTR_KEY] = WEFT__ATTRIBUTE__VALUE_KEY,
    [ATTR_INTS] = WEFT__ATTRIBUTE__VALUE_INTEGERS,       [ATTR_BYTES] = WEFT__ATTRIBUTE__VALUE_DATA,
    [ATTR_SCHEDULES] = WEFT__ATTRIBUTE__VALUE_SCHEDULES,
};

void *schedule_member(Weft__Schedule *message, const weft_field *field) {
    const ProtobufCFieldDescriptor *there =
        protobuf_c_message_descriptor_get_field_by_name(&weft__schedule__descriptor, field->name);
    return (char *)message + there->offset;
}
