#!/usr/bin/env python3
"""An observing planner in front of two overloaded engines of which it knows their /metrics only."""

import unittest

from live_testing import Engine
from overload import RATE, Overload, evidence, replicas_needed

SLOTS, OUTPUT = 2, 64
STEP_TIMES = "linear:20,0.1,0.05,0.00005"  # The planner is not told: it must learn 20 ms a token.
LARGEST = 10
ITL_MS = 20.3  # with two sequences


class OverloadTest(unittest.TestCase):
    def test_the_target_is_the_fleet_that_runs_at_several_sizes_show_to_be_needed(self):
        needed, runs = replicas_needed(STEP_TIMES, 100, OUTPUT, SLOTS, (2, LARGEST))
        self.assertLess(runs[2], 0.1)  # Two engines are far too few.
        engines = [Engine(self, "--engine", STEP_TIMES, "--max-sequences", str(SLOTS), name=name) for name in "ab"]
        scene = Overload(self, [{"url": engine.url} for engine in engines], "penstock-sim")
        scene.start_load(RATE, OUTPUT)
        grown, after_s = scene.first("a large enough target", lambda decision: decision["target"] >= needed)
        print(f"{needed} replicas are needed; target {grown['target']} after {after_s:.0f} s of load")
        self.assertEqual(grown["cause"], "queue")
        # The default engine needs 9 ms a token. Each estimate is the mean of what was measured so far.
        calibrated, _ = scene.first("the ITL of the engines", lambda decision: abs((evidence(decision, "estimated_itl") or 0) - ITL_MS)
                                    <= 0.1 * ITL_MS and evidence(decision, "load_based_target") is not None)
        print(f"ITL {evidence(calibrated, 'estimated_itl'):.1f} ms learned, {scene.metric('dynamo_planner_observed_itl_ms'):.1f} ms "
              f"measured; {evidence(calibrated, 'load_based_target'):.0f} replicas are planned")
        self.assertIsNone(evidence(calibrated, "uncalibrated_default_engine"))
        self.assertLessEqual(evidence(calibrated, "load_based_target"), needed + 3)  # Room for bursts, and no more.
        self.assertEqual([each["target"] for each in scene.decisions() if each["target"] < each["current"]], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
