/* seal.c - see seal.h. */
#include "support/seal.h"

#include "support/test.h"

#include <stdlib.h>
#include <string.h>

void unseal_fake(faults *f, const char *name) {
    enum { SEAL = 25, VERSION_1 = 7 };
    const fake_file *file = fake_get(f, name);
    if (!CHECK(file && file->bytes > SEAL)) return;
    size_t bytes = file->bytes - SEAL + VERSION_1;
    char *old = test_memory(bytes);
    memcpy(old, "\x0dWEFT\x10\x01", VERSION_1);
    memcpy(old + VERSION_1, file->data + SEAL, file->bytes - SEAL);
    fake_put(f, name, old, bytes);
    free(old);
}
