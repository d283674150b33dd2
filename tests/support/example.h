/* example.h - one small model with a bit of everything that files must keep: two subgraphs, convolution,
 * batch norm with state, dropout and random input (keys), the batch axis, gradients, three optimizers' worth
 * of options, a frozen parameter, options of subgraphs, graphs in both modes. */
#ifndef WEFT_TEST_EXAMPLE_H
#define WEFT_TEST_EXAMPLE_H

#include "weft/model.h"

/* A GAN step, a classifier step and an evaluation; batch 4. env may be NULL. */
weft_model *example_model(const weft_env *env);

#endif
