#!/usr/bin/env python3
"""overlap.py - the arithmetic of overlap.sh, from what its runs left.

    python overlap.py rate RUNS CASE FACTOR    the link's Mbit/s at which communication takes FACTOR times the compute
    python overlap.py table RUNS               the table

A step's figures come from the traces: its length is from its first node to the next step's; exposed is what its
compute stream stood waiting, collectives in flight included; moved is the time on the communication stream after both
ranks were there. Medians over steps, then the mean of the ranks, then medians over rounds.
"""
import collections
import json
import statistics
import sys

FRAME = 1514 / 1448        # of Ethernet, IP and TCP round each 1,448 bytes


def load(path):
    with open(path) as f:
        return [json.loads(line) for line in f]


def steps_of(bars):
    """Where steps begin: at the first of the compute stream's bars, each time it comes back."""
    first = min(bars, key=lambda b: b["ts"])
    key = first["name"], first["args"].get("graph")
    return sorted(b["ts"] for b in bars if (b["name"], b["args"].get("graph")) == key)


def per_step(begins, bars, length):
    """Sums of length(bar) by step, the last (whose end is not seen) left out."""
    sums, at = [0.0] * (len(begins) - 1), 0
    for bar in sorted(bars, key=lambda b: b["ts"]):
        while at + 1 < len(begins) and bar["ts"] >= begins[at + 1]:
            at += 1
        if at < len(sums):
            sums[at] += length(bar)
    return sums


def read_trace(path):
    """{step, exposed, moved, bytes} of a run, in ms."""
    with open(path) as f:
        events = json.load(f)["traceEvents"]
    rows = collections.defaultdict(list)
    for e in events:
        if e.get("ph") == "X" and e["cat"] not in ("part", "scope"):
            rows[e["pid"], e["tid"]].append(e)
    figures = collections.defaultdict(list)
    for (_, stream), bars in sorted(rows.items()):
        if stream:
            continue
        begins = steps_of(bars)
        moves = rows[_, 1]
        waits = [b for b in bars if b["cat"] == "wait"]
        figures["step"].append([b - a for a, b in zip(begins, begins[1:])])
        figures["exposed"].append(per_step(begins, waits, lambda b: b["dur"]))
        figures["moved"].append(per_step(begins, moves,
                                         lambda b: b["dur"] - b["args"]["until_all_were_there_us"]))
        figures["bytes"].append([1e3 * n for n in per_step(begins, moves, lambda b: b["args"]["bytes"])])
    return {k: statistics.mean(statistics.median(rank) for rank in v) / 1e3 for k, v in figures.items()}


class Runs:
    def __init__(self, path):
        self.all = load(path)
        for r in self.all:
            if "trace" in r:
                r.update(read_trace(r["trace"]))

    def of(self, case, mode, factor=None):
        return [r for r in self.all if r["case"] == case and r["mode"] == mode
                and (factor is None or r["factor"] == factor)]

    def median(self, key, *which):
        values = [r[key] for r in self.of(*which)]
        return statistics.median(values) if values else None

    def alone(self, case, engine):
        values = [r["median_ms"] for r in self.of(case, "alone") if r["engine"] == engine]
        return statistics.median(values) if values else None


def rate(runs, case, factor):
    moved = max(r["bytes"] for r in runs.of(case, "overlapped", "0"))
    ms = float(factor) * runs.alone(case, "weft")
    return max(1, round(moved * FRAME * 8 / ms / 1e3))


HEAD = ["case", "communication / compute", "Mbit/s", "compute", "communication", "serial", "overlapped", "ZeRO 1",
        "exposed", "of what could hide", "step / max", "ZeRO 1 exposed", "of what could hide", "PyTorch alone",
        "PyTorch DDP", "its scaling", "ours"]


def show(value, form):
    return "-" if value is None else format(value, form)


def row(runs, case, factor):
    compute, torch_alone = runs.alone(case, "weft"), runs.alone(case, "torch")
    serial = runs.median("step", case, "serial", factor)
    # Without --serial: what the stream took when it was overlapped, which compute has slowed down.
    moved = runs.median("exposed" if serial else "moved", case, "serial" if serial else "overlapped", factor)
    step, zero = (runs.median("step", case, mode, factor) for mode in ("overlapped", "zero1"))
    exposed, zero_exposed = (runs.median("exposed", case, mode, factor) for mode in ("overlapped", "zero1"))
    torch = runs.median("median_ms", case, "ddp", factor)
    hideable = min(moved, compute)
    return [case, factor, runs.of(case, "overlapped", factor)[0]["rate"], show(compute, ".1f"), show(moved, ".1f"),
            show(serial, ".1f"), show(step, ".1f"), show(zero, ".1f"), show(exposed, ".1f"),
            show(exposed / hideable, ".0%"), show(step / max(moved, compute), ".2f"), show(zero_exposed, ".1f"),
            show(zero_exposed / hideable, ".0%"), show(torch_alone, ".1f"), show(torch, ".1f"),
            show(torch and torch_alone / torch, ".2f"), show(compute / step, ".2f")]


def table(runs):
    print("| " + " | ".join(HEAD) + " |")
    print("|---" + "|---:" * (len(HEAD) - 1) + "|")
    cases = list(dict.fromkeys(r["case"] for r in runs.all))
    for case in cases:
        for factor in dict.fromkeys(r["factor"] for r in runs.of(case, "overlapped") if r["factor"] != "0"):
            print("| " + " | ".join(row(runs, case, factor)) + " |")
    print("\nTimes are ms a step; compute and PyTorch alone: one rank while a second one works beside it, without "
          "communication. Scaling is that over the step of two ranks.")
    if not any(r["mode"] == "serial" for r in runs.all):
        print("Communication is the time on the stream in the overlapped run: this build has no --serial.")
    loud = collections.Counter()
    for r in runs.all:
        if r["others"] > 0.1:
            loud[f"{r['case']} {r['factor']} {r['engine']} {r['mode']}"] += 1
    if loud:
        print("\n**Not clean** (others used more than 0.1 CPUs around the run), measure again: "
              + ", ".join(f"{what} ({n})" for what, n in loud.items()) + ".")


def main(words):
    if words[:1] == ["rate"] and len(words) == 4:
        print(rate(Runs(words[1]), words[2], words[3]))
    elif words[:1] == ["table"] and len(words) == 2:
        table(Runs(words[1]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
