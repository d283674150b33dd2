"""Structures of options from keywords: each field by its own name, whatever the structure."""
from ._fields import TAKES_ZERO
from ._lib import NULL, ZERO, Error, ffi, lib, text, word

# Fields that are given otherwise than C has them: (structure, field) -> function(structure pointer, value, keep).
SPECIAL: dict = {}


def structure(name, values, keep, axes=None):
    """A new structure `name *` whose fields are those of `values` that are not None. What it points to is added to `keep`."""
    made = ffi.new(f"{name} *")
    keep.append(made)
    fill(made, name, values, keep, axes)
    return made


def fields_of(name):
    return dict(ffi.typeof(name).fields)


def fill(made, name, values, keep, axes=None):
    fields = fields_of(name)
    if not isinstance(values, dict):
        raise Error("argument", f"{values!r}: a dict is needed, of {', '.join(f for f in fields if f != 'reserved')}")
    for key, value in values.items():
        if value is None:
            continue
        if (name, key) in SPECIAL:
            SPECIAL[name, key](made, value, keep)
            continue
        if key not in fields or key == "reserved":
            meant = near(key, [f for f in fields if f != "reserved"])
            raise Error("name", f"there is no option {key}" + (f": did you mean {meant}?" if meant else ""))
        if isinstance(value, (tuple, list)) and fields[key].type.kind == "primitive":
            # kernel=(1, 7) is kernel_hw, kernel=(3, 1, 7) kernel_dhw.
            key += {2: "_hw", 3: "_dhw"}.get(len(value), "")
            if key not in fields or fields[key].type.kind == "primitive":
                raise Error("argument", f"{key}: it takes one number, not {len(value)}")
        if fields[key].type.cname == "_Bool" and not isinstance(value, bool):
            if getattr(value, "dtype", None) != bool and value not in (0, 1):
                raise Error("argument", f"{key}={value!r}: it is True or False")
            value = bool(value)
        if fields[key].type.cname == "double":
            value = number(name, key, value)
        put(made, key, fields[key].type, value, keep, axes)


def near(word_given, names):
    """The name that a misspelt word is nearest to; None: it is near no one."""
    best = NULL
    kept = [ffi.new("char[]", n.encode()) for n in names]
    given = ffi.new("char[]", str(word_given).encode())
    for n in kept:
        best = lib.weft_nearest(given, best, n)
    return ffi.string(best).decode() if best != NULL else None


def no_such(said, name, names):
    """The error for a name that is not among `names`: "the model has no graph 'trian': did you mean 'train'? It has train, val"."""
    names = [str(n) for n in names]
    meant = near(name, names)
    has = f"t has {', '.join(names)}" if names else "t has no others"
    return Error("name", f"{said} '{name}'" + (f": did you mean '{meant}'? I{has}" if meant else f"; i{has}"))


# Structures whose numbers a table describes.
TABLES = {"weft_compile_options": "weft_compile_fields", "weft_optimizer": "weft_optimizer_fields", "weft_schedule": "weft_schedule_fields",
          "weft_trainer_options": "weft_trainer_fields", "weft_trainer_checkpoints": "weft_trainer_checkpoints_fields"}


def number(name, key, value):
    """A number for C, where 0 may stand for a default: then a 0 that is given is a true one, WEFT_ZERO."""
    if value != 0 or isinstance(value, bool):
        return value
    row = lib.weft_field_find(getattr(lib, TABLES[name])(), text(key)) if name in TABLES else NULL
    takes_zero = row.kind == lib.WEFT_FIELD_NUMBER if row != NULL else (name, key) in TAKES_ZERO
    return ZERO if takes_zero else value


def at_most(key, values, kind):
    """Refuses more values than a field of C has places."""
    if kind.length is not None and len(values) > kind.length:
        raise Error("argument", f"{key}: {len(values)} of them, and {kind.length} are the most")


def name_of(kind):
    """"weft_init" of a type struct weft_init, "weft_dtype" of enum weft_dtype."""
    return kind.cname.removeprefix("struct ").removeprefix("enum ")


def put(made, key, kind, value, keep, axes):
    from .model import Value
    try:
        if kind.kind == "enum":
            setattr(made, key, word(name_of(kind), value))
        elif kind.kind == "array" and kind.item.kind == "primitive":
            numbers = [value] * (axes or 1) if isinstance(value, (int, float)) else list(value)
            at_most(key, numbers, kind)
            for i, number in enumerate(numbers):
                getattr(made, key)[i] = number
        elif kind.kind == "array" and kind.item.kind == "struct":
            at_most(key, value, kind)
            for i, item in enumerate(value):
                part = getattr(made, key) + i
                fill(part, name_of(kind.item), item, keep)
        elif kind.kind == "pointer" and isinstance(value, Value):
            setattr(made, key, value.pointer)
        elif kind.kind == "pointer" and kind.item.cname.startswith("char"):
            keep.append(text(value))
            setattr(made, key, keep[-1])
        elif kind.kind == "pointer" and name_of(kind.item) == "weft_init":
            keep.append(init(value))
            setattr(made, key, keep[-1])
        elif kind.kind == "pointer" and kind.item.kind == "primitive":
            keep.append(ffi.new(f"{kind.item.cname}[1]", [value]))
            setattr(made, key, keep[-1])
        elif kind.kind == "pointer" and kind.item.kind == "struct" and isinstance(value, dict):
            setattr(made, key, structure(name_of(kind.item), value, keep))
        else:
            setattr(made, key, value)
    except (TypeError, OverflowError, IndexError) as why:
        said = f"{needed(kind)} is needed" if "ctype" in str(why) or "cdata" in str(why) else str(why)
        raise Error("argument", f"{key}={value!r}: {said}") from None


def needed(kind):
    """What a field takes, for errors."""
    if kind.kind == "array":
        return "a list of numbers" if kind.item.kind == "primitive" else "a list of dicts"
    is_struct = kind.kind == "struct" or kind.kind == "pointer" and kind.item.kind == "struct"
    return "a number" if kind.kind == "primitive" else "a dict" if is_struct else "what C alone can give"


def init(value):
    """Initial values: "zeros", ("normal", 0, 0.02), ("kaiming_normal",) ..."""
    kind, *numbers = (value,) if isinstance(value, str) else value
    return ffi.new("weft_init *", [word("weft_init_kind", kind)] + [float(n) for n in numbers])
