"""Configuring and compiling the CMake presets."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import time

from .system import Context, Machine, SetupError

# The layers that start threads: only their tests can tell ThreadSanitizer anything.
THREADED_LAYERS = ("base", "quant", "device", "core", "runtime", "serve")


def choose_cuda(options: argparse.Namespace, machine: Machine) -> tuple[bool, str]:
    """Whether to build the CUDA device, and why."""
    if options.cuda != "auto":
        return options.cuda == "on", "as asked"
    if not list((machine.root / "kernels" / "cuda").glob("*.cu")):
        return False, "this version has no CUDA kernels"
    return (True, "nvcc found") if machine.which("nvcc") else (False, "no nvcc found")


def cuda_architectures(context: Context) -> str | None:
    """What CUDA kernels are built for: the GPU at hand, or for tests without one a single
    architecture, since each takes minutes; None: all that CMake lists."""
    machine = context.machine
    if machine.which("nvidia-smi"):
        status, lines = context.run(["nvidia-smi", "-L"])
        if status == 0 and any(line.startswith("GPU ") for line in lines):
            return "native"
    return "90" if context.options.test else None


def presets_of(options: argparse.Namespace) -> list[str]:
    presets = ["release"] if options.run or options.build or options.test else []
    presets += {"all": ["debug", "tsan"], "address": ["debug"], "thread": ["tsan"]}.get(
        options.sanitize, []
    )
    return presets + (["fuzz"] if options.fuzz else [])


def targets_of(options: argparse.Namespace, machine: Machine, preset: str) -> list[str]:
    """What to build of a preset; nothing stands for everything."""
    tests = machine.root / "tests"
    if preset == "release" and not (options.test or options.build):
        return ["strata"]
    if preset == "tsan":
        threaded = [layer for layer in THREADED_LAYERS if list((tests / layer).glob("*_test.cpp"))]
        return [f"strata_{layer}_tests" for layer in threaded] + ["strata_tiers_stress"]
    return []


def configure(context: Context, preset: str) -> None:
    """Runs CMake unless this was done with the same options; ninja sees to changed files."""
    folder = context.machine.root / "build" / preset
    cuda = preset == "release" and choose_cuda(context.options, context.machine)[0]
    command = ["cmake", "--preset", preset, f"-DSTRATA_CUDA={'ON' if cuda else 'OFF'}"]
    architectures = cuda_architectures(context) if cuda else None
    if architectures is not None:
        command.append(f"-DSTRATA_CUDA_ARCHITECTURES={architectures}")
    command.append("-DSTRATA_UNITY=ON")  # nothing is built yet, as a rule
    record = folder / "setup-options.json"
    wanted = json.dumps([str(context.machine.root), command, os.environ.get("CXX", "")])
    done = record.read_text(encoding="utf-8") if record.exists() else ""
    if done == wanted and (folder / "build.ninja").exists():
        return
    if (folder / "CMakeCache.txt").exists():
        command.append("--fresh")  # the cache is of other options, or of a folder that was moved
    context.console.progress(f"Build:    configuring {preset}")
    status, lines = context.run(command)
    if status != 0:
        first = next((i for i, line in enumerate(lines) if "CMake Error" in line), len(lines) - 10)
        excerpt = lines[max(0, first) :][:12]
        raise SetupError(
            f"CMake could not configure {preset}:\n    " + "\n    ".join(excerpt),
            f"see {context.console.log_path}; if the compiler or a library has changed, try: "
            "python3 setup.py --clean",
        )
    record.write_text(wanted, encoding="utf-8")


def compile_errors(lines: list[str]) -> list[str]:
    """The part of a failed build's output that says what is wrong."""
    first = next((i for i, line in enumerate(lines) if line.startswith("FAILED:")), None)
    block = lines[-15:] if first is None else lines[first:]
    errors = [
        line for line in block if re.search(r"\b([Ee]rror|undefined reference|Killed)\b", line)
    ]
    return (errors or block)[:15]


def build(context: Context, preset: str) -> None:
    configure(context, preset)
    console, start = context.console, time.monotonic()

    def show(line: str) -> None:
        found = re.match(r"\[(\d+)/(\d+)\] (.*)", line)
        if found:
            done, total = int(found.group(1)), int(found.group(2))
            what = re.sub(r"^(Building|Linking) \S+ \w+ (\S*/)?", "", found.group(3))
            console.progress(f"Build:    {preset} {done}/{total} ({100 * done // total} %)  {what}")

    command = ["cmake", "--build", f"build/{preset}", "--parallel", str(context.jobs)]
    targets = targets_of(context.options, context.machine, preset)
    command += ["--target", *targets] if targets else []
    # Tests run during the build too: CTest asks them for their names.
    status, lines = context.run(
        without_aslr(context, preset) + command, {"NINJA_STATUS": "[%f/%t] "}, show
    )
    if status != 0:
        errors = compile_errors(lines)
        todo = f"see {console.log_path}; python3 setup.py --clean starts afresh"
        if any("Killed" in line for line in errors):
            todo = "the compiler probably ran out of memory: run again with --jobs 1"
        raise SetupError(f"the build of {preset} failed:\n    " + "\n    ".join(errors), todo)
    if any("no work to do" in line for line in lines):
        console.say(f"Build:    {preset} is up to date")
    else:
        seconds = time.monotonic() - start
        console.say(f"Build:    {preset} built in {seconds:.0f} s (build/{preset})")


def without_aslr(context: Context, preset: str) -> list[str]:
    """GCC 12's ThreadSanitizer finds no room for its tables where recent kernels put programs."""
    prefix = ["setarch", platform.machine(), "-R"]
    wanted = preset == "tsan" and context.machine.output([*prefix, "true"]) is not None
    return prefix if wanted else []
