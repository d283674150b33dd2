/* train.h - gradients, optimizers, learning-rate schedules, freezing. */
#ifndef WEFT_TRAIN_H
#define WEFT_TRAIN_H

#include "weft/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A true zero, in the number fields of options where 0 means a default. (Any other negative number there is an error.) */
#define WEFT_ZERO (-1e-300)

/* Gradients of the scalar `loss` by each of `values`, into gradients[n]; built from ops, so they can be used
 * in further losses (gradient penalties). A value that the loss does not depend on gets zeros. A value is itself alone: by
 * y = weft_scale(x, 1) only the paths that go through y count, and two equal calls make two values. */
WEFT_API weft_status weft_gradients(weft_value *loss, int n, weft_value *const *values,
                                    weft_value **gradients);

typedef enum weft_schedule_kind {
    WEFT_SCHEDULE_CONSTANT = 0,
    WEFT_SCHEDULE_STEP = 1,   /* lr * gamma^floor(t / step_size) */
    WEFT_SCHEDULE_COSINE = 2, /* from lr to lr * floor over total_steps, by half a cosine */
} weft_schedule_kind;

/* The factor on lr at step t = 0, 1, ...: linear warm-up (t + 1) / warmup_steps while t < warmup_steps. A field that
 * another kind reads is left 0: it is an error otherwise. */
typedef struct weft_schedule {
    weft_schedule_kind kind;
    int64_t warmup_steps; /* 0: none */
    int64_t step_size;    /* STEP; at least 1 */
    double gamma;         /* STEP; 0: 0.1 */
    int64_t total_steps;  /* COSINE, warm-up included; above warmup_steps */
    double floor;         /* COSINE: the last factor, 0 to 1 */
} weft_schedule;

/* A parameter group: parameters whose path matches get other multipliers. The first match counts. A group that is the
 * first match of no parameter under weft_minimize's pattern is an error. */
typedef struct weft_param_group {
    const char *pattern; /* '*' matches any characters: "*bias" */
    double lr_scale;     /* multiplies lr; 0: 1, as without a group; WEFT_ZERO: these are not moved */
    double decay_scale;  /* multiplies weight_decay; 0: 1; WEFT_ZERO: these do not decay */
} weft_param_group;

/* An optimizer by name, with PyTorch's arguments and defaults. Of number fields 0 means the default that stands beside
 * them and WEFT_ZERO a true 0; other negative numbers, numbers that are not finite, and fields that are set though the
 * optimizer (or the schedule) does not have them are errors. */
typedef struct weft_optimizer {
    const char *type; /* "sgd", "adam", "adamw" */
    /* Identity of its state (moments, step, learning rate): calls of several graphs that share one must agree in all
     * settings below, else weft_compile names the field. NULL: type + ":" + the pattern given to weft_minimize. */
    const char *name;
    double lr;           /* 0: 1e-3 */
    double momentum;     /* sgd; 0: none */
    double dampening;    /* sgd with momentum; 0 to 1 */
    bool nesterov;       /* sgd; needs momentum > 0 and dampening 0 */
    double beta1, beta2; /* adam, adamw; below 1; 0: 0.9 and 0.999 */
    double eps;          /* adam, adamw; 0: 1e-8 */
    double weight_decay; /* sgd, adam: added to the gradient, 0: none; adamw: decoupled, 0: 1e-2 */
    double clip_norm;    /* gradients are scaled to at most this global 2-norm; 0: no clipping */
    weft_schedule schedule;
    int n_groups; /* of groups[]; 0: none, and groups NULL */
    const weft_param_group *groups;
    /* Where the graph computes in f16 (weft_precision), gradients are those of the loss times a factor, and a step whose
     * gradients overflow changes nothing but the factor, which it halves; so many good steps in a row double it. Setting
     * them for a graph that does not is an error of weft_compile. */
    double loss_scale;       /* the first factor, at most 2^120; 0: 65536 */
    int64_t growth_interval; /* 0: 2000 */
} weft_optimizer;

/* Adds to the graph: gradients of the scalar `loss` by every trainable parameter under `pattern` (a scope path,
 * '*' allowed; NULL or "" is the whole model) and their update by the optimizer. All minimize calls of one graph
 * read parameters as of the run's start and take effect together at its end. A matching parameter that the loss
 * does not reach is an error that names it; so are two calls of one graph that train one parameter. (Calls of two graphs
 * may, each with an optimizer of its own or both with one.) The structure is copied. */
WEFT_API weft_status weft_minimize(weft_value *loss, const char *pattern, const weft_optimizer *optimizer);

/* Parameters whose path matches are not trained by any minimize, before or after. WEFT_NAME when none matches. */
WEFT_API weft_status weft_freeze(weft_model *model, const char *pattern);

#ifdef __cplusplus
}
#endif
#endif
