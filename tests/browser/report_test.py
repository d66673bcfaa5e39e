#!/usr/bin/env python3
"""Opens the report's page in a real browser: report_test.py --chromium PROGRAM --sample PROGRAM

No script may fail, no text from outside may become markup, nothing may be fetched, and what is to be seen must be there.
"""

import argparse
import html
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ARGUMENTS = argparse.Namespace()


class Page:
    """What a page came to: its document once its scripts ran, and what they complained of."""

    def __init__(self, path, folder):
        done = subprocess.run(
            [ARGUMENTS.chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--enable-logging=stderr", "--v=0", f"--user-data-dir={folder}/profile", "--host-resolver-rules=MAP * ~NOTFOUND",
             "--window-size=1280,2400", "--virtual-time-budget=10000", "--dump-dom", path.as_uri()],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=100, check=True)
        self.document = done.stdout.decode("utf-8", "replace")
        log = done.stderr.decode("utf-8", "replace")
        self.complaints = [line for line in log.splitlines() if "CONSOLE" in line]

    def body(self):
        """The document without scripts and styles."""
        return re.sub(r"<(script|style)\b.*?</\1>", "", self.document, flags=re.S)

    def charts(self):
        return len(re.findall(r'class="[^"]*\bjs-plotly-plot\b', self.document))

    def drawn(self):
        return self.document.count('<svg class="main-svg"')

    def rows(self, heading):
        """Rows of the table that follows a heading."""
        after = self.body().split(heading, 1)[1]
        return len(re.findall(r"<tr\b", after.split("</table>", 1)[0]))


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        subprocess.run([ARGUMENTS.sample, cls.folder.name], check=True)
        cls.pages = {name: cls.open(name) for name in ("sample", "hostile", "empty")}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def open(cls, name):
        return Page(Path(cls.folder.name, f"{name}.html"), cls.folder.name)

    def test_the_harness_sees_a_script_that_fails(self):
        path = Path(self.folder.name, "broken.html")
        path.write_text("<!doctype html><title>broken</title><script>missing_function()</script>")
        self.assertIn("missing_function is not defined", " ".join(self.open("broken").complaints))

    def test_no_script_complains(self):
        for name, page in self.pages.items():
            with self.subTest(name):
                self.assertEqual(page.complaints, [])

    def test_every_chart_is_drawn(self):
        page = self.pages["sample"]
        self.assertGreaterEqual(page.charts(), 8)
        self.assertGreaterEqual(page.drawn(), page.charts())

    def test_policies_decisions_and_segments_are_listed(self):
        page = self.pages["sample"]
        for heading in ("Policies, best first", ">Decisions<"):
            self.assertGreater(page.rows(heading), 2, heading)
        self.assertIn("prompt tokens", page.body())
        self.assertIn("tenant", page.body())

    def test_a_report_of_nothing_is_still_a_page(self):
        self.assertIn("Penstock", self.pages["empty"].body())

    def test_text_from_outside_stays_text(self):
        page = self.pages["hostile"]
        self.assertNotIn("<img", page.body())
        self.assertNotIn("<b>&amp;lt;", page.body())
        self.assertIn("<img src=x onerror=alert(1)>", html.unescape(page.body()))

    def test_nothing_is_fetched(self):
        for name, page in self.pages.items():
            with self.subTest(name):
                fetched = re.findall(r'<(?:script|img|link|iframe|object|embed)\b[^>]*\b(?:src|href)="([^"]*)"', page.document)
                self.assertEqual([url for url in fetched if not url.startswith("data:")], [])
                self.assertIn("Content-Security-Policy", page.document)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chromium", required=True)
    parser.add_argument("--sample", required=True)
    parser.parse_args(namespace=ARGUMENTS)
    unittest.main(argv=sys.argv[:1], verbosity=2)
