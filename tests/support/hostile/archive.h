/* archive.h - .npy files and .npz archives in memory, as NumPy writes them. */
#ifndef WEFT_TEST_ARCHIVE_H
#define WEFT_TEST_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bytes {
    unsigned char data[16384];
    size_t n;
} bytes;

void bytes_add(bytes *b, const void *data, size_t n);
void bytes_add_number(bytes *b, uint64_t v, int width); /* little-endian */
/* A .npy file of version 1 with this dictionary and data. */
bytes bytes_npy(const char *dictionary, const void *data, size_t n);

/* An archive that begins as zeroes; `packs`: the member is deflated. */
typedef struct zip {
    bytes file, directory;
    int entries;
    bool is_64; /* sizes and offsets in zip64 fields */
} zip;

void zip_add(zip *z, const char *name, const bytes *member, bool packs);
void zip_end(zip *z, const char *comment);

#endif
