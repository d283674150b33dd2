"""The command `graphtool`: the program of the package."""
import os
import sys
from pathlib import Path

PROGRAM = Path(__file__).parent / "bin" / "graphtool"


def main():
    try:
        os.execv(PROGRAM, ["graphtool", *sys.argv[1:]])
    except OSError as why:
        sys.exit(f"graphtool: {PROGRAM}: {why.strerror}: this package was built without it (WEFT_TOOLS=OFF)")
