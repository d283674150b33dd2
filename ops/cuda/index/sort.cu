/* sort.cu - sort. A short row is sorted by one block in shared memory (bitonic: Batcher, "Sorting networks
 * and their applications", 1968) as keys of 64 bits, the element's order above and its place below, so no two
 * are equal and the sort is stable. Longer rows, and types of 64 bits, go together through the stable radix
 * sort of kit/sort.cuh: by the words of the element's order, then by row. */
#include "ops/cuda/kit/sort.cuh"
#include "ops/cuda/kit/vectors.cuh"

extern "C" {
#include "ops/cuda/index/sort.h"
}

enum { THREADS = 256 };

#define EACH_THREAD(i, count)                                                                                \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (count);                            \
         i += (int64_t)gridDim.x * blockDim.x)

/* ---- keys: the unsigned order of a type, NaN last, -0 as 0 ---- */

__device__ static inline uint64_t float_key(uint64_t x, uint64_t sign, uint64_t infinity) {
    uint64_t magnitude = x & (sign - 1);
    if (magnitude > infinity) return sign | (sign - 1);
    return x & sign ? sign - magnitude : sign + magnitude;
}

/* The elements of x, whose type is a branch, the same in all threads. */
struct elements {
    const void *data;
    weft_dtype dtype;
    uint64_t turn; /* all bits of a key if descending */
    __device__ uint64_t key(int64_t i) const {
        switch (dtype) {
        case WEFT_F32:
            return turn ^ float_key(static_cast<const uint32_t *>(data)[i], 1u << 31, 0x7f800000);
        case WEFT_F64:
            return turn ^ float_key(static_cast<const uint64_t *>(data)[i], 1ull << 63, 0x7ffull << 52);
        case WEFT_BF16:
            return turn ^ float_key(static_cast<const uint16_t *>(data)[i], 1 << 15, 0x7f80);
        case WEFT_F16:
            return turn ^ float_key(static_cast<const uint16_t *>(data)[i], 1 << 15, 0x7c00);
        case WEFT_I64:
            return turn ^ static_cast<const uint64_t *>(data)[i] ^ 1ull << 63;
        case WEFT_I32:
            return turn ^ static_cast<const uint32_t *>(data)[i] ^ 1u << 31;
        case WEFT_BOOL:
            return turn ^ (static_cast<const uint8_t *>(data)[i] != 0);
        default:
            return turn ^ static_cast<const uint8_t *>(data)[i];
        }
    }
};

static elements elements_of(const kernel_call *c) {
    weft_dtype dtype = c->in[0].type.dtype;
    int bits = 8 * (int)dtype_bytes(dtype);
    uint64_t all = bits == 64 ? ~0ull : (1ull << bits) - 1;
    bool descending = static_cast<const sort_attrs *>(c->attrs)->descending;
    return elements{c->in[0].data, dtype, descending ? all : 0};
}

/* ---- short rows ---- */

/* A block for each row of the [outer, inner] rows; `size` is the next power of two from its length on. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    sort_shared(elements x, sort_rows r, int size, T *values, int64_t *places) {
    SHARED_MEMORY(uint64_t, key);
    int64_t outer = blockIdx.x / r.inner, inner = blockIdx.x % r.inner;
    int64_t from = outer * r.length * r.inner + inner, to = outer * r.kept * r.inner + inner;
    for (int i = (int)threadIdx.x; i < size; i += (int)blockDim.x)
        key[i] = i < r.length ? x.key(from + i * r.inner) << 32 | (uint64_t)i : ~0ull;
    /* sequences of `half` that rise and fall by turns become rising and falling ones of twice the length */
    for (int half = 2; half <= size; half *= 2)
        for (int step = half / 2; step > 0; step /= 2) {
            __syncthreads();
            for (int t = (int)threadIdx.x; t < size / 2; t += (int)blockDim.x) {
                int i = 2 * t - (t & (step - 1)), k = i + step;
                uint64_t a = key[i], b = key[k];
                if ((a > b) == ((i & half) == 0)) {
                    key[i] = b;
                    key[k] = a;
                }
            }
        }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < r.kept; i += (int)blockDim.x) {
        int64_t place = (int64_t)(key[i] & 0xffffffff);
        values[to + i * r.inner] = static_cast<const T *>(x.data)[from + place * r.inner];
        places[to + i * r.inner] = place;
    }
}

template <class T> static weft_status run_shared(const kernel_call *c, const sort_rows &r) {
    int size = 2;
    while (size < r.length) size *= 2;
    int threads = size / 2 < 32 ? 32 : size / 2 < THREADS ? size / 2 : THREADS;
    return launch(c, sort_shared<T>, dim3((unsigned)(r.outer * r.inner)), dim3((unsigned)threads),
                  (size_t)size * sizeof(uint64_t), elements_of(c), r, size, static_cast<T *>(c->out[0].data),
                  static_cast<int64_t *>(c->out[1].data));
}

/* ---- long rows ---- */

__device__ static inline int64_t row_of(const sort_rows &r, int64_t i) {
    return i / (r.length * r.inner) * r.inner + i % r.inner;
}

/* Keys of round `word` (sort_round_bits): a word of the element's order, or, past `words`, its row. Numbers
 * are those of the elements, which the first round writes in the order of their places. */
__global__ void sort_keys_of(sort_list list, elements x, sort_rows r, int word, int words, int64_t n) {
    EACH_THREAD(i, n) {
        if (word == 0) list.number[i] = (int)i;
        int64_t at = list.number[i];
        list.key[i] = (int)(word < words ? x.key(at) >> 32 * word : row_of(r, at));
    }
}

/* Slot i of the sorted list is rank i % length of row i / length. */
template <class T>
__global__ void sort_results(sort_list list, const T *x, sort_rows r, int64_t n, T *values, int64_t *places) {
    EACH_THREAD(i, n) {
        int64_t row = i / r.length, rank = i % r.length, at = list.number[i];
        if (rank >= r.kept) continue;
        int64_t to = (row / r.inner * r.kept + rank) * r.inner + row % r.inner;
        values[to] = x[at];
        places[to] = at / r.inner % r.length;
    }
}

template <class T> static weft_status run_long(const kernel_call *c, const sort_rows &r) {
    weft_dtype dtype = c->in[0].type.dtype;
    int64_t n = r.outer * r.length * r.inner;
    int words = sizeof(T) == 8 ? 2 : 1;
    sort_space s = sort_space_at(static_cast<int *>(c->workspace), n);
    dim3 blocks(blocks_for(c, n, THREADS));
    for (int k = 0, bits; (bits = sort_round_bits(&r, dtype, k)) > 0; k++) {
        weft_status status =
            launch(c, sort_keys_of, blocks, dim3(THREADS), 0, s.from, elements_of(c), r, k, words, n);
        if (!status) status = sort_keys(c, s, bits);
        if (status) return status;
    }
    return launch(c, sort_results<T>, blocks, dim3(THREADS), 0, s.from, static_cast<const T *>(c->in[0].data),
                  r, n, static_cast<T *>(c->out[0].data), static_cast<int64_t *>(c->out[1].data));
}

template <class T> static weft_status run(const kernel_call *c) {
    sort_rows r = sort_rows_of(static_cast<const sort_attrs *>(c->attrs), &c->in[0].type);
    return sort_is_shared(&r, c->in[0].type.dtype) ? run_shared<T>(c, r) : run_long<T>(c, r);
}

extern "C" weft_status cuda_sort_run(void *, const kernel_call *c) {
    switch (dtype_bytes(c->in[0].type.dtype)) {
    case 1:
        return run<uint8_t>(c);
    case 2:
        return run<uint16_t>(c);
    case 4:
        return run<uint32_t>(c);
    default:
        return run<uint64_t>(c);
    }
}
