"""gpu_runs.py - runs as processes within a budget of seconds, and the file that remembers them. gpu_compare.py and
gpu_losses.py are made of this.

A run is named by (case, engine, mode). The file holds lines of JSON: first {"plan": [every run that is meant to be]}
and "what" they give, times or losses; then, of each run, {"begun": the run} and what it gave, with `error` where it
gave nothing. So whatever ends the whole thing, and whenever, the file tells what became of each run.

    limit of a run = what is left of the budget - what is reserved for the runs after it

Each run has a share of the budget. What a run does not use is there for the next one; a slow one cannot take what
others need.
"""
import atexit
import json
import os
import signal
import subprocess
import sys
import threading
import time

LEAST_SECONDS = 2        # with less a run is not begun


# ------------------------------------------------------------------------------ the budget
class Budget:
    """shares: a number for each run, in their order; together they are all the seconds."""

    def __init__(self, seconds, shares, now=time.monotonic):
        self.now, self.end = now, now() + seconds
        unit = seconds / sum(shares) if shares else 0
        self.after = [unit * sum(shares[i + 1:]) for i in range(len(shares))]

    def left(self):
        return self.end - self.now()

    def limit(self, i):
        return self.left() - self.after[i]


# ------------------------------------------------------------------------------ processes
def query_of(field):
    return ["nvidia-smi", "-i", "0", f"--query-gpu={field}", "--format=csv,noheader,nounits"]


def asked(field):
    """What nvidia-smi says of GPU 0, which may be "[N/A]"; "" where there is none."""
    try:
        return subprocess.run(query_of(field), capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


class DeviceMemory:
    """MiB in use on GPU 0, watched from __enter__ to __exit__; most() is the peak above the first reading, None where
    nvidia-smi does not know: a run is worth more than its memory."""

    def __init__(self, is_on):
        self.is_on, self.seen, self.watcher = is_on, [], None

    def __enter__(self):
        before = asked("memory.used") if self.is_on else ""
        if before.isdigit():
            self.seen.append(int(before))
            self.watcher = subprocess.Popen([*query_of("memory.used"), "-lms", "100"], stdout=subprocess.PIPE, text=True)
            self.reader = threading.Thread(target=self.read, daemon=True)
            self.reader.start()
        return self

    def read(self):
        with self.watcher.stdout as lines:
            for line in lines:
                if line.strip().isdigit():
                    self.seen.append(int(line))

    def __exit__(self, *_):
        if self.watcher:
            self.watcher.terminate()
            self.watcher.wait()
            self.reader.join(5)

    def most(self):
        return max(self.seen) - self.seen[0] if self.seen else None


live = set()             # processes that are running, for whatever ends this one


def start(command, **pipes):
    """In a group of its own, so that `stop` ends the compilers that PyTorch starts as well."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, text=True, start_new_session=True, **pipes)
    live.add(process)
    return process


def kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def stop(process):
    kill(process)
    process.wait()
    live.discard(process)


@atexit.register
def stop_all():
    for process in list(live):
        stop(process)


def end_at_sigterm():
    """A limit from outside ends this process as sys.exit does."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def last_json(text):
    """All of it, or its last line."""
    for piece in (text, (text.strip().splitlines() or [""])[-1]):
        try:
            return json.loads(piece)
        except ValueError:
            pass
    return {}


def run_one(command, seconds, watch=False, needs="median_ms"):
    """The command's JSON, with error in it when it failed. needs: a key without which it gave nothing."""
    if seconds < LEAST_SECONDS:
        return {"error": "no time was left"}
    with DeviceMemory(watch) as used:
        with start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            try:
                printed, told = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                return {"error": f"cut after its limit of {seconds:.0f} s"}
            finally:
                stop(process)
    sys.stderr.write(told)
    line = last_json(printed)
    if process.returncode:
        why = line.get("error") or (told.strip().splitlines() or ["nothing"])[-1]
        return {"error": f"exit status {process.returncode}: {why[:200]}"}
    if needs not in line:
        return {"error": line.get("error", "no JSON was printed")}
    return {**line, "device_mib": used.most()} if watch else line


# ------------------------------------------------------------------------------ the file
class Log:
    """Writes it: each line at once, from any thread."""

    def __init__(self, path):
        self.path, self.lock = path, threading.Lock()

    def line(self, line):
        with self.lock, open(self.path, "a") as f:
            f.write(json.dumps(line) + "\n")

    def plan(self, runs, what="times"):
        self.line({"plan": list(runs), "what": what})

    def begin(self, run):
        self.line({"begun": run})

    def end(self, run, line):
        case, engine, mode = run
        self.line({**line, "case": case, "engine": engine, "mode": mode})


class Runs:
    """Reads it. good: {run: its line}, of several the fastest; unsaid(): runs without a figure, with the reason."""

    def __init__(self, lines):
        self.what, self.planned, self.begun, self.good, self.errors = "times", [], set(), {}, {}
        for line in lines:
            if "plan" in line:
                self.what = line.get("what", self.what)
                self.planned += [r for r in map(tuple, line["plan"]) if r not in self.planned]
            elif "begun" in line:
                self.begun.add(tuple(line["begun"]))
            elif "case" in line:
                self.take((line["case"], line["engine"], line["mode"]), line)

    def take(self, run, line):
        if run not in self.planned:
            self.planned.append(run)
        if "error" in line:
            self.errors[run] = line["error"]
        elif run not in self.good or line.get("median_ms", 0) < self.good[run].get("median_ms", 0):
            self.good[run] = line

    def why(self, run):
        if run in self.errors:
            return self.errors[run]
        return "it was running when everything was ended" if run in self.begun else "not begun: everything was ended before"

    def unsaid(self):
        return [(run, self.why(run)) for run in self.planned if run not in self.good]

    def cases(self):
        return list(dict.fromkeys(case for case, _, _ in self.planned))


def read(path):
    """A line that was cut in the middle counts for nothing."""
    def lines():
        with open(path) as f:
            for text in f:
                try:
                    line = json.loads(text)
                except ValueError:
                    continue
                if isinstance(line, dict):
                    yield line
    return Runs(lines())


def print_unsaid(runs):
    for (case, engine, mode), why in runs.unsaid():
        print(f"- {case}, {engine} {mode}: {why}")
