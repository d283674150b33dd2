"""view_data.py - plans by hand for the page of `graphtool view`: what it must show of them is known without it.

  tiny()      14 nodes: scopes net/a and net/b are equal, pass 1 removes what the loss read before, a collective is
              awaited for 30 us
  chain(n)    n nodes, each of which reads the one before it
  pair()      tiny() twice: in B a node is changed, one is added and one is gone
"""
import json

# op, scope, phase, first and last pass, step, lane, operands
NODES = [
    ("input", 0, 0, 0, 2, 0, 0, []),
    ("linear", 2, 0, 0, 2, 1, 0, [0]),
    ("relu", 2, 0, 0, 2, 2, 0, [1]),
    ("linear", 3, 0, 0, 2, 3, 0, [2]),
    ("relu", 3, 0, 0, 2, 4, 0, [3]),
    ("identity", 0, 0, 0, 0, -1, 0, [4]),
    ("loss", 0, 0, 0, 2, 5, 0, [4]),
    ("constant", 0, 1, 1, 2, 6, 0, []),
    ("relu_backward", 3, 1, 1, 2, 7, 0, [7, 4]),
    ("relu_backward", 2, 1, 1, 2, 8, 0, [8, 2]),
    ("bucket", 0, 2, 1, 2, 9, 0, [9]),
    ("all_reduce", 0, 2, 2, 2, 10, 1, [10]),
    ("wait", 0, 2, 2, 2, 11, 0, [11]),
    ("sgd", 0, 2, 1, 2, 12, 0, [12]),
]
ROWS = [0, 0, 1, 0, 1, 2, 3, 1, 0, 0, 0, 1, 2, 3]
# pair() says that the two linear nodes of B changed places, and that B has another sgd
PAIRS = [0, 3, 2, 1, 4, 6, 7, 8, 9, 10, 11, 12, -1]
# bytes, offset, base, from, until: each node has one value
VALUES = [
    (128, -1, -1, 0, -1), (128, 0, -1, 1, 2), (128, 128, -1, 2, 8), (128, 0, -1, 3, 4), (128, 256, -1, 4, 7), (128, -1, -1, -1, -1),
    (4, 384, -1, 5, 5), (4, 384, -1, 6, 7), (128, 512, -1, 7, 8), (128, 0, -1, 8, 9), (128, 128, -1, 9, 12), (128, 128, 10, 10, 12),
    (128, 128, 11, 11, 12), (128, -1, -1, 12, -1),
]
WORKSPACE = (3, 640, 64)  # node, offset, bytes
PEAK_STEP, PEAK_BYTES, ARENA, STEPS = 7, 388, 704, 13
SCOPES = [("", -1, 0, 14), ("net", 0, 1, 6), ("net/a", 1, 2, 3), ("net/b", 1, 2, 3)]  # path, parent, same, nodes
WHY = "sums the gradients of bucket net.0 over 4 ranks"


class Texts:
    """Numbers for texts."""

    def __init__(self):
        self.all, self.numbers = [""], {"": 0}

    def __call__(self, text):
        if text not in self.numbers:
            self.numbers[text] = len(self.all)
            self.all.append(text)
        return self.numbers[text]


def runs(column):
    """The column, run-length."""
    out = []
    for value in column:
        if out and out[-2] == value:
            out[-1] += 1
        else:
            out += [value, 1]
    return {"runs": out}


def deltas(column):
    return {"delta": [b - a for a, b in zip([0, *column], column)]}


def times(nodes):
    """10 us a node; the collective takes 30 us, and its wait ends with it."""
    begin = [10 * n[5] if n[5] >= 0 else -1 for n in nodes]
    begin[12], begin[13] = 130, 130
    return begin, [30 if n[0] == "all_reduce" else 0 if n[0] == "wait" else 10 if n[5] >= 0 else -1 for n in nodes]


def tiny_graph(text, nodes, values=VALUES):
    n, s = len(nodes), len(SCOPES)
    begin, us = times(nodes)
    at = [0]
    for node in nodes:
        at.append(at[-1] + len(node[7]))
    rows = [-1] * (3 * s)
    rows[0 * s + 1], rows[0 * s + 2], rows[0 * s + 3] = 1, 0, 0  # forward: net below the input; equal scopes share a row
    rows[1 * s + 1], rows[1 * s + 2], rows[1 * s + 3] = 0, 0, 0  # backward: what runs last has row 0
    column = lambda k: [node[k] for node in nodes]
    return {
        "name": "train", "mode": "train", "phase": "whole", "arena": ARENA, "peak_step": PEAK_STEP, "deferred": -1, "loss": 6,
        "passes": ["built", "autodiff", "memory"],
        "nodes": {
            "op": [text(op) for op in column(0)], "scope": column(1), "phase": runs(column(2)), "first": runs(column(3)), "last": runs(column(4)),
            "attrs": [text("out=4") if node[0] == "linear" else 0 for node in nodes], "kernel": [text("onednn") if node[0] == "linear" else 0 for node in nodes],
            "source": [text(f"tiny.c:{10 + i}") for i in range(n)], "declined": [text("cuda: no GPU") if node[0] == "linear" else 0 for node in nodes],
            "step": column(5), "lane": runs(column(6)), "parameter": [0 if i == 1 else 1 if i == 3 else -1 for i in range(n)],
            "bucket": [0 if i in (1, 3, 10, 11, 12) else -1 for i in range(n)],
            "flop": [256 if node[0] == "linear" else 0 for node in nodes], "us": us, "begin_us": begin,
            "waits_for": [11 if node[0] == "wait" else -1 for node in nodes], "collective": [text(WHY) if node[0] == "all_reduce" else 0 for node in nodes]},
        "values": {"node": deltas(range(n)), "name": [text(f"%{i}") for i in range(n)], "type": [text("f32[8,4]" if v[0] == 128 else "f32[]") for v in values],
                   "bytes": [v[0] for v in values], "offset": [v[1] for v in values], "base": [v[2] for v in values],
                   "from": [v[3] for v in values], "until": [v[4] for v in values]},
        "inputs": {"at": deltas(at), "value": [v for node in nodes for v in node[7]], "since": [1 if i == 6 else node[3] for i, node in enumerate(nodes) for _ in node[7]],
                   "earlier": {"node": [6], "place": [0], "value": [5], "first": [0], "last": [0]}},
        "workspaces": {"node": [WORKSPACE[0]], "offset": [WORKSPACE[1]], "bytes": [WORKSPACE[2]]}, "results": {"at": deltas(range(n + 1))},
        "outputs": {"name": [text("loss")], "value": [6]},
        "scopes": {"path": [text(x[0]) for x in SCOPES], "name": [text(x[0].split("/")[-1]) for x in SCOPES], "parent": [x[1] for x in SCOPES],
                   "same": [x[2] for x in SCOPES], "nodes": [x[3] for x in SCOPES]},
        "layout": {"row": ROWS[:n], "column": [0] * n, "scope_row": rows, "scope_column": [0] * (3 * s)},
        "time": {"kind": "measured", "total_us": 140}}


def tiny_plan(text, nodes, name):
    return {"name": name, "memory": [["parameters and state", 160], ["activations", ARENA]],
            "parameters": {"path": [text("net/a/weight"), text("net/b/weight")], "kind": [text("parameter")] * 2, "type": [text("f32[4,4]")] * 2, "bytes": [64, 64],
                           "subgraph": [0, 0], "bucket": [0, 0]},
            "buckets": {"name": [text("net.0")], "bytes": [128], "subgraph": [0]}, "subgraphs": ["net"], "graphs": [tiny_graph(text, nodes)]}


def page_of(text, plans, difference=None, title="tiny"):
    return {"schema": 1, "texts": text.all, "title": title, "settings": [["batch", "8"], ["isa", "avx2"]], "plans": plans, "difference": difference}


def tiny(title="tiny", op=None):
    """`op`: another name of the loss."""
    text, nodes = Texts(), list(NODES)
    if op:
        nodes[6] = (op, *NODES[6][1:])
    return page_of(text, [tiny_plan(text, nodes, "tiny.bin")], title=title)


def pair():
    text, b = Texts(), list(NODES)
    b[2] = ("gelu", *NODES[2][1:])
    plans = [tiny_plan(text, NODES, "a.bin"), tiny_plan(text, b, "b.bin")]
    changes = [{"kind": "changed", "what": "node", "path": "net/a/relu", "text": "relu -> gelu", "graphs": [0, 0], "nodes": [2, 2]},
               {"kind": "added", "what": "node", "path": "sgd", "text": "", "graphs": [0, 0], "nodes": [-1, 13], "op": "sgd"},
               {"kind": "removed", "what": "node", "path": "identity", "text": "", "graphs": [0, 0], "nodes": [5, -1]},
               {"kind": "changed", "what": "node", "path": "", "op": "loss", "text": "f32[] -> f32[1]", "follows": True, "graphs": [0, 0], "nodes": [6, 6]},
               {"kind": "changed", "what": "setting", "path": "batch", "text": "8 -> 16", "graphs": [-1, -1], "nodes": [-1, -1]}]
    count = lambda name, a, b, unit="count": {"name": name, "unit": unit, "first": a, "second": b}
    side = lambda step, size, arena: {"step": step, "steps": STEPS, "bytes": size, "arena": arena, "node": step}
    difference = {
        "changes": changes, "graphs": [{"graphs": [0, 0], "pairs": PAIRS}], "totals": [count("train: nodes that run", 13, 13), count("train: arena", 704, 960, "bytes")],
        "memory": [count("activations", 704, 960, "bytes"), count("total", 864, 1120, "bytes")],
        "peaks": [{"graph": "train", "first": side(PEAK_STEP, PEAK_BYTES, ARENA), "second": side(4, 644, 960),
                   "alive": [{"scope": "net/a", "op": "gelu", "bytes": [0, 384], "buffers": [0, 3]}, {"scope": "net/b", "op": "relu", "bytes": [128, 128], "buffers": [1, 1]}]}]}
    return page_of(text, plans, difference, "a.bin and b.bin")


def chain(n):
    text = Texts()
    ones, zeros, less = {"runs": [1, n]}, {"runs": [0, n]}, {"runs": [-1, n]}
    count = lambda first, m: {"delta": [first] + [1] * (m - 1)} if m else []
    graph = {
        "name": "chain", "mode": "eval", "phase": "whole", "arena": 8, "peak_step": 1, "deferred": -1, "loss": -1, "passes": ["memory"],
        "nodes": {"op": {"runs": [text("relu"), n]}, "scope": zeros, "phase": zeros, "first": zeros, "last": zeros, "attrs": zeros, "kernel": {"runs": [text("avx2"), n]},
                  "source": zeros, "declined": zeros, "step": count(0, n), "lane": zeros, "parameter": less, "bucket": less, "flop": ones, "us": ones, "begin_us": count(0, n),
                  "waits_for": less, "collective": zeros},
        "values": {"node": count(0, n), "name": [text(f"%{i}") for i in range(n)], "type": {"runs": [text("f32[1]"), n]}, "bytes": {"runs": [4, n]},
                   "offset": [4 * (i % 2) for i in range(n)], "base": less, "from": count(0, n), "until": count(1, n)},
        "inputs": {"at": {"delta": [0, 0] + [1] * (n - 1)}, "value": count(0, n - 1), "since": {"runs": [0, n - 1]},
                   "earlier": {"node": [], "place": [], "value": [], "first": [], "last": []}}, "workspaces": {"node": [], "offset": [], "bytes": []}, "results": {"at": count(0, n + 1)}, "outputs": {"name": [], "value": []},
        "scopes": {"path": [0], "name": [0], "parent": [-1], "same": [0], "nodes": [n]},
        "layout": {"row": count(0, n), "column": zeros, "scope_row": [0, -1, -1], "scope_column": [0, 0, 0]}, "time": {"kind": "estimated", "total_us": n}}
    plan = {"name": "chain", "memory": [], "parameters": {"path": [], "kind": [], "type": [], "bytes": [], "subgraph": [], "bucket": []},
            "buckets": {"name": [], "bytes": [], "subgraph": []}, "subgraphs": [], "graphs": [graph]}
    return page_of(text, [plan], title="chain")


def write_page(template, data, path):
    """The page with this data in it, as the C side writes it."""
    head, tail = template.split("/*DATA*/")
    path.write_text(head + json.dumps(data).replace("<", "\\u003c") + tail)
