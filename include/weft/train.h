/* train.h - gradients, optimizers, learning-rate schedules, freezing. */
#ifndef WEFT_TRAIN_H
#define WEFT_TRAIN_H

#include "weft/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Gradients of the scalar `loss` by each of `values`, into gradients[n]; built from ops, so they can be used
 * in further losses (gradient penalties). A value that the loss does not depend on gets zeros. */
weft_status weft_gradients(weft_value *loss, int n, weft_value *const *values, weft_value **gradients);

typedef enum weft_schedule_kind {
    WEFT_SCHEDULE_CONSTANT = 0,
    WEFT_SCHEDULE_STEP = 1,   /* lr * gamma^floor(t / step_size) */
    WEFT_SCHEDULE_COSINE = 2, /* from lr to lr * floor over total_steps, by half a cosine */
} weft_schedule_kind;

/* The factor on lr at step t = 0, 1, ...: linear warm-up (t + 1) / warmup_steps while t < warmup_steps. */
typedef struct weft_schedule {
    weft_schedule_kind kind;
    int64_t warmup_steps;
    int64_t step_size;   /* STEP */
    double gamma;        /* STEP; 0 means 0.1 */
    int64_t total_steps; /* COSINE, warm-up included */
    double floor;        /* COSINE: the last factor */
} weft_schedule;

/* A parameter group: parameters whose path matches get other multipliers. The first match counts. */
typedef struct weft_param_group {
    const char *pattern; /* '*' matches any characters: "*bias" */
    double lr_scale;     /* multiplies lr */
    double decay_scale;  /* multiplies weight_decay */
} weft_param_group;

/* An optimizer by name, with PyTorch's arguments and defaults (a field left 0 means the default where 0 makes
 * no sense: lr 1e-3 (sgd: 1e-3), beta1 0.9, beta2 0.999, eps 1e-8, adamw's weight_decay 1e-2). */
typedef struct weft_optimizer {
    const char *type; /* "sgd", "adam", "adamw" */
    const char *name; /* identity of its state; NULL: type + ":" + the pattern given to weft_minimize */
    double lr;
    double momentum, dampening; /* sgd */
    bool nesterov;              /* sgd; needs momentum > 0 and dampening 0 */
    double beta1, beta2, eps;   /* adam, adamw; WEFT_ZERO for a true 0 of beta1 */
    double weight_decay;        /* sgd, adam: added to the gradient; adamw: decoupled. WEFT_ZERO for none */
    double clip_norm;           /* > 0: gradients are scaled to at most this global 2-norm */
    weft_schedule schedule;
    int n_groups;
    const weft_param_group *groups;
    /* Where the graph computes in f16 (weft_precision), gradients are those of the loss times a factor, and a step whose
     * gradients overflow changes nothing but the factor, which it halves; so many good steps in a row double it. */
    double loss_scale;       /* the first factor; 0: 65536 */
    int64_t growth_interval; /* 0: 2000 */
} weft_optimizer;

/* A true zero where 0 would mean the default. */
#define WEFT_ZERO (-1.0)

/* Adds to the graph: gradients of the scalar `loss` by every trainable parameter under `pattern` (a scope path,
 * '*' allowed; NULL or "" is the whole model) and their update by the optimizer. All minimize calls of one graph
 * read parameters as of the run's start and take effect together at its end. A matching parameter that the loss
 * does not reach is an error that names it. The structure is copied. */
weft_status weft_minimize(weft_value *loss, const char *pattern, const weft_optimizer *optimizer);

/* Parameters whose path matches are not trained from here on by any minimize. */
weft_status weft_freeze(weft_model *model, const char *pattern);

#ifdef __cplusplus
}
#endif
#endif
