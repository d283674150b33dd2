/* graph.cpp - capture, and graphs that are launched as a whole: their nodes run in any order that their edges
 * allow. */
#include "cuda_host/state.h"

#include <algorithm>
#include <chrono>

namespace cuda_host {

/* of cudaThreadExchangeStreamCaptureMode */
static thread_local cudaStreamCaptureMode mode_now = cudaStreamCaptureModeGlobal;

/* The documentation (cudaThreadExchangeStreamCaptureMode) on calls that are potentially unsafe, such as
 * cudaMalloc. Their rule depends on the modes of the caller's thread and of each capture: a capture in global
 * mode forbids them to every thread in global mode (as threads are at first) and to its own; one in
 * thread-local mode to its own thread only; a relaxed capture, or thread, forbids nothing. */
cudaError_t unsafe_call() {
    if (mode_now == cudaStreamCaptureModeRelaxed) return cudaSuccess;
    cudaError_t says = cudaSuccess;
    for (const auto &c : gpu().captures) {
        bool mine = c->thread == std::this_thread::get_id();
        bool counts = c->mode == cudaStreamCaptureModeGlobal
                          ? mine || mode_now == cudaStreamCaptureModeGlobal
                          : c->mode == cudaStreamCaptureModeThreadLocal && mine;
        if (!counts) continue;
        c->is_broken = true;
        says = cudaErrorStreamCaptureUnsupported;
    }
    return answer(says);
}

/* Breaks the captures of the current device that `counts` selects; `says` if there are any. */
template <class F> static cudaError_t break_captures(F counts, cudaError_t says) {
    bool any = false;
    for (const auto &c : gpu().captures)
        for (cudaStream_t s : c->streams)
            if (s->device == current_device() && counts(s)) any = c->is_broken = true;
    return any ? answer(says) : cudaSuccess;
}

/* The programming guide, on prohibited operations: it is invalid to synchronize a device while any of its
 * streams is captured; and to use the legacy stream (so also cudaMemcpy) while a stream is captured that was
 * not made with cudaStreamNonBlocking. No mode changes that: cudaDeviceSynchronize is known to break captures
 * of other threads in thread-local mode (NVIDIA/TensorRT#2888, ggml-org/llama.cpp#14033). */
cudaError_t legacy_call() {
    return break_captures([](cudaStream_t s) { return s->is_blocking; }, cudaErrorStreamCaptureImplicit);
}
cudaError_t device_call() {
    return break_captures([](cudaStream_t) { return true; }, cudaErrorStreamCaptureUnsupported);
}

cudaError_t library_opens() {
    guard g(gpu().lock);
    return unsafe_call();
}
cudaError_t library_closes() {
    guard g(gpu().lock);
    if (cudaError_t no = unsafe_call()) return no;
    if (cudaError_t no = device_call()) return no;
    return gpu().trouble.empty() ? drain(current_device(), false) : cudaSuccess;
}

/* Whether the origin stream's last node depends on all others: every forked stream has been joined again. */
static bool is_joined(const capture &c) {
    std::vector<char> reached(c.nodes.size(), 0);
    for (int i : c.origin->frontier) reached[i] = 1;
    /* edges lead to earlier nodes */
    for (int i = (int)c.nodes.size() - 1; i >= 0; i--)
        if (reached[i])
            for (int before : c.nodes[i].after) reached[before] = 1;
    return std::all_of(reached.begin(), reached.end(), [](char r) { return r; });
}

/* External events are read and recorded again in each launch. */
std::shared_ptr<graph_run> graph_start(cudaGraphExec_t exec) {
    auto run = std::make_shared<graph_run>();
    size_t n = exec->nodes->size();
    run->nodes = exec->nodes;
    run->records.resize(n);
    run->waits.resize(n);
    run->is_done.assign(n, 0);
    run->left = (int)n;
    run->before = exec->last;
    for (size_t i = 0; i < n; i++) {
        const node &each = (*exec->nodes)[i];
        if (each.waits) run->waits[i] = each.waits->latest;
        if (each.records) {
            run->records[i] = each.records->latest = std::make_shared<mark>();
            each.records->capture = nullptr;
        }
    }
    return run;
}

} // namespace cuda_host

using namespace cuda_host;

extern "C" {

/* The default stream cannot be captured, and a stream takes part in one capture at a time. */
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    guard g(gpu().lock);
    if (cudaError_t no = refused()) return no;
    cudaStream_t s = stream_of(stream);
    if (!s) return answer(cudaErrorInvalidResourceHandle);
    if (!stream || stream == cudaStreamLegacy || s->capture) return answer(cudaErrorStreamCaptureUnsupported);
    s->capture = std::make_shared<capture>();
    s->capture->origin = s;
    s->capture->mode = mode;
    s->capture->thread = std::this_thread::get_id();
    s->capture->streams.insert(s);
    s->frontier.clear();
    gpu().captures.insert(s->capture);
    return cudaSuccess;
}

/* Time in which other threads' calls may break a capture: little, and seldom some milliseconds. */
static void linger() {
    uint64_t most = cuda_host::random() % 4 ? 100 : 4000;
    std::this_thread::sleep_for(std::chrono::microseconds(cuda_host::random() % most));
}

/* Ends the capture whatever the result; a graph exists only after success. */
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    linger();
    guard g(gpu().lock);
    *graph = nullptr;
    cudaStream_t s = stream_of(stream);
    if (!s || !s->capture) return answer(cudaErrorInvalidValue);
    std::shared_ptr<capture> c = s->capture;
    if (c->origin != s) return answer(cudaErrorStreamCaptureUnmatched);
    if (c->mode != cudaStreamCaptureModeRelaxed && c->thread != std::this_thread::get_id())
        return answer(cudaErrorStreamCaptureWrongThread);
    bool joined = is_joined(*c);
    for (cudaStream_t each : c->streams) {
        each->capture = nullptr;
        each->frontier.clear();
    }
    c->is_over = true;
    gpu().captures.erase(c);
    if (c->is_broken) return answer(cudaErrorStreamCaptureInvalidated);
    if (!joined) return answer(cudaErrorStreamCaptureUnjoined);
    *graph = new CUgraph_st{std::move(c->nodes)};
    gpu().graphs.insert(*graph);
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
    guard g(gpu().lock);
    cudaStream_t s = stream_of(stream);
    if (!s) return answer(cudaErrorInvalidResourceHandle);
    *status = !s->capture             ? cudaStreamCaptureStatusNone
              : s->capture->is_broken ? cudaStreamCaptureStatusInvalidated
                                      : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode) {
    std::swap(*mode, mode_now);
    return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    guard g(gpu().lock);
    if (!gpu().graphs.count(graph) || nodes) /* only counting is emulated */
        return answer(cudaErrorInvalidValue);
    *count = graph->nodes.size();
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long) {
    guard g(gpu().lock);
    if (cudaError_t no = refused()) return no;
    if (!gpu().graphs.count(graph)) return answer(cudaErrorInvalidValue);
    *exec = new CUgraphExec_st{std::make_shared<const std::vector<node>>(graph->nodes), nullptr};
    gpu().execs.insert(*exec);
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t) {
    guard g(gpu().lock);
    return gpu().execs.count(exec) ? refused() : answer(cudaErrorInvalidValue);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    guard g(gpu().lock);
    if (cudaError_t no = refused()) return no;
    cudaStream_t s = stream_of(stream);
    if (!s || !gpu().execs.count(exec)) return answer(cudaErrorInvalidResourceHandle);
    if (s->capture) return answer(cudaErrorStreamCaptureUnsupported);
    entry e = {{"a graph", nullptr, nullptr}, std::make_shared<mark>(), nullptr, graph_start(exec)};
    exec->last = e.record;
    return stream_add(s, std::move(e));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    guard g(gpu().lock);
    if (!gpu().graphs.erase(graph)) return answer(cudaErrorInvalidValue);
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    guard g(gpu().lock);
    if (!gpu().execs.erase(exec)) return answer(cudaErrorInvalidValue);
    delete exec;
    return cudaSuccess;
}

} /* extern "C" */
