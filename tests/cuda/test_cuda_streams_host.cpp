/* test_cuda_streams_host.cpp - streams, events, memory and captures of the emulated GPU: correct programs
 * give the same result under every seed; wrong ones give a wrong result under some seed, or CUDA's error. */
extern "C" {
#include "support/test.h"
}
#include "cuda_host/cuda_runtime.h"
#include "cuda_host/cuda_host.h"
#include "cuda_host/cublasLt.h"
#include "cuda_host/cudnn.h"

#include <string.h>
#include <thread>
#include <vector>

enum { SEEDS = 40 };

static bool works(cudaError_t result) {
    return CHECK_SAYS(result == cudaSuccess, "%s", cudaGetErrorString(result));
}

/* Two streams, an event, and two numbers in the GPU's memory. */
struct scene {
    cudaStream_t a, b;
    cudaEvent_t event;
    int *x;
    scene() {
        works(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
        works(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
        works(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
        works(cudaMalloc(&x, 2 * sizeof(int)));
        works(cudaMemset(x, 0, 2 * sizeof(int)));
    }
    ~scene() {
        works(cudaFree(x));
        works(cudaEventDestroy(event));
        works(cudaStreamDestroy(a));
        works(cudaStreamDestroy(b));
    }
    int fetch(int i) const {
        int value = -1;
        works(cudaDeviceSynchronize());
        works(cudaMemcpy(&value, x + i, sizeof value, cudaMemcpyDeviceToHost));
        return value;
    }
};

/* Kernels of one thread. */
static void set(int *x, int value) {
    *x = value;
}
static void twice(int *to, const int *from) {
    *to = *from * 2;
}

/* Launches a kernel of one thread. */
template <class... P, class... A> static void put(cudaStream_t stream, void (*kernel)(P...), A... args) {
    cudaLaunchConfig_t config = {};
    config.gridDim = config.blockDim = dim3(1);
    config.stream = stream;
    works(cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...));
}

/* The number of seeds that give the right answer. */
static int right(int (*answer)(void), int want) {
    int n = 0;
    for (int seed = 1; seed <= SEEDS; seed++) {
        cuda_host_seed((uint64_t)seed);
        n += answer() == want;
    }
    return n;
}

/* ---- order ---- */

static int two_streams(bool with_event) {
    scene s;
    put(s.a, set, s.x, 21);
    if (with_event) {
        works(cudaEventRecord(s.event, s.a));
        works(cudaStreamWaitEvent(s.b, s.event, 0));
    }
    put(s.b, twice, s.x + 1, s.x);
    return s.fetch(1);
}

TEST(an_event_orders_streams_and_a_missing_one_shows) {
    CHECK(right([] { return two_streams(true); }, 42) == SEEDS);
    int lucky = right([] { return two_streams(false); }, 42);
    CHECK_SAYS(lucky > 0 && lucky < SEEDS, "%d of %d", lucky, SEEDS);
}

/* A wait is for the record before it, not for a later one. */
static int recorded_again() {
    scene s;
    put(s.a, set, s.x, 1);
    works(cudaEventRecord(s.event, s.a));
    works(cudaStreamWaitEvent(s.b, s.event, 0));
    put(s.a, set, s.x, 2);
    works(cudaEventRecord(s.event, s.a));
    put(s.b, twice, s.x + 1, s.x);
    return s.fetch(1);
}

TEST(a_wait_is_for_the_record_that_stood_there) {
    int first = right(recorded_again, 2), second = right(recorded_again, 4);
    CHECK_SAYS(first > 0 && second > 0 && first + second == SEEDS, "%d, %d", first, second);
}

/* The host fills its buffer again while the copy may still be to come. */
static int reused(bool pinned, bool waits) {
    scene s;
    int here, *buffer = &here, result;
    if (pinned) works(cudaMallocHost(&buffer, sizeof *buffer));
    *buffer = 5;
    works(cudaMemcpyAsync(s.x, buffer, sizeof *buffer, cudaMemcpyHostToDevice, s.a));
    if (waits) works(cudaStreamSynchronize(s.a));
    *buffer = 6;
    result = s.fetch(0);
    if (pinned) works(cudaFreeHost(buffer));
    return result;
}

TEST(a_pinned_buffer_is_read_when_the_copy_runs) {
    CHECK(right([] { return reused(false, false); }, 5) == SEEDS);
    CHECK(right([] { return reused(true, true); }, 5) == SEEDS);
    CHECK(right([] { return reused(true, false); }, 6) > 0);
}

/* cudaMemcpy waits for blocking streams only. */
static int copied_early() {
    scene s;
    int value = -1;
    put(s.a, set, s.x, 3);
    works(cudaMemcpy(&value, s.x, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

TEST(a_plain_copy_does_not_wait_for_a_non_blocking_stream) {
    int early = right(copied_early, 0);
    CHECK(early > 0 && early < SEEDS);
}

TEST(queries_and_times) {
    scene s;
    cudaEvent_t begin, end;
    float ms = -1;
    works(cudaEventCreate(&begin));
    works(cudaEventCreate(&end));
    works(cudaEventRecord(begin, s.a));
    for (int i = 0; i < 200; i++) put(s.a, set, s.x, i);
    works(cudaEventRecord(end, s.a));
    CHECK(cudaEventQuery(end) == cudaErrorNotReady && cudaStreamQuery(s.a) == cudaErrorNotReady);
    CHECK(cudaEventElapsedTime(&ms, begin, end) == cudaErrorNotReady);
    while (cudaEventQuery(end) == cudaErrorNotReady) {
    }
    works(cudaEventSynchronize(end));
    works(cudaEventElapsedTime(&ms, begin, end));
    CHECK(ms >= 0 && cudaStreamQuery(s.a) == cudaSuccess);
    works(cudaEventRecord(s.event, s.a));
    works(cudaStreamSynchronize(s.a));
    CHECK(cudaEventElapsedTime(&ms, begin, s.event) ==
          cudaErrorInvalidResourceHandle); /* made without times */
    works(cudaEventDestroy(begin));
    works(cudaEventDestroy(end));
}

static void call_cuda(void *result) {
    void *memory;
    *static_cast<cudaError_t *>(result) = cudaMalloc(&memory, 4);
}

TEST(a_host_function_runs_in_its_turn_and_may_not_call_cuda) {
    scene s;
    cudaError_t result = cudaSuccess;
    works(cudaLaunchHostFunc(s.a, call_cuda, &result));
    works(cudaStreamSynchronize(s.a));
    CHECK(result == cudaErrorNotPermitted);
    cudaGetLastError();
}

TEST(a_wait_that_cannot_end_is_told) {
    scene s;
    cuda_host_patience(0.1);
    works(cuda_host::enqueue(
        s.a, "a sum of two ranks", [] {}, [] { return false; }));
    CHECK(cudaStreamSynchronize(s.a) == cudaErrorLaunchFailure);
    CHECK_HOLDS(cuda_host_trouble(), "waits for ever; first in the streams: a sum of two ranks");
    cuda_host_forget_trouble();
    cuda_host_patience(20);
}

/* Two threads with a GPU each, like ranks: the work of each waits for the other's. */
TEST(work_of_two_threads_can_wait_for_each_other) {
    cuda_host_devices(2);
    int arrived = 0;
    auto rank = [&](int device) {
        works(cudaSetDevice(device));
        cudaStream_t stream;
        works(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        for (int round = 1; round <= 10; round++) {
            works(cuda_host::enqueue(stream, "arrive", [&] { arrived++; }));
            works(cuda_host::enqueue(
                stream, "meet", [] {}, [&, round] { return arrived >= 2 * round; }));
            works(cudaStreamSynchronize(stream));
        }
        works(cudaStreamDestroy(stream));
    };
    std::thread other(rank, 1);
    rank(0);
    other.join();
    CHECK(arrived == 20);
    cuda_host_devices(1);
}

/* ---- memory ---- */

TEST(memory_is_counted_to_the_byte_and_can_run_out) {
    cuda_host_counts before = cuda_host_count();
    void *p = nullptr, *q = nullptr;
    size_t free_bytes, total;
    cuda_host_memory(1000);
    works(cudaMalloc(&p, 601));
    CHECK(cuda_host_count().bytes == before.bytes + 601);
    works(cudaMemGetInfo(&free_bytes, &total));
    CHECK(total == 1000 && free_bytes == 399);
    CHECK(cudaMalloc(&q, 400) == cudaErrorMemoryAllocation && q == nullptr);
    CHECK(cudaGetLastError() == cudaErrorMemoryAllocation && cudaGetLastError() == cudaSuccess);
    cuda_host_memory((size_t)8 << 30);
    cuda_host_fail_allocation(2);
    works(cudaMalloc(&q, 1));
    works(cudaFree(q));
    CHECK(cudaMalloc(&q, 1) == cudaErrorMemoryAllocation);
    CHECK(cudaFree(static_cast<char *>(p) + 1) == cudaErrorInvalidValue &&
          cudaFreeHost(p) == cudaErrorInvalidValue);
    works(cudaFree(p));
    CHECK(cudaFree(p) == cudaErrorInvalidValue && cudaFree(nullptr) == cudaSuccess);
    CHECK(cuda_host_count().allocations == before.allocations &&
          cuda_host_count().most_bytes == before.bytes);
    cudaGetLastError();
}

TEST(copies_say_where_both_ends_are) {
    scene s;
    int here[2] = {1, 2};
    CHECK(cudaMemcpy(s.x, here, 8, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
    CHECK(cudaMemcpy(here, s.x, 8, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
    CHECK(cudaMemcpy(s.x, here, 9, cudaMemcpyHostToDevice) == cudaErrorInvalidValue); /* beyond the end */
    CHECK(cudaMemset(here, 0, 8) == cudaErrorInvalidValue);
    works(cudaMemcpy(s.x, here, 8, cudaMemcpyDefault));
    CHECK(s.fetch(1) == 2);
    cudaGetLastError();
}

/* ---- capture ---- */

static void begin(const scene &s) {
    works(cudaStreamBeginCapture(s.a, cudaStreamCaptureModeThreadLocal));
}

/* A fork to the second stream, a join, and three launches: x[1] doubles from 1. */
static int captured() {
    scene s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    size_t nodes;
    put(s.a, set, s.x, 1);
    begin(s);
    put(s.a, twice, s.x + 1, s.x);
    works(cudaEventRecord(s.event, s.a));
    works(cudaStreamWaitEvent(s.b, s.event, 0));
    put(s.b, twice, s.x, s.x + 1);
    works(cudaEventRecord(s.event, s.b));
    works(cudaStreamWaitEvent(s.a, s.event, 0));
    put(s.a, twice, s.x + 1, s.x);
    works(cudaStreamEndCapture(s.a, &graph));
    works(cudaGraphGetNodes(graph, nullptr, &nodes));
    CHECK(nodes == 3);
    works(cudaGraphInstantiate(&exec, graph, 0));
    works(cudaGraphDestroy(graph));
    for (int i = 0; i < 3; i++) /* one after the other, on any stream */
        works(cudaGraphLaunch(exec, i == 1 ? s.b : s.a));
    works(cudaGraphExecDestroy(exec)); /* what runs continues */
    return s.fetch(1) + 1000 * cuda_host_count().graphs;
}

/* The second stream is not joined before the capture ends. */
static int without_rejoin(int *answer) {
    scene s;
    cudaGraph_t graph;
    begin(s);
    put(s.a, set, s.x, 1);
    works(cudaEventRecord(s.event, s.a));
    works(cudaStreamWaitEvent(s.b, s.event, 0));
    put(s.b, twice, s.x + 1, s.x);
    *answer = cudaStreamEndCapture(s.a, &graph);
    cudaGetLastError();
    return s.fetch(0);
}

TEST(what_is_captured_runs_when_it_is_launched) {
    int answer;
    CHECK(right(captured, 128) == SEEDS);
    CHECK(without_rejoin(&answer) == 0 && answer == cudaErrorStreamCaptureUnjoined);
}

/* What `call` returns while its thread captures, and how the capture then ends. */
template <class F> static void forbidden(F call, cudaError_t says, cudaError_t ends, const char *what) {
    scene s;
    cudaGraph_t graph = nullptr;
    int *pinned;
    works(cudaMallocHost(&pinned, 8));
    begin(s);
    put(s.a, set, s.x, 1);
    cudaError_t said = call(s, pinned), ended = cudaStreamEndCapture(s.a, &graph);
    CHECK_SAYS(said == says && ended == ends, "%s: %d, then %d", what, said, ended);
    if (graph) works(cudaGraphDestroy(graph));
    works(cudaFreeHost(pinned));
    cudaGetLastError();
}
#define FORBIDDEN(says, ends, ...)                                                                           \
    forbidden(                                                                                               \
        [](scene &s, int *pinned) {                                                                          \
            (void)s, (void)pinned;                                                                           \
            return (__VA_ARGS__);                                                                            \
        },                                                                                                   \
        says, ends, #__VA_ARGS__)

TEST(what_a_capture_forbids_is_refused) {
    const cudaError_t unsupported = cudaErrorStreamCaptureUnsupported,
                      invalid = cudaErrorStreamCaptureInvalidated;
    void *p;
    int here = 0;
    FORBIDDEN(unsupported, invalid, cudaStreamSynchronize(s.a));
    FORBIDDEN(unsupported, invalid, cudaStreamQuery(s.a));
    FORBIDDEN(unsupported, invalid, cudaDeviceSynchronize());
    FORBIDDEN(unsupported, invalid, cudaFree(s.x));
    FORBIDDEN(unsupported, invalid, cudaMemcpy(pinned, s.x, 4, cudaMemcpyDeviceToHost));
    FORBIDDEN(cudaErrorCapturedEvent, invalid, (cudaEventRecord(s.event, s.a), cudaEventQuery(s.event)));
    FORBIDDEN(cudaErrorStreamCaptureUnmatched, cudaSuccess,
              (cudaEventRecord(s.event, s.a), cudaStreamWaitEvent(s.b, s.event, 0),
               cudaStreamEndCapture(s.b, (cudaGraph_t *)pinned)));
    FORBIDDEN(cudaErrorStreamCaptureIsolation, invalid,
              (cudaEventRecord(s.event, s.b), cudaStreamWaitEvent(s.a, s.event, 0)));
    FORBIDDEN(cudaSuccess, cudaSuccess, cudaMemcpyAsync(pinned, s.x, 4, cudaMemcpyDeviceToHost, s.a));
    FORBIDDEN(cudaSuccess, cudaSuccess, cudaMemsetAsync(s.x, 0, 4, s.a));
    forbidden([&](scene &, int *) { return cudaMalloc(&p, 4); }, unsupported, invalid, "cudaMalloc");
    forbidden([&](scene &s, int *) { return cudaMemcpyAsync(s.x, &here, 4, cudaMemcpyHostToDevice, s.a); },
              unsupported, invalid, "a copy from pageable memory");
}

/* What `call` returns in another thread while this one captures stream a or, if `blocking`, a stream that
 * waits for the legacy one; and how the capture ends. */
struct from_another_thread {
    cudaError_t said, ended;
};
template <class F> static from_another_thread meanwhile(cudaStreamCaptureMode mode, bool blocking, F call) {
    scene s;
    cudaStream_t plain;
    cudaGraph_t graph = nullptr;
    from_another_thread r;
    works(cudaStreamCreate(&plain));
    cudaStream_t captured = blocking ? plain : s.a;
    works(cudaStreamBeginCapture(captured, mode));
    put(captured, set, s.x, 1);
    std::thread other([&] { r.said = call(s); });
    other.join();
    r.ended = cudaStreamEndCapture(captured, &graph);
    if (graph) works(cudaGraphDestroy(graph));
    cudaGetLastError();
    works(cudaStreamDestroy(plain));
    return r;
}

/* The calls that one session makes while another captures. */
static const struct {
    const char *name;
    cudaError_t (*call)(scene &s);
    bool waits_for_all, is_legacy; /* else it is only potentially unsafe */
} calls[] = {
    {"cudaDeviceSynchronize", [](scene &) { return cudaDeviceSynchronize(); }, true, false},
    {"cudaMemcpy",
     [](scene &s) {
         int here;
         return cudaMemcpy(&here, s.x, sizeof here, cudaMemcpyDeviceToHost);
     },
     false, true},
    {"cudaMemset", [](scene &s) { return cudaMemset(s.x + 1, 0, sizeof *s.x); }, false, true},
    {"cudaStreamSynchronize(0)", [](scene &) { return cudaStreamSynchronize(nullptr); }, false, true},
    {"a kernel on the legacy stream", [](scene &s) { return cudaMemsetAsync(s.x + 1, 0, 4, nullptr); }, false,
     true},
    {"cudaMalloc and cudaFree",
     [](scene &) {
         void *p = nullptr;
         cudaError_t made = cudaMalloc(&p, 4);
         return made ? made : cudaFree(p);
     },
     false, false},
    {"cudaMallocHost and cudaFreeHost",
     [](scene &) {
         void *p = nullptr;
         cudaError_t made = cudaMallocHost(&p, 4);
         return made ? made : cudaFreeHost(p);
     },
     false, false},
    {"cudaStreamSynchronize", [](scene &s) { return cudaStreamSynchronize(s.b); }, false, false},
    {"cudaEventQuery", [](scene &s) { return cudaEventQuery(s.event); }, false, false},
};

/* On the thread's own stream, as runtime/session/cuda/device.c copies. */
static cudaError_t copy_on_own_stream(scene &s) {
    int here;
    cudaError_t result = cudaMemsetAsync(s.x + 1, 0, sizeof here, cudaStreamPerThread);
    if (!result)
        result = cudaMemcpyAsync(&here, s.x + 1, sizeof here, cudaMemcpyDeviceToHost, cudaStreamPerThread);
    return result ? result : cudaStreamSynchronize(cudaStreamPerThread);
}

TEST(what_another_thread_may_call_depends_on_the_capture) {
    const cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                                           cudaStreamCaptureModeRelaxed};
    for (const auto &each : calls)
        for (cudaStreamCaptureMode mode : modes)
            for (bool blocking : {false, true}) {
                from_another_thread r = meanwhile(mode, blocking, each.call);
                bool is_unsafe = mode == cudaStreamCaptureModeGlobal && !each.waits_for_all;
                bool is_implicit = blocking && each.is_legacy;
                cudaError_t says = is_implicit                       ? cudaErrorStreamCaptureImplicit
                                   : is_unsafe || each.waits_for_all ? cudaErrorStreamCaptureUnsupported
                                                                     : cudaSuccess;
                if (each.is_legacy && !strcmp(each.name, "a kernel on the legacy stream") && !blocking)
                    says = cudaSuccess; /* queueing is not an unsafe call */
                cudaError_t ends = says ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
                CHECK_SAYS(r.said == says && r.ended == ends, "%s, mode %d, %s stream: %d, then %d",
                           each.name, mode, blocking ? "blocking" : "non-blocking", r.said, r.ended);
            }
}

TEST(a_thread_may_copy_on_its_own_stream_while_another_captures) {
    for (bool blocking : {false, true}) {
        from_another_thread r = meanwhile(cudaStreamCaptureModeThreadLocal, blocking, copy_on_own_stream);
        CHECK(r.said == cudaSuccess && r.ended == cudaSuccess);
    }
}

/* Freeing a library's handle waits for the device. */
TEST(a_library_that_closes_breaks_captures) {
    cublasLtHandle_t blas;
    cudnnHandle_t dnn;
    CHECK(cublasLtCreate(&blas) == CUBLAS_STATUS_SUCCESS && cudnnCreate(&dnn) == CUDNN_STATUS_SUCCESS);
    from_another_thread r = meanwhile(cudaStreamCaptureModeThreadLocal, false, [&](scene &) {
        return cublasLtDestroy(blas) == CUBLAS_STATUS_SUCCESS ? cudaSuccess : cudaErrorNotPermitted;
    });
    CHECK(r.said != cudaSuccess && r.ended == cudaErrorStreamCaptureInvalidated);
    r = meanwhile(cudaStreamCaptureModeThreadLocal, false, [&](scene &) {
        return cudnnDestroy(dnn) == CUDNN_STATUS_SUCCESS ? cudaSuccess : cudaErrorNotPermitted;
    });
    CHECK(r.said != cudaSuccess && r.ended == cudaErrorStreamCaptureInvalidated);
}

/* Two graphs on two streams, joined by external events only; launched three times. */
static int joined(bool with_wait) {
    scene s;
    cudaGraph_t graphs[2];
    cudaGraphExec_t execs[2];
    cudaEvent_t back;
    works(cudaEventCreateWithFlags(&back, cudaEventDisableTiming));
    put(s.a, set, s.x + 1, 1);
    works(cudaStreamSynchronize(s.a));
    begin(s);
    works(cudaStreamWaitEvent(s.a, back, cudaEventWaitExternal));
    put(s.a, twice, s.x, s.x + 1);
    works(cudaEventRecordWithFlags(s.event, s.a, cudaEventRecordExternal));
    works(cudaStreamEndCapture(s.a, &graphs[0]));
    works(cudaStreamBeginCapture(s.b, cudaStreamCaptureModeThreadLocal));
    if (with_wait) works(cudaStreamWaitEvent(s.b, s.event, cudaEventWaitExternal));
    put(s.b, twice, s.x + 1, s.x);
    works(cudaEventRecordWithFlags(back, s.b, cudaEventRecordExternal));
    works(cudaStreamEndCapture(s.b, &graphs[1]));
    for (int i = 0; i < 2; i++) works(cudaGraphInstantiate(&execs[i], graphs[i], 0));
    for (int i = 0; i < 3; i++) {
        works(cudaGraphLaunch(execs[0], s.a));
        works(cudaGraphLaunch(execs[1], s.b));
    }
    int result = s.fetch(1);
    for (int i = 0; i < 2; i++) {
        works(cudaGraphDestroy(graphs[i]));
        works(cudaGraphExecDestroy(execs[i]));
    }
    works(cudaEventDestroy(back));
    return result;
}

TEST(external_events_join_graphs) {
    CHECK(right([] { return joined(true); }, 64) == SEEDS);
    CHECK(right([] { return joined(false); }, 64) < SEEDS);
}

TEST(nothing_is_left) {
    cuda_host_counts left = cuda_host_count();
    CHECK(left.allocations + left.pinned + left.streams + left.events + left.graphs == 0 && left.bytes == 0);
}

SUITE("cuda streams host",
      {T(an_event_orders_streams_and_a_missing_one_shows), T(a_wait_is_for_the_record_that_stood_there),
       T(a_pinned_buffer_is_read_when_the_copy_runs), T(a_plain_copy_does_not_wait_for_a_non_blocking_stream),
       T(queries_and_times), T(a_host_function_runs_in_its_turn_and_may_not_call_cuda),
       T(a_wait_that_cannot_end_is_told), T(work_of_two_threads_can_wait_for_each_other),
       T(memory_is_counted_to_the_byte_and_can_run_out), T(copies_say_where_both_ends_are),
       T(what_is_captured_runs_when_it_is_launched), T(what_a_capture_forbids_is_refused),
       T(what_another_thread_may_call_depends_on_the_capture),
       T(a_thread_may_copy_on_its_own_stream_while_another_captures),
       T(a_library_that_closes_breaks_captures), T(external_events_join_graphs), T(nothing_is_left)})
