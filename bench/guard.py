#!/usr/bin/env python3
"""guard.py - what train --guard nan adds to a good step, on one rank and on two.

    bench/guard.py [--build DIR] [--pairs N] [--mpirun CMD] [--quick] [CASE...]

guard_steps (built here) has two sessions of a case in one process, without a guard and with --guard nan, and steps them by
turns: a pair is a step of each. The cost is the median of the pairs' ratios; its interval holds the true median with a
probability of 95% (order statistics: no shape of the noise is assumed). One thread a rank. Prints a Markdown table; exit
status 1 when the interval of a case lies above 1%, 3 when it reaches over 1%: too few pairs, or too noisy a machine. Needs
weft-zoo, and for two ranks Open MPI.
"""
import argparse
import math
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
# Case: its graphs of a step, and pairs that take about two minutes.
CASES = {"mlp": (["train"], 2000), "dcgan28": (["d_step", "g_step"], 200), "gpt": (["train"], 20)}


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


def interval(ratios):
    """The two order statistics between which the median lies with 95%: n/2 -+ 0.98 sqrt(n), by the binomial distribution."""
    ordered, n = sorted(ratios), len(ratios)
    k = max(int(n / 2 - 0.98 * math.sqrt(n)), 0)
    return ordered[k], ordered[n - 1 - k]


def measure(case, ranks, options):
    """Prints the row of a case; returns the interval of its cost."""
    pairs = time_pairs(case, ranks, options)
    ratios = [nan / off - 1 for off, nan in pairs]
    low, high = interval(ratios)
    off, nan = (statistics.median(side) for side in zip(*pairs))
    print(f"| {case} | {ranks} | {len(pairs)} | {off:.3f} | {nan:.3f} | {statistics.median(ratios):+.2%} | {low:+.2%} ... {high:+.2%} |",
          flush=True)
    return low, high


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--pairs", type=int, help="pairs of steps of a case (2000 of mlp, 200 of dcgan28, 20 of gpt)")
    parser.add_argument("--mpirun", default="mpirun --bind-to none", help='of the MPI that guard_steps is linked with ("%(default)s")')
    parser.add_argument("--quick", action="store_true", help="six pairs, to see that all works; tells nothing")
    parser.add_argument("cases", nargs="*", default=list(CASES), metavar="CASE")
    options = parser.parse_args()
    unknown = [case for case in options.cases if case not in CASES]
    if unknown or (options.pairs is not None and options.pairs < 6):
        parser.error(f"no case {unknown[0]}: there are {', '.join(CASES)}" if unknown else "--pairs must be at least 6")
    OUT.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cmake", "--build", options.build, "--target", "guard_steps"], check=True, stdout=subprocess.DEVNULL)
    others = busy_cpus()
    print("| case | ranks | pairs | off, ms | nan, ms | cost | 95% interval |")
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
    slow = [name for name, (low, _) in found.items() if low > LIMIT]
    unclear = [name for name, (low, high) in found.items() if low <= LIMIT < high]
    if unclear and not options.quick:
        print(f"guard.py: too noisy to tell: {', '.join(unclear)}: repeat it with more --pairs, on a quiet machine", file=sys.stderr)
        sys.exit(3)
    sys.exit(f"guard.py: more than {LIMIT:.0%} of a step: {', '.join(slow)}" if slow and not options.quick else 0)


if __name__ == "__main__":
    main()
