/** @file
 * schedule.h - schedules: how learning rate, momentum and weight decay change during training.
 */
#ifndef WEFT_SCHEDULE_H
#define WEFT_SCHEDULE_H

#include "weft/field.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Most parts of the schedules of one optimizer. */
#define WEFT_MAX_SCHEDULES 8
/** Most milestones of a part. */
#define WEFT_MAX_MILESTONES 8

/** The curve of a part: its factor at n, counted from the part's beginning. L is its length. All are those of
 * torch.optim.lr_scheduler, whose classes are named, with factors in place of rates. */
typedef enum weft_schedule_kind {
    WEFT_SCHEDULE_NONE = 0,        /**< no part: ends the list */
    WEFT_SCHEDULE_CONSTANT = 1,    /**< ConstantLR: `from` while n < L, then 1; without L and end for ever */
    WEFT_SCHEDULE_LINEAR = 2,      /**< LinearLR: from `from` to `to` over L, then `to` */
    WEFT_SCHEDULE_EXPONENTIAL = 3, /**< ExponentialLR: gamma^n; without gamma from (to / from)^(n / L) */
    WEFT_SCHEDULE_STEP = 4,        /**< StepLR: gamma^floor(n / period) */
    WEFT_SCHEDULE_MULTI_STEP = 5,  /**< MultiStepLR: gamma^(number of milestones up to n) */
    WEFT_SCHEDULE_POLYNOMIAL = 6,  /**< PolynomialLR: to + (from - to) (1 - n / L)^power, then `to` */
    WEFT_SCHEDULE_COSINE = 7,      /**< CosineAnnealingLR: to + (from - to) (1 + cos(pi n / L)) / 2 */
    /** CosineAnnealingWarmRestarts: cosines, the first `period` long, each next one period_mult times
     * longer */
    WEFT_SCHEDULE_COSINE_RESTARTS = 8,
    /** OneCycleLR: from `from` to `middle` in `share` of L, then to `to` */
    WEFT_SCHEDULE_ONE_CYCLE = 9,
} weft_schedule_kind;

/** What a part changes. */
typedef enum weft_scheduled {
    WEFT_SCHEDULED_LR = 0,           /**< the learning rate */
    WEFT_SCHEDULED_MOMENTUM = 1,     /**< momentum, and beta1 of optimizers that have betas */
    WEFT_SCHEDULED_WEIGHT_DECAY = 2, /**< weight decay */
} weft_scheduled;

/** A part of a schedule. It multiplies its number by its curve from `begin` on; from `end` on the factor
 * stays what it is at `end`. Parts of one number multiply each other, as the schedulers of MMEngine's
 * param_scheduler and of ChainedScheduler do; one that `replaces` begins again, as those of SequentialLR
 * do. In numbers 0 means the default; where 0 itself is meant, write WEFT_ZERO. Fields that the kind does
 * not read must be 0. */
typedef struct weft_schedule {
    weft_schedule_kind kind; /**< the curve */
    weft_scheduled of;       /**< the number that it multiplies */
    bool by_epoch; /**< it counts epochs, which weft_store_set_epoch() sets; otherwise updates, from 0 */
    bool replaces; /**< from `begin` on, parts of the same number before it in the list do not count */
    int64_t begin; /**< its first step or epoch */
    int64_t end;   /**< the step or epoch after its last; 0: no end */
    /** While n < warmup the factor is (n + 1) / warmup; curves with a length come after it. */
    int64_t warmup;
    int64_t length;      /**< L; 0: what warmup leaves of begin to end */
    int64_t period;      /**< STEP: steps between two factors; COSINE_RESTARTS: those of the first cosine */
    int64_t period_mult; /**< COSINE_RESTARTS; 0: 1 */
    int64_t milestones[WEFT_MAX_MILESTONES]; /**< MULTI_STEP: increasing, from `begin` on; 0 ends them */
    /** STEP, MULTI_STEP: 0.1 where it is 0. EXPONENTIAL: it or `from` is needed */
    double gamma;
    /** The first factor. 0: CONSTANT, LINEAR 1/3; POLYNOMIAL, COSINE 1; ONE_CYCLE 1/25, of momentum 1 */
    double from;
    double middle; /**< ONE_CYCLE; 0: 1, of momentum 0.85/0.95 */
    /** The last factor. 0: LINEAR, EXPONENTIAL 1; ONE_CYCLE from/10^4, of momentum 1; others 0 */
    double to;
    double power;     /**< POLYNOMIAL; 0: 1 */
    double share;     /**< ONE_CYCLE: part of the length that leads to `middle`, below 1; 0: 0.3 */
    bool linear;      /**< ONE_CYCLE: lines instead of half cosines */
    bool three_phase; /**< ONE_CYCLE: back to `from` as fast as it came, then to `to` */
    uint64_t reserved[WEFT_RESERVED]; /**< zeros (status.h) */
} weft_schedule;
/** Its fields but the milestones (field.h); `uses` has a bit for each kind that reads a field, its number. */
WEFT_API const weft_field *weft_schedule_fields(void);

/** Reads parts from a text, and a NONE after them:
 *
 *     cosine:0-10000,warmup=500,to=0.1
 *     linear:0-500 cosine:500-10000,replaces
 *     multi_step,by_epoch,milestones=8+11 one_cycle:0-900,of=momentum
 *
 * Parts have blanks between them. A part is a kind, in lower case, then the range from begin to end where
 * it has one ("500-": without end), then fields: number=value, or the name of one that is true. Values are
 * the factors themselves, so to=0 is a true 0. WEFT_ARGUMENT, and the part in the error, when the text
 * breaks a rule. */
WEFT_API weft_status weft_schedule_text(const char *text, weft_schedule parts[WEFT_MAX_SCHEDULES],
                                        weft_error *error);
/** The factor that parts, up to a NONE or WEFT_MAX_SCHEDULES of them, put on a number after `updates`
 * updates in epoch `epoch`; 1 where none of them is of it. NaN when one breaks a rule. */
WEFT_API double weft_schedule_factor(const weft_schedule *parts, weft_scheduled of, int64_t updates,
                                     int64_t epoch);

#ifdef __cplusplus
}
#endif
#endif
