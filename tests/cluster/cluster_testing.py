"""A real control plane for tests: k8s-testbed.sh starts etcd, kube-apiserver, the controllers and KWOK as processes on loopback.

run.py makes one for all files. A file that is called by itself calls run.py, so that it has one of its own."""

import base64
import calendar
import fcntl
import http.client
import json
import os
import pathlib
import ssl
import subprocess
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "live"))

RUN = "PENSTOCK_CLUSTER_RUN"
SKIPPED = 77
PORT_BASE = 17400
TESTBED = os.environ.get("PENSTOCK_TESTBED") or str(HERE.parents[2] / "shared" / "testbed")
BUSY_LOAD = 2  # Processes for each core.
CONTROLLERS = ("kube-controller-manager", "kube-scheduler", "kwok")
PROGRAMS = ("etcd", "kube-apiserver", *CONTROLLERS, "kubectl")


def script():
    return pathlib.Path(TESTBED, "k8s-testbed.sh")


def folder_of_programs():
    cache = os.environ.get("LLM_TESTBED_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "llm-testbed")
    return pathlib.Path(cache) / f"bin-{os.environ.get('LLM_TESTBED_PROFILE', '1.36')}"


def why_skipped():
    if not script().is_file():
        return f"there is no {script()}; PENSTOCK_TESTBED names the folder of the testbed"
    missing = [name for name in PROGRAMS if not (folder_of_programs() / name).is_file()]
    return f"the testbed's programs are not built: {', '.join(missing)} (k8s-testbed.sh build core)" if missing else ""


def keda_is_built():
    return all((folder_of_programs() / name).is_file() for name in ("keda-operator", "keda-adapter"))


def definition_modules():
    """The Go modules from which definitions of other projects are taken, KEDA's first: MODULE@VERSION."""
    folder = pathlib.Path(TESTBED, "modules")
    versions = dict(line.split("=", 1) for line in (folder / os.environ.get("LLM_TESTBED_PROFILE", "1.36") / "versions.env").read_text().split())
    lines = [line.split() for line in (folder / "crds.txt").read_text().splitlines() if line and line[0] != "#"]
    return [f"github.com/kedacore/keda/v2@{versions['KEDA_VERSION']}", *("@".join(words[:2]) for words in lines)]


def folder_of_module(module):
    """Its folder in the cache of Go's modules; None if it is not there."""
    done = subprocess.run(["go", "mod", "download", "-json", module], cwd="/", env={**os.environ, "GOPROXY": "off"}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=False)
    return pathlib.Path(json.loads(done.stdout)["Dir"]) if done.returncode == 0 else None


def alone(thing):
    """Marks a test method or class that harms the control plane: no other test uses it meanwhile."""
    thing.alone = True
    return thing


def quiet(thing):
    """Marks a test method or class that needs all cores: no other test runs beside it."""
    thing.quiet = True
    return thing


def long(thing):
    """Marks a test method or class that takes more than 40 s: it starts before the others."""
    thing.long = True
    return thing


class Api:
    def __init__(self, config):
        cluster, self.token = config["clusters"][0]["cluster"], config["users"][0]["user"]["token"]
        trusted = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        self.connection = http.client.HTTPSConnection(cluster["server"].removeprefix("https://"), context=trusted, timeout=60)

    def patch(self, path, body):
        self.connection.request("PATCH", path, json.dumps(body), {"Authorization": f"Bearer {self.token}",
                                                                  "Content-Type": "application/merge-patch+json"})
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read())


class Cluster:
    """The control plane that run.py has started. Other tests use it at the same time, each in namespaces of its own."""

    def __init__(self):
        self.run = os.environ[RUN]
        self.environment = os.environ
        self.kubeconfig = self.run + "/kubeconfig"

    def close(self):
        """The control plane ends with run.py."""

    def testbed(self, *words):
        done = subprocess.run([script(), *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"k8s-testbed.sh {' '.join(words)}: {done.stderr[-2000:]}")
        return done.stdout

    def kubectl(self, *words, given=None, check=True):
        """What kubectl prints. `given` is written to its input as JSON."""
        done = subprocess.run([folder_of_programs() / "kubectl", "--kubeconfig", self.kubeconfig, "--cache-dir", self.run + "/cache", *words],
                              input=json.dumps(given) if given is not None else None, text=True, stdout=subprocess.PIPE,
                              stderr=None if check else subprocess.DEVNULL, timeout=120, check=check)
        return done.stdout

    def api(self):
        """A connection to the API server, for what is too fast for kubectl."""
        return Api(json.loads(self.kubectl("config", "view", "--raw", "-o", "json")))

    def get(self, *words):
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def namespace(self, test, name):
        """A namespace that goes with the test."""
        self.kubectl("create", "namespace", name)
        test.addCleanup(self.kubectl, "delete", "namespace", name, "--wait=false", check=False)
        return name

    def crds(self):
        """The definitions of k8s-testbed.sh crds, once for all tests. Raises RuntimeError if they cannot be obtained."""
        done = pathlib.Path(self.run, "crds")
        with open(self.run + "/crds.lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                self.testbed("crds")
                done.touch()

    def take_away(self, test, component, with_signal="KILL"):
        """Harms a component of the control plane; only in tests that are @alone. The test gives it back, or its end does."""
        test.addCleanup(self.give_back, component)
        self.testbed("signal", component, with_signal)

    def give_back(self, component):
        """Continues or starts a component, and waits until the API server is ready. The controllers start anew, because they would wait
        up to a minute after a second outage. They end before the API server is back: the former ones would take the nodes for lost, because their Leases
        are old, and set pods to not Ready, which the kubelet of the testbed does not correct."""
        for controller in CONTROLLERS:
            while self.has_signalled(controller, "KILL"):
                time.sleep(0.02)
        if not self.has_signalled(component, "CONT"):
            self.testbed("again", component)
        self.wait_until_ready()
        for controller in CONTROLLERS:
            self.testbed("again", controller)

    def has_signalled(self, component, name):
        """Whether the component runs."""
        return subprocess.run([script(), "signal", component, name], stderr=subprocess.DEVNULL, timeout=60, check=False).returncode == 0

    def wait_until_ready(self):
        deadline = time.monotonic() + 120
        while subprocess.run([script(), "status"], stdout=subprocess.DEVNULL, check=False).returncode != 0:
            assert time.monotonic() < deadline, "the API server did not come back"
            time.sleep(0.1)

    def writes(self, namespace):
        """Each write of a Lease, or of a number of replicas by /scale, from the API server's audit log."""
        found = []
        with open(self.run + "/audit.log", encoding="utf-8") as log:
            for line in log:
                # The API server may still be writing the last line.
                if not line.endswith("\n"):
                    break
                entry = json.loads(line)
                if entry["objectRef"].get("namespace") != namespace or entry["stage"] != "ResponseComplete":
                    continue
                written = entry["objectRef"]
                found.append({"at": seconds_of(entry["stageTimestamp"]), "user": entry["user"]["username"].split(":")[-1],
                              "status": entry["responseStatus"]["code"], "is_lease": written["resource"] == "leases", "name": written["name"],
                              "replicas": entry.get("responseObject", {}).get("spec", {}).get("replicas")})
        return sorted(found, key=lambda write: write["at"])

    def scale_writes(self, namespace):
        return [write for write in self.writes(namespace) if not write["is_lease"]]

    def planner_writes(self, test, namespace, accounts):
        """The writes of a number of replicas by planners with these accounts; only the holder of their Lease may have written."""
        holder, writes = None, []
        for write in self.writes(namespace):
            if write["status"] >= 300 or write["user"] not in accounts:
                continue
            if write["is_lease"]:
                holder = write["user"]
            else:
                test.assertEqual(write["user"], holder)
                writes.append((write["user"], write["replicas"]))
        return writes

    def scaled_at(self, namespace, replicas, since):
        """The first time after `since` at which /scale was written with this number of replicas; None if it was not."""
        return next((write["at"] for write in self.scale_writes(namespace)
                     if write["replicas"] == replicas and write["status"] == 200 and write["at"] > since), None)

    def account(self, namespace, name, role="penstock-planner"):
        """A kubeconfig with the token of a new ServiceAccount that has the Role."""
        self.kubectl("create", "serviceaccount", name, "-n", namespace)
        self.kubectl("create", "rolebinding", name, "-n", namespace, f"--role={role}", f"--serviceaccount={namespace}:{name}")
        token = self.kubectl("create", "token", name, "-n", namespace).strip()
        config = json.loads(self.kubectl("config", "view", "--raw", "-o", "json"))
        config["users"][0]["user"] = {"token": token}
        path = f"{self.run}/kubeconfig-{namespace}-{name}"
        pathlib.Path(path).write_text(json.dumps(config), encoding="utf-8")
        return path


def limit_s(seconds):
    """For control planes that share their cores with other programs, which then have five times as long."""
    return seconds if os.getloadavg()[0] <= BUSY_LOAD * os.cpu_count() else 5 * seconds


def seconds_of(text):
    """Seconds since 1970 of a time of RFC 3339."""
    whole, _, rest = text.rstrip("Z").partition(".")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + float("0." + (rest or "0"))


def main():
    """Runs the tests of the calling file. Exit code 77: there is no testbed, or its programs are not built."""
    if RUN not in os.environ:
        path = pathlib.Path(sys.argv[0]).name
        words = [f"{path}:{word}" for word in sys.argv[1:]] or [path]
        os.execv(sys.executable, [sys.executable, "-B", str(HERE / "run.py"), *words])
    result = unittest.main(exit=False).result
    for test, cause in result.skipped:
        print(f"SKIPPED: {test.id().split('.')[-1]}: {cause}", flush=True)
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if result.skipped else 0)
