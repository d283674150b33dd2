/* limit.c - see limit.h. */
#include "tools/graphtool/bench/limit.h"

#include "tools/graphtool/timeline/cpu_roof.h"
#include "tools/graphtool/timeline/profile_table.h"
#include "tools/graphtool/timeline/work_rows.h"

#include "runtime/plan/refresh.h"

#include <string.h>

peaks peaks_of(const workload *w) {
    peaks p = {false};
    weft_compile_options like = w->plan->options;
    const roof *gpu = profile_roof(w->session);
    if (gpu) return (peaks){.is_known = true, .roof = *gpu};
    if (like.device != WEFT_DEVICE_CPU) return p;
    like.threads = w->plan->kernels.threads;
    load_moment from = load_now();
    p.is_measured = p.is_known = cpu_roof(&like, &p.roof);
    p.load = load_since(&from, load_own(&from));
    return p;
}

json_t *peaks_json(const peaks *p) {
    const roof *r = &p->roof;
    if (!p->is_known) return json_null();
    return json_pack("{s:s, s:f, s:f, s:f, s:o}", "name", r->name, "gflops", r->f32 * 1e-9, "reduced_gflops",
                     r->tensor * 1e-9, "gb_per_s", r->memory * 1e-9, "other_cpus",
                     p->load.is_known ? json_real(p->load.others + p->load.steal) : json_null());
}

void peaks_print(const peaks *p) {
    const double busy = 0.1; /* CPUs, as in bench/ */
    const roof *r = &p->roof;
    if (!p->is_known) return;
    fprintf(stderr, "peaks of %s: %.0f GFLOP/s", r->name, r->f32 * 1e-9);
    if (r->tensor > r->f32) fprintf(stderr, ", %.0f in a reduced type", r->tensor * 1e-9);
    fprintf(stderr, ", %.0f GB/s%s", r->memory * 1e-9, p->is_measured ? ", measured now" : "");
    if (p->load.others + p->load.steal > busy)
        fprintf(stderr, " under load, so they are too low: other processes used %.2f CPUs, steal %.2f",
                p->load.others, p->load.steal);
    fprintf(stderr, "\n");
}

/* ---- of a step ---- */

typedef double program_number(const program *p, const peaks *of);

static double flops_of(const program *p, const peaks *of) {
    (void)of;
    return program_flops(p);
}

static double least_of(const program *p, const peaks *of) {
    return work_rows_of(p, &of->roof, NULL).all.least;
}

/* The number summed over all runs of an iteration; 0 where iterations differ. */
static double sum_over(const weft_plan *plan, program_number *number, const peaks *of) {
    double sum = 0;
    weft_flow_step s;
    for (int i = 0; weft_plan_flow(plan, i, &s); i++) {
        if (s.from > 0 || s.to < INT64_MAX) return 0;
        for (int k = 0; k < plan->n_programs; k++) {
            const program *p = &plan->programs[k];
            if (strcmp(p->name, s.graph) == 0) sum += s.repeat * program_runs_in_step(p) * number(p, of);
        }
    }
    return sum;
}

double limit_flops(const weft_plan *plan) {
    return sum_over(plan, flops_of, NULL);
}

double limit_ms(const weft_plan *plan, const peaks *p) {
    return p->is_known ? sum_over(plan, least_of, p) * 1e3 : 0;
}
