#!/usr/bin/env python3
"""What a power loss can take from the ledger, measured on a gateway under load.

The worst case is a system that has written nothing to the disk on its own: only what the gateway flushed is left. A library in
the gateway copies a file of the ledger whenever it was flushed. The test takes the copies at random moments, and counts the rows
that they lack: POWER_LOSS_SECONDS=300 POWER_LOSS_RATES=5,50,400 power_loss_test.py
"""

import os
import random
import shutil
import sqlite3
import subprocess
import tempfile
import time
import unittest

from live_testing import PROGRAM, SECONDS, STOP, Engine, Gateway, ask, until

LENGTH = float(os.environ.get("POWER_LOSS_SECONDS", "30"))
RATES = [float(rate) for rate in os.environ.get("POWER_LOSS_RATES", "200").split(",")]
LOST_S_MAX = 10.0  # About one second on an idle machine; without flushes it is the length of the run.

SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void copy(int descriptor) {
  char link[64], path[PATH_MAX], made[PATH_MAX], next[PATH_MAX + 8], bytes[65536];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return;
  path[length] = 0;
  const char* const name = strrchr(path, '/');
  if (name == NULL || (strcmp(name, "/ledger.sqlite") != 0 && strcmp(name, "/ledger.sqlite-wal") != 0)) return;
  snprintf(made, sizeof made, "%s%s", getenv("FLUSHED_FOLDER"), name);
  snprintf(next, sizeof next, "%s.next", made);
  const int from = open(path, O_RDONLY | O_CLOEXEC), to = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  for (ssize_t got; (got = read(from, bytes, sizeof bytes)) > 0;)
    if (write(to, bytes, (size_t)got) != got) abort();
  close(from);
  close(to);
  rename(next, made);
}

int fdatasync(int descriptor) {
  const int done = (int)syscall(SYS_fdatasync, descriptor);
  if (done == 0) copy(descriptor);
  return done;
}

int fsync(int descriptor) {
  const int done = (int)syscall(SYS_fsync, descriptor);
  if (done == 0) copy(descriptor);
  return done;
}
"""


def stamps(folder):
    """Names, sizes and times of the files there."""
    return {entry.name: (entry.stat().st_mtime_ns, entry.stat().st_size) for entry in os.scandir(folder)}


class PowerLossTest(unittest.TestCase):
    def folder(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        return made.name

    def image(self, flushed, folder):
        """A copy of what was flushed; none: a flush was in progress."""
        shutil.rmtree(folder)
        try:
            before = stamps(flushed)
            shutil.copytree(flushed, folder)
            same = stamps(flushed) == before
        except (OSError, shutil.Error):
            os.makedirs(folder, exist_ok=True)
            return None
        return os.path.join(folder, "ledger.sqlite") if same and "ledger.sqlite" in before else None

    def check(self, path, ledger):
        """The closed rows that the image lacks, and the age of the oldest of them in seconds."""
        taken = time.time()
        closed = "select id, request_id, output_tokens, closed_unix_ms from entries where closed_unix_ms is not null"
        with sqlite3.connect(path) as database:
            self.assertEqual(database.execute("pragma integrity_check").fetchone(), ("ok",))
            has_rows = database.execute("select count(*) from sqlite_master where name = 'entries'").fetchone()[0] == 1
            kept = set(database.execute(closed).fetchall()) if has_rows else set()
        database.close()
        with sqlite3.connect(f"file:{ledger}?mode=ro", uri=True) as database:
            rows = set(database.execute(closed).fetchall())
        database.close()
        self.assertLessEqual(kept, rows, "a row of the image is not in the ledger")
        ages = [taken - row[3] / 1000 for row in rows - kept if row[3] / 1000 <= taken]
        return len(ages), max(ages, default=0.0)

    def measure(self, rate):
        ledger, flushed, image = os.path.join(self.folder(), "ledger.sqlite"), self.folder(), self.folder()
        library = os.path.join(self.folder(), "flushed.so")
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-xc", "-", "-o", library], input=SOURCE, text=True, check=True)
        gateway = Gateway(self, "--ledger", ledger, Engine(self, "--speed", "500").url,
                          environment={"LD_PRELOAD": library, "FLUSHED_FOLDER": flushed}).ready()
        load = subprocess.Popen([PROGRAM, "load", f"http://127.0.0.1:{gateway.port}", "--rate", str(rate), "--duration", f"{LENGTH}s",
                                 "--input-tokens", "20", "--output-tokens", "2"], stdout=subprocess.DEVNULL)
        self.addCleanup(load.wait)
        self.addCleanup(load.kill)
        draw = random.Random(12)
        most_rows, longest_s, images = 0, 0.0, 0
        end = time.monotonic() + LENGTH
        while time.monotonic() < end:
            time.sleep(draw.uniform(0.2, 1.0))
            path = self.image(flushed, image)
            if path is None:
                continue
            images += 1
            rows, age_s = self.check(path, ledger)
            most_rows, longest_s = max(most_rows, rows), max(longest_s, age_s)
        load.wait(SECONDS)
        metrics = ask(gateway.admin, "GET", "/metrics")[2]
        ended = sum(float(line.split()[-1]) for line in metrics.splitlines() if line.startswith("penstock_requests_total"))
        # Without further requests everything is flushed, too.
        def lacks_nothing():
            path = self.image(flushed, image)
            return path is not None and self.check(path, ledger)[0] == 0

        until("all rows on the disk", lacks_nothing)
        gateway.signal(STOP)
        self.assertEqual(gateway.wait(), 0)
        print(f"{ended / LENGTH:.1f} requests/s: at most {most_rows} rows and {longest_s:.2f} s lost in {images} images")
        self.assertGreater(images, 3)
        self.assertGreater(ended, 0)
        with sqlite3.connect(ledger) as database:
            self.assertEqual(database.execute("select count(*) from entries where closed_unix_ms is null").fetchone(), (0,))
        database.close()
        return longest_s

    def test_what_was_written_in_the_last_second_may_be_lost_and_nothing_else(self):
        for rate in RATES:
            with self.subTest(rate=rate):
                self.assertLess(self.measure(rate), LOST_S_MAX)


if __name__ == "__main__":
    unittest.main(verbosity=2)
