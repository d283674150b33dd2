"""Stores hold a model's values, sessions run a plan's graphs on them."""
from ._arrays import fits, numpy_dtype, stored
from ._handles import Handle
from ._lib import NULL, Error, call, dtype_word, each, ffi, lib, make, string, taken, text, word
from ._structs import near, no_such
from .comm import interruptible


class Store(Handle):
    """The values of a model's parameters, state and optimizers: store["generator/fc/weight"] reads and writes a copy."""

    def __init__(self, plan, seed=0):
        super().__init__(make(lib.weft_store_new, plan.pointer, seed), lib.weft_store_free)
        self.plan = plan
        self.begin()

    def begin(self):
        """Sets what came from PyTorch's modules to the modules' values."""
        mine = set(self.paths()) if self.plan.model._begin else ()
        for path, tensor in self.plan.model._begin.items():
            if path in mine:
                self[path] = tensor.detach().cpu()

    def paths(self, kind=None):
        """The paths of all values; `kind` "parameter", "state", "slot" ... (weft_stored_kind) chooses."""
        return [path for path, _ in self._stored(kind)]

    def _stored(self, kind):
        """(path, of what) of all values of a kind."""
        stored = ffi.new("weft_stored *")
        wanted = None if kind is None else word("weft_stored_kind", kind)
        return [(string(stored.path), string(stored.of)) for _ in each(lambda i: lib.weft_store_at(self.pointer, i, stored))
                if wanted is None or stored.kind == wanted]

    def _about(self, path):
        dtype, shape = ffi.new("weft_dtype *"), ffi.new("int64_t[]", lib.WEFT_MAX_NDIM)
        ndim = lib.weft_store_shape(self.pointer, text(path), dtype, shape)
        if ndim < 0:
            meant = near(path, self.paths())
            raise Error("name", f"the store has no value {path}" + (f": did you mean {meant}?" if meant else ""))
        return dtype_word(dtype[0]), tuple(shape[0:ndim])

    def __getitem__(self, path):
        import numpy
        dtype, shape = self._about(path)
        into = numpy.empty(shape, numpy_dtype(dtype))
        call(lib.weft_store_get, self.pointer, text(path), ffi.from_buffer(into, require_writable=True), into.nbytes)
        return into

    def __setitem__(self, path, array):
        dtype, shape = self._about(path)
        array = self._fitting(path, array)
        call(lib.weft_store_set, self.pointer, text(path), ffi.from_buffer(array), array.nbytes)

    def _fitting(self, path, array):
        dtype, shape = self._about(path)
        array = stored(array, dtype, path)
        if tuple(array.shape) != shape:
            raise Error("shape", f"{path}: its shape is {list(shape)}, not {list(array.shape)}")
        return array

    def __contains__(self, path):
        return path in self.paths()

    def state_dict(self):
        """Parameters and state as NumPy arrays, by PyTorch's names: "generator.fc.weight"."""
        return {path.replace("/", "."): self[path] for path in self.paths("parameter") + self.paths("state")}

    def load_state_dict(self, state, strict=True):
        """Sets parameters and state from a state_dict, of torch or of state_dict(). Returns the names that are missing and unexpected,
        which are an error where `strict`."""
        mine = {path.replace("/", "."): path for path in self.paths("parameter") + self.paths("state")}
        missing = [n for n in mine if n not in state]
        unexpected = [n for n in state if n not in mine and not n.endswith("num_batches_tracked") and n not in self.plan.model.other_names]
        inner = next((n.removesuffix(next(iter(state))) for n in mine if state and n.endswith("." + next(iter(state)))), "")
        if strict and inner and all(inner + n in mine or n.endswith("num_batches_tracked") for n in state):
            raise Error("name", f"state_dict: the model's names begin with {inner!r}: take the state_dict of the module that holds it as {inner[:-1]!r}")
        if strict and (missing or unexpected):
            first = missing[0] if missing else unexpected[0]
            meant = near(first, unexpected) if missing else None
            raise Error("name", f"state_dict: {'lacks' if missing else 'has'} {first}" + (f" (it has {meant})" if meant else "") + (" and others" if len(missing) + len(unexpected) > 1 else "") +
                        (", which the model needs" if missing else ", which the model does not have") + "; strict=False passes over such names")
        fitting = {path: self._fitting(path, state[name]) for name, path in mine.items() if name in state}
        for path, array in fitting.items():  # all of them, or no one
            self[path] = array
        return missing, unexpected

    def save(self, path, training=False):
        """Saves parameters and state as safetensors; with `training` what the optimizers keep, too."""
        call(lib.weft_weights_save, self.pointer, text(path), training)

    def load(self, path, strict=True, renames=None):
        """Loads a safetensors file. `renames` {"module.": ""} replaces the beginnings of names. Returns missing and unexpected names."""
        keep = [text(t) for pair in (renames or {}).items() for t in pair]
        list_of = ffi.new("weft_rename[]", [keep[i:i + 2] for i in range(0, len(keep), 2)]) if keep else NULL
        options = ffi.new("weft_weights_options *", {"not_strict": not strict, "n_renames": len(keep) // 2, "renames": list_of})
        report = ffi.new("weft_weights_report *")
        try:
            call(lib.weft_weights_load, self.pointer, text(path), options, report)
            return (string(report.missing) or "").splitlines(), (string(report.unexpected) or "").splitlines()
        finally:
            lib.weft_text_free(report.missing)
            lib.weft_text_free(report.unexpected)

    def set_lr(self, lr, optimizer=None):
        """Sets the base learning rate of an optimizer; None: of all. Its schedule multiplies it."""
        if optimizer is not None and optimizer not in self.lrs():
            raise no_such("set_lr: the model has no optimizer", optimizer, self.lrs())
        call(lib.weft_store_set_lr, self.pointer, text(optimizer), lr)

    def lrs(self):
        """The learning rates of the last update: {optimizer: rate}."""
        name, rate = ffi.new("char const **"), ffi.new("double *")
        return {string(name[0]): rate[0] for _ in each(lambda i: lib.weft_store_lr(self.plan.pointer, self.pointer, i, name, rate))}

    def steps(self):
        """How often each optimizer has updated: {optimizer: updates}."""
        return {optimizer: int(self[path]) for path, optimizer in self._stored("step")}

    def set_epoch(self, epoch):
        """Sets the number of the epoch, for schedules that count epochs."""
        call(lib.weft_store_set_epoch, self.pointer, epoch)

    def session(self, plan=None, comm=None):
        """Opens a session of a plan (that of the store, or another of the same model) on this store; `comm` is a rank's communicator."""
        return Session(plan or self.plan, self, comm)


class Session(Handle):
    """Runs a plan's graphs: with store.session() as s: s.run("d_step", image=batch)."""

    def __init__(self, plan, store, comm=None):
        if comm is None:
            pointer = make(lib.weft_session_open, plan.pointer, store.pointer)
        else:
            pointer = make(lib.weft_session_open_on, plan.pointer, store.pointer, comm.pointer)
        super().__init__(pointer, lib.weft_session_close, comm)
        self.plan, self.store, self.comm = plan, store, comm
        self._ports = {}  # graph -> (inputs, outputs), by name

    def ports(self, graph):
        if graph not in self._ports:
            inputs, outputs = ({p.name: p for p in of(graph)} for of in (self.plan.inputs, self.plan.outputs))
            self._ports[graph] = inputs, outputs
        return self._ports[graph]

    def _call(self, function, *arguments):
        """A call that may wait for other ranks: Ctrl-C ends it."""
        held = self.held()
        if self.comm is None or self.comm.world == 1:
            return call(function, held.pointer, *arguments)
        with interruptible(lambda: self.comm.fail(f"rank {self.comm.rank} was interrupted")):
            call(function, held.pointer, *arguments)

    def _run(self, function, graph, fetch, feeds):
        import numpy
        inputs, outputs = self.ports(graph)
        if len(feeds) == 1 and None in feeds:
            raise Error("argument", f"run: inputs are by name: run({graph!r}, {', '.join(f'{n}=...' for n in inputs)})")
        given = ffi.new("weft_feed[]", len(feeds) or 1)
        keep = []
        for i, (name, array) in enumerate(feeds.items()):
            if name in inputs:
                array = fits(array, inputs[name], f"{graph}: input {name}")
            else:
                raise no_such(f"graph {graph} has no input", name, inputs)
            keep += [text(name), array]
            given[i].name, given[i].data, given[i].bytes = keep[-2], ffi.from_buffer(array), array.nbytes
        if fetch is None:
            fetch = list(outputs)
        into = dict(fetch) if isinstance(fetch, dict) else {}
        wanted = _names(fetch)
        if wanted is None:
            raise Error("argument", f"run: fetch is a {type(fetch).__name__}: it is the name of an output, a list of names, or a dict of arrays by name; inputs are by name, too: "
                        f"run({graph!r}, {', '.join(f'{n}=...' for n in inputs)})")
        results = ffi.new("weft_fetch[]", len(wanted) or 1)
        for i, name in enumerate(wanted):
            if name not in outputs:
                raise no_such(f"graph {graph} has no output", name, outputs)
            port = outputs[name]
            if name not in into:
                into[name] = numpy.empty(port.shape, numpy_dtype(port.dtype))
            memory = writable(into[name], port, f"{graph}: output {name}")
            keep.append(memory)
            results[i].data, results[i].bytes = ffi.from_buffer(memory, require_writable=True), memory.nbytes
            keep.append(text(name))
            results[i].name = keep[-1]
        self._call(function, text(graph), given, len(feeds), results, len(wanted))
        return {name: into[name] for name in wanted}

    def run(self, graph, /, fetch=None, feeds=None, **named):
        """Runs a graph once, on arrays by the names of its inputs: NumPy, torch, or what has DLPack or the buffer protocol. They are read where
        they lie, with exactly the input's type and shape. `fetch` names outputs (None: all); as a dict, {name: array}, it says where they are
        written. Returns {name: array}. A training graph that ends a step updates its parameters. `feeds` is a dict of more inputs, for names
        that no keyword can have."""
        return self._run(lib.weft_run, graph, fetch, _joined(named, feeds))

    def run_no_sync(self, graph, /, fetch=None, feeds=None, **named):
        """Runs a training graph for a micro-batch that does not end a step: nothing is updated and no gradient is communicated."""
        return self._run(lib.weft_run_no_sync, graph, fetch, _joined(named, feeds))

    def run_loss(self, graph, /, fetch=None, feeds=None, **named):
        """The forward alone of a training graph, for plans with manual=True."""
        return self._run(lib.weft_run_loss, graph, fetch, _joined(named, feeds))

    def update(self, graph):
        """Updates by the gradients that runs have added, for plans with manual=True: optimizer.step()."""
        self._call(lib.weft_run_update, text(graph))

    def zero_gradients(self, graph):
        """Forgets the gradients that runs have added since the last update."""
        self._call(lib.weft_zero_gradients, text(graph))

    def gradient(self, graph, path):
        """The gradient of a parameter, as runs have added it so far, for plans with manual=True."""
        import numpy
        _, shape = self.store._about(path)
        into = numpy.empty(shape, "float32")
        call(lib.weft_gradient_get, self.pointer, text(graph), text(path), ffi.cast("float *", ffi.from_buffer(into, require_writable=True)), into.nbytes)
        return into

    def sync(self):
        """Ends what is in flight after the last run, before the store is read or another session runs on it."""
        self._call(lib.weft_sync)

    def use_averages(self, on=True):
        """Puts the averages that optimizers keep (ema=...) instead of their parameters, or the parameters back."""
        self._call(lib.weft_use_averages, on)

    def save(self, path, training=False):
        """Store.save() for all ranks of the session's world together."""
        self._call(lib.weft_session_save, text(path), training)

    def check(self, on=True):
        """Checks each node's results: the first that is NaN or infinite ends a run with an error that names the node. Slow."""
        lib.weft_session_set_check(self.pointer, on)

    def profile(self, on=True):
        """Starts or stops measuring how long each node takes: profile_text()."""
        lib.weft_session_set_profile(self.pointer, on)

    def profile_text(self):
        """The mean time of each node, slowest first."""
        return taken(lib.weft_session_profile_text(self.pointer))


def _names(fetch):
    """The names of outputs, of a text or any iterable of texts; None: it is of other things."""
    if isinstance(fetch, str):
        return [fetch]
    if hasattr(fetch, "dtype") or not hasattr(fetch, "__iter__"):
        return None
    names = list(fetch)
    return names if all(isinstance(n, str) for n in names) else None


def _joined(named, feeds):
    """All inputs of a run; {None: ...} where they came without names."""
    if feeds is not None and not isinstance(feeds, dict):
        return {None: feeds}
    return {**named, **(feeds or {})}


def writable(array, port, what):
    """The memory of an array that an output is written into: it must have the output's type and shape, row by row."""
    if isinstance(array, (int, float, list, tuple)):
        raise Error("argument", f"{what}: it is written into an array, not into a {type(array).__name__}")
    given = fits(array, port, what)
    if not given.flags.writeable or (hasattr(array, "flags") and not array.flags.c_contiguous) or (hasattr(array, "is_contiguous") and not array.is_contiguous()):
        raise Error("argument", f"{what}: its memory must be writable and row-major")
    return given
