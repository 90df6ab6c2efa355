"""Tests of bench/compare_llama.py with small programs that stand in for the engines.

python3 -m unittest discover -s tests/tools -p '*_test.py'
"""

import contextlib
import io
import json
import os
import pathlib
import stat
import sys
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import compare_llama  # noqa: E402
from compare import machine, report  # noqa: E402

# An engine that answers in one of the two dialects. Its speed in call number i is SPEEDS[i], for pp
# and tg; every call is appended to LOG. MODE makes it misbehave.
FAKE_ENGINE = """#!{python}
import json, os, sys, time
NAME, DIALECT, SPEEDS, LOG, MODE = {name!r}, {dialect!r}, {speeds!r}, {log!r}, {mode!r}
with open(LOG, "a+") as log:
    log.seek(0)
    call = sum(line.split()[0] == NAME for line in log)
    log.write(NAME + " " + " ".join(sys.argv[1:]) + chr(10))
def option(name):
    return sys.argv[len(sys.argv) - 1 - sys.argv[::-1].index(name) + 1]
if MODE == "exit":
    print("first line", file=sys.stderr)
    print("error: tensor 'x' is odd", file=sys.stderr)
    sys.exit(3)
if MODE == "illegal":
    os.kill(os.getpid(), 4)
if MODE == "hang":
    time.sleep(60)
pp, tg = SPEEDS[call % len(SPEEDS)]
threads = int(option("-t"))
tests = [("pp", int(option("-p")), pp), ("tg", int(option("-n")), tg)]
rows = []
for kind, count, speed in tests:
    if count == 0 or (MODE == "no_tg" and kind == "tg"):
        continue
    samples = [speed * f for f in (0.5, 1.0, 1.1)]
    if DIALECT == "strata":
        rows.append(dict(model="m", test=kind + str(count), n_prompt=count if kind == "pp" else 0,
                         n_gen=count if kind == "tg" else 0, threads=threads, isa="avx512",
                         samples_tok_s=samples, median_tok_s=speed, read_bandwidth_gb_s=20.0 + call,
                         bytes_per_token=187000000, share_of_peak=0.9,
                         commit="abc" + (str(call) if MODE == "version_changes" else "")))
    else:
        rows.append(dict(build_commit="0c1e570", build_number=17, model_type="moe", n_batch=2048,
                         n_threads=threads, n_prompt=count if kind == "pp" else 0,
                         n_gen=count if kind == "tg" else 0, flash_attn=1, samples_ts=samples))
        if MODE == "mixed_too":
            rows.append(dict(rows[-1], n_prompt=5, n_gen=5))
if MODE == "nan":
    rows[0]["samples_ts"] = [float("nan")]
if MODE == "lacks_field":
    del rows[0]["n_threads"]
text = json.dumps(rows, indent=2)
if MODE == "garbage":
    text = "usage: something else"
if MODE == "noise":
    text = "[info] loading" + chr(10) + text + chr(10) + "done"
if DIALECT == "strata":
    if MODE != "no_file":
        with open(option("--json"), "w") as f:
            f.write(text)
else:
    print(text)
"""


class CompareCase(unittest.TestCase):
    """A scratch folder with a model file and fake engines."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="compare-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.log = self.folder / "calls.log"
        self.model = self.folder / "model.gguf"
        self.model.write_bytes(b"GGUF" + bytes(996))

    def engine(self, name, dialect, speeds, mode=""):
        path = self.folder / name
        path.write_text(
            FAKE_ENGINE.format(
                python=sys.executable,
                name=name,
                dialect=dialect,
                speeds=speeds,
                log=str(self.log),
                mode=mode,
            )
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def run_compare(self, *arguments):
        """Exit code, standard output, standard error."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = compare_llama.main([str(self.model), "-t", "2", *map(str, arguments)])
        return code, out.getvalue(), err.getvalue()

    def calls(self):
        return [line.split() for line in self.log.read_text().splitlines()]


class Pairing(CompareCase):
    def compare_three(self, *more):
        strata = self.engine("strata", "strata", [(100, 10), (400, 40), (200, 20)])
        llama = self.engine("llama", "llama", [(50, 10), (100, 20), (100, 10)])
        ik = self.engine("ik", "llama", [(100, 40), (200, 20), (400, 10)])
        report = self.folder / "report.json"
        code, out, err = self.run_compare(
            "--strata",
            strata,
            "--llama-bench",
            f"{llama}=llama.cpp",
            "--llama-bench",
            f"{ik}=ik:-rtr 1 -fmoe 1",
            "--rounds",
            3,
            "--json",
            report,
            *more,
        )
        self.assertEqual(code, 0, err)
        return json.loads(report.read_text()), out

    def test_engines_alternate_and_get_the_same_work(self):
        self.compare_three("-p", 64, "-n", 8, "-r", 4)
        calls = self.calls()
        self.assertEqual(
            [c[0] for c in calls], "strata llama ik llama ik strata ik strata llama".split()
        )
        for call in calls:
            text = " ".join(call)
            for words in (f"-m {self.model}", "-p 64", "-n 8", "-r 4", "-t 2"):
                self.assertIn(words, text)
        self.assertEqual(calls[0][1], "bench")
        self.assertNotIn("-rtr", calls[1])
        self.assertEqual(calls[2][-4:], ["-rtr", "1", "-fmoe", "1"])

    def test_ratios_are_of_the_same_round(self):
        report, _ = self.compare_three()
        rows = {(row["test"], row["engine"]): row for row in report["summary"]}
        self.assertEqual(rows["pp512", "llama.cpp"]["per_round_ratio"], [2, 4, 2])
        self.assertEqual(
            rows["pp512", "llama.cpp"]["strata_ratio"], {"median": 2, "min": 2, "max": 4}
        )
        self.assertEqual(rows["tg32", "ik"]["per_round_ratio"], [0.25, 2, 2])
        self.assertEqual(rows["tg32", "ik"]["strata_ratio"], {"median": 2, "min": 0.25, "max": 2})
        self.assertEqual(rows["pp512", "strata"]["tok_s"], {"median": 200, "min": 100, "max": 400})
        self.assertNotIn("strata_ratio", rows["pp512", "strata"])

    def test_report_names_machine_versions_and_every_sample(self):
        report, out = self.compare_three()
        self.assertEqual(
            report["machine"]["read_bandwidth_gb_s"], {"median": 21, "min": 20, "max": 22}
        )
        self.assertTrue(report["machine"]["cpu"])
        self.assertGreaterEqual(report["machine"]["cores_usable"], 1)
        self.assertEqual(
            [e["version"] for e in report["engines"]],
            ["abc", "0c1e570 (build 17)", "0c1e570 (build 17)"],
        )
        self.assertEqual(report["engines"][2]["extra_args"], ["-rtr", "1", "-fmoe", "1"])
        self.assertEqual(report["engines"][0]["settings"]["tg32"]["isa"], "avx512")
        self.assertEqual(report["rounds"][1]["samples_tok_s"]["llama.cpp"]["tg32"], [10, 20, 22])
        self.assertEqual(report["model"], {"file": "model.gguf", "bytes": 1000})
        self.assertNotIn(str(self.folder), json.dumps(report))
        self.assertIn("| pp512 | llama.cpp | 100.0 (50.0 to 100.0) | 2.00x (2.00 to 4.00) |", out)
        self.assertIn("median 21.0 GB/s (20.0 to 22.0)", out)
        self.assertIn("- ik: 0c1e570 (build 17), -rtr 1 -fmoe 1", out)

    def test_markdown_and_svg_files(self):
        table, plot = self.folder / "t.md", self.folder / "p.svg"
        _, out = self.compare_three("--markdown", table, "--svg", plot)
        self.assertEqual(table.read_text(), out)
        tree = xml.etree.ElementTree.parse(plot)
        bars = [r for r in tree.iter("{http://www.w3.org/2000/svg}rect") if r.get("x")]
        self.assertEqual(len(bars), 6)
        widths = [float(r.get("width")) for r in bars[:3]]
        self.assertEqual(
            widths, [210, 105, 210]
        )  # medians 200, 100, 200 of a largest 400 on 420 units

    def test_one_test_alone(self):
        report, _ = self.compare_three("-p", 0, "-n", 8)
        self.assertEqual({row["test"] for row in report["summary"]}, {"tg8"})

    def test_log_lines_around_the_json_and_mixed_tests_do_no_harm(self):
        strata = self.engine("strata", "strata", [(10, 1)])
        for mode in ("noise", "mixed_too"):
            other = self.engine("other", "llama", [(5, 1)], mode)
            code, out, err = self.run_compare(
                "--strata", strata, "--llama-bench", other, "--rounds", 1
            )
            self.assertEqual(code, 0, err)
            self.assertIn("| pp512 | other | 5.0 (5.0 to 5.0) | 2.00x", out)


class Failures(CompareCase):
    def failing(self, strata_mode="", other_mode="", *more):
        """The one-line message of a comparison that must fail."""
        strata = self.engine("strata", "strata", [(100, 10)], strata_mode)
        other = self.engine("other", "llama", [(100, 10)], other_mode)
        code, out, err = self.run_compare(
            "--strata", strata, "--llama-bench", other, "--rounds", 2, *more
        )
        self.assertEqual(code, 1)
        self.assertEqual(out, "")
        self.assertNotIn("Traceback", err)
        return err[err.index("compare_llama:") :]

    def test_exit_code_and_its_reason(self):
        message = self.failing(other_mode="exit")
        self.assertIn("other: exit code 3", message)
        self.assertIn("error: tensor 'x' is odd", message)

    def test_signal_is_named(self):
        self.assertIn("strata: killed by SIGILL", self.failing("illegal"))

    def test_timeout(self):
        self.assertIn("other: no end after 1 s", self.failing("", "hang", "--timeout", 1))

    def test_unparsable_output(self):
        message = self.failing(other_mode="garbage")
        self.assertIn(
            "other: no JSON array in its output, which begins: usage: something else", message
        )
        self.assertIn("strata: no JSON array", self.failing("garbage"))

    def test_result_file_not_written(self):
        self.assertIn("strata: wrote no result file", self.failing("no_file"))

    def test_missing_test(self):
        self.assertIn(
            "other: no result for tg32; it reported pp512", self.failing(other_mode="no_tg")
        )

    def test_missing_field(self):
        self.assertIn(
            "other: its JSON lacks something or has an odd value: KeyError: 'n_threads'",
            self.failing(other_mode="lacks_field"),
        )

    def test_not_a_number(self):
        self.assertIn("other: pp512 has unusable samples", self.failing(other_mode="nan"))

    def test_version_that_changes_between_runs(self):
        self.assertIn(
            "strata: its version changed between runs: abc0, abc1", self.failing("version_changes")
        )

    def test_other_thread_count(self):
        strata = self.engine("strata", "strata", [(100, 10)])
        other = self.engine("other", "llama", [(100, 10)])
        code, _, err = self.run_compare("--strata", strata, "--llama-bench", f"{other}=other:-t 1")
        self.assertEqual(code, 1)
        self.assertIn("other: pp512 ran with 1 threads, 2 were asked for", err)

    def test_missing_programs_are_told_before_anything_runs(self):
        strata = self.engine("strata", "strata", [(100, 10)])
        plain = self.folder / "plain"
        plain.write_text("not a program")
        os.chmod(plain, 0o644)
        for arguments, message in (
            (
                ["--strata", strata, "--llama-bench", "/nowhere/llama-bench"],
                "there is no program /nowhere",
            ),
            (["--strata", strata, "--llama-bench", plain], "is not an executable file"),
            (
                ["--strata", "/nowhere/strata", "--llama-bench", strata],
                "--strata: there is no program",
            ),
            (["--strata", strata], "nothing to compare with"),
            (
                [
                    "--strata",
                    strata,
                    "--llama-bench",
                    f"{strata}=x",
                    "--llama-bench",
                    f"{strata}=x",
                ],
                "two engines are called x",
            ),
            (
                ["--strata", strata, "--llama-bench", f"{strata}=x:'open"],
                "into arguments: No closing quotation",
            ),
            (
                ["--strata", strata, "--llama-bench", strata, "--json", "/nowhere/a.json"],
                "its folder does not exist",
            ),
        ):
            code, _, err = self.run_compare(*arguments)
            self.assertEqual(code, 1, err)
            self.assertIn(message, err)
        self.assertFalse(self.log.exists())

    def test_missing_model(self):
        self.model.unlink()
        self.assertIn("there is no model file", self.failing())

    def test_usage_errors(self):
        for arguments in (["-p", 0, "-n", 0], ["--rounds", 0], ["-t", 0], ["-p", -1], ["-r", "x"]):
            with self.assertRaises(SystemExit) as ended:
                self.run_compare(*arguments)
            self.assertEqual(ended.exception.code, 2)


# The low-level bindings that llama_python_bench.py uses; writes what is decoded to LOG. A batch
# takes TIME seconds, so that speeds have an upper bound a test can check.
FAKE_BINDINGS = """
import time
log = open({log!r}, "w")
decoded = [0]
def llama_log_callback(function): return function
def llama_log_set(callback, data): callback(0, b"text", None)
def llama_backend_init(): pass
class Params: pass
def llama_model_default_params(): return Params()
def llama_context_default_params(): return Params()
def llama_model_load_from_file(path, params): return None if b"bad" in path else "model"
def llama_init_from_model(model, params):
    assert params.n_threads == params.n_threads_batch
    print("context", params.n_ctx, "threads", params.n_threads, file=log)
    return "context"
def llama_model_get_vocab(model): return "vocab"
def llama_vocab_n_tokens(vocab): return 100
def llama_get_memory(context): return "memory"
def llama_memory_clear(memory, data): print("clear", file=log)
def llama_batch_get_one(tokens, count):
    assert len(tokens) == count and all(0 <= t < 100 for t in tokens)
    return count
def llama_decode(context, batch):
    time.sleep({time!r})
    print("decode", batch, file=log)
    return {status!r}
def llama_synchronize(context): print("wait", file=log)
def llama_free(context): pass
def llama_model_free(model): log.close()
"""


class Bindings(CompareCase):
    """--llama-python, with a package in PYTHONPATH that stands in for llama-cpp-python."""

    def install(self, package_text, bindings_text=""):
        package = self.folder / "llama_cpp"
        package.mkdir()
        (package / "__init__.py").write_text(package_text)
        (package / "llama_cpp.py").write_text(bindings_text)
        patch = unittest.mock.patch.dict(os.environ, PYTHONPATH=str(self.folder))
        patch.start()
        self.addCleanup(patch.stop)

    def compare(self, *more):
        strata = self.engine("strata", "strata", [(100, 10)])
        return self.run_compare(
            "--strata", strata, "--rounds", 1, *more, "--llama-python", sys.executable
        )

    def install_fake(self, time=0.0, status=0):
        self.decoded = self.folder / "decoded.log"
        self.install(
            '__version__ = "9.9"',
            FAKE_BINDINGS.format(log=str(self.decoded), time=time, status=status),
        )

    def test_work_is_that_of_llama_bench(self):
        self.install_fake()
        code, out, err = self.compare("-p", 3000, "-n", 2, "-r", 2)
        self.assertEqual(code, 0, err)
        self.assertIn("- llama-cpp-python: llama-cpp-python 9.9", out)
        prompt = ["clear", "decode 2048", "wait", "decode 952", "wait"]
        token = ["clear", "decode 1", "wait", "decode 1", "wait"]
        self.assertEqual(
            self.decoded.read_text().splitlines(),
            ["context 3000 threads 2", *prompt * 3, *token * 3],  # the first of each is untimed
        )

    def test_speed_is_tokens_by_time(self):
        self.install_fake(time=0.02)
        report = self.folder / "report.json"
        code, _, err = self.compare("-p", 100, "-n", 3, "-r", 1, "--json", report)
        self.assertEqual(code, 0, err)
        samples = json.loads(report.read_text())["rounds"][0]["samples_tok_s"]["llama-cpp-python"]
        for test, fastest in (("pp100", 100 / 0.02), ("tg3", 1 / 0.02)):
            self.assertEqual(len(samples[test]), 1)
            self.assertLessEqual(samples[test][0], fastest)
            self.assertGreater(
                samples[test][0], fastest / 50
            )  # a busy machine may be slow, not wrong units

    def test_failing_decode(self):
        self.install_fake(status=1)
        code, _, err = self.compare()
        self.assertEqual(code, 1)
        self.assertIn("llama_decode of 512 tokens returned 1", err)

    def test_model_that_does_not_load(self):
        self.install_fake()
        self.model = self.model.rename(self.folder / "bad.gguf")
        code, _, err = self.compare()
        self.assertEqual(code, 1)
        self.assertIn("llama.cpp cannot load", err)

    def test_python_without_the_package(self):
        self.install("raise ImportError('libllama.so is not there')")
        code, _, err = self.compare()
        self.assertEqual(code, 1)
        self.assertIn("llama-cpp-python: exit code 1", err)
        self.assertIn("has no usable llama-cpp-python (libllama.so is not there)", err)


class Disturbance(unittest.TestCase):
    def setUp(self):
        self.before = {"busy": 100.0, "steal": 1.0, "all": 200.0, "ours": 10.0}

    def test_shares(self):
        after = {"busy": 118.0, "steal": 3.0, "all": 220.0, "ours": 23.0}
        shares = machine.disturbance(self.before, after)
        self.assertAlmostEqual(shares["other_programs"], 5 / 20)
        self.assertAlmostEqual(shares["host"], 2 / 20)

    def test_rounding_of_the_counters_is_not_a_negative_share(self):
        after = {"busy": 110.0, "steal": 1.0, "all": 220.0, "ours": 20.5}
        self.assertEqual(machine.disturbance(self.before, after)["other_programs"], 0)

    def test_unknown(self):
        self.assertIsNone(machine.disturbance({}, {}))
        self.assertIsNone(machine.disturbance(self.before, self.before))

    def test_table_tells_of_a_busy_machine(self):
        document = {
            "machine": {"cpu": "c", "cores_usable": 2, "system": "s"},
            "model": {"file": "m", "bytes": 1},
            "threads": 2,
            "repetitions": 3,
            "engines": [],
            "summary": [],
            "rounds": [{"disturbed": {"other_programs": 0.3, "host": 0.0}}, {"disturbed": None}],
        }
        text = report.markdown(document)
        self.assertIn(
            "not a quiet machine: other programs took up to 30 % of a round's CPU time", text
        )
        self.assertNotIn("the host took", text)


if __name__ == "__main__":
    unittest.main()
