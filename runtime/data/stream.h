/* stream.h - reads a file from its first byte to its last, unpacking gzip on the way. */
#ifndef WEFT_RUNTIME_DATA_STREAM_H
#define WEFT_RUNTIME_DATA_STREAM_H

#include "runtime/data/kit.h"

#include <zlib.h>

/* Memory from the env with a limit, for zlib, whose free has no size. */
typedef struct zlib_memory {
    const weft_env *env;
    size_t left; /* bytes that may still be allocated */
} zlib_memory;

typedef struct stream {
    weft_env env;
    const char *path;
    void *file;
    uint64_t file_bytes;       /* where the stream ends in the file */
    uint64_t at;               /* next byte of the file to read */
    bool is_packed, is_at_end; /* gzip, or deflate; is_at_end: the packed stream has ended */
    z_stream z;
    zlib_memory budget;    /* limits zlib's memory */
    unsigned char *packed; /* PACKED_BYTES of the file, for gzip */
    uint64_t given;        /* bytes returned so far, for errors */
} stream;

/* A file whose name ends in .gz is gzip. On failure nothing stays open. `path` must outlive the stream. */
weft_status stream_open(stream *s, const char *path, const weft_env *env, weft_error *error);
/* The same for `bytes` bytes of the file from `begin` on, as they are or packed by deflate. */
weft_status stream_open_part(stream *s, const char *path, uint64_t begin, uint64_t bytes, bool is_deflate,
                             const weft_env *env, weft_error *error);
void stream_close(stream *s);
/* Reads the next `bytes` bytes: all of them, or an error. */
weft_status stream_read(stream *s, void *into, size_t bytes, weft_error *error);
/* An error unless the file can hold `bytes` more, to be called before they are allocated: exactly that many,
 * or for gzip at most deflate's best ratio, 1032 to 1. */
weft_status stream_expect(const stream *s, uint64_t bytes, weft_error *error);
/* Reads at a place of the file, of any thread; not for packed streams. */
weft_status stream_read_at(const stream *s, uint64_t at, void *into, size_t bytes, weft_error *error);
/* A number of at most 8 bytes. */
uint64_t stream_number(const unsigned char *bytes, int n, bool is_big_endian);
/* An error if more bytes follow. For gzip this also checks the checksum. */
weft_status stream_finish(stream *s, weft_error *error);

#endif
