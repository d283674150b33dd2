/* fiber.cpp - see fiber.h. ucontext would do the same with two system calls for each switch, and a block of
 * 1,024 threads that sums by shuffles switches ten thousand times. */
#include "cuda_host/fiber.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
enum { STACK_BYTES = 256 << 10 }; /* bytes; AddressSanitizer's frames are larger */
#else
enum { STACK_BYTES = 64 << 10 };
#endif

/* Saves the registers that the calling convention of x86-64 preserves on the old stack, switches to the other
 * one and restores its registers. On other processors CMakeLists.txt leaves this folder out. */
extern "C" void cuda_host_switch(void **from, void *to);
asm(R"(
.text
.type cuda_host_switch, @function
cuda_host_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size cuda_host_switch, .-cuda_host_switch
)");

namespace cuda_host {

/* A stack with a guard page below it. Ends the program when there is no memory. */
static void stack_map(fiber *f) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *memory = mmap(nullptr, STACK_BYTES + page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0) {
        fprintf(stderr, "cuda_host: no memory for a thread's stack\n");
        exit(2);
    }
    f->stack = static_cast<char *>(memory) + page;
    f->bytes = STACK_BYTES;
}

/* Offset of a stack's start in its last page, another one for each stack. If all started at one offset, the
 * stacks of a block's threads would share a few sets of the processor's cache, and each switch would wait for
 * memory. */
static size_t stack_color() {
    static unsigned made;
    return made++ * 5 % 64 * 64;
}

/* The new stack looks as if `entry` had just been interrupted by cuda_host_switch. */
void fiber_make(fiber *f, void (*entry)()) {
    if (!f->stack) stack_map(f);
#if defined(__SANITIZE_ADDRESS__)
    /* whatever an abandoned thread left there */
    __asan_unpoison_memory_region(f->stack, f->bytes);
    f->shadow = nullptr;
#endif
    void **slot = reinterpret_cast<void **>(f->stack + f->bytes - stack_color());
    /* the return address of `entry`: debuggers stop there */
    *--slot = nullptr;
    *--slot = reinterpret_cast<void *>(entry);
    for (int i = 0; i < 6; i++) *--slot = nullptr; /* the six registers that cuda_host_switch restores */
    f->top = slot;
}

void fiber_switch(fiber *from, fiber *to) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&from->shadow, to->stack, to->bytes);
#endif
    cuda_host_switch(&from->top, to->top);
#if defined(__SANITIZE_ADDRESS__)
    /* Back from `to`, which may run on another system thread than when it was first entered: records its
     * stack again. */
    const void *bottom;
    __sanitizer_finish_switch_fiber(from->shadow, &bottom, &to->bytes);
    to->stack = static_cast<char *>(const_cast<void *>(bottom));
#endif
}

void fiber_entered(fiber *from) {
#if defined(__SANITIZE_ADDRESS__)
    const void *bottom;
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &from->bytes);
    from->stack = static_cast<char *>(const_cast<void *>(bottom));
#else
    (void)from;
#endif
}

} // namespace cuda_host
