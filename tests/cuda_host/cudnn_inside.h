/* cudnn_inside.h - the objects of the emulated cuDNN, for its files: cudnn.cpp (descriptors) and
 * cudnn_engines.cpp (the rules of operations and engines, running plans). */
#ifndef CUDA_HOST_CUDNN_INSIDE_H
#define CUDA_HOST_CUDNN_INSIDE_H

#include "cuda_host/cudnn.h"
#include "cuda_host/library.h"

#include <map>

namespace cuda_host_dnn {

enum { ALIVE = 0x646e6e }; /* the mark of an object that is not destroyed */

/* Engines have one knob, the size of tiles, from 0 to TILES - 1. */
enum { TILES = 3, USUAL_TILE = 1 };

/* The value of an attribute: `count` elements. */
struct attribute {
    int64_t count;
    std::vector<char> bytes;
};

struct descriptor {
    int alive = ALIVE;
    cudnnBackendDescriptorType_t type;
    bool is_final = false;
    std::map<int, attribute> has; /* attributes by name */
    /* Engines, configurations and plans: their graph, the engine's number, and its one knob, the tile. */
    const descriptor *graph = nullptr;
    int engine = 0, tile = USUAL_TILE;

    /* The elements of an attribute that is set. */
    template <class T> const T *get(int name) const {
        return reinterpret_cast<const T *>(has.at(name).bytes.data());
    }
    const descriptor *part(int name) const {
        return *get<const descriptor *>(name);
    }
};

/* The parts of an operation, whichever of the three it is. */
struct convolution {
    cudnnBackendDescriptorType_t kind;
    const descriptor *window, *big, *small, *weight;
    float alpha, beta;
};
convolution convolution_of(const descriptor *operation);

/* Records the text for cudnnGetLastErrorString; returns status. */
cudnnStatus_t fail(cudnnStatus_t status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Checks of finalizing: of a tensor, a window, an operation. */
bool is_alive(const descriptor *d);
cudnnStatus_t tensor_check(const descriptor *d);
cudnnStatus_t window_check(const descriptor *d);
cudnnStatus_t operation_check(const descriptor *d);
/* Engines and tiles in the order that the mode proposes. */
struct proposal {
    int engine, tile;
};
std::vector<proposal> proposals(const descriptor *graph, cudnnBackendHeurMode_t mode);
bool has_engine(int64_t engine);
bool tells_knobs(int engine);
std::vector<cudnnBackendNumericalNote_t> notes_of(int engine);
/* Whether the engine accepts the graph after all, and the bytes of workspace that it needs. */
cudnnStatus_t plan_check(const descriptor *graph, int engine, int64_t *workspace);
cudnnStatus_t execute(cudaStream_t stream, const descriptor *plan, const descriptor *pack);

} // namespace cuda_host_dnn

struct cudnnContext {
    int alive = cuda_host_dnn::ALIVE;
    cudaStream_t stream = nullptr;
};

#endif
