/* model_file.h - the format of model.bin (graph/file/model.proto), as shared by its writer and its reader:
 * version, seal, and what stands for what. */
#ifndef WEFT_GRAPH_FILE_MODEL_FILE_H
#define WEFT_GRAPH_FILE_MODEL_FILE_H

#include "graph/core/graph.h"
#include "model.pb-c.h"
#include "weft/field.h"

enum { MODEL_MAGIC = 0x54464557 /* "WEFT" */, MODEL_VERSION = 2 };

/* The seal, the first 25 bytes: magic, version, length and checksum, encoded as protobuf fields so that the
 * whole file is one message. The constants are offsets in bytes. */
enum { SEAL_BYTES = 25, SEAL_LENGTH_AT = 8, SEAL_CHECKSUM_AT = 17 };
/* Fills the seal of a file whose other bytes are `rest`. */
void seal_write(uint8_t seal[SEAL_BYTES], const uint8_t *rest, size_t rest_bytes);

/* What the seal says about the file. */
typedef enum seal_state {
    SEAL_GOOD,
    SEAL_OTHER_FORMAT,
    SEAL_OTHER_VERSION, /* whose number is *promised */
    SEAL_CUT,
    SEAL_LONGER,
    SEAL_CHANGED
} seal_state;
/* Compares the seal with the file; *promised is the length in it. */
seal_state seal_check(const uint8_t *file, size_t bytes, uint64_t *promised);

/* By attr_kind: the kind of value in the file. */
extern const Weft__Attribute__ValueCase attribute_case[];
/* Where the message has a field of weft_schedule_fields(): they have the same names. */
void *schedule_member(Weft__Schedule *message, const weft_field *field);

#endif
