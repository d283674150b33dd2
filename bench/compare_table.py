#!/usr/bin/env python3
"""compare_table.py - the table of compare.sh, from the runs that it kept in FOLDER/CASE.jsonl.

    python compare_table.py FOLDER CASE...

A row has medians over the rounds. Weft's rival is the faster of PyTorch eager and torch.compile; the ratios of time and of
memory are to that one. Memory is the peak of the process; "alone" is what the rival has without its `import torch`, as the
same run measured it just after the import.
"""
import json
import statistics
import sys
from pathlib import Path

NOISE = 0.1  # CPUs of other processes, above which a run lies
ENGINES = ("weft", "eager", "compile")
COLUMNS = ("case", "Weft, ms", "eager, ms", "compile, ms", "time", "Weft, MiB", "PyTorch, MiB", "memory", "alone, MiB", "memory alone")


def median(runs, engine, key):
    """None where the engine has no runs."""
    values = [r[key] for r in runs if r["engine"] == engine]
    return statistics.median(values) if values else None


def row(case, runs):
    ms = {e: median(runs, e, "median_ms") for e in ENGINES}
    rival = min((e for e in ENGINES[1:] if ms[e] is not None), key=lambda e: ms[e], default=None)
    mine = median(runs, "weft", "peak_rss_mib")
    cells = [case, *(f"{ms[e]:.2f}" if ms[e] is not None else "-" for e in ENGINES)]
    if not rival or mine is None:
        return cells + ["-"] * (len(COLUMNS) - len(cells))
    cells[1 + ENGINES.index(rival)] = f"**{cells[1 + ENGINES.index(rival)]}**"
    whole = median(runs, rival, "peak_rss_mib")
    alone = whole - median(runs, rival, "rss_import_mib")
    return cells + [f"{ms['weft'] / ms[rival]:.2f}", f"{mine:.0f}", f"{whole:.0f}", f"{mine / whole:.2f}",
                    f"{alone:.0f}", f"{mine / alone:.2f}" if alone > 0 else "-"]


def unclean(case, runs):
    """Runs beside other processes."""
    for engine in ENGINES:
        for i, r in enumerate((r for r in runs if r["engine"] == engine), 1):
            if r["other_cpus"] > NOISE:
                yield f"{case} round {i}, {engine}: {r['other_cpus']:.2f}"


def fewer(case, runs):
    """Engines with some of the rounds only."""
    counts = {engine: sum(r["engine"] == engine for r in runs) for engine in ENGINES}
    for engine, count in counts.items():
        if 0 < count < max(counts.values()):
            yield f"{case}, {engine}: {count} of {max(counts.values())}"


def table(cases):
    """The lines for {case: runs}."""
    yield "| " + " | ".join(COLUMNS) + " |"
    yield "|---" + "|---:" * (len(COLUMNS) - 1) + "|"
    for case, runs in cases.items():
        yield "| " + " | ".join(row(case, runs)) + " |"
    yield ""
    yield ("Ratios are Weft / the faster of PyTorch eager and torch.compile, which is bold: below 1.00 Weft is faster, or smaller. "
           "Alone: without `import torch`.")
    imports = [r["rss_import_mib"] for runs in cases.values() for r in runs if "rss_import_mib" in r]
    if imports:
        yield f"`import torch` takes {min(imports):.0f} to {max(imports):.0f} MiB."
    missing = [case for case, runs in cases.items() if median(runs, "compile", "median_ms") is None]
    if missing:
        yield f"Without torch.compile: {', '.join(missing)}."
    failed = [note for case, runs in cases.items() for note in fewer(case, runs)]
    if failed:
        yield f"Medians of fewer rounds, as the others failed: {'; '.join(failed)}."
    notes = [note for case, runs in cases.items() for note in unclean(case, runs)]
    if notes:
        yield ""
        yield f"**Not clean** (CPUs that other processes used meanwhile, above {NOISE}), measure again: {'; '.join(notes)}."


def main():
    folder = Path(sys.argv[1])
    print("\n".join(table({case: [json.loads(line) for line in (folder / f"{case}.jsonl").open()] for case in sys.argv[2:]})))


if __name__ == "__main__":
    main()
