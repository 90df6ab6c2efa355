"""A headless Chromium, driven by the WebDriver protocol (https://www.w3.org/TR/webdriver/)."""

from __future__ import annotations

import base64
import http.client
import json
import shutil
import socket
import subprocess
import time
import unittest
from pathlib import Path

TIMEOUT = 60


def need_browser() -> None:
    if not (shutil.which("chromedriver") and (shutil.which("chromium") or shutil.which("chrome"))):
        raise unittest.SkipTest("needs chromium and chromedriver (Debian: chromium-driver)")


class Browser:
    def __init__(self, width: int = 1100, height: int = 760, dark: bool = False):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.driver = subprocess.Popen(
            ["chromedriver", f"--port={self.port}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        arguments = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        arguments += ["--no-first-run", "--disable-extensions", "--disable-background-networking"]
        arguments += ["--disable-component-update", "--disable-sync", "--no-default-browser-check"]
        arguments += [f"--window-size={width},{height}", "--hide-scrollbars"]
        if dark:
            arguments.append("--force-dark-mode")
        capabilities = {
            "alwaysMatch": {
                "goog:chromeOptions": {
                    "args": arguments,
                    "binary": shutil.which("chromium") or shutil.which("chrome"),
                },
                "goog:loggingPrefs": {"browser": "ALL"},
            }
        }
        self.session = ""
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                started = self.call("POST", "/session", {"capabilities": capabilities})
                break
            except OSError:
                if time.monotonic() > deadline:
                    self.driver.kill()
                    raise
                time.sleep(0.1)
        self.session = f"/session/{started['sessionId']}"
        self.resize(width, height)

    def call(self, method: str, path: str, body: dict | None = None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        try:
            data = None if method == "GET" else json.dumps(body or {})
            connection.request(method, path, data, {"Content-Type": "application/json"})
            value = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        if isinstance(value, dict) and "error" in value:
            raise AssertionError(f"{value['error']}: {value['message']}")
        return value

    def cdp(self, command: str, parameters: dict):
        return self.call(
            "POST", f"{self.session}/goog/cdp/execute", {"cmd": command, "params": parameters}
        )

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.cdp("Emulation.setDeviceMetricsOverride", size)

    def open(self, url: str) -> None:
        self.call("POST", f"{self.session}/url", {"url": url})

    def run(self, script: str, *arguments):
        """The value of a JavaScript function's body."""
        return self.call(
            "POST", f"{self.session}/execute/sync", {"script": script, "args": list(arguments)}
        )

    def wait(self, expression: str, what: str):
        """Waits until a JavaScript expression is true, and returns its value."""
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            value = self.run(f"return {expression}")
            if value:
                return value
            time.sleep(0.02)
        raise AssertionError(f"{what} did not come; the page says:\n{self.text('body')}")

    def text(self, selector: str) -> str:
        return self.run("return document.querySelector(arguments[0]).innerText", selector)

    def click(self, selector: str) -> None:
        self.run("document.querySelector(arguments[0]).click()", selector)

    def fill(self, selector: str, text: str) -> None:
        self.run(
            "const e = document.querySelector(arguments[0]); e.value = arguments[1];"
            "e.dispatchEvent(new Event('input', {bubbles: true}))",
            selector,
            text,
        )

    def complaints(self) -> list[str]:
        """What the browser had to say: errors of scripts, refused resources."""
        entries = self.call("POST", f"{self.session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def screenshot(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.call("GET", f"{self.session}/screenshot")))

    def close(self) -> None:
        try:
            if self.session:
                self.call("DELETE", self.session)
        finally:
            self.driver.terminate()
            self.driver.wait()
