#!/usr/bin/env python3
"""guard.py - what train --guard nan adds to a good step, on one rank and on two.

    bench/guard.py [--build DIR] [--pairs N] [--mpirun CMD] [--quick] [CASE...]

guard_steps (built here) has two sessions of a case in one process, without a guard and with --guard nan, and steps them by
turns: a pair is a step of each, and a process tells the median of its pairs' ratios. Where the two sessions lie in memory
alone makes up to 1.5% of a step, so eight processes are started, each with places of its own. The cost is the median of the
eight; the lowest and the highest hold the true one between them with a probability of 99% (order statistics: no shape of
the noise is assumed). One thread a rank. Prints a Markdown table; exit status 1 when the interval of a case lies above 1%,
3 when its median does. Needs weft-zoo, and for two ranks Open MPI.
"""
import argparse
import os
import shlex
import statistics
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

from run_json import busy_cpus

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "out/bench"
LIMIT = 0.01
PROCESSES = 8
# Case: its graphs of a step, and pairs of one process that take about a quarter of a minute.
CASES = {"mlp": (["train"], 250), "dcgan28": (["d_step", "g_step"], 25), "gpt": (["train"], 4)}


def time_pairs(case, ranks, options):
    """The milliseconds of each pair: without and with the guard."""
    graphs, pairs = CASES[case]
    pairs = 6 if options.quick else options.pairs or pairs
    command = [options.build / "guard_steps", OUT / f"{case}.bin", str(pairs), "mpi" if ranks > 1 else "self", *graphs]
    if ranks > 1:
        command = [*shlex.split(options.mpirun), "-n", str(ranks), *command]
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"guard.py: exit {done.returncode} from: {' '.join(map(str, command))}")
    return [tuple(map(float, line.split())) for line in done.stdout.splitlines()]


def measure(case, ranks, options):
    """Prints the row of a case; returns lowest, median and highest cost of the processes."""
    runs = [time_pairs(case, ranks, options) for _ in range(1 if options.quick else PROCESSES)]
    costs = sorted(statistics.median(nan / off - 1 for off, nan in pairs) for pairs in runs)
    off, nan = (statistics.median(side) for side in zip(*(pair for pairs in runs for pair in pairs)))
    cost = statistics.median(costs)
    print(f"| {case} | {ranks} | {len(runs)} x {len(runs[0])} | {off:.3f} | {nan:.3f} | {cost:+.2%} | {costs[0]:+.2%} ... {costs[-1]:+.2%} |",
          flush=True)
    return costs[0], cost, costs[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--pairs", type=int, help="pairs of steps of a process (250 of mlp, 25 of dcgan28, 4 of gpt)")
    parser.add_argument("--mpirun", default="mpirun --bind-to none", help='of the MPI that guard_steps is linked with ("%(default)s")')
    parser.add_argument("--quick", action="store_true", help="six pairs of one process, to see that all works; tells nothing")
    parser.add_argument("cases", nargs="*", default=list(CASES), metavar="CASE")
    options = parser.parse_args()
    unknown = [case for case in options.cases if case not in CASES]
    if unknown or (options.pairs is not None and options.pairs < 6):
        parser.error(f"no case {unknown[0]}: there are {', '.join(CASES)}" if unknown else "--pairs must be at least 6")
    OUT.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cmake", "--build", options.build, "--target", "guard_steps"], check=True, stdout=subprocess.DEVNULL)
    others = busy_cpus()
    print("| case | ranks | pairs | off, ms | nan, ms | cost | lowest ... highest |")
    print("|---|---:|---:|---:|---:|---:|---|")
    found = {}
    for case in options.cases:
        subprocess.run([options.build / "weft-zoo", case, "-o", OUT / f"{case}.bin"], check=True)
        for ranks in (1, 2):
            found[f"{case} on {ranks}"] = measure(case, ranks, options)
    others = max(others, busy_cpus())
    subprocess.run(["bash", "-c", "source bench/common.sh; print_machine false"], cwd=ROOT)
    print(f"- Run: {datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC, f32, one thread a rank. Other processes used {others:.1f} CPUs before "
          "or after.")
    if options.quick:
        return
    slow = [name for name, (low, _, _) in found.items() if low > LIMIT]
    if slow:
        sys.exit(f"guard.py: more than {LIMIT:.0%} of a step: {', '.join(slow)}")
    unclear = [name for name, (_, cost, _) in found.items() if cost > LIMIT]
    if unclear:
        print(f"guard.py: too noisy to tell: {', '.join(unclear)}: repeat it with more --pairs, on a quiet machine", file=sys.stderr)
        sys.exit(3)


if __name__ == "__main__":
    main()
