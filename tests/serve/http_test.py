"""HTTP itself: malformed, slow and large requests, clients that vanish, who may ask."""

import concurrent.futures
import json
import socket
import threading
import time
import unittest

from live_server import LiveTest, Server, need_program

CHAT = "/v1/chat/completions"
ENDLESS = {
    "messages": [{"role": "user", "content": "Tell me a story."}],
    "ignore_eos": True,
    "max_tokens": 1900,
}


def read_reply(connection: socket.socket) -> bytes:
    """Everything until the server closes the connection."""
    received = b""
    while True:
        try:
            piece = connection.recv(65536)
        except ConnectionResetError:
            return received
        if not piece:
            return received
        received += piece


class RawTest(LiveTest):
    def send(self, raw: bytes) -> bytes:
        with self.server.socket() as connection:
            connection.sendall(raw)
            return read_reply(connection)

    def assert_status(self, reply: bytes, status: int):
        self.assertEqual(reply[:13], f"HTTP/1.1 {status} ".encode(), reply)

    def test_requests_that_could_be_smuggled_are_refused(self):
        for headers in (
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length : 5\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "X: a\nContent-Length: 5\r\n",
        ):
            with self.subTest(headers=headers):
                raw = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\nhello"
                reply = self.send(raw.encode() + b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                self.assertIn(reply[9:12], (b"400", b"501"))
                self.assertEqual(reply.count(b"HTTP/1.1"), 1, "one reply, then the end")

    def test_malformed_requests_get_an_error_and_the_server_lives(self):
        for raw, status in (
            (b"\r\n\r\n", 400),
            (b"hello\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\n\r\n", 400),
            (b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414),
            (b"GET / HTTP/3\r\nHost: localhost\r\n\r\n", 505),
            (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 40000 + b"\r\n\r\n", 431),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n", 400),
        ):
            with self.subTest(raw=raw[:30]):
                self.assert_status(self.send(raw), status)
        self.assertEqual(self.server.get("/health").status, 200)

    def test_bodies_that_are_no_json_are_refused(self):
        for body in (b"", b"{", b"[]", b"\xff", b'{"a":' + b"[" * 100_000, b'"text"'):
            with self.subTest(body=body[:20]):
                self.assert_error(self.server.post(CHAT, body), 400, "JSON")

    def test_a_body_that_is_too_large_is_refused(self):
        length = (16 << 20) + 1
        head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
        self.assert_status(self.send(head.encode()), 413)
        with self.server.socket() as connection:
            head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\n"
            connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
            chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
            reply = b""
            try:
                for _ in range(60):
                    connection.sendall(chunk)
            except OSError:
                pass
            try:
                reply = read_reply(connection)
            except OSError:
                pass
            self.assertNotIn(b" 200 ", reply)
        self.assertEqual(self.server.get("/health").status, 200)

    def test_chunked_bodies_are_taken(self):
        body = json.dumps({**ENDLESS, "max_tokens": 2}).encode()
        raw = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        pieces = [body[i : i + 7] for i in range(0, len(body), 7)]
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
        self.assert_status(self.send(raw.encode() + chunks + b"0\r\n\r\n"), 200)

    def test_connections_are_kept_alive(self):
        connection = self.server.connection()
        for _ in range(20):
            connection.request("GET", "/health")
            self.assertEqual(connection.getresponse().read(), b'{"status":"ok"}')
        connection.close()
        both = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        last = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        self.assertEqual(self.send(both + last).count(b'{"status":"ok"}'), 2, "sent at once")

    def test_a_refused_request_leaves_no_body_for_the_next(self):
        hidden = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
        raw = b"POST /health HTTP/1.1\r\nHost: evil.example\r\nContent-Length: %d\r\n\r\n"
        reply = self.send(raw % len(hidden) + hidden)
        self.assert_status(reply, 403)
        self.assertEqual(reply.count(b"HTTP/1.1"), 1)

    def test_unknown_paths_and_methods(self):
        self.assert_error(self.server.get("/v1/nothing"), 404, "/v1/nothing")
        reply = self.server.get(CHAT)
        self.assert_error(reply, 405, "POST")
        self.assertEqual(reply.headers["allow"], "POST")
        self.assertEqual(self.server.post("/v1/messages/x", {}).status, 404)
        self.assertEqual(self.server.get("/models").status, 200, "a base URL without /v1")
        self.assert_error(self.server.get("/v1/models/other"), 404, "other")

    def test_foreign_hosts_and_pages_are_refused(self):
        self.assertEqual(self.server.get("/health", Host="localhost").status, 200)
        self.assertEqual(self.server.get("/health", Host="evil.example").status, 403)
        self.assertEqual(self.server.get("/", Host="evil.example").status, 403)
        reply = self.server.post(CHAT, ENDLESS, {"Origin": "https://evil.example"})
        self.assert_error(reply, 403, "evil.example")
        own = f"http://127.0.0.1:{self.server.port}"
        reply = self.server.request("GET", "/v1/models", headers={"Origin": own})
        self.assertEqual(reply.status, 200)
        self.assertNotIn("access-control-allow-origin", reply.headers)

    def test_the_page_is_there_and_guarded(self):
        reply = self.server.get("/")
        self.assertEqual(reply.status, 200)
        self.assertIn("text/html", reply.headers["content-type"])
        self.assertIn("default-src 'none'", reply.headers["content-security-policy"])
        for path in ("/app.js", "/style.css", "/markdown.js", "/icon.svg"):
            self.assertEqual(self.server.get(path).status, 200, path)
        self.assertNotIn(b"http", self.server.get("/index.html").body.replace(b"http-equiv", b""))


class DisconnectTest(LiveTest):
    OPTIONS = ("--slots", "2", "--window", "64")

    def ended(self, status):
        return status["requests"]["ended"]["cancelled"]

    def test_a_client_that_vanishes_frees_its_slot(self):
        for stream in (True, False):
            with self.subTest(stream=stream):
                before = self.server.wait_until_idle()
                body = json.dumps({**ENDLESS, "stream": stream})
                connection = self.server.socket()
                head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
                connection.sendall(f"{head}\r\n{body}".encode())
                if stream:
                    self.assertIn(b"200", connection.recv(1000))
                else:
                    self.server.wait_until(
                        lambda s: any(slot["n_decoded"] > 5 for slot in s["slots"]), "an answer"
                    )
                connection.close()
                after = self.server.wait_until_idle()
                self.assertEqual(self.ended(after), self.ended(before) + 1)

    def test_clients_that_vanish_while_they_wait_do_not_get_a_turn(self):
        before = self.server.wait_until_idle()
        streams = [self.server.stream(CHAT, ENDLESS) for _ in range(6)]
        for stream in streams:
            stream.close()
        after = self.server.wait_until_idle()
        self.assertEqual(self.ended(after), self.ended(before) + 6)

    def test_many_clients_that_come_and_go(self):
        def client(number):
            for i in range(6):
                stream = self.server.stream(CHAT, {**ENDLESS, "max_tokens": 30})
                for count, _ in enumerate(stream):
                    if (number + i) % 3 and count >= number:
                        break
                stream.close()

        threads = [threading.Thread(target=client, args=(n,)) for n in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        status = self.server.wait_until_idle()
        self.assertEqual(status["requests"]["ended"]["error"], 0)


class CompanyTest(LiveTest):
    """Eight clients at once get, byte for byte, what each gets alone."""

    OPTIONS = ("--slots", "6", "--chunk", "16")  # two wait, and prompts come in pieces

    def bodies(self):
        for i in range(16):
            yield {
                "messages": [
                    {"role": "user", "content": f"Tell me story number {i}. " * (1 + i * 7 % 40)}
                ],
                "max_tokens": 30 + i % 7,
                "temperature": 0 if i % 2 else 1,
                "seed": i,
                "logprobs": True,
                "top_logprobs": 2,
            }

    def choice(self, server, body):
        return json.dumps(server.post(CHAT, body).json()["choices"][0])

    def test_answers_are_the_same_alone_and_beside_others(self):
        bodies = list(self.bodies())
        lonely = Server("--slots", "1")  # nothing is cached, nobody is there
        try:
            alone = []
            for body in bodies:
                alone.append(self.choice(lonely, body))
                lonely.post("/slots/0?action=erase", {})
        finally:
            lonely.stop()
        for _ in range(2):  # the second time, the prompts are found in slots
            with concurrent.futures.ThreadPoolExecutor(8) as clients:
                beside = list(clients.map(lambda body: self.choice(self.server, body), bodies))
            self.assertEqual(beside, alone)
        self.assertEqual(len(set(alone)), len(alone), "answers differ, so equality says something")


class QueueTest(LiveTest):
    OPTIONS = ("--slots", "3", "--queue", "4")

    def test_more_than_the_queue_holds_is_told_to_come_back(self):
        streams = [self.server.stream(CHAT, ENDLESS) for _ in range(3)]
        self.server.wait_until(
            lambda s: all(slot["phase"] != "idle" for slot in s["slots"]), "busy slots"
        )
        waiting = [self.server.stream(CHAT, ENDLESS) for _ in range(2)]
        self.server.wait_until(lambda s: s["requests"]["waiting"] == 2, "a queue")
        reply = self.server.post(CHAT, ENDLESS)
        error = self.assert_error(reply, 429, "waiting")
        self.assertEqual(error["type"], "rate_limit_error")
        self.assertGreaterEqual(int(reply.headers["retry-after"]), 1)
        for stream in streams + waiting:
            stream.close()
        self.server.wait_until_idle()
        self.assertEqual(self.server.post(CHAT, {**ENDLESS, "max_tokens": 2}).status, 200)


class SlowTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need_program()
        cls.server = Server("--max-connections", "4")
        cls.addClassCleanup(cls.server.stop)

    def test_a_head_that_drips_is_cut_off(self):
        with self.server.socket() as connection:
            start = time.monotonic()
            reply = b""
            try:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
                while not reply and time.monotonic() - start < 60:
                    connection.sendall(b"X: a\r\n")
                    connection.settimeout(0.5)
                    try:
                        reply = connection.recv(1000)
                    except TimeoutError:
                        pass
            except OSError:
                pass
            self.assertLess(time.monotonic() - start, 30)
            self.assertIn(b" 408 ", reply)

    def test_too_many_connections_are_refused_and_end(self):
        connections = [self.server.socket() for _ in range(4)]
        for connection in connections:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertIn(b" 200 ", connection.recv(1000))
        with self.server.socket() as one_more:
            self.assertIn(b" 503 ", read_reply(one_more))
        for connection in connections:
            connection.close()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                if self.server.get("/health").status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        self.fail("the server takes no more connections")


class KeyTest(LiveTest):
    OPTIONS = (
        "--api-key",
        "a key",
        "--cors-origin",
        "https://app.example",
        "--allowed-host",
        "box.lan",
    )

    def test_without_the_key_nothing_is_told(self):
        for path in ("/v1/models", "/metrics", "/v1/status", "/slots", "/nothing"):
            self.assertEqual(self.server.get(path).status, 401, path)
        reply = self.server.post(CHAT, ENDLESS)
        self.assertEqual(reply.json()["error"]["code"], "invalid_api_key")
        reply = self.server.post("/v1/messages", ENDLESS)
        self.assertEqual(reply.json()["error"]["type"], "authentication_error")
        self.assertEqual(self.server.get("/health").status, 200)
        self.assertEqual(self.server.get("/").status, 200)

    def test_both_ways_to_send_it(self):
        self.assertEqual(self.server.get("/v1/models", Authorization="Bearer a key").status, 200)
        reply = self.server.request("GET", "/v1/models", headers={"X-API-Key": "a key"})
        self.assertEqual(reply.status, 200)

    def test_pages_that_are_allowed(self):
        headers = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
        reply = self.server.request("OPTIONS", CHAT, headers=headers)
        self.assertEqual(reply.status, 204)
        self.assertEqual(reply.headers["access-control-allow-origin"], "https://app.example")
        self.assertIn("Authorization", reply.headers["access-control-allow-headers"])
        reply = self.server.request(
            "GET", "/v1/models", headers={**headers, "Authorization": "Bearer a key"}
        )
        self.assertEqual(reply.headers["access-control-allow-origin"], "https://app.example")

    def test_a_name_that_is_allowed(self):
        self.assertEqual(self.server.get("/health", Host="box.lan:80").status, 200)


if __name__ == "__main__":
    unittest.main()
