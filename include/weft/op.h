/** @file
 * op.h - an op of your own: its shapes, its gradient and its kernel are functions of your program.
 *
 * Definitions belong to a weft_op_set, which weft_env.ops gives to the models that use them: those that
 * weft_model_new_in() makes, and those that weft_load() and weft_model_parse() read. A model's file holds
 * the calls of the op, its name and its numbers, but not your functions, so a program defines the op before
 * it loads the model. That is why definitions do not belong to a model; and a set instead of one list for
 * the process means that no call takes a lock, and that two libraries in one program may each define an op
 * of the same name. graphtool has no ops but Weft's: it shows a model with others (info, dot), and says
 * that it cannot run it.
 *
 *     weft_op_set *ops = weft_op_set_new(NULL, &error);
 *     weft_define_op(ops, &(weft_op_definition){.name = "lab.shrink", .n_operands = 1, .kernel = shrink,
 *                                               .numbers = {.reals = {{"threshold", 0.5}}}}, &error);
 *     weft_env env = {.ops = ops};
 *     weft_model *m = weft_model_new_in("m", &env);  // and weft_load("m.bin", &env, &error)
 *     ...
 *     weft_value *y = weft_call_op("lab.shrink", 1, &x, NULL);
 *
 * A set is changed by one thread, before others use it; then it is only read, by any number of threads. It
 * must outlive the models, plans and sessions that use it.
 *
 * The compiler treats such an op as any other one: types are inferred at each batch size, gradients of
 * gradients follow from the ops that your gradient builds, memory is planned and proved. It never fuses it,
 * and never runs it in place. Two equal calls become one, and a call whose result nobody reads is dropped. In
 * a model that computes in bf16 or f16 it runs in f32, unless its operands were cast by the program.
 *
 * Kernels run on CPUs. A plan for a GPU that needs such an op is WEFT_UNSUPPORTED, which names it; a kernel
 * as CUDA source text is left for a later version.
 */
#ifndef WEFT_OP_H
#define WEFT_OP_H

#include "weft/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    WEFT_MAX_OP_OPERANDS = 8, /**< operands of an op of your own */
    WEFT_MAX_OP_RESULTS = 8,  /**< its results */
    WEFT_MAX_OP_NUMBERS = 8,  /**< its numbers of each kind */
    WEFT_OP_WHY = 240,        /**< bytes of the sentence in which a function of yours says what is wrong */
};

/** A number of an op. */
typedef struct weft_op_real {
    const char *name; /**< "alpha"; 1 to 40 letters, digits, '_' */
    double value;     /**< a finite number */
} weft_op_real;
/** A whole number of an op. */
typedef struct weft_op_integer {
    const char *name; /**< "groups"; 1 to 40 letters, digits, '_' */
    int64_t value;    /**< any */
} weft_op_integer;
/** The numbers of a definition with their defaults, and those that a call gives. They are saved with each
 * call: dumps have them as "alpha=0.5 groups=2". */
typedef struct weft_op_numbers {
    weft_op_real reals[WEFT_MAX_OP_NUMBERS];       /**< ends at the first without a name */
    weft_op_integer integers[WEFT_MAX_OP_NUMBERS]; /**< ends at the first without a name */
    uint64_t reserved[WEFT_RESERVED];              /**< zeros (status.h) */
} weft_op_numbers;

/** Element type and shape of an operand or result. */
typedef struct weft_op_type {
    weft_dtype dtype;             /**< element type */
    int ndim;                     /**< number of axes, 0 to WEFT_MAX_NDIM */
    int64_t shape[WEFT_MAX_NDIM]; /**< their lengths, each at least 1 */
} weft_op_type;

/** What `infer` of a definition gets, and gives. */
typedef struct weft_op_types {
    weft_op_type operands[WEFT_MAX_OP_OPERANDS]; /**< of the call */
    /** To be set; all have the type of operand 0 at first. */
    weft_op_type results[WEFT_MAX_OP_RESULTS];
    const double *reals;              /**< in the order of the definition */
    const int64_t *integers;          /**< in the order of the definition */
    void *context;                    /**< of the definition */
    char why[WEFT_OP_WHY];            /**< for `infer` to fill before it returns false: "x needs 2 axes" */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_op_types;

/** What `gradient` of a definition gets, and gives. */
typedef struct weft_op_gradient {
    weft_value *operands[WEFT_MAX_OP_OPERANDS]; /**< of the call */
    weft_value *results[WEFT_MAX_OP_RESULTS];   /**< of the call */
    /** Gradient of the loss by each result, of its type; NULL where none flows. At least one is there. */
    weft_value *result_gradients[WEFT_MAX_OP_RESULTS];
    bool wanted[WEFT_MAX_OP_OPERANDS]; /**< whether anybody needs the gradient of the operand */
    /** To be set, where wanted, to the gradient by each operand, of its type. One left NULL is zero. */
    weft_value *gradients[WEFT_MAX_OP_OPERANDS];
    const double *reals;              /**< in the order of the definition */
    const int64_t *integers;          /**< in the order of the definition */
    void *context;                    /**< of the definition */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_op_gradient;

/** An operand or result of a kernel. */
typedef struct weft_op_tensor {
    void *data;                     /**< of a result to be written, of an operand only read */
    weft_op_type type;              /**< as inferred */
    int64_t strides[WEFT_MAX_NDIM]; /**< from one index of an axis to the next, in elements */
} weft_op_tensor;

/** One run of a kernel. */
typedef struct weft_op_run {
    weft_op_tensor operands[WEFT_MAX_OP_OPERANDS]; /**< row-major, unless the definition is `strided` */
    weft_op_tensor results[WEFT_MAX_OP_RESULTS];   /**< row-major; no memory of an operand is in them */
    const double *reals;                           /**< in the order of the definition */
    const int64_t *integers;                       /**< in the order of the definition */
    void *context;                                 /**< of the definition */
    int threads;           /**< that the kernel may use; by the bytes of its tensors */
    char why[WEFT_OP_WHY]; /**< for a kernel to fill before it returns another status than WEFT_OK */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_op_run;

/** An op of your own. The functions may be called from any thread, and by several at once. */
typedef struct weft_op_definition {
    /** Two words with a '.' between, as "lab.shrink": each begins with a letter, has letters, digits and '_',
     * and is at most 40 long. No op of Weft has a '.', now or later, so the names cannot meet. */
    const char *name;
    int n_operands;          /**< 1 to WEFT_MAX_OP_OPERANDS; each call has so many */
    int n_results;           /**< 1 to WEFT_MAX_OP_RESULTS; 0: 1 */
    weft_op_numbers numbers; /**< with what they are where a call does not say */
    /** Sets the types of the results; false, with the reason in `why`, where the operands do not fit. It is
     * called for each call that a program makes or a file holds, whatever its types, and again when the
     * compiler binds another batch; what it depends on is in `types` alone. NULL: all operands are f32 and of
     * one shape, and so are the results. */
    bool (*infer)(weft_op_types *types);
    /** Builds the gradients by the functions of weft/ops.h, also by weft_call_op(): an op may be the gradient
     * of another. NULL: the op has none, and an error names it where it is between a parameter and a loss. */
    void (*gradient)(weft_op_gradient *gradient);
    /** Computes the results for all types that `infer` accepts. Equal operands must give equal bits, whatever
     * the number of threads: ranks, resumed trainings and replayed steps depend on it. Required. */
    weft_status (*kernel)(weft_op_run *run);
    /** The kernel takes operands at any strides: transposed, with gaps, 0 along an axis that was broadcast.
     * That saves copies. Results are row-major all the same. */
    bool strided;
    void *context;                    /**< for your functions; it must live as long as the set */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_op_definition;

/** Makes an empty set of ops. `env` may be NULL; its memory is used, and its `ops` are not. NULL on failure.
 * Free it with weft_op_set_free(). */
WEFT_API weft_op_set *weft_op_set_new(const weft_env *env, weft_error *error);
/** Frees a set, after all that uses it. NULL is fine. */
WEFT_API void weft_op_set_free(weft_op_set *set);

/** Adds an op to a set. `*definition` and its texts are copied. WEFT_ARGUMENT when the definition breaks a
 * rule above, WEFT_NAME when the set has an op of this name. */
WEFT_API weft_status weft_define_op(weft_op_set *set, const weft_op_definition *definition,
                                    weft_error *error);

/** Calls an op of your own in the graph of its operands, and returns result 0; the others are
 * weft_node_result(weft_value_node(y), 1), ... Numbers that are not given, and all where `numbers` is NULL,
 * are as the definition says. Fails as every builder does; WEFT_NAME when the model has no such op, or the op
 * no such number. With n below 1 there is no graph to report to: it returns NULL and records no error. */
WEFT_API weft_value *weft_call_op(const char *name, int n, weft_value *const *operands,
                                  const weft_op_numbers *numbers);

#ifdef __cplusplus
}
#endif
#endif
