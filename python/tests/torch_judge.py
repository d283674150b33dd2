"""Judges weft.from_torch by a module in f64: outputs, every gradient, every parameter and buffer after three steps.

An error of Weft may be 4 times that of PyTorch's own f32, plus 1e-6 of the largest element. PyTorch's own error is the
largest of three runs that differ in what is arbitrary: with and without oneDNN, and with weights changed in their last bit.

Where an activation is next to a kink (a ReLU at 1e-9), one rounding puts it on the other side, and gradients jump. So what
is beyond the limit is judged again on other inputs, TRIES in all, by eight runs of PyTorch each: wrong is a tensor that is
beyond it on all of them. (Of the hundreds of tensors of an ill-conditioned model another one may be on each.) Where PyTorch's f32 with oneDNN is not finite, nothing can be said of Weft's; another run that is not finite
does not count.
"""
import copy
import math
import time
import warnings
from dataclasses import dataclass, field

import torch
from torch import nn

import torch_models
import weft

LR, STEPS, TRIES, TIMES, LARGEST = 0.01, 3, 4, 4.0, 1e-6


class Step(nn.Module):
    """A module and a loss of its outputs: sums of products with fixed numbers, and of squares."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *args, **kwargs):
        outputs = floats(self.module(*args, **kwargs))
        loss = sum((o * weights(o)).mean() + 0.1 * (o * o).mean() for o in outputs)
        return {"loss": loss, **{f"output_{i}": o for i, o in enumerate(outputs)}}


def floats(outputs):
    """The tensors of numbers that a module returns, without those that are returned twice."""
    leaves = [x for x in torch.utils._pytree.tree_leaves(outputs) if isinstance(x, torch.Tensor) and x.is_floating_point()]
    return list({id(x): x for x in leaves}.values())


def weights(x):
    """Fixed numbers in the shape of x, the same in each type."""
    return ((torch.arange(x.numel()) * 37 % 101 - 50).to(x.dtype) / 64).reshape(x.shape)


@dataclass
class Run:
    """What a run of three steps gave, as f64."""
    outputs: dict = field(default_factory=dict)
    gradients: dict = field(default_factory=dict)
    after: dict = field(default_factory=dict)


def in_torch(step, batches, dtype):
    """Three steps of SGD by PyTorch; in f64 what a module calls .float() on is f64, too."""
    if dtype != torch.float64:
        return steps_in_torch(step, batches, dtype)
    to_f32 = torch.Tensor.float
    torch.Tensor.float = torch.Tensor.double
    try:
        return steps_in_torch(step, batches, dtype)
    finally:
        torch.Tensor.float = to_f32


def steps_in_torch(step, batches, dtype):
    step = copy.deepcopy(step).to(dtype)
    for part in step.modules():  # PyTorch has no product of groups in f64
        if dtype == torch.float64 and hasattr(getattr(part, "config", None), "_experts_implementation"):
            part.config._experts_implementation = "eager"
    run, trained = Run(), {n: p for n, p in step.named_parameters() if p.requires_grad}
    for i, inputs in enumerate(batches):
        step.zero_grad()
        made = step(**as_type(inputs, dtype)) if isinstance(inputs, dict) else step(*as_type(inputs, dtype))
        made["loss"].backward()
        if i == 0:
            run.outputs = {n: o.detach().double() for n, o in made.items()}
            run.gradients = {n: p.grad.double() for n, p in trained.items() if p.grad is not None and p.numel()}
        with torch.no_grad():
            for p in trained.values():
                if p.grad is not None:
                    p -= LR * p.grad
    run.after = {n: v.detach().double() for n, v in step.state_dict().items()}
    return run


def as_type(inputs, dtype):
    if isinstance(inputs, dict):
        return {n: as_type(x, dtype) for n, x in inputs.items()}
    if isinstance(inputs, tuple):
        return tuple(as_type(x, dtype) for x in inputs)
    return inputs.to(dtype) if inputs.is_floating_point() else inputs


def in_weft(store, session, batches, names):
    """The same by a plan whose updates are called by hand, so that gradients can be read."""
    run = Run()
    for i, inputs in enumerate(batches):
        made = session.run("train", **dict(zip(names, inputs.values() if isinstance(inputs, dict) else inputs)))
        if i == 0:
            run.outputs = {n: torch.from_numpy(o).double() for n, o in made.items()}
            run.gradients = {path.replace("/", "."): torch.from_numpy(g).double() for path, g in gradients(store, session)}
        session.update("train")
        session.zero_gradients("train")
    session.sync()
    run.after = {n: torch.from_numpy(v).double() for n, v in store.state_dict().items()}
    return run


def gradients(store, session):
    """Those of the parameters that the graph trains."""
    for path in store.paths("parameter"):
        try:
            yield path, session.gradient("train", path)
        except weft.Error as why:
            if why.status != "name":
                raise


def own_runs(step, batches, attempt):
    """PyTorch's f32 runs that differ in what is arbitrary: three, on the inputs of later attempts eight."""
    yield in_torch(step, batches, torch.float32)
    with torch.backends.mkldnn.flags(enabled=False):
        yield in_torch(step, batches, torch.float32)
    for seed in range(5, 11 if attempt else 6):
        yield in_torch(changed_in_last_bit(step, seed), batches, torch.float32)


def changed_in_last_bit(step, seed):
    """A copy whose parameters are rounded otherwise."""
    changed, generator = copy.deepcopy(step), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in changed.parameters():
            if p.is_floating_point():
                p *= 1 + (torch.rand(p.shape, generator=generator) - 0.5) * 2.0**-23
    return changed


@dataclass
class Verdict:
    """Errors relative to the largest element of each kind: of Weft, of PyTorch's f32, and what is beyond the limit."""
    name: str
    status: str = "converts"   # or "refused", "not exported", "wrong"
    errors: dict = field(default_factory=dict)  # kind -> (Weft's error, PyTorch's), by the largest of the kind
    beyond: dict = field(default_factory=dict)  # tensor -> what was found
    why: str = ""
    tries: int = 0
    seconds: float = 0


def larger(a, b):
    """The larger one; NaN if either is."""
    return max(a, b) if a == a and b == b else math.nan


def allowed_error(own):
    """The largest error of PyTorch's runs that are finite; NaN: the first of them, the plain one, is not."""
    return max(filter(math.isfinite, own)) if math.isfinite(own[0]) else math.nan


def compare(kind, verdict, truth, own, ours, least=0.0):
    """Judges one kind of tensors, each by itself; the largest element is that of the kind for gradients, else of the tensor, and at least
    `least`."""
    missing = [n for n in truth if n not in ours]
    if missing and kind != "after":
        verdict.beyond[f"{kind} {missing[0]}"] = f"{kind}: {missing[0]} is missing" + (f" and {len(missing) - 1} others" if len(missing) > 1 else "")
    largest = max((float(t.abs().max()) for t in truth.values() if t.numel()), default=0.0)
    worst, worst_own = 0.0, 0.0
    for n, t in truth.items():
        if n not in ours or t.numel() == 0:
            continue
        error = float((ours[n].reshape(t.shape) - t).abs().max())
        allowed = allowed_error([float((o[n] - t).abs().max()) for o in own if n in o])
        size = max(largest if kind == "gradients" else float(t.abs().max()), least)
        worst, worst_own = larger(worst, error / (largest or 1)), larger(worst_own, allowed / (largest or 1))
        if math.isnan(allowed):
            continue
        if not error <= TIMES * allowed + LARGEST * size:
            verdict.beyond[f"{kind} {n}"] = f"{kind}: {n}: {error:.2e}, PyTorch's {allowed:.2e}, largest {size:.2e}"
    verdict.errors[kind] = (worst, worst_own)


def judge(row, cached=None, device="cpu"):
    """The verdict on a row: Weft runs on `device`, PyTorch on the CPU. `cached(row, make)` keeps exported programs."""
    begin, verdict = time.time(), Verdict(row.name)
    warnings.simplefilter("ignore")
    step = Step(torch_models.make(row)).train()
    try:
        verdict.status = "not exported"
        program = program_of(row, step, inputs_of(row, 0), cached)
        verdict.status = "refused"
        model = weft.Model("judged")
        graph = model_graph(model, program, step)
        plan = model.compile(manual=True, device=device)
        plan.verify()
    except weft.Error as why:
        verdict.why, verdict.seconds = str(why), time.time() - begin
        return verdict
    verdict.status = "wrong"
    for attempt in range(TRIES):
        before, verdict.tries, verdict.beyond = verdict.beyond, attempt + 1, {}
        run_and_compare(verdict, row, step, graph, plan, attempt)
        if attempt:
            verdict.beyond = {tensor: found for tensor, found in verdict.beyond.items() if tensor in before}
        if not verdict.beyond:
            verdict.status = "converts"
            break
    verdict.seconds = time.time() - begin
    return verdict


def inputs_of(row, seed):
    """A batch as the module takes it: by names, or by place."""
    made = torch_models.batch(row, seed)
    return made if row.library in ("transformers", "diffusers", "own") else tuple(made.values())


def run_and_compare(verdict, row, step, graph, plan, attempt):
    batches = [inputs_of(row, STEPS * attempt + i) for i in range(STEPS)]
    store = plan.store(seed=1)
    store.load_state_dict(step.state_dict())
    with store.session() as session:
        ours = in_weft(store, session, batches, [p.name for p in graph.inputs()])
    truth, own = in_torch(step, batches, torch.float64), list(own_runs(step, batches, attempt))
    largest = max((float(g.abs().max()) for g in truth.gradients.values()), default=0.0)
    for kind, least in (("outputs", 0.0), ("gradients", 0.0), ("after", LR * STEPS * largest)):
        t, o, w = getattr(truth, kind), [getattr(r, kind) for r in own], getattr(ours, kind)
        if kind == "after":
            t = {n: v for n, v in t.items() if n in w}
        compare(kind, verdict, t, o, w, least)


def program_of(row, step, batch, cached):
    from weft.torch import export

    def make():
        return export(step, (), batch) if isinstance(batch, dict) else export(step, batch)
    return cached(row, make) if cached else make()


def model_graph(model, program, step):
    from weft.torch import of_program
    return of_program(model, "train", program, step, minimize=weft.SGD(LR))
