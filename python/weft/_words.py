"""What C says, in words of Python: names of functions, options and constants, and no options of graphtool. Errors are put so when they are
raised, comments of the headers by generate.py, which reads this file, too."""
import re

# Functions of C by the calls of Python that stand for them; of others weft_relu is relu().
CALLS = {
    "model_set_batch": "Model(batch=...)", "model_set_ddp": "Model.ddp()", "model_set_flow": "Model.flow()", "model_set_precision": "Model.precision()",
    "minimize": "Model.minimize()", "freeze": "Model.freeze()", "gradients": "Model.gradients()", "save": "Model.save()", "parameter": "Graph.parameter()",
    "state": "Graph.state()", "value_of": "Graph.value_of()", "dim": "Value.shape", "define_op": "OpSet.define()", "scope_leave": "the end of a scope",
    "weights_load": "Store.load()", "weights_save": "Store.save()", "run": "Session.run()", "run_update": "Session.update()",
    "zero_gradients": "Session.zero_gradients()", "gradient_get": "Session.gradient()", "sync": "Session.sync()", "use_averages": "Session.use_averages()",
    "session_save": "Session.save()", "trainer_run": "Trainer.run()", "trainer_validate": "Trainer.validate()", "trainer_test": "Trainer.test()",
    "trainer_predict": "Trainer.predict()", "comm_mpi": 'world("mpi")', "tensors_at": "Store.paths()",
    "compile": "Model.compile()", "model_set_optimizer": "Model.set_optimizer()", "store_set_epoch": "Store.set_epoch()", "session_open_on": "Store.session()",
    "session_set_check": "Session.check()", "trainer_new": "Trainer()", "trainer_fit": "Trainer.fit()", "trainer_stop": "Trainer.stop()", "trainer_check": "Trainer.check()",
    "source_open_text": "data()", "assign": "Model.assign()", "tally_rows": "Tally.rows()", "schedule_kind": "schedule", "pass_name": "passes()", "param_group": "groups",
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
    (r"another training writes its checkpoints there$", "another training writes its checkpoints there: where it is a trainer of this program, close() it"),
    (r"with options\.manual\b", "with manual=True"),
    (r"weft_use_averages\(session, false\)", "Session.use_averages(False)"),
)]
OPTIONS = ("weft_trainer_options", "weft_compile_options", "weft_trainer_checkpoints", "weft_weights_options")
# Constants that are no word of an enum.
CONSTANTS = {"WEFT_BATCH": '"batch"', "WEFT_ZERO": "0", "WEFT_SCOPE": "scope()", "WEFT_NONE": "-1"}


def words_of(type_name, ffi):
    """The words of an enum and their numbers: {"sum": 0, "mean": 1}."""
    names = ffi.typeof(type_name).relements
    # "WEFT_RANKS_SUM" and "WEFT_RANKS_MEAN" have "WEFT_RANKS_" before the words.
    first, last = min(names), max(names)
    same = next((i for i in range(len(first)) if first[i] != last[i]), 0)
    begin = first.rindex("_", 0, same) + 1
    return {name[begin:].lower(): number for name, number in sorted(names.items(), key=lambda item: item[1])}


class Names:
    """What names of C become: fields of structures, functions that are ops here, and constants."""

    def __init__(self, ffi, fields, ops):
        self.fields, self.ops, self.constants = fields, ops, dict(CONSTANTS)
        for kind in (name for name in ffi.list_types()[0] if name.startswith("weft_") and ffi.typeof(name).kind == "enum"):
            names = {number: name for name, number in ffi.typeof(kind).relements.items()}
            self.constants.update({names[number]: f'"{word}"' for word, number in words_of(kind, ffi).items()})

    def call(self, match):
        """weft_model_set_ddp as Model.ddp(), weft_optimizer.ema as ema=."""
        name, field = match[1], match[2]
        if field and field in self.fields.get("weft_" + name, {}):
            return f"{field}="
        if field and "weft_" + name not in self.fields:
            return match[0]  # the name of a file
        known = CALLS.get(name) or (f"{name}()" if name in self.ops else None)
        return (known or f"weft_{name}") + (f".{field}" if field else "")

    def option(self, match):
        return f"{match[1]}=" if any(match[1] in self.fields[f] for f in OPTIONS) or match[1] == "train_step" else match[0]

    def replaced(self, said):
        said = re.sub(r"\boptions\.(?:compile\.)?([a-z_]+)\b", self.option, said)
        said = re.sub(r"\bcompile\.([a-z_]+)\b(?= a| out| is|$)", self.option, said)
        said = re.sub(r"(?<![\w./-])weft_([a-z0-9_]+)(?:\(\))?(?:\.([a-z_]+)\b)?", self.call, said)
        said = re.sub(r"\bWEFT_[A-Z0-9_]+\b", lambda m: self.constants.get(m[0], m[0]), said)
        return re.sub(r"\bNULL\b", "None", re.sub(r"\bweft/\w+\.h\b", "weft", said))


# What the reader gave, within a sentence of C, and which keeps its letters: a path before the first colon, a word with "/", what is in quotes.
GIVEN = re.compile(r"""\A[^:\n]*/[^\n]*?(?=: )|(?<!\S)(?!\(?weft/\w+\.h\b)[^\s'"]*/\S*|(?<!\w)'[^'\n]*'(?!\w)|"[^"\n]*\"""")
_names: list = []


def in_python(said):
    """A sentence of C for a reader who writes Python."""
    for pattern, instead in SENTENCES:
        said = pattern.sub(instead, said)
    if not _names:
        from . import _fields, _ops
        from ._abi import ffi
        _names.append(Names(ffi, _fields.FIELDS, vars(_ops)))
    parts, end = [], 0
    for given in GIVEN.finditer(said):
        parts += [_names[0].replaced(said[end:given.start()]), given[0]]
        end = given.end()
    return "".join(parts) + _names[0].replaced(said[end:])


def _example(match):
    """A line of C in an example: "weft_value *y = weft_mean(x, WEFT_AXES(0), false);" is "y = mean(x, [0], False)"."""
    line = re.sub(r"weft_\w+ \*(?=\w+ =)|\bweft_", "", match[1])
    line = re.sub(r"WEFT_(?:AXES|SHAPE)\(([^()]*)\)", r"[\1]", line)
    return re.sub(r"\b(true|false)\b", lambda m: m[1].title(), line)


def documented(said, names):
    """The comment of a field or a function as a reader of Python needs it: what 0 or NULL stands for is the default."""
    said = re.sub(r"\beps 0 means (.*?)([,;]) WEFT_ZERO(?: \(field\.h\))? a true 0", r"eps None means \1\2 0 a true 0", said, flags=re.S)
    said = re.sub(r"[ \n]\(NULL: not wanted\)(?=[:;,.])|\(NULL: not wanted\)\s", "", said.replace(" (field.h)", "")).replace(", if not NULL, gets", " has")  # Python returns all results
    said = re.sub(r"WEFT_ZERO: (?=\S)", "with 0 ", re.sub(r"; WEFT_ZERO: a true\s+0", "", said))
    said = re.sub(r"(?m)^( {4}.*);$", _example, said)
    said = re.sub(r"(^|[;,] |\(|\. )(?:0|NULL): (?=\S)", r"\1None (default): ", said, count=1)
    said = re.sub(r"(?<![\w.-])(?:0|NULL): (?=\S)", "None: ", said)
    return re.sub(r"\boptions\.([a-z_]+)\b", r"\1=", names.replaced(said.replace("env->log", "the log")))


def of_graphtool(said):
    """A sentence of graphtool's, whose options are arguments here: "--max-nodes" is max_nodes."""
    return re.sub(r"(?<!\S)--([a-z][a-z-]*)", lambda m: m[1].replace("-", "_"), said.strip().removeprefix("graphtool: "))
