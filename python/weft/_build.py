"""Calls of builders: Python values become those of C, the caller's line is noted, and an error of the model is raised."""
import operator
import os
import sys

from ._lib import NULL, ZERO, Error, check, ffi, lib, text as _text, word as _word  # noqa: F401 (for _ops)
from ._structs import structure

BATCH = -2**63  # WEFT_BATCH
_RESULT = object()  # an argument into which the function writes a further value
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_files: dict = {}  # names of files, which C does not copy
at = None           # (file, line) of a call that an importer makes for a line of a module, or None


def place():
    """File and line of the call in the program: the first frame outside of this package, or the line of the module that is imported."""
    if at is not None:
        return _file(at[0]), at[1]
    frame = sys._getframe(1)
    while frame and (frame.f_code.co_filename.startswith(_HERE) or frame.f_globals.get("__name__") == "contextlib"):
        frame = frame.f_back
    if not frame:
        return NULL, 0
    return _file(frame.f_code.co_filename), frame.f_lineno


def _file(name):
    if name not in _files:
        _files[name] = ffi.new("char[]", os.fsencode(name))
    return _files[name]


def failed(model):
    """Raises the model's error, which it then no longer has."""
    error = ffi.new("weft_error *")
    check(lib.weft_model_take_error(model.pointer, error), error)


class _Held:
    """A pointer, and what it points to."""

    def __init__(self, pointer, keep):
        self.pointer, self.keep = pointer, keep


def _options(name, axes=None, **values):
    keep = []
    return _Held(structure(name, values, keep, axes), keep)


def _values(values):
    values = list(values)
    for v in values:
        if v is not None and not isinstance(v, _value_type()):
            raise Error("argument", f"a list of values has a {type(v).__name__}")
    return len(values), _Held(ffi.new("weft_value *[]", [NULL if v is None else v.pointer for v in values] or 1), values)


def number(n):
    if isinstance(n, str) and n == "batch":
        return BATCH
    try:
        if not isinstance(n, bool):
            return operator.index(n)
    except TypeError:
        pass
    raise Error("argument", f"{n!r} is not a whole number" + (", or \"batch\"" if isinstance(n, str) else ""))


def _numbers(numbers):
    if numbers is None:
        return 0, NULL
    numbers = [number(n) for n in (numbers if isinstance(numbers, (tuple, list)) else [numbers])]
    return len(numbers), (ffi.new("int64_t[]", numbers) if numbers else NULL)


def _pairs(numbers):
    """Numbers of which C counts pairs: {before, after} of each axis."""
    count, numbers = _numbers(numbers)
    if count % 2:
        raise Error("argument", f"{count} numbers, not pairs of before and after")
    return count // 2, numbers


def _array(numbers):
    return _numbers(numbers)[1]


def _permutation(axes, x):
    if len(axes) != x.ndim:
        raise Error("argument", f"permute: {len(axes)} axes for {x.ndim} axes of the value")
    return ffi.new("int64_t[]", [int(a) for a in axes])


def _end(end):
    return 2**63 - 1 if end is None else number(end) if isinstance(end, str) else end


def _eps(eps):
    return 0 if eps is None else ZERO if eps == 0 else eps


def _value_type():
    from .model import Value
    return Value


def _note_place(arguments):
    """Notes the program's line by the first value or graph, and returns the graph."""
    from .model import Graph, Value
    for a in arguments:
        if isinstance(a, _Held) and isinstance(a.keep, list):
            a = next((v for v in a.keep if isinstance(v, Value)), a)
        if isinstance(a, Value):
            lib.weft_at(a.pointer, *place())
            return a.graph
        if isinstance(a, Graph):
            lib.weft_graph_at(a.pointer, *place())
            return a
    raise Error("argument", "there is no value among the arguments: what is built belongs to a graph")


def _call(name, arguments, results):
    from .model import Graph, Value
    graph = _note_place(arguments)
    into = iter(results)
    given = []
    for a in arguments:
        if a is _RESULT:
            given.append(next(into))
        elif a is None:
            given.append(NULL)
        elif isinstance(a, (Value, Graph, _Held)):
            given.append(a.pointer)
        else:
            given.append(a)
    try:
        return graph, getattr(lib, name)(*given)
    except (TypeError, OverflowError) as why:
        raise Error("argument", f"{name.removeprefix('weft_')}: {why}") from None


def _build(name, *arguments):
    """Calls a builder: the value that it returns, or a tuple where it gives further values."""
    from .model import Value
    results = [ffi.new("weft_value **") for a in arguments if a is _RESULT]
    graph, made = _call(name, arguments, results)
    if made == NULL:
        failed(graph.model)
    values = [Value(p, graph) if p != NULL else None for p in [made] + [r[0] for r in results]]
    return tuple(values) if results else values[0]


def _parts(name, n, *arguments):
    """Calls a builder that fills a list of n values."""
    from .model import Value
    parts = ffi.new("weft_value *[]", n)
    graph, count = _call(name, (*arguments, _Held(parts, None)), [])
    if count == 0:
        failed(graph.model)
    return [Value(parts[i], graph) for i in range(count)]
