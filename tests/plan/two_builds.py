#!/usr/bin/env python3
"""two_builds.py - do two builds of Weft make the same plans and the same numbers? Each seed is a case: first every model of
the zoo in worlds of 1, 2 and 4, ZeRO 0 to 2, for the CPU and for CUDA, in f32 and bf16, the plans of all ranks; then the
2,000 trainings of tests/golden/models.jsonl.gz, each in all its configurations.

    two_builds.py BEFORE NOW --base COMMIT [--count]

BEFORE is the build folder of an older tree at COMMIT, whose model_cases is built from model_bits.c; NOW is one of this tree.
A plan is its dump (nodes in their order, kernels, memory offsets) and its JSON (totals of memory, buckets, collectives,
launches). Numbers are hashes (model_bits.c) of what each run gives, and of parameters, state and optimizer state at the end.
Each build makes the models by its own builders and files, so a change there is found, too.

$WEFT_TEST_SEED and $WEFT_TEST_CASES choose the cases, as in suites. --count prints how many there are. A difference is
reported as model, configuration, and the first line or key that differs; then come the counts as nightly.sh reads them. A case
that both builds refuse is skipped. Models that BEFORE's zoo does not have are not cases.
"""
import argparse
import gzip
import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "tests/golden/models.jsonl.gz"
WORLDS = [(1, 0)] + [(world, zero) for world in (2, 4) for zero in (0, 1, 2)]  # ZeRO needs ranks
# What changed on purpose: the commit, the key of a plan's JSON that is not compared where BEFORE is older, and why.
ON_PURPOSE = [
    ("363e1e23", "fingerprint", "a hash of texts: options stand there in the order of their table"),
]
# The same for whole cases: the commit, models of the zoo or ops whose plans or trainings are not compared, and why.
NOT_COMPARED = [
    ("7d1ed9e7", {"logsumexp", "vector_norm"}, "their gradients are computed from the result, as PyTorch's"),
    ("7d1ed9e7", {"lstm_char"}, "users of lstm get a copy of its result, which passes remove: values have other numbers"),
]


class Refused(Exception):
    """What a program said instead of doing it."""


class Build:
    def __init__(self, folder, bits, scratch):
        self.folder, self.bits, self.scratch = Path(folder).resolve(), bits, Path(scratch)

    def run(self, program, *args, stdin=None):
        done = subprocess.run([self.folder / program, *args], input=stdin, capture_output=True, text=True)
        if done.returncode:
            raise Refused(f"{program} {' '.join(map(str, args))}: exit status {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def zoo(self):
        return [line.split()[0] for line in self.run("weft-zoo", "--list").splitlines()]

    def plan(self, model, options, form):
        path = self.scratch / f"{model}.bin"
        if not path.exists():
            self.run("weft-zoo", model, "-o", path)
        return self.run("graphtool", "plan", path, *options, form)

    def numbers(self, case):
        return self.run(self.bits, stdin=case)


# ---- what differs ----

def first_line(before, now):
    """The first line that differs, and the graph or configuration that it stands in."""
    place = ""
    for a, b in itertools.zip_longest(before.splitlines(), now.splitlines()):
        if a != b:
            return f"{place}\n    before: {a}\n    now:    {b}"
        place = f" in {a}" if a.startswith(("graph ", "configuration ")) else place
    return None


def first_key(before, now, path=""):
    """The first key or index that differs."""
    if isinstance(before, dict) and isinstance(now, dict):
        pairs = [(f"{path}.{key}", before.get(key), now.get(key)) for key in {**before, **now}]
    elif isinstance(before, list) and isinstance(now, list):
        pairs = [(f"{path}[{i}]", a, b) for i, (a, b) in enumerate(itertools.zip_longest(before, now))]
    else:
        return None if before == now else f" at {path}\n    before: {json.dumps(before)}\n    now:    {json.dumps(now)}"
    return next((found for where, a, b in pairs if (found := first_key(a, b, where))), None)


def changed_after(base, table):
    """What changed on purpose after `base`, by such a table."""
    def is_after(commit):
        status = subprocess.run(["git", "merge-base", "--is-ancestor", commit, base], cwd=ROOT).returncode
        if status > 1:
            sys.exit(f"two_builds.py: git does not know {commit} (ON_PURPOSE, NOT_COMPARED) or {base} (--base)")
        return status == 1
    return [changed for commit, changed, _ in table if is_after(commit)]


def refuse_changed(names, changed):
    if names & changed:
        raise Refused(f"changed on purpose: {', '.join(sorted(names & changed))}")


def both(builds, ask):
    """What ask(build) gives, of each. One alone that refuses is a difference, both are not."""
    answers, refused = [], []
    for build, when in zip(builds, ("before", "now")):
        try:
            answers.append(ask(build))
        except Refused as why:
            refused.append(f"refused {when}: {why}")
    if len(refused) == 2:
        raise Refused(refused[0])
    return answers, f": {refused[0]}" if refused else None


# ---- cases ----

class Plans:
    def __init__(self, builds, ignored, changed):
        self.builds, self.ignored, self.changed = builds, ignored, changed
        self.all = list(itertools.product(builds[0].zoo(), WORLDS, ("cpu", "cuda"), ("f32", "bf16")))

    def kept(self, text):
        return {key: value for key, value in json.loads(text).items() if key not in self.ignored}

    def compare_form(self, model, options, form):
        answers, refused = both(self.builds, lambda build: build.plan(model, options, form))
        if refused:
            return refused
        return first_line(*answers) if form == "--dump" else first_key(*map(self.kept, answers))

    def compare(self, case):
        """The first difference of the plans of all ranks, or None."""
        model, (world, zero), device, dtype = self.all[case]
        refuse_changed({model}, self.changed)
        for rank in range(world):
            options = ["--device", device, "--dtype", dtype]
            options += ["--world", str(world), "--rank", str(rank), "--zero", str(zero)] if world > 1 else []
            for form in ("--dump", "--json"):
                found = self.compare_form(model, options, form)
                if found:
                    return f"{model} {' '.join(options)} {form}{found}"
        return None


class Trainings:
    def __init__(self, builds, changed):
        self.builds, self.changed = builds, changed
        with gzip.open(MODELS, "rt") as lines:
            self.all = list(lines)

    def compare(self, case):
        refuse_changed({node["op"] for graph in json.loads(self.all[case])["graphs"] for node in graph["nodes"]}, self.changed)
        answers, refused = both(self.builds, lambda build: build.numbers(self.all[case]))
        found = refused or first_line(*answers)
        return f"training {json.loads(self.all[case])['id']}{found}" if found else None


def main():
    parser = argparse.ArgumentParser(description="Do two builds of Weft make the same plans and the same numbers?")
    parser.add_argument("before")
    parser.add_argument("now")
    parser.add_argument("--base", required=True)
    parser.add_argument("--count", action="store_true")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="two_builds.") as one, tempfile.TemporaryDirectory(prefix="two_builds.") as two:
        builds = Build(o.before, "model_cases", one), Build(o.now, "model_bits", two)
        changed = set().union(*changed_after(o.base, NOT_COMPARED))
        plans, trainings = Plans(builds, changed_after(o.base, ON_PURPOSE), changed), Trainings(builds, changed)
        cases = [(plans, i) for i in range(len(plans.all))] + [(trainings, i) for i in range(len(trainings.all))]
        if o.count:
            print(len(cases))
            return 0
        return run(cases, int(os.environ.get("WEFT_TEST_SEED", 1)), int(os.environ.get("WEFT_TEST_CASES", len(cases))))


def run(cases, seed, count):
    done = failed = 0
    for kind, case in cases[seed - 1 : seed - 1 + count]:
        try:
            found = kind.compare(case)
        except Refused as why:
            print(f"skipped: {why}")
            continue
        done += 1
        if found:
            print(f"DIFFERS: {found}")
            failed += 1
    print(f"cases: {done} run, {count - done} skipped, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
