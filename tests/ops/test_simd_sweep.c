/* test_simd_sweep.c - our own kernels (ops/cpu/simd) on small random shapes, as test_onednn_sweep.c does with
 * oneDNN's: every kernel of every instruction set runs each node, in each layout, in place, on 1 and 3
 * threads, against the plain loops of support/kernels/naive.h or, for ops that those do not know, the
 * reference (support/kernels/kernel_check.h).
 *
 * A form is a sample (op.h) with letters for lengths. Lengths are around the widths of vectors and of tiles,
 * so that remainders, rows that start anywhere in a vector, and incomplete blocks all occur. Kernels also cut
 * long axes into blocks: so each length of each form is once LONG and once LONGER, in every precision, and
 * `longest` has nodes for the constants above these. tests/rules/check_rows.py knows the kernels'
 * constants. */
#include "ops/cpu/isa.h"
#include "ops/kit/op_kit.h"
#include "support/kernels/kernel_check.h"
#include "support/kernels/samples.h"

#include <stdio.h>
#include <string.h>

enum { MOST_ELEMENTS = 4000 };

typedef struct form {
    const char *op, *in, *attrs;
    double low, high;
    char below; /* integer operands are below the length of this letter */
} form;

/* $a, $b, $c, $d: lengths; $k $l window, $s $t strides, $p $q padding, $y $z what the window leaves of $c and
 * $d; $m $n other small lengths; $e = $a + $b, $w = $b + 8, $o = $c + 8,
 * $g = 4 $n, $h = 4 $a, $i = 3 $n; $x: an axis of three, $v of two. Sums are of
 * positive numbers, or there are some beside each other: one that cancels is small beside its rounding. */
static const form forms[] = {
    {"add", "f32[$a,$b,$c], f32[$b,1]", NULL},
    {"mul", "f32[$a,$b], f32[$b]", NULL},
    {"gelu", "f32[$a,$b]", NULL},
    {"tanh", "f32[$a,$b]", NULL},
    {"relu_backward", "f32[$a,$b,$m,$n], f32[$a,$b,$m,$n]", NULL},
    {"where", "bool[$a,$b], f32[$b], f32[$a,$b]", NULL},
    {"sum", "f32[$a,$b,$c]", "axes=$x", 0.25, 2},
    {"sum", "f32[$a,$b,$c]", "axes=0,2 keep=1", 0.25, 2},
    {"sum", "f32[$a,$b,$m,$n]", "axes=0,2,3 mean=1", 0.25, 2},
    {"amax", "f32[$a,$b,$c]", "axes=$x"},
    {"amin", "f32[$a,$b,$m,$n]", "axes=0,2,3 keep=1"},
    {"prod", "f32[$a,$b,$c]", "axes=$x", 0.9, 1.1},
    {"cumsum", "f32[$a,$b,$c]", "axis=$x", 0.25, 2},
    {"cumsum", "f32[$a,$b,$c]", "axis=$x reverse=1 exclusive=1", 0.25, 2},
    {"cumprod", "f32[$a,$b,$c]", "axis=$x", 0.9, 1.1},
    {"recurrence", "f32[$a,$b,$c], f32[$a,$b,$c]", "axis=$x reverse=1", 0.1, 0.9},
    {"argmax", "f32[$a,$b,$c]", "axis=$x"},
    {"argmin", "f32[$a,$b,$c]", "axis=$x"},
    {"softmax", "f32[$a,$b,$c]", "axis=$x"},
    {"log_softmax", "f32[$a,$b]", "axis=1"},
    {"layer_norm", "f32[$a,$e], f32[$e], f32[$e]", "eps=1e-3"},
    {"layer_norm_backward", "f32[$a,$w], f32[$a,$w], f32[$a], f32[$a], f32[$w]", NULL, 0.25, 2},
    {"layer_norm", "f32[$a,$e], f32[$e]", "eps=1e-3"},
    {"rms_norm", "f32[$a,$e], f32[$e]", "eps=1e-3"},
    {"rms_norm", "f32[$a,$e]", "eps=1e-3"},
    {"rms_norm_backward", "f32[$a,$w], f32[$a,$w], f32[$a], f32[$w]", NULL, 0.25, 2},
    {"rms_norm_backward", "f32[$a,$w], f32[$a,$w], f32[$a]", NULL, 0.25, 2},
    {"batch_norm", "f32[$e,$c,$m,$n], f32[$c], f32[$c]", "eps=1e-2", 0.25, 2},
    {"batch_norm_backward", "f32[$a,$w,$m,$n], f32[$a,$w,$m,$n], f32[$w], f32[$w], f32[$w]", NULL, 0.25, 2},
    {"cross_entropy", "f32[$a,$b], i64[$a]", "ignore_index=-100", 0, 0, 'b'},
    {"cross_entropy_backward", "f32[], f32[$a,$b], i32[$a], f32[$a]", "ignore_index=1", 0, 0, 'b'},
    {"cross_entropy", "f32[$a,$b], i64[$a]", "ignore_index=1 reduction=none", 0, 0, 'b'},
    {"cross_entropy_backward", "f32[$a], f32[$a,$b], i32[$a], f32[$a]", "ignore_index=1 reduction=none", 0, 0,
     'b'},
    {"cross_entropy_backward", "f32[], f32[$a,$b], i32[$a], f32[$a]", "reduction=sum", 0, 0, 'b'},
    {"max_pool2d", "f32[$m,$b,$c,$d]", "kernel=$k,$l stride=$s,$t pad=$p,$q"},
    {"max_pool2d", "f32[$m,$b,$o,$o]", "kernel=$k,$l stride=$s,$t pad=$p,$q dilation=2,2 ceil_mode=1"},
    {"max_pool2d_backward", "f32[$m,$b,$n,$k], i32[$m,$b,$n,$k]", "size=$c,$d", 0.25, 2, 'c'},
    {"max_pool2d_gather", "f32[$m,$b,$c,$d], i32[$m,$b,$n,$k]", NULL, 0, 0, 'c'},
    {"adaptive_max_pool2d", "f32[$m,$b,$c,$d]", "size=$n,$k"},
    {"avg_pool2d", "f32[$m,$b,$c,$d]", "kernel=$k,$l stride=$s,$t pad=$p,$q", 0.25, 2},
    {"avg_pool2d", "f32[$m,$b,$c,$d]", "kernel=$k,$l stride=$s,$t pad=$p,$q ceil_mode=1 exclude_pad=1", 0.25,
     2},
    {"avg_pool2d", "f32[$m,$b,$o,$o]", "kernel=$k,$l stride=$s,$t pad=$p,$q dilation=1,2", 0.25, 2},
    {"avg_pool2d_backward", "f32[$m,$b,$y,$z]", "kernel=$k,$l stride=$s,$t pad=$p,$q size=$c,$d", 0.25, 2},
    {"adaptive_avg_pool2d", "f32[$m,$b,$c,$d]", "size=$n,$k", 0.25, 2},
    {"adaptive_avg_pool2d_backward", "f32[$m,$b,$n,$k]", "size=$c,$d", 0.25, 2},
    {"interpolate", "f32[$m,$b,$n,$d]", "size=$c,$k mode=nearest"},
    {"interpolate", "f32[$m,$b,$n,$d]", "size=$k,$c mode=bilinear"},
    {"interpolate", "f32[$m,$b,$k,$l]", "size=$n,$d mode=bilinear align_corners=1"},
    {"interpolate_backward", "f32[$m,$b,$c,$k]", "size=$n,$d mode=nearest", 0.25, 2},
    {"interpolate_backward", "f32[$m,$b,$n,$k]", "size=$l,$d mode=bilinear", 0.25, 2},
    {"interpolate", "f32[$m,$b,$n,$d]", "size=$c,$k mode=bicubic", 0.25, 2},
    {"interpolate", "f32[$m,$b,$n,$d]", "size=$c,$k mode=bicubic antialias=1", 0.25, 2},
    {"interpolate_backward", "f32[$m,$b,$n,$k]", "size=$l,$d mode=bilinear antialias=1", 0.25, 2},
    {"grid_sample", "f32[$m,$b,$n,$d], f32[$m,$c,$k,2]", NULL, 0.1, 1.1},
    {"grid_sample", "f32[$m,$b,$n,$k,$l], f32[$m,$c,$k,$l,3]", "padding=border align_corners=1", 0.1, 1.1},
    {"grid_sample_backward", "f32[$m,$b,$n,$d], f32[$m,$n,$d,2]", "size=$c,$k", 0.1, 1.1},
    {"unfold", "f32[$m,$b,$c,$d]", "kernel=$k,$l stride=$s,$t pad=$p,$q dilation=1,1"},
    {"fold", "f32[$m,$k,$y]", "size=$c,1 kernel=$k,1 stride=$s,1 pad=$p,0 dilation=1,1", 0.25, 2},
    {"conv_transpose2d", "f32[$m,$b,$n,$d], f32[$b,$k,$l,$k], f32[$k]",
     "out=$k kernel=$l,$k stride=$l,$k pad=0,0 dilation=1,1 groups=1 output_padding=0,0", 0.25, 2},
    {"permute", "f32[$a,$b,$c]", "axes=2,0,1"},
    {"permute", "f32[$a,$b,$c]", "axes=1,0,2"},
    {"reshape", "f32[$a,$b,$c]", "shape=$c,$b,$a"},
    {"slice", "f32[$a,$e,$c]", "axis=1 begin=$a end=$e"},
    {"concat", "f32[$a,$b], f32[$a,$c], f32[$a,1]", "axis=1"},
    {"pad", "f32[$a,$b]", "axis=$v before=$p after=$k"},
    {"broadcast_to", "f32[$b,1]", "shape=$a,$b,$c"},
    {"reorder", "f32[$m,$b,$n,$d]", NULL},
    {"embedding", "f32[$a,$b], i64[$c]", NULL, 0, 0, 'a'},
    {"embedding_backward", "f32[$c,$b], i32[$c]", "rows=$a", 0.25, 2, 'a'},
    {"attention", "f32[$m,$n,$a,$b], f32[$m,$n,$c,$b], f32[$m,$n,$c,$b]", "causal=0", -1, 1},
    {"attention", "f32[$m,$n,$a,$b], f32[$m,$n,$a,$b], f32[$m,$n,$a,$b]", "causal=1", -1, 1},
    {"attention", "f32[$m,$n,$a,$b], f32[$m,1,$c,$b], f32[$m,1,$c,$b], bool[$a,$c]", "causal=$v", -1, 1},
    {"attention", "f32[$m,$n,$a,$b], f32[$m,$n,$c,$b], f32[$m,$n,$c,$b], f32[$m,1,1,$c]", "causal=0", -1, 1},
    {"attention", "f32[$m,$n,$a,$b], f32[$m,1,$c,$b], f32[$m,1,$c,$b], f32[$n,$a,1]", "causal=1 window=$d",
     -1, 1},
    {"attention", "f32[$m,$n,$a,$b], f32[$m,1,$c,$b], f32[$m,1,$c,$d]",
     "ahead=$k window=$d offset=-$m softcap=1", -1, 1},
    {"attention_backward",
     "f32[$m,$a,$n,$d], f32[$m,$n,$a,$b], f32[$m,1,$c,$b], f32[$m,1,$c,$d], f32[$m,$a,$n,$d], f32[$m,$n,$a]",
     "ahead=$d window=$k offset=$m softcap=1", -0.5, 0.5},
    {"attention_backward",
     "f32[$m,$a,$n,$b], f32[$m,$n,$a,$b], f32[$m,1,$c,$b], f32[$m,1,$c,$b], f32[$m,$a,$n,$b], f32[$m,$n,$a], "
     "f32[$a,$c], f32[$m,$n,$a]",
     "causal=1 window=$d mask_gradient=1", -0.5, 0.5},
    {"lstm", "f32[$k,$m,$g], f32[$g,$n], f32[$m,$n], f32[$m,$n]", "reverse=0", -0.5, 0.5},
    {"lstm", "f32[$k,$b,$g], f32[$g,$n]", "reverse=1", -0.5, 0.5},
    {"lstm_backward", "f32[$k,$b,$g], f32[$k,$b,$n], f32[$g,$n], f32[$b,$n], f32[$k,$b,$n], -", "reverse=0",
     -1, 1},
    {"lstm_backward", "f32[$k,$m,$h], f32[$k,$m,$a], f32[$h,$a], -, f32[$k,$m,$a], f32[$k,$m,$a]",
     "reverse=1", -0.5, 0.5},
    {"attention_dropout", "f32[$m,$n,$a,$b], f32[$m,$n,$c,$b], f32[$m,$n,$c,$b]", "causal=$v p=0.25 key=0x7",
     -1, 1},
    {"rotary", "f32[$m,$n,$a,$e,2]", "base=100 offset=$b interleaved=$v"},
    {"gru", "f32[$k,$b,$i], f32[$i,$n], f32[$b,$n], f32[$i]", "reverse=0", -0.5, 0.5},
    {"gru", "f32[$k,$m,$i], f32[$i,$n]", "reverse=1", -0.5, 0.5},
    {"gru_backward", "f32[$k,$b,$i], f32[$k,$b,$n], f32[$k,$b,$n], f32[$i,$n], f32[$k,$b,$n], f32[$b,$n]",
     "reverse=0", -1, 1},
    {"rnn", "f32[$k,$m,$a], f32[$a,$a], f32[$m,$a]", "act=relu", -0.5, 0.5},
    {"rnn", "f32[$k,$b,$n], f32[$n,$n]", "reverse=1", -0.3, 0.3},
    {"rnn_backward", "f32[$k,$m,$a], f32[$k,$m,$a], f32[$a,$a]", "reverse=1", -0.5, 0.5},
    {"dropout", "f32[$a,$b]", "p=0.25 key=0x7"},
    {"arange", "", "dtype=f32 shape=$e begin=-1.5 step=0.25"},
    {"random_normal", "", "shape=$a,$b std=1 key=0x5"},
    {"random_uniform", "", "shape=$a,$b low=-1 high=2 key=0x6"},
    {"adam_update", "f32[$e], f32[$e], f32[$e], f32[$e], f64[], f64[]",
     "lr_scale=0.5 beta1=0.9 beta2=0.99 eps=1e-3 weight_decay=0.01", 0.1, 2},
    {"sgd_update", "f32[$e], f32[$e], f32[$e], f64[], f64[]", "lr_scale=0.5 momentum=0.9 nesterov=1", 0.1, 2},
    {"accumulate", "f32[$e], f32[$e], f32[$e]", "of=2"},
    {"renew", "f32[$e], f32[$e], f32[$e]"},
    {"gather", "f32[$a,$b], i64[$c,$b]", NULL, 0, 0, 'a'},
    {"gather", "f32[$a,$c,$b], i32[1,$d,$b]", "axis=1 broadcast=1", 0, 0, 'c'},
    {"gather", "f32[$a,$b], u8[$a,$c]", "axis=1", 0, 0, 'b'},
    {"scatter", "f32[$a,$b], i64[$c,$b], f32[$c,$b]", NULL, 0, 0, 'a'},
    {"scatter", "f32[$a,$b], i64[1,$c], f32[]", "axis=1 broadcast=1", 0, 0, 'b'},
    {"scatter_add", "f32[$a,$b], i64[$c,$b], f32[$c,$b]", NULL, 0.25, 2, 'a'},
    {"scatter_reduce", "f32[$a,$b], i64[$c,$b], f32[$c,$b]", "join=amax", 0, 0, 'a'},
    {"scatter_reduce", "f32[$a,$b], i64[1,$c], f32[$a,$c]", "axis=1 broadcast=1 join=prod fresh=1", 0.9, 1.1,
     'b'},
    {"index", "f32[$m,$a,$a,$b], i64[$c], i32[$c]", "axes=1,2", 0, 0, 'a'},
    {"index", "f32[$a,$b,$a,$m], i64[$k,1], i64[$n]", "axes=0,2", 0, 0, 'a'},
    {"index_put", "f32[$m,$a,$a,$b], i64[$c], i32[$c], f32[$c,$b]", "axes=1,2", 0, 0, 'a'},
    {"index_put", "f32[$a,$b], i64[$c], f32[$c,$b]", "axes=0 accumulate=1", 0.25, 2, 'a'},
    {"scatter_add", "f32[$a,$b], i64[$a,$c], f32[$a,$c]", "axis=1", 0.25, 2, 'b'},
    {"flip", "f32[$a,$b,$c]", "axes=$x"},
    {"flip", "f32[$a,$b,$c]", "axes=0,2"},
    {"sort", "f32[$a,$e,$c]", "axis=1 first=$a"},
    {"sort", "f32[$a,$b]", "axis=$v descending=1"},
};
enum { FORMS = sizeof forms / sizeof *forms };

static int64_t pick(test_random *r, int64_t low, int64_t high) {
    return low + (int64_t)(random_bits(r) % (uint64_t)(high - low + 1));
}

static int64_t pick_length(test_random *r) {
    static const int64_t around[] = {7, 8, 9, 15, 16, 17, 23, 31, 32, 33, 48, 63, 64, 65, 127, 128, 129, 200};
    if (pick(r, 0, 2) == 0) return pick(r, 1, 5);
    return pick(r, 0, 1) ? pick(r, 1, 20) : around[pick(r, 0, sizeof around / sizeof *around - 1)];
}

/* ---- drawing ---- */

typedef struct lengths {
    int64_t of[26];
} lengths;

static int64_t *at(lengths *l, char letter) {
    return &l->of[letter - 'a'];
}

static int64_t window_leaves(int64_t length, int64_t window, int64_t stride, int64_t pad) {
    return length + 2 * pad < window ? 0 : (length + 2 * pad - window) / stride + 1;
}

/* `longest` is `length`, and the others are short; 0: any are long. */
static void draw(lengths *l, test_random *r, char longest, int64_t length) {
    do {
        for (const char *c = "abcd"; *c; c++) *at(l, *c) = longest ? pick(r, 1, 4) : pick_length(r);
        for (const char *c = "klmn"; *c; c++) *at(l, *c) = pick(r, 1, 4);
        for (const char *c = "st"; *c; c++) *at(l, *c) = pick(r, 1, 3);
        if (longest) *at(l, longest) = length;
        *at(l, 'p') = pick(r, 0, *at(l, 'k') / 2);
        *at(l, 'q') = pick(r, 0, *at(l, 'l') / 2);
        *at(l, 'x') = pick(r, 0, 2);
        *at(l, 'v') = pick(r, 0, 1);
        *at(l, 'e') = *at(l, 'a') + *at(l, 'b');
        *at(l, 'w') = *at(l, 'b') + 8;
        *at(l, 'o') = *at(l, 'c') + 8;
        *at(l, 'g') = 4 * *at(l, 'n');
        *at(l, 'i') = 3 * *at(l, 'n');
        *at(l, 'h') = 4 * *at(l, 'a');
        *at(l, 'y') = window_leaves(*at(l, 'c'), *at(l, 'k'), *at(l, 's'), *at(l, 'p'));
        *at(l, 'z') = window_leaves(*at(l, 'd'), *at(l, 'l'), *at(l, 't'), *at(l, 'q'));
    } while (!*at(l, 'y') || !*at(l, 'z'));
}

/* The form's text with its lengths. */
static void fill_in(const char *from, lengths *l, char *to, size_t room) {
    size_t n = 0;
    for (; from && *from && n + 24 < room; from++)
        if (*from == '$')
            n += (size_t)snprintf(to + n, room - n, "%lld", (long long)*at(l, *++from));
        else
            to[n++] = *from;
    to[n] = '\0';
}

typedef struct filled {
    char in[300], attrs[300];
    const weft_op *op;
    op_sample spec; /* has the texts above */
} filled;

static const weft_op *form_op(const form *f) {
    return op_find(&weft_catalog, f->op, strlen(f->op));
}

static void form_fill(const form *f, lengths *l, filled *to) {
    fill_in(f->in, l, to->in, sizeof to->in);
    fill_in(f->attrs, l, to->attrs, sizeof to->attrs);
    to->op = form_op(f);
    to->spec = (op_sample){.in = to->in, .attrs = to->attrs, .low = f->low, .high = f->high};
    if (f->below) to->spec.below = *at(l, f->below);
}

/* Of operands and results. */
static int64_t elements_of(const filled *f) {
    sample s;
    int64_t elements = 0;
    sample_build(&s, f->op, &f->spec, false);
    for (int i = 0; s.n && i < s.n->n_in; i++)
        if (s.n->in[i]) elements += type_elements(&s.n->in[i]->type);
    for (int k = 0; s.n && k < s.n->n_out; k++) elements += type_elements(&s.n->out[k].type);
    sample_free(&s);
    return elements;
}

static void filled_check(const filled *f, weft_dtype dtype) {
    if (dtype == WEFT_F32)
        sample_check(f->op, &f->spec, kernels_check);
    else
        sample_check_reduced(f->op, &f->spec, dtype, false, kernels_check);
}

static void case_run(uint64_t seed) {
    test_random r = {seed * 0x2545f4914f6cdd1du};
    lengths l;
    filled now;
    random_bits(&r);
    const form *f = &forms[seed % FORMS];
    if (!samples_are_of(form_op(f))) return;
    do { /* small enough for every kernel and layout to run in some milliseconds */
        draw(&l, &r, 0, 0);
        form_fill(f, &l, &now);
    } while (elements_of(&now) > MOST_ELEMENTS);
    bool is_f32 = !*f->in || pick(&r, 0, 1);
    filled_check(&now, is_f32 ? WEFT_F32 : pick(&r, 0, 1) ? WEFT_BF16 : WEFT_F16);
}

/* A form that cannot be made would be small, and its case empty. */
TEST(every_form_makes_a_node) {
    for (int i = 0; i < FORMS; i++) {
        test_random r = {(uint64_t)i + 1};
        lengths l;
        filled now;
        sample s;
        draw(&l, &r, 0, 0);
        form_fill(&forms[i], &l, &now);
        sample_build(&s, now.op, &now.spec, false);
        CHECK_SAYS(s.n, "%s(%s) %s: %s", forms[i].op, now.in, now.attrs, s.error_text);
        sample_free(&s);
    }
}

static bool has_form(const weft_op *op) {
    bool has = op->flags & OP_POINTWISE; /* one kernel for all of these */
    for (int i = 0; i < FORMS; i++) has |= form_op(&forms[i]) == op;
    return has;
}

/* Ops that a form cannot make: fused has a body (test_fused.c), chunk_squares a bucket (its samples). */
static bool needs_more_than_a_form(const weft_op *op) {
    return op == &weft_op_fused || op == &weft_op_chunk_squares;
}

TEST(every_op_with_a_kernel_of_ours_has_a_form) {
    kernel_env env = {.isa = isa_best(), .threads = 1};
    for (int i = 0; i < op_count(); i++) {
        const weft_kernel *list[16];
        int n = kernels_of(&weft_catalog, op_at(i), &env, list, 16);
        for (int j = 0; j < n; j++) {
            bool is_ours = list[j]->min_isa > WEFT_ISA_REFERENCE && strncmp(list[j]->name, "onednn", 6) != 0;
            CHECK_SAYS(!is_ours || has_form(op_at(i)) || needs_more_than_a_form(op_at(i)),
                       "%s (%s) has no form", op_at(i)->name, list[j]->name);
        }
    }
}

TEST(own_kernels_are_right_on_small_shapes) {
    uint64_t first = test_seed(1), n = (uint64_t)test_count(20 * FORMS, 2 * FORMS);
    for (uint64_t seed = first; seed < first + n; seed++) {
        test_case_begin();
        case_run(seed);
        test_case_end(false);
    }
}

/* ---- blocks: long axes, one in each node ---- */

enum { LONG = 300, LONGER = 1100, MOST_LONG = 12000 };

static bool has_letter(const char *text, char letter) {
    for (; text && *text; text++)
        if (text[0] == '$' && text[1] == letter) return true;
    return false;
}

/* f32, bf16 and f16; in short runs the i-th node has one of them. */
static bool has_turn(weft_dtype dtype, int i) {
    static const weft_dtype all[] = {WEFT_F32, WEFT_BF16, WEFT_F16};
    return test_is_quick() ? dtype == all[i % 3] : dtype != WEFT_F64;
}

static bool has_letter_in(const form *f, char letter) {
    return has_letter(f->in, letter) || has_letter(f->attrs, letter);
}

/* With $x and $v each axis that they may be; not where that would be large. */
static void check_long(const form *f, char letter, int64_t length, weft_dtype dtype) {
    int axes = has_letter_in(f, 'x') ? 3 : has_letter_in(f, 'v') ? 2 : 1;
    for (int axis = 0; axis < axes; axis++) {
        test_random r = {(uint64_t)length + (uint64_t)letter};
        lengths l;
        filled now;
        draw(&l, &r, letter, length);
        *at(&l, 'x') = axis;
        *at(&l, 'v') = axis % 2;
        form_fill(f, &l, &now);
        if (length == LONG || elements_of(&now) <= MOST_LONG) filled_check(&now, dtype);
    }
}

TEST(kernels_go_past_a_block_along_each_axis_in_each_precision) {
    kernels_check_long(true);
    for (int i = 0; i < FORMS; i++)
        for (const char *c = "abcdmn"; *c; c++)
            for (weft_dtype dtype = WEFT_F32; dtype <= WEFT_F16; dtype++) {
                if (!has_letter_in(&forms[i], *c) || !has_turn(dtype, i + *c) ||
                    !samples_are_of(form_op(&forms[i])))
                    continue;
                check_long(&forms[i], *c, LONG, dtype);
                check_long(&forms[i], *c, LONGER, dtype);
            }
    kernels_check_long(false);
}

/* What is longer than the constants above LONGER, and which these are: tests/rules/check_rows.py. */
static const struct {
    form node;
    const char *past[4];
} longest[] = {
    {{"gelu", "f32[40001]"}, {"pointwise.c WORTH_A_THREAD"}},
    {{"sum", "f32[2,40001]", "axes=1", 0.25, 2}, {"reduce.c ROW_CHUNK", "reduce.c WORTH_A_THREAD"}},
    {{"amax", "f32[9001,3]", "axes=0"},
     {"reduce.c WORTH_A_THREAD"}}, /* of rows that are joined: MAX_CHUNKS */
    {{"sum", "f32[3,9001,3]", "axes=0,1", 0.25, 2}, {"reduce.c WORTH_A_THREAD"}},
    {{"amin", "f32[7,5001]", "axes=0"}, {"reduce.c ROOM"}}, /* COLUMNS, and rows of more than a ROOM */
    {{"argmax", "f32[40,1001]", "axis=1"}, {"reduce.c WORTH_A_THREAD"}},
    {{"softmax", "f32[700,130]", "axis=0"}},
    {{"layer_norm_backward", "f32[5000,7], f32[5000,7], f32[5000], f32[5000], f32[7]", NULL, 0.25, 2}},
    {{"concat", "f32[3,20001], f32[3,17001]", "axis=1"}, {"copy.c PIECE", "copy.c WORTH_A_THREAD"}},
    {{"permute", "f32[300,130]", "axes=1,0"}, {"copy.c WORTH_A_THREAD"}},
    {{"gather", "f32[300,30], i64[600,30]", NULL, 0, 0, 'a'}, {"index.c WORTH_A_THREAD"}},
    {{"scatter_add", "f32[300,130], i64[600,130], f32[600,130]", NULL, 0.25, 2, 'a'},
     {"index.c TOTALS", "index.c WORTH_A_THREAD"}},
    {{"index", "f32[300,130], i64[400]", "axes=0", 0, 0, 'a'}, {"places.c WORTH_A_THREAD"}},
    {{"index_put", "f32[3,300,701], i64[40], f32[3,40,701]", "axes=1", 0, 0, 'a'},
     {"places.c WORTH_A_THREAD"}},
    {{"sort", "f32[3,5001]", "axis=1"}, {"sort.c WORTH_A_THREAD"}},
    {{"adaptive_avg_pool2d", "f32[1,300,30,40]", "size=1,1", 0.25, 2}}, /* windows longer than SUM_ROWS */
    {{"batch_norm", "f32[70,300,1,1], f32[300], f32[300]", "eps=1e-2", 0.25, 2}, {"batch_norm.c CHUNK"}},
    {{"batch_norm_backward", "f32[70,300,1,1], f32[70,300,1,1], f32[300], f32[300], f32[300]", NULL, 0.25, 2},
     {"batch_norm.c CHUNK"}},
    {{"matmul", "f32[3,200], f32[200,200]", NULL, 0.25, 2}, {"cast.c PIECE"}},
    {{"conv2d_weight", "f32[3,32,5,5], f32[3,32,5,5]", "kernel=3,3 stride=1,1 pad=1,1 dilation=1,1 groups=1",
      0.25, 2},
     {"parts.c PIECE"}},
    {{"adam_update", "f32[40001], f32[40001], f32[40001], f32[40001], f64[], f64[]",
      "lr_scale=0.5 beta1=0.9 beta2=0.99 eps=1e-3 weight_decay=0.01", 0.1, 2},
     {"optimizer.c BLOCK"}},
    {{"sgd_update", "f32[40001], f32[40001], f32[40001], f64[], f64[]", "lr_scale=0.5 momentum=0.9", 0.1, 2},
     {"optimizer.c BLOCK"}},
};

TEST(kernels_go_past_their_longest_blocks_in_each_precision) {
    kernels_check_long(true);
    for (size_t i = 0; i < sizeof longest / sizeof *longest; i++)
        for (weft_dtype dtype = WEFT_F32; dtype <= WEFT_F16; dtype++) {
            lengths l = {{300}}; /* a: what ids are below */
            filled now;
            if (!has_turn(dtype, (int)i) || !samples_are_of(form_op(&longest[i].node))) continue;
            form_fill(&longest[i].node, &l, &now);
            CHECK_SAYS(elements_of(&now) > LONGER, "%s(%s) %s is not a node", longest[i].node.op, now.in,
                       now.attrs);
            filled_check(&now, dtype);
        }
    kernels_check_long(false);
}

SUITE("simd_sweep",
      {T(every_form_makes_a_node), T(every_op_with_a_kernel_of_ours_has_a_form),
       T(own_kernels_are_right_on_small_shapes), T(kernels_go_past_a_block_along_each_axis_in_each_precision),
       T(kernels_go_past_their_longest_blocks_in_each_precision)})
