/* fiber.h - stacks that take turns on one thread of the operating system: they are the threads of a block. */
#ifndef CUDA_HOST_FIBER_H
#define CUDA_HOST_FIBER_H

#include <cstddef>

namespace cuda_host {

struct fiber {
    void *top = nullptr;   /* stack pointer while the fiber does not run */
    char *stack = nullptr; /* lowest address of the stack; `bytes` long */
    size_t bytes = 0;
    void *shadow = nullptr; /* AddressSanitizer's fake stack */
};

/* Gives the fiber a stack with a guard page below it, kept for reuse; `entry` starts at the first switch to
 * the fiber, and never returns. */
void fiber_make(fiber *f, void (*entry)());
/* Runs `to`; returns when some fiber switches back to `from`. */
void fiber_switch(fiber *from, fiber *to);
/* An entry calls this first: it tells AddressSanitizer which stack runs, and which one is `from`'s. */
void fiber_entered(fiber *from);

} // namespace cuda_host
#endif
