#!/usr/bin/env python3
"""kernel_mutants.py - do the tests of ops find a wrong kernel or gradient? Each seed draws a place in the functions of
ops/ that compute or build gradients, flips a sign or an index there, and runs the generic tests of ops, of which one must
fail: first on the ops that the file names, then on all. A mutant whose object files are those of the original changes
nothing and is skipped.

    kernel_mutants.py --tree CLONE [--seed S] [--count N] [--list]

CLONE is a git clone of the sources with a build in build/release; what is not committed there is lost. One line a mutant,
how many a suite saw by its checks and how many by a hang alone, then the counts as nightly.sh reads them: found, hanging and
survived ones are run, survivors failed.
"""
import argparse
import hashlib
import os
import random
import re
import subprocess
import sys
from pathlib import Path

# What is not a kernel nor a gradient: it refuses, declares, chooses, counts or measures.
NOT_KERNELS = re.compile(r"infer|declines|view|simplif|sample|check|scratch|bytes|work$|workspace|open|close|choose|tune|"
                         r"print|error|weft_|fits|is_|has_|flops|cost|cache|threads|parts|grid|launch|plan|describe")
NOT_FILES = re.compile(r"/(kit/ops|list|table|kernels|roof|calibration|fuse_\w+|program\w*|\w*_tune|timing|start|work)\.")
# Builders of several ops and declarations, which have suites of their own (test_shapes.c, test_norm_loss.c, test_images.c ...).
BUILDERS = re.compile(r"/(activations|affine_grid|assign|class_losses|einsum|gradients|layers\w*|lines|losses|minimize\w*|norm_rows|pad_modes|"
                      r"param_groups|pixel_shuffle|similarity|split|weight_norms)\.c")
FUNCTION = re.compile(r"^(?!typedef|enum|struct|#|static const struct)[\w].*?(\w+)\([^;]*$")
# A sign: the binary operator between two operands, or the minus before a name. An index: which operand, axis or row.
SIGN = re.compile(r"(?<=[\w\])] )[+-](?= [\w(&*])|(?<=[(=,] )-(?=[a-z(])|(?<=\()-(?=[a-z(])|(?<=[\w\])] )[+-](?==)")
INDEX = re.compile(r"\b(in|out|dout|din|x|k|wanted|shape|stride|axes|pad)\[([0-3])\]")
# Statements that say why a node is refused.
REFUSES = re.compile(r"fail\(")
# Lines that change how fast a kernel is, or what is said of that, but no result.
FOR_SPEED = re.compile(r"w->(read|written|flops)|prefetch|ahead\b|AHEAD|threads|WORTH_A_THREAD|schedule\(")
# Mutants that a person has read and that give the same results: file, line, why.
SAME = [
    ("ops/cuda/image/pool.cu", "from->in[0]->type.shape", "chooses between two kernels that are both right"),
    ("ops/cpu/simd/optimizer.c", "type_elements(&c->in[0].type)", "a parameter and its gradient have one shape"),
    ("ops/cpu/simd/optimizer.c", "local < a->of", "guards against more micro-batches than a step has"),
    ("ops/cuda/shape/shape.cu", "blocks_for(b->c", "fewer blocks in a loop that strides over all; pieces of a bucket have 8 elements"),
]
SUITES = {  # by the beginning of a file's name; the first that fits
    "ops/cuda/": ["test_cuda_ops"],
    "ops/cpu/simd/": ["test_ops", "test_simd_sweep", "test_fused"],
    "ops/cpu/": ["test_ops", "test_onednn_sweep"],
    "ops/": ["test_gradients", "test_ops", "test_simd_sweep", "test_cuda_ops"],
}
ALL = sorted({suite for suites in SUITES.values() for suite in suites})
WHERE = {"test_cuda_ops": "tests/cuda_host/test_cuda_ops"}
HANGS = " (hangs)"
DOES_NOT_COMPILE, CHANGES_NOTHING = "skipped: does not compile", "skipped: changes nothing"
LIMITS = {True: 300, False: 1800}  # seconds of a suite, on some ops and on all; longer: it hangs, which is counted apart


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


def line_of(text, at):
    return text[text.rfind("\n", 0, at) + 1 : text.find("\n", at)]


def statement_of(code, at):
    """From the end of the one before it."""
    return code[max(code.rfind(end, 0, at) for end in ";{}") + 1 : code.find(";", at)]


def is_computed(code, at):
    return not FOR_SPEED.search(line_of(code, at)) and not REFUSES.search(statement_of(code, at))


def flips(tree):
    """Every place that can be flipped: (file, position, old, new)."""
    found = set()
    for path in (tree / "ops").rglob("*"):
        name = str(path.relative_to(tree))
        if path.suffix not in (".c", ".h", ".cu", ".cuh") or NOT_FILES.search(name) or BUILDERS.search(name):
            continue
        code = without_comments(path.read_text())
        for begin, end in [(0, len(code))] if path.name == "pointwise_list.h" else bodies(code):
            signs = [(name, m.start(), m[0], "-" if m[0] == "+" else "+") for m in SIGN.finditer(code, begin, end)]
            indices = [(name, m.start(2), m[2], str(int(m[2]) ^ 1)) for m in INDEX.finditer(code, begin, end)]
            found.update(flip for flip in signs + indices if is_computed(code, flip[1]))
    return sorted(found)


def includers(tree, name):
    """A file, and those that include it or its header, directly or not."""
    found, new = set(), {name, re.sub(r"(_kit)?\.c$", ".h", name)}
    while new:
        found |= new
        headers = [n for n in new if n.endswith((".h", ".cuh"))]
        new = {str(path.relative_to(tree)) for path in (tree / "ops").rglob("*.[ch]*") for header in headers
               if f'#include "{header}"' in path.read_text()} - found
    return found


def ops_of(tree, name):
    """The ops that a file names, or its includers do, or else those of its folder."""
    ops = set(re.findall(r"^X\((\w+)", (tree / "ops/list.h").read_text(), re.M))
    text = " ".join((tree / file).read_text() for file in includers(tree, name) if (tree / file).exists()).replace("weft_op_", "")
    family = {path.stem for path in (tree / "ops" / Path(name).parent.name).glob("*.c")}
    return sorted(ops & set(re.findall(r"[a-z]\w*", text)) or ops & family)


def make(build, targets):
    return subprocess.run(["cmake", "--build", build, "--target", *targets], capture_output=True, text=True)


def objects(build):
    """A hash of all object files."""
    made = hashlib.sha256()
    for path in sorted(build.rglob("*.o")):
        made.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return made.hexdigest()


def run_fails(build, suite, ops=()):
    """Whether a suite fails: its name, with HANGS where it had not ended; else None."""
    env = {**os.environ, "OMP_WAIT_POLICY": "passive", **({"WEFT_TEST_OPS": ",".join(ops)} if ops else {})}
    for name in ("WEFT_TEST_CASES", "WEFT_TEST_SEED"):  # nightly.sh's are for this script
        env.pop(name, None)
    try:
        done = subprocess.run([build / WHERE.get(suite, suite)], capture_output=True, env=env, timeout=LIMITS[bool(ops)])
    except subprocess.TimeoutExpired:
        return suite + HANGS
    return suite if done.returncode else None


def failing(build, suites, ops=()):
    """The first suite that fails, or None."""
    return next(filter(None, (run_fails(build, suite, ops) for suite in suites)), None)


def found_by(build, original, suites, ops):
    """The same for a mutant. A suite is built when its turn comes, since the first ones find most."""
    changed = []
    for suite in suites:
        if make(build, [suite]).returncode:
            return DOES_NOT_COMPILE
        if objects(build) != original:
            changed.append(suite)
            found = ops and run_fails(build, suite, ops)
            if found:
                return found
    return failing(build, changed) if changed else CHANGES_NOTHING


def judge(tree, build, original, flip):
    """"skipped", "SURVIVED", "hangs", or the suite that found it."""
    name, at, old, new = flip
    path = tree / name
    line = line_of(path.read_text(), at)
    for file, part, why in SAME:
        if file == name and part in line:
            return f"skipped: {why}"
    text, ops = path.read_text(), ops_of(tree, name)
    suites = next(suites for begin, suites in SUITES.items() if name.startswith(begin))
    path.write_text(text[:at] + new + text[at + len(old):])
    try:
        found = found_by(build, original, suites, ops)
        if found and found.startswith("skipped"):
            return found
        if found and found.endswith(HANGS):
            return f"hangs: {found.removesuffix(HANGS)} had not ended"
        return f"found by {found}" if found else "SURVIVED"
    finally:
        path.write_text(text)
        make(build, suites)


def start(tree, build):
    """Sources as they are committed, and built; their tests have passed. The hash of their object files."""
    if tree.resolve() == Path(__file__).resolve().parents[2]:
        sys.exit("kernel_mutants.py: --tree is changed: it must be a clone of its own")
    subprocess.run(["git", "-C", tree, "checkout", "-q", "--", "."], check=True)
    done, passed = make(build, ALL), build / "kernel_mutants.passed"
    original = objects(build)
    if done.returncode or not passed.exists() or passed.read_text() != original:
        found = done.stdout[-2000:] if done.returncode else failing(build, ALL)
        if found:
            sys.exit(f"kernel_mutants.py: the sources as they are fail: {found}")
        passed.write_text(original)
    return original


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tree", required=True, type=Path)
    options.add_argument("--seed", type=int, default=int(os.environ.get("WEFT_TEST_SEED", 1)))
    options.add_argument("--count", type=int, default=int(os.environ.get("WEFT_TEST_CASES", 40)))
    options.add_argument("--list", action="store_true", help="only print the places")
    o = options.parse_args()
    if o.list:
        for name, at, old, new in flips(o.tree):
            text = (o.tree / name).read_text()
            print(f"{name}:{text[:at].count(chr(10)) + 1}: {old} -> {new}: {line_of(text, at).strip()}")
        return 0
    build, counts = o.tree / "build/release", {"found": 0, "hangs": 0, "skipped": 0, "SURVIVED": 0}
    original, places = start(o.tree, build), flips(o.tree)
    for seed in range(o.seed, o.seed + o.count):
        name, at, old, new = flip = random.Random(seed).choice(places)
        text = (o.tree / name).read_text()
        result = judge(o.tree, build, original, flip)
        counts[re.match(r"\w+", result)[0]] += 1
        print(f"seed {seed}: {name}:{text[:at].count(chr(10)) + 1}: {old} -> {new}: {result}: {line_of(text, at).strip()}", flush=True)
    survived = counts["SURVIVED"]
    print(f"{counts['found']} found by checks, {counts['hangs']} by hangs alone")
    print(f"cases: {counts['found'] + counts['hangs'] + survived} run, {counts['skipped']} skipped, {survived} failed")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
