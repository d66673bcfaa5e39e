#!/usr/bin/env python3
"""What a power loss can take from the ledger, measured on a gateway under load.

SQLite with `synchronous = normal` flushes the log (-wal) to the disk only when it moves its pages into the database. The worst
case is a system that has written nothing on its own since then: only the database file is left. The test takes this file at
random moments and counts the rows that it lacks. It prints the most rows and the longest time, and the rate at which the log
grows, from which follows the figure for other rates: POWER_LOSS_SECONDS=300 POWER_LOSS_RATES=5,50,400 power_loss_test.py
"""

import os
import random
import shutil
import sqlite3
import subprocess
import tempfile
import time
import unittest

from live_testing import PROGRAM, SECONDS, STOP, Engine, Gateway, ask

LENGTH = float(os.environ.get("POWER_LOSS_SECONDS", "30"))
RATES = [float(rate) for rate in os.environ.get("POWER_LOSS_RATES", "200").split(",")]
PAGE = 4096
CHECKPOINT_PAGES = 4000  # As in LedgerStore.


def stamp(path):
    seen = os.stat(path)
    return seen.st_mtime_ns, seen.st_size


class PowerLossTest(unittest.TestCase):
    def image(self, ledger, folder):
        """The database without its log; none: a checkpoint was in progress, after which the flushed log has the pages."""
        before = stamp(ledger)
        path = os.path.join(folder, "image.sqlite")
        shutil.copyfile(ledger, path)
        return path if stamp(ledger) == before and before[1] > 0 else None

    def check(self, path, ledger):
        """The rows that the image lacks, and the age of the oldest of them in seconds."""
        with sqlite3.connect(path) as database:
            self.assertEqual(database.execute("pragma integrity_check").fetchone(), ("ok",))
            has_rows = database.execute("select count(*) from sqlite_master where name = 'entries'").fetchone()[0] == 1
            closed = "select id, request_id, output_tokens from entries where closed_unix_ms is not null"
            kept = set(database.execute(closed).fetchall()) if has_rows else set()
        database.close()
        with sqlite3.connect(f"file:{ledger}?mode=ro", uri=True) as database:
            all_rows = set(database.execute(closed).fetchall())
            self.assertLessEqual(kept, all_rows, "a row of the image is not in the ledger")
            lost = all_rows - kept
            oldest = database.execute("select min(closed_unix_ms) from entries where id >= ?",
                                      (min((row[0] for row in lost), default=2**62),)).fetchone()[0]
        database.close()
        return len(lost), time.time() - oldest / 1000 if lost and oldest else 0.0

    def measure(self, rate):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        ledger = os.path.join(folder.name, "ledger.sqlite")
        gateway = Gateway(self, "--ledger", ledger, Engine(self, "--speed", "500").url).ready()
        load = subprocess.Popen([PROGRAM, "load", f"http://127.0.0.1:{gateway.port}", "--rate", str(rate), "--duration", f"{LENGTH}s",
                                 "--input-tokens", "20", "--output-tokens", "2"], stdout=subprocess.DEVNULL)
        self.addCleanup(load.wait)
        self.addCleanup(load.kill)
        draw = random.Random(12)
        most_rows, longest_s, log_bytes, images = 0, 0.0, 0, 0
        end = time.monotonic() + LENGTH
        while time.monotonic() < end:
            time.sleep(draw.uniform(0.2, 1.0))
            if os.path.exists(ledger + "-wal"):
                log_bytes = max(log_bytes, os.path.getsize(ledger + "-wal"))
            path = self.image(ledger, folder.name)
            if path is None:
                continue
            images += 1
            rows, age_s = self.check(path, ledger)
            most_rows, longest_s = max(most_rows, rows), max(longest_s, age_s)
        load.wait(SECONDS)
        metrics = ask(gateway.admin, "GET", "/metrics")[2]
        ended = sum(float(line.split()[-1]) for line in metrics.splitlines() if line.startswith("penstock_requests_total"))
        gateway.signal(STOP)
        self.assertEqual(gateway.wait(), 0)
        pages_per_s = log_bytes / PAGE / LENGTH
        print(f"{ended / LENGTH:.1f} requests/s: at most {most_rows} rows and {longest_s:.1f} s lost in {images} images; the log grew "
              f"to {log_bytes / PAGE:.0f} pages in {LENGTH:.0f} s"
              + (f", a checkpoint every {CHECKPOINT_PAGES / pages_per_s:.0f} s" if log_bytes < CHECKPOINT_PAGES * PAGE else ""))
        self.assertGreater(images, 3)
        self.assertGreater(ended, 0)
        # A clean end moves everything into the database.
        with sqlite3.connect(ledger) as database:
            self.assertEqual(database.execute("select count(*) from entries where closed_unix_ms is null").fetchone(), (0,))
        database.close()
        return most_rows

    def test_what_was_written_since_the_last_checkpoint_may_be_lost_and_nothing_else(self):
        for rate in RATES:
            with self.subTest(rate=rate):
                # Each row takes at least 40 bytes of the log, so that a checkpoint bounds the number of rows.
                self.assertLess(self.measure(rate), CHECKPOINT_PAGES * PAGE / 40)


if __name__ == "__main__":
    unittest.main(verbosity=2)
