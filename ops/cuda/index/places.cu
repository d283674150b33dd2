/* places.cu - index and index_put. First the ids become offsets, one for each of their places. index: an
 * element of the result to a thread. index_put sorts the places by the element that they name, which keeps
 * their order, and one thread adds up what is its own, or takes the last, so the bits repeat. */
#include "ops/cuda/index/index.cuh"

extern "C" {
#include "ops/cuda/index/places.h"
}

/* The ids of one axis; strides in elements, for the axes of what all ids broadcast to. */
struct axis_ids {
    integers ids;
    int64_t length, step, scale; /* of the axis: its length, and its stride in x or y, and among places */
    int64_t stride[WEFT_MAX_NDIM];
};

struct places_job {
    axis_ids axis[WEFT_MAX_NDIM];
    int n, ndim;
    int64_t count, bad; /* places of the ids; the key of one with an id that is not there */
    divisor by[WEFT_MAX_NDIM];
    int64_t number[WEFT_MAX_NDIM]; /* row-major strides of operand 1, for an error */
    cuda_failure *failure;
    int order;
};

/* `other` is what the ids point into. */
static places_job places_job_of(const kernel_call *c, const places_loop &loop, const tensor *other) {
    places_job j = {};
    tensor first = c->in[1];
    int64_t scale = 1;
    stride_row_major(&first.type, first.stride);
    places_ids_strides(&loop, &first, j.number);
    j.n = loop.n;
    j.ndim = loop.ids.ndim;
    j.count = type_elements(&loop.ids);
    for (int i = 0; i < j.ndim; i++) j.by[i] = divisor_of(loop.ids.shape[i], j.count);
    for (int k = j.n - 1; k >= 0; k--) {
        axis_ids *a = &j.axis[k];
        a->ids = integers_of(&c->in[1 + k]);
        a->length = c->in[0].type.shape[loop.axis[k]];
        a->step = other->stride[loop.axis[k]];
        a->scale = scale;
        scale *= a->length;
        places_ids_strides(&loop, &c->in[1 + k], a->stride);
    }
    j.bad = scale;
    j.failure = c->cuda->failure;
    j.order = c->node->order;
    return j;
}

/* Where each place is in memory; and, unless it is NULL, `list`: its number among all places of the axes. */
__global__ void __launch_bounds__(THREADS) places_find(places_job j, int64_t *offset, sort_list list) {
    EACH_THREAD(p, j.count) {
        int64_t at[WEFT_MAX_NDIM] = {}, rest = p, sum = 0, key = 0, number = 0;
        for (int i = j.ndim - 1; i >= 0; i--) {
            int64_t next = (int64_t)divide((uint64_t)rest, &j.by[i]);
            at[i] = rest - next * (int64_t)j.by[i].length;
            number += at[i] * j.number[i];
            rest = next;
        }
        bool is_there = true;
        for (int k = 0; k < j.n; k++) {
            const axis_ids *a = &j.axis[k];
            int64_t place = 0;
            for (int i = 0; i < j.ndim; i++) place += at[i] * a->stride[i];
            int64_t id = a->ids.at(place);
            if (id < -a->length || id >= a->length) {
                note_failure(j.failure, j.order, id, k == 0 ? number : -1);
                is_there = false;
                continue;
            }
            if (id < 0) id += a->length;
            sum += id * a->step;
            key += id * a->scale;
        }
        offset[p] = sum;
        if (!list.key) continue;
        list.key[p] = (int)(is_there ? key : j.bad);
        list.number[p] = (int)p;
    }
}

/* ---- index ---- */

template <class T>
__global__ void __launch_bounds__(THREADS) places_take(const T *x, walk w, const int64_t *offset, T *y) {
    EACH_THREAD(i, w.count) {
        int64_t at[SIDES] = {};
        w.add(i, at);
        y[i] = x[at[X] + offset[at[PLACE]]];
    }
}

static weft_status find_places(const kernel_call *c, const places_job &j, int64_t *offset, sort_list list) {
    return launch(c, places_find, dim3(blocks_for(c, j.count, THREADS)), dim3(THREADS), 0, j, offset, list);
}

extern "C" weft_status cuda_index_run(void *, const kernel_call *c) {
    places_loop loop;
    int64_t *offset = static_cast<int64_t *>(c->workspace), number[WEFT_MAX_NDIM];
    walk w = {};
    if (places_loop_of(static_cast<const places_attrs *>(c->attrs), c->node->in, &loop)) return WEFT_INTERNAL;
    weft_status status = find_places(c, places_job_of(c, loop, &c->in[0]), offset, sort_list{});
    if (status) return status;
    stride_row_major(&loop.ids, number);
    for (int i = 0; i < loop.shape.ndim; i++) {
        int64_t stride[SIDES] = {}, length = loop.shape.shape[i];
        if (loop.whole[i] >= 0)
            stride[X] = c->in[0].stride[loop.whole[i]];
        else
            stride[PLACE] = number[i - loop.first];
        push_axis(&w, length, length, stride);
    }
    end_walk(&w);
    return with_width(c->in[0].type.dtype, [&](auto zero) {
        using T = decltype(zero);
        return launch(c, places_take<T>, dim3(blocks_for(c, w.count, THREADS)), dim3(THREADS), 0,
                      static_cast<const T *>(c->in[0].data), w, offset, static_cast<T *>(c->out[0].data));
    });
}

/* ---- index_put ---- */

/* y = x, which may be in the same memory. */
template <class T> __global__ void __launch_bounds__(THREADS) places_begin(const T *x, walk w, T *y) {
    EACH_THREAD(i, w.count) {
        int64_t at[SIDES] = {};
        w.add(i, at);
        y[i] = x[at[X]];
    }
}

/* The axes of the ids, and those that are taken whole. */
struct put_walks {
    walk ids, whole;
};

/* A thread for each slot of the sorted list and each element of the axes that are taken whole: that of the
 * first slot with a key adds up all, that of the last puts its element. */
template <class R, class T = typename R::type>
__global__ void __launch_bounds__(THREADS)
    places_put(const T *values, places_job j, put_walks w, const int64_t *offset, sort_list list, T *y) {
    EACH_THREAD(t, j.count * w.whole.count) {
        int64_t slot = t / w.whole.count, at[SIDES] = {};
        int key = list.key[slot];
        bool is_first = slot == 0 || list.key[slot - 1] != key;
        bool is_last = slot == j.count - 1 || list.key[slot + 1] != key;
        if (key >= j.bad || !(R::joins ? is_first : is_last)) continue;
        w.whole.add(t % w.whole.count, at);
        T *to = y + offset[list.number[slot]] + at[Y];
        typename R::sum sum = R::joins ? R::from(*to) : R::neutral();
        for (; slot < j.count && list.key[slot] == key; slot++) {
            int64_t place[SIDES] = {};
            w.ids.add(list.number[slot], place);
            sum = R::join(sum, R::from(values[at[SRC] + place[SRC]]));
        }
        *to = R::to(sum);
    }
}

static put_walks put_walks_of(const kernel_call *c, const places_loop &loop, const tensor *y) {
    int64_t source[WEFT_MAX_NDIM];
    put_walks w = {};
    places_strides(&loop, &c->in[c->n_in - 1], source);
    for (int i = 0; i < loop.shape.ndim; i++) {
        int64_t stride[SIDES] = {}, length = loop.shape.shape[i];
        stride[SRC] = source[i];
        if (loop.whole[i] >= 0) stride[Y] = y->stride[loop.whole[i]];
        push_axis(loop.whole[i] >= 0 ? &w.whole : &w.ids, length, length, stride);
    }
    end_walk(&w.ids);
    end_walk(&w.whole);
    return w;
}

static walk walk_of(const tensor *x) {
    walk w = {};
    for (int i = 0; i < x->type.ndim; i++) {
        int64_t stride[SIDES] = {};
        stride[X] = x->stride[i];
        push_axis(&w, x->type.shape[i], x->type.shape[i], stride);
    }
    end_walk(&w);
    return w;
}

template <class R> static weft_status put_all(const kernel_call *c) {
    using T = typename R::type;
    places_loop loop;
    tensor y = c->out[0];
    if (places_loop_of(static_cast<const places_attrs *>(c->attrs), c->node->in, &loop)) return WEFT_INTERNAL;
    stride_row_major(&y.type, y.stride);
    places_job j = places_job_of(c, loop, &y);
    put_walks w = put_walks_of(c, loop, &y);
    walk all = walk_of(&c->in[0]);
    int64_t *offset = static_cast<int64_t *>(c->workspace);
    sort_space sort = sort_space_at(reinterpret_cast<int *>(offset + j.count), j.count);
    T *to = static_cast<T *>(y.data);
    int bits = 1;
    while (j.bad >> bits) bits++;
    weft_status status = launch(c, places_begin<T>, dim3(blocks_for(c, all.count, THREADS)), dim3(THREADS), 0,
                                static_cast<const T *>(c->in[0].data), all, to);
    if (!status) status = find_places(c, j, offset, sort.from);
    if (!status) status = sort_keys(c, sort, bits);
    if (status) return status;
    return launch(c, places_put<R>, dim3(blocks_for(c, j.count * w.whole.count, THREADS)), dim3(THREADS), 0,
                  static_cast<const T *>(c->in[c->n_in - 1].data), j, w, offset, sort.from, to);
}

extern "C" weft_status cuda_index_put_run(void *, const kernel_call *c) {
    weft_dtype dtype = c->in[0].type.dtype;
    if (!static_cast<const places_attrs *>(c->attrs)->accumulate)
        return with_width(dtype, [&](auto zero) { return put_all<put<decltype(zero)>>(c); });
    return with_join<as_sum>(c, dtype, [&](auto r) { return put_all<decltype(r)>(c); });
}
