"""reduce.py - makes a case that fails smaller: python reduce.py CASE.json prints the smallest found. Whatever can be left
out is left out, as long as the engine's answer stays wrong in the same way (differ, refused, or a crash)."""

import copy
import json
import os
import subprocess
import sys

import evaluate
from contents import results as count

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/release/model_cases")


def verdict(case, limit=0):
    """What is wrong: a word, "" when nothing is."""
    for key in ("want", "within", "within_reduced", "dropped"):
        case.pop(key, None)
    try:
        evaluate.bounds(case, 3)
    except (evaluate.Ill, RuntimeError, IndexError, KeyError, ValueError, ZeroDivisionError):
        return ""
    r = subprocess.run([PROGRAM, *(["--limit", str(limit)] if limit else [])], input=json.dumps(case) + "\n",
                       capture_output=True, text=True)
    if r.returncode:
        return "crash"
    texts = [c["text"] for c in json.loads(r.stdout)["configs"] if not c["good"]]
    if not texts:
        return ""
    return "differ" if "differ" in texts[0] else texts[0][:30]


def replaced(case, g, value, by):
    """The case with another value in all of this one's places (by earlier ones)."""
    c = copy.deepcopy(case)
    graph = c["graphs"][g]
    for n in graph["nodes"]:
        n["in"] = [by if v == value else v for v in n["in"]]
    for o in graph["outs"]:
        o["id"] = by if o["id"] == value else o["id"]
    for m in graph["mins"]:
        m["loss"] = by if m["loss"] == value else m["loss"]
    return swept(c)


def swept(c):
    """Without what nobody needs: nodes, inputs' data, variables, graphs that are not run."""
    names = {r["graph"] for r in c["runs"]}
    c["graphs"] = [g for g in c["graphs"] if g["name"] in names]
    paths = set()
    for graph in c["graphs"]:
        sweep_graph(c, graph)
        for n in graph["nodes"]:
            if n["op"] in ("parameter", "state"):
                paths.add(n["s"])
            if n["op"] == "batch_norm":
                paths |= {n["s"] + "/" + k for k in ("weight", "bias", "running_mean", "running_var")}
    c["vars"] = [v for v in c["vars"] if v["path"] in paths]
    return c


def sweep_graph(c, graph):
    first, at = [], 0
    for n in graph["nodes"]:
        first.append(at)
        at += count(n)
    needed = {o["id"] for o in graph["outs"]} | {m["loss"] for m in graph["mins"]}
    keep = []
    for n, at in reversed(list(zip(graph["nodes"], first))):
        if n["op"] == "assign" or any(at + k in needed for k in range(count(n))):
            needed |= set(n["in"])
            keep.append((n, at))
    keep.reverse()
    number, new = {-1: -1}, 0
    for n, at in keep:
        for k in range(count(n)):
            number[at + k] = new
            new += 1
    for n, _ in keep:
        n["in"] = [number[v] for v in n["in"]]
    graph["nodes"] = [n for n, _ in keep]
    for o in graph["outs"]:
        o["id"] = number[o["id"]]
    for m in graph["mins"]:
        m["loss"] = number[m["loss"]]
    fed = {n["s"] for n in graph["nodes"] if n["op"] == "input"}
    for r in c["runs"]:
        if r["graph"] == graph["name"]:
            r["feeds"] = [{k: v for k, v in f.items() if k in fed} for f in r["feeds"]]


def smaller(case):
    """Cases with something left out, the largest parts first."""
    def without(*way):
        c = copy.deepcopy(case)
        at = c
        for k in way[:-1]:
            at = at[k]
        del at[way[-1]]
        return swept(c)
    for list in ("configs", "runs"):
        if len(case[list]) > 1:
            yield from (without(list, k) for k in range(len(case[list])))
    for g, graph in enumerate(case["graphs"]):
        for list in ("outs", "mins", "freeze"):
            yield from (without("graphs", g, list, k) for k in range(len(graph.get(list, []))))
        for k, m in enumerate(graph["mins"]):
            yield from (without("graphs", g, "mins", k, key) for key in m
                        if key not in ("loss", "pattern", "type", "name", "lr"))
        at = 0
        for n in graph["nodes"]:
            if n["op"] != "gradients":
                yield from (replaced(case, g, at, v) for v in dict.fromkeys(n["in"]) if v >= 0)
            at += count(n)
    for k, o in enumerate(case["configs"]):
        yield from (without("configs", k, key) for key in o if key not in ("accumulate", "world"))


def reduce(case, wrong=None):
    wrong = wrong or verdict(copy.deepcopy(case))
    again = bool(wrong)
    while again:
        again = False
        for c in smaller(case):
            if verdict(c) == wrong:
                case, again = c, True
                break
    return case, wrong


if __name__ == "__main__":
    evaluate.torch.set_num_threads(1)
    for file in sys.argv[1:]:
        case, wrong = reduce(json.load(open(file)))
        verdict(case)
        print(json.dumps(case))
        print("%s: %s, %d nodes" % (file, wrong or "nothing wrong", sum(len(g["nodes"]) for g in case["graphs"])), file=sys.stderr)
