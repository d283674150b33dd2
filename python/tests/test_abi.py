"""The declarations of Python are those of C: sizes of structures and places of fields, as the compiler and the list of the interface have
them, and functions that the libraries have."""
import shutil
import sys
import unittest
from pathlib import Path

import weft
from weft._abi import ffi
from weft._lib import lib

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "tests/rules/abi.txt"
OF_WAYS = {"weft_comm_mpi", "weft_comm_ucx"}  # libraries that a build may lack


def seen_by_cffi(lines):
    """The lines of these names with cffi's numbers: "weft_feed 24" and "weft_feed.name 0"."""
    numbers = []
    for name in (line.split()[0] for line in lines):
        structure, _, field = f"struct {name}".partition(".")
        numbers.append(f"{name} {ffi.offsetof(structure, field) if field else ffi.sizeof(structure)}")
    return numbers


def all_of_cffi():
    """Each structure that the headers show, and its fields."""
    names = []
    for structure in (name for name in ffi.list_types()[1] if name.startswith("weft_")):
        try:
            ffi.sizeof(f"struct {structure}")
        except ffi.error:  # declared alone; cffi 2.1 aborts when asked for its fields
            continue
        names += [structure] + [f"{structure}.{field}" for field, _ in ffi.typeof(f"struct {structure}").fields]
    return sorted(names)


@unittest.skipUnless(KEPT.exists(), f"no {KEPT}")
class Declarations(unittest.TestCase):
    def setUp(self):
        functions, structures = KEPT.read_text().split("sizes of structures and places of fields, in bytes\n")
        self.functions, self.structures = functions.splitlines()[1:], structures.splitlines()

    def test_structures_are_those_of_the_list(self):
        self.assertGreater(len(self.structures), 500)
        self.assertEqual(seen_by_cffi(self.structures), self.structures)
        self.assertEqual(all_of_cffi(), sorted(line.split()[0] for line in self.structures))

    @unittest.skipUnless(shutil.which("cc"), "no compiler")
    def test_structures_are_the_compilers(self):
        sys.path.insert(0, str(KEPT.parent))
        import check_exports
        inside = Path(weft.__file__).parent  # a wheel has its headers
        prefix = inside if (inside / "include").exists() else ROOT
        compiled = check_exports.sizes(prefix, "cc")
        self.assertEqual(seen_by_cffi(compiled), compiled)

    def test_each_function_is_in_a_library(self):
        self.assertGreater(len(self.functions), 400)
        for name in self.functions:
            if name not in OF_WAYS:
                self.assertEqual(ffi.typeof(getattr(lib, name)).kind, "function", name)


if __name__ == "__main__":
    unittest.main()
