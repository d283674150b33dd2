/* block.h - runs a launch: block after block, the threads of each in turns. */
#ifndef CUDA_HOST_BLOCK_H
#define CUDA_HOST_BLOCK_H

#include "cuda_host/cuda_host.h"

namespace cuda_host {

/* Runs one launch; the orders of blocks and threads come from `seed`. Returns false when the program is
 * wrong; trouble() has the reason. */
bool grid_run(const std::function<void()> &call, dim3 grid, dim3 block, size_t shared, uint64_t seed);

/* Random numbers: SplitMix64 (Steele, Lea, Flood 2014). */
struct sequence {
    uint64_t state;
    uint64_t next() {
        uint64_t z = state += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return z ^ z >> 31;
    }
    size_t below(size_t n) {
        return (size_t)(next() % n);
    }
};

} // namespace cuda_host
#endif
