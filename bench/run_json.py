#!/usr/bin/env python3
"""run_json.py - runs commands that print JSON, and keeps what they print.

    python run_json.py FILE KEY=VALUE... -- COMMAND... [-- COMMAND...]...

Runs the commands at the same time and appends one line to FILE: the first command's JSON with the KEY=VALUE pairs
in it, `all_ms` (each command's median_ms), median_ms their mean, and `others`: what other processes used before
and after, in CPUs' worth of work. Above 0.1 that is reported: such a time lies. A command that prints no JSON (the
second rank of a world) is fine, as long as the first does. Exit status: 1 when a command failed.
"""
import json
import os
import subprocess
import sys
import time


def busy_cpus(seconds=0.5):
    """CPUs in use by anyone, over a moment in which we do nothing."""
    def ticks():
        with open("/proc/stat") as f:
            user, nice, system, _, _, irq, softirq = (int(v) for v in f.readline().split()[1:8])
        return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
    before, begin = ticks(), time.monotonic()
    time.sleep(seconds)
    return (ticks() - before) / (time.monotonic() - begin)


def split(words):
    """The file, the pairs, the commands."""
    parts = [[]]
    for word in words:
        if word == "--":
            parts.append([])
        else:
            parts[-1].append(word)
    if len(parts) < 2 or not parts[0] or not all(parts[1:]):
        sys.exit(__doc__)
    return parts[0][0], dict(pair.split("=", 1) for pair in parts[0][1:]), parts[1:]


def read(text):
    """What was printed, as a dictionary: all of it, or its last line; None without JSON."""
    for piece in (text, (text.strip().splitlines() or [""])[-1]):
        try:
            return json.loads(piece)
        except ValueError:
            pass
    return None


def main():
    path, pairs, commands = split(sys.argv[1:])
    others = busy_cpus()
    started = [subprocess.Popen(c, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
               for c in commands]
    printed = [p.communicate()[0] for p in started]
    for p, command in zip(started, commands):
        if p.returncode:
            sys.exit(f"run_json.py: exit {p.returncode} from: {' '.join(command)}")
    others = max(others, busy_cpus())
    runs = [r for r in map(read, printed) if r]
    if not runs:
        sys.exit(f"run_json.py: no JSON from: {' '.join(commands[0])}")
    run = dict(runs[0], **pairs, others=round(others, 3))
    told = ""
    if all("median_ms" in r for r in runs):
        run["all_ms"] = [r["median_ms"] for r in runs]
        run["median_ms"] = sum(run["all_ms"]) / len(runs)
        told = f"{run['median_ms']:10.2f} ms"
    with open(path, "a") as f:
        f.write(json.dumps(run) + "\n")
    print("  " + " ".join(pairs.values()), told, file=sys.stderr)
    if others > 0.1:
        print(f"  warning: other processes used {others:.2f} CPUs around it", file=sys.stderr)


if __name__ == "__main__":
    main()
