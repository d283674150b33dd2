/* fiber.h - stacks that take turns on one thread of the operating system: the threads of a block. */
#ifndef CUDA_HOST_FIBER_H
#define CUDA_HOST_FIBER_H

#include <cstddef>

namespace cuda_host {

struct fiber {
    void *top = nullptr; /* of the stack, while it does not run */
    char *stack = nullptr;
    size_t bytes = 0;
    void *shadow = nullptr; /* AddressSanitizer's */
};

/* A stack with a guard page below it, kept for reuse; `entry` begins at the first switch to it, and never returns. */
void fiber_make(fiber *f, void (*entry)());
/* Returns when `to`, and nobody else, has switched back to `from`. */
void fiber_switch(fiber *from, fiber *to);
/* First thing in an entry: tells AddressSanitizer where it is, and where `from` is. */
void fiber_entered(fiber *from);

} // namespace cuda_host
#endif
