#!/usr/bin/env python3
"""binding.py - a program in Python: the declarations of weft.h, read by a machine, are all that it takes.

    binding.py PREFIX LIBRARY [CC]      an installed Weft, and its libweft.so
"""
import ctypes as C
import re
import subprocess
import sys

WORDS = {"int": C.c_int, "unsigned": C.c_uint, "double": C.c_double, "float": C.c_float, "bool": C.c_bool, "_Bool": C.c_bool, "void": None,
         "size_t": C.c_size_t, "char": C.c_char, **{f"{u}int{b}_t": getattr(C, f"c_{u}int{b}") for u in ("", "u") for b in (8, 16, 32, 64)}}


def declarations(prefix, cc):
    """weft.h without the macros of here.h, bodies and attributes."""
    text = subprocess.run([cc, "-E", "-P", "-DWEFT_HERE_H", "-I", f"{prefix}/include", f"{prefix}/include/weft/weft.h"],
                          capture_output=True, text=True, check=True).stdout
    return re.sub(r"\s+", " ", re.sub(r"__attribute__ ?\(\((?:[^()]|\([^()]*\))*\)\)", "", text))


class Weft:
    def __init__(self, prefix, library, cc="cc"):
        self.library, text = C.CDLL(library), declarations(prefix, cc)
        vars(self).update((name, int(number)) for name, number in re.findall(r"\b(WEFT_\w+) = (\d+)", text))
        WORDS.update((name, C.c_int) for name in re.findall(r"typedef enum \w+ \{[^}]*\} (weft_\w+);", text))
        for body, name in re.findall(r"typedef struct \w+ \{([^{}]*)\} (weft_\w+);", text):
            WORDS[name] = type(name, (C.Structure,), {"_fields_": [f for line in body.split(";") if line.strip() for f in self.fields(line)]})
            setattr(self, name, WORDS[name])
        for result, name, arguments in re.findall(r"((?:const )?\w+ \**)(weft_\w+)\(([^()]*)\);", text):
            function = getattr(self.library, name, None)  # NULL: of libweft_train or libweft_mpi
            if function:
                function.restype = self.type_of(result)
                function.argtypes = [self.type_of(re.sub(r"\w+$", "", a) if " " in a else a) for a in arguments.split(",") if a.strip() != "void"]
                setattr(self, name, function)

    def type_of(self, words, lengths=""):
        """A C type: texts are bytes, other pointers and functions addresses."""
        word, stars = re.sub(r"\b(const|struct|enum)\b", "", words).replace("*", " ").split()[0], words.count("*") + ("[" in words)
        kind = C.c_char_p if word == "char" and stars == 1 and "const" in words else C.c_void_p if stars else WORDS[word]
        for n, less in reversed(re.findall(r"\[(\w+)(?: - (\d+))?\]", lengths)):
            kind = kind * ((int(n) if n.isdigit() else getattr(self, n)) - int(less or 0))
        return kind

    def fields(self, line):
        if "(*" in line:
            return [(re.search(r"\(\*(\w+)\)", line)[1], C.c_void_p)]
        words, name, lengths = re.match(r"(.*?)(\w+)((?:\[[^\]]+\])*)$", line.strip()).groups()
        return [(name, self.type_of(words, lengths))]


def check_own_op(w, at, error):
    """An op whose kernel is in Python: x + more."""
    def add_more(run):
        x, y = run.contents.operands[0], run.contents.results[0]
        into, source = (C.cast(t.data, C.POINTER(C.c_float)) for t in (y, x))
        more = C.cast(run.contents.reals, C.POINTER(C.c_double))[0]
        for i in range(x.type.shape[0]):
            into[i] = source[i] + more
        return w.WEFT_OK

    kernel = C.CFUNCTYPE(C.c_int, C.POINTER(w.weft_op_run))(add_more)
    ops = w.weft_op_set_new(None, at)
    more = w.weft_op_numbers(reals=(w.weft_op_real * 8)(w.weft_op_real(b"more", 1)))
    definition = w.weft_op_definition(name=b"python.add", n_operands=1, numbers=more, kernel=C.cast(kernel, C.c_void_p))
    assert w.weft_define_op(ops, C.byref(definition), at) == w.WEFT_OK, error.text
    model = w.weft_model_new_in(b"m", C.byref(w.weft_env(ops=ops)))
    x = w.weft_input(w.weft_graph_new(model, b"g", w.WEFT_EVAL), b"x", w.WEFT_F32, 1, (C.c_int64 * 1)(4))
    w.weft_output(w.weft_call_op(b"python.add", 1, (C.c_void_p * 1)(x), None), b"y")
    plan = w.weft_compile(model, None, at)
    store = w.weft_store_new(plan, 1, at)
    session = w.weft_session_open(plan, store, at)
    data, y = (C.c_float * 4)(1, 2, 3, 4), (C.c_float * 4)()
    feed = w.weft_feed(b"x", C.cast(data, C.c_void_p), C.sizeof(data))
    fetch = w.weft_fetch(b"y", C.cast(y, C.c_void_p), C.sizeof(y))
    assert w.weft_run(session, b"g", C.byref(feed), 1, C.byref(fetch), 1, at) == w.WEFT_OK, error.text
    assert list(y) == [2, 3, 4, 5], list(y)
    w.weft_session_close(session), w.weft_store_free(store), w.weft_plan_free(plan), w.weft_model_free(model), w.weft_op_set_free(ops)


def main():
    w = Weft(*sys.argv[1:])
    error = w.weft_error()
    at = C.byref(error)
    model = w.weft_model_new(b"line")
    graph = w.weft_graph_new(model, b"train", w.WEFT_TRAIN)
    x = w.weft_input(graph, b"x", w.WEFT_F32, 2, (C.c_int64 * 2)(8, 1))
    y = w.weft_linear(x, 1, b"line", None)
    loss = w.weft_mse(y, w.weft_scale(x, 3), None)
    w.weft_output(loss, b"loss")
    w.weft_minimize(loss, b"line", C.byref(w.weft_optimizer(type=b"sgd", lr=0.5)))
    plan = w.weft_compile(model, C.byref(w.weft_compile_options(threads=1)), at)
    store = w.weft_store_new(plan, 1, at)
    session = w.weft_session_open(plan, store, at)
    data, value = (C.c_float * 8)(*[i / 4 - 1 for i in range(8)]), C.c_float()
    feed = w.weft_feed(b"x", C.cast(data, C.c_void_p), C.sizeof(data))
    fetch = w.weft_fetch(b"loss", C.cast(C.byref(value), C.c_void_p), C.sizeof(value))
    for _ in range(100):
        assert w.weft_run(session, b"train", C.byref(feed), 1, C.byref(fetch), 1, at) == w.WEFT_OK, error.text
    assert value.value < 1e-4, value
    w.weft_session_close(session), w.weft_store_free(store), w.weft_plan_free(plan)
    w.weft_model_at(model, b"binding.py", 83)  # the place of all calls until the next one
    assert not w.weft_add(x, w.weft_constant(graph, w.WEFT_F32, 2, (C.c_int64 * 2)(3, 3), 0))
    wrong = C.cast(w.weft_model_error(model), C.POINTER(w.weft_error)).contents.text.decode()
    assert wrong.startswith("binding.py:83: ") and "do not broadcast" in wrong, wrong
    later = w.weft_compile_options(reserved=(C.c_uint64 * 8)(1))
    assert not w.weft_compile(model, C.byref(later), at)
    w.weft_model_free(model)
    check_own_op(w, at, error)
    print(f"weft {w.weft_version().decode()}: loss {value.value:.1e}; {wrong}")


if __name__ == "__main__":
    main()
