/* alternate.c - see alternate.h. */
#include "tools/graphtool/bench/alternate.h"

#include "tools/graphtool/ranks/world.h"

#include <string.h>

enum { MOST_TIMES = 100 };

/* The first step of a spell finds the caches as the other workload left them. */
static void run_spell(timing *t) {
    timing_step(t);
    t->n--;
    for (int i = 0; i < SPELL; i++) timing_step(t);
}

static void run_rounds(timing *mine, timing *other, int64_t rounds) {
    for (int64_t i = 0; i < rounds; i++) {
        bool is_first = (timing_count(mine) / SPELL) % 2 == 0;
        run_spell(is_first ? mine : other);
        run_spell(is_first ? other : mine);
    }
}

/* The ratios of the rounds; returns how many. */
static int ratios_of(const timing *mine, const timing *other, double **ratios) {
    int n = timing_count(mine) / SPELL;
    *ratios = tool_new((size_t)n, sizeof **ratios);
    for (int i = 0; i < n; i++) {
        double a = 0, b = 0;
        for (int k = 0; k < SPELL; k++) {
            a += mine->ms[mine->warmup + i * SPELL + k];
            b += other->ms[other->warmup + i * SPELL + k];
        }
        (*ratios)[i] = a / b;
    }
    return n;
}

static int64_t rounds_for(int64_t steps) {
    return (steps + SPELL - 1) / SPELL;
}

/* How many more rounds; rank 0 decides for all. */
static int64_t rounds_to_add(timing *mine, timing *other) {
    double *ratios;
    timing_share(mine);
    timing_share(other);
    int n = ratios_of(mine, other, &ratios);
    int64_t least = rounds_for(mine->o->steps), most = MOST_TIMES * least, more = 0;
    interval in = statistics_median_interval(n, ratios, 0);
    mine->is_reached = other->is_reached = in.high - in.low <= mine->until;
    if (mine->until > 0 && n < most && !mine->is_reached) more = n / 4 > least ? n / 4 : least;
    if (more > most - n) more = most - n;
    world_broadcast(mine->o, 0, &more, sizeof more, "bench");
    return more;
}

/* "mlp.bin (--threads 1)" */
static const char *name_of(const options *o) {
    return o->against ? tool_text("%s (%s)", o->model, o->against) : o->model;
}

comparison alternate(timing *mine, timing *other) {
    double *ratios;
    load_moment from = load_now();
    for (int i = 0; i < mine->warmup; i++) timing_step(mine);
    for (int i = 0; i < other->warmup; i++) timing_step(other);
    run_rounds(mine, other, rounds_for(mine->o->steps));
    for (int64_t more; (more = rounds_to_add(mine, other));) run_rounds(mine, other, more);
    timing_end(mine, &from);
    timing_end(other, &from);
    int n = ratios_of(mine, other, &ratios);
    return (comparison){.with = name_of(other->o),
                        .ratio = statistics_quantile(n, ratios, 0.5),
                        .in = statistics_median_interval(n, ratios, 0),
                        .steps_needed = ALTERNATE_LEAST};
}
