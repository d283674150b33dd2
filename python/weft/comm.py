"""Ranks: how this process joins the others that a launcher has started."""
import contextlib
import os
import signal
import threading
from _signal import getsignal  # type: ignore[import-not-found]  # signal.getsignal() of Python 3.9 makes a cycle, which keeps what calls it

from ._handles import Handle
from ._lib import NULL, Error, call, ffi, lib, make, string, text
from ._structs import structure


class Comm(Handle):
    """One rank's end of a world. Sessions and trainers take it as `comm`."""

    def __init__(self, pointer, *keep):
        super().__init__(pointer, lib.weft_comm_free, *keep)

    @property
    def rank(self):
        return self.pointer.rank

    @property
    def world(self):
        return self.pointer.world

    @property
    def kind(self):
        """How the ranks communicate: "self", "mpi", "ucx", "local" ..."""
        return string(self.pointer.kind)

    def __repr__(self):
        return f"<weft.Comm {self.kind}: rank {self.rank} of {self.world}>"

    def fail(self, reason):
        """The collectives of every rank fail with this reason."""
        lib.weft_comm_fail(self.pointer, text(reason))

    def abort(self, reason):
        """Gives up for all ranks, and ends a launcher's job where it has one."""
        lib.weft_comm_abort(self.pointer, text(reason))


def world(way=None, **options):
    """The world that graphtool launch, torchrun, mpirun or Slurm has started; one rank where none has.

    way: "mpi", "ucx" or "local"; None: MPI under mpirun and Slurm, else shared memory on one machine and UCX on several
    options: deadline_seconds and the other fields of weft_comm_options
    """
    if way not in (None, "mpi", "ucx", "local"):
        raise Error("argument", f"world: {way!r} is not one of mpi, ucx, local")
    environment = [ffi.new("char[]", f"{k}={v}".encode("utf-8", "surrogateescape")) for k, v in os.environ.items()]
    launch = ffi.new("weft_launch *")
    call(lib.weft_launch_read, NULL, ffi.new("char *[]", environment + [NULL]), launch)
    keep = [environment, launch]
    how = structure("weft_comm_options", options, keep)
    if launch.world == 1:
        return Comm(make(lib.weft_comm_self, how))
    if way is None:
        is_env = string(launch.launcher) == "env"
        way = "mpi" if not is_env else "local" if launch.local_world == launch.world else "ucx"
    if way != "local":
        lib.open(f"libweft_{way}")
    return Comm(make(getattr(lib, f"weft_comm_{way}"), launch, how), *keep)


# ---- Ctrl-C while C works or waits ----

class _Watch:
    """A thread that acts as soon as SIGINT comes, while the main thread is in a call of C: Python itself acts after the call."""

    def __init__(self):
        self.read, self.write = os.pipe()
        os.set_blocking(self.write, False)
        self.act, self.before, self.lock = None, -1, threading.RLock()
        threading.Thread(target=self.wait, name="weft: Ctrl-C", daemon=True).start()

    def wait(self):
        while number := os.read(self.read, 1):
            with self.lock:
                if self.before >= 0:  # asyncio's, say: it learns of the signal all the same
                    with contextlib.suppress(OSError):
                        os.write(self.before, number)
                if number[0] == signal.SIGINT and self.act:
                    self.act()


_watch = None


class interruptible:
    """with interruptible(act): a call of C that Ctrl-C should end early. `act` runs in another thread, and makes the call return; then the
    program's handler of the signal runs, which raises KeyboardInterrupt where it is Python's own."""

    def __init__(self, act):
        self.act = act

    def __enter__(self):
        global _watch
        self.before = None
        if threading.current_thread() is not threading.main_thread() or getsignal(signal.SIGINT) in (signal.SIG_DFL, signal.SIG_IGN, None):
            return
        if _watch is None or _watch.pid != os.getpid():
            _watch = _Watch()
            _watch.pid = os.getpid()
        with _watch.lock:
            self.before, self.outer = signal.set_wakeup_fd(_watch.write, warn_on_full_buffer=False), _watch.act
            if self.before != _watch.write:
                _watch.before = self.before
            _watch.act = self.act

    def __exit__(self, *raised):
        if self.before is not None:
            with _watch.lock:
                signal.set_wakeup_fd(self.before)
                _watch.act = self.outer
                if self.before != _watch.write:
                    _watch.before = -1
