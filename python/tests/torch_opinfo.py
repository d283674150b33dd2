#!/usr/bin/env python3
"""torch_opinfo.py - the importer's functions by PyTorch's own samples: outputs and gradients against f64.

    torch_opinfo.py [--samples N] [NAME...]

For each operator of PyTorch's op_db that has samples of f32, the first N samples become a graph of Weft. It prints how many
agree, how many are refused, by op, and each that is wrong. Status 1: a sample is wrong.
"""
import argparse
import collections
import sys
import warnings
from types import SimpleNamespace

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree

import weft
from weft.torch import _Builder as Builder, of_program


def leaves_of(sample):
    leaves, spec = _pytree.tree_flatten(((sample.input, *sample.args), dict(sample.kwargs)))
    return leaves, spec


def caller(op, leaves, spec, places):
    """op as a function of its tensors alone, whose result is a list of tensors."""
    def call(*tensors):
        given = list(leaves)
        for i, t in zip(places, tensors):
            given[i] = t
        args, kwargs = _pytree.tree_unflatten(given, spec)
        return [x for x in _pytree.tree_leaves(op(*args, **kwargs)) if isinstance(x, torch.Tensor)]
    return call


def program_of(call, tensors):
    """What of_program() reads of an exported program: a graph of ATen ops."""
    graph = make_fx(call, tracing_mode="fake", pre_dispatch=True)(*tensors)
    kinds = SimpleNamespace
    from torch.export.graph_signature import InputKind
    nodes = list(graph.graph.nodes)
    places = [n for n in nodes if n.op == "placeholder"]
    results = next(n for n in nodes if n.op == "output").args[0]
    signature = kinds(input_specs=[kinds(kind=InputKind.USER_INPUT, arg=kinds(name=n.name), target=None) for n in places],
                      output_specs=[kinds(kind=kinds(name="USER_OUTPUT"), target=None) for _ in results])
    return SimpleNamespace(graph=graph.graph, graph_signature=signature, state_dict={}, constants={}, call_spec=kinds(out_spec=None))


def loss_of(made):
    """A number that depends on each element: with fixed weights."""
    return sum((o * fixed(o)).sum() for o in made if o.is_floating_point())


def fixed(o):
    return ((torch.arange(o.numel()) * 37 % 101 - 50).to(o.dtype) / 64).reshape(o.shape)


def by_torch(call, tensors, dtype):
    given = [t.detach().to(dtype).requires_grad_() if t.is_floating_point() else t for t in tensors]
    made = call(*given)
    floats = [t for t in given if t.is_floating_point()]
    loss = loss_of(made)
    gradients = torch.autograd.grad(loss, floats, allow_unused=True) if isinstance(loss, torch.Tensor) and loss.requires_grad else [None] * len(floats)
    return [o.detach() for o in made], list(gradients)


def by_weft(call, tensors):
    model = weft.Model("sample")
    program = program_of(call, tensors)
    graph = of_program(model, "g", program, train=True, outputs=[f"y{i}" for i in range(len(program.graph_signature.output_specs))])
    names = [p.name for p in graph.inputs()]
    floats = [n for n, t in zip(names, tensors) if t.is_floating_point()]
    return model, graph, names, floats


def run(model, names, tensors, wanted):
    plan = model.compile()
    plan.verify()
    with plan.store().session() as session:
        return session.run("g", fetch=wanted, **dict(zip(names, tensors)))


def differs(ours, own, truth, what):
    ours, own, truth = (torch.as_tensor(x).to(torch.float64) if not torch.as_tensor(x).is_complex() else torch.as_tensor(x) for x in (ours, own, truth))
    if ours.shape != truth.shape:
        return f"{what}: shape {list(ours.shape)}, not {list(truth.shape)}"
    good = truth.isfinite() & own.isfinite()
    if bool((ours.isfinite() != good)[good].any()):
        return f"{what}: not finite where PyTorch is"
    if not bool(good.any()):
        return None
    error, allowed = (ours - truth)[good].abs().max(), (own - truth)[good].abs().max()
    largest = truth[good].abs().max()
    return f"{what}: {error:.2e}, PyTorch's {allowed:.2e}, largest {largest:.2e}" if error > 8 * allowed + 2e-6 * max(largest, 1e-3) else None


def judge(op, sample):
    leaves, spec = leaves_of(sample)
    places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
    tensors = [leaves[i].detach() for i in places]
    tensors = [t.contiguous() if t.layout == torch.strided else t for t in tensors]
    call = caller(op, leaves, spec, places)
    if not tensors or any(t.numel() == 0 or t.is_complex() or t.layout != torch.strided for t in tensors):
        return "skipped", ""
    try:
        truth, truth_gradients = by_torch(call, tensors, torch.float64)
        own, own_gradients = by_torch(call, tensors, torch.float32)
        program_of(call, tensors)
    except Exception as why:
        return "skipped", f"{type(why).__name__}: {str(why)[:80]}"
    if any(o.is_complex() or o.numel() == 0 or o.dtype in (torch.bfloat16, torch.float16) for o in own):
        return "skipped", ""
    try:
        model, graph, names, floats = by_weft(call, tensors)
        made = run(model, names, tensors, None)
    except weft.Error as why:
        return "crash" if why.status == "internal" else "refused", str(why)
    wrong = [d for i, (o, t) in enumerate(zip(own, truth)) if f"y{i}" in made for d in [differs(made[f"y{i}"], o, t, f"output {i}")] if d]
    for i, o in enumerate(own):
        if f"y{i}" in made and weft_dtype(made[f"y{i}"]) != str(o.dtype).removeprefix("torch."):
            wrong.append(f"output {i} is {made[f'y{i}'].dtype}, not {o.dtype}")
    if not wrong:
        wrong = wrong_gradients(call, tensors, own_gradients, truth_gradients)
    return ("wrong", "; ".join(wrong[:3])) if wrong else ("agrees", "")


def weft_dtype(array):
    return str(array.dtype)


def wrong_gradients(call, tensors, own, truth):
    if all(g is None for g in own):
        return []
    wanted = [i for i, g in enumerate(own) if g is not None]
    model = weft.Model("sample")

    def with_loss(*given):
        return [loss_of(call(*given))]
    try:
        program_of(with_loss, tensors)
    except Exception:
        return []
    try:
        graph = model.graph("g", train=True)
        builder = Builder(model, graph, program_of(with_loss, tensors), None, {})
        loss = builder.build(["loss"], None, None)["loss"]
        names = [p.name for p in graph.inputs()]
        floats = [i for i, t in enumerate(tensors) if t.is_floating_point()]
        inputs = [v for n, v in builder.env.items() if n.op == "placeholder"]
        values = [inputs[floats[i]] for i in wanted]
        for k, g in enumerate(model.gradients(loss, values)):
            g.output(f"d{k}")
        made = run(model, names, tensors, [f"d{k}" for k in range(len(values))])
    except weft.Error as why:
        return [] if why.status == "unsupported" else [f"gradient: {why}"]
    return [d for k, i in enumerate(wanted) for d in [differs(made[f"d{k}"], own[i], truth[i], f"gradient {i}")] if d]


RANDOM = ("rand", "normal", "bernoulli", "multinomial", "uniform", "exponential", "cauchy", "geometric", "log_normal", "empty", "new_empty", "nn.functional.dropout",
          "nn.functional.alpha_dropout", "nn.functional.feature_alpha_dropout", "nn.functional.rrelu", "nn.functional.fractional", "svd_lowrank", "pca_lowrank")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--samples", type=int, default=4)
    options.add_argument("names", nargs="*")
    o = options.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    from torch.testing._internal.common_methods_invocations import op_db
    counts, refused = collections.Counter(), collections.Counter()
    for info in op_db:
        if o.names and info.name not in o.names or torch.float32 not in info.dtypes or info.name.startswith(RANDOM):
            continue
        seen = collections.Counter()
        try:
            samples = [s for _, s in zip(range(o.samples), info.sample_inputs("cpu", torch.float32, requires_grad=False))]
        except Exception:
            continue
        for sample in samples:
            try:
                result, why = judge(info.op, sample)
            except Exception as raised:  # a crash of the importer is a mistake, too
                result, why = "crash", f"{type(raised).__name__}: {str(raised)[:200]}"
            counts[result] += 1
            seen[result] += 1
            if result == "refused":
                refused[why.split(" ", 2)[1] if why.startswith("from_torch") else why[:60]] += 1
            if result in ("wrong", "crash"):
                print(f"{info.name}{'.' + info.variant_test_name if info.variant_test_name else ''}: {result}: {why}", flush=True)
    print(dict(counts))
    print("refused:", *(f"{n} {c}" for n, c in refused.most_common()), sep="\n  ")
    return 1 if counts["wrong"] + counts["crash"] else 0


if __name__ == "__main__":
    sys.exit(main())
