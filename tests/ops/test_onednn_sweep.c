/* test_onednn_sweep.c - the library itself as an input: every kernel that calls oneDNN, on small random
 * shapes and on each instruction set that oneDNN can be limited to here, against plain loops
 * (support/kernels/naive.h).
 *
 * oneDNN reads its instruction set once per process, so each runs in a process of its own, which may also
 * crash or hang. Buffers end at an inaccessible page and lie between guard words; results and workspaces
 * start as NaN. A seed is a shape of one sequence, and a case is a shape on one instruction set. */
#include "graph/text/text.h"
#include "ops/catalog/catalog.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/onednn/onednn.h"
#include "ops/kit/op_kit.h"
#include "ops/image/pack.h"
#include "support/kernels/naive.h"
#include "support/kernels/onednn_case.h"
#include "support/kernels/sample.h"

#include <cpuid.h>
#include <errno.h>
#include <immintrin.h>
#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_TEXTS = 40, MOST_KERNELS = 16, SLOT_BYTES = 64 << 20, PAGE = 4096, FENCE = 64, DEADLINE = 20 };

/* The results of the processes of one instruction set. */
typedef struct report {
    volatile uint64_t at; /* the case that runs */
    volatile uint64_t run, skipped, failed;
    volatile uint64_t met;   /* runs of the kernel that the job names */
    volatile int slot;       /* whose end was passed by the process that crashed, -1: none's */
    volatile int64_t beyond; /* by how many bytes */
    int texts;
    char text[MOST_TEXTS][700];
} report;

/* ---- fenced memory ---- */

/* Operands, the result, workspace, scratch of packing, the packed weight: the memory stays from case to
 * case. */
enum { SLOT_OUT = 3, SLOT_WORK, SLOT_PACK_WORK, SLOT_PACKED, SLOTS };
static char *slots[SLOTS];

static size_t padded(size_t bytes) {
    return (bytes + FENCE - 1) / FENCE * FENCE;
}

/* Three numbers at the end of memory, by a load of eight that masks the others out. */
__attribute__((target("avx2"))) static void load_three(const float *at) {
    volatile __m256 three = _mm256_maskload_ps(at, _mm256_setr_epi32(-1, -1, -1, 0, 0, 0, 0, 0));
    (void)three;
}

/* Does a processor with AVX2 leave alone what a mask leaves out? qemu 7.2 reads it, so there a kernel that is
 * right would touch the page after its operands. Tried in a process that may crash. */
static bool masks_hold(void) {
    static int holds = -1;
    if (holds >= 0) return holds;
    int how = 0;
    pid_t pid = isa_best() < WEFT_ISA_AVX2 ? -1 : fork();
    if (pid == 0) {
        char *room = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (room == MAP_FAILED || mprotect(room + PAGE, PAGE, PROT_NONE)) _exit(2);
        load_three((const float *)(room + PAGE) - 3);
        _exit(0);
    }
    while (pid > 0 && waitpid(pid, &how, 0) < 0 && errno == EINTR) continue;
    holds = how == 0;
    return holds;
}

/* `bytes` that end, except for alignment, at a page that cannot be touched; of 0xff, which is NaN in every
 * float. */
static char *slot_alloc(int slot, size_t bytes) {
    if (!slots[slot]) {
        char *room =
            mmap(NULL, SLOT_BYTES + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        int after = masks_hold() ? PROT_NONE : PROT_READ;
        if (room == MAP_FAILED || mprotect(room + SLOT_BYTES, PAGE, after)) exit(2);
        slots[slot] = room;
    }
    char *at = slots[slot] + SLOT_BYTES - padded(bytes);
    memset(at - FENCE, 0xa5, FENCE);
    memset(at, 0xff, bytes);
    memset(at + bytes, 0xa5, padded(bytes) - bytes);
    return at;
}

static bool slot_is_fenced(int slot, size_t bytes) {
    const unsigned char *at = (unsigned char *)slots[slot] + SLOT_BYTES - padded(bytes);
    for (size_t i = 0; i < FENCE; i++)
        if (at[i - FENCE] != 0xa5) return false;
    for (size_t i = bytes; i < padded(bytes); i++)
        if (at[i] != 0xa5) return false;
    return true;
}

/* ---- one case ---- */

/* A case as a node with its numbers; what all its kernels share. */
typedef struct trial {
    onednn_case c;
    sample s;
    tensor in[3], out;
    size_t in_bytes[3], out_bytes;
    double *number[3], *want;
    char what[600];
} trial;

static void lay(tensor *t, const tensor_type *type, case_layout layout, bool is_image) {
    t->type = *type;
    if (is_image)
        stride_channels_last(type, t->stride);
    else
        stride_row_major(type, t->stride);
    if (layout == CASE_ROWS) return;
    int n = type->ndim;
    int64_t rows = type->shape[n - 2], columns = type->shape[n - 1], gap = layout == CASE_GAPS ? 3 : 0;
    t->stride[n - 1] = layout == CASE_GAPS ? 1 : rows;
    t->stride[n - 2] = layout == CASE_GAPS ? columns + gap : 1;
    int64_t step = layout == CASE_GAPS ? rows * (columns + gap) : rows * columns;
    for (int i = n - 3; i >= 0; i--) {
        t->stride[i] = step;
        step *= type->shape[i];
    }
}

static size_t bytes_of(const tensor *t) {
    int64_t last = 0;
    for (int i = 0; i < t->type.ndim; i++) last += (t->type.shape[i] - 1) * t->stride[i];
    return (size_t)(last + 1) * dtype_bytes(t->type.dtype);
}

static void note(weft_value *v, const tensor *t) {
    v->has_layout = true;
    memcpy(v->stride, t->stride, sizeof v->stride);
}

/* Small integers, written as the node will find them and kept as doubles in row-major order. */
static void operand_fill(trial *t, int i, test_random *r) {
    weft_value *v = t->s.in[i];
    bool is_image = t->c.kind < CASE_MATMUL && (i == 0 || t->c.kind == CASE_WEIGHT);
    lay(&t->in[i], &v->type, i < 2 ? t->c.layout[i] : CASE_ROWS, is_image);
    note(v, &t->in[i]);
    t->in_bytes[i] = bytes_of(&t->in[i]);
    t->in[i].data = slot_alloc(i, t->in_bytes[i]);
    t->number[i] = test_memory((size_t)type_elements(&v->type) * sizeof(double));
    int64_t at[WEFT_MAX_NDIM] = {0}, k = 0;
    do {
        double x = (double)(random_bits(r) % 5) - 2;
        t->number[i][k++] = x;
        element_set(&t->in[i], at, x);
    } while (index_next(&v->type, at));
}

static bool trial_new(trial *t, const onednn_case *c, uint64_t index) {
    test_random r = {index};
    *t = (trial){.c = *c};
    op_sample spec = {.in = t->c.in, .attrs = t->c.attrs};
    snprintf(t->what, sizeof t->what, "%s(%s) %s, layouts %d %d, %d threads", c->op, c->in, c->attrs,
             c->layout[0], c->layout[1], c->threads);
    sample_build(&t->s, op_find(&weft_catalog, c->op, strlen(c->op)), &spec, false);
    if (!t->s.n) return false;
    for (int i = 0; i < t->s.n_in; i++) operand_fill(t, i, &r);
    const tensor_type *type = &t->s.n->out[0].type;
    lay(&t->out, type, CASE_ROWS, c->kind == CASE_CONV || c->kind == CASE_TRANSPOSED);
    note(&t->s.n->out[0], &t->out);
    t->out_bytes = bytes_of(&t->out);
    t->want = test_memory((size_t)type_elements(type) * sizeof(double));
    naive in[3] = {0}, out = {*type, t->want};
    for (int i = 0; i < t->s.n_in; i++) in[i] = (naive){t->s.in[i]->type, t->number[i]};
    return naive_run(t->s.n, in, &out);
}

static void trial_free(trial *t) {
    for (int i = 0; i < 3; i++) free(t->number[i]);
    free(t->want);
    sample_free(&t->s);
}

/* Sums are exact in f32; a reduced result is rounded, twice if a bias is added after it. */
static bool is_right(weft_dtype dtype, double got, double want) {
    double unit = dtype == WEFT_BF16 ? 0x1p-7 : dtype == WEFT_F16 ? 0x1p-10 : 0;
    return fabs(got - want) <= unit * fabs(want); /* false for NaN */
}

/* NULL, or what is wrong; in a static buffer. */
static const char *judge(const trial *t, size_t work, size_t pack_work, size_t packed) {
    static char text[200];
    int64_t at[WEFT_MAX_NDIM] = {0}, k = 0, wrong = 0;
    const tensor_type *type = &t->out.type;
    text[0] = '\0';
    do {
        double got = element_get(&t->out, at), want = t->want[k++];
        if (is_right(type->dtype, got, want)) continue;
        if (!wrong++) snprintf(text, sizeof text, "element %" PRId64 " is %g, not %g", k - 1, got, want);
    } while (index_next(type, at));
    if (wrong) {
        snprintf(text + strlen(text), 60, "; %" PRId64 " of %" PRId64 " are wrong", wrong, k);
        return text;
    }
    for (int i = 0; i < t->s.n_in; i++)
        if (!slot_is_fenced(i, t->in_bytes[i])) return "writes around an operand";
    if (!slot_is_fenced(SLOT_OUT, t->out_bytes)) return "writes around the result";
    if (work && !slot_is_fenced(SLOT_WORK, work)) return "writes around the workspace";
    if (pack_work && !slot_is_fenced(SLOT_PACK_WORK, pack_work)) return "packing writes around the workspace";
    if (packed && !slot_is_fenced(SLOT_PACKED, packed)) return "writes around the packed weight";
    return NULL;
}

static weft_status run_node(weft_node *n, const weft_kernel *kernel, const kernel_env *env, const tensor *in,
                            const tensor *out, int slot, size_t *bytes, weft_error *error) {
    static const run_state first = {.seed = 1};
    void *state = NULL;
    *bytes = kernel->workspace ? kernel->workspace(n, env) : 0;
    if (*bytes > SLOT_BYTES - PAGE) return error_set(error, WEFT_MEMORY, "a workspace of %zu bytes", *bytes);
    omp_set_num_threads(env->threads);
    weft_status status = kernel->open ? kernel->open(n, env, &state, error) : WEFT_OK;
    kernel_call c = {.node = n,
                     .attrs = n->attrs,
                     .n_in = n->n_in,
                     .n_out = 1,
                     .in = in,
                     .out = out,
                     .workspace = *bytes ? slot_alloc(slot, *bytes) : NULL,
                     .threads = env->threads,
                     .run = &first,
                     .error = error};
    if (status == WEFT_OK) status = kernel->run(state, &c);
    if (kernel->close) kernel->close(state);
    return status;
}

/* The weight by a `pack` node, as the layout pass makes them; false: there is no kernel for that. */
static bool pack_weight(trial *t, size_t bytes, const kernel_env *env, tensor *packed, size_t *work,
                        weft_error *error) {
    weft_node *n = t->s.n;
    text signature = {0};
    node_signature(&signature, n);
    char *of = text_detach(&signature);
    pack_attrs a = {.of = of, .operand = 1, .bytes = (int64_t)bytes};
    weft_node *pack = node_new(n->graph, &weft_op_pack, 1, &n->in[1], &a);
    free(of);
    const weft_kernel *kernel = pack ? kernel_select(pack, env, &n->graph->model->arena, NULL) : NULL;
    if (!kernel) return false;
    *packed = (tensor){.data = slot_alloc(SLOT_PACKED, bytes), .type = pack->out[0].type, .stride = {1}};
    note(&pack->out[0], packed);
    if (run_node(pack, kernel, env, &t->in[1], packed, SLOT_PACK_WORK, work, error) != WEFT_OK) return false;
    n->in[1] = &pack->out[0];
    return true;
}

/* Runs one kernel of the case; NULL: right, else what is wrong. *taken stays false when it declines. */
static const char *kernel_trial(trial *t, const weft_kernel *kernel, const kernel_env *env, bool *taken) {
    weft_node *n = t->s.n;
    weft_value *plain = n->n_in > 1 ? n->in[1] : NULL;
    tensor in[3] = {t->in[0], t->in[1], t->in[2]};
    size_t work = 0, pack_work = 0, packed = 0;
    weft_error error = {0};
    if (kernel->declines && kernel->declines(n, env)) return NULL;
    *taken = true;
    t->out.data = slot_alloc(SLOT_OUT, t->out_bytes);
    /* `pack` asks which kernel the node will have: others meet plain weights only. */
    if (t->c.packs && kernel->packed_bytes && kernel == kernel_select(n, env, &n->graph->model->arena, NULL))
        packed = kernel->packed_bytes(n, 1, env);
    if (packed && !pack_weight(t, packed, env, &in[1], &pack_work, &error))
        return error.text[0] ? "packing failed" : "nothing packs the weight";
    weft_status status = run_node(n, kernel, env, in, &t->out, SLOT_WORK, &work, &error);
    n->in[1] = plain;
    return status ? "an error" : judge(t, work, pack_work, packed);
}

static void tell(report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void tell(report *r, const char *format, ...) {
    va_list args;
    if (r->texts == MOST_TEXTS) return;
    va_start(args, format);
    vsnprintf(r->text[r->texts++], sizeof r->text[0], format, args);
    va_end(args);
}

static void case_run(report *r, const onednn_case *c, uint64_t index, weft_isa isa, const char *wanted) {
    kernel_env env = {.isa = isa, .threads = c->threads};
    const weft_kernel *list[MOST_KERNELS];
    bool taken = false, is_bad = false;
    trial t;
    r->at = index;
    if (trial_new(&t, c, index)) {
        int count = kernels_of(&weft_catalog, t.s.n->op, &env, list, MOST_KERNELS);
        for (int i = 0; i < count; i++) {
            bool casts = strstr(list[i]->name, "_cast_"); /* the best one is used for lower sets too */
            if (strncmp(list[i]->name, "onednn", 6) != 0 || (casts && list[i]->min_isa != isa)) continue;
            bool is_taken = false;
            const char *why = kernel_trial(&t, list[i], &env, &is_taken);
            taken |= is_taken;
            if (is_taken && wanted && strcmp(list[i]->name, wanted) == 0) r->met++;
            is_bad |= why != NULL;
            char implementation[KERNEL_IMPLEMENTATION] = "";
            if (why && list[i]->implementation) list[i]->implementation(t.s.n, &env, implementation);
            if (why)
                tell(r, "case %" PRIu64 " by %s (%s): %s: %s", index, list[i]->name, implementation, t.what,
                     why);
        }
    }
    r->run += taken;
    r->skipped += !taken;
    r->failed += is_bad;
    trial_free(&t);
}

/* ---- processes ---- */

typedef struct level {
    const char *name, *limit; /* ours, and ONEDNN_MAX_CPU_ISA */
    weft_isa isa;
} level;

/* By cpuid, since clang 14 has no name for it. Where Linux does not allow it, oneDNN does without. */
static bool has_amx(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 24 & 1);
}

static bool is_here(const level *l) {
    __builtin_cpu_init();
    if (l->isa > isa_best()) return false;
    if (strcmp(l->limit, "AVX512_CORE_BF16") == 0) return __builtin_cpu_supports("avx512bf16");
    if (strcmp(l->limit, "AVX512_CORE_AMX") == 0) return has_amx();
    return true;
}

static const level levels[] = {
    {"sse2", "SSE41", WEFT_ISA_SSE2},
    {"avx2", "AVX2", WEFT_ISA_AVX2},
    {"avx512", "AVX512_CORE", WEFT_ISA_AVX512},
    {"avx512 with bf16", "AVX512_CORE_BF16", WEFT_ISA_AVX512},
    {"avx512 with amx", "AVX512_CORE_AMX", WEFT_ISA_AVX512},
};

/* Cases [first, first + n) of a sequence, or of a list. */
typedef struct job {
    const onednn_case *list;
    uint64_t seed, first, n;
    const char *kernel; /* that has to take some of them, NULL: any */
} job;

static report *here; /* of this process */

static void on_fault(int signal_number, siginfo_t *info, void *context) {
    (void)context;
    for (int i = 0; i < SLOTS && here->slot < 0; i++) {
        int64_t beyond = (char *)info->si_addr - (slots[i] + SLOT_BYTES);
        if (!slots[i] || beyond < 0 || beyond >= PAGE) continue;
        here->beyond = beyond;
        here->slot = i;
    }
    signal(signal_number, SIG_DFL); /* the instruction runs again */
}

static void child(const level *l, const job *j, uint64_t from, report *r) {
    struct sigaction catch = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    here = r;
    r->slot = -1;
    sigaction(SIGSEGV, &catch, NULL);
    setenv("ONEDNN_MAX_CPU_ISA", l->limit, 1);
    if (onednn_exceeds(&(kernel_env){.isa = l->isa})) _exit(3);
    for (uint64_t i = from; i < j->first + j->n; i++) {
        onednn_case drawn;
        if (!j->list) case_draw(&drawn, j->seed, i);
        alarm(DEADLINE);
        case_run(r, j->list ? &j->list[i] : &drawn, i, l->isa, j->kernel);
    }
    fflush(NULL);
    _exit(0);
}

/* Continues after a case that ended its process. */
static void level_run(const level *l, const job *j, report *r) {
    for (uint64_t from = j->first; from < j->first + j->n; from = r->at + 1) {
        int how = 0;
        r->at = from;
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) child(l, j, from, r);
        while (waitpid(pid, &how, 0) < 0 && errno == EINTR) continue;
        if (WIFEXITED(how) && WEXITSTATUS(how) == 0) return;
        onednn_case c;
        r->run++;
        r->failed++;
        if (j->list)
            c = j->list[r->at];
        else
            case_draw(&c, j->seed, r->at);
        tell(r, "case %" PRIu64 ": %s(%s) %s, %d threads: ended by %s %d, %" PRId64 " bytes past slot %d",
             r->at, c.op, c.in, c.attrs, c.threads, WIFSIGNALED(how) ? "signal" : "status",
             WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how), r->slot < 0 ? 0 : r->beyond, r->slot);
        if (!WIFSIGNALED(how)) return;
    }
}

static void job_run(const job *j, bool counts) {
    report *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    NEED(r != MAP_FAILED);
    masks_hold(); /* found out before children catch faults */
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        memset(r, 0, sizeof *r);
        if (!is_here(&levels[i])) continue;
        level_run(&levels[i], j, r);
        for (int k = 0; k < r->texts; k++)
            CHECK_SAYS(false, "seed %" PRIu64 ", %s, %s", j->seed, levels[i].name, r->text[k]);
        CHECK_SAYS(r->failed == 0,
                   "%s: %" PRIu64 " of %" PRIu64 " cases from %" PRIu64 " with seed %" PRIu64 " failed",
                   levels[i].name, r->failed, r->run, j->first, j->seed);
        CHECK_SAYS(r->run > 0, "%s: no case was taken", levels[i].name);
        if (j->kernel && levels[i].isa > WEFT_ISA_SSE2) /* below, oneDNN has its reference alone */
            CHECK_SAYS(r->met > 0, "%s: %s took no case", levels[i].name, j->kernel);
        if (counts) test_cases_add(r->run, r->skipped, r->failed);
    }
    munmap(r, sizeof *r);
}

/* ---- the suite ---- */

TEST(every_kernel_of_onednn_is_exact_on_small_shapes) {
    job_run(&(job){.seed = 1, .first = test_seed(1) - 1, .n = (uint64_t)test_count(2000, 300)}, true);
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (!is_here(&levels[i])) test_not_reached("oneDNN's primitives for %s", levels[i].name);
    if (!masks_hold()) test_not_reached("reads past the end of oneDNN's operands: masks do not hold here");
}

/* Backward weights of 1x1 convolutions with strides copy the pixels that are seen into scratch first; in
 * 2.6.3 they do so beyond the scratch where a pixel has fewer channels than a vector has elements
 * (uxlfoundation/oneDNN, issue 6035). */
TEST(weights_of_strided_1x1_convolutions_of_few_channels_are_right) {
    static const int64_t sizes[3][2] = {{8, 8}, {16, 6}, {16, 16}}, outs[] = {4, 32};
    static const int threads[] = {1, 2, 3};
    enum { CHANNELS = 17, CASES = CHANNELS * 3 * 2 * 3 * 2 };
    onednn_case *list = test_memory(CASES * sizeof *list);
    for (int i = 0; i < CASES; i++) {
        const int64_t *size = sizes[i / CHANNELS % 3];
        list[i] = (onednn_case){.kind = CASE_WEIGHT,
                                .dtype = i / CHANNELS / 18 ? "bf16" : "f32",
                                .wide = i / CHANNELS / 18,
                                .batch = 3,
                                .channels = i % CHANNELS + 1,
                                .out = outs[i / CHANNELS / 9 % 2],
                                .groups = 1,
                                .size = {size[0], size[1]},
                                .small = {size[0] / 2, size[1] / 2},
                                .kernel = {1, 1},
                                .stride = {2, 2},
                                .dilation = {1, 1},
                                .threads = threads[i / CHANNELS / 3 % 3]};
        case_print(&list[i]);
    }
    job_run(&(job){.list = list, .n = CASES}, false);
    free(list);
}

/* What else the sequence found once, kept: data gradients of 1x1 convolutions in bf16 with an odd number of
 * channels, windows of which a column (of volumes a row or a plane too) sees padding alone, one channel with
 * strides, a stride along the depth of volumes, with padding of more than that in f32 too, dilated windows
 * that see padding alone (3.7.2), and our own product of columns where a dilation leaves out the last
 * pixels. */
TEST(defects_that_were_found_stay_away) {
    onednn_case list[] = {
        {.kind = CASE_TRANSPOSED,
         .batch = 2,
         .channels = 4,
         .out = 3,
         .small = {5, 6},
         .size = {5, 6},
         .kernel = {1, 1},
         .stride = {1, 1}},
        {.kind = CASE_TRANSPOSED,
         .batch = 2,
         .channels = 3,
         .out = 17,
         .small = {8, 15},
         .size = {16, 15},
         .kernel = {1, 1},
         .stride = {2, 1},
         .output_padding = {1, 0}},
        {.kind = CASE_WEIGHT,
         .batch = 3,
         .channels = 16,
         .out = 24,
         .small = {1, 1},
         .size = {1, 1},
         .kernel = {2, 2},
         .stride = {2, 2},
         .pad = {1, 1}},
        {.kind = CASE_WEIGHT,
         .batch = 3,
         .channels = 16,
         .out = 9,
         .small = {4, 2},
         .size = {12, 1},
         .kernel = {1, 3},
         .stride = {3, 2},
         .pad = {0, 2}},
        {.kind = CASE_WEIGHT,
         .batch = 2,
         .channels = 1,
         .out = 1,
         .small = {5, 1},
         .size = {15, 1},
         .kernel = {1, 1},
         .stride = {3, 3}},
        {.kind = CASE_WEIGHT,
         .batch = 2,
         .channels = 40,
         .out = 3,
         .small = {2, 4},
         .size = {2, 5},
         .kernel = {1, 1},
         .stride = {1, 1},
         .dilation = {3, 2}},
        {.kind = CASE_WEIGHT,
         .axes = 3,
         .batch = 1,
         .channels = 4,
         .out = 15,
         .small = {2, 2, 5},
         .size = {2, 2, 8},
         .kernel = {2, 2, 2},
         .stride = {2, 2, 2},
         .pad = {1, 1, 1}},
        {.kind = CASE_WEIGHT,
         .axes = 3,
         .batch = 3,
         .channels = 48,
         .out = 3,
         .small = {2, 1, 2},
         .size = {5, 1, 5},
         .kernel = {2, 3, 2},
         .stride = {3, 3, 3},
         .pad = {0, 1, 1}},
        {.kind = CASE_WEIGHT,
         .axes = 3,
         .batch = 2,
         .channels = 3,
         .out = 2,
         .small = {3, 1, 3},
         .size = {3, 1, 2},
         .kernel = {3, 3, 2},
         .stride = {1, 2, 1},
         .pad = {1, 1, 1}},
        {.kind = CASE_WEIGHT,
         .axes = 3,
         .batch = 1,
         .channels = 17,
         .out = 3,
         .small = {2, 2, 2},
         .size = {1, 2, 3},
         .kernel = {6, 1, 2},
         .stride = {1, 1, 1},
         .pad = {3, 0, 0}},
        {.kind = CASE_WEIGHT,
         .axes = 3,
         .dtype = "f32",
         .batch = 1,
         .channels = 17,
         .out = 1,
         .small = {3, 2, 3},
         .size = {3, 4, 5},
         .kernel = {4, 3, 4},
         .stride = {2, 1, 3},
         .pad = {3, 0, 3}},
        {.kind = CASE_CONV,
         .dtype = "f32",
         .bias_dtype = "f32",
         .has_bias = true,
         .batch = 1,
         .channels = 47,
         .out = 16,
         .small = {8, 2},
         .size = {16, 1},
         .kernel = {1, 1},
         .stride = {2, 2},
         .pad = {0, 1},
         .dilation = {1, 3}},
        {.kind = CASE_CONV,
         .dtype = "f32",
         .bias_dtype = "f32",
         .has_bias = true,
         .batch = 1,
         .channels = 16,
         .out = 16,
         .small = {8, 3},
         .size = {16, 1},
         .kernel = {1, 2},
         .stride = {2, 2},
         .pad = {0, 3},
         .dilation = {1, 2}},
        {.kind = CASE_CONV,
         .wide = true,
         .batch = 2,
         .channels = 1,
         .out = 2,
         .small = {4, 1},
         .size = {4, 2},
         .kernel = {1, 4},
         .stride = {1, 2},
         .pad = {0, 1}},
        {.kind = CASE_CONV,
         .axes = 3,
         .dtype = "f32",
         .bias_dtype = "f32",
         .has_bias = true,
         .batch = 3,
         .channels = 1,
         .out = 33,
         .small = {3, 2, 1},
         .size = {3, 5, 2},
         .kernel = {4, 4, 2},
         .stride = {2, 1, 3},
         .pad = {3, 0, 0}},
        {.kind = CASE_CONV,
         .axes = 3,
         .wide = true,
         .bias_dtype = "f32",
         .has_bias = true,
         .batch = 3,
         .channels = 1,
         .out = 2,
         .small = {2, 1, 1},
         .size = {1, 1, 3},
         .kernel = {4, 3, 3},
         .stride = {1, 3, 3},
         .pad = {2, 1, 1}},
        {.kind = CASE_CONV,
         .axes = 3,
         .batch = 3,
         .channels = 1,
         .out = 3,
         .small = {2, 1, 4},
         .size = {1, 3, 2},
         .kernel = {4, 1, 3},
         .stride = {1, 3, 1},
         .pad = {2, 0, 2}},
        {.kind = CASE_WEIGHT,
         .axes = 3,
         .wide = true,
         .batch = 1,
         .channels = 17,
         .out = 2,
         .small = {2, 2, 5},
         .size = {1, 3, 5},
         .kernel = {2, 2, 1},
         .stride = {1, 1, 1},
         .pad = {1, 0, 0}},
    };
    uint64_t n = sizeof list / sizeof *list;
    for (uint64_t i = 0; i < n; i++) {
        if (!list[i].dtype) list[i].dtype = "bf16";
        list[i].groups = list[i].threads = 1;
        for (int k = 0; k < 3; k++)
            if (!list[i].dilation[k]) list[i].dilation[k] = 1;
        case_print(&list[i]);
    }
    job_run(&(job){.list = list, .n = n}, false);
}

static int64_t below(test_random *r, int64_t n) {
    return (int64_t)(random_bits(r) % (uint64_t)n);
}

/* Axis i of a window that is hardly smaller than the image, or larger; false: it does not fit. */
static bool draw_tight_axis(onednn_case *c, int i, test_random *r) {
    c->size[i] = 1 + below(r, 5);
    c->kernel[i] = 1 + below(r, 4);
    c->stride[i] = 1 + below(r, 3);
    c->pad[i] = below(r, c->kernel[i]);
    c->dilation[i] = 1 + (below(r, 4) == 0);
    int64_t left = c->size[i] + 2 * c->pad[i] - c->dilation[i] * (c->kernel[i] - 1) - 1;
    if (left < 0) return false;
    c->small[i] = left / c->stride[i] + 1;
    c->output_padding[i] = left % c->stride[i];
    return true;
}

static void draw_tight(onednn_case *c, test_random *r) {
    static const int64_t channels[] = {1, 2, 3, 8, 16, 17, 33};
    bool fits;
    do {
        *c = (onednn_case){.kind = (case_kind)below(r, CASE_MATMUL),
                           .axes = 2 + (int)below(r, 2),
                           .dtype = below(r, 2) ? "bf16" : "f32",
                           .bias_dtype = "f32",
                           .batch = 1 + below(r, 3),
                           .channels = channels[below(r, 7)],
                           .out = channels[below(r, 7)],
                           .groups = 1,
                           .threads = 1 + (below(r, 4) == 0),
                           .packs = below(r, 2)};
        fits = true;
        for (int i = 0; i < c->axes; i++) fits = fits && draw_tight_axis(c, i, r);
    } while (!fits);
    c->wide = strcmp(c->dtype, "bf16") == 0 && below(r, 2);
    c->has_bias = c->kind != CASE_WEIGHT && below(r, 2);
    case_print(c);
}

/* Rows, columns and planes of a window may see padding alone, on any axis: sizes of 1 to 5 and windows as
 * large, forward, data and weights, of images and volumes. */
TEST(windows_that_see_mostly_padding_are_right) {
    int n = test_count(2000, 300);
    onednn_case *list = test_memory((size_t)n * sizeof *list);
    test_random r = {test_seed(1)};
    for (int i = 0; i < n; i++) draw_tight(&list[i], &r);
    job_run(&(job){.list = list, .seed = test_seed(1), .n = (uint64_t)n}, false);
    free(list);
}

/* A weight gradient as a sum over parts of the batch: channels that fill vectors and others, groups, weights
 * that are packed and weights that oneDNN leaves plain, 2 and 3 parts of 1 or 2 images. */
TEST(weights_as_sums_over_parts_of_the_batch_are_right) {
    static const int64_t channels[][3] = {{1, 16, 1},  {16, 16, 1}, {17, 5, 1},
                                          {32, 24, 2}, {3, 33, 1},  {24, 24, 24}};
    enum { KINDS = 6, CASES = KINDS * 2 * 2 * 3 };
    onednn_case *list = test_memory(CASES * sizeof *list);
    for (int i = 0; i < CASES; i++) {
        const int64_t *of = channels[i % KINDS];
        int threads = 2 + i / KINDS % 2, type = i / KINDS / 4;
        list[i] = (onednn_case){.kind = CASE_WEIGHT,
                                .dtype = type ? "bf16" : "f32",
                                .wide = type == 2,
                                .batch = threads * (1 + i % 2),
                                .channels = of[0],
                                .out = of[1],
                                .groups = of[2],
                                .size = {20, 18},
                                .small = {20, 18},
                                .kernel = {3, 3},
                                .stride = {1, 1},
                                .pad = {1, 1},
                                .dilation = {1, 1},
                                .threads = threads};
        if (i / KINDS / 2 % 2) list[i].stride[0] = 2, list[i].small[0] = 10;
        case_print(&list[i]);
    }
    int n = 0, stride = test_is_quick() ? 5 : 1; /* 5 meets each value of each part of i */
    for (int i = 0; i < CASES; i += stride) list[n++] = list[i];
    job_run(&(job){.list = list, .n = (uint64_t)n, .kernel = "onednn_parts"}, false);
    for (int i = 0; i < n; i++) { /* the same, 4 such images deep */
        list[i].axes = 3;
        list[i].size[2] = list[i].small[2] = 4;
        list[i].kernel[2] = 3;
        list[i].stride[2] = list[i].pad[2] = list[i].dilation[2] = 1;
        case_print(&list[i]);
    }
    job_run(&(job){.list = list, .n = (uint64_t)n, .kernel = "onednn_parts"}, false);
    free(list);
}

SUITE("onednn_sweep",
      {T(weights_of_strided_1x1_convolutions_of_few_channels_are_right), T(defects_that_were_found_stay_away),
       T(windows_that_see_mostly_padding_are_right), T(weights_as_sums_over_parts_of_the_batch_are_right),
       T(every_kernel_of_onednn_is_exact_on_small_shapes)})
