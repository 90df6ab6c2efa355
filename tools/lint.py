#!/usr/bin/env python3
"""Checks the sources' structure and, with clang-tidy, their content.

    python3 tools/lint.py                      every file
    python3 tools/lint.py src/gguf src/base    only these files and folders
    python3 tools/lint.py --structure          only the structure: it takes no time

Structure: a layer includes what stands below it, never above (docs/design.md), and the documents
link to files that exist. clang-tidy needs the compile commands of a configured build.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("base", "gguf", "quant", "text", "model", "device", "core", "runtime", "serve", "app")
# Warnings of GCC that clang does not know must not count as errors of the source.
ARGUMENTS = ("--quiet", "--extra-arg-before=-Wno-unknown-warning-option")
INCLUDE = re.compile(r'^\s*#\s*include\s+"strata/(\w+)/', re.M)


def layer_of(name: str) -> str | None:
    """The layer of a file of include/strata/LAYER/, src/LAYER/ or kernels/."""
    parts = Path(name).parts
    if parts[0] == "kernels":
        return "device"
    inside = {"include": 2, "src": 1}.get(parts[0])
    return parts[inside] if inside and len(parts) > inside + 1 else None


def layer_problems(name: str, text: str) -> list[str]:
    layer = layer_of(name)
    if layer is None:
        return []
    if layer not in LAYERS:
        return [f"{name}: '{layer}' is not a layer"]
    problems = []
    for match in INCLUDE.finditer(text):
        included = match.group(1)
        if included not in LAYERS or LAYERS.index(included) > LAYERS.index(layer):
            line = text.count("\n", 0, match.start(1)) + 1
            problems.append(f"{name}:{line}: layer {layer} includes {included}, which is above it")
    return problems


def link_problems(root: Path, document: Path) -> list[str]:
    """Links of a Markdown file that lead to no file."""
    text = document.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)\s#:]+)(?:#[^)]*)?\)", text)
    name = document.relative_to(root)
    return [f"{name}: no {link}" for link in targets if not (document.parent / link).exists()]


def structure_problems(root: Path) -> list[str]:
    problems = []
    for document in (
        root / "README.md",
        root / "data" / "README.md",
        *(root / "docs").glob("*.md"),
    ):
        if document.exists():
            problems += link_problems(root, document)
    for top in ("include", "src", "kernels"):
        for path in sorted((root / top).rglob("*.[ch]pp")):
            name = str(path.relative_to(root))
            problems += layer_problems(name, path.read_text(encoding="utf-8"))
    return problems


def compile_commands() -> Path | None:
    """The newest configured build folder."""
    found = [folder / "compile_commands.json" for folder in (ROOT / "build").glob("*")]
    found = [path for path in found if path.exists()]
    return max(found, key=lambda path: path.stat().st_mtime).parent if found else None


def tidy(program: str, build: Path, name: str) -> tuple[str, str, float]:
    """The file, what clang-tidy found in it, and how long it took."""
    start = time.monotonic()
    command = [program, "-p", str(build), *ARGUMENTS, name]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
    )
    output = done.stdout.strip()
    if done.returncode != 0 and not output:
        output = f"{name}: clang-tidy ended with status {done.returncode}"
    return name, output, time.monotonic() - start


def chosen_files(wanted: list[str]) -> list[str]:
    names = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "src").rglob("*.cpp"))]
    paths = [Path(name) for name in names]
    chosen = [Path(os.path.relpath(Path(item).resolve(), ROOT)) for item in wanted]
    if not chosen:
        return names
    return [str(path) for path in paths if any(item in (path, *path.parents) for item in chosen)]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", help="files or folders of src (default: all)")
    parser.add_argument("--structure", action="store_true", help="only the structure")
    parser.add_argument("--build", type=Path, help="build folder with compile_commands.json")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args(arguments)
    problems = structure_problems(ROOT)
    for problem in problems:
        print(problem)
    print(f"lint: structure: {len(problems)} problems")
    if options.structure:
        return 1 if problems else 0
    program = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
    build = options.build or compile_commands()
    if program is None or build is None:
        print("lint: clang-tidy not run:", "no build folder" if program else "it is not installed")
        return 1 if problems else 0
    names, failed, start = chosen_files(options.files), 0, time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, output, seconds in pool.map(lambda n: tidy(program, build, n), names):
            print(f"lint: {name} ({seconds:.0f} s)" + (f"\n{output}" if output else ""), flush=True)
            failed += bool(output)
    seconds = time.monotonic() - start
    print(f"lint: clang-tidy: {len(names)} files in {seconds:.0f} s, {failed} with findings")
    return 1 if problems or failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
