/* columns.cuh - sums down the columns of [rows, columns] (channels of a channels-last image, features of a
 * norm) in two stages and a fixed order: blocks sum pieces of the rows into the workspace, then a second
 * kernel adds the pieces. No atomics, so the bits are the same on every run.
 *
 * A SOURCE defines what is summed:
 *     part                two or three numbers for each column, with merge(const part &) and a static none()
 *     columns_of<VEC>     what a thread keeps of its columns: begin(source, first column), then
 *         add(source, row, column, part (&)[VEC])   for each of its rows, end(part (&)[VEC]) after the last
 *     finish(column, part)  once for each column
 */
#ifndef WEFT_OPS_CUDA_KIT_COLUMNS_CUH
#define WEFT_OPS_CUDA_KIT_COLUMNS_CUH

#include "ops/cuda/kit/vectors.cuh"

extern "C" {
#include "ops/cuda/kit/columns.h"
}

/* The part of the matrix that a thread of a column kernel has. A block of COLUMN_THREADS threads covers
 * `lanes` times VEC neighbouring columns; blockIdx.x counts such groups of columns, blockIdx.y pieces of the
 * rows. */
struct column_place {
    int64_t column;      /* the first of the thread's VEC columns */
    int64_t first, past; /* rows of the block: [first, past) */
    /* lane: position along the columns; turn: the first of the block's rows that the thread takes */
    int lane, turn;
    int lanes, turns; /* a thread takes every `turns`-th row */

    __device__ column_place(int lanes_, int vec, int64_t rows, int64_t chunk) : lanes(lanes_) {
        lane = (int)threadIdx.x % lanes;
        turn = (int)threadIdx.x / lanes;
        turns = COLUMN_THREADS / lanes;
        column = ((int64_t)blockIdx.x * lanes + lane) * vec;
        first = (int64_t)blockIdx.y * chunk;
        past = first + chunk < rows ? first + chunk : rows;
    }
};

/* Stage 1: parts [chunks, columns]. Each thread sums its rows in order; then the block merges its turns in
 * halves. */
template <class SOURCE, int VEC>
__global__ void __launch_bounds__(COLUMN_THREADS)
    column_parts(SOURCE source, int64_t rows, int64_t columns, int64_t chunk, int lanes,
                 typename SOURCE::part *parts) {
    using part = typename SOURCE::part;
    SHARED_ARRAY(part, shared, [VEC][COLUMN_THREADS]);
    column_place at(lanes, VEC, rows, chunk);
    part sum[VEC];
    UNROLLED(k, VEC) sum[k] = part::none();
    if (at.column < columns) {
        typename SOURCE::template columns_of<VEC> mine;
        mine.begin(source, at.column);
#pragma unroll 4
        for (int64_t row = at.first + at.turn; row < at.past; row += at.turns)
            mine.add(source, row, at.column, sum);
        mine.end(sum);
    }
    UNROLLED(k, VEC) shared[k][threadIdx.x] = sum[k];
    /* turns is a power of two, since lanes is */
    for (int step = at.turns / 2; step > 0; step /= 2) {
        __syncthreads();
        if (at.turn >= step) continue;
        UNROLLED(k, VEC) shared[k][threadIdx.x].merge(shared[k][threadIdx.x + step * lanes]);
    }
    if (at.turn > 0 || at.column >= columns) return;
    UNROLLED(k, VEC) parts[(int64_t)blockIdx.y * columns + at.column + k] = shared[k][threadIdx.x];
}

/* Stage 2: a block of 32 x 32 threads adds the parts of 32 columns, 32 chunks at a time, then in halves. */
template <class SOURCE>
__global__ void __launch_bounds__(1024)
    column_totals(SOURCE source, int64_t columns, int64_t chunks, const typename SOURCE::part *parts) {
    using part = typename SOURCE::part;
    SHARED_ARRAY(part, shared, [32][32]);
    int64_t column = (int64_t)blockIdx.x * 32 + threadIdx.x;
    part sum = part::none();
    if (column < columns)
        for (int64_t k = threadIdx.y; k < chunks; k += 32) sum.merge(parts[k * columns + column]);
    shared[threadIdx.y][threadIdx.x] = sum;
    for (int step = 16; step > 0; step /= 2) {
        __syncthreads();
        if ((int)threadIdx.y < step)
            shared[threadIdx.y][threadIdx.x].merge(shared[threadIdx.y + step][threadIdx.x]);
    }
    if (threadIdx.y == 0 && column < columns) source.finish(column, shared[0][threadIdx.x]);
}

template <class SOURCE>
static weft_status column_totals_launch(const kernel_call *c, SOURCE source, int64_t columns, int64_t chunks,
                                        const typename SOURCE::part *parts) {
    return launch(c, column_totals<SOURCE>, dim3((unsigned)((columns + 31) / 32)), dim3(32, 32), 0, source,
                  columns, chunks, parts);
}

/* The grid of a kernel that goes over [rows, columns] by column_place: `chunks` pieces of `chunk` rows,
 * elements `width` bytes wide, `vec` of them to a thread. */
struct column_grid {
    int64_t chunks, chunk;
    int lanes;
    dim3 blocks;
    column_grid(int64_t rows, int64_t columns, size_t width, int vec) {
        chunks = columns_chunks(rows, columns, width);
        chunk = (rows + chunks - 1) / chunks;
        lanes = columns_lanes(columns, vec);
        blocks = dim3((unsigned)((columns + lanes * vec - 1) / (lanes * vec)), (unsigned)chunks);
    }
};

/* Both stages, on the call's stream. `vectored`: rows of T elements can be read 16 bytes at a time. */
template <class T, class SOURCE>
static weft_status column_sums(const kernel_call *c, SOURCE source, int64_t rows, int64_t columns,
                               bool vectored, typename SOURCE::part *parts) {
    constexpr int V = vector_width<T>;
    column_grid grid(rows, columns, sizeof(T), vectored ? V : 1);
    weft_status status = vectored ? launch(c, column_parts<SOURCE, V>, grid.blocks, dim3(COLUMN_THREADS), 0,
                                           source, rows, columns, grid.chunk, grid.lanes, parts)
                                  : launch(c, column_parts<SOURCE, 1>, grid.blocks, dim3(COLUMN_THREADS), 0,
                                           source, rows, columns, grid.chunk, grid.lanes, parts);
    return status ? status : column_totals_launch(c, source, columns, grid.chunks, parts);
}

/* A part of two sums. */
struct column_pair {
    float a, b;
    __device__ static column_pair none() {
        return column_pair{0, 0};
    }
    __device__ void merge(const column_pair &other) {
        a += other.a;
        b += other.b;
    }
};

/* The plain sum of a column. RESULTS stores it: put(offset in elements, sum). */
struct column_sum {
    float x;
    __device__ static column_sum none() {
        return column_sum{0};
    }
    __device__ void merge(const column_sum &other) {
        x += other.x;
    }
};

template <class T, class RESULTS> struct column_source {
    using part = column_sum;
    const T *x;
    int64_t row, out; /* elements from row to row of x, and from result to result */
    RESULTS y;
    template <int VEC> struct columns_of {
        const T *from;
        __device__ void begin(const column_source &s, int64_t) {
            from = s.x;
        }
        __device__ void add(const column_source &s, int64_t row, int64_t column, part (&sum)[VEC]) {
            float v[VEC];
            load_floats<VEC>(from + row * s.row + column, v);
            UNROLLED(k, VEC) sum[k].x += v[k];
        }
        __device__ void end(part (&)[VEC]) {
        }
    };
    __device__ void finish(int64_t column, const part &sum) const {
        y.put(column * out, sum.x);
    }
};

#endif
