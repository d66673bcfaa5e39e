"""A headless Chromium that a test can look into and type into, by the DevTools protocol over a pipe."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PATIENCE_S = 30


def open_live_page(test, port, width=1440, height=900):
    """The live page of a planner, for a picture in the documentation; None unless PENSTOCK_PICTURE names the file of the picture."""
    program = shutil.which("chromium")
    if not os.environ.get("PENSTOCK_PICTURE") or not program:
        return None
    browser = Chromium(program)
    test.addCleanup(browser.close)
    page = browser.page(width, height)
    page.open(f"http://127.0.0.1:{port}/")
    page.wait_for("document.getElementById('content')?.hidden === false")
    return page


def write_picture(page):
    with open(os.environ["PENSTOCK_PICTURE"], "wb") as file:
        file.write(page.picture())


class Chromium:
    def __init__(self, program):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self.write_end = self.pipe()
        self.read_end, from_browser = self.pipe()

        def place_pipes():  # the browser reads at 3 and writes at 4
            os.dup2(to_browser, 3)
            os.dup2(from_browser, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
             "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", f"--user-data-dir={self.folder.name}",
             "--hide-scrollbars", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            pass_fds=(3, 4), preexec_fn=place_pipes)
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.rest, self.events = 0, b"", []

    @staticmethod
    def pipe():
        """Both ends far from the numbers that the browser's get."""
        ends = os.pipe()
        moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in ends)
        for end in ends:
            os.close(end)
        return moved

    def close(self):
        try:
            self.call("Browser.close")
            self.process.wait(10)
        except (RuntimeError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        self.folder.cleanup()

    def read(self, seconds):
        """One message, or None."""
        end = time.monotonic() + seconds
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.read_end], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                return None
            piece = os.read(self.read_end, 1 << 20)
            if not piece:
                raise RuntimeError("the browser ended")
            self.rest += piece
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            answer = self.read(end - time.monotonic())
            if answer is None:
                break
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)
        raise RuntimeError(f"{method}: no answer")

    def page(self, width=1440, height=900, dark=False, phone=False):
        return Page(self, width, height, dark, phone)


class Page:
    """One tab, with all that it complained of and asked for."""

    KEYS = {"Enter": 13, "Escape": 27, "Tab": 9, " ": 32}

    def __init__(self, browser, width, height, dark, phone):
        self.browser = browser
        # A context of its own: nothing is remembered from the page before.
        self.context = browser.call("Target.createBrowserContext")["browserContextId"]
        self.target = browser.call("Target.createTarget", url="about:blank", browserContextId=self.context)["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        # Of several tabs one has the focus; each is to behave as if it had.
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        self.resize(width, height, phone)
        self.set_dark(dark)

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def resize(self, width, height, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def set_dark(self, dark, calm=False):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if calm else "no-preference"}])

    def open(self, url):
        self.call("Page.navigate", url=url)

    def close(self):
        self.browser.call("Target.disposeBrowserContext", browserContextId=self.context)

    def run(self, script):
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", script))
        return answer["result"].get("value")

    def wait_for(self, script, seconds=PATIENCE_S):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.run(f"Boolean({script})"):  # an element by itself would come as an empty object
                return
            time.sleep(0.05)
        raise AssertionError(f"never came true: {script}\n{self.run('document.body.innerText.slice(0, 2000)')}")

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)})?.textContent")

    def press(self, key):
        code = self.KEYS.get(key, 0)
        typed = "\r" if key == "Enter" else key if len(key) == 1 else ""
        self.call("Input.dispatchKeyEvent", type="keyDown" if typed else "rawKeyDown", key=key, code=key, text=typed,
                  windowsVirtualKeyCode=code)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def move_to(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def picture(self, whole=False):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(shot["data"])

    def events(self, method):
        while message := self.browser.read(0):
            self.browser.events.append(message)
        return [event["params"] for event in self.browser.events
                if event.get("sessionId") == self.session and event.get("method") == method]

    def complaints(self):
        """Errors and warnings of scripts, of the browser and of its policies."""
        logs = [event["exceptionDetails"]["text"] + " " + event["exceptionDetails"].get("exception", {}).get("description", "")
                for event in self.events("Runtime.exceptionThrown")]
        logs += [" ".join(str(argument.get("value", argument.get("description"))) for argument in event["args"])
                 for event in self.events("Runtime.consoleAPICalled") if event["type"] in ("error", "warning", "assert")]
        logs += [event["entry"]["text"] for event in self.events("Log.entryAdded")
                 if event["entry"]["level"] in ("error", "warning")]
        return logs

    def requested(self):
        return [event["request"]["url"] for event in self.events("Network.requestWillBeSent")]
