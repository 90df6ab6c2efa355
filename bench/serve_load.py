#!/usr/bin/env python3
"""Loads a running `strata serve` and prints what it makes of it.

    strata serve data/strata-demo.gguf --greedy --max-connections 256
    python3 bench/serve_load.py speed          one client against eight, and the cost of a token
    python3 bench/serve_load.py latency        a short request beside a long prompt
    python3 bench/serve_load.py soak --minutes 10
                                               requests one after the other and many at once, with
                                               clients that vanish; memory and slots afterwards

Standard library only.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import statistics
import threading
import time

PROMPT = "Tell me a story about a dog."


class Client:
    def __init__(self, port: int):
        self.port = port

    def get(self, path: str) -> dict:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request("GET", path)
        body = connection.getresponse().read()
        connection.close()
        return json.loads(body)

    def stream(self, prompt: str, tokens: int, vanish_after: int = -1) -> dict:
        """Streams an answer; after `vanish_after` chunks the client hangs up."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        body = {
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": tokens,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        start = time.monotonic()
        connection.request("POST", "/v1/chat/completions", json.dumps(body))
        response = connection.getresponse()
        result = {"status": response.status, "times": [], "usage": None}
        if response.status != 200:
            response.read()
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if event["choices"] and event["choices"][0]["delta"].get("content"):
                result["times"].append(time.monotonic() - start)
            if event.get("usage"):
                result["usage"], result["timings"] = event["usage"], event["timings"]
            if 0 <= vanish_after <= len(result["times"]):
                break
        result["seconds"] = time.monotonic() - start
        response.close()
        connection.close()
        return result


def together(count: int, work) -> float:
    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - start


def speed(client: Client, tokens: int) -> None:
    client.stream(PROMPT, 8)  # the prompt is read once
    rates = {}
    for clients in (1, 8, 1, 8, 1, 8):
        seconds = together(clients, lambda i: client.stream(f"{PROMPT} {i}", tokens))
        rates.setdefault(clients, []).append(clients * tokens / seconds)
    one, eight = statistics.median(rates[1]), statistics.median(rates[8])
    print(f"1 client:  {one:8.0f} tokens/s")
    print(f"8 clients: {eight:8.0f} tokens/s, {eight / one:.2f} times as many")
    result = client.stream(PROMPT, tokens)
    gaps = [b - a for a, b in zip(result["times"], result["times"][1:])]
    each = result["timings"]["predicted_per_token_ms"]
    p99 = 1e3 * statistics.quantiles(gaps, n=100)[98]
    whole = 1e3 * (result["times"][-1] - result["times"][0]) - result["timings"]["predicted_ms"]
    print(
        f"a token takes the engine {each:.3f} ms; at the client 99 % of the gaps between chunks are"
    )
    print(
        f"below {p99:.3f} ms; the whole answer takes {whole / tokens:+.4f} ms a token longer there"
    )


def latency(client: Client, words: int) -> None:
    alone = client.stream("Hi there.", 4)["times"][0]
    prompt = " ".join(random.Random(time.time()).choices(PROMPT.split(), k=words))
    long = threading.Thread(target=client.stream, args=(prompt, 4))
    long.start()
    while not any(slot["phase"] == "reading" for slot in client.get("/slots")):
        if not long.is_alive():
            break
    beside = client.stream("And you?", 4)["times"][0]
    long.join()
    print(
        f"first token alone after {1e3 * alone:.1f} ms, beside a long prompt {1e3 * beside:.1f} ms"
    )


def resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    raise SystemExit(f"no process {pid}")


def soak(client: Client, minutes: float, pid: int) -> None:
    chance = random.Random(1)
    counts = {"whole": 0, "vanished": 0, "refused": 0}
    lock = threading.Lock()

    def one(tokens: int, vanish: bool) -> None:
        result = client.stream(f"{PROMPT} {tokens}", tokens, chance.randrange(5) if vanish else -1)
        with lock:
            kind = "refused" if result["status"] != 200 else "vanished" if vanish else "whole"
            counts[kind] += 1

    for _ in range(1000):
        one(chance.randrange(1, 9), chance.random() < 0.3)
    first = resident_bytes(pid) if pid else 0
    print(f"1000 requests one after the other: {counts}, RSS {first / 1e6:.1f} MB", flush=True)
    until = time.monotonic() + 60 * minutes

    def worker(_: int) -> None:
        while time.monotonic() < until:
            one(chance.randrange(1, 60), chance.random() < 0.4)

    half = threading.Timer(30 * minutes, lambda: print_rss(pid))
    half.start()
    together(64, worker)
    time.sleep(1)
    status = client.get("/v1/status")
    stuck = [slot for slot in status["slots"] if slot["phase"] != "idle"]
    print(f"64 at once for {minutes:g} minutes: {counts}")
    print(
        f"slots not idle: {len(stuck)}, waiting: {status['requests']['waiting']}, "
        f"ended: {status['requests']['ended']}"
    )
    print_rss(pid)


def print_rss(pid: int) -> None:
    if pid:
        print(f"RSS {resident_bytes(pid) / 1e6:.1f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=("speed", "latency", "soak"))
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--tokens", type=int, default=300, help="of an answer (speed)")
    parser.add_argument("--words", type=int, default=1200, help="of the long prompt (latency)")
    parser.add_argument("--minutes", type=float, default=10, help="(soak)")
    parser.add_argument(
        "--pid", type=int, default=0, help="of the server, to watch its memory (soak)"
    )
    options = parser.parse_args()
    client = Client(options.port)
    if options.what == "speed":
        speed(client, options.tokens)
    elif options.what == "latency":
        latency(client, options.words)
    else:
        soak(client, options.minutes, options.pid)


if __name__ == "__main__":
    main()
