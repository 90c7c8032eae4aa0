"""A page in headless Chromium, driven over its debugging pipe: enough to ask a page of any size about its own layout."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from typing import Any

#: Seconds without an answer after which the browser is given up.
PATIENCE = 120
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome-headless-shell", "chromium-headless-shell")


def find() -> str | None:
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Chromium:
    """Use it in a `with` block; the browser ends with it."""

    def __init__(self, program: str):
        self.program = program

    def __enter__(self) -> "Chromium":
        self.profile = tempfile.mkdtemp(prefix="pg_lean-chromium-")
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()

        def descriptors() -> None:
            # the browser reads from descriptor 3 and writes to 4; both pipe ends may be in each other's way
            first, second = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self.process = subprocess.Popen(
            [self.program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
             f"--user-data-dir={self.profile}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=descriptors,
            start_new_session=True, env={**os.environ, "HOME": self.profile, "TMPDIR": self.profile})
        os.close(theirs_in)
        os.close(theirs_out)
        self.out, self.into, self.buffer = os.fdopen(ours_out, "wb", 0), os.fdopen(ours_in, "rb", 0), bytearray()
        self.number, self.session = 0, None
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            self.call("Page.enable")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exc: Any) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.out.close()
        self.into.close()
        # a process of the browser that is still ending may write again
        end = time.monotonic() + PATIENCE
        while os.path.exists(self.profile) and time.monotonic() < end:
            shutil.rmtree(self.profile, ignore_errors=True)
            time.sleep(0.05)

    def message(self) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            if not select.select([self.into], [], [], PATIENCE)[0]:
                raise TimeoutError("the browser does not answer")
            part = self.into.read(1 << 16)
            if not part:
                raise EOFError("the browser ended")
            self.buffer += part
        found, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(found)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters} | ({"sessionId": self.session} if self.session else {})
        self.out.write(json.dumps(request).encode() + b"\0")
        while (answer := self.message()).get("id") != self.number:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, url: str, width: int, height: int = 900, scheme: str = "light") -> None:
        """Show a page in a window of that size and color scheme, and wait until it is laid out."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=url)
        while not self.ask(f"document.readyState === 'complete' && location.href === {json.dumps(url)}"):
            time.sleep(0.05)

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def picture(self, path: str) -> None:
        """Keep what the whole page looks like, for a person to see."""
        import base64

        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        data = self.call(
            "Page.captureScreenshot",
            captureBeyondViewport=True,
            clip={"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16000), "scale": 1},
        )["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
