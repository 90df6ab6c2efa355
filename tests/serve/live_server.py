"""A running `strata serve` with the demo model, and clients of the simplest kind."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("STRATA_TEST_PROGRAM", ROOT / "build" / "release" / "strata"))
MODEL = ROOT / "data" / "strata-demo.gguf"
TIMEOUT = 120


def need_program() -> None:
    if not PROGRAM.exists():
        raise unittest.SkipTest(f"{PROGRAM} is not built")


class Server:
    """The program, from its start to its end. Its log is in `lines`."""

    def __init__(self, *options: str, model: Path = MODEL, wait: bool = True):
        command = [str(PROGRAM), "serve", str(model), "--port", "0", "--no-pin", *options]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, encoding="utf-8", errors="surrogateescape"
        )
        self.lines: list[str] = []
        self.port = 0
        self._found = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if wait:
            self._found.wait(TIMEOUT)
            if not self.port:
                self.kill()
                raise AssertionError("the server did not start:\n" + "".join(self.lines))

    def _read(self) -> None:
        for line in self.process.stderr:
            self.lines.append(line)
            found = re.search(r" ready .*port=(\d+)|\"event\":\"ready\".*\"port\":(\d+)", line)
            if found and not self.port:
                self.port = int(found.group(1) or found.group(2))
                self._found.set()
        self._found.set()

    def connection(self, timeout: float = TIMEOUT) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def socket(self, timeout: float = TIMEOUT) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def request(self, method: str, path: str, body=None, headers=None) -> "Reply":
        connection = self.connection()
        try:
            data = body if isinstance(body, (bytes, str, type(None))) else json.dumps(body)
            connection.request(method, path, data, headers or {})
            response = connection.getresponse()
            return Reply(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> "Reply":
        return self.request("GET", path, headers=headers)

    def post(self, path: str, body, headers=None) -> "Reply":
        return self.request("POST", path, body, headers)

    def stream(self, path: str, body: dict, headers=None) -> "Stream":
        return Stream(self, path, {**body, "stream": True}, headers or {})

    def status(self) -> dict:
        return self.get("/v1/status").json()

    def wait_until(self, condition, what: str):
        """Waits until condition(status) is true, and returns that status."""
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            status = self.status()
            if condition(status):
                return status
            time.sleep(0.02)
        raise AssertionError(f"{what} did not come:\n{json.dumps(status, indent=1)}")

    def wait_until_idle(self) -> dict:
        return self.wait_until(
            lambda s: s["requests"]["waiting"] == 0
            and all(slot["phase"] == "idle" for slot in s["slots"]),
            "an idle server",
        )

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.finish()

    def finish(self) -> int:
        code = self.process.wait(TIMEOUT)
        self._reader.join(TIMEOUT)
        self.process.stderr.close()
        return code

    def kill(self) -> None:
        self.process.kill()
        self.finish()


class Reply:
    def __init__(self, status: int, headers: dict, body: bytes):
        self.status = status
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.body = body

    def json(self):
        return json.loads(self.body)


class Stream:
    """A reply that comes in events: iterate over (name, data)."""

    def __init__(self, server: Server, path: str, body: dict, headers: dict):
        self.connection = server.connection()
        self.connection.request("POST", path, json.dumps(body), headers)
        self.response = self.connection.getresponse()
        self.status = self.response.status
        self.comments = 0

    def __iter__(self):
        name, data = "", None
        for raw in self.response:
            line = raw.decode().rstrip("\n")
            if line.startswith("event: "):
                name = line[len("event: ") :]
            elif line.startswith("data: "):
                data = line[len("data: ") :]
            elif line.startswith(":"):
                self.comments += 1
            elif not line and data is not None:
                yield name, data if data == "[DONE]" else json.loads(data)
                name, data = "", None
        self.close()

    def all(self) -> list:
        return list(self)

    def close(self) -> None:
        self.response.close()
        self.connection.close()


class LiveTest(unittest.TestCase):
    """One server for all tests of a class."""

    OPTIONS: tuple[str, ...] = ()

    @classmethod
    def setUpClass(cls):
        need_program()
        cls.server = Server("--greedy", *cls.OPTIONS)
        cls.addClassCleanup(cls.stop_server)

    @classmethod
    def stop_server(cls):
        code = cls.server.stop()
        if code != 0:
            raise AssertionError(f"exit code {code}:\n" + "".join(cls.server.lines[-20:]))

    def assert_error(self, reply: Reply, status: int, *parts: str) -> dict:
        self.assertEqual(reply.status, status, reply.body)
        error = reply.json()["error"]
        for part in parts:
            self.assertIn(part, json.dumps(error))
        return error


def temporary_folder(test: unittest.TestCase) -> Path:
    folder = tempfile.TemporaryDirectory()
    test.addCleanup(folder.cleanup)
    return Path(folder.name)
