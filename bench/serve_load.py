#!/usr/bin/env python3
"""Loads a running `strata serve` and prints what it makes of it.

    strata serve data/strata-demo.gguf --greedy --max-connections 256
    python3 bench/serve_load.py speed          one client against eight
    python3 bench/serve_load.py windows        where the time of 1, 2, 4 and 8 clients goes
    python3 bench/serve_load.py pairs --before 8081
                                               both of two servers in turn, an earlier build at 8081
    python3 bench/serve_load.py overhead       what the server adds to a token
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
import os
import random
import re
import selectors
import socket
import statistics
import threading
import time

PROMPT = "Tell me a story about a dog."
WINDOW = 512  # tokens of a prompt at once while nobody answers: --window


def stream_request(prompt: str, tokens: int, **fields) -> dict:
    return {
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": tokens,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
        **fields,
    }


class Client:
    def __init__(self, port: int):
        self.port = port

    def get(self, path: str) -> dict:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request("GET", path)
        body = connection.getresponse().read()
        connection.close()
        return json.loads(body)

    def window_seconds(self) -> float:
        return self.get("/v1/status")["windows"]["seconds"]

    def whole(self, prompt: str, tokens: int) -> None:
        """An answer in one piece, for which this program does next to nothing."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        body = {"prompt": prompt, "max_tokens": tokens, "ignore_eos": True}
        connection.request("POST", "/v1/completions", json.dumps(body))
        connection.getresponse().read()
        connection.close()

    def stream(self, prompt: str, tokens: int, vanish_after: int = -1, **fields) -> dict:
        """Streams an answer; after `vanish_after` chunks the client hangs up. Events are noted as
        they come and read when all are there: this program shares the server's cores."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        body = stream_request(prompt, tokens, **fields)
        start = time.monotonic()
        connection.request("POST", "/v1/chat/completions", json.dumps(body))
        response = connection.getresponse()
        events = []
        if response.status != 200:
            response.read()
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            events.append((time.monotonic() - start, line))
            if 0 <= vanish_after < len(events):
                break
        result = {"status": response.status, "seconds": time.monotonic() - start, "times": []}
        response.close()
        connection.close()
        for at, line in events:
            event = json.loads(line[6:])
            if event["choices"] and event["choices"][0]["delta"].get("content"):
                result["times"].append(at)
            if event.get("usage"):
                result["usage"], result["timings"] = event["usage"], event["timings"]
        return result


def together(count: int, work) -> float:
    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - start


def read_streams(port: int, prompts: list[str], tokens: int) -> float:
    """Streams an answer to each prompt at once and returns the seconds until all are there. Sockets
    and one thread, since this program shares the server's cores: what comes is kept, and read and
    counted once the clock has stopped."""
    selector = selectors.DefaultSelector()
    received: list[list[bytes]] = []
    start = time.monotonic()
    for prompt in prompts:
        body = json.dumps(stream_request(prompt, tokens)).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost:{port}\r\n"
        head += f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        connection = socket.create_connection(("127.0.0.1", port), timeout=600)
        connection.sendall(head.encode() + body)
        received.append([])
        selector.register(connection, selectors.EVENT_READ, received[-1])
    open_streams = len(prompts)
    while open_streams:
        for key, _ in selector.select():
            data = key.fileobj.recv(1 << 16)
            key.data.append(data)
            if not data:
                selector.unregister(key.fileobj)
                key.fileobj.close()
                open_streams -= 1
    seconds = time.monotonic() - start
    for parts in received:
        events = re.findall(rb"^data: (\{.*\})\r?$", b"".join(parts), re.MULTILINE)
        usage = [event["usage"] for event in map(json.loads, events) if event.get("usage")]
        if [u["completion_tokens"] for u in usage] != [tokens]:
            raise SystemExit(f"an answer of {tokens} tokens ended with {usage}")
    return seconds


def speed(client: Client, tokens: int, rounds: int) -> dict:
    """All tokens of answers a second, of one client and of eight, in turn."""
    client.stream(PROMPT, 8)
    rates: dict[int, list[float]] = {1: [], 8: []}
    ratios = []
    for _ in range(rounds):
        for clients in rates:
            prompts = [f"{PROMPT} {i}" for i in range(clients)]
            seconds = read_streams(client.port, prompts, tokens)
            rates[clients].append(clients * tokens / seconds)
        ratios.append(rates[8][-1] / rates[1][-1])
    one, eight = statistics.median(rates[1]), statistics.median(rates[8])
    ratio = statistics.median(ratios)
    print(f"1 client:  {one:8.0f} tokens/s")
    print(f"8 clients: {eight:8.0f} tokens/s; {ratio:.2f} times as many, median of {rounds} pairs")
    return {"one": rates[1], "eight": rates[8], "ratios": ratios, "median_ratio": ratio}


def windows(client: Client, tokens: int, rounds: int) -> dict:
    """Microseconds and bytes a token of answers that come whole: what clients cost is not in it."""
    results = []
    for clients in (1, 2, 4, 8):
        results.append(window_parts(client, clients, tokens, rounds))
        print_parts(results[-1])
    return {"results": results}


def window_parts(client: Client, clients: int, tokens: int, rounds: int) -> dict:
    client.whole(PROMPT, 8)
    before, seconds = client.get("/v1/status"), 0.0
    for _ in range(rounds):
        seconds += together(clients, lambda i: client.whole(f"{PROMPT} {i}", tokens))
    after = client.get("/v1/status")
    count = after["tokens"]["generated"] - before["tokens"]["generated"]

    def each(*path: str) -> float:
        old, new = before["windows"], after["windows"]
        for key in path:
            old, new = old[key], new[key]
        return (new - old) / count

    result = {"clients": clients, "tokens_per_s": count / seconds}
    result["us"] = {"wall": 1e6 * seconds / count, "windows": 1e6 * each("seconds")}
    parts = after["windows"]["parts"]
    result["us"].update({part: 1e6 * each("parts", part, "seconds") for part in parts})
    result["mb"] = {part: each("parts", part, "bytes") / 1e6 for part in parts}
    return result


def print_parts(result: dict) -> None:
    times = ", ".join(f"{name} {us:.0f}" for name, us in result["us"].items())
    rate = f"{result['tokens_per_s']:6.0f} tokens/s"
    print(f"{result['clients']} clients: {rate}; us a token: {times}")


def pairs(servers: dict[str, Client], tokens: int, rounds: int) -> dict:
    """Two builds in turn, so that both meet the machine in the same moods."""
    rates: dict[str, dict[int, list[float]]] = {name: {1: [], 8: []} for name in servers}
    parts: dict[str, dict[int, list[dict]]] = {n: {c: [] for c in (1, 2, 4, 8)} for n in servers}
    for client in servers.values():
        client.stream(PROMPT, 8)
    for i in range(rounds):
        order = list(servers.items())[:: 1 if i % 2 else -1]
        for clients in (1, 8):
            for name, client in order:
                prompts = [f"{PROMPT} {k}" for k in range(clients)]
                seconds = read_streams(client.port, prompts, tokens)
                rates[name][clients].append(clients * tokens / seconds)
        for clients in (1, 2, 4, 8):
            for name, client in order:
                parts[name][clients].append(window_parts(client, clients, tokens, 1))
    medians = {}
    for name in servers:
        one, eight = (statistics.median(rates[name][clients]) for clients in (1, 8))
        ratio = statistics.median(e / o for o, e in zip(rates[name][1], rates[name][8]))
        print(f"{name}: 1 client {one:.0f} tokens/s, 8 clients {eight:.0f}, {ratio:.2f} times")
        medians[name] = [median_parts(each) for each in parts[name].values()]
        for result in medians[name]:
            print_parts(result)
    for clients in (1, 8):
        gains = [a / b for b, a in zip(rates["before"][clients], rates["after"][clients])]
        print(f"{clients} clients: {statistics.median(gains):.2f} times as fast, median of pairs")
    return {"rates": rates, "medians": medians}


def median_parts(samples: list[dict]) -> dict:
    result = {"clients": samples[0]["clients"]}
    result["tokens_per_s"] = statistics.median(s["tokens_per_s"] for s in samples)
    for unit in ("us", "mb"):
        result[unit] = {k: statistics.median(s[unit][k] for s in samples) for k in samples[0][unit]}
    return result


def overhead(client: Client, tokens: int, rounds: int) -> dict:
    """What HTTP, the scheduler and the client's own Python add to the engine's time: of each
    answer, the time a token at the client less that in forward passes."""
    client.stream(PROMPT, 8)
    added = []
    for i in range(rounds):
        before = client.window_seconds()
        seconds = client.stream(PROMPT, tokens, seed=i, temperature=1)["seconds"]
        added.append(1e3 * (seconds - (client.window_seconds() - before)) / tokens)
    p50, p99 = statistics.median(added), statistics.quantiles(added, n=100)[98]
    print(f"added to a token, of {rounds} answers: median {p50:.3f} ms, 99 % below {p99:.3f} ms")
    return {"added_ms": added, "median": p50, "p99": p99}


def latency(client: Client, words: int, rounds: int) -> dict:
    """The first token of a short request that comes while a long prompt is being read."""
    chance = random.Random(time.time())
    alone, beside, chunk = [], [], []
    for i in range(rounds):
        alone.append(client.stream(f"Hi there, {i}.", 1)["times"][0])
        prompt = " ".join(chance.choices(PROMPT.split(), k=words))
        before = client.get("/v1/status")["windows"]
        client.stream(prompt, 1)
        after = client.get("/v1/status")["windows"]
        chunk.append(
            (after["seconds"] - before["seconds"])
            / ((after["tokens"] - before["tokens"]) / WINDOW)
        )
        prompt = " ".join(chance.choices(PROMPT.split(), k=words))
        long = threading.Thread(target=client.stream, args=(prompt, 1))
        long.start()
        while long.is_alive() and not any(
            slot["phase"] == "reading" for slot in client.get("/slots")
        ):
            pass
        if long.is_alive():
            beside.append(client.stream(f"And you, {i}?", 1)["times"][0])
        long.join()
    chunks = [b / c for b, c in zip(beside, chunk)]
    print(
        f"first token alone after {1e3 * statistics.median(alone):.1f} ms, beside a long prompt "
        f"{1e3 * statistics.median(beside):.1f} ms; {WINDOW} tokens of a prompt take "
        f"{1e3 * statistics.median(chunk):.1f} ms: {statistics.median(chunks):.2f} chunks, "
        f"at most {max(chunks):.2f} (of {len(beside)})"
    )
    return {"alone": alone, "beside": beside, "chunk": chunk, "chunks": chunks}


def resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    raise SystemExit(f"no process {pid}")


def print_rss(pid: int, into: list[int]) -> None:
    into.append(resident_bytes(pid))
    print(f"RSS {into[-1] / 1e6:.1f} MB", flush=True)


def soak(client: Client, minutes: float, pid: int) -> dict:
    """A thousand requests one after the other, then 64 clients at once, of whom some vanish."""
    chance = random.Random(1)
    counts = {"whole": 0, "vanished": 0, "refused": 0}
    lock = threading.Lock()
    rss: list[int] = []

    def one(tokens: int, vanish: bool) -> None:
        result = client.stream(f"{PROMPT} {tokens}", tokens, chance.randrange(5) if vanish else -1)
        with lock:
            kind = "refused" if result["status"] != 200 else "vanished" if vanish else "whole"
            counts[kind] += 1

    for _ in range(1000):
        one(chance.randrange(1, 9), chance.random() < 0.3)
    print(f"1000 requests one after the other: {counts}", flush=True)
    print_rss(pid, rss)
    until = time.monotonic() + 60 * minutes

    def worker(_: int) -> None:
        while time.monotonic() < until:
            one(chance.randrange(1, 60), chance.random() < 0.4)

    def watch() -> None:
        for tenth in range(1, 10):  # the last look comes when all is over
            time.sleep(max(0.0, until - time.monotonic() - 6 * minutes * (10 - tenth)))
            print_rss(pid, rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    together(64, worker)
    watcher.join()
    deadline = time.monotonic() + 10
    while True:
        status = client.get("/v1/status")
        stuck = [slot for slot in status["slots"] if slot["phase"] != "idle"]
        if not stuck or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    print_rss(pid, rss)
    print(f"64 at once for {minutes:g} minutes: {counts}")
    requests = status["requests"]
    print(f"slots not idle: {len(stuck)}, waiting: {requests['waiting']}")
    print(f"ended: {requests['ended']}")
    # All connections have been open once by the first look.
    grown = rss[-1] / rss[1] - 1
    print(f"RSS from the first minute with 64 connections to the end: {100 * grown:+.2f} %")
    return {"counts": counts, "rss": rss, "stuck": len(stuck), "requests": requests, "grown": grown}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = ("speed", "windows", "pairs", "overhead", "latency", "soak")
    parser.add_argument("what", choices=commands)
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--before", type=int, help="port of the build to compare with (pairs)")
    parser.add_argument("--tokens", type=int, default=300, help="of an answer")
    parser.add_argument("--words", type=int, default=1300, help="of the long prompt (latency)")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--minutes", type=float, default=10, help="(soak)")
    parser.add_argument("--pid", type=int, help="of the server, to watch its memory (soak)")
    parser.add_argument("--json", help="also write the numbers to this file")
    options = parser.parse_args()
    if options.what == "soak" and options.pid is None:
        parser.error("soak needs --pid")
    if options.what == "pairs" and options.before is None:
        parser.error("pairs needs --before")
    client = Client(options.port)
    if options.what == "pairs":
        servers = {"before": Client(options.before), "after": client}
        result = pairs(servers, options.tokens, options.rounds)
    elif options.what == "speed":
        result = speed(client, options.tokens, options.rounds)
    elif options.what == "windows":
        result = windows(client, options.tokens, options.rounds)
    elif options.what == "overhead":
        result = overhead(client, options.tokens, options.rounds)
    elif options.what == "latency":
        result = latency(client, options.words, options.rounds)
    else:
        result = soak(client, options.minutes, options.pid)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"what": options.what, "load": os.getloadavg(), **result}, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
