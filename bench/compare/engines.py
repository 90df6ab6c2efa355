"""The programs that compare_llama.py times: how each is called and how its JSON is read."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pathlib
import shlex
import shutil
import signal
import statistics
import subprocess
import tempfile
from collections.abc import Callable

STDERR_LINES_SHOWN = 12


class CompareError(Exception):
    """Something the user must know and can act on; its text is the whole message."""


@dataclasses.dataclass
class Measurement:
    """One test of one run: tokens/s of each repetition, and what the engine said of itself."""

    test: str
    samples: list[float]
    version: str
    threads: int
    details: dict

    @property
    def median(self) -> float:
        return statistics.median(self.samples)


@dataclasses.dataclass
class Workload:
    """What every engine is asked to do."""

    model: str
    n_prompt: int
    n_gen: int
    repetitions: int
    threads: int

    @property
    def tests(self) -> list[str]:
        names = [f"pp{self.n_prompt}"] if self.n_prompt else []
        return names + ([f"tg{self.n_gen}"] if self.n_gen else [])


@dataclasses.dataclass
class Engine:
    """A program that can be timed: its command line up to the options all engines share."""

    label: str
    command: list[str]
    extra_args: list[str]
    writes_json_file: bool
    adapt: Callable[[object], list[Measurement]]

    def run(self, work: Workload, timeout: float) -> dict[str, Measurement]:
        """Run once; the measurements by test. Raises CompareError on any failure."""
        with tempfile.TemporaryDirectory(prefix="compare-") as folder:
            path = pathlib.Path(folder) / "result.json"
            output = ["--json", str(path)] if self.writes_json_file else ["-o", "json"]
            command = [
                *self.command,
                "-m",
                work.model,
                "-p",
                str(work.n_prompt),
                "-n",
                str(work.n_gen),
                "-r",
                str(work.repetitions),
                "-t",
                str(work.threads),
                *output,
                *self.extra_args,
            ]
            stdout = run_command(self.label, command, timeout)
            text = read_result(self.label, path, command) if self.writes_json_file else stdout
        return self.measurements(parse_json_array(self.label, text), work)

    def measurements(self, document: list, work: Workload) -> dict[str, Measurement]:
        """Adapt the engine's JSON and check that it measured what was asked."""
        try:
            found = {m.test: m for m in self.adapt(document)}
        except (KeyError, TypeError, ValueError) as error:
            raise CompareError(
                f"{self.label}: its JSON lacks something or has an odd value: "
                f"{type(error).__name__}: {error}"
            ) from error
        for test in work.tests:
            if test not in found:
                raise CompareError(
                    f"{self.label}: no result for {test}; it reported "
                    f"{', '.join(found) or 'nothing'}"
                )
            check_measurement(self.label, found[test], work)
        return {test: found[test] for test in work.tests}


def check_measurement(label: str, m: Measurement, work: Workload) -> None:
    if m.threads != work.threads:
        raise CompareError(
            f"{label}: {m.test} ran with {m.threads} threads, {work.threads} were asked for; "
            "take -t out of its extra arguments"
        )
    if not m.samples or not all(math.isfinite(s) and s > 0 for s in m.samples):
        raise CompareError(f"{label}: {m.test} has unusable samples: {m.samples}")


def run_command(label: str, command: list[str], timeout: float) -> str:
    """The standard output of a command that must succeed."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except OSError as error:
        raise CompareError(f"{label}: cannot run {command[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise CompareError(
            f"{label}: no end after {timeout:.0f} s (--timeout): {shlex.join(command)}"
        ) from error
    if done.returncode != 0:
        tail = "\n".join(
            "  | " + line for line in done.stderr.strip().splitlines()[-STDERR_LINES_SHOWN:]
        )
        raise CompareError(
            f"{label}: {describe_exit(done.returncode)}: {shlex.join(command)}"
            + ("\n" + tail if tail else "\n  (nothing on standard error)")
        )
    return done.stdout


def describe_exit(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def read_result(label: str, path: pathlib.Path, command: list[str]) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise CompareError(
            f"{label}: wrote no result file, though it ended well: {shlex.join(command)}"
        ) from error


def parse_json_array(label: str, text: str) -> list:
    """The JSON array in a program's output; log lines before and after it are allowed."""
    decoder = json.JSONDecoder()
    offset = 0
    for line in text.splitlines(keepends=True):
        if line.startswith("["):
            try:
                value, _ = decoder.raw_decode(text, offset)
                if isinstance(value, list) and all(isinstance(item, dict) for item in value):
                    return value
            except json.JSONDecodeError:
                pass  # a log line may begin with a bracket too
        offset += len(line)
    start = text.strip()[:200] or "(nothing)"
    raise CompareError(f"{label}: no JSON array in its output, which begins: {start}")


def adapt_strata(document: list) -> list[Measurement]:
    """`strata bench --json`: the only place that knows its field names."""
    shared = ("isa", "read_bandwidth_gb_s", "bytes_per_token", "share_of_peak")
    return [
        Measurement(
            test=item["test"],
            samples=[float(s) for s in item["samples_tok_s"]],
            version=str(item["commit"]),
            threads=int(item["threads"]),
            details={key: item[key] for key in shared if item.get(key) is not None},
        )
        for item in document
    ]


def adapt_llama_bench(document: list) -> list[Measurement]:
    """llama-bench -o json, of llama.cpp and of ik_llama.cpp. Mixed pp+tg tests are skipped."""
    shared = (
        "model_type",
        "n_batch",
        "n_ubatch",
        "flash_attn",
        "type_k",
        "type_v",
        "backends",
        "cpu_info",
    )
    found = []
    for item in document:
        n_prompt, n_gen = int(item["n_prompt"]), int(item["n_gen"])
        if bool(n_prompt) == bool(n_gen):
            continue
        version = str(item["build_commit"])
        if item.get("build_number"):
            version += f" (build {item['build_number']})"
        found.append(
            Measurement(
                test=f"pp{n_prompt}" if n_prompt else f"tg{n_gen}",
                samples=[float(s) for s in item["samples_ts"]],
                version=version,
                threads=int(item["n_threads"]),
                details={key: item[key] for key in shared if key in item},
            )
        )
    return found


def find_program(path: str, option: str) -> str:
    """The full path of an executable, named by path or found in PATH."""
    found = shutil.which(os.path.expanduser(path))
    if found:
        return os.path.abspath(found)
    if os.path.exists(os.path.expanduser(path)):
        raise CompareError(f"{option}: {path} is not an executable file")
    raise CompareError(f"{option}: there is no program {path}")


def split_arguments(text: str, option: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise CompareError(f"{option}: cannot split {text!r} into arguments: {error}") from error


def strata_engine(path: str, extra: str) -> Engine:
    command = [find_program(path, "--strata"), "bench"]
    return Engine("strata", command, split_arguments(extra, "--strata-args"), True, adapt_strata)


def llama_bench_engine(spec: str) -> Engine:
    """From PATH[=LABEL[:extra args]]"""
    path, _, rest = spec.partition("=")
    label, _, extra = rest.partition(":")
    return Engine(
        label or pathlib.Path(path).name,
        [find_program(path, "--llama-bench")],
        split_arguments(extra, "--llama-bench"),
        False,
        adapt_llama_bench,
    )


def llama_python_engine(python: str) -> Engine:
    """llama_python_bench.py, run by the given interpreter."""
    script = pathlib.Path(__file__).resolve().parent / "llama_python_bench.py"
    command = [find_program(python, "--llama-python"), str(script)]
    return Engine("llama-cpp-python", command, [], False, adapt_llama_bench)
