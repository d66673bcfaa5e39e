"""Tests of a command of the program that runs to its end in a folder of its own."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from live_testing import PROGRAM, SECONDS


class CommandTest(unittest.TestCase):
    command = None
    finish_s = 2 * SECONDS

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="penstock-" + self.command + "-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def begin(self, *words):
        environment = {name: value for name, value in os.environ.items() if name != "OPENAI_API_KEY"}
        process = subprocess.Popen([PROGRAM, self.command, *map(str, words)], cwd=self.folder, text=True, env=environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def finish(self, process, code=0):
        out, err = process.communicate(timeout=self.finish_s)
        self.assertEqual(process.returncode, code, out + err)
        return out, err
