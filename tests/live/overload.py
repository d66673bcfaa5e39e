"""More requests than the engines behind a gateway serve, and what an observing planner decides meanwhile."""

import json
import os
import subprocess
import tempfile
import time

from live_testing import PROGRAM, SECONDS, Gateway, ask, config_file, until
from planner_testing import Planner

RATE = 8           # Requests per second.
ENOUGH = 0.99      # SLO attainment of a fleet that is large enough.
PERIOD = "600s"    # of the simulated runs that show which fleet is large enough
DECISION_S = 120   # that decisions are waited for; the machine may be busy
SLO = {"ttft": "2s", "itl": "500ms"}


def evidence(decision, name):
    found = [each["value"] for each in decision["evidence"] if each["name"] == name]
    return found[0] if found else None


def replicas_needed(engine, input_tokens, output_tokens, slots, sizes):
    """The smallest of several static fleets of engines with these step times that keeps the SLO."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "runs.json")
        subprocess.run([PROGRAM, "replay",
                        f"synthetic:rate={RATE},duration={PERIOD},input={input_tokens},output={output_tokens}",
                        "--policy", "static", "--frontier", "{}..{}".format(*sizes), "--engine", engine, "--max-sequences", str(slots),
                        "--slo", "ttft={ttft},itl={itl}".format(**SLO), "--json", path],
                       check=True, stdout=subprocess.DEVNULL, timeout=10 * SECONDS)
        with open(path) as file:
            runs = {run["replicas"]: run["slo_attainment"] for run in json.load(file)["frontier"]}
    return min(size for size, attainment in runs.items() if attainment >= ENOUGH), runs


class Overload:
    """Gateway and planner of `replicas`, and load generators that are ended with the test."""

    def __init__(self, test, replicas, model, **gateway):
        self.test, self.model, self.began_s, self.load = test, model, 0.0, None
        config = config_file(test, model=model, slo=SLO, start_up="0s",
                             pools=[{"name": "chat", "replicas": len(replicas), "min_replicas": 1, "max_replicas": 40}],
                             gateway={"replicas": replicas, "anonymous": True, **gateway})
        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        self.log = os.path.join(folder.name, "decisions.jsonl")
        self.gateway = Gateway(test, "--config", config).ready()
        until("all replicas", lambda: sum(each["eligible"] for each in self.gateway.overview()["replicas"]) == len(replicas))
        self.planner = Planner(test, "--config", config, "--gateway", f"127.0.0.1:{self.gateway.admin}", "--mode", "observe",
                               "--state-dir", folder.name, "--decision-log", self.log)
        until("telemetry of all replicas", lambda: len(self.samples()) == len(replicas))

    def start_load(self, rate, output_tokens):
        """Replaces the load of before."""
        self.stop_load()
        self.began_s = self.planner.state()["now_s"]
        self.load = subprocess.Popen(
            [PROGRAM, "load", f"http://127.0.0.1:{self.gateway.port}", "--model", self.model, "--rate", str(rate), "--duration",
             "1h", "--input-tokens", "100", "--output-tokens", str(output_tokens)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.test.addCleanup(self.stop_load)

    def stop_load(self):
        if self.load is not None:
            self.load.kill()
            self.load.wait(SECONDS)
        self.load = None

    def samples(self):
        return [each["sample"] for each in self.planner.pool()["replicas"] if each["sample"]]

    def decisions(self):
        """Those since the load began."""
        with open(self.log) as file:
            # The last line may be incomplete.
            lines = [line for line in file if line.endswith("\n")]
        return [each for each in map(json.loads, lines) if each["at_s"] >= self.began_s]

    def first(self, what, condition, seconds=DECISION_S):
        """The first decision with a property, and after which time of load it was made."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for decision in self.decisions():
                if condition(decision):
                    return decision, decision["at_s"] - self.began_s
            time.sleep(0.5)
        raise AssertionError(f"{what}: not among {[(each['current'], each['target'], each['reason'], each['cause']) for each in self.decisions()]}")

    def metric(self, name):
        """The sum of a family of the planner's metrics; none: it has no series."""
        values = [float(line.rsplit(" ", 1)[1]) for line in self.planner.metrics().splitlines()
                  if line.startswith((name + "{", name + " "))]
        return sum(values) if values else None

    def prompt_tokens(self):
        usage = json.loads(ask(self.gateway.admin, "GET", "/penstock/v1/overview")[2])["usage"]
        completed = sum(row["completed"] for row in usage)
        return sum(row["prompt_tokens"] for row in usage) / completed if completed else None
