#!/usr/bin/env python3
"""tokens.py - how much C there is: tokens by folder, without comments, at a commit and in this tree.

    tools/scripts/tokens.py [COMMIT]      the default is ac38b15e, the last before all rooms were made lighter

A token is a word, a number, a string or an operator, as a compiler reads it; directives of the preprocessor count, too."""
import re
import subprocess
import sys
from collections import Counter

TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.])*'
                   r"|<<=|>>=|\.\.\.|->|\+\+|--|<<|>>|[<>=!+\-*/%&|^]=|&&|\|\||##|[^\s\w]")
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|("(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')', re.S)
FOLDERS = ["include/weft", "graph", "ops", "dist", "runtime", "interchange", "tools"]


def tokens_of(text):
    return len(TOKEN.findall(COMMENT.sub(lambda m: m[1] or " ", text)))


def files_at(commit):
    """(path, text) of each C source there; commit None: of the tree."""
    listed = ["git", "ls-files"] if commit is None else ["git", "ls-tree", "-r", "--name-only", commit]
    for path in subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split():
        if not path.endswith((".c", ".h", ".cu", ".cuh")) or not path.startswith(tuple(f + "/" for f in FOLDERS)):
            continue
        if commit is None:
            yield path, open(path).read()
        else:
            yield path, subprocess.run(["git", "show", f"{commit}:{path}"], capture_output=True, text=True, check=True).stdout


def count(commit):
    counts = Counter()
    for path, text in files_at(commit):
        folder = next(f for f in FOLDERS if path.startswith(f + "/"))
        counts[folder] += tokens_of(text)
        counts["the library" if folder != "tools" else "graphtool"] += tokens_of(text)
    return counts


def main():
    commit = sys.argv[1] if len(sys.argv) > 1 else "ac38b15e"
    before, now = count(commit), count(None)
    print(f"{'folder':14} {commit:>14} {'this tree':>10} {'change':>8}")
    for name in [*FOLDERS, "the library", "graphtool"]:
        change = f"{100 * (now[name] / before[name] - 1):7.1f}%" if before[name] else "    new"
        print(f"{name:14} {before[name]:14,} {now[name]:10,} {change}")


if __name__ == "__main__":
    main()
