"""run.py - draws cases from seeds on, asks PyTorch, then the engine, and compares: python run.py --cases 2000 --seed 1.
Everything that is counted is kept in --folder, so that the next call continues: state.json, and failed/SEED.json for each
case that fails (reduce.py makes it small). The last line is: next seed, cases run, skipped, failed of this call.
"""

import argparse
import collections
import json
import multiprocessing
import os
import random
import select
import shutil
import subprocess
import sys
import time

import contents
import generate
import ops
from draft import LAYOUTS

CHUNK, PATIENCE_SECONDS = 50, 120


class Engine:
    """model_cases at the other end of two pipes; begun again after a crash."""

    def __init__(self, program):
        self.program, self.process = program, None

    def ask(self, case):
        if self.process is None:
            self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            env={**os.environ, "OMP_WAIT_POLICY": "passive"})
        try:
            self.process.stdin.write(json.dumps(case).encode() + b"\n")
            self.process.stdin.flush()
            is_ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE_SECONDS)
            line = self.process.stdout.readline() if is_ready else b""
        except BrokenPipeError:
            line, is_ready = b"", True
        if line:
            return json.loads(line)["configs"]
        self.process.kill()
        self.process.wait()
        self.process = None
        return [{"good": False, "worst": 0, "compared": 0, "skipped": 0, "text": "crash" if is_ready else "hang"}]


def try_case(engine, case):
    """(answers, texts of what is wrong). What seems wrong is looked at again, with rounding measured more often: of two
    numbers that nearly tie few disturbances change which is larger."""
    import evaluate
    for samples in (1, 8, 64):
        evaluate.bounds(case, samples)
        answers = engine.ask(case)
        if all(a["good"] for a in answers):
            break
    return answers, ["%s: %s" % (json.dumps(o), a["text"]) for a, o in zip(answers, case["configs"]) if not a["good"]]


def work(job):
    """A chunk of seeds: counts and failures."""
    begin, aims, folder, program = job
    import torch
    import evaluate
    torch.set_num_threads(1)
    engine, count, cells, features_, failures = Engine(program), collections.Counter(), collections.Counter(), \
        collections.Counter(), []
    for seed in range(begin, begin + CHUNK):
        rng = random.Random(~seed)
        case, covered = generate.generate(seed, rng.choice(aims) if rng.random() < 0.6 else None)
        try:
            answers, wrong = try_case(engine, case)
        except evaluate.Ill as e:
            count["skipped: " + str(e)] += 1
            continue
        count["run"] += 1
        count["configurations"] += len(answers)
        count["tensors compared"] += sum(a["compared"] for a in answers)
        count["tensors without a bound"] += case["dropped"] + sum(a["skipped"] for a in answers)
        cells.update(covered)
        features_.update(contents.features(case))
        if wrong:
            count["failed"] += 1
            failures.append((seed, wrong))
            with open(os.path.join(folder, "failed", "%d.json" % seed), "w") as f:
                json.dump({**case, "found": wrong}, f)
    if engine.process:
        engine.process.stdin.close()
        engine.process.wait()
    return count, cells, features_, failures


# ---- what is kept ----

def key(cell):
    return "%s:%d %s %s" % (cell[0][0], cell[0][1], cell[1], cell[2])


def load(folder):
    os.makedirs(os.path.join(folder, "failed"), exist_ok=True)
    path = os.path.join(folder, "state.json")
    state = json.load(open(path)) if os.path.exists(path) else {}
    return {k: collections.Counter(state.get(k, {})) for k in ("count", "cells", "features")}


def save(folder, state):
    path = os.path.join(folder, "state.json")
    with open(path + ".new", "w") as f:
        json.dump(state, f)
    os.replace(path + ".new", path)


# ---- the table ----

def table(cells):
    """op x layout, each with minimize/gradients/accumulation/forward; the cells that are empty without a reason."""
    reasons, empty, lines = {}, [], []
    lines.append("%-22s" % "operand" + "".join("%20s" % l for l in LAYOUTS))
    for row in generate.rows():
        texts = []
        for layout in LAYOUTS:
            parts = []
            for route in generate.ROUTES:
                n, why = cells[key((row, layout, route))], generate.reason(row, layout, route)
                if not n and not why:
                    empty.append((row, layout, route))
                parts.append(str(n) if n else reasons.setdefault(why, chr(97 + len(reasons))) if why else "0")
            texts.append("/".join(parts))
        lines.append("%-22s" % ("%s.%s" % (row[0], ops.TABLE[row[0]].operands[row[1]])) + "".join("%20s" % t for t in texts))
    lines.append("a cell: " + "/".join(generate.ROUTES) + "".join("; %s: %s" % (l, why) for why, l in reasons.items()))
    return "\n".join(lines), empty


def report(state):
    text, empty = table(state["cells"])
    print(text)
    print("ops that are not drawn: " + (", ".join(contents.not_drawn({*ops.TABLE, *ops.MAKERS})) or "none"))
    print("empty without a reason: " + (", ".join(key(c) for c in empty) or "none"))
    print("cases with " + ", ".join("%s: %d" % kv for kv in sorted(state["features"].items())))
    print(", ".join("%s: %d" % kv for kv in sorted(state["count"].items())))


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--folder", default=os.path.join(here, "../../build/models"))
    parser.add_argument("--program", default=os.path.join(here, "../../build/release/model_cases"))
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--report", action="store_true", help="print the table of what has been run, run nothing")
    parser.add_argument("--stop", action="store_true", help="end at the first failure")
    o = parser.parse_args()
    state, ran, all_cells = load(o.folder), collections.Counter(), generate.cells()
    if o.report:
        return report(state)
    program = shutil.copy2(o.program, o.folder)  # so that a build may continue meanwhile
    deadline, end = time.time() + 60 * o.minutes, o.seed + o.cases
    seed = o.seed
    with multiprocessing.get_context("spawn").Pool(o.workers) as pool:
        while seed < end and time.time() < deadline:
            fewest = sorted(all_cells, key=lambda c: state["cells"][key(c)])[:150]
            jobs = [(s, fewest, o.folder, program) for s in range(seed, min(end, seed + 4 * o.workers * CHUNK), CHUNK)]
            for count, cells, features_, failures in pool.imap_unordered(work, jobs):
                state["count"] += count
                state["cells"].update({key(c): n for c, n in cells.items()})
                state["features"] += features_
                ran += count
                for number, wrong in failures:
                    print("seed %d: %s" % (number, wrong[0]), flush=True)
            seed = jobs[-1][0] + CHUNK
            save(o.folder, state)
            if o.stop and ran["failed"]:
                break
    report(state)
    print(seed, ran["run"], sum(n for k, n in ran.items() if k.startswith("skipped")), ran["failed"])


if __name__ == "__main__":
    main()
