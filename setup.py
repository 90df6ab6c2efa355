#!/usr/bin/env python3
"""Installs what Strata needs, builds it, runs it, tests it.

    python3 setup.py --run     build, then let the demo model tell a story
    python3 setup.py --test    build, then run every test

Standard library only, Python 3.9 or later, Linux on x86-64. Packages are installed on Debian 12,
Ubuntu 24.04 and their relatives; elsewhere the script lists what to install and goes on once all is
found. Each step does only what is still to be done. What the tools print goes to build/setup.log.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "tools"))

from strata_setup.building import build, choose_cuda, presets_of  # noqa: E402
from strata_setup.packages import check_machine, check_tools, install_packages  # noqa: E402
from strata_setup.system import Console, Context, Machine, SetupError  # noqa: E402
from strata_setup.testing import run_tests, summarise  # noqa: E402

DEMO_MODEL = "data/strata-demo.gguf"
DEMO_PROMPT = "Tell me a story about a dog."
MIN_PYTHON = (3, 9)


def run_model(context: Context) -> int:
    model = context.options.model or DEMO_MODEL
    if not context.machine.exists(str(context.machine.root / model)):
        own = context.options.model is not None
        todo = "check the path given to --model" if own else "get it again: git checkout data"
        raise SetupError(f"there is no model {model}", todo)
    command = ["build/release/strata", "run", model, context.options.prompt, "-n", "200"]
    command += ["--seed", "2"]  # a story that keeps to its subject
    context.console.say(
        "Running:  " + " ".join(f'"{word}"' if " " in word else word for word in command) + "\n"
    )
    return context.machine.attached(command)


def parse_options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="setup.py",
        description="Installs what Strata needs, builds it, runs it, tests it.",
        epilog="A second run does only what is still to be done. What the tools print goes to "
        "build/setup.log.",
    )
    steps = parser.add_argument_group("what to do (at least one)")
    steps.add_argument(
        "--run", action="store_true", help="build, then let the demo model tell a story"
    )
    steps.add_argument("--test", action="store_true", help="build everything, then run all tests")
    steps.add_argument("--build", action="store_true", help="build everything")
    steps.add_argument(
        "--sanitize",
        nargs="?",
        const="all",
        choices=("all", "address", "thread"),
        help="build and test with the address and undefined behaviour sanitizers, the thread "
        "sanitizer (for the parts that have threads), or both",
    )
    steps.add_argument(
        "--fuzz",
        type=int,
        default=0,
        metavar="SECONDS",
        help="build with clang, its address and undefined behaviour sanitizers and libFuzzer, "
        "test, then run each fuzzer for SECONDS",
    )
    steps.add_argument("--clean", action="store_true", help="remove build/ first")
    how = parser.add_argument_group("how")
    how.add_argument("--yes", action="store_true", help="install missing packages without asking")
    how.add_argument(
        "--jobs",
        type=int,
        default=0,
        metavar="N",
        help="compile and test N at a time (default: by cores and memory)",
    )
    how.add_argument(
        "--cuda",
        choices=("auto", "on", "off"),
        default="auto",
        help="build the CUDA device (default: auto)",
    )
    how.add_argument(
        "--model", metavar="FILE", help=f"with --run: another GGUF model (default: {DEMO_MODEL})"
    )
    how.add_argument(
        "--prompt",
        default=DEMO_PROMPT,
        metavar="TEXT",
        help=f'with --run (default: "{DEMO_PROMPT}")',
    )
    options = parser.parse_args(arguments)
    if options.model:
        options.model = os.path.abspath(options.model)
    if options.jobs < 0 or options.fuzz < 0:
        parser.error("--jobs and --fuzz take a positive number")
    if (options.model or options.prompt != DEMO_PROMPT) and not options.run:
        parser.error("--model and --prompt go with --run")
    if not (presets_of(options) or options.clean):
        parser.print_help()
        sys.exit(2)
    return options


def carry_out(context: Context) -> int:
    options, console, start = context.options, context.console, time.monotonic()
    check_machine(context)
    install_packages(context)
    check_tools(context)
    if "release" in presets_of(options):
        cuda, reason = choose_cuda(options, context.machine)
        console.say(f"CUDA:     {'on' if cuda else 'off'} ({reason})")
    for preset in presets_of(options):
        build(context, preset)
        run_tests(context, preset)
    if not summarise(context, time.monotonic() - start):
        return 1
    return run_model(context) if options.run else 0


def main(arguments: list[str], machine: Machine | None = None) -> int:
    if sys.version_info < MIN_PYTHON:
        print(
            f"error: this is Python {platform.python_version()}; 3.9 or later is needed",
            file=sys.stderr,
        )
        return 1
    options = parse_options(arguments)
    machine = machine or Machine()
    if options.clean:
        shutil.rmtree(machine.root / "build", ignore_errors=True)
        print("Clean:    build/ removed", flush=True)
        if not presets_of(options):
            return 0
    console = Console(machine.root / "build" / "setup.log")
    try:
        return carry_out(Context(options, console, machine))
    except SetupError as error:
        console.say(f"\nerror: {error.what}\nto do: {error.todo}")
        return 1
    except KeyboardInterrupt:
        console.say("\nInterrupted. Run the same command again to go on from here.")
        return 130
    finally:
        console.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
