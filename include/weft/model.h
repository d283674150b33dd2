/** @file
 * model.h - a model and its graphs.
 *
 * A model is parameters and state plus the static op graphs that use them. A value knows its graph, a graph
 * its model. Builders take values and return values. The model owns everything: one weft_model_free() frees
 * it all. Parameters are found by scope path and name, or made: calling the same building function again, in
 * this graph or another, shares them.
 *
 * Errors stick: the first wrong call is recorded with the caller's file and line, the scope path and both
 * shapes. From then on builders return NULL and pass NULL through; weft_model_error() or weft_compile()
 * reports the error.
 *
 * A model is built by one thread at a time; once built, any number of threads may compile from it.
 */
#ifndef WEFT_MODEL_H
#define WEFT_MODEL_H

#include "weft/env.h"
#include "weft/field.h"

#ifdef __cplusplus
extern "C++" { /* these headers may be included within extern "C" */
#include <initializer_list>
}
typedef int64_t weft_numbers[]; /**< Of a length that WEFT_SHAPE counts. */
extern "C" {
#endif

/** Parameters, state and the graphs that use them. */
typedef struct weft_model weft_model;
/** A static graph of ops within a model. */
typedef struct weft_graph weft_graph;
/** The result of an op within a graph. Builders accept NULL and pass it through. */
typedef struct weft_value weft_value;

/** The type of a tensor's elements. */
typedef enum weft_dtype {
    WEFT_F32 = 0,  /**< 32-bit floating point */
    WEFT_F64 = 1,  /**< 64-bit floating point */
    WEFT_BF16 = 2, /**< bfloat16: 8 bits of exponent, 7 of mantissa */
    WEFT_F16 = 3,  /**< IEEE half: 5 bits of exponent, 10 of mantissa */
    WEFT_I64 = 4,  /**< 64-bit signed integer */
    WEFT_I32 = 5,  /**< 32-bit signed integer */
    WEFT_U8 = 6,   /**< 8-bit unsigned integer */
    WEFT_BOOL = 7, /**< one byte, 0 or 1 */
    /** 8-bit signed integer. This type and the next two hold data, which ops of shapes and weft_gather() move
     * and weft_cast() converts; what computes refuses them. */
    WEFT_I8 = 8,
    WEFT_U16 = 9,  /**< 16-bit unsigned integer */
    WEFT_U32 = 10, /**< 32-bit unsigned integer */
} weft_dtype;
/** The number of element types. */
#define WEFT_DTYPES 11

/** What a graph is for. */
typedef enum weft_mode {
    WEFT_EVAL = 0,  /**< dropout is the identity, batch_norm uses its running statistics */
    WEFT_TRAIN = 1, /**< dropout drops, batch_norm uses the batch's statistics and updates the running ones */
} weft_mode;

/** The most axes that a tensor may have. */
#define WEFT_MAX_NDIM 8

/** An axis of this length is the batch: the model's default while building, bound again by weft_compile(). */
#define WEFT_BATCH INT64_MIN

/** @name Shapes
 * @{ */
#ifdef __cplusplus
#define WEFT_SHAPE(...)                                                                                      \
    static_cast<int>(sizeof(weft_numbers{__VA_ARGS__}) / sizeof(int64_t)),                                   \
        std::initializer_list<int64_t>{__VA_ARGS__}.begin()
#else
/** A shape, or a list of axes, as the two arguments that builders take: how many numbers, and the numbers.
 *
 *     weft_reshape(x, WEFT_SHAPE(-1, 64, 7, 7))
 *
 * A scalar's shape is 0, NULL. */
#define WEFT_SHAPE(...)                                                                                      \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) {                                 \
        __VA_ARGS__                                                                                          \
    }
#endif
#define WEFT_AXES(...) WEFT_SHAPE(__VA_ARGS__) /**< The same for axes: weft_sum(x, WEFT_AXES(-1), true) */
#define WEFT_ALL       0, NULL                 /**< All axes: weft_mean(x, WEFT_ALL, false) */
/** @} */

/** @name Models and graphs
 * @{ */

/** Makes an empty model. `name` is copied. NULL only when memory is out. Free it with weft_model_free(). */
WEFT_API weft_model *weft_model_new(const char *name);
/** The same with the caller's allocator, file access and log; `*env` is copied. */
WEFT_API weft_model *weft_model_new_in(const char *name, const weft_env *env);
/** Frees a model with its graphs and values. NULL is fine. Plans and stores made from it stay valid. */
WEFT_API void weft_model_free(weft_model *model);

/** The first error since the model was made; its status is WEFT_OK when there is none. The model owns it. */
WEFT_API const weft_error *weft_model_error(const weft_model *model);
/** Moves the first error to `*error` and returns its status; then the model has none and can be built
 * further. For bindings that raise an error at each call. What the failed call made before it failed stays:
 * nodes that nobody reads, parameters of a layer. WEFT_OK: there was no error, and `*error` stays. */
WEFT_API weft_status weft_model_take_error(weft_model *model, weft_error *error);

/** Sets what WEFT_BATCH means until weft_compile() binds another; 1 at first. Call it before the first graph
 * is made. */
WEFT_API void weft_model_set_batch(weft_model *model, int64_t batch);

/** What WEFT_BATCH means until weft_compile() binds another; 0 for NULL. */
WEFT_API int64_t weft_model_batch(const weft_model *model);

/** Makes a graph. Its name is copied and must be unique in the model. */
WEFT_API weft_graph *weft_graph_new(weft_model *model, const char *name, weft_mode mode);
/** @} */

/** @name Scopes
 * Each graph has a stack of names; their path names parameters, and groups nodes in pictures.
 * @{ */

/** Enters scope `name` (letters, digits, '_', '-', '.') in the graph of `value`; leave it with
 * weft_scope_leave(). Returns the graph, or NULL when `value` is NULL. */
WEFT_API weft_graph *weft_scope_enter(weft_value *value, const char *name);
/** Enters scope `name` in a graph that has no value yet; otherwise the same as weft_scope_enter(). */
WEFT_API weft_graph *weft_graph_scope_enter(weft_graph *graph, const char *name);
/** Leaves the innermost scope, and always returns NULL. Leaving more often than entering is an error
 * (WEFT_ORDER); so is a scope that is still open when the model is compiled or saved. */
WEFT_API weft_graph *weft_scope_leave(weft_graph *graph);
/** Leaves the scope that WEFT_SCOPE entered, unless it has been left, and sets `*scope` to NULL. */
WEFT_API void weft_scope_end(weft_graph **scope);

#ifdef __cplusplus
/** Leaves a scope when it is destroyed: what WEFT_SCOPE is made of in C++. */
struct weft_scope_holder {
    weft_graph *graph; /**< NULL: the scope has been left */
    /** Takes the graph whose scope was entered. */
    explicit weft_scope_holder(weft_graph *entered) : graph(entered) {
    }
    weft_scope_holder(const weft_scope_holder &) = delete;
    weft_scope_holder &operator=(const weft_scope_holder &) = delete;
    ~weft_scope_holder() {
        weft_scope_end(&graph);
    }
};
#define WEFT_SCOPE_NAMED(entered, n)                                                                         \
    for (weft_scope_holder weft_scope_##n(entered); weft_scope_##n.graph;                                    \
         weft_scope_end(&weft_scope_##n.graph))
#else
#ifdef __GNUC__
#define WEFT_SCOPE_CLEANUP __attribute__((cleanup(weft_scope_end)))
#else
#define WEFT_SCOPE_CLEANUP /**< Ends a scope however its body is left, where GNU C's cleanup is. */
#endif
/** Runs the body once within a scope that `entered` has entered, with a variable of number n. */
#define WEFT_SCOPE_NAMED(entered, n)                                                                         \
    for (weft_graph *weft_scope_##n WEFT_SCOPE_CLEANUP = (entered); weft_scope_##n;                          \
         weft_scope_end(&weft_scope_##n))
#endif
#define WEFT_SCOPE_NUMBERED(entered, n) WEFT_SCOPE_NAMED(entered, n) /**< Expands the number. */
/** What WEFT_SCOPE and WEFT_GRAPH_SCOPE are made of. Each use has its own variable, so that a scope
 * within another shadows nothing. */
#define WEFT_SCOPE_OF(entered) WEFT_SCOPE_NUMBERED(entered, __COUNTER__)
/** Runs the body once within scope `name` of the graph of `value`.
 *
 *     WEFT_SCOPE(z, "generator") {
 *         z = weft_relu(weft_linear(z, 128, "fc", NULL));
 *     }
 *
 * `break` and `continue` end the body (not a loop around it). The scope ends however the body is left: by
 * return, goto or a C++ exception too. In C this takes GNU C's cleanup attribute; with other compilers
 * weft_compile() names a scope that was left open. */
#define WEFT_SCOPE(value, name) WEFT_SCOPE_OF(weft_scope_enter(value, name))
/** WEFT_SCOPE for a graph that has no value yet. */
#define WEFT_GRAPH_SCOPE(graph, name) WEFT_SCOPE_OF(weft_graph_scope_enter(graph, name))
/** @} */

/** @name Precision
 * @{ */

/** Sets the type in which matrix products, convolutions and attention under `path` compute, and which flows
 * between them: WEFT_BF16, WEFT_F16, or WEFT_F32 to keep it as it is. Parameters, their gradients, the
 * optimizer's state, the statistics of norms, softmax and losses stay f32 (docs/precision.md has the rules,
 * op by op).
 *
 * `path` is a scope, a graph's name, a scope of one graph ("train/generator"), or NULL (or "") for the whole
 * model. A scope goes before a graph, the longer path before the shorter. Where nothing is set, `precision`
 * of weft_compile_options holds. A second call on a path replaces the first. The setting is saved with the
 * model.
 *
 *     weft_model_set_precision(model, NULL, WEFT_BF16);
 *     weft_model_set_precision(model, "generator/out", WEFT_F32);
 *
 * Errors stick, like a builder's: another type is WEFT_ARGUMENT; weft_compile() reports an unknown path
 * (WEFT_NAME). */
WEFT_API weft_status weft_model_set_precision(weft_model *model, const char *path, weft_dtype dtype);
/** @} */

/** @name Inputs, outputs, parameters, state
 * @{ */

/** Makes an input that each run must feed, of any type (bf16 and f16 are fed as their 16 bits); each axis is
 * at least 1, or WEFT_BATCH.
 *
 *     weft_value *image = weft_input(d, "image", WEFT_U8, WEFT_SHAPE(WEFT_BATCH, 1, 28, 28)); */
WEFT_API weft_value *weft_input(weft_graph *graph, const char *name, weft_dtype dtype, int ndim,
                                const int64_t *shape);

/** Makes `value` fetchable under `name`, which must be unique in the graph. Training reports each
 * output of one number as a metric. */
WEFT_API void weft_output(weft_value *value, const char *name);

/** How a parameter or state gets its first value. Random values depend on the model's seed and the path
 * alone. */
typedef enum weft_init_kind {
    WEFT_INIT_ZEROS = 0,           /**< 0 */
    WEFT_INIT_ONES = 1,            /**< 1 */
    WEFT_INIT_CONSTANT = 2,        /**< a */
    WEFT_INIT_UNIFORM = 3,         /**< uniform in [a, b), a below b */
    WEFT_INIT_NORMAL = 4,          /**< normal with mean a and standard deviation b above 0 */
    WEFT_INIT_XAVIER_UNIFORM = 5,  /**< gain a (0: 1); fans from the shape as in torch.nn.init */
    WEFT_INIT_XAVIER_NORMAL = 6,   /**< gain a (0: 1) */
    WEFT_INIT_KAIMING_UNIFORM = 7, /**< gain a (0: sqrt 2, as for ReLU), over fan_in */
    WEFT_INIT_KAIMING_NORMAL = 8,  /**< gain a (0: sqrt 2), over fan_in */
} weft_init_kind;

/** An initial value; `{0}` is zeros. A number that the kind does not use must be 0: anything else is an
 * error. */
typedef struct weft_init {
    weft_init_kind kind; /**< Which distribution. */
    double a;            /**< First number of the kind. */
    double b;            /**< Second number of the kind. */
} weft_init;

/** The f32 parameter `name` in the current scope of the graph of `near` (any value of that graph): found, or
 * made with `init`. A parameter that is found must have this shape, and this `init` unless that is `{0}`,
 * which then sets nothing. Layers that are called without initializers set nothing either. */
WEFT_API weft_value *weft_parameter(weft_value *near, const char *name, int ndim, const int64_t *shape,
                                    weft_init init);
/** weft_parameter() for a graph that has no value yet. */
WEFT_API weft_value *weft_parameter_in(weft_graph *graph, const char *name, int ndim, const int64_t *shape,
                                       weft_init init);

/** The state `name`, found or made: like a parameter, but never trained; only weft_assign() changes it. A
 * read sees the last write before it. */
WEFT_API weft_value *weft_state(weft_value *near, const char *name, int ndim, const int64_t *shape,
                                weft_init init);
/** weft_state() for a graph that has no value yet, and of f32 or i64: counters, as num_batches_tracked of
 * PyTorch. The initial values of i64 are zeros, ones or a whole constant; averages are of f32 alone
 * (weft_optimizer.ema_buffers). */
WEFT_API weft_value *weft_state_in(weft_graph *graph, const char *name, weft_dtype dtype, int ndim,
                                   const int64_t *shape, weft_init init);
/** Writes `value` into `state` when the graph runs: state (from weft_state()), or a parameter, in a graph of
 * its own that calls no weft_minimize() and runs between the steps of those that do: clipped weights,
 * teachers that follow a student. Both have one shape. On several ranks each writes its own copy, so all run
 * the graph. */
WEFT_API void weft_assign(weft_value *state, weft_value *value);

/** What parameters are for in the graphs of a model, built or read, whatever their names: bits of a set. */
enum {
    WEFT_PARAMS_NORM = 1,      /**< weight or bias of batch, layer, group, instance or rms norm */
    WEFT_PARAMS_BIAS = 2,      /**< bias of a linear, convolutional, recurrent or normalizing layer */
    WEFT_PARAMS_EMBEDDING = 4, /**< table of an embedding */
    /** Weight or bias of a depthwise convolution: as many groups as input channels, and more than one. */
    WEFT_PARAMS_DEPTHWISE = 8,
    WEFT_PARAMS_FLAT = 16, /**< of one axis */
};

/** A parameter or state of a model. */
typedef struct weft_parameter_info {
    const char *path;                 /**< as in "generator/fc/weight"; the model owns it */
    bool is_state;                    /**< of weft_state() */
    bool is_frozen;                   /**< a parameter that weft_freeze() has excluded */
    unsigned kinds;                   /**< of a parameter: bits WEFT_PARAMS_... by the calls made so far */
    weft_dtype dtype;                 /**< type of an element */
    int ndim;                         /**< number of axes */
    int64_t shape[WEFT_MAX_NDIM];     /**< their lengths */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_parameter_info;
/** Writes parameter or state 0, 1, ... of those whose path matches `pattern` (as of weft_minimize()) to
 * `*info`, in the order in which they were made; false past the end.
 *
 *     weft_parameter_info p;
 *     for (int i = 0; weft_model_parameter(model, "student", i, &p); i++) printf("%s\n", p.path); */
WEFT_API bool weft_model_parameter(const weft_model *model, const char *pattern, int index,
                                   weft_parameter_info *info);
/** The parameter or state that was made under `path`, in any graph and scope: the value at this place. */
WEFT_API weft_value *weft_value_of(weft_graph *graph, const char *path);
/** What a scope passes on: the last value in scope `path` that nodes outside of it read or that is an
 * output ("encoder/layer1", as the output of a module in PyTorch). Where there is none, the last result of
 * an op in a scope: "encoder/layer1/relu". Gradients do not count. NULL: there is no such value. To look
 * into a model that was loaded, make it an output before compiling:
 *
 *     weft_output(weft_graph_value(graph, "encoder/layer1"), "layer1"); */
WEFT_API weft_value *weft_graph_value(weft_graph *graph, const char *path);
/** @} */

/** @name The caller's place
 * The macros of here.h call these, so that errors name file and line of each builder call. Each notes the
 * place, for all that is built until the next one, and returns its first argument. NULL is fine. `file` is
 * not copied and must outlive the model.
 * @{ */
WEFT_API weft_value *weft_at(weft_value *value, const char *file, int line);       /**< By a value. */
WEFT_API weft_graph *weft_graph_at(weft_graph *graph, const char *file, int line); /**< By a graph. */
WEFT_API weft_model *weft_model_at(weft_model *model, const char *file, int line); /**< By a model. */
/** @} */

/** @name Questions
 * All accept NULL and then answer 0, NULL or WEFT_EVAL. The model owns the texts.
 * @{ */
WEFT_API int weft_ndim(const weft_value *value); /**< Number of axes. */
/** Length of an axis, which may be negative (-1: the last). 0 when it is out of range. On the
 * batch axis it is the default while building (weft_model_set_batch()); writing it into a shape fixes that
 * shape: write -1 (weft_reshape(), weft_broadcast_to()) or WEFT_BATCH there. */
WEFT_API int64_t weft_dim(const weft_value *value, int axis);
WEFT_API weft_dtype weft_value_dtype(const weft_value *value);  /**< Element type. */
WEFT_API weft_graph *weft_value_graph(const weft_value *value); /**< The graph that holds the value. */
WEFT_API weft_model *weft_graph_model(const weft_graph *graph); /**< The model that holds the graph. */
WEFT_API weft_mode weft_graph_mode(const weft_graph *graph);    /**< What the graph is for. */
WEFT_API int weft_graph_count(const weft_model *model);         /**< Number of graphs. */
/** Name of graph 0, 1, ... in the order of making; NULL past the end. */
WEFT_API const char *weft_graph_name(const weft_model *model, int index);
WEFT_API const char *weft_model_name(const weft_model *model); /**< The name given to weft_model_new(). */

/** Graph 0, 1, ... in the order of making; NULL past the end. */
WEFT_API weft_graph *weft_model_graph(const weft_model *model, int index);

/** A call of an op in a graph. The model owns it. */
typedef struct weft_node weft_node;
/** The node after `node` in a graph, in the order of making; of NULL the first. NULL: `node` is the last.
 *
 *     for (const weft_node *n = NULL; (n = weft_graph_node(graph, n));)
 *         if (weft_node_about(n, &about)) printf("%s in %s\n", about.op, about.scope); */
WEFT_API const weft_node *weft_graph_node(const weft_graph *graph, const weft_node *node);
/** What a node is. */
typedef struct weft_node_info {
    const char *op;                   /**< its op: "conv2d", as in dumps and docs/ops.md */
    const char *scope;                /**< path of the scope: "generator/up1"; "" at the top */
    const char *path;                 /**< of its parameter or state; the name of an input; or NULL */
    const char *file;                 /**< of the call in the program; NULL: not known */
    int line;                         /**< in that file, from 1; 0: not known */
    int n_operands;                   /**< operands: weft_node_operand() */
    int n_results;                    /**< results: weft_node_result() */
    bool is_backward;                 /**< of a gradient that weft_gradients() or a compiler has built */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_node_info;
/** Fills `*about`; false for NULL. */
WEFT_API bool weft_node_about(const weft_node *node, weft_node_info *about);
/** Operand 0, 1, ...: NULL past the end, and for one that was left out. */
WEFT_API weft_value *weft_node_operand(const weft_node *node, int index);
/** Result 0, 1, ...; NULL past the end. */
WEFT_API weft_value *weft_node_result(const weft_node *node, int index);
/** The node whose result a value is. */
WEFT_API const weft_node *weft_value_node(const weft_value *value);
/** Its attributes as in dumps: "axes=1 keep=1"; "" without any. Free it with weft_text_free(). NULL when
 * memory is out. */
WEFT_API char *weft_node_attributes(const weft_node *node);
/** One attribute of a node, as what it is: whole numbers, a real one, a text, or bytes. */
typedef struct weft_attribute {
    /** How many whole numbers: of a list as many as it has, of a number, a truth value (0, 1), an element
     * type (weft_dtype) or a word (its place among the op's) one; of all others 0. */
    int n;
    int64_t integers[WEFT_MAX_NDIM];  /**< n of them; a length may be WEFT_BATCH */
    double real;                      /**< a real number; what `integers` begins with is here, too */
    const char *text;                 /**< a text or word, "nearest"; NULL for all others */
    const void *data;                 /**< the elements of a constant_tensor; NULL for all others */
    size_t bytes;                     /**< of these elements */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_attribute;
/** Fills `*value` with the attribute of that name, as docs/ops.md has them, whether or not it is set. False:
 * the op has none of that name. The model owns text and data.
 *
 *     weft_attribute axes;
 *     if (weft_node_attribute(node, "axes", &axes)) printf("over %d axes\n", axes.n); */
WEFT_API bool weft_node_attribute(const weft_node *node, const char *name, weft_attribute *value);
/** What weft_output() has made fetchable, 0, 1, ... in the order of these calls, with its name (`name` may be
 * NULL); NULL past the end. */
WEFT_API weft_value *weft_graph_output(const weft_graph *graph, int index, const char **name);
/** How the length of an axis follows the batch: it is `*per_batch` times the batch, and `*rest` more. Where
 * it does not, `*per_batch` is 0. False: the axis is out of range, or its length at another batch is not
 * known, since a call before it fits one batch alone. */
WEFT_API bool weft_dim_batch(const weft_value *value, int axis, int64_t *per_batch, int64_t *rest);

/** The model as text, one line a node, parameters first; weft_model_parse() reads it back. Free it
 * with weft_text_free(). NULL when memory is out. */
WEFT_API char *weft_model_text(const weft_model *model);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
