#!/usr/bin/env python3
"""check_clock.py - no test depends on how busy the machine is, reported as PLACE: RULE:

  clock       a test reads no clock: what must not hang is ended by ctest, and what must be fast counts steps
  nap         who sleeps asks for a condition in a loop; after a sleep alone, nothing is sure
  turns       a loop that gives up counts to a minute at least
  limit       what is ended or given up after a time (timeout N, deadline_seconds) has a minute at least
  allowed     each exception below has its reason, and is still there
  planted     lines that break each of these rules are found, and those that keep them are not

Long tests that tools/test.sh does not run are left out.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEAST = 60  # seconds
SUFFIXES = (".c", ".h", ".cpp", ".sh", ".py")
NIGHTLY = ("tests/train/soak.py", "tests/models/run.py", "tests/ops/kernel_mutants.py", "tests/plan/two_builds.py", "tests/zoo/", "tests/fuzz/fuzz.c")

CLOCK = re.compile(r"\b(weft_clock_ns|clock_gettime|gettimeofday|clock_seconds|omp_get_wtime)\(|\btime\(NULL\)|"
                   r"\btime\.(time|monotonic)\(|\bperf_counter|\$SECONDS\b|\(\(SECONDS\b|/proc/uptime|\bdate \+%s|\b\w+_clock::now")
# s and ms: how long.
NAP = re.compile(r"(?:(?<![\w-])sleep +|\btime\.sleep\()(?P<s>[\w.]*)|\bengine_nap\([^,]+, (?P<e>[\w.-]+)|"
                 r"\btest_nap\((?!int)(?P<ms>\w*)|\bsleep_for\(std::chrono::milliseconds\((?P<c>\d+)|\b(?:nanosleep|sleep_for|usleep|sleep)\(")
LOOP = re.compile(r"\b(?:while|until|for)\b")
COUNT = re.compile(r"\bi < (\d+)|\{1\.\.(\d+)\}|\brange\((\d+)\)")
LIMIT = re.compile(r"\btimeout +(?:-\w+ +\w+ +)*(?P<a>\d+)\b|\btimeout=(?P<b>\d+)|--timeout[ =](?P<c>[\d.]+)|"
                   r"deadline_seconds = (?P<d>[\d.]+)|\b(?:window_run\([^,]+, [^,]+|threads_run\([^,]+|ranks_run\([^,]+|"
                   r"ranks_init\([^,]+, [^,]+, [^,]+), (?P<e>[\d.]+),")

# (file, part of the line): why it may stay.
MISSED = "a rank stays away, and the others give up: the time is what the test waits, not what it allows"
STAND_IN = "a stand-in for what takes longer than its limit"
RANDOM = "a random moment, of which nothing is sure"
WORDS = "mpirun ends all ranks after the first, and none can know that the others' words were printed"
ALLOWED = {
    ("tests/dist/comm_ranks.c", "sleep(30)"): MISSED,
    ("tests/dist/comm_ranks.c", "sleep(1); /* heartbeats carry the places */"): "they carry them until the deadline, too",
    ("tests/dist/comm_ranks.c", "sleep(1); /* so that the others' words get out"): WORDS,
    ("tests/dist/comm_ranks.c", "sleep(3); /* before the launcher ends any rank */"): WORDS,
    ("tests/dist/comm_ranks.c", "clock_gettime("): "its mode that measures is for bench/, and no test",
    ("tests/cuda/test_cuda_nccl_host.c", "deadline_seconds = 1}"): MISSED,
    ("tests/cuda/test_cuda_nccl_host.c", "deadline_seconds = 5}"): MISSED,
    ("tests/cuda/test_cuda_threads.c", "nanosleep("): RANDOM,
    ("tests/cuda_host/graph.cpp", "sleep_for("): RANDOM,
    ("tests/cuda_host/stream.cpp", "steady_clock"): "events of the emulated GPU have times",
    ("tests/fuzz/hostile_lost.c", "deadline_seconds = 0.3"): MISSED,
    ("tests/dist/hold_thread.py", "time.sleep("): "it holds a thread until it is killed",
    ("tests/support/test.c", "nanosleep("): "test_nap itself",
    ("tests/scripts/test_bench.py", "sleep 1000"): STAND_IN,
    ("tests/scripts/test_bench.py", "exec sleep 77"): STAND_IN,
    ("tests/dist/test_comm_failures.c", "one_stays_away, ranks)"): MISSED,
    ("tests/dist/test_comm_failures.c", "test_nap(1);"): RANDOM,
    ("tests/dist/test_comm_failures.c", "i < 40; i++) test_nap(10)"): "a rank is late by that, and less than its deadline",
    ("tests/dist/test_comm_failures.c", "come_late, ranks)"): "a job is suspended for longer than that",
    ("tests/dist/test_comm_failures.c", "h.written_ns > weft_clock_ns()"): "a time lies between two others, however far apart",
    ("tests/dist/test_comm_failures.c", "began = weft_clock_ns()"): "the first of them",
    ("tests/dist/test_comm_failures.c", "test_nap(150)"): RANDOM,
    ("tests/dist/test_comm_failures.c", "test_nap(3000)"): "a job is suspended for longer than its deadline",
    ("tests/dist/test_comm_memory.sh", 'sleep "$seconds"'): RANDOM,
    ("tests/worlds/test_deferred.c", "deadline_seconds = 1}"): MISSED,
    ("tests/scripts/test_gpu_scripts.sh", "sleep 100"): STAND_IN,
    ("tests/train/test_logs.c", "test_nap(VAL_MS)"): "a validation takes at least that, and nothing depends on more",
    ("tests/train/test_logs.c", "test_nap(2)"): "a sample takes at least that, and nothing depends on more",
    ("tests/dist/test_meet.c", "test_nap(r->naps_ms)"): "ranks come in any order",
    ("tests/dist/test_meet.c", "ranks_init(r, CROWD"): MISSED,
    ("tests/dist/test_meet.c", "NULL, 1, NULL)"): MISSED,
    ("tests/dist/test_meet.c", "NULL, 0.5, NULL)"): MISSED,
    ("tests/dist/test_meet.c", "deadline_seconds = 2;"): MISSED,
    ("tests/dist/test_meet.c", "weft_clock_ns()"): "five tries: a meeting that waits for no stranger takes less than their five seconds",
    ("tests/files/test_resume_kills.py", "time.monotonic()"): RANDOM,
    ("tests/files/test_resume_kills.py", "time.sleep(0 if is_early else pause)"): RANDOM,
    ("tests/dist/test_rings.c", "deadline_seconds = 2, .lost"): MISSED,
    ("tests/dist/test_rings.c", "window_run(3, 4096, 3, 0, part, ranks)"): MISSED,
    ("tests/session/test_runs.c", "test_nap(20)"): "a stream is slow, however slow",
    ("tests/train/test_sources.c", "test_nap(PAUSE_NS"): "a sample takes at least that, and nothing depends on more",
    ("tests/tools/test_tools_checkpoints.sh", 'sleep "0.0$((RANDOM % 4))"'): RANDOM,
    ("tests/tools/test_tools_launch.sh", "--timeout 1"): MISSED,
    ("tests/tools/test_tools_launch.sh", "--timeout 9"): MISSED,
    ("tests/tools/test_tools_launch.sh", "--timeout 3"): "ranks are stopped or suspended for longer than that",
    ("tests/tools/test_tools_launch.sh", "sleep 1"): "time for a signal to do what it must not: too short, it finds less",
    ("tests/tools/test_tools_launch.sh", "sleep 5"): "ranks are suspended for longer than their time-out",
    ("tests/tools/test_tools_mpi.sh", "--timeout 2 "): MISSED,
    ("tests/tools/test_tools_mpi.sh", "sleep 0.5"): RANDOM,
    ("tests/tools/test_tools_ranks.sh", "timeout=3"): MISSED,
    ("tests/tools/test_tools_ranks.sh", "/proc/uptime"): "it reports how long the ranks took, and what lives a minute longer than it should hangs",
    ("tests/tools/test_tools_effects.c", "lose, ranks)"): MISSED,
    ("tests/worlds/test_worlds.c", "deadline_seconds = 2}"): MISSED,
}

wrong = []


def seconds_of(nap):
    """0 where it is not written as a number."""
    try:
        return float(nap["s"] or nap["e"] or 0) + float(nap["ms"] or nap["c"] or 0) / 1000
    except ValueError:
        return 0


def loop_of(lines, at):
    """The line that begins the loop in which this one stands: itself, or one less indented of the ten before it."""
    if LOOP.search(lines[at]):
        return lines[at]
    margin = len(lines[at]) - len(lines[at].lstrip())
    for line in reversed(lines[max(0, at - 10) : at]):
        if line.strip() and len(line) - len(line.lstrip()) < margin:
            return line if LOOP.search(line) else None
    return None


def faults_of(lines):
    """(number of the line, rule) of each fault of a file."""
    for at, line in enumerate(lines):
        if re.match(r"\s*(#|\*|/\*|//)", line):
            continue
        if CLOCK.search(line):
            yield at, "clock: it reads a clock"
        for nap in NAP.finditer(line):
            loop = loop_of(lines, at)
            if not loop:
                yield at, "nap: it sleeps, and asks for nothing"
                continue
            count = COUNT.search(loop)
            if count and float(next(filter(None, count.groups()))) * seconds_of(nap) < LEAST:
                yield at, f"turns: it gives up before {LEAST} s"
        for limit in LIMIT.finditer(line):
            seconds = float(next(filter(None, limit.groups())))
            if 0 < seconds < LEAST:
                yield at, f"limit: {limit[0].strip()}: less than {LEAST} s"


def check_file(path, used):
    place, lines = str(path.relative_to(ROOT)), path.read_text().split("\n")
    for at, rule in faults_of(lines):
        reasons = [key for key in ALLOWED if key[0] == place and key[1] in lines[at]]
        used.update(reasons)
        if not reasons:
            wrong.append(f"{place}:{at + 1}: {rule}: {lines[at].strip()}")


# ---- planted ----

PLANTED = [
    ("    time_t begin = time(NULL);", "clock"),
    ("    CHECK(weft_clock_ns() - begin < 2000000000);", "clock"),
    ("            begin = time.monotonic()", "clock"),
    ("begin=$SECONDS", "clock"),
    ("((SECONDS - begin < 40)) || fail slow", "clock"),
    ("kill -HUP $!\nsleep 0.5\ngone", "nap"),
    ("    test_nap(200);", "nap"),
    ("    usleep(1000);", "nap"),
    ("    sleep(1);", "nap"),
    ("    nanosleep(&pause, NULL);", "nap"),
    ("        time.sleep(0.5)", "nap"),
    ("    for (int i = 0; i < 2000 && !is_there; i++) test_nap(1);", "turns"),
    ("    for (int i = 0; i < 100 && !is_there; i++)\n        test_nap(10);", "turns"),
    ("for i in {1..100}; do [[ -s log ]] && break; sleep 0.1; done", "turns"),
    ("    for _ in range(400):\n        if what():\n            return\n        time.sleep(0.05)", "turns"),
    ('timeout 40 "$tool" train', "limit"),
    ("timeout -s KILL 12 true", "limit"),
    ('    ends(run("timeout 5 graphtool info m.bin"), 0);', "limit"),
    ("told = process.communicate(timeout=30)", "limit"),
    ('"$tool" launch -n 2 "${train[@]}" --timeout 5', "limit"),
    ("    options = {.deadline_seconds = 2};", "limit"),
    ("    threads_run(2, 20, 0, body, ranks);", "limit"),
    ("    for (int i = 0; i < 6000 && !is_there; i++) test_nap(10);", None),
    ("    while (!weft_comm_poll(comm, &error)) test_nap(1);", None),
    ("until [[ -s log ]]; do sleep 0.02; done", None),
    ("for ((i = 0; i < 600; i++)); do [[ -s log ]] && break; sleep 0.1; done", None),
    ("while is_alive(pid):\n    time.sleep(0.01)", None),
    ('timeout 60 "$tool" train --timeout 60', None),
    ("    options = {.deadline_seconds = 60};", None),
    ("/* sleep(1) would do, for SECONDS */", None),
    ("void test_nap(int ms);", None),
]


def check_planted():
    for text, rule in PLANTED:
        found = {told.split(":")[0] for _, told in faults_of(text.split("\n"))}
        if found != ({rule} if rule else set()):
            wrong.append(f"tests/rules/check_clock.py: planted: '{text}' breaks {sorted(found) or 'nothing'}, not {rule or 'nothing'}")


def main():
    check_planted()
    used = set()
    files = [p for p in sorted((ROOT / "tests").rglob("*")) if p.suffix in SUFFIXES and p.is_file()]
    files = [p for p in files if not p.name.startswith("check_") and not str(p.relative_to(ROOT)).startswith(NIGHTLY)]
    for path in files:
        check_file(path, used)
    wrong.extend(f"tests/rules/check_clock.py: allowed: '{part}' is in no faulty line of {place}" for place, part in ALLOWED if (place, part) not in used)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"{len(files)} files of tests, {len(ALLOWED)} exceptions; {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
