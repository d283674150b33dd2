#!/usr/bin/env python3
"""check_reference.py - the API reference is made without a warning, and is whole.

  warnings     Doxygen has none: each function, structure, field, type and macro of include/weft is documented
  functions    each function that the compiler reads in the headers has a block of its own on the page of its header
  enumerators  each has a sentence

    check_reference.py DOXYGEN FOLDER [--cc gcc]        FOLDER holds the Doxyfile, and gets html/ and xml/
"""
import argparse
import re
import subprocess
import sys
import xml.etree.ElementTree as tree
from pathlib import Path

from check_exports import declared

ROOT = Path(__file__).resolve().parents[2]

wrong = []


def tell(place, rule):
    wrong.append(f"{place}: {rule}")


def make(doxygen, folder):
    """Runs Doxygen with XML beside the pages, which it reads best from standard input."""
    settings = (folder / "Doxyfile").read_text() + "\nGENERATE_XML = YES\n"
    made = subprocess.run([doxygen, "-"], input=settings, capture_output=True, text=True, cwd=folder)
    for line in made.stderr.replace(f"{ROOT}/", "").splitlines():
        tell("doxygen", line)
    if made.returncode and not wrong:
        tell("doxygen", f"ended with status {made.returncode}")


def check_functions(folder, names):
    """The tag file says where each function is; there the page has a block with its name and some text."""
    blocks = {}
    for member in tree.parse(folder / "tags.xml").iter("member"):
        if member.get("kind") == "function":
            blocks[member.findtext("name")] = (member.findtext("anchorfile"), member.findtext("anchor"))
    for name in sorted(names):
        page, anchor = blocks.get(name, (None, None))
        if not page:
            tell(name, "is in no page of the reference")
            continue
        block = re.search(rf'<a id="{anchor}".*?<div class="memdoc">(.*?)</div>',
                          (folder / "html" / page).read_text(), re.S)
        if not block or not re.sub(r"<[^>]*>|\s", "", block[1]):
            tell(name, f"has no text in {page}")


def check_enumerators(folder):
    for page in sorted((folder / "xml").glob("*_8h.xml")):
        for value in tree.parse(page).iter("enumvalue"):
            if not "".join(value.find("briefdescription").itertext()).strip():
                tell(value.findtext("name"), "has no comment (/**< ... */ after it)")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("doxygen")
    options.add_argument("folder", type=Path)
    options.add_argument("--cc", default="cc")
    o = options.parse_args()
    make(o.doxygen, o.folder)
    names = declared(ROOT, o.cc)
    if len(names) < 100:
        tell("weft.h", f"declares {len(names)} functions: they were not found")
    if (o.folder / "tags.xml").exists():
        check_functions(o.folder, names)
        check_enumerators(o.folder)
    print("\n".join(wrong) if wrong else f"{len(names)} functions are in {o.folder / 'html/index.html'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
