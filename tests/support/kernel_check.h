/* kernel_check.h - runs every kernel of a node, of every instruction set of this machine, in every layout
 * that the layout pass may hand it (some of them, drawn, where a trial is slow), in place where that is allowed, with 1 and 3
 * threads, and compares with plain loops (naive.h) where these know the op, the reference kernel among them, and else with
 * that one. */
#ifndef WEFT_TEST_KERNEL_CHECK_H
#define WEFT_TEST_KERNEL_CHECK_H

#include "graph/core/kernel.h"
#include "support/sample.h"

/* `data`: the node's operands, row-major. `what` names the node in messages. */
void kernels_check(weft_node *n, const char *what, const tensor *data);

/* Does this kernel run the node when operands and results lie as they mostly do? */
bool kernel_runs(weft_node *n, const weft_kernel *kernel, const kernel_env *env);

/* Opens and runs one kernel on tensors that are ready. */
weft_status kernel_run(weft_node *n, const weft_kernel *kernel, const kernel_env *env, const tensor *in,
                       const tensor *out, weft_error *error);

/* In a run of the caller's: kernel_run takes any. */
weft_status kernel_run_at(weft_node *n, const weft_kernel *kernel, const kernel_env *env, const run_state *at,
                          const tensor *in, const tensor *out, weft_error *error);

/* The same where memory is a device's: tests/cuda. */
typedef weft_status kernel_runner(weft_node *n, const weft_kernel *kernel, const kernel_env *env,
                                  const tensor *in, const tensor *out, weft_error *error);
/* Runs every kernel of another backend (env->device) by `run` and compares with the CPU's reference. Returns how many
 * of them took the node. */
int kernels_check_on(weft_node *n, const char *what, const tensor *data, const kernel_env *env,
                     kernel_runner *run);

/* What becomes of the samples when one operand or result lies otherwise than a kernel's row says. */
typedef struct kernel_promise {
    const weft_kernel *kernel;
    const weft_op *op;
    int operand, result; /* one of them; the other is -1 */
    layout_kind layout;
    int wrong, right, declined; /* samples: refused or other numbers; the same ones; not taken so */
} kernel_promise;

enum { MAX_PROMISES = 2000 };
typedef struct kernel_promises {
    kernel_runner *run; /* NULL: on this processor */
    int n;
    kernel_promise list[MAX_PROMISES];
} kernel_promises;

/* Runs every kernel of env with each operand and result in turn as its row does not promise it. */
void kernel_promises_break(kernel_promises *all, weft_node *n, const tensor *data, const kernel_env *env);
/* Each of them, and at least so many, came out wrong, or was declined: the samples see a row that promises too much. */
void kernel_promises_check(const kernel_promises *all, int least);

#endif
