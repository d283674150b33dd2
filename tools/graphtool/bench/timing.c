/* timing.c - see timing.h. */
#include "tools/graphtool/bench/timing.h"

#include "tools/graphtool/bench/statistics.h"
#include "tools/graphtool/ranks/world.h"

#include "runtime/plan/program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_LOSSES = 5, MOST_TIMES = 100 /* as many steps as --steps says, for --until */ };

/* "1%" */
static double read_until(const options *o) {
    char *end = NULL;
    if (!o->until) return 0;
    double percent = strtod(o->until, &end);
    if (end == o->until || strcmp(end, "%") != 0 || !(percent > 0 && percent < 100))
        tool_fail("%s: --until=%s: it must be a percentage above 0 and below 100, such as 1%%",
                  o->command->name, o->until);
    return percent / 100;
}

timing *timing_open(weft_model *m, const options *o) {
    timing *t = tool_new(1, sizeof *t);
    *t = (timing){.o = o, .model = m, .begun = clock_seconds(), .until = read_until(o)};
    t->losses = json_keep(json_object());
    t->last = json_keep(json_object());
    t->work = workload_open(m, o);
    bool is_gpu = t->work.plan->options.device == WEFT_DEVICE_CUDA;
    t->is_together = is_gpu && !o->profile && !o->until && !o->against && !o->other;
    t->finds = !option_is_given(o, "warmup") && !t->is_together && !o->profile && !o->against && !o->other;
    t->warmup = (int)o->warmup;
    return t;
}

/* ---- steps ---- */

static void add_time(timing *t, double ms) {
    if (t->n == t->room) {
        double *more = tool_new(2 * (size_t)t->room + 64, sizeof *more);
        if (t->n) memcpy(more, t->ms, (size_t)t->n * sizeof *more);
        t->ms = more;
        t->room = 2 * t->room + 64;
    }
    t->ms[t->n++] = ms;
}

static void note_losses(timing *t, const weft_metrics *m) {
    for (int i = 0; i < m->n; i++) {
        const char *name = m->list[i].name;
        if (!json_object_get(t->losses, name)) json_object_set_new(t->losses, name, json_array());
        if (t->ran < FIRST_LOSSES)
            json_array_append_new(json_object_get(t->losses, name), json_number(m->list[i].value));
        else
            json_object_set_new(t->last, name, json_number(m->list[i].value));
    }
}

/* Fetching a loss waits for a GPU. */
static void run_step(timing *t, bool fetches) {
    weft_metrics metrics;
    double start = clock_seconds();
    workload_step(&t->work, fetches ? &metrics : NULL);
    double now = clock_seconds();
    if (!t->ran) t->ready_ms = (now - t->begun) * 1e3;
    if (fetches) note_losses(t, &metrics);
    t->ran++;
    add_time(t, (now - start) * 1e3);
}

void timing_step(timing *t) {
    run_step(t, true);
}

/* Steps of the warm-up load and choose kernels; they are not in the profile. */
static void begin_profile(const timing *t) {
    if (t->o->profile) weft_session_set_profile(t->work.session, true);
}

/* Of a GPU whose steps overlap with what the host does: each gets the mean of all. */
static void run_together(timing *t, int64_t steps) {
    double start = clock_seconds();
    int first = t->n;
    for (int64_t i = 0; i < steps; i++) run_step(t, t->ran < FIRST_LOSSES || i == steps - 1);
    workload_sync(&t->work);
    double ms = (clock_seconds() - start) * 1e3 / (double)steps;
    for (int i = first; i < t->n; i++) t->ms[i] = ms;
}

/* How many more steps it needs; 0: no more. */
static int64_t steps_missing(timing *t) {
    if (t->finds) t->warmup = statistics_warmup(t->n, t->ms);
    int64_t count = timing_count(t), most = MOST_TIMES * t->o->steps;
    if (count < t->o->steps) return t->o->steps - count;
    if (t->until <= 0) return 0;
    const double *ms = t->ms + t->warmup;
    interval in = statistics_median_interval((int)count, ms, 0);
    t->is_reached = in.high - in.low <= t->until * statistics_quantile((int)count, ms, 0.5);
    if (t->is_reached || count >= most) return 0;
    int64_t more = count / 4 > t->o->steps ? count / 4 : t->o->steps;
    return more < most - count ? more : most - count;
}

/* Rank 0 decides for all. */
static int64_t steps_to_add(timing *t) {
    timing_share(t);
    int64_t more = steps_missing(t);
    world_broadcast(t->o, 0, &more, sizeof more, "bench");
    return more;
}

void timing_run(timing *t) {
    load_moment from = load_now();
    for (int64_t i = 0; i < t->o->warmup; i++) timing_step(t);
    workload_sync(&t->work);
    begin_profile(t);
    if (t->is_together) run_together(t, t->o->steps);
    for (int64_t i = 0; !t->is_together && i < t->o->steps; i++) timing_step(t);
    for (int64_t more; !t->is_together && (more = steps_to_add(t));)
        while (more--) timing_step(t);
    timing_end(t, &from);
}

/* Each rank's place in a row of the world is its own, so that sums are what each has. */
void timing_share(timing *t) {
    int world = world_size(t->o), n = t->n - t->n_shared;
    double *ms = t->ms + t->n_shared;
    t->n_shared = t->n;
    if (world == 1 || !n) return;
    double *all = tool_new((size_t)n * (size_t)world, sizeof *all);
    for (int i = 0; i < n; i++) all[i * world + world_rank(t->o)] = ms[i];
    world_sum(t->o, n * world, all);
    for (int i = 0; i < n; i++)
        for (int r = 0; r < world; r++) ms[i] = fmax(ms[i], all[i * world + r]);
}

/* Other ranks of this machine are not others; of several machines it is not known. */
static cpu_load load_beside_ranks(const timing *t, const load_moment *from) {
    const weft_comm *comm = t->o->comm;
    double own = load_own(from);
    if (comm && comm->local_world != comm->world) return (cpu_load){false};
    world_sum(t->o, 1, &own);
    return load_since(from, own);
}

void timing_end(timing *t, const load_moment *from) {
    const char *name;
    json_t *value;
    t->load = load_beside_ranks(t, from);
    timing_share(t);
    if (t->finds) t->warmup = statistics_warmup(t->n, t->ms);
    json_object_foreach(t->last, name, value) json_array_append(json_object_get(t->losses, name), value);
}
