/* own_model.h - a small model that is trained by optimizers of its own, for the suites about them and about
 * hostile files. */
#ifndef WEFT_TEST_OWN_MODEL_H
#define WEFT_TEST_OWN_MODEL_H

#include "weft/weft.h"

/* "signum", element by element, with a slot and a number; "normed", which scales each parameter's step by
 * norms, with two slots that begin as 0 and 0.5. */
extern const weft_optimizer_definition own_signum, own_normed;

/* Graph "step" with the input x f32[4,16]: trains net/a, b and c by the optimizer. Both types are defined. */
weft_model *own_model(const weft_env *env, const weft_optimizer *optimizer);

#endif
