#!/usr/bin/env python3
"""test_resume_kills.py BUILD - trainings of two or four ranks that are killed with SIGKILL at random moments while they write checkpoints, one rank or
all, continue by the same command, are killed again, and continue in 1, 2, 4 or 3 ranks to the end.

With as many micro-batches a step (not in 3 ranks) the weights and optimizers' state at the end are those of a run that nobody disturbed, to the
bit; in 3 it says how the batch changes, and ends. Each resumes from the newest complete checkpoint. WEFT_TEST_CASES cases (3) from seed
WEFT_TEST_SEED (1) on; tools/nightly.sh resume runs 60, with 200 kills.

After its case each seed kills one rank of two at chosen file calls of a save (preload/kill_at.c): 60 seeds go through all calls of both ranks.
"""
import glob
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BUILD = Path(sys.argv[1]).resolve()
STEPS, MICROS = 24, 4  # a step
LIMIT = 900  # seconds of one run, on a machine that others use
FIRST = [4, 2, 2]  # ranks of the case `seed` as long as it is killed: FIRST[seed % 3]
ALL = 60  # seeds that go through all file calls
WORLDS = [2, 4, 1, 3]  # and to the end: WORLDS[seed % 4]
ENV = os.environ | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "ASAN_OPTIONS": "detect_leaks=0", "OMP_WAIT_POLICY": "passive"
}


def write_data():
    r = random.Random(1)
    n = 600
    Path("image").write_bytes(struct.pack(">4i", 0x803, n, 28, 28) + r.randbytes(n * 784))
    Path("label").write_bytes(struct.pack(">2i", 0x801, n) + bytes(r.randrange(10) for _ in range(n)))


def command(name, world, zero, more):
    """A training of STEPS steps, each of MICROS micro-batches where the world divides them."""
    mpi = ["mpirun", "-np", str(world)]
    if "Open MPI" in subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout:
        mpi += ["--oversubscribe", "--bind-to", "none"]
    tool = f"{BUILD}/graphtool train mlp.bin --data image=image --data label=label --threads 1 --seed 3 --epochs 9 --steps {STEPS}"
    tool += f" --accumulate {max(1, MICROS // world)} --optimizer-state --ema 0.9 -o {name}.st --log {name}.jsonl"
    return (mpi if world > 1 else []) + tool.split() + (["--zero", str(zero)] if world > 1 and zero else []) + more


def children(pid):
    """All processes under one, without it."""
    found = []
    try:
        for task in glob.glob(f"/proc/{pid}/task/*/children"):
            for child in map(int, Path(task).read_text().split()):
                found += [child] + children(child)
    except (OSError, ValueError):
        pass  # it has ended
    return found


def is_rank(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "graphtool"
    except OSError:
        return False


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def end_all(pids):
    """Kills processes, and waits until they are gone: one that is left would write into the next case's folder."""
    for pid in pids:
        kill(pid)
    while any(map(is_alive, pids)):
        time.sleep(0.01)


def strays():
    """Ranks that mpirun began as it was killed."""
    found = []
    for link in glob.glob("/proc/[0-9]*/cwd"):
        try:
            pid = int(link.split("/")[2])
            found += [pid] if os.readlink(link) == os.getcwd() and is_rank(pid) else []
        except OSError:
            pass  # it has ended, or is another user's
    return found


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()[0] != "Z"
    except OSError:
        return False


def lines_of(path):
    try:
        return Path(path).read_bytes().count(b"\n")
    except OSError:
        return 0


def run_and_kill(name, words, r):
    """Kills it at a random moment: after a step that is drawn, and up to 40 ms; one in eight while it starts. True: it was killed before it
    had ended."""
    with open(f"{name}.err", "wb") as err:
        job = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=err, env=ENV)
    begin, step, is_early, pause = time.monotonic(), r.randrange(STEPS), r.random() < 1 / 8, 0.04 * r.random()
    before = lines_of(f"{name}.jsonl")
    until = begin + (1.5 * r.random() if is_early else LIMIT)
    while job.poll() is None and time.monotonic() < until and (is_early or lines_of(f"{name}.jsonl") <= max(step, before)):
        time.sleep(0.001)
    time.sleep(0 if is_early else pause)
    everyone = children(job.pid) + [job.pid]
    ranks = sorted(p for p in everyone if is_rank(p))
    has_ended = job.poll() is not None
    if r.random() < 0.5 and len(ranks) > 1:
        kill(r.choice(ranks))  # mpirun ends the others
    else:
        for pid in everyone:
            kill(pid)
    try:
        job.wait(LIMIT)
    except subprocess.TimeoutExpired:
        end_all(everyone)
        raise RuntimeError(f"the job does not end {LIMIT} s after a rank was killed") from None
    end_all([p for p in everyone if p != job.pid])
    end_all(strays())
    return not has_ended


def run_to_the_end(words):
    """What it said, and its exit status."""
    job = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=ENV)
    try:
        return job.communicate(timeout=LIMIT)[1], job.returncode
    except subprocess.TimeoutExpired:
        end_all(children(job.pid) + [job.pid])
        raise RuntimeError(f"it does not end after {LIMIT} s: {' '.join(words)}") from None


def newest(folder):
    steps = [int(m[1]) for f in glob.glob(f"{folder}/step-*") if (m := re.fullmatch(r"step-(\d{8})", os.path.basename(f)))]
    return max(steps, default=None)


def same(a, b):
    return Path(a).read_bytes() == Path(b).read_bytes()


def case(seed, told):
    """What is wrong, or None."""
    r = random.Random(seed)
    name, world, zero = "case", WORLDS[seed % len(WORLDS)], r.randrange(3)
    for old in glob.glob("case*"):
        shutil.rmtree(old) if os.path.isdir(old) else os.remove(old)
    more = ["--checkpoint-dir", name, "--checkpoint-every", str(r.choice([1, 1, 2, 3])), "--keep", str(r.choice([1, 2])), "--resume", "auto"]
    for _ in range(r.choice([2, 3, 4, 5])):
        told["kills"] += run_and_kill(name, command(name, FIRST[seed % len(FIRST)], zero, more), r)
    last = newest(name)
    said, status = run_to_the_end(command(name, world, r.randrange(3), more))
    if status:
        return f"{world} ranks: exit status {status}: {said}"
    from_step = re.search(r"resumed from case/step-\d+: iteration (\d+)", said)
    told["from zero"] += last is None
    if last != (int(from_step[1]) if from_step else None):
        return f"the newest is step {last}, and it said: {said}"
    if "skipped: " in said:
        return said
    if world == 3 and last not in (None, STEPS):
        changes = re.search(r"resumed with (\d+) batches of 10 samples an iteration, before 4 of 10: numbers differ", said)
        return None if changes and changes[1] == "3" else f"it does not say how the batch changes: {said}"
    if world != 3 or last == STEPS:
        return None if same("want.st", "case.st") else f"{world} ranks from step {last}: other bits"
    return None


CHOSEN = "train mlp.bin --data image=image --data label=label --threads 1 --seed 3 --steps 2 --optimizer-state --zero 1".split()


def chosen(name, world, env, more):
    """A training of two steps, each of two micro-batches, which saves each: its exit status and what it said."""
    mpi = command(name, 2, 0, [])
    mpi = mpi[:mpi.index(f"{BUILD}/graphtool") + 1]
    words = mpi + CHOSEN if world > 1 else mpi[-1:] + CHOSEN[:-2] + ["--accumulate", "2"]
    job = subprocess.run(words + ["-o", f"{name}.st"] + more, capture_output=True, text=True, env=ENV | env, timeout=LIMIT)
    return job.returncode, job.stderr


def die_at(rank, call, shim, world):
    """What is wrong, or None."""
    shutil.rmtree("chosen", ignore_errors=True)
    Path("chosen.st").unlink(missing_ok=True)
    more = ["--checkpoint-dir", "chosen", "--checkpoint-every", "1", "--keep", "1", "--resume", "auto"]
    status, said = chosen("chosen", 2, {"LD_PRELOAD": shim, "KILL_RANK": str(rank), "KILL_AT": str(call)}, more)
    if status == 0:
        return "it has not died"
    end_all(strays())
    status, said = chosen("chosen", world, {}, more)
    return f"exit status {status}: {said}" if status else None if same("chosen.want.st", "chosen.st") else f"other bits: {said}"


def calls_of_saves(shim):
    """(rank, number) of each file call of two saves; also writes what a run that nobody disturbs ends with."""
    folder = ["--checkpoint-dir", "none", "--checkpoint-every", "1", "--keep", "1"]
    status, said = chosen("chosen.want", 2, {"LD_PRELOAD": shim, "KILL_COUNT": "calls"}, folder)
    if status:
        sys.exit(f"a run that nobody disturbs: {said}")
    counts = [int(Path(f"calls.{rank}").read_text()) for rank in range(2)]
    print(f"file calls of two saves: {counts[0]} of rank 0, {counts[1]} of rank 1", flush=True)
    if min(counts) < 8:  # each opens, writes, flushes and closes two files
        sys.exit("FAILED: that is too few: the shim does not see them")
    return [(rank, call) for rank in range(2) for call in range(1, counts[rank] + 1)]


def main():
    first, n = int(os.environ.get("WEFT_TEST_SEED", 1)), int(os.environ.get("WEFT_TEST_CASES", 1 if "WEFT_TEST_QUICK" in os.environ else 3))
    if shutil.which("mpirun") is None:
        print(f"cases: 0 run, {n} skipped, 0 failed")
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_data()
        subprocess.run([f"{BUILD}/weft-zoo", "mlp", "-b", "10", "-o", "mlp.bin"], check=True)
        undisturbed = subprocess.run(command("want", 1, 0, []), capture_output=True, text=True, env=ENV)
        if undisturbed.returncode:
            sys.exit(f"a run that nobody disturbs: {undisturbed.stderr}")
        try_two = subprocess.run(command("two", 2, 1, []), capture_output=True, text=True, env=ENV)
        if "this build has no MPI" in try_two.stderr:
            print(f"cases: 0 run, {n} skipped, 0 failed")
            return
        failed, told = 0, {"kills": 0, "calls": 0, "from zero": 0}
        shim = str(BUILD / "libkill_at.so")
        calls = calls_of_saves(shim) if os.path.exists(shim) else []  # sanitizers have no such library
        for seed in range(first, first + n):
            wrong = []
            try:
                wrong = [case(seed, told)]
                for rank, call in calls[(seed - 1) % ALL::ALL]:
                    told["calls"] += 1
                    if why := die_at(rank, call, shim, 1 + seed % 2):
                        wrong.append(f"rank {rank} dies at call {call}: {why}")
            except (RuntimeError, OSError) as e:
                wrong += [str(e)]
            print(f"seed {seed}: {told['kills']} kills so far", flush=True)
            for text in filter(None, wrong):
                print(f"FAILED: seed {seed}: {text}", flush=True)
            failed += any(wrong)
        os.chdir("/")
    print(f"{told['kills']} kills before the end, {told['calls']} of a rank at a chosen file call, {told['from zero']} cases without a checkpoint yet")
    print(f"cases: {n} run, 0 skipped, {failed} failed")
    sys.exit(failed > 0)


main()
