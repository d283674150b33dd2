#!/usr/bin/env python3
"""estimates.py - the table of docs/cuda.md: what a step of four models launches, reads and writes on a GPU, counted from
their plans, and how long it is expected to take.

    estimates.py GRAPHTOOL WEFT_ZOO PAGE           writes the table into PAGE
    estimates.py GRAPHTOOL WEFT_ZOO PAGE --check   exit status 1 where PAGE has another table
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

CASES = {"gpt2_124m": 32, "resnet50": 256, "dcgan": 128, "mlp": 256}      # batch sizes, as bench/gpu_compare.py has
HEAD = ("| model, batch | launches | GB read | GB written | TFLOP | ms on an H200 | MFU | ms on an H100 |\n"
        "|---|---:|---:|---:|---:|---:|---:|---:|\n")
PEAK = 989e12       # operations per second in bf16, of both


def step_of(graphtool, model, gpu):
    command = [graphtool, "plan", model, "--device", "cuda", "--dtype", "bf16", "--json", "--estimate", gpu]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["step"]


def row(graphtool, zoo, folder, case, batch):
    model = str(Path(folder) / f"{case}.bin")
    subprocess.run([zoo, case, "-b", str(batch), "-o", model], capture_output=True, check=True)
    s, slower = step_of(graphtool, model, "h200"), step_of(graphtool, model, "h100")
    ms = s["estimated_ms"]
    return (f"| {case}, {batch} | {s['launches']} | {s['read_bytes'] / 1e9:.3f} | {s['written_bytes'] / 1e9:.3f} "
            f"| {s['flops'] / 1e12:.3f} | {ms:.2f} | {s['flops'] / (ms * 1e-3) / PEAK:.1%} | {slower['estimated_ms']:.2f} |\n")


def main():
    graphtool, zoo, page = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    with tempfile.TemporaryDirectory() as folder:
        made = "".join(row(graphtool, zoo, folder, case, batch) for case, batch in CASES.items())
    before, after = page.read_text().split(HEAD)
    rest = after[after.index("\n\n") + 1:]
    if sys.argv[4:] == ["--check"]:
        sys.exit(f"{page}: its table is not that of today's plans: run tools/dev.sh docs\n{made}"
                 if after != made + rest else 0)
    page.write_text(before + HEAD + made + rest)


main()
