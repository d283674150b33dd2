/* random_model.h - models, options of subgraphs and of compiling at random: small, and of every kind that separate
 * data-parallel training knows, for tests that hold for any plan. */
#ifndef WEFT_TEST_RANDOM_MODEL_H
#define WEFT_TEST_RANDOM_MODEL_H

#include "support/test.h"
#include "weft/weft.h"

/* For a world of so many ranks: towers, a GAN, or two tasks with a shared trunk; each has a graph "eval" besides. */
weft_model *random_model(test_random *r, int world);
/* Of rank 0; others set `rank`. */
weft_compile_options random_options(test_random *r, int world);
int random_below(test_random *r, int n);

#endif
