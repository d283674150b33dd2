#!/usr/bin/env python3
"""check_rows.py - a thing is said once: what lists and documents repeat of it is held against its one row, reported as
PLACE: RULE, with the line to add where one is missing.

  rules       each rule of a check (G, K, L, S, V and a number) is stated on top of one file, is used in no other and named by
              a mutant of the tests; verify.h and docs/concepts.md have the file's line (--write makes them)
  ops         all are declared by ops/kit/ops.h, from ops/list.h, and have files of their names; each public builder has its
              line in here.h, each op that is not always f32 its place in docs/precision.md (--write makes both)
  optimizers  the names in ops/optimizer/list.h are spelt out by the file of their update op alone, and in train.h (--write)
  options     each row of graph/settings/ddp_list.h is a field of weft_ddp_options and in the tables of the documents
  blocks      constants of ops/cpu/ that are greater than any axis of test_simd_sweep's forms have nodes of their own there
  commands    a subcommand of graphtool is its file and its line; it takes options that there are

    check_rows.py [--write]
"""
import argparse
import math
import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ("graph", "ops", "dist", "runtime", "interchange")

wrong = []


def tell(place, rule):
    wrong.append(f"{place}: {rule}")


def read(name):
    return (ROOT / name).read_text()


def sources(*folders, suffixes=(".c", ".h")):
    """Names of sources, sorted."""
    found = [p for folder in folders for p in (ROOT / folder).rglob("*") if p.suffix in suffixes]
    return sorted(str(p.relative_to(ROOT)) for p in found)


def rows_of(name):
    """The first words of the X(...) lines of a list."""
    return re.findall(r"^X\((\w+)", read(name), re.M)


# ---- rules of checks ----

RULE = re.compile(r"^ \*   ([GKLSV]\d+) +(.*(?:\n \*       .*)*)", re.M)


def order_of(code):
    return "GVKLS".index(code[0]), int(code[1:])


def find_rules():
    """{code: (file, sentence)} of the heads of the files."""
    told = {}
    for name in sources("graph", "runtime", suffixes=(".c",)):
        text = read(name)
        for code, sentence in RULE.findall(text):
            if code in told:
                tell(name, f"rule {code} is another one in {told[code][0]}")
            told[code] = name, re.sub(r"\s*\n \*\s*", " ", sentence).strip()
        for code in re.findall(r'"([GKLSV]\d+)(?:: [^"]*)?"', text):
            if not re.search(rf"^ \*   {code}  ", text, re.M):
                tell(name, f"rule {code} is not among those on top of the file")
    return dict(sorted(told.items(), key=lambda rule: order_of(rule[0])))


def check_mutants(rules):
    mutants = " ".join(m for name in sources("tests", suffixes=(".c",)) for m in re.findall(r'"([GKLSV]\d[^"]*)"', read(name)))
    for code, (name, _) in rules.items():
        if not re.search(rf"\b{code}\b", mutants):
            tell(name, f"rule {code} has no mutant in the tests")


def spans(codes):
    """"L1-L3, L6, L10" of their numbers."""
    parts = []
    for code in sorted(codes, key=order_of):
        number = int(code[1:])
        if parts and parts[-1][0] == code[0] and parts[-1][2] == number - 1:
            parts[-1][2] = number
        else:
            parts.append([code[0], number, number])
    return ", ".join(f"{k}{a}" if a == b else f"{k}{a}, {k}{b}" if b == a + 1 else f"{k}{a}-{k}{b}" for k, a, b in parts)


def check_verify_header(rules, write):
    header = read("runtime/verify/verify.h")
    for name in sorted({name for name, _ in rules.values()}):
        codes = spans([code for code, rule in rules.items() if rule[0] == name])
        short = name.removeprefix("runtime/verify/").removeprefix("runtime/")
        if re.search(rf"^ \*     {re.escape(short)} +{codes}  ", header, re.M):
            continue
        old = re.search(rf"^( \*     {re.escape(short)} +)[GKLSV][^ ]*(?:, [GKLSV][^ ]*)*(?=  )", header, re.M)
        if write and old:
            header = header.replace(old[0], old[1] + codes)
            (ROOT / "runtime/verify/verify.h").write_text(header)
        else:
            tell("runtime/verify/verify.h", f"its list needs the line\n *     {short:<17} {codes}  WHAT THEY ARE OF")


def rules_table():
    """A row for each line of the list in verify.h."""
    lines = ["| rules | are about | stated in |", "|---|---|---|"]
    rows = re.findall(r"^ \*     (\S+\.c) +([GKLSV]\S*(?:, [GKLSV]\S*)*)  (.*)$", read("runtime/verify/verify.h"), re.M)
    for short, codes, about in sorted(rows, key=lambda row: order_of(re.match(r"\w\d+", row[1])[0])):
        name = next(n for n in (short, f"runtime/verify/{short}", f"runtime/{short}") if (ROOT / n).is_file())
        lines.append(f"| {codes} | {about} | `{name}` |")
    return "\n".join(lines) + "\n"


def check_rules_table(write):
    page = ROOT / "docs/concepts.md"
    text, table = page.read_text(), rules_table()
    head = "| rules | are about | stated in |\n"
    if head not in text:
        return tell("docs/concepts.md", f"it needs a table that begins with {head.strip()}")
    begin = text.index(head)
    end = text.index("\n\n", begin) + 1
    if write:
        page.write_text(text[:begin] + table + text[end:])
    elif text[begin:end] != table:
        missing = [line for line in table.splitlines() if line not in text[begin:end].splitlines()]
        tell("docs/concepts.md", "its rules are not those of runtime/verify/verify.h (tools/dev.sh docs writes them); it lacks\n"
             + "\n".join(missing))


# ---- ops ----


def check_externs():
    for file in sources(*LIBRARY, "tools", "tests", suffixes=(".c", ".h", ".cu", ".cuh", ".cpp")):
        if file not in ("graph/core/op.h", "graph/settings/minimize.h", "ops/kit/ops.h") and re.search(r"extern const weft_op weft_op_", read(file)):
            tell(file, 'declares an op by hand: #include "ops/kit/ops.h"')


TARGETS = {"weft_value": "VALUE", "weft_graph": "GRAPH", "weft_model": "MODEL"}


def here_lines():
    """A builder notes its caller's line by a macro of its own name, if its first argument says in which model."""
    for header in ("ops.h", "layers.h"):
        text = re.sub(r"/\*.*?\*/", "", read(f"include/weft/{header}"), flags=re.S)
        for name, arguments in re.findall(r"(?:weft_value \*|int )(weft_\w+)\(([^;]*)\);", text):
            first = re.match(r"(\w+) \*(\w+)(,|$)", arguments)
            says = first and first[1] in TARGETS
            if "weft_value *const *" in arguments and not says:  # what its first value says
                yield f"#define {name}(...) {name}_at(__FILE__, __LINE__, __VA_ARGS__)"
            if not says:
                continue
            target = TARGETS[first[1]]
            if first[3]:
                yield f"#define {name}(...) {name}(WEFT_{target}_HERE(__VA_ARGS__))"
            else:
                yield f"#define {name}({first[2]}) {name}(WEFT_HERE_{target}({first[2]}))"


def check_here(write):
    lines, before = read("include/weft/here.h").splitlines(), None
    for line in here_lines():
        if "_at(__FILE__" in line:
            if line not in lines:
                tell("include/weft/here.h", f"lacks the line, and the function {line.split()[2].split('(')[0]}\n{line}")
            continue
        if line not in lines and write and before:
            lines.insert(lines.index(before) + 1, line)
        elif line not in lines:
            tell("include/weft/here.h", f"lacks the line (tools/dev.sh docs writes it)\n{line}")
        before = line if line in lines else before
    if write:
        (ROOT / "include/weft/here.h").write_text("\n".join(lines) + "\n")


def precision_row(rule, ops):
    """| `reduced` | linalg: `matmul` `linear`; image: `conv2d` |: ops in the list's order, by their folders."""
    families = {}
    for name in rows_of("ops/list.h"):
        folder, own = ops.get(name, (None, "f32"))
        if own == rule:
            families.setdefault(folder, []).append(f"`{name}`")
    return f"| `{rule}` | " + "; ".join(f"{folder}: " + " ".join(names) for folder, names in families.items()) + " |"


def macros_in(text):
    return dict(re.findall(r"^#define (\w+)\b(.*?[^\\])$", text, re.M | re.S))


def with_macros(text, macros):
    """The text, then what the macros that it uses say."""
    used = [name for name in dict.fromkeys(re.findall(r"\w+", text)) if name in macros]
    rest = {name: body for name, body in macros.items() if name not in used}
    return text + "".join("\n" + with_macros(macros[name], rest) for name in used)


def ops_in(text, shared):
    """(name, what says how it is made, whether it is a row) of each op of a file: a struct, or a row of a family,
    MACRO(name, ...) or MACRO(NAME, ...) of an op NAME_backward; `shared` has the macros of headers."""
    macros = {**shared, **macros_in(text)}
    made = re.findall(r"^const weft_op weft_op_(\w+) = \{(.*?)^\};", text, re.M | re.S)
    ops = [(name, with_macros(body, macros), False) for name, body in made]
    for row, macro, name in re.findall(r"^(([A-Z][A-Z_]+)\((\w+),.*(?:\n .*)*)$", text, re.M):
        body = with_macros(row, macros)
        if "const weft_op weft_op_##" in body:
            ops.append((name + ("_backward" if "(NAME##_backward," in macros[macro] else ""), body, True))
    return ops


def all_ops():
    """The same of all files, with the file."""
    shared = {}
    for file in sources("ops", suffixes=(".h",)):
        shared.update(macros_in(read(file)))
    for file in sources("ops", suffixes=(".c",)):
        for op in ops_in(read(file), shared):
            yield file, *op


def check_precisions(write):
    """What its struct says of an op that does not always run in f32 is in a table of the documents."""
    ops = {}
    for file, name, body, _ in all_ops():
        rule = re.search(r"\bPRECISION_(\w+)", body)
        ops[name] = Path(file).parent.name, rule[1].lower() if rule else "f32"
    page = read("docs/precision.md")
    for rule in ("reduced", "follows"):
        row, old = precision_row(rule, ops), re.search(rf"^\| `{rule}` \| .*$", page, re.M)
        if not old:
            tell("docs/precision.md", f"its table lacks the row {rule}")
        elif write:
            page = page.replace(old[0], row)
        elif old[0] != row:
            tell("docs/precision.md", f"its row {rule} is another (tools/dev.sh docs writes it):\n{row}")
    if write:
        (ROOT / "docs/precision.md").write_text(page)


def check_op_files():
    """Each line of the list has its file."""
    names = rows_of("ops/list.h")
    defined, rows = {}, set()
    for file, name, _, is_row in all_ops():
        defined[name] = file
        rows |= {name} if is_row else set()
    for name in sorted(set(defined) - set(names)):
        tell("ops/list.h", f"lacks the line\nX({name})")
    for name, file in defined.items():
        if Path(file).stem != name and name not in rows and Path(file).stem not in defined:
            tell(file, f"op {name} is in a file of another name")


# ---- optimizers ----


def check_optimizers(write):
    names, header = rows_of("ops/optimizer/list.h"), read("include/weft/train.h")
    made = {"moving_mean"}  # by builders alone
    old = re.search(r"    /\*\* Capitals do not matter.*? \*/\n", header, re.S)[0]
    words = "Capitals do not matter. One of weft_define_optimizer(), or " + ", ".join(f'"{name}"' for name in names if name not in made)
    line = "    /** " + "\n     * ".join(textwrap.wrap(words, 100)) + " */\n"
    if write:
        (ROOT / "include/weft/train.h").write_text(header.replace(old, line))
    elif old != line:
        tell("include/weft/train.h", f"weft_optimizer needs these lines (tools/dev.sh docs writes them)\n{line}")
    for file in sources(*LIBRARY):
        text = read(file)
        own = re.findall(r"^const optimizer_kind optimizer_(\w+) =", text, re.M)
        for name in names:
            # amsgrad is a flag of adam too
            if re.search(rf'(?<!, )"{name}"', text) and name not in own:
                tell(file, f'"{name}" is spelt out: only the file of optimizer_{name} may')
        for op in set(re.findall(r"weft_op_(\w+_update)\b", text)):
            if not file.startswith("ops/"):
                tell(file, f"names {op}: what is to be known of an optimizer is in its row")


# ---- options of subgraphs ----

PUBLIC = {"bf16_wire": "wire"}  # an option in text: the field of weft_ddp_options


def check_ddp():
    fields = re.search(r"typedef struct weft_ddp_options \{(.*?)\n\}", read("include/weft/ddp.h"), re.S)[1]
    fields = set(re.findall(r"(\w+);", re.sub(r"/\*.*?\*/", "", fields, flags=re.S)))
    names = rows_of("graph/settings/ddp_list.h")
    for name in sorted(fields - {PUBLIC.get(n, n) for n in names}):
        tell("graph/settings/ddp_list.h", f"there is no row of weft_ddp_options.{name}")
    for name in names:
        public = PUBLIC.get(name, name)
        if public not in fields:
            tell("include/weft/ddp.h", f"weft_ddp_options lacks {public}")
        row = re.search(r"^\| `subgraphs\[\]` \|.*bucket.*$", read("docs/graphtool.md"), re.M)
        if not row or f"`{public}`" not in row[0]:
            tell("docs/graphtool.md", f"the row `subgraphs[]` of the plan's JSON lacks `{public}`")
        if not re.search(rf"^\|.*\b{public}\b", read("docs/distribution.md"), re.M):
            tell("docs/distribution.md", f"no table has {public}")
        for file in sources("runtime/verify"):
            if re.search(rf"ddp\.{name} == \w+\.{name}\b", read(file)):
                tell(file, f"compares {name} by hand: rule L20 compares all that the list has")


# ---- passes ----


def write_passes():
    """The sentence of graphtool.md that names them all; test_docs.py holds it against compile.c too."""
    table = read("runtime/compile.c").split("pass pipeline[] = {")[1].split("};")[0]
    passes, page = re.findall(r'\{"(\w+)"', table), read("docs/graphtool.md")
    said = re.search(r"as it is after a pass: ([^.]*)\.", page)
    if re.split(r",\s+", said[1]) == passes:
        return
    old = re.search(r"^`--dump` prints the whole plan.*?\n\n", page, re.M | re.S)[0]
    new = old.replace(said[1], ", ".join(passes))
    wrapped = textwrap.fill(new, 132, break_long_words=False, break_on_hyphens=False) + "\n\n"
    (ROOT / "docs/graphtool.md").write_text(page.replace(old, wrapped))


# ---- subcommands ----


def check_commands():
    """Each is a file and a line; what it takes are options that there are, and each option is taken by one."""
    files = {p.stem for p in (ROOT / "tools/graphtool/cmd").glob("*.c")}
    names = rows_of("tools/graphtool/cmd/list.h")
    for name in sorted(files ^ set(names)):
        tell("tools/graphtool/cmd/list.h", f"lacks the line\nX({name})" if name in files else f"{name} has no file")
    compiled = re.findall(r'^OPTION\(.*?"([\w-]+)",\s+(?:0|\'\w\'),\s+(?:NULL|"[^"]*"),\s+([A-Z]+),', read("runtime/plan/compile_list.h"),
                          re.M | re.S)
    header = read("tools/graphtool/options/options.h")
    groups = {group: " ".join(option for option, of in compiled if of == group)
              for group in re.findall(r'^#define ([A-Z]+)\s+"@', header, re.M)}
    groups |= {name: groups.get(group, "") + " " + words
               for name, group, words in re.findall(r'^#define (OPTIONS_\w+)\s+([A-Z]*) ?"([^"]*)"', header, re.M)}
    options = re.findall(r'^    (?:FLAG_|TEXT_)?ROW\("([\w-]+)", ', read("tools/graphtool/options/option_table.c"), re.M) + [o for o, _ in compiled]
    taken = {"help"}
    for name in sorted(files & set(names)):
        row = re.search(r"\.options =(.*?),\n", read(f"tools/graphtool/cmd/{name}.c"), re.S)[1]
        words = [w for part in re.findall(r'OPTIONS_\w+|"[^"]*"', row) for w in groups.get(part, part.strip('"')).split()]
        for word in words:
            if word not in options or words.count(word) > 1:
                tell(f"tools/graphtool/cmd/{name}.c", f"takes --{word} twice" if word in options else f"there is no --{word}")
        taken |= set(words)
    for option in options:
        if option not in taken:
            tell("tools/graphtool/options/option_table.c", f"no command takes --{option}")
    for file in sources("tools"):
        for name in re.findall(r"\bFOR_[A-Z]\w*", read(file)):
            tell(file, f"{name}: what a command takes is in its own row")


# ---- blocks of the CPU's kernels ----


def constants(text):
    """(name, value) in the enums of a file; values are numbers and products."""
    known = {}
    for body in re.findall(r"\benum \{(.*?)\}", re.sub(r"/\*.*?\*/", "", text, flags=re.S), re.S):
        for name, value in re.findall(r"(\w+) = (\w+(?: \* \w+)*)", body):
            factors = [int(f) if f.isdigit() else known.get(f, 0) for f in value.split(" * ")]
            known[name] = math.prod(factors)
    return known.items()


def check_blocks():
    """What kernels cut axes by is a number of an enum; tests/ops/test_simd_sweep.c has axes of LONGER, and rows for more."""
    sweep = read("tests/ops/test_simd_sweep.c")
    longer = dict(constants(sweep))["LONGER"]
    rows = set(re.findall(r'"(\w+\.[ch] [A-Z_]+)"', sweep))
    there = {f"{Path(file).name} {name}": file for file in sources("ops/cpu") for name, n in constants(read(file))
             if n > longer and "BYTES" not in name}
    for row in sorted(there.keys() - rows):
        tell(there[row], f"no node goes past {row.split()[1]}: a row of `longest` in tests/ops/test_simd_sweep.c")
    for row in sorted(rows - there.keys()):
        tell("tests/ops/test_simd_sweep.c", f"there is no constant {row} of more than {longer}")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", action="store_true", help="writes what is made from rows: lines of here.h, tables of the documents")
    o = options.parse_args()
    rules = find_rules()
    check_mutants(rules)
    check_verify_header(rules, o.write)
    check_rules_table(o.write)
    check_externs()
    check_here(o.write)
    check_precisions(o.write)
    check_op_files()
    check_optimizers(o.write)
    check_ddp()
    check_blocks()
    check_commands()
    if o.write:
        write_passes()
    print("\n".join(wrong) if wrong else "every thing is said once")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
