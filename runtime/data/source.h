/* source.h - reads a file from its first byte to its last, unpacking gzip on the way. */
#ifndef WEFT_RUNTIME_DATA_SOURCE_H
#define WEFT_RUNTIME_DATA_SOURCE_H

#include "graph/file/io.h"

#include <zlib.h>

typedef struct source {
    weft_env env;
    const char *path;
    void *file;
    uint64_t file_bytes, at; /* next byte of the file to read */
    bool is_gzip, is_at_end; /* is_at_end: the gzip stream has ended */
    z_stream z;
    mem_budget budget;     /* limits zlib's memory */
    unsigned char *packed; /* PACKED_BYTES of the file, for gzip */
    uint64_t given;        /* bytes returned so far, for errors */
} source;

/* Recognizes gzip by its first two bytes. On failure nothing stays open. `path` must outlive the source. */
weft_status source_open(source *s, const char *path, const weft_env *env, weft_error *error);
void source_close(source *s);
/* Reads the next `bytes` bytes: all of them, or an error. */
weft_status source_read(source *s, void *into, size_t bytes, weft_error *error);
/* An error unless the file can hold `bytes` more, to be called before they are allocated: exactly that many,
 * or for gzip at most deflate's best ratio, 1032 to 1. */
weft_status source_expect(const source *s, uint64_t bytes, weft_error *error);
/* An error if more bytes follow. For gzip this also checks the checksum. */
weft_status source_finish(source *s, weft_error *error);

#endif
