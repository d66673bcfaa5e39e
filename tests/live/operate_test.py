#!/usr/bin/env python3
"""What an operator does to a gateway that serves: reload, rotate keys and certificates, drain, restart, take over."""

import base64
import glob
import gzip
import http.client
import json
import os
import shutil
import signal
import socket
import sqlite3
import ssl
import stat
import subprocess
import tempfile
import threading
import time
import unittest

from live_testing import KILL, PROGRAM, SECONDS, STOP, Engine, Gateway, Program, Stream, ask, chat, complete, until
from planner_testing import Home, Planner, until_serving

SLOW = ("--engine", "linear:20,0,0.001,0")  # 20 ms a token
FAST = ("--speed", "50")


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


class Load:
    """Clients that send one request after the other until the end: half of them streams, over kept connections."""

    def __init__(self, port, clients=8, tokens=8, **fields):
        self.port, self.tokens, self.fields = port, tokens, fields
        self.good, self.failures, self.lock = 0, [], threading.Lock()
        self.ending = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(clients)]
        for thread in self.threads:
            thread.start()

    def _run(self, number):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        headers = {name.replace("_", "-"): value for name, value in self.fields.items()}
        body = json.dumps(chat(self.tokens, f"client {number}", stream=number % 2 == 0))
        while not self.ending.is_set():
            fault = None
            try:
                connection.request("POST", "/v1/chat/completions", body=body, headers=headers)
                answer = connection.getresponse()
                text = answer.read().decode()
                whole = text.endswith("data: [DONE]\n\n") if number % 2 == 0 else '"usage"' in text
                if answer.status != 200 or not whole:
                    fault = (answer.status, text[-300:])
            except (http.client.HTTPException, OSError, ValueError) as error:
                fault = repr(error)
                connection.close()
            with self.lock:
                self.good += fault is None
                if fault is not None:
                    self.failures.append(fault)
        connection.close()

    def end(self):
        self.ending.set()
        for thread in self.threads:
            thread.join(SECONDS)
        return self


class OperateTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        """As an editor does: the file is whole at every moment."""
        with open(self.path(name) + ".new", "w") as file:
            file.write(text)
        os.rename(self.path(name) + ".new", self.path(name))
        return self.path(name)

    def certificate(self, name, days=1):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", self.path("key.new"), "-out", self.path("certificate.new"), "-days", str(days),
                        "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
                       check=True, capture_output=True)
        os.rename(self.path("key.new"), self.path("key.pem"))
        os.rename(self.path("certificate.new"), self.path("certificate.pem"))

    def lines(self, gateway, event):
        return [line for line in gateway.log().splitlines() if f" {event} " in line]

    def reload(self, gateway, event="config_reloaded"):
        """Waits for the end of one more reload than there were."""
        before = len(self.lines(gateway, event))
        gateway.signal(signal.SIGHUP)
        until("the reload", lambda: len(self.lines(gateway, event)) > before)

    def metric(self, gateway, sample):
        text = ask(gateway.admin, "GET", "/metrics")[2]
        return float(next(line.split()[-1] for line in text.splitlines() if line.startswith(sample)))

    # ---- reload ------------------------------------------------------------------------------------------------------

    def config(self, **changed):
        values = {"level": "info", "url": "", "threads": 1, "key": "sk-old", "concurrent": 4, "more": "", "watch": "false",
                  "queue_time": "10s", "price": 1, "ttft": "2s", **changed}
        return ("log: {{level: {level}}}\n"
                "gateway: {{replicas: [{{url: \"{url}\"}}], threads: {threads}, watch: {watch}}}\n"
                "classes: {{interactive: {{queue_time: {queue_time}}}}}\n"
                "slo: {{ttft: {ttft}}}\n"
                "models: [{{name: penstock-sim, output_price: {price}}}]\n"
                "tenants: [{{name: shop, keys: [{key}], concurrent: {concurrent}}}{more}]\n").format(**values)

    def test_a_reload_applies_what_may_change_and_names_what_needs_a_restart(self):
        engine, other = Engine(self, *FAST), Engine(self, *FAST, name="other")

        def write(**changed):
            return self.write("p.yaml", self.config(**{"url": engine.url, **changed}))

        def status(key):
            return complete(gateway.port, **bearer(key))[0]

        gateway = Gateway(self, "--config", write()).ready()
        self.assertEqual(status("sk-old"), 200)
        write(key="sk-new", url=other.url, concurrent=8, threads=2, level="debug", queue_time="5s", price=3, ttft="1s")
        self.reload(gateway, "restart_needed")
        self.assertIn("keys=gateway.threads", self.lines(gateway, "restart_needed")[0])
        changes = "\n".join(self.lines(gateway, "config_changed"))
        for change in ("key=log.level from=info to=debug", f"from={engine.url} to={other.url}",
                       "key=classes.interactive.queue_time from=10s to=5s", "key=models[0].output_price from=1 to=3",
                       "key=slo.ttft from=2s to=1s", "key=tenants[0].keys from=*** to=***",
                       "key=tenants[0].concurrent from=4 to=8"):
            self.assertIn(change, changes)
        self.assertNotIn("sk-new", gateway.log())
        until("the new key", lambda: status("sk-new") == 200)
        self.assertEqual(status("sk-old"), 401)
        until("the other replica",
              lambda: [replica["url"] for replica in gateway.overview()["replicas"]] == [other.url])
        until("lines of level debug", lambda: status("sk-new") == 200 and self.lines(gateway, "request_phase"))
        # Tenants are added, renamed and removed.
        write(key="sk-new", url=other.url, more=", {name: search, keys: [sk-search]}")
        self.reload(gateway)
        until("the new tenant", lambda: status("sk-search") == 200)
        self.assertIn("key=tenants from=shop to=shop,search", gateway.log())
        write(key="sk-new", url=other.url, more=", {name: find, keys: [sk-find]}")
        self.reload(gateway)
        until("the renamed tenant", lambda: status("sk-find") == 200)
        self.assertEqual((status("sk-new"), status("sk-search")), (200, 401))
        names = [tenant["name"] for tenant in gateway.overview()["tenants"]]
        self.assertEqual(sorted(names), ["anonymous", "find", "shop"])
        gateway.signal(STOP)
        self.assertEqual(gateway.wait(), 0)

    def test_an_invalid_configuration_changes_nothing(self):
        engine = Engine(self, *FAST)
        path = self.write("p.yaml", self.config(url=engine.url))
        gateway = Gateway(self, "--config", path).ready()
        bad = {"tenants[0].concurrent: ": {"concurrent": -1},
               "tenants[1]: the name 'shop' is used twice": {"more": ", {name: shop, keys: [sk-other]}"},
               "tenants[1].keys[0]: an API key is given twice: to tenant other, and to tenant shop as tenants[0].keys[0]": {"more": ", {name: other, keys: [sk-new]}"},
               "cannot be opened": {"more": ", {name: other, key_files: [/nowhere/key]}"},
               "it has a query": {"url": "http://nowhere.invalid:1/?x=1"}}
        for number, (message, values) in enumerate(bad.items(), 1):
            self.write("p.yaml", self.config(**{"url": engine.url, "key": "sk-new", **values}))
            self.reload(gateway, "config_reload_failed")
            line = self.lines(gateway, "config_reload_failed")[-1]
            self.assertIn(message, line)
            self.assertEqual(complete(gateway.port, **bearer("sk-old"))[0], 200, message)
            self.assertEqual(complete(gateway.port, **bearer("sk-new"))[0], 401, message)
            self.assertEqual(self.metric(gateway, 'penstock_config_reloads_total{result="rejected"}'), number)
        # The line and the column are named: the sixth line of the file is that of the tenants.
        self.assertIn(f"{path}:6:", self.lines(gateway, "config_reload_failed")[0])
        self.assertEqual(self.metric(gateway, 'penstock_config_reloads_total{result="applied"}'), 0)
        self.assertEqual(self.metric(gateway, 'penstock_config_last_reload_timestamp_seconds{result="applied"}'), 0)
        self.write("p.yaml", self.config(url=engine.url, key="sk-new"))
        self.reload(gateway)
        until("the new key", lambda: complete(gateway.port, **bearer("sk-new"))[0] == 200)
        self.assertGreater(self.metric(gateway, 'penstock_config_last_reload_timestamp_seconds{result="applied"}'),
                           time.time() - 600)

    def test_changed_files_are_read_without_a_signal(self):
        engine = Engine(self, *FAST)
        key = self.write("key", "sk-first\n")
        # As Kubernetes mounts a ConfigMap: the file is a link through a link that is exchanged.
        for version, concurrent in (("v1", 4), ("v2", 9)):
            os.mkdir(self.path(version))
            more = f", {{name: file, key_files: [{key}]}}"
            self.write(f"{version}/p.yaml", self.config(url=engine.url, watch="true", concurrent=concurrent, more=more))
        os.symlink("v1", self.path("..data"))
        os.symlink("..data/p.yaml", self.path("p.yaml"))
        gateway = Gateway(self, "--config", self.path("p.yaml")).ready()
        self.assertEqual(complete(gateway.port, **bearer("sk-first"))[0], 200)
        self.write("key", "sk-second\n")
        until("the new key", lambda: complete(gateway.port, **bearer("sk-second"))[0] == 200)
        self.assertEqual(complete(gateway.port, **bearer("sk-first"))[0], 401)
        os.symlink("v2", self.path("..new"))
        os.rename(self.path("..new"), self.path("..data"))
        until("the new configuration", lambda: "key=tenants[0].concurrent from=4 to=9" in gateway.log())
        time.sleep(1)
        self.assertEqual(len(self.lines(gateway, "config_reloaded")), 2, gateway.log())

    def test_new_connections_use_a_new_certificate(self):
        self.certificate("first")
        engine = Engine(self, *FAST)
        gateway = Gateway(self, "--tls-certificate", self.path("certificate.pem"), "--tls-key", self.path("key.pem"),
                          engine.url).ready()

        def served():
            pem = ssl.get_server_certificate(("127.0.0.1", gateway.port))
            return subprocess.run(["openssl", "x509", "-noout", "-subject"], input=pem, capture_output=True, text=True,
                                  check=True).stdout

        def trusting():
            context = ssl.create_default_context(cafile=self.path("certificate.pem"))
            return http.client.HTTPSConnection("localhost", gateway.port, timeout=SECONDS, context=context)

        self.assertIn("first", served())
        kept = trusting()
        kept.request("GET", "/v1/models")
        self.assertEqual(kept.getresponse().read()[:1], b"{")
        self.certificate("second")
        until("the new certificate", lambda: "second" in served())
        kept.request("GET", "/v1/models")
        self.assertEqual(kept.getresponse().read()[:1], b"{", "a connection that is open stays open")
        kept.close()
        # A key that does not belong to the certificate changes nothing.
        self.write("key.pem", "no key\n")
        until("the failure", lambda: self.lines(gateway, "config_reload_failed"))
        self.assertIn("key.pem", self.lines(gateway, "config_reload_failed")[0])
        self.assertIn("second", served())

    def test_twenty_reloads_under_load_fail_no_request(self):
        engines = [Engine(self, *SLOW, "--speed", "4", name=f"e{i}") for i in range(3)]

        def write(number):
            more = f", {{name: extra{number % 3}, keys: [sk-extra{number}]}}" if number % 2 else ""
            text = self.config(url=engines[number % 2].url, key=f"sk-keep, sk-{number}", concurrent=100 + number,
                               price=number + 1, more=more, ttft=f"{number + 1}s")
            text = text.replace("replicas: [", f"replicas: [{{url: \"{engines[2].url}\"}}, ")
            return self.write("p.yaml", text)

        gateway = Gateway(self, "--threads", "2", "--config", write(0)).ready()
        load = Load(gateway.port, **bearer("sk-keep"))
        long = [Stream(gateway.port, 600, f"long {i}", **bearer("sk-keep")) for i in range(4)]
        for number in range(1, 21):
            write(number)
            self.reload(gateway)
            until("requests under this configuration", lambda: load.failures or load.good > 5 * number)
        load.end()
        self.assertEqual(load.failures, [])
        for stream in long:
            self.assertTrue(stream.join().whole(600), stream.text[-200:])
        self.assertEqual(self.metric(gateway, 'penstock_config_reloads_total{result="applied"}'), 20)

    # ---- drain -------------------------------------------------------------------------------------------------------

    def test_a_drain_first_reports_not_ready_and_still_accepts(self):
        engine = Engine(self, *SLOW)
        gateway = Gateway(self, "--drain-delay", "3s", engine.url).ready()
        stream = Stream(gateway.port, 300)
        until("the first token", lambda: stream.tokens() > 0)
        gateway.signal(STOP)
        until("the drain", lambda: self.lines(gateway, "drain"))
        self.assertEqual(ask(gateway.admin, "GET", "/ready")[0], 503)
        self.assertEqual(ask(gateway.admin, "GET", "/health")[0], 200)
        self.assertEqual(self.metric(gateway, "penstock_draining"), 1)
        status, fields, body = complete(gateway.port)
        self.assertEqual((status, fields["Connection"]), (200, "close"), body)
        self.assertTrue(stream.join().whole(300), stream.text[-200:])
        self.assertEqual(gateway.wait(), 0)
        with self.assertRaises(OSError):
            socket.create_connection(("127.0.0.1", gateway.port), timeout=SECONDS)

    def test_the_drain_time_ends_open_requests_and_settles_them(self):
        engine = Engine(self, *SLOW)
        ledger = self.path("ledger.sqlite")
        gateway = Gateway(self, "--ledger", ledger, "--drain-time", "2s", "--drain-delay", "0s", engine.url).ready()
        stream = Stream(gateway.port, 20_000)
        until("the first token", lambda: stream.tokens() > 0)
        start = time.monotonic()
        gateway.signal(STOP)
        self.assertEqual(gateway.wait(), 0)
        took = time.monotonic() - start
        self.assertGreater(took, 1.5)
        self.assertLess(took, 20)
        stream.join()
        self.assertFalse(stream.text.endswith("data: [DONE]\n\n"), "an answer that is not whole says so")
        self.assertTrue(self.lines(gateway, "drain_timeout"))
        with sqlite3.connect(ledger) as database:
            rows = database.execute("select outcome, output_tokens from entries").fetchall()
        self.assertEqual(len(rows), 1)
        self.assertEqual(rows[0][0], "timed_out")
        self.assertGreaterEqual(rows[0][1], stream.tokens())

    def test_a_second_signal_ends_the_gateway_at_once(self):
        engine = Engine(self, *SLOW)
        gateway = Gateway(self, "--drain-time", "10m", engine.url).ready()
        stream = Stream(gateway.port, 20_000)
        until("the first token", lambda: stream.tokens() > 0)
        gateway.signal(STOP)
        until("the drain", lambda: self.lines(gateway, "drain"))
        gateway.signal(STOP)
        self.assertEqual(gateway.wait(), 0)
        stream.join()

    # ---- the admin address and the live page ---------------------------------------------------------------------------

    def test_the_admin_address_and_the_live_page_know_their_names_and_need_a_token(self):
        engine = Engine(self, *FAST)
        token = self.write("token", "first-token\n")
        gateway = Gateway(self, "--admin-token-file", token, "--admin-hosts", "gateway.internal", engine.url).ready()
        planner = Planner(self, "--gateway", f"127.0.0.1:{gateway.admin}", "--gateway-token-file", token,
                          "--dashboard-token-file", token)
        paths = [(gateway.admin, path) for path in ("/metrics", "/penstock/v1/overview", "/penstock/v1/traffic",
                                                    "/penstock/v1/prefixes")]
        paths += [(planner.port, path) for path in ("/", "/api/state", "/api/points", "/metrics", "/events")]
        for port, path in paths:
            self.assertEqual(ask(port, "HEAD", path, Host="evil.example", **bearer("first-token"))[0], 421, path)
            self.assertEqual(ask(port, "HEAD", path)[0], 401, path)
            self.assertEqual(ask(port, "HEAD", path, **bearer("no-token"))[0], 401, path)
            self.assertEqual(ask(port, "HEAD", path, **bearer("first-token"))[0], 200, path)
        self.assertEqual(ask(gateway.admin, "GET", "/metrics", Host="gateway.internal", **bearer("first-token"))[0], 200)
        basic = {"Authorization": "Basic " + base64.b64encode(b"operator:first-token").decode()}
        self.assertEqual(ask(planner.port, "GET", "/api/state", **basic)[0], 200)
        for port, path in ((gateway.admin, "/health"), (gateway.admin, "/ready"), (planner.port, "/health")):
            self.assertEqual(ask(port, "GET", path, Host="10.1.2.3:80")[0], 200, path)
        until("the planner's view of the gateway", lambda: "gateway_reachable" in planner.log())
        self.write("token", "second-token\n")
        until("the new token", lambda: ask(gateway.admin, "GET", "/metrics", **bearer("second-token"))[0] == 200)
        self.assertEqual(ask(gateway.admin, "GET", "/metrics", **bearer("first-token"))[0], 401)
        self.assertNotIn("first-token", gateway.log() + planner.log())

    def test_a_renamed_access_log_is_opened_again_at_sighup(self):
        path, renamed = self.path("access.log"), self.path("access.log.1")
        gateway = Gateway(self, "--access-log", path, Engine(self, *FAST).url).ready()
        until("a line", lambda: complete(gateway.port)[0] == 200 and os.path.getsize(path) > 0)
        os.rename(path, renamed)
        gateway.signal(signal.SIGHUP)
        until("the new file", lambda: os.path.exists(path))
        until("a line", lambda: complete(gateway.port)[0] == 200 and os.path.getsize(path) > 0)

    def test_without_authentication_no_prompt_is_shown_and_exposure_is_a_warning(self):
        engine = Engine(self, *FAST)
        gateway = Gateway(self, engine.url).ready()
        self.assertEqual(ask(gateway.admin, "GET", "/penstock/v1/prefixes")[0], 403)
        self.assertEqual(ask(gateway.admin, "GET", "/penstock/v1/overview")[0], 200)
        self.assertEqual(ask(gateway.admin, "GET", "/penstock/v1/overview", Host="evil.example")[0], 421)
        self.assertFalse(self.lines(gateway, "exposed"))
        everywhere = Program(self, "gateway", "--listen", "127.0.0.1:0", "--admin-listen", "0.0.0.0:0", engine.url,
                             ready=r"metrics on http://0\.0\.0\.0:(\d+)")
        until("the warning", lambda: " exposed " in everywhere.log())
        self.assertEqual(ask(everywhere.ports[0], "GET", "/metrics", Host="10.1.2.3:8081")[0], 200)
        self.assertEqual(ask(everywhere.ports[0], "GET", "/metrics", Host="evil.example")[0], 421)

    def test_the_admin_address_serves_tls_and_takes_client_certificates(self):
        self.certificate("admin")
        engine = Engine(self, *FAST)
        certificate, key = self.path("certificate.pem"), self.path("key.pem")
        config = self.write("p.yaml", f"gateway: {{admin_tls: {{certificate: {certificate}, key: {key}, "
                                      f"client_ca: {certificate}}}}}\n")
        gateway = Program(self, "gateway", "--config", config, "--listen", "127.0.0.1:0", "--admin-listen",
                          "127.0.0.1:0", engine.url, ready=r"metrics on https://127\.0\.0\.1:(\d+)")

        def status(path, with_certificate):
            context = ssl.create_default_context(cafile=certificate)
            if with_certificate:
                context.load_cert_chain(certificate, key)
            connection = http.client.HTTPSConnection("localhost", gateway.ports[0], timeout=SECONDS, context=context)
            connection.request("GET", path)
            seen = connection.getresponse().status
            connection.close()
            return seen

        until("a replica", lambda: status("/ready", False) == 200)
        self.assertEqual(status("/metrics", False), 401)
        self.assertEqual(status("/metrics", True), 200)
        self.assertEqual(status("/penstock/v1/prefixes", True), 200)

    # ---- files of the first version ------------------------------------------------------------------------------------

    def test_a_ledger_of_the_first_version_is_read_and_continued(self):
        ledger = self.path("ledger.sqlite")
        with gzip.open(os.path.join(os.path.dirname(__file__), "upgrade", "ledger-0.1.0.sqlite.gz")) as old:
            with open(ledger, "wb") as file:
                file.write(old.read())
        gateway = Gateway(self, "--ledger", ledger, Engine(self, *FAST).url).ready()
        self.assertEqual(complete(gateway.port)[0], 200)
        gateway.signal(STOP)
        self.assertEqual(gateway.wait(), 0)
        with sqlite3.connect(ledger) as database:
            rows = database.execute("select tenant, outcome, prompt_tokens, output_tokens, round(cost, 6) from entries "
                                    "order by id").fetchall()
        shop = ("shop", "completed", 2, 4, 0.00001)
        self.assertEqual(rows[:6], [shop, shop, shop, ("anonymous", "completed", 3, 4, 0.000011),
                                    ("anonymous", "cancelled", 3, 6, 0.000015), ("anonymous", "lost", 3, 0, 0.000003)])
        self.assertEqual([row[1] for row in rows[6:]], ["completed"])

    def test_a_planner_continues_with_the_fleet_file_of_the_first_version(self):
        home = Home(self)
        shutil.copy(os.path.join(os.path.dirname(__file__), "upgrade", "fleet-0.1.0.json"), home.path("fleet.json"))
        gateway = home.gateway(self)
        home.planner(self, gateway)
        until_serving(home, 1)
        # The engine of the file has ended since; numbers are not used twice.
        self.assertGreaterEqual(max(each["id"] for each in home.fleet()["replicas"]), 2)
        logs = glob.glob(home.path("logs/*.log"))
        self.assertTrue(logs)
        for path in (home.path("fleet.json"), *logs):
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600, path)

    # ---- restart -----------------------------------------------------------------------------------------------------

    def served_once(self, ledger, load):
        """Each answer that a client received is in the ledger once, and nothing else."""
        with sqlite3.connect(ledger) as database:
            outcomes = dict(database.execute("select outcome, count(*) from entries group by outcome").fetchall())
        self.assertEqual(outcomes, {"completed": load})

    def test_five_restarts_under_load_fail_no_request(self):
        engines = [Engine(self, *SLOW, "--speed", "4", name=f"e{i}") for i in range(2)]
        ledger = self.path("ledger.sqlite")
        words = ["--ledger", ledger, "--threads", "2", *(engine.url for engine in engines)]
        gateway = Gateway(self, *words).ready()
        words = ["--listen", f"127.0.0.1:{gateway.port}", "--admin-listen", f"127.0.0.1:{gateway.admin}", *words]
        load = Load(gateway.port)
        streams = []
        for number in range(5):
            streams.append(Stream(gateway.port, 300, f"long {number}"))
            until("the first token", lambda: streams[-1].tokens() > 0)
            before = load.good
            gateway.signal(STOP)
            last, gateway = gateway, Gateway(self, *words)  # The last gateway still drains.
            until("answers of the next gateway", lambda: load.good > before + 20)
            self.assertEqual(last.wait(), 0)
            gateway.ready()
        load.end()
        self.assertEqual(load.failures, [])
        for stream in streams:
            self.assertTrue(stream.join().whole(300), stream.text[-200:])
        gateway.signal(STOP)
        self.assertEqual(gateway.wait(), 0)
        self.served_once(ledger, load.good + len(streams))

    def test_takeover_replaces_a_gateway_that_serves(self):
        engine = Engine(self, *SLOW, "--speed", "4")
        ledger = self.path("ledger.sqlite")
        first = Gateway(self, "--ledger", ledger, engine.url).ready()
        words = ["--listen", f"127.0.0.1:{first.port}", "--admin-listen", f"127.0.0.1:{first.admin}", "--ledger", ledger]
        refused = subprocess.run([PROGRAM, "gateway", *words, engine.url], capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("is taken", refused.stderr)
        load = Load(first.port)
        stream = Stream(first.port, 300)
        until("the first token", lambda: stream.tokens() > 0)
        second = Gateway(self, *words, "--takeover", engine.url).ready()
        self.assertEqual(first.wait(), 0)
        self.assertTrue(self.lines(first, "takeover") and self.lines(second, "takeover"))
        before = load.good
        until("answers of the second gateway", lambda: load.good > before + 20)
        load.end()
        self.assertEqual(load.failures, [])
        self.assertTrue(stream.join().whole(300), stream.text[-200:])
        second.signal(STOP)
        self.assertEqual(second.wait(), 0)
        self.served_once(ledger, load.good + 1)

    def test_entries_of_a_killed_gateway_are_lost_and_those_of_a_draining_one_are_not(self):
        engine = Engine(self, *SLOW)
        ledger = self.path("ledger.sqlite")
        gateways = [Gateway(self, "--ledger", ledger, engine.url).ready() for _ in range(2)]
        streams = [Stream(gateway.port, 400) for gateway in gateways]
        until("tokens of both", lambda: all(stream.tokens() > 10 for stream in streams))
        gateways[0].signal(KILL)
        gateways[0].wait()
        gateways[1].signal(STOP)
        Gateway(self, "--ledger", ledger, engine.url).ready()
        with sqlite3.connect(ledger) as database:
            rows = database.execute("select outcome from entries order by id").fetchall()
        self.assertEqual(sorted(rows, key=str), [("lost",), (None,)])
        self.assertTrue(streams[1].join().whole(400))
        self.assertEqual(gateways[1].wait(), 0)
        with sqlite3.connect(ledger) as database:
            rows = database.execute("select outcome from entries order by id").fetchall()
        self.assertEqual(sorted(rows), [("completed",), ("lost",)])
        streams[0].join()
        for suffix in ("", "-wal", "-shm", ".lock"):
            self.assertEqual(stat.S_IMODE(os.stat(ledger + suffix).st_mode), 0o600, suffix)


if __name__ == "__main__":
    unittest.main()
