/* model_file.h - the format of model.bin (graph/file/model.proto): what its writer and reader share. */
#ifndef WEFT_GRAPH_FILE_MODEL_FILE_H
#define WEFT_GRAPH_FILE_MODEL_FILE_H

#include "graph/core/graph.h"
#include "model.pb-c.h"

enum { MODEL_MAGIC = 0x54464557 /* "WEFT" */, MODEL_VERSION = 2 };

/* The first bytes: magic, version, length and checksum, as the protobuf fields that they are. */
enum { SEAL_BYTES = 25, SEAL_LENGTH_AT = 8, SEAL_CHECKSUM_AT = 17 };
void seal_write(uint8_t seal[SEAL_BYTES], const uint8_t *rest, size_t rest_bytes);

/* What a file's beginning says of the whole. */
typedef enum seal_state {
    SEAL_GOOD,
    SEAL_NONE, /* it begins otherwise */
    SEAL_CUT,
    SEAL_LONGER,
    SEAL_CHANGED
} seal_state;
seal_state seal_check(const uint8_t *file, size_t bytes, uint64_t *promised);

/* The field of an attribute struct that `f` describes, as an lvalue of `type`. */
#define ATTR_FIELD(type, attrs, f) (*(type *)((char *)(attrs) + (f)->offset))

#endif
