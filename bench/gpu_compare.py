#!/usr/bin/env python3
"""gpu_compare.py - Weft beside PyTorch on one GPU; tools/gpu.sh calls it.

    python gpu_compare.py calibrate [--build DIR] [--seconds S] [CASE...]
    python gpu_compare.py losses FILE.jsonl [--build DIR] [--seconds S] [--device cuda|cpu] [CASE...]
    python gpu_compare.py measure FILE.jsonl [--build DIR] [--seconds S] [--device cuda|cpu] [CASE...]
    python gpu_compare.py table FILE.jsonl         # Markdown
    python gpu_compare.py worst FILE.jsonl         # the case that is furthest from its goal

calibrate has graphtool time algorithms for each case, and ends with 1 unless all nodes were measured; measure uses
the tables that it left in DIR, also where it was cut, and table tells how many nodes they have. losses
(gpu_losses.py) tells whether both engines compute the same. measure: each run is a process and gives one line of
FILE, in the order of STAGES; one that fails, is cut by its limit or has no time left gives a line with `error`. table
names every planned run that has no figure, and why (gpu_runs.py). device_mib is the most that the device was short of
during a run, by nvidia-smi every 100 ms, less what it had before: context and libraries included, the same
measure for both. cpu rehearses with small sizes.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import threading

import gpu_losses
import gpu_runs

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = ("gpt2_124m", "resnet50", "dcgan", "mlp")
BATCH = {"mlp": 256, "dcgan": 128, "resnet50": 256, "gpt2_124m": 32}
GOAL = {"mlp": 3.0, "dcgan": 1.5, "resnet50": 1.05, "gpt2_124m": 1.10}       # times PyTorch's best
GPU_OPTIONS = ("--device", "cuda", "--dtype", "bf16")

# PyTorch's form that is likely the best. dcgan and mlp have kernels so short that launching them takes longer than
# running them: replaying a graph wins. Those of gpt2_124m and resnet50 are long, launches hide behind them, and
# reduce-overhead would copy the batch into its graph's memory besides.
RIVAL = {"gpt2_124m": "compile", "resnet50": "compile", "dcgan": "graphs", "mlp": "graphs"}
OTHER = {"compile": "graphs", "graphs": "compile"}

# What runs, stage after stage, and the shares of the budget (seconds, of some 250): all of Weft first, since without
# it nothing is known; then what it is compared with. PyTorch's include compiling, most of it from the cache that
# tools/gpu.sh has filled; autotune (gpt2_124m and resnet50) is in no cache and is what can be missed.
STAGES = (
    # stage            gpt2_124m resnet50 dcgan mlp
    ("weft",           (14,      14,      8,    6)),
    ("plain",          (6,       6,       5,    4)),     # without the table of calibrate; only where there is one
    ("deterministic",  (6,       6,       5,    4)),
    ("rival",          (40,      40,      24,   14)),
    ("other",          (12,      12,      10,   8)),
    ("autotune",       (4,       2,       0,    0)),     # and all that the others leave
)


# ------------------------------------------------------------------------------ the runs
def table_of(args, case):
    return os.path.join(args.build, f"bench_{case}.calibration")


def batch_of(args, case):
    return BATCH[case] if args.device == "cuda" else 2


def model_of(args, case):
    return os.path.join(args.build, f"bench_{case}.bin")


def write_model(args, case):
    small = [] if args.device == "cuda" else gpu_losses.SMALL.get(case, [])
    subprocess.run([os.path.join(args.build, "weft-zoo"), case, "-b", str(batch_of(args, case)),
                    "-o", model_of(args, case), *small], check=True)


def weft_command(args, case, *options):
    command = [os.path.join(args.build, "graphtool"), "bench", model_of(args, case), "--json", *options]
    if args.device == "cuda":
        return command + [*GPU_OPTIONS, "--steps", "30", "--warmup", "10"]
    return command + ["--dtype", "bf16", "--steps", "3", "--warmup", "1"]


def torch_command(args, case, mode):
    command = [sys.executable, os.path.join(HERE, "torch_gpu.py"), case, "--modes", mode, "--device", args.device,
               "--batch", str(batch_of(args, case))]
    return command + ([] if args.device == "cuda" else ["--steps", "3", "--warmup", "1"])


def run_of(stage, case, device, has_table):
    """(engine, mode) of this stage; None where it has none. A rehearsal takes the form that needs no compiler."""
    if stage in ("weft", "plain", "deterministic"):
        mode = {"weft": "bf16"}.get(stage, stage)
        is_run = {"weft": True, "plain": has_table, "deterministic": device == "cuda"}[stage]
        return ("weft", mode) if is_run else None
    if device == "cpu":
        return ("pytorch", "eager") if stage == "rival" else None
    mode = {"rival": RIVAL[case], "other": OTHER[RIVAL[case]], "autotune": "autotune"}[stage]
    return None if stage == "autotune" and RIVAL[case] != "compile" else ("pytorch", mode)


def plan_of(cases, device, tables):
    """[(run, share)] in the order in which they run. tables: the cases that have one."""
    return [((case, *run), shares[CASES.index(case)]) for stage, shares in STAGES for case in CASES if case in cases
            for run in [run_of(stage, case, device, case in tables)] if run]


def command_of(args, run, tables):
    case, engine, mode = run
    if engine == "pytorch":
        return torch_command(args, case, mode)
    options = [f"--calibration={table_of(args, case)}"] if case in tables and mode != "plain" else []
    return weft_command(args, case, *options, *(["--deterministic"] if mode == "deterministic" else []))


def nodes_of(path):
    """How many nodes a table has, however it ended; None without one."""
    if not os.path.exists(path):
        return None
    with open(path) as f:
        return sum(" -> " in line for line in f)


def total_file(args, case):
    """Beside the table, which cannot tell how many nodes it should have: graphtool's number of them."""
    return table_of(args, case) + ".total"


def total_of(args, case):
    """How many nodes a whole table has; None where graphtool never told."""
    if not os.path.exists(total_file(args, case)):
        return None
    with open(total_file(args, case)) as f:
        return int(f.read().strip() or 0) or None


def calibrate_command(args, case):
    """Of the training graph alone, where there is one; dcgan has two, which come before the others."""
    graph = [] if case == "dcgan" else ["--graph", "train"]
    return [os.path.join(args.build, "graphtool"), "calibrate", model_of(args, case), *GPU_OPTIONS, *graph,
            "-o", table_of(args, case)]


def calibrate(args):
    """A case that is cut keeps the nodes that were measured so far. Status 1 unless all nodes of all cases were."""
    cases = [c for c in CASES if c in args.cases]
    budget = gpu_runs.Budget(args.seconds, [STAGES[0][1][CASES.index(c)] for c in cases])
    incomplete = 0
    for i, case in enumerate(cases):
        for path in (table_of(args, case), total_file(args, case)):
            if os.path.exists(path):
                os.remove(path)
        write_model(args, case)
        ended = calibrate_one(calibrate_command(args, case), budget.limit(i), total_file(args, case))
        n, nodes = nodes_of(table_of(args, case)) or 0, total_of(args, case)
        incomplete += n != nodes or ended != DONE
        print(f"{case}: {n} of {nodes or 'unknown'} nodes measured, {ended}", flush=True)
    return int(incomplete > 0)


DONE = "to the end"


def calibrate_one(command, seconds, total):
    """How it ended. graphtool tells "node 3 of 40: ..." after each; the 40 is written to the file `total` at once, so
    that it is there whatever ends this."""
    if seconds < gpu_runs.LEAST_SECONDS:
        return "not begun: no time was left"
    nodes, was_cut = None, threading.Event()
    with gpu_runs.start(command, stderr=subprocess.PIPE) as process:
        clock = threading.Timer(seconds, lambda: (was_cut.set(), gpu_runs.kill(process)))
        clock.start()
        for line in process.stderr:
            sys.stderr.write(line)
            told = re.match(r"node \d+ of (\d+): ", line)
            if told and told[1] != nodes:
                nodes = told[1]
                with open(total, "w") as f:
                    f.write(nodes + "\n")
        process.wait()
        clock.cancel()
        gpu_runs.stop(process)
    if process.returncode == 0:
        return DONE
    return f"cut after its limit of {seconds:.0f} s" if was_cut.is_set() else f"failed: exit status {process.returncode}"


# Names of `graphtool plan --estimate`, by what nvidia-smi calls the GPU (ops/roof.c has their peaks). Whole names: a
# GH200, an H200 NVL or a slice of an H100 has other peaks.
ROOFS = {"NVIDIA H100 80GB HBM3": "h100", "NVIDIA H200": "h200"}


def estimate_of(args, case, roof):
    """{"ms", "bound"} that the plan alone gives for a step; {} where the GPU is not known."""
    command = [os.path.join(args.build, "graphtool"), "plan", model_of(args, case), *GPU_OPTIONS, "--json", "--estimate", roof or ""]
    done = subprocess.run(command, capture_output=True, text=True) if roof else None
    if not done or done.returncode:
        return {}
    step = json.loads(done.stdout)["step"]
    return {"ms": step["estimated_ms"], "bound": step["bound"]}


def measure(args):
    tables = [c for c in args.cases if nodes_of(table_of(args, c))]
    plan = plan_of(args.cases, args.device, tables)
    log, failed = gpu_runs.Log(args.file), 0
    log.plan(run for run, _ in plan)
    budget = gpu_runs.Budget(args.seconds, [share for _, share in plan])
    for case in args.cases:
        write_model(args, case)
    roof = ROOFS.get(gpu_runs.asked("name")) if args.device == "cuda" else None
    estimates = {case: estimate_of(args, case, roof) for case in args.cases}
    for i, (run, _) in enumerate(plan):
        log.begin(run)
        line = gpu_runs.run_one(command_of(args, run, tables), budget.limit(i), watch=args.device == "cuda")
        line.update(batch=batch_of(args, run[0]), device=args.device)
        if run[1] == "weft" and run[2] != "plain":
            line["estimate"] = estimates[run[0]]
            line["table_nodes"] = nodes_of(table_of(args, run[0])) if run[0] in tables else 0
            line["all_nodes"] = total_of(args, run[0])
        log.end(run, line)
        print(f"{run[0]:10} {run[1]:8} {run[2]:13}", line.get("error") or f"{line['median_ms']:.3f} ms", flush=True)
        failed += "error" in line
    return int(failed > 0)


# ------------------------------------------------------------------------------ reading
def of_case(runs, case):
    """{(engine, mode): line} of what has figures."""
    return {run[1:]: line for run, line in runs.good.items() if run[0] == case and "median_ms" in line}


def fastest(lines, engine, modes=None):
    good = [r for (e, mode), r in lines.items() if e == engine and (modes is None or mode in modes)]
    return min(good, key=lambda r: r["median_ms"]) if good else None


def best_weft(lines):
    return fastest(lines, "weft", ("bf16", "plain"))


def best_torch(lines):
    return fastest(lines, "pytorch")


def ratio(lines):
    """Weft at its best: how many times as fast as PyTorch's best form; None without both."""
    weft, torch = best_weft(lines), best_torch(lines)
    return torch["median_ms"] / weft["median_ms"] if torch and weft else None


def mfu(lines):
    """Weft's, with the operations that torch_gpu.py counts."""
    torch, ours = best_torch(lines), ratio(lines)
    return torch["mfu"] * ours if ours and torch.get("mfu") else None


def shown(value, form="{:.2f}"):
    return "-" if value is None else form.format(value)


def torch_modes(runs):
    """Those that were planned, the usual ones first."""
    seen = {mode for _, engine, mode in runs.planned if engine == "pytorch"}
    return [m for m in ("eager", "compile", "graphs", "autotune") if m in seen]


def row(case, lines, modes):
    weft, torch = best_weft(lines) or {}, best_torch(lines) or {}
    estimate = lines.get(("weft", "bf16"), {}).get("estimate", {})

    def ms(engine, mode):
        return shown(lines.get((engine, mode), {}).get("median_ms"), "{:.3f}")
    rate = torch["rate"] * ratio(lines) if weft and torch else None
    plan = weft["plan_bytes"] / 2**20 if "plan_bytes" in weft else None
    cells = [case, str(weft.get("batch", "-")), ms("weft", "bf16"), ms("weft", "plain"),
             ms("weft", "deterministic"), *(ms("pytorch", mode) for mode in modes),
             shown(estimate.get("ms"), "{:.3f}"), estimate.get("bound") or "-",
             shown(ratio(lines)), f"{GOAL[case]:.2f}",
             f"{shown(rate, '{:.0f}')} {torch.get('unit', '')}".strip(),
             shown(mfu(lines), "{:.1%}"), shown(torch.get("mfu"), "{:.1%}"),
             shown(plan, "{:.0f}"), shown(weft.get("device_mib"), "{:.0f}"), shown(torch.get("device_mib"), "{:.0f}")]
    return "| " + " | ".join(cells) + " |"


def print_calibrated(runs):
    """How much of each case calibrate has reached, and where the run without a table is the one that is compared."""
    for case in runs.cases():
        lines = of_case(runs, case)
        used = next((r for r in lines.values() if "table_nodes" in r and r.get("device") == "cuda"), None)
        if used:
            print(f"- {case}: {used['table_nodes']} of {used.get('all_nodes') or 'unknown'} nodes calibrated")
        if ("weft", "plain") in lines and best_weft(lines) is lines["weft", "plain"]:
            print(f"- {case}: Weft's best run is the one without calibration: times the best, rate, MFU and MiB are its")


def print_table(runs):
    modes = torch_modes(runs)
    heads = ["case", "batch", "Weft ms", "without calibration", "deterministic", *(f"PyTorch {m}" for m in modes),
             "estimate ms", "bound by", "times the best", "goal", "Weft's rate", "MFU", "PyTorch's", "plan MiB", "device MiB", "PyTorch's"]
    print("| " + " | ".join(heads) + " |")
    print("|---|" + "---:|" * (len(heads) - 1))
    for case in runs.cases():
        print(row(case, of_case(runs, case), modes))
    print()
    print_calibrated(runs)
    gpu_runs.print_unsaid(runs)


def table(args):
    """Of what the file holds: times, losses."""
    runs = gpu_runs.read(args.file)
    (gpu_losses.print_table if runs.what == "losses" else print_table)(runs)
    return 0


def worst(args):
    runs = gpu_runs.read(args.file)
    known = {c: ratio(of_case(runs, c)) for c in runs.cases()}
    known = {c: r / GOAL[c] for c, r in known.items() if r}
    print(min(known, key=known.get) if known else "gpt2_124m")
    return 0


def parse_args(argv=None):
    p = argparse.ArgumentParser(description="Weft beside PyTorch on one GPU.")
    p.add_argument("what", choices=("calibrate", "losses", "measure", "table", "worst"))
    p.add_argument("names", nargs="*", metavar="name",
                   help=f"the file, except for calibrate; cases of {', '.join(CASES)} (all)")
    p.add_argument("--build", default="build/gpu")
    p.add_argument("--seconds", type=float, default=240)
    p.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    gpu_losses.add_options(p)
    args = p.parse_intermixed_args(argv)         # cases may follow options
    if args.what != "calibrate" and not args.names:
        p.error(f"{args.what}: a file is needed")
    args.cases = args.names if args.what == "calibrate" else args.names[1:]
    args.file = args.names[0] if args.names else None
    for case in args.cases:
        if case not in CASES:
            p.error(f"'{case}' is not one of {', '.join(CASES)}")
    args.cases = args.cases or list(CASES)
    return args


def main():
    args = parse_args()
    gpu_runs.end_at_sigterm()
    steps = {"calibrate": calibrate, "losses": gpu_losses.losses, "measure": measure, "table": table, "worst": worst}
    sys.exit(steps[args.what](args))


if __name__ == "__main__":
    main()
