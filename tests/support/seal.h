/* seal.h - model.bin as version 1 had it, without length and checksum: so that what is broken on purpose meets the rules
 * behind them. */
#ifndef WEFT_TEST_SEAL_H
#define WEFT_TEST_SEAL_H

#include "support/faults.h"

/* The file of version 2 under `name`, put again as version 1. */
void unseal_fake(faults *f, const char *name);

#endif
