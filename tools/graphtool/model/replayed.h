/* replayed.h - a bad.step (docs/formats.md), read as a hostile file: what it says is checked before anything
 * is allocated by it; the plan, the store and the session check the rest. */
#ifndef WEFT_TOOLS_GRAPHTOOL_MODEL_REPLAYED_H
#define WEFT_TOOLS_GRAPHTOOL_MODEL_REPLAYED_H

#include "weft/weft.h"

enum { REPLAYED_RANKS = 256 /* at most */ };

/* The oneDNN of a plan, as its settings say it: "unused" where it computes nothing of the plan; "": the
 * file does not say it. */
typedef struct replayed_library {
    const char *version, *isa;
    const char *implementations; /* names with a comma between */
} replayed_library;

typedef struct replayed {
    const char *path;
    weft_model *model;
    char *step;                   /* the text that all texts point into */
    weft_compile_options options; /* except for the rank */
    const char *graph, *version, *fingerprint, *calibration, *seed;
    replayed_library library;
    int64_t runs;               /* of the step */
    uint64_t plan, seed_number; /* the plan's fingerprint; the number that `seed` is */
} replayed;

/* False with *error set. replayed_close in any case. */
bool replayed_open(replayed *r, const char *path, weft_error *error);
void replayed_close(replayed *r);

/* Runs the step again, each rank in a thread, and returns rank 0's report, which the caller frees; NULL with
 * *error set: WEFT_OK when the step is a good one here. */
char *replayed_run(const replayed *r, weft_error *error);

#endif
