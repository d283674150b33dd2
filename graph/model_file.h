/* model_file.h - the format of model.bin (graph/model.proto): what its writer and reader share. */
#ifndef WEFT_GRAPH_MODEL_FILE_H
#define WEFT_GRAPH_MODEL_FILE_H

#include "graph/graph.h"
#include "model.pb-c.h"

enum { MODEL_MAGIC = 0x54464557 /* "WEFT" */, MODEL_VERSION = 1 };

/* The field of an attribute struct that `f` describes, as an lvalue of `type`. */
#define ATTR_FIELD(type, attrs, f) (*(type *)((char *)(attrs) + (f)->offset))

#endif
