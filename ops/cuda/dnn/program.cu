/* program.cu - see program.cuh: a source becomes code (from the disk cache or by NVRTC), the code a loaded
 * library with two kernels. */
#include "ops/cuda/dnn/program.cuh"

extern "C" {
#include "ops/cuda/dnn/program_cache.h"
}

#include <nvrtc.h>

#include <stdio.h>
#include <string.h>

/* The session's list; it owns the programs that are in it. */
struct cuda_programs {
    const weft_env *env;
    cuda_program *first;
};

extern "C" cuda_programs *cuda_programs_new(const weft_env *env) {
    cuda_programs *p = static_cast<cuda_programs *>(mem_new(env, sizeof *p));
    if (p) p->env = env;
    return p;
}

static void program_free(cuda_program *p) {
    /* a failure here leaves nothing to do */
    if (p->library) cudaLibraryUnload(p->library);
    mem_free(p->env, p, sizeof *p);
}

extern "C" void cuda_programs_free(cuda_programs *list) {
    if (!list) return;
    for (cuda_program *p = list->first, *next; p; p = next) {
        next = p->next;
        program_free(p);
    }
    mem_free(list->env, list, sizeof *list);
}

/* ---- NVRTC ---- */

/* What NVRTC compiles for: this GPU where this NVRTC knows it (machine code), else the newest older one that
 * it knows, as PTX, which the driver compiles on. */
struct target {
    char option[40];
    bool is_ptx;
};

/* Returns false when NVRTC knows no GPU as old as this one. */
static bool target_of(int capability, target *t) {
    int count = 0, archs[64], newest = 0;
    if (nvrtcGetNumSupportedArchs(&count) != NVRTC_SUCCESS || count < 1 || count > 64) return false;
    if (nvrtcGetSupportedArchs(archs) != NVRTC_SUCCESS) return false;
    for (int i = 0; i < count; i++)
        if (archs[i] <= capability && archs[i] > newest) newest = archs[i];
    t->is_ptx = newest != capability;
    snprintf(t->option, sizeof t->option, "--gpu-architecture=%s_%d", t->is_ptx ? "compute" : "sm", newest);
    return newest > 0;
}

/* Products and sums are not fused: an element has the same bits within a vector, after the last whole vector,
 * and on the CPU. */
static const char *const fixed_options[] = {"--std=c++17", "--fmad=false"};

/* The error carries NVRTC's log, which names the line of the source. */
static weft_status fail_compile(weft_error *error, nvrtcProgram program, nvrtcResult result) {
    char log[4096] = "";
    size_t bytes = 0;
    if (program && nvrtcGetProgramLogSize(program, &bytes) == NVRTC_SUCCESS && bytes <= sizeof log &&
        nvrtcGetProgramLog(program, log) != NVRTC_SUCCESS)
        log[0] = 0;
    return error_set(error, WEFT_DEVICE, "NVRTC: %s: %.600s", nvrtcGetErrorString(result), log);
}

static nvrtcResult compile(nvrtcProgram *program, const char *source, const target *t) {
    const char *options[] = {t->option, fixed_options[0], fixed_options[1]};
    nvrtcResult result = nvrtcCreateProgram(program, source, "pointwise.cu", 0, NULL, NULL);
    return result == NVRTC_SUCCESS ? nvrtcCompileProgram(*program, 3, options) : result;
}

/* Compiles the source. *code is allocated from env and *bytes long; the caller frees it. */
static weft_status code_make(const weft_env *env, const char *source, const target *t, char **code,
                             size_t *bytes, weft_error *error) {
    nvrtcProgram program = NULL;
    weft_status status = WEFT_OK;
    nvrtcResult result = compile(&program, source, t);
    *code = NULL;
    if (result == NVRTC_SUCCESS)
        result = t->is_ptx ? nvrtcGetPTXSize(program, bytes) : nvrtcGetCUBINSize(program, bytes);
    if (result == NVRTC_SUCCESS) {
        *code = static_cast<char *>(mem_new(env, *bytes));
        if (*code)
            result = t->is_ptx ? nvrtcGetPTX(program, *code) : nvrtcGetCUBIN(program, *code);
        else
            status = error_memory(error, "a pointwise kernel");
    }
    if (result != NVRTC_SUCCESS) status = fail_compile(error, program, result);
    if (status != WEFT_OK && *code) mem_free(env, *code, *bytes);
    if (program) nvrtcDestroyProgram(&program);
    return status;
}

/* ---- loading ---- */

/* Every source defines these two kernels (fuse.h). */
static bool load(cuda_program *p, const void *code) {
    return cudaLibraryLoadData(&p->library, code, NULL, NULL, 0, NULL, NULL, 0) == cudaSuccess &&
           cudaLibraryGetKernel(&p->vectors, p->library, "pointwise") == cudaSuccess &&
           cudaLibraryGetKernel(&p->narrow, p->library, "pointwise_narrow") == cudaSuccess;
}

/* A program that loads is also kept on disk. */
static weft_status make_and_load(const kernel_env *env, const char *source, const target *t, program_key key,
                                 cuda_program *p, weft_error *error) {
    char *code;
    size_t bytes = 0;
    weft_status status = code_make(env->env, source, t, &code, &bytes, error);
    if (status != WEFT_OK) return status;
    if (load(p, code))
        program_keep(env->env, key, code, bytes);
    else
        status = error_set(error, WEFT_DEVICE, "a compiled pointwise kernel cannot be loaded: %s",
                           cudaGetErrorString(cudaGetLastError()));
    mem_free(env->env, code, bytes);
    return status;
}

/* Returns false when the disk has no code that loads. */
static bool recall_and_load(const kernel_env *env, program_key key, cuda_program *p) {
    program_code c;
    if (!program_recall(env->env, key, &c)) return false;
    bool good = load(p, c.code);
    mem_free(env->env, c.data, c.room);
    if (good) return true;
    if (p->library) cudaLibraryUnload(p->library);
    p->library = NULL;
    /* a file that this driver rejects counts as absent: it is compiled again */
    (void)cudaGetLastError();
    return false;
}

static cuda_program *find(const cuda_programs *list, program_key key) {
    cuda_program *p = list ? list->first : NULL;
    while (p && (p->key[0] != key.high || p->key[1] != key.low)) p = p->next;
    return p;
}

/* The key holds source, NVRTC's version, target and options. In the order of cost: the session's list, the
 * disk, the compiler. */
weft_status cuda_program_open(const kernel_env *env, const char *source, cuda_program **program,
                              weft_error *error) {
    char compiler[120];
    int major = 0, minor = 0;
    target t;
    nvrtcResult result = nvrtcVersion(&major, &minor);
    if (result != NVRTC_SUCCESS)
        return error_set(error, WEFT_DEVICE, "NVRTC: %s", nvrtcGetErrorString(result));
    if (!target_of(env->cuda->capability, &t))
        return error_set(error, WEFT_DEVICE, "NVRTC knows no GPU like this one, compute capability %d.%d",
                         env->cuda->capability / 10, env->cuda->capability % 10);
    snprintf(compiler, sizeof compiler, "nvrtc %d.%d %s %s %s", major, minor, t.option, fixed_options[0],
             fixed_options[1]);
    program_key key = program_key_of(source, compiler);
    /* nodes of one pattern share a program, so the search mostly ends here */
    *program = find(env->cuda->programs, key);
    if (*program) return WEFT_OK;
    cuda_program *p = static_cast<cuda_program *>(mem_new(env->env, sizeof *p));
    if (!p) return error_memory(error, "a pointwise kernel");
    p->env = env->env;
    p->key[0] = key.high;
    p->key[1] = key.low;
    weft_status status =
        recall_and_load(env, key, p) ? WEFT_OK : make_and_load(env, source, &t, key, p, error);
    if (status != WEFT_OK) {
        program_free(p);
        return status;
    }
    /* Without a list each node owns its program. */
    if (env->cuda->programs) {
        p->is_shared = true;
        p->next = env->cuda->programs->first;
        env->cuda->programs->first = p;
    }
    *program = p;
    return WEFT_OK;
}

void cuda_program_close(cuda_program *program) {
    if (program && !program->is_shared) program_free(program);
}
