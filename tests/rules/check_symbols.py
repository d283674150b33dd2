#!/usr/bin/env python3
"""check_symbols.py - the order of layers and folders (LAYERS and ROOMS of check_includes.py), read from objects.

Includes alone do not prove it: a function that a low header declares may be defined by a higher layer.

  layers      an object takes names only from objects of its own layer and of those before it
  rooms       within a layer, only from its own folder and from those of lower levels
  circles     no folders take names from each other in a circle
  planted     objects that break each of these rules are found

It prints, too, which files of one folder take names from each other in a circle, and which folders hold more
files than one sees at a glance.

    check_symbols.py BUILD [--cc gcc]
"""
import argparse
import collections
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import check_includes as rules

# Targets that libraries and programs are made of; tests compile some of the sources once more.
TARGETS = ("weft_", "simd_", "commands", "graphtool")
TWIN = "weft_cuda_host"  # with the CUDA backend; read where it is built
LIBRARY = ["graph", "ops", "dist", "runtime", *rules.TRAIN, "tools"]
# Sources that the build writes: file -> the folder that they belong to.
WRITTEN = {"event.pb-c.c": "runtime/hooks", "model.pb-c.c": "graph/file"}
GLANCE = 30  # files in a folder


# ---- objects ----


def source_of(path):
    """The source as a path in the project; None: it is not of a layer."""
    if path.name in WRITTEN:
        return f"{WRITTEN[path.name]}/{path.name}"
    name = str(path.relative_to(rules.ROOT)) if path.is_relative_to(rules.ROOT) else ""
    return name if rules.layer_of(name) in LIBRARY else None


def objects_of(build):
    """Object file -> source. What the build folder has of other sources, it has of deleted ones."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        output = Path(entry["directory"], re.search(r" -o (\S+)", entry["command"])[1]).resolve()
        source = source_of(Path(entry["directory"], entry["file"]).resolve())
        target = re.search(r"CMakeFiles/([^/]+)\.dir/", str(output))[1]
        if source and target.startswith(TARGETS) and (target != TWIN or output.exists()):
            found[str(output)] = source
    return found


def names_of(objects):
    """Two tables: name -> the sources that define it; source -> the names that it takes from others."""
    defined, taken = collections.defaultdict(set), collections.defaultdict(set)
    for line in rules.output_of("nm", "-A", *objects).splitlines():
        path, rest = line.split(".o:", 1)
        kind, name = rest.split()[-2:]
        if kind == "U":
            taken[objects[path + ".o"]].add(name)
        elif kind.isupper():
            defined[name].add(objects[path + ".o"])
    return defined, taken


# ---- rules ----


def folder_of(source):
    return str(Path(source).parent)


def room_of(folder):
    return " ".join(sorted(rules.ONE_ROOM)) if folder in rules.ONE_ROOM else folder


def wrong_way(source, target):
    """Why `source` may take no name of `target`; None: it may."""
    mine, other = rules.layer_of(source), rules.layer_of(target)
    folder, their_folder = folder_of(source), folder_of(target)
    if mine in rules.TRAIN and other not in rules.TRAIN:
        return None if other != "tools" else f"{mine} is below tools"  # its linker shows it public names alone
    if other not in rules.BENEATH[mine]:
        return f"{mine} is below {other}"
    if mine == other and mine in rules.ROOMS and room_of(folder) != room_of(their_folder):
        return rules.above(folder, their_folder)
    return None


def circles(edges):
    """Strongly connected components of more than one node (Tarjan), each sorted."""
    index, low, stack, found = {}, {}, [], []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in sorted(edges.get(v, ())):
            if w not in index:
                visit(w)
            if w in stack:
                low[v] = min(low[v], low[w])
        if low[v] == index[v]:
            component = stack[stack.index(v):]
            del stack[stack.index(v):]
            if len(component) > 1:
                found.append(sorted(component))

    for v in sorted(edges):
        if v not in index:
            visit(v)
    return found


def edges_between(defined, taken):
    """(source, target) -> names. Where several sources define a name, builds choose: one that may is meant."""
    edges = collections.defaultdict(set)
    for source, names in taken.items():
        for name in names:
            targets = sorted(defined.get(name, ()), key=lambda t: (wrong_way(source, t) is not None, t))
            if targets and source not in targets:
                edges[source, targets[0]].add(name)
    return edges


def grouped(edges, of):
    """What takes from what, by of(file)."""
    found = collections.defaultdict(set)
    for source, target in edges:
        if of(source) != of(target):
            found[of(source)].add(of(target))
    return found


def some(names):
    return ", ".join(sorted(names)[:5]) + (f" and {len(names) - 5} others" if len(names) > 5 else "")


def faults(objects):
    """Sentences about broken rules, and the edges between files."""
    edges = edges_between(*names_of(objects))
    found = [
        f"{source}: takes {some(names)} of {target}: {why}"
        for (source, target), names in sorted(edges.items())
        if (why := wrong_way(source, target))
    ]
    rooms = grouped(edges, lambda file: room_of(folder_of(file)))
    return found + [f"folders in a circle: {some(c)}" for c in circles(rooms)], edges


# ---- planted ----

PLANTS = [  # source, what it takes, what must be said
    ("graph/core/planted.c", "weft_compile", "graph is below runtime"),
    ("ops/kit/planted.c", "weft_add", "ops/kit is on level 1 of ops, ops/pointwise on level 2"),
    ("dist/core/planted.c", "weft_load", None),
    ("graph/core/planted.c", "graph_write", "folders in a circle: graph/core, graph/settings, graph/text"),
]


def check_planted(objects, cc):
    with tempfile.TemporaryDirectory() as place:
        for source, name, said in PLANTS:
            code, plant = Path(place, "planted.c"), str(Path(place, "planted.o"))
            code.write_text(f"void {name}(void);\nvoid planted(void);\nvoid planted(void) {{ {name}(); }}\n")
            subprocess.run([cc, "-c", str(code), "-o", plant], check=True)
            found = [f for f in faults({**objects, plant: source})[0] if "planted.c" in f or "circle" in f]
            if not any(said in f for f in found) if said else found:
                rules.tell(source, f"planted: it takes {name}, which must be {said or 'allowed'}, not {found}")


# ---- what is reported ----


def tell_shapes(edges, objects):
    files = collections.Counter(folder_of(n) for n in rules.tracked() if n.endswith(rules.SOURCES))
    inside = {s: {t for t in ts if folder_of(s) == folder_of(t)} for s, ts in grouped(edges, str).items()}
    for c in circles(inside):
        if len(c) > 2:
            print(f"circle of {len(c)} files in {folder_of(c[0])}: {' '.join(Path(f).name for f in c)}")
    print("folders of many files:", ", ".join(f"{f} {n}" for f, n in files.most_common() if n > GLANCE))
    print(f"{len(objects)} objects of {len(set(objects.values()))} sources, {len(edges)} pairs of files")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("build", type=Path, help="a folder with compile_commands.json, where all is built")
    options.add_argument("--cc", default="cc")
    o = options.parse_args()
    objects = objects_of(o.build.resolve())
    for path in objects:
        if not Path(path).exists():
            rules.tell(objects[path], f"it is not built: there is no {path}")
    if not objects:
        rules.tell(str(o.build), "no object of any layer")
    if not rules.wrong:
        found, edges = faults(objects)
        rules.wrong.extend(found)
        tell_shapes(edges, objects)
    if not rules.wrong:
        check_planted(objects, o.cc)
    print("\n".join(rules.wrong) if rules.wrong else "layers and folders take names from lower ones alone")
    return 1 if rules.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
