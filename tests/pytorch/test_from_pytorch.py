#!/usr/bin/env python3
"""test_from_pytorch.py - every row of docs/from/pytorch.md is true: its Weft code, compiled and run, gives what its
PyTorch expression gives (tests/golden/from_pytorch.json, made with --goldens where PyTorch is), and the page has a row
for every builder of ops.h and layers.h and for every op with a PyTorch name.

    test_from_pytorch.py --prefix FOLDER --graphtool FILE [--cc cc] [--flags "..."]   the test, without PyTorch
    test_from_pytorch.py --graphtool FILE                                             only whether the page is whole
    test_from_pytorch.py --goldens                                                    asks PyTorch again
"""
import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/from/pytorch.md"
GOLDENS = ROOT / "tests/golden/from_pytorch.json"
FRAME = ROOT / "tests/docs/pytorch_rows.c"
RANDOM = ("torch.rand", "F.dropout")  # of these only type and shape are compared
TOLERANCE = 2e-5


def real(k, scale=2.0):
    return lambda i: scale * math.sin(k + 0.7 * i)


# name: type, shape, element i
OPERANDS = {
    "x": ("f32", (4, 6), real(1)), "y": ("f32", (4, 6), real(2)), "z": ("f32", (4, 6), real(3)),
    "p": ("f32", (4, 6), lambda i: 0.5 + 0.45 * math.sin(4 + 0.7 * i)), "v": ("f32", (6,), real(5)),
    "m": ("bool", (4, 6), lambda i: i % 3 == 0), "n": ("bool", (4, 6), lambda i: i % 2 == 0),
    "i": ("i64", (4,), lambda i: (5 * i + 2) % 6), "k": ("i64", (4, 6), lambda i: (7 * i + 3) % 4),
    "a": ("f32", (6, 6), real(6)), "b": ("f32", (2, 4, 6), real(7)), "c": ("f32", (2, 6, 5), real(8)),
    "image": ("f32", (2, 4, 6, 6), real(9)), "signal": ("f32", (2, 4, 10), real(10)),
    "volume": ("f32", (2, 4, 4, 5, 6), real(12)),
    "q": ("f32", (2, 4, 5, 8), real(11)),
}
C_TYPES = {"f32": ("WEFT_F32", "float"), "bool": ("WEFT_BOOL", "unsigned char"), "i64": ("WEFT_I64", "int64_t")}


def elements(name):
    _, shape, of = OPERANDS[name]
    return [of(i) for i in range(math.prod(shape))]


def rows():
    """(line, PyTorch, Weft) of every row with two cells of code; rows of words only name functions."""
    for number, line in enumerate(PAGE.read_text().splitlines(), 1):
        found = re.fullmatch(r"\| `([^`]+)` \| `([^`]+)` \|", line)
        if found and found[2].endswith(")"):
            yield number, found[1], found[2]


# ---- PyTorch ----

def ask_torch():
    import torch

    def fill(module, _):
        """The outermost module gets the parameters that pytorch_rows.c gives."""
        if any(hasattr(p, "filled") for p in module.parameters()):
            return
        for p in module.parameters():
            p.data = torch.tensor([0.3 * math.sin(0.5 + 0.7 * i) for i in range(p.numel())],
                                  dtype=torch.float64).float().reshape(p.shape)
            p.filled = True
        met.append(module)

    torch.nn.modules.module.register_module_forward_pre_hook(fill)
    dtypes = {"f32": torch.float32, "bool": torch.bool, "i64": torch.int64}
    names = {"torch": torch, "F": torch.nn.functional, "nn": torch.nn}
    for name, (dtype, shape, _) in OPERANDS.items():
        names[name] = torch.tensor(elements(name), dtype=dtypes[dtype]).reshape(shape)
    goldens = {}
    for number, expression, _ in rows():
        met = []
        torch.manual_seed(0)
        try:
            got = eval(expression, dict(names))
        except Exception as error:
            sys.exit(f"{PAGE.name}:{number}: {expression}: {error}")
        goldens[expression] = {
            "values": [{"dtype": str(t.dtype).removeprefix("torch."), "shape": list(t.shape),
                        "values": [float(f"{v:.7g}") for v in t.detach().double().flatten().tolist()]}
                       for t in (got if isinstance(got, (tuple, list)) else [got])],
            "parameters": {n.replace(".", "/"): list(t.shape) for m in met for n, t in m.state_dict().items()
                           if "num_batches" not in n}}
    text = ",\n".join(f"{json.dumps(e)}: {json.dumps(g)}" for e, g in goldens.items())
    GOLDENS.write_text("{\n" + text + "\n}\n")
    print(f"{len(goldens)} rows in {GOLDENS.relative_to(ROOT)}")


# ---- Weft ----

def generate():
    """lines.h: the operands and a function for each row."""
    made = []
    for name, (dtype, shape, _) in OPERANDS.items():
        numbers = ", ".join(f"{v:.9e}f" if dtype == "f32" else str(int(v)) for v in elements(name))
        made.append(f"static const {C_TYPES[dtype][1]} {name}_data[] = {{{numbers}}};")
    made.append("static const operand operands[] = {")
    for name, (dtype, shape, _) in OPERANDS.items():
        axes = ", ".join(map(str, shape))
        made.append(f'{{"{name}", {C_TYPES[dtype][0]}, {len(shape)}, {{{axes}}}, {name}_data, sizeof {name}_data}},')
    made.append("};\ntypedef int row_function(weft_graph *g, weft_value **parts);")
    place = {name: i for i, name in enumerate(OPERANDS)}
    for number, _, code in rows():
        bare = re.sub(r'"[^"]*"', "", code)
        used = [n for n in OPERANDS if re.search(rf"(?<![\w.]){n}\b(?!\()", bare)]
        lines = "".join(f"weft_value *{n} = given(g, &operands[{place[n]}]);\n" for n in used)
        ends = f"return {code};" if "parts" in code else f"parts[0] = {code};\nreturn 1;"
        made.append(f'static int row_{number}(weft_graph *g, weft_value **parts) {{\n(void)g;\n{lines}'
                    f'#line {number} "{PAGE.relative_to(ROOT)}"\n{ends}\n}}')
    made.append("static const struct { int number; row_function *build; } rows[] = {")
    made += [f"{{{number}, row_{number}}}," for number, *_ in rows()]
    return "\n".join(made) + "\n};\n"


def run_weft(o, folder):
    sys.path.insert(0, str(ROOT / "tests/scripts"))
    import test_docs
    (Path(folder) / "lines.h").write_text(generate())
    compiler = test_docs.Compiler(o, folder)
    source, program = Path(folder) / "rows.c", Path(folder) / "rows"
    source.write_text(FRAME.read_text())
    command = [o.cc, "-std=c11", "-D_GNU_SOURCE", *test_docs.WARNINGS, *o.flags.split(), "-o", program, "-I", folder, source]
    done = subprocess.run([*command, *compiler.links], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"a row does not compile:\n{done.stderr[:4000]}")
    done = subprocess.run([program], capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(f"the rows do not run: {done.stderr}")
    return done.stdout


def printed(text):
    """Row number -> what it printed, as a golden is written."""
    got = {}
    for line in text.splitlines():
        number, kind, rest = line.split(" ", 2)
        row = got.setdefault(int(number), {"values": [], "parameters": {}})
        if kind == "parameter":
            name, shape = rest.rsplit(" ", 1)
            row["parameters"][name.split("/", 1)[-1]] = json.loads(shape)
        else:
            shape, _, values = rest.partition(" ")
            row["values"].append({"dtype": kind, "shape": json.loads(shape), "values": [float(v) for v in values.split()]})
    return got


def close(a, b, scale):
    return a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= TOLERANCE * max(1.0, scale)


def difference(code, want, got):
    if want["parameters"] != got["parameters"]:
        return f"parameters {got['parameters']}, PyTorch has {want['parameters']}"
    if len(want["values"]) != len(got["values"]):
        return f"{len(got['values'])} results, PyTorch has {len(want['values'])}"
    for w, g in zip(want["values"], got["values"]):
        if (w["dtype"], w["shape"]) != (g["dtype"], g["shape"]):
            return f"{g['dtype']}{g['shape']}, PyTorch has {w['dtype']}{w['shape']}"
        scale = max([abs(v) for v in w["values"] if math.isfinite(v)], default=0.0)
        wrong = [i for i, (a, b) in enumerate(zip(w["values"], g["values"])) if not close(a, b, scale)]
        if wrong and not code.startswith(RANDOM):
            return f"element {wrong[0]} is {g['values'][wrong[0]]}, PyTorch has {w['values'][wrong[0]]}"
    return None


# ---- the page is whole ----

def missing(graphtool):
    """Builders without a row, names of ops' PyTorch functions without one, functions named that are not there."""
    page = PAGE.read_text()
    headers = "".join(h.read_text() for h in sorted((ROOT / "include/weft").glob("*.h")))
    builders = re.findall(r"WEFT_API (?:weft_value \*|int )(weft_\w+)\(weft_(?:value|graph) \*|"
                          r"WEFT_API (?:weft_value \*|int )(weft_\w+)\(int n, weft_value",
                          "".join((ROOT / f"include/weft/{h}.h").read_text() for h in ("ops", "layers")))
    for name in sorted({a or b for a, b in builders} - set(re.findall(r"weft_\w+", page))):
        yield f"has no row for {name}"
    for name in sorted(set(re.findall(r"\bweft_\w+", page)) - set(re.findall(r"\bweft_\w+", headers))):
        yield f"names {name}, which no header has"
    ops = json.loads(subprocess.run([graphtool, "ops", "--json"], capture_output=True, text=True, check=True).stdout)["ops"]
    rows_of = " ".join(code for *_, code in rows()) + page
    for op in ops:
        builder = re.search(rf"\bweft_{op['name']}(_op|_with)?\b", rows_of)
        if op["torch"] and "." in op["torch"] and not builder and op["torch"].rsplit(".", 1)[-1].split("(")[0] not in page:
            yield f"has no row for the op {op['name']} ({op['torch']})"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--goldens", action="store_true")
    options.add_argument("--prefix")
    options.add_argument("--graphtool")
    options.add_argument("--cc", default="cc")
    options.add_argument("--cxx", default="c++")
    options.add_argument("--flags", default="")
    o = options.parse_args()
    if o.goldens:
        return ask_torch()
    goldens, wrong = json.loads(GOLDENS.read_text()), [f"{PAGE.relative_to(ROOT)}: {w}" for w in missing(o.graphtool)]
    if not o.prefix:
        print("\n".join(wrong))
        return 1 if wrong else 0
    with tempfile.TemporaryDirectory() as folder:
        got = printed(run_weft(o, folder))
    for number, expression, code in rows():
        if expression not in goldens:
            wrong.append(f"{PAGE.relative_to(ROOT)}:{number}: {expression} was not asked of PyTorch: run --goldens")
        elif (why := difference(expression, goldens[expression], got[number])):
            wrong.append(f"{PAGE.relative_to(ROOT)}:{number}: {code}: {why}")
    print("\n".join(wrong) if wrong else f"{len(got)} rows give what PyTorch gives")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
