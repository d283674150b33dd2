/* minimize_list.h - the settings of an optimizer, in the order of dumps. Each row gives a field of
 * minimize_attrs, its attribute (text, dumps, model.bin; two calls that share an optimizer must agree in it),
 * and how weft_minimize fills it from the field of weft_optimizer with its name: the default, the range, and
 * an error where nothing reads it. A file that includes this one defines macros for the kinds of rows that it
 * wants; the others expand to nothing. */
#ifndef TEXT
#define TEXT(name)
#endif
#ifndef FLAG
#define FLAG(name)
#endif
#ifndef REAL
#define REAL(name, readers, fallback, most, has_zero)
#endif
#ifndef COUNT
#define COUNT(name, readers)
#endif
#ifndef PARTS
#define PARTS(name)
#endif

/* clang-format off */
TEXT(pattern)
TEXT(type)
TEXT(name)
/*   name             readers        0 means  at most  WEFT_ZERO may be given
 * OWN: optimizers that name it in their `fields`; EVERY: all of them
 */
REAL(lr,              EVERY,         1e-3,    FLT_MAX, true)
REAL(momentum,        OWN,           0,       FLT_MAX, true)
REAL(dampening,       OWN,           0,       1,       true)
FLAG(nesterov) /* flags are OWN except for those of averages */
REAL(beta1,           OWN,           0.9,     1,       true)
REAL(beta2,           OWN,           0.999,   1,       true)
REAL(eps,             OWN,           1e-8,    FLT_MAX, true)
REAL(weight_decay,    EVERY,         0,       FLT_MAX, true)
REAL(alpha,           OWN,           0.99,    FLT_MAX, true)
REAL(rho,             OWN,           0.9,     1,       true)
REAL(lr_decay,        OWN,           0,       FLT_MAX, true)
REAL(initial_accumulator, OWN,          0,       FLT_MAX, true)
REAL(lambd,           OWN,           1e-4,    FLT_MAX, true)
REAL(t0,              OWN,           1e6,     FLT_MAX, true)
REAL(eta_minus,       OWN,           0.5,     1,       false)
REAL(eta_plus,        OWN,           1.2,     FLT_MAX, false)
REAL(step_min,        OWN,           1e-6,    FLT_MAX, true)
REAL(step_max,        OWN,           50,      FLT_MAX, false)
REAL(momentum_decay,  OWN,           4e-3,    FLT_MAX, true)
REAL(beta2_decay,     OWN,           0.8,     FLT_MAX, true)
REAL(eps2,            OWN,           1e-3,    FLT_MAX, true)
REAL(update_rms,      OWN,           1,       FLT_MAX, false)
REAL(trust,           OWN,           1e-3,    FLT_MAX, false)
FLAG(centered)
FLAG(amsgrad)
FLAG(decoupled_weight_decay)
REAL(clip_norm,       EVERY,         0,       FLT_MAX, false)
REAL(clip_value,      EVERY,         0,       FLT_MAX, false)
REAL(ema,             EVERY,         0,       1,       false)
REAL(ema_gamma,       EVERY,         0,       FLT_MAX, false)
FLAG(ema_buffers)
PARTS(schedule) /* parts of schedules, as schedules_write writes them; NULL: none */
TEXT(groups) /* parameter groups: as group_write of minimize_settings.c writes them */
/* 0: MINIMIZE_LOSS_SCALE */
REAL(loss_scale,      EVERY,         0,       0x1p120, false)
COUNT(growth_interval, EVERY) /* 0: MINIMIZE_GROWTH_INTERVAL */
/* clang-format on */

#undef TEXT
#undef FLAG
#undef REAL
#undef COUNT
#undef PARTS
