/* test_fuse_source.c - pointwise nodes as CUDA C: one reviewed source; equal patterns give equal sources;
 * NVRTC accepts every op, where it is installed (it needs no GPU); compiled kernels on disk; division by
 * multiplication. */
#include "ops/cuda/pointwise/fuse.h"
#include "ops/cuda/dnn/program_cache.h"
#include "runtime/passes/passes.h"
#include "support/kernels/sample.h"
#include "weft/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef WEFT_HAS_CUDA
#include <nvrtc.h>
#endif

/* ---- texts ---- */

/* x is dense, a bias is repeated along rows, a number a row along columns; turned times one is a node of its
 * own. Two results. */
static weft_model *example(int64_t rows, int64_t columns) {
    weft_model *m = weft_model_new("example");
    weft_graph *g = weft_graph_new(m, "g", WEFT_TRAIN);
    weft_value *x = weft_input(g, "x", WEFT_BF16, 2, (int64_t[]){rows, columns});
    weft_value *bias = weft_input(g, "bias", WEFT_F32, 1, &columns);
    weft_value *row = weft_input(g, "row", WEFT_F32, 2, (int64_t[]){rows, 1});
    weft_value *one = weft_input(g, "one", WEFT_F32, 0, NULL);
    weft_value *turned = weft_input(g, "turned", WEFT_F32, 2, (int64_t[]){rows, columns});
    weft_value *sum = weft_gelu_tanh(weft_add(weft_cast(x, WEFT_F32), bias));
    weft_output(sum, "sum");
    weft_output(weft_cast(weft_scale(weft_mul(weft_sub(sum, row), weft_mul(turned, one)), 0.1), WEFT_BF16),
                "low");
    CHECK(pass_fuse(g, WEFT_DEVICE_CUDA));
    return m;
}

/* The one fused node, with `turned` stored column by column. */
static weft_node *fused_of(weft_model *m) {
    weft_node *found = NULL;
    for (weft_node *n = m->graphs->first; n; n = n->next) {
        if (n->n_body) found = n;
        if (strcmp(n->op->name, "input") == 0 && strcmp(input_name(n), "turned") == 0) {
            weft_value *v = &n->out[0];
            v->has_layout = true;
            v->stride[0] = 1;
            v->stride[1] = v->type.shape[0];
        }
    }
    return found;
}

static char *source_of(const weft_node *n) {
    fuse_plan p;
    const char *why = fuse_plan_of(n, &p);
    CHECK_SAYS(!why, "%s: %s", n->op->name, why);
    return why ? NULL : fuse_source(n, &p);
}

static const char *node_part(const char *source) {
    const char *at = strstr(source, "/* ---- the node ---- */");
    return at ? at : source;
}

TEST(the_text_of_a_node_is_what_was_read_and_agreed) {
    char want[8192] = "";
    const char *path = TEST_DATA "/golden/fused_node.txt";
    weft_model *m = example(64, 768);
    weft_node *n = fused_of(m);
    NEED(n);
    char *source = source_of(n);
    FILE *f = fopen(path, getenv("WEFT_UPDATE_GOLDENS") ? "wb" : "rb");
    if (CHECK_SAYS(f && source, "%s", path)) {
        if (getenv("WEFT_UPDATE_GOLDENS"))
            CHECK(fputs(node_part(source), f) >= 0);
        else if (CHECK(fread(want, 1, sizeof want - 1, f) > 0))
            CHECK_TEXT(node_part(source), want);
    }
    if (f) CHECK(fclose(f) == 0);
    free(source);
    weft_model_free(m);
}

TEST(equal_patterns_have_equal_texts_whatever_their_shapes) {
    weft_model *a = example(64, 768), *b = example(8, 16), *c = example(64, 765);
    char *of_a = source_of(fused_of(a)), *of_b = source_of(fused_of(b)), *of_c = source_of(fused_of(c));
    CHECK(of_a && of_b && strcmp(of_a, of_b) == 0);
    CHECK(of_a && of_c && strcmp(of_a, of_c) != 0); /* 765 is not a multiple of a vector */
    free(of_a);
    free(of_b);
    free(of_c);
    weft_model_free(a);
    weft_model_free(b);
    weft_model_free(c);
}

/* ---- NVRTC ---- */

#ifdef WEFT_HAS_CUDA
/* NVRTC's log; the caller frees it. */
static char *compile_log(const char *source, nvrtcResult *result) {
    const char *options[] = {"--gpu-architecture=sm_90", "--std=c++17", "--fmad=false", "--ptxas-options=-v"};
    nvrtcProgram program = NULL;
    size_t bytes = 0;
    *result = nvrtcCreateProgram(&program, source, "pointwise.cu", 0, NULL, NULL);
    if (*result == NVRTC_SUCCESS) *result = nvrtcCompileProgram(program, 4, options);
    bool has_log = nvrtcGetProgramLogSize(program, &bytes) == NVRTC_SUCCESS;
    char *log = test_memory(bytes + 1);
    log[0] = 0;
    if (has_log) CHECK(nvrtcGetProgramLog(program, log) == NVRTC_SUCCESS);
    CHECK(nvrtcDestroyProgram(&program) == NVRTC_SUCCESS);
    return log;
}

static void compile_check(const char *what, const char *source) {
    nvrtcResult result;
    char *log = compile_log(source, &result);
    CHECK_SAYS(result == NVRTC_SUCCESS, "%s: %s: %s", what, nvrtcGetErrorString(result), log);
    CHECK_SAYS(!strstr(log, "warning"), "%s: %s", what, log);
    CHECK_SAYS(strstr(log, " 0 bytes spill stores"), "%s spills registers: %s", what, log);
    free(log);
}

static void op_compile_check(const weft_op *op, weft_dtype dtype) {
    sample s;
    char what[100];
    op_sample spec = *op->samples;
    char in[200] = "";
    tensor_type types[3];
    int n = types_parse(spec.in, types, 3);
    for (int i = 0; i < n; i++)
        snprintf(in + strlen(in), sizeof in - strlen(in), "%s%s[37,64]", i ? ", " : "",
                 dtype_name(types[i].dtype == WEFT_F32 ? dtype : types[i].dtype));
    spec.in = in;
    sample_build(&s, op, &spec, false);
    snprintf(what, sizeof what, "%s of %s", op->name, dtype_name(dtype));
    char *source = s.n ? source_of(s.n) : NULL; /* NULL: the op does not take the type */
    if (source) compile_check(what, source);
    free(source);
    sample_free(&s);
}

TEST(nvrtc_compiles_every_op_without_a_warning_or_a_spill) {
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_BF16, WEFT_F16, WEFT_F64};
    weft_model *m = example(64, 768);
    char *source = source_of(fused_of(m));
    int major, minor;
    if (nvrtcVersion(&major, &minor) == NVRTC_SUCCESS) { /* else not on this machine */
        compile_check("a fused node", source);
        for (int i = 0; i < op_count(); i++)
            for (int k = 0; k < 4 && op_at(i)->flags & OP_POINTWISE; k++)
                op_compile_check(op_at(i), dtypes[k]);
    }
    free(source);
    weft_model_free(m);
}
#else
TEST(nvrtc_compiles_every_op_without_a_warning_or_a_spill) {
    CHECK(true); /* this build has no CUDA */
}
#endif

/* ---- compiled kernels on disk ---- */

static bool recalls(program_key key, const char *want) {
    program_code c;
    if (!program_recall(NULL, key, &c)) return false;
    bool same = c.bytes == strlen(want) && memcmp(c.code, want, c.bytes) == 0;
    mem_free(NULL, c.data, c.room);
    return same;
}

TEST(a_kept_kernel_is_found_and_a_bad_file_is_as_good_as_none) {
    char folder[] = "/tmp/weft_cache_XXXXXX", path[200], command[200];
    NEED(mkdtemp(folder));
    const char *before = getenv("XDG_CACHE_HOME");
    char *saved = before ? strdup(before) : NULL;
    setenv("XDG_CACHE_HOME", folder, 1);
    program_key a = program_key_of("source", "nvrtc 13"), b = program_key_of("source", "nvrtc 14");
    CHECK(a.high != b.high || a.low != b.low);
    CHECK(!recalls(a, "code"));
    program_keep(NULL, a, "code", 4);
    CHECK(recalls(a, "code"));
    CHECK(!recalls(b, "code"));
    snprintf(path, sizeof path, "%s/weft/nvrtc/%016llx%016llx.cubin", folder, (unsigned long long)a.high,
             (unsigned long long)a.low);
    struct stat st;
    for (long cut = 0; CHECK(stat(path, &st) == 0) && cut < st.st_size;
         cut += 7) { /* cut short, at every field */
        CHECK(truncate(path, cut) == 0);
        CHECK_SAYS(!recalls(a, "code"), "a file of %ld bytes is taken", cut);
        program_keep(NULL, a, "code", 4);
    }
    FILE *f = fopen(path, "r+b");
    CHECK(f && fseek(f, -1, SEEK_END) == 0 && fputc('x', f) == 'x' && fclose(f) == 0);
    CHECK(!recalls(a, "code"));
    CHECK(!recalls(a, "codx"));
    program_keep(NULL, a, "code", 4);
    CHECK(recalls(a, "code"));
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1); /* cannot be written: no harm */
    program_keep(NULL, a, "code", 4);
    CHECK(!recalls(a, "code"));
    if (saved)
        setenv("XDG_CACHE_HOME", saved, 1);
    else
        unsetenv("XDG_CACHE_HOME");
    free(saved);
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK(system(command) == 0);
}

/* ---- division ---- */

TEST(division_by_multiplication_is_exact_below_2_to_31) {
    static const int64_t lengths[] = {1,   2,   3,     5,     7,       10,         49,        64,
                                      641, 768, 50304, 65537, 1000003, 2147483646, 2147483647};
    test_random r = {.state = 3};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        divisor d = divisor_of(lengths[i], INT32_MAX), plain = divisor_of(lengths[i], (int64_t)1 << 40);
        for (int k = 0; k < 20000; k++) {
            uint64_t n = random_bits(&r) % INT32_MAX, edge = n / d.length * d.length;
            CHECK_SAYS(divide(n, &d) == n / d.length && divide(edge, &d) == edge / d.length &&
                           (edge == 0 || divide(edge - 1, &d) == (edge - 1) / d.length),
                       "%llu / %llu", (unsigned long long)n, (unsigned long long)d.length);
            CHECK(divide(n << 20, &plain) == (n << 20) / plain.length);
        }
    }
}

SUITE("fuse_source", {T(the_text_of_a_node_is_what_was_read_and_agreed),
                      T(equal_patterns_have_equal_texts_whatever_their_shapes),
                      T(nvrtc_compiles_every_op_without_a_warning_or_a_spill),
                      T(a_kept_kernel_is_found_and_a_bad_file_is_as_good_as_none),
                      T(division_by_multiplication_is_exact_below_2_to_31)})
