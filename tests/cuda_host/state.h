/* state.h - shared by the emulator's files: the GPUs' memory, streams with their queues, events, captures,
 * graphs.
 *
 * Work is queued, and runs when the host waits (or, now and then, when it queues more): always the head of
 * some stream that may run, chosen at random. Only the order within a stream and events constrain it, as on a
 * GPU, so a program that lacks an event goes wrong under some seed. One lock guards everything; work runs
 * with the lock held, so kernels of two GPUs never overlap. */
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
    size_t mapped; /* bytes of pages of its own; 0: malloc's memory */
};

/* One record of an event. Waits hold it, since the event may be recorded again before they run. */
struct mark {
    bool is_done = false;
    double seconds = 0;
};

/* A piece of work; `ready` may be empty. */
struct work {
    const char *what;
    std::function<void()> run;
    std::function<bool()> ready;
};

/* A node of a graph. */
struct node {
    work w;
    std::vector<int> after;                         /* nodes that it depends on */
    cudaEvent_t records = nullptr, waits = nullptr; /* external events */
};

/* One launch of a graph. */
struct graph_run {
    std::shared_ptr<const std::vector<node>> nodes;
    std::vector<std::shared_ptr<mark>> records, waits; /* of each node, as the events were at the launch */
    std::vector<char> is_done;
    int left = 0;                 /* nodes that have not run */
    std::shared_ptr<mark> before; /* the last launch of the same graph: launches run one after the other */
};

/* An entry of a stream's queue: work, a wait, a record or a whole graph. */
struct entry {
    work w;
    std::shared_ptr<mark> record, wait;
    std::shared_ptr<graph_run> graph;
};

/* A capture, from cudaStreamBeginCapture until its end. */
struct capture {
    cudaStream_t origin;
    cudaStreamCaptureMode mode;
    std::thread::id thread;
    std::vector<node> nodes;
    std::set<cudaStream_t> streams; /* those that take part */
    bool is_broken = false, is_over = false;
};

} // namespace cuda_host

struct CUstream_st {
    int device;
    bool is_blocking; /* it waits for the default stream, and the default stream for it */
    std::deque<cuda_host::entry> queue;
    std::shared_ptr<cuda_host::capture> capture;
    std::vector<int> frontier; /* captured nodes that the next one depends on */
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

/* A loaded module: dlopen's handle. */
struct CUlib_st {
    void *handle;
};

namespace cuda_host {

/* Everything that is emulated; there is one. */
struct gpu_state {
    std::recursive_mutex lock;
    std::condition_variable_any changed; /* something was queued or has run */
    sequence random{1};
    bool run_twice = false;
    int devices = 1, driver = CUDART_VERSION, fail_allocation = 0;
    size_t memory_bytes = (size_t)8 << 30;
    double clock = 0;                /* the seconds that events record: see spend() */
    double patience = 20, moved = 0; /* seconds; the time when something was queued, or ran for a query */
    std::string trouble;
    int on_gpu = 0; /* depth of work that runs */
    bool in_host_function = false;

    std::map<uintptr_t, allocation> memory; /* by address */
    std::map<int, size_t> used;             /* bytes in use by device */
    size_t most_bytes = 0;
    /* by device; and by thread and device */
    std::map<int, cudaStream_t> default_streams;
    std::map<std::pair<std::thread::id, int>, cudaStream_t> thread_streams;
    /* in the order of creation (random choices depend on it), with the default ones */
    std::vector<cudaStream_t> streams;
    std::set<cudaEvent_t> events;
    std::set<cudaGraph_t> graphs;
    std::set<cudaGraphExec_t> execs;
    std::set<std::shared_ptr<capture>> captures;
    std::unordered_map<const void *, int> dynamic_shared; /* bytes that cudaFuncSetAttribute allowed */
    std::unordered_set<uint64_t> harmless; /* words in arguments that are not addresses of the host */
    std::set<const void *> module_kernels;
    int64_t launches = 0, copies = 0, calls = 0;

    gpu_state();
};

gpu_state &gpu();
using guard = std::lock_guard<std::recursive_mutex>;

/* Every function of the API ends with this: records the error for cudaGetLastError and returns it. */
cudaError_t answer(cudaError_t error);
/* The error of any call before it does anything: the GPU is broken, or a host function calls CUDA. */
cudaError_t refused();
/* For calls that a capture forbids (one of this thread, or a global one); such a call breaks that capture. */
cudaError_t unsafe_call();
/* For calls on the legacy stream, and for calls that wait for the whole device: a capture in any thread and
 * mode forbids them, the first only if its stream is a blocking one. They break all such captures. */
cudaError_t legacy_call();
cudaError_t device_call();
int current_device();

/* The allocation that holds [at, at + bytes), or NULL. */
const allocation *allocation_of(const void *at, size_t bytes);
bool is_pinned(const void *at, size_t bytes);
/* While the host runs, AddressSanitizer forbids it the GPU's memory; work opens it, and closes it afterwards.
 * Calls nest. */
void memory_open();
void memory_close();

/* Streams and their queues. stream_of(NULL) is the default stream, stream_of(cudaStreamPerThread) the calling
 * thread's own; NULL: there is no such stream. */
cudaStream_t stream_of(cudaStream_t stream);
cudaError_t stream_add(cudaStream_t stream, entry e);
cudaError_t add_work(cudaStream_t stream, const char *what, std::function<void()> run,
                     std::function<bool()> ready = nullptr);
/* Runs work until `done` returns true. Returns false when that cannot happen (the GPU is then broken). */
bool run_until(const std::function<bool()> &done, const char *what);
void run_some(size_t most);                        /* at most so many pieces of work */
cudaError_t drain(int device, bool only_blocking); /* waits for the (blocking) streams of a device */
/* a new launch, with the events as they are now */
std::shared_ptr<graph_run> graph_start(cudaGraphExec_t exec);

} // namespace cuda_host
#endif
