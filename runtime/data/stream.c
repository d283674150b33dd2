/* stream.c - plain and gzip files, and parts of files, as one stream of bytes. zlib allocates from a
 * budget, so a hostile file cannot make it take more. */
#include "runtime/data/stream.h"

enum { PACKED_BYTES = 64 << 10, ZLIB_BYTES = 1 << 20 /* inflate takes about 48 KiB */, BEST_RATIO = 1032 };

/* The header of a piece of zlib's memory; its size keeps what follows aligned. */
typedef union piece {
    size_t bytes;
    char pad[64];
} piece;

static void *zlib_alloc(void *budget, unsigned items, unsigned width) {
    zlib_memory *b = budget;
    size_t bytes;
    if (!kit_mul(&bytes, items, width) || bytes > ZLIB_BYTES || bytes + sizeof(piece) > b->left) return NULL;
    bytes += sizeof(piece);
    piece *p = weft_memory_new(b->env, bytes);
    if (!p) return NULL;
    p->bytes = bytes;
    b->left -= bytes;
    return p + 1;
}

static void zlib_free(void *budget, void *memory) {
    zlib_memory *b = budget;
    if (!memory) return;
    piece *p = (piece *)memory - 1;
    b->left += p->bytes;
    weft_memory_free(b->env, p, p->bytes);
}

/* `window`: zlib's largest with 16 for gzip's header, or negative for deflate without one. */
static weft_status unpack_begin(stream *s, int window, weft_error *error) {
    s->budget = (zlib_memory){&s->env, ZLIB_BYTES};
    s->z = (z_stream){.zalloc = zlib_alloc, .zfree = zlib_free, .opaque = &s->budget};
    s->packed = weft_memory_new(&s->env, PACKED_BYTES);
    if (!s->packed || inflateInit2(&s->z, window) != Z_OK) return kit_no_memory(error, s->path);
    s->is_packed = true;
    return WEFT_OK;
}

static weft_status file_open(stream *s, const char *path, const weft_env *env, weft_error *error) {
    *s = (stream){.env = env ? *env : (weft_env){0}, .path = path};
    if (!path) return kit_fail(error, WEFT_ARGUMENT, "a path is needed");
    const weft_io *io = weft_files(&s->env);
    int code = io->open_read(io->context, path, &s->file, &s->file_bytes);
    if (!code) return WEFT_OK;
    s->file = NULL;
    return weft_error_io(error, path, "cannot be opened", code);
}

/* By the name, since any two bytes may begin a file of raw numbers. */
static bool is_gzip(const char *path) {
    size_t n = strlen(path);
    return n >= 3 && strcmp(path + n - 3, ".gz") == 0;
}

weft_status stream_open(stream *s, const char *path, const weft_env *env, weft_error *error) {
    weft_status status = file_open(s, path, env, error);
    if (status) return status;
    if (is_gzip(path)) status = unpack_begin(s, 15 + 16, error);
    if (status) stream_close(s);
    return status;
}

weft_status stream_open_part(stream *s, const char *path, uint64_t begin, uint64_t bytes, bool is_deflate,
                             const weft_env *env, weft_error *error) {
    weft_status status = file_open(s, path, env, error);
    if (status) return status;
    if (begin > s->file_bytes || bytes > s->file_bytes - begin)
        status = kit_fail(error, WEFT_FILE, "%.600s: bytes %ju to %ju are needed, the file has %ju", path,
                          begin, (begin + bytes), s->file_bytes);
    s->at = begin;
    s->file_bytes = begin + bytes;
    if (!status && is_deflate) status = unpack_begin(s, -15, error);
    if (status) stream_close(s);
    return status;
}

weft_status stream_read_at(const stream *s, uint64_t at, void *into, size_t bytes, weft_error *error) {
    const weft_io *io = weft_files(&s->env);
    int code = bytes ? io->read(io->context, s->file, at, into, bytes) : 0;
    return code ? weft_error_io(error, s->path, "cannot be read", code) : WEFT_OK;
}

void stream_close(stream *s) {
    const weft_io *io = weft_files(&s->env);
    if (s->is_packed) inflateEnd(&s->z);
    weft_memory_free(&s->env, s->packed, PACKED_BYTES);
    if (s->file) io->close(io->context, s->file); /* closing a file that was only read cannot lose data */
    s->file = NULL;
    s->packed = NULL;
    s->is_packed = false;
}

/* ---- gzip ---- */

/* Reads the next packed bytes for zlib. */
static weft_status refill(stream *s, weft_error *error) {
    uint64_t rest = s->file_bytes - s->at;
    size_t bytes = rest < PACKED_BYTES ? (size_t)rest : PACKED_BYTES;
    if (bytes == 0) return kit_fail(error, WEFT_FILE, "%.600s: the gzip stream is cut off", s->path);
    if (stream_read_at(s, s->at, s->packed, bytes, error)) return error->status;
    s->at += bytes;
    s->z.next_in = s->packed;
    s->z.avail_in = (uInt)bytes;
    return WEFT_OK;
}

/* Unpacks up to `bytes`; *got is less only at the end of the stream. */
static weft_status unpack(stream *s, unsigned char *into, size_t bytes, size_t *got, weft_error *error) {
    *got = 0;
    while (*got < bytes && !s->is_at_end) {
        size_t room = bytes - *got;
        if (s->z.avail_in == 0) {
            if (refill(s, error)) return error->status;
        }
        s->z.next_out = into + *got;
        s->z.avail_out = room > 1 << 30 ? 1 << 30 : (uInt)room;
        uInt before = s->z.avail_out;
        int code = inflate(&s->z, Z_NO_FLUSH);
        *got += before - s->z.avail_out;
        if (code == Z_STREAM_END)
            s->is_at_end = true;
        else if (code == Z_MEM_ERROR)
            return kit_no_memory(error, s->path);
        else if (code != Z_OK && code != Z_BUF_ERROR)
            return kit_fail(error, WEFT_FILE, "%.600s: the gzip stream is damaged: %s", s->path,
                            s->z.msg ? s->z.msg : "unknown error");
    }
    return WEFT_OK;
}

/* ---- reading ---- */

uint64_t stream_number(const unsigned char *bytes, int n, bool is_big_endian) {
    uint64_t v = 0;
    for (int i = 0; i < n; i++) v = v << 8 | bytes[is_big_endian ? i : n - 1 - i];
    return v;
}

/* The error says at which byte the file ended, counted after unpacking. */
weft_status stream_read(stream *s, void *into, size_t bytes, weft_error *error) {
    size_t got = bytes;
    weft_status status = WEFT_OK;
    if (s->is_packed) {
        status = unpack(s, into, bytes, &got, error);
    } else if (bytes > s->file_bytes - s->at) {
        got = (size_t)(s->file_bytes - s->at);
    } else {
        status = stream_read_at(s, s->at, into, bytes, error);
        s->at += bytes;
    }
    if (status) return status;
    if (got < bytes)
        return kit_fail(error, WEFT_FILE, "%.600s: it ends after %ju bytes, %zu more are needed", s->path,
                        (s->given + got), bytes - got);
    s->given += bytes;
    return WEFT_OK;
}

/* BEST_RATIO is deflate's upper bound: a gzip file within it may still end early, which stream_read reports.
 */
weft_status stream_expect(const stream *s, uint64_t bytes, weft_error *error) {
    uint64_t rest = s->file_bytes - s->at;
    if (!s->is_packed && bytes != rest)
        return kit_fail(error, WEFT_FILE, "%.600s: its header promises %ju bytes of data, the file has %ju",
                        s->path, bytes, rest);
    if (s->is_packed && bytes / BEST_RATIO > s->file_bytes)
        return kit_fail(error, WEFT_FILE,
                        "%.600s: its header promises %ju bytes of data, more than %ju bytes of gzip hold",
                        s->path, bytes, s->file_bytes);
    return WEFT_OK;
}

/* One more byte from gzip makes it reach its end, where it compares the checksum. */
weft_status stream_finish(stream *s, weft_error *error) {
    unsigned char more;
    size_t got = 0;
    if (s->is_packed) {
        if (unpack(s, &more, 1, &got, error)) return error->status;
    }
    if (got || s->z.avail_in || s->at != s->file_bytes)
        return kit_fail(error, WEFT_FILE, "%.600s: bytes follow the data that its header promises", s->path);
    return WEFT_OK;
}
