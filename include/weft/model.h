/* model.h - a model and its graphs.
 *
 * A model is parameters and state plus the static op graphs that use them. A value knows its graph, a graph its
 * model; builders take values and return values, and everything is owned by the model: one weft_model_free ends
 * it. Parameters are found by scope path and name, or made: calling the same building function again, in this
 * graph or another, shares them.
 *
 * Errors stick: the first wrong call is recorded with the caller's file and line, the scope path and both
 * shapes; builders return NULL from then on and pass NULL through; weft_model_error or weft_compile reports it.
 *
 * A model is built by one thread at a time; once built, any number of threads may compile from it.
 */
#ifndef WEFT_MODEL_H
#define WEFT_MODEL_H

#include "weft/env.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_model weft_model;
typedef struct weft_graph weft_graph;
typedef struct weft_value weft_value;

typedef enum weft_dtype {
    WEFT_F32 = 0,
    WEFT_F64 = 1,
    WEFT_BF16 = 2,
    WEFT_F16 = 3,
    WEFT_I64 = 4,
    WEFT_I32 = 5,
    WEFT_U8 = 6,
    WEFT_BOOL = 7, /* one byte, 0 or 1 */
} weft_dtype;
#define WEFT_DTYPES 8

typedef enum weft_mode { WEFT_EVAL = 0, WEFT_TRAIN = 1 } weft_mode;

#define WEFT_MAX_NDIM 8

/* An axis of this length is the batch: the model's default while building, bound again by weft_compile. */
#define WEFT_BATCH INT64_MIN

/* ---- models and graphs ---- */

/* A new, empty model. `name` is copied. NULL only when memory is out. */
WEFT_API weft_model *weft_model_new(const char *name);
/* The same with an allocator, file access and log of the caller's; *env is copied. */
WEFT_API weft_model *weft_model_new_in(const char *name, const weft_env *env);
WEFT_API void weft_model_free(weft_model *model); /* NULL is fine; plans and stores made from it stay valid */

/* The first error since the model was made; ->status is WEFT_OK when there is none. Owned by the model. */
WEFT_API const weft_error *weft_model_error(const weft_model *model);

/* What WEFT_BATCH means until weft_compile binds another; 1 at first. Set it before the first graph. */
WEFT_API void weft_model_batch(weft_model *model, int64_t batch);

/* A new graph with a unique name. Train mode: dropout drops, batch_norm uses and updates batch statistics. */
WEFT_API weft_graph *weft_graph_new(weft_model *model, const char *name, weft_mode mode);

/* ---- scopes: a stack of names per graph; the path names parameters and groups nodes in pictures ---- */

/* Enters scope `name` (letters, digits, '_', '-', '.') in the graph of `value`; leave with weft_scope_leave.
 * Returns the graph, NULL when value is NULL. */
WEFT_API weft_graph *weft_scope_enter(weft_value *value, const char *name);
WEFT_API weft_graph *weft_graph_scope_enter(weft_graph *graph, const char *name);
/* Always returns NULL. Leaving more often than entering is an error (WEFT_ORDER); so is a scope that is still open when
 * the model is compiled or saved. */
WEFT_API weft_graph *weft_scope_leave(weft_graph *graph);
/* Leaves what WEFT_SCOPE entered, unless it has been left. */
WEFT_API void weft_scope_end(weft_graph **scope);

/* WEFT_SCOPE(z, "generator") { z = ...; }
 * The body runs once. `break` and `continue` end it (not a loop around it). However it is left, by return, goto or a C++
 * exception too, the scope ends with it; compilers without GNU C's cleanup attribute cannot do that in C: there
 * weft_compile names the scope that was left open. */
#ifdef __cplusplus
struct weft_scope_holder {
    weft_graph *graph;
    explicit weft_scope_holder(weft_graph *entered) : graph(entered) {
    }
    weft_scope_holder(const weft_scope_holder &) = delete;
    weft_scope_holder &operator=(const weft_scope_holder &) = delete;
    ~weft_scope_holder() {
        weft_scope_end(&graph);
    }
};
#define WEFT_SCOPE_OF(entered)                                                                               \
    for (weft_scope_holder weft_scope_(entered); weft_scope_.graph; weft_scope_end(&weft_scope_.graph))
#else
#ifdef __GNUC__
#define WEFT_SCOPE_CLEANUP __attribute__((cleanup(weft_scope_end)))
#else
#define WEFT_SCOPE_CLEANUP
#endif
#define WEFT_SCOPE_OF(entered)                                                                               \
    for (weft_graph *weft_scope_ WEFT_SCOPE_CLEANUP = (entered); weft_scope_; weft_scope_end(&weft_scope_))
#endif
#define WEFT_SCOPE(value, name)       WEFT_SCOPE_OF(weft_scope_enter(value, name))
#define WEFT_GRAPH_SCOPE(graph, name) WEFT_SCOPE_OF(weft_graph_scope_enter(graph, name))

/* ---- precision ---- */

/* What matrix products, convolutions and attention under `path` compute in, and what flows between them: WEFT_BF16,
 * WEFT_F16, or WEFT_F32 to keep it as it is. Parameters, their gradients, the optimizer's state, the statistics of norms,
 * softmax and losses stay f32 (docs/precision.md has the rules, op by op). `path` is a scope, a graph's name, a scope of
 * one graph ("train/generator"), or NULL (or "") for the whole model; a scope goes before a graph, the longer path before
 * the shorter. Where nothing is said, weft_compile's `precision` holds. A second call on a path replaces the first; it is
 * saved with the model.
 *     weft_precision(model, NULL, WEFT_BF16);
 *     weft_precision(model, "generator/out", WEFT_F32);
 * Errors, sticky like a builder's: another type (WEFT_ARGUMENT); from weft_compile a path that is none (WEFT_NAME). */
WEFT_API weft_status weft_precision(weft_model *model, const char *path, weft_dtype dtype);

/* ---- what a graph reads and gives ---- */

/* An input that each run must feed: f32, f64, integers, u8 or bool; axes >= 1 or WEFT_BATCH.
 *     weft_value *image = weft_input(d, "image", WEFT_U8, 4, (int64_t[]){WEFT_BATCH, 1, 28, 28}); */
WEFT_API weft_value *weft_input(weft_graph *graph, const char *name, weft_dtype dtype, int ndim,
                                const int64_t *shape);

/* Makes `value` fetchable under `name` (unique in the graph). Scalars named "...loss" or "...accuracy" are what
 * training logs. */
WEFT_API void weft_output(weft_value *value, const char *name);

/* How a parameter or state gets its first value. Random ones depend on the model's seed and the path alone. */
typedef enum weft_init_kind {
    WEFT_INIT_ZEROS = 0,
    WEFT_INIT_ONES = 1,
    WEFT_INIT_CONSTANT = 2,        /* a */
    WEFT_INIT_UNIFORM = 3,         /* in [a, b), a below b */
    WEFT_INIT_NORMAL = 4,          /* mean a, standard deviation b above 0 */
    WEFT_INIT_XAVIER_UNIFORM = 5,  /* gain a (0: 1); fans from the shape as in torch.nn.init */
    WEFT_INIT_XAVIER_NORMAL = 6,   /* gain a (0: 1) */
    WEFT_INIT_KAIMING_UNIFORM = 7, /* gain a (0: sqrt 2, as for ReLU), over fan_in */
    WEFT_INIT_KAIMING_NORMAL = 8,  /* gain a (0: sqrt 2), over fan_in */
} weft_init_kind;

/* {0} is zeros. A number that the kind does not read is left 0: it is an error otherwise. */
typedef struct weft_init {
    weft_init_kind kind;
    double a, b;
} weft_init;

/* The parameter `name` in the present scope of the graph of `near` (any value of it, or use the _in form):
 * found, or made with `init` and f32. A parameter found must have this shape, and this `init` unless that is {0}: which then
 * says nothing. (Layers without initializers of the caller's say nothing either.) */
WEFT_API weft_value *weft_parameter(weft_value *near, const char *name, int ndim, const int64_t *shape,
                                    weft_init init);
WEFT_API weft_value *weft_parameter_in(weft_graph *graph, const char *name, int ndim, const int64_t *shape,
                                       weft_init init);

/* State: like a parameter, but never trained; changed by weft_assign only. Reads see the last earlier write. */
WEFT_API weft_value *weft_state(weft_value *near, const char *name, int ndim, const int64_t *shape,
                                weft_init init);
/* Writes `value` into the state that `state` (from weft_state) names, when the graph runs. */
WEFT_API void weft_assign(weft_value *state, weft_value *value);

/* ---- the caller's place: weft/here.h calls these, so that errors name file and line of each builder call ---- */
/* Notes the place for the next builder call; returns what it was given. NULL is fine. `file` must stay. */
WEFT_API weft_value *weft_at(weft_value *value, const char *file, int line);
WEFT_API weft_graph *weft_graph_at(weft_graph *graph, const char *file, int line);
WEFT_API weft_model *weft_model_at(weft_model *model, const char *file, int line);

/* ---- questions (all accept NULL and then answer 0, NULL or WEFT_EVAL) ---- */
WEFT_API int weft_ndim(const weft_value *value);
WEFT_API int64_t weft_dim(const weft_value *value, int axis); /* axis may be negative; 0 when out of range */
WEFT_API weft_dtype weft_value_dtype(const weft_value *value);
WEFT_API weft_graph *weft_value_graph(const weft_value *value);
WEFT_API weft_model *weft_graph_model(const weft_graph *graph);
WEFT_API weft_mode weft_graph_mode(const weft_graph *graph);
WEFT_API int weft_graph_count(const weft_model *model);
WEFT_API const char *weft_graph_name(const weft_model *model, int index); /* "" when out of range */
WEFT_API const char *weft_model_name(const weft_model *model);

/* The model as text, one line a node, parameters first; parses back with weft_model_parse. The caller frees
 * it with free(). NULL when memory is out. */
WEFT_API char *weft_model_text(const weft_model *model);

#ifdef __cplusplus
}
#endif
#endif
