#!/usr/bin/env python3
"""Random faults against real processes. Afterwards every token that a client received is in the ledger exactly once.

HISTORY_SECONDS and HISTORY_SEED set the length and the order of faults, HISTORY_FAULTS names those that occur; `make soak`
takes ten minutes.
"""

import http.client
import json
import os
import random
import resource
import signal
import socket
import tempfile
import threading
import time
import unittest

from live_testing import KILL, SECONDS, Engine, Gateway, Stream, ask, chat, until
from planner_testing import rows_of
from wall_clock import WallClock

RUN_SECONDS = float(os.environ.get("HISTORY_SECONDS", "600"))
SEED = int(os.environ.get("HISTORY_SEED", "1"))
FAULTS = os.environ.get("HISTORY_FAULTS", "kill_an_engine,stop_an_engine,kill_the_gateway,reload,replace_the_gateway,"
                        "fill_the_disk,set_the_clock").split(",")
ENGINE = ("--engine", "linear:10,0,0.001,0")  # 10 ms per token
ENGINES, USERS = 3, 24
TENANTS = ("shop", "search", "batch")
UNWRITTEN_SECONDS = 1.0  # What a killed gateway may not have written yet.
COLUMNS = "request_id, tenant, outcome, prompt_tokens, output_tokens, measured, opened_unix_ms"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class RecordingStream(Stream):
    """A stream that records when each token arrived."""

    def __init__(self, *words, **fields):
        self.times = []
        super().__init__(*words, **fields)

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "text":
            now = time.time()
            while len(self.times) < self.tokens():
                self.times.append(now)


class Request:
    """What one client sent and received."""

    def __init__(self, name, tenant, tokens):
        self.name, self.tenant, self.tokens = name, tenant, tokens
        self.began, self.ended, self.end, self.times = time.time(), None, None, []


class User(threading.Thread):
    """Sends one request after another: most are streams, some clients leave, some answers are whole."""

    def __init__(self, number, port, ending):
        super().__init__()
        self.number, self.port, self.ending = number, port, ending
        self.random = random.Random(f"user {SEED} {number}")
        self.requests = []

    def run(self):
        while not self.ending.is_set():
            request = Request(f"u{self.number}-{len(self.requests)}", TENANTS[self.number % len(TENANTS)],
                              self.random.randint(5, 150))
            self.requests.append(request)
            fields = {"Authorization": f"Bearer sk-{request.tenant}", "x_request_id": request.name}
            try:
                if self.random.random() < 0.2:
                    self.whole_answer(request, fields)
                else:
                    self.stream(request, fields)
            except (OSError, ValueError, KeyError, http.client.HTTPException) as fault:
                request.end = f"fault: {type(fault).__name__}"
            request.ended = time.time()
            if request.end not in ("whole", "left"):
                self.ending.wait(0.05)

    def whole_answer(self, request, fields):
        status, _, body = ask(self.port, "POST", "/v1/chat/completions",
                              chat(request.tokens, f"prompt of {request.name}"), **fields)
        request.end = "whole" if status == 200 else f"refused {status}"
        if status == 200:
            request.times = [time.time()] * json.loads(body)["usage"]["completion_tokens"]

    def stream(self, request, fields):
        stream = RecordingStream(self.port, request.tokens, f"prompt of {request.name}", **fields)
        if self.random.random() < 0.2:
            leave_after = self.random.random() * 0.8
            stream.thread.join(leave_after)
            if stream.thread.is_alive():
                stream.leave()
                request.end = "left"
        stream.join()
        request.times = stream.times
        if request.end is None:
            whole = stream.whole(request.tokens)
            request.end = "whole" if whole else "cut" if stream.status == 200 else f"refused {stream.status}"


class HistoryTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.random = folder.name, random.Random(SEED)
        self.ledger = os.path.join(self.folder, "usage.sqlite")
        self.config = os.path.join(self.folder, "p.yaml")
        self.port, self.outages, self.faults = free_port(), [], {}
        self.clock = WallClock(self)
        self.engines = [self.engine(free_port()) for _ in range(ENGINES)]
        self.write_config()
        self.gateway = self.start_gateway()

    # ---- the world ---------------------------------------------------------------------------------------------------

    def engine(self, port):
        return Engine(self, "--port", str(port), *ENGINE, name=f"e{port}")

    def write_config(self):
        tenants = [{"name": name, "keys": [f"sk-{name}"], "concurrent": self.random.randint(8, 64)} for name in TENANTS]
        replicas = [{"url": engine.url, "model": "penstock-sim"} for engine in self.engines]
        with open(self.config + ".new", "w") as file:
            file.write(json.dumps({"gateway": {"replicas": replicas, "anonymous": False,
                                               "routing": {"slow_start": "0s"}}, "tenants": tenants}))
        os.replace(self.config + ".new", self.config)

    def start_gateway(self):
        return Gateway(self, "--config", self.config, "--ledger", self.ledger, "--listen", f"127.0.0.1:{self.port}",
                       environment=self.clock.environment)

    # ---- faults ------------------------------------------------------------------------------------------------------

    def kill_an_engine(self):
        place = self.random.randrange(ENGINES)
        engine = self.engines[place]
        engine.signal(KILL)
        engine.wait()
        time.sleep(self.random.random() * 2)
        self.engines[place] = self.engine(engine.port)

    def stop_an_engine(self):
        engine = self.random.choice(self.engines)
        engine.signal(signal.SIGSTOP)
        time.sleep(self.random.uniform(0.5, 5))
        engine.signal(signal.SIGCONT)

    def kill_the_gateway(self):
        killed = time.time()
        self.gateway.signal(KILL)
        self.gateway.wait()
        self.gateway = self.start_gateway()
        self.outages.append((killed, time.time()))

    def reload(self):
        self.write_config()
        self.gateway.signal(signal.SIGHUP)

    def replace_the_gateway(self):
        """The next gateway takes over while the last one drains."""
        former = self.gateway
        former.signal(signal.SIGTERM)
        time.sleep(0.1)
        self.gateway = self.start_gateway()
        self.assertEqual(former.wait(), 0)

    def fill_the_disk(self):
        pid = self.gateway.process.pid
        soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (os.path.getsize(self.ledger), hard))
        time.sleep(self.random.uniform(0.5, 3))
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))
        time.sleep(3)  # Entries that waited are written.

    def set_the_clock(self):
        """Hours forward or back; sometimes the next gateway starts with it."""
        self.clock.set(self.random.choice((-1, 1)) * self.random.randint(600, 8 * 3600))
        if self.random.random() < 0.3:
            self.replace_the_gateway()

    # ---- the check ---------------------------------------------------------------------------------------------------

    def test_every_token_that_a_client_received_is_in_the_ledger_once(self):
        ending = threading.Event()
        users = [User(number, self.port, ending) for number in range(USERS)]
        for user in users:
            user.start()
        faults = [getattr(self, name) for name in FAULTS]
        began = time.monotonic()
        try:
            while time.monotonic() < began + RUN_SECONDS:
                time.sleep(self.random.uniform(0.5, 3))
                fault = self.random.choice(faults)
                self.faults[fault.__name__] = self.faults.get(fault.__name__, 0) + 1
                fault()
        finally:
            ending.set()
            for user in users:
                user.join(SECONDS)
        self.gateway.signal(signal.SIGTERM)
        self.assertEqual(self.gateway.wait(), 0)
        requests = [request for user in users for request in user.requests]
        self.check(requests)

    def check(self, requests):
        rows = {}
        for name, *row in rows_of(self.ledger, f"select {COLUMNS} from entries"):
            rows.setdefault(name, []).append(row)
        ends = {}
        for request in requests:
            ends[request.end] = ends.get(request.end, 0) + 1
        outcomes = {}
        for (row, *_) in rows.values():
            outcomes[row[1]] = outcomes.get(row[1], 0) + 1
        print(f"seed {SEED}, {RUN_SECONDS:.0f} s, faults {self.faults}", f"requests by end: {ends}",
              f"entries by outcome: {outcomes}", sep="\n")
        self.assertGreater(ends.get("whole", 0), len(requests) / 2)
        refused = ends.get("refused 429", 0) + ends.get("refused 503", 0)
        self.assertLess(refused, len(requests) / 50)
        self.assertNotIn(None, outcomes, "an entry is still open")
        self.assertEqual(set(rows) - {request.name for request in requests}, set(), "entries of no request")
        problems = [problem for request in requests for problem in self.problems(request, rows.get(request.name, []))]
        received = sum(len(request.times) for request in requests)
        billed = sum(row[3] for found in rows.values() for row in found)
        print(f"{received} tokens received, {billed} in the ledger")
        self.assertFalse(problems, "\n".join([f"{len(problems)} problems", *problems]))

    def problems(self, request, rows):
        """Sentences about what the ledger has wrong for one request."""
        received, about = len(request.times), f"{request.name} ({request.end}, {len(request.times)} received)"
        outage = any(request.began - 0.1 < back and killed < request.ended + 0.1 for killed, back in self.outages)
        if request.end.startswith(("fault", "refused None")) and not outage:
            yield f"{about}: a gateway listened"
        if len(rows) > 1:
            yield f"{about}: {len(rows)} entries"
        # Kills at which entries of this request may not have been written yet.
        unwritten = [killed for killed, _ in self.outages
                     if request.began - 0.1 < killed < request.ended + UNWRITTEN_SECONDS]
        if not rows:
            served = request.end in ("whole", "cut", "left") and (received or request.end == "whole")
            if served and not any(kill < request.began + UNWRITTEN_SECONDS or kill > request.ended - UNWRITTEN_SECONDS
                                  for kill in unwritten):
                yield f"{about}: no entry"
            return
        tenant, outcome, prompt, output, _, _ = rows[0]
        if tenant != request.tenant:
            yield f"{about}: tenant {tenant}"
        if outcome == "refused":
            if received:
                yield f"{about}: refused, but {received} tokens arrived"
            return
        if prompt == 0 and (received or outcome != "failed"):
            yield f"{about}: prompt not billed, {outcome}"
        if output > request.tokens:
            yield f"{about}: {output} of {request.tokens} requested tokens billed, {outcome}"
        if outcome == "lost":
            if not unwritten:
                yield f"{about}: lost without a kill"
            written = sum(at < max(unwritten, default=0) - UNWRITTEN_SECONDS for at in request.times)
            if output < written:
                yield f"{about}: {output} billed of {written} that arrived a second before the kill"
        elif request.end == "whole" and (outcome != "completed" or output != received):
            yield f"{about}: {outcome} with {output} tokens"
        elif output < received:
            yield f"{about}: {outcome} with {output} tokens"
        elif request.end == "cut" and outcome == "completed":
            yield f"{about}: completed"


if __name__ == "__main__":
    unittest.main(verbosity=2)
