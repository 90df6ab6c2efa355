#!/usr/bin/env python3
"""Checks the form of every source file under git: clang-format, line length, white space, size.

python3 tools/check_format.py          say what is wrong; status 1 if anything is
python3 tools/check_format.py --fix    let clang-format rewrite the C++ files first
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CPP = {".cpp", ".hpp", ".cu", ".cuh"}
CODE = CPP | {".py", ".cmake"}
MAX_COLUMNS = 100
MAX_LINES = 600
# Tables made by a program, and texts whose bytes are test data.
GENERATED = re.compile(r"(^|/)[^/]*(_table|_tables)\.(cpp|hpp)$|^tests/data/")


def source_files(root: Path) -> list[Path]:
    """The tracked files that are still there."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, stdout=subprocess.PIPE, check=True)
    paths = [root / name for name in listed.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


def text_problems(name: str, text: str) -> list[str]:
    """Breaches of the rules that every code file keeps, as "file:line: what"."""
    problems = []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_COLUMNS:
            problems.append(f"{name}:{number}: {len(line)} columns, {MAX_COLUMNS} at most")
        if line != line.rstrip():
            problems.append(f"{name}:{number}: white space at the end of the line")
        if "\t" in line:
            problems.append(f"{name}:{number}: a tab")
    if text and not text.endswith("\n"):
        problems.append(f"{name}: no newline at the end")
    if len(lines) - 1 > MAX_LINES:
        problems.append(f"{name}: {len(lines) - 1} lines, {MAX_LINES} at most")
    return problems


def clang_format() -> str | None:
    # Releases differ in details; 14 is the one of Debian 12, which the sources are formatted with.
    return shutil.which("clang-format-14") or shutil.which("clang-format")


def format_problems(program: str, root: Path, names: list[str]) -> list[str]:
    command = [program, "--dry-run", "-Werror", *names]
    done = subprocess.run(command, cwd=root, stderr=subprocess.PIPE, text=True, check=False)
    wrong = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", done.stderr, re.M)))
    if done.returncode != 0 and not wrong:
        return [f"{program}: {done.stderr.strip()}"]
    return [f"{name}: not as clang-format would have it" for name in wrong]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--fix", action="store_true", help="rewrite the C++ files with clang-format"
    )
    options = parser.parse_args(arguments)
    files = [path for path in source_files(ROOT) if path.suffix in CODE]
    names = [str(path.relative_to(ROOT)) for path in files]
    cpp = [name for name in names if Path(name).suffix in CPP]
    program = clang_format()
    problems = []
    if program is None:
        print("check_format: no clang-format here; the layout of C++ is not checked")
    elif cpp:
        if options.fix:
            subprocess.run([program, "-i", *cpp], cwd=ROOT, check=True)
        problems += format_problems(program, ROOT, cpp)
    for path, name in zip(files, names):
        if not GENERATED.search(name):
            problems += text_problems(name, path.read_text(encoding="utf-8"))
    for problem in problems:
        print(problem)
    print(f"check_format: {len(files)} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
