"""Trainers from Python: data, hooks, evaluators and steps that are Python functions; what they raise; Ctrl-C; ranks."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np
import weft

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
X = np.random.default_rng(0).normal(size=(200, 20)).astype("f4")
Y = (X @ np.random.default_rng(1).normal(size=(20, 5))).argmax(1)


def classifier():
    m = weft.Model("net", batch=20)
    for name in ("train", "val"):
        g = m.graph(name, train=name == "train")
        logits = g.input("x", "f32", ["batch", 20]).linear(5, "fc").output("logits")
        loss = weft.cross_entropy(logits, g.input("y", "i64", ["batch"])).output("loss")
        if name == "train":
            m.minimize(loss, optimizer=weft.Adam(1e-2))
    return m


class Rows:
    """A data set of Python."""

    def __init__(self, bad=None):
        self.bad = bad

    def __len__(self):
        return len(X)

    def __getitem__(self, i):
        if i == self.bad:
            raise KeyError(f"no sample {i}")
        return {"x": X[i], "y": int(Y[i])}


class Trainers(unittest.TestCase):
    def trainer(self, **options):
        options = dict(train={"x": X, "y": Y}, batch=20, threads=1, epochs=2) | options
        return weft.Trainer(classifier(), **options)

    def test_arrays_objects_and_files_give_the_same_training(self):
        with tempfile.TemporaryDirectory() as folder:
            np.save(os.path.join(folder, "x.npy"), X)
            np.save(os.path.join(folder, "y.npy"), Y)
            files = {n: os.path.join(folder, f"{n}.npy") for n in "xy"}
            weights = [self.trainer(train=data).fit().store["fc/weight"] for data in ({"x": X, "y": Y}, Rows(), files, weft.arrays(x=X, y=Y))]
        for w in weights[1:]:
            np.testing.assert_array_equal(w, weights[0])

    def test_hooks_are_functions_and_objects(self):
        seen, steps = [], []

        class Steps(weft.Hook):
            def after_iteration(self, trainer):
                steps.append(trainer.progress.train["loss"])
                if len(steps) == 13:
                    trainer.stop()

        t = self.trainer(hooks=[Steps(), lambda trainer, point: seen.append(point)]).fit()
        self.assertEqual((len(steps), t.progress.iteration, t.progress.epoch), (13, 13, 1))
        self.assertLess(steps[-1], steps[0])
        self.assertEqual((seen[0], seen[-1], seen.count("before_iteration")), ("before_run", "after_run", 13))
        with self.assertRaisesRegex(weft.Error, "no hook"):
            self.trainer(hooks=[3])

    def test_what_python_raises_reaches_the_program(self):
        def bad(trainer, point):
            if point == "after_iteration" and trainer.progress.iteration == 3:
                raise KeyError("mine")

        def step(trainer):
            trainer.run("train")
            raise OverflowError("step")

        for options, kind, says in [(dict(hooks=[bad]), KeyError, "mine"), (dict(train=Rows(bad=57)), KeyError, "no sample 57"),
                                    (dict(train_step=step, iterations=2), OverflowError, "step")]:
            with self.assertRaisesRegex(kind, says):
                self.trainer(**options).fit()

    def test_evaluators_count_in_python(self):
        class Right(weft.Evaluator):
            name, reads, counts, sums, width = "right", ("logits", "y"), 2, 1, 2

            def batch(self, tally, logits, y):
                tally.count(0, int((logits.argmax(1) == y).sum()))
                tally.count(1, len(y))
                tally.add(0, float(logits.sum()))
                for row, label in zip(logits, y):
                    tally.row([row[0], label])

            def report(self, tally):
                tally.report(tally.counted(0) / tally.counted(1))
                tally.report(len(tally.rows()), "rows")

        t = self.trainer(val={"x": X, "y": Y}, evaluators=[Right(), weft.evaluators.accuracy("logits", "y")]).fit()
        found = t.validate()
        self.assertEqual(found["right"], found["accuracy"])
        self.assertEqual(found["right/rows"], len(X))
        logits = t.predict({"x": X, "y": Y}, graph="val", output="logits")
        self.assertEqual(float((logits.argmax(1) == Y).mean()), found["right"])

    def test_checkpoints_resume(self):
        with tempfile.TemporaryDirectory() as folder:
            whole = self.trainer(epochs=2).fit().store["fc/weight"]
            self.trainer(epochs=1, checkpoints=dict(folder=folder, every=3)).fit()
            resumed = self.trainer(epochs=2, checkpoints=dict(resume=folder)).fit()
            np.testing.assert_array_equal(resumed.store["fc/weight"], whole)

    def test_mistakes(self):
        for options, says in [(dict(epoch=3), "did you mean epochs"), (dict(train={"x": X, "label": Y}), "label"), (dict(train=3), "not a dict"),
                              (dict(checkpoints=dict(ever=3)), "did you mean every")]:
            with self.assertRaisesRegex(weft.Error, says):
                self.trainer(**options)

    def test_ctrl_c_ends_a_training(self):
        t = self.trainer(epochs=10**6)
        timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            t.fit()
        self.assertGreater(t.progress.iteration, 0)
        t.step()  # it is as good as before

    def test_two_ranks_have_the_same_weights(self):
        graphtool = os.environ.get("WEFT_GRAPHTOOL")
        if not graphtool:
            self.skipTest("WEFT_GRAPHTOOL names no graphtool")
        launch, lib = [graphtool, "launch", "-n", "2", "--"], os.path.join(os.path.dirname(weft.__file__), "lib")
        ways = {"local": launch}
        if any("weft_ucx" in name for name in os.listdir(lib)):
            ways["ucx"] = launch
        if shutil.which("mpirun") and any("weft_mpi" in name for name in os.listdir(lib)):
            ways["mpi"] = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", "-x", "PYTHONPATH"]
        bits = set()
        for way, start in ways.items():
            out = subprocess.run([*start, sys.executable, os.path.abspath(__file__), "ranks", way], capture_output=True, text=True, timeout=120)
            self.assertEqual(out.returncode, 0, f"{way}: {out.stderr}")
            self.assertEqual(len(out.stdout.split()), 2, out.stdout)
            bits |= set(out.stdout.split())
        self.assertEqual(len(bits), 1)

    def test_ctrl_c_ends_the_wait_for_another_rank(self):
        graphtool = os.environ.get("WEFT_GRAPHTOOL")
        if not graphtool:
            self.skipTest("WEFT_GRAPHTOOL names no graphtool")
        began = time.monotonic()
        out = subprocess.run([graphtool, "launch", "-n", "2", "--grace", "5", "--", sys.executable, os.path.abspath(__file__), "waits"],
                             capture_output=True, text=True, timeout=120)
        self.assertIn("interrupted", out.stdout, out.stderr)
        self.assertLess(time.monotonic() - began, 60)


def one_of_two(way):
    comm = weft.world(way)
    t = weft.Trainer(classifier(), train={"x": X, "y": Y}, batch=20, threads=1, epochs=2, comm=comm).fit()
    sys.stdout.write(t.store["fc/weight"].tobytes().hex()[:64] + "\n")


def one_that_waits():
    comm = weft.world()
    m = classifier()
    plan = m.compile(batch=20, threads=1, world=2, rank=comm.rank, graph="train")
    with plan.store().session(comm=comm) as s:
        s.run("train", x=X[:20], y=Y[:20])
        if comm.rank == 1:
            time.sleep(600)
        threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            s.run("train", x=X[:20], y=Y[:20])
        except KeyboardInterrupt:
            sys.stdout.write("interrupted\n")
            sys.stdout.flush()
    os._exit(1)  # the launcher ends the other rank


if __name__ == "__main__":
    if sys.argv[1:2] == ["ranks"]:
        one_of_two(sys.argv[2])
    elif sys.argv[1:2] == ["waits"]:
        one_that_waits()
    else:
        unittest.main()
