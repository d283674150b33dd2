#!/usr/bin/env python3
"""links.py - relative links of documents lead to a file and to a heading that exist. Used by test_docs.py; as a
program, for the documents of an installation:

    links.py FOLDER...      every page below
"""
import re
import sys
from pathlib import Path

LINK = re.compile(r"(?:\]\(|src=\")([^)#\s\"]*)(?:#([^)\s\"]+))?")


def anchors(page):
    """What GitHub calls the page's headings."""
    heads = re.findall(r"^#+ (.*)$", re.sub(r"(?ms)^```.*?^```", "", page.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def links_of(page):
    """(line, target, anchor) of each relative link; either may be empty."""
    is_code = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        is_code ^= line.startswith("```")
        for target, anchor in [] if is_code else LINK.findall(line):
            if "://" not in target:
                yield number, target, anchor


def broken_links(page):
    """(line, what is wrong)"""
    for number, target, anchor in links_of(page):
        to = page.parent / target if target else page
        if not to.exists():
            yield number, f"a link to {target}, which is not there"
        elif anchor and anchor not in anchors(to):
            yield number, f"a link to {target}#{anchor}: {to.name} has no such heading"


def main():
    pages = [page for folder in sys.argv[1:] for page in sorted(Path(folder).rglob("*.md"))]
    wrong = [f"{page}:{number}: {text}" for page in pages for number, text in broken_links(page)]
    print("\n".join(wrong + [f"{len(pages)} pages, {sum(len(list(links_of(p))) for p in pages)} relative links, {len(wrong)} wrong"]))
    return bool(wrong) or not pages


if __name__ == "__main__":
    sys.exit(main())
