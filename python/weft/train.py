"""Trainers: the loop around the steps, with data, validations, hooks, evaluators and checkpoints."""
import contextlib
import operator
import re
import sys
import types

from ._arrays import as_array, memory_of_c, numpy_dtype
from ._fields import FIELDS, FUNCTIONS
from ._handles import Borrowed, Handle
from ._lib import NULL, Error, call, callback, described, dtype_word, each, failing, ffi, forget_raised, lib, make, raised_mark, string, text, word
from ._structs import SPECIAL, fields_of, near, structure
from .comm import Comm, interruptible
from .model import Model
from .plan import Plan
from .session import Session, Store

# ---- data ----

class Source(Handle):
    """Samples: of arrays, of files by weft.data("photos:height=64"), or of a Python object with __len__ and __getitem__."""

    def __init__(self, pointer, free=None, *keep):
        super().__init__(pointer, free or (lambda pointer: None), *keep)

    def __len__(self):
        return self.pointer.count

    def __repr__(self):
        arrays = ", ".join(f"{string(a.name) or '-'}: {dtype_word(a.dtype)}{list(a.shape[0:a.ndim])}" for a in self.pointer.arrays[0:self.pointer.n])
        return f"<weft.Source {len(self)} x ({arrays})>"

    def __getitem__(self, i):
        import numpy
        if not 0 <= i < len(self):
            raise IndexError(i)
        arrays = self.pointer.arrays[0:self.pointer.n]
        made = [numpy.empty(tuple(a.shape[0:a.ndim]), numpy_dtype(dtype_word(a.dtype))) for a in arrays]
        call(self.pointer.read, self.pointer.context, i, ffi.new("void *[]", [ffi.from_buffer(m, require_writable=True) for m in made]))
        return made[0] if len(made) == 1 else tuple(made)


def data(given):
    """Samples of a file or folder, "FILE:option=value,...": .npy, .npz, IDX, images, tokens, text (weft_source_open_text)."""
    if not isinstance(given, (str, bytes)) and not hasattr(given, "__fspath__"):
        raise Error("argument", f"data: a {type(given).__name__} is not a text, \"FILE:option=value,...\"")
    return Source(make(lib.weft_source_open_text, text(given), NULL), lib.weft_source_free)


def arrays(**named):
    """Samples of arrays in memory, which are read where they lie: weft.arrays(image=images, label=labels)."""
    return [_array_source(array, name) for name, array in named.items()]


def _array_source(array, name):
    array, dtype = as_array(array, None, name)
    if array.ndim == 0:
        raise Error("shape", f"{name}: an array of data needs an axis that counts samples")
    memory = ffi.cast("void *", array.ctypes.data)  # C only reads it
    a = make(lib.weft_array_on, word("weft_dtype", dtype), array.ndim, ffi.new("int64_t[]", array.shape), memory, NULL)
    source = ffi.new("weft_source *")
    keep = [array, text(name), source]
    call(lib.weft_array_source, a, source)
    source.arrays[0].name = keep[1]
    return Source(source, lambda _: lib.weft_array_free(a), *keep)


def samples(dataset, names=None):
    """Samples of a Python object with __len__ and __getitem__, which gives an array, a tuple or a dict of arrays, all of one type and shape:
    torch.utils.data.Dataset, lists. `names` are those of a tuple's arrays."""
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise Error("argument", f"samples: a {type(dataset).__name__} has no len() and []")
    if not len(dataset):
        raise Error("data", f"samples: this {type(dataset).__name__} is empty")
    first = _parts(dataset[0], names)
    if not 0 < len(first) <= lib.WEFT_SOURCE_ARRAYS:
        raise Error("argument", f"samples: a sample has {len(first)} arrays: 1 to {lib.WEFT_SOURCE_ARRAYS} are taken")
    source = ffi.new("weft_source *")
    source.count, source.n = len(dataset), len(first)
    keep = [source]
    for i, (name, (array, dtype)) in enumerate(first.items()):
        keep.append(text(name))
        into = source.arrays[i]
        into.name, into.dtype, into.ndim = keep[-1], word("weft_dtype", dtype), array.ndim
        into.shape[0:array.ndim] = array.shape

    def read(context, i, into, error):
        parts = _parts(dataset[i], names)
        if parts.keys() != first.keys():
            raise Error("name", f"sample {i} has {', '.join(parts)}; sample 0 has {', '.join(first)}")
        for k, (name, (wanted, dtype)) in enumerate(first.items()):
            array, has = parts[name]
            if array.shape != wanted.shape or has != dtype:
                raise Error("shape", f"sample {i}: {name} is {has}{list(array.shape)}, that of sample 0 is {dtype}{list(wanted.shape)}")
            ffi.memmove(into[k], ffi.from_buffer(array), array.nbytes)
        return 0

    reads = callback("weft_status(void *, int64_t, void *const *, weft_error *)", read, failing)
    source.read = reads
    return Source(source, None, reads, dataset, *keep)


def _parts(sample, names):
    """The arrays of a sample by their names, each with the word of its type; whole numbers are i64."""
    if isinstance(sample, dict):
        given = sample
    else:
        sample = sample if isinstance(sample, (tuple, list)) else (sample,)
        names = names or [f"array{i}" for i in range(len(sample))]
        if len(set(names)) != len(sample):
            raise Error("argument", f"samples: {len(sample)} arrays, and the names {', '.join(names)}")
        given = dict(zip(names, sample))
    return {name: as_array(v, "i64" if isinstance(v, int) else None, name) for name, v in given.items()}


def _sources(given):
    if isinstance(given, Source):
        return [given]
    if hasattr(given, "dtype") or hasattr(given, "__dlpack__"):
        raise Error("name", 'data: an array alone has no name: {"x": array}, by the name of the input that it feeds')
    if hasattr(given, "dataset") and hasattr(given, "batch_size"):
        raise Error("argument", f"data: a {type(given).__name__} makes batches, which a trainer does itself: give its data set, loader.dataset, and batch=")
    if isinstance(given, str):
        return [data(given)]
    if isinstance(given, dict):
        found = []
        for name, one in given.items():
            if not isinstance(one, (Source, str)) and not hasattr(one, "dtype") and not hasattr(one, "__dlpack__") and not isinstance(one, (list, tuple)):
                raise Error("argument", f"data: {name} is a {type(one).__name__}: give an array, the name of a file, or a Source; a data set goes alone, not in a dict")
            source = one if isinstance(one, Source) else data(one) if isinstance(one, str) else _array_source(one, name)
            found.append((name, source))
        return found
    if isinstance(given, (tuple, list)):
        return [s for one in given for s in _sources(one)]
    if hasattr(given, "__len__") and hasattr(given, "__getitem__"):
        if isinstance(given[0], (tuple, list)):
            raise Error("name", f"data: a sample of this {type(given).__name__} is a tuple: weft.samples(data, names=[...]) says which inputs its arrays feed")
        return [samples(given)]
    raise Error("argument", f"data: a {type(given).__name__} is not a dict of arrays, a text, a Source, or an object with len() and []")


def _dataset(made, value, keep):
    found = _sources(value)
    sources = [s[1] if isinstance(s, tuple) else s for s in found]
    list_of = ffi.new("weft_source const *[]", [s.pointer for s in sources])
    keep += [[s.held() for s in sources], list_of]
    made.n, made.sources = len(sources), list_of
    if any(isinstance(s, tuple) for s in found):
        # A dict says which input the only array of a source feeds.
        names = []
        for s in found:
            name, source = s if isinstance(s, tuple) else (None, s)
            if name and source.pointer.n > 1:
                raise Error("argument", f"data: {name!r} would name {source.pointer.n} arrays: give such a source alone, not in a dict")
            own = [string(source.pointer.arrays[i].name) for i in range(source.pointer.n)]
            names += [name] if source.pointer.n == 1 and name else own
        texts = [NULL if n is None else text(n) for n in names]
        keep += texts
        keep.append(ffi.new("char const *[]", texts))
        made.names = keep[-1]


for _which in ("train", "val", "test"):
    SPECIAL["weft_trainer_options", _which] = (lambda which: lambda made, value, keep: _dataset(getattr(made, which), value, keep))(_which)
SPECIAL["weft_samples", "data"] = lambda made, value, keep: _dataset(made.data, value, keep)


# ---- hooks ----

def points():
    """The names of the points at which hooks are called."""
    return list(each(lambda i: string(lib.weft_hook_point_name(i)).removesuffix("?")))


class Hook:
    """What a trainer calls at its points: a method named as the point takes the trainer. def after_iteration(self, trainer): ..."""


class Builtin:
    """A hook or evaluator of the library: made when a trainer takes it."""

    def __init__(self, name, make_it):
        self.name, self.make_it = name, make_it

    def __repr__(self):
        return f"<weft {self.name}>"


def _hook_function(hook):
    """What is called at a point: a function takes the trainer and the point, an object has methods by the names of points."""
    if isinstance(hook, type):
        raise Error("argument", f"hooks: {hook.__name__} is a class: give an object of it, {hook.__name__}()")
    if callable(hook) and not isinstance(hook, Hook):
        return hook
    valid = points()
    if not any(hasattr(hook, p) for p in valid):
        raise Error("argument", f"{type(hook).__name__} is no hook: it is not a function, and has no method of {', '.join(valid)}")

    def at(trainer, point):
        method = getattr(hook, point, None)
        if method:
            method(trainer)
    return at


def _hook(made, hook, mine, trainer, keep):
    """Fills a hook of C. What it calls is in `mine`, a list of the trainer's, which it does not keep alive: hooks may refer to their trainer."""
    if isinstance(hook, Builtin):
        made[0] = hook.make_it(keep)
        return
    mine.append(_hook_function(hook))
    place = len(mine) - 1

    def at(self, pointer, point, error):
        me = trainer()
        me._mine[place](me, string(lib.weft_hook_point_name(point)))
        return 0

    keep += [callback("weft_status(void *, weft_trainer *, weft_hook_point, weft_error *)", at, failing), text(getattr(hook, "__name__", type(hook).__name__))]
    made.at, made.name = keep[-2:]


def _count(what, given):
    """A whole number for C, in which None is 0, the default."""
    try:
        return 0 if given is None else operator.index(given)
    except TypeError:
        raise Error("argument", f"{what}={given!r}: a whole number is needed") from None


def _text_hook(file, every):
    every = _count("hooks.text: every", every)
    if file is not None and not hasattr(file, "fileno"):
        raise Error("argument", f"hooks.text: a {type(file).__name__} is not an open file")

    def make_it(keep):
        keep.append(file or sys.__stdout__)
        return lib.weft_hook_text(keep[-1], every)
    return make_it


def _of(function, *arguments):
    def make_it(keep):
        given = [text(a) if isinstance(a, str) else NULL if a is None else a for a in arguments]
        keep += given
        return function(*given)
    return make_it


def _file_hook(name, path, every):
    """weft_hook_NAME(path, every): a hook that writes a file or folder every so many iterations."""
    return Builtin(name, _of(getattr(lib, "weft_hook_" + name), str(path), _count(f"hooks.{name}: every", every)))


def _of_options(function, name, options):
    def make_it(keep):
        return function(structure(name, options, keep))
    return make_it


class hooks:
    """Hooks that Weft brings (weft/hooks.h)."""

    @staticmethod
    def text(file=None, every=None):
        return Builtin("text", _text_hook(file, every))

    @staticmethod
    def json(path, every=None):
        return _file_hook("json", path, every)

    @staticmethod
    def csv(path, every=None):
        return _file_hook("csv", path, every)

    @staticmethod
    def tensorboard(folder, every=None):
        return _file_hook("tensorboard", folder, every)

    @staticmethod
    def curves(path, every=None):
        return _file_hook("curves", path, every)

    @staticmethod
    def samples(path, data=(), **options):
        return Builtin("samples", _of_options(lib.weft_hook_samples, "weft_samples", dict(path=str(path), data=data, **options)))

    @staticmethod
    def early_stop(metric, **options):
        return Builtin("early_stop", _of_options(lib.weft_hook_early_stop, "weft_early_stop", dict(metric=metric, **options)))

    @staticmethod
    def best(metric, path, **options):
        return Builtin("best", _of_options(lib.weft_hook_best, "weft_best", dict(metric=metric, path=str(path), **options)))

    @staticmethod
    def plateau(metric, optimizer=None, **rules):
        def make_it(keep):
            keep += [text(metric), text(optimizer)]
            return lib.weft_hook_plateau(keep[-2], keep[-1], structure("weft_plateau", rules, keep))
        return Builtin("plateau", make_it)


# ---- evaluators ----

class evaluators:
    """Evaluators that Weft brings (weft/evaluator.h)."""

    @staticmethod
    def accuracy(scores, label, k=1):
        return Builtin("accuracy", _of(lib.weft_evaluator_accuracy, scores, label, k))

    @staticmethod
    def mean(name, output):
        return Builtin("mean", _of(lib.weft_evaluator_mean, name, output))

    @staticmethod
    def mse(output, target):
        return Builtin("mse", _of(lib.weft_evaluator_mse, output, target))

    @staticmethod
    def psnr(output, target, range):
        return Builtin("psnr", _of(lib.weft_evaluator_psnr, output, target, range))

    @staticmethod
    def confusion(scores, label):
        return Builtin("confusion", _of(lib.weft_evaluator_confusion, scores, label, None))

    @staticmethod
    def perplexity(scores, label=None):
        return Builtin("perplexity", _of(lib.weft_evaluator_perplexity, scores, label))

    @staticmethod
    def auc(scores, label):
        return Builtin("auc", _of(lib.weft_evaluator_auc, scores, label))

    @staticmethod
    def recall_at(a, b, k):
        return Builtin("recall_at", _of(lib.weft_evaluator_recall_at, a, b, k))


def _document(of, prefix, structures):
    """Gives functions the comments of their C namesakes, and of the fields that are their options."""
    for name, function in vars(of).items():
        if isinstance(function, staticmethod):
            fields = FIELDS.get(structures.get(name, ""), {})
            function.__func__.__doc__ = FUNCTIONS[prefix + name] + "".join(f"\n{field}: {doc}" for field, doc in fields.items())


_document(hooks, "weft_hook_", {"samples": "weft_samples", "early_stop": "weft_early_stop", "best": "weft_best", "plateau": "weft_plateau"})
_document(evaluators, "weft_evaluator_", {})


class Tally:
    """What an evaluator counts (exact), sums up (without rounding) and keeps as rows, over all batches and ranks."""

    def __init__(self, pointer, width):
        self.pointer, self.width = pointer, width

    def count(self, index, n=1):
        lib.weft_tally_count(self.pointer, index, n)

    def add(self, index, value):
        lib.weft_tally_add(self.pointer, index, value)

    def row(self, numbers):
        if len(numbers) != self.width:
            raise Error("argument", f"a row of {len(numbers)} numbers, and the evaluator's width is {self.width}")
        lib.weft_tally_row(self.pointer, ffi.new("double[]", [float(n) for n in numbers]))

    def counted(self, index):
        return lib.weft_tally_counted(self.pointer, index)

    def sum(self, index):
        return lib.weft_tally_sum(self.pointer, index)

    def rows(self):
        """[n, width], sorted: a copy."""
        import numpy
        n = ffi.new("int64_t *")
        rows = lib.weft_tally_rows(self.pointer, n)
        if not n[0]:
            return numpy.empty((0, self.width))
        return numpy.frombuffer(ffi.buffer(rows, 8 * n[0] * self.width), numpy.float64).reshape(n[0], self.width).copy()

    def report(self, value, part=None):
        """Reports a metric: "NAME/part"; without a part "NAME"."""
        lib.weft_tally_report(self.pointer, text(part), value)


class Evaluator:
    """A metric of validations by a class: `name`, what it `reads` (outputs or inputs), how many `counts` and `sums` it has, and how wide its
    rows are; def batch(self, tally, **arrays) adds the samples of a batch, def report(self, tally) reports. Arrays and the tally are valid during
    the call."""
    name, reads, counts, sums, width = None, (), 0, 0, 0

    def batch(self, tally, **arrays):
        raise NotImplementedError

    def report(self, tally):
        raise NotImplementedError


def _views(reads, views):
    return {name: memory_of_c(views[i].data, views[i], False) for i, name in enumerate(reads)}


def _evaluator(made, evaluator, mine, trainer, keep):
    """Fills an evaluator of C, as _hook() does."""
    if isinstance(evaluator, Builtin):
        made[0] = evaluator.make_it(keep)
        return
    if isinstance(evaluator, type):
        raise Error("argument", f"evaluators: {evaluator.__name__} is a class: give an object of it, {evaluator.__name__}()")
    if not getattr(evaluator, "name", None) or not getattr(evaluator, "reads", None):
        raise Error("argument", f"{type(evaluator).__name__}: an evaluator has a name, and reads outputs or inputs")

    if len(evaluator.reads) > lib.WEFT_MAX_READS:
        raise Error("argument", f"{evaluator.name}: it reads {len(evaluator.reads)} arrays, and {lib.WEFT_MAX_READS} are the most")
    reads_of, counts, sums, width = tuple(evaluator.reads), evaluator.counts, evaluator.sums, evaluator.width
    mine.append(evaluator)
    place = len(mine) - 1

    def opens(self, rows, reads, size, error):
        size.counts, size.sums, size.width = counts, sums, width
        return 0

    def batch(self, rows, reads, tally, error):
        trainer()._mine[place].batch(Tally(tally, width), **_views(reads_of, reads))
        return 0

    def report(self, tally, error):
        trainer()._mine[place].report(Tally(tally, width))
        return 0

    opens = callback("weft_status(void *, int64_t, weft_view const *, weft_tally_size *, weft_error *)", opens, failing)
    batch = callback("weft_status(void *, int64_t, weft_view const *, weft_tally *, weft_error *)", batch, failing)
    report = callback("weft_status(void *, weft_tally *, weft_error *)", report, failing)
    names = [text(n) for n in (evaluator.name, *evaluator.reads)]
    keep += [opens, batch, report, *names]
    made.name, made.open, made.batch, made.report = names[0], opens, batch, report
    for i, name in enumerate(names[1:]):
        made.reads[i] = name


# ---- the order of samples ----

class _Sampler:
    """A function of the program as C's sampler, which has no way to say that it failed: the trainer raises `raised`."""

    def __init__(self, function):
        self.function, self.raised, self.failed, self.runs = function, None, None, False

    def fill(self, epoch, order, n):
        import numpy
        into = numpy.frombuffer(ffi.buffer(order, 8 * n), numpy.int64)
        into[:] = -1  # no sample: C ends the training
        self.runs = True
        try:
            given = self.function(epoch, n)
            numbers = as_array(list(given) if not hasattr(given, "dtype") else given, "i64", "sampler")[0]
            if numbers.shape != (n,) or numbers.dtype.kind not in "iu":
                raise Error("shape", f"sampler: it returns {numbers.dtype}{list(numbers.shape)}, and {n} numbers of samples are needed")
            into[:] = numbers
        except BaseException as why:
            self.raised, self.failed = why, f"sampler: it failed for epoch {epoch} ({described(why)}), which has no order of samples since: make a new trainer"
        finally:
            self.runs = False

    def check(self):
        if self.raised:
            why, self.raised = self.raised, None
            try:
                raise why
            finally:
                del why

    def allow(self, call):
        """Refuses a call that trains within the sampler, which C calls while it holds the data, and after it failed."""
        if self.runs:
            raise Error("order", f"sampler: it calls {call}() of its trainer, which waits for it: it only returns numbers of samples")
        if self.failed and not self.raised:
            raise Error("order", self.failed)


def _sampler(function, mine, trainer, keep):
    if not callable(function):
        raise Error("argument", f"sampler={function!r}: it is a function (epoch, n) that returns the numbers of n samples; in_order=True takes them in their order")
    mine.append(_Sampler(function))
    place = len(mine) - 1

    def fill(context, epoch, order, n):
        trainer()._mine[place].fill(epoch, order, n)  # C calls it in calls of the trainer alone, which is alive in them; threads only read ahead

    keep.append(ffi.callback("void(void *, int64_t, int64_t *, int64_t)", fill))
    return keep[-1]


# ---- the trainer ----

def _numbers_of(made, value, keep):
    """set={"tau": 0.07} is set="tau=0.07"."""
    keep.append(text(" ".join(f"{n}={v}" for n, v in value.items()) if isinstance(value, dict) else value))
    made.set = keep[-1]


def _rates(made, value, keep):
    """{"adam:generator": 1e-4}; None is every optimizer."""
    if not isinstance(value, dict):
        raise Error("argument", f"rates={value!r}: a dict is needed, of learning rates by the names of optimizers")
    rates = ffi.new("weft_optimizer_lr[]", len(value) or 1)
    keep += [rates, *(text(name) for name in value)]
    for i, lr in enumerate(value.values()):
        rates[i].optimizer, rates[i].lr = keep[len(keep) - len(value) + i], lr
    made.rates, made.n_rates = rates, len(value)


SPECIAL["weft_trainer_options", "set"] = _numbers_of
SPECIAL["weft_trainer_checkpoints", "rates"] = _rates


# What other trainers take, and where it is here.
ELSEWHERE = {"optimizer": "minimize= of from_torch(), or Model.minimize()", "optimizers": "minimize= of from_torch(), or Model.minimize()",
             "lr": "minimize=weft.Adam(lr)", "loss": "minimize= of from_torch(), which takes the module's loss", "batch_size": "batch=", "max_epochs": "epochs=",
             "num_epochs": "epochs=", "max_steps": "iterations=", "steps": "iterations=", "shuffle": "in_order=", "accumulate_grad_batches": "accumulate=",
             "gradient_clip_val": "weft.Adam(lr, clip_norm=...)", "callbacks": "hooks=", "metrics": "evaluators=", "train_dataloader": "train=", "val_dataloader": "val="}


def _structures(given):
    """The options of a call, divided into those of the trainer and those of weft_compile_options: both have their own names."""
    compile_options = given.pop("compile", None) or {}
    if not isinstance(compile_options, dict):
        raise Error("argument", f"trainer: compile={compile_options!r}: a dict of the options of Model.compile() is needed")
    mine, compile_options = {}, dict(compile_options)
    trainer, compiles = fields_of("weft_trainer_options"), fields_of("weft_compile_options")
    for name, value in given.items():
        if name in trainer:
            mine[name] = value
        elif name in compiles:
            compile_options[name] = value
        else:
            if name in ELSEWHERE:
                raise Error("name", f"there is no option {name}: here it is {ELSEWHERE[name]}")
            meant = near(name, [*trainer, *compiles])
            raise Error("name", f"there is no option {name}" + (f": did you mean {meant}?" if meant else ""))
    return mine, compile_options


def _looked_over(model, hooks, evaluators, comm, train_step, checkpoints, options):
    """What C would refuse by other names, or not at all."""
    for name, value, fine, is_needed in (
            ("model", model, isinstance(model, Model), "a weft.Model"), ("hooks", hooks, isinstance(hooks, (list, tuple)), "a list of hooks"),
            ("evaluators", evaluators, isinstance(evaluators, (list, tuple)), "a list of evaluators"), ("comm", comm, comm is None or isinstance(comm, Comm), "weft.world()"),
            ("train_step", train_step, train_step is None or callable(train_step), "a function (trainer)"),
            ("checkpoints", checkpoints, checkpoints is None or isinstance(checkpoints, dict), "a dict of folder, every, keep, resume ...")):
        if not fine:
            raise Error("argument", f"trainer: {name} is a {type(value).__name__}: {is_needed} is needed")
    if evaluators and options.get("val") is None and options.get("test") is None:
        raise Error("argument", "trainer: evaluators measure validations and tests: give val= or test=")


class Trainer(Handle):
    """Trains a model: weft.Trainer(m, train={"image": images, "label": labels}, batch=64, epochs=3).fit()

    train, val, test: a dict of arrays by the names of inputs, a text as weft.data() takes it, a Source, a Dataset, or a list of these
    hooks: functions (trainer, point), objects with methods by the names of points, and those of weft.hooks; they may refer to the trainer
    evaluators: objects of weft.Evaluator, and those of weft.evaluators
    train_step: a function (trainer) that runs instead of the flow, by calls of trainer.run()
    sampler: a function (epoch, n) that returns the numbers of n samples, the same on all ranks; n is sampler_count, or as many as the data have
    set: {"tau": 0.07}, or a text, for inputs without a batch axis
    comm: weft.world() for many ranks
    checkpoints: a dict with the fields of weft_trainer_checkpoints: folder, every, keep, resume ...
    All other options are those of weft_compile_options (batch, threads, precision ...) and:
    """

    def __init__(self, model, *, hooks=(), evaluators=(), comm=None, train_step=None, sampler=None, checkpoints=None, **options):
        import weakref
        keep = []
        _looked_over(model, hooks, evaluators, comm, train_step, checkpoints, options)
        mine, compile_options = _structures(options)
        made = structure("weft_trainer_options", mine, keep)
        if comm is not None:
            compile_options.setdefault("world", comm.world)
            compile_options.setdefault("rank", comm.rank)
            made.comm = comm.pointer
        elif compile_options.get("world") not in (None, 0, 1):
            raise Error("argument", f"trainer: world={compile_options['world']}: a trainer has the world of comm=weft.world()")
        made.compile = structure("weft_compile_options", compile_options, keep)[0]
        model.check_finished()
        model.check_batch(compile_options.get("batch"))
        made.fit_words = structure("weft_fit_words", dict(bf16='precision="bf16"', no_memory_check="no_memory_check=True"), keep)
        if checkpoints:
            made.checkpoints = structure("weft_trainer_checkpoints", checkpoints, keep)[0]
            if made.checkpoints.folder == NULL and made.checkpoints.resume == NULL:
                raise Error("argument", "trainer: checkpoints without a folder: checkpoints={\"folder\": \"run\", ...}")
        # What C calls: objects of C keep none of it alive, so that a trainer dies with what refers to it.
        self._mine = [train_step]
        me = weakref.ref(self)
        if train_step is not None:
            def step(pointer, user, error):
                trainer = me()
                trainer._mine[0](trainer)
                return 0
            keep.append(callback("weft_status(weft_trainer *, void *, weft_error *)", step, failing))
            made.train_step = keep[-1]
        list_of = ffi.new("weft_hook[]", len(hooks) or 1)
        for i, hook in enumerate(hooks):
            _hook(list_of + i, hook, self._mine, me, keep)
        measures = ffi.new("weft_evaluator[]", len(evaluators) or 1)
        for i, evaluator in enumerate(evaluators):
            _evaluator(measures + i, evaluator, self._mine, me, keep)
        if sampler is not None:
            made.sampler = _sampler(sampler, self._mine, me, keep)
        made.hooks, made.n_hooks, made.evaluators, made.n_evaluators = list_of, len(hooks), measures, len(evaluators)
        keep += [list_of, measures, comm, model]
        with self._raising():
            pointer = make(lib.weft_trainer_new, model.pointer, made)
        super().__init__(pointer, lib.weft_trainer_free, *keep)
        self.model, self.comm, self._compiled = model, comm, compile_options
        if model._begin and train_step is None and not compile_options.get("graph") and not re.search(r"^minimize\(", model.text(), re.M):
            raise Error("order", "trainer: no graph of the model trains: from_torch(..., minimize=weft.Adam(1e-3))")
        if model._begin and not lib.weft_trainer_progress(self.pointer).iteration and not (checkpoints or {}).get("resume"):
            self.store.begin()

    @contextlib.contextmanager
    def _raising(self):
        """Within it, what the sampler raised comes instead of C's error; what else Python functions raised is forgotten after an error."""
        mark = raised_mark()
        try:
            yield
        except BaseException as why:
            forget_raised(mark)
            if isinstance(why, Error):
                for one in self._samplers():
                    one.check()
            raise

    def _samplers(self):
        return [one for one in self._mine if isinstance(one, _Sampler)]

    def _allow(self, call):
        for one in self._samplers():
            one.allow(call)

    # ---- training ----

    def fit(self):
        """Trains until all epochs or iterations are done. Ctrl-C ends it after the present iteration."""
        self._allow("fit")
        held = self.held()
        with interruptible(lambda: lib.weft_trainer_stop(held.pointer)), self._raising():
            call(lib.weft_trainer_fit, held.pointer)
        return self

    def step(self):
        """One iteration: its metrics."""
        self._allow("step")
        return self._metrics(lib.weft_trainer_train_step)

    def run(self, graph, batch="auto"):
        """For train_step: runs a graph once, micro-batch by micro-batch, on the "next" batches or the "same"."""
        self._allow("run")
        call(lib.weft_trainer_run, self.pointer, text(graph), word("weft_flow_batch", batch))

    def stop(self):
        """Ends fit() after the present iteration. Any thread may call it."""
        lib.weft_trainer_stop(self.pointer)

    def check(self):
        """Raises what is wrong now: weights that are not finite, a checkpoint or a log that could not be written."""
        call(lib.weft_trainer_check, self.pointer)

    def _metrics(self, function):
        metrics, held = ffi.new("weft_metrics *"), self.held()
        with self._raising():
            call(function, held.pointer, metrics)
        return _named_numbers(metrics)

    def validate(self):
        """Every sample of the validation data once: metrics by name."""
        return self._metrics(lib.weft_trainer_validate)

    def test(self):
        """The same with the test data."""
        return self._metrics(lib.weft_trainer_test)

    def predict(self, data, graph=None, output=None):
        """One output of a graph (None: "predict") for every sample of the data, in their order: an array."""
        import numpy
        keep = []
        dataset = ffi.new("weft_dataset *")
        _dataset(dataset, data, keep)
        held = self.held()
        made = make(lib.weft_trainer_predict, held.pointer, text(graph), text(output), dataset)
        try:
            shape = ffi.new("int64_t[]", lib.WEFT_MAX_NDIM)
            ndim = lib.weft_array_shape(made, shape)
            array = numpy.empty(tuple(shape[0:ndim]), numpy_dtype(dtype_word(lib.weft_array_dtype(made))))
            ffi.memmove(ffi.from_buffer(array, require_writable=True), lib.weft_array_data(made), array.nbytes)
            return array
        finally:
            lib.weft_array_free(made)

    def save(self, path, training=False):
        """Saves the weights; with `training` the optimizer's state, too. In a world all ranks call it, and rank 0 writes."""
        call(lib.weft_trainer_save, self.pointer, text(path), training)

    # ---- what it holds ----

    @property
    def progress(self):
        """Where it is: epoch, iteration, samples, seconds, and the last metrics as train, val and test."""
        p = lib.weft_trainer_progress(self.pointer)
        found = {}
        for name, field in fields_of("weft_progress").items():
            if name != "reserved":
                value = getattr(p, name)
                found[name] = _named_numbers(value) if field.type.kind != "primitive" else value
        return types.SimpleNamespace(**found)

    @property
    def store(self):
        """Its store. Load weights before the first step."""
        return _borrowed(Store, lib.weft_trainer_store(self.pointer), self, plan=self.plan)

    @property
    def plan(self):
        """The plan that it runs."""
        return _borrowed(Plan, lib.weft_trainer_plan(self.pointer), self, model=self.model, options=dict(self._compiled))

    @property
    def session(self):
        """The session that trains; the first call opens it."""
        return _borrowed(Session, make(lib.weft_trainer_session, self.pointer), self, plan=self.plan, store=self.store, comm=self.comm, _ports={})


def _borrowed(kind, pointer, owner, **fields):
    """An object of C that the trainer owns, as a Python object that does not free it."""
    made = kind.__new__(kind)
    made._owned = Borrowed(pointer, owner.held())
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def _named_numbers(metrics):
    return {string(metrics.list[i].name): metrics.list[i].value for i in range(metrics.n)}


Trainer.__doc__ = (Trainer.__doc__ or "") + "\n".join(f"    {n}: {doc}" for n, doc in FIELDS["weft_trainer_options"].items()
                             if doc and n not in ("compile", "env", "comm", "train", "val", "test", "hooks", "n_hooks", "evaluators", "n_evaluators",
                                                  "train_step", "user", "sampler", "sampler_context", "set", "checkpoints", "fit_words"))
