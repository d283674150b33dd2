/* random_model.h - random models, options of subgraphs and of compiling: small ones, but of every kind that
 * separate data-parallel training supports, for tests that hold for any plan. */
#ifndef WEFT_TEST_RANDOM_MODEL_H
#define WEFT_TEST_RANDOM_MODEL_H

#include "support/test.h"
#include "weft/weft.h"

/* A model for a world of this size: towers, a GAN, or two tasks with a shared trunk; each also has a graph
 * "eval". */
weft_model *random_model(test_random *r, int world);
/* Options of rank 0; the other ranks set `rank`. */
weft_compile_options random_options(test_random *r, int world);
int random_below(test_random *r, int n); /* 0 to n - 1 */
bool random_one_in(test_random *r, int n);

#endif
