#!/usr/bin/env python3
"""guard.py - what train --guard nan adds to a good step, on one rank and on two.

    bench/guard.py [--build DIR] [--rounds N] [--mpirun CMD] [--quick] [CASE...]

Each round times the same steps of a case twice, with --guard off and with --guard nan, one right after the other, and turns their
order round after each round. The ratio of a round is that of the two medians; the cost is the median of the ratios, and its range
the middle half of them. So a machine that is slow for a while makes rounds slow, not one of the two. One thread a rank.
Prints a Markdown table; exit status 1 when a case costs more than 1%, 3 when the range of a case is too wide to tell (its ends lie
on both sides of 1%). Needs a quiet machine, graphtool, weft-zoo and for two ranks Open MPI; every run's JSON is in
out/bench/guard.jsonl.
"""
import argparse
import json
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
# Case: timed steps of a run; a run takes one to ten seconds.
CASES = {"mlp": 200, "gpt": 4, "dcgan28": 10}


def bench(case, ranks, guard, steps, options):
    """The median time of a step, in ms."""
    command = [options.build / "graphtool", "bench", OUT / f"{case}.bin", "--threads", "1", "--steps", str(steps), "--guard", guard,
               "--json"]
    if ranks > 1:
        command = [*shlex.split(options.mpirun), "-n", str(ranks), *command]
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"guard.py: exit {done.returncode} from: {' '.join(map(str, command))}")
    run = json.loads(done.stdout)
    with open(OUT / "guard.jsonl", "a") as f:
        f.write(json.dumps(dict(run, case=case, ranks=ranks, guard=guard)) + "\n")
    return run["median_ms"]


def measure(case, ranks, options):
    """Prints the row of a case; returns the cost and its range."""
    steps = 3 if options.quick else CASES[case]
    times = {"off": [], "nan": []}
    for number in range(options.rounds):
        for guard in ("off", "nan") if number % 2 == 0 else ("nan", "off"):
            times[guard].append(bench(case, ranks, guard, steps, options))
    ratios = sorted(nan / off - 1 for off, nan in zip(times["off"], times["nan"]))
    low, cost, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else 3 * ratios
    off, nan = (statistics.median(times[guard]) for guard in ("off", "nan"))
    print(f"| {case} | {ranks} | {off:.3f} | {nan:.3f} | {cost:+.2%} | {low:+.2%} ... {high:+.2%} |", flush=True)
    return low, cost, high


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--rounds", type=int, default=20, help="pairs of runs of a case (20)")
    parser.add_argument("--mpirun", default="mpirun --bind-to none", help='of the MPI that graphtool is linked with ("%(default)s")')
    parser.add_argument("--quick", action="store_true", help="two rounds of three steps, to see that all works; tells nothing")
    parser.add_argument("cases", nargs="*", default=list(CASES), metavar="CASE")
    options = parser.parse_args()
    unknown = [case for case in options.cases if case not in CASES]
    if unknown or options.rounds < 1:
        parser.error(f"no case {unknown[0]}: there are {', '.join(CASES)}" if unknown else "--rounds must be at least 1")
    options.rounds = 2 if options.quick else options.rounds
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "guard.jsonl").unlink(missing_ok=True)
    others = busy_cpus()
    print("| case | ranks | off, ms | nan, ms | cost | middle half of the rounds |")
    print("|---|---:|---:|---:|---:|---|")
    found = {}
    for case in options.cases:
        subprocess.run([options.build / "weft-zoo", case, "-o", OUT / f"{case}.bin"], check=True)
        for ranks in (1, 2):
            found[f"{case} on {ranks}"] = measure(case, ranks, options)
    others = max(others, busy_cpus())
    subprocess.run(["bash", "-c", "source bench/common.sh; print_machine false"], cwd=ROOT)
    print(f"- Run: {datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC, f32, one thread a rank, {options.rounds} rounds. Other processes used "
          f"{others:.1f} CPUs before or after.")
    slow = [name for name, (_, cost, _) in found.items() if cost > LIMIT]
    unclear = [name for name, (low, _, high) in found.items() if low <= LIMIT < high]
    if unclear and not options.quick:
        print(f"guard.py: too noisy to tell: {', '.join(unclear)}: repeat it on a quiet machine", file=sys.stderr)
        sys.exit(3)
    sys.exit(f"guard.py: more than {LIMIT:.0%} of a step: {', '.join(slow)}" if slow and not options.quick else 0)


if __name__ == "__main__":
    main()
