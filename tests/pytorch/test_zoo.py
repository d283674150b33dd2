#!/usr/bin/env python3
"""test_zoo.py - models of the zoo train as PyTorch's: the losses of 20 steps from the same weights, on the same data and
random numbers, differ by less than 1e-5 of their size (tests/zoo/). PyTorch's are in f64: in f32 they are those of one processor.

    test_zoo.py ZOO_CURVE [MODEL...]             the test, without PyTorch: against tests/golden/zoo.txt
    test_zoo.py ZOO_CURVE [MODEL...] --goldens   trains the twins in PyTorch and writes zoo.txt
"""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
GOLDENS = TESTS / "golden/zoo.txt"
BOUND = 1e-5
# Models with ops over ranks: two and four ranks that share the batch have the losses of the whole.
RANKED = {"simclr": (2, 4), "moco": (2, 4), "dino": (2, 4)}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def curve(lines):
    """(step, graph, output) -> loss"""
    return {tuple(line.split()[:3]): float(line.split()[3]) for line in lines}


def goldens():
    """Model -> its lines."""
    models = {}
    for line in GOLDENS.read_text().splitlines() if GOLDENS.exists() else []:
        name, _, rest = line.partition(" ")
        models.setdefault(name, []).append(rest)
    return models


# ---- PyTorch ----

def random_keys(text):
    """Graph -> the keys of its random ops, in order."""
    keys, graph = {}, None
    for line in text.splitlines():
        if found := re.match(r"\s*graph (\S+)", line):
            graph = found[1].strip('":({')
        elif found := re.search(r"key=0x([0-9a-f]+)", line):
            keys.setdefault(graph, []).append(int(found[1], 16))
    return keys


def train(torch, twin, outputs, optimizer):
    """One step; a twin may have a list of parameters, `clipped`, whose gradients are clipped to length 1."""
    for p in twin.parameters():
        p.grad = None
    next(iter(outputs.values())).backward()
    if hasattr(twin, "clipped"):
        torch.nn.utils.clip_grad_norm_(twin.clipped, 1.0)
    optimizer.step()


def train_twin(program, name):
    import torch
    from safetensors.torch import load_file
    sys.path.insert(0, str(TESTS / "zoo"))
    import data
    import twins
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    with tempfile.TemporaryDirectory() as folder:
        run(program, name, folder)
        weights = load_file(f"{folder}/{name}.safetensors")
        keys = random_keys(Path(folder, f"{name}.txt").read_text())
    twin = twins.TWINS[name]().train()
    missing, unexpected = twin.load_state_dict(weights, strict=False)
    if unexpected or [m for m in missing if "num_batches" not in m]:
        sys.exit(f"{name}: parameters without a twin: {unexpected}, without a value: {missing}")
    optimizers, lines = twin.optimizers(), []
    for n in range(20):
        for graph, optimizer in optimizers.items():
            outputs = getattr(twin, graph + "_graph")(data.Step(n, graph, keys.get(graph, [])))
            if optimizer:
                train(torch, twin, outputs, optimizer)
            lines += [f"{n} {graph} {output} {value.item():.9g}" for output, value in outputs.items()]
    return lines


# ---- the test ----

def difference(want, got):
    """The first loss that is too far off, and the largest relative difference."""
    largest = 0.0
    for key, w in want.items():
        if key not in got:
            return f"{' '.join(key)} is missing", largest
        off = abs(got[key] - w) / max(abs(w), 1e-3)
        largest = max(largest, off)
        if not off < BOUND:
            return f"step {key[0]}, {key[1]}: {key[2]} is {got[key]:.9g}, PyTorch has {w:.9g}", largest
    return None, largest


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("program")
    options.add_argument("models", nargs="*")
    options.add_argument("--goldens", action="store_true")
    o = options.parse_args()
    known, wrong = goldens(), []
    names = o.models or run(o.program).split()
    for name in names:
        if o.goldens:
            known[name] = train_twin(o.program, name)
        if name not in known:
            wrong.append(f"{name}: PyTorch was not asked: run --goldens")
            continue
        for ranks in (1, *RANKED.get(name, ())):
            why, largest = difference(curve(known[name]), curve(run(o.program, name, str(ranks)).splitlines()))
            print(f"{name}, {ranks} ranks: {len(known[name])} losses, the largest difference {largest:.1e}")
            wrong += [f"{name}, {ranks} ranks: {why}"] if why else []
    if o.goldens:
        GOLDENS.write_text("".join(f"{name} {line}\n" for name, lines in sorted(known.items()) for line in lines))
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
