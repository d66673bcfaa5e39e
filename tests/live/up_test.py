#!/usr/bin/env python3
"""`penstock up`: everything starts, works together, and ends with nothing left."""

import glob
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "browser"))

from chromium import Chromium  # noqa: E402
from live_testing import KILL, PROGRAM, SECONDS, Stream, ask, complete, until  # noqa: E402
from planner_testing import Home, Up, rows_of  # noqa: E402

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "examples"
LOAD = ("--peak", "20", "--trough", "10", "--period", "20s")


class UpTest(unittest.TestCase):
    def make_home(self):
        home = Home(self)
        with open(home.config, "a") as file:
            file.write("tenants:\n  - {name: shop, keys: [sk-shop]}\n  - {name: search, keys: [sk-search]}\n"
                       "  - {name: nightly, keys: [sk-nightly], class: batch}\n  - {name: demo, keys: [sk-demo]}\n")
        return home

    def up(self, home, *words):
        return Up(self, home, "--config", home.config, *words)

    def assert_ended(self, up, home):
        self.assertEqual(up.wait(), 0, up.log())
        output = up.process.stdout.read()
        self.assertRegex(output, r"up: planner ended\nup: gateway ended\n"
                                 r"  requests .*\n  GPU-hours +[0-9.e-]+, GPU cost [0-9.e-]+ USD.*\n"
                                 r"up: logs, ledger, decisions and an HTML report of this run: " + home.folder + r"\n\Z")
        self.assert_report(home)
        # The end is no decision.
        self.assertEqual([row for row in rows_of(home.path("decisions.sqlite"), "select current, target from decisions")
                          if 0 in row], [])
        self.assertEqual(home.engines(), {})
        for port in (up.port, up.admin, up.page):
            with socket.socket() as mine:
                mine.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                mine.bind(("127.0.0.1", port))

    def assert_report(self, home):
        (report,) = glob.glob(home.path("penstock-*.html"))
        program = shutil.which("chromium")
        if not program:
            return
        browser = Chromium(program)
        try:
            page = browser.page()
            page.open("file://" + report)
            page.wait_for("document.querySelectorAll('#charts canvas').length > 5")
            self.assertEqual(page.complaints(), [])
            self.assertRegex(page.text("#connection-word"), r"^\d{4}-\d\d-\d\d \d\d:\d\d to \d{4}-")
            self.assertEqual(page.text("#mode"), "active")
            self.assertEqual([url for url in page.requested() if not url.startswith(("file:", "data:"))], [])
        finally:
            browser.close()

    def test_all_parts_work_together_and_end(self):
        home = self.make_home()
        up = self.up(home, *LOAD)
        for port in (up.port, up.admin, up.page):
            self.assertIn(f"127.0.0.1:{port}", up.announced)
        status, _, body = complete(up.port, 8, Authorization="Bearer sk-demo")
        self.assertEqual((status, json.loads(body)["usage"]["completion_tokens"]), (200, 8))
        until("requests of all tenants", lambda: min((up.completed().get(each, 0) for each in (
            "shop", "search", "nightly", "demo"))) > 0)

        until("a planner that judges them", lambda: up.state()["slo"]["judged"] > 0)
        self.assertEqual([each["name"] for each in up.state()["pools"]], ["chat"])
        self.assertEqual(ask(up.page, "GET", "/")[0], 200)
        up.signal(signal.SIGINT)
        self.assert_ended(up, home)

    def test_the_load_has_the_keys_of_the_configuration(self):
        home = Home(self)
        with open(home.config, "a") as file:
            file.write("tenants:\n  - {name: team-a, keys: [sk-a]}\n  - {name: team-b, keys: [sk-b]}\n")
        up = self.up(home, *LOAD)
        self.assertIn("key sk-a)", up.announced)
        until("requests of both tenants", lambda: min((up.completed().get(each, 0) for each in ("team-a", "team-b"))) > 0)
        up.signal(signal.SIGINT)
        self.assert_ended(up, home)

    def test_streams_complete_before_the_end(self):
        home = self.make_home()
        up = self.up(home, "--no-load")
        stream = Stream(up.port, 200, Authorization="Bearer sk-demo")
        until("a stream that flows", lambda: stream.tokens() > 2)
        up.signal(signal.SIGTERM)
        self.assertTrue(stream.join().whole(200), stream.fault)
        self.assert_ended(up, home)

    def test_it_ends_after_the_given_duration(self):
        home = self.make_home()
        self.assert_ended(self.up(home, "--no-load", "--duration", "3s"), home)

    def test_it_ends_with_the_figures_of_each_deployment(self):
        home = Home(self)
        up = Up(self, home, "--config", str(EXAMPLES / "deployments.yaml"), *LOAD)
        until("requests of both that are judged", lambda: all(
            json.loads(ask(up.page, "GET", f"/api/state?deployment={name}")[2])["slo"]["judged"] > 0 for name in ("chat", "mail")))
        up.signal(signal.SIGINT)
        self.assertEqual(up.wait(), 0, up.log())
        output = up.process.stdout.read()
        self.assertEqual(output.count("up: load ended"), 2)
        figures = r" +requests: [\d,]+ judged by the SLO, attainment [\d.]+ %; GPU-hours: [\de.-]+, GPU cost [\de.-]+ USD\n"
        self.assertRegex(output, f"up: gateway ended\n  chat{figures}  mail{figures}  all{figures}up: logs")

    def test_runs_are_kept_in_folders_that_others_cannot_read(self):
        home = self.make_home()
        places = Up.places(home)
        places = places[:places.index("--state-dir")]
        for run in ("1", "2"):
            done = subprocess.run([PROGRAM, "up", *places, "--config", home.config, "--no-load", "--duration", "3s"],
                                  env={**os.environ, "XDG_STATE_HOME": home.path("state")}, capture_output=True,
                                  text=True, timeout=SECONDS)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(home.path(f"state/penstock/up/{run}"), done.stdout)
        runs = home.path("state/penstock/up")
        self.assertEqual(sorted(os.listdir(runs)), ["1", "2"])
        self.assertEqual(os.stat(runs).st_mode & 0o777, 0o700)
        self.assertTrue(os.path.exists(runs + "/1/admin-token"))

    def test_a_second_run_in_the_same_folder_writes_nothing_there(self):
        home = Home(self)
        config, token = home.path("penstock.yaml"), home.path("admin-token")
        os.remove(home.config)
        up = Up(self, home, "--no-load")

        def contents():
            with open(config) as file, open(token) as other:
                return file.read(), other.read()

        before = contents()
        done = subprocess.run([PROGRAM, "up", "--state-dir", home.folder, "--max-replicas", "9"], capture_output=True,
                              text=True, timeout=SECONDS)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("is used by another `penstock up` or planner", done.stderr)
        self.assertEqual(contents(), before)
        up.signal(signal.SIGINT)
        self.assertEqual(up.wait(), 0, up.log())

    def test_a_part_that_dies_ends_it_all(self):
        home = self.make_home()
        up = self.up(home, "--no-load")
        children = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(up.process.pid)], capture_output=True,
                                  text=True, check=True).stdout.splitlines()
        gateway = next(int(line.split()[0]) for line in children if " gateway " in line)
        os.kill(gateway, KILL)
        self.assertEqual(up.wait(), 1)
        self.assertIn("the gateway ended by itself", up.log())
        until("the end of all engines", lambda: not home.engines())

    def refused(self, home, *words):
        done = subprocess.run([PROGRAM, "up", *Up.places(home), "--config", home.config, *words], capture_output=True,
                              text=True, timeout=SECONDS)
        self.assertEqual(done.stdout, "", "nothing has started")
        self.assertFalse(os.path.exists(home.path("gateway.log")))
        self.assertEqual(home.engines(), {})
        return done.returncode, done.stderr

    def test_an_address_in_use_is_named_before_anything_starts(self):
        home = self.make_home()
        for flag, port in zip(("--listen", "--admin-listen", "--dashboard"), home.own_ports):
            with socket.socket() as taken:
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                taken.bind(("127.0.0.1", port))
                taken.listen()
                code, message = self.refused(home)
            self.assertEqual(code, 1)
            self.assertIn(f"penstock: {flag} 127.0.0.1:{port}: port {port} is taken", message)
        code, message = self.refused(home, "--dashboard", f"127.0.0.1:{home.own_ports[0]}")
        self.assertEqual(code, 1)
        self.assertIn(f"penstock: --dashboard 127.0.0.1:{home.own_ports[0]}: port", message)

    def test_an_invalid_address_is_refused_before_anything_starts(self):
        home = self.make_home()
        for flag in ("--listen", "--admin-listen", "--dashboard"):
            self.assertEqual(self.refused(home, flag, "here"),
                             (2, f"penstock: {flag}: must be address:port, is 'here'; as 127.0.0.1:8000, or :8000 for all addresses\n"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
