"""Running the tests: CTest, Python's unittest, libFuzzer."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from .building import without_aslr
from .system import Context, SetupError

LABELS = {
    "release": "C++",
    "debug": "C++ with address and undefined behaviour sanitizers",
    "tsan": "C++ with thread sanitizer",
    "fuzz": "C++ by clang with address and undefined behaviour sanitizers",
}


def run_ctest(context: Context, preset: str) -> None:
    console = context.console
    broken: list[str] = []
    skipped = 0

    def show(line: str) -> None:
        nonlocal skipped
        found = re.match(r"\s*(\d+)/(\d+) Test\s+#\d+: (\S+) \.*\s*(.*)", line)
        if not found:
            return
        done, total, name, outcome = found.groups()
        console.progress(f"Tests:    {preset} {done}/{total}  {name}")
        if "Skipped" in outcome:
            skipped += 1
        elif "Passed" not in outcome:
            broken.append(name)
            console.say(f"Tests:    FAILED {name}: {outcome.strip('* ')}")

    command = ["ctest", "--test-dir", f"build/{preset}", "--parallel", str(context.jobs)]
    command += ["--output-on-failure", "--no-tests=error"]
    if preset == "tsan":
        command += ["--exclude-regex", "_NOT_BUILT$"]  # the tests that have no threads
    status, lines = context.run(without_aslr(context, preset) + command, on_line=show)
    summary = re.search(r"(\d+) tests failed out of (\d+)", "\n".join(lines))
    if summary is None or (status != 0 and not broken):
        tail = "\n    ".join(lines[-10:])
        raise SetupError(f"ctest failed on {preset}:\n    {tail}", f"see {console.log_path}")
    if broken:
        console.say("\n".join(failed_output(lines)))
    for line in lines:
        if "tests passed" in line or line.startswith("Total Test time"):
            console.say(line)
    failed, total = map(int, summary.groups())
    context.record(LABELS[preset], total - failed - skipped, failed, skipped)


def failed_output(lines: list[str], limit: int = 60) -> list[str]:
    """The first lines that failed tests printed, from the first complaint on."""
    progress = re.compile(r"\s*\d+/\d+ Test|\s*Start\s+\d+:")
    kept = [line for line in lines if not progress.match(line)]
    complaint = re.compile(r"Failure|ERROR:|Error|Exception")
    first = next((i for i, line in enumerate(kept) if complaint.search(line)), 0)
    return kept[max(0, first - 2) :][:limit]


def python_for(context: Context, folder: Path) -> str:
    """The Python for a folder's tests. One that has a requirements.txt gets an environment of its
    own under build/, where its packages can be had; its tests skip what needs the missing ones."""
    wanted = folder / "requirements.txt"
    if not wanted.exists():
        return sys.executable
    name = folder.relative_to(context.machine.root)
    home = context.machine.root / "build" / "python" / folder.name
    python, done = str(home / "bin" / "python"), home / "installed.txt"
    text = wanted.read_text(encoding="utf-8")
    if done.exists() and done.read_text(encoding="utf-8") == text:
        return python
    question = f"Get the Python packages of {name}/requirements.txt, into build/ only? [Y/n] "
    answer = "yes" if context.options.yes else context.machine.ask(question)
    if answer is None or answer.strip().lower() not in ("", "y", "yes"):
        context.console.say(f"Tests:    those of {name} that need its requirements.txt are skipped")
        return sys.executable
    context.console.progress(f"Tests:    getting the packages of {name}")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--retries", "1", "--timeout", "15", "--requirement", str(wanted)]
    for command in ([sys.executable, "-m", "venv", "--clear", str(home)], pip):
        if context.run(command)[0] != 0:
            context.console.say(
                f"Tests:    no packages of {name}/requirements.txt, see "
                f"{context.console.log_path}: tests that need them are skipped"
            )
            return sys.executable
    done.write_text(text, encoding="utf-8")
    return python


def run_unittests(context: Context) -> None:
    """The Python tests: every folder under tests/ that holds a *_test.py."""
    root = context.machine.root
    for folder in sorted({path.parent for path in (root / "tests").rglob("*_test.py")}):
        name = str(folder.relative_to(root))
        context.console.progress(f"Tests:    {name}")
        command = [python_for(context, folder), "-m", "unittest", "discover"]
        command += ["-s", name, "-p", "*_test.py"]
        status, lines = context.run(command, {"PYTHONDONTWRITEBYTECODE": "1"})
        text = "\n".join(lines)
        ran = re.search(r"^Ran (\d+) tests?", text, re.M)
        counts = {word: int(n) for word, n in re.findall(r"(failures|errors|skipped)=(\d+)", text)}
        failed = counts.get("failures", 0) + counts.get("errors", 0)
        if ran is None or int(ran.group(1)) == 0 or (status != 0 and failed == 0):
            tail = "\n    ".join(lines[-10:])
            raise SetupError(
                f"the Python tests of {name} did not run:\n    {tail}",
                f"see {context.console.log_path}",
            )
        if failed:
            context.console.say("\n".join(lines[-60:]))
        skipped = counts.get("skipped", 0)
        passed = max(0, int(ran.group(1)) - failed - skipped)
        context.record(f"Python, {name}", passed, failed, skipped)


def run_fuzzers(context: Context) -> None:
    """Each libFuzzer program for --fuzz seconds, starting from tests/fuzz/corpus/NAME."""
    root = context.machine.root
    found = (root / "build" / "fuzz").rglob("*_fuzz")
    programs = sorted(path for path in found if path.is_file() and os.access(path, os.X_OK))
    if not programs:
        raise SetupError("the fuzz build has no *_fuzz program", f"see {context.console.log_path}")
    for program in programs:
        context.console.progress(f"Fuzzing:  {program.name} for {context.options.fuzz} s")
        seeds = root / "tests" / "fuzz" / "corpus" / program.name
        finds = program.with_suffix(".corpus")  # kept out of the source tree
        finds.mkdir(exist_ok=True)
        command = [str(program), f"-max_total_time={context.options.fuzz}", "-rss_limit_mb=2048"]
        command += [f"-artifact_prefix={finds.parent}/", "-print_final_stats=1", str(finds)]
        status, lines = context.run(command + ([str(seeds)] if seeds.is_dir() else []))
        if status != 0:
            context.console.say("\n".join(lines[-40:]))
        context.record(f"Fuzzing, {program.name}", int(status == 0), int(status != 0))


def run_tests(context: Context, preset: str) -> None:
    """The tests that belong to a preset that was just built."""
    if preset != "release" or context.options.test:
        run_ctest(context, preset)
    if preset == "release" and context.options.test:
        run_unittests(context)
    if preset == "fuzz":
        run_fuzzers(context)


def summarise(context: Context, seconds: float) -> bool:
    """Prints the results; whether all passed."""
    if not context.results:
        return True
    say = context.console.say
    say(f"\nTests, {seconds:.0f} s in all; the log is {context.console.log_path}")
    totals = [0, 0, 0]
    for label, *counts in context.results:
        say(f"  {label}: {counted(*counts)}")
        totals = [total + count for total, count in zip(totals, counts)]
    say(counted(*totals))
    return totals[1] == 0


def counted(passed: int, failed: int, skipped: int) -> str:
    return f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else "")
