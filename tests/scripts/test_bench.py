#!/usr/bin/env python3
"""test_bench.py - what bench/gpu_compare.py, compare_table.py and suite.py decide and tell, without a GPU and without PyTorch: the order of runs, their
limits, the table of runs that were cut, when losses agree. Programs are played by shell scripts."""
import contextlib
import io
import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
from pathlib import Path
from unittest import mock

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
import gpu_compare  # noqa: E402
import gpu_losses  # noqa: E402
import gpu_runs  # noqa: E402
import compare_table  # noqa: E402
import suite  # noqa: E402

try:
    import numpy as np
    import frechet
except ImportError:  # only bench/frechet.py needs it
    np = None

ALL = list(gpu_compare.CASES)


def printed(function, *args):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        status = function(*args)
    return status, out.getvalue()


def program(folder, name, body):
    path = Path(folder) / name
    path.write_text("#!/bin/sh\n" + body)
    path.chmod(0o755)


def until(what):
    for _ in range(2400):
        if what():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come about")


class Commands(unittest.TestCase):
    def test_the_lines_of_gpu_part_are_understood(self):
        lines = re.findall(r"bench/gpu_compare\.py (.*?)(?: \|\||;;|$)", (BENCH.parent / "tools/gpu_part.sh").read_text(), re.M)
        self.assertEqual(sorted(line.split()[0] for line in lines), ["calibrate", "losses", "measure", "worst"])
        for line in lines:
            line = re.sub(r'"\$\w+"', "9", line.split("&&")[0].replace('"$device"', "cpu"))
            args = gpu_compare.parse_args(shlex.split(line.rstrip(" ;")))
            self.assertEqual(args.cases, ALL, line)

    def test_cases_may_stand_before_and_after_options(self):
        args = gpu_compare.parse_args(["measure", "file", "mlp", "--seconds", "7", "dcgan"])
        self.assertEqual((args.file, args.cases, args.seconds), ("file", ["mlp", "dcgan"], 7))


class FirstRun(unittest.TestCase):
    def test_estimates_stand_in_one_table(self):
        """docs/cuda.md has it, and a test holds it against the plans; another page's numbers would go stale unseen."""
        docs = BENCH.parent / "docs"
        text = (docs / "gpu-first-run.md").read_text()
        self.assertIn("(cuda.md#what-a-step-costs)", text)
        self.assertIn("\n## What a step costs\n", (docs / "cuda.md").read_text())
        self.assertEqual(re.findall(r"[\d.,]+ (?:ms|us|tokens/s|images/s)\b|[\d.]+%", text), [])


class Suite(unittest.TestCase):
    """Tables of made lines."""

    def line(self, file, ms, mib, engine="weft", options="", **more):
        return dict({"engine": engine, "file": file, "phase": "train", "options": options, "median_ms": ms, "peak_rss_mib": mib,
                     "interval_ms": [ms - 1, ms + 1], "ready_ms": 7.0, "of_limit": 0.5, "gflops": 3.0, "batch": 8, "threads": 2}, **more)

    def table(self, lines):
        with tempfile.TemporaryDirectory() as folder:
            path, page = Path(folder, "lines.jsonl"), Path(folder, "page.html")
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            status, out = printed(suite.table_main, suite.parse_args(["table", str(path), "--html", str(page)]))
            self.assertEqual(status, 0)
            return out, page.read_text()

    def test_a_row_has_the_faster_mode_and_the_last_one_geometric_means(self):
        out, page = self.table([
            self.line("mlp", 10, 100), self.line("gpt", 40, 100, other_cpus=0.5), self.line("vae", 5, 100),
            self.line("mlp", 20, 400, "eager"), self.line("mlp", 40, 200, "compile"), self.line("gpt", 20, 400, "compile"),
            self.line("gpt", 1, 1, "eager", "--threads 1")])
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines() if line.startswith("|")]
        self.assertTrue(all(len(row) == len(suite.COLUMNS) for row in rows))
        self.assertEqual(rows[2], ["mlp", "train", "", "8", "2", "10.00", "9.00 to 11.00", "7", "50%", "3", "100", "20.00", "eager",
                                   "0.50", "400", "0.25"])
        self.assertEqual((rows[3][5], rows[3][11:14]), ("40.00*", ["20.00", "compile", "2.00"]))
        self.assertEqual(rows[4][11:], [""] * 5)
        self.assertEqual((rows[5][0], rows[5][13], rows[5][15]), ("geometric mean of 2", "1.00", "0.25"))
        self.assertIn("<td>geometric mean of 2</td>", page)

    def test_a_newer_line_replaces_an_older_one_and_failures_are_named(self):
        failed = {"engine": "weft", "file": "mlp", "phase": "train", "options": "", "error": "a < b"}
        out, page = self.table([failed, self.line("mlp", 10, 100)])
        self.assertIn("10.00", out)
        self.assertNotIn("failed", out)
        out, page = self.table([self.line("mlp", 10, 100), failed])
        self.assertIn("| mlp | train |  |  |  | failed |", out)
        self.assertIn("- Failed: mlp train  (weft): a < b", out)
        self.assertIn("a &lt; b", page)

    def test_few_steps_have_no_interval(self):
        out, _ = self.table([self.line("mlp", 10, 100, interval_ms=None)])
        self.assertIn("| 10.00 |  | 7 |", out)

    def test_what_cannot_be_read_is_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "lines.jsonl")
            for line in (None, self.line("mlp", 10, 100, interval_ms=3), {**self.line("mlp", 10, 100), "peak_rss_mib": "x"}):
                if line:
                    path.write_text(json.dumps(line))
                with self.assertRaises(SystemExit) as end:
                    suite.table_main(suite.parse_args(["table", str(path)]))
                self.assertRegex(str(end.exception), r"\Asuite.py: .*\Z")

    def test_what_is_no_line_is_named(self):
        for text in ("nothing", "[]", '{"engine": "weft"}'):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "lines.jsonl")
                path.write_text(text)
                with self.assertRaises(SystemExit) as end:
                    suite.read_lines([path])
                self.assertIn("lines.jsonl:1: it must be a line of JSON", str(end.exception))


class Order(unittest.TestCase):
    def stages(self, cases=ALL, device="cuda", tables=ALL):
        return [run for run, _ in gpu_compare.plan_of(cases, device, tables)]

    def test_all_of_weft_comes_first_then_the_likely_rival_of_each_case(self):
        runs = self.stages()
        first = [r[1] for r in runs].index("pytorch")
        self.assertEqual(runs[:4], [(c, "weft", "bf16") for c in ALL])
        self.assertTrue(all(r[1] == "weft" for r in runs[:first]) and all(r[1] == "pytorch" for r in runs[first:]))
        self.assertEqual(runs[first:first + 4], [("gpt2_124m", "pytorch", "compile"), ("resnet50", "pytorch", "compile"),
                                                 ("dcgan", "pytorch", "graphs"), ("mlp", "pytorch", "graphs")])
        self.assertEqual(len(runs), len(set(runs)))
        self.assertNotIn("eager", [r[2] for r in runs])
        self.assertEqual({c: sum(r[:2] == (c, "pytorch") for r in runs) for c in ALL},
                         {"gpt2_124m": 3, "resnet50": 3, "dcgan": 2, "mlp": 2})

    def test_the_run_without_calibration_is_where_there_is_one(self):
        runs = self.stages(tables=["dcgan"])
        self.assertEqual([r for r in runs if r[2] == "plain"], [("dcgan", "weft", "plain")])

    def test_a_rehearsal_runs_what_needs_no_compiler(self):
        self.assertEqual(self.stages(["mlp", "dcgan"], "cpu", []), [
            ("dcgan", "weft", "bf16"), ("mlp", "weft", "bf16"), ("dcgan", "pytorch", "eager"), ("mlp", "pytorch", "eager")])

    def test_every_run_has_a_share_and_losses_have_runs_of_every_case(self):
        self.assertTrue(all(share > 0 for _, share in gpu_compare.plan_of(ALL, "cuda", ALL)))
        for device in ("cpu", "cuda"):
            lists = gpu_losses.plan_of(ALL, device)
            planned = {run[1:] for runs in lists for run in runs}
            self.assertEqual(len(planned) * len(ALL), len({run for runs in lists for run in runs}))
            for one, other, _ in gpu_losses.pairs_of(device):
                self.assertTrue({one, other} <= planned, (one, other))


class Limits(unittest.TestCase):
    def spend(self, seconds, shares, takes):
        """What each run may take, when it takes the given seconds or all that it may."""
        clock = [100.0]
        budget, limits = gpu_runs.Budget(seconds, shares, lambda: clock[0]), []
        for i, own in enumerate(takes):
            limits.append(round(budget.limit(i), 6))
            clock[0] += min(own, limits[-1])
        return limits

    def test_a_slow_run_cannot_take_what_others_need(self):
        self.assertEqual(self.spend(100, [1, 1, 2], [1e9] * 3), [25, 25, 50])

    def test_what_a_run_leaves_is_for_the_next_one(self):
        self.assertEqual(self.spend(100, [1, 1, 2], [5, 1e9, 1]), [25, 45, 50])

    def test_each_run_of_a_measurement_has_time_in_the_budget_of_gpu_part(self):
        shares = [share for _, share in gpu_compare.plan_of(ALL, "cuda", ALL)]
        limits = self.spend(247, shares, [1e9] * len(shares))
        self.assertTrue(all(limit >= gpu_runs.LEAST_SECONDS for limit in limits[:-2]), limits)

    def test_a_process_over_its_limit_ends_with_its_children(self):
        with tempfile.TemporaryDirectory() as folder:
            mark = Path(folder) / "child"
            line = gpu_runs.run_one(["sh", "-c", f"sleep 1000 & echo $! >{mark}; wait"], 4)
            self.assertEqual(line, {"error": "cut after its limit of 4 s"})
            status = Path(f"/proc/{mark.read_text().strip()}/status")
            until(lambda: not status.exists() or "\nState:\tZ" in status.read_text())

    def test_what_fails_or_prints_nothing_is_an_error(self):
        self.assertEqual(gpu_runs.run_one(["sh", "-c", "echo '{}'"], 20), {"error": "no JSON was printed"})
        self.assertEqual(gpu_runs.run_one(["sh", "-c", "exit 3"], 20)["error"], "exit status 3: nothing")
        self.assertEqual(gpu_runs.run_one(["sh", "-c", "exit 3"], 1), {"error": "no time was left"})
        self.assertEqual(gpu_runs.run_one(["sh", "-c", "echo '{\"median_ms\": 2}'"], 20), {"median_ms": 2})


class Memory(unittest.TestCase):
    """What nvidia-smi answers, and what a run has of it."""

    def run_with(self, answer, before=""):
        with tempfile.TemporaryDirectory() as folder:
            program(folder, "nvidia-smi", answer)
            with mock.patch.dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}"):
                return gpu_runs.run_one(["sh", "-c", before + "echo '{\"median_ms\": 2}'"], 200, watch=True)

    def test_the_peak_above_the_first_reading(self):
        line = self.run_with("case $* in *-lms*) echo 130; echo '[N/A]'; echo 120; : >$0.said; exec sleep 77 ;; esac\necho 100\n",
                             "until test -e $(command -v nvidia-smi).said; do sleep 0.05; done; ")
        self.assertEqual(line, {"median_ms": 2, "device_mib": 30})

    def test_a_run_is_measured_also_where_its_memory_is_not_known(self):
        for answer in ("echo '[N/A]'\n", "echo 'NVIDIA-SMI has failed'; exit 9\n", "exit 1\n"):
            self.assertEqual(self.run_with(answer), {"median_ms": 2, "device_mib": None}, answer)


def good(case, engine, mode, ms, **more):
    return {"case": case, "engine": engine, "mode": mode, "median_ms": ms, "batch": 8, "rate": 10.0, "unit": "images/s", **more}


class Tables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.path = folder.name, os.path.join(folder.name, "runs.jsonl")

    def lines(self, *lines):
        Path(self.path).write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
        return gpu_runs.read(self.path)

    def table(self):
        return printed(gpu_compare.table, types.SimpleNamespace(file=self.path))[1]

    def test_every_planned_run_without_a_figure_is_named_with_the_reason(self):
        plan = [("mlp", "weft", "bf16"), ("dcgan", "weft", "bf16"), ("mlp", "pytorch", "graphs"), ("mlp", "pytorch", "compile")]
        self.lines({"plan": plan}, {"begun": plan[0]}, good(*plan[0], 0.5), {"begun": plan[1]},
                   {"case": "dcgan", "engine": "weft", "mode": "bf16", "error": "cut after its limit of 9 s"},
                   {"begun": plan[2]}, '{"case": "mlp", "engine": "py')
        told = self.table()
        self.assertIn("| mlp | 8 | 0.500 |", told)
        self.assertIn("- dcgan, weft bf16: cut after its limit of 9 s\n", told)
        self.assertIn("- mlp, pytorch graphs: it was running when everything was ended\n", told)
        self.assertIn("- mlp, pytorch compile: not begun: everything was ended before\n", told)
        self.assertEqual(told.count("\n- "), 3)

    def test_the_faster_of_several_counts_and_the_best_form_is_compared(self):
        self.lines(good("mlp", "weft", "bf16", 0.5), good("mlp", "weft", "bf16", 0.7), good("mlp", "weft", "plain", 0.4),
                   good("mlp", "weft", "deterministic", 0.1), good("mlp", "pytorch", "graphs", 1.0),
                   good("mlp", "pytorch", "compile", 1.2))
        told = self.table()
        self.assertIn("| mlp | 8 | 0.500 | 0.400 | 0.100 | 1.200 | 1.000 | - | - | 2.50 | 3.00 |", told)
        self.assertIn("\n- mlp: Weft's best run is the one without calibration: ", told)

    def test_calibrations_are_told_with_their_extent(self):
        def calibrated(case, **more):
            return good(case, "weft", "bf16", 0.5, device="cuda", **more)
        self.lines(calibrated("mlp", table_nodes=1, all_nodes=40), good("mlp", "weft", "plain", 0.6, device="cuda"),
                   calibrated("dcgan", table_nodes=0, all_nodes=None))
        told = self.table()
        self.assertIn("\n- mlp: 1 of 40 nodes calibrated\n", told)
        self.assertIn("\n- dcgan: 0 of unknown nodes calibrated\n", told)
        self.assertNotIn("without calibration:", told)

    def test_a_measurement_has_the_extent_of_its_table(self):
        args = gpu_compare.parse_args(["measure", self.path, "mlp", "--build", self.folder])
        Path(gpu_compare.table_of(args, "mlp")).write_text("weft calibration 1\na -> 1\n")
        Path(gpu_compare.total_file(args, "mlp")).write_text("40\n")
        program(self.folder, "weft-zoo", "exit 0\n")
        program(self.folder, "nvidia-smi", "echo '[N/A]'\n")
        program(self.folder, "graphtool", """echo '{"median_ms": 2}'\n""")
        with mock.patch.dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}"), \
                mock.patch.object(gpu_compare, "torch_command", lambda *_: ["false"]):
            printed(gpu_compare.measure, args)
        self.assertIn("\n- mlp: 1 of 40 nodes calibrated\n", self.table())
        Path(gpu_compare.total_file(args, "mlp")).write_text("")
        self.assertIsNone(gpu_compare.total_of(args, "mlp"))

    def test_the_estimate_stands_beside_the_measurement(self):
        line = {**good("mlp", "weft", "bf16", 0.5), "estimate": {"ms": 0.123, "bound": "launches"}}
        self.lines(line, good("mlp", "pytorch", "graphs", 1.0))
        self.assertIn("| 1.000 | 0.123 | launches | 2.00 |", self.table())
        args = types.SimpleNamespace(build=self.folder)
        self.assertEqual(gpu_compare.estimate_of(args, "mlp", None), {})
        program(self.folder, "graphtool", """case "$*" in *"--estimate h200") ;; *) exit 2 ;; esac
echo '{"step": {"estimated_ms": 0.5, "bound": "memory"}}'\n""")
        self.assertEqual(gpu_compare.estimate_of(args, "mlp", "h200"), {"ms": 0.5, "bound": "memory"})
        self.assertEqual(gpu_compare.estimate_of(args, "mlp", "h300"), {})

    def test_a_gpu_is_known_by_its_whole_name(self):
        text = (BENCH.parent / "ops/roof.c").read_text()
        rows = re.findall(r'\.name = "(.*?)",\s*\.device = "(.*?)"', text)
        self.assertEqual(gpu_compare.ROOFS, {device: name for name, device in rows})
        for other, want in (("NVIDIA H200", "h200"), ("NVIDIA GH200 480GB", ""), ("NVIDIA H200 NVL", ""), ("NVIDIA H100 PCIe", ""),
                            ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "")):
            program(self.folder, "nvidia-smi", f"case $* in *=name*) echo '{other}' ;; *) echo 7 ;; esac\n")
            program(self.folder, "weft-zoo", "exit 0\n")
            program(self.folder, "graphtool", """while [ $# -gt 1 ] && [ "$1" != --estimate ]; do shift; done
echo "{\\"median_ms\\": 2, \\"step\\": {\\"estimated_ms\\": 1, \\"bound\\": \\"$2\\"}}"\n""")
            args = gpu_compare.parse_args(["measure", self.path, "mlp", "--build", self.folder])
            Path(self.path).write_text("")
            with mock.patch.dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}"), \
                    mock.patch.object(gpu_compare, "torch_command", lambda *_: ["false"]):
                printed(gpu_compare.measure, args)
            line = gpu_runs.read(self.path).good["mlp", "weft", "bf16"]
            self.assertEqual(line["estimate"].get("bound", ""), want, other)

    def test_the_case_furthest_from_its_goal_is_profiled(self):
        worst = types.SimpleNamespace(file=self.path)
        self.lines(good("mlp", "weft", "bf16", 1), good("mlp", "pytorch", "graphs", 2), good("dcgan", "weft", "bf16", 1),
                   good("dcgan", "pytorch", "graphs", 1.4))
        self.assertEqual(printed(gpu_compare.worst, worst), (0, "mlp\n"))
        self.lines({"plan": [("mlp", "weft", "bf16")]})
        self.assertEqual(printed(gpu_compare.worst, worst), (0, "gpt2_124m\n"))

    def start(self, *words):
        return subprocess.Popen([sys.executable, BENCH / "gpu_compare.py", *words, "--build", self.folder],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_a_measurement_that_is_killed_tells_what_it_had(self):
        program(self.folder, "weft-zoo", "exit 0\n")
        program(self.folder, "graphtool", f"""case $2 in *mlp*) echo $$ >{self.folder}/pid; exec sleep 77 ;; esac
echo '{{"median_ms": 3.5}}'\n""")
        process = self.start("measure", self.path, "dcgan", "mlp", "--device", "cpu", "--seconds", "60")
        until(Path(self.folder, "pid").exists)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=600)
        told = self.table()
        self.assertIn("| dcgan | 2 | 3.500 |", told)
        self.assertIn("- mlp, weft bf16: it was running when", told)
        self.assertIn("- dcgan, pytorch eager: not begun", told)
        status = Path(f"/proc/{Path(self.folder, 'pid').read_text().strip()}/status")
        until(lambda: not status.exists() or "\nState:\tZ" in status.read_text())

    def test_what_was_cut_is_told_as_cut_however_late_it_is_looked_at(self):
        timer = threading.Timer
        with mock.patch.object(gpu_compare.threading, "Timer", lambda _, function: timer(0.1, function)):
            told = gpu_compare.calibrate_one(["sleep", "77"], 30, Path(self.folder, "total"))
        self.assertEqual(told, "cut after its limit of 30 s")

    def test_a_calibration_that_is_cut_says_how_far_it_came(self):
        program(self.folder, "weft-zoo", "exit 0\n")
        program(self.folder, "graphtool", """while [ "$1" != -o ]; do shift; done
printf 'weft calibration 1\\n# a comment\\na -> 1\\nb -> 2\\n' >"$2"
case $2 in *dcgan*) echo 'node 2 of 5: b: 0.1 ms' >&2; exec sleep 77 ;; esac
echo 'node 2 of 2: b: 0.1 ms' >&2\n""")
        process = self.start("calibrate", "dcgan", "mlp", "--seconds", "10")
        told = process.communicate(timeout=600)[0]
        self.assertEqual(process.returncode, 1, told)
        self.assertRegex(told, r"dcgan: 2 of 5 nodes measured, cut after its limit of \d+ s\n")
        self.assertIn("mlp: 2 of 2 nodes measured, to the end\n", told)
        self.assertEqual([gpu_compare.total_of(types.SimpleNamespace(build=self.folder), c) for c in ("dcgan", "mlp")], [5, 2])
        process = self.start("calibrate", "mlp", "--seconds", "200")
        self.assertIn("mlp: 2 of 2 nodes measured, to the end\n", process.communicate(timeout=600)[0])
        self.assertEqual(process.returncode, 0)
        program(self.folder, "graphtool", """while [ "$1" != -o ]; do shift; done
echo 'a -> 1' >"$2"; echo 'node 1 of 40: a: 0.1 ms' >&2; exit 1\n""")
        process = self.start("calibrate", "mlp", "--seconds", "200")
        self.assertIn("mlp: 1 of 40 nodes measured, failed: exit status 1\n", process.communicate(timeout=600)[0])
        self.assertEqual(process.returncode, 1)
        program(self.folder, "graphtool", "exit 1\n")
        process = self.start("calibrate", "mlp", "--seconds", "200")
        self.assertIn("mlp: 0 of unknown nodes measured, failed: exit status 1\n", process.communicate(timeout=600)[0])
        self.assertEqual(process.returncode, 1)


def cpu_run(engine, ms, mib, imported=None, other=0.0):
    more = {} if imported is None else {"rss_import_mib": imported}
    return {"engine": engine, "median_ms": ms, "peak_rss_mib": mib, "other_cpus": other, **more}


class TheTableOfACpu(unittest.TestCase):
    RUNS = [cpu_run("weft", 6.0, 50), cpu_run("weft", 8.0, 50), cpu_run("weft", 7.0, 60), cpu_run("eager", 10.0, 700, 500),
            cpu_run("compile", 8.0, 900, 500)]

    def test_the_faster_of_two_is_the_rival(self):
        lines = list(compare_table.table({"mlp": self.RUNS}))
        self.assertEqual(lines[2], "| mlp | 7.00 | 10.00 | **8.00** | 0.88 | 50 | 900 | 0.06 | 400 | 0.12 |")
        slow = [{**r, "median_ms": 12.0} if r["engine"] == "compile" else r for r in self.RUNS]
        self.assertEqual(compare_table.row("mlp", slow), ["mlp", "7.00", "**10.00**", "12.00", "0.70", "50", "700", "0.07", "200", "0.25"])
        self.assertIn("`import torch` takes 500 to 500 MiB.", lines)
        self.assertIn("Medians of fewer rounds, as the others failed: mlp, eager: 1 of 3; mlp, compile: 1 of 3.", lines)

    def test_what_did_not_run_is_named(self):
        runs = {"mlp": self.RUNS, "gpt": [r for r in self.RUNS if r["engine"] != "compile"]}
        lines = list(compare_table.table(runs))
        self.assertEqual(lines[3], "| gpt | 7.00 | **10.00** | - | 0.70 | 50 | 700 | 0.07 | 200 | 0.25 |")
        self.assertIn("Without torch.compile: gpt.", lines)
        self.assertEqual(compare_table.row("x", self.RUNS[:1])[-1], "-")

    def test_runs_beside_others_are_named(self):
        runs = self.RUNS + [cpu_run("compile", 8.0, 900, 500, other=0.3)]
        self.assertIn("mlp round 2, compile: 0.30", list(compare_table.table({"mlp": runs}))[-1])
        self.assertNotIn("Not clean", "".join(compare_table.table({"mlp": self.RUNS})))


class Losses(unittest.TestCase):
    """Made-up losses of a rehearsal, which agree, and what one change does to them."""
    CASE = "mlp"

    def runs(self, changed=None, **given):
        losses = {("weft", "f32 cpu"): 2.0, ("weft", "bf16 cpu"): 2.0, ("pytorch", "f32 cpu"): 2.0, ("pytorch", "bf16 cpu"): 2.0}
        plan = [(self.CASE, *run) for run in losses]
        lines = [{"plan": plan, "what": "losses"}]
        for run, loss in losses.items():
            steps = [[loss] for _ in range(gpu_losses.STEPS)]
            if run == changed:
                steps[given["step"]] = given["values"]
            lines.append({"case": self.CASE, "engine": run[0], "mode": run[1], "losses": steps})
        return gpu_runs.Runs(lines)

    def wrong(self, run, step, *values):
        """(exit status, what is reported on standard error) with these values in one step of one run."""
        return printed(gpu_losses.report, self.runs(run, step=step, values=list(values)))

    def test_equal_losses_agree(self):
        self.assertEqual(printed(gpu_losses.report, self.runs()), (0, ""))

    def test_each_step_has_its_limit(self):
        for which, run in (("f32", ("pytorch", "f32 cpu")), ("bf16", ("weft", "bf16 cpu"))):
            for step, limit in enumerate(gpu_losses.LIMITS[which][self.CASE]):
                self.assertEqual(self.wrong(run, step, 2 * (1 + 0.9 * limit))[0], 0, (which, step))
                status, told = self.wrong(run, step, 2 * (1 + 1.2 * limit))
                self.assertEqual(status, 1, (which, step))
                self.assertIn(f"mlp: losses differ at step {step + 1}: ", told)

    def test_what_is_no_number_never_agrees(self):
        for value in (math.nan, math.inf, -math.inf):
            for run in (("weft", "f32 cpu"), ("weft", "bf16 cpu"), ("pytorch", "f32 cpu")):
                self.assertEqual(self.wrong(run, 3, value)[0], 1, (value, run))
        self.assertEqual(gpu_losses.difference(math.nan, math.nan), math.inf)
        self.assertEqual(gpu_losses.difference(0.0, 0.0), 0)
        self.assertEqual(gpu_losses.difference(0.0, 1e-9), 1)

    def test_another_number_of_losses_never_agrees(self):
        self.assertEqual(self.wrong(("weft", "f32 cpu"), 2)[0], 1)
        self.assertEqual(self.wrong(("weft", "f32 cpu"), 2, 2.0, 2.0)[0], 1)
        self.assertEqual(gpu_losses.worst_of([[2.0]], [[2.0]], (1, 1))[0], math.inf)

    def test_the_bf16_of_pytorch_is_judged_by_nobody(self):
        self.assertEqual(self.wrong(("pytorch", "bf16 cpu"), 4, 3.0), (0, ""))

    def test_a_run_without_losses_is_no_success(self):
        runs = self.runs()
        runs.good.pop((self.CASE, "pytorch", "f32 cpu"))
        self.assertEqual(gpu_losses.report(runs), 1)
        self.assertIn("- mlp, pytorch f32 cpu: not begun", printed(gpu_losses.print_table, runs)[1])

    def test_limits_stand_for_every_case_and_step(self):
        for limits in gpu_losses.LIMITS.values():
            self.assertEqual(sorted(limits), sorted(ALL))
            for row in limits.values():
                self.assertEqual(len(row), gpu_losses.STEPS)
                self.assertTrue(all(0 < limit < 1 for limit in row))
                self.assertEqual(list(row), sorted(row))

    def test_losses_of_bench_are_steps_of_all_graphs(self):
        self.assertEqual(gpu_losses.steps_of({"losses": {"g_loss": [3, 4], "d_loss": [1, 2]}}), [[1, 3], [2, 4]])
        (first,), (second,) = gpu_losses.steps_of({"losses": {"loss": [3, None]}})
        self.assertEqual(first, 3)
        self.assertTrue(math.isnan(second))


class LossesOfAGpu(unittest.TestCase):
    """The whole step on a device that programs play, PyTorch's process too."""

    def losses(self, graphtool, torch):
        """(exit status, what is reported, the runs)"""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "losses.jsonl")
        program(folder.name, "weft-zoo", "exit 0\n")
        program(folder.name, "graphtool", graphtool)
        args = gpu_compare.parse_args(["losses", path, "--build", folder.name, "--seconds", "60", "gpt2_124m", "mlp"])
        Path(path).write_text("what an earlier call left\n")
        with mock.patch.object(gpu_losses, "torch_command", lambda _, what, *__: ["sh", "-c", torch if what == "run" else ""]):
            status, told = printed(gpu_losses.losses, args)
        return status, told, gpu_runs.read(path)

    STEPS = "[2, 2, 2, 2, 2]"
    TORCH = """for run in 1 2 3 4; do echo '{"losses": [[2], [2], [2], [2], [2]]}'; done"""

    def test_all_runs_are_made_and_agree(self):
        status, told, runs = self.losses(f"""echo '{{"losses": {{"loss": {self.STEPS}}}}}'\n""", self.TORCH)
        self.assertEqual(status, 0, told)
        self.assertEqual(len(runs.good), 2 * 7)
        self.assertEqual(told.count("| agree |"), 2 * 6)
        self.assertNotIn("rehearsal", told)

    def test_one_that_is_wrong_is_told_with_case_and_step(self):
        status, told, _ = self.losses(f"""steps='{self.STEPS}'
case "$*" in *gpt2*bf16*cuda*--deterministic*) steps='[2, 2, 2.1, 2, 2]' ;; esac
echo "{{\\"losses\\": {{\\"loss\\": $steps}}}}"\n""", self.TORCH)
        self.assertEqual(status, 1)
        self.assertEqual(told.count("losses differ"), 1)
        self.assertIn("gpt2_124m: losses differ at step 3: Weft bf16 cuda deterministic has 2.1, Weft f32 cpu 2:", told)

    def test_a_loss_that_is_null_is_told_with_case_and_step(self):
        status, told, _ = self.losses(f"""steps='{self.STEPS}'
case "$*" in *mlp*f32*cuda*--deterministic*) steps='[2, 2, null, null, null]' ;; esac
echo "{{\\"losses\\": {{\\"loss\\": $steps}}}}"\n""", self.TORCH)
        self.assertEqual(status, 1)
        self.assertIn("| mlp | Weft f32 cuda deterministic | 2 | 2 | nan | nan | nan |", told)
        self.assertIn("mlp: losses differ at step 3: Weft f32 cuda deterministic has nan, Weft f32 cpu 2: inf", told)

    def test_a_process_that_ends_early_leaves_runs_that_are_named(self):
        status, told, _ = self.losses(f"""case "$*" in *mlp*cpu*) exit 1 ;; esac
echo '{{"losses": {{"loss": {self.STEPS}}}}}'\n""", """echo '{"losses": [[2], [2], [2], [2], [2]]}'; exit 3""")
        self.assertEqual(status, 1)
        self.assertIn("- mlp, weft f32 cpu: exit status 1: nothing\n", told)
        self.assertIn("- gpt2_124m, pytorch bf16 cuda: its process ended: exit status 3\n", told)
        self.assertIn("- mlp, pytorch bf16 cuda: its process ended: exit status 3\n", told)


@unittest.skipUnless(np, "numpy is not here")
class Frechet(unittest.TestCase):
    def test_the_distance_of_normal_distributions_is_the_formula(self):
        random = np.random.default_rng(1)
        one = random.normal(0, 1, (4000, 3))
        one = (one - one.mean(0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(one, rowvar=False))).T  # covariance 1
        other = one * [1, 2, 3] + [0, 0, 5]  # |m|^2 = 25, tr(C1 + C2 - 2 (C1 C2)^(1/2)) = 0 + 1 + 4
        self.assertAlmostEqual(frechet.distance(one, other), 30, 9)
        self.assertAlmostEqual(frechet.distance(other, one), 30, 9)
        self.assertAlmostEqual(frechet.distance(other, other), 0, 9)

    def test_a_convolution_with_its_norm_is_that_of_the_zoo(self):
        random = np.random.default_rng(2)
        net, x = frechet.Convnet.__new__(frechet.Convnet), random.normal(0, 1, (2, 4, 5, 3)).astype(np.float32)
        net.of = {"net.c.conv.weight": random.normal(0, 1, (2, 3, 3, 3)).astype(np.float32)}  # [out,in,y,x], as PyTorch's
        for name in ("weight", "bias", "running_mean", "running_var"):
            net.of[f"net.c.bn.{name}"] = random.uniform(0.5, 2, 2).astype(np.float32)
        out, bn = net.conv_bn_relu(x, "c"), {k.rsplit(".", 1)[1]: v for k, v in net.of.items() if ".bn." in k}
        for n, y, across, o in np.ndindex(2, 4, 5, 2):
            total = sum(x[n, y + dy - 1, across + dx - 1, i] * net.of["net.c.conv.weight"][o, i, dy, dx]
                        for dy in range(3) for dx in range(3) for i in range(3)
                        if 0 <= y + dy - 1 < 4 and 0 <= across + dx - 1 < 5)
            wanted = (total - bn["running_mean"][o]) / math.sqrt(bn["running_var"][o] + 1e-5) * bn["weight"][o]
            self.assertAlmostEqual(out[n, y, across, o], max(wanted + bn["bias"][o], 0), 4)


if __name__ == "__main__":
    unittest.main()
