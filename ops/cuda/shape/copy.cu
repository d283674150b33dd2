/* copy.cu - see copy.cuh. Axes are sorted by the target's memory and merged where both sides run on evenly.
 * Then threads walk the target in order, in units as wide as both sides allow (16 bytes where rows are
 * dense); or, where the source runs along another axis than the target, planes are transposed in shared
 * memory, tile by tile, so that both sides access whole rows. */
#include "ops/cuda/shape/copy.cuh"

extern "C" {
#include "ops/cuda/kit/divide.h"
}

#include <string.h>

/* Elements of a tile's side; rows of threads; threads of a block of copy_units; least length of both axes of
 * a plane. */
enum { TILE = 32, TILE_ROWS = 8, COPY_THREADS = 256, WORTH_TURNING = 8 };

struct axis {
    int64_t length, to, from; /* strides in units */
};

/* Axes are outermost first. For planes, the last two are `across` (contiguous in the source) and `row`. */
struct copy_job {
    char *to;
    const char *from;
    int n;
    pattern fill;  /* where from is NULL */
    int64_t units; /* of the whole copy: elements, or vectors of them */
    axis at[WEFT_MAX_NDIM];
    divisor by[WEFT_MAX_NDIM]; /* division by the lengths */
};

/* ---- on the GPU ---- */

/* One unit to a thread; from NULL writes the pattern. */
template <class T> __global__ void copy_units(copy_job j) {
    T *to = reinterpret_cast<T *>(j.to);
    const T *from = reinterpret_cast<const T *>(j.from);
    T fill;
    memcpy(&fill, j.fill.bits, sizeof fill);
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < j.units; i += step) {
        int64_t rest = i, there = 0, here = 0;
        for (int k = j.n - 1; k > 0; k--) {
            int64_t next = (int64_t)divide((uint64_t)rest, &j.by[k]), place = rest - next * j.at[k].length;
            there += place * j.at[k].to;
            here += place * j.at[k].from;
            rest = next;
        }
        there += rest * j.at[0].to;
        here += rest * j.at[0].from;
        to[there] = j.from ? from[here] : fill;
    }
}

/* A block of TILE x TILE_ROWS threads transposes TILE elements of the row by TILE of those across; the extra
 * column of `part` avoids bank conflicts. */
template <class T>
__global__ void transpose_planes(copy_job j, int64_t row_tiles, int64_t across_tiles, int64_t tiles) {
    SHARED_ARRAY(T, part, [TILE][TILE + 1]);
    axis row = j.at[j.n - 1], across = j.at[j.n - 2];
    for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
        int64_t rest = t / row_tiles, first_row = t % row_tiles * TILE,
                first_across = rest % across_tiles * TILE;
        int64_t there = 0, here = 0;
        rest /= across_tiles;
        for (int k = j.n - 3; k >= 0; k--) {
            int64_t place = rest % j.at[k].length;
            there += place * j.at[k].to;
            here += place * j.at[k].from;
            rest /= j.at[k].length;
        }
        const T *from = reinterpret_cast<const T *>(j.from) + here;
        T *to = reinterpret_cast<T *>(j.to) + there;
        int64_t a = first_across + threadIdx.x;
        for (int r = threadIdx.y; r < TILE && first_row + r < row.length; r += TILE_ROWS)
            if (a < across.length) part[r][threadIdx.x] = from[(first_row + r) * row.from + a];
        __syncthreads();
        int64_t x = first_row + threadIdx.x;
        for (int k = threadIdx.y; k < TILE && first_across + k < across.length; k += TILE_ROWS)
            if (x < row.length) to[(first_across + k) * across.to + x] = part[threadIdx.x][k];
        __syncthreads();
    }
}

/* ---- on the host ---- */

/* Axes by falling target stride, merged; a single element is one axis of length 1. */
static void axes_of(copy_job *j, const tensor_type *shape, const int64_t *to, const int64_t *from) {
    axis list[WEFT_MAX_NDIM];
    int n = 0;
    for (int i = 0; i < shape->ndim; i++) {
        if (shape->shape[i] == 1) continue;
        int k = n++;
        for (; k > 0 && list[k - 1].to < to[i]; k--) list[k] = list[k - 1];
        list[k] = axis{shape->shape[i], to[i], from ? from[i] : 0};
    }
    j->n = 0;
    for (int k = 0; k < n; k++) {
        axis *last = j->n ? &j->at[j->n - 1] : NULL;
        if (last && last->to == list[k].to * list[k].length && last->from == list[k].from * list[k].length)
            *last = axis{last->length * list[k].length, list[k].to, list[k].from};
        else
            j->at[j->n++] = list[k];
    }
    if (j->n == 0) j->at[j->n++] = axis{1, 1, 1};
}

/* Bytes of the widest unit of which rows, strides and addresses are multiples. A fill has no source that
 * must fit. */
static int64_t unit_of(const copy_job *j, int64_t width) {
    const axis *row = &j->at[j->n - 1];
    if (row->to != 1 || (j->from && row->from != 1)) return width;
    /* a unit must divide every length, stride and address: look at their common low bits */
    uint64_t all = (uint64_t)(row->length * width) | reinterpret_cast<uintptr_t>(j->to) |
                   reinterpret_cast<uintptr_t>(j->from);
    for (int k = 0; k < j->n - 1; k++)
        all |= (uint64_t)(j->at[k].to * width) | (uint64_t)(j->at[k].from * width);
    int64_t unit = 16;
    while (unit > width && all % (uint64_t)unit != 0) unit /= 2;
    return unit;
}

/* Lengths and strides in units of `by` elements. */
static void copy_wider(copy_job *j, int64_t by) {
    j->at[j->n - 1].length /= by;
    for (int k = 0; k < j->n - 1; k++) {
        j->at[k].to /= by;
        j->at[k].from /= by;
    }
}

/* Whether this is a plane: the source is contiguous along another axis than the target, and both are long.
 * Moves that axis next to the row. */
static bool turns(copy_job *j) {
    axis row = j->at[j->n - 1];
    if (!j->from || row.to != 1 || row.from <= 1 || row.length < WORTH_TURNING) return false;
    for (int k = j->n - 2; k >= 0; k--) {
        axis across = j->at[k];
        if (across.from != 1 || across.length < WORTH_TURNING) continue;
        for (int i = k; i < j->n - 2; i++) j->at[i] = j->at[i + 1];
        j->at[j->n - 2] = across;
        return true;
    }
    return false;
}

/* T is a unit of the copy; only its size matters. */
template <class T> static weft_status run(const kernel_call *c, copy_job *j) {
    if (turns(j)) {
        int64_t rows = (j->at[j->n - 1].length + TILE - 1) / TILE,
                across = (j->at[j->n - 2].length + TILE - 1) / TILE;
        int64_t tiles = rows * across;
        for (int k = 0; k < j->n - 2; k++) tiles *= j->at[k].length;
        return launch(c, transpose_planes<T>, dim3(blocks_for(c, tiles, 1)), dim3(TILE, TILE_ROWS), 0, *j, rows,
                      across, tiles);
    }
    j->units = 1;
    for (int k = 0; k < j->n; k++) j->units *= j->at[k].length;
    for (int k = 0; k < j->n; k++) j->by[k] = divisor_of(j->at[k].length, j->units);
    return launch(c, copy_units<T>, dim3(blocks_for(c, j->units, COPY_THREADS)), dim3(COPY_THREADS), 0, *j);
}

/* element_set writes the value in its type; the rest of the pattern repeats it. */
pattern pattern_of(weft_dtype dtype, double value) {
    pattern p;
    int64_t at[WEFT_MAX_NDIM] = {0}, width = (int64_t)dtype_bytes(dtype);
    char *bytes = reinterpret_cast<char *>(p.bits);
    tensor element = {bytes, type_scalar(dtype), {0}};
    element_set(&element, at, value);
    for (int64_t k = width; k < 16; k += width) memcpy(bytes + k, bytes, (size_t)width);
    return p;
}

/* Only the width of the elements matters, and grows to that of the widest unit. */
weft_status strided_copy(const kernel_call *c, void *to, const int64_t *to_stride, const void *from,
                         const int64_t *from_stride, const tensor_type *shape, const pattern *fill) {
    copy_job j = {};
    int64_t width = (int64_t)dtype_bytes(shape->dtype);
    j.to = static_cast<char *>(to);
    j.from = static_cast<const char *>(from);
    if (fill) j.fill = *fill;
    axes_of(&j, shape, to_stride, from_stride);
    int64_t unit = unit_of(&j, width);
    copy_wider(&j, unit / width);
    switch (unit) {
    case 1:
        return run<uint8_t>(c, &j);
    case 2:
        return run<uint16_t>(c, &j);
    case 4:
        return run<uint32_t>(c, &j);
    case 8:
        return run<uint64_t>(c, &j);
    default:
        return run<uint4>(c, &j);
    }
}
