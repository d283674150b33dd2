#!/usr/bin/env python3
"""suite.py - tables of `graphtool bench --suite`, beside PyTorch.

    graphtool bench --suite zoo -o weft.jsonl [--with "OPTIONS"]...
    suite.py torch torch.jsonl [CASE...] [--with "OPTIONS"]... [--mode eager|compile]...
    suite.py table weft.jsonl [torch.jsonl...] [--html FILE]

`torch` runs bench/torch_cpu.py (this Python must have PyTorch): every case, training and inference, in both modes,
with each set of options, and appends a line for each run that the file lacks; the keys are those of graphtool's
lines: suite, engine, file, phase, options, and samples_ms, warmup, median_ms, first_step_ms, peak_rss_mib, threads,
dtype. A run that fails has `error` instead.

`table` prints Markdown, and writes the same as HTML: a row for each model, phase and set of options, with the interval
of the median, the time to the first step, the share of what the machine's peaks allow (above 100% where data lie in
caches), memory, and where there is a line of PyTorch with the same file, phase and options, the ratio to the faster of
its modes. The last row has the geometric mean of the ratios. Runs during which others used more than 0.1 CPUs are
marked *.
"""
import argparse
import html
import json
import math
import subprocess
import sys
from pathlib import Path

NOISE = 0.1  # CPUs of other processes, above which a time is marked
SETS = ("", "--threads 1", "--dtype bf16")  # those of graphtool that torch_cpu.py has
COLUMNS = ("model", "phase", "options", "batch", "threads", "ms", "95%", "to 1st step, ms", "of limit", "GFLOP/s", "peak, MiB",
           "PyTorch, ms", "mode", "time", "PyTorch, MiB", "memory")
TEXTS = 3  # the first columns are texts


def key_of(line):
    return line["file"], line["phase"], line["options"]


def read_lines(paths):
    """All lines of the files; a newer one replaces an older one of the same engine and run."""
    lines = {}
    for path in paths:
        try:
            texts = Path(path).read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            sys.exit(f"suite.py: {path}: it cannot be read: {error}")
        for number, text in enumerate(texts, 1):
            try:
                line = json.loads(text)
                lines[line["engine"], *key_of(line)] = line
            except (ValueError, KeyError, TypeError) as error:
                sys.exit(f"suite.py: {path}:{number}: it must be a line of JSON with engine, file, phase and options: {error}")
    return lines


# ---- PyTorch

def run_torch(case, phase, options, mode):
    """One line: what torch_cpu.py prints, or why it failed."""
    script = Path(__file__).with_name("torch_cpu.py")
    command = [sys.executable, str(script), case, "--phase", phase, "--mode", mode, "--json", *options.split()]
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    said = (run.stdout.strip().splitlines() or [""])[-1]
    try:
        line = json.loads(said) if run.returncode == 0 else None
    except ValueError:
        line = None
    if line is None:
        why = (run.stderr.strip().splitlines() or ["no output"])[-1]
        line = {"model": case, "error": f"status {run.returncode}: {why}"}
    return dict(line, suite="zoo", engine=mode, file=case, phase=phase, options=options, schema=1)


def torch_main(args):
    sys.path.insert(0, str(Path(__file__).parent))
    import torch_cpu
    cases = args.cases or list(torch_cpu.CASES)
    done = read_lines([args.file]) if Path(args.file).exists() else {}
    failed = 0
    with open(args.file, "a") as out:
        for case in cases:
            for phase in ("train", "infer"):
                for options in args.sets or SETS:
                    for mode in args.modes or ("eager", "compile"):
                        if "error" in done.get((mode, case, phase, options), {"error": "not yet"}):
                            line = run_torch(case, phase, options, mode)
                            failed += "error" in line
                            print(f"{case} {phase} {options} {mode}:", line.get("error") or f"{line['median_ms']:.2f} ms", file=sys.stderr)
                            print(json.dumps(line), file=out, flush=True)
    return 1 if failed else 0


# ---- the table

def number(value, form="{:.2f}"):
    return "" if value is None else form.format(value)


def rival_of(lines, key):
    """PyTorch's faster line of this run; None: there is no good one."""
    rivals = [line for (engine, *other), line in lines.items() if engine != "weft" and tuple(other) == key and "error" not in line]
    return min(rivals, key=lambda line: line["median_ms"], default=None)


def mark(line):
    return "*" if (line.get("other_cpus") or 0) > NOISE else ""


def row_of(line, rival):
    head = [line["file"], line["phase"], line["options"]]
    if "error" in line:
        return head + [""] * 2 + ["failed"] + [""] * (len(COLUMNS) - 6)
    interval = line["interval_ms"]  # null of few steps
    cells = head + [str(line["batch"]), str(line["threads"]), number(line["median_ms"]) + mark(line), "{:.2f} to {:.2f}".format(*interval) if interval else "",
                    number(line["ready_ms"], "{:.0f}"), number(line.get("of_limit"), "{:.0%}"),
                    number(line.get("gflops"), "{:.0f}"), number(line["peak_rss_mib"], "{:.0f}")]
    if rival is None:
        return cells + [""] * (len(COLUMNS) - len(cells))
    return cells + [number(rival["median_ms"]) + mark(rival), rival["engine"], number(line["median_ms"] / rival["median_ms"]),
                    number(rival["peak_rss_mib"], "{:.0f}"), number(line["peak_rss_mib"] / rival["peak_rss_mib"])]


def mean_row(pairs):
    """Geometric means of the ratios of time and memory."""
    def mean(key):
        return math.exp(sum(math.log(line[key] / rival[key]) for line, rival in pairs) / len(pairs))
    cells = {"model": f"geometric mean of {len(pairs)}", "time": number(mean("median_ms")), "memory": number(mean("peak_rss_mib"))}
    return [cells.get(column, "") for column in COLUMNS]


def rows_of(lines):
    mine = [line for (engine, *_), line in lines.items() if engine == "weft"]
    rivals = [rival_of(lines, key_of(line)) for line in mine]
    pairs = [(line, rival) for line, rival in zip(mine, rivals) if rival and "error" not in line]
    rows = [row_of(line, rival) for line, rival in zip(mine, rivals)]
    return rows + ([mean_row(pairs)] if pairs else [])


def machines_of(lines):
    """One line for each machine and commit that lines were made with."""
    found = {}
    for line in lines.values():
        m = line.get("machine")
        if m:
            found[f"{m.get('processor') or m.get('architecture')}, {m.get('usable_cores')} cores, {m.get('system')}; "
                  f"Weft {m.get('commit') or m.get('weft')}, {line.get('isa')}"] = None
        elif line.get("torch"):
            found[f"PyTorch {line['torch']}"] = None
    return list(found)


def failures_of(lines):
    return [f"{file} {phase} {options} ({engine}): {line['error']}"
            for (engine, file, phase, options), line in lines.items() if "error" in line]


def markdown(rows, machines, failures):
    def row(cells):
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield row(COLUMNS)
    yield "|" + "---|" * TEXTS + "---:|" * (len(COLUMNS) - TEXTS)
    yield from map(row, rows)
    yield ""
    for title, notes in (("Machine", machines), ("Failed", failures)):
        for note in notes:
            yield f"- {title}: {note}"


def page(rows, machines, failures):
    def row(cells, tag):
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"
    yield "<!DOCTYPE html><meta charset='utf-8'><title>graphtool bench --suite</title>"
    yield "<style>body{font-family:sans-serif}td,th{padding:2px 8px;text-align:right;border-bottom:1px solid #ddd}"
    yield "td:nth-child(-n+3),th:nth-child(-n+3){text-align:left}table{border-collapse:collapse}</style>"
    yield "<table>" + row(COLUMNS, "th")
    yield from (row(cells, "td") for cells in rows)
    yield "</table><ul>"
    for title, notes in (("Machine", machines), ("Failed", failures)):
        yield from (f"<li>{title}: {html.escape(note)}</li>" for note in notes)
    yield "</ul>"


def table_main(args):
    lines = read_lines(args.files)
    try:
        parts = rows_of(lines), machines_of(lines), failures_of(lines)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        sys.exit(f"suite.py: a line is not what bench --suite writes: {type(error).__name__}: {error}")
    print("\n".join(markdown(*parts)))
    if args.html:
        Path(args.html).write_text("\n".join(page(*parts)) + "\n")
    return 0


def parse_args(argv=None):
    p = argparse.ArgumentParser(description="Tables of graphtool bench --suite, beside PyTorch.")
    parts = p.add_subparsers(required=True)
    t = parts.add_parser("torch")
    t.add_argument("file")
    t.add_argument("cases", nargs="*", metavar="CASE")
    t.add_argument("--with", action="append", dest="sets", metavar="OPTIONS")
    t.add_argument("--mode", action="append", dest="modes", choices=("eager", "compile"))
    t.set_defaults(run=torch_main)
    t = parts.add_parser("table")
    t.add_argument("files", nargs="+", metavar="FILE")
    t.add_argument("--html", metavar="FILE")
    t.set_defaults(run=table_main)
    return p.parse_args(argv)


if __name__ == "__main__":
    ARGS = parse_args()
    sys.exit(ARGS.run(ARGS))
