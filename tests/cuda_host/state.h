/* state.h - what the emulator's files share: the GPUs' memory, streams with their queues, events, captures, graphs.
 *
 * Work is queued, and run when the host waits (or, now and then, when it queues): always the head of some stream that
 * may run, picked at random. Only the order within a stream and events bind it, as on a GPU: what lacks an event goes
 * wrong under some seed. One lock guards all; work runs with it held, so kernels of two GPUs never overlap. */
#ifndef CUDA_HOST_STATE_H
#define CUDA_HOST_STATE_H

#include "cuda_host/block.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace cuda_host {

struct allocation {
    size_t bytes;
    int device;
    bool is_pinned;
    size_t mapped; /* bytes of pages of its own, 0: malloc's */
};

/* One record of an event: waits hold on to it, the event may be recorded again meanwhile. */
struct mark {
    bool is_done = false;
    double seconds = 0;
};

struct work {
    const char *what;
    std::function<void()> run;
    std::function<bool()> ready;
};

/* In a graph. */
struct node {
    work w;
    std::vector<int> after;
    cudaEvent_t records = nullptr, waits = nullptr; /* external events */
};

struct graph_run {
    std::shared_ptr<const std::vector<node>> nodes;
    std::vector<std::shared_ptr<mark>> records, waits; /* of each node, as they were at the launch */
    std::vector<char> is_done;
    int left = 0;
    std::shared_ptr<mark> before; /* the same graph's last run: one after the other */
};

/* In a stream's queue: work, a wait, a record or a whole graph. */
struct entry {
    work w;
    std::shared_ptr<mark> record, wait;
    std::shared_ptr<graph_run> graph;
};

struct capture {
    cudaStream_t origin;
    cudaStreamCaptureMode mode;
    std::thread::id thread;
    std::vector<node> nodes;
    std::set<cudaStream_t> streams;
    bool is_broken = false, is_over = false;
};

} // namespace cuda_host

struct CUstream_st {
    int device;
    bool is_blocking; /* waits for the default stream, and that one for it */
    std::deque<cuda_host::entry> queue;
    std::shared_ptr<cuda_host::capture> capture;
    std::vector<int> frontier; /* captured nodes that the next one comes after */
};

struct CUevent_st {
    unsigned flags;
    std::shared_ptr<cuda_host::mark> latest;     /* NULL: never recorded */
    std::shared_ptr<cuda_host::capture> capture; /* recorded while capturing */
    std::vector<int> frontier;
};

struct CUgraph_st {
    std::vector<cuda_host::node> nodes;
};

struct CUgraphExec_st {
    std::shared_ptr<const std::vector<cuda_host::node>> nodes;
    std::shared_ptr<cuda_host::mark> last;
};

struct CUlib_st {
    void *handle;
};

namespace cuda_host {

struct gpu_state {
    std::recursive_mutex lock;
    std::condition_variable_any changed; /* something was queued or has run */
    sequence random{1};
    bool run_twice = false;
    int devices = 1, fail_allocation = 0;
    size_t memory_bytes = (size_t)8 << 30;
    double patience = 20, moved = 0; /* seconds; the time when something was queued, or ran for a query */
    std::string trouble;
    int on_gpu = 0; /* depth of work that runs */
    bool in_host_function = false;

    std::map<uintptr_t, allocation> memory;
    std::map<int, size_t> used;
    size_t most_bytes = 0;
    std::map<int, cudaStream_t> default_streams;
    std::vector<cudaStream_t> streams; /* in order of making (draws depend on it); default ones too */
    std::set<cudaEvent_t> events;
    std::set<cudaGraph_t> graphs;
    std::set<cudaGraphExec_t> execs;
    std::set<std::shared_ptr<capture>> captures;
    std::unordered_map<const void *, int> dynamic_shared; /* what cudaFuncSetAttribute allowed */
    std::unordered_set<uint64_t> harmless; /* words of arguments that are no addresses of the host */
    std::set<const void *> module_kernels;
    int64_t launches = 0, copies = 0;

    gpu_state();
};

gpu_state &gpu();
using guard = std::lock_guard<std::recursive_mutex>;

/* Every entry of the API ends in one of these: remembers the error for cudaGetLastError. */
cudaError_t answer(cudaError_t error);
/* What is wrong before anything is tried: a broken GPU, a call from a host function. */
cudaError_t refused();
/* For calls that a capture in this thread forbids; breaks that capture. */
cudaError_t unsafe_call();
int current_device();

/* Memory: the allocation that holds [at, at + bytes), or NULL. */
const allocation *allocation_of(const void *at, size_t bytes);
bool is_pinned(const void *at, size_t bytes);
/* While the host runs, AddressSanitizer forbids it the GPU's memory. */
void memory_open();
void memory_close();

/* Streams. */
cudaStream_t stream_of(cudaStream_t stream); /* the default one for NULL; NULL when there is no such stream */
cudaError_t stream_add(cudaStream_t stream, entry e);
cudaError_t add_work(cudaStream_t stream, const char *what, std::function<void()> run,
                     std::function<bool()> ready = nullptr);
/* Runs work until `done` says yes; false: it cannot be. */
bool run_until(const std::function<bool()> &done, const char *what);
void run_some(size_t most);
cudaError_t drain(int device, bool only_blocking);
std::shared_ptr<graph_run> graph_start(cudaGraphExec_t exec);

} // namespace cuda_host
#endif
