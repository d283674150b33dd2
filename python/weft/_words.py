"""What C says, in words of Python: names of functions, options and constants, and no options of graphtool."""
import re

from ._abi import ffi
from ._fields import FIELDS

# Functions of C by the calls of Python that stand for them; of others weft_relu is relu().
CALLS = {
    "model_set_batch": "Model(batch=...)", "model_set_ddp": "Model.ddp()", "model_set_flow": "Model.flow()", "model_set_precision": "Model.precision()",
    "minimize": "Model.minimize()", "freeze": "Model.freeze()", "gradients": "Model.gradients()", "save": "Model.save()", "parameter": "Graph.parameter()",
    "state": "Graph.state()", "value_of": "Graph.value_of()", "dim": "Value.shape", "define_op": "OpSet.define()", "scope_leave": "the end of a scope",
    "weights_load": "Store.load()", "weights_save": "Store.save()", "run": "Session.run()", "run_update": "Session.update()",
    "zero_gradients": "Session.zero_gradients()", "gradient_get": "Session.gradient()", "sync": "Session.sync()", "use_averages": "Session.use_averages()",
    "session_save": "Session.save()", "trainer_run": "Trainer.run()", "trainer_validate": "Trainer.validate()", "trainer_test": "Trainer.test()",
    "trainer_predict": "Trainer.predict()", "comm_mpi": 'world("mpi")', "tensors_at": "Store.paths()",
    "define_optimizer": "define_optimizer()", "call_op": "call_op()", "optimizer": "Optimizer", "compile_options": "Model.compile()", "comm_options": "world()",
}

# Sentences that name options of graphtool, or what C takes and Python does not: (pattern, what it is in Python), in this order.
SENTENCES = [(re.compile(pattern), said) for pattern, said in (
    (r"no data for it \(graphtool: --data ([^=]*)=FILE, and --val-data for a validation\)", r'no data for it: train={"\1": ...}, and val= for a validation'),
    (r"save it with (\S+) in NumPy, or convert it here by the option dtype=(\S+) of the data \(graphtool: [^()]*\)",
     r'convert it with \1 in NumPy, or a file by weft.data("FILE:dtype=\2")'),
    (r'options\.set="(\S+)=NUMBER" \(graphtool: [^()]*\)', r'set={"\1": NUMBER}'),
    (r"\(options\.set, graphtool: --set\)", "(set=)"),
    (r"\(([^(),]*), graphtool(?:'s)? [^()]*\)", r"(\1)"),
    (r" \(graphtool: [^()]*\)", ""),
    (r"export, train --weights; weft_checkpoint_export\)", "export writes them)"),
    (r"\(--comm mpi\)", '(weft.world("mpi"))'),
    (r"; one of your own is given as weft_compile_options\.own_strategy", ""),
    (r" \(0 means ([^;()]*); a true 0 is WEFT_ZERO\)", r" (None means \1)"),
    (r" \(a true 0 is WEFT_ZERO\)|; a true 0 is WEFT_ZERO", ""),
    (r"\(0, the default, is", "(None, the default, is"),
    (r": leave it 0\b", ": leave it out"),
    (r"only WEFT_TRAIN graphs train", "only a graph with train=True trains"),
    (r"without options\.(\w+) no", r"without \1= no"),
    (r"with options\.manual\b", "with manual=True"),
    (r"weft_use_averages\(session, false\)", "Session.use_averages(False)"),
)]
OPTIONS = ("weft_trainer_options", "weft_compile_options", "weft_trainer_checkpoints", "weft_weights_options")
_constants: dict = {}


def _constant(match):
    """WEFT_RANKS_MEAN as the word "mean"; WEFT_BATCH is "batch"."""
    if not _constants:
        from ._lib import words_of
        for kind in (name for name in ffi.list_types()[0] if name.startswith("weft_") and ffi.typeof(name).kind == "enum"):
            names = {number: name for name, number in ffi.typeof(kind).relements.items()}
            _constants.update({names[number]: f'"{word}"' for word, number in words_of(kind).items()})
        _constants.update(WEFT_BATCH='"batch"', WEFT_ZERO="0", WEFT_SCOPE="scope()")
    return _constants.get(match[0], match[0])


def _call(match):
    """weft_model_set_ddp as Model.ddp(), weft_optimizer.ema as ema=."""
    name, field = match[1], match[2]
    if field and field in FIELDS.get("weft_" + name, {}):
        return f"{field}="
    known = CALLS.get(name) or (f"{name}()" if hasattr(_ops(), name) else None)
    return (known or f"weft_{name}") + (f".{field}" if field else "")


def _ops():
    from . import _ops
    return _ops


def _option(match):
    return f"{match[1]}=" if any(match[1] in FIELDS[f] for f in OPTIONS) or match[1] == "train_step" else match[0]


def in_python(said):
    """A sentence of C for a reader who writes Python."""
    for pattern, instead in SENTENCES:
        said = pattern.sub(instead, said)
    said = re.sub(r"\boptions\.(?:compile\.)?([a-z_]+)\b", _option, said)
    said = re.sub(r"\bcompile\.([a-z_]+)\b(?= a| out|$)", _option, said)
    said = re.sub(r"\bweft_([a-z0-9_]+)(?:\(\))?(?:\.([a-z_]+)\b)?", _call, said)
    said = re.sub(r"\bWEFT_[A-Z0-9_]+\b", _constant, said)
    return re.sub(r"\bNULL\b", "None", re.sub(r"\bweft/\w+\.h\b", "weft", said))


def of_graphtool(said):
    """A sentence of graphtool's, whose options are arguments here: "--max-nodes" is max_nodes."""
    return re.sub(r"(?<!\S)--([a-z][a-z-]*)", lambda m: m[1].replace("-", "_"), said.strip().removeprefix("graphtool: "))
