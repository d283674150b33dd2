#!/usr/bin/env python3
"""generate.py - makes the parts of the package that the C headers say: nothing of them is written twice.

    generate.py INCLUDE INTO [--cc cc]

INCLUDE is the folder of weft/*.h. In the folder INTO it writes
  _abi.py   every type and function, for cffi: what is compiled from the headers is compared with the library when it loads
  _ops.py   a Python function for each builder of the headers OPS, with the header's comment as its docstring
  _fields.py   the comments of all fields of structures, and of hooks and evaluators
  __init__.pyi what type checkers see of the package
"""
import argparse
import importlib.util
import keyword
import re
import subprocess
import tempfile
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

OPS = ("ops.h", "layers.h", "collectives.h", "preprocess.h")  # headers whose functions build values
NOT_PUBLIC = ("here.h", "weft.h")             # macros of C, and the list of the headers

# What C leaves to the caller, and PyTorch has a default for: by parameter, and by function and parameter.
DEFAULTS = {"keep": "False", "include_self": "True", "accumulate": "False", "group": "None", "transpose_a": "False", "transpose_b": "False", "descending": "False", "largest": "True",
            "reverse": "False", "relu": "False", "eps": "None", "correction": "1", "diagonal": "0", "axes": "None"}
DEFAULTS_OF = {
    "leaky_relu": {"slope": "0.01"}, "softplus": {"beta": "1", "threshold": "20"}, "elu": {"alpha": "1"}, "hardtanh": {"min": "-1", "max": "1"},
    "vector_norm": {"p": "2"}, "concat": {"axis": "0"}, "stack": {"axis": "0"}, "split": {"axis": "0"}, "chunk": {"axis": "0"},
    "unbind": {"axis": "0"}, "flatten": {"first_axis": "0"}, "slice": {"begin": "0", "end": "None"}, "topk": {"axis": "-1"},
    "sort": {"axis": "-1"}, "argsort": {"axis": "-1"}, "dropout": {"p": "0.5"}, "random_uniform": {"low": "0", "high": "1"},
    "random_normal": {"mean": "0", "std": "1"}, "arange": {"step": "1"}, "cosine_similarity": {"axis": "1"}, "normalize": {"axis": "1"},
    "all_reduce": {"how": '"sum"'}, "all_gather": {"axis": "0"}, "reduce_scatter": {"axis": "0", "how": '"sum"'}, "broadcast": {"root": "0"},
    "permute": {"axes": ""}, "flip": {"axes": ""}, "constant_pad": {"value": "0"}, "spectral_norm": {"axis": "0", "iterations": "1"}, "weight_norm": {"axis": "0"},
}
MAY_BE_NULL = {"linear_op": "b", "conv2d_op": "b", "conv1d_op": "b", "conv3d_op": "b", "conv_transpose2d_op": "b", "conv_transpose1d_op": "b",
               "conv_transpose3d_op": "b", "layer_norm_op": "w b", "rms_norm_op": "w", "group_norm_op": "w b", "instance_norm_op": "w b",
               "batch_norm_op": "w b", "lstm_op": "h0 c0", "gru_op": "h0 b", "rnn_op": "h0", "preprocess": "draws"}


@dataclass
class Parameter:
    type: str
    name: str


@dataclass
class Function:
    result: str
    name: str
    parameters: list
    doc: str
    header: str


@dataclass
class Structure:
    name: str
    fields: list = field(default_factory=list)  # (type, name, length or "", comment)


# ---- reading headers ----

def comment(text):
    """The sentences of a comment."""
    text = re.sub(r"^/\*\*<?|\*/$", "", text.strip())
    return re.sub(r"\n[ \t]*\*[ ]?", "\n", text).strip()


def parameters(text):
    found = []
    for part in (p.strip() for p in text.split(",")):
        if part and part != "void":
            # An array parameter is a pointer, as in C.
            m = re.fullmatch(r"(.*?)(\w+)(\[\w*\])?", part, re.S)
            found.append(Parameter(" ".join(m[1].split()) + (" *" if m[3] else ""), m[2]))
    return found


FUNCTION = re.compile(r"(?P<before>/\*\*(?:(?!\*/).)*\*/\s*)?WEFT_API\s+(?P<result>[\w ]+?[\s*]+)(?P<name>weft_\w+)\((?P<parameters>[^;]*)\);"
                      r"(?P<after>[ \t]*/\*\*<(?:(?!\*/).)*\*/)?", re.S)
STRUCTURE = re.compile(r"typedef struct (weft_\w+) \{(.*?)\n\} \1;", re.S)
FIELD = re.compile(r"(?:/\*\*(?!<)(?P<before>(?:(?!\*/).)*)\*/\s*)?(?P<type>[\w ]+?[\s*]+(?:const \*)?)(?P<name>\w+)(?P<array>\[[^;]*\])?;"
                   r"(?:\s*/\*\*<(?P<after>(?:(?!\*/).)*)\*/)?", re.S)


def functions_of(header):
    text = header.read_text()
    found = []
    for m in FUNCTION.finditer(text):
        if "(*" in m["parameters"]:
            given = []  # a function that takes a function: wrapped by hand
        else:
            given = parameters(m["parameters"])
        found.append(Function(" ".join(m["result"].split()), m["name"], given, comment(m["after"] or m["before"] or ""), header.name))
    return found


def structures_of(header):
    found = {}
    for name, body in STRUCTURE.findall(header.read_text()):
        s = Structure(name)
        for m in FIELD.finditer(re.sub(r"/\*\* @[{}].*?\*/|/\*\* @name.*?\*/", "", body, flags=re.S)):
            s.fields.append((" ".join(m["type"].split()), m["name"], m["array"] or "", " ".join(comment(m["after"] or m["before"] or "").split())))
        found[name] = s
    return found


# ---- _abi.py ----

def declarations(include, cc):
    """What the headers declare, as cffi reads it."""
    with tempfile.TemporaryDirectory() as folder:
        for empty in ("stdbool.h", "stddef.h", "stdint.h", "stdio.h"):
            Path(folder, empty).write_text("")
        headers = sorted(p.name for p in include.glob("weft/*.h") if p.name not in NOT_PUBLIC)
        source = Path(folder, "all.c")
        source.write_text("".join(f'#include "weft/{h}"\n' for h in headers))
        text = subprocess.run([cc, "-E", "-P", "-nostdinc", "-isystem", folder, "-I", str(include), str(source)], check=True,
                              capture_output=True, text=True).stdout
    text = re.sub(r"__attribute__\s*\(\(.*?\)\)(?=[\s;])", "", text)
    numbers = re.findall(r"^#define (WEFT_[A-Z0-9_]+) +(-?\d+)$", "\n".join(h.read_text() for h in include.glob("weft/*.h")), re.M)
    return "typedef struct _IO_FILE FILE;\n" + text + "".join(f"\n#define {name} {number}" for name, number in numbers)


def write_abi(include, cc, into):
    import cffi
    ffi = cffi.FFI()
    ffi.set_source("weft._abi", None)
    ffi.cdef(declarations(include, cc))
    ffi.emit_python_code(str(into))


# ---- _ops.py ----

def annotation(kind, array=""):
    """The Python type of a C parameter or field."""
    kind = kind.replace("const ", "").strip()
    if kind in ("int", "int64_t", "uint64_t", "size_t", "unsigned"):
        return "int | Sequence[int]" if array else "int"
    if kind == "double":
        return "float | Sequence[float]" if array else "float"
    return {"bool": "bool", "char *": "str", "weft_value *": "Value", "weft_graph *": "Graph", "weft_init *": "Init", "int64_t *": "int",
            "weft_dtype": "DType"}.get(kind, "str" if not kind.endswith("*") else "object")


def python_name(name):
    return name + "_" if keyword.iskeyword(name) else name


def signature(f, structures):
    """The parameters of the Python function, and the arguments of the C function as Python expressions."""
    short = f.name.removeprefix("weft_")
    first, last, arguments, results, docs = [], [], [], 0, []
    optional = MAY_BE_NULL.get(short, "").split()
    i = 0

    def take(name, kind, default=None):
        default = default if default is not None else DEFAULTS_OF.get(short, {}).get(name, DEFAULTS.get(name))
        first.append((python_name(name), kind + (" | None" if default == "None" else ""), default or None))
        return python_name(name)

    while i < len(f.parameters):
        p = f.parameters[i]
        after = f.parameters[i + 1] if i + 1 < len(f.parameters) else None
        struct = re.fullmatch(r"const (weft_\w+) \*", p.type)
        if p.type == "int" and after and after.type == "weft_value *const *":
            arguments.append(f"*_values({take(after.name, 'Sequence[Value]')})")
            i += 1
        elif p.type == "int" and after and after.type == "const int64_t *":
            counted = "_pairs" if after.name == "pads" else "_numbers"
            arguments.append(f"*{counted}({take(after.name, 'Sequence[int]' if f.result == 'int' else 'Numbers')})")
            i += 1
        elif p.type == "const int64_t *":
            # Of `axes` there is one for each axis of the value, of others as many as C reads.
            made = f"_permutation({{}}, {first[0][0]})" if p.name == "axes" else "_array({})"
            arguments.append(made.format(take(p.name, "Sequence[int]")))
        elif p.type == "weft_value **":
            arguments.append("_RESULT")
            results += 1
        elif p.type == "weft_value *":
            arguments.append(take(p.name, "Value", "None" if p.name in optional else None))
        elif struct and struct[1] in structures:
            fields = [x for x in structures[struct[1]].fields if x[1] != "reserved" and not re.search(r"_d?hw$", x[1])]
            only = re.search(r"Options?: ([\w, ]+)\.", f.doc)
            if only:  # of a structure that several builders share
                fields = [x for x in fields if x[1] in only[1].split(", ")]
            axes = f"axes={first[0][0]}.ndim - 2, " if any("[3]" in x[2] or "[2]" in x[2] for x in fields) else ""
            pairs = {y[1].removesuffix("_hw") for y in structures[struct[1]].fields if y[1].endswith("_hw")}
            last += [f"{python_name(x[1])}: {annotation(x[0], x[2] or x[1] in pairs)} | None = None" for x in fields]
            docs += [(x[1], x[3]) for x in fields if x[3]]
            arguments.append(f'_options("{struct[1]}", {axes}' + ", ".join(f"{x[1]}={python_name(x[1])}" for x in fields) + ")")
        elif p.type == "double" and p.name == "eps":
            arguments.append(f"_eps({take(p.name, 'float')})")
        elif p.type in ("int64_t", "double") and p.name == "end":
            arguments.append(f"_end({take(p.name, annotation(p.type))})")
        elif p.type.startswith("weft_") and not p.type.endswith("*"):
            arguments.append(f'_word("{p.type}", {take(p.name, annotation(p.type))})')
        elif p.type == "const char *":
            arguments.append(f"_text({take(p.name, 'str')})")
        else:
            arguments.append(take(p.name, annotation(p.type)))
        i += 1
    if short in ("var", "std"):  # torch.var(x, dim, *, correction, keepdim)
        first.sort(key=lambda x: ("x", "axes", "correction", "keep").index(x[0]))
    # Python wants parameters without a default first; the order is C's otherwise.
    ordered = [f"{n}: {t}" for n, t, d in first if d is None] + [f"{n}: {t} = {d}" for n, t, d in first if d is not None]
    if last:
        ordered += ["*"] + last
    return ordered, arguments, results, docs


# Functions that fill a list of values and return how many: how long the list is.
LISTS = {"split": "len(sizes)", "chunk": "n", "unbind": "n"}
BY_HAND = {"constant_tensor"}  # takes memory: model.py has it


def in_docstring(doc):
    return doc.replace("\\", "\\\\").replace('"""', "'''")


def beside(path, name):
    """A module by its file, without the package around it."""
    spec = importlib.util.spec_from_file_location(name, path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def words(headers, abi):
    """A function (comment of C) -> the same in Python's words, by weft/_words.py."""
    _words = beside(Path(__file__).parent / "weft" / "_words.py", "_words")
    fields = {name: {f[1]: "" for f in s.fields} for h in headers for name, s in structures_of(h).items()}
    ops = {f.name.removeprefix("weft_") for h in headers if h.name in OPS for f in functions_of(h)}
    names = _words.Names(beside(abi, "_abi").ffi, fields, ops)
    return lambda doc: _words.documented(doc, names)


def function_text(f, structures, in_python):
    short = f.name.removeprefix("weft_")
    names, arguments, results, docs = signature(f, structures)
    further = [p.name for p in f.parameters if p.type == "weft_value **" and f.result != "int"]
    doc = re.sub(r"Returns (n|how many `parts` there are), or 0 after an error", "Returns a list", in_docstring(in_python(f.doc)))
    for name in further:
        doc = re.sub(rf"\*{name}\b", f"`{name}`", doc)
    if further:
        doc += "\nReturns a tuple of " + " and ".join(", ".join(["the result", *further]).rsplit(", ", 1)) + "."
    result = "list[Value]" if f.result == "int" else "Value" if not results else f"tuple[{', '.join(['Value'] * (results + 1))}]"
    text = f"def {python_name(short)}({', '.join(names)}) -> {result}:\n"
    body = doc + ("\n\n" + "\n".join("\n".join(textwrap.wrap(f"{n}: {in_docstring(in_python(d))}", 100, subsequent_indent="    ")) for n, d in docs) if docs else "")
    text += textwrap.indent(f'"""{body}"""', "    ") + "\n"
    if f.result == "int":
        text += f'    return _parts("{f.name}", {LISTS[short]}, {", ".join(a for a in arguments if a != "_RESULT")})\n'
    else:
        text += f'    return _build("{f.name}", {", ".join(arguments)})\n'
    return text


def write_ops(headers, into, in_python):
    structures = {}
    for h in headers:
        structures.update(structures_of(h))
    of_values, of_graphs, text = [], [], []
    for name in OPS:
        for f in functions_of(next(h for h in headers if h.name == name)):
            short = f.name.removeprefix("weft_")
            if short in BY_HAND or f.result not in ("weft_value *", "int"):
                continue
            text.append(function_text(f, structures, in_python))
            if f.parameters[0].type == "weft_value *":
                of_values.append(python_name(short))
            elif f.parameters[0].type == "weft_graph *":
                of_graphs.append(python_name(short))
    into.write_text('"""Made by generate.py from the headers of C: every op and layer."""\n'
                    "from __future__ import annotations\n\nfrom typing import TYPE_CHECKING\n\n"
                    "from ._build import _RESULT, _array, _build, _end, _eps, _numbers, _options, _pairs, _parts, _permutation, _text, _values, _word\n\n"
                    "if TYPE_CHECKING:\n    from typing import Sequence\n\n    from .model import DType, Graph, Init, Numbers, Value\n\n\n" + "\n\n".join(text) +
                    "\n\nclass OfValues:\n    \"\"\"The ops as methods of a value: x.relu() is relu(x).\"\"\"\n" +
                    "".join(f"    {n} = {n}\n" for n in of_values) +
                    "\n\nclass OfGraphs:\n    \"\"\"What begins in a graph, as methods of the graph.\"\"\"\n" +
                    "".join(f"    {n} = {n}\n" for n in of_graphs))
    return text


def write_stub(package, text, into):
    """What a type checker reads of the package: its __init__.py finds the ops when it runs."""
    source = (package / "__init__.py").read_text()
    imports = "".join(m[0] + "\n" for m in re.finditer(r"^from \.(?!_ops)\w+ import [\w, ]+", source, re.M))
    names = sorted(m for t in text for m in re.findall(r"^def (\w+)", t) if m not in ("rank", "world"))
    imports = re.sub(r"^(from \S+ import )(.*)$", lambda m: m[1] + ", ".join(f"{n} as {n}" if n != "*" else n for n in m[2].strip().split(", ")), imports, flags=re.M)
    into.write_text(imports + "from ._ops import (\n" + "".join(f"    {n} as {n},\n" for n in names) + ")\n")


def write_fields(headers, into, in_python):
    structures = {}
    for h in headers:
        structures.update(structures_of(h))
    into.write_text('"""Made by generate.py from the headers of C: what each field of a structure is."""\nFIELDS = {\n' +
                    "".join(f"    {s.name!r}: {{\n" + "".join(f"        {name!r}: {in_python(doc)!r},\n" for _, name, _, doc in s.fields if name != "reserved") +
                            "    },\n" for s in structures.values()) + "}\nFUNCTIONS = {\n" +
                    "".join(f"    {f.name!r}: {in_python(f.doc)!r},\n" for h in headers if h.name in ("hooks.h", "evaluator.h") for f in functions_of(h)) + "}\n\n# Numbers of which a 0 is no default: (structure, field).\nTAKES_ZERO = {\n" +
                    "".join(f"    ({s.name!r}, {name!r}),\n" for s in structures.values() for _, name, _, doc in s.fields if "WEFT_ZERO" in doc) + "}\n")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("include", type=Path)
    options.add_argument("into", type=Path)
    options.add_argument("--cc", default="cc")
    o = options.parse_args()
    headers = sorted(o.include.glob("weft/*.h"))
    write_abi(o.include, o.cc, o.into / "_abi.py")
    in_python = words(headers, o.into / "_abi.py")
    text = write_ops(headers, o.into / "_ops.py", in_python)
    write_stub(Path(__file__).parent / "weft", text, o.into / "__init__.pyi")
    write_fields(headers, o.into / "_fields.py", in_python)
    print(f"{len(text)} ops and layers")


if __name__ == "__main__":
    main()
