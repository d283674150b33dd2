/* mma.cpp - see mma.h: puts the lanes' registers together into tiles, multiplies, and distributes the
 * result. */
#include "cuda_host/mma.h"

#include "cuda_host/cuda_host.h"

namespace cuda_host {

/* The registers of one lane. */
struct mma_in {
    const float *d;
    const unsigned *a, *b;
};

/* Element `which` of a register of two. */
template <bool bf16> static float element(unsigned pair, int which) {
    unsigned short bits = (unsigned short)(pair >> 16 * which);
    return bf16 ? bfloat_to(bits) : half_to(bits);
}

/* Sums in the order of k, in f32; the hardware's order within a product is not documented. */
template <bool bf16> static void mma_all(unsigned lanes, const void *const in[32], void *const out[32]) {
    float a[16][16], b[16][8];
    if (lanes != 0xffffffffu) return trouble("mma: only lanes %#x of the warp are there", lanes);
    for (int lane = 0; lane < 32; lane++) {
        const mma_in &mine = *static_cast<const mma_in *>(in[lane]);
        int row = lane / 4, column = lane % 4 * 2;
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 2; j++)
                a[row + i % 2 * 8][column + j + i / 2 * 8] = element<bf16>(mine.a[i], j);
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++) b[column + j + i * 8][row] = element<bf16>(mine.b[i], j);
    }
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
            float sum = static_cast<const mma_in *>(in[lane])->d[i];
            for (int k = 0; k < 16; k++) sum += a[row][k] * b[k][column];
            static_cast<float *>(out[lane])[i] = sum;
        }
}

void mma_16816(bool bf16, float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    mma_in in = {d, a, b};
    float out[4];
    warp_meet("mma", 0xffffffffu, &in, out, bf16 ? mma_all<true> : mma_all<false>);
    for (int i = 0; i < 4; i++) d[i] = out[i];
}

struct load_in {
    const void *row;
    int tiles;
    bool transposed;
};

/* Rows are read when all lanes have arrived. */
static void load_all(unsigned lanes, const void *const in[32], void *const out[32]) {
    if (lanes != 0xffffffffu) return trouble("ldmatrix: only lanes %#x of the warp are there", lanes);
    const load_in &first = *static_cast<const load_in *>(in[0]);
    for (int tile = 0; tile < first.tiles; tile++) {
        unsigned short elements[8][8];
        for (int row = 0; row < 8; row++) {
            const void *at = static_cast<const load_in *>(in[tile * 8 + row])->row;
            if (reinterpret_cast<uintptr_t>(at) % 16)
                return trouble("ldmatrix: a row's address is not a multiple of 16");
            memcpy(elements[row], at, 16);
        }
        for (int lane = 0; lane < 32; lane++) {
            int row = lane / 4, column = lane % 4 * 2;
            unsigned low = first.transposed ? elements[column][row] : elements[row][column];
            unsigned high = first.transposed ? elements[column + 1][row] : elements[row][column + 1];
            static_cast<unsigned *>(out[lane])[tile] = low | high << 16;
        }
    }
}

void load_matrix(int tiles, bool transposed, unsigned *r, const void *row) {
    load_in in = {row, tiles, transposed};
    warp_meet(tiles == 4 ? "ldmatrix.x4" : "ldmatrix.x2", 0xffffffffu, &in, r, load_all);
}

} // namespace cuda_host
