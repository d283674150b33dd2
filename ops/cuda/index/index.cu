/* index.cu - gather: an element of the result to a thread. scatter and scatter_add: with few ids along the
 * axis each element of the result looks for itself among them; else the ids are sorted by the place that they
 * name, which keeps their order, and each place takes what is its own. No float is added atomically, and each
 * element is written by one thread, so the bits repeat. */
#include "ops/cuda/index/index.cuh"

extern "C" {
#include "ops/cuda/index/index.h"
}

/* What all kernels need of the loop over ids (ops/index/index.h). */
struct index_job {
    integers ids;
    int64_t length, along, step[SIDES]; /* of x along the axis; ids along it; its strides */
    bool fresh; /* places that ids name are without x's element */
    cuda_failure *failure;
    int order;
    /* The id at element i of ids; -1 for one outside the axis, which is recorded. */
    __device__ int64_t id(int64_t i) const {
        int64_t id = ids.at(i);
        if (id >= 0 && id < length) return id;
        note_failure(failure, order, id, i);
        return -1;
    }
};

/* ---- on the host ---- */

/* Strides of all sides for each axis of the loop. */
struct axes {
    index_loop loop;
    int64_t stride[SIDES][WEFT_MAX_NDIM];
};

/* Ids and the result are row-major. */
static index_job job_of(const kernel_call *c, axes *a) {
    const index_attrs *attrs = static_cast<const index_attrs *>(c->attrs);
    tensor side[SIDES] = {c->in[0], c->out[0], c->n_in > 2 ? c->in[2] : c->in[0], c->in[1]};
    index_loop_of(attrs, &side[X].type, &side[IDS].type, &a->loop);
    stride_row_major(&side[Y].type, side[Y].stride);
    stride_row_major(&side[IDS].type, side[IDS].stride);
    for (int s = 0; s < PLACE; s++) index_strides(&a->loop, &side[s], a->stride[s]);
    for (int i = 0; i < a->loop.shape.ndim; i++) a->stride[PLACE][i] = i == a->loop.axis;
    index_job j = {};
    j.ids = integers_of(&c->in[1]);
    j.length = a->loop.length;
    j.along = a->loop.shape.shape[a->loop.axis];
    for (int s = 0; s < SIDES; s++) j.step[s] = a->stride[s][a->loop.axis];
    j.fresh = c->node->op == &weft_op_scatter_reduce &&
             static_cast<const scatter_reduce_attrs *>(c->attrs)->fresh;
    j.failure = c->cuda->failure;
    j.order = c->node->order;
    return j;
}

/* Appends axis i, of this length, on which the sides in `still` do not move. */
static void add_axis(walk *w, const axes *a, int i, int64_t length, int64_t limit, unsigned still) {
    int64_t stride[SIDES];
    for (int s = 0; s < SIDES; s++) stride[s] = still >> s & 1 ? 0 : a->stride[s][i];
    push_axis(w, length, limit, stride);
}

/* ---- gather ---- */

template <class T> __global__ void __launch_bounds__(THREADS) gather(const T *x, index_job j, walk w, T *y) {
    EACH_THREAD(i, w.count) {
        int64_t at[SIDES] = {};
        w.add(i, at);
        int64_t id = j.id(at[IDS]);
        y[i] = x[at[X] + (id < 0 ? 0 : id) * j.step[X]];
    }
}

extern "C" weft_status cuda_gather_run(void *, const kernel_call *c) {
    axes a;
    walk w = {};
    index_job j = job_of(c, &a);
    /* along the axis ids say where x is */
    for (int i = 0; i < a.loop.shape.ndim; i++)
        add_axis(&w, &a, i, a.loop.shape.shape[i], a.loop.shape.shape[i], i == a.loop.axis ? 1u << X : 0);
    end_walk(&w);
    return with_width(c->in[0].type.dtype, [&](auto zero) {
        using T = decltype(zero);
        return launch(c, gather<T>, dim3(blocks_for(c, w.count, THREADS)), dim3(THREADS), 0,
                      static_cast<const T *>(c->in[0].data), j, w, static_cast<T *>(c->out[0].data));
    });
}

/* ---- scatter, few ids ---- */

/* Walks the result. Past the limit of an axis there are no ids, and x is copied; without ids along the axis
 * (along 0) all of it is. */
template <class R, class T = typename R::type>
__global__ void __launch_bounds__(THREADS) scatter_scan(const T *x, const T *src, index_job j, walk w, T *y) {
    EACH_THREAD(i, w.count) {
        int64_t at[SIDES] = {}, last = -1;
        bool has_ids = w.add(i, at);
        typename R::sum sum = R::from(x[at[X]]);
        for (int64_t k = 0; has_ids && k < j.along; k++) {
            if (j.id(at[IDS] + k * j.step[IDS]) != at[PLACE]) continue;
            if (last < 0 && j.fresh) sum = R::neutral();
            last = at[SRC] + k * j.step[SRC];
            if (R::joins) sum = R::join(sum, R::from(src[last]));
        }
        y[i] = R::to(!R::joins && last >= 0 ? R::from(src[last]) : sum);
    }
}

/* The axes of the result; ids and src are not along the indexed one. */
static walk walk_result(const kernel_call *c, const axes *a) {
    const tensor_type *y = &c->out[0].type;
    walk w = {};
    for (int i = 0; i < y->ndim; i++) {
        bool is_axis = i == a->loop.axis;
        add_axis(&w, a, i, y->shape[i], is_axis ? y->shape[i] : a->loop.shape.shape[i],
                 is_axis ? 1u << IDS | 1u << SRC : 0);
    }
    end_walk(&w);
    return w;
}

template <class R> static weft_status scan(const kernel_call *c, const index_job &j, const axes &a) {
    using T = typename R::type;
    walk w = walk_result(c, &a);
    return launch(c, scatter_scan<R>, dim3(blocks_for(c, w.count, THREADS)), dim3(THREADS), 0,
                  static_cast<const T *>(c->in[0].data), static_cast<const T *>(c->in[2].data), j, w,
                  static_cast<T *>(c->out[0].data));
}

/* ---- scatter, many ids ---- */

/* The ids as they are before broadcasting: [lines before the axis, along, inner]. */
struct sorted_job {
    int64_t ids, inner, places; /* places: lines * length * inner, numbered so */
    walk lines, free;           /* axes of ids but the indexed one; those on which ids broadcast */
};

/* The place of each id as its key; bad ids come after all places. */
__global__ void scatter_keys(sort_list list, index_job j, sorted_job s) {
    EACH_THREAD(i, s.ids) {
        int64_t id = j.id(i), line = i / s.inner / j.along;
        list.key[i] = (int)(id < 0 ? s.places : (line * j.length + id) * s.inner + i % s.inner);
        list.number[i] = (int)i;
    }
}

/* LANES threads (1 or a warp) for each slot of the sorted list and each element of the free axes. Those of
 * the first slot with a key join all, lane by lane; or the one of the last slot puts its element. */
template <class R, int LANES, class T = typename R::type>
__global__ void __launch_bounds__(THREADS)
    scatter_sorted(const T *src, index_job j, sorted_job s, sort_list list, T *y) {
    int64_t step = (int64_t)gridDim.x * THREADS / LANES, work = s.ids * s.free.count;
    for (int64_t t = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / LANES; t < work; t += step) {
        int64_t slot = t / s.free.count, at[SIDES] = {};
        int key = list.key[slot];
        bool is_first = slot == 0 || list.key[slot - 1] != key;
        bool is_last = slot == s.ids - 1 || list.key[slot + 1] != key;
        if (key >= s.places || !(R::joins ? is_first : is_last)) continue;
        int64_t line = key / s.inner / j.length;
        s.lines.add(line * s.inner + key % s.inner, at);
        s.free.add(t % s.free.count, at);
        T *to = y + at[Y] + key / s.inner % j.length * j.step[Y];
        typename R::sum sum = R::neutral();
        for (slot += threadIdx.x % LANES; slot < s.ids && list.key[slot] == key; slot += LANES) {
            int64_t k = list.number[slot] / s.inner % j.along;
            sum = R::join(sum, R::from(src[at[SRC] + k * j.step[SRC]]));
        }
        if (R::joins)
            for (int lanes = LANES / 2; lanes > 0; lanes /= 2)
                sum = R::join(sum, __shfl_xor_sync(0xffffffffu, sum, lanes));
        if (threadIdx.x % LANES != 0) continue;
        *to = R::to(R::joins ? R::join(j.fresh ? R::neutral() : R::from(*to), sum) : sum);
    }
}

static sorted_job sorted_job_of(const kernel_call *c, const axes *a) {
    const tensor_type *ids = &c->in[1].type;
    scatter_size size = scatter_size_of(static_cast<const index_attrs *>(c->attrs), &c->in[0].type, ids);
    sorted_job s = {size.ids, size.inner, size.places, {}, {}};
    for (int i = 0; i < ids->ndim; i++) {
        int64_t length = a->loop.shape.shape[i];
        if (i == a->loop.axis) continue;
        add_axis(ids->shape[i] == length ? &s.lines : &s.free, a, i, length, length, 0);
    }
    end_walk(&s.lines);
    end_walk(&s.free);
    return s;
}

template <class R> static weft_status scatter_all(const kernel_call *c) {
    using T = typename R::type;
    axes a;
    index_job j = job_of(c, &a);
    if (j.along <= SCATTER_SCANNED) return scan<R>(c, j, a);
    sorted_job s = sorted_job_of(c, &a);
    sort_space sort = sort_space_at(static_cast<int *>(c->workspace), s.ids);
    index_job copies = j;
    copies.along = 0;
    int bits = 1;
    while (s.places >> bits) bits++;
    weft_status status = scan<R>(c, copies, a);
    if (!status)
        status =
            launch(c, scatter_keys, dim3(blocks_for(c, s.ids, THREADS)), dim3(THREADS), 0, sort.from, j, s);
    if (!status) status = sort_keys(c, sort, bits);
    if (status) return status;
    bool is_wide = s.free.count >= 32 || !R::joins;
    auto kernel = is_wide ? scatter_sorted<R, 1> : scatter_sorted<R, 32>;
    return launch(c, kernel, dim3(blocks_for(c, s.ids * s.free.count * (is_wide ? 1 : 32), THREADS)),
                  dim3(THREADS), 0, static_cast<const T *>(c->in[2].data), j, s, sort.from,
                  static_cast<T *>(c->out[0].data));
}

extern "C" weft_status cuda_scatter_run(void *, const kernel_call *c) {
    return with_width(c->in[0].type.dtype, [&](auto zero) { return scatter_all<put<decltype(zero)>>(c); });
}

extern "C" weft_status cuda_scatter_add_run(void *, const kernel_call *c) {
    return with_join<as_sum>(c, c->in[0].type.dtype, [&](auto r) { return scatter_all<decltype(r)>(c); });
}

extern "C" weft_status cuda_scatter_reduce_run(void *, const kernel_call *c) {
    weft_dtype dtype = c->in[0].type.dtype;
    auto run = [&](auto r) { return scatter_all<decltype(r)>(c); };
    switch (static_cast<const scatter_reduce_attrs *>(c->attrs)->join) {
    case SCATTER_PROD:
        return with_join<as_product>(c, dtype, run);
    case SCATTER_AMAX:
        return with_join<as_largest>(c, dtype, run);
    default:
        return with_join<as_smallest>(c, dtype, run);
    }
}
