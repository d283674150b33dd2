#!/usr/bin/env python3
"""soak.py BUILD --minutes M - a training and a loop that run for long, and must not grow.

`mpirun -n 2 graphtool train` of a small GAN, with checkpoints, validations, logs and pictures, and soak_loop, which opens and
closes models, plans, stores, sessions, checkpoints and worlds. Each process is looked at every few seconds: its memory (what it
has allocated, and what it shares with others), descriptors, threads, and mappings of shared segments. After a warm-up of a fifth
of the time, the last third may not have more than the first third: of memory a hundredth or 1 MiB more in the median, of all else
nothing in the minimum, as a thread that writes a checkpoint comes and goes. Ends with a table; the exit status is 1 where something grew or a program failed."""
import argparse
import gzip
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

IMAGES = pathlib.Path("/usr/share/datasets/fashion-mnist")
TOLERATED = {"memory": (1024, 0.01), "shared": (1024, 0.01)}  # KiB, fraction; others: nothing


def children(pid):
    found = []
    try:
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child)] + children(int(child))
    except OSError:
        pass  # a thread or a process that has ended
    return found


def look(pid):
    """What a process has now, by name; None: it is gone."""
    try:
        status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
        maps = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
        return {"memory": int(status["RssAnon"].split()[0]), "shared": int(status["RssShmem"].split()[0]),
                "descriptors": len(os.listdir(f"/proc/{pid}/fd")), "threads": int(status["Threads"]),
                "segments": sum("/memfd:weft" in m or "/dev/shm" in m for m in maps)}
    except (OSError, KeyError):
        return None


def grown(name, values):
    """First and last third of what came after the warm-up, and whether the last is too much."""
    values = values[len(values) // 5:]
    third = max(1, len(values) // 3)
    of = statistics.median if name in TOLERATED else min
    first, last = of(values[:third]), of(values[-third:])
    room, part = TOLERATED.get(name, (0, 0))
    return first, last, last > first + max(room, part * first)


def first_images(source, count, to):
    """IDX files of so many images or labels."""
    data = gzip.open(source).read()
    head = 16 if data[3] == 3 else 8
    each = (len(data) - head) // int.from_bytes(data[4:8], "big")
    to.write_bytes(data[:4] + count.to_bytes(4, "big") + data[8:head] + data[head:head + count * each])


def start(build, folder):
    """The programs, by name."""
    subprocess.run([build / "weft-zoo", "dcgan28", "-b", "4", "-o", folder / "gan.bin"], check=True)
    first_images(IMAGES / "train-images-idx3-ubyte.gz", 4000, folder / "train.idx")
    first_images(IMAGES / "t10k-images-idx3-ubyte.gz", 64, folder / "val.idx")
    train = [build / "graphtool", "train", folder / "gan.bin", "--data", f"image={folder}/train.idx",
             "--val-data", f"image={folder}/val.idx", "--val-every", "200steps", "--epochs", "1000000", "--threads", "1",
             "--zero", "1", "--checkpoint-dir", folder / "c", "--checkpoint-every", "50", "--keep", "2",
             "--log", folder / "log.jsonl", "--csv", folder / "log.csv", "--tensorboard", folder / "events",
             "--samples", f"{folder}/photo.png:every=500", "-o", folder / "w.safetensors"]
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    (folder / "loop").mkdir()
    said = {name: open(folder / f"{name}.txt", "w") for name in ("train", "loop")}
    return {"train": subprocess.Popen(["mpirun", "--oversubscribe", "-n", "2", *train], stdout=said["train"],
                                      stderr=subprocess.STDOUT, env=environment),
            "loop": subprocess.Popen([build / "soak_loop", folder / "loop"], stdout=said["loop"], stderr=subprocess.STDOUT)}


def watch(programs, minutes):
    """Lists of what each process had, by (program, process, what)."""
    seen = {}
    end = time.monotonic() + 60 * minutes
    pause = min(5, 60 * minutes / 60)
    while time.monotonic() < end:
        for name, program in programs.items():
            if program.poll() is not None:
                return seen
            for pid in [program.pid] + children(program.pid):
                for what, value in (look(pid) or {}).items():
                    seen.setdefault((name, pid, what), []).append(value)
        time.sleep(pause)
    return seen


def stop(programs, folder):
    """How the programs ended where they should not have: texts."""
    wrong = []
    for name, expected, number in (("train", 130, signal.SIGINT), ("loop", 0, signal.SIGTERM)):
        program = programs[name]
        early = program.poll() is not None
        if not early:
            ranks = children(program.pid) if name == "train" else []
            for pid in ranks or [program.pid]:
                os.kill(pid, number)
        status = program.wait(timeout=120)
        # mpirun has a status of its own where ranks have one
        if early or (name == "loop" and status != expected) or (name == "train" and status == 0):
            wrong.append(f"{name} ended {'early, ' if early else ''}with status {status}: "
                         + (folder / f"{name}.txt").read_text()[-2000:])
    return wrong


def tell(seen):
    """The table; how many rows grew."""
    n = 0
    print(f"{'program':8} {'process':>8} {'what':12} {'samples':>8} {'first third':>12} {'last third':>12}")
    for (name, pid, what), values in sorted(seen.items()):
        if len(values) < 10:
            continue  # a process of a moment
        first, last, is_more = grown(what, values)
        n += is_more
        print(f"{name:8} {pid:>8} {what:12} {len(values):>8} {first:>12.0f} {last:>12.0f} {'GREW' if is_more else ''}")
    return n


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("build", type=pathlib.Path)
    arguments.add_argument("--minutes", type=float, default=30)
    given = arguments.parse_args()
    build = given.build.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        programs = start(build, folder)
        try:
            seen = watch(programs, given.minutes)
            wrong = stop(programs, folder)
        finally:
            for program in programs.values():
                program.kill()
        steps = sum(1 for _ in open(folder / "log.jsonl")) if (folder / "log.jsonl").exists() else 0
        print(f"{steps} lines of log; {(folder / 'loop.txt').read_text().strip()}; checkpoints left: "
              f"{len(list((folder / 'c').iterdir()))}")
    n = tell(seen)
    for text in wrong:
        print("FAILED:", text)
    if n:
        print(f"FAILED: {n} of {len(seen)} rows grew")
    return 1 if n or wrong or not seen else 0


sys.exit(main())
