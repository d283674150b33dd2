#!/usr/bin/env python3
"""guide.py - follows a guide (docs/adding-*.md) to the letter. Its code says where it goes, after the opening fence:

  ```c new FILE                a file of its own
  ```c after LINE in FILE      below the one line of FILE that is, or else holds, LINE
  ```c before LINE in FILE     above it
  ```c instead of LINE in FILE in its place
  ```sh                        commands, for the top folder of the sources

    guide.py apply GUIDE FOLDER      makes the edits in the sources there
    guide.py commands GUIDE          prints the commands
"""
import re
import sys
from pathlib import Path

PLACE = re.compile(r"(new|after|before|instead of) (?:(.+) in )?(\S+)$")


class Wrong(Exception):
    pass


def blocks(page):
    """(line, what stands after the fence, text) of every block; a longer fence holds shorter ones."""
    fence = None
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if fence is None and line.startswith("```"):
            fence = re.match("`+", line)[0]
            start, words, lines = number, line[len(fence):], []
        elif fence is not None and line.strip() == fence:
            yield start, words, "\n".join(lines) + "\n"
            fence = None
        elif fence is not None:
            lines.append(line)
    if fence is not None:
        yield start, words, None


def edits(page):
    """(line, how, LINE or None, FILE, text) of the blocks that say where they go."""
    for number, words, text in blocks(page):
        place = PLACE.match(words.partition(" ")[2])
        if text and place and (place[1] == "new") == (place[2] is None):
            yield number, place[1], place[2], place[3], text


def find(lines, wanted):
    """The number of the one line that is `wanted`, or else of the one that holds it."""
    for found in ([i for i, line in enumerate(lines) if line.strip() == wanted],
                  [i for i, line in enumerate(lines) if wanted in line]):
        if len(found) == 1:
            return found[0]
    raise Wrong(f"{len(found)} lines are or hold: {wanted}")


def edit(folder, how, wanted, name, text, write=True):
    """One edit; `write` False: whether it can be made, or has been."""
    path = folder / name
    if not write and path.is_file() and text in path.read_text():
        return
    if how == "new":
        if path.exists():
            raise Wrong(f"{name} is there already")
        if write:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return
    if not path.is_file():
        raise Wrong(f"there is no {name}")
    lines = path.read_text().splitlines(keepends=True)
    try:
        at = find([line.rstrip("\n") for line in lines], wanted)
    except Wrong as e:
        raise Wrong(f"{name}: {e}") from None
    lines[at:at + 1] = {"after": [lines[at], text], "before": [text, lines[at]], "instead of": [text]}[how]
    if write:
        path.write_text("".join(lines))


def check(page, root):
    """(line, what is wrong) of edits that cannot be made in these sources. Files that the guide makes may be edited by it."""
    made = set()
    for number, how, wanted, name, text in edits(page):
        try:
            if name not in made:
                edit(root, how, wanted, name, text, write=False)
        except Wrong as e:
            yield number, str(e)
        made |= {name} if how == "new" else set()


def main():
    if sys.argv[1:2] == ["commands"] and len(sys.argv) == 3:
        print("".join(text for _, words, text in blocks(Path(sys.argv[2])) if words == "sh" and text), end="")
    elif sys.argv[1:2] == ["apply"] and len(sys.argv) == 4:
        for number, *how in edits(Path(sys.argv[2])):
            try:
                edit(Path(sys.argv[3]), *how)
            except Wrong as e:
                sys.exit(f"{sys.argv[2]}:{number}: {e}")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
