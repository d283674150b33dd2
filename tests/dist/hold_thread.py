#!/usr/bin/env python3
"""hold_thread.py PID SECONDS - holds the main thread of a process, and no other of its threads, as a debugger does (ptrace). It
prints "held" when the thread stands. Exit status 77: the system does not allow it."""
import ctypes
import os
import sys
import time

SEIZE, INTERRUPT, ALL = 0x4206, 0x4207, 0x40000000  # of ptrace, and __WALL of waitpid
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
pid = int(sys.argv[1])
if libc.ptrace(SEIZE, pid, None, None) or libc.ptrace(INTERRUPT, pid, None, None):
    print("not allowed:", os.strerror(ctypes.get_errno()), flush=True)
    sys.exit(77)
os.waitpid(pid, ALL)
print("held", flush=True)
time.sleep(float(sys.argv[2]))  # at the end of this process the thread continues
