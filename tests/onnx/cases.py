#!/usr/bin/env python3
"""cases.py - the node cases of the onnx package: each is imported, run, and compared with the outputs that it comes with.

    cases.py [--only REGEX] [--write] [--table] [--verbose]      needs onnx, and weft

Operands that must be known while importing (shapes, axes, pads) are constants taken from the case; all others are fed. A case passes, is
wrong, or is refused with a reason. refused.txt lists those that are expected to be refused: a case that is not in it and is refused fails the
run, as does one in it that passes. --write writes that list as things are, --table the table of docs/onnx.md.
"""
import argparse
import collections
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np
import onnx
import onnx.numpy_helper
import torch
from onnx.backend.test.loader import load_node_model_tests
import weft

NEEDED = re.compile(r"its operand \d+, '([^']+)', is computed when the graph runs")
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
# Cases whose outputs are drawn by NumPy's generator: the standard leaves the generator open. DROPPED says what is judged instead.
DROPPED = {"test_training_dropout": 0.75, "test_training_dropout_mask": 0.75, "test_training_dropout_default": 0.5, "test_training_dropout_default_mask": 0.5}
INPUT = re.compile(r"input '([^']+)' is |axis \d+ of input '([^']+)' ")


def data_set(case):
    """Inputs and outputs by their names: (element type, array)."""
    found = []
    for ports, arrays in zip((case.model.graph.input, case.model.graph.output), case.data_sets[0]):
        if any(p.type.WhichOneof("value") != "tensor_type" for p in ports):
            raise Refused("a sequence or an optional value")
        found.append({p.name: (p.type.tensor_type.elem_type, array_of(a)) for p, a in zip(ports, arrays)})
    return found


def array_of(array):
    if isinstance(array, onnx.TensorProto):
        array = onnx.numpy_helper.to_array(array)
    array = np.asarray(array)
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def constant_of(kind, array):
    """NumPy has no bf16: torch has."""
    return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16) if kind == onnx.TensorProto.BFLOAT16 else array


LIST = Path(__file__).with_name("refused.txt")


class Refused(Exception):
    pass


def origins(model, name, inputs):
    """The inputs that a value is computed from: itself, if it is one. Messages cut long names."""
    makers = {o: n for n in model.graph.node for o in n.output}
    names, found = [n for n in (*makers, *inputs) if n.startswith(name)][:1], set()
    while names:
        name = names.pop()
        found.add(name)
        names += [n for n in (makers[name].input if name in makers else ()) if n and n not in found]
    return found & set(inputs)


def imported(path, model_of_case, inputs, constants):
    """The model with one graph, and the names that are constants; what the importer asks for is computed from more of them."""
    while True:
        model = weft.Model("case", batch=1)
        try:
            with weft.Onnx(str(path)) as file:
                file.graph(model, "g", constants={n: constant_of(*inputs[n]) for n in constants})
                weights = None
                if model.parameters():
                    weights = tempfile.NamedTemporaryFile(suffix=".safetensors")
                    file.weights(weights.name)
            return model, weights
        except weft.Error as why:
            found = NEEDED.search(str(why)) or INPUT.search(str(why))
            name = found and next(filter(None, found.groups()))
            more = origins(model_of_case, name, inputs) - constants if name else set()
            if not more:
                raise Refused(f"{why}") from None
            constants |= more


def named(name):
    """A file's name as a name in Weft."""
    return re.sub(r"[^\w.-]", "_", name)


def run(path, case):
    inputs, outputs = data_set(case)
    constants = {n for n, (_, a) in inputs.items() if a.size == 0}
    model, weights = imported(path, case.model, inputs, constants)
    fed = {named(n): np.array(a, order="C") for n, (_, a) in inputs.items() if n not in constants}
    if case.name in DROPPED:
        return judge_dropped(model, inputs["x"][1], case, fed)
    store = model.compile(threads=1).store()
    if weights:
        store.load(weights.name)
    with store.session() as session:
        found = session.run("g", **fed)
    for name, (kind, expected) in outputs.items():
        compare(name, kind, np.asarray(found[named(name)]), expected, case, is_random(case.model))


def judge_dropped(model, x, case, fed):
    """What is dropped is 0 and what is kept x / (1 - ratio); the mask says which; the share fits; steps differ, and seeds repeat."""
    ratio, runs = DROPPED[case.name], []
    for seed, steps in ((1, 40), (1, 1), (2, 1)):
        with model.compile(threads=1).store(seed=seed).session() as session:
            runs.append([{n: np.array(a) for n, a in session.run("g", **fed).items()} for _ in range(steps)])
    for found in sum(runs, []):
        kept = found["z"] if "z" in found else found["y"] != 0
        if kept.dtype != bool or not np.allclose(found["y"], np.where(kept, x / (1 - ratio), 0), rtol=case.rtol):
            raise Wrong("y is neither 0 nor x / (1 - ratio), or the mask says otherwise")
    share = np.mean([found["y"] == 0 for found in runs[0]])
    if abs(share - ratio) > 0.05:  # of 2400 draws: more than four deviations
        raise Wrong(f"a share of {share} is dropped; the ratio is {ratio}")
    first, again, other = (run[0]["y"] for run in runs)
    if not np.array_equal(first, again) or np.array_equal(first, other) or np.array_equal(first, runs[0][1]["y"]):
        raise Wrong("equal seeds differ, or seeds or steps are equal")


def is_random(model):
    """Whether results are drawn: of those the shape and the type are compared."""
    return any(n.op_type in RANDOM for n in model.graph.node)


ROUNDS = {onnx.TensorProto.FLOAT16: 2.0 ** -9, onnx.TensorProto.BFLOAT16: 2.0 ** -6}  # two units in the last place: a chain of nodes rounds once here


class Wrong(Exception):
    pass


def wide(array, kind):
    """Numbers of 16 bits as f32."""
    return (array.astype(np.uint32) << 16).view(np.float32) if kind == onnx.TensorProto.BFLOAT16 else array


def compare(name, kind, found, expected, case, is_drawn):
    if found.shape != expected.shape:
        raise Wrong(f"{name}: shape {found.shape} for {expected.shape}")
    if found.dtype != expected.dtype:
        raise Wrong(f"{name}: type {found.dtype} for {expected.dtype}")
    if is_drawn:
        return
    found, expected = wide(found, kind), wide(expected, kind)
    if expected.dtype.kind == "f":
        found, expected = found.astype(np.float64), expected.astype(np.float64)
        if not np.allclose(found, expected, rtol=max(case.rtol, ROUNDS.get(kind, 0)), atol=max(case.atol, noise(case.model, expected)), equal_nan=True):
            raise Wrong(f"{name}: differs by {np.nanmax(np.abs(found - expected))}")
    elif not np.array_equal(found, expected):
        raise Wrong(f"{name}: differs in {int((found != expected).sum())} of {found.size} elements")


def noise(model, expected):
    """What rounding to f32 leaves of sums that cancel out: numpy transforms f32 in f32, and Weft in f64."""
    return 2**-24 * np.abs(expected).max() if any(n.op_type in ("DFT", "STFT") for n in model.graph.node) else 0


def judge(case, folder):
    """("passes" | "refused" | "wrong", why)"""
    path = folder / f"{case.name}.onnx"
    try:
        path.write_bytes(case.model.SerializeToString())
        run(path, case)
        return "passes", ""
    except (Refused, weft.Error) as why:
        return "refused", str(why).replace(str(folder) + "/", "")
    except Wrong as why:
        return "wrong", str(why)
    finally:
        path.unlink(missing_ok=True)


def told(why):
    """A reason without the names of a file's nodes and values."""
    return re.sub(r"^\S+\.onnx: |^cases\.py:\d+: |node \d+ '[^']*' ", "", why).splitlines()[0][:200].rstrip()


def operators_of(case, known):
    """The operators that a case is of: a function written out is a case of the function's operator."""
    base = re.sub(r"_expanded(_ver\d+)?$", "", case.name)
    if base in known:
        return known[base]
    return sorted({node.op_type for node in case.model.graph.node})


def read_list(path):
    rows = (line.split(": ", 1) for line in path.read_text().splitlines() if ": " in line and not line.startswith("#"))
    return dict(rows)


def write_list(path, refused):
    head = f"# The node cases of onnx {onnx.__version__} that are refused, and why; written by cases.py --write.\n"
    path.write_text(head + "".join(f"{name}: {told(why)}\n" for name, why in sorted(refused.items())))


def print_table(found):
    """A row an operator: how many of its cases pass, and why others are refused."""
    rows = {}
    for operators, verdict, why in found:
        for operator in operators:
            row = rows.setdefault(operator, [0, 0, collections.Counter()])
            row[1] += 1
            row[0] += verdict == "passes"
            if verdict == "refused":
                row[2][re.sub(r"^\(?[\w.]+(, opset \d+)?\): ", "", told(why))[:90].replace("|", "\\|")] += 1
    print("| operator | cases | pass | refused, for example |\n|---|---:|---:|---|")
    for operator, (passed, n, reasons) in sorted(rows.items()):
        print(f"| {operator} | {n} | {passed} | {reasons.most_common(1)[0][0] if reasons else ''} |")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="")
    options.add_argument("--write", action="store_true")
    options.add_argument("--table", action="store_true")
    options.add_argument("--verbose", action="store_true")
    o = options.parse_args()
    warnings.simplefilter("ignore")
    counts, refused, found, known = collections.Counter(), {}, [], {}
    expected = read_list(LIST) if LIST.exists() else {}
    unexpected = []
    with tempfile.TemporaryDirectory() as folder:
        for case in load_node_model_tests():
            operators = known.setdefault(case.name, operators_of(case, known))
            if not re.search(o.only, case.name):
                continue
            verdict, why = judge(case, Path(folder))
            counts[verdict] += 1
            found.append((operators, verdict, why))
            if verdict == "refused":
                refused[case.name] = why
            is_expected = verdict == ("refused" if case.name in expected else "passes")
            if not is_expected:
                unexpected.append(case.name)
            if o.verbose or not (is_expected or o.write):
                print(f"{case.name}: {verdict}: {why}", flush=True)
    if o.write:
        write_list(LIST, refused)
    if o.table:
        print_table(found)
    failed = counts["wrong"] if o.write else len(unexpected)
    print(f"\n{sum(counts.values())} cases: {counts['passes']} pass, {counts['refused']} are refused, {counts['wrong']} are wrong.")
    print(f"cases: {sum(counts.values())} run, 0 skipped, {failed} failed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
