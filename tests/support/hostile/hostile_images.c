/* hostile_images.c - PNG and JPEG files. */
#include "runtime/data/image.h"
#include "support/hostile/hostile.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

static const char *const images[] = {"a_png/rgb.png", "a_png/palette.png", "b_jpeg/photo.jpg",
                                     "b_jpeg/progressive.jpeg"};

static void make_image(hostile *h) {
    char path[300];
    snprintf(path, sizeof path, TEST_DATA "/golden/images/%s", images[h->format->variant]);
    hostile_put_from(h, path);
}

static void try_image(subject *s) {
    const fake_file *file = hostile_file(s);
    image into;
    const image_file from = {&s->f->env, HOSTILE_FILE, (const unsigned char *)file->data, file->bytes};
    s->good = image_decode(&from, 3, &into, &s->error) == WEFT_OK;
    if (s->error.status == WEFT_UNSUPPORTED && strstr(s->error.text, "was built without")) s->good = true;
    if (s->good && !s->error.status) image_free(&s->f->env, &into);
}

static size_t big_endian(const unsigned char *at) {
    return (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
}

/* The checksums of all chunks: length, type, data, CRC-32. */
static void mend_png(mutant *m, const mutant *good) {
    (void)good;
    for (size_t at = 8; at + 12 <= m->n;) {
        size_t n = big_endian(m->data + at);
        if (n > m->n - at - 12) return;
        unsigned long crc = crc32(0, m->data + at + 4, (uInt)n + 4);
        for (int i = 0; i < 4; i++) m->data[at + 8 + n + (size_t)i] = (unsigned char)(crc >> (24 - 8 * i));
        at += n + 12;
    }
}

const hostile_format hostile_images[] = {
    {"png", make_image, try_image, .mend = mend_png, .variant = 0, .takes_nearly = true},
    {"png with a palette", make_image, try_image, .mend = mend_png, .variant = 1, .takes_nearly = true},
    {"jpeg", make_image, try_image, .variant = 2, .takes_nearly = true},
    {"jpeg in passes", make_image, try_image, .variant = 3, .takes_nearly = true},
    {0}};
