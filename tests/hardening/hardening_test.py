#!/usr/bin/env python3
"""Reads the program that users run and checks that the compiler and the linker hardened it."""

import os
import re
import subprocess
import unittest

PROGRAM = os.environ["PENSTOCK"]
FUNCTIONS_WITH_CANARY_MIN = 100
LANDING_PADS_MIN = 1000


def readelf(*options):
    return subprocess.run(["readelf", "--wide", *options, PROGRAM], capture_output=True, text=True, check=True).stdout


def disassembly():
    return subprocess.run(["objdump", "--disassemble", "--no-show-raw-insn", "--section=.text", PROGRAM],
                          capture_output=True, text=True, check=True).stdout


class HardeningTest(unittest.TestCase):
    def test_the_program_is_position_independent(self):
        self.assertRegex(readelf("--file-header"), r"Type:\s+DYN")
        self.assertRegex(readelf("--dynamic"), r"FLAGS_1\).*\bPIE\b")

    def test_relocations_are_read_only_after_start(self):
        self.assertIn("GNU_RELRO", readelf("--program-headers"))
        self.assertRegex(readelf("--dynamic"), r"FLAGS_1\).*\bNOW\b")

    def test_no_segment_is_writable_and_executable(self):
        segments = re.findall(r"^\s+(\S+)\s+0x\S+ 0x\S+ 0x\S+ 0x\S+ 0x\S+ ([R ][W ][E ])", readelf("--program-headers"),
                              re.MULTILINE)
        self.assertIn(("GNU_STACK", "RW "), segments)
        self.assertEqual([name for name, rights in segments if rights.endswith("WE")], [])

    def test_functions_of_the_c_library_check_the_size_of_their_destination(self):
        self.assertRegex(readelf("--dyn-syms"), r"__\w+_chk@GLIBC")

    def test_containers_check_their_indexes(self):
        self.assertRegex(readelf("--dyn-syms"), r"__glibcxx_assert_fail")

    def test_functions_have_stack_canaries_and_branch_targets(self):
        code = disassembly()
        self.assertGreater(code.count("<__stack_chk_fail@plt>"), FUNCTIONS_WITH_CANARY_MIN)
        self.assertGreater(code.count("endbr64"), LANDING_PADS_MIN)
        self.assertRegex(code, r"sub +\$0x1000,%rsp\n[^\n]*orq? +\$0x0,\(%rsp\)")  # Stack clash protection probes pages.


if __name__ == "__main__":
    unittest.main()
