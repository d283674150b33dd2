/* compare.c - see compare.h. */
#include "tools/graphtool/bench/compare.h"

#include "tools/graphtool/bench/result.h"
#include "tools/graphtool/output/output.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* A thousandth of a nanosecond, and thirty years: beyond them a file is damaged. */
#define LEAST_MS 1e-9
#define MOST_MS  1e12

/* ---- results of earlier runs ---- */

/* How many of samples_ms count, and from which on; 0: it is no such result. */
static int count_times(const json_t *result, int *from) {
    const json_t *warmup = json_object_get(result, "warmup");
    size_t n = json_array_size(json_object_get(result, "samples_ms"));
    json_int_t first = json_integer_value(warmup);
    if (!json_is_integer(warmup) || first < 0 || n > INT32_MAX || (size_t)first >= n) return 0;
    *from = (int)first;
    return (int)n - *from;
}

static int times_of(const json_t *result, double **times) {
    int from = 0, n = count_times(result, &from);
    *times = tool_new((size_t)n + 1, sizeof **times);
    for (int i = 0; i < n; i++) {
        const json_t *ms = json_array_get(json_object_get(result, "samples_ms"), (size_t)(from + i));
        (*times)[i] = json_number_value(ms);
        if (!((*times)[i] >= LEAST_MS && (*times)[i] <= MOST_MS)) return 0;
    }
    return n;
}

/* A setting as text; "" where it is not there. */
static const char *value_of(const json_t *result, const char *key) {
    const json_t *value = json_object_get(result, key);
    char *all = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    const char *shown = all ? tool_text("%s", all) : "";
    free(all);
    return shown;
}

json_t *result_read(const char *path) {
    json_error_t error;
    double *times;
    FILE *f = fopen(path, "re");
    if (!f) tool_fail("%s: it cannot be read: %s", SHOW_PATH(path), strerror(errno));
    json_t *result = json_loadf(f, JSON_REJECT_DUPLICATES, &error);
    fclose(f);
    if (!result) tool_fail("%s:%d: %s", SHOW_PATH(path), error.line, error.text);
    json_keep(result);
    if (!times_of(result, &times))
        tool_fail(
            "%s: it must be what bench --json prints: \"samples_ms\" with times from %g to %g, more than "
            "\"warmup\" of them",
            SHOW_PATH(path), LEAST_MS, MOST_MS);
    const json_t *schema = json_object_get(result, "schema");
    if (schema && json_integer_value(schema) != OUT_SCHEMA)
        tool_fail("%s: \"schema\" is %s: this graphtool reads %d", SHOW_PATH(path),
                  value_of(result, "schema"), OUT_SCHEMA);
    return result;
}

int compare_steps(const json_t *result) {
    int from = 0;
    return count_times(result, &from);
}

comparison compare_results(const json_t *mine, json_t *other, const char *with) {
    double *a, *b;
    int n_a = times_of(mine, &a), n_b = times_of(other, &b);
    return (comparison){.with = with,
                        .ratio = statistics_quantile(n_a, a, 0.5) / statistics_quantile(n_b, b, 0.5),
                        .in = statistics_ratio_interval(n_a, a, n_b, b),
                        .steps_needed = STATISTICS_LEAST,
                        .other = other};
}

/* ---- the report ---- */

static const char *verdict_of(const comparison *c) {
    return c->in.low > 1 ? "slower" : c->in.high < 1 ? "faster" : "no difference is shown";
}

void compare_add(json_t *mine, const comparison *c) {
    json_object_set_new(mine, "comparison",
                        json_pack("{s:s, s:f, s:o, s:s, s:O}", "with", c->with, "ratio", c->ratio, "interval",
                                  interval_json(c->in), "verdict", verdict_of(c), "other", c->other));
}

/* Adds ", threads 2 and 1" where a key differs. */
static void add_difference(text *t, const json_t *mine, const json_t *other, const char *key) {
    const char *a = value_of(mine, key), *b = value_of(other, key);
    if (*a && *b && strcmp(a, b)) text_add(t, "%s%s %s and %s", t->length ? ", " : "", key, a, b);
}

void compare_print(const json_t *mine, const comparison *c) {
    static const char *const settings[] = {
        "model",   "graphs", "flow",       "device",   "isa",   "library", "dtype", "world",
        "threads", "batch",  "accumulate", "strategy", "guard", "seed",    "set",   "model_hash"};
    static const char *const of_machine[] = {"processor", "usable_cores", "gpu", "weft", "commit"};
    text t = {0};
    const json_t *machine = json_object_get(mine, "machine"), *others = json_object_get(c->other, "machine");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        add_difference(&t, mine, c->other, settings[i]);
    for (size_t i = 0; i < sizeof of_machine / sizeof *of_machine; i++)
        add_difference(&t, machine, others, of_machine[i]);
    if (!t.length) add_difference(&t, mine, c->other, "fingerprint"); /* of all that compiling depends on */
    printf("time / that of %s: %.3f, ", SHOW_PATH(c->with), c->ratio);
    if (interval_is_known(c->in))
        printf("within %.3f to %.3f (95%%): %s\n", c->in.low, c->in.high, verdict_of(c));
    else
        printf("without an interval: %s; give both --steps %d or more\n", verdict_of(c), c->steps_needed);
    if (t.length) printf("they differ in: %s\n", SHOW_PATH(tool_take(&t)));
}

void compare_check(const options *o, int64_t steps, int needed, const char *of) {
    if (option_is_given(o, "fail-above") && steps < needed)
        tool_fail(
            "%s: --fail-above: %s has %lld steps, which give no interval: --steps of %d or more are needed",
            o->command->name, of, (long long)steps, needed);
}

int compare_status(const options *o, const comparison *c) {
    if (!option_is_given(o, "fail-above") || c->in.low <= o->fail_above) return EXIT_FINE;
    tool_tell("%s: the time is above %g of that of %s, with all of the interval: %.3f to %.3f "
              "(--fail-above)",
              o->command->name, o->fail_above, SHOW_PATH(c->with), c->in.low, c->in.high);
    return EXIT_WRONG;
}
