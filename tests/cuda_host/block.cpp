/* block.cpp - the threads of a block as fibers. A thread runs until it waits (at a barrier or a warp
 * operation) or ends; then another one that can run is chosen at random, so that a missing barrier shows as a
 * wrong result under some seed.
 *
 * Rules that are checked (CUDA C++ Programming Guide, 10.6 and 10.22): all threads of the block reach a
 * barrier; all lanes of its mask that have not ended reach a warp operation, each caller is in its mask, and
 * all have the same mask. Shared memory is NaN at the start of every block. */
#include "cuda_host/block.h"
#include "cuda_host/fiber.h"
#include "cuda_host/warp.h"

#include <cstdlib>
#include <memory>
#include <vector>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace cuda_host {
namespace {

/* What a thread does now. */
enum place { AT_START, RUNS, AT_BARRIER, AT_WARP, ENDED };

/* A copy of cp.async that has not happened yet; `valid` bytes are copied, the rest is zeros. */
struct pending_copy {
    void *to;
    const void *from;
    int bytes, valid, group;
};

struct thread {
    uint3 index;
    place at;
    fiber *stack;
    /* at a barrier: */
    barrier_kind kind;
    int predicate;
    /* at a warp operation: */
    const char *what;
    unsigned mask;
    const void *in;
    void *out;
    together *all;
    /* cp.async, and the group of copies that is open: */
    std::vector<pending_copy> copies;
    int group;
};

/* Masks of lanes that exist and have not ended, and of those that wait at a warp operation. */
struct warp_lanes {
    unsigned alive, waiting;
};

/* A SHARED_ARRAY of the block. */
struct shared_block {
    const void *key;
    void *memory;
    size_t bytes;
};

/* The launch that runs: there is one at a time. */
struct state {
    const std::function<void()> *call;
    sequence random;
    std::vector<thread> threads;
    std::vector<warp_lanes> warps;
    std::vector<int> ready; /* threads that can run */
    int now;                /* the thread that runs */
    int ended, at_barrier, barrier_result;
    bool failed;
    std::vector<shared_block> shared;
    size_t dynamic_bytes;
    void *dynamic;
};

state s;
fiber scheduler;
std::vector<std::unique_ptr<fiber>> idle; /* stacks of threads that have ended */

constexpr size_t STATIC_SHARED = 48 << 10; /* bytes of SHARED_ARRAYs that a block may have */

/* Switches from the running thread to the scheduler; returns when the thread is chosen again. */
void leave() {
    fiber_switch(s.threads[s.now].stack, &scheduler);
}

/* The program is wrong: gives up this block, with the stacks of its threads. */
void give_up() {
    s.failed = true;
    leave();
    abort();
}

/* "thread (x,y,z) of block (x,y,z)", for messages. */
std::string where(int t) {
    const uint3 &i = s.threads[t].index;
    char text[120];
    snprintf(text, sizeof text, "thread (%u,%u,%u) of block (%u,%u,%u)", i.x, i.y, i.z, blockIdx.x,
             blockIdx.y, blockIdx.z);
    return text;
}

unsigned bit_of(int t) {
    return 1u << t % 32;
}

/* The thread can run again. */
void wake(int t) {
    s.threads[t].at = RUNS;
    s.warps[t / 32].waiting &= ~bit_of(t);
    s.ready.push_back(t);
}

/* All threads have arrived: computes the result and wakes them. */
void barrier_complete() {
    int count = 0, n = (int)s.threads.size();
    for (const thread &t : s.threads) {
        count += t.predicate != 0;
        if (t.kind != s.threads[0].kind) {
            trouble("%s: threads of one block wait at different kinds of __syncthreads", where(0).c_str());
            s.failed = true;
            return;
        }
    }
    barrier_kind kind = s.threads[0].kind;
    s.barrier_result = kind == BARRIER_AND ? count == n : kind == BARRIER_OR ? count > 0 : count;
    s.at_barrier = 0;
    for (int t = 0; t < n; t++) wake(t);
}

/* Runs the operation that the lanes of thread t's mask wait for, if all have arrived. Called at each arrival,
 * so an operation runs as soon as its last lane is there. */
void warp_try(int t) {
    int first = t / 32 * 32;
    const thread &me = s.threads[t];
    unsigned lanes = me.mask & s.warps[t / 32].alive;
    if (lanes & ~s.warps[t / 32].waiting) return;
    const void *in[32] = {};
    void *out[32] = {};
    for (int lane = 0; lane < 32; lane++) {
        if (!(lanes >> lane & 1)) continue;
        const thread &other = s.threads[first + lane];
        if (other.mask != me.mask) return;
        if (other.all != me.all || (other.what != me.what && strcmp(other.what, me.what) != 0)) {
            trouble("%s waits at %s, its warp's lane %d at %s, with the same mask", where(t).c_str(), me.what,
                    lane, other.what);
            s.failed = true;
            return;
        }
        in[lane] = other.in;
        out[lane] = other.out;
    }
    me.all(lanes, in, out);
    for (int lane = 0; lane < 32; lane++)
        if (lanes >> lane & 1) wake(first + lane);
}

/* Others may wait for this lane at a warp operation: they are tried again without it. */
void thread_end(int t) {
    thread &me = s.threads[t];
    me.at = ENDED;
    s.warps[t / 32].alive &= ~bit_of(t);
    s.ended++;
    me.copies.clear();
    for (int other = t / 32 * 32; other < t / 32 * 32 + 32 && other < (int)s.threads.size() && !s.failed;
         other++)
        /* nobody waits for the ended thread any more */
        if (s.threads[other].at == AT_WARP) warp_try(other);
}

/* The entry of a stack: runs the thread that it was given; then, when it is switched to again, the next
 * one. */
void stack_main() {
    fiber_entered(&scheduler);
    for (;;) {
        (*s.call)();
        fiber *mine = s.threads[s.now].stack;
        thread_end(s.now);
        fiber_switch(mine, &scheduler);
    }
}

/* Runs thread t until it waits or ends. */
void thread_run(int t) {
    thread &me = s.threads[t];
    s.now = t;
    threadIdx = me.index;
    if (me.at == AT_START) {
        me.at = RUNS;
        if (idle.empty()) {
            idle.push_back(std::make_unique<fiber>());
            fiber_make(idle.back().get(), stack_main);
        }
        me.stack = idle.back().release();
        idle.pop_back();
    }
    fiber_switch(&scheduler, me.stack);
    if (me.at == ENDED) {
        idle.emplace_back(me.stack);
        me.stack = nullptr;
    }
}

/* No thread can run, but some have not ended. */
void tell_deadlock() {
    int n = (int)s.threads.size(), warps = 0, barrier = -1, warp = -1;
    for (int t = 0; t < n; t++) {
        if (s.threads[t].at == AT_WARP && warps++ == 0) warp = t;
        if (s.threads[t].at == AT_BARRIER && barrier < 0) barrier = t;
    }
    std::string text = where(barrier >= 0 ? barrier : warp);
    char part[200];
    snprintf(part, sizeof part,
             " waits for ever: %d of the block's %d threads are at __syncthreads, %d have ended",
             s.at_barrier, n, s.ended);
    text += part;
    if (warps) {
        snprintf(part, sizeof part, ", %d are at warp operations (thread %d at %s, mask %#x)", warps, warp,
                 s.threads[warp].what, s.threads[warp].mask);
        text += part;
    }
    trouble("%s", text.c_str());
    s.failed = true;
}

/* The stacks of a block that was given up are made again. Nothing on them needs a destructor: kernels hold no
 * C++ objects that own memory. */
void abandon() {
    for (thread &t : s.threads)
        if (t.stack) {
            fiber_make(t.stack, stack_main);
            idle.emplace_back(t.stack);
            t.stack = nullptr;
        }
}

void poison_shared() {
    if (s.dynamic) memset(s.dynamic, 0xff, s.dynamic_bytes);
    for (const shared_block &b : s.shared) memset(b.memory, 0xff, b.bytes);
}

/* Runs one block; the random choice of the next thread is here. */
void block_run() {
    int n = (int)s.threads.size();
    s.ended = s.at_barrier = 0;
    s.ready.clear();
    s.warps.assign((size_t)(n + 31) / 32, warp_lanes());
    for (int t = 0; t < n; t++) {
        s.warps[t / 32].alive |= bit_of(t);
        s.threads[t].at = AT_START;
        s.threads[t].group = 0;
        s.ready.push_back(t);
    }
    poison_shared();
    while (!s.failed && !s.ready.empty()) {
        size_t pick = s.random.below(s.ready.size());
        int t = s.ready[pick];
        s.ready[pick] = s.ready.back();
        s.ready.pop_back();
        thread_run(t);
    }
    if (!s.failed && s.ended < n) tell_deadlock();
    if (s.failed) abandon();
}

void *aligned(size_t bytes) {
    void *memory = nullptr;
    if (posix_memalign(&memory, 128, bytes) != 0) abort();
    return memory;
}

thread *running() {
    return &s.threads[s.now];
}

} // namespace

/* Blocks run one after the other in random order; shared memory is allocated once and filled with NaN for
 * each. */
bool grid_run(const std::function<void()> &call, dim3 grid, dim3 block, size_t shared, uint64_t seed) {
    s.call = &call;
    s.random.state = seed;
    s.failed = false;
    s.threads.assign((size_t)block.x * block.y * block.z, thread());
    for (size_t t = 0; t < s.threads.size(); t++)
        s.threads[t].index = {(unsigned)(t % block.x), (unsigned)(t / block.x % block.y),
                              (unsigned)(t / block.x / block.y)};
    s.dynamic_bytes = shared;
    s.dynamic = shared ? aligned(shared) : nullptr;
    blockDim = block;
    gridDim = grid;
    std::vector<uint32_t> order((size_t)grid.x * grid.y * grid.z);
    /* Fisher and Yates' shuffle */
    for (size_t i = 0; i < order.size(); i++) {
        size_t j = s.random.below(i + 1);
        order[i] = order[j];
        order[j] = (uint32_t)i;
    }
    for (uint32_t b : order) {
        blockIdx = {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
        block_run();
        if (s.failed) break;
    }
    free(s.dynamic);
    for (const shared_block &b : s.shared) free(b.memory);
    s.shared.clear();
    return !s.failed;
}

/* ---- what kernels call ---- */

void *shared_dynamic() {
    if (!s.dynamic) {
        trouble("%s uses dynamic shared memory, but the launch gives none", where(s.now).c_str());
        give_up();
    }
    return s.dynamic;
}

/* The first thread that comes allocates the array. */
void *shared_array(const void *key, size_t bytes) {
    size_t all = bytes;
    for (const shared_block &b : s.shared) {
        if (b.key == key) return b.memory;
        all += b.bytes;
    }
    if (all > STATIC_SHARED) {
        trouble("%s: %zu bytes in SHARED_ARRAYs; a block has %zu", where(s.now).c_str(), all, STATIC_SHARED);
        give_up();
    }
    void *memory = aligned(bytes);
    memset(memory, 0xff, bytes);
    s.shared.push_back({key, memory, bytes});
    return memory;
}

int barrier(barrier_kind kind, int predicate) {
    thread *me = running();
    me->at = AT_BARRIER;
    me->kind = kind;
    me->predicate = predicate;
    if (++s.at_barrier == (int)s.threads.size()) barrier_complete();
    leave();
    return s.barrier_result;
}

int lane() {
    return s.now % 32;
}

/* Returns when the operation has been done for this lane; ends the block when the mask is wrong. */
void warp_meet(const char *what, unsigned mask, const void *in, void *out, together *all) {
    thread *me = running();
    if (!(mask >> lane() & 1)) {
        trouble("%s calls %s with mask %#x, which lacks its own lane %d", where(s.now).c_str(), what, mask,
                lane());
        give_up();
    }
    me->at = AT_WARP;
    me->what = what;
    me->mask = mask;
    me->in = in;
    me->out = out;
    me->all = all;
    s.warps[s.now / 32].waiting |= bit_of(s.now);
    warp_try(s.now);
    leave();
}

/* A lane that does not take part gives garbage, as on a GPU. */
static void shuffle_all(unsigned lanes, const void *const in[32], void *const out[32]) {
    for (int lane = 0; lane < 32; lane++) {
        if (!(lanes >> lane & 1)) continue;
        int from = static_cast<const shuffle_in *>(in[lane])->from & 31;
        uint64_t value = lanes >> from & 1 ? static_cast<const shuffle_in *>(in[from])->value : ~(uint64_t)0;
        *static_cast<uint64_t *>(out[lane]) = value;
    }
}

void shuffle(const char *what, unsigned mask, const shuffle_in *in, uint64_t *out) {
    warp_meet(what, mask, in, out, shuffle_all);
}

static void vote_all(unsigned lanes, const void *const in[32], void *const out[32]) {
    unsigned votes = 0;
    for (int lane = 0; lane < 32; lane++)
        if (lanes >> lane & 1 && static_cast<const vote_in *>(in[lane])->predicate) votes |= 1u << lane;
    for (int lane = 0; lane < 32; lane++)
        if (lanes >> lane & 1) *static_cast<unsigned *>(out[lane]) = votes;
}

unsigned ballot(const char *what, unsigned mask, int predicate) {
    vote_in in = {predicate};
    unsigned out = 0;
    warp_meet(what, mask, &in, &out, vote_all);
    return out;
}

/* ---- cp.async ---- */

void copy_later(void *to, const void *from, int bytes, int valid) {
    thread *me = running();
    if (((uintptr_t)to | (uintptr_t)from) % (size_t)bytes)
        trouble("an asynchronous copy of %d bytes from or to an address that is not a multiple of them", bytes);
    /* a read before the wait gets NaN */
    memset(to, 0xff, (size_t)bytes);
    me->copies.push_back({to, from, bytes, valid, me->group});
}

void copy_commit() {
    running()->group++;
}

/* Completes the copies of all groups but the newest `groups_left`. */
void copy_wait(int groups_left) {
    thread *me = running();
    size_t kept = 0;
    for (const pending_copy &c : me->copies) {
        if (c.group >= me->group - groups_left) {
            me->copies[kept++] = c;
            continue;
        }
        memcpy(c.to, c.from, (size_t)c.valid);
        memset(static_cast<char *>(c.to) + c.valid, 0, (size_t)(c.bytes - c.valid));
    }
    me->copies.resize(kept);
}

} // namespace cuda_host
