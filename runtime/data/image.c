/* image.c - reads image files: finds the decoder. */
#include "runtime/data/image.h"
#include "runtime/data/stream.h"

enum { MOST_FILE = 1 << 30 };

weft_status image_decode(const image_file *f, int channels, image *into, weft_error *error) {
    weft_status status;
    *into = (image){0, 0, 0, NULL};
    if (f->bytes >= 8 && memcmp(f->data, "\x89PNG\r\n\x1a\n", 8) == 0)
        status = image_decode_png(f, into, error);
    else if (f->bytes >= 3 && memcmp(f->data, "\xff\xd8\xff", 3) == 0)
        status = image_decode_jpeg(f, into, error);
    else
        return kit_fail(error, WEFT_FILE, "%.600s: it is neither PNG nor JPEG", f->path);
    if (!status && into->channels != channels) status = image_convert(f, channels, into, error);
    if (status) image_free(f->env, into);
    return status;
}

weft_status image_load(const weft_env *env, const char *path, int channels, image *into, weft_error *error) {
    stream s;
    *into = (image){0, 0, 0, NULL};
    weft_status status = stream_open(&s, path, env, error);
    if (status) return status;
    size_t bytes = (size_t)s.file_bytes;
    unsigned char *data = bytes <= MOST_FILE ? weft_memory_new(env, bytes) : NULL;
    if (bytes > MOST_FILE)
        status =
            kit_fail(error, WEFT_FILE, "%.600s: %zu bytes, images have at most %d", path, bytes, MOST_FILE);
    else
        status = data ? stream_read_at(&s, 0, data, bytes, error) : kit_no_memory(error, path);
    stream_close(&s);
    if (!status) status = image_decode(&(image_file){env, path, data, bytes}, channels, into, error);
    weft_memory_free(env, data, bytes);
    return status;
}
