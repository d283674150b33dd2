/* nccl.cpp - NCCL for ranks that are threads of one process, each with an emulated GPU. A sum waits at the
 * head of its stream until all ranks' sums with the same number are at the heads of theirs; the first one
 * that runs adds for all. A group of messages waits until each of its messages has its partner, in the order
 * of each pair of ranks. When ranks make different calls, start captured calls in different orders, or send
 * messages of different lengths, the GPU breaks with a message; or, with cuda_host_nccl_lenient, they wait
 * for ever as on a real one. The queued calls of an aborted rank end at once, and ranks that wait for it wait
 * on. */
#include "cuda_host/nccl.h"

#include "cuda_host/cuda_host.h"
#include "cuda_host/library.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

/* One rank of a communicator, for as long as any call of it is queued or captured. */
struct member {
    bool is_gone = false;                                    /* aborted */
    std::map<std::pair<int, bool>, int> messages;            /* issued so far, by peer and direction */
    int sums = 0;                                            /* issued so far */
    std::shared_ptr<char> graphs = std::make_shared<char>(); /* captured calls hold a reference too */
};

struct message {
    bool is_send;
    int peer;
    char *data;
    size_t bytes;
    int number = 0; /* among those issued between the two in this direction; a replayed message keeps it */
    std::shared_ptr<member> owner = nullptr;
    std::shared_ptr<message> partner = nullptr; /* set once both are at the heads of their streams */
    bool is_done = false;
};

typedef std::vector<std::shared_ptr<message>> messages;

/* A sum of one rank. */
struct call {
    enum kind { ALL_REDUCE, REDUCE_SCATTER } what;
    char *into = nullptr;
    const char *from = nullptr;
    size_t count = 0; /* elements of the result */
    ncclDataType_t type = ncclUint8;
    int number = 0; /* among the rank's sums in the order of issue */
};

/* The calls of all ranks for one sum. */
struct rendezvous {
    std::vector<std::shared_ptr<const call>> calls; /* by rank */
    size_t arrived = 0, left = 0;                   /* left: ranks that have run theirs */
    bool is_done = false;
};

/* What a rank passed to ncclCommSplit. */
struct split_of {
    int color, key, rank;
};

/* A communicator, shared by its ranks. */
struct world {
    int size = 0, joined = 0;
    std::set<int> devices;     /* of the ranks that have joined */
    bool shares_gpu = false;   /* two ranks on one GPU, which NCCL rejects */
    std::vector<int> executed; /* sums so far, by rank */
    /* Messages without a partner, by (from, to). */
    std::map<std::pair<int, int>, std::deque<std::shared_ptr<message>>> alone;
    std::map<int, rendezvous> rendezvous_list;
    std::vector<split_of> splits; /* of the split under way */
    std::map<int, std::shared_ptr<world>> parts;
    int split_left = 0;
};

/* Never destroyed: a rank whose peers never come may still wait here when the process ends. */
std::mutex &lock = *new std::mutex;
std::condition_variable &changed = *new std::condition_variable;
std::map<std::string, std::shared_ptr<world>> &worlds = /* that not all ranks have joined */
    *new std::map<std::string, std::shared_ptr<world>>;
int next_id;
std::set<int> broken; /* ranks of worlds whose network has failed */
bool is_lenient;
int library_version = NCCL_VERSION_CODE;

} // namespace

struct ncclComm {
    std::shared_ptr<world> w;
    int rank;
    bool is_part; /* split from another */
    std::shared_ptr<member> me = std::make_shared<member>();
};

extern "C" void cuda_host_nccl_break(int rank) {
    std::lock_guard<std::mutex> hold(lock);
    if (rank < 0)
        broken.clear();
    else
        broken.insert(rank);
}

extern "C" void cuda_host_nccl_lenient(int on) {
    std::lock_guard<std::mutex> hold(lock);
    is_lenient = on != 0;
}

extern "C" void cuda_host_nccl_version(int version) {
    std::lock_guard<std::mutex> hold(lock);
    library_version = version;
}

/* ---- communicators ---- */

ncclResult_t ncclGetVersion(int *version) {
    std::lock_guard<std::mutex> hold(lock);
    *version = library_version;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    std::lock_guard<std::mutex> hold(lock);
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "%d", ++next_id);
    return ncclSuccess;
}

/* Returns when all ranks have called. */
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id, int rank) {
    std::unique_lock<std::mutex> hold(lock);
    std::shared_ptr<world> w = worlds[id.internal];
    if (!w) {
        w = worlds[id.internal] = std::make_shared<world>();
        w->size = size;
        w->executed.resize((size_t)size);
    }
    if (w->size != size || rank < 0 || rank >= size) return ncclInvalidArgument;
    int device = 0;
    cudaGetDevice(&device);
    w->shares_gpu |= !w->devices.insert(device).second;
    if (++w->joined == size) worlds.erase(id.internal);
    changed.notify_all();
    changed.wait(hold, [&] { return w->joined == size; });
    if (w->shares_gpu) return ncclInvalidUsage;
    *comm = new ncclComm{w, rank, false};
    return ncclSuccess;
}

/* A collective call of the host: returns when all ranks have called. */
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *part, ncclConfig_t *config) {
    std::unique_lock<std::mutex> hold(lock);
    world *w = comm->w.get();
    if (config) return ncclInvalidArgument;
    /* the split before this one is over */
    changed.wait(hold, [&] { return w->split_left == 0; });
    w->splits.push_back({color, key, comm->rank});
    if ((int)w->splits.size() == w->size) {
        w->split_left = w->size;
        w->parts.clear();
        changed.notify_all();
    }
    changed.wait(hold, [&] { return w->split_left > 0; });
    int before = 0, size = 0;
    for (const split_of &s : w->splits) {
        size += s.color == color;
        before += s.color == color && (s.key < key || (s.key == key && s.rank < comm->rank));
    }
    *part = nullptr;
    if (color >= 0) {
        std::shared_ptr<world> &p = w->parts[color];
        if (!p) {
            p = std::make_shared<world>();
            p->size = size;
            p->executed.resize((size_t)size);
        }
        *part = new ncclComm{p, before, true};
    }
    if (--w->split_left == 0) {
        w->splits.clear();
        changed.notify_all();
    }
    return ncclSuccess;
}

/* Whether a captured graph holds the communicator: NCCL waits for that without end. */
static bool is_captured_still(ncclComm_t comm) {
    return comm->me->graphs.use_count() > 1;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    if (is_captured_still(comm))
        cuda_host::trouble("ncclCommDestroy waits for ever: a captured graph holds it");
    delete comm;
    return ncclSuccess;
}

/* Withdraws the calls of this rank that no other rank has met yet. */
static void leave(ncclComm_t comm) {
    std::lock_guard<std::mutex> hold(lock);
    world *w = comm->w.get();
    comm->me->is_gone = true;
    for (auto &queue : w->alone)
        for (size_t i = queue.second.size(); i-- > 0;)
            if (queue.second[i]->owner == comm->me) queue.second.erase(queue.second.begin() + (long)i);
    for (auto &m : w->rendezvous_list) {
        if (m.second.is_done || m.second.calls.empty() || !m.second.calls[(size_t)comm->rank]) continue;
        m.second.calls[(size_t)comm->rank] = nullptr;
        m.second.arrived--;
    }
}

/* Queued calls end at once; this returns when the graphs that hold the communicator are gone. */
ncclResult_t ncclCommAbort(ncclComm_t comm) {
    leave(comm);
    for (int i = 0; i < 60000 && is_captured_still(comm); i++)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (is_captured_still(comm))
        cuda_host::trouble("ncclCommAbort waits for ever: a captured graph holds it");
    delete comm;
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
    std::lock_guard<std::mutex> hold(lock);
    if (!comm) return ncclInvalidArgument;
    *error = !comm->is_part && broken.count(comm->rank) ? ncclRemoteError : ncclSuccess;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
    return result == ncclSuccess           ? "no error"
           : result == ncclInvalidArgument ? "invalid argument"
           : result == ncclRemoteError     ? "remote process exited or there was a network error"
                                           : "invalid usage";
}

const char *ncclGetLastError(ncclComm_t comm) {
    (void)comm;
    return "";
}

/* ---- running ---- */

namespace {

size_t width_of(ncclDataType_t type) {
    return type == ncclFloat64 ? 8 : type == ncclFloat32 ? 4 : type == ncclBfloat16 ? 2 : 1;
}

/* Pairs m with the oldest message of the other side between these two ranks; if there is none, m waits. */
void pair_up(world *w, int rank, const std::shared_ptr<message> &m) {
    std::deque<std::shared_ptr<message>> &queue =
        w->alone[m->is_send ? std::make_pair(rank, m->peer) : std::make_pair(m->peer, rank)];
    if (queue.empty() || queue.front()->is_send == m->is_send) {
        queue.push_back(m);
        return;
    }
    m->partner = queue.front();
    m->partner->partner = m;
    queue.pop_front();
}

bool fits(const message &m) {
    return m.bytes == m.partner->bytes && m.number == m.partner->number;
}

/* Copies the bytes once; both messages are then done. */
void deliver(int rank, const std::shared_ptr<message> &m) {
    const std::shared_ptr<message> from = m->is_send ? m : m->partner, to = m->is_send ? m->partner : m;
    if (from->bytes != to->bytes)
        cuda_host::trouble("NCCL: ranks %d and %d send %zu bytes and receive %zu", rank, m->peer, from->bytes,
                           to->bytes);
    else if (from->number != to->number)
        cuda_host::trouble("NCCL: of rank %d's messages with rank %d number %d meets number %d", rank,
                           m->peer, m->number, m->partner->number);
    else if (!m->is_done && !m->partner->owner->is_gone)
        memmove(to->data, from->data, from->bytes);
    from->is_done = to->is_done = true;
}

double value_at(const char *data, ncclDataType_t type, size_t i) {
    if (type == ncclFloat64) return reinterpret_cast<const double *>(data)[i];
    return cuda_host::element_load(type == ncclBfloat16 ? cuda_host::ELEMENT_BF16 : cuda_host::ELEMENT_F32,
                                   data, (int64_t)i);
}

void put_at(char *data, ncclDataType_t type, size_t i, double x) {
    if (type == ncclFloat64)
        reinterpret_cast<double *>(data)[i] = x;
    else
        cuda_host::element_store(type == ncclBfloat16 ? cuda_host::ELEMENT_BF16 : cuda_host::ELEMENT_F32,
                                 data, (int64_t)i, (float)x);
}

/* The sum in one fixed order, which is not the ranks' own: from the last rank to the first. */
void add(const rendezvous &m, int world) {
    const call &one = *m.calls[0];
    size_t all = one.what == call::REDUCE_SCATTER ? one.count * (size_t)world : one.count;
    std::vector<double> sum(all);
    for (int r = world; r-- > 0;)
        for (size_t i = 0; i < all; i++) sum[i] += value_at(m.calls[(size_t)r]->from, one.type, i);
    for (int r = 0; r < world; r++) {
        size_t first = one.what == call::REDUCE_SCATTER ? one.count * (size_t)r : 0;
        for (size_t i = 0; i < one.count; i++) put_at(m.calls[(size_t)r]->into, one.type, i, sum[first + i]);
    }
}

/* Whether all ranks made the same call. */
bool fits(const rendezvous &m) {
    for (const std::shared_ptr<const call> &c : m.calls)
        if (c->what != m.calls[0]->what || c->count != m.calls[0]->count || c->number != m.calls[0]->number)
            return false;
    return true;
}

void play(const rendezvous &m, int world) {
    if (!fits(m)) return cuda_host::trouble("NCCL: ranks call different collectives");
    add(m, world);
}

/* A call that is captured holds a reference to its communicator. */
std::shared_ptr<char> hold_captured(ncclComm_t comm, cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    bool is_captured =
        cudaStreamIsCapturing(stream, &status) == cudaSuccess && status != cudaStreamCaptureStatusNone;
    return is_captured ? comm->me->graphs : nullptr;
}

/* Enqueues a sum: it is ready when all ranks' calls are at the heads of their streams. */
ncclResult_t put_call(ncclComm_t comm, cudaStream_t stream, const std::shared_ptr<call> &what) {
    std::shared_ptr<world> w = comm->w;
    std::shared_ptr<member> me = comm->me;
    std::shared_ptr<char> held = hold_captured(comm, stream);
    int rank = comm->rank;
    what->number = me->sums++;
    auto ready = [w, rank, what, me] {
        std::lock_guard<std::mutex> hold(lock);
        if (me->is_gone) return true;
        rendezvous &m = w->rendezvous_list[w->executed[(size_t)rank]];
        m.calls.resize((size_t)w->size);
        if (!m.calls[(size_t)rank] && !m.is_done) {
            m.calls[(size_t)rank] = what;
            m.arrived++;
        }
        return m.arrived == (size_t)w->size && (!is_lenient || fits(m));
    };
    auto run = [w, rank, me, held] {
        std::lock_guard<std::mutex> hold(lock);
        if (me->is_gone) return;
        int number = w->executed[(size_t)rank]++;
        rendezvous &m = w->rendezvous_list[number];
        if (!m.is_done) play(m, w->size);
        m.is_done = true;
        if (++m.left == (size_t)w->size) w->rendezvous_list.erase(number);
    };
    return cuda_host::enqueue(stream, "NCCL", run, ready) == cudaSuccess ? ncclSuccess
                                                                         : ncclUnhandledCudaError;
}

/* Enqueues a group. A captured group runs many times, each time with messages of its own. */
ncclResult_t put_group(ncclComm_t comm, cudaStream_t stream, std::vector<message> list) {
    std::shared_ptr<world> w = comm->w;
    std::shared_ptr<member> me = comm->me;
    std::shared_ptr<char> held = hold_captured(comm, stream);
    int rank = comm->rank;
    std::shared_ptr<messages> now = std::make_shared<messages>();
    for (message &m : list) {
        m.owner = me;
        m.number = me->messages[{m.peer, m.is_send}]++;
    }
    auto ready = [w, rank, list, now, me] {
        std::lock_guard<std::mutex> hold(lock);
        if (me->is_gone) return true;
        for (size_t i = now->size(); i < list.size(); i++) {
            now->push_back(std::make_shared<message>(list[i]));
            pair_up(w.get(), rank, now->back());
        }
        for (const std::shared_ptr<message> &m : *now)
            if (!m->partner || (m->partner->owner->is_gone && !m->is_done) || (is_lenient && !fits(*m)))
                return false;
        return true;
    };
    auto run = [rank, now, me, held] {
        std::lock_guard<std::mutex> hold(lock);
        for (const std::shared_ptr<message> &m : *now) {
            if (!me->is_gone) deliver(rank, m);
            /* else the two hold each other for ever */
            m->partner = nullptr;
        }
        now->clear();
    };
    return cuda_host::enqueue(stream, "NCCL", run, ready) == cudaSuccess ? ncclSuccess
                                                                         : ncclUnhandledCudaError;
}

/* The group of this thread between ncclGroupStart and ncclGroupEnd: messages of one communicator on one
 * stream. */
struct group {
    int depth = 0;
    ncclComm_t comm = nullptr;
    cudaStream_t stream = nullptr;
    std::vector<message> list;
};
thread_local group open_group;

/* Adds a message to the thread's open group. */
ncclResult_t put_message(ncclComm_t comm, cudaStream_t stream, message m) {
    group &g = open_group;
    if (!comm || m.peer < 0 || m.peer >= comm->w->size || !cuda_host::is_device_memory(m.data, m.bytes))
        return ncclInvalidArgument;
    /* without a group it would wait for its partner: Weft always has groups */
    if (!g.depth) return ncclInvalidUsage;
    if (g.list.empty()) {
        g.comm = comm;
        g.stream = stream;
    }
    if (g.comm != comm || g.stream != stream) return ncclInvalidUsage;
    g.list.push_back(m);
    return ncclSuccess;
}

/* Checks that both buffers are whole and the GPU's, then enqueues. */
ncclResult_t put_sum(call::kind kind, const void *from, void *into, size_t count, ncclDataType_t type,
                     ncclComm_t comm, cudaStream_t stream) {
    size_t world = (size_t)comm->w->size, given = kind == call::REDUCE_SCATTER ? count * world : count;
    if (!cuda_host::is_device_memory(from, given * width_of(type)) ||
        !cuda_host::is_device_memory(into, count * width_of(type)))
        return ncclInvalidArgument;
    std::shared_ptr<call> what = std::make_shared<call>();
    what->what = kind;
    what->from = static_cast<const char *>(from);
    what->into = static_cast<char *>(into);
    what->count = count;
    what->type = type;
    return put_call(comm, stream, what);
}

} // namespace

ncclResult_t ncclGroupStart(void) {
    open_group.depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void) {
    group &g = open_group;
    if (!g.depth) return ncclInvalidUsage;
    if (--g.depth || g.list.empty()) return ncclSuccess;
    group done = g;
    g = group();
    return put_group(done.comm, done.stream, done.list);
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t s) {
    return put_message(comm, s,
                       {true, peer, static_cast<char *>(const_cast<void *>(from)), count * width_of(type)});
}

ncclResult_t ncclRecv(void *into, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t s) {
    return put_message(comm, s, {false, peer, static_cast<char *>(into), count * width_of(type)});
}

ncclResult_t ncclAllReduce(const void *from, void *into, size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t comm, cudaStream_t s) {
    return put_sum(call::ALL_REDUCE, from, into, count, type, comm, s);
}

ncclResult_t ncclReduceScatter(const void *from, void *into, size_t count, ncclDataType_t type, ncclRedOp_t,
                               ncclComm_t comm, cudaStream_t s) {
    return put_sum(call::REDUCE_SCATTER, from, into, count, type, comm, s);
}
