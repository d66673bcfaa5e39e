"""What the tests of the command line share: a folder of their own, the real program, small traces."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = os.environ.get("PENSTOCK", "penstock")


class CliTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="penstock-cli-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    def run_program(self, *words, environment=None, code=0, given=None):
        """Runs the program in the test's folder and holds it to an exit code."""
        done = subprocess.run([PROGRAM, *map(str, words)], cwd=self.folder, capture_output=True, text=True, timeout=240, input=given,
                              env={**os.environ, "DISPLAY": "", "WAYLAND_DISPLAY": "", **(environment or {})})
        self.assertEqual(done.returncode, code, f"{words}\n{done.stdout}\n{done.stderr}")
        return done

    def assert_refused(self, *words, says, code=2):
        """One clear line on standard error, nothing on standard output, no new file."""
        before = self.files()
        done = self.run_program(*words, code=code)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"\Apenstock: [^\n]+\n\Z")
        self.assertIn(says, done.stderr)
        self.assertEqual(self.files(), before)
        return done.stderr

    def files(self):
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))

    def read_json(self, name):
        return json.loads((self.folder / name).read_text())


def mooncake(requests=60, gap_ms=500, input_length=1200, output_length=40):
    """A trace in Mooncake's format: requests in pairs that share their first block."""
    lines = []
    for i in range(requests):
        blocks = -(-input_length // 512)
        hash_ids = [i // 2 * 10] + [1000 + i * 10 + k for k in range(1, blocks)]
        lines.append(json.dumps({"timestamp": i * gap_ms, "input_length": input_length, "output_length": output_length,
                                 "hash_ids": hash_ids}))
    return "\n".join(lines) + "\n"


def azure(rows):
    return "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(f"{row}\n" for row in rows)


def without_wall_speed(text):
    """What two equal runs have in common: all but how fast the machine was."""
    return re.sub(r'"simulated_requests_per_s": [^,\n]+', "", text)


def main():
    if not Path(PROGRAM).is_file():
        sys.exit(f"PENSTOCK names no program: {PROGRAM}")
    unittest.main()
