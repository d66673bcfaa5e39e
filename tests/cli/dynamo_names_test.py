#!/usr/bin/env python3
"""Names of the planner of NVIDIA Dynamo lead to a message with the name here: keys, flags and the environment variable."""

import os
import re
import signal
import subprocess
from pathlib import Path

import cli_testing
from cli_testing import PROGRAM, CliTest

ROOT = Path(__file__).resolve().parents[2]
# The name and a value there, what the message says of the key, and the flag here. An empty place: there is no such flag or key.
NAMES = [
    ("optimization_target", "throughput", "write planner.target", "--target"),
    ("adjustment_interval", "180", "write planner.throughput_interval", "--throughput-interval"),
    ("min_endpoint", "1", "write planner.minimum_endpoints", "--minimum-endpoints"),
    ("loadbased_scaling_down_sensitivity", "80", "write planner.sensitivity", "--sensitivity"),
    ("report_interval_hours", "24.0", "write report_interval", "--report-interval"),
    ("report_output_dir", "./planner_reports", "report_dir", "--report-dir"),
    ("live_dashboard_port", "8080", "use the flag --dashboard of `penstock plan`; 0 disables the page", "--dashboard"),
]
# Names of version 1.6.1 that have no flag, a value, and what the message says.
NAMES_OF_1_6_1 = [
    ("throughput_adjustment_interval_seconds", "180", "write planner.throughput_interval, as 180s"),
    ("load_adjustment_interval_seconds", "5", "write planner.load_interval, as 20s"),
    ("enable_throughput_scaling", "false", "planner.throughput_interval: 0s disables the loop"),
    ("enable_load_scaling", "true", "planner.load_interval: 0s disables the loop"),
    ("load_scaling_down_sensitivity", "80", "write planner.sensitivity"),
    ("ttft_ms", "500.0", "write slo.ttft, as 500ms"),
    ("itl_ms", "50.0", "write slo.itl, as 50ms"),
    ("load_predictor", "arima", "write planner.predictor"),
    ("load_predictor_warmup_trace", "trace.jsonl", "write planner.warm_trace"),
    ("advisory", "true", "planner.phase: observe applies nothing"),
    ("metric_pulling_prometheus_endpoint", "http://127.0.0.1:9090", "write prometheus.url"),
]


class DynamoNames(CliTest):
    def test_each_key_of_a_file_is_answered_with_the_key_here(self):
        for name, value, says in [row[:3] for row in NAMES] + NAMES_OF_1_6_1:
            for text in (f"{name}: {value}\n", f"planner:\n  {name}: {value}\n"):
                with self.subTest(text=text):
                    self.write("penstock.yaml", text)
                    for command in (("check", "penstock.yaml"), ("plan", "--config", "penstock.yaml")):
                        message = self.run_program(*command, code=2).stderr
                        self.assertRegex(message, rf"penstock\.yaml:\d:\d: (planner\.)?{name}: (was renamed|unknown key); .*{re.escape(says)}")

    def test_each_flag_of_the_planner_is_answered_with_the_flag_here(self):
        for name, value, _, flag in NAMES:
            theirs = "--" + name.replace("_", "-")
            with self.subTest(flag=theirs):
                self.assert_refused("plan", theirs, value, says=f"{theirs}: was renamed; write {flag}\n")

    def ready_line(self, *words, environment):
        """The first line of a planner whose gateway does not answer."""
        process = subprocess.Popen([PROGRAM, "plan", "--gateway", "127.0.0.1:9", "--state-dir", self.folder / "state", *words], cwd=self.folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **environment})
        try:
            return process.stdout.readline()
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)

    def test_the_variable_with_the_port_of_the_metrics_is_not_ignored_silently(self):
        off = ("--dashboard", "0", "--metrics-listen", "0")
        for words, port, says in ((off, "9085", "no live page; PLANNER_PROMETHEUS_PORT is not read: use --metrics-listen :9085\n"),
                                  (off, "0", "; PLANNER_PROMETHEUS_PORT is not read: use --metrics-listen 0\n"),
                                  (off, "metrics", "; PLANNER_PROMETHEUS_PORT is not read: use --metrics-listen ADDRESS\n"),
                                  (("--dashboard", "127.0.0.1:0"), "9085", "; PLANNER_PROMETHEUS_PORT is not read: /metrics has the address of the "
                                                                           "live page, --dashboard\n")):
            with self.subTest(words=words, port=port):
                line = self.ready_line(*words, environment={"PLANNER_PROMETHEUS_PORT": port})
                self.assertTrue(line.startswith("planner ready, ") and line.endswith(says), line)
        self.assertNotIn("PROMETHEUS", self.ready_line(*off, environment={"PLANNER_PROMETHEUS_PORT": ""}))

    def test_the_page_lists_each_name(self):
        page = (ROOT / "docs/planner.md").read_text()
        for name, _, _, flag in NAMES:
            row, = re.findall(rf"(?m)^\| `{name}`.*$", page)
            self.assertIn(f"`--{name.replace('_', '-')}`", row)
            self.assertIn(f"`{flag}`", row)
        for name, _, _ in NAMES_OF_1_6_1:
            self.assertRegex(page, rf"(?m)^\|.*`{name}`.*\| file \|")
        self.assertRegex(page, r"(?m)^\| `PLANNER_PROMETHEUS_PORT` \| environment \|.*`--metrics-listen`")


if __name__ == "__main__":
    cli_testing.main()
