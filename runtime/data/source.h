/* source.h - the bytes of a file from first to last, unpacked on the way if it is gzip. */
#ifndef WEFT_RUNTIME_DATA_SOURCE_H
#define WEFT_RUNTIME_DATA_SOURCE_H

#include "graph/file/io.h"

#include <zlib.h>

typedef struct source {
    weft_env env;
    const char *path;
    void *file;
    uint64_t file_bytes, at; /* at: the next byte of the file to read */
    bool is_gzip, is_at_end; /* the gzip stream has ended */
    z_stream z;
    mem_budget budget; /* of zlib */
    unsigned char *packed;
    uint64_t given; /* bytes handed out */
} source;

weft_status source_open(source *s, const char *path, const weft_env *env, weft_error *error);
void source_close(source *s);
/* The next bytes, all of them or an error. */
weft_status source_read(source *s, void *into, size_t bytes, weft_error *error);
/* Whether the file can hold `bytes` more, before anything is allocated for them: exactly, or for gzip at
 * deflate's best, 1032 to 1. */
weft_status source_expect(const source *s, uint64_t bytes, weft_error *error);
/* Nothing may follow; for gzip this also checks its sum. */
weft_status source_finish(source *s, weft_error *error);

#endif
