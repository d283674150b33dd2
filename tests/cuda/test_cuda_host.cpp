/* test_cuda_host.cpp - the emulated GPU (tests/cuda_host): correct kernels do what CUDA specifies, and wrong
 * ones are caught. Its streams and captures: test_cuda_streams_host.cpp. */
extern "C" {
#include "ops/kit/op_kit.h"
#include "support/test.h"
}
#include "cuda_host/state.h"
#include "ops/cuda/kit/mma.cuh"

#include <cmath>
#include <pthread.h>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
static int leaks_found() {
    return __lsan_do_recoverable_leak_check();
}
#else
static int leaks_found() {
    return 0;
}
#endif

/* ---- helpers ---- */

/* An array in the GPU's memory. */
template <class T> struct on_gpu {
    T *at = nullptr;
    size_t n;
    explicit on_gpu(size_t count) : n(count) {
        CHECK(cudaMalloc(&at, n * sizeof(T)) == cudaSuccess);
    }
    explicit on_gpu(const std::vector<T> &v) : on_gpu(v.size()) {
        CHECK(cudaMemcpy(at, v.data(), n * sizeof(T), cudaMemcpyHostToDevice) == cudaSuccess);
    }
    ~on_gpu() {
        cudaFree(at);
    }
    std::vector<T> fetch() const {
        std::vector<T> v(n);
        CHECK(cudaMemcpy(v.data(), at, n * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess);
        return v;
    }
};

/* Launches the kernel and waits for it. */
template <class... P, class... A>
static cudaError_t start(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, A... args) {
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    cudaError_t result = cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...);
    return result != cudaSuccess ? result : cudaDeviceSynchronize();
}

/* The message about a wrong kernel; repairs the GPU. */
static std::string trouble_of(cudaError_t result) {
    CHECK(result == cudaErrorLaunchFailure);
    std::string text = cudaGetErrorString(result);
    /* it stays broken until then */
    CHECK(cudaMalloc((void **)&result, 4) == cudaErrorLaunchFailure);
    cuda_host_forget_trouble();
    return text;
}

/* ---- threads, blocks, warps ---- */

/* Each thread writes its own index at the place that its coordinates say. */
static __global__ void where(uint3 *out) {
    int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] = threadIdx;
}

TEST(threads_know_where_they_are) {
    on_gpu<uint3> out(2 * 3 * 2 * 24);
    CHECK(start(where, dim3(2, 3, 2), dim3(4, 3, 2), 0, out.at) == cudaSuccess);
    std::vector<uint3> got = out.fetch();
    for (size_t i = 0; i < got.size(); i++)
        CHECK(got[i].x == i % 4 && got[i].y == i / 4 % 3 && got[i].z == i / 12 % 2);
}

static __global__ void sums(const float *x, float *out) {
    SHARED_ARRAY(float, scratch, [32]);
    float sum = block_sum(x[blockIdx.x * blockDim.x + threadIdx.x], scratch);
    float most = block_max(x[blockIdx.x * blockDim.x + threadIdx.x], scratch);
    if (threadIdx.x == blockDim.x - 1) out[2 * blockIdx.x] = sum, out[2 * blockIdx.x + 1] = most;
}

/* Whole numbers, so that the sums are exact. */
TEST(sums_of_a_block_are_right_in_any_order_of_its_threads) {
    cuda_host_run_twice(1);
    for (unsigned threads = 32; threads <= 1024; threads *= 2) {
        std::vector<float> x(3 * threads);
        for (size_t i = 0; i < x.size(); i++) x[i] = (float)(i % 17);
        on_gpu<float> in(x), out(6);
        CHECK(start(sums, 3, threads, 0, in.at, out.at) == cudaSuccess);
        for (unsigned b = 0; b < 3; b++) {
            float sum = 0;
            for (unsigned i = 0; i < threads; i++) sum += x[b * threads + i];
            CHECK(out.fetch()[2 * b] == sum && out.fetch()[2 * b + 1] == 16);
        }
    }
    cuda_host_run_twice(0);
}

/* Without the barrier, a thread may read an element that is not written yet. */
static __global__ void reverse(int *x, bool with_barrier) {
    SHARED_ARRAY(int, copy, [64]);
    copy[threadIdx.x] = x[threadIdx.x];
    if (with_barrier) __syncthreads();
    x[threadIdx.x] = copy[63 - threadIdx.x];
}

/* The stacks of a block's threads are kept for the next launch, which may come from another thread of the
 * host. If AddressSanitizer took the first thread's stack for the second's, everything that only the second's
 * stack refers to would be a leak, or reading it would fault. */
static void *launch_reverse(void *x) {
    CHECK(start(reverse, 1, 64, 0, (int *)x, true) == cudaSuccess);
    return nullptr;
}

TEST(threads_of_the_host_may_launch_in_turn) {
    on_gpu<int> x(std::vector<int>(64, 7));
    pthread_t other;
    CHECK(pthread_create(&other, nullptr, launch_reverse, x.at) == 0);
    CHECK(pthread_join(other, nullptr) == 0);
    void *volatile kept = malloc(10);
    launch_reverse(x.at);
    CHECK(leaks_found() == 0);
    free(kept);
    CHECK(x.fetch()[5] == 7);
}

TEST(a_missing_barrier_shows) {
    on_gpu<int> x(std::vector<int>(64, 7));
    CHECK(start(reverse, 1, 64, 0, x.at, true) == cudaSuccess);
    CHECK(x.fetch()[5] == 7);
    cuda_host_run_twice(1);
    CHECK_HOLDS(trouble_of(start(reverse, 1, 64, 0, x.at, false)).c_str(), "other bits");
    cuda_host_run_twice(0);
}

/* Four kernels that break one rule each. */
static __global__ void half_a_barrier() {
    if (threadIdx.x < 40) __syncthreads();
}
static __global__ void two_barriers() {
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncwarp();
    if (threadIdx.x == 50) __shfl_sync(0x3u << 18, 1, 18);
    __syncthreads();
}
static __global__ void wrong_mask() {
    __shfl_xor_sync(0xffffu, 1, 1);
}
static __global__ void two_operations() {
    if (threadIdx.x % 2)
        __shfl_xor_sync(0xffffffffu, 1, 1);
    else
        __ballot_sync(0xffffffffu, 1);
}

TEST(barriers_and_warp_operations_that_not_all_reach_are_caught) {
    CHECK_HOLDS(trouble_of(start(half_a_barrier, 2, 64, 0)).c_str(),
                "40 of the block's 64 threads are at __syncthreads, 24 have ended");
    CHECK_HOLDS(trouble_of(start(two_barriers, 1, 64, 0)).c_str(),
                "1 are at warp operations (thread 50 at __shfl_sync");
    CHECK_HOLDS(trouble_of(start(wrong_mask, 1, 32, 0)).c_str(),
                "__shfl_xor_sync with mask 0xffff, which lacks its own lane");
    CHECK_HOLDS(trouble_of(start(two_operations, 1, 32, 0)).c_str(), "with the same mask");
    on_gpu<uint3> out(32); /* and the next kernel runs */
    CHECK(start(where, 1, 32, 0, out.at) == cudaSuccess);
}

static __global__ void shuffles(int *out, int width) {
    int lane = threadIdx.x;
    out[lane] = __shfl_sync(0xffffffffu, lane, 3, width);
    out[32 + lane] = __shfl_xor_sync(0xffffffffu, lane, 5, width);
    out[64 + lane] = __shfl_up_sync(0xffffffffu, lane, 2, width);
    out[96 + lane] = __shfl_down_sync(0xffffffffu, lane, 2, width);
    out[128 + lane] = (int)__ballot_sync(0xffffffffu, lane % 3 == 0);
    out[160 + lane] = __any_sync(0xffffffffu, lane == 9) + 2 * __all_sync(0xffffffffu, lane < 31);
}

TEST(shuffles_and_votes_are_as_the_guide_says) {
    for (int width = 8; width <= 32; width *= 2) {
        on_gpu<int> out(192);
        CHECK(start(shuffles, 1, 32, 0, out.at, width) == cudaSuccess);
        std::vector<int> got = out.fetch();
        for (int lane = 0; lane < 32; lane++) {
            int first = lane / width * width, last = first + width;
            CHECK(got[lane] == first + 3);
            CHECK(got[32 + lane] == ((lane ^ 5) < last ? (lane ^ 5) : lane));
            CHECK(got[64 + lane] == (lane - 2 >= first ? lane - 2 : lane));
            CHECK(got[96 + lane] == (lane + 2 < last ? lane + 2 : lane));
            CHECK((unsigned)got[128 + lane] == 0x49249249u && got[160 + lane] == 1);
        }
    }
}

/* Lane 3 ends before the shuffle that the others do. */
static __global__ void short_warp(float *out) {
    if (threadIdx.x == 3) return;
    out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
}

TEST(a_lane_that_has_ended_is_not_waited_for_and_gives_garbage) {
    on_gpu<float> out(std::vector<float>(20, 0));
    CHECK(start(short_warp, 1, 20, 0, out.at) == cudaSuccess);
    CHECK(out.fetch()[0] == 1 && out.fetch()[3] == 0 && std::isnan(out.fetch()[2]));
}

/* ---- shared memory ---- */

static __global__ void unset(float *out) {
    SHARED_ARRAY(float, fixed, [32]);
    SHARED_MEMORY(float, flexible);
    out[blockIdx.x * 64 + threadIdx.x] = fixed[threadIdx.x];
    out[blockIdx.x * 64 + 32 + threadIdx.x] = flexible[threadIdx.x];
    fixed[threadIdx.x] = flexible[threadIdx.x] = 1;
}

TEST(shared_and_fresh_memory_are_nan) {
    on_gpu<float> out(192), fresh(3);
    CHECK(start(unset, 3, 32, 32 * sizeof(float), out.at) == cudaSuccess);
    for (float x : out.fetch()) CHECK(std::isnan(x));
    for (float x : fresh.fetch()) CHECK(std::isnan(x));
}

static __global__ void set_last(float *x, int64_t n) {
    x[n - 1] = 4;
}

TEST(large_memory_is_like_small) {
    const size_t n = (9 << 20) / 4 + 1;
    on_gpu<float> x(n);
    CHECK(start(set_last, 1, 1, 0, x.at, (int64_t)n) == cudaSuccess);
    std::vector<float> got = x.fetch();
    CHECK(std::isnan(got[0]) && std::isnan(got[n / 2]) && std::isnan(got[n - 2]) && got[n - 1] == 4);
}

static __global__ void much_shared(int *out) {
    SHARED_MEMORY(int, all);
    all[25599] = 3;
    *out = all[25599];
}
static __global__ void too_much() {
    SHARED_ARRAY(double, large, [6145]);
    large[threadIdx.x] = 0;
}

TEST(limits_of_a_launch_are_kept) {
    on_gpu<int> out(1);
    CHECK(start(much_shared, 1, 1, 100 << 10, out.at) == cudaErrorInvalidValue);
    CHECK(cudaFuncSetAttribute(much_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 << 10) ==
          cudaErrorInvalidValue);
    CHECK(cudaFuncSetAttribute(much_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10) ==
          cudaSuccess);
    CHECK(start(much_shared, 1, 1, 100 << 10, out.at) == cudaSuccess && out.fetch()[0] == 3);
    CHECK(start(much_shared, dim3(1, 65536), 1, 0, out.at) == cudaErrorInvalidConfiguration);
    CHECK(start(much_shared, 1, 1025, 0, out.at) == cudaErrorInvalidConfiguration);
    CHECK(start(much_shared, 0, 1, 0, out.at) == cudaErrorInvalidConfiguration);
    CHECK_HOLDS(trouble_of(start(much_shared, 1, 1, 0, out.at)).c_str(), "the launch gives none");
    CHECK_HOLDS(trouble_of(start(too_much, 1, 1, 0)).c_str(), "49160 bytes");
}

/* ---- atomics, arguments ---- */

static __global__ void count(int *n, unsigned long long *sum, float *rounded) {
    atomicAdd(n, 1);
    atomicAdd(sum, (unsigned long long)threadIdx.x);
    if (rounded) atomicAdd(rounded, 1.0f / (1 + threadIdx.x));
    atomicMax(n + 1, (int)threadIdx.x);
    if (atomicCAS(n + 2, 0, 5) == 0) atomicAdd(n + 3, 1);
}

TEST(atomics_add_up_and_those_of_floats_depend_on_the_order) {
    on_gpu<int> n(std::vector<int>(4, 0));
    on_gpu<unsigned long long> sum(std::vector<unsigned long long>(1, 0));
    on_gpu<float> rounded(std::vector<float>(1, 0));
    cuda_host_run_twice(1);
    CHECK(start(count, 4, 256, 0, n.at, sum.at, (float *)nullptr) == cudaSuccess);
    CHECK(n.fetch() == (std::vector<int>{1024, 255, 5, 1}) && sum.fetch()[0] == 4 * 255 * 128);
    CHECK_HOLDS(trouble_of(start(count, 4, 256, 0, n.at, sum.at, rounded.at)).c_str(), "other bits");
    cuda_host_run_twice(0);
}

TEST(an_address_of_the_host_is_no_argument) {
    int here[4] = {0};
    static unsigned long long there;
    on_gpu<int> n(4);
#ifndef __SANITIZE_ADDRESS__
    CHECK_HOLDS(trouble_of(start(count, 1, 1, 0, here, &there, (float *)nullptr)).c_str(), "argument 0");
    CHECK_HOLDS(trouble_of(start(count, 1, 1, 0, n.at, &there, (float *)nullptr)).c_str(), "argument 1");
#else
    (void)here, (void)there;
#endif
}

/* ---- numbers ---- */

/* All 65,536 values there and back; then random bits and random numbers against the library's own
 * conversion. */
TEST(low_types_round_as_the_library_does) {
    test_random r = {9};
    for (unsigned bits = 0; bits < 65536; bits++) {
        __half h = __ushort_as_half((unsigned short)bits);
        __nv_bfloat16 b = __ushort_as_bfloat16((unsigned short)bits);
        if (!__hisnan(h)) CHECK(__half_as_ushort(__float2half_rn(__half2float(h))) == bits);
        if (!__hisnan(b)) CHECK(__bfloat16_as_ushort(__float2bfloat16_rn(__bfloat162float(b))) == bits);
    }
    for (int i = 0; i < 20000; i++) {
        float x = __uint_as_float((unsigned)random_bits(&r));
        float y = ldexpf((float)random_in(&r, -1, 1), (int)(random_bits(&r) % 50) - 30);
        if (std::isnan(x)) continue;
        CHECK((double)__half2float(__float2half_rn(x)) == convert_element(WEFT_F16, x));
        CHECK((double)__half2float(__float2half_rn(y)) == convert_element(WEFT_F16, y));
        CHECK((double)__bfloat162float(__float2bfloat16_rn(x)) == convert_element(WEFT_BF16, x));
    }
    CHECK(__float2int_rn(2.5f) == 2 && __float2int_rn(1e20f) == 2147483647 && __float2int_rz(-1.7f) == -1);
    CHECK(__umulhi(0x80000000u, 6) == 3 && __clz(1) == 31 && __ffs(8) == 4 && __brev(1) == 0x80000000u);
}

/* ---- tensor cores ---- */

/* D = A B in two ways: operands by cp.async and ldmatrix; and register by register, with 1 added. */
template <class Low>
static __global__ void product(const Low *a, const Low *b, float *loaded, float *direct) {
    SHARED_ARRAY(Low, sa, [16][16]);
    SHARED_ARRAY(Low, sb, [16][8]);
    int lane = threadIdx.x, row = lane / 4, column = lane % 4 * 2;
    copy_async_16(&sa[lane / 2][lane % 2 * 8], a + lane * 8);
    if (lane < 16) copy_async_16(&sb[lane][0], b + lane * 8);
    copy_async_commit();
    copy_async_wait<0>();
    __syncthreads();
    unsigned ra[4], rb[2];
    ldmatrix_x4(ra, &sa[lane % 16][lane / 16 * 8]);
    ldmatrix_x2_trans(rb, &sb[lane % 16][0]);
    float d[4] = {0, 0, 0, 0};
    if (sizeof(Low) == 2 && std::is_same<Low, __nv_bfloat16>::value)
        mma_16816_bf16(d, ra, rb);
    else
        mma_16816_f16(d, ra, rb);
    for (int i = 0; i < 4; i++) loaded[(row + i / 2 * 8) * 8 + column + i % 2] = d[i];

    for (int i = 0; i < 4; i++) memcpy(&ra[i], a + (row + i % 2 * 8) * 16 + column + i / 2 * 8, 4);
    for (int i = 0; i < 2; i++) {
        Low pair[2] = {b[(column + i * 8) * 8 + row], b[(column + 1 + i * 8) * 8 + row]};
        memcpy(&rb[i], pair, 4);
    }
    for (int i = 0; i < 4; i++) d[i] = 1;
    if (std::is_same<Low, __nv_bfloat16>::value)
        mma_16816_bf16(d, ra, rb);
    else
        mma_16816_f16(d, ra, rb);
    for (int i = 0; i < 4; i++) direct[(row + i / 2 * 8) * 8 + column + i % 2] = d[i];
}

/* Against products in f64. */
template <class Low> static void product_check() {
    test_random r = {4};
    std::vector<Low> a(256), b(128);
    for (Low &x : a) x = Low((float)random_in(&r, -2, 2));
    for (Low &x : b) x = Low((float)random_in(&r, -2, 2));
    on_gpu<Low> ga(a), gb(b);
    on_gpu<float> loaded(128), direct(128);
    CHECK(start(product<Low>, 1, 32, 0, ga.at, gb.at, loaded.at, direct.at) == cudaSuccess);
    std::vector<float> got = loaded.fetch(), plus_one = direct.fetch();
    for (int i = 0; i < 128; i++) {
        double want = 0;
        for (int k = 0; k < 16; k++)
            want += (double)(float)a[i / 8 * 16 + k] * (double)(float)b[k * 8 + i % 8];
        CHECK_SAYS(fabs(got[i] - want) < 1e-5, "[%d,%d] is %g, not %g", i / 8, i % 8, (double)got[i], want);
        CHECK(fabs(plus_one[i] - want - 1) < 1e-5);
    }
}

TEST(tensor_cores_multiply) {
    product_check<__nv_bfloat16>();
    product_check<__half>();
}

/* Reads before and after the waits. */
static __global__ void impatient(const float *x, float *out) {
    SHARED_ARRAY(float4, copy, [2]);
    copy_async_16(&copy[0], x);
    copy_async_commit();
    copy_async_16(&copy[1], x, false);
    copy_async_commit();
    out[0] = copy[0].x;
    copy_async_wait<1>();
    out[1] = copy[0].x;
    out[2] = copy[1].x;
    copy_async_wait<0>();
    out[3] = copy[1].x;
}

TEST(copies_into_shared_memory_are_there_when_they_were_waited_for) {
    on_gpu<float> x(std::vector<float>{3, 4, 5, 6}), out(4);
    CHECK(start(impatient, 1, 1, 0, x.at, out.at) == cudaSuccess);
    std::vector<float> got = out.fetch();
    CHECK(std::isnan(got[0]) && got[1] == 3 && std::isnan(got[2]) && got[3] == 0);
}

/* ---- what AddressSanitizer finds ---- */

#if defined(__SANITIZE_ADDRESS__)
#include <sys/wait.h>
#include <unistd.h>

/* Whether the sanitizer ends a process that does this; it runs in a child. */
template <class F> static bool is_caught(F wrong) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(0);
        wrong();
        _exit(0);
    }
    return waitpid(child, &status, 0) == child && !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static __global__ void write_at(float *x, int i, bool in_shared) {
    SHARED_ARRAY(float, fixed, [8]);
    SHARED_MEMORY(float, flexible);
    flexible[0] = fixed[0] = 0;
    (in_shared ? fixed : x ? x : flexible)[i] = 1;
}

TEST(writes_beyond_buffers_and_the_hosts_hands_on_the_gpus_memory_are_caught) {
    on_gpu<float> x(10);
    CHECK(!is_caught([&] { start(write_at, 1, 1, 32, x.at, 9, false); }));
    CHECK(is_caught([&] { start(write_at, 1, 1, 32, x.at, 10, false); }));
    CHECK(is_caught([&] { start(write_at, 1, 1, 32, x.at, 8, true); }));
    CHECK(is_caught([&] { start(write_at, 1, 1, 32, (float *)nullptr, 8, false); }));
    CHECK(is_caught([&] { x.at[0] = 1; }));
    on_gpu<float> large(2 << 20);
    CHECK(!is_caught([&] { start(write_at, 1, 1, 32, large.at, (2 << 20) - 1, false); }));
    CHECK(is_caught([&] { start(write_at, 1, 1, 32, large.at, 2 << 20, false); }));
    CHECK(is_caught([&] { large.at[9] = 1; }));
}
#define T_SANITIZED , T(writes_beyond_buffers_and_the_hosts_hands_on_the_gpus_memory_are_caught)
#else
#define T_SANITIZED
#endif

SUITE("cuda host",
      {T(threads_know_where_they_are), T(sums_of_a_block_are_right_in_any_order_of_its_threads),
       T(threads_of_the_host_may_launch_in_turn), T(a_missing_barrier_shows),
       T(barriers_and_warp_operations_that_not_all_reach_are_caught),
       T(shuffles_and_votes_are_as_the_guide_says),
       T(a_lane_that_has_ended_is_not_waited_for_and_gives_garbage), T(shared_and_fresh_memory_are_nan),
       T(large_memory_is_like_small), T(limits_of_a_launch_are_kept),
       T(atomics_add_up_and_those_of_floats_depend_on_the_order), T(an_address_of_the_host_is_no_argument),
       T(low_types_round_as_the_library_does), T(tensor_cores_multiply),
       T(copies_into_shared_memory_are_there_when_they_were_waited_for) T_SANITIZED})
