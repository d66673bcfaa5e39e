#!/usr/bin/env python3
"""Opens the pages of a report and of a load run in a real browser: report_test.py --chromium PROGRAM --sample PROGRAM

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

from chromium import Chromium

ARGUMENTS = argparse.Namespace()


class Page:
    """What a page came to: its document once its scripts ran, and what they complained of."""

    def __init__(self, path, folder, address=""):
        done = subprocess.run(
            [ARGUMENTS.chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--enable-logging=stderr", "--v=0", f"--user-data-dir={folder}/profile", "--host-resolver-rules=MAP * ~NOTFOUND",
             "--window-size=1280,2400", "--virtual-time-budget=10000", "--dump-dom", path.as_uri() + address],
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

    def chart(self, name):
        """The figure of one chart: its caption and all that was drawn."""
        return self.figure(name).split(">", 1)[1]

    def hidden(self, name):
        return re.search(r"\bhidden\b", self.figure(name).split(">", 1)[0]) is not None

    def figure(self, name):
        body = self.body()
        at = body.index(f'id="chart-{name}"')
        return body[body.rindex("<figure", 0, at):body.index("</figure>", at)]

    def rows(self, heading):
        """Rows of the table that follows a heading."""
        after = self.body().split(heading, 1)[1]
        return len(re.findall(r"<tr\b", after.split("</table>", 1)[0]))


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        subprocess.run([ARGUMENTS.sample, cls.folder.name], check=True)
        cls.pages = {name: cls.open(name) for name in ("sample", "hostile", "diagnosed", "targeted", "empty", "load", "deployments")}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def open(cls, name, address=""):
        return Page(Path(cls.folder.name, f"{name}.html"), cls.folder.name, address)

    def test_a_failing_script_is_detected(self):
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
        for heading in ("Policies, best first", 'id="decisions-title">Decisions<'):
            self.assertGreater(page.rows(heading), 2, heading)
        self.assertIn("prompt tokens", page.body())
        self.assertIn("tenant", page.body())

    def test_a_policy_that_diagnoses_shows_it_over_time_and_in_the_table(self):
        page = self.pages["diagnosed"]
        chart = page.chart("decisions")
        for name in ("diagnosis", "reason", "limited by", "phase"):
            self.assertIn(f">{name}<", chart)
        for state in ("queue", "cold start", "guardrails", "load above target"):
            self.assertIn(f">{state}<", chart, state)
        table = page.body().split('id="decision-table"', 1)[1].split("</table>", 1)[0]
        for text in (">diagnosis<", ">next phase<", "TTFT is bad in pool default"):
            self.assertIn(text, table)

    def test_forecasts_are_shown_beside_measured_values(self):
        page = self.pages["diagnosed"]
        self.assertIn("expected requests/s", page.chart("replicas"))
        self.assertIn("target of the next phase", page.chart("replicas"))
        for name in ("ttft", "itl"):
            self.assertIn("estimated", page.chart(name))
        self.assertIn("expected prompt", page.chart("lengths"))
        self.assertNotIn("expected output", page.chart("lengths"))
        self.assertIn("capacity per replica", page.chart("capacity"))

    def test_charts_without_data_are_hidden(self):
        page = self.pages["sample"]
        self.assertNotIn("expected requests/s", page.chart("replicas"))
        self.assertIn("prompt", page.chart("lengths"))
        self.assertTrue(page.hidden("capacity"))
        self.assertFalse(page.hidden("decisions"))
        self.assertNotIn(">diagnosis<", page.body())
        self.assertFalse(self.pages["diagnosed"].hidden("capacity"))

    def test_targets_are_listed_where_segments_have_their_own(self):
        table = self.pages["targeted"].body().split(">Targets by segment<", 1)[1].split("</table>", 1)[0]
        self.assertEqual(len(re.findall(r"<tr\b", table)), 1 + 3 * 4)
        for text in (">chat<", ">nightly<", ">500\u00a0ms<", ">95.0\u00a0%<"):
            self.assertIn(text, table.replace("&nbsp;", "\u00a0"), text)
        self.assertIn('<div id="targets" hidden', self.pages["sample"].body())
        self.assertNotIn('<div id="targets" hidden', self.pages["targeted"].body())

    def test_each_of_several_deployments_has_its_report(self):
        first = self.pages["deployments"]
        table = first.body().split('id="deployment-table"', 1)[1].split("</table>", 1)[0]
        policies = len(re.findall(r'<tr class="sum">', table))
        self.assertGreater(policies, 1)
        self.assertEqual(len(re.findall(r"<tr\b", table)), 1 + 3 * policies)
        for text in ("90.0\u00a0%", "limited for 1\u00a0min 30\u00a0s, 3 times", "peak of 12 of 16 GPUs"):
            self.assertIn(f">{text}<", table.replace("&nbsp;", "\u00a0"), text)
        self.assertRegex(first.body(), r'aria-current="page">chat</a>')
        address = html.unescape(re.search(r'<a href="([^"#]*)[^"]*">&lt;/script', first.body()).group(1))
        second = self.open("deployments", address)
        self.assertEqual(second.complaints, [])
        self.assertRegex(second.body(), r'aria-current="page">&lt;/script')
        self.assertNotIn("<img", second.body())
        self.assertIn('id="deployments" aria-labelledby="deployments-title" hidden', self.pages["sample"].body())

    def test_a_load_run_has_its_charts_tables_and_failures(self):
        body = self.pages["load"].body().replace("&nbsp;", "\u00a0")
        self.assertEqual(body.count("<svg"), 5)
        for text in ("Penstock load: http://127.0.0.1:1", ">200\u00a0ms<", ">missed<", "status 500", "class interactive", "&lt;img src=x"):
            self.assertIn(text, body, text)
        for text in ("<img", "undefined", "NaN"):
            self.assertNotIn(text, body)

    def test_errors_of_a_load_run_are_in_front_of_all_requests(self):
        chart = self.pages["load"].body().split("requests a second, by intended start</title>")[1].split("</svg>")[0]
        lines = re.findall(r'<(?:polyline|circle)[^>]*(?:stroke|fill)="var\(--(\w+)\)"', chart)
        self.assertEqual(list(dict.fromkeys(lines)), ["first", "soft", "bad"])

    def test_a_report_of_nothing_is_still_a_page(self):
        self.assertIn("Penstock", self.pages["empty"].body())

    def test_untrusted_text_is_escaped(self):
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


class Layout(unittest.TestCase):
    """What a reader sees at the width of a screen and of a phone."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        subprocess.run([ARGUMENTS.sample, cls.folder.name], check=True)
        cls.browser = Chromium(ARGUMENTS.chromium)
        cls.addClassCleanup(cls.browser.close)

    def show(self, name, zone="", **options):
        page = self.browser.page(**options)
        self.addCleanup(page.close)
        page.call("Emulation.setTimezoneOverride", timezoneId=zone)
        page.open(Path(self.folder.name, f"{name}.html").as_uri())
        page.wait_for("document.querySelector('.js-plotly-plot .main-svg') !== null")
        return page

    def test_no_table_is_cut_on_a_screen(self):
        for name in ("sample", "diagnosed", "targeted"):
            page = self.show(name, width=1440, height=900)
            self.assertLessEqual(page.run("document.documentElement.scrollWidth"), 1440, name)
            cut = page.run("[...document.querySelectorAll('main .scroll')].filter(e => e.offsetParent && e.scrollWidth > e.clientWidth + 1)"
                           ".map(e => e.closest('section')?.id + ': ' + (e.scrollWidth - e.clientWidth))")
            self.assertEqual(cut, [], name)

    def test_a_phone_shows_that_tables_go_on(self):
        page = self.show("sample", width=390, height=780, phone=True)
        self.assertLessEqual(page.run("document.documentElement.scrollWidth"), 390)
        wide = page.run("[...document.querySelectorAll('main .scroll')].filter(e => e.offsetParent && e.scrollWidth > e.clientWidth + 1)"
                        ".map(e => getComputedStyle(e).backgroundImage)")
        self.assertGreater(len(wide), 0)
        self.assertEqual([image for image in wide if image.count("linear-gradient") < 2], [])

    def test_the_head_of_the_segments_stays_while_one_scrolls(self):
        page = self.show("sample", width=1440, height=500)
        moved = page.run("""(() => {
            const box = document.querySelector('#segments .scroll'), head = document.querySelector('#heat thead th');
            box.style.maxHeight = '120px';
            box.scrollTop = 60;
            return [box.scrollTop, head.getBoundingClientRect().top - box.getBoundingClientRect().top];
        })()""")
        self.assertGreater(moved[0], 20)
        self.assertLess(abs(moved[1]), 2)

    def test_a_policy_has_one_colour_whatever_its_rank(self):
        page = self.show("sample", width=1440, height=900)
        colour = "(rank => { report.results.sort((a, b) => rank * (a.slo_attainment - b.slo_attainment)); " \
                 "return [...places()].map(([result, place]) => [result.policy, place]).sort().join() })"
        self.assertEqual(page.run(colour + "(1)"), page.run(colour + "(-1)"))
        self.assertIn("hpa-rate,2", page.run(colour + "(1)"))

    def test_times_count_from_the_start_of_the_run_in_every_time_zone(self):
        # Four digits would be a year.
        points = "place('tokens').calcdata[0].map(point => point.x)"
        seconds = "report.results.forEach(result => { result.series.at_s = result.series.at_s.map((_, i) => i + 1); }); drawTime();"
        for zone in ("UTC", "America/Los_Angeles", "Asia/Kolkata"):
            with self.subTest(zone):
                page = self.show("sample", width=1440, height=900, zone=zone)
                self.assertEqual(page.text("#chart-ttft .xtick text"), "0:00")
                shown = page.run(f"(() => {{ {seconds} return {points}; }})()")
                self.assertEqual(shown, [1000 * (i + 1) for i in range(len(shown))])
                self.assertEqual(page.text("#chart-ttft .xtick text"), "0:00:00")

    def test_the_page_has_what_the_table_of_the_terminal_has(self):
        page = self.show("sample", width=1440, height=900)
        text = page.run("fleet({...report.results[0], mean_asleep: 2, role_switches: 3})")
        self.assertTrue(text.endswith(", and 2.00 asleep, 3 switched"), text)
        self.assertIn(", scored from 5\u00a0min · seed", page.run("(report.workload.score_from_s = 300, runFacts())"))
        self.assertIn("TTFT 2\u00a0s, ITL 50\u00a0ms and e2e 30\u00a0s, for each request",
                      page.run("(report.options.slo.e2e_ms = 30000, renderReplayed(), byId('options').innerText)"))
        self.assertEqual(page.run("mostTokensFirst([{prompt_tokens: 1, output_tokens: 1}, {prompt_tokens: 2, output_tokens: 9}])[0].prompt_tokens"), 2)

    def test_axes_have_only_values_that_there_can_be(self):
        page = self.show("sample", width=1440, height=900)
        self.assertEqual(page.run("countAxis([{y: [0, 1, null]}])"), {"dtick": 1, "tickformat": "d"})
        self.assertEqual(page.run("countAxis([{y: [0, 100]}])"), {"tickformat": "~s"})
        page.run("(report.results.forEach(result => { result.slo_attainment = 1; }), report.frontier.length = 0, drawTrade())")
        ticks = page.run("[...document.querySelectorAll('#chart-trade .ytick text')].map(tick => parseFloat(tick.textContent))")
        self.assertEqual(max(ticks), 100)
        self.assertEqual(page.run("(report.results.forEach(result => { result.slo_attainment = null; }), tradePoints().policies.length)"), 0)

    def test_one_reversal_is_one(self):
        page = self.show("sample", width=1440, height=900)
        notes = page.run("[1, 2].map(changes => metrics({...report.results[0], direction_changes: changes}).find(row => row[0] === 'Decisions')[2])")
        self.assertEqual(notes, ["1 reversal of direction", "2 reversals of direction"])

    def test_the_axis_of_the_trade_off_shows_good_policies_apart(self):
        page = self.show("sample", width=1440, height=900)
        low, high = page.run("document.getElementById('chart-trade').layout.yaxis.range")
        self.assertGreaterEqual(low, 70)
        self.assertLessEqual(high, 105)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chromium", required=True)
    parser.add_argument("--sample", required=True)
    parser.parse_args(namespace=ARGUMENTS)
    unittest.main(argv=sys.argv[:1], verbosity=2)
