#!/usr/bin/env python3
"""export.py - graphs as ONNX files: each predict graph of the zoo is exported, checked, run by onnxruntime and compared.

    export.py PATH/TO/weft-zoo [--only REGEX] [--keep FOLDER]

Weights and inputs are random. Outputs of onnxruntime and of Weft may differ by 1e-5 of the largest element, at the batch that the model
was built with and at another one; integers are equal, but pixels (u8) may be 1 apart, one in a thousand. Random draws become
inputs, which get the numbers that Weft drew. Where the importer has the operators, the file is imported again, too, and the same holds.
Prints a line for each model, and counts. Status 1: a file is wrong, or a graph is refused that none of REFUSED names.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np
import onnx
import onnxruntime
import weft

# Larger models in a size that takes seconds.
SIZES = {"gpt2_124m": ["--layers=2", "--d=64", "--heads=4", "--ctx=32", "--vocab=128"], "gpt": ["--layers=2", "--d=64", "--heads=4", "--ctx=32"]}
REFUSED = {}  # by model: why
NEAR = 1e-5


def feeds(graph_inputs, batch, random):
    """Random numbers for each input of an ONNX file: images from 0 to 255, ids below 16."""
    found = {}
    for port in graph_inputs:
        shape = [batch if isinstance(d, str) else d for d in port.shape]
        if "int8" in port.type or "float" not in port.type:
            kind = {"tensor(uint8)": np.uint8, "tensor(int32)": np.int32, "tensor(int64)": np.int64, "tensor(bool)": np.bool_}[port.type]
            found[port.name] = random.integers(0, 256 if kind is np.uint8 else 2 if kind is np.bool_ else 16, shape).astype(kind)
        else:
            found[port.name] = random.standard_normal(shape).astype(np.float32)
    return found


def differs(name, found, expected):
    """A line about the first output that is not near; None: all are."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{name}: {found.dtype}{list(found.shape)} for {expected.dtype}{list(expected.shape)}"
    if expected.dtype.kind != "f":
        few = (found != expected).sum() <= max(1, expected.size // 1000)
        near = expected.dtype == np.uint8 and np.abs(found.astype(int) - expected.astype(int)).max(initial=0) <= 1
        return None if few and (near or np.array_equal(found, expected)) else f"{name}: {(found != expected).sum()} of {expected.size} elements differ"
    largest, apart = np.abs(expected).max(initial=0), np.abs(found - expected).max(initial=0)
    return None if apart <= NEAR * max(largest, 1e-30) else f"{name}: differs by {apart:.3g} of {largest:.3g}"


def drawn(model):
    """The random ops of graph predict. weft_run() makes them outputs, so that onnxruntime gets the same numbers."""
    return re.findall(r"= (random_\w+)\(", model.text().split("graph predict ")[1].split("\ngraph ")[0])


def random_state(store, random):
    """Running statistics as those of a trained model: variances above 0. Every parameter apart from its initial value."""
    for path in store.paths("parameter") + store.paths("state"):
        value = np.asarray(store[path])
        if value.dtype.kind != "f":
            continue
        if path.endswith("running_var"):
            store[path] = random.uniform(0.5, 2, value.shape).astype(value.dtype)
        elif path.endswith("running_mean") or not value.any():
            store[path] = (0.1 * random.standard_normal(value.shape)).astype(value.dtype)


def weft_run(path, batch, values, fed, graph="predict", draws=()):
    model = weft.load(str(path)) if isinstance(path, Path) else path
    for i, op in enumerate(draws):
        model.graphs[graph].value(op).output("the_draw")
    plan = model.compile(batch=batch, threads=1, graph=graph)
    store = plan.store(seed=3)
    store.load(str(values))
    with store.session() as session:
        return {n: np.asarray(a) for n, a in session.run(graph, **fed).items()}


class Wrong(Exception):
    pass


def check_at(file, model, batch, values, random, draws):
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    fed = feeds(session.get_inputs(), batch, random)
    own = {n: a for n, a in fed.items() if not re.search(r"(^|\.)random_\w+$", n)}
    expected = weft_run(model, batch, values, own, draws=draws)
    for name in fed:
        if name not in own:
            fed[name] = expected["the_draw"]
    expected.pop("the_draw", None)
    found = dict(zip((o.name for o in session.get_outputs()), session.run(None, fed)))
    for name, value in expected.items():
        why = differs(name, found[name], value)
        if why:
            raise Wrong(f"batch {batch}: {why}")
    return fed, expected


def imported(file, batch, fed, expected, folder):
    """Wrong where the importer does not take the file, or its graph gives something else."""
    model = weft.Model("again", batch=batch)
    try:
        with weft.Onnx(str(file)) as source:
            source.graph(model, "predict")
            source.weights(str(folder / "again.safetensors"))
    except weft.Error as why:
        raise Wrong(f"it is not imported again: {why}") from None
    found = weft_run(model, batch, folder / "again.safetensors", fed)
    for name, value in expected.items():
        why = differs(name, found[name], value)
        if why:
            raise Wrong(f"imported again: {why}")
    return "imported again"


def judge(zoo, name, folder):
    """("agrees" | "refused" | "wrong", what to say)"""
    path, file, values = folder / "model.bin", folder / f"{name}.onnx", folder / "values.safetensors"
    subprocess.run([zoo, name, "-o", path, *SIZES.get(name, [])], check=True, stdout=subprocess.DEVNULL)
    random, model = np.random.default_rng(7), weft.load(str(path))
    draws = drawn(model)
    try:
        store = model.compile(batch=2, threads=1, graph="predict").store(seed=3)
        random_state(store, random)
        store.save(str(values))
        try:
            weft.export_onnx(model.graphs["predict"], file, store, random_inputs=bool(draws))
        except weft.Error as why:
            return "refused", str(why)
        onnx.checker.check_model(str(file), full_check=True)
        nodes = len(onnx.load(file, load_external_data=False).graph.node)
        for batch in (3, 2):
            fed, expected = check_at(file, path, batch, values, random, draws)
        again = imported(file, 2, fed, expected, folder)
        weft.export_onnx(model.graphs["predict"], folder / "apart.onnx", values, random_inputs=bool(draws), external_data=True)
        onnx.checker.check_model(str(folder / "apart.onnx"), full_check=True)
        check_at(folder / "apart.onnx", path, 2, values, random, draws)
        return "agrees", f"{nodes} nodes, {file.stat().st_size >> 10} KiB; {again}"
    except (Wrong, weft.Error, onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as why:
        return "wrong", str(why)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("zoo")
    options.add_argument("--only", default="")
    options.add_argument("--keep", type=Path, help="a folder for the files")
    o = options.parse_args()
    names = [line.split()[0] for line in subprocess.run([o.zoo, "--list"], check=True, capture_output=True, text=True).stdout.splitlines()]
    counts, bad = {"agrees": 0, "refused": 0, "wrong": 0}, 0
    for name in names:
        if not re.search(o.only, name):
            continue
        with tempfile.TemporaryDirectory() as made:
            verdict, why = judge(o.zoo, name, o.keep or Path(made))
        counts[verdict] += 1
        bad += verdict == "wrong" or (verdict == "refused" and name not in REFUSED)
        print(f"{name}: {verdict}: {why}", flush=True)
    print(", ".join(f"{n} {v}" for v, n in counts.items()))
    return bad > 0 or not sum(counts.values())


if __name__ == "__main__":
    sys.exit(main())
