/* seal.h - model.bin as version 1, without length and checksum, so that deliberate damage reaches the rules
 * after those. */
#ifndef WEFT_TEST_SEAL_H
#define WEFT_TEST_SEAL_H

#include "support/faults.h"

/* Rewrites the version 2 file `name` as version 1. */
void unseal_fake(faults *f, const char *name);

#endif
