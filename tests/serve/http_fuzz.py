"""Sends a server everything but what it expects: broken, cut, slow, huge and smuggled requests.

    python3 tests/serve/http_fuzz.py --program build/fuzz/strata --seconds 300

The server must answer every well-formed request it is asked in between, send nothing that is no
HTTP, print no sanitizer's report, keep no slot, and end with status 0. Standard library only.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import re
import socket
import sys
import threading
import time
from pathlib import Path

import live_server

PATHS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/responses",
    "/v1/models",
    "/v1/status",
    "/metrics",
    "/slots/0?action=save",
    "/",
    "/health",
)
NASTY = (
    None, True, -1, 0, 1e308, float("inf"), -0.0, 2**63, 2**64, 0.5, "", "x", "\u0000", "\ud83d\ude00", "</s>",
    "<|im_start|>", [], {}, [[]], [None], {"type": "text"}, {"type": "json_schema"}, "a" * 5000,
    [{"role": "user"}], {"$ref": "#"}, ["\n"] * 20, {"a": {"b": {"c": []}}},
)  # fmt: skip
FIELDS = (
    "messages", "prompt", "input", "system", "model", "max_tokens", "temperature", "top_p", "top_k",
    "seed", "n", "stop", "stream", "stream_options", "logprobs", "top_logprobs", "logit_bias",
    "tools", "tool_choice", "response_format", "grammar", "reasoning_effort", "thinking", "echo",
    "metadata", "chat_template_kwargs", "text", "output_config", "reasoning", "filename",
)  # fmt: skip
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string", "pattern": "^[a-z]{2,4}$"}, "b": {"$ref": "#"}},
    "required": ["a"],
}


def good_body(chance: random.Random) -> dict:
    messages = [{"role": "user", "content": "Tell me a story."}]
    body = {"messages": messages, "prompt": "Once", "input": "Once", "max_tokens": 4}
    if chance.random() < 0.3:
        body["stream"] = True
    if chance.random() < 0.2:
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
        body["response_format"] = form
    if chance.random() < 0.2:
        tool = {"name": "f", "parameters": SCHEMA, "input_schema": SCHEMA}
        body["tools"] = [{"type": "function", "function": tool, **tool}]
    if chance.random() < 0.1:
        body["grammar"] = 'root ::= [a-z]{1,9} ("," root)?'
    return body


def some_body(chance: random.Random) -> bytes:
    body = good_body(chance)
    for _ in range(chance.randrange(3)):
        body[chance.choice(FIELDS)] = chance.choice(NASTY)
    data = json.dumps(body).replace("Infinity", "1e999").encode()
    kind = chance.randrange(8)
    if kind == 0:
        data = data[: chance.randrange(len(data))]
    elif kind == 1:
        data = broken(data, chance)
    elif kind == 2:
        data = b"[" * chance.randrange(3000) + data
    elif kind == 3:
        data = chance.randbytes(chance.randrange(400))
    return data


def broken(data: bytes, chance: random.Random) -> bytes:
    """A few bytes changed, doubled, cut out or put in."""
    out = bytearray(data)
    for _ in range(1 + chance.randrange(4)):
        at = chance.randrange(len(out) + 1)
        kind = chance.randrange(4)
        if kind == 0 and at < len(out):
            out[at] = chance.randrange(256)
        elif kind == 1:
            out[at:at] = chance.randbytes(1 + chance.randrange(4))
        elif kind == 2:
            del out[at : at + chance.randrange(8)]
        else:
            out[at:at] = out[at : at + chance.randrange(40)]
    return bytes(out)


def framing(body: bytes, chance: random.Random) -> tuple[list[str], bytes]:
    """Headers that say how long the body is, rightly or not, and the body as it is sent."""
    size = len(body)
    kind = chance.randrange(12)
    if kind < 5:
        return [f"Content-Length: {size}"], body
    if kind == 5:
        half = size // 2
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (body[:half], body[half:]) if p)
        return ["Transfer-Encoding: chunked"], chunks + b"0\r\n\r\n"
    if kind == 6:
        size_line = chance.choice((b"-1", b"ffffffffffffffff", b"10000000000000000", b"zz", b""))
        return ["Transfer-Encoding: chunked"], size_line + b"\r\n" + body + b"\r\n0\r\n\r\n"
    return chance.choice((
        ([f"Content-Length: {size}", "Transfer-Encoding: chunked"], body),
        ([f"Content-Length: {size}", f"Content-Length: {size + 1}"], body),
        (["Content-Length: " + chance.choice(("-1", "+5", "0x10", "1e9", "9" * 20))], body),
        ([f"Content-Length: {size + chance.randrange(500)}"], body),
        ([f"Content-Length: {max(0, size - chance.randrange(50))}"], body),
        (["Transfer-Encoding: gzip, chunked"], body),
        ([f"Content-Length : {size}"], body),
        ([f"X: a\n\tContent-Length: {size}"], body),
    ))  # fmt: skip


def some_request(chance: random.Random) -> bytes:
    body = some_body(chance)
    headers, sent = framing(body, chance)
    headers.insert(0, chance.choice(["Host: localhost"] * 9 + ["Host: evil.example"]))
    headers.append("Content-Type: application/json")
    if chance.random() < 0.1:
        headers.append("X-Long: " + "a" * chance.randrange(40_000))
    if chance.random() < 0.05:
        headers += [f"X-{i}: {i}" for i in range(chance.randrange(200))]
    if chance.random() < 0.1:
        headers.append(chance.choice((
            "Expect: 100-continue", "Upgrade: h2c", "Content-Encoding: gzip", "Range: bytes=0-1",
            "Range: bytes=9-1,-", "Origin: https://evil.example", "Connection: close",
        )))  # fmt: skip
    methods = ("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE", "PRI")
    method = "POST" if chance.random() < 0.5 else chance.choice(methods)
    path = chance.choice(PATHS)
    if chance.random() < 0.1:
        odd = ("/" + "a" * 9000, "/%00", "/..%2f..%2fetc/passwd", "*", "http://x/", "")
        path = chance.choice(odd)
    head = f"{method} {path} HTTP/1.1\r\n" + "\r\n".join(headers) + "\r\n\r\n"
    raw = head.encode("latin-1") + sent
    kind = chance.randrange(10)
    if kind == 0:
        return broken(raw, chance)
    if kind == 1:
        return chance.randbytes(chance.randrange(2000))
    if kind == 2:
        return raw[: chance.randrange(len(raw))]
    return raw


class Fuzzer:
    def __init__(self, server: live_server.Server, seed: int, until: float):
        self.server = server
        self.chance = random.Random(seed)
        self.until = until
        self.statuses: collections.Counter[str] = collections.Counter()
        self.problems: list[str] = []

    def run(self) -> None:
        while time.monotonic() < self.until and not self.problems:
            try:
                self.talk()
            except ConnectionRefusedError:
                self.problems.append("the server takes no connections")
            except OSError:
                self.statuses["cut"] += 1

    def talk(self) -> None:
        chance = self.chance
        raw = b"".join(some_request(chance) for _ in range(1 + chance.randrange(3)))
        with self.server.socket(timeout=0.5 if chance.random() < 0.5 else 3) as connection:
            if chance.random() < 0.2:  # slowly, in pieces
                for _ in range(chance.randrange(8)):
                    cut = chance.randrange(1 + len(raw))
                    connection.sendall(raw[:cut])
                    raw = raw[cut:]
                    time.sleep(0.02)
            connection.sendall(raw)
            if chance.random() < 0.2:  # and away
                self.statuses["left"] += 1
                return
            if chance.random() < 0.3:
                connection.shutdown(socket.SHUT_WR)
            self.read(connection)

    def read(self, connection: socket.socket) -> None:
        received = b""
        try:
            while len(received) < 1_000_000 and (piece := connection.recv(65536)):
                received += piece
        except TimeoutError:
            pass
        if received and not received.startswith(b"HTTP/1."):
            self.problems.append(f"no HTTP: {received[:200]!r}")
        for status in re.findall(rb"^HTTP/1\.[01] (\d{3}) ", received, re.M):
            self.statuses[status.decode()] += 1
        if b" 500 " in received[:16] or b"HTTP/1.1 500" in received:
            self.problems.append(f"a mistake of the server: {received[-600:]!r}")
        if not received:
            self.statuses["silence"] += 1


def ask_properly(server: live_server.Server, until: float, problems: list[str]) -> None:
    """A client as it should be, beside the others: it is always answered, and always alike."""
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3, "temperature": 0}
    answers = set()
    while time.monotonic() < until:
        try:
            reply = server.post("/v1/chat/completions", body)
        except OSError as error:
            problems.append(f"a proper request got no answer: {error}")
            return
        if reply.status == 200:
            answers.add(reply.json()["choices"][0]["message"]["content"])
        elif reply.status not in (429, 503):
            problems.append(f"status {reply.status} for a proper request: {reply.body[:300]!r}")
        time.sleep(0.1)
    if len(answers) != 1:
        problems.append(f"a proper request got {len(answers)} different answers")


def fuzz(seconds: float, seed: int, threads: int = 6) -> tuple[dict, list[str]]:
    """What came back by status, and what is wrong."""
    server = live_server.Server("--queue", "64")
    until = time.monotonic() + seconds
    fuzzers = [Fuzzer(server, seed + i, until) for i in range(threads)]
    problems: list[str] = []
    workers = [threading.Thread(target=fuzzer.run) for fuzzer in fuzzers]
    workers.append(threading.Thread(target=ask_properly, args=(server, until, problems)))
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    try:
        server.wait_until_idle()
    except (AssertionError, OSError) as error:
        problems.append(f"afterwards: {error}")
    code = server.stop()
    log = "".join(server.lines)
    if not all(c == "\n" or c.isprintable() for c in log):
        problems.append("the log holds bytes that clients sent, unescaped")
    if code != 0 or "Sanitizer" in log or "runtime error" in log:
        problems.append(f"exit code {code}:\n{log[-3000:]}")
    statuses: collections.Counter[str] = collections.Counter()
    for fuzzer in fuzzers:
        statuses += fuzzer.statuses
        problems += fuzzer.problems
    return dict(sorted(statuses.items())), problems


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--program", type=Path, default=live_server.PROGRAM)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    live_server.PROGRAM = options.program
    statuses, problems = fuzz(options.seconds, options.seed)
    print("replies by status:", statuses)
    sys.exit("\n".join(problems) if problems else 0)


if __name__ == "__main__":
    main()
