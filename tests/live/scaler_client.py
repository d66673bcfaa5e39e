"""A gRPC client that calls the external scaler of `penstock plan` as KEDA calls it."""

import json
import queue
import re
import subprocess
import threading

from live_testing import until
from real_clients import HERE, python_with

GRPC = "grpcio==1.66.2"
CHAT = {"pool": "chat", "scalerAddress": "penstock:9090"}


class Keda:
    def __init__(self, test, *words):
        self.process = subprocess.Popen([python_with(GRPC), "-B", HERE + "/keda_client.py", *words],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines = {}
        threading.Thread(target=self.read, daemon=True).start()
        test.addCleanup(self.stop)

    def read(self):
        for line in self.process.stdout:
            answer = json.loads(line)
            self.of(answer.pop("method")).put(answer)

    def of(self, method):
        return self.lines.setdefault(method, queue.Queue())

    def call(self, method, metadata=None, metric="penstock_target_replicas"):
        self.open(method, metadata, metric)
        return self.of(method).get(timeout=60)

    def open(self, method, metadata=None, metric=""):
        call = {"method": method, "metadata": CHAT if metadata is None else metadata, "metric": metric}
        self.process.stdin.write(json.dumps(call) + "\n")
        self.process.stdin.flush()

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def scaler_of(planner):
    return until("the address of the scaler", lambda: re.search(r"grpc://(127\.0\.0\.1:\d+)", planner.log()))[1]
