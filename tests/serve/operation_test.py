"""Running the server: start and end, configuration, logs, metrics, saved slots."""

import json
import re
import signal
import subprocess
import threading
import time
import unittest

from live_server import MODEL, PROGRAM, LiveTest, Server, need_program, temporary_folder

CHAT = "/v1/chat/completions"
STORY = {"messages": [{"role": "user", "content": "Tell me a story about a dog."}], "seed": 1}


def setUpModule():
    need_program()


class MetricsTest(LiveTest):
    # https://prometheus.io/docs/instrumenting/exposition_formats/
    SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[a-z]+="[^"\\]*"\})? (\S+)$')

    def samples(self):
        reply = self.server.get("/metrics")
        self.assertEqual(reply.status, 200)
        self.assertEqual(reply.headers["content-type"].split(";")[0], "text/plain")
        text = reply.body.decode()
        self.assertTrue(text.endswith("\n"))
        samples, types, helps = {}, {}, set()
        for line in text.splitlines():
            if line.startswith("# HELP "):
                helps.add(line.split()[2])
            elif line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                self.assertNotIn(name, types, "a family stands in one place")
                self.assertIn(kind, ("counter", "gauge", "histogram"))
                types[name] = kind
                current = name
            else:
                found = self.SAMPLE.match(line)
                self.assertTrue(found, line)
                name, labels, value = found.groups()
                family = re.sub(r"_(bucket|sum|count)$", "", name)
                family = name if name in types else family
                self.assertEqual(family, current, "samples stand under their family")
                key = name + (labels or "")
                self.assertNotIn(key, samples)
                samples[key] = float(value)
        self.assertEqual(set(types), helps)
        for name, kind in types.items():
            self.assertTrue(name.startswith("strata:"), name)
            self.assertEqual(name.endswith("_total"), kind == "counter", name)
            if kind == "histogram":
                self.check_histogram(name, samples)
        return samples

    def check_histogram(self, name, samples):
        buckets = [v for k, v in samples.items() if k.startswith(name + "_bucket{")]
        self.assertEqual(buckets, sorted(buckets), "buckets are cumulative")
        self.assertEqual(buckets[-1], samples[name + "_count"])
        self.assertIn(name + '_bucket{le="+Inf"}', samples)
        self.assertGreaterEqual(samples[name + "_sum"], 0)

    def test_the_text_is_well_formed_and_counts(self):
        before = self.samples()
        self.assertEqual(self.server.post(CHAT, {**STORY, "max_tokens": 9}).status, 200)
        after = self.samples()
        for name, more in (
            ('strata:requests_total{finish="length"}', 1),
            ("strata:tokens_predicted_total", 9),
            ("strata:time_to_first_token_seconds_count", 1),
            ("strata:time_per_output_token_seconds_count", 8),
        ):
            self.assertEqual(after[name] - before[name], more, name)
        self.assertGreater(after["strata:moe_cache_misses_total"], 0)
        self.assertEqual(after["strata:requests_processing"], 0)
        for name in ("hits", "misses"):
            layers = [
                v for k, v in after.items() if k.startswith(f"strata:moe_cache_layer_{name}_total")
            ]
            self.assertEqual(len(layers), 12)
            self.assertEqual(sum(layers), after[f"strata:moe_cache_{name}_total"])

    def test_status_is_what_the_page_reads(self):
        status = self.server.status()
        self.assertEqual(len(status["slots"]), 8)
        self.assertEqual(len(status["experts"]["layers"]), 12)
        self.assertEqual(status["model"]["experts"], 64)
        self.assertIn("dense", status["windows"]["parts"])


class CacheTest(LiveTest):
    OPTIONS = ("--expert-cache", "200")

    def test_residents_are_shown(self):
        self.server.post(CHAT, {**STORY, "max_tokens": 60})
        experts = self.server.status()["experts"]
        self.assertTrue(experts["caching"])
        self.assertEqual(experts["slots"], 200)
        self.assertGreater(experts["bytes"], 0)
        residents = 0
        for layer in experts["layers"]:
            self.assertEqual(len(layer["resident"]), 16)
            residents += bin(int(layer["resident"], 16)).count("1")
        self.assertLessEqual(residents, 200)
        self.assertEqual(sum(layer["slots"] for layer in experts["layers"]), 200)


class EndTest(unittest.TestCase):
    def ask_slowly(self, server, tokens):
        stream = server.stream(CHAT, {**STORY, "max_tokens": tokens, "ignore_eos": True})
        next(iter(stream))
        return stream

    def test_a_running_answer_is_finished(self):
        server = Server()
        stream = self.ask_slowly(server, 300)
        server.process.send_signal(signal.SIGTERM)
        events = list(stream)
        self.assertEqual(events[-1], ("", "[DONE]"))
        self.assertEqual(events[-2][1]["choices"][0]["finish_reason"], "length")
        self.assertEqual(server.finish(), 0)

    def test_new_requests_are_refused_meanwhile(self):
        server = Server("--window", "16", "--slots", "2")
        stream = self.ask_slowly(server, 1900)
        server.process.send_signal(signal.SIGTERM)
        seen = set()
        try:
            for _ in range(50):
                health = server.get("/health")
                reply = server.post(CHAT, STORY)
                seen.add((health.status, reply.status))
                if (503, 503) in seen:
                    self.assertGreaterEqual(int(reply.headers["retry-after"]), 1)
                    break
        except OSError:
            pass  # it has gone by now
        list(stream)
        self.assertIn((503, 503), seen)
        self.assertEqual(server.finish(), 0)

    def test_an_answer_that_takes_too_long_is_handed_back(self):
        server = Server("--grace", "0")
        stream = self.ask_slowly(server, 1900)
        server.process.send_signal(signal.SIGTERM)
        events = list(stream)
        self.assertEqual(events[-1][1]["error"]["code"], "shutting_down")
        self.assertEqual(server.finish(), 0)

    def test_the_second_signal_ends_it_at_once(self):
        server = Server("--grace", "1000")
        stream = self.ask_slowly(server, 1900)
        server.process.send_signal(signal.SIGINT)
        time.sleep(0.02)
        server.process.send_signal(signal.SIGINT)
        code = server.finish()
        stream.close()
        self.assertEqual(code, 130)

    def test_an_idle_server_ends_quickly(self):
        server = Server()
        start = time.monotonic()
        idle = server.connection()
        self.addCleanup(idle.close)
        idle.request("GET", "/health")
        idle.getresponse().read()
        self.assertEqual(server.stop(), 0)
        self.assertLess(time.monotonic() - start, 20)


class StartTest(unittest.TestCase):
    def refused(self, *options):
        done = subprocess.run(
            [str(PROGRAM), "serve", str(MODEL), "--port", "0", *options],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stderr

    def test_listening_to_all_needs_a_key_or_insisting(self):
        code, text = self.refused("--host", "0.0.0.0")
        self.assertEqual(code, 2)
        self.assertIn("--api-key-file", text)
        self.assertIn("--open", text)
        server = Server("--host", "0.0.0.0", "--open")
        self.assertEqual(server.get("/health").status, 200)
        self.assertEqual(server.stop(), 0)

    def test_what_cannot_be_obeyed_is_told(self):
        folder = temporary_folder(self)
        (folder / "empty").write_text("\n")
        for options, code, part in (
            (("--slots", "0"), 2, "--slots"),
            (("--slots", "16", "--window", "16"), 2, "window"),
            (("--port", "70000"), 2, "--port"),
            (("--seed", "1"), 2, "--seed"),
            (("--host", "no.such.host.example", "--open"), 4, "no.such.host.example"),
            (("--api-key-file", str(folder / "none")), 4, "none"),
            (("--api-key-file", str(folder / "empty")), 2, "empty"),
            (("--slots-folder", str(folder / "none")), 4, "none"),
            (("--temp", "-1"), 2, "temperature"),
        ):
            with self.subTest(options=options):
                got, text = self.refused(*options)
                self.assertEqual(got, code, text)
                self.assertIn(part, text)

    def test_options_come_from_a_file_too(self):
        folder = temporary_folder(self)
        (folder / "key").write_text("from a file\n")
        config = folder / "serve.toml"
        config.write_text(
            f'name = "my model"\nslots = 3\ngreedy = true\nopen = false\n'
            f'api-key-file = "{folder / "key"}"\n'
            'allowed-host = ["a.lan", "b.lan"]\n'
        )
        server = Server("--config", str(config), "--slots", "2")
        self.addCleanup(server.stop)
        headers = {"Authorization": "Bearer from a file"}
        models = server.request("GET", "/v1/models", headers=headers).json()
        self.assertEqual(models["data"][0]["id"], "my model")
        slots = server.request("GET", "/slots", headers=headers).json()
        self.assertEqual(len(slots), 2, "the command line has the last word")
        self.assertEqual(server.get("/health", Host="b.lan").status, 200)

    def test_a_wrong_config_is_told(self):
        folder = temporary_folder(self)
        for text, part in (
            ("slotz = 3\n", "slotz"),
            ("slots = 0\n", "--slots"),
            ("[server]\nslots = 3\n", "server.slots"),
            ('log = "xml"\n', "--log"),
        ):
            with self.subTest(text=text):
                (folder / "c.toml").write_text(text)
                code, told = self.refused("--config", str(folder / "c.toml"))
                self.assertEqual(code, 2, told)
                self.assertIn(part, told)

    def test_the_log_can_be_json(self):
        server = Server("--log", "json")
        server.post(CHAT, {**STORY, "max_tokens": 2})
        server.get("/health")
        self.assertEqual(server.stop(), 0)
        events = [json.loads(line) for line in server.lines]
        names = [event["event"] for event in events]
        self.assertEqual(names, ["load", "ready", "request", "draining", "stopped"])
        request = events[2]
        self.assertEqual((request["method"], request["path"]), ("POST", CHAT))
        self.assertEqual(request["status"], 200)
        self.assertGreater(request["ms"], 0)
        self.assertNotIn("dog", json.dumps(events), "prompts are the users' own")


class SlotsTest(unittest.TestCase):
    def setUp(self):
        self.folder = temporary_folder(self)

    def start(self, *options):
        server = Server("--slots", "1", "--slots-folder", str(self.folder), *options)
        self.addCleanup(server.stop)
        return server

    def test_a_conversation_survives_a_restart(self):
        server = self.start("--greedy")
        body = {**STORY, "max_tokens": 20}
        answer = server.post(CHAT, body).json()
        saved = server.post("/slots/0?action=save", {"filename": "dog.slot"}).json()
        self.assertGreater(saved["n_saved"], 20)
        self.assertEqual(saved["n_written"], (self.folder / "dog.slot").stat().st_size)
        erased = server.post("/slots/0?action=erase", {}).json()
        self.assertEqual(erased["n_erased"], saved["n_saved"])
        self.assertEqual(server.stop(), 0)

        server = self.start("--greedy", "--threads", "1")
        restored = server.post("/slots/0?action=restore", {"filename": "dog.slot"}).json()
        self.assertEqual(restored["n_restored"], saved["n_saved"])
        again = server.post(CHAT, body).json()
        self.assertEqual(again["choices"], answer["choices"])
        usage = again["usage"]
        self.assertEqual(
            usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"] - 1
        )

    def test_what_cannot_be_restored_is_told(self):
        server = self.start()
        server.post(CHAT, {**STORY, "max_tokens": 2})
        self.assertEqual(server.post("/slots/0?action=save", {"filename": "a"}).status, 200)
        good = (self.folder / "a").read_bytes()
        for name, data in (
            ("short", good[:20]),
            ("cut", good[:-1]),
            ("long", good + b"x"),
            ("magic", b"X" + good[1:]),
            ("version", good[:8] + b"\xff" + good[9:]),
            ("model", good[:16] + bytes(8) + good[24:]),
            ("tokens", good[:24] + b"\xff" * 8 + good[32:]),
            ("id", good[:32] + b"\xff\xff\xff\x7f" + good[36:]),
        ):
            with self.subTest(name=name):
                (self.folder / name).write_bytes(data)
                reply = server.post("/slots/0?action=restore", {"filename": name})
                self.assertEqual(reply.status, 400, reply.body)
                self.assertIn(name, reply.json()["error"]["message"])
        self.assertEqual(server.post("/slots/0?action=restore", {"filename": "b"}).status, 404)

    def test_only_plain_names_and_known_slots(self):
        server = self.start()
        for name in ("", "..", "../a", "/etc/passwd", "a/b", ".hidden", "a\u0000b"):
            reply = server.post("/slots/0?action=save", {"filename": name})
            self.assertEqual(reply.status, 400, name)
        self.assertEqual(server.post("/slots/1?action=erase", {}).status, 404)
        self.assertEqual(server.post("/slots/x?action=erase", {}).status, 404)
        self.assertEqual(server.post("/slots/0?action=frobnicate", {}).status, 400)

    def test_a_busy_slot_is_left_alone(self):
        server = self.start()
        stream = server.stream(CHAT, {**STORY, "max_tokens": 1900, "ignore_eos": True})
        next(iter(stream))
        self.assertEqual(server.post("/slots/0?action=erase", {}).status, 409)
        stream.close()

    def test_without_a_folder_nothing_is_saved(self):
        server = Server("--slots", "1")
        self.addCleanup(server.stop)
        reply = server.post("/slots/0?action=save", {"filename": "a"})
        self.assertEqual(reply.status, 501)
        self.assertIn("--slots-folder", reply.json()["error"]["message"])


class LoadingTest(unittest.TestCase):
    def test_one_port_is_one_server(self):
        server = Server()
        self.addCleanup(server.stop)
        done = subprocess.run(
            [str(PROGRAM), "serve", str(MODEL), "--port", str(server.port)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.assertEqual(done.returncode, 4)
        self.assertIn(str(server.port), done.stderr)

    def test_many_status_requests_beside_an_answer(self):
        server = Server()
        self.addCleanup(server.stop)
        stream = server.stream(CHAT, {**STORY, "max_tokens": 400, "ignore_eos": True})

        def look():
            for _ in range(20):
                self.assertEqual(server.get("/v1/status").status, 200)

        threads = [threading.Thread(target=look) for _ in range(4)]
        for thread in threads:
            thread.start()
        events = list(stream)
        for thread in threads:
            thread.join()
        self.assertEqual(events[-1], ("", "[DONE]"))


if __name__ == "__main__":
    unittest.main()
