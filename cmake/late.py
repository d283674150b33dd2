#!/usr/bin/env python3
"""late.py - functions that load a shared library when the first of them is called.

    late.py FOLDER CC INCLUDE,... LIBRARY... -- SOURCE...

Every function of the libraries that a source calls (cublasLt..., cudnn..., nvrtc..., nccl...) is defined in FOLDER/late.c:
it looks itself up in the library once and calls what was found. Where the library cannot be loaded it returns 1, which
all four take as a failure, or a sentence where it returns text. Prototypes come from the libraries' headers, which late.c
includes: the compiler finds each that was misread. FOLDER/link_check.c names all functions: linking it to the libraries
proves that they are there.
"""
import re
import subprocess
import sys
from pathlib import Path

LIBRARIES = ("cublasLt", "cudnn", "nvrtc", "nccl")  # a header, a shared library and the prefix of its functions

LATE = """/* Made by cmake/late.py. */
#include <dlfcn.h>
#include <stddef.h>
%(includes)s
static const struct { const char *name, *path; } libraries[] = {
%(libraries)s};
static const struct { const char *name; int library; } functions[] = {
%(functions)s};
static void *late_slots[%(count)d];

/* The function, or NULL where it cannot be had. Two threads may come here: they store the same. */
static void *late_find(int index) {
    void *found = __atomic_load_n(&late_slots[index], __ATOMIC_ACQUIRE);
    if (found) return found;
    int library = functions[index].library;
    void *handle = dlopen(libraries[library].name, RTLD_NOW | RTLD_LOCAL); /* where the system looks, else where it was built */
    if (!handle) handle = dlopen(libraries[library].path, RTLD_NOW | RTLD_LOCAL);
    if (handle) found = dlsym(handle, functions[index].name);
    if (found) __atomic_store_n(&late_slots[index], found, __ATOMIC_RELEASE);
    return found;
}
%(stubs)s"""

STUB = """
__attribute__((visibility("hidden"))) {type} {name}({parameters}) {{
    __typeof__(&{name}) call = late_find({index});
    if (!call) return {failure};
    return call({arguments});
}}
"""

CHECK = """/* Made by cmake/late.py. */
%(externs)schar *const all[] = {%(names)s};
int main(void) {
    return !all[0];
}
"""


def output_of(*command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def soname_of(library):
    found = re.search(r"SONAME\s+(\S+)", output_of("objdump", "-p", library))
    return found[1] if found else Path(library).name


def calls_of(sources, prefix):
    pattern = re.compile(rf"\b({prefix}[A-Z]\w*)\s*\(")
    return sorted({name for s in sources for name in pattern.findall(Path(s).read_text())})


def prototype_of(name, headers):
    """(return type, parameters, arguments) as the preprocessed headers declare a function."""
    found = re.search(rf"(?:^|[;}}])([\w\s*]*?)\b{name}\s*\(([^()]*)\)[^;{{(]*;", headers)
    if not found:
        sys.exit(f"late.py: the headers do not declare {name}")
    result = " ".join(w for w in re.sub(r"\*", " * ", found[1]).split() if w != "extern")
    parameters = " ".join(found[2].split())
    if parameters in ("", "void"):
        return result, "void", ""
    names = [re.search(r"(\w+)\s*(?:\[\w*\])*$", p.strip()) for p in parameters.split(",")]
    return result, parameters, ", ".join(n[1] for n in names)


def failure_of(result, soname):
    if result == "void":
        return ""
    return f'"{soname} cannot be loaded"' if result == "const char *" else f"({result})1"


def stub_of(name, index, soname, headers):
    result, parameters, arguments = prototype_of(name, headers)
    text = STUB.format(name=name, index=index, type=result, parameters=parameters, arguments=arguments,
                       failure=failure_of(result, soname))
    return text.replace("return ;", "return;").replace("return call", "call") if result == "void" else text


def main():
    split = sys.argv.index("--")
    folder, cc, places, libraries, sources = Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:split], sys.argv[split + 1:]
    includes = "".join(f"#include <{name}.h>\n" for name in LIBRARIES)
    headers = output_of(cc, "-E", "-P", *(f"-I{place}" for place in places.split(",")), "-x", "c", "-", text=includes)
    headers = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "", headers)
    stubs, functions, named, names = "", "", "", []
    for number, library in enumerate(libraries):
        prefix = next(p for p in LIBRARIES if Path(library).name.startswith("lib" + p))
        soname = soname_of(library)
        named += f'    {{"{soname}", "{Path(library).resolve().parent / soname}"}},\n'
        for name in calls_of(sources, prefix):
            stubs += stub_of(name, len(names), soname, headers)
            functions += f'    {{"{name}", {number}}},\n'
            names.append(name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "late.c").write_text(LATE % {"includes": includes, "libraries": named, "functions": functions,
                                           "count": len(names), "stubs": stubs})
    (folder / "link_check.c").write_text(CHECK % {"externs": "".join(f"extern char {n}[];\n" for n in names),
                                                  "names": ", ".join(names)})


main()
