/* load.c - see load.h. */
#include "tools/graphtool/bench/load.h"

#include "tools/graphtool/model/tools.h"

#include <math.h>
#include <sys/resource.h>
#include <unistd.h>

static double seconds_of(struct timeval t) {
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

/* The first line of /proc/stat: user nice system idle iowait irq softirq steal, in ticks of all
 * processors. */
static bool read_stat(double *busy, double *steal) {
    FILE *f = fopen("/proc/stat", "re");
    double t[8];
    if (!f) return false;
    int n = fscanf(f, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6],
                   &t[7]);
    fclose(f);
    double ticks = (double)sysconf(_SC_CLK_TCK);
    *busy = (t[0] + t[1] + t[2] + t[5] + t[6]) / ticks;
    *steal = t[7] / ticks;
    return n == 8;
}

load_moment load_now(void) {
    load_moment m = {.wall = clock_seconds()};
    struct rusage own;
    getrusage(RUSAGE_SELF, &own);
    m.own = seconds_of(own.ru_utime) + seconds_of(own.ru_stime);
    m.is_known = read_stat(&m.busy, &m.steal);
    return m;
}

double load_own(const load_moment *from) {
    return load_now().own - from->own;
}

/* Ticks are counted apart from this process's time, so a short time can come out below 0. */
cpu_load load_since(const load_moment *from, double own) {
    load_moment now = load_now();
    double wall = now.wall - from->wall;
    if (!from->is_known || !now.is_known || wall <= 0) return (cpu_load){false};
    double busy = now.busy - from->busy;
    return (cpu_load){true, fmax(0, (busy - own) / wall), fmax(0, (now.steal - from->steal) / wall)};
}
