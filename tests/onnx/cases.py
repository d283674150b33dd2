#!/usr/bin/env python3
"""cases.py - the node cases of the onnx package: each is imported, run, and compared with the outputs that it comes with.

    cases.py [--only REGEX] [--list FILE] [--write]

Operands that must be known while importing (shapes, axes, pads) are constants taken from the case; all others are fed. A case passes, is
wrong, or is refused with a reason. FILE has a line for each case that is expected to be refused, `case: reason`: a case that is not in it
and is refused fails the run, as does one in it that passes. --write writes FILE as things are.
"""
import argparse
import collections
import os
import re
import sys
import tempfile
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


class Refused(Exception):
    pass


def imported(path, inputs, constants):
    """The model with one graph, and the names that are constants; operands that the importer asks for join them."""
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
            if not name or name not in inputs or name in constants:
                raise Refused(f"{why}") from None
            constants.add(name)


def named(name):
    """A file's name as a name in Weft."""
    return re.sub(r"[^\w.-]", "_", name)


def run(path, case):
    inputs, outputs = data_set(case)
    constants = {n for n, (_, a) in inputs.items() if a.size == 0}
    model, weights = imported(path, inputs, constants)
    fed = {named(n): np.array(a, order="C") for n, (_, a) in inputs.items() if n not in constants}
    store = model.compile(threads=1).store()
    if weights:
        store.load(weights.name)
    with store.session() as session:
        found = session.run("g", **fed)
    for name, (kind, expected) in outputs.items():
        compare(name, kind, np.asarray(found[named(name)]), expected, case, is_random(case.model))


def is_random(model):
    """Whether results are drawn: of those the shape and the type are compared."""
    return any(n.op_type in RANDOM for n in model.graph.node)


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
        if not np.allclose(found, expected, rtol=max(case.rtol, 1e-2 if kind == onnx.TensorProto.BFLOAT16 else 0), atol=case.atol, equal_nan=True):
            raise Wrong(f"{name}: differs by {np.nanmax(np.abs(found - expected))}")
    elif not np.array_equal(found, expected):
        raise Wrong(f"{name}: differs in {int((found != expected).sum())} of {found.size} elements")


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


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="")
    options.add_argument("--list", type=Path)
    options.add_argument("--write", action="store_true")
    options.add_argument("--verbose", action="store_true")
    o = options.parse_args()
    counts, reasons, refused = collections.Counter(), collections.Counter(), {}
    with tempfile.TemporaryDirectory() as folder:
        for case in load_node_model_tests():
            if not re.search(o.only, case.name):
                continue
            verdict, why = judge(case, Path(folder))
            counts[verdict] += 1
            if verdict == "refused":
                refused[case.name] = why
                reasons[re.sub(r"test_\w+.onnx: |node \d+ '[^']*' |'[^']*'|\d+", "_", why)[:110]] += 1
            if verdict == "wrong" or o.verbose:
                print(f"{case.name}: {verdict}: {why}", flush=True)
    for reason, n in reasons.most_common(60):
        print(f"{n:5} {reason}")
    print(", ".join(f"{counts[v]} {v}" for v in ("passes", "refused", "wrong")))


if __name__ == "__main__":
    sys.exit(main())
