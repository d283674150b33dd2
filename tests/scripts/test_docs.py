#!/usr/bin/env python3
"""test_docs.py - the documents say what is true: every piece of code in them compiles, whole programs run, quotes
are in the files they quote, links lead somewhere, docs/ops.md is what graphtool makes.

The words after the opening fence of a block decide:
  ```c              with a main(): a whole program; it is compiled and run, and must end with 0
                    without: a piece; the pieces of one page make one C file, in order, after #include "weft/weft.h",
                    and tests/docs/PAGE.c, which ends that file, runs them
  ```cpp            a whole C++17 program, the same
  ```python         where a page has "import weft": pieces of one program, which runs with the build's package and must end with 0
  ```c ops/pointwise/relu.c   a quote: that file has these lines, one after the other
  ```c after LINE in FILE     (or before, instead of, or new FILE) an edit of a guide: it can be made (tools/scripts/guide.py);
                    `tools/nightly.sh guides` follows them
  ```sh             run, where there is tests/docs/PAGE.sh, which makes what they need and comes first
  ```text same      what commands print, in lines that begin with "$ " (or one after `same`): these lines, one after the other;
                    "..." stands for anything, or nothing, as a line for lines. Fingerprints, bytes and the widths of gaps are not
                    compared, and an instruction set stands for any: where a page has avx512, this processor's is right.
                    tests/docs/PAGE_text.sh, where there is one, runs before each command
  ```text some      these lines, in this order, others between them
  ```text same onednn2   (or some) only where oneDNN is 2.x: its numbers of nodes, or what it packs, differ in 3.x
  ```text alike     as `same`, whatever the numbers are
  ```text           an error: what nobody checks becomes wrong
  ```               a drawing, which no program prints

A table whose last column is headed "a line that runs" has one in each row, as code; several are run one after the
other. One that begins with graphtool or mpirun goes to the shell, with the page's sh blocks; the others are C:
tests/docs/PAGE_lines.c includes them as "lines.h": LINE(its number, the code) each, which makes a function of a `place`, and
after them the table `lines` of their texts and functions.

A table headed "called by, file, function" is a road through the sources: the function is in the file, and the caller, a
file of an earlier row or "your program", calls it ("by a table": not by its name).

    test_docs.py --prefix FOLDER [--graphtool FILE] [--cc cc] [--cxx c++] [--flags "..."] [--python FILE --package FOLDER]

A table headed "message" has in its first column what the sources print, as code: each piece between "…" is in a string of theirs. One
headed "promise, shown by" names suites and parts of tools/nightly.sh that exist.

Programs are compiled against what is installed in FOLDER, as a user's are.
"""
import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/scripts"))
import guide  # noqa: E402: what follows the guides reads their edits
from links import broken_links  # noqa: E402

WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"]
SHELL = ("graphtool ", "mpirun ")  # how lines begin that are for it
LONG = ("distribution", "ddp", "training", "mmengine") if "WEFT_TEST_QUICK" in os.environ else ()  # pages whose shell lines take a while
EMULATED = "QEMU_MODEL" in os.environ  # an older processor, played by qemu: nothing that trains
COMPILES = re.compile(r"^graphtool (plan|info|ops|verify|dot)\b")  # what runs under qemu
# options of other programs in inline code, and one that a guide adds
OTHERS = {"amp", "cfg-options", "force-group-allocation", "gpus", "list", "mca", "no-fusing", "oversubscribe", "quick", "signal", "spoil", "version"}
NO_MPI = "no MPI\n"  # what mpirun of tests/docs/*_text.sh prints where there is none
PROLOGUE = '#include "weft/weft.h"\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n'

wrong = []


def tell(place, rule):
    wrong.append(f"{place}: {rule}")


def pages():
    folders = ["", "docs", "docs/from", "include/weft", "graph", "ops", "runtime", "dist", "interchange", "tools", "tests", "examples", "bench"]
    return sorted(p for f in folders for p in (ROOT / f).glob("*.md"))


def blocks(page):
    """(line, fence words, text) of every fenced block."""
    for number, words, text in guide.blocks(page):
        if text is None:
            tell(f"{page.relative_to(ROOT)}:{number}", "a block without end")
        else:
            yield number, words.split(), text


class Compiler:
    """Compiles and runs in a folder of its own."""

    def __init__(self, options, folder):
        self.o, self.folder, self.count = options, Path(folder), 0
        found = sorted(Path(options.prefix).resolve().glob("lib/**/weft-static.pc"))
        self.packages = str(found[0].parent) if found else ""
        asked = subprocess.run(["pkg-config", "--cflags", "--libs", "weft-train-static"], capture_output=True, text=True,
                               env=dict(os.environ, PKG_CONFIG_PATH=self.packages))
        if asked.returncode:
            sys.exit(f"nothing is installed in {options.prefix} (cmake --install): {asked.stderr}")
        self.links = shlex.split(asked.stdout)

    def compile(self, place, text, is_cpp):
        self.count += 1
        source = self.folder / f"block{self.count}.{'cc' if is_cpp else 'c'}"
        source.write_text(text)
        program = source.with_suffix("")
        command = [self.o.cxx, "-std=c++17"] if is_cpp else [self.o.cc, "-std=c11", "-D_GNU_SOURCE"]
        command += WARNINGS + shlex.split(self.o.flags) + ["-o", str(program)]
        command += ["-I", str(self.folder), str(source)] + self.links
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return tell(place, f"does not compile:\n{done.stderr}")
        self.run(place, str(program))

    def run(self, place, *command, folder=None):
        """What it prints; None after telling that it fails."""
        tools = str(Path(self.o.graphtool).parent.resolve()) if self.o.graphtool else "."
        paths = dict(os.environ, PATH=tools + os.pathsep + os.environ["PATH"], WEFT_ROOT=str(ROOT), WEFT_CC=self.o.cc,
                     WEFT_FLAGS=self.o.flags, PKG_CONFIG_PATH=self.packages)
        folder = folder or self.folder
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, env=paths)
        except subprocess.TimeoutExpired:
            return tell(place, "runs longer than ten minutes")
        if done.returncode:
            return tell(place, f"ends with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr}")
        return done.stdout


def check_quote(place, name, text):
    path = ROOT / name
    if not path.is_file():
        tell(place, f"quotes {name}, which is not there")
    elif text.strip("\n") not in path.read_text():
        tell(place, f"these lines do not stand in {name} any more")


def check_fences(page):
    for number, words, _ in blocks(page):
        if words[:1] == ["text"] and words[1:2] not in (["same"], ["some"], ["alike"]):
            tell(f"{page.relative_to(ROOT)}:{number}", "nobody checks this block: write ```text same, some or alike")


def check_code(page, compiler):
    name = page.relative_to(ROOT)
    pieces, edits = PROLOGUE, {number for number, *_ in guide.edits(page)}
    for number, wrong_edit in guide.check(page, ROOT):
        tell(f"{name}:{number}", wrong_edit)
    for number, words, text in blocks(page):
        place = f"{name}:{number}"
        if words[:1] == ["text"] or number in edits:
            continue
        if len(words) > 1:
            check_quote(place, words[1], text)
        elif words not in (["c"], ["cpp"]):
            continue
        elif words[0] == "cpp" or re.search(r"^int main\(", text, re.M):
            compiler.compile(place, f'#line {number + 1} "{name}"\n{text}', words[0] == "cpp")
        else:
            pieces += f'#line {number + 1} "{name}"\n{text}'
    ending = ROOT / "tests/docs" / f"{page.stem}.c"
    if pieces != PROLOGUE and ending.is_file():
        pieces += f'#line 1 "{ending.relative_to(ROOT)}"\n{ending.read_text()}'
        compiler.compile(name, pieces, is_cpp=False)
    elif pieces != PROLOGUE:
        tell(name, f"its pieces of code are never run: {ending.relative_to(ROOT)} is missing")


def check_python(page, compiler):
    """The Python of a page as one program: each piece keeps its line numbers."""
    text, name = "", page.relative_to(ROOT)
    for number, words, piece in blocks(page):
        if words == ["python"]:
            text += "\n" * (number - text.count("\n")) + piece + "\n"
    if "import weft" not in text:
        return
    if not compiler.o.package:
        print(f"{name}: its Python does not run: this build has no package")
        return
    program = compiler.folder / f"{page.stem}.py"
    program.write_text(text)
    compiler.run(name, "env", f"PYTHONPATH={compiler.o.package}", compiler.o.python, str(program))
    compiler.count += 1


def table_lines(page):
    """(line, code) of every row of the tables that promise one."""
    in_table = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        cells = [c.strip() for c in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            in_table = False
        elif cells[-1] == "a line that runs":
            in_table = True
        elif in_table and set(cells[-1]) != set("-"):
            code = re.findall(r"`([^`]+)`", cells[-1])
            if not code:
                tell(f"{page.relative_to(ROOT)}:{number}", "a row without a line that runs")
            yield from ((number, c) for c in code)


def check_lines(page, compiler):
    """C lines of tables in one program, shell lines and blocks in one script: both say which line is wrong."""
    name = page.relative_to(ROOT)
    frame, start = (ROOT / "tests/docs" / (page.stem + end) for end in ("_lines.c", ".sh"))
    lines = list(table_lines(page))
    c = [(n, text) for n, text in lines if not text.startswith(SHELL)]
    sh = [(n, text) for n, text in lines if text.startswith(SHELL)]
    sh += [(n, text) for n, words, text in blocks(page) if words == ["sh"]]
    if c:
        made = "".join(f'#line {n} "{name}"\nLINE({n}{k:03}, {text})\n' for k, (n, text) in enumerate(c))
        made += "static const struct {\n    const char *text;\n    void (*run)(place *p);\n} lines[] = {\n"
        made += "".join(f"    {{{json.dumps(text)}, line_{n}{k:03}}},\n" for k, (n, text) in enumerate(c)) + "};\n"
        (compiler.folder / "lines.h").write_text(made)
        compiler.compile(name, frame.read_text(), is_cpp=False)
    if page.stem in LONG or EMULATED:
        print(f"{name}: its shell lines do not run {'under qemu' if EMULATED else 'with WEFT_TEST_QUICK'}")
    elif start.is_file() and compiler.o.graphtool:
        made = "".join(f"echo '{name}:{n}'\n{text}\n" for n, text in sorted(sh))
        (compiler.folder / "lines.sh").write_text(start.read_text() + made)
        compiler.run(name, "bash", "-e", "lines.sh")
    elif any(text.startswith(SHELL) for _, text in lines) and not start.is_file():
        tell(name, f"its shell lines are never run: {start.relative_to(ROOT)} is missing")
    compiler.count += len(c) + len(sh)


def shown_pattern(line, is_alike):
    """A shown line as a pattern: "..." is anything; what is another machine's (libraries' scratch, instruction sets, and the widths of
    columns that hold them) is not compared."""
    gap, isas = ("( )+", " +") if is_alike else ("( ){2,}", "  +"), "(sse2|plain|avx2|avx512)"

    def plain(text):
        text = re.sub(r"(?<=fingerprint )[0-9a-f]{16}|0x[0-9a-f]+(:\d+)?", "\0", text)
        text = re.sub(rf"\b{isas}\b", "\2", text)
        text = re.sub(r"\d[\d.:]*", "\1", text) if is_alike else text
        text = re.sub(gap[0].replace(" ", r"\\ "), gap[1], re.escape(text))
        return text.replace("\0", "[0-9a-fx:]+").replace("\1", "[0-9.:]+").replace("\2", isas)
    return re.compile(".*".join(plain(part) for part in re.sub(r" \.\.\.$", "...", line.rstrip()).split("...")))


def check_shown(place, how, shown, printed):
    """Follows all ways of reading "...": `places` holds how many printed lines may have been read so far."""
    printed, places = [line.rstrip() for line in printed], {0}
    for line in shown:
        if line.strip() == "..." or how == "some":
            places = set(range(min(places), len(printed) + 1))
        if line.strip() == "...":
            continue
        pattern, before = shown_pattern(line, how == "alike"), min(places)
        places = {at + 1 for at in places if at < len(printed) and pattern.fullmatch(printed[at])}
        if not places:
            there = printed[before] if before < len(printed) else "nothing more"
            return tell(place, f"is not what the command prints: {line}\n    but: {there}")


def check_commands(page, compiler, folder, library):
    """Blocks of what commands print, in a folder with models of the zoo; `library`: onednn2, onednn3 or ""."""
    start = ROOT / "tests/docs" / (page.stem + "_text.sh")
    before = start.read_text() if start.is_file() else ""
    for number, words, text in blocks(page):
        place, lines = f"{page.relative_to(ROOT)}:{number}", text.splitlines()
        if words[:1] != ["text"] or words[1:2] not in (["same"], ["some"], ["alike"]):
            continue
        if words[2:3] == ["onednn2"]:
            words = words[:2] + words[3:]
            if library != "onednn2":
                print(f"{place}: not compared with {library or 'no oneDNN'}")
                continue
        runs = [(" ".join(words[2:]), lines)] if len(words) > 2 else []
        for line in lines if len(words) == 2 else []:
            if line.startswith("$ "):
                runs.append((line[2:], []))
            else:
                runs[-1][1].append(line)
        for command, shown in runs:
            if EMULATED and not COMPILES.search(command):
                print(f"{place}: does not run under qemu: {command}")
                continue
            printed = compiler.run(place, "bash", "-c", before + command, folder=folder)
            if printed is not None and printed != NO_MPI:
                check_shown(place, words[1], shown, printed.splitlines())
            compiler.count += 1


def check_outputs(compiler, folder):
    """The documents are of optimized plans, which reference kernels alone do not have (WEFT_ISA=reference)."""
    (folder / "out").mkdir()
    made = "for m in mlp dcgan28 convnet gpt gpt2_124m; do weft-zoo $m -o $m.bin; done; cp dcgan28.bin out/; graphtool plan mlp.bin; graphtool plan mlp.bin --json"
    plan = compiler.run("weft-zoo", "bash", "-ec", made, folder=folder) or ""
    if ", reference," in plan.partition("\n")[0]:
        return print("what commands print is not compared: plans of reference kernels are not optimized")
    version = re.search(r'"name": "onednn",\s*"version": "(\d)', plan)
    for page in pages():
        check_commands(page, compiler, folder, "onednn" + version[1] if version else "")


def check_links(page):
    for number, text in broken_links(page):
        tell(f"{page.relative_to(ROOT)}:{number}", text)


def check_ops(graphtool):
    """docs/ops.md is made by a program: it must be what that program makes today."""
    made = subprocess.run([graphtool, "ops", "--markdown"], capture_output=True, text=True, check=True).stdout
    if (ROOT / "docs/ops.md").read_text() != made:
        tell("docs/ops.md", "is not what graphtool makes: run tools/dev.sh docs")


def check_estimates(graphtool):
    """docs/cuda.md: a step's launches, bytes and expected time. Whoever changes a plan commits the new numbers."""
    zoo = str(Path(graphtool).parent / "weft-zoo")
    done = subprocess.run([ROOT / "tools/scripts/estimates.py", graphtool, zoo, ROOT / "docs/cuda.md", "--check"],
                          capture_output=True, text=True)
    if done.returncode:
        tell("docs/cuda.md", done.stderr.strip())


def check_precisions(graphtool):
    """The table of docs/precision.md: every op that is not of the rule f32 is in its row, and in no other."""
    made = subprocess.run([graphtool, "ops", "--json"], capture_output=True, text=True, check=True).stdout
    rules = {op["name"]: op["precision"] for op in json.loads(made)["ops"]}
    rows = dict(re.findall(r"^\| `(reduced|follows|f32)` \| (.*) \|$", (ROOT / "docs/precision.md").read_text(), re.M))
    for rule, row in rows.items():
        named = set(re.findall(r"`(\w+)`", row))
        wanted = {name for name, r in rules.items() if r == rule}
        for name in named - wanted:
            tell("docs/precision.md", f"{name} is not of the rule {rule}")
        for name in wanted - named if rule != "f32" else ():
            tell("docs/precision.md", f"{name} is missing in the row {rule}")
    if set(rows) != set(rules.values()):
        tell("docs/precision.md", "its table lacks a rule")


def check_folders():
    """tests/README.md has a row for each folder, and none for what is gone."""
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "tests/README.md").read_text(), re.M)
    named = {name.rstrip("/") for row in rows for name in re.findall(r"`([^`]+)`", row)}
    tests = ROOT / "tests"
    there = {str(p.relative_to(tests)) for p in [*tests.iterdir(), *(tests / "support").iterdir()] if p.is_dir()}
    for name in sorted(name for name in there - named if not name.endswith("__pycache__")):
        tell("tests/README.md", f"has no row for {name}")
    for name in sorted(named - there):
        tell("tests/README.md", f"has a row for {name}, which is not there")


def check_passes():
    """The list of passes stands in two documents."""
    table = (ROOT / "runtime/compile.c").read_text().split("pass pipeline[] = {")[1].split("};")[0]
    passes = re.findall(r'\{"(\w+)"', table)
    sentence = re.search(r"as it is after a pass: ([^.]*)\.", (ROOT / "docs/graphtool.md").read_text())
    if not sentence or re.split(r",\s+", sentence.group(1)) != passes:
        tell("docs/graphtool.md", f"its passes are not those of runtime/compile.c: {', '.join(passes)}")
    rows = (ROOT / "docs/concepts.md").read_text().split("| pass | does |")[1].split("\n\n")[0]
    if re.findall(r"^\| (\w+) \|", rows, re.M) != passes:
        tell("docs/concepts.md", f"its table of passes is not that of runtime/compile.c: {', '.join(passes)}")


def check_commands_of(graphtool):
    """docs/graphtool.md has a section for each subcommand; what documents call `--name` is an option of one, or of OTHERS."""
    page = (ROOT / "docs/graphtool.md").read_text()
    table = json.loads(subprocess.run([graphtool, "--table"], capture_output=True, text=True, check=True).stdout)
    for command in table["commands"]:
        if not re.search(rf"^## {command['name']}\b", page, re.M):
            tell("docs/graphtool.md", f"has no section '## {command['name']}'")
    options = {o["name"] for command in table["commands"] for o in command["options"]} | OTHERS
    for page in [p for p in pages() if p.parent in (ROOT, ROOT / "docs", ROOT / "docs/from")]:
        for name in re.findall(r"`--([a-z][a-z0-9-]+)", re.sub(r"(?ms)^```.*?^```", "", page.read_text())):
            if name not in options:
                tell(page.relative_to(ROOT), f"--{name} is not an option of graphtool")


def source_texts():
    """All strings of the sources, those that stand side by side as one; "…" for what printf fills in."""
    found = []
    for folder in "graph", "ops", "runtime", "dist", "interchange", "tools":
        for file in sorted((ROOT / folder).rglob("*.[ch]")):
            for run in re.findall(r'(?:"(?:[^"\\\n]|\\.)*"\s*(?:PRI\w+\s*)?)+', file.read_text()):
                text = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', run))
                found.append(re.sub(r"%[-+ #0-9.*]*(?:hh|h|ll|l|z|j)?[a-zA-Z]", "…", text))
    return "\n".join(found)


def rows_under(page, head):
    """(line, cells) of each row of the tables with this head."""
    inside = False
    for number, line in enumerate(page.read_text().split("\n"), 1):
        cells = [c.strip() for c in line.split("|")[1:-1]]
        inside = bool(cells) and (inside or cells[:len(head)] == head)
        if inside and cells[:len(head)] != head and not set(line) <= set("|-: "):
            yield number, cells


def check_messages(page, texts):
    for number, cells in rows_under(page, ["message"]):
        for piece in re.findall(r"[^…]+", "…".join(re.findall(r"`([^`]*)`", cells[0]))):
            if len(piece.strip(" :,")) > 3 and piece.strip(" :,") not in texts:
                tell(f"{page.relative_to(ROOT)}:{number}", f"the sources print no '{piece.strip()}'")


# What the page for the person on call has all messages of, except for wrong arguments of a program's own calls.
ON_CALL = ["runtime/checkpoint/*.c", "runtime/train/checkpoints.c", "runtime/session/cuda/*.c", "dist/*/*.c",
           "tools/graphtool/cmd/launch.c", "tools/graphtool/ranks/lost.c"]
OWN_CALLS = {"dist/core/collective.c", "dist/core/comm.c", "dist/core/comm_options.c", "dist/core/compare.c", "dist/nccl/move.c"}


def check_covered(page):
    """Of each error of these sources a piece stands in a row of the page."""
    shown = "\n".join("…".join(re.findall(r"`([^`]*)`", cells[0])) for _, cells in rows_under(page, ["message"]))
    pieces = [p.strip(" :,") for p in re.split("[…\n]", shown) if len(p.strip(" :,")) > 8]
    for file in sorted(f for pattern in ON_CALL for f in ROOT.glob(pattern)):
        for strings in re.findall(r'\berror_set\([^;"]*((?:"(?:[^"\\\n]|\\.)*"\s*(?:PRI\w+\s*)?)+)', file.read_text()):
            text = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', strings))
            text = re.sub(r"%[-+ #0-9.*]*(?:hh|h|ll|l|z|j)?[a-zA-Z]", "…", text)
            words = [w.strip(" :,") for w in text.split("…") if len(w.strip(" :,")) > 3]
            is_own = str(file.relative_to(ROOT)) in OWN_CALLS or text.startswith("weft_")
            if words and not is_own and not any(w in shown for w in words) and not any(p in text for p in pieces):
                tell(str(page.relative_to(ROOT)), f"no row has '{text}' of {file.relative_to(ROOT)}")


def check_promises(page):
    suites = {p.stem for p in (ROOT / "tests").rglob("*_*.*")}
    suites |= set(re.findall(r"add_test\(NAME (\w+)", (ROOT / "cmake/tests.cmake").read_text()))
    parts = set(re.findall(r"^(\w+) +\w+ +\w+ +\d+ ", (ROOT / "tools/nightly.sh").read_text(), re.M))
    for number, cells in rows_under(page, ["promise", "shown by"]):
        names = re.findall(r"`([^`]*)`", cells[1])
        for name in names:
            known = name.split()[-1] in parts | suites or (ROOT / name.split()[0]).exists()
            if not known:
                tell(f"{page.relative_to(ROOT)}:{number}", f"there is no {name}")
        if not names:
            tell(f"{page.relative_to(ROOT)}:{number}", "a promise that nothing shows")


def check_contents():
    """docs/README.md links every page."""
    text = (ROOT / "docs/README.md").read_text()
    for page in sorted((ROOT / "docs").rglob("*.md")):
        name = page.relative_to(ROOT / "docs")
        if page.name != "README.md" and f"({name})" not in text:
            tell("docs/README.md", f"has no row for {name}")


def check_measured():
    """The README measures nothing: its table is the first of docs/benchmarks.md, with other names of the models."""
    def first_table(name):
        rows = re.findall(r"^\|(?! *:?-)(.*)\|$", (ROOT / name).read_text().split("|---|---:|", 1)[1].split("\n\n")[0], re.M)
        return [[cell.strip(" *") for cell in row.split("|")[1:]] for row in rows]
    if first_table("README.md") != first_table("docs/benchmarks.md"):
        tell("README.md", "its measured table is not the first one of docs/benchmarks.md")


def check_road_row(place, caller, file, function, met):
    if not (ROOT / file).is_file():
        tell(place, f"there is no {file}")
        return
    if not re.search(rf"^[\w][\w *]*\b{function}\(", (ROOT / file).read_text(), re.M):
        tell(place, f"{file} has no function {function}")
    name, by_table = caller.removesuffix(", by a table"), caller.endswith(", by a table")
    if name == "your program":
        if not any(re.search(rf"\b{function}\(", h.read_text()) for h in (ROOT / "include/weft").glob("*.h")):
            tell(place, f"{function} is not public: a program cannot call it")
    elif name not in met:
        tell(place, f"{name}, the caller, is in no row before")
    elif not by_table and not re.search(rf"\b{function}\b", (ROOT / name).read_text()):
        tell(place, f"{name} does not call {function}")


def check_roads(page):
    met = None
    for number, line in enumerate(page.read_text().splitlines(), 1):
        cells = [c.strip() for c in line.strip("|").split("|")] if line.startswith("|") else []
        if cells[:3] == ["called by", "file", "function"]:
            met = set()
        elif not cells:
            met = None
        elif met is not None and not cells[0].startswith("---"):
            caller, file, function = cells[:3]
            check_road_row(f"{page.relative_to(ROOT)}:{number}", caller, file, function.strip("`"), met)
            met.add(file)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--prefix", required=True)
    options.add_argument("--graphtool")
    options.add_argument("--python", help="one that has what the package needs")
    options.add_argument("--package", help="the folder of the package weft")
    options.add_argument("--cc", default="cc")
    options.add_argument("--cxx", default="c++")
    options.add_argument("--flags", default="", help="for the compiler, as the library was built: sanitizers")
    o = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        compiler = Compiler(o, folder)
        for page in pages():
            check_links(page)
            check_fences(page)
            check_code(page, compiler)
            check_python(page, compiler)
            check_lines(page, compiler)
        if o.graphtool:
            shown = Path(folder) / "shown"
            shown.mkdir()
            check_outputs(compiler, shown)
    check_passes()
    check_measured()
    check_contents()
    texts = source_texts()
    check_covered(ROOT / "docs/operations.md")
    for page in pages():
        check_roads(page)
        check_messages(page, texts)
        check_promises(page)
    check_folders()
    if o.graphtool:
        check_ops(o.graphtool)
        check_commands_of(o.graphtool)
        check_precisions(o.graphtool)
        check_estimates(o.graphtool)
    print("\n".join(wrong) if wrong else f"{len(pages())} pages, {compiler.count} pieces of code")
    return 1 if wrong else 0


if __name__ == "__main__":
    if os.environ.get("WEFT_TEST_ISA") == "reference":
        print("skipped: with reference kernels the trainings of the documents take hours")
        sys.exit(77)
    sys.exit(main())
