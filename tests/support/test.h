/* test.h - a thin layer over CUnit: test names are sentences, a suite is a table, and a failed check prints
 * what it saw. Each test_*.c is a program of its own:
 *
 *     TEST(addition_is_exact) { CHECK(1 + 1 == 2); }
 *     SUITE("sums", {T(addition_is_exact)}) */
#ifndef WEFT_TEST_H
#define WEFT_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct test_case {
    const char *name;
    void (*run)(void);
} test_case;

#define TEST(name) static void name(void)
#define T(name)                                                                                              \
    { #name, name }
#define SUITE(title, ...)                                                                                    \
    int main(int argc, char **argv) {                                                                        \
        static const test_case cases[] = __VA_ARGS__;                                                        \
        return test_main(title, cases, (int)(sizeof cases / sizeof *cases), argc, argv);                     \
    }

/* Runs the cases (given arguments, those whose names contain one); 0 when every check passed. */
int test_main(const char *title, const test_case *cases, int n, int argc, char **argv);

/* Records the outcome of one check and returns it; the message is made only on failure. */
bool test_check(bool good, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#define CHECK(condition)           test_check((condition), __FILE__, __LINE__, "%s", #condition)
#define CHECK_SAYS(condition, ...) test_check((condition), __FILE__, __LINE__, __VA_ARGS__)
/* Ends the test case if the condition is false: for what the rest depends on. */
#define NEED(condition)                                                                                      \
    do {                                                                                                     \
        if (!CHECK(condition)) return;                                                                       \
    } while (0)
#define CHECK_TEXT(got, want)  test_text((got), (want), __FILE__, __LINE__)
#define CHECK_HOLDS(got, part) test_holds((got), (part), __FILE__, __LINE__)

bool test_text(const char *got, const char *want, const char *file, int line);  /* equal texts */
bool test_holds(const char *got, const char *part, const char *file, int line); /* `part` occurs in `got` */

/* A fixed sequence of numbers: tests must not differ from run to run. */
typedef struct test_random {
    uint64_t state;
} test_random;
uint64_t random_bits(test_random *r);
double random_in(test_random *r, double low, double high);

/* How much a suite runs, by the environment. Without variables: all (tools/nightly.sh suites). With
 * WEFT_TEST_QUICK (tools/test.sh): less. With WEFT_TEST_CASES=N and
 * WEFT_TEST_SEED=S (tools/nightly.sh): N random cases from seed S on. */
bool test_is_quick(void);
/* Sleeps: in a loop that asks for a condition, for a minute at least (check_clock.py). */
void test_nap(int ms);
/* Whether this is the build of the sanitizers, whose code is slow. */
bool test_is_sanitized(void);
int test_count(int normal, int quick);
uint64_t test_seed(uint64_t normal);

/* Call around each random case. The case fails if a check in it does, and is skipped if there turns out to be
 * nothing to check. A suite that counts ends with the line "cases: 12 run, 0 skipped, 0 failed", which
 * tools/nightly.sh reads. */
void test_case_begin(void);
void test_case_end(bool is_skipped);
/* Adds cases that were counted elsewhere, in processes of their own. */
void test_cases_add(uint64_t run, uint64_t skipped, uint64_t failed);

/* What this suite cannot run on this processor: "108 kernels for avx512". The suite ends with a line "not
 * reached: ..." of each, which tools/test.sh collects. */
void test_not_reached(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* malloc that ends the program when out of memory; 64-byte aligned and exactly as long as asked for. */
void *test_memory(size_t bytes);

#endif
