"""chromium.py - a headless Chromium that a test drives through two pipes (--remote-debugging-pipe): JSON, each message ended
by a NUL. Python's standard library alone. Each page's console, exceptions and requests are kept for the test to judge.
"""
import base64
import fcntl
import json
import os
import select
import shutil
import tempfile

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
WAIT = 300  # seconds without an answer: it hangs


def find_chromium():
    """Its path, or None."""
    named = os.environ.get("WEFT_CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


class Chromium:
    def __init__(self, path):
        self.folder = tempfile.mkdtemp(prefix="weft-chromium-")
        to_child, from_us = os.pipe()
        from_child, to_us = os.pipe()
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (to_child, to_us)]  # not 3 or 4, which the child gets
        command = [path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                   "--no-first-run", "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe",
                   "--force-color-profile=srgb", f"--user-data-dir={self.folder}", "about:blank"]
        null = os.open(os.devnull, os.O_RDWR)
        self.pid = os.posix_spawn(path, command, {**os.environ, "HOME": self.folder}, file_actions=[
            (os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2),
            (os.POSIX_SPAWN_DUP2, high[0], 3), (os.POSIX_SPAWN_DUP2, high[1], 4)])
        for fd in (to_child, to_us, null, *high):
            os.close(fd)
        self.out, self.inward, self.rest, self.number, self.events = from_us, from_child, b"", 0, []
        self.session = None

    def close(self):
        try:
            self.call("Browser.close", session=None)
        except EOFError:
            pass
        os.close(self.out)
        os.waitpid(self.pid, 0)
        os.close(self.inward)
        shutil.rmtree(self.folder, ignore_errors=True)

    def read(self):
        """The next message."""
        while b"\0" not in self.rest:
            if not select.select([self.inward], [], [], WAIT)[0]:
                raise TimeoutError(f"chromium: no answer in {WAIT} s")
            got = os.read(self.inward, 1 << 20)
            if not got:
                raise EOFError("chromium has ended")
            self.rest += got
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session="", **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session == "" and self.session:
            message["sessionId"] = self.session
        text = json.dumps(message).encode() + b"\0"
        while text:
            text = text[os.write(self.out, text):]
        while True:
            got = self.read()
            if got.get("id") == self.number:
                if "error" in got:
                    raise RuntimeError(f"{method}: {got['error']['message']}")
                return got["result"]
            if "method" in got:
                self.events.append(got)

    # ---- a page ----

    def open(self, url, width=1280, height=800, scheme="light"):
        """Opens a page; what it logs and requests from now on is in self.events."""
        target = self.call("Target.createTarget", session=None, url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", session=None, targetId=target, flatten=True)["sessionId"]
        self.events = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")
        self.size(width, height)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")
        self.settle()

    def size(self, width, height, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)

    def run(self, script):
        """The value of an expression, which may be a promise."""
        got = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in got:
            raise RuntimeError(f"{script}: {got['exceptionDetails'].get('exception', {}).get('description')}")
        return got["result"].get("value")

    def wait(self, script):
        """Until an expression is true: the page looks again with each frame, and ctest ends what never is."""
        self.run(f"new Promise(done => {{ const look = () => ({script}) ? done() : requestAnimationFrame(look); look(); }})")

    def settle(self):
        """Until the page has drawn what was asked for."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done))))")

    # ---- a user ----

    def click_at(self, x, y, count=1):
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=count)
        self.settle()

    def drag(self, x, y, dx, dy):
        move = lambda kind, at, buttons: self.call("Input.dispatchMouseEvent", type=kind, x=x + at * dx, y=y + at * dy, button="left" if kind != "mouseMoved" else "none",
                                                   buttons=buttons, clickCount=1)
        move("mousePressed", 0, 1)
        for part in (0.25, 0.5, 1):
            move("mouseMoved", part, 1)
        move("mouseReleased", 1, 1)
        self.settle()

    def wheel(self, x, y, dy):
        self.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=dy)
        self.settle()

    def place(self, selector):
        """The middle of an element, in the window's pixels."""
        found = self.run(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); if (!e) return null;"
                         "e.scrollIntoView({block: 'nearest'}); const r = e.getBoundingClientRect();"
                         "return [r.left + r.width / 2, r.top + r.height / 2]; })()")
        if not found:
            raise LookupError(f"the page has no {selector}")
        return found

    def click(self, selector, count=1):
        self.click_at(*self.place(selector), count=count)

    def key(self, key, text="", code=0, modifiers=0):
        """One key; `text` is what it types."""
        codes = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Tab": 9, " ": 32}
        text = text or ("\r" if key == "Enter" else key if len(key) == 1 else "")
        number = code or codes.get(key, 0)
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text, windowsVirtualKeyCode=number, modifiers=modifiers)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=number, modifiers=modifiers)
        self.settle()

    def type(self, text):
        self.call("Input.insertText", text=text)
        self.settle()

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    # ---- what it did ----

    def complaints(self):
        """Exceptions, and what the console has of errors and warnings."""
        self.run("0")
        found = []
        for event in self.events:
            what = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(what["exceptionDetails"].get("exception", {}).get("description") or what["exceptionDetails"]["text"])
            elif event["method"] == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
                found.append(" ".join(str(a.get("value")) for a in what["args"]))
            elif event["method"] == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
                found.append(what["entry"]["text"])
        return found

    def requests(self):
        """URLs of all requests, that of the page itself first."""
        return [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
