#!/usr/bin/env python3
"""Compare Strata's speed with llama.cpp and its relatives on the same GGUF, in alternating runs.

Every round runs each engine once, one after the other; the next round begins with the next engine,
so that none keeps the first or the last place. A ratio is formed from two runs of the same round
only, so that whatever slows the machine for a while (another tenant, a clock change) meets both
sides of it. Reported are the median of the rounds and the median, smallest and largest of their
ratios.

examples:
  compare_llama.py model.gguf --llama-bench ~/llama.cpp/build/bin/llama-bench
  compare_llama.py model.gguf -t 2 -p 512 -n 64 --rounds 7 \\
      --llama-bench ./llama-bench=llama.cpp --llama-bench './ik/llama-bench=ik_llama.cpp:-rtr 1' \\
      --json result.json --markdown result.md --svg result.svg
  compare_llama.py model.gguf --llama-python            # the installed llama-cpp-python package

docs/benchmarks.md tells how to read the result. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
from collections.abc import Callable

from compare.engines import (
    CompareError,
    Engine,
    Workload,
    llama_bench_engine,
    llama_python_engine,
    strata_engine,
)
from compare.machine import cpu_times, disturbance, usable_cores
from compare.report import build_report, markdown, svg

ROOT = pathlib.Path(__file__).resolve().parent.parent


def engines_from(args: argparse.Namespace) -> list[Engine]:
    """Strata first: every ratio is Strata's speed by another's."""
    strata = strata_engine(args.strata, args.strata_args)
    others = [llama_bench_engine(spec) for spec in args.llama_bench]
    if args.llama_python:
        others.append(llama_python_engine(args.llama_python))
    if not others:
        raise CompareError("nothing to compare with: give --llama-bench PATH or --llama-python")
    labels = [engine.label for engine in [strata, *others]]
    for label in labels:
        if labels.count(label) > 1:
            raise CompareError(
                f"two engines are called {label}: name them apart, --llama-bench PATH=LABEL"
            )
    return [strata, *others]


def run_rounds(
    engines: list[Engine],
    work: Workload,
    rounds: int,
    timeout: float,
    report: Callable[[str], None],
) -> list[dict]:
    """The rounds, each {"disturbed": disturbance(), "runs": {label: {test: Measurement}}}."""
    result = []
    for number in range(1, rounds + 1):
        before = cpu_times()
        runs = {}
        first = (number - 1) % len(engines)
        for engine in engines[first:] + engines[:first]:
            runs[engine.label] = engine.run(work, timeout)
            speeds = "  ".join(f"{test} {m.median:10.2f}" for test, m in runs[engine.label].items())
            report(f"round {number}/{rounds}  {engine.label:24s} {speeds}")
        result.append({"disturbed": disturbance(before, cpu_times()), "runs": runs})
    return result


def write_file(path: str, text: str) -> None:
    try:
        pathlib.Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CompareError(f"cannot write {path}: {error.strerror}") from error


def check_output_folders(paths: list[str | None]) -> None:
    """A missing folder must be told before the measurement, not after it."""
    for path in paths:
        if path and not pathlib.Path(path).resolve().parent.is_dir():
            raise CompareError(f"cannot write {path}: its folder does not exist")


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def natural(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return value


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="the GGUF file that every engine loads")
    parser.add_argument(
        "--strata",
        default=str(ROOT / "build" / "release" / "strata"),
        metavar="PATH",
        help="the strata program (default: the release preset's)",
    )
    parser.add_argument(
        "--strata-args", default="", metavar="ARGS", help="more arguments for strata bench"
    )
    parser.add_argument(
        "--llama-bench",
        action="append",
        default=[],
        metavar="PATH[=LABEL[:ARGS]]",
        help="a llama-bench program, its name in the tables and its extra arguments; repeatable",
    )
    parser.add_argument(
        "--llama-python",
        nargs="?",
        const=sys.executable,
        metavar="PYTHON",
        help="time the llama-cpp-python package of this interpreter (default: the running one)",
    )
    parser.add_argument(
        "-p", "--n-prompt", type=natural, default=512, help="prompt tokens, 0: no test (512)"
    )
    parser.add_argument(
        "-n", "--n-gen", type=natural, default=32, help="generated tokens, 0: no test (32)"
    )
    parser.add_argument(
        "-t",
        "--threads",
        type=positive,
        default=usable_cores(),
        help="threads of every engine (default: the usable cores)",
    )
    parser.add_argument(
        "-r", "--repetitions", type=positive, default=5, help="repetitions within a run (5)"
    )
    parser.add_argument(
        "--rounds", type=positive, default=5, help="runs of every engine, in turn (5)"
    )
    parser.add_argument(
        "--timeout", type=positive, default=1800, help="seconds that one run may take (1800)"
    )
    parser.add_argument("--json", metavar="FILE", help="write everything, each sample included")
    parser.add_argument("--markdown", metavar="FILE", help="write the table that is printed")
    parser.add_argument("--svg", metavar="FILE", help="write a bar plot")
    args = parser.parse_args(argv)
    if not args.n_prompt and not args.n_gen:
        parser.error("-p 0 and -n 0 leave nothing to measure")
    return args


def compare(args: argparse.Namespace) -> dict:
    """Check everything that can be checked first, then measure."""
    if not os.path.isfile(args.model):
        raise CompareError(f"there is no model file {args.model}")
    check_output_folders([args.json, args.markdown, args.svg])
    engines = engines_from(args)
    work = Workload(args.model, args.n_prompt, args.n_gen, args.repetitions, args.threads)
    rounds = run_rounds(
        engines,
        work,
        args.rounds,
        args.timeout,
        lambda line: print(line, file=sys.stderr, flush=True),
    )
    return build_report(engines, work, rounds)


def main(argv: list[str] | None = None) -> int:
    args = parse_arguments(argv)
    try:
        report = compare(args)
        table = markdown(report)
        print(table, end="")
        for path, text in (
            (args.json, json.dumps(report, indent=1) + "\n"),
            (args.markdown, table),
            (args.svg, svg(report)),
        ):
            if path:
                write_file(path, text)
    except CompareError as error:
        print(f"compare_llama: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("compare_llama: interrupted, nothing written", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
