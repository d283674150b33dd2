/** @file
 * train.h - gradients, optimizers, learning-rate schedules, freezing.
 */
#ifndef WEFT_TRAIN_H
#define WEFT_TRAIN_H

#include "weft/model.h"
#include "weft/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Builds the gradients of the scalar `loss` by each of `values`, and writes them to gradients[n]. They
 * are made of ops, so further losses may use them (gradient penalties). A value on which the loss
 * does not depend gets zeros. For y = weft_scale(x, 1) only the paths through y count, and two equal calls
 * make two values: a gradient is by the value that was given, not by one that equals it. */
WEFT_API weft_status weft_gradients(weft_value *loss, int n, weft_value *const *values,
                                    weft_value **gradients);

/** A number field of weft_optimizer: of a parameter group, or one that your own optimizer reads. */
typedef struct weft_optimizer_number {
    const char *field; /**< "momentum", "beta1", "eps", "alpha", ...; not those that all optimizers have */
    double value;      /**< a group's, where 0 is 0; your own optimizer's: what 0 means there */
} weft_optimizer_number;

/** A parameter group: parameters whose path matches, and that are of its kinds, get other multipliers. The
 * first match counts. A group that is the first match of no parameter under the pattern of weft_minimize() is
 * an error. */
typedef struct weft_param_group {
    const char *pattern; /**< as of weft_minimize(): "*bias,*norm*"; with `kinds` NULL is all */
    double lr_scale; /**< multiplies lr; 0: 1, as without a group; WEFT_ZERO: these parameters do not move */
    double decay_scale; /**< multiplies weight_decay; 0: 1; WEFT_ZERO: these parameters do not decay */
    /** Other numbers of these parameters, up to the first without a field:
     * {{"beta1", 0.5}, {"eps", 1e-6}}. All but lr, weight_decay, clipping and the loss scale are possible. */
    weft_optimizer_number numbers[4];
    /** Bits WEFT_PARAMS_...: only parameters that are of one of these kinds; 0: all. Kinds follow from the
     * calls of all the model's graphs, those made after weft_minimize() too. */
    unsigned kinds;
    /** These parameters train in the optimizer's updates [from, to), counted from 0; to 0: to the end.
     * Outside of them neither they nor their state change, and norms of clip_norm leave their gradients out,
     * as in PyTorch where .grad is None; their own step counts from `from`. Schedules continue. */
    int64_t from;
    int64_t to;                       /**< see `from` */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_param_group;

/** An optimizer by name, with PyTorch's arguments and defaults. In number fields 0 means the default written
 * beside them and WEFT_ZERO a true 0. Errors are: other negative numbers, numbers that are not finite, and
 * fields that are set though the optimizer (or the schedule) does not have them. */
typedef struct weft_optimizer {
    /** Capitals do not matter. One of weft_define_optimizer(), or "sgd", "asgd", "rprop", "adam", "adamw",
     * "amsgrad", "rmsprop", "adagrad", "adadelta", "adafactor", "adamax", "nadam", "radam", "lamb",
     * "lars", "lion", "muon" */
    const char *type;
    /** Identity of its state (moments, step, learning rate). Calls of several graphs that share a name must
     * agree in all settings below; else weft_compile() names the field that differs. NULL: type + ":" + the
     * pattern given to weft_minimize(). */
    const char *name;
    double lr;           /**< learning rate; 0: 1e-3 */
    double momentum;     /**< sgd, rmsprop, lars: 0: none; muon: 0: 0.95 */
    double dampening;    /**< sgd with momentum; 0 to 1 */
    bool nesterov;       /**< sgd; needs momentum > 0 and dampening 0 */
    double beta1;        /**< adam and its kin, lamb, lion: decay of the first moment, below 1; 0: 0.9 */
    double beta2;        /**< the same of the second moment; 0: 0.999, lion 0.99 */
    double eps;          /**< added to a denominator; 0: 1e-8; adagrad 1e-10, adadelta and lamb 1e-6, muon
                             * 1e-7; adafactor: eps1, 0: 2^-23 */
    double weight_decay; /**< added to the gradient, 0: none; adamw, lamb, lion, muon, adafactor, and with
                             * decoupled_weight_decay: apart from it; adamw 0: 1e-2, muon 0: 0.1 */
    double alpha;        /**< rmsprop: decay of the mean square, 0: 0.99; asgd: power of eta, 0: 0.75 */
    double rho;          /**< adadelta: decay of the mean squares; 0: 0.9 */
    double lr_decay;     /**< adagrad: lr / (1 + (step - 1) lr_decay); 0: none */
    double initial_accumulator;  /**< adagrad: where its sum begins (initial_accumulator_value); 0: 0 */
    double lambd;                /**< asgd: decay of the weights; 0: 1e-4 */
    double t0;                   /**< asgd: the step at which averaging begins; 0: 1e6 */
    double eta_minus;            /**< rprop: factor on the step size after a change of sign; 0: 0.5 */
    double eta_plus;             /**< rprop: the factor otherwise; 0: 1.2 */
    double step_min;             /**< rprop: smallest step size; 0: 1e-6 */
    double step_max;             /**< rprop: largest step size; 0: 50 */
    double momentum_decay;       /**< nadam: how beta1 grows with the steps; 0: 4e-3 */
    double beta2_decay;          /**< adafactor: 1 - beta2 is step^-beta2_decay; 0: 0.8 (in PyTorch -0.8) */
    double eps2;                 /**< adafactor: least root mean square of a parameter; 0: 1e-3 */
    double update_rms;           /**< adafactor: most root mean square of an update (d), at least 1; 0: 1 */
    double trust;                /**< lars: the trust coefficient; 0: 1e-3 */
    bool centered;               /**< rmsprop: divides by the deviation, not by the mean square */
    bool amsgrad;                /**< adam, adamw: by the largest second moment so far */
    bool decoupled_weight_decay; /**< nadam, radam: weight_decay as adamw's */
    /** Gradients are scaled to at most this global 2-norm, after clip_value; 0: no clipping. */
    double clip_norm;
    double clip_value; /**< each element of a gradient is clipped to [-clip_value, clip_value]; 0: no */
    /** Keeps an average of each parameter, which every update that is done moves: average = ema average +
     * (1 - ema) parameter; the first one copies. As torch.optim.swa_utils.AveragedModel with
     * get_ema_avg_fn(ema); below 1, 0.999 say; 0: none. weft_use_averages() puts averages instead of
     * parameters. */
    double ema;
    /** A warm-up of averages: update t takes ema (1 - exp(-t / ema_gamma)) for ema, as MMEngine's
     * ExpMomentumEMA, whose gamma is 2000; 0: none. */
    double ema_gamma;
    /** Averages of state in f32, too, such as running statistics of norms: all that `pattern` matches. As
     * AveragedModel's use_buffers and MMEngine's update_buffers. */
    bool ema_buffers;
    /** Parts of schedules of the learning rate, momentum and weight decay, up to a NONE; zeroes: all stay as
     * they are. .schedule = {{WEFT_SCHEDULE_COSINE, .warmup = 100, .end = 10000}} */
    weft_schedule schedule[WEFT_MAX_SCHEDULES];
    int n_groups;                   /**< number of groups; 0: none, and `groups` NULL */
    const weft_param_group *groups; /**< n_groups of them */
    /** Where the graph computes in f16 (weft_model_set_precision()): the first factor on the loss, at most
     * 2^120; 0: 65536. Gradients are those of the loss times this factor. A step whose gradients overflow
     * changes nothing but the factor, which it halves. For a graph that does not compute in f16 it must be 0,
     * which weft_compile() checks. */
    double loss_scale;
    /** So many good steps in a row double the factor of the loss; 0: 2000. Like loss_scale it is for f16
     * only. */
    int64_t growth_interval;
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_optimizer;
/** Its plain fields (field.h): "type=adam lr=2e-4 beta1=0.5". Most defaults are those of its type, which the
 * comments above tell. */
WEFT_API const weft_field *weft_optimizer_fields(void);

/** Adds to the graph the gradients of the scalar `loss` by every trainable parameter under `pattern`, and
 * their update by the optimizer. `pattern` is a scope path, in which '*' matches any characters; several
 * have ',' between them ("encoder,head*weight"), and each must match a parameter; NULL or "" is the whole
 * model.
 *
 * All calls in one graph read parameters as they are when a run starts, and take effect together at its end.
 * It is an error, which names the parameter, when the loss does not reach a matching parameter, or when two
 * calls in one graph train the same one. (Calls in two graphs may train the same one, each with its own
 * optimizer or both with one.) `*optimizer` is copied. A loss that is not an output of the graph becomes one
 * when the model is compiled: "loss", or "loss_2" ... where that is taken. */
WEFT_API weft_status weft_minimize(weft_value *loss, const char *pattern, const weft_optimizer *optimizer);

/** Changes settings of an optimizer in all weft_minimize() calls before it that have it: for a model that was
 * loaded. `name` is weft_optimizer.name, or a pattern of weft_minimize(); NULL or "": every optimizer.
 * `settings` are NAME=VALUE, with blanks or commas between: number fields and flags of weft_optimizer (0 or
 * 1), and `schedule`, which is quoted and as weft_schedule_text() reads it; "" removes it. 0 is 0 here, and
 * settings that are not named stay. This is also the language of dumps.
 *
 *     weft_model_set_optimizer(model, "generator", "lr=1e-4 schedule=\"cosine:0-9000,warmup=500\"");
 *
 * Errors stick, like a builder's: a name that no optimizer has (WEFT_NAME); a text that cannot be read, a
 * value out of its range, and a field that the optimizer does not have (WEFT_ARGUMENT). */
WEFT_API weft_status weft_model_set_optimizer(weft_model *model, const char *name, const char *settings);

/* ---- your own optimizer ---- */

enum {
    WEFT_MAX_SLOTS = 4,   /**< tensors of state that an optimizer keeps for a parameter */
    WEFT_MAX_NUMBERS = 6, /**< hyperparameters that your own optimizer reads */
};

/** State that an optimizer keeps for each parameter, in the parameter's shape. */
typedef struct weft_slot {
    const char *name; /**< of the tensor in weights files; letters, digits, '_' */
    double initial;   /**< what it holds before the first step */
} weft_slot;

/** One step of an optimizer, as its builder sees it. The builder makes the new values from the old ones by
 * the functions of weft/ops.h, and puts them in their place: parameter and slots. Nothing is to be done about
 * ranks, micro-batches, loss scales and clipping: the gradient is the finished one, and a step that f16 skips
 * changes nothing, whatever was built. Numbers are f64[], so that 1 - beta2 keeps its digits; operations on
 * them are cheap. */
typedef struct weft_update {
    weft_value *parameter; /**< in and out; of any shape, and one floating-point type with what follows */
    weft_value *gradient;  /**< of the parameter's shape */
    weft_value *slots[WEFT_MAX_SLOTS];     /**< in and out; in the order of the definition */
    weft_value *lr;                        /**< f64[]: by schedule and parameter group */
    weft_value *step;                      /**< f64[]: 1 at the first step */
    weft_value *weight_decay;              /**< f64[]: of the parameter group */
    weft_value *numbers[WEFT_MAX_NUMBERS]; /**< f64[]: in the order of the definition */
    void *context;                         /**< of the definition; NULL for Weft's own */
    uint64_t reserved[WEFT_RESERVED];      /**< zeros (status.h) */
} weft_update;

/** x times a number of an update, f64[], in x's type. */
WEFT_API weft_value *weft_update_scale(weft_value *x, weft_value *number);

/** An optimizer of your own. */
typedef struct weft_optimizer_definition {
    const char *type;                /**< for weft_optimizer.type: letters, digits, '_'; not one of Weft's */
    weft_slot slots[WEFT_MAX_SLOTS]; /**< ends at the first without a name */
    weft_optimizer_number numbers[WEFT_MAX_NUMBERS]; /**< ends at the first without a field */
    /** Builds one step. It runs while weft_define_optimizer() and weft_minimize() do, never later: what it
     * builds is recorded in the model and its files. Operations that work element by element are recorded
     * once and hold for parameters of all shapes together; any other update is recorded for each shape among
     * the parameters. */
    void (*build)(weft_update *update);
    void *context;                    /**< passed on to `build` */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_optimizer_definition;

/** Defines a type of optimizer for weft_minimize() calls of this model. `*definition` is copied.
 * WEFT_ARGUMENT when the definition breaks a rule above, or its update does. */
WEFT_API weft_status weft_define_optimizer(weft_model *model, const weft_optimizer_definition *definition);

/** Parameters whose path matches are trained by no weft_minimize(), before or after this call. Patterns are
 * as those of weft_minimize(). WEFT_NAME when one matches nothing. */
WEFT_API weft_status weft_freeze(weft_model *model, const char *pattern);

#ifdef __cplusplus
}
#endif
#endif
