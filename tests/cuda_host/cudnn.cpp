/* cudnn.cpp - see cudnn.h: handles, and descriptors by one table of what each may and must have. As in the
 * real library these are errors: an attribute of another kind of descriptor or of another type, too many
 * elements, a change after finalizing, and parts that are not final. Destroyed parts are errors too, though
 * the real library keeps them alive. */
#include "cuda_host/cudnn_inside.h"

#include <cstdarg>
#include <cstdio>

using namespace cuda_host_dnn;

/* ---- errors ---- */

static thread_local char last_error[400];

cudnnStatus_t cuda_host_dnn::fail(cudnnStatus_t status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    return status;
}

void cudnnGetLastErrorString(char *message, size_t room) {
    snprintf(message, room, "%s", last_error);
    last_error[0] = 0;
}

const char *cudnnGetErrorString(cudnnStatus_t status) {
    if (status == CUDNN_STATUS_SUCCESS) return "CUDNN_STATUS_SUCCESS";
    int category = status / 1000;
    return category == 1   ? "CUDNN_STATUS_NOT_INITIALIZED"
           : category == 2 ? "CUDNN_STATUS_BAD_PARAM"
           : category == 3 ? "CUDNN_STATUS_NOT_SUPPORTED"
           : category == 4 ? "CUDNN_STATUS_INTERNAL_ERROR"
                           : "CUDNN_STATUS_EXECUTION_FAILED";
}

/* ---- handles ---- */

static bool is_alive(cudnnHandle_t handle) {
    return handle && handle->alive == ALIVE;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
    int count;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0)
        return fail(CUDNN_STATUS_NOT_INITIALIZED, "there is no GPU");
    if (cuda_host::library_opens() != cudaSuccess)
        return fail(CUDNN_STATUS_INTERNAL_ERROR, "cudnnCreate within a capture");
    *handle = new cudnnContext;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    if (!is_alive(handle)) return fail(CUDNN_STATUS_BAD_PARAM, "no handle");
    handle->alive = 0;
    delete handle;
    return cuda_host::library_closes() == cudaSuccess
               ? CUDNN_STATUS_SUCCESS
               : fail(CUDNN_STATUS_INTERNAL_ERROR, "cudnnDestroy within a capture");
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    if (!is_alive(handle)) return fail(CUDNN_STATUS_BAD_PARAM, "no handle");
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

size_t cudnnGetVersion(void) {
    return 91900;
}

/* ---- the attributes of descriptors ---- */

/* An attribute that a descriptor may have; is_needed: finalizing requires it. */
static const struct rule {
    int descriptor, name, type, most; /* most: elements */
    bool is_needed;
} rules[] = {
#define PART CUDNN_TYPE_BACKEND_DESCRIPTOR
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, true},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 8, true},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 8, true},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, true},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, true},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, true},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1,
     true},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 6, true},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 6, true},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 6, true},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 6, true},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, true},
#define OPERATION(kind, prefix, x, y, w)                                                                     \
    {kind, prefix##_ALPHA, CUDNN_TYPE_FLOAT, 1, true}, {kind, prefix##_BETA, CUDNN_TYPE_FLOAT, 1, true},     \
        {kind, prefix##_CONV_DESC, PART, 1, true}, {kind, prefix##_##x, PART, 1, true},                      \
        {kind, prefix##_##y, PART, 1, true}, {                                                               \
        kind, prefix##_##w, PART, 1, true                                                                    \
    }
    OPERATION(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD, X, Y, W),
    OPERATION(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA, DX, DY, W),
    OPERATION(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER, X, DY, DW),
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, false},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_OPS, PART, 1, true},
    {CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, PART, 1, true},
    {CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, true},
    {CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, true},
    {CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, true},
    {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_ATTR_ENGINECFG_ENGINE, PART, 1, true},
    {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, PART, CUDNN_KNOB_TYPE_COUNTS,
     false},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, PART, 1, true},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, true},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, true},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, PART, 1, true},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 64, true},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 64,
     true},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, true},
};

/* Bytes of an element of that type. */
static size_t width_of(int type) {
    switch (type) {
    case CUDNN_TYPE_FLOAT:
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_CONVOLUTION_MODE:
    case CUDNN_TYPE_HEUR_MODE:
    case CUDNN_TYPE_KNOB_TYPE:
        return 4;
    default:
        return 8;
    }
}

bool cuda_host_dnn::is_alive(const descriptor *d) {
    return d && d->alive == ALIVE;
}

/* ---- descriptors ---- */

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *made) {
    descriptor *d = new descriptor;
    d->type = type;
    *made = d;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor_) {
    descriptor *d = static_cast<descriptor *>(descriptor_);
    if (!is_alive(d)) return fail(CUDNN_STATUS_BAD_PARAM, "what is destroyed is not a descriptor");
    d->alive = 0;
    delete d;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t parts_check(int64_t count, const void *values) {
    for (int64_t i = 0; i < count; i++) {
        const descriptor *part = static_cast<const descriptor *const *>(values)[i];
        if (!is_alive(part) || !part->is_final)
            return fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a part is not finalized");
    }
    return CUDNN_STATUS_SUCCESS;
}

/* Copies the values; parts are kept as pointers and must be final. */
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor_, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void *values) {
    descriptor *d = static_cast<descriptor *>(descriptor_);
    if (!is_alive(d) || !values)
        return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no descriptor or no value");
    if (d->is_final)
        return fail(CUDNN_STATUS_NOT_INITIALIZED, "attribute %d of a descriptor that is final", name);
    for (const rule &r : rules) {
        if (r.descriptor != d->type || r.name != name) continue;
        if (r.type != type)
            return fail(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "attribute %d has another type", name);
        if (count < 1 || count > r.most)
            return fail(CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND, "attribute %d: count", name);
        if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR && parts_check(count, values) != CUDNN_STATUS_SUCCESS)
            return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
        const char *bytes = static_cast<const char *>(values);
        d->has[name] = {count, std::vector<char>(bytes, bytes + (size_t)count * width_of(type))};
        return CUDNN_STATUS_SUCCESS;
    }
    return fail(CUDNN_STATUS_BAD_PARAM, "descriptor %d has no attribute %d", d->type, name);
}

static cudnnStatus_t pack_check(const descriptor *d) {
    const attribute &ids = d->has.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS),
                    &places = d->has.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    return ids.count == places.count ? CUDNN_STATUS_SUCCESS
                                     : fail(CUDNN_STATUS_BAD_PARAM, "ids without places");
}

/* An engine by its number. */
static cudnnStatus_t engine_finalize(descriptor *d) {
    int64_t index = *d->get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
    if (!has_engine(index)) return fail(CUDNN_STATUS_NOT_SUPPORTED, "there is no engine %d", (int)index);
    d->graph = d->part(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
    d->engine = (int)index;
    return CUDNN_STATUS_SUCCESS;
}

/* A configuration made by hand: an engine and settings of its knob. */
static cudnnStatus_t config_finalize(descriptor *d) {
    const descriptor *engine = d->part(CUDNN_ATTR_ENGINECFG_ENGINE);
    d->graph = engine->graph;
    d->engine = engine->engine;
    auto knobs = d->has.find(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
    for (int64_t i = 0; knobs != d->has.end() && i < knobs->second.count; i++) {
        const descriptor *knob = d->get<const descriptor *>(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES)[i];
        int64_t value = *knob->get<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
        if (*knob->get<int>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE) != CUDNN_KNOB_TYPE_TILE_SIZE || value < 0 ||
            value >= TILES)
            return fail(CUDNN_STATUS_NOT_SUPPORTED, "the engine has no such knob or setting");
        d->tile = (int)value;
    }
    return CUDNN_STATUS_SUCCESS;
}

/* A plan takes graph and engine from its configuration; making it checks whether the engine accepts the
 * graph. */
static cudnnStatus_t plan_finalize(descriptor *d) {
    const descriptor *config = d->part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    int64_t workspace;
    if (!is_alive(*d->get<cudnnHandle_t>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE)))
        return fail(CUDNN_STATUS_BAD_PARAM, "a plan without a handle");
    d->graph = config->graph;
    d->engine = config->engine;
    d->tile = config->tile;
    return plan_check(d->graph, d->engine, &workspace);
}

/* Everything that is needed is there, and the parts fit each other. */
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor_) {
    descriptor *d = static_cast<descriptor *>(descriptor_);
    if (!is_alive(d)) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no descriptor");
    for (const rule &r : rules)
        if (r.descriptor == d->type && r.is_needed && !d->has.count(r.name))
            return fail(CUDNN_STATUS_BAD_PARAM, "attribute %d is missing", r.name);
    cudnnStatus_t s = CUDNN_STATUS_SUCCESS;
    switch (d->type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        s = tensor_check(d);
        break;
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
        s = window_check(d);
        break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
        s = operation_check(d);
        break;
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
        s = engine_finalize(d);
        break;
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
        s = config_finalize(d);
        break;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        s = plan_finalize(d);
        break;
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
        s = pack_check(d);
        break;
    default:
        break;
    }
    d->is_final = s == CUDNN_STATUS_SUCCESS;
    return s;
}

/* ---- queries ---- */

/* The caller gives configurations to be filled in, as with the real library. */
static cudnnStatus_t get_results(const descriptor *d, int64_t room, int64_t *count, void *values) {
    const descriptor *graph = d->part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    std::vector<proposal> engines =
        proposals(graph, *d->get<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE));
    *count = (int64_t)engines.size();
    if (!values) return CUDNN_STATUS_SUCCESS;
    *count = room < *count ? room : *count;
    for (int64_t i = 0; i < *count; i++) {
        descriptor *config = static_cast<descriptor **>(values)[i];
        if (!is_alive(config) || config->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
            return fail(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
                        "room for results must be engine configurations");
        config->graph = graph;
        config->engine = engines[(size_t)i].engine;
        config->tile = engines[(size_t)i].tile;
        config->is_final = true;
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t get_engine(const descriptor *d, int64_t room, int64_t *count, void *values) {
    descriptor *engine = room == 1 && values ? *static_cast<descriptor **>(values) : nullptr;
    if (!is_alive(engine) || engine->type != CUDNN_BACKEND_ENGINE_DESCRIPTOR)
        return fail(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "room for an engine must be one");
    engine->graph = d->graph;
    engine->engine = d->engine;
    engine->is_final = true;
    *count = 1;
    return CUDNN_STATUS_SUCCESS;
}

/* Fills in the setting of the one knob, and of no other of the caller's descriptors. */
static cudnnStatus_t get_knobs(const descriptor *d, int64_t room, int64_t *count, void *values) {
    descriptor *knob = room >= 1 && values ? *static_cast<descriptor **>(values) : nullptr;
    if (!is_alive(knob) || knob->type != CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)
        return fail(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "room for knobs must be choices of knobs");
    if (!tells_knobs(d->engine)) return fail(CUDNN_STATUS_NOT_SUPPORTED, "knobs of engine %d", d->engine);
    knob->tile = d->tile;
    knob->is_final = true;
    *count = 1;
    return CUDNN_STATUS_SUCCESS;
}

/* Only the queries that Weft makes. */
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor_,
                                       cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                       int64_t room, int64_t *count, void *values) {
    const descriptor *d = static_cast<const descriptor *>(descriptor_);
    if (!is_alive(d) || !d->is_final || !count)
        return fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "it is not final");
    bool wants_parts = type == CUDNN_TYPE_BACKEND_DESCRIPTOR;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && d->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR &&
        wants_parts)
        return get_results(d, room, count, values);
    if (name == CUDNN_ATTR_ENGINECFG_ENGINE && d->type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR && wants_parts)
        return get_engine(d, room, count, values);
    if (name == CUDNN_ATTR_ENGINECFG_KNOB_CHOICES && d->type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR &&
        wants_parts)
        return get_knobs(d, room, count, values);
    if (room == 1 && name == CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE && type == CUDNN_TYPE_KNOB_TYPE) {
        *count = 1;
        *static_cast<int *>(values) = CUDNN_KNOB_TYPE_TILE_SIZE;
        return CUDNN_STATUS_SUCCESS;
    }
    if (room == 1 && type == CUDNN_TYPE_INT64 &&
        (name == CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE || name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX)) {
        *count = 1;
        *static_cast<int64_t *>(values) = name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX ? d->engine : d->tile;
        return CUDNN_STATUS_SUCCESS;
    }
    if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE && d->type == CUDNN_BACKEND_ENGINE_DESCRIPTOR &&
        type == CUDNN_TYPE_NUMERICAL_NOTE) {
        std::vector<cudnnBackendNumericalNote_t> notes = notes_of(d->engine);
        *count = (int64_t)notes.size();
        for (int64_t i = 0; i < *count && i < room; i++)
            static_cast<cudnnBackendNumericalNote_t *>(values)[i] = notes[(size_t)i];
        return CUDNN_STATUS_SUCCESS;
    }
    if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE &&
        d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && type == CUDNN_TYPE_INT64 && room == 1) {
        *count = 1;
        return plan_check(d->graph, d->engine, static_cast<int64_t *>(values));
    }
    return fail(CUDNN_STATUS_BAD_PARAM, "attribute %d of descriptor %d cannot be had so", name, d->type);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_,
                                  cudnnBackendDescriptor_t pack_) {
    const descriptor *plan = static_cast<const descriptor *>(plan_),
                     *pack = static_cast<const descriptor *>(pack_);
    if (!is_alive(handle)) return fail(CUDNN_STATUS_BAD_PARAM, "no handle");
    if (!is_alive(plan) || !is_alive(pack) || !plan->is_final || !pack->is_final ||
        plan->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
        pack->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
        return fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "no plan or no pack that is final");
    return execute(handle->stream, plan, pack);
}
