/* kernel_check.h - runs every kernel of a node, of every instruction set of this machine, in every layout
 * that the layout pass may choose (a random selection where a trial is slow), in place where that is allowed,
 * with 1 and 3 threads. Results are compared with plain loops (naive.h) if those know the op, the reference
 * kernel's too; otherwise with the reference kernel. */
#ifndef WEFT_TEST_KERNEL_CHECK_H
#define WEFT_TEST_KERNEL_CHECK_H

#include "graph/core/kernel.h"
#include "support/kernels/sample.h"

/* `data`: the node's operands, row-major. `what` names the node in messages. */
void kernels_check(weft_node *n, const char *what, const tensor *data);

/* Whether nodes have long axes: kernels get them in their plain layout alone, instruction sets their own
 * kernels alone, and sums may round more. Off at first. */
void kernels_check_long(bool are_long);

/* Does this kernel run the node when operands and results have their usual layouts? */
bool kernel_runs(weft_node *n, const weft_kernel *kernel, const kernel_env *env);

/* The run that nodes are checked in: random numbers depend on it. */
extern const run_state sample_run;

/* Opens and runs one kernel on prepared tensors. */
weft_status kernel_run(weft_node *n, const weft_kernel *kernel, const kernel_env *env, const tensor *in,
                       const tensor *out, weft_error *error);

/* The same with the caller's run state. */
weft_status kernel_run_at(weft_node *n, const weft_kernel *kernel, const kernel_env *env, const run_state *at,
                          const tensor *in, const tensor *out, weft_error *error);

/* kernel_run for a device's memory: tests/cuda. */
typedef weft_status kernel_runner(weft_node *n, const weft_kernel *kernel, const kernel_env *env,
                                  const tensor *in, const tensor *out, weft_error *error);
/* Whether a device gets some of the trials only, drawn from test_seed(): the emulated GPU compiles a kernel
 * for each. All at first. */
void kernels_check_drawn(bool drawn);
/* Whether a device's cuBLASLt and cuDNN are NVIDIA's own, whose rounding differs more. Off at first. */
void kernels_check_real_libraries(bool real);
/* Runs every kernel of another backend (env->device) by `run` and compares with the CPU's reference. Returns
 * how many accepted the node. */
int kernels_check_on(weft_node *n, const char *what, const tensor *data, const kernel_env *env,
                     kernel_runner *run);

/* The results of samples when one operand or result has another layout than the kernel's row says. */
typedef struct kernel_promise {
    const weft_kernel *kernel;
    const weft_op *op;
    int operand, result; /* the one that is changed; the other is -1 */
    layout_kind layout;
    /* numbers of samples: with an error or other results; with equal results; not accepted */
    int wrong, right, declined;
} kernel_promise;

enum { MAX_PROMISES = 2000 };
typedef struct kernel_promises {
    kernel_runner *run; /* NULL: on this processor */
    int n;
    kernel_promise list[MAX_PROMISES];
} kernel_promises;

/* Runs every kernel of env with each operand and result in turn in layouts that its row does not promise. */
void kernel_promises_break(kernel_promises *all, weft_node *n, const tensor *data, const kernel_env *env);
/* Checks that there are at least `least` of them, and that each was wrong or declined for some sample: so the
 * samples would find a row that promises too much. */
void kernel_promises_check(const kernel_promises *all, int least);

#endif
