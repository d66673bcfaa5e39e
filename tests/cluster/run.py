#!/usr/bin/env python3
"""Runs the tests of this folder with real Kubernetes control planes, which are made for the run and thrown away: `make test-cluster`.

    run.py [FILE_test.py[:Class[.test]] ...]      all files *_test.py by default

Each control plane has a network namespace of its own, so that ports and addresses of pods never clash. Needs no root. Each test method is a
process. Several run at a time on one control plane; those marked with @alone (they harm the control plane) run one after another on a second
one meanwhile, and those marked with @quiet (they need the cores) after both. Tests that failed run once more, one at a time, on a new one:
those that pass then are named, and count as passed.

PENSTOCK_CLUSTER    auto (default): run if the programs of the testbed are there; yes: build them if not; no: skip
PENSTOCK_TESTBED    the folder with k8s-testbed.sh; by default ../shared/testbed beside the checkout
PENSTOCK_CLUSTER_JOBS, PENSTOCK_CLUSTER_SECONDS   tests at a time on the first control plane (3), and the limit of the run (1500)

Exit code 77: there is no testbed."""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import dynamo_planner
import prometheus_adapter
from cluster_testing import PORT_BASE, RUN, SKIPPED, TESTBED, definition_modules, keda_is_built, script, why_skipped
from real_clients import prometheus_folder, python_with
from scaler_client import GRPC

HERE = pathlib.Path(__file__).resolve().parent
# Set for the process of one control plane: the file of its results.
INSIDE = "PENSTOCK_CLUSTER_RESULTS"
# All of these addresses are local in the namespace, so that each pod has an address of its own: first those of KWOK.
PODS = ("10.244.0.0/16", "10.245.0.0/16")
TEST_SECONDS = 400
FRAME = re.compile(r"\.?|-{70}|Ran 1 test in .*|OK.*")  # What unittest prints for each test.
# Every write of a number of replicas and of a Lease is recorded with its sender.
AUDIT = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  namespaces: [kube-node-lease, kube-system]
- level: RequestResponse
  verbs: [create, patch, update]
  resources:
  - {group: apps, resources: [deployments/scale, statefulsets/scale]}
  - {group: coordination.k8s.io, resources: [leases]}
- level: None
"""


class ControlPlane:
    """etcd, API server, controllers, scheduler, KWOK and a kubelet whose containers are processes."""

    def __init__(self, with_keda):
        self.run = tempfile.mkdtemp(prefix="penstock-cluster-")
        self.environment = {**os.environ, RUN: self.run, "LLM_TESTBED_RUN": self.run, "LLM_TESTBED_PORT_BASE": str(PORT_BASE)}
        self.environment["LLM_TESTBED_APISERVER_ARGS"] = " ".join(
            (os.environ.get("LLM_TESTBED_APISERVER_ARGS", ""), f"--audit-policy-file={self.run}/audit.yaml",
             f"--audit-log-path={self.run}/audit.log"))
        pathlib.Path(self.run, "audit.yaml").write_text(AUDIT, encoding="utf-8")
        self.kubelet = None
        try:
            self.start(with_keda)
        except BaseException:
            self.stop()
            raise

    def start(self, with_keda):
        done = subprocess.run([script(), "start", *(["--keda"] if with_keda else [])], env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"k8s-testbed.sh start: {done.stderr[-3000:]}")
        exported = subprocess.run([script(), "env"], env=self.environment, text=True, stdout=subprocess.PIPE, check=True).stdout
        with open(self.run + "/kubelet.jsonl", "w", encoding="utf-8") as log:
            self.kubelet = subprocess.Popen(
                ["bash", "-c", f'{exported}\nexec "$@"', "bash", sys.executable, "-B", os.path.join(TESTBED, "process-kubelet.py"),
                 "--cidr", "10.245.0.0/17", "--logs", self.run + "/pods"], env=self.environment, stdout=log, stderr=subprocess.STDOUT)

    def stop(self):
        if self.kubelet:
            self.kubelet.terminate()
            self.kubelet.wait(timeout=60)
        subprocess.run([script(), "stop"], env=self.environment, stderr=subprocess.DEVNULL, timeout=120, check=False)
        shutil.rmtree(self.run, ignore_errors=True)


class Scenario:
    def __init__(self, path, test):
        self.path, self.name = path, ".".join(test.id().split(".")[-2:])
        self.alone, self.quiet, self.long = (is_marked(test, mark) for mark in ("alone", "quiet", "long"))
        self.seconds_max = getattr(sys.modules[path.stem], "TEST_SECONDS", TEST_SECONDS)
        self.outcome, self.cause, self.seconds, self.output = "not run", "", 0.0, ""

    def go(self, environment, deadline):
        began = time.monotonic()
        log = tempfile.TemporaryFile("w+", errors="replace")
        process = subprocess.Popen([sys.executable, "-B", str(self.path), self.name], env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            code = process.wait(max(1.0, min(self.seconds_max, deadline - began)))
            self.outcome = {0: "passed", SKIPPED: "skipped"}.get(code, "FAILED")
        except subprocess.TimeoutExpired:
            # SIGINT lets the test end its programs.
            process.send_signal(signal.SIGINT)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            self.outcome, self.cause = "FAILED", "it did not end in time"
        self.seconds = time.monotonic() - began
        log.seek(0)
        self.output = log.read()
        log.close()
        if self.outcome == "skipped":
            self.cause = "; ".join(line.removeprefix("SKIPPED: ") for line in self.output.splitlines() if line.startswith("SKIPPED: "))


    def word(self):
        return f"{self.path.name}:{self.name}"


def is_marked(test, mark):
    return getattr(type(test), mark, False) or getattr(getattr(test, test._testMethodName), mark, False)


def scenarios_of(words):
    """Each test method of the files, in the order of their names."""
    found, with_keda = [], False
    for word in words or sorted(path.name for path in HERE.glob("*_test.py")):
        name, _, selected = word.partition(":")
        path = HERE / pathlib.Path(name).name
        # By its path: files of tests/live have the same names, and some tests put that folder first.
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        with_keda = with_keda or getattr(module, "WITH_KEDA", False)
        loader = unittest.defaultTestLoader
        suites = [loader.loadTestsFromName(selected, module)] if selected else [loader.loadTestsFromModule(module)]
        while suites:
            item = suites.pop(0)
            if isinstance(item, unittest.TestSuite):
                suites[:0] = item
            elif isinstance(item, unittest.loader._FailedTest):
                sys.exit(f"{word}: {item._exception}")
            else:
                found.append(Scenario(path, item))
    return found, with_keda


def run_all(scenarios, environment, jobs, deadline):
    lock = threading.Lock()

    def work(waiting):
        while True:
            with lock:
                if not waiting or time.monotonic() > deadline:
                    return
                scenario = waiting.pop(0)
            scenario.go(environment, deadline)
            with lock:
                for line in scenario.output.splitlines():
                    if scenario.outcome == "FAILED" or not FRAME.fullmatch(line):
                        print(f"    {line}")
                print(f"{scenario.outcome:<8}{scenario.seconds:6.1f} s  {scenario.path.name}:{scenario.name}  {scenario.cause}", flush=True)

    # The long ones first, so that no core waits for the last of them.
    waiting = sorted(scenarios, key=lambda each: not each.long)
    workers = [threading.Thread(target=work, args=(waiting,)) for _ in range(jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def summarise(scenarios, unsteady, seconds):
    def of(outcome):
        return [each for each in scenarios if each.outcome == outcome]

    print(f"\ncluster: {len(scenarios)} tests in {seconds:.0f} s, of which the start of the control planes is a part")
    for each in sorted(scenarios, key=lambda each: -each.seconds):
        print(f"  {each.seconds:6.1f} s  {each.outcome:<8}{each.word()}")
    for each in of("FAILED") + of("not run") + of("skipped"):
        print(f"cluster: {each.outcome}: {each.word()}: {each.cause or 'see above'}")
    for each in unsteady:
        print(f"cluster: failed beside other tests, passed alone: {each.word()}")
    print(f"cluster: {len(of('passed'))} passed, {len(of('FAILED')) + len(of('not run'))} failed, {len(of('skipped'))} skipped", flush=True)
    return 1 if of("FAILED") or of("not run") else 0


def ended(*_):
    raise KeyboardInterrupt


class Part:
    """A process with a network namespace and a control plane, which runs some of the tests."""

    def __init__(self, scenarios, jobs, deadline):
        self.scenarios, self.process = scenarios, None
        if not scenarios:
            return
        self.results = tempfile.NamedTemporaryFile("r", suffix=".json")
        environment = {**os.environ, INSIDE: self.results.name, "PENSTOCK_CLUSTER_JOBS": str(jobs),
                       "PENSTOCK_CLUSTER_SECONDS": str(max(1.0, deadline - time.monotonic()))}
        inside = "ip link set lo up && " + "".join(f"ip route add local {each} dev lo && " for each in PODS) + 'exec "$@"'
        self.process = subprocess.Popen(["unshare", "--user", "--map-root-user", "--net", "bash", "-c", inside, "bash", sys.executable, "-B",
                                         os.path.abspath(__file__), *(each.word() for each in scenarios)], env=environment)

    def wait(self):
        if not self.process:
            return
        self.process.wait()
        results = json.loads(self.results.read() or "{}")
        self.results.close()
        for each in self.scenarios:
            each.outcome, each.cause, each.seconds = results.get(each.word(), ("not run", "its control plane did not start or end", 0.0))

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait()


def run_part(scenarios, with_keda, results):
    """What the process of a Part does."""
    signal.signal(signal.SIGTERM, ended)
    began = time.monotonic()
    plane = ControlPlane(with_keda and keda_is_built())
    try:
        print(f"cluster: {len(scenarios)} tests; the control plane is ready after {time.monotonic() - began:.1f} s", flush=True)
        run_all(scenarios, plane.environment, int(os.environ["PENSTOCK_CLUSTER_JOBS"]), began + float(os.environ["PENSTOCK_CLUSTER_SECONDS"]))
    finally:
        plane.stop()
        with open(results, "w", encoding="utf-8") as file:
            json.dump({each.word(): (each.outcome, each.cause, each.seconds) for each in scenarios}, file)


def run_parts(scenarios, jobs, deadline):
    """Returns the tests that failed first and passed then."""
    def done(*parts):
        try:
            for part in parts:
                part.wait()
        finally:
            for part in parts:
                part.stop()

    at_ease = [each for each in scenarios if not each.quiet]
    done(Part([each for each in at_ease if not each.alone], jobs, deadline), Part([each for each in at_ease if each.alone], 1, deadline))
    done(Part([each for each in scenarios if each.quiet], 1, deadline))
    failed = [each for each in scenarios if each.outcome == "FAILED"]
    if failed and len(scenarios) > 1:
        print(f"cluster: once more, one at a time: {' '.join(each.word() for each in failed)}", flush=True)
        done(Part(failed, 1, deadline))
    return [each for each in failed if each.outcome == "passed"]


def install_clients():
    """There is neither a package index nor a module proxy inside."""
    done = subprocess.run(["go", "mod", "download", *definition_modules()], cwd="/", stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        print(f"SKIPPED: tests with definitions of others: {done.stderr.strip().splitlines()[-1:]}", flush=True)
    if cause := dynamo_planner.install():
        print(f"SKIPPED: the comparison with Dynamo's planner: {cause}", flush=True)
    if cause := prometheus_adapter.install():
        print(f"SKIPPED: the HPA on token rates: {cause}", flush=True)
    try:
        prometheus_folder()
    except SystemExit as error:
        print(f"SKIPPED: autoscalers on token rates: {error}", flush=True)
    try:
        python_with(GRPC)
    except SystemExit as error:
        print(f"SKIPPED: the comparison of two planners by KEDA's client: {error}", flush=True)


def main(words):
    if INSIDE in os.environ:
        return run_part(*scenarios_of(words), os.environ[INSIDE])
    mode = os.environ.get("PENSTOCK_CLUSTER", "auto")
    if mode not in ("auto", "yes", "no"):
        sys.exit(f"PENSTOCK_CLUSTER: must be auto, yes or no, is {mode}")
    cause = "PENSTOCK_CLUSTER is no" if mode == "no" else why_skipped()
    if mode == "yes" and cause and script().is_file():
        subprocess.run([script(), "build", "core"], check=True, stdout=sys.stderr)
        cause = why_skipped()
    if cause:
        print(f"SKIPPED: no test with a real API server ran: {cause}")
        return 1 if mode == "yes" else SKIPPED
    if mode == "yes":
        install_clients()
    scenarios, _ = scenarios_of(words)
    signal.signal(signal.SIGTERM, ended)
    began = time.monotonic()
    unsteady = run_parts(scenarios, int(os.environ.get("PENSTOCK_CLUSTER_JOBS", "3")),
                         began + float(os.environ.get("PENSTOCK_CLUSTER_SECONDS", "1500")))
    return summarise(scenarios, unsteady, time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
