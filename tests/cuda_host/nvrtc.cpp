/* nvrtc.cpp - see nvrtc.h. The source is compiled as C++ after a few declarations (no headers, which would
 * take longer than the kernels), and followed by the `cuda_host::kernel` of each of its kernels. "Machine
 * code" is the shared object itself after a line that says so; launch.cpp loads it. */
#include "cuda_host/nvrtc.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern char **environ;

struct _nvrtcProgram {
    std::string source, log, code;
};

static std::atomic<int> compilations;

/* A suite compiles hundreds of programs and runs each on a few thousand elements. Without optimization and
 * without libraries, which the test program has, a compilation takes half the time. A vector at an address
 * that is not a multiple of its size is a fault on a GPU, and an illegal instruction here. */
static const char *const compiler[] = {"c++",
                                       "-std=gnu++17",
                                       "-w",
                                       "-O0",
                                       "-ffp-contract=off",
                                       "-fno-strict-aliasing",
                                       "-fno-exceptions",
                                       "-fsanitize=alignment",
                                       "-fsanitize-undefined-trap-on-error",
                                       "-nostdlib",
                                       "-shared",
                                       "-fPIC"};

/* CUDA's names as far as generated kernels use them; threadIdx and the like are the emulator's own. */
static const char before[] = R"(
#define __global__
#define __device__
#define __launch_bounds__(...)
struct uint3 { unsigned x, y, z; };
extern uint3 threadIdx, blockIdx, blockDim, gridDim;
extern "C" {
float fabsf(float); float sqrtf(float); float expf(float); float logf(float); float log1pf(float); float tanhf(float);
float erff(float); float powf(float, float);
double fabs(double); double sqrt(double); double exp(double); double log(double); double log1p(double); double tanh(double);
double erf(double); double pow(double, double);
float sinf(float); float cosf(float); float tanf(float); float asinf(float); float acosf(float); float atanf(float);
float sinhf(float); float coshf(float); float asinhf(float); float acoshf(float); float atanhf(float); float atan2f(float, float);
double sin(double); double cos(double); double tan(double); double asin(double); double acos(double); double atan(double);
double sinh(double); double cosh(double); double asinh(double); double acosh(double); double atanh(double); double atan2(double, double);
float floorf(float); float rintf(float); float truncf(float); float fmodf(float, float); float expm1f(float);
double floor(double); double rint(double); double trunc(double); double fmod(double, double); double expm1(double);
float copysignf(float, float); double copysign(double, double);
}
static inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
static inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
static inline int atomicCAS(int *at, int expected, int value) { return __sync_val_compare_and_swap(at, expected, value); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
/* As the hardware's: by the reciprocal, and 0 beyond 2^126. */
static inline float __fdividef(float x, float y) { return fabsf(y) > 0x1p126f ? 0.0f : x * (1.0f / y); }
static inline unsigned short bf16_bits(float x) {
    unsigned bits = __float_as_uint(x);
    if (x != x) return 0x7fff;
    return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
static inline unsigned short f16_bits(float x) { return __builtin_bit_cast(unsigned short, (_Float16)x); }
static inline float f16_float(unsigned short x) { return (float)__builtin_bit_cast(_Float16, x); }
)";

/* For each `extern "C" __global__ void ... NAME(const TYPE p)`: a NAME_kernel, with a function that calls
 * it. */
static std::string after(const std::string &source) {
    const std::string mark = "extern \"C\" __global__ void";
    std::string text =
        "struct host_kernel { void (*call)(void **); int n_args; const unsigned long *bytes; };\n";
    for (size_t at = source.find(mark); at != std::string::npos; at = source.find(mark, at + 1)) {
        size_t type = source.find("(const ", at), end = source.find(" p)", type),
               name = source.rfind(' ', type);
        if (end == std::string::npos) continue;
        std::string of = source.substr(type + 7, end - type - 7),
                    kernel = source.substr(name + 1, type - name - 1);
        text += "static const unsigned long " + kernel + "_bytes[] = {sizeof(" + of + ")};\n";
        text += "static void " + kernel + "_call(void **a) { " + kernel + "(*(const " + of + " *)a[0]); }\n";
        text += "extern \"C\" { extern const host_kernel " + kernel + "_kernel; }\n";
        text += "const host_kernel " + kernel + "_kernel = {" + kernel + "_call, 1, " + kernel + "_bytes};\n";
    }
    return text;
}

static bool file_write(const std::string &path, const std::string &text) {
    FILE *f = fopen(path.c_str(), "wb");
    bool good = f && fwrite(text.data(), 1, text.size(), f) == text.size();
    return f && fclose(f) == 0 && good;
}

static bool file_read(const std::string &path, std::string &text) {
    char part[65536];
    FILE *f = fopen(path.c_str(), "rb");
    if (!f) return false;
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;) text.append(part, n);
    bool good = !ferror(f);
    fclose(f);
    return good;
}

/* Runs the host's compiler on source.cpp of the folder; its messages go to log.txt there. */
static bool compiler_run(const std::string &folder) {
    std::string source = folder + "/source.cpp", object = folder + "/code.so", log = folder + "/log.txt";
    std::vector<char *> argv;
    for (const char *w : compiler) argv.push_back(const_cast<char *>(w));
    for (const char *w : {"-o", object.c_str(), source.c_str(), (const char *)NULL})
        argv.push_back(const_cast<char *>(w));
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = 1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    bool good = posix_spawnp(&child, "c++", &actions, NULL, argv.data(), environ) == 0 &&
                waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    posix_spawn_file_actions_destroy(&actions);
    return good;
}

/* The options that Weft passes; all others are errors. */
static bool is_option(const char *option) {
    return strncmp(option, "--gpu-architecture=sm_", 22) == 0 ||
           strncmp(option, "--gpu-architecture=compute_", 27) == 0 || strcmp(option, "--std=c++17") == 0 ||
           strncmp(option, "--fmad=", 7) == 0;
}

extern "C" {

const char *nvrtcGetErrorString(nvrtcResult result) {
    return result == NVRTC_SUCCESS                ? "no error"
           : result == NVRTC_ERROR_COMPILATION    ? "compilation"
           : result == NVRTC_ERROR_INVALID_OPTION ? "invalid option"
                                                  : "invalid input";
}

/* A hash of everything that decides how a program is compiled, so that no cache survives a change of it. */
static unsigned version() {
    std::string all = before;
    for (const char *word : compiler) all += word;
    return (unsigned)std::hash<std::string>()(all) >> 1;
}

nvrtcResult nvrtcVersion(int *major, int *minor) {
    /* no cache can take this for the real compiler's */
    *major = 0;
    *minor = (int)version();
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetNumSupportedArchs(int *count) {
    *count = 2;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int *list) {
    list[0] = 80;
    list[1] = 90;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *, int n_headers,
                               const char *const *, const char *const *) {
    if (!source || n_headers) return NVRTC_ERROR_INVALID_INPUT;
    *program = new _nvrtcProgram{source, "", ""};
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program) {
    delete *program;
    *program = NULL;
    return NVRTC_SUCCESS;
}

/* Compiles in a folder of its own, which is removed afterwards. */
nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int n_options, const char *const *options) {
    for (int i = 0; i < n_options; i++)
        if (!is_option(options[i])) return NVRTC_ERROR_INVALID_OPTION;
    const char *scratch = getenv("TMPDIR");
    std::string folder = std::string(scratch && *scratch ? scratch : "/tmp") + "/weft_nvrtc_XXXXXX", object;
    if (!mkdtemp(folder.data())) return NVRTC_ERROR_OUT_OF_MEMORY;
    bool good = file_write(folder + "/source.cpp", before + program->source + after(program->source)) &&
                compiler_run(folder) && file_read(folder + "/code.so", object);
    program->log.clear();
    file_read(folder + "/log.txt", program->log);
    char length[32];
    snprintf(length, sizeof length, "%zu", object.size());
    program->code = "cuda_host:" + std::string(length) + ":" + object;
    for (const char *name : {"/source.cpp", "/log.txt", "/code.so"}) unlink((folder + name).c_str());
    rmdir(folder.c_str());
    compilations++;
    return good ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *bytes) {
    *bytes = program->code.size();
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *code) {
    memcpy(code, program->code.data(), program->code.size());
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *bytes) {
    return nvrtcGetCUBINSize(program, bytes);
}

nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *code) {
    return nvrtcGetCUBIN(program, code);
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *bytes) {
    *bytes = program->log.size() + 1;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log) {
    memcpy(log, program->log.c_str(), program->log.size() + 1);
    return NVRTC_SUCCESS;
}

int nvrtc_host_compilations(void) {
    return compilations;
}

} /* extern "C" */
