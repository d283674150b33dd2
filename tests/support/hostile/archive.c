/* archive.c - .npy files and .npz archives in memory, written without the library. */
#include "support/hostile/archive.h"

#include <string.h>
#include <zlib.h>

void bytes_add(bytes *b, const void *data, size_t n) {
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

void bytes_add_number(bytes *b, uint64_t v, int width) {
    for (int i = 0; i < width; i++, v >>= 8) bytes_add(b, &(unsigned char){(unsigned char)v}, 1);
}

bytes bytes_npy(const char *dictionary, const void *data, size_t n) {
    bytes b = {.n = 0};
    bytes_add(&b, "\x93NUMPY\1\0", 8);
    bytes_add_number(&b, strlen(dictionary), 2);
    bytes_add(&b, dictionary, strlen(dictionary));
    bytes_add(&b, data, n);
    return b;
}

/* ---- archives ---- */

static size_t deflated(const bytes *plain, unsigned char *into, size_t room) {
    z_stream z = {0};
    deflateInit2(&z, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
    z.next_in = (Bytef *)plain->data, z.avail_in = (uInt)plain->n;
    z.next_out = into, z.avail_out = (uInt)room;
    deflate(&z, Z_FINISH);
    deflateEnd(&z);
    return z.total_out;
}

void zip_add(zip *z, const char *name, const bytes *member, bool packs) {
    static unsigned char packed[16384];
    size_t n = packs ? deflated(member, packed, sizeof packed) : member->n, at = z->file.n;
    uint64_t big = 0xffffffff;
    bytes_add(&z->file, "PK\3\4\24\0\0\0", 8);
    bytes_add_number(&z->file, packs ? 8 : 0, 2);
    bytes_add_number(&z->file, 0, 4); /* time and date */
    bytes_add_number(&z->file, crc32(0, member->data, (uInt)member->n), 4);
    bytes_add_number(&z->file, z->is_64 ? big : n, 4);
    bytes_add_number(&z->file, z->is_64 ? big : member->n, 4);
    bytes_add_number(&z->file, strlen(name), 2);
    bytes_add_number(&z->file, 4, 2); /* an extra field that only the local header has */
    bytes_add(&z->file, name, strlen(name));
    bytes_add_number(&z->file, 0xcafe, 4);
    bytes_add(&z->file, packs ? packed : member->data, n);
    bytes_add(&z->directory, "PK\1\2\24\0\24\0\0\0", 10);
    bytes_add_number(&z->directory, packs ? 8 : 0, 2);
    bytes_add_number(&z->directory, 0, 4);
    bytes_add_number(&z->directory, crc32(0, member->data, (uInt)member->n), 4);
    bytes_add_number(&z->directory, z->is_64 ? big : n, 4);
    bytes_add_number(&z->directory, z->is_64 ? big : member->n, 4);
    bytes_add_number(&z->directory, strlen(name), 2);
    bytes_add_number(&z->directory, z->is_64 ? 28 : 0, 2);
    bytes_add_number(&z->directory, 0, 10); /* comment, disk, attributes */
    bytes_add_number(&z->directory, z->is_64 ? big : at, 4);
    bytes_add(&z->directory, name, strlen(name));
    if (z->is_64) {
        bytes_add_number(&z->directory, 1, 2);
        bytes_add_number(&z->directory, 24, 2);
        bytes_add_number(&z->directory, member->n, 8);
        bytes_add_number(&z->directory, n, 8);
        bytes_add_number(&z->directory, at, 8);
    }
    z->entries++;
}

void zip_end(zip *z, const char *comment) {
    uint64_t at = z->file.n, n = z->directory.n;
    bytes_add(&z->file, z->directory.data, n);
    if (z->is_64) {
        uint64_t at64 = z->file.n;
        bytes_add(&z->file, "PK\6\6", 4);
        bytes_add_number(&z->file, 44, 8);
        bytes_add_number(&z->file, 45, 4);
        bytes_add_number(&z->file, 0, 8);
        bytes_add_number(&z->file, (uint64_t)z->entries, 8);
        bytes_add_number(&z->file, (uint64_t)z->entries, 8);
        bytes_add_number(&z->file, n, 8);
        bytes_add_number(&z->file, at, 8);
        bytes_add(&z->file, "PK\6\7", 4);
        bytes_add_number(&z->file, 0, 4);
        bytes_add_number(&z->file, at64, 8);
        bytes_add_number(&z->file, 1, 4);
    }
    bytes_add(&z->file, "PK\5\6", 4);
    bytes_add_number(&z->file, 0, 4);
    bytes_add_number(&z->file, z->is_64 ? 0xffff : (uint64_t)z->entries, 2);
    bytes_add_number(&z->file, z->is_64 ? 0xffff : (uint64_t)z->entries, 2);
    bytes_add_number(&z->file, z->is_64 ? 0xffffffff : n, 4);
    bytes_add_number(&z->file, z->is_64 ? 0xffffffff : at, 4);
    bytes_add_number(&z->file, strlen(comment), 2);
    bytes_add(&z->file, comment, strlen(comment));
}
