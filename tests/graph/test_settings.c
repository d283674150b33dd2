/* test_settings.c - settings that are left 0, contradict another, are out of range or name nothing: one row
 * each, with the error that names the setting or its default. Nothing that a caller sets may be ignored.
 *
 * A row runs on a fresh model (struct kit); its error is the model's own, or weft_compile's. */
#include "graph/core/graph.h"
#include "graph/core/limits.h"
#include "support/scopes.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a model: net/a and net/b are linear layers over x ---- */

typedef struct kit {
    weft_model *m;
    weft_graph *g, *eval;
    weft_value *x, *y, *image, *loss, *state; /* f32[4,3] f32[4,2] f32[2,4,6,6] f32[] f32[3] */
    weft_compile_options options;
} kit;

static weft_value *net(weft_value *x) {
    WEFT_SCOPE(x, "net") x = weft_linear(weft_relu(weft_linear(x, 5, "a", NULL)), 2, "b", NULL);
    return x;
}

static weft_value *loss_of(weft_value *y) {
    return weft_mean(weft_square(y), WEFT_ALL, false);
}

static weft_value *input_of(weft_graph *g) {
    return weft_input(g, "x", WEFT_F32, 2, (int64_t[]){4, 3});
}

static kit kit_new(void) {
    kit k = {.m = weft_model_new("m")};
    k.g = weft_graph_new(k.m, "train", WEFT_TRAIN);
    k.x = input_of(k.g);
    k.image = weft_input(k.g, "image", WEFT_F32, 4, (int64_t[]){2, 4, 6, 6});
    k.state = weft_state(k.x, "seen", 1, (int64_t[]){3}, (weft_init){0});
    k.y = net(k.x);
    k.loss = loss_of(k.y);
    weft_output(k.loss, "loss");
    k.eval = weft_graph_new(k.m, "eval", WEFT_EVAL);
    weft_output(net(input_of(k.eval)), "y");
    return k;
}

/* C leaves open which argument is evaluated first. Where it is the left one, a call among the arguments takes
 * the place that was noted for the outer call, which then has none. */
static int number_of(int *calls) {
    return ++*calls;
}

static bool is_less(int a, int b) {
    return a < b;
}

static bool arguments_go_from_the_left(void) {
    int calls = 0;
    return is_less(number_of(&calls), number_of(&calls));
}

/* An error of a builder call names the call's file and line, also if only compiling finds it. No line is
 * named for wrong compile options, for a name that two passes want, and for a call whose first operand is
 * NULL, as that operand leads to the line. */
static bool has_place(const char *text) {
    if (arguments_go_from_the_left()) return true;
    static const char *const without[] = {"compile: ", "path ", "conv2d: operand 0 is NULL",
                                          "scopes_plain.c:"};
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        if (strncmp(text, without[i], strlen(without[i])) == 0) return true;
    return strncmp(text, "test_settings.c:", 16) == 0;
}

/* `error` NULL: the model compiles. */
static void kit_check(const kit *k, const char *row, const char *error) {
    weft_error e = {0};
    weft_plan *plan = weft_compile(k->m, &k->options, &e);
    if (error)
        CHECK_SAYS(!plan && strstr(e.text, error) && has_place(e.text),
                   "%s: wanted a place and '%s', got '%s'", row, error, plan ? "" : e.text);
    else
        CHECK_SAYS(plan != NULL, "%s: %s", row, e.text);
    weft_plan_free(plan);
    weft_model_free(k->m);
}

/* ---- optimizers: fields, the error or what the model's text then says ---- */

/* clang-format off */
#define OPTIMIZER(...) (weft_optimizer){__VA_ARGS__}
#define GROUPS(...)                                                                                          \
    .n_groups = sizeof((weft_param_group[]){__VA_ARGS__}) / sizeof(weft_param_group),                        \
    .groups = (weft_param_group[]){__VA_ARGS__}
#define SGD    .type = "sgd"
#define ADAM   .type = "adam"
#define PART(of, ...) .schedule = {{WEFT_SCHEDULE_##of, __VA_ARGS__}}
#define STEP(...)     PART(STEP, .period = 5, __VA_ARGS__)
#define COSINE(...)   PART(COSINE, .end = 9, __VA_ARGS__)
/* clang-format on */

typedef struct optimizer_row {
    const char *holds; /* a part of the minimize line, and the model compiles; NULL: */
    const char *error;
    weft_optimizer optimizer;
} optimizer_row;

static void optimizer_check(const optimizer_row *row) {
    kit k = kit_new();
    weft_minimize(k.loss, "net", &row->optimizer);
    if (row->holds) {
        char *text = weft_model_text(k.m), *line = text ? strstr(text, "minimize(") : NULL;
        if (line) line[strcspn(line, "\n")] = 0;
        CHECK_SAYS(line && strstr(line, row->holds), "wanted '%s' in '%s'", row->holds,
                   line ? line : "nothing");
        weft_text_free(text);
    }
    kit_check(&k, row->holds ? row->holds : row->error, row->error);
}

TEST(every_field_of_an_optimizer_has_a_default_or_an_error) {
    /* clang-format off */
    const optimizer_row rows[] = {
        /* what 0 means */
        {"lr=0.001 ", NULL, {SGD}},
        {"lr=0.001 beta1=0.9 beta2=0.999 eps=1e-08", NULL, {ADAM}},
        {"eps=1e-08 weight_decay=0.01", NULL, {.type = "adamw"}},
        {"name=\"adam:net\"", NULL, {ADAM}},
        {"schedule=\"step,period=5,gamma=0.1\"", NULL, {ADAM, STEP()}},
        /* a true zero */
        {"name=\"sgd:net\" groups=", NULL, {SGD, .lr = WEFT_ZERO}},
        {"lr=0.001 beta2=", NULL, {ADAM, .beta1 = WEFT_ZERO}},
        {"eps=1e-08 groups=", NULL, {.type = "adamw", .weight_decay = WEFT_ZERO}},
        /* negative, out of range, not finite */
        {NULL, "minimize: lr=-1: it must be from 0 to 3.40282e+38 (0 means 0.001; a true 0 is WEFT_ZERO)",
         {SGD, .lr = -1}},
        {NULL, "minimize: lr=nan", {SGD, .lr = NAN}},
        {NULL, "minimize: lr=inf", {SGD, .lr = INFINITY}},
        {NULL, "minimize: lr=1e+300", {SGD, .lr = 1e300}},
        {NULL, "momentum=-0.9", {SGD, .momentum = -0.9}},
        {NULL, "dampening=2: it must be from 0 to 1", {SGD, .momentum = 0.9, .dampening = 2}},
        {NULL, "beta1=-1", {ADAM, .beta1 = -1}},
        {NULL, "betas must be in [0, 1)", {ADAM, .beta2 = 1}},
        {NULL, "eps=-1e-08", {ADAM, .eps = -1e-8}},
        {NULL, "weight_decay=-0.1", {ADAM, .weight_decay = -0.1}},
        {NULL, "clip_norm=-1: it must be from 0 to", {ADAM, .clip_norm = -1}},
        {NULL, "clip_norm=-1e-300", {ADAM, .clip_norm = WEFT_ZERO}},
        {NULL, "clip_value=-1: it must be from 0 to", {ADAM, .clip_value = -1}},
        {NULL, "clip_value=nan", {ADAM, .clip_value = NAN}},
        {NULL, "ema=-0.5: it must be from 0 to 1", {ADAM, .ema = -0.5}},
        {NULL, "ema=2: it must be from 0 to 1", {ADAM, .ema = 2}},
        {NULL, "ema must be in [0, 1)", {ADAM, .ema = 1}},
        {NULL, "parameter group 0: ema is set, but groups", {ADAM, GROUPS({"*bias", .numbers = {{"ema", 0.5}}})}},
        {"ema=0.5", NULL, {ADAM, .ema = 0.5}},
        {"ema=0.5 ema_gamma=2000", NULL, {ADAM, .ema = 0.5, .ema_gamma = 2000}},
        {NULL, "ema_gamma=-1: it must be from 0", {ADAM, .ema = 0.5, .ema_gamma = -1}},
        {NULL, "ema_gamma and ema_buffers are settings of averages", {ADAM, .ema_gamma = 2000}},
        {NULL, "ema_gamma and ema_buffers are settings of averages", {ADAM, .ema_buffers = true}},
        {"clip_value=0.5", NULL, {ADAM, .clip_value = 0.5}},
        {NULL, "loss_scale=-1", {ADAM, .loss_scale = -1}},
        {NULL, "growth_interval=-1: it must not be negative", {ADAM, .growth_interval = -1}},
        {NULL, "minimize: there is no optimizer 'lyon': did you mean 'lion'? The type must be sgd, asgd", {.type = "lyon", .momentum = 1}},
        {NULL, "LBFGS evaluates the loss several times in one step", {.type = "LBFGS"}},
        {NULL, "SparseAdam is for sparse gradients", {.type = "SparseAdam"}},
        {"type=\"adamw\" name=\"adamw:net\"", NULL, {.type = "AdamW"}},
        {NULL, "an optimizer with a type is needed", {.lr = 1}},
        {NULL, "name must be 1 to 200 printable", {ADAM, .name = ""}},
        {NULL, "name must be 1 to 200 printable", {ADAM, .name = "a b"}},
        /* fields of another optimizer */
        {NULL, "minimize: momentum is set, but adam has none: leave it 0", {ADAM, .momentum = 0.9}},
        {NULL, "dampening is set, but adamw has none", {.type = "adamw", .dampening = 0.9}},
        {NULL, "nesterov is set, but adam has none", {ADAM, .nesterov = true}},
        {NULL, "beta1 is set, but sgd has none", {SGD, .beta1 = 0.9}},
        {NULL, "beta2 is set, but sgd has none", {SGD, .beta2 = 0.9}},
        {NULL, "eps is set, but sgd has none", {SGD, .eps = 1e-8}},
        {NULL, "beta1 is set, but sgd has none", {SGD, .beta1 = WEFT_ZERO}},
        {NULL, "dampening is set, but it damps momentum, which is 0", {SGD, .dampening = 0.5}},
        {NULL, "nesterov needs momentum > 0", {SGD, .nesterov = true}},
        {NULL, "nesterov needs momentum > 0 and dampening 0",
         {SGD, .nesterov = true, .momentum = 0.9, .dampening = 0.1}},
        /* those of single optimizers: a default, a value, and an error or another optimizer that has none */
        {"alpha=0.99", NULL, {.type = "rmsprop"}},
        {"lambd=0.0001 t0=1e+06", NULL, {.type = "asgd"}},
        {"alpha=0.5", NULL, {.type = "asgd", .alpha = 0.5, .lambd = 0.1, .t0 = 5}},
        {NULL, "lambd=-1: it must be from 0", {.type = "asgd", .lambd = -1}},
        {NULL, "t0 is set, but adam has none", {ADAM, .t0 = 1}},
        {NULL, "alpha is set, but adam has none", {ADAM, .alpha = 0.5}},
        {"rho=0.9", NULL, {.type = "adadelta"}},
        {NULL, "rho=1.5: it must be from 0 to 1", {.type = "adadelta", .rho = 1.5}},
        {"lr=0.01 eps=1e-10 lr_decay=0.5 initial_accumulator=2", NULL,
         {.type = "adagrad", .lr_decay = 0.5, .initial_accumulator = 2}},
        {NULL, "lr_decay=-1", {.type = "adagrad", .lr_decay = -1}},
        {NULL, "initial_accumulator is set, but rmsprop has none", {.type = "rmsprop", .initial_accumulator = 1}},
        {"eta_minus=0.5 eta_plus=1.2 step_min=1e-06 step_max=50", NULL, {.type = "rprop"}},
        {NULL, "rprop needs 0 < eta_minus < 1 < eta_plus", {.type = "rprop", .eta_minus = 1}},
        {NULL, "rprop needs 0 < eta_minus < 1 < eta_plus", {.type = "rprop", .eta_plus = 0.9}},
        {NULL, "step_min must not be above step_max", {.type = "rprop", .step_min = 2, .step_max = 1}},
        {NULL, "weight_decay is set, but rprop has none", {.type = "rprop", .weight_decay = 0.1}},
        {"momentum_decay=0.004", NULL, {.type = "nadam"}},
        {"momentum_decay=0.1 decoupled_weight_decay=1", NULL,
         {.type = "nadam", .momentum_decay = 0.1, .decoupled_weight_decay = true}},
        {NULL, "decoupled_weight_decay is set, but adam has none", {ADAM, .decoupled_weight_decay = true}},
        {"centered=1", NULL, {.type = "rmsprop", .centered = true}},
        {NULL, "centered is set, but adagrad has none", {.type = "adagrad", .centered = true}},
        {"amsgrad=1", NULL, {ADAM, .amsgrad = true}},
        {NULL, "amsgrad is set, but nadam has none", {.type = "nadam", .amsgrad = true}},
        {"trust=0.001", NULL, {.type = "lars"}},
        {NULL, "trust=-1: it must be from 0", {.type = "lars", .trust = -1}},
        {"beta2=0.99", NULL, {.type = "lion"}},
        {"beta2_decay=0.8 eps2=0.001 update_rms=1", NULL, {.type = "adafactor"}},
        {"beta2_decay=0.5 eps2=0.1 update_rms=2", NULL,
         {.type = "adafactor", .beta2_decay = 0.5, .eps2 = 0.1, .update_rms = 2}},
        {NULL, "update_rms must be at least 1", {.type = "adafactor", .update_rms = 0.5}},
        {NULL, "update_rms is set, but lion has none", {.type = "lion", .update_rms = 1}},
        {NULL, "betas must be in [0, 1)", {.type = "lamb", .beta2 = 1}},
        {NULL, "net/a/bias is f32[5]: muon updates matrices only", {.type = "muon"}},
        /* schedules */
        {NULL, "schedule part 1: there is no kind number 10", {ADAM, .schedule = {{(weft_schedule_kind)10}}}},
        {NULL, "schedule part 1: it has no kind", {ADAM, .schedule = {{.warmup = 5}}}},
        {NULL, "schedule part 3: it has no kind, or follows a part without one", {ADAM, .schedule = {{WEFT_SCHEDULE_STEP, .period = 2}, {0}, {WEFT_SCHEDULE_STEP, .period = 2}}}},
        {NULL, "schedule part 1, step: of=3: there is no such number", {ADAM, STEP(.of = (weft_scheduled)3)}},
        {NULL, "minimize: schedule part 1, cosine: gamma is set, but a schedule of this kind has none", {ADAM, COSINE(.gamma = 0.5)}},
        {NULL, "cosine: period is set", {ADAM, COSINE(.period = 3)}},
        {NULL, "cosine: period_mult is set", {ADAM, COSINE(.period_mult = 3)}},
        {NULL, "step: length is set", {ADAM, STEP(.length = 3)}},
        {NULL, "step: to is set", {ADAM, STEP(.to = 0.1)}},
        {NULL, "step: from is set", {ADAM, STEP(.from = WEFT_ZERO)}},
        {NULL, "step: middle is set", {ADAM, STEP(.middle = 1)}},
        {NULL, "step: power is set", {ADAM, STEP(.power = 1)}},
        {NULL, "step: share is set", {ADAM, STEP(.share = 0.5)}},
        {NULL, "step: linear is set", {ADAM, STEP(.linear = true)}},
        {NULL, "step: three_phase is set", {ADAM, STEP(.three_phase = true)}},
        {NULL, "step: it needs a period", {ADAM, PART(STEP, 0)}},
        {NULL, "cosine_restarts: it needs a period", {ADAM, PART(COSINE_RESTARTS, 0)}},
        {NULL, "cosine: it needs an end, or a length", {ADAM, PART(COSINE, 0)}},
        {NULL, "cosine: the warm-up fills its range", {ADAM, COSINE(.warmup = 9)}},
        {NULL, "cosine: end must be above begin", {ADAM, COSINE(.begin = 9)}},
        {NULL, "a count must not be negative", {ADAM, COSINE(.begin = -1)}},
        {NULL, "a count must not be negative", {ADAM, COSINE(.warmup = -1)}},
        {NULL, "a count must not be negative", {ADAM, COSINE(.length = -1)}},
        {NULL, "end must be above begin", {ADAM, PART(STEP, .end = -1, .period = 2)}},
        {NULL, "gamma=-0.5: it must be a finite number from 0 on", {ADAM, STEP(.gamma = -0.5)}},
        {NULL, "to=nan", {ADAM, COSINE(.to = NAN)}},
        {NULL, "multi_step: it needs milestones", {ADAM, PART(MULTI_STEP, 0)}},
        {NULL, "milestones must increase", {ADAM, PART(MULTI_STEP, .milestones = {3, 3})}},
        {NULL, "milestones must increase", {ADAM, PART(MULTI_STEP, .milestones = {-3})}},
        {NULL, "milestones end with the first 0", {ADAM, PART(MULTI_STEP, .milestones = {3, 0, 5})}},
        {NULL, "only multi_step has them", {ADAM, STEP(.milestones = {3})}},
        {NULL, "one_cycle: share must be above 0 and below 1", {ADAM, PART(ONE_CYCLE, .end = 9, .share = 1)}},
        {NULL, "exponential: it needs gamma, or from", {ADAM, PART(EXPONENTIAL, .end = 9)}},
        {NULL, "exponential: gamma is set, and from", {ADAM, PART(EXPONENTIAL, .gamma = 0.5, .from = 0.1)}},
        {NULL, "exponential: gamma must be above 0", {ADAM, PART(EXPONENTIAL, .gamma = WEFT_ZERO)}},
        {NULL, "schedule part 1, step: it multiplies the momentum, and sgd has none, or it is 0", {SGD, STEP(.of = WEFT_SCHEDULED_MOMENTUM)}},
        {NULL, "it multiplies the weight_decay, and adam has none", {ADAM, STEP(.of = WEFT_SCHEDULED_WEIGHT_DECAY)}},
        {NULL, "momentum 0.9 times its factors must stay below 1", {ADAM, COSINE(.of = WEFT_SCHEDULED_MOMENTUM, .to = 1.2)}},
        {"schedule=\"cosine:0-9,by_epoch,replaces,length=9,from=1,to=0.5\"", NULL, {ADAM, COSINE(.by_epoch = true, .replaces = true, .to = 0.5)}},
        /* of f16 alone */
        {NULL, "graph train: optimizer 'adam:net' sets loss_scale, but nothing in the graph computes in f16",
         {ADAM, .loss_scale = 1024}},
        {NULL, "sets growth_interval, but nothing in the graph", {ADAM, .growth_interval = 5}},
        /* groups */
        {"groups=\"*bias 1 1\"", NULL, {ADAM, GROUPS({"*bias"})}},
        {"groups=\"*bias 0 2;*weight 0.5 0\"", NULL,
         {ADAM, .weight_decay = 0.1, GROUPS({"*bias", WEFT_ZERO, 2}, {"*weight", 0.5, WEFT_ZERO})}},
        {"groups=\"*bias,*b/weight 2 1\"", NULL, {ADAM, GROUPS({"*bias,*b/weight", 2})}},
        {NULL, "parameter group 0: no parameter of 'net' matches '*weights'", {ADAM, GROUPS({"*bias,*weights"})}},
        {NULL, "parameter group 0: decay_scale is set, but weight_decay is 0",
         {ADAM, GROUPS({"*bias", .decay_scale = 2})}},
        {NULL, "parameter group 0: decay_scale is set, but weight_decay is 0",
         {.type = "adamw", .weight_decay = WEFT_ZERO, GROUPS({"*bias", .decay_scale = WEFT_ZERO})}},
        {NULL, "parameter group 0: no parameter of 'net' matches '*biass'", {ADAM, GROUPS({"*biass"})}},
        {NULL, "parameter group 1, '*a/bias', is never used: all it matches is in an earlier group, as group 0, '*bias'",
         {ADAM, GROUPS({"*bias"}, {"*a/bias"})}},
        {"groups=\"*a/bias 1 1;*bias 1 1\"", NULL, {ADAM, GROUPS({"*a/bias"}, {"*bias"})}},
        {"groups=\"*bias 1 1 beta1=0.5 eps=0\"", NULL, {ADAM, GROUPS({"*bias", .numbers = {{"beta1", 0.5}, {"eps", 0}}})}},
        {NULL, "parameter group 0: an optimizer has no number 'beta3'", {ADAM, GROUPS({"*bias", .numbers = {{"beta3", 0.5}}})}},
        {NULL, "parameter group 0: an optimizer has no number 'type'", {ADAM, GROUPS({"*bias", .numbers = {{"type", 0.5}}})}},
        {NULL, "parameter group 0: momentum is set, but groups of adam have none", {ADAM, GROUPS({"*bias", .numbers = {{"momentum", 0.5}}})}},
        {NULL, "parameter group 0: lr is set, but groups of adam have none", {ADAM, GROUPS({"*bias", .numbers = {{"lr", 0.5}}})}},
        {NULL, "parameter group 0: clip_norm is set, but groups", {ADAM, GROUPS({"*bias", .numbers = {{"clip_norm", 0.5}}})}},
        {NULL, "parameter group 0: betas must be in [0, 1)", {ADAM, GROUPS({"*bias", .numbers = {{"beta1", 1}}})}},
        {NULL, "parameter group 0: it needs state that the optimizer does not keep", {SGD, GROUPS({"*bias", .numbers = {{"momentum", 0.9}}})}},
        {NULL, "parameter group 0: lr_scale=-1", {ADAM, GROUPS({"*bias", .lr_scale = -1})}},
        {NULL, "parameter group 0: decay_scale=nan", {ADAM, GROUPS({"*bias", .decay_scale = NAN})}},
        {NULL, "parameter group 0: it needs kinds, or a pattern", {ADAM, GROUPS({NULL})}},
        {NULL, "parameter group 0: it needs kinds, or a pattern", {ADAM, GROUPS({"a b", .kinds = WEFT_PARAMS_BIAS})}},
        {"groups=\"* 2 1 kinds=bias\"", NULL, {ADAM, GROUPS({.kinds = WEFT_PARAMS_BIAS, .lr_scale = 2})}},
        {"groups=\"net/a 1 1 kinds=bias+flat eps=0.1;* 2 1 kinds=bias\"", NULL,
         {ADAM, GROUPS({"net/a", .kinds = WEFT_PARAMS_BIAS | WEFT_PARAMS_FLAT, .numbers = {{"eps", 0.1}}},
                       {.kinds = WEFT_PARAMS_BIAS, .lr_scale = 2})}},
        {NULL, "parameter group 0: no parameter of 'net' under '*' is of the kind norm or embedding: there are bias, flat",
         {ADAM, GROUPS({.kinds = WEFT_PARAMS_NORM | WEFT_PARAMS_EMBEDDING})}},
        {NULL, "under '*weight' is of the kind bias: there are none of any kind", {ADAM, GROUPS({"*weight", .kinds = WEFT_PARAMS_BIAS})}},
        {NULL, "parameter group 0: no parameter of 'net' matches '*biass'", {ADAM, GROUPS({"*biass", .kinds = WEFT_PARAMS_BIAS})}},
        {NULL, "parameter group 1, '*', is never used: all it matches is in an earlier group, as group 0, '*'; put the narrower group first",
         {ADAM, GROUPS({.kinds = WEFT_PARAMS_FLAT}, {.kinds = WEFT_PARAMS_BIAS})}},
        {NULL, "parameter group 0: kinds=32: it must be of the bits WEFT_PARAMS_", {ADAM, GROUPS({"*", .kinds = 32})}},
        {"groups=\"*bias 1 1 from=3 to=5 eps=0.1\"", NULL, {ADAM, GROUPS({"*bias", .from = 3, .to = 5, .numbers = {{"eps", 0.1}}})}},
        {NULL, "parameter group 0: from=3 to=3: it trains in updates [from, to)", {ADAM, GROUPS({"*bias", .from = 3, .to = 3})}},
        {NULL, "parameter group 0: from=-1 to=0", {ADAM, GROUPS({"*bias", .from = -1})}},
        {NULL, "parameter group 0: from=0 to=-1", {ADAM, GROUPS({"*bias", .to = -1})}},
        {NULL, "from or to is set, but nadam keeps one product", {.type = "nadam", GROUPS({"*bias", .to = 2})}},
        {NULL, "schedule part 1, step: rprop reads lr at its first step alone", {.type = "rprop", STEP(.gamma = 0.5)}},
        {NULL, "n_groups=2 and groups are NULL", {ADAM, .n_groups = 2}},
        {NULL, "n_groups=0 and groups are given", {ADAM, .groups = (weft_param_group[]){{"*bias"}}}},
        {NULL, "n_groups=-1", {ADAM, .n_groups = -1}},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) optimizer_check(&rows[i]);
}

/* A group without scales trains as if it were not there; PyTorch's groups inherit too. */
static float trained(const weft_optimizer *o, const char *path) {
    kit k = kit_new();
    weft_error e = {0};
    float x[12], image[2 * 4 * 6 * 6] = {0}, before[15], after[15];
    int64_t shape[WEFT_MAX_NDIM], n = 1;
    for (int i = 0; i < 12; i++) x[i] = (float)i / 7;
    weft_minimize(k.loss, NULL, o);
    weft_plan *plan = weft_compile(k.m, NULL, &e);
    weft_store *store = weft_store_new(plan, 1, &e);
    weft_session *s = weft_session_open(plan, store, &e);
    int ndim = weft_store_shape(store, path, NULL, shape);
    for (int i = 0; i < ndim; i++) n *= shape[i];
    size_t bytes = (size_t)n * sizeof(float);
    weft_store_get(store, path, before, bytes, &e);
    weft_run(s, "train", (weft_feed[]){{"x", x, sizeof x}, {"image", image, sizeof image}}, 2, NULL, 0, &e);
    CHECK_SAYS(weft_store_get(store, path, after, bytes, &e) == WEFT_OK, "%s", e.text);
    weft_session_close(s);
    weft_store_free(store);
    weft_plan_free(plan);
    weft_model_free(k.m);
    float sum = 0;
    for (int64_t i = 0; i < n; i++) sum += fabsf(after[i] - before[i]);
    return sum;
}

TEST(a_group_inherits_what_it_leaves_0) {
    const weft_optimizer plain = {SGD, .lr = 0.1}, left = {SGD, .lr = 0.1, GROUPS({"*bias"})},
                         frozen = {SGD, .lr = 0.1, GROUPS({"*bias", WEFT_ZERO})},
                         doubled = {SGD, .lr = 0.1, GROUPS({"*bias", 2})};
    float moved = trained(&plain, "net/b/bias");
    CHECK(moved > 0);
    CHECK(trained(&left, "net/b/bias") == moved);
    CHECK(trained(&frozen, "net/b/bias") == 0);
    CHECK(trained(&frozen, "net/b/weight") > 0);
    CHECK_SAYS(fabsf(trained(&doubled, "net/b/bias") - 2 * moved) < 1e-5f, "%g", moved);
}

/* ---- several graphs, several calls ---- */

static weft_value *second_graph(kit *k) {
    return loss_of(net(input_of(weft_graph_new(k->m, "again", WEFT_TRAIN))));
}

static void two_graphs(const char *error, const weft_optimizer *first, const weft_optimizer *second) {
    kit k = kit_new();
    weft_minimize(k.loss, "net", first);
    weft_minimize(second_graph(&k), "net", second);
    kit_check(&k, error ? error : "two graphs", error);
}

TEST(one_optimizer_has_one_setting_in_all_graphs) {
    static const char lr[] =
        "graphs train and again share the optimizer 'adam:net', but the first with lr=0.001, the "
        "second with lr=0.01: use equal settings, or two names";
    two_graphs(NULL, &OPTIMIZER(ADAM), &OPTIMIZER(ADAM, .lr = 1e-3));
    two_graphs(lr, &OPTIMIZER(ADAM), &OPTIMIZER(ADAM, .lr = 1e-2));
    two_graphs(NULL, &OPTIMIZER(ADAM),
               &OPTIMIZER(ADAM, .name = "other", .lr = 1e-2)); /* two states of one parameter */
    two_graphs(NULL, &OPTIMIZER(ADAM), &OPTIMIZER(SGD));
    two_graphs("type=\"adam\", the second with type=\"sgd\"", &OPTIMIZER(ADAM, .name = "o"),
               &OPTIMIZER(SGD, .name = "o"));
    two_graphs("beta1=0.9, the second with beta1=0.5", &OPTIMIZER(ADAM), &OPTIMIZER(ADAM, .beta1 = 0.5));
    two_graphs("clip_norm=0, the second with clip_norm=1", &OPTIMIZER(ADAM),
               &OPTIMIZER(ADAM, .clip_norm = 1));
    two_graphs("schedule=\"constant,warmup=7,from=1\", the second with schedule=0",
               &OPTIMIZER(ADAM, .schedule = {{WEFT_SCHEDULE_CONSTANT, .warmup = 7, .from = 1}}),
               &OPTIMIZER(ADAM));
    two_graphs("groups=\"\", the second with groups=\"*bias 2 1\"", &OPTIMIZER(ADAM),
               &OPTIMIZER(ADAM, GROUPS({"*bias", 2})));
    two_graphs("nesterov=1, the second with nesterov=0", &OPTIMIZER(SGD, .momentum = 0.9, .nesterov = true),
               &OPTIMIZER(SGD, .momentum = 0.9));
}

/* Attention of one small value with itself. */
static weft_value *attended(kit *k, const weft_attention_options *o) {
    weft_value *x = weft_input(k->g, "q", WEFT_F32, 4, (int64_t[]){1, 2, 5, 4});
    return weft_attention(x, x, x, o);
}

/* ---- calls: a statement on a kit, and the error ---- */

static const weft_strategy taken = {.name = "ddp"}; /* a name of Weft's */

#define F32(...)                                                                                             \
    weft_input(k->g, "other", WEFT_F32, sizeof((int64_t[]){__VA_ARGS__}) / 8, (int64_t[]){__VA_ARGS__})
#define TRAIN(pattern, ...) weft_minimize(k->loss, pattern, &OPTIMIZER(__VA_ARGS__))
#define CONV(...)           weft_conv2d(k->image, &(weft_conv){__VA_ARGS__}, "c")
#define LINE(...)           weft_conv1d(F32(2, 3, 8), &(weft_conv){__VA_ARGS__}, "c")
#define VOLUME(...)         weft_conv3d(F32(2, 3, 4, 4, 4), &(weft_conv){__VA_ARGS__}, "c")
#define UP(...)             weft_conv_transpose2d(k->image, &(weft_conv){__VA_ARGS__}, "c")
#define WINDOW(...)         weft_conv2d_op(k->image, weight(k, 4), NULL, &(weft_window){__VA_ARGS__})
#define POOL(...)           weft_max_pool2d(k->image, &(weft_pool){__VA_ARGS__})
#define RESIZE(...)         weft_interpolate(k->image, &(weft_interpolation){__VA_ARGS__})
#define GRID(...)           weft_grid_sample(k->image, F32(2, 3, 3, 2), &(weft_grid_options){__VA_ARGS__})
#define DATA                weft_constant(k->g, WEFT_U16, 1, (int64_t[]){2}, 65535)
#define NORM(...)           weft_batch_norm(k->x, "n", &(weft_batch_norm_options){__VA_ARGS__})
#define ROTARY(...)         weft_rotary(k->x, &(weft_rotary_options){__VA_ARGS__})
#define ATTENTION(...)      attended(k, &(weft_attention_options){__VA_ARGS__})
#define GRU(...)            weft_gru(F32(5, 4, 3), &(weft_recurrent){__VA_ARGS__}, "l", NULL)
#define RNN(...)            weft_rnn(F32(5, 4, 3), &(weft_recurrent){__VA_ARGS__}, "l", NULL)
#define LSTM(...)           weft_lstm(F32(5, 4, 3), &(weft_recurrent){__VA_ARGS__}, "l", NULL, NULL)
#define INIT(...)           weft_parameter_in(k->g, "w", 2, (int64_t[]){3, 3}, (weft_init){__VA_ARGS__})
#define DDP(...)            weft_model_set_ddp(k->m, "net", &(weft_ddp_options){__VA_ARGS__})
#define COMPILE(...)                                                                                         \
    k->options = (weft_compile_options) {                                                                    \
        __VA_ARGS__                                                                                          \
    }

static weft_value *weight(kit *k, int64_t channels) {
    return weft_parameter_in(k->g, "w4", 4, (int64_t[]){8, channels, 3, 3},
                             (weft_init){WEFT_INIT_KAIMING_UNIFORM});
}

static weft_value *lstm_state(kit *k) {
    return weft_input(k->g, "state", WEFT_F32, 3, (int64_t[]){1, 4, 6});
}

/* Everything is trained, `p` too. */
static void reach(kit *k, weft_value *p) {
    weft_minimize(weft_add(k->loss, loss_of(p)), "", &OPTIMIZER(ADAM, .name = "o"));
}

static const weft_init ones = {WEFT_INIT_ONES, 0, 0};

static void never_built(weft_update *update) {
    (void)update;
}

#define LATER .reserved = {0, 1} /* a program that was compiled for a later version */

/* clang-format off */
#define CALLS(X)                                                                                                       \
    /* a NULL where a value is needed, and no error before it */                                                       \
    X(add_null,          weft_add(k->x, NULL),                      "add: operand 1 is NULL, and no call before this") \
    X(null_add,          weft_add(NULL, k->x),                      "add: operand 0 is NULL")                          \
    X(where_null,        weft_where(NULL, k->x, k->x),              "where: operand 0 is NULL")                        \
    X(matmul_null,       weft_matmul(NULL, k->x, false, true),      "matmul: operand 0 is NULL")                       \
    X(linear_op_null,    weft_linear_op(k->x, NULL, NULL),          "linear: operand 1 is NULL")                       \
    X(linear_op_no_x,    weft_linear_op(NULL, k->x, NULL),          "linear: operand 0 is NULL")                       \
    X(conv_op_null,      weft_conv2d_op(k->image, NULL, NULL, NULL), "conv2d: operand 1 is NULL")                      \
    X(conv_op_no_x,      weft_conv2d_op(NULL, weight(k, 4), NULL, NULL), "conv2d: operand 0 is NULL")                  \
    X(up_op_null,        weft_conv_transpose2d_op(k->image, NULL, NULL, NULL), "conv_transpose2d: operand 1 is NULL")  \
    X(embedding_op_null, weft_embedding_op(k->x, NULL),             "embedding: operand 1 is NULL")                    \
    X(attention_null,    weft_attention(k->image, NULL, k->image, NULL), "attention: operand 1 is NULL")           \
    X(layer_norm_half,   weft_layer_norm_op(k->x, NULL, k->state, 0), "a bias without a weight")              \
    X(cross_entropy_null, weft_cross_entropy(k->x, NULL, NULL),           "cross_entropy: operand 1 is NULL")                \
    X(mse_null,          weft_mse(k->x, NULL, NULL),                      "mse: the target is NULL")                         \
    X(null_mse,          weft_mse(NULL, k->x, NULL),                      "mse: the prediction is NULL")                     \
    X(bce_null,          weft_bce_with_logits(k->x, NULL, &(weft_loss){.reduction = WEFT_LOSS_NONE}),          "bce_with_logits: the target is NULL")             \
    X(concat_null,       weft_concat(2, (weft_value *[]){k->x, NULL}, 0), "concat: operand 1 is missing")              \
    X(null_concat,       weft_concat(2, (weft_value *[]){NULL, k->x}, 0), "concat: operand 0 is NULL")                 \
    X(assign_null,       weft_assign(k->state, NULL),               "assign: operand 0 is NULL")                       \
    X(null_assign,       weft_assign(NULL, k->x),                   "assign: the first value must come from weft_state") \
    X(gradients_null,    weft_gradients(k->loss, 1, (weft_value *[]){NULL}, (weft_value *[1]){0}), "operand 1 is NULL") \
    X(null_gradients,    weft_gradients(NULL, 1, (weft_value *[]){k->x}, (weft_value *[1]){0}), "operand 0 is NULL")   \
    X(gradients_of_none, weft_gradients(k->loss, 0, NULL, NULL),    "gradients: 0 values")                             \
    X(output_null,       input_of(weft_graph_new(k->m, "idle", WEFT_EVAL)); weft_output(NULL, "y"),                    \
                         "graph idle does nothing: it has no output")                                                  \
    /* losses of two shapes */                                                                                         \
    X(mse_broadcasts,    weft_mse(F32(4, 1), weft_input(k->g, "t", WEFT_F32, 1, (int64_t[]){4}), NULL),                      \
                         "mse: the prediction is f32[4,1], the target f32[4]: they must have one shape")               \
    X(bce_broadcasts,    weft_bce_with_logits(F32(4), k->x, &(weft_loss){.reduction = WEFT_LOSS_NONE}),        "bce_with_logits: the prediction is f32[4], the")  \
    X(prelu_broadcasts,  weft_prelu(k->x, F32(4)),                  "prelu: the weight is f32[4]: it must be [1], or") \
    X(mse_of_a_row,      weft_mse(k->x, F32(3), NULL),                    "the target f32[3]: they must have one shape")     \
    X(mse_of_one_axis,   weft_mse(k->x, F32(1), NULL),                    "they must have one shape")                        \
    X(mse_of_a_number,   weft_mse(k->x, weft_constant(k->g, WEFT_F32, 0, NULL, 1), NULL), NULL)                              \
    X(entropy_columns,   weft_cross_entropy(k->x, weft_input(k->g, "t", WEFT_I64, 2, (int64_t[]){4, 1}), NULL),              \
                         "one integer target a row")                                                                           \
    X(entropy_of_floats, weft_cross_entropy(k->x, F32(4), NULL),          "target is f32[4]: it must be integer")            \
    /* layers */                                                                                                       \
    X(conv_nothing,      weft_conv2d(k->image, NULL, "c"),          "conv2d: options are needed")                      \
    X(conv_no_out,       CONV(.kernel = 3),                         "conv2d: out=0: it must be at least 1")            \
    X(conv_no_kernel,    CONV(.out = 4),                            "conv2d: kernel=0: it must be at least 1")         \
    X(conv_stride,       CONV(.out = 4, .kernel = 3, .stride = -1), "stride=-1")                                       \
    X(conv_pad,          CONV(.out = 4, .kernel = 3, .pad = -1),    "pad=-1")                                          \
    X(conv_dilation,     CONV(.out = 4, .kernel = 3, .dilation = -2), "dilation=-2")                                   \
    X(conv_groups,       CONV(.out = 4, .kernel = 3, .groups = 3),  "3 groups do not divide 4 input channels")         \
    X(conv_groups_out,   CONV(.out = 3, .kernel = 3, .groups = 2),  "groups")                                          \
    X(conv_minus_groups, CONV(.out = 4, .kernel = 3, .groups = -1), "-1 groups do not divide")                         \
    X(conv_padding,      CONV(.out = 4, .kernel = 3, .output_padding = 1), "output_padding is conv_transpose2d's alone") \
    X(conv_two_biases,   CONV(.out = 4, .kernel = 3, .no_bias = true, .bias = &ones), "no_bias, and an initializer")   \
    X(conv_weight,         CONV(.out = 4, .kernel = 3, .weight = &ones), NULL)                                         \
    X(conv_kernel_hw,    CONV(.out = 4, .kernel_hw = {1, 3}, .pad_hw = {0, 1}), NULL)                                  \
    X(conv_kernel_half,  CONV(.out = 4, .kernel_hw = {3, 0}),       "conv2d: kernel=0: it must be at least 1")         \
    X(conv_kernel_twice, CONV(.out = 4, .kernel = 3, .kernel_hw = {1, 3}), "conv2d: kernel_hw: or the number without") \
    X(conv_stride_hw,    CONV(.out = 4, .kernel = 3, .stride_hw = {1, -2}), "stride[1]=-2")                            \
    X(conv_dilation_hw,  CONV(.out = 4, .kernel = 3, .dilation_hw = {-2, 1}), "dilation[0]=-2")                        \
    X(conv_pad_hw,       CONV(.out = 4, .kernel = 3, .pad = 1, .pad_hw = {0, 1}), "conv2d: pad_hw: or the number")     \
    X(conv_padding_hw,   CONV(.out = 4, .kernel = 3, .output_padding_hw = {0, 1}), "output_padding is conv_transpose2d's alone") \
    X(conv_kernel_dhw,   CONV(.out = 4, .kernel_dhw = {1, 3, 3}),   "conv2d: kernel_dhw: an image has two axes")       \
    X(volume_defaults,   VOLUME(.out = 4, .kernel = 3),             NULL)                                              \
    X(volume_no_kernel,  VOLUME(.out = 4),                          "conv3d: kernel=0: it must be at least 1")         \
    X(volume_hw,         VOLUME(.out = 4, .kernel_hw = {1, 3}),     "conv3d: kernel_hw: a volume has three axes")      \
    X(volume_kernel_dhw, VOLUME(.out = 4, .kernel_dhw = {1, 3, 2}, .pad_dhw = {0, 1, 1}), NULL)                        \
    X(volume_kernel_two, VOLUME(.out = 4, .kernel_dhw = {1, 3, 0}), "conv3d: kernel=0: it must be at least 1")         \
    X(volume_twice,      VOLUME(.out = 4, .kernel = 3, .kernel_dhw = {1, 3, 3}), "conv3d: kernel_dhw: or the number without _dhw") \
    X(volume_stride_dhw, VOLUME(.out = 4, .kernel = 3, .stride_dhw = {1, 1, -2}), "stride[2]=-2")                      \
    X(volume_dilation_dhw, VOLUME(.out = 4, .kernel = 3, .dilation_dhw = {-2, 1, 1}), "dilation[0]=-2")                \
    X(volume_pad_dhw,    VOLUME(.out = 4, .kernel = 3, .pad = 1, .pad_dhw = {0, 1, 0}), "conv3d: pad_dhw: or the number") \
    X(volume_padding_dhw, VOLUME(.out = 4, .kernel = 3, .output_padding_dhw = {0, 1, 0}), "output_padding is conv_transpose3d's alone") \
    X(volume_of_image,   weft_conv3d(k->image, &(weft_conv){.out = 4, .kernel = 3}, "c"), "conv3d: x is f32[2,4,6,6]: it must be [N, C, D, H, W]") \
    X(volume_up_padding, weft_conv_transpose3d(F32(2, 3, 4, 4, 4), &(weft_conv){.out = 4, .kernel = 3, .output_padding_dhw = {0, 2, 0}}, "c"), \
                         "conv_transpose3d: output_padding 2")                                                         \
    X(volume_pool_image, weft_max_pool3d(k->image, &(weft_pool){.kernel = {2, 2, 2}}), "max_pool3d: x is f32[2,4,6,6]: it must be [N, C, D, H, W]") \
    X(volume_pool_half,  weft_max_pool3d(F32(2, 3, 4, 4, 4), &(weft_pool){.kernel = {2, 2}}), "max_pool3d: kernel[2]=0: it must be 1 to") \
    X(volume_pool_flat,  weft_max_pool3d(F32(2, 3, 4, 4, 4), &(weft_pool){.kernel = {1, 2, 2}, .pad = {1, 0, 0}}), "axis 2 a window of kernel 1 lies in the padding: use less than pad 1") \
    X(volume_no_depth,   weft_avg_pool3d(F32(2, 3, 4, 4, 4), &(weft_pool){.kernel = {0, 2, 2}}), "avg_pool3d: kernel[0]=0: it must be 1 to") \
    X(volume_short,      weft_max_pool3d(F32(2, 3, 4, 5, 6), &(weft_pool){.kernel = {2, 9, 2}}), "max_pool3d: f32[2,3,4,5,6]: axis 3 with pad 0") \
    X(volume_stride,     weft_max_pool3d(F32(2, 3, 4, 5, 6), &(weft_pool){.kernel = {2, 2, 2}, .stride = {-1, 1, 1}}), "max_pool3d: stride[0]=-1: it must be 0 to") \
    X(volume_parts,      weft_adaptive_avg_pool3d(F32(2, 3, 4, 4, 4), 0, 2, 2), "adaptive_avg_pool3d: a size of 0 x 2 x 2") \
    X(line_of_image,     weft_conv1d(k->image, &(weft_conv){.out = 4, .kernel = 3}, "c"), "conv1d: x is f32[2,4,6,6]: it must be [N, C, L]") \
    X(line_hw,           LINE(.out = 4, .kernel_hw = {1, 3}),       "conv1d: kernel_hw: a line has one axis")          \
    X(line_defaults,     LINE(.out = 4, .kernel = 3),               NULL)                                              \
    X(line_no_kernel,    LINE(.out = 4),                            "conv1d: kernel=0: it must be at least 1")         \
    X(line_padding,      LINE(.out = 4, .kernel = 3, .output_padding = 1), "output_padding is conv_transpose2d's alone") \
    X(line_pool_pair,    weft_max_pool1d(F32(2, 3, 8), &(weft_pool){.kernel = {2, 2}}), "max_pool1d: a line has one axis") \
    X(line_pool_image,   weft_avg_pool1d(k->image, &(weft_pool){.kernel = {2}}), "it must be [N, C, L]")               \
    X(conv_defaults,     CONV(.out = 4, .kernel = 3),               NULL)                                              \
    X(up_no_out,         UP(.kernel = 3),                           "conv_transpose2d: out=0")                         \
    X(up_padding,        UP(.out = 4, .kernel = 3, .output_padding = 1), "output_padding")                             \
    X(window_padding,    WINDOW(.output_padding = {0, 1}),          "conv2d: output_padding is conv_transpose2d's")    \
    X(window_third,      WINDOW(.pad = {0, 0, 1}),                  "conv2d: an image has two axes: leave the third")  \
    X(window_groups,     WINDOW(.groups = INT64_MIN),               "groups")                                          \
    X(window_pad,          WINDOW(.pad = {0, -1}),                    "pad[1]=-1")                                     \
    X(window_dilation,     WINDOW(.dilation = {2, -1}),               "dilation[1]=-1")                                \
    X(window_stride,     WINDOW(.stride = {0, -1}),                 "stride[1]=-1")                                       \
    X(pool_nothing,      weft_max_pool2d(k->image, NULL),           "kernel=0: it must be 1 to")                       \
    X(pool_half,         POOL(.kernel = {2, 0}),                    "kernel[1]=0: it must be 1 to")                       \
    X(pool_pad,          POOL(.kernel = {2, 2}, .pad = {2, 2}),     "axis 2 a window of kernel 2 lies in the padding") \
    X(pool_stride,       POOL(.kernel = {2, 2}, .stride = {-1, 1}), "stride[0]=-1")                                       \
    X(pool_dilation,     POOL(.kernel = {2, 2}, .dilation = {1, -1}), "dilation[1]=-1")                                \
    X(pool_dilation_far, POOL(.kernel = {2, 2}, .dilation = {900, 1}), "smaller than the kernel 901 with dilation")    \
    X(pool_third,        POOL(.kernel = {2, 2, 2}),                 "max_pool2d: an image has two axes: leave the third") \
    X(pool_ceil_mode,    POOL(.kernel = {2, 2}, .ceil_mode = true), NULL)                                              \
    X(pool_exclude_pad,  POOL(.kernel = {2, 2}, .exclude_pad = true), "exclude_pad and divisor are for averages")      \
    X(pool_divisor,      POOL(.kernel = {2, 2}, .divisor = 3),      "exclude_pad and divisor are for averages")        \
    X(mean_dilation,     weft_avg_pool2d(k->image, &(weft_pool){.kernel = {2, 2}, .dilation = {1, 2}}),                \
                         NULL)                                                                                         \
    X(resize_size,       RESIZE(.size = {0, 4}),                    "size[0]=0: it must be 1 to")                      \
    X(resize_nothing,    weft_interpolate(k->image, NULL),          "a size or scales: exactly one of them")           \
    X(resize_scale,      RESIZE(.scale = {2, -1}),                  "scale_h=2 scale_w=-1: both must be above 0")      \
    X(resize_scale_nan,  RESIZE(.scale = {2, NAN}),                 "scale_w is not a finite number")                  \
    X(resize_both,       RESIZE(.size = {8, 8}, .scale = {2, 2}),   "a size or scales: exactly one of them")           \
    X(resize_mode,       RESIZE(.size = {8, 8}, .mode = (weft_interpolation_mode)7), "mode=7")                         \
    X(resize_corners,    RESIZE(.size = {8, 8}, .align_corners = true), "align_corners is for bilinear")               \
    X(resize_antialias,  RESIZE(.size = {8, 8}, .antialias = true), "antialias is for bilinear")                       \
    X(resize_third,      RESIZE(.size = {8, 8, 8}),                 "interpolate: an image has two axes: leave the third") \
    X(resize_line,       weft_interpolate(F32(2, 3, 8), &(weft_interpolation){.size = {8, 8}}), "interpolate: a line has one axis") \
    X(resize_volume,     weft_interpolate(F32(2, 3, 4, 4, 4), &(weft_interpolation){.size = {8, 8, 8}, .antialias = true}), "antialias is for images, not for a volume") \
    X(grid_mode,         GRID(.mode = (weft_grid_mode)7),           "mode=7")                                             \
    X(grid_padding,      GRID(.padding = (weft_grid_padding)7),     "padding=7")                                          \
    X(grid_corners,      GRID(.align_corners = true),               NULL)                                                 \
    X(affine_theta,      weft_affine_grid(F32(2, 2, 2), (int64_t[]){3, 4}, false), "affine_grid: theta is f32[2,2,2]: it must be [N, 2, 3]") \
    X(affine_size,       weft_affine_grid(F32(2, 2, 3), (int64_t[]){3, 0}, false), "affine_grid: size[1]=0: it must be 1 to") \
    X(unfold_groups,     weft_unfold(k->image, (int64_t[]){2, 2}, &(weft_window){.groups = 2}), "unfold: groups, output_padding and third numbers") \
    X(unfold_kernel,     weft_unfold(k->image, NULL, NULL),         "kernel=0: it must be 1 to")                          \
    X(fold_size,         weft_fold(F32(2, 4, 9), NULL, (int64_t[]){2, 2}, NULL), "fold: size has 0 numbers")              \
    X(adaptive_zero,     weft_adaptive_avg_pool2d(k->image, 0, 1),  "size[0]=0")                                          \
    X(linear_no_out,     weft_linear(k->x, 0, "l", NULL),                 "linear: out=0: it must be at least 1")            \
    X(linear_weight,       weft_linear(k->x, 2, "l", &(weft_linear_options){.weight = &ones}), NULL)              \
    X(linear_form,       weft_linear(k->x, 2, "l", &(weft_linear_options){.parametrization = (weft_parametrization)9}), \
                                                                    "parametrization=9: it must be")                   \
    X(conv_form,         CONV(.out = 2, .kernel = 1, .parametrization = (weft_parametrization)-1), "parametrization=-1") \
    X(linear_biases,     weft_linear(k->x, 2, "l", &(weft_linear_options){.no_bias = true, .bias = &ones}),       \
                         "linear: no_bias, and an initializer for the bias")                                           \
    X(linear_no_name,    weft_linear(k->x, 2, NULL, NULL),                "a layer or a scope needs a name")                                   \
    X(norm_weight,         NORM(.weight = &ones),                     NULL)                                            \
    X(norm_defaults,     NORM(0),                                   NULL)                                              \
    X(norm_eps,          NORM(.eps = -1),                           "batch_norm: eps=-1: it must be from 0")           \
    X(norm_eps_nan,      NORM(.eps = NAN),                          "batch_norm: eps=nan")                             \
    X(norm_eps_eval,     weft_batch_norm(weft_input(k->eval, "z", WEFT_F32, 2, (int64_t[]){4, 3}), "n",           \
                                              &(weft_batch_norm_options){.eps = -1}), "batch_norm: eps=-1")            \
    X(norm_momentum,     NORM(.momentum = 1.5),                     "momentum=1.5: it must be from 0 to 1")            \
    X(norm_minus,        NORM(.momentum = -0.1),                    "momentum=-0.1")                                   \
    X(norm_zero,         NORM(.momentum = WEFT_ZERO),               NULL)                                              \
    X(layer_norm_eps,    weft_layer_norm_op(k->x, NULL, NULL, -1),  "eps must not be negative")                        \
    X(layer_norm_zero,   weft_layer_norm_op(k->x, NULL, NULL, WEFT_ZERO), NULL)                                        \
    X(embedding_rows,    weft_embedding(k->x, 0, 4, "e", NULL),     "shape f32[0,4]: every axis must be at least 1")   \
    X(embedding_weight,  weft_embedding(weft_cast(k->x, WEFT_I64), 3, 4, "e", &(weft_embedding_options){.weight = &ones}), NULL) \
    X(state_of_f64,      weft_state_in(k->g, "b", WEFT_F64, 0, NULL, (weft_init){0}), "state b: it is of f32 or i64, not f64")   \
    X(state_half,        weft_state_in(k->g, "b", WEFT_I64, 0, NULL, (weft_init){WEFT_INIT_CONSTANT, 0.5, 0}), "b: initializer: integers are zeros, ones or a whole")   \
    X(state_random,      weft_state_in(k->g, "b", WEFT_I64, 0, NULL, (weft_init){WEFT_INIT_UNIFORM, 0, 1}), "b: initializer: integers are zeros, ones or a whole")   \
    X(norm_both,         NORM(.no_weight = true, .weight = &ones),    "batch_norm: no_weight, and an initializer")   \
    X(norm_cumulative,   NORM(.momentum = 0.5, .cumulative = true), "batch_norm: a momentum, but no running")   \
    X(norm_no_statistics, NORM(.momentum = 0.5, .no_statistics = true), "batch_norm: a momentum, but no running")   \
    X(data_add,          weft_add(DATA, DATA),                       "add: operand 0 is u16[2], a type that only holds data: cast it")   \
    X(data_sum,          weft_sum(DATA, WEFT_ALL, false),            "sum: operand 0 is u16[2], a type")   \
    X(data_where,        weft_where(weft_isnan(k->x), k->x, DATA),   "where: operand 2 is u16[2], a type")   \
    X(step_zero,         weft_strided_slice(k->x, 1, 0, 3, 0),       "strided_slice: step=0: it must be at least 1")   \
    X(eval_norm_mean,    weft_batch_norm_eval_op(k->x, k->x, k->x, NULL, NULL, 0), "batch_norm: mean is")   \
    X(eval_norm_null,    weft_batch_norm_eval_op(k->x, NULL, k->x, NULL, NULL, 0), "operand 1 is NULL")   \
    X(clamp_nan,         weft_clamp(k->x, NAN, 1),                   "clamp: min=nan max=1: a bound is")   \
    X(state_batch,       weft_state(k->x, "b", 2, (int64_t[]){WEFT_BATCH, 4}, (weft_init){0}), "axis 0 is WEFT_BATCH, but a state has one shape at every batch size")   \
    X(rotary_base,       ROTARY(.base = -1),                        "base -1: it must be above 0")                     \
    X(rotary_offset,     ROTARY(.offset = -3, .interleaved = true), "offset=-3")                                        \
    X(rotary_dims,       ROTARY(.dims = 3),                         "an even number, at most D")                       \
    X(attention_scale,   ATTENTION(.scale = NAN),                   "scale is not a finite number")                    \
    X(attention_window,  ATTENTION(.window = -1),                   "window=-1")                                       \
    X(attention_ahead,   ATTENTION(.ahead = -1),                    "ahead=-1")                                        \
    X(attention_offset,  ATTENTION(.offset = INT64_MIN),            "offset=-9223372036854775808")                     \
    X(attention_softcap, ATTENTION(.softcap = -1),                  "softcap=-1: it must be above 0")                  \
    X(attention_all,     ATTENTION(.window = 2, .causal = true, .scale = 0.5), NULL)                                   \
    X(attention_dropout, ATTENTION(.dropout = 1.5),                 "it must be above 0 and at most 1")                      \
    X(attention_mask,    ATTENTION(.mask = k->x),                   "must broadcast to the scores")                    \
    X(lstm_no_hidden,    LSTM(0),                                   "lstm: hidden=0: it must be at least 1")           \
    X(lstm_defaults,     LSTM(.hidden = 6),                         NULL)                                              \
    X(lstm_first,        LSTM(.hidden = 6, .batch_first = true, .no_bias = true), NULL)                                \
    X(lstm_layers,       LSTM(.hidden = 6, .layers = -1),           "layers=-1: it must be 1 to 128")                  \
    X(lstm_many_layers,  LSTM(.hidden = 6, .layers = 65, .bidirectional = true), "layers=65: it must be 1 to 128")     \
    X(lstm_dropout,      LSTM(.hidden = 6, .layers = 2, .dropout = 1.5), "dropout=1.5: a probability is 0 to 1")       \
    X(lstm_drop_nothing, LSTM(.hidden = 6, .dropout = 0.5),         "dropout is between layers, and there is only one") \
    X(lstm_h0,           LSTM(.hidden = 6, .layers = 2, .h0 = lstm_state(k)), "h0 is f32[1,4,6]: it must have the shape of f32[2,4,6]") \
    X(lstm_c0,           LSTM(.hidden = 6, .batch_first = true, .c0 = lstm_state(k)), "c0 is f32[1,4,6]")                \
    X(gru_defaults,      GRU(.hidden = 6, .bidirectional = true),   NULL)                                              \
    X(gru_c0,            GRU(.hidden = 6, .c0 = lstm_state(k)),     "gru: c0 is a state of lstm alone")                \
    X(gru_relu,          GRU(.hidden = 6, .relu = true),            "gru: relu is an option of rnn alone")             \
    X(rnn_relu,          RNN(.hidden = 6, .relu = true),            NULL)                                              \
    X(rnn_no_hidden,     RNN(.layers = 2),                          "rnn: hidden=0: it must be at least 1")            \
    X(lstm_plane,        weft_lstm(k->x, &(weft_recurrent){.hidden = 6}, "l", NULL, NULL), "it must be [T, B, features]") \
    X(lstm_null,         weft_lstm_op(k->x, NULL, NULL, NULL, false, NULL), "lstm: operand 1 is NULL")                  \
    X(dropout_p,         weft_dropout(k->x, 1.5),                   "p 1.5: a probability is 0 to 1")                  \
    X(dropout_p_eval,    weft_dropout(weft_input(k->eval, "z", WEFT_F32, 1, (int64_t[]){4}), -0.5), "a probability")   \
    X(dropout_nan,       weft_dropout(k->x, NAN),                   "p is not a finite number")                        \
    /* ops */                                                                                                          \
    X(sum_none,          weft_sum(k->x, 0, (int64_t[]){1}, false),  "sum: 0 axes of a list")                           \
    X(sum_no_list,       weft_sum(k->x, 2, NULL, false),            "sum: 2 axes")                                     \
    X(sum_twice,         weft_sum(k->x, 2, (int64_t[]){0, -2}, false), "named twice")                                  \
    X(permute_null,      weft_permute(k->x, NULL),                  "permute: 2 axes")                                 \
    X(constant_half,     weft_constant(k->g, WEFT_I64, 0, NULL, 0.5), "constant: i64 cannot hold 0.5")                 \
    X(constant_u8,       weft_constant(k->g, WEFT_U8, 0, NULL, 256), "constant: u8 cannot hold 256")                   \
    X(constant_minus,    weft_constant(k->g, WEFT_U8, 0, NULL, -1), "constant: u8 cannot hold -1")                     \
    X(constant_bool,     weft_constant(k->g, WEFT_BOOL, 0, NULL, 2), "constant: bool cannot hold 2")                   \
    X(constant_f16,      weft_constant(k->g, WEFT_F16, 0, NULL, 1e6), "constant: f16 cannot hold 1e+06")               \
    X(constant_f32,      weft_constant(k->g, WEFT_F32, 0, NULL, 1e300), "constant: f32 cannot hold 1e+300")            \
    X(tensor_null,       weft_constant_tensor(k->g, WEFT_F32, 0, NULL, NULL), "constant_tensor: data is NULL")           \
    X(tensor_shape_null, weft_constant_tensor(k->g, WEFT_F32, 2, NULL, k), "constant_tensor: 2 axes")                  \
    X(tensor_axes,       weft_constant_tensor(k->g, WEFT_F32, -1, NULL, k), "constant_tensor: -1 axes")                \
    X(tensor_negative,   weft_constant_tensor(k->g, WEFT_F32, 1, &(int64_t){-1}, k), "shape=-1: it must be 0 to")     \
    X(tensor_type,       weft_constant_tensor(k->g, (weft_dtype)77, 0, NULL, k), "dtype is not an element type")       \
    X(constant_type,     weft_constant(k->g, (weft_dtype)77, 0, NULL, 1), "dtype is not an element type")                  \
    X(scale_nan,         weft_scale(k->x, NAN),                     "not a finite number")                             \
    X(slice_empty,       weft_slice(k->x, 0, 3, 2),                 "slice")                                           \
    X(pad_minus,         weft_pad(k->x, 0, -1, 0),                  "pad")                                             \
    X(uniform_empty,     weft_random_uniform(k->g, 0, NULL, 0, 0),  "low 0 must be below high 0")                      \
    X(normal_minus,      weft_random_normal(k->g, 0, NULL, 0, -1),  "std -1 must not be negative")                     \
    X(cast_type,         weft_cast(k->x, (weft_dtype)-1),           "not an element type")                                 \
    /* fields of a later version */                                                                                    \
    X(later_linear, weft_linear(k->x, 2, "l", &(weft_linear_options){LATER}), "linear: words of `reserved` are not 0") \
    X(later_conv, CONV(.out = 2, .kernel = 1, LATER), "conv2d: words of `reserved` are not 0") \
    X(later_line, LINE(.out = 2, .kernel = 1, LATER), "conv1d: words of `reserved` are not 0") \
    X(later_window, WINDOW(LATER), "conv2d: words of `reserved` are not 0") \
    X(later_pool, POOL(.kernel = {2, 2}, LATER), "max_pool2d: words of `reserved` are not 0") \
    X(later_volume_pool, weft_avg_pool3d(F32(2, 3, 4, 4, 4), &(weft_pool){.kernel = {2, 2, 2}, LATER}), "avg_pool2d: words of `reserved` are not 0") \
    X(later_resize, RESIZE(.size = {8, 8}, LATER), "interpolate: words of `reserved` are not 0") \
    X(later_grid, GRID(LATER), "grid_sample: words of `reserved` are not 0") \
    X(later_lstm, LSTM(.hidden = 6, LATER), "lstm: words of `reserved` are not 0") \
    X(later_attention, ATTENTION(LATER), "attention: words of `reserved` are not 0") \
    X(later_rotary, ROTARY(LATER), "rotary: words of `reserved` are not 0") \
    X(later_batch_norm, NORM(LATER), "batch_norm: words of `reserved` are not 0") \
    X(later_layer_norm, weft_layer_norm(k->x, "n", &(weft_norm_options){LATER}), "options of a norm: words of `reserved` are not 0") \
    X(later_embedding, weft_embedding(weft_cast(k->x, WEFT_I64), 3, 4, "e", &(weft_embedding_options){LATER}), "embedding: words of `reserved` are not 0") \
    X(later_loss, weft_mse(k->x, k->x, &(weft_loss){LATER}), "mse: words of `reserved` are not 0") \
    X(later_ddp, TRAIN("net", ADAM); DDP(LATER), "weft_ddp_options: words of `reserved` are not 0") \
    X(later_optimizer, TRAIN("net", ADAM, LATER), "weft_optimizer: words of `reserved` are not 0") \
    X(later_schedule, TRAIN("net", ADAM, STEP(LATER)), "weft_schedule: words of `reserved` are not 0") \
    X(later_group, TRAIN("net", ADAM, GROUPS({"*bias", LATER})), "weft_param_group: words of `reserved` are not 0") \
    X(later_own, weft_define_optimizer(k->m, &(weft_optimizer_definition){.type = "later", .build = never_built, LATER}), "weft_optimizer_definition: words of `reserved` are not 0") \
    X(later_compile, TRAIN("net", ADAM); COMPILE(LATER), "compile: words of `reserved` are not 0") \
    /* parameters */                                                                                                   \
    X(init_zeros,        INIT(0),                                   NULL)                                              \
    X(init_forgotten,    INIT(.a = 0.5),                            "zeros and ones read neither a nor b")             \
    X(init_constant,     INIT(WEFT_INIT_CONSTANT, 1, 2),            "this kind reads no b")                            \
    X(init_normal,       INIT(WEFT_INIT_NORMAL),                    "normal with b, its deviation, left 0")            \
    X(init_normal_minus, INIT(WEFT_INIT_NORMAL, 0, -1),             "normal with a negative deviation")                \
    X(init_uniform,      INIT(WEFT_INIT_UNIFORM),                   "uniform from a to a")                             \
    X(init_upside,       INIT(WEFT_INIT_UNIFORM, 1, 0),             "uniform with low above high")                     \
    X(init_gain,         INIT(WEFT_INIT_XAVIER_NORMAL, -1),         "a negative gain")                                 \
    X(init_fans,         INIT(WEFT_INIT_KAIMING_UNIFORM, 1, 1),     "this kind reads no b")                            \
    X(init_again,        INIT(WEFT_INIT_ONES); INIT(0),             NULL)                                              \
    X(init_other,        INIT(0); INIT(WEFT_INIT_ONES),             "w exists already with another initializer")    \
    X(init_nan,          INIT(WEFT_INIT_CONSTANT, NAN),             "a number that is not finite")                     \
    X(init_unknown,      INIT((weft_init_kind)99),                  "its kind is not in the list")          \
    X(parameter_shape,   weft_parameter(k->x, "a/b", 0, NULL, ones), "parameter name 'a/b'")                           \
    X(parameter_axes,    weft_parameter(k->x, "w", 1, NULL, ones),  "parameter w: 1 axes")                             \
    X(parameter_other,   INIT(0); weft_parameter_in(k->g, "w", 1, (int64_t[]){3}, ones),                               \
                         "w is a parameter f32[3,3] already; a parameter f32[3] cannot share it")                      \
    /* names */                                                                                                        \
    X(graph_twice,       weft_graph_new(k->m, "train", WEFT_EVAL),  "there is a graph 'train' already")                \
    X(graph_mode,        weft_graph_new(k->m, "g", (weft_mode)2),   "graph g: there is no mode number 2")              \
    X(graph_no_name,     weft_graph_new(k->m, NULL, WEFT_EVAL),     "graph name ''")                                   \
    X(output_twice,      weft_output(k->y, "loss"),                 "graph train has an output 'loss' already")        \
    X(output_no_name,    weft_output(k->y, NULL),                   "output name ''")                                  \
    X(input_twice,       input_of(k->g),                            "graph train has an input 'x' already")            \
    X(input_type,        weft_input(k->g, "i", (weft_dtype)99, 0, NULL), "dtype is not an element type")                   \
    X(input_empty,       weft_input(k->g, "i", WEFT_F32, 1, (int64_t[]){0}), "at least 1")                             \
    X(batch_late,        weft_model_set_batch(k->m, 4),                 "set the batch before the first graph")            \
    X(freeze_nothing,    weft_freeze(k->m, "nett"),                 "freeze: no parameter matches 'nett'")             \
    X(freeze_all,        weft_freeze(k->m, NULL); TRAIN("net", ADAM), "no trainable parameter matches 'net'")          \
    X(precision_path,    weft_model_set_precision(k->m, "nett", WEFT_BF16),   "the model has no graph and no scope 'nett'")      \
    X(precision_type,    weft_model_set_precision(k->m, NULL, WEFT_I32),      "it must be f32, bf16 or f16")                     \
    X(two_graphs_mixed,  weft_add(k->x, input_of(weft_graph_new(k->m, "h", WEFT_EVAL))),                               \
                         "add: operand 1 belongs to graph h, an operand before it to graph train: all operands of an op")   \
    /* training */                                                                                                     \
    X(minimize_nothing,  TRAIN("nett", ADAM),                       "no trainable parameter matches 'nett'")           \
    X(minimize_no_optimizer, weft_minimize(k->loss, "net", NULL),   "an optimizer with a type is needed")              \
    X(minimize_in_eval,  weft_minimize(loss_of(net(weft_input(k->eval, "z", WEFT_F32, 2, (int64_t[]){4, 3}))), "net",  \
                                       &OPTIMIZER(ADAM)),           "graph eval is in eval mode")                      \
    X(minimize_vector,   weft_minimize(k->y, "net", &OPTIMIZER(ADAM)), "it must be one f32 number")                    \
    X(minimize_twice,    TRAIN("net", ADAM); TRAIN("net", ADAM),    "two minimize calls train net/a/weight")           \
    X(minimize_overlap,  TRAIN("net", ADAM); TRAIN("net/b", SGD),   "two minimize calls train net/b/weight")           \
    X(minimize_two_named, TRAIN("net/a", ADAM, .name = "o"); TRAIN("net/b", ADAM, .name = "o"),                        \
                                                                    "two minimize calls use the optimizer 'o'")        \
    X(minimize_apart,    TRAIN("net/a", ADAM); TRAIN("net/b", SGD), NULL)                                              \
    X(scale_of_f16,      TRAIN("net", ADAM, .loss_scale = 8); COMPILE(.precision = WEFT_F16), NULL)                    \
    X(scale_elsewhere,   TRAIN("net", ADAM, .loss_scale = 8); COMPILE(.graph = "eval"), NULL)                          \
    /* names that the compiler makes of others */                                                                     \
    X(name_of_a_bucket, reach(k, weft_parameter(k->x, "net.0", 0, NULL, ones)),                                       \
                         "path net.0: two variables would have it (parameter, bucket): rename the parameter, scope or")    \
    X(name_of_a_step,    WEFT_SCOPE(k->x, "optimizer.o") reach(k, weft_parameter(k->x, "step", 0, NULL, ones)),        \
                         "path optimizer.o/step: two variables would have it (parameter, optimizer)")                   \
    X(name_of_a_state,   weft_state(k->x, "net.0", 0, NULL, ones); TRAIN("net", ADAM), "path net.0: two variables would have it")      \
    X(name_of_a_counter, weft_output(weft_dropout(k->x, 0.5), "d"); TRAIN("net", ADAM, .name = "graph/train"),         \
                         "path optimizer.graph/train/step: two variables would have it")                                \
    /* scopes */                                                                                                       \
    X(scope_open,        weft_scope_enter(k->x, "left"),            "graph train: scope 'left' is still open")         \
    X(scope_twice_left,  weft_scope_leave(k->g),                    "graph train: weft_scope_leave without a scope")   \
    X(scope_name,        weft_scope_enter(k->x, "a/b"),             "scope name 'a/b'")                                \
    X(scope_no_name,     weft_scope_enter(k->x, NULL),              "a layer or a scope needs a name")                                   \
    /* subgraphs */                                                                                                    \
    X(ddp_flags,           DDP(.broadcast_buffers = true, .find_unused_parameters = true, .sync_batch_norm = true), NULL)\
    X(ddp_defaults,      weft_model_set_ddp(k->m, "net", NULL),               NULL)                                              \
    X(ddp_path,          weft_model_set_ddp(k->m, "nett", NULL),              "ddp: there is no parameter under 'nett'")         \
    X(ddp_no_path,       weft_model_set_ddp(k->m, NULL, NULL),                "ddp: a path is needed")                           \
    X(ddp_zero,          DDP(.zero = 3),                            "zero=3: it must be -1 to 2")                      \
    X(ddp_shard,         DDP(.shard = (weft_shard)2),               "shard=2")                                         \
    X(ddp_cap,           DDP(.bucket_cap_mb = -1),                  "bucket_cap_mb=-1")                                \
    X(ddp_cap_nan,       DDP(.bucket_cap_mb = NAN),                 "bucket_cap_mb is not a finite number")            \
    X(ddp_wire,          DDP(.wire = WEFT_F16),                     "wire must be WEFT_BF16, or 0")                         \
    X(ddp_group,         DDP(.process_group = "0;0"),               "a rank is named twice")                           \
    /* weft_compile */                                                                                                 \
    X(compile_defaults,  COMPILE(0),                                NULL)                                              \
    X(compile_device,    COMPILE(.device = (weft_device)2),         "device=2: it must be cpu or cuda")                     \
    X(compile_batch,     COMPILE(.batch = 7),                       "batch 7: no axis of the model is WEFT_BATCH")     \
    X(compile_minus,     COMPILE(.batch = -1),                      "batch=-1: it must be a whole number from 1 to")                       \
    X(compile_threads,   COMPILE(.threads = -1),                    "threads=-1: it must be a whole number from 1 to 1024 (0, the default, is every core")                           \
    X(compile_isa,       COMPILE(.isa = (weft_isa)9),               "isa=9: it must be auto, reference, ")            \
    X(compile_precision, COMPILE(.precision = WEFT_F64),            "precision=f64: it must be f32, bf16 or f16")      \
    X(compile_accumulate, COMPILE(.accumulate = -1),                "accumulate=-1")                                   \
    X(compile_world,     COMPILE(.world = -2),                      "world=-2")                                  \
    X(compile_rank,      COMPILE(.rank = 1),                        "below the world's 1")                      \
    X(compile_zero,      COMPILE(.zero = 3),                        "zero=3")                                          \
    X(compile_shard,       COMPILE(.shard = (weft_shard)2),           "shard=2: it must be greedy or flat")          \
    X(compile_flags,       COMPILE(.serial = true, .check_equal = true, .verify = true, .unoptimized = true), NULL)    \
    X(compile_unasked,     COMPILE(.no_memory_check = true),          NULL)                                            \
    X(compile_manual,      COMPILE(.manual = true),                   NULL)                                            \
    X(compile_of_a_gpu,    COMPILE(.deterministic = true, .tf32 = true), NULL)                                         \
    X(compile_guard,       COMPILE(.guard = WEFT_GUARD_GRAD),         NULL)                                            \
    X(compile_guard_9,     COMPILE(.guard = 9),                       "guard=9: it must be off, nan, spike or grad")                    \
    X(compile_factor,      COMPILE(.guard = WEFT_GUARD_SPIKE, .guard_factor = 1), "guard_factor=1: it must be a number above 1")                   \
    X(compile_cap,       COMPILE(.bucket_cap_mb = NAN),             "bucket_cap_mb=nan: it must be a number above 0")                   \
    X(compile_strategy,  COMPILE(.strategy = "dpd"),                "no strategy 'dpd': did you mean 'ddp'?")          \
    X(compile_own,       COMPILE(.own_strategy = &taken),          "own_strategy 'ddp': its name")                    \
    X(compile_reduce,    COMPILE(.reduce = (weft_reduce)3),         "reduce=3: it must be auto, ordered or fast")            \
    X(compile_graph,     COMPILE(.graph = "trian"),                 "no graph 'trian': did you mean 'train'? It has train")                  \
    X(compile_flow,      COMPILE(.flow = "trian"),                  "the model has no flow 'trian'")                   \
    X(compile_stop,      COMPILE(.stop_after = "fuze"),             "there is no pass 'fuze'")                         \
    X(compile_calibration, COMPILE(.calibration = "x"),             "a calibration is for a GPU")
/* clang-format on */

#define X(name, call, error)                                                                                 \
    static void do_##name(kit *k) {                                                                          \
        call;                                                                                                \
    }
CALLS(X)
#undef X

TEST(every_call_says_what_it_cannot_do_with_what_it_is_given) {
    static const struct {
        const char *name;
        void (*run)(kit *k);
        const char *error;
    } rows[] = {
#define X(name, call, error) {#name, do_##name, error},
        CALLS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kit k = kit_new();
        rows[i].run(&k);
        kit_check(&k, rows[i].name, rows[i].error);
    }
}

/* An earlier error stands, whatever NULLs it led to. */
TEST(a_null_behind_an_error_adds_nothing_to_it) {
    kit k = kit_new();
    weft_add(k.x, weft_relu(weft_linear(k.x, 0, "l", NULL)));
    kit_check(&k, "linear", "linear: out=0");
}

/* ---- scopes: however a body is left, the scope has ended ---- */

static weft_value *leaves_by_return(weft_value *x) {
    WEFT_SCOPE(x, "outer") {
        WEFT_SCOPE(x, "inner") {
            if (weft_ndim(x) == 2) return weft_linear(x, 3, "fc", NULL);
        }
    }
    return NULL;
}

static weft_value *leaves_by_break(weft_value *x) {
    WEFT_SCOPE(x, "outer") {
        x = weft_linear(x, 3, "fc", NULL);
        break;
    }
    return x;
}

static weft_value *leaves_by_continue(weft_value *x) {
    for (int i = 0; i < 2; i++) {
        WEFT_SCOPE(x, "outer") {
            x = weft_linear(x, 3, "fc", NULL);
            continue;
        }
    }
    return x;
}

static weft_value *leaves_by_goto(weft_value *x) {
    WEFT_GRAPH_SCOPE(weft_value_graph(x), "outer") {
        WEFT_SCOPE(x, "inner") {
            x = weft_linear(x, 3, "fc", NULL);
            goto done;
        }
    }
done:
    return x;
}

static weft_value *stays_in_the_body(weft_value *x) {
    WEFT_SCOPE(x, "outer") x = weft_linear(x, 3, "fc", NULL);
    return x;
}

TEST(a_scope_ends_however_its_body_is_left) {
    static const struct {
        weft_value *(*build)(weft_value *x);
        const char *weight;
    } ways[] = {{leaves_by_return, "outer/inner/fc/weight"}, {leaves_by_break, "outer/fc/weight"},
                {leaves_by_continue, "outer/fc/weight"},     {leaves_by_goto, "outer/inner/fc/weight"},
                {stays_in_the_body, "outer/fc/weight"},      {scopes_return_cpp, "outer/inner/fc/weight"},
                {scopes_break_cpp, "outer/inner/fc/weight"}, {scopes_throw_cpp, "outer/inner/fc/weight"},
                {scopes_stay_plain, "outer/inner/fc/weight"}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        kit k = kit_new();
        weft_value *y = ways[i].build(ways[i].build(k.x)); /* twice: the same parameters */
        CHECK(y != NULL);
        CHECK_TEXT(k.g->scope->path, "");
        CHECK_SAYS(variable_find(k.m, ways[i].weight) != NULL, "%s", ways[i].weight);
        int parameters = 0;
        for (const weft_variable *v = k.m->variables; v; v = v->next)
            parameters += v->kind == VARIABLE_PARAMETER;
        CHECK_SAYS(parameters == 4 + 2, "way %zu: %d parameters", i, parameters);
        kit_check(&k, ways[i].weight, NULL);
    }
}

/* Plain C has no way to end it, but the model does not compile. */
TEST(a_scope_that_a_plain_compiler_leaves_open_is_named) {
    kit k = kit_new();
    CHECK(scopes_return_plain(k.x) != NULL);
    kit_check(&k, "plain C", "graph train: scope 'outer/inner' is still open");
}

TEST(a_model_with_an_open_scope_is_not_saved) {
    kit k = kit_new();
    weft_error e = {0};
    weft_scope_enter(k.x, "left");
    CHECK(weft_save(k.m, "/tmp/weft_never_written.bin", &e) == WEFT_ORDER);
    CHECK_HOLDS(e.text, "scope 'left' is still open");
    weft_scope_leave(k.g);
    kit_check(&k, "closed", NULL);
}

/* ---- a store and a session ---- */

typedef struct running {
    weft_plan *plan;
    weft_store *store;
    weft_session *s;
    weft_error e;
    float x[12], image[2 * 4 * 6 * 6], loss;
} running;

static running running_new(void) {
    running r = {0};
    kit k = kit_new();
    weft_minimize(k.loss, "net", &OPTIMIZER(ADAM, .name = "o"));
    r.plan = weft_compile(k.m, NULL, &r.e);
    r.store = weft_store_new(r.plan, 1, &r.e);
    r.s = weft_session_open(r.plan, r.store, &r.e);
    CHECK_SAYS(r.s != NULL, "%s", r.e.text);
    weft_model_free(k.m);
    return r;
}

static void running_free(running *r) {
    weft_session_close(r->s);
    weft_store_free(r->store);
    weft_plan_free(r->plan);
}

#define FEED_X                                                                                               \
    { "x", r->x, sizeof r->x }
#define FEED_IMAGE                                                                                           \
    { "image", r->image, sizeof r->image }
#define LOSS                                                                                                 \
    { "loss", &r->loss, sizeof r->loss }
#define FEEDS(...)        (weft_feed[]){__VA_ARGS__}, sizeof((weft_feed[]){__VA_ARGS__}) / sizeof(weft_feed)
#define GETS(...)         (weft_fetch[]){__VA_ARGS__}, sizeof((weft_fetch[]){__VA_ARGS__}) / sizeof(weft_fetch)
#define RUN(...)          weft_run(r->s, "train", __VA_ARGS__, &r->e)
#define SET(path, number) weft_store_set(r->store, path, &(double){number}, sizeof(double), &r->e)

/* clang-format off */
#define RUNS(X)                                                                                                        \
    X(all_is_well,      RUN(FEEDS(FEED_X, FEED_IMAGE), GETS(LOSS)),        NULL)                                       \
    X(nothing_fetched,  RUN(FEEDS(FEED_X, FEED_IMAGE), NULL, 0),           NULL)                                       \
    X(fetched_twice,    RUN(FEEDS(FEED_X, FEED_IMAGE), GETS(LOSS, LOSS)),  NULL)                                       \
    X(fed_twice,        RUN(FEEDS(FEED_X, FEED_X), NULL, 0),               "graph train: input 'x' is fed twice")      \
    X(not_fed,          RUN(FEEDS(FEED_X), NULL, 0),                       "input 'image' (f32[2,4,6,6]) is not fed")  \
    X(fed_unknown,      RUN(FEEDS({"z", r->x, 4}), NULL, 0),               "graph train has no input 'z'")             \
    X(fed_no_name,      RUN(FEEDS({NULL, r->x, 4}), NULL, 0),              "graph train has no input ''")              \
    X(fed_null,         RUN(FEEDS({"x", NULL, 48}), NULL, 0),              "the data of input 'x' are NULL")           \
    X(fed_short,        RUN(FEEDS({"x", r->x, 44}), NULL, 0),              "48 bytes; it was fed 44")                  \
    X(fed_a_batch,      RUN(FEEDS({"x", r->x, 36}), NULL, 0),              "it was fed 36, a batch of 3: feed 4, or compile")  \
    X(feeds_null,       RUN(NULL, 2, NULL, 0),                             "run: 2 feeds and 0 fetches, but feeds is") \
    X(fetches_null,     RUN(FEEDS(FEED_X, FEED_IMAGE), NULL, 1),           "but fetches is NULL")                      \
    X(feeds_minus,      RUN(NULL, -1, NULL, 0),                            "the count is negative")                    \
    X(fetched_unknown,  RUN(FEEDS(FEED_X, FEED_IMAGE), GETS({"los", &r->loss, 4})), "graph train has no output 'los'") \
    X(fetched_no_name,  RUN(FEEDS(FEED_X, FEED_IMAGE), GETS({NULL, &r->loss, 4})),  "graph train has no output ''")    \
    X(fetched_to_null,  RUN(FEEDS(FEED_X, FEED_IMAGE), GETS({"loss", NULL, 4})), "the caller has room for 0")          \
    X(run_unknown,      weft_run(r->s, "trian", NULL, 0, NULL, 0, &r->e),  "the plan has no graph 'trian'")            \
    X(run_null,         weft_run(r->s, NULL, NULL, 0, NULL, 0, &r->e),     "a session and a graph's name are needed")  \
    X(run_no_session,   weft_run(NULL, "train", NULL, 0, NULL, 0, &r->e),  "a session and a graph's name are needed")  \
    X(lr_of_all,        weft_store_set_lr(r->store, NULL, 0, &r->e),       NULL)                                       \
    X(lr_of_one,        weft_store_set_lr(r->store, "o", 0.5, &r->e),      NULL)                                       \
    X(lr_unknown,       weft_store_set_lr(r->store, "p", 0.5, &r->e),      "there is no optimizer 'p'")                \
    X(lr_nan,           weft_store_set_lr(r->store, "o", NAN, &r->e),      "learning rate nan: it must be a finite")   \
    X(lr_minus,         weft_store_set_lr(r->store, "o", -1, &r->e),       "learning rate -1: it must be a finite")    \
    X(lr_zero_word,     weft_store_set_lr(r->store, "o", WEFT_ZERO, &r->e), "it must be a finite")                     \
    X(lr_huge,          weft_store_set_lr(r->store, "o", 1e300, &r->e),    "it must be a finite")                      \
    X(set_lr_path,      SET("optimizer.o/lr", -1),                         "a learning rate is a finite number")       \
    X(set_lr_nan,       SET("optimizer.o/lr", NAN),                        "a learning rate is a finite number")       \
    X(set_step,         SET("optimizer.o/step", 1e300),                    "optimizer.o/step=1e+300: it must be a whole") \
    X(set_step_half,    SET("optimizer.o/step", 0.5),                      "it must be a whole number")                \
    X(set_step_minus,   SET("optimizer.o/step", -1),                       "it must be a whole number")                \
    X(set_step_well,    SET("optimizer.o/step", 12),                       NULL)                                       \
    X(set_null,         weft_store_set(r->store, "net/a/bias", NULL, 20, &r->e), "there is nothing to copy")           \
    X(get_null,         weft_store_get(r->store, "net/a/bias", NULL, 20, &r->e), "there is nowhere to copy it")        \
    X(get_no_path,      weft_store_get(r->store, NULL, r->x, 20, &r->e),   "store: there is no ''")                    \
    X(get_short,        weft_store_get(r->store, "net/a/bias", r->x, 16, &r->e), "20 bytes; the caller gave 16")        \
    X(isa_unknown,      weft_limit_isa((weft_isa)9, &r->e),                "there is no instruction set number 9")     \
    X(cuda_minus,       weft_cuda_select(-1, &r->e),                       "")
/* clang-format on */

#define X(name, call, error)                                                                                 \
    static weft_status run_##name(running *r) {                                                              \
        return call;                                                                                         \
    }
RUNS(X)
#undef X

TEST(every_call_on_a_store_and_a_session_says_what_is_wrong) {
    static const struct {
        const char *name;
        weft_status (*run)(running *r);
        const char *error;
    } rows[] = {
#define X(name, call, error) {#name, run_##name, error},
        RUNS(X)
#undef X
    };
    running r = running_new();
    for (size_t i = 0; r.s && i < sizeof rows / sizeof *rows; i++) {
        r.e = (weft_error){0};
        weft_status status = rows[i].run(&r);
        if (rows[i].error)
            CHECK_SAYS(status && strstr(r.e.text, rows[i].error), "%s: wanted '%s', got '%s'", rows[i].name,
                       rows[i].error, r.e.text);
        else
            CHECK_SAYS(status == WEFT_OK, "%s: %s", rows[i].name, r.e.text);
    }
    running_free(&r);
}

/* ---- weights: numbers of optimizers in a file ---- */

/* A safetensors file of the store's, in which 8 bytes of tensor `name` are `value`. */
static weft_status load_changed(running *r, const char *name, double value) {
    char path[] = "/tmp/weft_settings_XXXXXX", key[100], *at;
    snprintf(key, sizeof key, "\"%s\":{", name);
    int file = mkstemp(path);
    weft_status status = weft_weights_save(r->store, path, true, &r->e);
    FILE *f = status ? NULL : fopen(path, "r+b");
    char head[20000];
    size_t n = f ? fread(head + 8, 1, sizeof head - 9, f) : 0; /* 8 bytes of length, then JSON */
    uint64_t json;
    unsigned long long begin;
    head[8 + n] = 0;
    memcpy(&json, head + 8, sizeof json);
    if (CHECK((at = strstr(head + 16, key)) && (at = strstr(at, "data_offsets")) &&
              sscanf(at, "data_offsets\":[%llu", &begin) == 1)) {
        fseek(f, (long)(8 + json + begin), SEEK_SET);
        fwrite(&value, sizeof value, 1, f);
    }
    if (f) fclose(f);
    status = weft_weights_load(r->store, path, NULL, NULL, &r->e);
    close(file);
    remove(path);
    return status;
}

TEST(weights_with_numbers_that_no_training_has_are_not_loaded) {
    running r = running_new();
    double step = -1, lr = -1;
    CHECK(load_changed(&r, "optimizer.o.step", 1e300) == WEFT_FILE);
    CHECK_HOLDS(r.e.text, "optimizer.o.step is 1e+300: it must be a whole number");
    CHECK(load_changed(&r, "optimizer.o.lr", -1) == WEFT_FILE);
    CHECK_HOLDS(r.e.text, "optimizer.o.lr is -1: a learning rate is a finite number");
    CHECK(load_changed(&r, "optimizer.o.lr", NAN) == WEFT_FILE);
    CHECK_SAYS(load_changed(&r, "optimizer.o.step", 41) == WEFT_OK, "%s", r.e.text);
    CHECK_SAYS(load_changed(&r, "optimizer.o.lr", 0.25) == WEFT_OK, "%s", r.e.text);
    weft_store_get(r.store, "optimizer.o/step", &step, sizeof step, &r.e);
    weft_store_get(r.store, "optimizer.o/lr", &lr, sizeof lr, &r.e);
    CHECK(step == 41 && lr == 0.25);
    running_free(&r);
}

/* ---- loaders ---- */

static void backwards(void *context, int64_t epoch, int64_t *order, int64_t n) {
    (void)context, (void)epoch;
    for (int64_t i = 0; i < n; i++) order[i] = n - 1 - i;
}

/* Counts what is asked for and not given back yet. */
static void *counted_alloc(void *context, size_t bytes, size_t alignment) {
    ++*(int *)context;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void counted_free(void *context, void *memory, size_t bytes) {
    (void)bytes;
    --*(int *)context;
    free(memory);
}

TEST(every_option_of_a_loader_has_a_default_or_an_error) {
    static const char file[] = "/tmp/weft_settings.npy";
    static const char *const names[] = {"x"};
    static const weft_dtype wide[] = {WEFT_F32}, narrow[] = {WEFT_BF16};
    static int n_batches;
    static const weft_allocator counted = {counted_alloc, counted_free, &n_batches, NULL}, none = {0};
    static const struct {
        const char *error;
        weft_loader_options options;
    } rows[] = {
        {NULL, {.batch = 4}},
        {NULL, {.batch = 40}}, /* one short batch */
        {NULL, {.batch = 4, .shuffle = true, .seed = 9, .names = names}},
        {NULL, {.batch = 4, .dtypes = wide}},
        {"not every such number is one of bf16", {.batch = 4, .dtypes = narrow}},
        {NULL, {.batch = 4, .num_replicas = 2, .rank = 1, .in_a_row = 2}},
        {"a batch of at least 1", {0}},
        {"a batch of at least 1", {.batch = -1}},
        {"make no whole batch of 40", {.batch = 40, .drop_last = true}},
        {"rank 1 of 0", {.batch = 4, .rank = 1}},
        {"rank 2 of 2", {.batch = 4, .rank = 2, .num_replicas = 2}},
        {"rank=-1: it must be", {.batch = 4, .rank = -1, .num_replicas = 2}},
        {"num_replicas=-1: it must be", {.batch = 4, .num_replicas = -1}},
        {"in_a_row=-1: it must be", {.batch = 4, .in_a_row = -1}},
        {NULL, {.batch = 4, .num_replicas = 2, .rank = 1, .all = true}},
        {"in_a_row=2 must be 0", {.batch = 4, .in_a_row = 2, .all = true}},
        {NULL, {.batch = 4, .num_replicas = 2, .rank = 1, .by_sample = true}},
        {"in_a_row=2 must be 0", {.batch = 4, .in_a_row = 2, .by_sample = true}},
        {"leave by_sample out", {.batch = 4, .by_sample = true, .all = true}},
        {NULL, {.batch = 4, .sampler = backwards, .sampler_context = (void *)names, .sampler_count = 5}},
        {"leave shuffle out", {.batch = 4, .sampler = backwards, .shuffle = true}},
        {"there is no such sampler", {.batch = 4, .sampler_count = 5}},
        {"sampler_count=-5: it must be", {.batch = 4, .sampler = backwards, .sampler_count = -5}},
        {NULL, {.batch = 4, .draws = 3, .names = names}},
        {"draws=-1: it must be a whole number from 1 to 4096", {.batch = 4, .draws = -1}},
        {NULL, {.batch = 4, .memory = &counted, .ahead = 1}},
        {"memory: ", {.batch = 4, .memory = &none}},
        {NULL, {.batch = 4, .ahead = -1}},
        {NULL, {.batch = 4, .ahead = 9, .threads = 3}},
        {"ahead=-2: it must be a whole number from -1 to 4096", {.batch = 4, .ahead = -2}},
        {"threads=-1: it must be a whole number from 1 to 256", {.batch = 4, .threads = -1}}};
    weft_error e = {0};
    FILE *f = fopen(file, "wb");
    unsigned char head[10] = "\x93NUMPY\x01\x00\x76\x00", data[12] = {0};
    fwrite(head, 1, sizeof head, f);
    fprintf(f, "%-117s\n", "{'descr': '|u1', 'fortran_order': False, 'shape': (12,), }");
    fwrite(data, 1, sizeof data, f);
    fclose(f);
    weft_source *array = weft_source_open(file, NULL, NULL, &e);
    CHECK_SAYS(array != NULL, "%s", e.text);
    for (size_t i = 0; array && i < sizeof rows / sizeof *rows; i++) {
        weft_loader *l = weft_loader_new(1, (const weft_source *[]){array}, &rows[i].options, NULL, &e);
        CHECK_SAYS(!l == (rows[i].error != NULL) && (l || strstr(e.text, rows[i].error)), "row %zu: '%s'", i,
                   e.text);
        CHECK_SAYS(n_batches == (rows[i].options.memory == &counted ? 2 : 0), "row %zu: %d", i, n_batches);
        weft_loader_free(l);
        CHECK(n_batches == 0);
    }
    CHECK(!weft_loader_new(1, (const weft_source *[]){NULL}, &rows[0].options, NULL, &e));
    CHECK_HOLDS(e.text, "source 0: ");
    CHECK(!weft_loader_new(0, NULL, &rows[0].options, NULL, &e));
    CHECK(!weft_loader_new(1, (const weft_source *[]){array}, NULL, NULL, &e));
    weft_source_free(array);
    remove(file);
}

/* ---- files that were written before losses and groups were checked ---- */

TEST(models_of_files_keep_what_they_meant) {
    kit k = kit_new();
    weft_error e = {0};
    weft_minimize(k.loss, "net",
                  &OPTIMIZER(ADAM, .weight_decay = 0.1, GROUPS({"*bias", .decay_scale = WEFT_ZERO})));
    char *dump = weft_model_text(k.m), *at = dump ? strstr(dump, "*bias 1 0") : NULL;
    CHECK(at != NULL);
    if (at) memcpy(at, "*bios 0 0", 9); /* a group of nothing, with scales that are 0 */
    weft_model *m = weft_model_parse(dump, "old", NULL, &e);
    CHECK_SAYS(m != NULL, "%s", e.text);
    char *again = weft_model_text(m);
    CHECK_TEXT(again, dump);
    weft_text_free(again);
    weft_text_free(dump);
    weft_plan *plan = weft_compile(m, NULL, &e);
    CHECK_SAYS(plan != NULL, "%s", e.text);
    weft_plan_free(plan);
    weft_model_free(m);
    weft_model_free(k.m);
}

/* A model of one graph with so many parameters, inputs and outputs; all are distinct. */
static weft_model *wide_model(int parameters, int inputs, int outputs) {
    weft_model *m = weft_model_new("wide");
    weft_graph *g = weft_graph_new(m, "g", WEFT_EVAL);
    weft_value *x = weft_constant(g, WEFT_F32, 0, NULL, 1);
    char name[24];
    for (int i = 0; i < parameters; i++) {
        snprintf(name, sizeof name, "w%d", i);
        weft_parameter_in(g, name, 0, NULL, (weft_init){0});
    }
    for (int i = 0; i < inputs; i++) {
        snprintf(name, sizeof name, "x%d", i);
        weft_input(g, name, WEFT_F32, 0, NULL);
    }
    for (int i = 0; i < outputs; i++) {
        snprintf(name, sizeof name, "y%d", i);
        weft_output(x, name);
    }
    CHECK_TEXT(weft_model_error(m)->text, "");
    return m;
}

TEST(a_model_is_saved_only_where_it_can_be_loaded) {
    static const struct {
        int parameters, inputs, outputs;
        const char *says;
    } rows[] = {
        {MODEL_MAX_VARIABLES, MODEL_MAX_INPUTS, MODEL_MAX_INPUTS, ""},
        {MODEL_MAX_VARIABLES + 1, 1, 1, "wide.bin: the model has 32769 variables, a file at most 32768"},
        {1, MODEL_MAX_INPUTS + 1, 1, "wide.bin: the model has 4097 inputs in a graph, a file at most 4096"},
        {1, 1, MODEL_MAX_INPUTS + 1, "wide.bin: the model has 4097 outputs in a graph, a file at most 4096"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_error e = {0};
        weft_model *m = wide_model(rows[i].parameters, rows[i].inputs, rows[i].outputs);
        weft_status status = weft_save(m, "wide.bin", &e);
        CHECK_TEXT(e.text, rows[i].says);
        weft_model_free(m);
        weft_model *again = status ? NULL : weft_load("wide.bin", NULL, &e);
        CHECK_SAYS(status || again, "%s", e.text);
        weft_model_free(again);
        CHECK(!remove("wide.bin") == !status);
    }
}

SUITE("settings",
      {T(every_field_of_an_optimizer_has_a_default_or_an_error), T(a_group_inherits_what_it_leaves_0),
       T(one_optimizer_has_one_setting_in_all_graphs),
       T(every_call_says_what_it_cannot_do_with_what_it_is_given),
       T(a_null_behind_an_error_adds_nothing_to_it), T(a_scope_ends_however_its_body_is_left),
       T(a_scope_that_a_plain_compiler_leaves_open_is_named), T(a_model_with_an_open_scope_is_not_saved),
       T(a_model_is_saved_only_where_it_can_be_loaded),
       T(every_call_on_a_store_and_a_session_says_what_is_wrong),
       T(weights_with_numbers_that_no_training_has_are_not_loaded),
       T(every_option_of_a_loader_has_a_default_or_an_error), T(models_of_files_keep_what_they_meant)})
