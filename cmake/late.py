#!/usr/bin/env python3
"""late.py - stubs that load a shared library when the first of its functions is called.

    late.py FOLDER LIBRARY... -- SOURCE...

Every function of the libraries that a source calls (cublasLt..., cudnn..., nvrtc..., nccl...) gets a stub in late.S: a
jump through a slot, which late_load.c fills at the first call. Where the library cannot be loaded the stub answers 1,
which all four take as a failure, and functions that give texts say so. link_check.c names them all:
linking it to the libraries proves that they are there.
"""
import re
import subprocess
import sys
from pathlib import Path

PREFIXES = {"cublasLt": "cublasLt", "cudnn": "cudnn", "nvrtc": "nvrtc", "nccl": "nccl"}
TEXTS = re.compile(r"String$|Name$|^ncclGetLastError$")

STUB = """
    .globl {name}
    .hidden {name}
    .type {name}, @function
{name}:
    movq late_slots+{at}(%rip), %r11
    testq %r11, %r11
    jz 1f
    jmp *%r11
1:  movl ${index}, %r11d
    jmp late_resolve
    .size {name}, .-{name}
"""

# The registers that hold arguments are kept; %rax says how many vector registers a variadic call uses.
RESOLVE = """
    .type late_resolve, @function
late_resolve:
    pushq %rbp
    movq %rsp, %rbp
    subq $192, %rsp
    movq %rdi, (%rsp)
    movq %rsi, 8(%rsp)
    movq %rdx, 16(%rsp)
    movq %rcx, 24(%rsp)
    movq %r8, 32(%rsp)
    movq %r9, 40(%rsp)
    movq %rax, 48(%rsp)
    movups %xmm0, 64(%rsp)
    movups %xmm1, 80(%rsp)
    movups %xmm2, 96(%rsp)
    movups %xmm3, 112(%rsp)
    movups %xmm4, 128(%rsp)
    movups %xmm5, 144(%rsp)
    movups %xmm6, 160(%rsp)
    movups %xmm7, 176(%rsp)
    movl %r11d, %edi
    call late_load
    movq %rax, %r11
    movq (%rsp), %rdi
    movq 8(%rsp), %rsi
    movq 16(%rsp), %rdx
    movq 24(%rsp), %rcx
    movq 32(%rsp), %r8
    movq 40(%rsp), %r9
    movq 48(%rsp), %rax
    movups 64(%rsp), %xmm0
    movups 80(%rsp), %xmm1
    movups 96(%rsp), %xmm2
    movups 112(%rsp), %xmm3
    movups 128(%rsp), %xmm4
    movups 144(%rsp), %xmm5
    movups 160(%rsp), %xmm6
    movups 176(%rsp), %xmm7
    leave
    jmp *%r11
    .size late_resolve, .-late_resolve
"""

LOAD = """/* Made by cmake/late.py. */
#include <dlfcn.h>
#include <stddef.h>

%(texts)sstatic const struct library { const char *name, *path, *(*text)(void); } libraries[] = {
%(libraries)s};
static const struct function { const char *name; int library; _Bool gives_text; } functions[] = {
%(functions)s};
__attribute__((visibility("hidden"))) void *late_slots[%(count)d];

static long fail(void) { return 1; }

/* The function itself, or one that says that it could not be had. Two threads may come here: they store the same. */
__attribute__((visibility("hidden"))) void *late_load(int index) {
    const struct function *f = &functions[index];
    const struct library *l = &libraries[f->library];
    void *handle = dlopen(l->name, RTLD_NOW | RTLD_LOCAL); /* where the system looks, else where it was built */
    if (!handle) handle = dlopen(l->path, RTLD_NOW | RTLD_LOCAL);
    void *found = handle ? dlsym(handle, f->name) : NULL;
    if (!found) return f->gives_text ? (void *)l->text : (void *)fail;
    __atomic_store_n(&late_slots[index], found, __ATOMIC_RELEASE);
    return found;
}
"""


def soname_of(library):
    told = subprocess.run(["objdump", "-p", library], capture_output=True, text=True, check=True).stdout
    found = re.search(r"SONAME\s+(\S+)", told)
    return found[1] if found else Path(library).name


def calls_of(sources, prefix):
    pattern = re.compile(rf"\b({prefix}[A-Z]\w*)\s*\(")
    return sorted({name for s in sources for name in pattern.findall(Path(s).read_text())})


def main():
    folder, libraries, sources = Path(sys.argv[1]), sys.argv[2:], []
    libraries, sources = libraries[: libraries.index("--")], libraries[libraries.index("--") + 1 :]
    folder.mkdir(parents=True, exist_ok=True)
    stubs, functions, named, texts, names = "", "", "", "", []
    for number, library in enumerate(libraries):
        path = Path(library).resolve()
        prefix = next(p for p in PREFIXES if Path(library).name.startswith("lib" + p))
        soname = soname_of(library)
        texts += f'static const char *text_{number}(void) {{ return "{soname} cannot be loaded"; }}\n'
        named += f'    {{"{soname}", "{path.parent / soname}", text_{number}}},\n'
        for name in calls_of(sources, PREFIXES[prefix]):
            stubs += STUB.format(name=name, at=8 * len(names), index=len(names))
            functions += f'    {{"{name}", {number}, {1 if TEXTS.search(name) else 0}}},\n'
            names.append(name)
    parts = {"texts": texts, "libraries": named, "functions": functions or '    {"", 0, 0},\n', "count": max(len(names), 1)}
    (folder / "late.S").write_text("# Made by cmake/late.py.\n    .text\n" + RESOLVE + stubs
                                   + '\n    .section .note.GNU-stack,"",@progbits\n')
    (folder / "late_load.c").write_text(LOAD % parts)
    (folder / "link_check.c").write_text(
        "/* Made by cmake/late.py. */\n" + "".join(f"extern char {n}[];\n" for n in names)
        + "char *const all[] = {" + ", ".join(names) + (", " if names else "")
        + "0};\nint main(void) {\n    return all[0] != 0 ? 0 : 0;\n}\n")


main()
