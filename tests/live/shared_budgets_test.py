#!/usr/bin/env python3
"""Gateways that share the budgets and concurrency limits of tenants, while one of them is killed and restarted."""

import json
import os
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

from live_testing import KILL, Engine, Gateway, Program, Stream, ask, chat, config_file, series, until

RATE_PER_S, BURST = 1000, 6000  # tokens
EXCHANGE_S = 3  # interval of a second, with the delays of a busy machine
KEY = {"Authorization": "Bearer sk-t"}


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Clients:
    """Threads that send requests to one gateway as fast as it answers, and count the tokens of each answer."""

    def __init__(self, gateway, threads=4):
        self.port, self.stopping, self.tokens, self.statuses, self.lock = gateway.port, False, 0, [], threading.Lock()
        self.threads = [threading.Thread(target=self._run) for _ in range(threads)]
        for thread in self.threads:
            thread.start()

    def _run(self):
        while not self.stopping:
            status, _, text = ask(self.port, "POST", "/v1/chat/completions", chat(100), **KEY)
            with self.lock:
                self.statuses.append(status)
                if status == 200:
                    self.tokens += json.loads(text)["usage"]["total_tokens"]
            if status != 200:
                time.sleep(0.02)

    def stop(self):
        self.stopping = True
        for thread in self.threads:
            thread.join()
        return self


class SharedBudgetsTest(unittest.TestCase):
    def start(self, count, tenant, *words):
        """The gateways, each with the admin addresses of all, and a function that starts one of them again."""
        engine = Engine(self, "--speed", "50")
        path = config_file(self, tenants=[{"name": "t", "keys": ["sk-t"], **tenant}],
                           gateway={"replicas": [{"url": engine.url}], "admission": {"template_tokens": 30}})
        admins = free_ports(count)
        peers = ",".join(f"http://127.0.0.1:{admin}" for admin in admins)

        def gateway(number):
            return Gateway(self, "--config", path, "--admin-listen", f"127.0.0.1:{admins[number]}", *words,
                           *(("--peers", peers) if count > 1 else ())).ready()

        return [gateway(number) for number in range(count)], gateway

    def metrics(self, gateway):
        return ask(gateway.admin, "GET", "/metrics")[2]

    def until_reachable(self, gateways, peers):
        for gateway in gateways:
            until("the other gateways", lambda each=gateway: series(
                self.metrics(each), "penstock_peer_gateways").get('state="reachable"') == peers)

    def test_the_tokens_at_all_gateways_stay_within_one_budget_while_one_is_killed_and_restarted(self):
        gateways, again = self.start(3, {"tokens_per_minute": RATE_PER_S * 60, "burst": BURST})
        self.until_reachable(gateways, 2)
        began = time.monotonic()
        clients = [Clients(gateway) for gateway in gateways]
        time.sleep(6)
        clients[2].stop()
        gateways[2].signal(KILL)
        gateways[2].wait()
        until("the loss of a gateway", lambda: all(" gateway_unreachable " in each.log() for each in gateways[:2]))
        self.assertIn('state="unreachable"', self.metrics(gateways[0]))
        gateways[2] = again(2)
        clients.append(Clients(gateways[2]))
        self.until_reachable(gateways, 2)
        time.sleep(4)
        for each in clients:
            each.stop()
        seconds = time.monotonic() - began

        for each in clients:
            self.assertLessEqual(set(each.statuses), {200, 429}, "no request fails because a gateway is lost")
            self.assertIn(200, each.statuses)
            self.assertIn(429, each.statuses)
        used = sum(each.tokens for each in clients)
        budget = BURST + RATE_PER_S * seconds
        bound = 2 * (BURST + RATE_PER_S * EXCHANGE_S)  # What two others admit before the third knows it.
        # The gateway that restarts begins with a full budget, and what it had in flight is lost.
        restart = BURST + 2 * RATE_PER_S * EXCHANGE_S
        print(f"{used} tokens in {seconds:.1f} s; the budget is {budget:.0f}, the bound {bound + restart} more")
        self.assertLessEqual(used, budget + bound + restart)
        self.assertGreater(used, RATE_PER_S * seconds * 0.5, "no token is charged twice")
        self.assertEqual(gateways[0].log().count(" gateway_unreachable "), 1)
        self.assertEqual(gateways[0].log().count(" gateway_reachable "), 1)

    def test_without_peers_each_gateway_has_a_budget_of_its_own(self):
        gateways, _ = self.start(1, {"tokens_per_minute": RATE_PER_S * 60, "burst": BURST})
        self.assertNotIn("penstock_peer_", self.metrics(gateways[0]))

    def test_a_gateway_that_starts_has_what_is_left_of_the_budget(self):
        gateways, again = self.start(2, {"tokens_per_minute": 60, "burst": BURST})
        self.until_reachable(gateways, 1)
        client = Clients(gateways[0])
        until("a refusal", lambda: 429 in client.statuses)
        client.stop()
        gateways[1].signal(KILL)
        gateways[1].wait()
        gateways[1] = again(1)
        until("what is used up", lambda: gateways[1].overview()["tenants"][0]["budget_available"] < BURST / 2)
        self.assertEqual(Clients(gateways[1], 1).stop().statuses[-1], 429)

    def test_a_concurrency_limit_counts_the_requests_at_all_gateways(self):
        gateways, _ = self.start(2, {"concurrent": 2})
        streams = [Stream(gateways[0].port, 100_000, **KEY) for _ in range(2)]
        until("two streams", lambda: gateways[0].open_requests() == 2)
        refused = until("a refusal", lambda: (
            lambda answer: answer if answer[0] == 429 else None)(ask(
                gateways[1].port, "POST", "/v1/chat/completions", chat(1), **KEY)))
        self.assertIn("0 requests in flight and 2 at other gateways, the limit (concurrent) is 2", refused[2])
        # A gateway that is killed has no requests in flight.
        gateways[0].signal(KILL)
        gateways[0].wait()
        for stream in streams:
            stream.join()
        until("an answer", lambda: ask(gateways[1].port, "POST", "/v1/chat/completions", chat(1), **KEY)[0] == 200)

    def test_peers_with_tls_are_verified_and_get_the_token(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        certificate, key, token = (os.path.join(folder.name, name) for name in ("cert.pem", "key.pem", "token"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-days", "1", "-subj", "/CN=gateway", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key,
                        "-out", certificate], check=True, capture_output=True)
        with open(token, "w") as file:
            file.write("secret\n")
        admins = free_ports(3)
        trusted = ssl.create_default_context(cafile=certificate)

        def start(admin, **more):
            path = config_file(self, gateway={
                "replicas": [{"url": "http://127.0.0.1:1", "model": "m"}], "admin_token_file": token,
                "admin_tls": {"certificate": certificate, "key": key},
                "peers": [f"https://127.0.0.1:{each}" for each in admins[:2]], **more})
            Program(self, "gateway", "--config", path, "--listen", "127.0.0.1:0", "--admin-listen", f"127.0.0.1:{admin}",
                    ready=r"ready on http://127\.0\.0\.1:(\d+), metrics on https://127\.0\.0\.1:(\d+)")

        def peers(admin):
            request = urllib.request.Request(f"https://127.0.0.1:{admin}/metrics", headers={"Authorization": "Bearer secret"})
            with urllib.request.urlopen(request, context=trusted) as answer:
                text = answer.read().decode()
            return series(text, "penstock_peer_gateways"), series(text, "penstock_peer_reports_total")

        for admin in admins[:2]:
            start(admin, peer_ca_file=certificate)
        for admin in admins[:2]:
            until("the other gateway", lambda each=admin: peers(each)[0]['state="reachable"'] == 1)
        start(admins[2])  # It does not trust the certificate.
        until("failures", lambda: peers(admins[2])[1]['result="failed"'] >= 2)
        self.assertEqual(peers(admins[2])[0], {'state="reachable"': 0, 'state="unreachable"': 2})


if __name__ == "__main__":
    unittest.main()
