/* seal.h - right length and checksum for a model.bin whose contents a test has changed, so that damage
 * reaches the rules after those. */
#ifndef WEFT_TEST_SEAL_H
#define WEFT_TEST_SEAL_H

#include "support/faults.h"

#include "graph/file/model_file.h"

enum { SEALED_BYTES = 25 }; /* of the head: magic, version, length, checksum */

/* Writes the head of a file of n bytes, at least SEALED_BYTES. */
void seal_bytes(void *file, size_t n);
/* The file `name` of a message that was unpacked and changed, with that head; returns its bytes. */
size_t put_message(faults *f, const char *name, Weft__Model *m);

#endif
