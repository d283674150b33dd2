/* schedule.h - the factor of a part of a schedule, for the reference and for GPUs; the curves are named in
 * weft/schedule.h. Numbers are f64 and computed as PyTorch's closed forms are. */
#ifndef WEFT_OPS_OPTIMIZER_SCHEDULE_H
#define WEFT_OPS_OPTIMIZER_SCHEDULE_H

#include "ops/optimizer/update.h"
#include "weft/schedule.h"

#include <math.h>

#ifdef __CUDACC__
#define SCHEDULE_INLINE static inline __host__ __device__
#else
#define SCHEDULE_INLINE static inline
#endif

/* From a to b by a line, or by half a cosine. */
SCHEDULE_INLINE double schedule_between(double a, double b, double way, bool linear) {
    const double pi = 3.14159265358979323846;
    return linear ? a + (b - a) * way : b + (a - b) * 0.5 * (1 + cos(pi * way));
}

/* Cosine annealing with warm restarts (Loshchilov and Hutter, arXiv 1608.03983, eq. 5). At most 63 periods
 * are passed one by one: they double at least. */
SCHEDULE_INLINE double schedule_restarts(const schedule_attrs *a, double n) {
    double period = (double)a->period, mult = (double)a->period_mult;
    if (a->period_mult <= 1) n = fmod(n, period);
    while (n >= period && a->period_mult > 1) {
        n -= period;
        period *= mult;
    }
    return schedule_between(a->from, a->to, n / period, false);
}

/* Smith and Topin, arXiv 1708.07120, with the phases of OneCycleLR: their ends are share L - 1 and L - 1, in
 * three phases share L - 1, 2 share L - 2 and L - 1. */
SCHEDULE_INLINE double schedule_one_cycle(const schedule_attrs *a, double n) {
    double length = (double)a->length, first = a->share * length - 1, last = length - 1;
    double second = a->three_phase ? 2 * a->share * length - 2 : last;
    if (n <= first) return schedule_between(a->from, a->middle, first > 0 ? n / first : 1, a->linear);
    double to = a->three_phase ? a->from : a->to;
    double way = second > first ? (n - first) / (second - first) : 1;
    if (n <= second || !a->three_phase) return schedule_between(a->middle, to, way < 1 ? way : 1, a->linear);
    way = last > second ? (n - second) / (last - second) : 1;
    return schedule_between(a->from, a->to, way < 1 ? way : 1, a->linear);
}

SCHEDULE_INLINE double schedule_reached(const schedule_attrs *a, double n) {
    int count = 0;
    for (int i = 0; i < a->milestones.n; i++) count += (double)a->milestones.v[i] <= n;
    return pow(a->gamma, count);
}

/* Kinds that count from the part's beginning, also under a warm-up. */
SCHEDULE_INLINE double schedule_decay(const schedule_attrs *a, double n) {
    if (a->kind == WEFT_SCHEDULE_STEP) return pow(a->gamma, floor(n / (double)a->period));
    if (a->kind == WEFT_SCHEDULE_MULTI_STEP) return schedule_reached(a, n);
    return pow(a->gamma, n);
}

/* Kinds with a length: n from the end of the warm-up, way = n / length. */
SCHEDULE_INLINE double schedule_curve(const schedule_attrs *a, double n) {
    double way = a->length ? n / (double)a->length : 0, most = way < 1 ? way : 1;
    if (a->kind == WEFT_SCHEDULE_CONSTANT) return way < 1 ? a->from : 1;
    if (a->kind == WEFT_SCHEDULE_LINEAR) return a->from + (a->to - a->from) * most;
    if (a->kind == WEFT_SCHEDULE_EXPONENTIAL) return a->from * pow(a->to / a->from, most);
    if (a->kind == WEFT_SCHEDULE_POLYNOMIAL) return a->to + (a->from - a->to) * pow(1 - most, a->power);
    if (a->kind == WEFT_SCHEDULE_COSINE) return schedule_between(a->from, a->to, way, false);
    if (a->kind == WEFT_SCHEDULE_COSINE_RESTARTS) return schedule_restarts(a, n);
    return schedule_one_cycle(a, n);
}

/* The factor at t, a number of updates or epochs, from a->begin on. */
SCHEDULE_INLINE double schedule_factor(const schedule_attrs *a, double t) {
    double n = t - (double)a->begin, warmup = (double)a->warmup;
    if (a->end && t > (double)a->end) n = (double)a->end - (double)a->begin;
    if (n < warmup) return (n + 1) / warmup;
    bool decays = a->kind == WEFT_SCHEDULE_STEP || a->kind == WEFT_SCHEDULE_MULTI_STEP ||
                  (a->kind == WEFT_SCHEDULE_EXPONENTIAL && a->gamma != 0);
    return decays ? schedule_decay(a, n) : schedule_curve(a, n - warmup);
}

/* What a part makes of `value` at t; base is the number without any schedule. */
SCHEDULE_INLINE double schedule_apply(const schedule_attrs *a, double value, double t, double base) {
    if (!a->kind || t < (double)a->begin) return value;
    return (a->replaces ? base : value) * schedule_factor(a, t);
}

#endif
