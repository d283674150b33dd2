#!/usr/bin/env python3
"""check_style.py - how sources look to a reader, reported as PLACE: RULE:

  columns   no line with a comment is wider than 110 columns
  places    no trailing comment pushes a declaration onto two lines: such a comment stands above it
  names     a static function's name is defined by at most 3 files of the library and of graphtool, except for the
            names of table fields (infer, gradient, workspace ...): profiles and grep find the one that is meant
  share     of the library's lines, without blank ones, at least 15% hold a comment

It ends with what it counted.
"""
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ("include", "graph", "ops", "dist", "runtime", "interchange")
ALL = LIBRARY + ("tools", "examples", "tests", "bench")
SUFFIXES = (".c", ".h", ".cu", ".cuh", ".cpp")
COLUMNS, SAME_NAME, SHARE = 110, 3, 0.15

wrong = []


def sources(folders):
    return sorted(p for f in folders for p in (ROOT / f).rglob("*") if p.suffix in SUFFIXES)


def lines_of(path):
    """(number, text, whether it holds a comment or a part of one) of lines that are not blank."""
    inside = False
    for number, line in enumerate(path.read_text().split("\n"), 1):
        holds = inside or "/*" in line or re.search(r"(^|\s)//", line)
        if "/*" in line or "*/" in line:
            inside = line.rfind("/*") > line.rfind("*/")
        if line.strip():
            yield number, line, bool(holds)


def check_lines(path):
    before, comments, count = "", 0, 0
    place = path.relative_to(ROOT)
    for number, line, holds in lines_of(path):
        count, comments = count + 1, comments + holds
        if holds and len(line) > COLUMNS and not re.search(r'"[^"]*/\*|https?://|\\$', line):
            wrong.append(f"{place}:{number}: a comment ends in column {len(line)}, {COLUMNS} is the most")
        name_alone = re.match(r"\s+\**\w+(\[[^]]*\])*(, \**\w+(\[[^]]*\])*)*; +/\*", line)
        if name_alone and re.match(r"\s+[a-z]\w*( [a-z]\w*)*( \**)?$", before):
            wrong.append(f"{place}:{number}: its comment breaks the declaration: put it above")
        before = line
    return comments, count


# ---- names ----

STATIC = re.compile(r"^static (?:inline )?[\w *]*?\b(\w+)\(", re.M)
FIELD = re.compile(r"\.(\w+) = \1\b")


def check_names():
    files, fields = defaultdict(set), {"scalar", "reference", "view", "declines", "main"}
    for path in sources(LIBRARY + ("tools",)):
        text = path.read_text()
        fields.update(FIELD.findall(text))
        for name in STATIC.findall(text):
            files[name].add(str(path.relative_to(ROOT)))
    for name, where in sorted(files.items()):
        is_role = any(name == f or name.endswith("_" + f) for f in fields) or re.search(r"_(run|workspace|declines)$", name)
        if len(where) > SAME_NAME and not is_role:
            wrong.append(f"{name}: {len(where)} files define a static function of this name: {', '.join(sorted(where))}")
    return len(files)


def main():
    comments = count = 0
    for path in sources(ALL):
        c, n = check_lines(path)
        if path.relative_to(ROOT).parts[0] in LIBRARY:
            comments, count = comments + c, count + n
    if comments < SHARE * count:
        wrong.append(f"library: {comments} of {count} lines hold a comment, {100 * SHARE:.0f}% is the least")
    names = check_names()
    print("\n".join(wrong))
    print(f"library: {count} lines, {100 * comments / count:.1f}% with a comment; {names} names of static functions; {len(wrong)} wrong")
    sys.exit(bool(wrong))


main()
