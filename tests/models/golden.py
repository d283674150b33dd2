"""golden.py - the models that tests/pytorch/test_models.c runs without PyTorch: python golden.py [-n 2000] [-o FILE.gz]. Cases of
this generator, small, aimed at the cells that have the fewest so far; of the results the last of each kind are kept."""

import argparse
import collections
import gzip
import json
import os
import random

import evaluate
import generate
from run import key

MOST_NUMBERS = 900


def last_results(want):
    """Every variable once, after the last step; outputs of the last micro-batch of their graph's last run."""
    last = {}
    for k in want:
        last[k.split(":", 1)[1] if ":" in k else "/" + k.split("/", 1)[1]] = k
    return set(last.values())


def trim(case):
    keep = last_results(case["want"])
    for part in ("want", "within", "within_reduced"):
        case[part] = {k: v for k, v in case[part].items() if k in keep}
    case["want"] = {k: [float("%.7g" % x) if isinstance(x, float) else x for x in v] for k, v in case["want"].items()}
    for part in ("dropped",):
        case.pop(part)
    if not case["within_reduced"]:
        case.pop("within_reduced")
    return case


def numbers(case):
    return (sum(len(v["v"]) for v in case["vars"]) + sum(len(v) for v in case["want"].values())
            + sum(len(v) for r in case["runs"] for f in r["feeds"] for v in f.values()))


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=2000)
    parser.add_argument("-o", default=os.path.join(here, "../golden/models.jsonl.gz"))
    o = parser.parse_args()
    evaluate.torch.set_num_threads(1)
    counts, lines, seed, cells = collections.Counter(), [], 1, generate.cells()
    while len(lines) < o.n:
        seed += 1
        fewest = sorted(cells, key=lambda c: counts[c])[:100]
        case, covered = generate.generate(seed, random.Random(seed).choice(fewest), quick=True)
        try:
            evaluate.bounds(case, 4)
        except evaluate.Ill:
            continue
        trim(case)
        if numbers(case) > MOST_NUMBERS or not case["want"]:
            continue
        counts.update(covered)
        lines.append(json.dumps(case, separators=(",", ":")))
    with gzip.GzipFile(o.o, "wb", mtime=0) as f:
        f.write(("\n".join(lines) + "\n").encode())
    missing = [key(c) for c in cells if not counts[c]]
    print("%d cases, %d bytes; PyTorch %s; %d of %d cells empty" % (
        len(lines), os.path.getsize(o.o), evaluate.torch.__version__, len(missing), len(cells)))


if __name__ == "__main__":
    main()
