#!/usr/bin/env python3
"""check_exports.py - what an installed Weft shows to a program that links it is what its headers declare, and no more.

  declared   each function of include/weft, as the compiler reads them, is in a library; libweft_mpi has weft_comm_mpi alone,
             libweft_ucx weft_comm_ucx, libweft_train those of OF_TRAIN
  static     libweft.a defines these names and no other global one; so do libweft_train.a, libweft_mpi.a and libweft_ucx.a
  kept       tests/rules/abi.txt has each of these names, the size of each structure and the place of each field: a program that was compiled with the headers of
             this list finds them (weft/status.h says how a structure gets a field). --write makes it
  shared     libweft.so the same; its soname has the version of weft/api.h, and it needs no MPI, no UCX, no CUDA library, no Graphviz

    check_exports.py PREFIX [--cc gcc] [--no-shared] [--write]
"""
import argparse
import difflib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

OF_MPI = {"weft_comm_mpi"}
OF_UCX = {"weft_comm_ucx"}
OF_TRAIN = ("source.h", "data.h", "preprocess.h", "evaluator.h", "trainer.h", "hooks.h", "onnx.h")  # headers
MAY_NEED = r"lib(dnnl|jansson|protobuf-c|sodium|gomp|omp|m|c|pthread|dl|rt|stdc\+\+|gcc_s|asan|ubsan)\.so.*|ld-linux.*"
OTHERS = (("mpi", "libmpi"), ("ucx", r"libuc[mpst]\.so"), ("train", r"lib(weft|z|png\d*|jpeg)\.so"))  # what one library may need besides

wrong = []


def tell(place, rule):
    wrong.append(f"{place}: {rule}")


def output_of(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True).stdout


def declared(prefix, cc, headers=("",)):
    """Functions that headers with these ends declare, without the macros of here.h. Bodies, and what is not Weft's, are left out."""
    text, ours = [], False
    for line in preprocess(prefix, cc).splitlines():
        mark = re.match(r'# \d+ "([^"]*)"', line)
        if mark:
            ours = "/weft/" in mark[1] and mark[1].endswith(tuple(headers))
        elif ours:
            text.append(line)
    text = re.sub(r"__attribute__\s*\(\(.*?\)\)(?=\s)", "", " ".join(text))
    while re.search(r"\{[^{}]*\}", text):
        text = re.sub(r"\{[^{}]*\}", "", text)
    return set(re.findall(r"\b(weft_\w+)\s*\(", text))


def preprocess(prefix, cc):
    return output_of(cc, "-E", "-DWEFT_HERE_H", "-I", prefix / "include", prefix / "include/weft/weft.h")


def sizes(prefix, cc):
    """What the compiler says of each structure that a program can make, and of its fields: "weft_feed 24", "weft_feed.name 0"."""
    text = re.sub(r"(?m)^#.*$", "", preprocess(prefix, cc))
    what = {}
    for name, body in re.findall(r"\bstruct (weft_\w+) \{([^{}]*)\}", text):
        fields = [re.search(r"\(\*(\w+)\)|(\w+)(?:\[[^]]*\])*$", line.strip()) for line in body.split(";") if line.strip()]
        what[name] = [(name, f"sizeof(struct {name})")] + [(f"{name}.{f[1] or f[2]}", f"offsetof(struct {name}, {f[1] or f[2]})") for f in fields]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "sizes.c")
        source.write_text('#include "weft/weft.h"\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n' +
                          "".join(f'    printf("{label} %zu\\n", {c});\n' for n in sorted(what) for label, c in what[n]) + "}\n")
        output_of(cc, "-I", prefix / "include", source, "-o", source.with_suffix(""))
        return output_of(source.with_suffix("")).splitlines()


def check_kept(names, structures, write):
    kept = Path(__file__).with_name("abi.txt")
    lines = ["functions"] + sorted(names) + ["sizes of structures and places of fields, in bytes"] + structures
    if write:
        kept.write_text("\n".join(lines) + "\n")
    for line in difflib.unified_diff(kept.read_text().splitlines(), lines, n=0, lineterm=""):
        if line[:3] not in ("---", "+++", "@@ "):
            tell("tests/rules/abi.txt", f"{'lacks' if line[0] == '+' else 'has'} {line[1:]} (--write makes the list)")


def defined(library, *options):
    names = (line.split()[-1] for line in output_of("nm", "--defined-only", *options, library).splitlines() if line[:1] == "0")
    # The lock of clang's OpenMP for reductions, which all of a program shares, has a name that no C program can have.
    return {name.split("@")[0] for name in names if not name.startswith(".gomp_")}


def compare(library, names, wanted):
    for name in sorted(names - wanted):
        tell(library.name, f"exports {name}, which no header declares")
    for name in sorted(wanted - names):
        tell(library.name, f"lacks {name}, which a header declares (WEFT_API is missing?)")


def check_shared(library, version):
    dynamic = output_of("readelf", "-dW", library)
    soname = re.search(r"SONAME.*\[(.*)\]", dynamic)
    wanted = f"{library.name}.{version}"
    if not soname or soname[1] != wanted:
        tell(library.name, f"its soname is {soname and soname[1]}, not {wanted}")
    if "TEXTREL" in dynamic:
        tell(library.name, "holds code that is not position-independent")
    for needed in re.findall(r"NEEDED.*\[(.*)\]", dynamic):
        if not re.fullmatch(MAY_NEED, needed) and not any(o in library.name and re.match(n, needed) for o, n in OTHERS):
            tell(library.name, f"needs {needed}, which a program may not have")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("prefix", type=Path)
    options.add_argument("--cc", default="cc")
    options.add_argument("--no-shared", action="store_true")
    options.add_argument("--write", action="store_true")
    o = options.parse_args()
    names = declared(o.prefix, o.cc)
    if len(names) < 100:
        tell("weft.h", f"declares {len(names)} functions: they were not found")
    header = (o.prefix / "include/weft/api.h").read_text()
    version = ".".join(re.search(rf"define WEFT_VERSION_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR"))
    train = declared(o.prefix, o.cc, ["/" + header for header in OF_TRAIN])
    for name, wanted in (("libweft", names - OF_MPI - OF_UCX - train), ("libweft_train", train), ("libweft_mpi", OF_MPI),
                         ("libweft_ucx", OF_UCX)):
        static, shared = (next(o.prefix.glob(f"lib*/**/{name}.{end}"), None) for end in ("a", "so"))
        if name in ("libweft_mpi", "libweft_ucx") and not static:
            continue  # built without
        compare(static, defined(static, "-g"), wanted)
        if not o.no_shared:
            compare(shared, defined(shared, "-D"), wanted)
            check_shared(shared, version)
    check_kept(names, sizes(o.prefix, o.cc), o.write)
    print("\n".join(wrong) if wrong else f"{len(names)} functions are declared and exported, nothing else")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
