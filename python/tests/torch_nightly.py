#!/usr/bin/env python3
"""torch_nightly.py - judges rows of torch_models.py, and prints the table of docs/pytorch.md.

    torch_nightly.py judge N RESULTS [DEVICE]   judges row N (from 1) on cpu or cuda; adds a line of JSON to the file RESULTS
    torch_nightly.py table RESULTS              the table, from the last line of each row
Status of judge: 0 the row converts, or is refused by name as EXPECTED says; 1 it does not; 77 a library is not here.
"""
import dataclasses
import json
import re
import sys

import torch_models

# Rows that do not convert, and why: what torch.export cannot export in training mode, and shapes that depend on numbers.
EXPECTED = {"retinanet_resnet50_fpn": "not exported", "detr": "not exported", "wav2vec2": "not exported", "InPlaceByMask": "refused"}


def judge(number, results, device):
    row = torch_models.ROWS[number - 1]
    missing = torch_models.missing([row])
    if missing:
        print(f"{row.name}: skipped: {missing}")
        return 77
    import torch
    import torch_judge
    torch.set_num_threads(1)
    verdict = torch_judge.judge(row, device=device)
    with open(results, "a") as file:
        file.write(json.dumps({"row": number, **dataclasses.asdict(verdict)}) + "\n")
    print(f"{row.name}: {verdict.status} {verdict.errors} {verdict.why}", *list(verdict.beyond.values())[:5], sep="\n    ")
    return 0 if verdict.status == EXPECTED.get(row.name, "converts") else 1


def read(results):
    with open(results) as file:
        found = {line["row"]: line for line in map(json.loads, file)}
    return [found[n] for n in sorted(found)]


def cell(errors, kind):
    if kind not in errors:
        return ""
    ours, own = errors[kind]
    return f"{ours:.0e} ({own:.0e})"


def told(line):
    """Which op refused a row, or what torch.export said, without the places of files."""
    why = re.sub(r"\((?:/|File )[^()]*\)", "", line["why"]).removeprefix("from_torch: ").replace("torch.export: ", "")
    why = re.sub(r"\s+", " ", why)[:160].strip().replace("|", "\\|").replace("`", "'")
    return f"`{why}`" if line["status"] == "not exported" else why


def table(results):
    rows = read(results)
    print("| model | from | batch | result | outputs | gradients | after 3 steps |\n|---|---|---:|---|---:|---:|---:|")
    for line in rows:
        row = torch_models.ROWS[line["row"] - 1]
        result = line["status"] if line["status"] == "converts" else f"{line['status']}: {told(line)}"
        print(f"| {row.name} | {row.library} | {row.batch} | {result} | " + " | ".join(cell(line["errors"], k) for k in ("outputs", "gradients", "after")) + " |")
    counts = {s: sum(line["status"] == s for line in rows) for s in ("converts", "refused", "not exported", "wrong")}
    print(f"\n{len(rows)} models: " + ", ".join(f"{n} {s}" for s, n in counts.items()) + ".")
    return 0 if counts["wrong"] == 0 else 1


if __name__ == "__main__":
    if len(sys.argv) in (4, 5) and sys.argv[1] == "judge":
        sys.exit(judge(int(sys.argv[2]), sys.argv[3], sys.argv[4] if sys.argv[4:] else "cpu"))
    if len(sys.argv) == 3 and sys.argv[1] == "table":
        sys.exit(table(sys.argv[2]))
    sys.exit(__doc__)
