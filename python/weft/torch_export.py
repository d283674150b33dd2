"""What torch.export gives of a module: its program, with the regions of no_grad() and autocast kept, and without its messages to
PyTorch's developers."""
import contextlib
import os
import re
import sys

from ._lib import Error


def export(module, args=(), kwargs=None, *, train=True, dynamic=None):
    """The functional program of a module: torch.export's, with no_grad() regions kept, and ops of many parts kept whole."""
    import torch
    if isinstance(module, torch.export.ExportedProgram):
        return module
    if not isinstance(module, torch.nn.Module):
        raise Error("argument", f"from_torch: a {type(module).__name__} is no torch.nn.Module: a module whose forward() calls it is needed")
    shapes = _dynamic_shapes(module, args, kwargs, dynamic)
    modes = {part: part.training for part in module.modules()}
    _looked_over(module, train)
    if module.training != bool(train):
        module.train(bool(train))
    try:
        with _quiet(), _whole_checkpoints(), _no_grad_within_autocast():
            program = torch.export.export(module, tuple(args), kwargs, dynamic_shapes=shapes, strict=False)
            _keep_no_grad(program.graph_module)
            return program.run_decompositions({})
    except Exception as why:
        raise Error("unsupported", _export_failed(why) + _way_out(why, shapes)) from why
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
                      "call train() on them where that is not meant", stacklevel=4)
    wide = next((n for n, p in module.named_parameters() if p.dtype == torch.float64), None)
    if wide:
        raise Error("type", f"from_torch: the parameter {wide} is float64, and parameters are f32: call module.float()")


def _dynamic_shapes(module, args, kwargs, dynamic):
    """torch.export's form of {"image": {0: "batch"}}: an entry for each argument."""
    if not dynamic:
        return None
    if not isinstance(dynamic, dict):
        raise Error("argument", f'from_torch: dynamic={dynamic!r}: a dict is needed, {{"x": {{0: "batch"}}}} for each argument with the batch')
    for name, axes in dynamic.items():
        if not isinstance(axes, dict) or set(axes.values()) != {"batch"}:
            raise Error("argument", f'from_torch: dynamic has {name}={axes!r}: only the batch may be dynamic, {{"{name}": {{0: "batch"}}}}')
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
    return {n: {axis: batch for axis in dynamic[n]} if n in dynamic else None for n in bound.arguments}


def _export_failed(why):
    """One line of what torch.export says, with the program's line, and what would help."""
    lines = [line.strip() for line in str(why).splitlines() if line.strip()]
    first = lines[0] if lines else type(why).__name__
    place = next((line for line in reversed(lines) if line.startswith("File ") and "/torch/" not in line), "")
    told = f"from_torch: torch.export: {type(why).__name__}: {first[:300]}"
    told += "".join(f" {line[:200]}" for line in lines[1:6] if line.startswith(("- ", "Not all values", "The following", "You marked", "Specializations")))
    if place:
        told += f" ({place})"
    if "data-dependent" in str(why) or "GuardOnDataDependent" in type(why).__name__ or "unbacked" in str(why):
        told += ": a shape or branch depends on numbers; a static graph needs shapes that follow from shapes (masks and where() instead of indices)"
    return told


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


def _keep_no_grad(graph_module):
    """Writes the regions of torch.no_grad() into the graph with detach(): run_decompositions() would forget that they have no gradient."""
    import torch
    graph = graph_module.graph
    for node in list(graph.nodes):
        if node.op == "call_function" and str(node.target) == "wrap_with_set_grad_enabled":
            _inline(graph_module, node, node.args[1], node.args[2:], detach=node.args[0] is False)
    for node in graph.nodes:
        if node.op == "call_function" and str(node.target) == "wrap_with_autocast":
            inner = getattr(graph_module, node.args[4].target)
            if isinstance(inner, torch.fx.GraphModule):
                _keep_no_grad(inner)
                setattr(graph_module, node.args[4].target, _interpreted(inner))
    graph.lint()
    graph_module.recompile()


def _inline(graph_module, node, getter, arguments, detach):
    import torch
    inner = getattr(graph_module, getter.target)
    _keep_no_grad(inner)
    graph, env = graph_module.graph, {}
    places = [n for n in inner.graph.nodes if n.op == "placeholder"]
    writes = detach and any(_writes_float(n, lambda w: w.op == "placeholder") for n in inner.graph.nodes)

    def detached(value):
        return _detached(graph, value) if detach else value

    with graph.inserting_before(node):
        for place, argument in zip(places, arguments):
            env[place] = detached(argument) if writes else argument
        for n in inner.graph.nodes:
            if n.op == "output":
                results = [torch.fx.map_arg(r, lambda x: env[x]) for r in n.args[0]]
            elif n.op == "get_attr":
                name = f"{getter.target}_{n.target.replace('.', '_')}"
                setattr(graph_module, name, getattr(inner, n.target))
                env[n] = graph.get_attr(name)
                env[n].meta = dict(n.meta)
            elif n.op != "placeholder":
                env[n] = graph.node_copy(n, lambda x: env[x])
        results = [r if writes else detached(r) for r in results]
    for user in list(node.users):
        user.replace_all_uses_with(results[user.args[1]])
        graph.erase_node(user)
    graph.erase_node(node)


def _writes_float(node, is_outside):
    """Whether a node of a no_grad() region writes into a float tensor that comes from outside of the region."""
    import torch
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload) or not node.target._schema.is_mutable:
        return False
    written = [node.args[i] if i < len(node.args) else node.kwargs.get(a.name)
               for i, a in enumerate(node.target._schema.arguments) if a.alias_info is not None and a.alias_info.is_write]
    return any(isinstance(w, torch.fx.Node) and is_outside(w) and w.meta["val"].is_floating_point() for w in written)


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
    before = getattr(owner, name, None)
    if before is None:  # another version of PyTorch
        yield
        return
    setattr(owner, name, function(before))
    try:
        yield
    finally:
        setattr(owner, name, before)


def _whole_checkpoints():
    """torch.utils.checkpoint(..., use_reentrant=True) runs its function under no_grad(), which would end the gradient: here it is a call."""
    import torch
    return _replaced(torch.utils.checkpoint.CheckpointFunction, "apply", lambda before: staticmethod(lambda function, preserve, *args: function(*args)))


def _no_grad_within_autocast():
    """PyTorch 2.15's pass for no_grad() forgets a region that is within one of autocast."""
    import importlib

    def kept_first(before):
        def replace(graph_module, signature):
            _detach_within_autocast(graph_module)
            return before(graph_module, signature)
        return replace
    try:
        passes = importlib.import_module("torch._export.passes.replace_set_grad_with_hop_pass")
    except ImportError:
        return contextlib.nullcontext()
    return _replaced(passes, "replace_set_grad_with_hop_pass", kept_first)


def _detach_within_autocast(graph_module):
    """Writes no_grad() within autocast into the graph with detach(), as _keep_no_grad() does elsewhere."""
    depth, mode, at_entry, regions = 0, True, True, []
    for node in list(graph_module.graph.nodes):
        name = getattr(node.target, "__name__", "") if node.op == "call_function" else ""
        if name == "_enter_autocast":
            at_entry = at_entry if depth else mode
            depth += 1
        elif name == "_exit_autocast":
            depth -= 1
        elif name == "_set_grad_enabled":
            mode = bool(node.args[0])
            if depth:
                if not mode and at_entry:
                    regions.append([])
                graph_module.graph.erase_node(node)
        elif depth and at_entry and not mode:
            regions[-1].append(node)
    for region in regions:
        _detach_region(graph_module.graph, region)


def _detach_region(graph, region):
    inside = set(region)
    writes = any(_writes_float(n, lambda w: w not in inside) for n in region)
    for node in region:
        if writes:
            with graph.inserting_before(node):
                node.args = _mapped(node.args, lambda a: a if a in inside else _detached(graph, a))
        elif any(u not in inside for u in node.users):
            with graph.inserting_after(node):
                detached = _detached(graph, node)
            if detached is not node:
                node.replace_all_uses_with(detached, delete_user_cb=lambda user: user not in inside and user is not detached)


def _mapped(args, function):
    import torch
    return torch.fx.map_arg(args, function)


def _detached(graph, node):
    """The node through which no gradient flows; the node itself where it is no tensor of floating point."""
    import torch
    if not isinstance(node, torch.fx.Node) or not isinstance(node.meta.get("val"), torch.Tensor) or not node.meta["val"].is_floating_point():
        return node
    made = graph.call_function(torch.ops.aten.detach.default, (node,))
    made.meta = {k: v for k, v in node.meta.items() if k in ("val", "nn_module_stack", "stack_trace")}
    return made


# ---- what it says ----

# Warnings about PyTorch's own ways of tracing, which change nothing here.
NOISE = re.compile(r"None of the inputs have requires_grad|use_reentrant parameter|TreeSpec|torch\.export")
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


def _is_noise(warning):
    said = str(warning.message)
    if " assigned during export" in said:
        return all(MADE.search(name) for name in re.findall(r"self\.[\w.\[\]]+", said.partition(" assigned")[0]))
    inside = TORCH in warning.filename and issubclass(warning.category, (DeprecationWarning, FutureWarning))
    return inside or bool(NOISE.search(said))


@contextlib.contextmanager
def _quiet():
    """Keeps to itself what PyTorch says to its developers; warnings of the program, and of PyTorch about the program, come when it ends."""
    import logging
    import warnings

    def from_errors_on(record):
        return record.levelno >= logging.ERROR or "TORCH_LOGS" in os.environ

    loggers = [logging.getLogger(n) for n in ("torch.fx.experimental.symbolic_shapes", "torch.export", "torch._export", "torch._dynamo")]
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
            if not _is_noise(w):
                warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
