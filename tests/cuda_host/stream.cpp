/* stream.cpp - streams and events: what is queued, and what may run next. */
#include "cuda_host/state.h"

#include <chrono>

namespace cuda_host {

static double seconds_now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

cudaStream_t stream_of(cudaStream_t stream) {
    gpu_state &s = gpu();
    bool is_of_thread = stream == cudaStreamPerThread;
    if (stream && stream != cudaStreamLegacy && !is_of_thread)
        return std::find(s.streams.begin(), s.streams.end(), stream) != s.streams.end() ? stream : nullptr;
    cudaStream_t &mine = is_of_thread ? s.thread_streams[{std::this_thread::get_id(), current_device()}]
                                      : s.default_streams[current_device()];
    if (!mine) s.streams.push_back(mine = new CUstream_st{current_device(), true, {}, nullptr, {}});
    return mine;
}

/* ---- what may run ---- */

/* The head of a stream's queue, or one node of the graph that is there. */
struct candidate {
    cudaStream_t stream;
    int node; /* -1: not a node of a graph */
};

/* Whether node i can run: its predecessors have, the events it waits for are reached, and it is ready. */
static bool may_run(const graph_run &run, int i) {
    const node &n = (*run.nodes)[i];
    if (run.is_done[i] || (run.waits[i] && !run.waits[i]->is_done)) return false;
    if (!std::all_of(n.after.begin(), n.after.end(), [&](int before) { return run.is_done[before]; }))
        return false;
    /* last, since asking NCCL's calls also announces them to the other ranks */
    return !n.w.ready || n.w.ready();
}

/* Everything that may run now. */
static std::vector<candidate> candidates() {
    std::vector<candidate> list;
    for (cudaStream_t s : gpu().streams) {
        if (s->queue.empty()) continue;
        const entry &e = s->queue.front();
        if (e.graph) {
            if (e.graph->before && !e.graph->before->is_done) continue;
            if (e.graph->left == 0) list.push_back({s, -1});
            for (int i = 0; i < (int)e.graph->nodes->size(); i++)
                if (may_run(*e.graph, i)) list.push_back({s, i});
        } else if ((!e.wait || e.wait->is_done) && (!e.w.ready || e.w.ready())) {
            list.push_back({s, -1});
        }
    }
    return list;
}

static void mark_done(const std::shared_ptr<mark> &m) {
    if (!m) return;
    m->is_done = true;
    m->seconds = gpu().clock;
}

/* Events record an invented time, so that what is chosen by it is the same in every run: a microsecond for
 * each piece of work, and what fakes of libraries add. */
void spend(double seconds) {
    gpu().clock += seconds;
}

/* The GPU's memory is open here. An entry leaves the queue when it is done, a graph after its last node. */
static void run_candidate(candidate c) {
    spend(1e-6);
    entry &e = c.stream->queue.front();
    if (c.node >= 0) {
        graph_run &run = *e.graph;
        const node &n = (*run.nodes)[c.node];
        if (n.w.run) n.w.run();
        mark_done(run.records[c.node]);
        run.is_done[c.node] = 1;
        run.left--;
        if (run.left > 0) return;
    } else if (e.w.run) {
        e.w.run();
    }
    mark_done(e.record);
    c.stream->queue.pop_front();
}

/* Runs one piece of work, chosen at random. Returns false when none may run. */
static bool step() {
    std::vector<candidate> list = candidates();
    if (list.empty() || !gpu().trouble.empty()) return false;
    run_candidate(list[gpu().random.below(list.size())]);
    gpu().changed.notify_all();
    return true;
}

void run_some(size_t most) {
    memory_open();
    while (most-- > 0 && step()) {
    }
    memory_close();
}

/* Names what is at the head of each stream. */
static void tell_stuck(const char *what) {
    std::string waiting;
    for (cudaStream_t s : gpu().streams)
        if (!s->queue.empty()) {
            const entry &e = s->queue.front();
            waiting += waiting.empty() ? "" : ", ";
            waiting += e.wait ? "an event that is not reached" : e.graph ? "a graph" : e.w.what;
        }
    trouble("%s waits for ever; first in the streams: %s", what,
            waiting.empty() ? "nothing" : waiting.c_str());
}

/* A query by the host: a little work runs, seldom more. A host that queries for ever for what cannot happen
 * is stuck too. */
static bool query(const std::function<bool()> &done) {
    gpu_state &s = gpu();
    uint64_t most = s.random.below(4) ? s.random.below(3) : s.random.below(24);
    memory_open();
    for (; most > 0 && step(); most--) s.moved = seconds_now();
    if (most > 0 && !done() && s.trouble.empty() && seconds_now() - s.moved > s.patience)
        tell_stuck("a query");
    memory_close();
    return done();
}

/* While nothing may run, the lock is free for other threads, for `patience` seconds at most. */
bool run_until(const std::function<bool()> &done, const char *what) {
    double since = seconds_now();
    memory_open();
    while (gpu().trouble.empty() && !done()) {
        if (step()) {
            since = seconds_now();
            continue;
        }
        if (!gpu().trouble.empty()) break;
        if (seconds_now() - since > gpu().patience) tell_stuck(what);
        /* another thread may queue what is missing */
        memory_close();
        gpu().changed.wait_for(gpu().lock, std::chrono::milliseconds(20));
        memory_open();
    }
    memory_close();
    return gpu().trouble.empty();
}

cudaError_t drain(int device, bool only_blocking) {
    auto done = [=] {
        for (cudaStream_t s : gpu().streams)
            if (s->device == device && (s->is_blocking || !only_blocking) && !s->queue.empty()) return false;
        return true;
    };
    return run_until(done, "the device") ? cudaSuccess : answer(cudaErrorLaunchFailure);
}

/* ---- queueing ---- */

/* Work of the default stream comes after that of all blocking streams, and is complete before more is queued
 * there. */
static cudaError_t add_to_default(cudaStream_t s, entry e) {
    if (cudaError_t no = legacy_call()) return no;
    if (cudaError_t failed = drain(s->device, true)) return failed;
    s->queue.push_back(std::move(e));
    return drain(s->device, true);
}

/* The next node of the capture depends on the stream's frontier and becomes it. */
static cudaError_t add_to_capture(cudaStream_t s, entry e) {
    if (s->capture->is_broken) return answer(cudaErrorStreamCaptureInvalidated);
    node n;
    n.w = std::move(e.w);
    n.after = s->frontier;
    s->frontier = {(int)s->capture->nodes.size()};
    s->capture->nodes.push_back(std::move(n));
    return cudaSuccess;
}

/* While capturing, a node of the graph; else an entry of the queue, of which a little may run at once. */
cudaError_t stream_add(cudaStream_t s, entry e) {
    if (s->capture) return add_to_capture(s, std::move(e));
    auto mine = gpu().default_streams.find(s->device);
    if (mine != gpu().default_streams.end() && mine->second == s) return add_to_default(s, std::move(e));
    s->queue.push_back(std::move(e));
    gpu().moved = seconds_now();
    gpu().changed.notify_all();
    /* a GPU also runs when nobody waits for it */
    if (gpu().random.below(4) == 0) run_some(gpu().random.below(4));
    return cudaSuccess;
}

cudaError_t add_work(cudaStream_t s, const char *what, std::function<void()> run,
                     std::function<bool()> ready) {
    return stream_add(s, {{what, std::move(run), std::move(ready)}, nullptr, nullptr, nullptr});
}

cudaError_t enqueue(cudaStream_t stream, const char *what, std::function<void()> run,
                    std::function<bool()> ready) {
    guard g(gpu().lock);
    cudaStream_t s = stream_of(stream);
    if (cudaError_t no = refused()) return no;
    if (!s) return answer(cudaErrorInvalidResourceHandle);
    auto counted = [run = std::move(run)] {
        gpu().calls++;
        run();
    };
    return add_work(s, what, counted, std::move(ready));
}

/* A forked stream joins the capture of the event that it waits for; its next node depends on both. */
static cudaError_t wait_captured(cudaStream_t s, cudaEvent_t event) {
    if (event->capture->is_over) return answer(cudaErrorCapturedEvent);
    if (s->capture && s->capture != event->capture) return answer(cudaErrorStreamCaptureMerge);
    if (event->capture->is_broken) return answer(cudaErrorStreamCaptureInvalidated);
    if (!s->capture) {
        s->capture = event->capture;
        s->capture->streams.insert(s);
        s->frontier.clear();
    }
    for (int node : event->frontier)
        if (std::find(s->frontier.begin(), s->frontier.end(), node) == s->frontier.end())
            s->frontier.push_back(node);
    return cudaSuccess;
}

/* A node that records or waits for an event outside of the graph. */
static cudaError_t add_external(cudaStream_t s, cudaEvent_t records, cudaEvent_t waits) {
    if (cudaError_t failed =
            add_to_capture(s, {{"an external event", nullptr, nullptr}, nullptr, nullptr, nullptr}))
        return failed;
    s->capture->nodes.back().records = records;
    s->capture->nodes.back().waits = waits;
    return cudaSuccess;
}

static cudaError_t stream_make(cudaStream_t *stream, unsigned flags) {
    guard g(gpu().lock);
    if (cudaError_t no = refused()) return no;
    if (flags > cudaStreamNonBlocking) return answer(cudaErrorInvalidValue);
    *stream = new CUstream_st{current_device(), flags != cudaStreamNonBlocking, {}, nullptr, {}};
    gpu().streams.push_back(*stream);
    return cudaSuccess;
}

/* Waiting for a stream, or asking whether it is idle: never while it is captured, nor (this is stricter than
 * the documentation, which leaves it open) where a capture forbids unsafe calls. */
static cudaError_t wait_call(cudaStream_t s) {
    if (s->capture) s->capture->is_broken = true;
    if (s->capture) return answer(cudaErrorStreamCaptureUnsupported);
    auto legacy = gpu().default_streams.find(s->device);
    if (legacy != gpu().default_streams.end() && legacy->second == s)
        if (cudaError_t no = legacy_call()) return no;
    return unsafe_call();
}

/* The stream of a call with an event; an error when either is unknown. */
static cudaError_t both(cudaEvent_t event, cudaStream_t stream, cudaStream_t *s) {
    if (cudaError_t no = refused()) return no;
    *s = stream_of(stream);
    return *s && gpu().events.count(event) ? cudaSuccess : answer(cudaErrorInvalidResourceHandle);
}

} // namespace cuda_host

using namespace cuda_host;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    return stream_make(stream, cudaStreamDefault);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    return stream_make(stream, flags);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int) {
    return stream_make(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    guard g(gpu().lock);
    if (!stream || stream_of(stream) != stream) return answer(cudaErrorInvalidResourceHandle);
    if (stream->capture) return answer(cudaErrorStreamCaptureUnsupported);
    bool good = run_until([=] { return stream->queue.empty(); }, "cudaStreamDestroy");
    gpu().streams.erase(std::find(gpu().streams.begin(), gpu().streams.end(), stream));
    delete stream;
    return good ? cudaSuccess : answer(cudaErrorLaunchFailure);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    guard g(gpu().lock);
    cudaStream_t s = stream_of(stream);
    if (cudaError_t no = refused()) return no;
    if (!s) return answer(cudaErrorInvalidResourceHandle);
    if (cudaError_t no = wait_call(s)) return no;
    bool good = run_until([=] { return s->queue.empty(); }, "cudaStreamSynchronize");
    return good ? cudaSuccess : answer(cudaErrorLaunchFailure);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    guard g(gpu().lock);
    cudaStream_t s = stream_of(stream);
    if (cudaError_t no = refused()) return no;
    if (!s) return answer(cudaErrorInvalidResourceHandle);
    if (cudaError_t no = wait_call(s)) return no;
    bool is_idle = query([=] { return s->queue.empty(); });
    if (cudaError_t no = refused()) return no;
    return is_idle ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaDeviceSynchronize(void) {
    guard g(gpu().lock);
    if (cudaError_t no = refused()) return no;
    if (cudaError_t no = device_call()) return no;
    return drain(current_device(), false);
}

/* An event that was never recorded is no reason to wait; one from outside a capture breaks it. */
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    guard g(gpu().lock);
    cudaStream_t s;
    if (cudaError_t no = both(event, stream, &s)) return no;
    if (s->capture && flags == cudaEventWaitExternal) return add_external(s, nullptr, event);
    if (event->capture) return wait_captured(s, event);
    if (s->capture) {
        if (!event->latest) return cudaSuccess;
        s->capture->is_broken = true;
        return answer(cudaErrorStreamCaptureIsolation);
    }
    if (!event->latest) return cudaSuccess;
    return stream_add(s, {{"an event", nullptr, nullptr}, nullptr, event->latest, nullptr});
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
    return enqueue(stream, "a host function", [=] {
        /* the GPU's memory stays open: the rule for host functions is that they call no CUDA */
        gpu().in_host_function = true;
        function(data);
        gpu().in_host_function = false;
    });
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    guard g(gpu().lock);
    if (cudaError_t no = refused()) return no;
    *event = new CUevent_st{flags, nullptr, nullptr, {}};
    gpu().events.insert(*event);
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    guard g(gpu().lock);
    if (!gpu().events.erase(event)) return answer(cudaErrorInvalidResourceHandle);
    delete event;
    return cudaSuccess;
}

/* While capturing, an event only marks the stream's frontier, unless it is external. */
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
    guard g(gpu().lock);
    cudaStream_t s;
    if (cudaError_t no = both(event, stream, &s)) return no;
    if (s->capture && flags == cudaEventRecordExternal) return add_external(s, event, nullptr);
    if (s->capture) {
        if (s->capture->is_broken) return answer(cudaErrorStreamCaptureInvalidated);
        event->capture = s->capture;
        event->frontier = s->frontier;
        return cudaSuccess;
    }
    event->capture = nullptr;
    event->latest = std::make_shared<mark>();
    return stream_add(s, {{"an event", nullptr, nullptr}, event->latest, nullptr, nullptr});
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

/* An event that was recorded in a capture cannot be waited for by the host. */
static cudaError_t event_usable(cudaEvent_t event) {
    if (cudaError_t no = refused()) return no;
    if (!gpu().events.count(event)) return answer(cudaErrorInvalidResourceHandle);
    if (!event->capture) return unsafe_call();
    event->capture->is_broken = true;
    return answer(cudaErrorCapturedEvent);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    guard g(gpu().lock);
    if (cudaError_t no = event_usable(event)) return no;
    std::shared_ptr<mark> m = event->latest;
    if (!m || run_until([=] { return m->is_done; }, "cudaEventSynchronize")) return cudaSuccess;
    return answer(cudaErrorLaunchFailure);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    guard g(gpu().lock);
    if (cudaError_t no = event_usable(event)) return no;
    std::shared_ptr<mark> m = event->latest;
    bool is_reached = query([=] { return !m || m->is_done; });
    if (cudaError_t no = refused()) return no;
    return is_reached ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    guard g(gpu().lock);
    if (cudaError_t no = event_usable(start)) return no;
    if (cudaError_t no = event_usable(end)) return no;
    if ((start->flags | end->flags) & cudaEventDisableTiming || !start->latest || !end->latest)
        return answer(cudaErrorInvalidResourceHandle);
    if (!start->latest->is_done || !end->latest->is_done) return cudaErrorNotReady;
    *milliseconds = (float)((end->latest->seconds - start->latest->seconds) * 1e3);
    return cudaSuccess;
}

} /* extern "C" */
