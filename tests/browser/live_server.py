"""Serves the live page as the program does, with states that a test writes: by hand, `live_server.py SAMPLE [PORT]`."""

import base64
import hashlib
import json
import queue
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def assets():
    """The files that the build embeds, by name, as CMakeLists.txt lists them."""
    block = re.search(r"penstock_embed\(dashboard (.*?)\)", (ROOT / "CMakeLists.txt").read_text(), re.S).group(1)
    return {name: "".join((ROOT / part).read_text() for part in parts.split(","))
            for name, parts in re.findall(r"(\w+)=(\S+)", block)}


def page_and_policy():
    """The same as src/dashboard/page.cpp makes: everything inline, and a policy that lets just these pieces run."""
    files = assets()
    pieces = {"/*STYLE*/": files["style"], "/*LIBRARY*/": files["library"], "/*SCRIPTS*/": files["scripts"]}
    page = files["page"]
    for mark, content in pieces.items():
        page = page.replace(mark, content, 1)
    style, library, scripts = ("'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
                               for text in pieces.values())
    return page, (f"default-src 'none'; style-src {style}; script-src {library} {scripts}; connect-src 'self'; "
                  "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")


class LiveServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, state, points, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.page, self.policy = page_and_policy()
        self.state, self.points = state, points
        self.refuses, self.refused = False, threading.Event()
        self.viewers, self.lock = [], threading.Lock()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def push(self, name, value):
        with self.lock:
            for viewer in self.viewers:
                viewer.put(event_text(name, value))

    def tell(self, state):
        self.state = state
        self.push("state", state)

    def push_raw(self, text):
        with self.lock:
            for viewer in self.viewers:
                viewer.put(text)

    def cut(self):
        """Ends all streams, as a server that restarts does."""
        self.push_raw(None)

    def close(self):
        self.cut()
        self.shutdown()
        self.server_close()


def event_text(name, value):
    return f"event: {name}\ndata: {json.dumps(value)}\n\n"


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Security-Policy", self.server.policy)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/":
            return self.answer(200, "text/html; charset=utf-8", self.server.page.encode())
        if self.path != "/events":
            return self.answer(404, "text/plain", b"there is nothing at this path\n")
        if self.server.refuses:
            self.answer(503, "text/plain", b"too many viewers\n")
            return self.server.refused.set()
        viewer = queue.Queue()
        viewer.put("retry: 300\n\n" + event_text("points", self.server.points) + event_text("state", self.server.state))
        with self.server.lock:
            self.server.viewers.append(viewer)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            while (text := viewer.get()) is not None:
                self.wfile.write(text.encode())
                self.wfile.flush()
        except OSError:
            pass
        with self.server.lock:
            self.server.viewers.remove(viewer)


def main():
    import live_samples
    name, port = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
    state, points = getattr(live_samples, name)()
    server = LiveServer(state, points, port)
    print(server.url, flush=True)
    while True:
        time.sleep(1)
        server.tell({**server.state, "now_s": server.state["now_s"] + 1})


if __name__ == "__main__":
    main()
