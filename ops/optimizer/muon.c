/* muon.c - the optimizer muon: torch.optim.Muon with nesterov. b is the buffer, for a matrix p of r rows and
 * c columns.
 *     b += (1 - momentum) (g - b)         d = g + momentum (b - g)
 *     p = p (1 - lr weight_decay) - lr sqrt(max(1, r / c)) orthogonal(d)
 * orthogonal(x): x / |x|, then five times x = a x + (b A + c A A) x with A = x x^T, which brings singular
 * values near 1; of x^T where that is smaller. PyTorch computes it in bf16, this in the parameter's type.
 * Jordan et al., https://kellerjordan.github.io/posts/muon. */
#include "ops/optimizer/build.h"

#include <math.h>

static weft_value *orthogonal(weft_value *x, double eps) {
    enum { TIMES = 5 };
    const double a = 3.4445, b = -4.7750, c = 2.0315;
    weft_value *norm = norm_of(x);
    x = weft_div(x, weft_maximum(norm, number_like(norm, eps)));
    for (int i = 0; i < TIMES; i++) {
        weft_value *gram = weft_matmul(x, x, false, true);
        weft_value *square = weft_scale(weft_matmul(gram, gram, false, false), c);
        weft_value *more = weft_add(weft_scale(gram, b), square),
                   *turned = weft_matmul(more, x, false, false);
        x = weft_add(weft_scale(x, a), turned);
    }
    return x;
}

static void build(weft_update *u, const minimize_attrs *a) {
    const int64_t *shape = u->parameter->type.shape;
    bool is_tall = u->parameter->type.ndim == 2 && shape[0] > shape[1];
    weft_value *g = u->gradient, *buffer = u->slots[0] = moved_by(u, u->slots[0], g, a->momentum);
    weft_value *d = moved_by(u, buffer, g, a->momentum);
    d = orthogonal(is_tall ? weft_transpose(d, 0, 1) : d, a->eps);
    if (is_tall) d = weft_scale(weft_transpose(d, 0, 1), sqrt((double)shape[0] / (double)shape[1]));
    u->parameter = stepped(decayed_parameter(u, a), d, u->lr);
}

const optimizer_kind optimizer_muon = {
    .type = "muon",
    .build = build,
    .fields = {"momentum", "eps"},
    .defaults = {{"momentum", 0.95}, {"eps", 1e-7}, {"weight_decay", 0.1}},
    .slots = {{"momentum_buffer"}},
    .is_for_matrices = true,
};
