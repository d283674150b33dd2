#!/usr/bin/env python3
"""check_includes.py - rules that no compiler checks, reported as FILE:LINE: RULE.

  layers      a file includes only its own layer and those before it; examples only public headers and their own,
              libweft_train (runtime/data, runtime/train, runtime/hooks) too
  rooms       within a layer, a file includes its own folder and those of lower levels; each README draws the levels
              (check_symbols.py reads in the objects whether that holds for names, too)
  headers     every public header compiles alone, as C11 and as C++17, without a warning
  finished    no marks of unfinished work in sources, scripts and documents; no tabs, no trailing blanks
  order       no call has two arguments that build nodes: C leaves their order open, and a plan would depend on the compiler
  library     nothing mutable in static memory; nothing that prints, ends the process or takes memory past
              the replaceable allocator (read from libweft.a itself)

    check_includes.py [--library libweft.a]... [--cc gcc] [--cxx g++]
"""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# From the lowest up: a layer may include itself and those before it.
LAYERS = ["include/weft", "graph", "ops", "dist", "runtime", "tools"]
BENEATH = {layer: LAYERS[: i + 1] for i, layer in enumerate(LAYERS)}
# libweft_train is a library of its own, which sees of libweft what a user sees; libweft sees nothing of it.
TRAIN = ["runtime/data", "runtime/train", "runtime/hooks", "interchange"]
BENEATH = {**{part: ["include/weft", *TRAIN[: i + 1]] for i, part in enumerate(TRAIN)}, **BENEATH}
BENEATH["tools"] = BENEATH["tools"] + TRAIN
BENEATH["examples"] = ["include/weft", "examples"]
BENEATH["bench"] = ["include/weft"]  # a user's program
BENEATH["tests"] = LAYERS + TRAIN + ["examples", "tests"]

# Within a layer, from the lowest level up: a folder may include itself and those of lower levels. The README of the layer
# draws this.
CUDA_FAMILIES = "pointwise reduce shape index linalg image random optimizer norm_loss attention"
ROOMS = {
    "graph": ["core", "settings", "text file"],
    "ops": ["kit", "pointwise reduce shape", "structure index linalg image random", "optimizer attention recurrent", "norm_loss", "."],
    "ops/cpu": [".", "onednn", "simd"],
    "ops/cuda": [".", "kit", "dnn", CUDA_FAMILIES, "recurrent"],
    "ops/catalog": ["."],
    "dist": ["core", "shm meet", "engine", "local mpi ucx nccl"],
    "runtime": ["plan", "store passes verify", "session passes/distribute", "session/cuda passes/optimizer checkpoint", "."],
    "interchange": ["onnx/format", "onnx/import onnx/export", "onnx/operators onnx/exporters", "onnx/operators/images", "onnx"],
    "tools": ["graphtool/output", "graphtool/options", "graphtool/ranks", "graphtool/model", "graphtool/training graphtool/checkpoints",
              "graphtool/timeline", "graphtool/bench graphtool/diagram graphtool/diff", "graphtool/view", "graphtool/cmd", "graphtool"],
}
# A part of a layer may include all of these parts.
UPON = {"ops/cpu": ["ops"], "ops/cuda": ["ops"], "ops/catalog": ["ops", "ops/cpu", "ops/cuda"]}
# One room in several folders: their builders call each other's, since the gradient of a sum is a broadcast and that of a
# broadcast a sum. They include no header of each other, and tests/rules/check_symbols.py counts them as one.
ONE_ROOM = {"ops/pointwise", "ops/reduce", "ops/shape"}

SOURCES = (".c", ".h", ".cu", ".cuh", ".cpp")

# Names and nothing else: any room of the layer may include it.
LISTS = {"ops/list.h"}

# Quoted includes that no folder holds, with the only files that may have them.
GENERATED = {
    "commit.h": {"tools/graphtool/bench/machine.c"},  # by cmake/commit.cmake
    "event.pb-c.h": {"runtime/hooks/event_file.c"},  # from runtime/hooks/event.proto
    "model.pb-c.h": {"graph/file/model_file.h", "graph/file/model_read.c", "graph/file/model_write.c"},  # from graph/file/model.proto
    "view_page.h": {"tools/graphtool/view/page.c"},  # from tools/graphtool/view/page, by cmake/view_page.cmake
    # from a page's tables, by tests/scripts/test_docs.py and tests/pytorch/test_from_pytorch.py
    "lines.h": {"tests/docs/ddp_lines.c", "tests/docs/mmengine_lines.c", "tests/docs/pytorch_rows.c"},
}

# Libraries stay in few files, so that another version or library is a small change: prefix -> who may.
LIBRARIES = {
    "dnnl": r"ops/cpu/onednn/.*",
    "oneapi/": r"ops/cpu/onednn/.*",
    "protobuf-c": r"graph/file/model_(file\.h|read\.c|write\.c)",
    "zlib.h": r"runtime/data/stream\.[ch]|tests/.*",
    "jansson.h": r"runtime/plan/plan_json\.c|runtime/checkpoint/manifest\.c|runtime/data/array\.c|runtime/hooks/log_json\.c|interchange/.*|tools/.*|tests/.*",
    "graphviz/": r"tools/.*",
    "png.h": r"runtime/data/image_png\.c|runtime/hooks/grid\.c|tools/.*|tests/.*",
    "jpeglib.h": r"runtime/data/image_jpeg\.c",
    "jerror.h": r"runtime/data/image_jpeg\.c",
    "CUnit/": r"tests/.*",
    "mpi.h": r"dist/mpi/.*",
    "uc": r"dist/ucx/.*",
    "sodium/": r"dist/meet/frame\.c",
    "cuda": r"(ops|runtime/session)/cuda/.*|dist/nccl/.*|tests/.*",
    "cublas": r"(ops|runtime/session)/cuda/.*|tests/.*",
    "cudnn": r"(ops|runtime/session)/cuda/.*|tests/.*",
    "nvrtc": r"ops/cuda/.*|tests/.*",
    "nccl.h": r"dist/nccl/.*|tests/.*",
}

# What may not be called by the library, and why.
FORBIDDEN = {
    **dict.fromkeys(
        "printf vprintf puts putchar putc fputs fputc fprintf vfprintf fwrite perror stdout stderr "
        "__printf_chk __fprintf_chk __vprintf_chk __vfprintf_chk dprintf vdprintf syslog".split(),
        "the library never prints (weft_env.log is its one voice)",
    ),
    **dict.fromkeys(
        "exit _exit _Exit quick_exit abort raise kill __assert_fail longjmp".split(),
        "the library never ends the process",
    ),
    **dict.fromkeys(
        "malloc calloc realloc aligned_alloc posix_memalign strdup strndup mmap".split(),
        "memory comes through weft_env.allocator (graph/core/mem.c)",
    ),
    **dict.fromkeys(
        "rand srand random srandom strtok setlocale getenv setenv signal sigaction atexit "
        "localtime gmtime ctime strerror".split(),
        "state of the whole process: two sessions in two threads would meet there",
    ),
    **dict.fromkeys(
        "time gettimeofday localtime_r mktime strftime tzset ftime timespec_get pthread_mutex_timedlock "
        "sem_timedwait".split(),
        "a clock that a person sets, or a time zone: intervals are of CLOCK_MONOTONIC",
    ),
}

# (object, symbol) that may, with the reason.
ALLOWED_CALLS = {
    ("mem.c.o", "realloc"): "texts that the caller frees with free(): dumps and JSON",
    ("mem.c.o", "aligned_alloc"): "the default allocator itself",
    **{("log_text.c.o", call): "into the file that the caller gave" for call in ("fprintf", "fputc", "fwrite")},
    ("image_jpeg.c.o", "longjmp"): "libjpeg's way back from an error, within one call of ours",
    ("image_png.c.o", "longjmp"): "libpng's, the same",
    ("segment.c.o", "mmap"): "memory that other processes share; taken once, when ranks join",
    ("onednn.c.o", "mmap"): "asks whether addresses are free, and gives them back: oneDNN 3 ends the process where it gets none",
    ("program_cache.c.o", "getenv"): "where a user's caches are is said in no other way; read when a session opens",
    ("profile.c.o", "malloc"): "weft_session_profile_text sorts a list, outside of any step",
}
# (object, symbol) in .data or .bss that may, with the reason.
ALLOWED_DATA = {
    ("late.c.o", "late_slots"): "where functions of CUDA's libraries are, once they are loaded; each is written once, atomically",
    ("clock.c.o", "process_clock"): "whether the process was stopped is the process's, not a communicator's",
    ("captures.c.o", "locks"): "CUDA's rule that a library's wait breaks all captures is for the process, so the lock is too",
}

wrong = []


def tell(place, rule):
    wrong.append(f"{place}: {rule}")


def tracked():
    """The project's files: what git knows and what is new; without git, everything but builds."""
    try:
        names = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"],
            cwd=ROOT, capture_output=True, check=True,
        ).stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):
        names = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file()]
    skipped = ("build/", "out/", ".git/")
    return sorted(n for n in names if n and not n.startswith(skipped) and (ROOT / n).is_file())


def layer_of(name):
    for layer in BENEATH:
        if name.startswith(layer + "/"):
            return layer
    return None


# ---- layers ----


def resolve(name, target):
    """The file that a quoted include names, as the build's -I finds it."""
    for base in ("include", ".", "tests", str(Path(name).parent)):
        if (ROOT / base / target).is_file():
            return str((ROOT / base / target).resolve().relative_to(ROOT))
    return None


def check_include(name, number, target, quoted):
    place = f"{name}:{number}"
    for prefix, who in LIBRARIES.items():
        if target.startswith(prefix) and not re.fullmatch(who, name):
            tell(place, f"only {who} may include {target}")
    if not quoted or target in GENERATED:
        if name not in GENERATED.get(target, {name}):
            tell(place, f"{target} is generated: only {sorted(GENERATED[target])} include it")
        return
    found, layer = resolve(name, target), layer_of(name)
    if not found:
        tell(place, f"there is no {target}")
    elif layer and layer_of(found) not in BENEATH[layer]:
        tell(place, f"{layer} may include {', '.join(BENEATH[layer])}; {target} is of {layer_of(found)}")
    elif layer:
        check_rooms(name, number, found)


def check_layers(names):
    pattern = re.compile(r'\s*#\s*include\s*(["<])([^">]+)[">]')
    for name in names:
        if not name.endswith(SOURCES):
            continue
        if not layer_of(name):
            tell(name, f"C sources live in {', '.join(BENEATH)}")
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            found = pattern.match(line)
            if found:
                check_include(name, number, found[2], found[1] == '"')


# ---- rooms ----


def rooms_of(layer):
    """Folder -> (layer of ROOMS, level), longest keys first."""
    return {
        (layer if room == "." else f"{layer}/{room}"): (layer, level)
        for level, rooms in enumerate(ROOMS[layer])
        for room in rooms.split()
    }


ROOM = {folder: place for layer in ROOMS for folder, place in rooms_of(layer).items()}


def above(mine, other):
    """Why a file of folder `mine` may take nothing from folder `other` of its layer; None: it may."""
    if mine not in ROOM or other not in ROOM:
        return f"{mine if mine not in ROOM else other} has no level in ROOMS of tests/rules/check_includes.py"
    (layer, level), (their_layer, their_level) = ROOM[mine], ROOM[other]
    if layer == their_layer and their_level >= level:
        return f"{mine} is on level {level + 1} of {layer}, {other} on level {their_level + 1}"
    if layer != their_layer and their_layer not in UPON.get(layer, []):
        return f"{layer} is not upon {their_layer}"
    return None


def check_rooms(name, number, found):
    """`found` is the file that a line of `name` includes."""
    mine, other = str(Path(name).parent), str(Path(found).parent)
    if found in LISTS or mine == other or layer_of(name) != layer_of(found) or layer_of(name) not in ROOMS:
        return
    if above(mine, other):
        tell(f"{name}:{number}", f"it may not include {found}: {above(mine, other)}")


def drawn(layer):
    """The levels of a layer as its README shows them."""
    return "    " + "  <-  ".join(
        ", ".join(f"{layer}/" if room == "." else room for room in rooms.split()) for rooms in ROOMS[layer]
    )


def check_drawn():
    for layer in ROOMS:
        place = layer + "/README.md"
        if not (ROOT / place).is_file():
            place = str(Path(layer).parent / "README.md")
        if drawn(layer) not in (ROOT / place).read_text():
            tell(place, f"it must draw the order of includes:\n{drawn(layer)}")


# ---- public headers ----


def check_headers(names, cc, cxx):
    headers = [n[len("include/"):] for n in names if n.startswith("include/weft/") and n.endswith(".h")]
    umbrella = (ROOT / "include/weft/weft.h").read_text()
    with tempfile.TemporaryDirectory() as folder:
        for header in headers:
            if header != "weft/weft.h" and f'"{header}"' not in umbrella:
                tell(f"include/{header}", "weft/weft.h does not include it")
            for compiler, standard, suffix in ((cc, "c11", "c"), (cxx, "c++17", "cc")):
                source = Path(folder) / f"alone.{suffix}"
                source.write_text(f'#include "{header}"\n#include "{header}"\nint main() {{ return 0; }}\n')
                done = subprocess.run(
                    [compiler, f"-std={standard}", "-fsyntax-only", "-pedantic", "-Wall", "-Wextra", "-Werror",
                     "-I", str(ROOT / "include"), str(source)],
                    capture_output=True, text=True,
                )
                if done.returncode:
                    tell(f"include/{header}", f"does not compile alone as {standard}:\n{done.stderr}")


# ---- finished text ----

UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")
TEXTS = SOURCES + (".py", ".sh", ".md", ".proto", ".txt", ".json", ".cmake")


def check_texts(names):
    for name in names:
        if not name.endswith(TEXTS) or name == "tests/rules/check_includes.py":
            continue
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            if UNFINISHED.search(line):
                tell(f"{name}:{number}", "unfinished work belongs into an issue, not into the text")
            if line != line.rstrip():
                tell(f"{name}:{number}", "blanks at the end of the line")
            if "\t" in line and name.endswith(SOURCES):
                tell(f"{name}:{number}", "a tab")


def check_clocks(names):
    """The clock of the day may jump: only event files, which tell when a line was written, may ask for it."""
    for name in names:
        if layer_of(name) in ("graph", "ops", "dist", "runtime", "interchange") and name.endswith(SOURCES) and name != "runtime/hooks/event_file.c":
            if "CLOCK_REALTIME" in (ROOT / name).read_text():
                tell(name, "CLOCK_REALTIME may jump: CLOCK_MONOTONIC measures times")


# ---- the library ----


# A line of objdump -t for something in writable memory. .data.rel.ro is const data that holds addresses:
# read-only once the program has started.
SYMBOL = re.compile(
    r"[0-9a-f]+ .{7} (\.data|\.bss|\.tdata|\.tbss|\*COM\*)(?!\.rel\.ro)\S*\s+\S+\s+(?:\.hidden\s+)?([^.\s]\S*)$"
)


# ---- the order of nodes ----

BUILDER = re.compile(r"\b(?:weft_value|edge) \*(\w+)\(")
FINDERS = {"export_in", "export_operand", "export_result", "export_refuse", "onnx_refuse"}  # make no nodes
CALL = re.compile(r"\b(?!(?:if|for|while|switch|return|sizeof)\b)\w+\(|(?:=|\]\)|\(\w+\)) *\{")


def arguments_of(text, at):
    """The arguments of a call, or the values of a list, whose bracket opens before `at`."""
    depth, begin, found = 1, at, []
    for i in range(at, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0 or (depth == 1 and text[i] == ","):
            found.append(text[begin:i])
            begin = i + 1
        if depth == 0 or text[i] == ";":
            return found
    return found


def check_order(names):
    """C leaves open in which order arguments are evaluated: of one call or list, only one may build nodes, or plans depend on the compiler."""
    headers = [n for n in names if re.fullmatch(r"include/weft/(ops|layers)\.h|interchange/onnx/(\w+/)?\w+\.h", n)]
    ours = [n for n in names if layer_of(n) in ("graph", "ops", "dist", "runtime", "interchange", "examples") and n.endswith(".c")]
    texts = {n: re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), (ROOT / n).read_text(), flags=re.S) for n in headers + ours}
    common = {name for n in headers for name in BUILDER.findall(texts[n])} | {"node_value", "node_new", "op_value", "variable_value", "variable_in_graph", "sum_to"}
    common -= FINDERS
    for name in ours:
        build = re.compile(rf"\b({'|'.join(common | set(BUILDER.findall(texts[name])))})\(")
        for call in CALL.finditer(texts[name]):
            if sum(bool(build.search(a)) for a in arguments_of(texts[name], call.end())) > 1:
                line = texts[name].count("\n", 0, call.start()) + 1
                tell(f"{name}:{line}", "two arguments of one call or list build nodes, in an order that C leaves open: name one before")


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def check_library(library):
    """Objects of nvcc hold the stubs by which CUDA's runtime starts kernels: they are not ours to judge."""
    member = None
    for line in output_of("nm", "-u", library).splitlines():
        if line.endswith(":"):
            member = line[:-1]
        symbol = line.split()[-1] if line.startswith(" ") else None
        if symbol in FORBIDDEN and (member, symbol) not in ALLOWED_CALLS and not member.endswith(".cu.o"):
            tell(f"{library}({member})", f"uses {symbol}: {FORBIDDEN[symbol]}")
    for line in output_of("objdump", "-t", library).splitlines():
        found = re.match(r"(\S+):\s+file format", line)
        if found:
            member = found[1]
        found = SYMBOL.match(line)
        if found and (member, found[2]) not in ALLOWED_DATA and not member.endswith(".cu.o"):
            tell(f"{library}({member})", f"{found[2]} is mutable static data ({found[1]})")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--library", action="append", default=[], help="a libweft.a that was built without sanitizers")
    options.add_argument("--cc", default="cc")
    options.add_argument("--cxx", default="c++")
    o = options.parse_args()
    names = tracked()
    check_layers(names)
    check_drawn()
    check_headers(names, o.cc, o.cxx)
    check_texts(names)
    check_order(names)
    check_clocks(names)
    for library in o.library:
        check_library(library)
    print("\n".join(wrong) if wrong else f"{len(names)} files keep the rules")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
