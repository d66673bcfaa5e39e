#!/usr/bin/env python3
"""`penstock gateway` follows the pods of a scripted API server: serving, warming, draining, gone; and without the API server."""

import http.server
import json
import os
import queue
import socket
import tempfile
import threading
import time
import unittest
import urllib.parse

from live_testing import Gateway, Program, Stream, complete, config_file, until

FAST = ("--speed", "50")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class ApiServer:
    """Pods, listed and watched over plain HTTP, which needs no credentials."""

    def __init__(self, test, port=0):
        self.pods, self.version, self.watches, self.refusal, self.lock = {}, 1, [], None, threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                parameters = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
                if outer.refusal:
                    return self.answer(*outer.refusal)
                if parameters.get("watch") != "1":
                    with outer.lock:
                        items, version = list(outer.pods.values()), str(outer.version)
                    return self.answer(200, {"kind": "PodList", "metadata": {"resourceVersion": version}, "items": items})
                self.watch(int(parameters["resourceVersion"]))

            def answer(self, status, document):
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def watch(self, version):
                events = queue.Queue()
                with outer.lock:
                    if version < outer.version:
                        expired = {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410}
                        events.put({"type": "ERROR", "object": expired})
                        events.put(None)
                    outer.watches.append(events)
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                while (event := events.get()) is not None:
                    line = json.dumps(event).encode() + b"\n"
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.close_connection = True

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        test.addCleanup(self.close)

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        with self.lock:
            for events in self.watches:
                events.put(None)

    def put(self, name, address, ready=True, terminating=False):
        with self.lock:
            self.version += 1
            known = name in self.pods
            metadata = {"name": name, "namespace": "prod", "resourceVersion": str(self.version)}
            if terminating:
                metadata["deletionTimestamp"] = "2026-11-22T13:26:21Z"
            self.pods[name] = {"metadata": metadata, "status": {
                "phase": "Running", "podIP": address, "conditions": [{"type": "Ready", "status": str(ready)}]}}
            for events in self.watches:
                events.put({"type": "MODIFIED" if known else "ADDED", "object": self.pods[name]})

    def delete(self, name):
        with self.lock:
            self.version += 1
            pod = self.pods.pop(name)
            pod["metadata"]["resourceVersion"] = str(self.version)
            for events in self.watches:
                events.put({"type": "DELETED", "object": pod})


class Pods(unittest.TestCase):
    def start(self, api):
        """A gateway, and the port that its engines have."""
        port = free_port()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        kubeconfig = os.path.join(folder.name, "config")
        with open(kubeconfig, "w") as file:
            json.dump({"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "l", "namespace": "prod"}}],
                       "clusters": [{"name": "l", "cluster": {"server": f"http://127.0.0.1:{api.port}"}}]}, file)
        config = config_file(self, gateway={"anonymous": True, "health_interval": "100ms", "kubernetes": {
            "selector": "app=vllm", "port": port, "kubeconfig": kubeconfig}})
        return Gateway(self, "--config", config), port

    def engine(self, address, port, *flags):
        return Program(self, "engine", "--host", address, "--port", str(port), "--id", address, *flags,
                       ready=rf"ready on http://{address}:(\d+)")

    def phases(self, gateway):
        return {replica["id"]: replica["phase"] for replica in gateway.overview()["replicas"]}

    def test_pods_serve_warm_up_drain_and_go_without_a_cut_stream(self):
        api = ApiServer(self)
        gateway, port = self.start(api)
        self.engine("127.0.1.1", port)
        self.engine("127.0.1.2", port)
        api.put("a", "127.0.1.1")
        api.put("b", "127.0.1.2", ready=False)
        gateway.ready()
        until("both pods", lambda: self.phases(gateway) == {"a": "serving", "b": "warming"})
        stream = Stream(gateway.port, 300)
        until("the stream", lambda: stream.tokens() > 0)
        self.assertEqual(stream.replica, "a")
        self.assertEqual({complete(gateway.port)[1]["x-penstock-replica"] for _ in range(5)}, {"a"})

        api.put("b", "127.0.1.2")
        until("b", lambda: self.phases(gateway)["b"] == "serving")
        api.put("a", "127.0.1.1", terminating=True)
        until("the drain of a", lambda: self.phases(gateway)["a"] == "draining")
        self.assertEqual({complete(gateway.port)[1]["x-penstock-replica"] for _ in range(10)}, {"b"})
        api.delete("a")
        until("the end of a", lambda: "a" not in self.phases(gateway) or stream.thread.is_alive())
        self.assertTrue(stream.join().whole(300), stream.fault)
        until("the end of a", lambda: self.phases(gateway) == {"b": "serving"})

    def test_without_the_api_server_the_pods_stay_and_afterwards_changes_are_found(self):
        api = ApiServer(self)
        gateway, port = self.start(api)
        self.engine("127.0.1.1", port, *FAST)
        self.engine("127.0.1.2", port, *FAST)
        api.put("a", "127.0.1.1")
        gateway.ready()
        api.close()
        until("the failure in the log", lambda: "replicas_reload_failed" in gateway.log())
        for _ in range(10):
            self.assertEqual(complete(gateway.port)[0], 200)
        self.assertEqual(self.phases(gateway), {"a": "serving"})
        again = ApiServer(self, api.port)
        again.version = 100
        again.put("b", "127.0.1.2")
        began = time.monotonic()
        until("the other state", lambda: self.phases(gateway) == {"b": "serving"})
        print(f"followed again after {time.monotonic() - began:.1f} s")
        self.assertEqual(complete(gateway.port)[1]["x-penstock-replica"], "b")

    def test_a_missing_right_is_named_with_the_line_for_the_role(self):
        api = ApiServer(self)
        api.refusal = (403, {"kind": "Status", "reason": "Forbidden", "code": 403,
                             "message": 'pods is forbidden: User "x" cannot list resource "pods"'})
        gateway, port = self.start(api)
        until("the failure in the log", lambda: 'verbs: [\\"list\\"]' in gateway.log() or 'verbs: ["list"]' in gateway.log())
        self.assertEqual(complete(gateway.port)[0], 503)
        api.refusal = None
        self.engine("127.0.1.1", port, *FAST)
        api.put("a", "127.0.1.1")
        gateway.ready()
        self.assertEqual(complete(gateway.port)[0], 200)


if __name__ == "__main__":
    unittest.main()
