#!/usr/bin/env python3
"""Figures of the live page in a real browser: live_figures_test.py --chromium PROGRAM"""

import argparse
import json
import sys
import unittest

import live_samples
import live_test
from live_test import DASH, LiveTest, later


class Figures(LiveTest):
    def test_gpu_costs_of_tokens_are_listed_by_tenant_and_within_the_slo(self):
        page = self.show()
        rows = page.run("[...document.querySelectorAll('#token-costs tbody tr')].map(row => [...row.cells].map(c => c.innerText.trim()))")
        self.assertEqual(rows, [["shop", "penstock-sim", "30.0M", "3.75M", "90.0\u00a0%", "6.41", "0.064", "1.20", "0.071", "1.33"],
                                ["research", "penstock-sim", "10.0M", "1.25M", "50.0\u00a0%", "2.14", "0.064", "1.20", "0.13", "2.39"],
                                ["all", DASH, "40.0M", "5.00M", "90.0\u00a0%", "8.55", "0.064", "1.20", "0.071", "1.33"]])
        self.assertEqual(page.text("#token-cost-hint"), "USD, last 40\u00a0min")
        state = later(self.server.state)
        state["gpu_cost"]["all"].update(gpu_cost=None, gpu_usd_per_1m_tokens={})
        self.server.tell(state)
        page.wait_for("document.getElementById('token-cost-hint').textContent.includes('unknown, because')")
        self.assertEqual(page.text("#tile-token-cost b"), f"{DASH} · {DASH}")
        self.assert_clean(page)

    def test_deferred_requests_have_a_tile_and_their_totals(self):
        page = self.show()
        self.assertTrue(page.run("document.getElementById('tile-deferred').hidden && [...document.querySelectorAll('.deferral')].every(row => row.hidden)"))
        state = later(self.server.state)
        state["gateway"]["deferred"] = {"requests": 12, "tokens": 14000, "next_due_s": 185.2, "deferred_total": 100,
                                        "sent_spare_total": 70, "sent_due_total": 15, "missed_total": 0}
        self.server.tell(state)
        page.wait_for("!document.getElementById('tile-deferred').hidden")
        self.assertIn("12 batch requests", page.text("#tile-deferred"))
        self.assertIn("next due in 3\u00a0min 5\u00a0s · 0 missed", page.text("#tile-deferred .note"))
        output = page.run("Object.fromEntries([...document.querySelectorAll('.deferral')].map(row => [row.querySelector('dt').innerText, row.querySelector('dd').innerText]))")
        self.assertEqual(output, {"deferred": "12", "next due in": "3\u00a0min 5\u00a0s", "sent to spare capacity": "70",
                                  "sent when due": "15", "deadlines missed": "0"})
        state = later(state)
        state["gateway"]["deferred"].update(requests=0, next_due_s=None, missed_total=2)
        self.server.tell(state)
        page.wait_for("document.getElementById('gateway-missed').dataset.tone === 'over'")
        self.assertEqual(page.text("#tile-deferred .note"), "2 missed")
        self.assertEqual(page.text("#gateway-next-due"), DASH)
        self.assert_clean(page)

    def test_several_gateways_are_counted_and_one_alone_is_not(self):
        page = self.show()
        self.assertTrue(page.run("document.getElementById('gateway-several').hidden"))
        state = later(self.server.state)
        state["gateways"] = [{"address": f"10.0.0.{number}:8081", "up": True} for number in (1, 2, 3)]
        self.server.tell(state)
        page.wait_for("!document.getElementById('gateway-several').hidden")
        self.assertEqual(page.text("#gateway-count"), "3")
        state = later(state)
        state["gateways"][1]["up"] = False
        self.server.tell(state)
        page.wait_for("document.getElementById('gateway-count').dataset.tone === 'over'")
        self.assertEqual(page.text("#gateway-count"), "2 of 3")
        self.assert_clean(page)

    def test_a_replica_that_changes_its_role_says_where_it_goes(self):
        page = self.show("disaggregated")
        state = later(self.server.state)
        state["pools"][0]["replicas"][0].update(stage="draining", state="draining", switch_to="decode")
        state["pools"][1]["replicas"][0].update(stage="switching", state="starting")
        state["pools"][1].update(switching=1, role_switches=3)
        self.server.tell(state)
        page.wait_for("document.querySelector('#replicas tbody').textContent.includes('draining → decode')")
        stages = page.run("[...document.querySelectorAll('#replicas tbody tr')].map(row => row.cells[2]).filter(cell => !cell.innerText.includes('serving')).map(cell => [cell.innerText.trim(), cell.dataset.tone ?? null])")
        self.assertEqual(stages, [["draining → decode", None], ["switching", "near"]])
        self.assertIn("1 to switch", page.text("#tile-replicas .note"))
        self.assert_clean(page)

    def test_a_phase_that_is_only_recorded_says_so(self):
        page = self.show()
        self.server.tell(later(self.server.state, mode="observe"))
        page.wait_for("document.getElementById('mode').textContent === 'observe-only'")
        self.assertEqual(page.text("#phase"), "cost (recorded only)")

    def test_every_time_axis_has_several_labels_and_none_twice(self):
        # Narrow charts are as wide as those of a phone.
        for width, minutes in ((1440, 7), (1440, 15), (360, 3), (360, 7), (360, 60)):
            page = self.show(width=width)
            self.server.push("points", [live_samples.point(2402 - 60 * minutes + 2 * index) for index in range(30 * minutes)])
            page.wait_for(f"live.points.length === {30 * minutes}")
            for key in "1234":
                page.press(key)
                page.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
                labels = page.run("charts.map(chart => chart.plot.axes[0]._values.filter(text => text))")
                with self.subTest(width=width, minutes=minutes, key=key):
                    self.assertEqual([each for each in labels if len(each) < 2 or len(set(each)) < len(each)], [])

    def show_report(self, days):
        """The page as `/report` serves it, of a planner that has run for `days`."""
        page = self.show()
        page.press("1")
        state, points = live_samples.ordinary()
        history = [live_samples.point(state["now_s"] - 60 * minute) for minute in range(round(1440 * days), 0, -1)]
        report = json.dumps({"unix_s": 1_764_000_000, "state": state, "history": history, "points": points})
        self.server.page = self.server.page.replace("</body>", f'<script type="application/json" id="report">{report}</script></body>')
        page.open(self.server.url)
        page.wait_for("document.title === 'Penstock report' && charts.length && charts[0].data[0].length > 0")
        return page

    def test_a_report_shows_all_days_since_the_last_one(self):
        for days, hours in ((0.5, 12), (0.9, 21.6), (3, 72), (7, 168)):
            with self.subTest(days=days):
                page = self.show_report(days)
                self.assertAlmostEqual(page.run("(charts[0].span[1] - charts[0].span[0]) / 3600"), hours, 1)
                self.assertEqual(page.run("document.querySelector('[data-minutes=\"10080\"]').hidden"), days < 1)
                labels = page.run("charts[0].plot.axes[0]._values.filter(text => text)")
                self.assertGreater(len(set(labels)), 1)
                self.assertEqual(len(labels), len(set(labels)))
                self.assertEqual(page.run("localStorage.getItem('penstock-window')"), "5", "the choice for the live page")
                self.assert_clean(page)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chromium", required=True)
    rest = parser.parse_known_args(namespace=live_test.ARGUMENTS)[1]
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
