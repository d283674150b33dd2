#!/usr/bin/env python3
"""kernel_mutants.py - do the tests of ops find a wrong kernel or gradient? Each seed draws a place in the functions of
ops/ that compute or build gradients, flips a sign or an index there, and runs the generic tests of ops, of which one must
fail. A mutant whose object files are those of the original changes nothing and does not count.

    kernel_mutants.py --tree COPY --build FOLDER [--seed S] [--count N]

COPY is a copy of the sources, which is changed and restored; FOLDER its build. One line a mutant, then
"next seed, mutants, skipped, survivors".
"""
import argparse
import hashlib
import random
import re
import subprocess
import sys
from pathlib import Path

# What is not a kernel nor a gradient: it refuses, declares, chooses, counts or measures.
NOT_KERNELS = re.compile(r"infer|declines|view|simplif|sample|check|scratch|bytes|work$|workspace|open|close|choose|tune|"
                         r"print|error|weft_|fits|is_|has_|flops|cost|cache|threads|parts|grid|launch|plan|describe")
NOT_FILES = re.compile(r"/(kit/ops|list|table|kernels|roof|calibration|layers|fuse_\w+|program\w*|\w*_tune|timing|start|work)\.")
FUNCTION = re.compile(r"^(?!typedef|enum|struct|#|static const struct)[\w].*?(\w+)\([^;]*$")
# A sign: the binary operator between two operands, or the minus before a name. An index: which operand, axis or row.
SIGN = re.compile(r"(?<=[\w\])] )[+-](?= [\w(&*])|(?<=[(=,] )-(?=[a-z(])|(?<=\()-(?=[a-z(])|(?<=[\w\])] )[+-](?==)")
INDEX = re.compile(r"\b(in|out|dout|din|x|k|wanted|shape|stride|axes|pad)\[([0-3])\]")
TESTS = {"cpu": ["test_ops", "test_gradients"], "cuda": ["test_cuda_ops"]}
WHERE = {"test_cuda_ops": "tests/cuda_host/test_cuda_ops"}
LIMIT = 900  # seconds of a test; longer: it hangs, which counts as found


def without_comments(text):
    """The same characters, with blanks where comments and strings are."""
    blank = lambda m: re.sub(r"[^\n]", " ", m[0])
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def bodies(code):
    """(first character, last character) of the bodies of functions that compute."""
    at, name, begin = 0, None, 0
    for line in code.splitlines(True):
        found = FUNCTION.match(line)
        if found and not line.rstrip().endswith(";"):
            name, begin = found[1], at + len(line)
        elif line.startswith("}") and name:
            if not NOT_KERNELS.search(name):
                yield begin, at
            name = None
        at += len(line)


def flips(tree):
    """Every place that can be flipped: (file, position, old, new)."""
    found = []
    for path in sorted((tree / "ops").rglob("*.[ch]*")) + sorted((tree / "ops/cuda").rglob("*.cu*")):
        name = str(path.relative_to(tree))
        if path.suffix not in (".c", ".h", ".cu", ".cuh") or NOT_FILES.search(name):
            continue
        code = without_comments(path.read_text())
        ranges = [(0, len(code))] if path.name == "pointwise_list.h" else list(bodies(code))
        for begin, end in ranges:
            for m in SIGN.finditer(code, begin, end):
                found.append((name, m.start(), m[0], "-" if m[0] == "+" else "+"))
            for m in INDEX.finditer(code, begin, end):
                found.append((name, m.start(2), m[2], str(int(m[2]) ^ 1)))
    return sorted(set(found))


def make(build, targets):
    return subprocess.run(["cmake", "--build", build, "--target", *targets], capture_output=True, text=True)


def objects(build):
    """A hash of all object files of the library."""
    made = hashlib.sha256()
    for path in sorted(build.rglob("*.o")):
        made.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return made.hexdigest()


def failing(build, suites):
    """The first suite that fails, or None."""
    for suite in suites:
        try:
            done = subprocess.run([build / WHERE.get(suite, suite)], capture_output=True, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return suite + " (hangs)"
        if done.returncode:
            return suite
    return None


def judge(tree, build, original, suites, flip):
    """"skipped", "survived" or the suite that found it."""
    name, at, old, new = flip
    path = tree / name
    text = path.read_text()
    path.write_text(text[:at] + new + text[at + len(old):])
    try:
        if make(build, suites).returncode:
            return "skipped: does not compile"
        if objects(build) == original:
            return "skipped: changes nothing"
        found = failing(build, suites)
        return f"found by {found}" if found else "SURVIVED"
    finally:
        path.write_text(text)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tree", required=True, type=Path)
    options.add_argument("--build", required=True, type=Path)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--count", type=int, default=40)
    options.add_argument("--list", action="store_true", help="only print the places")
    o = options.parse_args()
    places = flips(o.tree)
    if o.list:
        for name, at, old, new in places:
            line = (o.tree / name).read_text()[:at].count("\n") + 1
            print(f"{name}:{line}: {old} -> {new}: {(o.tree / name).read_text().splitlines()[line - 1].strip()}")
        return 0
    everything = TESTS["cpu"] + TESTS["cuda"]
    done = make(o.build, everything)
    if done.returncode or failing(o.build, everything):
        sys.exit(f"the sources as they are fail: {done.stdout[-2000:]}")
    original, counts = objects(o.build), {"found": 0, "skipped": 0, "SURVIVED": 0}
    for seed in range(o.seed, o.seed + o.count):
        flip = random.Random(seed).choice(places)
        name, at, old, new = flip
        line = (o.tree / name).read_text()[:at].count("\n") + 1
        is_cuda = name.startswith("ops/cuda/")
        suites = TESTS["cuda"] if is_cuda else everything if "/simd/" not in name and "/onednn/" not in name else TESTS["cpu"]
        result = judge(o.tree, o.build, original, suites, flip)
        counts[re.match(r"\w+", result)[0]] += 1
        shown = (o.tree / name).read_text().splitlines()[line - 1].strip()
        print(f"seed {seed}: {name}:{line}: {old} -> {new}: {result}: {shown}", flush=True)
    print(o.seed + o.count, counts["found"] + counts["SURVIVED"], counts["skipped"], counts["SURVIVED"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
