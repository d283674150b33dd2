/* test_signals.c - signals in the middle of steps: every training and evaluating graph of the zoo, with 1 and
 * 2 threads, while a timer sends each computing thread 5,000 signals a second. The stack pointer of what was
 * interrupted is in that thread's stack, so the signal's frame overwrites nothing; the results have the bits
 * of an undisturbed run; afterwards each thread blocks what it blocked before.
 *
 * The frame of a signal is written below the stack pointer. A kernel that keeps other things there loses
 * memory without a sign (ops/cpu/onednn/signals.h), so the test asks for the pointer, not for the damage. */
#define _GNU_SOURCE
#include "examples/zoo.h"
#include "support/world.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MOST_THREADS = 2, PERIOD_NS = 200000 };

/* ---- a timer for each computing thread ---- */

typedef struct watched {
    char *low, *high; /* of the thread's stack */
    timer_t timer;
    sigset_t blocked;
    volatile long signals, astray; /* astray: the interrupted stack pointer was elsewhere */
} watched;

static watched threads[MOST_THREADS];
static __thread watched *self; /* NULL: a thread that is not watched */

static const char *stack_pointer(const ucontext_t *context) {
#if defined __x86_64__
    return (const char *)(uintptr_t)context->uc_mcontext.gregs[REG_RSP];
#elif defined __aarch64__
    return (const char *)(uintptr_t)context->uc_mcontext.sp;
#else
    return NULL;
#endif
}

/* Uses 4 KiB of stack, as a program's own handler may. */
static void on_signal(int number, siginfo_t *info, void *context) {
    volatile char used[4096];
    const char *at = stack_pointer(context);
    (void)info;
    memset((char *)used, number, sizeof used);
    if (!self || !at) return;
    self->signals++;
    self->astray += at < self->low || at > self->high;
}

static void await_signals(void) {
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
}

static void watch_this(watched *w) {
    pthread_attr_t attr;
    void *low = NULL;
    size_t bytes = 0;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM};
    struct itimerspec often = {{0, PERIOD_NS}, {0, PERIOD_NS}};
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    if (pthread_getattr_np(pthread_self(), &attr) || pthread_attr_getstack(&attr, &low, &bytes)) abort();
    pthread_attr_destroy(&attr);
    *w = (watched){.low = low, .high = (char *)low + bytes};
    self = w;
    pthread_sigmask(SIG_BLOCK, NULL, &w->blocked);
    if (timer_create(CLOCK_MONOTONIC, &event, &w->timer) || timer_settime(w->timer, 0, &often, NULL)) abort();
}

/* Whether the thread blocks the same signals as when the watch began. */
static bool watch_end(watched *w) {
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    timer_delete(w->timer);
    self = NULL;
    bool same = true;
    for (int s = 1; s < NSIG; s++) same &= sigismember(&now, s) == sigismember(&w->blocked, s);
    return same;
}

/* ---- every graph of a model ---- */

static void run_graphs(world_rank *r) {
    for (int64_t step = 0; step < r->job->steps; step++)
        for (int g = 0; g < weft_graph_count(r->job->model); g++) {
            float loss = 0;
            weft_port port;
            const char *name = weft_graph_name(r->job->model, g);
            bool is_number = weft_plan_output(r->plan, name, 0, &port) && port.bytes == sizeof loss;
            if (!r->error.status) world_micro(r, name, step, is_number ? &loss : NULL);
            r->losses = realloc(r->losses, sizeof *r->losses * (size_t)(r->n_losses + 1));
            r->losses[r->n_losses++] = loss;
        }
}

static void run_disturbed(world_rank *r) {
    int n = r->job->options.threads;
    bool same[MOST_THREADS] = {0};
#pragma omp parallel for num_threads(n) schedule(static, 1)
    for (int i = 0; i < n; i++) watch_this(&threads[i]);
    run_graphs(r);
#pragma omp parallel for num_threads(n) schedule(static, 1)
    for (int i = 0; i < n; i++) same[i] = watch_end(&threads[i]);
    for (int i = 0; i < n; i++) CHECK(same[i]);
}

static weft_model *build(const zoo_entry *entry) {
    zoo_options o = ZOO_DEFAULTS;
    if (entry->own)
        o = zoo_sized(&(zoo_options){.schedule_steps = 9, .layers = 1, .ctx = 32, .vocab = 512}, entry->own);
    if (strcmp(entry->name, "cyclegan") == 0) o.narrow = 4; /* a step runs a generator six times */
    weft_model *m = weft_model_new(entry->name);
    weft_model_set_batch(m, 2);
    entry->build(m, &o);
    CHECK_SAYS(weft_model_error(m)->status == WEFT_OK, "%s", weft_model_error(m)->text);
    return m;
}

static void compare(const char *name, int n, const weft_model *m, int steps) {
    char where[300];
    world_job calm = {.model = m, .steps = steps, .run = run_graphs, .options = {.threads = n}};
    world_job disturbed = calm;
    disturbed.run = run_disturbed;
    world_rank *want = world_run(&calm), *got = world_run(&disturbed);
    CHECK_SAYS(world_agrees(want, got, world_all, where), "%s, %d threads: %s", name, n, where);
    CHECK_SAYS(want->n_losses && want->n_losses == got->n_losses &&
                   memcmp(want->losses, got->losses, sizeof(float) * (size_t)got->n_losses) == 0,
               "%s, %d threads: other losses", name, n);
    for (int i = 0; i < n; i++)
        CHECK_SAYS(!threads[i].astray, "%s: in thread %d of %d, %ld of %ld signals had no stack", name, i, n,
                   threads[i].astray, threads[i].signals);
    world_free(want);
    world_free(got);
}

TEST(a_signal_in_any_node_overwrites_nothing) {
    long signals = 0;
    await_signals();
    for (int i = 0; i < ZOO_MODELS; i++) {
        if (test_is_quick() && strcmp(zoo_models[i].name, "resnet50") == 0) continue; /* resnet18's nodes */
        weft_model *m = build(&zoo_models[i]);
        for (int n = test_count(1, MOST_THREADS); n <= MOST_THREADS; n++) {
            compare(zoo_models[i].name, n, m, test_count(2, 1));
            for (int k = 0; k < n; k++) signals += threads[k].signals;
        }
        weft_model_free(m);
    }
    CHECK_SAYS(signals > 1000, "%ld signals only", signals);
}

/* The model whose trainings were killed by signals below AVX-512: its products add 784 terms. */
TEST(thousands_of_signals_in_products_overwrite_nothing) {
    await_signals();
    weft_model *m = build(&zoo_models[0]);
    for (int n = 1; n <= MOST_THREADS; n++) {
        compare("mlp", n, m, test_count(400, 50));
        CHECK_SAYS(threads[0].signals > test_count(400, 50), "%ld signals only", threads[0].signals);
    }
    weft_model_free(m);
}

SUITE("signals", {
                     T(a_signal_in_any_node_overwrites_nothing),
                     T(thousands_of_signals_in_products_overwrite_nothing),
                 })
