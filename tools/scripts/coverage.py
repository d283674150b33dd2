#!/usr/bin/env python3
"""coverage.py coverage.json - lines and branches by folder, the files that are covered least, and whether it is enough: 92% of
lines, 80% of branches. A line counts once, however often it is compiled (kernels are, for each instruction set), and so does a
branch. What cannot run here is in EXCLUDED."""
import collections
import fnmatch
import json
import sys

LINES, BRANCHES, EXCLUDED_MOST = 92, 80, 1  # percent

# File -> why no suite can run it; at most 1% of all lines. There is none so far.
EXCLUDED = {}


def percent(part, whole):
    return 100 * part / whole if whole else 100


def counts(file):
    """Lines and lines run, branches and branches taken."""
    lines = {}
    branches = collections.defaultdict(dict)
    for line in file["lines"]:
        if line.get("gcovr/noncode"):
            continue
        at = line["line_number"]
        lines[at] = lines.get(at, 0) + line["count"]
        for i, branch in enumerate(line["branches"]):
            branches[at][i] = branches[at].get(i, 0) + branch["count"]
    taken = [n for of in branches.values() for n in of.values()]
    return len(lines), sum(n > 0 for n in lines.values()), len(taken), sum(n > 0 for n in taken)


def show(name, of):
    print(f"{name:44} {of[0]:7} {percent(of[1], of[0]):6.1f}% {of[2]:8} {percent(of[3], of[2]):6.1f}%")


def add(rows):
    return tuple(map(sum, zip(*rows))) if rows else (0, 0, 0, 0)


def main():
    files = {f["file"]: counts(f) for f in json.load(open(sys.argv[1]))["files"]}
    left_out = {n: c for n, c in files.items() if any(fnmatch.fnmatch(n, e) for e in EXCLUDED)}
    files = {n: c for n, c in files.items() if n not in left_out}
    folders = collections.defaultdict(list)
    for name, of in files.items():
        folders[name.split("/")[0]].append(of)
    print(f"{'':44} {'lines':>7} {'':>7} {'branches':>8}")
    for name, of in sorted(folders.items()):
        show(name, add(of))
    whole, left = add(list(files.values())), add(list(left_out.values()))
    show("all", whole)
    print(f"left out: {left[0]} lines, {percent(left[0], left[0] + whole[0]):.2f}%")
    print("\nmost lines that did not run:")
    for name, of in sorted(files.items(), key=lambda f: f[1][1] - f[1][0])[:25]:
        show(name, of)
    enough = percent(whole[1], whole[0]) >= LINES and percent(whole[3], whole[2]) >= BRANCHES
    if percent(left[0], left[0] + whole[0]) > EXCLUDED_MOST:
        enough = False
        print(f"FAILED: more than {EXCLUDED_MOST}% of lines are left out")
    if not enough:
        print(f"FAILED: at least {LINES}% of lines and {BRANCHES}% of branches are asked for")
    return 0 if enough else 1


sys.exit(main())
