"""What the setup stands on: errors, the machine, the console and its log."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GIB = 1 << 30


class SetupError(Exception):
    """A failure the user can do something about."""

    def __init__(self, what: str, todo: str):
        super().__init__(what)
        self.what = what
        self.todo = todo


class Machine:
    """All that this script asks of or does to the system; tests put another in its place."""

    def __init__(self, root: Path = ROOT):
        self.root = root  # of the checkout; commands run there

    def system(self) -> tuple[str, str]:
        return platform.system(), platform.machine()

    def which(self, program: str) -> str | None:
        return shutil.which(program)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def read(self, path: str) -> str:
        try:
            return Path(path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def is_root(self) -> bool:
        return os.geteuid() == 0

    def free_disk(self, path: Path) -> int:
        return shutil.disk_usage(path).free

    def cores(self) -> int:
        return len(os.sched_getaffinity(0))

    def output(self, command: list[str]) -> str | None:
        """The command's standard output and error, or None when it fails."""
        lines: list[str] = []
        try:
            status = self.stream(command, {}, lines.append)
        except OSError:
            return None
        return "\n".join(lines) if status == 0 else None

    def stream(self, command: list[str], environment: dict[str, str], on_line) -> int:
        """Runs a command without input, hands each line of its output to on_line; its status."""
        with subprocess.Popen(
            command,
            cwd=self.root,
            env={**os.environ, "LC_ALL": "C.UTF-8", **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    on_line(line.decode("utf-8", "replace").rstrip("\r\n"))
                return process.wait()
            except BaseException:
                process.terminate()
                raise

    def ask(self, question: str) -> str | None:
        """The user's answer; None when there is no terminal or no more input."""
        if not sys.stdin.isatty():
            return None
        try:
            return input(question)
        except EOFError:
            return None

    def attached(self, command: list[str]) -> int:
        """Runs a command on the user's terminal. Ctrl-C is the command's to handle."""
        # A handler and not SIG_IGN, which the command would inherit.
        before = signal.signal(signal.SIGINT, lambda *_: None)
        try:
            return subprocess.run(command, cwd=self.root, check=False).returncode
        finally:
            signal.signal(signal.SIGINT, before)


class Console:
    """One line a step and one of progress, written over on a terminal; everything in the log."""

    def __init__(self, log_path: Path):
        log_path.parent.mkdir(parents=True, exist_ok=True)
        self.log_path = log_path
        self.log_file = open(log_path, "w", encoding="utf-8")  # noqa: SIM115 (open to the end)
        self.terminal = sys.stdout.isatty()
        self.unfinished = False  # a progress line stands on the terminal
        self.last_progress = 0.0

    def log(self, text: str) -> None:
        self.log_file.write(text + "\n")
        self.log_file.flush()

    def close(self) -> None:
        self.log_file.close()

    def say(self, text: str = "") -> None:
        if self.unfinished:
            sys.stdout.write("\r\033[K")
            self.unfinished = False
        print(text, flush=True)
        self.log(text)

    def progress(self, text: str) -> None:
        """Written over on a terminal; elsewhere a line every 20 seconds shows that work goes on."""
        now = time.monotonic()
        if self.terminal:
            if now - self.last_progress < 0.05:
                return
            width = shutil.get_terminal_size().columns - 1
            sys.stdout.write("\r\033[K" + text[:width])
            sys.stdout.flush()
            self.unfinished = True
        elif now - self.last_progress >= 20:
            print(text, flush=True)
        else:
            return
        self.last_progress = now


@dataclass
class Context:
    options: argparse.Namespace
    console: Console
    machine: Machine
    jobs: int = 1
    # Of each test suite: its label and how many of its tests passed, failed and were skipped.
    results: list[tuple[str, int, int, int]] = field(default_factory=list)

    def run(
        self, command: list[str], environment: dict[str, str] | None = None, on_line=None
    ) -> tuple[int, list[str]]:
        """Runs and logs a command; its exit status and the lines it printed."""
        lines: list[str] = []

        def take(line: str) -> None:
            lines.append(line)
            self.console.log(line)
            if on_line is not None:
                on_line(line)

        self.console.log("$ " + " ".join(command))
        return self.machine.stream(command, environment or {}, take), lines

    def record(self, label: str, passed: int, failed: int, skipped: int = 0) -> None:
        self.results.append((label, passed, failed, skipped))
