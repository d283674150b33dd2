/* tally.c - counts and sums of an evaluator, and what it reports; tally_rows.c has its rows.
 *
 * A sum has all its bits: it is an integer in units of 2^-1074, the smallest double, as digits of 32 bits
 * (R. Neal, Fast Exact Summation Using Small and Large Superaccumulators, 2015). So it does not depend on the
 * order, and neither on batches nor on ranks. Between ranks digits travel as doubles, which hold sums of
 * 2^21 of them. */
#include "runtime/train/trainer.h"

#include <math.h>

enum {
    UNIT = 1074,    /* 2^-UNIT is 1 */
    OFTEN = 1 << 20 /* a digit has room for so many numbers before carries must move */
};

/* ---- sums ---- */

/* Leaves every digit but the last in 0 ... 2^32 - 1; the last has the sign. */
static void carry(exact *e) {
    for (int i = 0; i + 1 < EXACT_DIGITS; i++) {
        int64_t low = e->digits[i] & 0xffffffff;
        e->digits[i + 1] += (e->digits[i] - low) >> 32;
        e->digits[i] = low;
    }
    e->since = 0;
}

static void exact_add(exact *e, double x) {
    if (!isfinite(x)) {
        e->others[isnan(x) ? 0 : x > 0 ? 1 : 2]++;
        return;
    }
    int power;
    int64_t m = (int64_t)ldexp(frexp(fabs(x), &power), 53); /* x is m 2^(power - 53) */
    int at = power - 53 + UNIT;
    if (at < 0) m >>= -at, at = 0; /* denormal: the bits that go are zeros */
    unsigned __int128 wide = (unsigned __int128)m << (at % 32);
    int64_t *digits = e->digits + at / 32;
    for (int i = 0; i < 3; i++, wide >>= 32) {
        int64_t digit = (int64_t)(wide & 0xffffffff);
        digits[i] += x < 0 ? -digit : digit;
    }
    if (++e->since == OFTEN) carry(e);
}

/* The nearest double: the three highest digits, and whether there is anything below them, as its last bit. */
static double exact_value(const exact *of) {
    exact e = *of;
    if (e.others[0] || (e.others[1] && e.others[2])) return NAN;
    if (e.others[1] || e.others[2]) return e.others[1] ? (double)INFINITY : -(double)INFINITY;
    carry(&e);
    bool is_negative = e.digits[EXACT_DIGITS - 1] < 0;
    for (int i = 0; is_negative && i < EXACT_DIGITS; i++) e.digits[i] = -e.digits[i];
    if (is_negative) carry(&e);
    int top = EXACT_DIGITS - 1;
    while (top > 2 && !e.digits[top]) top--;
    unsigned __int128 high = 0;
    for (int i = top; i > top - 3; i--) high = high << 32 | (unsigned __int128)e.digits[i];
    for (int i = top - 3; i >= 0; i--) high |= e.digits[i] != 0;
    double value = ldexp((double)high, 32 * (top - 2) - UNIT);
    return is_negative ? -value : value;
}

/* ---- a tally ---- */

/* Wrong calls are reported when the evaluator's function returns. */
static void wrong(weft_tally *t, const char *what, int64_t index, int64_t n) {
    if (!t->error.status) kit_fail(&t->error, WEFT_ARGUMENT, "%s %jd of %jd", what, index, n);
}

void weft_tally_count(weft_tally *t, int64_t index, int64_t n) {
    if (!t) return;
    if (index < 0 || index >= t->n_counts)
        wrong(t, "count", index, t->n_counts);
    else
        t->counts[index] += (double)n;
}

void weft_tally_add(weft_tally *t, int64_t index, double value) {
    if (!t) return;
    if (index < 0 || index >= t->n_sums)
        wrong(t, "sum", index, t->n_sums);
    else
        exact_add(&t->sums[index], value);
}

int64_t weft_tally_counted(const weft_tally *t, int64_t index) {
    return t && index >= 0 && index < t->n_counts ? (int64_t)t->counts[index] : 0;
}

double weft_tally_sum(const weft_tally *t, int64_t index) {
    return t && index >= 0 && index < t->n_sums ? exact_value(&t->sums[index]) : NAN;
}

void weft_tally_report(weft_tally *t, const char *part, double value) {
    if (!t) return;
    report *reports = kit_grow(&t->memory, t->reports, t->n_reports + 1, sizeof *reports);
    if (!reports) {
        kit_no_memory(&t->error, "report");
        return;
    }
    t->reports = reports;
    report *r = &t->reports[t->n_reports++];
    snprintf(r->name, sizeof r->name, "%.79s%s%.79s", t->name, part ? "/" : "", part ? part : "");
    r->value = value;
}

/* ---- what the trainer does with it ---- */

weft_status tally_open(weft_tally *t, const char *name, const weft_tally_size *size, const weft_env *env,
                       weft_error *error) {
    size_t bytes;
    *t = (weft_tally){.memory = kit_arena_of(env), .name = name};
    if (weft_reserved_check(size->reserved, sizeof size->reserved, "weft_tally_size", error))
        return error->status;
    if (size->counts < 0 || size->sums < 0 || size->width < 0)
        return kit_fail(error, WEFT_ARGUMENT, "negative numbers of counts, sums or numbers in a row");
    t->counts = kit_take(&t->memory, size->counts, sizeof *t->counts);
    t->sums = kit_take(&t->memory, size->sums, sizeof *t->sums);
    if (t->memory.is_out || !kit_mul(&bytes, size->width, sizeof *t->rows))
        return kit_no_memory(error, "trainer");
    t->n_counts = size->counts;
    t->n_sums = size->sums;
    t->width = size->width;
    return WEFT_OK;
}

void tally_clear(weft_tally *t) {
    memset(t->counts, 0, (size_t)t->n_counts * sizeof *t->counts);
    memset(t->sums, 0, (size_t)t->n_sums * sizeof *t->sums);
    t->n_reports = 0;
    rows_drop(t);
}

/* Moves the numbers of a tally into `list`, or those of the list into it. */
static void pack(weft_tally *t, double *list, bool is_back) {
    size_t counts = (size_t)t->n_counts * sizeof *t->counts;
    if (is_back)
        memcpy(t->counts, list, counts);
    else
        memcpy(list, t->counts, counts);
    list += t->n_counts;
    for (int64_t i = 0; i < t->n_sums; i++) {
        exact *e = &t->sums[i];
        carry(e);
        for (int k = 0; k < EXACT_DIGITS + 3; k++, list++) {
            int64_t *at = k < EXACT_DIGITS ? &e->digits[k] : &e->others[k - EXACT_DIGITS];
            if (is_back)
                *at = (int64_t)*list;
            else
                *list = (double)*at;
        }
        if (is_back) carry(e);
    }
}

/* One sum for all: the numbers of the tally, then how many rows each rank has. */
static weft_status over_ranks(weft_tally *t, weft_comm *comm, weft_error *error) {
    size_t n = (size_t)t->n_counts + (size_t)t->n_sums * (EXACT_DIGITS + 3);
    size_t ranks = t->width ? (size_t)comm->world : 0;
    double *list = kit_take(&t->memory, n + ranks, sizeof *list);
    if (!list) return kit_no_memory(error, "trainer");
    pack(t, list, false);
    if (ranks) list[n + (size_t)comm->rank] = (double)t->n_rows;
    weft_status status = ranks_sum(&t->memory.env, comm, n + ranks, list, error);
    if (!status) pack(t, list, true);
    if (!status && ranks) status = rows_gather(t, comm, list + n, error);
    kit_drop(&t->memory, list);
    return status;
}

weft_status tally_merge(weft_tally *t, weft_comm *comm, weft_error *error) {
    weft_status status = comm && comm->world > 1 ? over_ranks(t, comm, error) : WEFT_OK;
    if (!status) rows_sort(t);
    return status;
}
