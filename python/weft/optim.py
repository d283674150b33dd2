"""Optimizers by name, with PyTorch's arguments, and its defaults but that of lr, which is 1e-3 for all."""
from ._fields import FIELDS
from ._lib import Error, call, ffi, lib, text
from ._structs import SPECIAL, at_most, fields_of, fill, structure


def _schedule(made, value, keep):
    """A text as weft_schedule_text() reads it, or a list of dicts with the fields of weft_schedule."""
    if isinstance(value, str):
        call(lib.weft_schedule_text, text(value), made.schedule)
        return
    value = [value] if isinstance(value, dict) else value
    if not isinstance(value, (list, tuple)):
        raise Error("argument", f"schedule={value!r}: a text as \"cosine:0-1000\", or a list of dicts is needed")
    at_most("schedule", value, fields_of("weft_optimizer")["schedule"].type)
    for i, part in enumerate(value):
        fill(made.schedule + i, "weft_schedule", part, keep)


def _groups(made, value, keep):
    if not isinstance(value, (list, tuple)):
        raise Error("argument", "groups: a list of dicts is needed")
    groups = ffi.new("weft_param_group[]", len(value))
    keep.append(groups)
    for i, group in enumerate(value):
        fill(groups + i, "weft_param_group", group, keep)
    made.groups, made.n_groups = groups, len(value)


def _numbers(made, value, keep):
    at_most("numbers", value, fields_of("weft_param_group")["numbers"].type)
    for i, (name, number) in enumerate(value.items()):
        keep.append(text(name))
        made.numbers[i].field, made.numbers[i].value = keep[-1], number


def _kinds(made, value, keep):
    """Words, "norm bias": weight or bias of norms, biases, tables of embeddings, "depthwise" convolutions, "flat" ones of one axis."""
    for kind in value.split() if isinstance(value, str) else value:
        bit = {"norm": lib.WEFT_PARAMS_NORM, "bias": lib.WEFT_PARAMS_BIAS, "embedding": lib.WEFT_PARAMS_EMBEDDING,
               "depthwise": lib.WEFT_PARAMS_DEPTHWISE, "flat": lib.WEFT_PARAMS_FLAT}.get(kind)
        if bit is None:
            raise Error("argument", f"kinds: {kind!r} is not one of norm, bias, embedding, depthwise, flat")
        made.kinds |= bit


SPECIAL["weft_param_group", "kinds"] = _kinds
SPECIAL["weft_optimizer", "schedule"] = _schedule
SPECIAL["weft_optimizer", "groups"] = _groups
SPECIAL["weft_param_group", "numbers"] = _numbers


class Optimizer:
    """An optimizer by its type: Optimizer("adam", lr=2e-4, beta1=0.5, schedule="cosine:0-10000,warmup=500").

    groups: a list of dicts with the fields of weft_param_group, [{"pattern": "*bias", "decay_scale": 0}]
    """

    def __init__(self, type, lr=None, **fields):
        self.fields = dict(type=type, lr=lr, **fields)
        self.structure([])  # finds mistakes where they are made

    def structure(self, keep):
        return structure("weft_optimizer", self.fields, keep)

    def __repr__(self):
        return "weft.Optimizer(" + ", ".join(f"{k}={v!r}" for k, v in self.fields.items() if v is not None) + ")"


NAMES: list = []


def _named(name):
    NAMES.append(name)

    def make(lr=None, **fields):
        return Optimizer(name.lower(), lr, **fields)
    make.__name__ = make.__qualname__ = name
    make.__doc__ = f'Optimizer("{name.lower()}", lr, ...): help(weft.Optimizer) lists the fields.'
    return make


SGD = _named("SGD")
ASGD = _named("ASGD")
Rprop = _named("Rprop")
Adam = _named("Adam")
AdamW = _named("AdamW")
AMSGrad = _named("AMSGrad")
RMSprop = _named("RMSprop")
Adagrad = _named("Adagrad")
Adadelta = _named("Adadelta")
Adafactor = _named("Adafactor")
Adamax = _named("Adamax")
NAdam = _named("NAdam")
RAdam = _named("RAdam")
LAMB = _named("LAMB")
LARS = _named("LARS")
Lion = _named("Lion")
Muon = _named("Muon")
Optimizer.__doc__ = (Optimizer.__doc__ or "") + "\n" + "\n".join(f"    {name}: {doc}" for name, doc in FIELDS["weft_optimizer"].items() if name not in ("groups", "n_groups"))
