/** @file
 * train.h - gradients, optimizers, learning-rate schedules, freezing.
 */
#ifndef WEFT_TRAIN_H
#define WEFT_TRAIN_H

#include "weft/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A true zero, in number fields of options where 0 means the default. (Any other negative number there is an
 * error.) */
#define WEFT_ZERO (-1e-300)

/** Builds the gradients of the scalar `loss` by each of `values`, and writes them to gradients[n]. They
 * are made of ops, so further losses may use them (gradient penalties). A value on which the loss
 * does not depend gets zeros. Of y = weft_scale(x, 1) only the paths through y count, and two equal calls
 * make two values: a gradient is by the value that was given, not by one that equals it. */
WEFT_API weft_status weft_gradients(weft_value *loss, int n, weft_value *const *values,
                                    weft_value **gradients);

/** How the learning rate changes with the step t = 0, 1, ... */
typedef enum weft_schedule_kind {
    WEFT_SCHEDULE_CONSTANT = 0, /**< lr */
    WEFT_SCHEDULE_STEP = 1,     /**< lr * gamma^floor(t / step_size) */
    WEFT_SCHEDULE_COSINE = 2,   /**< from lr to lr * floor over total_steps, by half a cosine */
} weft_schedule_kind;

/** A schedule. Before it comes linear warm-up: lr * (t + 1) / warmup_steps while t < warmup_steps. A field
 * that the kind does not use must be 0: anything else is an error. */
typedef struct weft_schedule {
    weft_schedule_kind kind; /**< which formula */
    int64_t warmup_steps;    /**< 0: none */
    int64_t step_size;       /**< STEP: steps between two factors; at least 1 */
    double gamma;            /**< STEP: the factor; 0: 0.1 */
    int64_t total_steps;     /**< COSINE: with the warm-up; above warmup_steps */
    double floor;            /**< COSINE: the last factor on lr, 0 to 1 */
} weft_schedule;

/** A parameter group: parameters whose path matches get other multipliers. The first match counts. A group
 * that is the first match of no parameter under the pattern of weft_minimize() is an error. */
typedef struct weft_param_group {
    const char *pattern; /**< as of weft_minimize(): "*bias,*norm*" */
    double lr_scale; /**< multiplies lr; 0: 1, as without a group; WEFT_ZERO: these parameters do not move */
    double decay_scale; /**< multiplies weight_decay; 0: 1; WEFT_ZERO: these parameters do not decay */
} weft_param_group;

/** An optimizer by name, with PyTorch's arguments and defaults. In number fields 0 means the default written
 * beside them and WEFT_ZERO a true 0. Errors are: other negative numbers, numbers that are not finite, and
 * fields that are set though the optimizer (or the schedule) does not have them. */
typedef struct weft_optimizer {
    const char *type; /**< "sgd", "adam", "adamw" */
    /** Identity of its state (moments, step, learning rate). Calls of several graphs that share a name must
     * agree in all settings below; else weft_compile() names the field that differs. NULL: type + ":" + the
     * pattern given to weft_minimize(). */
    const char *name;
    double lr;              /**< learning rate; 0: 1e-3 */
    double momentum;        /**< sgd; 0: none */
    double dampening;       /**< sgd with momentum; 0 to 1 */
    bool nesterov;          /**< sgd; needs momentum > 0 and dampening 0 */
    double beta1;           /**< adam, adamw: decay of the first moment, below 1; 0: 0.9 */
    double beta2;           /**< adam, adamw: decay of the second moment, below 1; 0: 0.999 */
    double eps;             /**< adam, adamw: added to the root of the second moment; 0: 1e-8 */
    double weight_decay;    /**< sgd, adam: added to the gradient, 0: none; adamw: decoupled, 0: 1e-2 */
    double clip_norm;       /**< gradients are scaled to at most this global 2-norm; 0: no clipping */
    weft_schedule schedule; /**< zeroes: a constant learning rate */
    int n_groups;           /**< number of groups; 0: none, and `groups` NULL */
    const weft_param_group *groups; /**< n_groups of them */
    /** Where the graph computes in f16 (weft_precision()): the first factor on the loss, at most 2^120; 0:
     * 65536. Gradients are those of the loss times this factor. A step whose gradients overflow changes
     * nothing but the factor, which it halves. For a graph that does not compute in f16 it must be 0, which
     * weft_compile() checks. */
    double loss_scale;
    /** So many good steps in a row double the factor of the loss; 0: 2000. Like loss_scale it is for f16
     * only. */
    int64_t growth_interval;
} weft_optimizer;

/** Adds to the graph the gradients of the scalar `loss` by every trainable parameter under `pattern`, and
 * their update by the optimizer. `pattern` is a scope path, in which '*' matches any characters; several
 * have ',' between them ("encoder,head*weight"), and each must match a parameter; NULL or "" is the whole
 * model.
 *
 * All calls in one graph read parameters as they are when a run starts, and take effect together at its end.
 * It is an error, which names the parameter, when the loss does not reach a matching parameter, or when two
 * calls in one graph train the same one. (Calls in two graphs may train the same one, each with its own
 * optimizer or both with one.) `*optimizer` is copied. */
WEFT_API weft_status weft_minimize(weft_value *loss, const char *pattern, const weft_optimizer *optimizer);

/** Parameters whose path matches are trained by no weft_minimize(), before or after this call. Patterns are
 * as those of weft_minimize(). WEFT_NAME when one matches nothing. */
WEFT_API weft_status weft_freeze(weft_model *model, const char *pattern);

#ifdef __cplusplus
}
#endif
#endif
