"""contents.py - what a case has besides its cells: optimizers, configurations, parameters that are shared, gradients of
gradients; and which builders no case has. It needs no PyTorch."""

import os
import re

import ops
from draft import differentiable

# Public builders that no case calls, and why.
NOT_DRAWN = {}
OPTIONS = ("precision", "world", "zero", "shard", "cap", "serial", "reduce", "via", "unoptimized", "manual")


def results(node):
    """How many values a node has."""
    return len(node["in"]) - 1 if node["op"] == "gradients" else 0 if node["op"] == "assign" else 1


def is_second(graph):
    """Whether a gradient is taken of what a gradient goes into."""
    derived, number = set(), 0
    for n in graph["nodes"]:
        is_gradient = n["op"] == "gradients"
        if is_gradient and n["in"][0] in derived:
            return True
        if is_gradient or any(k in derived for k in differentiable(n)):
            derived |= set(range(number, number + results(n)))
        number += results(n)
    return any(m["loss"] in derived for m in graph["mins"])


def readers(graph):
    """{path: in how many places the graph reads it} of parameters."""
    count, number = {}, 0
    for n in graph["nodes"]:
        if n["op"] == "parameter":
            uses = sum(m["in"].count(number) for m in graph["nodes"])
            count[n["s"]] = count.get(n["s"], 0) + uses
        number += results(n)
    return count


def of_graphs(case):
    counts = [readers(g) for g in case["graphs"]]
    if any(n > 1 for c in counts for n in c.values()):
        yield "parameter read in several places"
    if len(counts) > 1 and set(counts[0]) & set(counts[1]):
        yield "parameter of two graphs"
    if any(is_second(g) for g in case["graphs"]):
        yield "second gradients"
    names = [m["name"] for g in case["graphs"] for m in g["mins"]]
    if len(set(names)) < len(names):
        yield "optimizer of two graphs"
    yield "%d graphs" % len(case["graphs"])


def of_optimizers(case):
    for g in case["graphs"]:
        for m in g["mins"]:
            yield "optimizer " + m["type"]
            yield from ("optimizer's " + k for k in m if k not in ("loss", "pattern", "type", "name", "lr"))
        if "freeze" in g:
            yield "frozen parameter"


def of_configurations(case):
    for o in case["configs"]:
        yield "isa %d" % o.get("isa", 0)
        yield from ("%s %s" % (k, o[k]) for k in OPTIONS if o.get(k))
        if o.get("threads", 1) > 1:
            yield "threads %d" % o["threads"]


def features(case):
    """Names of what the case has, each once."""
    found = {"op " + n["op"] for g in case["graphs"] for n in g["nodes"] if n["op"] not in ops.TABLE}
    found |= set(of_graphs(case)) | set(of_optimizers(case)) | set(of_configurations(case))
    found.add("%d micro-batches" % case["micro"])
    if "ranks" in case:
        found.add("%d ranks together" % case["ranks"])
    if "bind" in case:
        found.add("bound to another batch")
    if any(r.get("no_sync") for r in case["runs"]):
        found.add("no_sync")
    return found


def builders():
    """Names of the public builders of ops."""
    found = []
    for header in ("ops.h", "collectives.h"):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../include/weft", header)) as f:
            found += re.findall(r"^WEFT_API (?:weft_value \*|int )weft_(\w+?)(?:_op)?\(", f.read(), re.M)
    return found


def not_drawn(drawn):
    """Builders that are not among these ops, and stand in no list of exceptions."""
    return [name for name in builders() if name not in drawn and name not in NOT_DRAWN]
