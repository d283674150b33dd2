"""gpu_losses.py - gpu_compare.py losses: do Weft and PyTorch, from the same weights on the same batches, have the same
losses? Weft on the CPU and on the device, PyTorch on the device (torch_losses.py), in f32 and in bf16.

A case runs at a batch that 16 cores compute within seconds; gpt2_124m has all its parameters and its context of
1024 but in a rehearsal (--device cpu; --full gives it them there too). There is no dropout; the latents of dcgan are
those that Weft's graphs draw, computed from the definition of its random numbers (tests/models/philox.py).

LIMITS are some ten times what was seen on a CPU, over eight seeds, by step: the largest difference between any two of
Weft in f32, PyTorch in f32 and PyTorch in f64 (torch_losses.py run --dtypes f64), and of each engine's bf16 from its f32:

    f32   gpt2_124m 1e-7  1e-7  4e-6  4e-6  1e-5        bf16   gpt2_124m 3e-5  7e-5  6e-5  6e-5  1e-4
          resnet50  1e-7  1e-6  8e-6  2e-5  3e-5               resnet50  4e-4  6e-4  1e-3  9e-4  1e-3
          dcgan     2e-5  2e-4  3e-4  4e-4  1e-3               dcgan     6e-3  6e-3  7e-3  7e-3  7e-3
          mlp       1e-7  8e-7  9e-6  6e-5  9e-5               mlp       2e-5  5e-4  6e-4  6e-4  2e-3

Rounding grows with each update, since it goes into the weights, and faster where it moves numbers over the kink of a
ReLU (gpt2_124m has none). The first loss has seen no update, so its limit is the sharpest; dcgan's second one has seen
the discriminator's. f32's first limits leave more to a GPU, whose sums have another order: 2e-6 is 2^-19, 32 roundings.
bf16 is held against the same engine's f32. PyTorch's bf16 is judged by nobody: it stands beside Weft's as what the
format costs.
"""
import math
import os
import re
import subprocess
import sys
import threading

import gpu_runs

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 5
BATCH = {"gpt2_124m": 1, "resnet50": 4, "dcgan": 16, "mlp": 256}
SMALL = {"gpt2_124m": ["--layers=2", "--d=64", "--heads=2", "--ctx=32", "--vocab=128"]}
SHARE = {"gpt2_124m": 6, "resnet50": 4, "dcgan": 3, "mlp": 2}
LATENTS = 100            # of dcgan

# By step, of the losses before its updates (dcgan: of both).
LIMITS = {
    "f32": {"gpt2_124m": (2e-6, 5e-6, 4e-5, 5e-5, 1e-4),
            "resnet50": (2e-6, 1e-5, 1e-4, 2e-4, 3e-4),
            "dcgan": (2e-4, 2e-3, 3e-3, 4e-3, 1e-2),
            "mlp": (2e-6, 1e-5, 1e-4, 6e-4, 1e-3)},
    "bf16": {"gpt2_124m": (3e-4, 6e-4, 6e-4, 6e-4, 1e-3),
             "resnet50": (4e-3, 6e-3, 1e-2, 1e-2, 1e-2),
             "dcgan": (5e-2, 5e-2, 6e-2, 6e-2, 6e-2),
             "mlp": (2e-4, 5e-3, 6e-3, 6e-3, 2e-2)},
}


# ------------------------------------------------------------------------------ comparing
def difference(a, b):
    """Relative; infinite where either is not a number."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.inf
    return abs(a - b) / max(abs(a), abs(b)) if a != b else 0.0


def worst_of(ours, theirs, limits):
    """(times its limit, step, value, the other value) of the value that comes nearest to its limit, or is furthest
    beyond. ours, theirs: for each step the losses of its graphs."""
    if [len(v) for v in ours] != [len(v) for v in theirs] or len(ours) != len(limits):
        return math.inf, 0, math.nan, math.nan
    found = [(difference(a, b) / limit, step, a, b)
             for step, (these, those, limit) in enumerate(zip(ours, theirs, limits)) for a, b in zip(these, those)]
    return max(found, key=lambda f: f[0])


def pairs_of(device):
    """(one, the other, which limits; None: shown alone): each (engine, mode)."""
    exact, half = ("weft", f"f32 {device}"), ("weft", f"bf16 {device}")
    torch, torch_half = ("pytorch", f"f32 {device}"), ("pytorch", f"bf16 {device}")
    pairs = [(exact, torch, "f32"), (half, exact, "bf16"), (torch_half, torch, None), (half, torch_half, None)]
    if device == "cpu":
        return pairs
    again, half_again = (("weft", f"{dtype} {device} deterministic") for dtype in ("f32", "bf16"))
    cpu = ("weft", "f32 cpu")
    return [(cpu, torch, "f32"), (exact, cpu, "f32"), *pairs, (again, cpu, "f32"), (half_again, cpu, "bf16")]


def comparisons(runs):
    """(case, one, other, which, worst) of all pairs that both have figures."""
    found = []
    for case in runs.cases():
        lines = {run[1:]: line for run, line in runs.good.items() if run[0] == case}
        device = "cuda" if any(r[0] == case and "cuda" in r[2] for r in runs.planned) else "cpu"
        for one, other, which in pairs_of(device):
            if one in lines and other in lines:
                limits = LIMITS[which or "bf16"][case]
                found.append((case, one, other, which, worst_of(lines[one]["losses"], lines[other]["losses"], limits)))
    return found


def is_wrong(comparison):
    _, _, _, which, (times, *_) = comparison
    return which is not None and times > 1


# ------------------------------------------------------------------------------ reading
def run_name(run):
    return {"weft": "Weft", "pytorch": "PyTorch"}[run[0]] + " " + run[1]


def loss_cells(line):
    return [", ".join(f"{v:.6g}" for v in step) for step in line["losses"]]


def print_losses(runs):
    steps = max((len(line["losses"]) for line in runs.good.values()), default=0)
    print("| case | run | " + " | ".join(f"step {i + 1}" for i in range(steps)) + " |")
    print("|---|---|" + "---:|" * steps)
    for run in runs.planned:
        cells = loss_cells(runs.good[run]) if run in runs.good else ["-"] * steps
        print("| " + " | ".join([run[0], run_name(run[1:]), *cells]) + " |")


def comparison_row(comparison):
    case, one, other, which, (times, step, a, b) = comparison
    limit = f"{LIMITS[which][case][step]:.0e}" if which else "-"
    verdict = "-" if not which else "too far" if times > 1 else "agree"
    return (f"| {case} | {run_name(one)} | {run_name(other)} | {difference(a, b):.1e} | {step + 1} | {a:.6g} | {b:.6g} "
            f"| {limit} | {verdict} |")


def print_table(runs):
    print_losses(runs)
    print("\n| case | run | against | difference | at step | loss | the other | limit | |")
    print("|---|---|---|---:|---:|---:|---:|---:|---|")
    for comparison in comparisons(runs):
        print(comparison_row(comparison))
    print()
    if runs.cases() and not any("cuda" in mode for _, _, mode in runs.planned):
        print("- a rehearsal on the CPU: the GPU was not measured")
    gpu_runs.print_unsaid(runs)


# ------------------------------------------------------------------------------ running
def plan_of(cases, device):
    """Three lists of runs, which run side by side, as nothing is timed: Weft on the device, the most telling first; Weft on
    the CPU beside a GPU; PyTorch's, which are one process."""
    more = ["f32 cuda deterministic", "bf16 cuda deterministic"] if device == "cuda" else []
    weft = [(case, "weft", mode) for mode in (f"f32 {device}", f"bf16 {device}", *more) for case in cases]
    on_cpu = [(case, "weft", "f32 cpu") for case in cases] if device == "cuda" else []
    return weft, on_cpu, [(case, "pytorch", f"{dtype} {device}") for case in cases for dtype in ("f32", "bf16")]


def folder_of(args, case=""):
    return os.path.join(args.build, "losses", case)


def is_small(args):
    return args.device == "cpu" and not args.full


def batch_of(args, case):
    return 2 if case == "gpt2_124m" and is_small(args) else BATCH[case]


def torch_command(args, what, *options):
    words = [sys.executable, os.path.join(HERE, "torch_losses.py"), what, folder_of(args)]
    words += [f"{case}:{batch_of(args, case)}" for case in args.cases] + ["--steps", str(STEPS), *options]
    return words + ["--small"] * is_small(args)


def output_of(command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def latents_key(args, graph):
    """Of the one call that draws a graph's latents, as its plan says it."""
    plan = output_of([os.path.join(args.build, "graphtool"), "plan", os.path.join(folder_of(args, "dcgan"), "model.bin"),
                      "--graph", graph, "--dump"])
    keys = set(re.findall(r" = random_normal\(\) .*\bkey=0x([0-9a-f]+)", plan))
    if len(keys) != 1:
        sys.exit(f"gpu_compare.py: {graph} of dcgan draws numbers in {len(keys)} places, not in one")
    return int(keys.pop(), 16)


def write_latents(args):
    """What Weft draws, for each step, as PyTorch reads it."""
    import numpy as np
    sys.path.insert(0, os.path.join(HERE, "..", "tests", "models"))
    import philox
    rows = batch_of(args, "dcgan")
    for graph, name in (("d_step", "z_d"), ("g_step", "z_g")):
        key, n = latents_key(args, graph), rows * LATENTS
        z = [philox.normal(philox.words(args.seed, key, step, 0, n), 0, 1)[:n] for step in range(STEPS)]
        np.save(os.path.join(folder_of(args, "dcgan"), f"{name}.npy"),
                np.concatenate(z).astype(np.float32).reshape(STEPS * rows, LATENTS))


def write_files(args):
    for case in args.cases:
        os.makedirs(folder_of(args, case), exist_ok=True)
        small = SMALL.get(case, []) if is_small(args) else []
        output_of([os.path.join(args.build, "weft-zoo"), case, "-b", str(batch_of(args, case)), "-o",
                   os.path.join(folder_of(args, case), "model.bin"), *small])
    if "dcgan" in args.cases:
        write_latents(args)
    output_of(torch_command(args, "write", "--seed", str(args.seed)))


INPUTS = {"mlp": ("image", "label"), "gpt2_124m": ("tokens", "target"), "resnet50": ("image", "label"),
          "dcgan": ("image",)}


def weft_command(args, run):
    case, _, mode = run
    dtype, device, *deterministic = mode.split()
    def path(name):
        return os.path.join(folder_of(args, case), name)
    words = [os.path.join(args.build, "graphtool"), "bench", path("model.bin"), "--json", "--weights",
             path("weights.safetensors"), "--steps", str(STEPS), "--warmup", "0", "--dtype", dtype, "--device", device]
    words += [f"--data={name}={path(name + '.npy')}" for name in INPUTS[case]]
    return words + ["--seed", str(args.seed)] + (["--deterministic"] if deterministic else [])


def steps_of(line):
    """bench's {name: losses} as [losses of a step], names in order; nan for null, its word for what is not a number."""
    series = [[math.nan if v is None else v for v in values] for _, values in sorted(line["losses"].items())]
    return [list(step) for step in zip(*series)]


def run_weft(args, log, runs):
    budget = gpu_runs.Budget(args.end.left(), [SHARE[case] for case, _, _ in runs])
    for i, run in enumerate(runs):
        log.begin(run)
        line = gpu_runs.run_one(weft_command(args, run), budget.limit(i), needs="losses")
        if "error" not in line:
            line = {"losses": steps_of(line)}
        log.end(run, line)
        print(f"{run[0]:10} {run_name(run[1:])}", line.get("error", ""), flush=True)


class TorchRuns:
    """PyTorch's process, whose lines are read while Weft runs."""

    def __init__(self, args, log, runs):
        self.runs, self.log, self.done = runs, log, 0
        options = ["--device", args.device] + (["--spoil", args.spoil] if args.spoil else [])
        self.process = gpu_runs.start(torch_command(args, "run", *options), stdout=subprocess.PIPE)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        self.log.begin(self.runs[0])
        for text in self.process.stdout:
            line = gpu_runs.last_json(text)
            if not {"losses", "error"} & set(line) or self.done == len(self.runs):
                continue                         # something else was printed
            self.log.end(self.runs[self.done], {k: line[k] for k in ("losses", "error") if k in line})
            self.done += 1
            if self.done < len(self.runs):
                self.log.begin(self.runs[self.done])

    def finish(self, seconds):
        """Those that are not done have an error."""
        self.reader.join(max(0, seconds))
        was_cut = self.reader.is_alive()
        if not was_cut:
            self.process.wait()
        gpu_runs.stop(self.process)
        self.reader.join()
        self.process.stdout.close()
        for run in self.runs[self.done:]:
            self.log.end(run, {"error": "cut: no time was left" if was_cut else
                               f"its process ended: exit status {self.process.returncode}"})


def losses(args):
    """The file is begun again: what an earlier call found says nothing about this one."""
    args.end = gpu_runs.Budget(args.seconds, [])
    weft, on_cpu, torch = plan_of(args.cases, args.device)
    open(args.file, "w").close()
    log = gpu_runs.Log(args.file)
    log.plan(weft + on_cpu + torch, "losses")
    write_files(args)
    pytorch = TorchRuns(args, log, torch)
    cpu = threading.Thread(target=run_weft, args=(args, log, on_cpu), daemon=True)
    cpu.start()
    run_weft(args, log, weft)
    cpu.join()
    pytorch.finish(args.end.left())
    runs = gpu_runs.read(args.file)
    print_table(runs)
    return report(runs)


def report(runs):
    """0 when all ran and all agree; what does not is reported with case, step and values."""
    wrong = [c for c in comparisons(runs) if is_wrong(c)]
    for case, one, other, which, (_, step, a, b) in wrong:
        print(f"gpu_compare.py: {case}: losses differ at step {step + 1}: {run_name(one)} has {a:.7g}, "
              f"{run_name(other)} {b:.7g}: {difference(a, b):.1e}, at most {LIMITS[which][case][step]:.0e} is rounding",
              file=sys.stderr)
    return int(bool(wrong or runs.unsaid()))


def add_options(p):
    p.add_argument("--seed", type=int, default=1, help="losses: of weights, batches and latents")
    p.add_argument("--full", action="store_true", help="losses: gpt2_124m as large as on a GPU in a rehearsal too")
    p.add_argument("--spoil", choices=("weight", "rate"),
                   help="losses: PyTorch begins or learns a little differently, so that it must fail (torch_losses.py)")
