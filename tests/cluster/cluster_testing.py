"""A real control plane for tests: k8s-testbed.sh starts etcd, kube-apiserver, the controllers and KWOK as processes on loopback.

PENSTOCK_TESTBED names its folder."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

SKIPPED = 77
TESTBED = os.environ.get("PENSTOCK_TESTBED", "")
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kubectl")


def folder_of_programs():
    cache = os.environ.get("LLM_TESTBED_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "llm-testbed")
    return pathlib.Path(cache) / f"bin-{os.environ.get('LLM_TESTBED_PROFILE', '1.36')}"


def why_skipped():
    if not TESTBED or not (pathlib.Path(TESTBED) / "k8s-testbed.sh").is_file():
        return "PENSTOCK_TESTBED names no folder with k8s-testbed.sh"
    missing = [name for name in PROGRAMS if not (folder_of_programs() / name).is_file()]
    return f"the testbed's programs are not built: {', '.join(missing)} (k8s-testbed.sh build core)" if missing else ""


class Cluster:
    """One control plane in a folder of its own, away from the default ports."""

    def __init__(self):
        self.run = tempfile.mkdtemp(prefix="penstock-cluster-")
        self.environment = {**os.environ, "LLM_TESTBED_RUN": self.run, "LLM_TESTBED_PORT_BASE": "17400"}
        try:
            self.kubeconfig = self.testbed("start").strip()
        except BaseException:
            self.close()
            raise

    def testbed(self, *words):
        done = subprocess.run([os.path.join(TESTBED, "k8s-testbed.sh"), *words], env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"k8s-testbed.sh {' '.join(words)}: {done.stderr[-2000:]}")
        return done.stdout

    def kubectl(self, *words, given=None):
        return subprocess.run([folder_of_programs() / "kubectl", "--kubeconfig", self.kubeconfig, "--cache-dir", self.run + "/cache", *words],
                              input=json.dumps(given) if given is not None else None, text=True, stdout=subprocess.PIPE, timeout=120,
                              check=True).stdout

    def get(self, *words):
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def wait_until_ready(self):
        deadline = time.monotonic() + 120
        while subprocess.run([os.path.join(TESTBED, "k8s-testbed.sh"), "status"], env=self.environment, stdout=subprocess.DEVNULL,
                             check=False).returncode != 0:
            assert time.monotonic() < deadline, "the API server did not come back"
            time.sleep(0.1)

    def close(self):
        subprocess.run([os.path.join(TESTBED, "k8s-testbed.sh"), "stop"], env=self.environment, stderr=subprocess.DEVNULL, timeout=120,
                       check=False)
        shutil.rmtree(self.run, ignore_errors=True)


def main():
    """Exit code 77: there is no testbed, or its programs are not built."""
    cause = why_skipped()
    if cause:
        print(f"SKIPPED: no test with a real API server ran: {cause}")
        sys.exit(SKIPPED)
    unittest.main()
