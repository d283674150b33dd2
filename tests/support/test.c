/* test.c - see test.h. */
#include "support/test.h"

#include <CUnit/Basic.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Drawn cases. Ranks are threads: any of them may record a check. */
static struct {
    uint64_t run, skipped, failed;
    bool is_counting;
} drawn;
static atomic_long bad_checks, bad_before;

void test_cases_add(uint64_t run, uint64_t skipped, uint64_t failed) {
    drawn.is_counting = true;
    drawn.run += run;
    drawn.skipped += skipped;
    drawn.failed += failed;
}

void test_case_begin(void) {
    bad_before = bad_checks;
}

void test_case_end(bool is_skipped) {
    bool is_bad = bad_checks > bad_before;
    test_cases_add(!is_skipped || is_bad, is_skipped && !is_bad, is_bad);
}

/* Lines of what was not reached. */
static char *unreached;
static size_t unreached_bytes;

void test_not_reached(const char *format, ...) {
    char line[200];
    va_list args;
    va_start(args, format);
    int n = snprintf(line, sizeof line, "not reached: ");
    vsnprintf(line + n, sizeof line - (size_t)n, format, args);
    va_end(args);
    size_t length = strlen(line);
    unreached = realloc(unreached, unreached_bytes + length + 2);
    if (!unreached) abort();
    memcpy(unreached + unreached_bytes, line, length);
    memcpy(unreached + unreached_bytes + length, "\n", 2);
    unreached_bytes += length + 1;
}

static bool is_chosen(const char *name, int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strstr(name, argv[i])) return true;
    return argc < 2;
}

int test_main(const char *title, const test_case *cases, int n, int argc, char **argv) {
    if (CU_initialize_registry() != CUE_SUCCESS) return 2;
    CU_pSuite suite = CU_add_suite(title, NULL, NULL);
    bool good = suite != NULL;
    for (int i = 0; good && i < n; i++)
        if (is_chosen(cases[i].name, argc, argv))
            good = CU_add_test(suite, cases[i].name, cases[i].run) != NULL;
    CU_basic_set_mode(CU_BRM_VERBOSE);
    good = good && CU_basic_run_tests() == CUE_SUCCESS && CU_get_number_of_failures() == 0;
    CU_cleanup_registry();
    if (unreached) fputs(unreached, stdout);
    free(unreached);
    if (drawn.is_counting)
        printf("cases: %" PRIu64 " run, %" PRIu64 " skipped, %" PRIu64 " failed\n", drawn.run, drawn.skipped,
               drawn.failed);
    return good ? 0 : 1;
}

bool test_check(bool good, const char *file, int line, const char *format, ...) {
    char message[2000] = "";
    if (!good) {
        va_list args;
        va_start(args, format);
        vsnprintf(message, sizeof message, format, args);
        va_end(args);
    }
    if (!good) bad_checks++;
    if (CU_get_current_suite())
        CU_assertImplementation(good, (unsigned)line, message, file, "", CU_FALSE);
    else if (!good) /* a program that is not a suite, as fuzz/fuzz.c */
        fprintf(stderr, "%s:%d: %s\n", file, line, message);
    return good;
}

bool test_text(const char *got, const char *want, const char *file, int line) {
    return test_check(got && strcmp(got, want) == 0, file, line, "got  \"%s\"\nwant \"%s\"",
                      got ? got : "(NULL)", want);
}

bool test_holds(const char *got, const char *part, const char *file, int line) {
    return test_check(got && strstr(got, part), file, line, "\"%s\" should hold \"%s\"", got ? got : "(NULL)",
                      part);
}

/* SplitMix64 (Steele, Lea, Flood 2014). */
uint64_t random_bits(test_random *r) {
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

double random_in(test_random *r, double low, double high) {
    return low + (high - low) * (double)(random_bits(r) >> 11) * 0x1p-53;
}

void test_nap(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

bool test_is_quick(void) {
    return getenv("WEFT_TEST_QUICK") != NULL;
}

bool test_is_sanitized(void) {
#ifdef __SANITIZE_ADDRESS__
    return true;
#else
    return false;
#endif
}

int test_count(int normal, int quick) {
    const char *cases = getenv("WEFT_TEST_CASES");
    long n = cases ? strtol(cases, NULL, 10) : 0;
    if (n > 0 && n < INT_MAX) return (int)n;
    return test_is_quick() ? quick : normal;
}

uint64_t test_seed(uint64_t normal) {
    const char *seed = getenv("WEFT_TEST_SEED");
    return seed ? strtoull(seed, NULL, 10) : normal;
}

void *test_memory(size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, 64, bytes ? bytes : 1) != 0) {
        fprintf(stderr, "the test is out of memory (%zu bytes)\n", bytes);
        exit(2);
    }
    memset(memory, 0, bytes);
    return memory;
}
