/* unfold.c - the elements of each place of a sliding window as a column, and the sum of such columns where
 * they came from; torch.nn.functional.unfold and fold.
 *     unfold   x [N, C, H, W]     ->   [N, C kh kw, h w]
 *     fold     [N, C kh kw, h w]  ->   [N, C, H, W]
 * Row (c kh + i) kw + j of a column is the window's element (i, j) of channel c; outside of x it is 0. Each
 * op is the other's transpose, so each is the other's gradient. */
#include "ops/image/unfold.h"

#define WINDOW_ROWS                                                                                          \
    {"kernel", ATTR_INTS, offsetof(unfold_attrs, kernel), 1, UNFOLD_MAX},                                    \
        {"stride", ATTR_INTS, offsetof(unfold_attrs, stride), 1, UNFOLD_MAX},                                \
        {"pad", ATTR_INTS, offsetof(unfold_attrs, pad), 0, UNFOLD_MAX}, {                                    \
        "dilation", ATTR_INTS, offsetof(unfold_attrs, dilation), 1, UNFOLD_MAX                               \
    }

static const op_attr unfold_rows[] = {WINDOW_ROWS, {0}};
static const op_attr fold_rows[] = {
    {"size", ATTR_INTS, offsetof(unfold_attrs, size), 1, INT32_MAX}, WINDOW_ROWS, {0}};

int64_t unfold_count(const unfold_attrs *a, int i, int64_t length) {
    int64_t room = length + 2 * a->pad.v[i] - a->dilation.v[i] * (a->kernel.v[i] - 1) - 1;
    return room < 0 ? 0 : room / a->stride.v[i] + 1;
}

/* ---- shapes ---- */

static bool pairs_fit(const op_call *c) {
    const unfold_attrs *a = c->attrs;
    const attr_ints *pairs[] = {&a->kernel, &a->stride, &a->pad, &a->dilation};
    static const char *const names[] = {"kernel", "stride", "pad", "dilation"};
    for (int i = 0; i < 4; i++)
        if (pairs[i]->n != 2)
            return op_fail(c, WEFT_ARGUMENT, "%s has %d numbers: it must have 2, height and width", names[i],
                           pairs[i]->n);
    return true;
}

/* The columns of an image. */
static bool columns_of(const op_call *c, const tensor_type *image, tensor_type *columns) {
    const unfold_attrs *a = c->attrs;
    int64_t places = 1, window = a->kernel.v[0] * a->kernel.v[1];
    for (int i = 0; i < 2; i++) {
        int64_t count = unfold_count(a, i, image->shape[2 + i]);
        if (count < 1)
            return op_fail(c, WEFT_SHAPE,
                           "%s: axis %d with pad %lld on both sides is smaller than the window", TYPE(image),
                           2 + i, (long long)a->pad.v[i]);
        places *= count;
    }
    *columns = type_of(image->dtype, 3, (int64_t[]){image->shape[0], image->shape[1] * window, places});
    return true;
}

static bool unfold_infer(op_call *c) {
    const tensor_type *x = op_in(c, 0);
    if (!op_want_float(c, 0) || !pairs_fit(c)) return false;
    if (x->ndim != 4) return op_fail(c, WEFT_SHAPE, "x is %s: it must be [N, C, H, W]", TYPE(x));
    return columns_of(c, x, &c->out[0]);
}

static bool fold_infer(op_call *c) {
    const unfold_attrs *a = c->attrs;
    const tensor_type *x = op_in(c, 0);
    tensor_type want;
    if (!op_want_float(c, 0) || !pairs_fit(c)) return false;
    if (a->size.n != 2)
        return op_fail(c, WEFT_ARGUMENT, "size has %d numbers: it must have 2, height and width", a->size.n);
    int64_t window = a->kernel.v[0] * a->kernel.v[1];
    if (x->ndim != 3 || x->shape[1] % window)
        return op_fail(c, WEFT_SHAPE, "x is %s: it must be [N, C * %lld, places]", TYPE(x),
                       (long long)window);
    c->out[0] =
        type_of(x->dtype, 4, (int64_t[]){x->shape[0], x->shape[1] / window, a->size.v[0], a->size.v[1]});
    if (!columns_of(c, &c->out[0], &want)) return false;
    return type_equal(x, &want) || op_fail(c, WEFT_SHAPE, "x is %s: a window has %lld places in %s", TYPE(x),
                                           (long long)want.shape[2], TYPE(&c->out[0]));
}

/* ---- gradients ---- */

static void unfold_gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    unfold_attrs a = *(const unfold_attrs *)n->attrs;
    const int64_t *shape = n->in[0]->type.shape;
    a.size = (attr_ints){2, {shape[2], shape[3]}};
    din[0] = node_value(n->graph, &weft_op_fold, 1, &dout[0], &a);
}

static void fold_gradient(weft_node *n, weft_value *const *dout, const bool *wanted, weft_value **din) {
    unfold_attrs a = *(const unfold_attrs *)n->attrs;
    a.size = (attr_ints){0};
    din[0] = node_value(n->graph, &weft_op_unfold, 1, &dout[0], &a);
}

/* ---- reference kernels ---- */

/* Element `at` of the columns of an image: its index there; false outside. */
static bool element_of(const unfold_attrs *a, const tensor_type *image, const int64_t *at, int64_t from[4]) {
    int64_t across = unfold_count(a, 1, image->shape[3]), row = at[1] / a->kernel.v[1];
    from[0] = at[0];
    from[1] = row / a->kernel.v[0];
    from[2] = unfold_at(a, 0, at[2] / across, row % a->kernel.v[0]);
    from[3] = unfold_at(a, 1, at[2] % across, at[1] % a->kernel.v[1]);
    return from[2] >= 0 && from[2] < image->shape[2] && from[3] >= 0 && from[3] < image->shape[3];
}

static weft_status unfold_reference(const kernel_call *c) {
    const tensor *x = &c->in[0], *y = &c->out[0];
    int64_t at[WEFT_MAX_NDIM] = {0}, from[4];
    do element_set(y, at, element_of(c->attrs, &x->type, at, from) ? element_get(x, from) : 0);
    while (index_next(&y->type, at));
    return WEFT_OK;
}

/* Element (row, column) of the image in all places of the window. */
static double sum_of_places(const kernel_call *c, const int64_t *at) {
    const unfold_attrs *a = c->attrs;
    const tensor_type *image = &c->out[0].type;
    int64_t down = unfold_count(a, 0, image->shape[2]), across = unfold_count(a, 1, image->shape[3]);
    double sum = 0;
    for (int64_t k = 0; k < a->kernel.v[0] * a->kernel.v[1]; k++)
        for (int64_t p = 0; p < down * across; p++) {
            int64_t from[4], column[] = {at[0], at[1] * a->kernel.v[0] * a->kernel.v[1] + k, p};
            bool is_inside = element_of(a, image, column, from);
            if (is_inside && from[2] == at[2] && from[3] == at[3]) sum += element_get(&c->in[0], column);
        }
    return sum;
}

static weft_status fold_reference(const kernel_call *c) {
    int64_t at[WEFT_MAX_NDIM] = {0};
    do element_set(&c->out[0], at, sum_of_places(c, at));
    while (index_next(&c->out[0].type, at));
    return WEFT_OK;
}

/* ---- the ops ---- */

const weft_op weft_op_unfold = {
    .name = "unfold",
    .torch = "torch.nn.functional.unfold",
    .summary = "each place of a sliding window over x[N,C,H,W] as a column",
    .min_in = 1,
    OP_ATTRS(unfold_attrs, unfold_rows),
    .precision = PRECISION_FOLLOWS,
    .infer = unfold_infer,
    .gradient = unfold_gradient,
    .reference = unfold_reference,
    .samples =
        (const op_sample[]){
            {"f32[2,3,4,5]", "kernel=2,3 stride=1,1 pad=0,0 dilation=1,1", .out = "f32[2,18,9]"},
            {"f32[2,2,7,6]", "kernel=3,2 stride=2,1 pad=1,2 dilation=2,3", .out = "f32[2,12,21]"},
            {"f32[1,2,5,5]", "kernel=1,1 stride=2,2 pad=1,0 dilation=1,1", .out = "f32[1,2,12]"},
            {"f32[1,3,40,37]", "kernel=3,3 stride=1,1 pad=1,1 dilation=1,1", .out = "f32[1,27,1480]",
             .no_gradient = true},
            {"bf16[1,2,5,5]", "kernel=2,2 stride=1,1 pad=1,1 dilation=1,1", .no_gradient = true},
            {"f32[2,3,4,5]", "kernel=5,3 stride=1,1 pad=0,0 dilation=1,1",
             .error = "axis 2 with pad 0 on both sides is smaller than the window"},
            {"f32[2,3,4,5]", "kernel=2 stride=1,1 pad=0,0 dilation=1,1", .error = "kernel has 1 numbers"},
            {"f32[3,4,5]", "kernel=2,2 stride=1,1 pad=0,0 dilation=1,1", .error = "must be [N, C, H, W]"},
            {"u8[2,3,4,5]", "kernel=2,2 stride=1,1 pad=0,0 dilation=1,1", .error = "must be floating point"},
            {0}},
};

const weft_op weft_op_fold = {
    .name = "fold",
    .torch = "torch.nn.functional.fold",
    .summary = "columns of a sliding window added up where they are in [N,C,H,W]",
    .min_in = 1,
    OP_ATTRS(unfold_attrs, fold_rows),
    .precision = PRECISION_FOLLOWS,
    .infer = fold_infer,
    .gradient = fold_gradient,
    .reference = fold_reference,
    .samples =
        (const op_sample[]){
            {"f32[2,18,9]", "size=4,5 kernel=2,3 stride=1,1 pad=0,0 dilation=1,1", .out = "f32[2,3,4,5]"},
            {"f32[2,12,21]", "size=7,6 kernel=3,2 stride=2,1 pad=1,2 dilation=2,3", .out = "f32[2,2,7,6]"},
            {"f32[1,2,12]", "size=5,5 kernel=1,1 stride=2,2 pad=1,0 dilation=1,1", .out = "f32[1,2,5,5]"},
            {"f32[1,27,270]", "size=15,18 kernel=3,3 stride=1,1 pad=1,1 dilation=1,1",
             .out = "f32[1,3,15,18]", .no_gradient = true},
            {"bf16[1,8,36]", "size=5,5 kernel=2,2 stride=1,1 pad=1,1 dilation=1,1", .no_gradient = true},
            {"f32[2,18,9]", "size=4,6 kernel=2,3 stride=1,1 pad=0,0 dilation=1,1",
             .error = "a window has 12 places in f32[2,3,4,6]"},
            {"f32[2,17,9]", "size=4,5 kernel=2,3 stride=1,1 pad=0,0 dilation=1,1",
             .error = "it must be [N, C * 6, places]"},
            {"f32[2,18,9]", "size=4 kernel=2,3 stride=1,1 pad=0,0 dilation=1,1",
             .error = "size has 1 numbers"},
            {0}},
};

/* ---- the builders ---- */

/* The defaults of a convolution's window; what is of convolutions alone is refused. */
static bool attrs_from(unfold_attrs *a, const char *name, const weft_value *x, const int64_t *kernel,
                       const weft_window *window) {
    static const weft_window none;
    const weft_window *w = window ? window : &none;
    *a = (unfold_attrs){.kernel.n = 2, .stride.n = 2, .pad.n = 2, .dilation.n = 2};
    for (int i = 0; i < 2; i++) {
        a->kernel.v[i] = kernel ? kernel[i] : 0;
        a->stride.v[i] = w->stride[i] ? w->stride[i] : 1;
        a->pad.v[i] = w->pad[i];
        a->dilation.v[i] = w->dilation[i] ? w->dilation[i] : 1;
    }
    if (!value_reserved(x, name, w->reserved, sizeof w->reserved)) return false;
    bool is_plain = w->groups >= 0 && w->groups <= 1 && !w->stride[2] && !w->pad[2] && !w->dilation[2];
    for (int i = 0; i < 3; i++) is_plain = is_plain && !w->output_padding[i];
    return is_plain ||
           value_fail(x, WEFT_ARGUMENT,
                      "%s: groups, output_padding and third numbers are not for it: leave them 0", name);
}

weft_value *weft_unfold(weft_value *x, const int64_t kernel[2], const weft_window *window) {
    unfold_attrs a;
    if (!x || !attrs_from(&a, "unfold", x, kernel, window)) return NULL;
    return op_value(&weft_op_unfold, 1, &x, &a);
}

weft_value *weft_fold(weft_value *x, const int64_t size[2], const int64_t kernel[2],
                      const weft_window *window) {
    unfold_attrs a;
    if (!x || !attrs_from(&a, "fold", x, kernel, window)) return NULL;
    if (size) a.size = (attr_ints){2, {size[0], size[1]}};
    return op_value(&weft_op_fold, 1, &x, &a);
}
