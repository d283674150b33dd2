"""What torch.export gives of a module: its program, with the regions of no_grad() and autocast kept, and without its messages to
PyTorch's developers."""
import contextlib
import operator
import os
import re
import sys
import threading
import traceback
import types

from ._lib import Error
from .torch_ops import refused_at

EXPORTING = threading.RLock()  # export() replaces functions of PyTorch: in one thread at a time


def export(module, args=(), kwargs=None, *, train=True, dynamic=None):
    """The functional program of a module: torch.export's, with no_grad() regions kept, and ops of many parts kept whole."""
    import torch
    if isinstance(module, torch.export.ExportedProgram):
        return module
    if not isinstance(module, torch.nn.Module):
        raise Error("argument", f"from_torch: a {type(module).__name__} is no torch.nn.Module: a module whose forward() calls it is needed")
    shapes = _dynamic_shapes(module, args, kwargs, dynamic)
    with EXPORTING:
        return _exported(module, tuple(args), kwargs, bool(train), shapes)


def _exported(module, args, kwargs, train, shapes):
    import torch
    modes = {part: part.training for part in module.modules()}
    _looked_over(module, train)
    if module.training != train:
        module.train(train)
    try:
        with _quiet(module), _whole_checkpoints(train), _own_backward_refused(module, train), _no_grad_as_detach(module, train):
            program = torch.export.export(module, args, kwargs, dynamic_shapes=shapes, strict=False)
            _keep_autocast(program.graph_module)
            return program.run_decompositions({})
    except Error:
        raise
    except Exception as why:
        raise Error("unsupported", _export_failed(module, why) + _way_out(why, shapes)) from _shown(why)
    finally:
        for part, mode in modes.items():
            part.training = mode


def _looked_over(module, train):
    """What a user of PyTorch forgets."""
    import torch
    import warnings
    inner = [part for part in module.modules() if part is not module]
    moded = [part for part in inner if isinstance(part, (torch.nn.modules.batchnorm._BatchNorm, torch.nn.modules.dropout._DropoutNd))]
    if train and moded and not any(part.training for part in inner):
        warnings.warn("from_torch: the modules within are in eval mode: their dropout and batch norms do nothing in this training graph; "
                      "call train() on them where that is not meant", stacklevel=5)
    wide = next((n for n, p in module.named_parameters() if p.dtype == torch.float64), None)
    if wide:
        raise Error("type", f"from_torch: the parameter {wide} is float64, and parameters are f32: call module.float()")


def _dynamic_shapes(module, args, kwargs, dynamic):
    """torch.export's form of {"image": {0: "batch"}}: an entry for each argument."""
    if not dynamic:
        return None
    if not isinstance(dynamic, dict):
        raise Error("argument", f'from_torch: dynamic={dynamic!r}: a dict is needed, {{"x": {{0: "batch"}}}} for each argument with the batch')
    import inspect
    import torch
    try:
        bound = inspect.signature(module.forward).bind(*args, **(kwargs or {}))
    except TypeError as why:
        raise Error("argument", f"from_torch: the examples do not fit {type(module).__name__}.forward{inspect.signature(module.forward)}: {why}") from None
    unknown = [n for n in dynamic if n not in bound.arguments]
    if unknown:
        raise Error("name", f"from_torch: dynamic names {unknown[0]}, which is not an argument; the arguments are: {', '.join(bound.arguments)}")
    batch = torch.export.Dim("batch")
    return {n: _axes(n, example, dynamic.get(n), batch) for n, example in bound.arguments.items()}


def _axes(name, example, given, batch):
    """torch.export's form of what dynamic has for one argument: {0: batch} for a tensor, and for a tuple, list or dict one of these for each part."""
    import torch
    if given is None:
        return None
    if isinstance(example, torch.Tensor):
        return {_axis(name, example, axis, given): batch for axis in given} if _is_batch(name, given) else None
    if type(example) in (tuple, list):
        if not isinstance(given, (tuple, list)) or len(given) != len(example):
            raise Error("argument", f"from_torch: dynamic has {name}={given!r}: the argument is a {type(example).__name__} of {len(example)}: a list of {len(example)} is needed, "
                        'with {0: "batch"} or None for each')
        return type(example)(_axes(f"{name}[{i}]", part, axes, batch) for i, (part, axes) in enumerate(zip(example, given)))
    if type(example) is dict:
        if not isinstance(given, dict) or not set(given) <= set(example):
            raise Error("argument", f"from_torch: dynamic has {name}={given!r}: the argument is a dict of {', '.join(map(str, example))}: a dict of these is needed, "
                        'with {0: "batch"} or None for each')
        return {key: _axes(f"{name}[{key!r}]", part, given.get(key), batch) for key, part in example.items()}
    raise Error("argument", f"from_torch: dynamic names {name}, a {type(example).__name__}, which has no axes: tensors, and tuples, lists and dicts of tensors have")


def _is_batch(name, given):
    """Whether a tensor has a dynamic axis."""
    if not isinstance(given, dict) or any(follows != "batch" for follows in given.values()):
        raise Error("argument", f'from_torch: dynamic has {name}={given!r}: only the batch may be dynamic, {{"{name}": {{0: "batch"}}}}')
    return bool(given)


def _axis(name, example, axis, given):
    """The number of an axis: a negative one counts from the end."""
    if not isinstance(axis, int) or isinstance(axis, bool) or not -example.ndim <= axis < example.ndim:
        has = f"has the axes 0 to {example.ndim - 1}, or -{example.ndim} to -1 from the end" if example.ndim else "has no axes"
        raise Error("argument", f"from_torch: dynamic has {name}={given!r}: {axis!r} is no axis of it: the example {has}")
    return axis % example.ndim


def _export_failed(module, why):
    """One line of what torch.export or the module says, with the program's line, and what would help."""
    lines = [line.strip() for line in str(why).splitlines() if line.strip()]
    first = lines[0] if lines else ""
    place = next((line for line in reversed(lines) if line.startswith("File ") and "/torch/" not in line), "")
    frames = [] if place else [f for f, _ in traceback.walk_tb(why.__traceback__) if _is_of_program(f)]
    place = f"{frames[-1].f_code.co_filename}:{_line_of(why, frames[-1])}" if frames else place
    if first.endswith(":"):  # the reason is in the lines that follow
        first = " ".join([first, *lines[1:2], *[line for line in lines[2:] if line.startswith("Explanation:")][:1]])
    by_program = _is_raised_by_program(why)
    told = f"from_torch: {'the module raised' if by_program else 'torch.export:'} {type(why).__name__}{': ' if first else ''}{first[:400]}"
    told += "".join(f" {line[:200]}" for line in lines[1:6] if line.startswith(("- ", "Not all values", "The following", "You marked", "Specializations")))
    path = _path_of(module, reversed(frames))
    if path:
        told += f" in {path}"
    if place:
        told += f" ({place})"
    if "Constraints violated" in first and "batch" in first:
        return told + (": the program makes the batch of the examples a number, as view(8, -1), len(x), chunk() and x[:n // 2] do: write x.shape[0] or -1, "
                       "or leave `dynamic` out, which fixes the batch")
    if "data-dependent" in str(why) or "GuardOnDataDependent" in type(why).__name__ or "unbacked" in str(why):
        told += ": a shape or branch depends on numbers; a static graph needs shapes that follow from shapes (masks and where() instead of indices)"
    return told


def _is_of_program(frame):
    """Whether a frame runs neither PyTorch's code nor Weft's, nor code that was made while tracing."""
    file = frame.f_code.co_filename
    return TORCH not in file and not file.startswith("<") and os.path.dirname(file) != os.path.dirname(__file__)


def _is_raised_by_program(why):
    """Whether an exception was raised in the program's own code, and not in PyTorch's."""
    frames = [f for f, _ in traceback.walk_tb(why.__traceback__) if "getattr" not in f.f_code.co_name]  # of a part that is not there
    return bool(frames) and _is_of_program(frames[-1])


def _line_of(why, frame):
    """The line at which a frame was when it raised."""
    return [line for f, line in traceback.walk_tb(why.__traceback__) if f is frame][-1]


def _shown(why):
    """What the program raised, with the program's frames alone; None: PyTorch raised it, and the text of the error says all."""
    if not _is_raised_by_program(why):
        return None
    kept = None
    for frame, line in reversed(list(traceback.walk_tb(why.__traceback__))):
        kept = types.TracebackType(kept, frame, frame.f_lasti, line) if _is_of_program(frame) else kept
    return why.with_traceback(kept)


def _path_of(module, frames):
    """The path of the part of a module that the first of these frames with one runs; "": the module itself."""
    import torch
    parts = {id(part): name for name, part in module.named_modules()}
    return next((parts[id(v)] for f in frames for v in f.f_locals.values() if isinstance(v, torch.nn.Module) and id(v) in parts), "")


def _way_out(why, shapes):
    """What would help against what torch.export refuses."""
    trace, names = why.__traceback__, set()
    while trace:
        names |= {trace.tb_frame.f_code.co_name, *(type(v).__name__ for v in trace.tb_frame.f_locals.values())}
        trace = trace.tb_next
    if names & {"pack_padded_sequence", "pad_packed_sequence", "PackedSequence"}:
        return ": packed sequences have shapes that depend on numbers: run the padded ones, and mask what is beyond the lengths"
    without = [n for n, axes in (shapes or {}).items() if not axes]
    if "Constraints violated" in str(why) and without:
        return f': each argument whose first axis is the batch needs {{0: "batch"}} in dynamic, and {", ".join(without)} has none'
    return ""


def _keep_autocast(graph_module):
    """Makes the regions of autocast run node by node, in branches of torch.cond() too."""
    import torch
    for node in list(graph_module.graph.nodes):
        inner = getattr(graph_module, node.target, None) if node.op == "get_attr" else None
        if isinstance(inner, torch.fx.GraphModule):
            _keep_autocast(inner)
            if any(str(user.target) == "wrap_with_autocast" for user in node.users):
                setattr(graph_module, node.target, _interpreted(inner))


def _interpreted(inner):
    """The body of a region of autocast, run node by node, so that run_decompositions() gives its parts the modules and lines of the program."""
    import torch

    class Region(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, *args):
            return torch.fx.Interpreter(self.inner).run(*args)
    return Region()


# ---- what torch.export would lose ----

@contextlib.contextmanager
def _replaced(owner, name, function):
    """Within it, owner.name is function(what it was)."""
    if not hasattr(owner, name):  # another version of PyTorch
        yield
        return
    is_own, before = name in vars(owner), vars(owner).get(name, getattr(owner, name))
    setattr(owner, name, function(before))
    try:
        yield
    finally:
        if is_own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


def _whole_checkpoints(train):
    """torch.utils.checkpoint(..., use_reentrant=True) runs its function under no_grad(), which would end the gradient: here it is a call."""
    import torch
    from torch.utils import checkpoint
    inherited, thread = checkpoint.CheckpointFunction.apply, threading.get_ident()

    def apply(function, preserve, *args):
        if threading.get_ident() != thread:
            return inherited(function, preserve, *args)
        if train and torch.is_grad_enabled():
            checkpoint.check_backward_validity(args)  # warns where PyTorch gives the function's parameters no gradient
        return function(*args)
    return _replaced(checkpoint.CheckpointFunction, "apply", lambda before: staticmethod(apply))


def _own_backward_refused(module, train):
    """torch.export keeps the forward() of a torch.autograd.Function and forgets its backward(): where that trains, it is refused."""
    import torch
    thread = threading.get_ident()

    def checked(before):
        def apply(function, *args, **kwargs):
            is_own = train and threading.get_ident() == thread and torch.is_grad_enabled() and _has_own_backward(function)
            if is_own and not _gives_autograds(function, before, args, kwargs):
                raise _function_refused(module, function)
            return before.__get__(None, function)(*args, **kwargs)
        return classmethod(apply)
    return _replaced(torch.autograd.Function, "apply", checked)


def _has_own_backward(function):
    """Whether the program, and not PyTorch, says what the gradient of a torch.autograd.Function is."""
    if function.__name__ == "ApplyTemplate":  # one of the program, within torch.cond()
        return True
    of = next((c.__module__ for c in function.__mro__ if "backward" in vars(c) or "vjp" in vars(c)), "")
    return not of.startswith("torch.") or of.startswith(("torch.ao.", "torch.autograd.function"))


class _Context:
    """The ctx of forward(), for one whose steps autograd follows."""

    def __getattr__(self, name):  # save_for_backward, mark_non_differentiable ...
        return lambda *args, **kwargs: None


def _gives_autograds(function, apply, args, kwargs):
    """Whether backward() gives what autograd derives from the steps of forward(), as one written for speed does: in f64, for drawn numbers of
    several sizes. Such a function is its forward()."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes
    is_new = function.setup_context is not torch.autograd.Function.setup_context  # forward() without ctx
    if kwargs or not any(_is_trained(a) for a in args):
        return False
    try:
        with _disable_current_modes(), torch.enable_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            for size in (0.1, 1.0, 10.0):
                real = [_drawn(a, size) for a in args]
                wanted = [a for a in real if _is_trained(a)]
                found = []
                for y in (apply.__get__(None, function)(*real), function.forward(*(() if is_new else (_Context(),)), *real)):
                    torch.manual_seed(1)
                    gradients = torch.autograd.grad(y, wanted, torch.randn_like(y) / size)
                    found.append(gradients)
                if not all(torch.allclose(a, b, rtol=1e-6, atol=1e-9 / size) for a, b in zip(*found)):
                    return False
        return True
    except Exception:
        return False


def _is_trained(a):
    import torch
    return isinstance(a, torch.Tensor) and a.requires_grad


def _drawn(a, size):
    """Drawn numbers of the shape of an argument; what is not trained is itself."""
    import torch
    if not isinstance(a, torch.Tensor):
        return a
    if not a.is_floating_point():
        raise TypeError("integers may not be drawn")
    shape = [n if isinstance(n, int) else n.node.hint for n in a.shape]
    return (size * torch.randn(shape, dtype=torch.float64)).requires_grad_(a.requires_grad)


def _function_refused(module, function):
    frames = [f for f, _ in traceback.walk_stack(sys._getframe(2)) if _is_of_program(f)]
    path = _path_of(module, frames)
    name = "a torch.autograd.Function within torch.cond()" if function.__name__ == "ApplyTemplate" else f"torch.autograd.Function {function.__name__}"
    where = (f" in {path}" if path else "") + (f" ({frames[0].f_code.co_filename}:{frames[0].f_lineno})" if frames else "")
    return Error("unsupported", f"from_torch: {name}{where}: its own backward() would be lost: write a straight-through estimator y of x as x + (y - x).detach(), "
                 "a reversed gradient as 2 * x.detach() - x, others so that autograd derives them; in a graph of train=False it may stay")


def _no_grad_as_detach(module, train):
    """PyTorch 2.15's pass for no_grad() forgets regions that hold torch.cond() or are within autocast, and run_decompositions() all of them:
    detach() stands for them before."""
    import importlib
    frozen = {name for name, p in module.named_parameters(remove_duplicate=False) if not p.requires_grad}

    def written_first(before):
        def replace(graph_module, signature):
            if signature is not None:  # the whole program
                trained = {s.arg.name for s in signature.input_specs if s.kind.name == "PARAMETER" and s.target not in frozen}
                _write_detach(graph_module, {n for n in graph_module.graph.nodes if n.op == "placeholder" and n.name in trained}, train)
                for node, spec in zip(graph_module.graph.output_node().args[0], signature.output_specs):
                    if hasattr(node, "name"):
                        spec.arg.name = node.name
            return before(graph_module, signature)
        return replace
    passes = importlib.import_module("torch._export.passes.replace_set_grad_with_hop_pass")
    return _replaced(passes, "replace_set_grad_with_hop_pass", written_first)


def _write_detach(graph_module, needing, train):
    """Writes no_grad() in a graph, and in the branches of its torch.cond(), as detach(). `needing`: nodes that need a gradient."""
    graph, off, regions, mode = graph_module.graph, set(), [], True
    for node in list(graph.nodes):
        if _sets_mode(node):
            mode = bool(node.args[0])
            regions += [] if mode else [[]]
            graph.erase_node(node)
        elif node.op == "call_function":
            part_of = node.args[0] if node.target is operator.getitem else None
            is_off = part_of in off if part_of is not None else not mode
            if str(node.target) == "cond":
                _write_detach_in_branches(graph_module, node, needing, train, is_off)
            if is_off:
                off.add(node)
                next((r for r in regions if part_of in r), regions[-1]).append(node)
            elif not _is_detach(node) and any(n in needing for n in node.all_input_nodes):
                if train:
                    _check_write(node, off, needing)
                needing |= {n for n in (node, *map(_base, _written(node))) if _may_need(n)}
            elif train:
                _check_write(node, off, needing)
    for region in regions:
        _detach_region(graph, region, needing if train else (), off)
    graph_module.recompile()


def _is_detach(node):
    return str(node.target).startswith("aten.detach")


def _check_write(node, off, needing):
    """Refuses a write through detach() where run_decompositions() would cut a gradient that PyTorch has."""
    for written in _written(node):
        views = _views(written)
        if not any(_is_detach(v) or v in off for v in views) or not _may_need(written):
            continue
        if any(n in needing for n in node.all_input_nodes if n is not written):
            raise refused_at(node, "a write of a value with a gradient into a tensor that was detached, or made under no_grad()",
                             "write it into a clone() of the tensor")
        if views[-1] in needing and _is_read_after(views[-1], node, off):
            raise refused_at(node, "a write through detach() into a tensor that needs a gradient, and is read later",
                             "write x = x + (new - x).detach() instead, or write into a clone()")


def _is_read_after(base, node, off):
    """Whether a tensor, or a view of it that has its gradient, is read after a node where gradients pass. `off`: nodes under no_grad()."""
    todo, seen = [base], set()
    while todo:
        viewed = todo.pop()
        for user in viewed.users:
            if user is node or _is_detach(user) or user in off:
                continue
            if user > node:
                return True
            if user not in seen and _base(user) is base:
                seen.add(user)
                todo.append(user)
    return False


def _is_of_a_copy(node, written, off):
    """Whether a write under no_grad() is into a detached tensor, and nothing with a gradient reads what it is a view of afterwards."""
    *views, base = _views(written)
    return base.op == "call_function" and any(map(_is_detach, views)) and not _is_read_after(base, node, off)


def _write_detach_in_branches(graph_module, cond, needing, train, is_off):
    for branch in cond.args[1:3]:
        inner = getattr(graph_module, branch.target)
        if is_off:
            _erase_modes(inner, cond)
            continue
        places = [n for n in inner.graph.nodes if n.op == "placeholder"]
        _write_detach(inner, {place for place, operand in zip(places, cond.args[3]) if operand in needing}, train)


def _erase_modes(graph_module, cond):
    """A branch within no_grad() has no gradient anywhere."""
    for node in list(graph_module.graph.nodes):
        if _sets_mode(node):
            if node.args[0]:
                raise refused_at(cond, "enable_grad() in a branch, within no_grad()", "end no_grad() before torch.cond()")
            graph_module.graph.erase_node(node)
        elif str(node.target) == "cond":
            for branch in node.args[1:3]:
                _erase_modes(getattr(graph_module, branch.target), cond)
    graph_module.recompile()


def _sets_mode(node):
    return node.op == "call_function" and getattr(node.target, "__name__", "") == "_set_grad_enabled"


def _may_need(node):
    """Whether a node may need a gradient: numbers that are no floats do not."""
    import torch
    value = node.meta.get("val")
    return not isinstance(value, torch.Tensor) or value.is_floating_point()


def _written(node):
    """The nodes that a node writes into."""
    import torch
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload) or not node.target._schema.is_mutable:
        return []
    written = [node.args[i] if i < len(node.args) else node.kwargs.get(a.name)
               for i, a in enumerate(node.target._schema.arguments) if a.alias_info is not None and a.alias_info.is_write]
    return [w for w in written if isinstance(w, torch.fx.Node)]


def _base(node):
    """What a view is a view of."""
    return _views(node)[-1]


def _views(node):
    """A node, what it is a view of, and so on."""
    import torch
    views = [node]
    while node.op == "call_function" and node.args and isinstance(node.args[0], torch.fx.Node):
        is_view = isinstance(node.target, torch._ops.OpOverload) and any(a.alias_info is not None for a in node.target._schema.arguments[:1])
        if not is_view and node.target is not operator.getitem:
            break
        node = node.args[0]
        views.append(node)
    return views


def _detach_region(graph, region, needing, off):
    """Detaches what leaves a region; where it writes into a tensor from outside, what enters it."""
    inside = set(region)
    writes = [(node, written) for node in region for written in _written(node) if _base(written) not in inside and _may_need(_base(written))]
    for node, written in writes:
        if _base(written) in needing and not _is_of_a_copy(node, written, off):
            raise refused_at(node, "a write under no_grad() into a tensor that needs a gradient",
                             "write x = x + (new - x).detach() instead, through which the gradient passes as in PyTorch")
    for node in region:
        if writes:
            with graph.inserting_before(node):
                node.args, node.kwargs = _mapped((node.args, node.kwargs), lambda a: a if a in inside else _detached(graph, a, node))
        elif any(u not in inside for u in node.users):
            with graph.inserting_after(node):
                detached = _detached(graph, node, node)
            if detached is not node:
                node.replace_all_uses_with(detached, delete_user_cb=lambda user: user not in inside and user is not detached)


def _mapped(args, function):
    import torch
    return torch.fx.map_arg(args, function)


def _detached(graph, node, place):
    """The node through which no gradient flows, in the module and line of `place`; the node itself where it is no tensor of floating point."""
    import torch
    if not isinstance(node, torch.fx.Node) or not isinstance(node.meta.get("val"), torch.Tensor) or not node.meta["val"].is_floating_point():
        return node
    made = graph.call_function(torch.ops.aten.detach.default, (node,))
    made.meta = {"val": node.meta["val"], **{k: v for k, v in place.meta.items() if k in ("nn_module_stack", "stack_trace")}}
    return made


# ---- what it says ----

# Warnings about PyTorch's own ways of tracing, which change nothing here. Where the inputs of a reentrant checkpoint need no
# gradient, PyTorch's training is another than Weft's: its warning is heard.
NOISE = re.compile(r"use_reentrant parameter|TreeSpec|torch\.export")
MADE = re.compile(r"\._flat_weights\[\d+\]$|\.(weight|bias)$")  # attributes that LSTMs, weight_norm and spectral_norm set anew in each call
TORCH = os.sep + "torch" + os.sep


class _Stderr:
    """sys.stderr without the partial graph that torch.export prints before it raises."""

    def __init__(self, stream):
        self.stream = stream

    def write(self, said):
        writer = sys._getframe(1).f_code.co_filename
        return len(said) if writer.endswith(os.path.join("torch", "export", "_trace.py")) else self.stream.write(said)

    def __getattr__(self, name):
        return getattr(self.stream, name)


def _is_noise(warning, module):
    said = str(warning.message)
    if " assigned during export" in said:
        names = re.findall(r"self\.[\w.\[\]]+", said.partition(" assigned")[0])
        return bool(names) and all(MADE.search(name) and _is_made_by_torch(module, MADE.sub("", name)) for name in names)
    inside = TORCH in warning.filename and issubclass(warning.category, (DeprecationWarning, FutureWarning))
    return inside or bool(NOISE.search(said))


def _is_made_by_torch(module, path):
    """Whether PyTorch, and not the program's forward(), sets the weights of a part ("self.inner") anew in each call."""
    import torch
    part = dict(module.named_modules()).get(path.removeprefix("self").removeprefix("."))
    return isinstance(part, torch.nn.RNNBase) or part is not None and any(type(h).__module__.startswith("torch.nn.utils.") for h in part._forward_pre_hooks.values())


@contextlib.contextmanager
def _quiet(module):
    """Keeps to itself what PyTorch says to its developers; warnings of the program, and of PyTorch about the program, come when it ends."""
    import logging
    import warnings

    raising = "torch._subclasses.fake_tensor"  # it logs the traceback of what it raises

    def from_errors_on(record):
        return record.levelno >= logging.ERROR and record.name != raising or "TORCH_LOGS" in os.environ

    loggers = [logging.getLogger(n) for n in ("torch.fx.experimental.symbolic_shapes", "torch.export", "torch._export", "torch._dynamo", raising)]
    for logger in loggers:
        logger.addFilter(from_errors_on)
    stderr, sys.stderr = sys.stderr, _Stderr(sys.stderr)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    finally:
        sys.stderr = stderr
        for logger in loggers:
            logger.removeFilter(from_errors_on)
        for w in caught:
            if not _is_noise(w, module):
                warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
