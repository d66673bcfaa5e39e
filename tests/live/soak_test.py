#!/usr/bin/env python3
"""Soak tests: thousands of idle connections, slow clients, hours of traffic in a minute. `make soak`."""

import os
import resource
import socket
import subprocess
import threading
import time
import unittest

from live_testing import KILL, PROGRAM, SECONDS, STOP, Engine, Gateway, Stream, complete
from planner_testing import Home, Up, until_routed, until_serving
from real_clients import guidellm

FAST = ("--speed", "50")
IDLE = 10_000
DESCRIPTORS_FOR_OTHERS = 500  # of the test itself
BYTES_AN_IDLE_CONNECTION = 16 * 1024
DAY = ("--profile", "diurnal", "--period", "8m", "--duration", "8m", "--peak", "12", "--trough", "1", "--input-tokens",
       "100..8000", "--output-tokens", "40..400", "--prefixes", "12", "--shared-prefix-tokens", "1024", "--prefix-share",
       "0.6", "--expect", "ttft_p95=2s,itl_p95=50ms,errors=0,refused=0")
HEAD_SECONDS, BODY_SECONDS = 10, 60  # docs/gateway.md, Limits


class SoakTest(unittest.TestCase):
    def test_idle_connections_cost_little_and_block_no_client(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        count = min(IDLE, hard - DESCRIPTORS_FOR_OTHERS)
        if count < IDLE:
            print(f"only {count} connections: the limit on open files is {hard}")
        gateway = Gateway(self, Engine(self, *FAST).url).ready()
        before = memory_of(gateway)
        idle = []
        self.addCleanup(lambda: [each.close() for each in idle])
        for _ in range(count):
            idle.append(socket.create_connection(("127.0.0.1", gateway.port), timeout=SECONDS))
        self.assertEqual([complete(gateway.port, 2, f"prompt {i}")[0] for i in range(100)], [200] * 100)
        used = memory_of(gateway) - before
        print(f"{count} idle connections: {used / count / 1024:.1f} KiB each")
        self.assertLess(used, count * BYTES_AN_IDLE_CONNECTION + 64 * 1024 * 1024)

    def test_slow_clients_are_cut(self):
        gateway = Gateway(self, Engine(self, *FAST).url).ready()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Padding: " + b"x" * 1000
        whole = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
        dribblers = [Dribbler(gateway.port, b"", head) for _ in range(200)]
        dribblers += [Dribbler(gateway.port, whole, b" " * 1000) for _ in range(200)]
        began = time.monotonic()
        statuses = []
        while any(not each.done for each in dribblers) and time.monotonic() < began + BODY_SECONDS + SECONDS:
            for each in dribblers:
                each.go_on()
            statuses.append(complete(gateway.port, 2, f"prompt {len(statuses)}")[0])
            time.sleep(1)
        self.assertEqual(set(statuses), {200})
        self.assertEqual({each.answer.split(b" ")[1] for each in dribblers if each.answer}, {b"408"})
        for each in dribblers:
            self.assertTrue(each.done)
            each.connection.close()

    def test_after_any_kill_users_lose_only_started_answers(self):
        """A minute of streams while an engine, the planner and again an engine are killed."""
        home = Home(self, "  - {name: chat, replicas: 3, min_replicas: 3, max_replicas: 3}",
                    ", model: 'linear:10,0,0.001,0'")
        gateway = home.gateway(self)
        planner = home.planner(self, gateway, "--policy", "static")
        until_serving(home, 3)
        until_routed(gateway, 3)
        outcomes, ending = [], threading.Event()

        def user(number):
            turn = 0
            while not ending.is_set():
                stream = Stream(gateway.port, 50, f"user {number} turn {turn}").join()
                outcomes.append(("whole" if stream.whole(50) else "cut" if stream.status == 200 else stream.status,
                                 stream.replica))
                turn += 1

        users = [threading.Thread(target=user, args=(number,)) for number in range(20)]
        for each in users:
            each.start()
        for _ in range(3):
            time.sleep(5)
            os.kill(min(home.engines()), KILL)
            time.sleep(5)
            planner.signal(KILL)
            planner.wait()
            planner = home.planner(self, gateway, "--policy", "static")
            until_serving(home, 3)
        ending.set()
        for each in users:
            each.join()
        counts = {outcome: sum(each[0] == outcome for each in outcomes) for outcome in {each[0] for each in outcomes}}
        print(f"three engines and three planners killed: {counts}")
        self.assertEqual(set(counts) - {"whole", "cut"}, set(), counts)
        self.assertLessEqual(counts.get("cut", 0), 3 * len(users))
        self.assertEqual(len(home.engines()), 3)

    def test_a_day_of_mixed_prompts_meets_the_slo_while_the_fleet_changes(self):
        """Eight minutes from a quiet night over noon to the next night, with prompts of 100 to 8,000 tokens."""
        home = Home(self)
        up = Up(self, home, "--no-load")
        record, ending = [], threading.Event()

        def watch():
            while not ending.wait(1):
                pool = up.state()["pools"][0]
                record.append((pool["ready"], pool["starting"], pool["draining"]))

        watcher = threading.Thread(target=watch)
        watcher.start()
        loaded = subprocess.run([PROGRAM, "load", f"http://127.0.0.1:{up.port}", "--api-key", "sk-shop", *DAY],
                                capture_output=True, text=True)
        ending.set()
        watcher.join()
        ready = [each[0] for each in record]
        print(loaded.stdout, f"replicas that served, every 20 s: {' '.join(map(str, ready[::20]))}", sep="\n")
        self.assertEqual(loaded.returncode, 0, loaded.stdout + loaded.stderr)
        self.assertGreaterEqual(max(ready), ready[0] + 2, "the fleet did not grow")
        self.assertLess(ready[-1], max(ready), "the fleet did not shrink")
        up.signal(STOP)
        self.assertEqual(up.wait(), 0)

    def test_guidellm_finds_no_errors(self):
        gateway = Gateway(self, Engine(self, *FAST).url).ready()
        report = guidellm(f"http://127.0.0.1:{gateway.port}", requests=50)
        self.assertEqual(report, {"successful": 50, "errored": 0, "incomplete": 0})


class Dribbler:
    """Sends a byte of `rest` a second."""

    def __init__(self, port, first, rest):
        self.connection = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        self.connection.sendall(first)
        self.connection.setblocking(False)
        self.rest, self.sent, self.done, self.answer = rest, 0, False, b""

    def go_on(self):
        if self.done:
            return
        try:
            received = self.connection.recv(4096)
            self.answer += received
            self.done = not received
        except BlockingIOError:
            pass
        except OSError:
            self.done = True
        if not self.done:
            try:
                self.connection.send(self.rest[self.sent:self.sent + 1])
                self.sent += 1
            except OSError:
                self.done = True


def memory_of(program):
    with open(f"/proc/{program.process.pid}/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    unittest.main(verbosity=2)
