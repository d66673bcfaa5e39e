#!/usr/bin/env python3
"""Figures of the live page that were wrong or missing once, in a real browser: live_figures_test.py --chromium PROGRAM"""

import argparse
import sys
import unittest

import live_samples
import live_test
from live_test import DASH, LiveTest, later


class Figures(LiveTest):
    def test_gpu_costs_of_tokens_are_listed_by_tenant_and_within_the_slo(self):
        page = self.show()
        rows = page.run("[...document.querySelectorAll('#token-costs tbody tr')].map(row => [...row.cells].map(c => c.innerText.trim()))")
        self.assertEqual(rows, [["shop", "30.0M", "3.75M", "90.0\u00a0%", "6.41", "0.064", "1.20", "0.071", "1.33"],
                                ["research", "10.0M", "1.25M", "50.0\u00a0%", "2.14", "0.064", "1.20", "0.13", "2.39"],
                                ["all", "40.0M", "5.00M", "90.0\u00a0%", "8.55", "0.064", "1.20", "0.071", "1.33"]])
        self.assertEqual(page.text("#token-cost-hint"), "USD, last 40\u00a0min")
        state = later(self.server.state)
        state["gpu_cost"]["all"].update(gpu_cost=None, gpu_usd_per_1m_tokens={})
        self.server.tell(state)
        page.wait_for("document.getElementById('token-cost-hint').textContent.includes('unknown, because')")
        self.assertEqual(page.text("#tile-token-cost b"), f"{DASH} · {DASH}")
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chromium", required=True)
    rest = parser.parse_known_args(namespace=live_test.ARGUMENTS)[1]
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
