/* seal.c - see seal.h. */
#include "support/hostile/seal.h"

#include "support/test.h"

#define XXH_INLINE_ALL
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* As docs/formats.md describes them: length and checksum have 8 bytes each, little-endian. */
void seal_bytes(void *file, size_t n) {
    char *at = file;
    enum { LENGTH_AT = 8, CHECKSUM_AT = 17 };
    uint64_t length = n, checksum = XXH3_64bits(at + SEALED_BYTES, n - SEALED_BYTES);
    memcpy(at, "\x0dWEFT\x10\x02\x51", LENGTH_AT);
    memcpy(at + LENGTH_AT, &length, sizeof length);
    at[CHECKSUM_AT - 1] = 0x59;
    memcpy(at + CHECKSUM_AT, &checksum, sizeof checksum);
}

size_t put_message(faults *f, const char *name, Weft__Model *m) {
    m->magic = m->version = 0; /* which the head has */
    m->length = m->checksum = 0;
    size_t bytes = SEALED_BYTES + weft__model__get_packed_size(m);
    uint8_t *file = test_memory(bytes);
    weft__model__pack(m, file + SEALED_BYTES);
    seal_bytes(file, bytes);
    fake_put(f, name, file, bytes);
    free(file);
    return bytes;
}
