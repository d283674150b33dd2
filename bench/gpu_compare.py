#!/usr/bin/env python3
"""gpu_compare.py - Weft beside PyTorch on one GPU, in turns; tools/gpu.sh calls it.

    python gpu_compare.py calibrate [--build DIR] [--seconds S] [CASE...]
    python gpu_compare.py measure FILE.jsonl [--build DIR] [--seconds S] [--device cuda|cpu] [CASE...]
    python gpu_compare.py table FILE.jsonl         # Markdown
    python gpu_compare.py worst FILE.jsonl         # the case that is furthest from its goal

calibrate has graphtool time algorithms for each case; measure uses the tables that it left in DIR.
For each case: Weft, PyTorch's three forms (torch_gpu.py), Weft again and Weft --deterministic; each run is a process and
gives one line of FILE. A run that fails, or for which no time is left, gives a line with `error`, and the next one
begins. device_mib is the most that the device was short of during a run, by nvidia-smi every 100 ms, less what it was
short of before: context and libraries included, the same measure for both. cpu rehearses with small sizes.
"""
import argparse
import json
import os
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = ("mlp", "dcgan", "resnet50", "gpt2_124m")
BATCH = {"mlp": 256, "dcgan": 128, "resnet50": 256, "gpt2_124m": 32}
GOAL = {"mlp": 3.0, "dcgan": 1.5, "resnet50": 1.05, "gpt2_124m": 1.10}       # times PyTorch's best
MFU_GOAL = {"gpt2_124m": 0.55}
SMALL = {"gpt2_124m": ["--layers=2", "--d=64", "--heads=2", "--ctx=32", "--vocab=128"]}
TORCH_MODES = ("eager", "compile", "graphs")


# ------------------------------------------------------------------------------ measuring
class DeviceMemory:
    """MiB in use on GPU 0, watched from __enter__ to __exit__; most() is the peak above the first reading."""
    QUERY = ["nvidia-smi", "-i", "0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]

    def __init__(self, is_on):
        self.is_on, self.seen, self.watcher = is_on, [], None

    def __enter__(self):
        if self.is_on:
            self.seen.append(int(subprocess.check_output(self.QUERY, text=True)))
            self.watcher = subprocess.Popen([*self.QUERY, "-lms", "100"], stdout=subprocess.PIPE, text=True)
            threading.Thread(target=self.read, daemon=True).start()
        return self

    def read(self):
        for line in self.watcher.stdout:
            if line.strip().isdigit():
                self.seen.append(int(line))

    def __exit__(self, *_):
        if self.watcher:
            self.watcher.terminate()
            self.watcher.wait()

    def most(self):
        return max(self.seen) - self.seen[0] if self.seen else None


def last_json(text):
    """All of it, or its last line."""
    for piece in (text, (text.strip().splitlines() or [""])[-1]):
        try:
            return json.loads(piece)
        except ValueError:
            pass
    return {}


def run_one(command, seconds, watch):
    """The command's JSON, with error in it when it failed."""
    if seconds < 5:
        return {"error": "no time was left"}
    with DeviceMemory(watch) as used:
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            return {"error": f"took longer than the {seconds:.0f} s that were left"}
    sys.stderr.write(done.stderr)
    line = last_json(done.stdout)
    if done.returncode:
        told = line.get("error") or (done.stderr.strip().splitlines() or ["nothing"])[-1]
        return {"error": f"exit status {done.returncode}: {told[:200]}"}
    if "median_ms" not in line:
        return {"error": line.get("error", "no JSON was printed")}
    return {**line, "device_mib": used.most()}


GPU_OPTIONS = ("--device", "cuda", "--dtype", "bf16")


def table_of(args, case):
    return os.path.join(args.build, f"bench_{case}.calibration")


def weft_command(args, model, *options):
    command = [os.path.join(args.build, "graphtool"), "bench", model, "--json", *options]
    if args.device == "cuda":
        return command + [*GPU_OPTIONS, "--steps", "30", "--warmup", "10"]
    return command + ["--steps", "3", "--warmup", "1"]


def torch_command(args, case, mode):
    batch = batch_of(args, case)
    command = [sys.executable, os.path.join(HERE, "torch_gpu.py"), case, "--modes", mode, "--device", args.device]
    return command + ["--batch", str(batch)] + ([] if args.device == "cuda" else ["--steps", "3", "--warmup", "1"])


def batch_of(args, case):
    return BATCH[case] if args.device == "cuda" else 2


def write_model(args, case):
    path = os.path.join(args.build, f"bench_{case}.bin")
    small = [] if args.device == "cuda" else SMALL.get(case, [])
    subprocess.run([os.path.join(args.build, "weft-zoo"), case, "-b", str(batch_of(args, case)), "-o", path, *small], check=True)
    return path


def runs_of(args, case, model):
    """(engine, mode, command) in the order in which they run."""
    modes = TORCH_MODES if args.device == "cuda" else TORCH_MODES[:1]
    table = [f"--calibration={table_of(args, case)}"] if os.path.exists(table_of(args, case)) else []
    yield "weft", "bf16", weft_command(args, model, *table)
    for mode in modes:
        yield "pytorch", mode, torch_command(args, case, mode)
    yield "weft", "bf16", weft_command(args, model)  # the faster counts
    if args.device == "cuda":
        yield "weft", "deterministic", weft_command(args, model, "--deterministic")


def calibrate(args):
    end, failed = time.monotonic() + args.seconds, 0
    for case in args.cases or CASES:
        table = table_of(args, case)
        command = [os.path.join(args.build, "graphtool"), "calibrate", write_model(args, case), *GPU_OPTIONS, "-o", table]
        print(" ".join(command), flush=True)
        try:
            failed += subprocess.run(command, timeout=max(1, end - time.monotonic())).returncode != 0
        except subprocess.TimeoutExpired:
            print(f"{case}: no time was left")
            failed += 1
    return int(failed > 0)


def measure(args):
    end, failed = time.monotonic() + args.seconds, 0
    cases = args.cases or CASES
    for i, case in enumerate(cases):
        share = (end - time.monotonic()) / (len(cases) - i)      # what a case leaves goes to the next ones
        case_end = time.monotonic() + share
        model = write_model(args, case)
        for engine, mode, command in runs_of(args, case, model):
            line = run_one(command, case_end - time.monotonic(), args.device == "cuda")
            line.update(engine=engine, case=case, mode=mode, batch=batch_of(args, case), device=args.device)
            with open(args.file, "a") as f:
                f.write(json.dumps(line) + "\n")
            print(f"{case:10} {engine:8} {mode:13}", line.get("error") or f"{line['median_ms']:.3f} ms", flush=True)
            failed += "error" in line
    return int(failed > 0)


# ------------------------------------------------------------------------------ reading
def read_runs(path):
    """Lines by (engine, mode) by case; of several good ones the fastest, else one with its error."""
    runs = {}
    with open(path) as f:
        for line in map(json.loads, f):
            at = runs.setdefault(line["case"], {})
            key = (line["engine"], line["mode"])
            if key not in at or line.get("median_ms", 1e30) < at[key].get("median_ms", 1e30):
                at[key] = line
    return runs


def best_torch(of_case):
    good = [r for (engine, _), r in of_case.items() if engine == "pytorch" and "median_ms" in r]
    return min(good, key=lambda r: r["median_ms"]) if good else None


def ratio(of_case):
    """How many times as fast as PyTorch's best form; None without both."""
    weft, torch = of_case.get(("weft", "bf16"), {}), best_torch(of_case)
    return torch["median_ms"] / weft["median_ms"] if torch and "median_ms" in weft else None


def mfu(of_case):
    """Weft's, with the operations that torch_gpu.py counts."""
    torch, ours = best_torch(of_case), ratio(of_case)
    return torch["mfu"] * ours if ours and torch.get("mfu") else None


def shown(value, form="{:.2f}"):
    return "-" if value is None else form.format(value)


def row(case, of_case):
    weft, torch = of_case.get(("weft", "bf16"), {}), best_torch(of_case) or {}
    deterministic = of_case.get(("weft", "deterministic"), {})
    ms = weft.get("median_ms")
    rate = torch["rate"] * ratio(of_case) if ms and torch else None
    plan = weft["plan_bytes"] / 2**20 if "plan_bytes" in weft else None
    cells = [case, str(weft.get("batch", "-")), shown(ms, "{:.3f}"),
             *(shown(of_case.get(("pytorch", m), {}).get("median_ms"), "{:.3f}") for m in TORCH_MODES),
             shown(ratio(of_case)), f"{GOAL[case]:.2f}",
             f"{shown(rate, '{:.0f}')} {torch.get('unit', '')}".strip(),
             shown(mfu(of_case), "{:.1%}"), shown(torch.get("mfu"), "{:.1%}"),
             shown(plan, "{:.0f}"), shown(weft.get("device_mib"), "{:.0f}"), shown(torch.get("device_mib"), "{:.0f}"),
             shown(deterministic.get("median_ms"), "{:.3f}")]
    return "| " + " | ".join(cells) + " |"


def table(args):
    runs = read_runs(args.file)
    print("| case | batch | Weft ms | eager ms | compile ms | CUDA graphs ms | times the best | goal | Weft's rate | MFU "
          "| PyTorch's | plan MiB | device MiB | PyTorch's | deterministic ms |")
    print("|---|" + "---:|" * 14)
    for case, of_case in runs.items():
        print(row(case, of_case))
    print()
    for case, of_case in runs.items():
        for (engine, mode), line in of_case.items():
            if "error" in line:
                print(f"- {case}, {engine} {mode}: {line['error']}")
    return 0


def worst(args):
    runs = read_runs(args.file)
    known = {c: ratio(r) / GOAL[c] for c, r in runs.items() if ratio(r)}
    print(min(known, key=known.get) if known else CASES[-1])
    return 0


def main():
    p = argparse.ArgumentParser(description="Weft beside PyTorch on one GPU.")
    p.add_argument("what", choices=("calibrate", "measure", "table", "worst"))
    p.add_argument("names", nargs="*", metavar="name", help=f"the file, but for calibrate; cases of {', '.join(CASES)} (all)")
    p.add_argument("--build", default="build/gpu")
    p.add_argument("--seconds", type=float, default=240)
    p.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    args = p.parse_args()
    if args.what != "calibrate" and not args.names:
        p.error(f"{args.what}: a file is needed")
    args.cases = args.names if args.what == "calibrate" else args.names[1:]
    args.file = args.names[0] if args.names else None
    for case in args.cases:
        if case not in CASES:
            p.error(f"'{case}' is none of {', '.join(CASES)}")
    sys.exit({"calibrate": calibrate, "measure": measure, "table": table, "worst": worst}[args.what](args))


if __name__ == "__main__":
    main()
