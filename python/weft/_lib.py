"""The shared libraries: where they are, and how their errors become exceptions."""
from pathlib import Path

from ._abi import ffi

NULL = ffi.NULL


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

def words_of(type_name):
    """The words of an enum and their numbers: {"sum": 0, "mean": 1}."""
    names = ffi.typeof(type_name).relements
    # "WEFT_RANKS_SUM" and "WEFT_RANKS_MEAN" have "WEFT_RANKS_" before the words.
    first, last = min(names), max(names)
    same = next((i for i in range(len(first)) if first[i] != last[i]), 0)
    begin = first.rindex("_", 0, same) + 1
    return {name[begin:].lower(): number for name, number in sorted(names.items(), key=lambda item: item[1])}


_words: dict = {}


def word(type_name, value):
    """The number of a word of an enum: word("weft_reduction", "sum")."""
    if type_name not in _words:
        _words[type_name] = words_of(type_name)
    words = _words[type_name]
    # numpy.dtype("float32") and torch.float32 are "f32" here.
    key = str(value).lower().replace("-", "_")
    if type_name == "weft_dtype":
        key = key.removeprefix("torch.")
        key = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32", "int8": "i8",
               "uint8": "u8", "uint16": "u16", "uint32": "u32"}.get(key, key)
    if key in words:
        return words[key]
    if isinstance(value, int) and value in words.values():
        return value
    raise Error("argument", f"{value!r} is not one of: {', '.join(words)}")


STATUSES = {number: name for name, number in words_of("weft_status").items()}


# ---- errors ----

_raised: list = []  # what Python functions raised while C called them, with the text that C got: (exception, text); the newest 16


def keep_raised(why, error):
    """Gives C an exception as an error: its status. It is raised again where C returns that error to Python."""
    said = f"{type(why).__name__}: {why}".split("\n")[0][:200]
    del _raised[:-15]
    _raised.append((why, said))
    return lib.weft_error_set(error, lib.WEFT_DATA, text(said))


def check(status, error):
    """Raises what a call of C has written into its weft_error."""
    if not status:
        return
    says = string(error.text)
    for i, (why, said) in enumerate(_raised):
        if said in says:
            del _raised[i]
            raise why
    raise Error(STATUSES[status], says)


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
    return NULL if value is None else ffi.new("char[]", str(value).encode())


def string(value):
    """A text of C."""
    return None if value == NULL else ffi.string(value).decode(errors="replace")


def taken(value):
    """A text that C has made for its caller, who frees it."""
    if value == NULL:
        raise Error("memory", "out of memory")
    try:
        return string(value)
    finally:
        lib.weft_text_free(value)
