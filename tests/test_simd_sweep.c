/* test_simd_sweep.c - our own kernels (ops/cpu/simd) on small random shapes, as test_onednn_sweep.c does with
 * oneDNN's: every kernel of every instruction set runs each node, in each layout, in place, on 1 and 3
 * threads, against the plain loops of support/naive.h or, for ops that those do not know, the reference
 * (support/kernel_check.h).
 *
 * A form is a sample (op.h) with letters for lengths. Lengths are around the widths of vectors and of tiles,
 * so that remainders, rows that start anywhere in a vector, and incomplete blocks all occur. */
#include "ops/kit/op_kit.h"
#include "support/kernel_check.h"
#include "support/samples.h"

#include <stdio.h>
#include <string.h>

enum { MOST_ELEMENTS = 4000 };

typedef struct form {
    const char *op, *in, *attrs;
    double low, high;
    char below; /* integer operands are below the length of this letter */
} form;

/* $a, $b, $c, $d: lengths; $k $l window, $s $t strides, $p $q padding, $y $z what the window leaves of $c and
 * $d; $m $n other small lengths; $e = $a + $b, $w = $b + 8,
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
    {"max_pool2d", "f32[$m,$b,$w,$w]", "kernel=$k,$l stride=$s,$t pad=$p,$q dilation=2,2 ceil_mode=1"},
    {"adaptive_max_pool2d", "f32[$m,$b,$c,$d]", "size=$n,$k"},
    {"avg_pool2d", "f32[$m,$b,$c,$d]", "kernel=$k,$l stride=$s,$t pad=$p,$q", 0.25, 2},
    {"avg_pool2d", "f32[$m,$b,$c,$d]", "kernel=$k,$l stride=$s,$t pad=$p,$q ceil_mode=1 exclude_pad=1", 0.25,
     2},
    {"avg_pool2d_backward", "f32[$m,$b,$y,$z]", "kernel=$k,$l stride=$s,$t pad=$p,$q size=$c,$d", 0.25, 2},
    {"adaptive_avg_pool2d", "f32[$m,$b,$c,$d]", "size=$n,$k", 0.25, 2},
    {"adaptive_avg_pool2d_backward", "f32[$m,$b,$n,$k]", "size=$c,$d", 0.25, 2},
    {"interpolate", "f32[$m,$b,$n,$d]", "size=$c,$k mode=nearest"},
    {"interpolate", "f32[$m,$b,$n,$d]", "size=$k,$c mode=bilinear"},
    {"interpolate", "f32[$m,$b,$k,$l]", "size=$n,$d mode=bilinear align_corners=1"},
    {"interpolate_backward", "f32[$m,$b,$c,$k]", "size=$n,$d mode=nearest", 0.25, 2},
    {"interpolate_backward", "f32[$m,$b,$n,$k]", "size=$l,$d mode=bilinear", 0.25, 2},
    {"conv_transpose2d", "f32[$m,$b,$n,$d], f32[$b,$k,$l,$k], f32[$k]",
     "out=$k kernel=$l,$k stride=$l,$k pad=0,0 dilation=1,1 groups=1 output_padding=0,0", 0.25, 2},
    {"permute", "f32[$a,$b,$c]", "axes=2,0,1"},
    {"permute", "f32[$a,$b,$c]", "axes=1,0,2"},
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
    {"attention_backward",
     "f32[$m,$a,$n,$b], f32[$m,$n,$a,$b], f32[$m,1,$c,$b], f32[$m,1,$c,$b], f32[$m,$a,$n,$b], f32[$m,$n,$a], "
     "f32[$a,$c], f32[$m,$n,$a]",
     "causal=1 window=$d mask_gradient=1", 0.25, 1},
    {"lstm", "f32[$k,$m,$g], f32[$g,$n], f32[$m,$n], f32[$m,$n]", "reverse=0", -1, 1},
    {"lstm", "f32[$k,$b,$g], f32[$g,$n]", "reverse=1", -1, 1},
    {"lstm_backward", "f32[$k,$b,$g], f32[$k,$b,$n], f32[$g,$n], f32[$b,$n], f32[$k,$b,$n], -", "reverse=0", -1, 1},
    {"lstm_backward", "f32[$k,$m,$h], f32[$k,$m,$a], f32[$h,$a], -, f32[$k,$m,$a], f32[$k,$m,$a]", "reverse=1", -0.5, 0.5},
    {"attention_dropout", "f32[$m,$n,$a,$b], f32[$m,$n,$c,$b], f32[$m,$n,$c,$b]", "causal=$v p=0.25 key=0x7",
     -1, 1},
    {"rotary", "f32[$m,$n,$a,$e,2]", "base=100 offset=$b interleaved=$v"},
    {"gru", "f32[$k,$b,$i], f32[$i,$n], f32[$b,$n], f32[$i]", "reverse=0", -1, 1},
    {"gru", "f32[$k,$m,$i], f32[$i,$n]", "reverse=1", -1, 1},
    {"gru_backward", "f32[$k,$b,$i], f32[$k,$b,$n], f32[$k,$b,$n], f32[$i,$n], f32[$k,$b,$n], f32[$b,$n]",
     "reverse=0", -1, 1},
    {"rnn", "f32[$k,$m,$a], f32[$a,$a], f32[$m,$a]", "act=relu", -0.5, 0.5},
    {"rnn", "f32[$k,$b,$n], f32[$n,$n]", "reverse=1", -1, 1},
    {"rnn_backward", "f32[$k,$m,$a], f32[$k,$m,$a], f32[$a,$a]", "reverse=1", -0.5, 0.5},
    {"dropout", "f32[$a,$b]", "p=0.25 key=0x7"},
    {"random_normal", "", "shape=$a,$b std=1 key=0x5"},
    {"random_uniform", "", "shape=$a,$b low=-1 high=2 key=0x6"},
    {"adam_update", "f32[$e], f32[$e], f32[$e], f32[$e], f64[], f64[]",
     "lr_scale=0.5 beta1=0.9 beta2=0.99 eps=1e-3 weight_decay=0.01", 0.1, 2},
    {"sgd_update", "f32[$e], f32[$e], f32[$e], f64[], f64[]", "lr_scale=0.5 momentum=0.9 nesterov=1", 0.1, 2},
    {"accumulate", "f32[$e], f32[$e], f32[$e]", "of=2"},
    {"gather", "f32[$a,$b], i64[$c,$b]", NULL, 0, 0, 'a'},
    {"gather", "f32[$a,$c,$b], i32[1,$d,$b]", "axis=1 broadcast=1", 0, 0, 'c'},
    {"gather", "f32[$a,$b], u8[$a,$c]", "axis=1", 0, 0, 'b'},
    {"scatter", "f32[$a,$b], i64[$c,$b], f32[$c,$b]", NULL, 0, 0, 'a'},
    {"scatter", "f32[$a,$b], i64[1,$c], f32[]", "axis=1 broadcast=1", 0, 0, 'b'},
    {"scatter_add", "f32[$a,$b], i64[$c,$b], f32[$c,$b]", NULL, 0.25, 2, 'a'},
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

static void draw(lengths *l, test_random *r) {
    do {
        for (const char *c = "abcd"; *c; c++) *at(l, *c) = pick_length(r);
        for (const char *c = "klmn"; *c; c++) *at(l, *c) = pick(r, 1, 4);
        for (const char *c = "st"; *c; c++) *at(l, *c) = pick(r, 1, 3);
        *at(l, 'p') = pick(r, 0, *at(l, 'k') / 2);
        *at(l, 'q') = pick(r, 0, *at(l, 'l') / 2);
        *at(l, 'x') = pick(r, 0, 2);
        *at(l, 'v') = pick(r, 0, 1);
        *at(l, 'e') = *at(l, 'a') + *at(l, 'b');
        *at(l, 'w') = *at(l, 'b') + 8;
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

/* Small enough, results included, for every kernel and layout to run in some milliseconds. */
static bool is_small(const weft_op *op, const op_sample *spec) {
    sample s;
    int64_t elements = 0;
    sample_build(&s, op, spec, false);
    for (int i = 0; s.n && i < s.n->n_in; i++)
        if (s.n->in[i]) elements += type_elements(&s.n->in[i]->type);
    for (int k = 0; s.n && k < s.n->n_out; k++) elements += type_elements(&s.n->out[k].type);
    sample_free(&s);
    return elements <= MOST_ELEMENTS;
}

static void case_run(uint64_t seed) {
    char in[300], attrs[300];
    test_random r = {seed * 0x2545f4914f6cdd1du};
    lengths l;
    random_bits(&r);
    const form *f = &forms[seed % FORMS];
    const weft_op *op = op_find(f->op, strlen(f->op));
    op_sample spec = {.in = in, .attrs = attrs, .low = f->low, .high = f->high};
    do {
        draw(&l, &r);
        fill_in(f->in, &l, in, sizeof in);
        fill_in(f->attrs, &l, attrs, sizeof attrs);
        spec.below = f->below ? *at(&l, f->below) : 0;
    } while (!is_small(op, &spec));
    if (!*f->in || pick(&r, 0, 1))
        sample_check(op, &spec, kernels_check);
    else
        sample_check_reduced(op, &spec, pick(&r, 0, 1) ? WEFT_BF16 : WEFT_F16, false, kernels_check);
}

/* A form that cannot be made would be small, and its case empty. */
TEST(every_form_makes_a_node) {
    for (int i = 0; i < FORMS; i++) {
        char in[300], attrs[300];
        test_random r = {(uint64_t)i + 1};
        lengths l;
        sample s;
        draw(&l, &r);
        fill_in(forms[i].in, &l, in, sizeof in);
        fill_in(forms[i].attrs, &l, attrs, sizeof attrs);
        op_sample spec = {.in = in, .attrs = attrs};
        sample_build(&s, op_find(forms[i].op, strlen(forms[i].op)), &spec, false);
        CHECK_SAYS(s.n, "%s(%s) %s: %s", forms[i].op, in, attrs, s.error_text);
        sample_free(&s);
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

SUITE("simd_sweep", {T(every_form_makes_a_node), T(own_kernels_are_right_on_small_shapes)})
