/* cudnn_engines.cpp - the rules of the emulated cuDNN's tensors and operations, its engines, and running
 * plans.
 *
 * There are seven engines, with a knob of three settings, so that rules, times and fallbacks matter: fast
 * ones need 16-byte alignment; two round f32 to TF32, one sums in another order each time, one sums in the
 * result's precision, one needs more workspace than anybody gives. Only the last one accepts everything, and
 * only the fallback mode proposes it. A result has its operands' type, as in cuDNN 9.19. */
#include "cuda_host/cudnn_inside.h"

#include <algorithm>

using namespace cuda_host;
using namespace cuda_host_dnn;

/* ---- tensors, windows ---- */

static const int64_t *numbers(const descriptor *d, int name) {
    return d->get<int64_t>(name);
}

static int64_t count_of(const descriptor *d, int name) {
    return d->has.at(name).count;
}

static cudnnDataType_t type_of(const descriptor *tensor) {
    return *tensor->get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
}

static element element_of(const descriptor *tensor) {
    cudnnDataType_t type = type_of(tensor);
    return type == CUDNN_DATA_FLOAT ? ELEMENT_F32 : type == CUDNN_DATA_HALF ? ELEMENT_F16 : ELEMENT_BF16;
}

static int64_t id_of(const descriptor *tensor) {
    return *numbers(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID);
}

static const int64_t *shape_of(const descriptor *tensor) {
    return numbers(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS);
}

cudnnStatus_t cuda_host_dnn::tensor_check(const descriptor *d) {
    cudnnDataType_t type = type_of(d);
    if (type != CUDNN_DATA_FLOAT && type != CUDNN_DATA_HALF && type != CUDNN_DATA_BFLOAT16)
        return fail(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "a tensor's type");
    int64_t axes = count_of(d, CUDNN_ATTR_TENSOR_DIMENSIONS);
    if (axes != count_of(d, CUDNN_ATTR_TENSOR_STRIDES))
        return fail(CUDNN_STATUS_BAD_PARAM, "strides without axes");
    for (int64_t i = 0; i < axes; i++)
        if (shape_of(d)[i] < 1 || numbers(d, CUDNN_ATTR_TENSOR_STRIDES)[i] < 1)
            return fail(CUDNN_STATUS_BAD_PARAM, "a tensor's axis or stride is below 1");
    int64_t alignment = *numbers(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    if (alignment < (int64_t)element_bytes(element_of(d)) || (alignment & (alignment - 1)))
        return fail(CUDNN_STATUS_BAD_PARAM, "a tensor's alignment");
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cuda_host_dnn::window_check(const descriptor *d) {
    int64_t axes = *numbers(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
    const int each[] = {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
                        CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS};
    for (int name : each) {
        if (count_of(d, name) != axes)
            return fail(CUDNN_STATUS_BAD_PARAM, "a window's attribute %d: count", name);
        bool is_pad =
            name == CUDNN_ATTR_CONVOLUTION_POST_PADDINGS || name == CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS;
        for (int64_t i = 0; i < axes; i++)
            if (numbers(d, name)[i] < (is_pad ? 0 : 1))
                return fail(CUDNN_STATUS_BAD_PARAM, "a window's %d", name);
    }
    if (*d->get<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) != CUDNN_DATA_FLOAT ||
        *d->get<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) != CUDNN_CROSS_CORRELATION ||
        (axes != 2 && axes != 3))
        return fail(CUDNN_STATUS_NOT_SUPPORTED,
                    "only f32 cross-correlations of images and volumes are emulated");
    return CUDNN_STATUS_SUCCESS;
}

/* ---- operations ---- */

convolution cuda_host_dnn::convolution_of(const descriptor *o) {
#define READ(prefix, x, y, w)                                                                                \
    return {                                                                                                 \
        o->type, o->part(prefix##_CONV_DESC), o->part(prefix##_##x), o->part(prefix##_##y),                  \
            o->part(prefix##_##w), *o->get<float>(prefix##_ALPHA), *o->get<float>(prefix##_BETA)             \
    }
    if (o->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
        READ(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD, X, Y, W);
    if (o->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
        READ(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA, DX, DY, W);
    READ(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER, X, DY, DW);
#undef READ
}

/* The tensor that the operation computes. */
static const descriptor *result_of(const convolution &c) {
    return c.kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR         ? c.small
           : c.kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ? c.big
                                                                                    : c.weight;
}

/* Axes, channels and groups that fit, and a small image that follows from the large one. */
cudnnStatus_t cuda_host_dnn::operation_check(const descriptor *d) {
    convolution c = convolution_of(d);
    if (c.window->type != CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
        return fail(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "a window is not a descriptor");
    int64_t axes = *numbers(c.window, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
    for (const descriptor *t : {c.big, c.small, c.weight})
        if (t->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR ||
            count_of(t, CUDNN_ATTR_TENSOR_DIMENSIONS) != 2 + axes)
            return fail(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "an operand has not the window's axes");
    const int64_t *big = shape_of(c.big), *small = shape_of(c.small), *weight = shape_of(c.weight);
    if (big[0] != small[0] || small[1] != weight[0] || big[1] % weight[1] || small[1] % (big[1] / weight[1]))
        return fail(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "images or channels do not fit");
    for (int64_t i = 0; i < axes; i++) {
        int64_t extent = numbers(c.window, CUDNN_ATTR_CONVOLUTION_DILATIONS)[i] * (weight[2 + i] - 1) + 1,
                room = big[2 + i] + numbers(c.window, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)[i] +
                       numbers(c.window, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS)[i] - extent;
        if (room < 0 ||
            small[2 + i] != room / numbers(c.window, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)[i] + 1)
            return fail(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "axis %d does not follow from the window",
                        (int)(2 + i));
    }
    return CUDNN_STATUS_SUCCESS;
}

/* ---- engines ---- */

/* TENSOR_CORE and NARROW round f32 to TF32; ANY is the one of the fallback mode. */
enum { TENSOR_CORE, NARROW, UNSTEADY, SHORT_SUMS, GREEDY, PLAIN, ANY, ENGINES };

std::vector<cudnnBackendNumericalNote_t> cuda_host_dnn::notes_of(int engine) {
    switch (engine) {
    case TENSOR_CORE:
        return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
    case NARROW:
        return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS};
    case UNSTEADY:
        return {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
    case SHORT_SUMS:
        return {CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION};
    default:
        return {};
    }
}

static convolution convolution_in(const descriptor *graph) {
    return convolution_of(graph->part(CUDNN_ATTR_OPERATIONGRAPH_OPS));
}

/* ms of a call with the usual tile, by engine; what that becomes with each tile. The best is not what the
 * heuristics propose first. */
static const double engine_ms[ENGINES] = {1.0, 0.9, 2.0, 0.5, 1.0, 3.0, 9.0},
                    tile_factor[TILES] = {4, 1, 0.6};

/* Guarded by the emulator's lock. Sets of engines, a bit each: */
static unsigned withdrawn, secretive;
static int runs[ENGINES][TILES];

static unsigned with_engine(unsigned set, int engine) {
    return engine < 0 ? 0 : set | 1u << engine;
}

void cudnn_host_withdraw(int engine) {
    withdrawn = with_engine(withdrawn, engine);
}

void cudnn_host_hide_knobs(int engine) {
    secretive = with_engine(secretive, engine);
}

bool cuda_host_dnn::tells_knobs(int engine) {
    return !(secretive >> engine & 1);
}

int cudnn_host_runs(int engine, int tile, int *all) {
    int count = runs[engine][tile];
    *all = 0;
    for (auto &of_engine : runs)
        for (int &n : of_engine) {
            *all += n;
            n = 0;
        }
    return count;
}

bool cuda_host_dnn::has_engine(int64_t engine) {
    return engine >= 0 && engine < ENGINES && !(withdrawn >> engine & 1);
}

/* The order depends on the shape, so that the first one is not always the same. All engines with the usual
 * tile, then with the others. */
std::vector<proposal> cuda_host_dnn::proposals(const descriptor *graph, cudnnBackendHeurMode_t mode) {
    if (mode == CUDNN_HEUR_MODE_FALLBACK)
        return has_engine(ANY) ? std::vector<proposal>{{ANY, USUAL_TILE}} : std::vector<proposal>{};
    convolution c = convolution_in(graph);
    std::vector<int> engines = {TENSOR_CORE, NARROW, UNSTEADY, SHORT_SUMS, GREEDY, PLAIN};
    int64_t turn = (shape_of(c.big)[1] + shape_of(c.small)[2]) % (int64_t)engines.size();
    std::rotate(engines.begin(), engines.begin() + turn, engines.end());
    std::vector<proposal> list;
    for (int tile : {(int)USUAL_TILE, 2, 0})
        for (int engine : engines)
            if (has_engine(engine)) list.push_back({engine, tile});
    return list;
}

static bool is_aligned(const convolution &c, int64_t alignment) {
    for (const descriptor *t : {c.big, c.small, c.weight})
        if (*numbers(t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT) < alignment) return false;
    return true;
}

/* Operands of one type, and a result of the same. */
static bool types_are_supported(const convolution &c) {
    const descriptor *result = result_of(c);
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    bool first = true;
    for (const descriptor *t : {c.big, c.small, c.weight}) {
        if (t == result) continue;
        if (!first && type_of(t) != type) return false;
        type = type_of(t);
        first = false;
    }
    return type_of(result) == type;
}

cudnnStatus_t cuda_host_dnn::plan_check(const descriptor *graph, int engine, int64_t *workspace) {
    if (!cuda_host_dnn::is_alive(graph))
        return fail(CUDNN_STATUS_BAD_PARAM, "the plan's graph was destroyed");
    convolution c = convolution_in(graph);
    if (!types_are_supported(c)) return fail(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "types");
    if (engine != ANY && !is_aligned(c, 16)) return fail(CUDNN_STATUS_NOT_SUPPORTED, "alignment");
    if (engine == TENSOR_CORE && type_of(c.weight) != CUDNN_DATA_FLOAT && shape_of(c.weight)[1] % 8)
        return fail(CUDNN_STATUS_NOT_SUPPORTED, "channels");
    *workspace = engine == GREEDY ? (int64_t)1 << 33 : engine == ANY ? 0 : 4096; /* bytes */
    return CUDNN_STATUS_SUCCESS;
}

/* ---- running ---- */

/* A tensor as floats without gaps, whatever its strides: [axis 0, axes 2 to 4, axis 1]; of images d is 1. */
struct image {
    int64_t n, d, h, w, c;
    std::vector<float> x;
    float *at(int64_t i, int64_t z, int64_t y, int64_t column) {
        return x.data() + (((i * d + z) * h + y) * w + column) * c;
    }
};

/* The length of axis d, h, w, or the window's number of it; of images `flat` for the depth. */
static int64_t extent_of(const int64_t *of, int64_t axes, int i, int64_t flat) {
    return i < 3 - axes ? flat : of[i - (3 - axes)];
}

/* Calls visit(index without gaps, offset by strides) for every element. */
template <class F> static void each_element(const descriptor *t, F visit) {
    const int64_t *shape = shape_of(t), *stride = numbers(t, CUDNN_ATTR_TENSOR_STRIDES);
    int64_t axes = count_of(t, CUDNN_ATTR_TENSOR_DIMENSIONS) - 2, k = 0, length[3], step[3];
    for (int i = 0; i < 3; i++) {
        length[i] = extent_of(shape + 2, axes, i, 1);
        step[i] = extent_of(stride + 2, axes, i, 0);
    }
    for (int64_t i = 0; i < shape[0]; i++)
        for (int64_t z = 0; z < length[0]; z++)
            for (int64_t y = 0; y < length[1]; y++)
                for (int64_t x = 0; x < length[2]; x++)
                    for (int64_t c = 0; c < shape[1]; c++)
                        visit(k++, i * stride[0] + c * stride[1] + z * step[0] + y * step[1] + x * step[2]);
}

/* The value that the engine computes with. */
static float rounded(float x, int engine, element e) {
    return (engine == TENSOR_CORE || engine == NARROW) && e == ELEMENT_F32 ? round_tf32(x) : x;
}

static image image_load(const descriptor *t, const void *from, int engine, bool is_result) {
    const int64_t *s = shape_of(t), axes = count_of(t, CUDNN_ATTR_TENSOR_DIMENSIONS) - 2;
    image m = {s[0], extent_of(s + 2, axes, 0, 1), s[axes], s[1 + axes], s[1], {}};
    m.x.resize((size_t)(m.n * m.d * m.h * m.w * m.c));
    if (!is_result)
        each_element(t, [&](int64_t k, int64_t at) {
            m.x[(size_t)k] = rounded(element_load(element_of(t), from, at), engine, element_of(t));
        });
    return m;
}

/* With the errors that the engine's notes announce. */
static void image_store(const descriptor *t, const image &m, int engine, float alpha, float beta, void *to) {
    each_element(t, [&](int64_t k, int64_t at) {
        float y = alpha * m.x[(size_t)k];
        if (engine == UNSTEADY) y *= 1 + (float)(cuda_host::random() % 3) * 0x1p-22f;
        if (engine == SHORT_SUMS) y *= 1.02f;
        if (beta != 0) y += beta * element_load(element_of(t), to, at);
        element_store(element_of(t), to, at, y);
    });
}

/* One tap at one place: the one of the three that is the result gets the products of the other two. */
static void multiply(const convolution &c, float *big, float *small, float *weight, int64_t groups,
                     int64_t in, int64_t out, int64_t step) {
    const descriptor *result = result_of(c);
    for (int64_t g = 0; g < groups; g++, big += in)
        for (int64_t o = 0; o < out; o++, small++, weight += step)
            if (result == c.small)
                for (int64_t i = 0; i < in; i++) *small += big[i] * weight[i];
            else if (result == c.big)
                for (int64_t i = 0; i < in; i++) big[i] += *small * weight[i];
            else
                for (int64_t i = 0; i < in; i++) weight[i] += *small * big[i];
}

static void convolve(const convolution &c, image &big, image &small, image &weight) {
    int64_t axes = *numbers(c.window, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS), groups = big.c / weight.c;
    int64_t taps = weight.d * weight.h * weight.w, places = small.d * small.h * small.w;
    int64_t stride[3], pad[3], dilation[3];
    for (int i = 0; i < 3; i++) {
        stride[i] = extent_of(numbers(c.window, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES), axes, i, 1);
        pad[i] = extent_of(numbers(c.window, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS), axes, i, 0);
        dilation[i] = extent_of(numbers(c.window, CUDNN_ATTR_CONVOLUTION_DILATIONS), axes, i, 1);
    }
    /* where tap k of place p lies along axis i of big */
    auto along = [&](int i, int64_t p, int64_t k) { return p * stride[i] - pad[i] + k * dilation[i]; };
    for (int64_t n = 0; n < small.n; n++)
        for (int64_t p = 0; p < places; p++)
            for (int64_t k = 0; k < taps; k++) {
                int64_t z = along(0, p / small.w / small.h, k / weight.w / weight.h),
                        y = along(1, p / small.w % small.h, k / weight.w % weight.h),
                        x = along(2, p % small.w, k % weight.w);
                if (z < 0 || z >= big.d || y < 0 || y >= big.h || x < 0 || x >= big.w) continue;
                multiply(c, big.at(n, z, y, x), small.at(n, 0, 0, p), weight.at(0, 0, 0, k), groups, weight.c,
                         small.c / groups, taps * weight.c);
            }
}

/* Bytes from the first element to the end of the last. */
static size_t span(const descriptor *t) {
    int64_t last = 0;
    each_element(t, [&](int64_t, int64_t at) { last = std::max(last, at); });
    return (size_t)(last + 1) * element_bytes(element_of(t));
}

/* The address of a tensor in the variant pack. */
static cudnnStatus_t find(const descriptor *pack, const descriptor *tensor, void **place) {
    const int64_t *ids = numbers(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    for (int64_t i = 0; i < count_of(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS); i++) {
        if (ids[i] != id_of(tensor)) continue;
        *place = pack->get<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)[i];
        if (!*place) return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "tensor %d has no place", (int)ids[i]);
        if ((uintptr_t)*place % (uintptr_t)*numbers(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT))
            return fail(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "tensor %d is misaligned", (int)ids[i]);
        return CUDNN_STATUS_SUCCESS;
    }
    return fail(CUDNN_STATUS_BAD_PARAM, "a tensor is not in the pack");
}

/* Checks addresses and alignment at the call; the convolution runs later. */
cudnnStatus_t cuda_host_dnn::execute(cudaStream_t stream, const descriptor *plan, const descriptor *pack) {
    const descriptor *graph = plan->graph;
    int engine = plan->engine, tile = plan->tile;
    int64_t bytes;
    void *at[3], *workspace = *pack->get<void *>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    cudnnStatus_t s = plan_check(graph, engine, &bytes);
    if (s != CUDNN_STATUS_SUCCESS) return s;
    /* Captured work outlives all descriptors, so it has copies. */
    convolution c = convolution_in(graph);
    struct parts {
        descriptor window, tensors[3];
    } copy = {*c.window, {*c.big, *c.small, *c.weight}};
    for (int i = 0; i < 3 && s == CUDNN_STATUS_SUCCESS; i++) s = find(pack, &copy.tensors[i], &at[i]);
    if (s == CUDNN_STATUS_SUCCESS && bytes && (!workspace || (uintptr_t)workspace % 16))
        s = fail(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "no workspace on 16 bytes");
    if (s != CUDNN_STATUS_SUCCESS) return s;
    void *big_at = at[0], *small_at = at[1], *weight_at = at[2];
    cudaError_t queued = enqueue(stream, "cudnnBackendExecute", [=] {
        convolution mine = {c.kind,  &copy.window, &copy.tensors[0], &copy.tensors[1], &copy.tensors[2],
                            c.alpha, c.beta};
        const descriptor *result = result_of(mine);
        if (!is_device_memory(big_at, span(mine.big)) || !is_device_memory(small_at, span(mine.small)) ||
            !is_device_memory(weight_at, span(mine.weight)) ||
            (bytes && !is_device_memory(workspace, (size_t)bytes))) {
            trouble("cudnnBackendExecute: an operand or the workspace is not the GPU's memory");
            return;
        }
        spend(engine_ms[engine] * tile_factor[tile] * 1e-3);
        runs[engine][tile]++;
        image big = image_load(mine.big, big_at, engine, result == mine.big),
              small = image_load(mine.small, small_at, engine, result == mine.small),
              weight = image_load(mine.weight, weight_at, engine, result == mine.weight);
        convolve(mine, big, small, weight);
        image_store(result,
                    result == mine.big     ? big
                    : result == mine.small ? small
                                           : weight,
                    engine, c.alpha, c.beta,
                    result == mine.big     ? big_at
                    : result == mine.small ? small_at
                                           : weight_at);
        scribble(workspace, (size_t)bytes, (size_t)bytes);
    });
    return queued == cudaSuccess ? CUDNN_STATUS_SUCCESS
                                 : fail(CUDNN_STATUS_EXECUTION_FAILED, "the stream is broken");
}
