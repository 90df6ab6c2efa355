#!/usr/bin/env python3
"""llama-bench's two tests over the llama-cpp-python package, for machines without a llama-bench.

Takes the options -m -p -n -r -t of llama-bench and prints JSON with the fields of its `-o json`, so
that compare_llama.py reads both alike. What is timed is the same, too: one prompt of random tokens
in one call, and single random tokens one after the other, each from an empty context and after one
untimed run. Only the package's low-level bindings are used.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import random
import sys
import time
from collections.abc import Callable

N_BATCH, N_UBATCH = 2048, 512  # llama-bench's defaults


class BenchError(Exception):
    """What went wrong, for the user."""


class Session:
    """A loaded model and one context of it; decodes random tokens."""

    def __init__(self, lib, path: str, n_ctx: int, threads: int) -> None:
        self.lib = lib
        lib.llama_backend_init()
        self.model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
        if not self.model:
            raise BenchError(f"llama.cpp cannot load {path}")
        params = lib.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = n_ctx, N_BATCH, N_UBATCH
        params.n_threads = params.n_threads_batch = threads
        self.context = lib.llama_init_from_model(self.model, params)
        if not self.context:
            raise BenchError(f"llama.cpp cannot make a context of {n_ctx} tokens")
        self.vocabulary = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self.model))
        self.random = random.Random(1)

    def clear(self) -> None:
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), False)

    def decode(self, count: int) -> None:
        """Feed `count` random tokens in one batch and wait for the result."""
        tokens = (ctypes.c_int32 * count)(*self.random.choices(range(self.vocabulary), k=count))
        status = self.lib.llama_decode(self.context, self.lib.llama_batch_get_one(tokens, count))
        if status != 0:
            raise BenchError(f"llama_decode of {count} tokens returned {status}")
        self.lib.llama_synchronize(self.context)

    def prompt(self, count: int) -> None:
        for start in range(0, count, N_BATCH):
            self.decode(min(N_BATCH, count - start))

    def generate(self, count: int) -> None:
        for _ in range(count):
            self.decode(1)


def measure(
    session: Session, work: Callable[[int], None], count: int, repetitions: int
) -> list[int]:
    """Nanoseconds of each repetition, after one that is not counted."""
    times = []
    for repetition in range(repetitions + 1):
        session.clear()
        start = time.perf_counter_ns()
        work(count)
        if repetition:
            times.append(time.perf_counter_ns() - start)
    return times


def run(args: argparse.Namespace) -> list[dict]:
    try:
        import llama_cpp
        from llama_cpp import llama_cpp as lib
    except ImportError as error:
        raise BenchError(
            f"{sys.executable} has no usable llama-cpp-python ({error}); "
            "pip install llama-cpp-python"
        ) from error
    silence = lib.llama_log_callback(lambda level, text, user_data: None)
    lib.llama_log_set(silence, ctypes.c_void_p(0))
    session = Session(lib, args.model, max(args.n_prompt, args.n_gen), args.threads)
    results = []
    for n_prompt, n_gen in ((args.n_prompt, 0), (0, args.n_gen)):
        count = n_prompt + n_gen
        if not count:
            continue
        times = measure(
            session, session.prompt if n_prompt else session.generate, count, args.repetitions
        )
        results.append(
            {
                "build_commit": f"llama-cpp-python {llama_cpp.__version__}",
                "build_number": 0,
                "model_filename": args.model,
                "n_batch": N_BATCH,
                "n_ubatch": N_UBATCH,
                "n_threads": args.threads,
                "n_prompt": n_prompt,
                "n_gen": n_gen,
                "samples_ns": times,
                "samples_ts": [1e9 * count / t for t in times],
            }
        )
    lib.llama_free(session.context)
    lib.llama_model_free(session.model)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("-p", "--n-prompt", type=int, default=512)
    parser.add_argument("-n", "--n-gen", type=int, default=128)
    parser.add_argument("-r", "--repetitions", type=int, default=5)
    parser.add_argument("-t", "--threads", type=int, default=4)
    parser.add_argument("-o", "--output", choices=["json"], default="json")
    args = parser.parse_args()
    try:
        results = run(args)
    except BenchError as error:
        print(f"llama_python_bench: {error}", file=sys.stderr)
        return 1
    print(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
