"""The shared libraries: where they are, and how their errors become exceptions."""
import itertools
import re
from pathlib import Path

from ._abi import ffi
from ._words import in_python, words_of

NULL = ffi.NULL
ZERO = -1e-300  # WEFT_ZERO: a true 0 where 0 stands for a default


class Error(Exception):
    """An error of Weft. Its text is one line: where, what, the rule, the way out. `status` is its kind: "shape", "name", "data" ..."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


Error.__module__ = "weft"


class _Libraries:
    """The functions and numbers of all libraries by their C names."""

    def __init__(self):
        numbers = ffi.dlopen(None)
        self._version = [getattr(numbers, f"WEFT_VERSION_{part}") for part in ("MAJOR", "MINOR", "PATCH")]
        self._opened = []  # one that is dropped is unloaded
        self.open("libweft")
        self.open("libweft_train")

    def open(self, name):
        """Opens a library of the package's folder lib/, else one that the system's loader finds: its functions are attributes then."""
        name = "{}.so.{}.{}".format(name, *self._version)
        beside = Path(__file__).parent / "lib" / name
        try:
            self._opened.append(ffi.dlopen(str(beside) if beside.exists() else name))
        except OSError as why:
            raise ImportError(f"weft: {why}. It belongs into {beside.parent}") from None

    def __getattr__(self, name):
        for library in self._opened:
            try:
                found = getattr(library, name)
            except (AttributeError, ffi.error):
                continue
            setattr(self, name, found)  # the next time there is no search
            return found
        raise AttributeError(f"libweft has no {name}")


lib = _Libraries()
__version__ = ffi.string(lib.weft_version()).decode()
if __version__ != "{}.{}.{}".format(*lib._version):
    raise ImportError("weft: the library is {}, but the package was made for {}.{}.{}".format(__version__, *lib._version))


# ---- words ----

# Element types as NumPy and torch call them.
DTYPES = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32", "int8": "i8", "uint8": "u8",
          "uint16": "u16", "uint32": "u32", "bool": "bool"}
# What else they are called elsewhere.
MEANT = {"half": "f16", "fp16": "f16", "float": "f32", "single": "f32", "fp32": "f32", "double": "f64", "fp64": "f64", "bfloat": "bf16", "bfp16": "bf16", "bf_16": "bf16",
         "long": "i64", "int": "i32", "byte": "u8"}
_words: dict = {}


def word(type_name, value):
    """The number of a word of an enum: word("weft_reduction", "sum")."""
    if type_name not in _words:
        _words[type_name] = words_of(type_name, ffi)
    words = _words[type_name]
    # numpy.dtype("float32") and torch.float32 are "f32" here.
    key = str(value).lower().replace("-", "_")
    if type_name == "weft_dtype":
        key = getattr(value, "__name__", key).removeprefix("torch.")  # numpy.float32 is a class
        key = DTYPES.get(key, key)
    if key in words:
        return words[key]
    if isinstance(value, int) and not isinstance(value, bool) and value in words.values():
        return value
    from ._structs import near
    meant = MEANT.get(key) if type_name == "weft_dtype" else near(key, list(words))
    raise Error("argument", f"{value!r} is not one of: {', '.join(words)}" + (f": did you mean {meant}?" if meant else ""))


def dtype_word(number):
    """The word of an element type by its number: "f32"."""
    return string(lib.weft_dtype_name(number))


STATUSES = {number: name for name, number in words_of("weft_status", ffi).items()}


# ---- errors ----

_raised: dict = {}  # what Python functions raised while C called them, by number; the newest 8
_numbers = itertools.count(1)


def described(why):
    """An exception as a line for C."""
    try:
        said = f"{type(why).__name__}: {why}"
    except Exception:
        said = type(why).__name__
    return said.split("\n")[0].replace("\0", " ")[:150]


def keep_raised(why):
    """Keeps an exception that C is told of, and returns the text for C. It is raised again where C returns that text to Python."""
    number = next(_numbers)
    _raised[number] = why
    while len(_raised) > 8:
        del _raised[min(_raised)]
    return f"Python exception {number}: {described(why)}"


def raised_mark():
    """A number for forget_raised()."""
    return next(_numbers)


def forget_raised(mark):
    """Forgets the exceptions since then, whose tracebacks would keep alive what they came through."""
    for number in [n for n in _raised if n >= mark]:
        _raised.pop(number, None)


def check(status, error):
    """Raises what a call of C has written into its weft_error."""
    if not status:
        return
    says = string(error.text)
    found = re.search(r"Python exception (\d+): ", says)
    why = _raised.pop(int(found[1]), None) if found else None
    if why is not None:
        forget_raised(int(found[1]))  # of the same call: a hook may raise at each point
        try:
            raise why
        finally:
            del why  # else this frame, which its traceback has, would keep it
    raise Error(STATUSES[status], in_python(says))


def callback(signature, function, failed):
    """A function of C that calls a Python one. What that raises, and what a signal's handler raises as it begins, goes to failed(text, arguments),
    where `arguments` are those of the call, in order; its result is returned to C."""
    names = function.__code__.co_varnames[:function.__code__.co_argcount]  # Python before 3.11 lists captured arguments last in f_locals

    def onerror(kind, why, trace):
        found = trace.tb_frame.f_locals if trace else {}
        return failed(keep_raised(why.with_traceback(trace)), {n: found[n] for n in names if n in found})
    return ffi.callback(signature, function, onerror=onerror)


def failing(said, arguments):
    """`failed` of a callback that returns a status and whose last argument is `error`."""
    if "error" in arguments:
        lib.weft_error_set(arguments["error"], lib.WEFT_DATA, text(said))
    return lib.WEFT_DATA


def call(function, *arguments):
    """Calls a C function that returns a status, and whose last argument is a weft_error."""
    error = ffi.new("weft_error *")
    check(function(*arguments, error), error)


def make(function, *arguments):
    """Calls a C function that returns a pointer, or NULL after filling its last argument, a weft_error."""
    error = ffi.new("weft_error *")
    made = function(*arguments, error)
    if made == NULL:
        check(error.status or lib.WEFT_MEMORY, error)
    return made


def text(value):
    """A text for C; None is NULL."""
    if value is None:
        return NULL
    encoded = str(value).encode("utf-8", "surrogateescape")
    if b"\0" in encoded:
        raise Error("argument", f"{value!r} has a NUL character")
    return ffi.new("char[]", encoded)


def string(value):
    """A text of C."""
    return None if value == NULL else ffi.string(value).decode(errors="replace")


def each(at):
    """What at(0), at(1), ... return until one is false or NULL, as lists of C are read."""
    i = 0
    while found := at(i):
        yield found
        i += 1


def taken(value):
    """A text that C has made for its caller, who frees it."""
    if value == NULL:
        raise Error("memory", "out of memory")
    try:
        return string(value)
    finally:
        lib.weft_text_free(value)
