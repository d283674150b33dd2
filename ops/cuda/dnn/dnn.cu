/* dnn.cu - see dnn.cuh: descriptors, the choice of an engine, runs. Errors are sticky: after the first
 * failure (d->status) the building functions do nothing. */
#include "ops/cuda/dnn/dnn.cuh"

#include <cudnn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* descriptors of a plan; configurations that are tried at most; tensors; knobs of an engine */
enum { KEPT = 24 + CUDNN_KNOB_TYPE_COUNTS, PROPOSALS = 64, IDS = 3, KNOBS = CUDNN_KNOB_TYPE_COUNTS };

/* Unique ids of the tensors of a graph: a variant pack binds pointers to them. */
enum { BIG = 1, SMALL, WEIGHT };

struct dnn {
    const weft_env *env;
    cudnnHandle_t handle;
    /* Descriptors refer to each other, so all of them live as long as the plan. */
    cudnnBackendDescriptor_t kept[KEPT], plan, pack;
    int n_kept;
    dnn_buffers at;       /* the pointers that `pack` holds */
    cudnnStatus_t status; /* the first failure while building */
};

/* cuDNN's status as ours, with the library's own explanation. */
static weft_status status_of(cudnnStatus_t s, const char *doing, weft_error *error) {
    if (s == CUDNN_STATUS_SUCCESS) return WEFT_OK;
    if (s == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED) return error_memory(error, "cuDNN");
    char more[300] = "";
    cudnnGetLastErrorString(more, sizeof more);
    bool unsupported = s >= CUDNN_STATUS_NOT_SUPPORTED && s < CUDNN_STATUS_INTERNAL_ERROR;
    return error_set(error, unsupported ? WEFT_UNSUPPORTED : WEFT_DEVICE, "cuDNN: %s: %s%s%s", doing,
                     cudnnGetErrorString(s), *more ? ": " : "", more);
}

/* ---- descriptors ---- */

/* A new descriptor, kept until dnn_free; NULL after a failure. */
static cudnnBackendDescriptor_t begin(dnn *d, cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = NULL;
    if (d->status == CUDNN_STATUS_SUCCESS && d->n_kept == KEPT) d->status = CUDNN_STATUS_BAD_PARAM;
    if (d->status == CUDNN_STATUS_SUCCESS) d->status = cudnnBackendCreateDescriptor(type, &made);
    if (made) d->kept[d->n_kept++] = made;
    return made;
}

static void set(dnn *d, cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values) {
    if (d->status == CUDNN_STATUS_SUCCESS)
        d->status = cudnnBackendSetAttribute(of, name, type, count, values);
}

static void set_descriptor(dnn *d, cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                           cudnnBackendDescriptor_t value) {
    set(d, of, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void set_numbers(dnn *d, cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name, int64_t count,
                        const int64_t *values) {
    set(d, of, name, CUDNN_TYPE_INT64, count, values);
}

static void finish_descriptor(dnn *d, cudnnBackendDescriptor_t made) {
    if (d->status == CUDNN_STATUS_SUCCESS) d->status = cudnnBackendFinalize(made);
}

/* ---- the graph ---- */

static cudnnDataType_t type_of_elements(weft_dtype dtype) {
    return dtype == WEFT_BF16 ? CUDNN_DATA_BFLOAT16 : dtype == WEFT_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
}

/* A finished tensor descriptor: channels-last strides whatever the axes are (a weight is [O, kh, kw, C] in
 * memory). */
static cudnnBackendDescriptor_t tensor_new(dnn *d, const dnn_tensor *t, int64_t id) {
    int64_t stride[WEFT_MAX_NDIM], alignment = t->alignment;
    cudnnDataType_t type = type_of_elements(t->type.dtype);
    stride_channels_last(&t->type, stride);
    cudnnBackendDescriptor_t made = begin(d, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(d, made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set_numbers(d, made, CUDNN_ATTR_TENSOR_DIMENSIONS, t->type.ndim, t->type.shape);
    set_numbers(d, made, CUDNN_ATTR_TENSOR_STRIDES, t->type.ndim, stride);
    set_numbers(d, made, CUDNN_ATTR_TENSOR_UNIQUE_ID, 1, &id);
    set_numbers(d, made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1, &alignment);
    finish_descriptor(d, made);
    return made;
}

/* Sums are f32; the padding is the same at both ends. */
static cudnnBackendDescriptor_t window_new(dnn *d, const dnn_conv *what) {
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    int64_t axes = what->big.type.ndim - 2;
    cudnnBackendDescriptor_t made = begin(d, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set(d, made, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    set(d, made, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set_numbers(d, made, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 1, &axes);
    set_numbers(d, made, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, axes, what->pad);
    set_numbers(d, made, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, axes, what->pad);
    set_numbers(d, made, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, axes, what->stride);
    set_numbers(d, made, CUDNN_ATTR_CONVOLUTION_DILATIONS, axes, what->dilation);
    finish_descriptor(d, made);
    return made;
}

/* The names that the three operations have for their tensors, indexed by dnn_kind. */
static const struct {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t window, big, small, weight, alpha, beta;
} operations[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

/* One operation, result = 1 * conv + 0 * result, as a graph. */
static cudnnBackendDescriptor_t graph_new(dnn *d, const dnn_conv *what) {
    const auto *names = &operations[what->kind];
    const float one = 1, zero = 0;
    cudnnBackendDescriptor_t big = tensor_new(d, &what->big, BIG), small = tensor_new(d, &what->small, SMALL),
                             weight = tensor_new(d, &what->weight, WEIGHT), window = window_new(d, what),
                             operation = begin(d, names->type);
    set_descriptor(d, operation, names->window, window);
    set_descriptor(d, operation, names->big, big);
    set_descriptor(d, operation, names->small, small);
    set_descriptor(d, operation, names->weight, weight);
    set(d, operation, names->alpha, CUDNN_TYPE_FLOAT, 1, &one);
    set(d, operation, names->beta, CUDNN_TYPE_FLOAT, 1, &zero);
    finish_descriptor(d, operation);
    cudnnBackendDescriptor_t graph = begin(d, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(d, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &d->handle);
    set_descriptor(d, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
    finish_descriptor(d, graph);
    return graph;
}

/* ---- engines ---- */

static cudnnStatus_t get_descriptor(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                                    cudnnBackendDescriptor_t into) {
    int64_t count;
    return cudnnBackendGetAttribute(of, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &into);
}

/* Whether an engine with this note breaks our rules: sums must be f32; operands are not rounded unless they
 * may be; where bits must repeat there are no atomics. */
static bool is_forbidden(cudnnBackendNumericalNote_t note, const kernel_env *env, const dnn_conv *what) {
    switch (note) {
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
        return true;
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
        return env->deterministic;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
        return !what->may_round;
    default:
        return false;
    }
}

/* The notes that may exclude an engine, as progress reports name them. */
static const char *const note_names[CUDNN_NUMERICAL_NOTE_TYPE_COUNT] = {
    "tensor_core", "down_convert_inputs", "reduced_precision_reduction", "fft", "nondeterministic"};

/* What became of a configuration. */
enum { ALLOWED = -1, UNKNOWN = -2 };

/* The first note of the configuration's engine that breaks a rule; ALLOWED, or UNKNOWN where the library does
 * not tell its notes. */
static int broken_rule(cudnnBackendDescriptor_t config, const kernel_env *env, const dnn_conv *what) {
    cudnnBackendDescriptor_t engine;
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t count = 0;
    int broken = ALLOWED;
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) != CUDNN_STATUS_SUCCESS)
        return UNKNOWN;
    if (get_descriptor(config, CUDNN_ATTR_ENGINECFG_ENGINE, engine) != CUDNN_STATUS_SUCCESS ||
        cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                 CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes) != CUDNN_STATUS_SUCCESS)
        broken = UNKNOWN;
    for (int64_t i = 0; i < count && broken == ALLOWED; i++)
        if (is_forbidden(notes[i], env, what)) broken = (int)notes[i];
    cudnnBackendDestroyDescriptor(engine);
    return broken;
}

/* Makes d->plan of this configuration. Returns false when the library cannot, or when the plan needs more
 * than `most` bytes of workspace. */
static bool try_proposal(dnn *d, cudnnBackendDescriptor_t config, size_t most) {
    cudnnBackendDescriptor_t plan;
    int64_t bytes = 0, count;
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) != CUDNN_STATUS_SUCCESS)
        return false;
    cudnnStatus_t s =
        cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &d->handle);
    if (s == CUDNN_STATUS_SUCCESS)
        s = cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config);
    if (s == CUDNN_STATUS_SUCCESS) s = cudnnBackendFinalize(plan);
    if (s == CUDNN_STATUS_SUCCESS)
        s = cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                     &count, &bytes);
    if (s == CUDNN_STATUS_SUCCESS && (size_t)bytes <= most)
        d->plan = plan;
    else
        cudnnBackendDestroyDescriptor(plan);
    return d->plan != NULL;
}

/* Fills `configs` with configurations in the order of the library's heuristic and returns how many; the
 * caller destroys them. */
static int proposals_get(dnn *d, cudnnBackendDescriptor_t graph, cudnnBackendHeurMode_t mode,
                         cudnnBackendDescriptor_t configs[PROPOSALS]) {
    int64_t count = 0, made = 0;
    cudnnBackendDescriptor_t heuristics = begin(d, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_descriptor(d, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(d, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finish_descriptor(d, heuristics);
    if (d->status == CUDNN_STATUS_SUCCESS)
        d->status = cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                             CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, NULL);
    if (d->status != CUDNN_STATUS_SUCCESS) return 0;
    if (count > PROPOSALS) count = PROPOSALS;
    while (made < count && cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[made]) ==
                               CUDNN_STATUS_SUCCESS)
        made++;
    count = 0;
    d->status = cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, made, &count, configs);
    for (int64_t i = count; i < made; i++) cudnnBackendDestroyDescriptor(configs[i]);
    return (int)(d->status == CUDNN_STATUS_SUCCESS ? count : 0);
}

/* ---- engines as text ---- */

/* Appends " k5=1" for each knob of the configuration. */
static bool knobs_write(cudnnBackendDescriptor_t config, text *to) {
    cudnnBackendDescriptor_t knobs[KNOBS];
    int64_t made = 0, count = 0, one;
    while (made < KNOBS && cudnnBackendCreateDescriptor(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, &knobs[made]) ==
                               CUDNN_STATUS_SUCCESS)
        made++;
    bool good = made == KNOBS && cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, made, &count,
                                                          knobs) == CUDNN_STATUS_SUCCESS;
    for (int64_t i = 0; i < count && good; i++) {
        cudnnBackendKnobType_t type = (cudnnBackendKnobType_t)0;
        int64_t value = 0;
        good = cudnnBackendGetAttribute(knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1,
                                        &one, &type) == CUDNN_STATUS_SUCCESS &&
               cudnnBackendGetAttribute(knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1,
                                        &one, &value) == CUDNN_STATUS_SUCCESS;
        if (good) text_add(to, " k%d=%lld", (int)type, (long long)value);
    }
    for (int64_t i = 0; i < made; i++) cudnnBackendDestroyDescriptor(knobs[i]);
    return good;
}

/* Appends the configuration and a newline; nothing where the library does not tell all of it, as a line
 * without its knobs names another configuration. */
static void config_write(cudnnBackendDescriptor_t config, text *to) {
    cudnnBackendDescriptor_t engine;
    int64_t index = 0, one;
    text line = {};
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) != CUDNN_STATUS_SUCCESS)
        return;
    bool good = get_descriptor(config, CUDNN_ATTR_ENGINECFG_ENGINE, engine) == CUDNN_STATUS_SUCCESS &&
                cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &one,
                                         &index) == CUDNN_STATUS_SUCCESS;
    cudnnBackendDestroyDescriptor(engine);
    text_add(&line, "engine=%lld", (long long)index);
    good = good && knobs_write(config, &line);
    if (line.failed) to->failed = true;
    if (good && !line.failed) text_add(to, "%s\n", line.data);
    free(line.data);
}

/* One knob's setting, from " k5=1" at *at, which moves past it; NULL: something else is there. */
static cudnnBackendDescriptor_t knob_read(dnn *d, const char **at) {
    int number = 0, used = 0;
    long long value = 0;
    if (sscanf(*at, " k%d=%lld%n", &number, &value, &used) < 2 || used == 0) return NULL;
    *at += used;
    cudnnBackendKnobType_t type = (cudnnBackendKnobType_t)number;
    int64_t setting = value;
    cudnnBackendDescriptor_t made = begin(d, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    set(d, made, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
    set_numbers(d, made, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 1, &setting);
    finish_descriptor(d, made);
    return made;
}

/* The configuration that the text describes; d->status tells whether there is one that the library has. */
static cudnnBackendDescriptor_t config_read(dnn *d, cudnnBackendDescriptor_t graph, const char *named) {
    cudnnBackendDescriptor_t knobs[KNOBS];
    long long number = 0;
    int used = 0, count = 0;
    if (sscanf(named, "engine=%lld%n", &number, &used) < 1 || used == 0) {
        d->status = CUDNN_STATUS_NOT_SUPPORTED;
        return NULL;
    }
    const char *at = named + used;
    const int64_t index = number;
    cudnnBackendDescriptor_t engine = begin(d, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    set_descriptor(d, engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    set_numbers(d, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1, &index);
    finish_descriptor(d, engine);
    while (d->status == CUDNN_STATUS_SUCCESS && count < KNOBS && (knobs[count] = knob_read(d, &at))) count++;
    if (d->status == CUDNN_STATUS_SUCCESS && *at) d->status = CUDNN_STATUS_NOT_SUPPORTED;
    cudnnBackendDescriptor_t config = begin(d, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    set_descriptor(d, config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    if (count) set(d, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, knobs);
    finish_descriptor(d, config);
    return config;
}

/* Makes the plan of a table's engine, if the library has it and it keeps our rules: tables come from other
 * versions and other GPUs, and from sessions with other rules. */
static void plan_named(dnn *d, cudnnBackendDescriptor_t graph, const char *named, const dnn_conv *what,
                       const kernel_env *env) {
    cudnnBackendDescriptor_t config = config_read(d, graph, named);
    if (d->status != CUDNN_STATUS_SUCCESS) return;
    if (broken_rule(config, env, what) != ALLOWED || !try_proposal(d, config, what->workspace_bytes))
        d->status = CUDNN_STATUS_NOT_SUPPORTED;
}

/* ---- the choice ---- */

/* What dnn_engines collects while an engine is chosen. */
typedef struct listing {
    text *names;
    int skipped[CUDNN_NUMERICAL_NOTE_TYPE_COUNT]; /* configurations that a rule excludes, by note */
} listing;

/* Takes the first configuration that keeps the rules and has a plan; destroys the others. `all`, unless NULL,
 * gets it and the allowed ones after it, which are not opened here. */
static void choose(dnn *d, cudnnBackendDescriptor_t graph, cudnnBackendHeurMode_t mode, const kernel_env *env,
                   const dnn_conv *what, listing *all) {
    cudnnBackendDescriptor_t configs[PROPOSALS];
    int count = proposals_get(d, graph, mode, configs);
    for (int i = 0; i < count; i++) {
        int broken = broken_rule(configs[i], env, what);
        if (all && broken >= 0 && broken < CUDNN_NUMERICAL_NOTE_TYPE_COUNT) all->skipped[broken]++;
        bool is_chosen = !d->plan && broken == ALLOWED && try_proposal(d, configs[i], what->workspace_bytes);
        if (all && d->plan && broken == ALLOWED) config_write(configs[i], all->names);
        if (is_chosen)
            d->kept[d->n_kept++] = configs[i];
        else
            cudnnBackendDestroyDescriptor(configs[i]);
    }
}

/* Mode A gives the library's best estimates; if none of them opens, the fallback mode lists engines that run
 * anything. Sessions and `graphtool calibrate` both decide here, so a convolution that a session runs has
 * engines to time. */
static void plan_select(dnn *d, cudnnBackendDescriptor_t graph, const dnn_conv *what, const kernel_env *env,
                        listing *all) {
    choose(d, graph, CUDNN_HEUR_MODE_A, env, what, all);
    if (!d->plan) {
        d->status = CUDNN_STATUS_SUCCESS;
        choose(d, graph, CUDNN_HEUR_MODE_FALLBACK, env, what, all);
    }
    if (!d->plan && d->status == CUDNN_STATUS_SUCCESS) d->status = CUDNN_STATUS_NOT_SUPPORTED;
}

/* ---- plans ---- */

/* With the graph of its operation; NULL when memory is out. */
static dnn *dnn_begin(const dnn_conv *what, const kernel_env *env, cudnnBackendDescriptor_t *graph) {
    dnn *d = (dnn *)mem_new(env->env, sizeof *d);
    if (!d) return NULL;
    d->env = env->env;
    d->handle = (cudnnHandle_t)env->cuda->dnn;
    *graph = graph_new(d, what);
    return d;
}

/* Everything that the library allocates for this plan is freed by dnn_free, after a failure too. */
static weft_status dnn_end(dnn *d, dnn **made, weft_error *error) {
    if (d->status == CUDNN_STATUS_SUCCESS) {
        *made = d;
        return WEFT_OK;
    }
    weft_status status = status_of(d->status, "planning a convolution", error);
    dnn_free(d);
    return status;
}

weft_status dnn_new_exactly(const dnn_conv *what, const kernel_env *env, const char *named, dnn **made,
                            weft_error *error) {
    cudnnBackendDescriptor_t graph;
    dnn *d = dnn_begin(what, env, &graph);
    if (!d) return error_memory(error, "a convolution");
    if (d->status == CUDNN_STATUS_SUCCESS) plan_named(d, graph, named, what, env);
    return dnn_end(d, made, error);
}

weft_status dnn_new(const dnn_conv *what, const kernel_env *env, const char *named, dnn **made,
                    weft_error *error) {
    cudnnBackendDescriptor_t graph;
    weft_error why = {};
    if (named && dnn_new_exactly(what, env, named, made, &why) == WEFT_OK) return WEFT_OK;
    dnn *d = dnn_begin(what, env, &graph);
    if (!d) return error_memory(error, "a convolution");
    if (d->status == CUDNN_STATUS_SUCCESS) plan_select(d, graph, what, env, NULL);
    return dnn_end(d, made, error);
}

/* Writes how many configurations are excluded, by the names of their notes. */
static void skipped_write(const listing *all, text *to) {
    const char *before = "";
    for (int i = 0; i < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; i++)
        if (all->skipped[i]) {
            text_add(to, "%s%d %s", before, all->skipped[i], note_names[i] ? note_names[i] : "other");
            before = ", ";
        }
}

weft_status dnn_engines(const dnn_conv *what, const kernel_env *env, text *list, text *skipped,
                        weft_error *error) {
    cudnnBackendDescriptor_t graph;
    listing all = {list, {}};
    dnn *d = dnn_begin(what, env, &graph);
    if (!d) return error_memory(error, "a convolution");
    if (d->status == CUDNN_STATUS_SUCCESS) plan_select(d, graph, what, env, &all);
    skipped_write(&all, skipped);
    weft_status status = status_of(d->status, "listing the engines of a convolution", error);
    dnn_free(d);
    return status;
}

void dnn_free(dnn *d) {
    if (!d) return;
    if (d->pack) cudnnBackendDestroyDescriptor(d->pack);
    if (d->plan) cudnnBackendDestroyDescriptor(d->plan);
    while (d->n_kept > 0) cudnnBackendDestroyDescriptor(d->kept[--d->n_kept]);
    mem_free(d->env, d, sizeof *d);
}

/* ---- runs ---- */

/* Makes the variant pack, the form in which the library takes pointers. They seldom change between runs, so
 * mostly the last pack is used again. */
static cudnnStatus_t point(dnn *d, const dnn_buffers *b) {
    const int64_t ids[IDS] = {BIG, SMALL, WEIGHT};
    const void *places[IDS] = {b->big, b->small, b->weight};
    /* the same pointers as in the last run */
    if (d->pack && memcmp(&d->at, b, sizeof *b) == 0) return CUDNN_STATUS_SUCCESS;
    if (d->pack) cudnnBackendDestroyDescriptor(d->pack);
    d->pack = NULL;
    cudnnBackendDescriptor_t pack;
    cudnnStatus_t s = cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (s != CUDNN_STATUS_SUCCESS) return s;
    s = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, IDS, ids);
    if (s == CUDNN_STATUS_SUCCESS)
        s = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, IDS,
                                     places);
    if (s == CUDNN_STATUS_SUCCESS)
        s = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                                     &b->workspace);
    if (s == CUDNN_STATUS_SUCCESS) s = cudnnBackendFinalize(pack);
    if (s != CUDNN_STATUS_SUCCESS) {
        cudnnBackendDestroyDescriptor(pack);
        return s;
    }
    d->pack = pack;
    d->at = *b;
    return s;
}

weft_status dnn_run(dnn *d, const struct cuda_context *cuda, const dnn_buffers *b, weft_error *error) {
    cudnnStatus_t s = point(d, b);
    if (s == CUDNN_STATUS_SUCCESS) s = cudnnBackendExecute((cudnnHandle_t)cuda->dnn, d->plan, d->pack);
    return status_of(s, "running a convolution", error);
}
