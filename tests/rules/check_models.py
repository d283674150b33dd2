#!/usr/bin/env python3
"""check_models.py - what the random models of golden/models.jsonl.gz have: every public builder of ops.h (or a reason in
models/contents.py), and enough of the cases that are more than a row of ops. Prints the counts."""
import collections
import gzip
import json
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "models"))
import contents  # noqa: E402

# At least so many of 1,000 cases have it.
LEAST = {
    "parameter of two graphs": 50,
    "parameter read in several places": 200,
    "2 graphs": 200,
    "second gradients": 100,
    "op gradients": 300,
    "op assign": 30,
    "optimizer of two graphs": 10,
    "frozen parameter": 20,
    "bound to another batch": 20,
    "unoptimized 1": 1000,
    "isa 1": 900,
    "world 2": 50,
    "zero 2": 20,
    "precision 2": 50,
    "precision 3": 5,
}


def main():
    drawn, has, cases = collections.Counter(), collections.Counter(), 0
    with gzip.open(TESTS / "golden/models.jsonl.gz", "rt") as lines:
        for line in lines:
            case = json.loads(line)
            drawn.update({n["op"] for g in case["graphs"] for n in g["nodes"]})
            has.update(contents.features(case))
            cases += 1
    wrong = ["%s is drawn by no case: tests/models/ops.py wants a row, golden.py makes the cases" % name
             for name in contents.not_drawn(drawn)]
    wrong += ["%s: %d of %d cases, wanted %d" % (what, has[what], cases, n * cases // 1000)
              for what, n in LEAST.items() if has[what] < n * cases // 1000]
    wrong += ["%s is an exception in models/contents.py, and is drawn" % name for name in contents.NOT_DRAWN if drawn[name]]
    print("%d cases of %d builders: %s" % (cases, len(drawn), ", ".join("%s %d" % (k, has[k]) for k in LEAST)))
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
