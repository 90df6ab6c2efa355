"""The machine's fitness and the packages: what is needed, what is missing, how to install it."""

from __future__ import annotations

import os
import platform
import re
import sys
from dataclasses import dataclass

from .building import presets_of
from .system import GIB, Context, Machine, SetupError

MEMORY_PER_JOB = 1.5 * GIB  # what one compiler process may need
DISK_NEEDED = {"release": 1.0 * GIB, "debug": 2.0 * GIB, "tsan": 2.0 * GIB, "fuzz": 1.0 * GIB}
MIN_GCC = (12,)
MIN_CLANG = (14,)
MIN_CMAKE = (3, 25)


@dataclass(frozen=True)
class Package:
    """Something the build needs: its names in package managers, and how to see that it is there."""

    apt: str
    dnf: str
    pacman: str
    # "program NAME", "header FILE", "pkg-config MODULE", "python MODULE", "clang-runtime LIBRARY"
    probe: str
    optional: bool = False


PACKAGES = (
    Package("g++", "gcc-c++", "gcc", "program g++"),
    Package("cmake", "cmake", "cmake", "program cmake"),
    Package("ninja-build", "ninja-build", "ninja", "program ninja"),
    Package("pkg-config", "pkgconf-pkg-config", "pkgconf", "program pkg-config"),
    Package("ccache", "ccache", "ccache", "program ccache", optional=True),
    Package("libfmt-dev", "fmt-devel", "fmt", "header fmt/core.h"),
    Package("libspdlog-dev", "spdlog-devel", "spdlog", "header spdlog/spdlog.h"),
    Package("libcli11-dev", "cli11-devel", "cli11", "header CLI/CLI.hpp"),
    Package("nlohmann-json3-dev", "json-devel", "nlohmann-json", "header nlohmann/json.hpp"),
    Package("libpcre2-dev", "pcre2-devel", "pcre2", "pkg-config libpcre2-8"),
    Package("libhwloc-dev", "hwloc-devel", "hwloc", "pkg-config hwloc"),
    Package("libssl-dev", "openssl-devel", "openssl", "pkg-config libcrypto"),
    Package("libcpp-httplib-dev", "cpp-httplib-devel", "cpp-httplib", "pkg-config cpp-httplib"),
    Package("libtbb-dev", "tbb-devel", "onetbb", "header oneapi/tbb.h"),
    Package("libgtest-dev", "gtest-devel", "gtest", "header gtest/gtest.h"),
    Package("libgmock-dev", "gmock-devel", "gtest", "header gmock/gmock.h"),
    Package(
        "libbenchmark-dev", "google-benchmark-devel", "benchmark", "header benchmark/benchmark.h"
    ),
    Package("python3-venv", "python3", "python", "python ensurepip", optional=True),
)
FUZZ_PACKAGES = (
    Package("clang", "clang", "clang", "program clang++"),
    Package("libclang-rt-dev", "compiler-rt", "compiler-rt", "clang-runtime fuzzer"),
)


def os_release(machine: Machine) -> dict[str, str]:
    pairs = (
        line.split("=", 1) for line in machine.read("/etc/os-release").splitlines() if "=" in line
    )
    return {key.strip(): value.strip().strip('"') for key, value in pairs}


def package_manager(release: dict[str, str], machine: Machine) -> str | None:
    """Which column of PACKAGES fits this system."""
    family = f"{release.get('ID', '')} {release.get('ID_LIKE', '')}".split()
    if {"debian", "ubuntu"} & set(family) and machine.which("apt-get"):
        return "apt"
    if {"fedora", "rhel", "centos"} & set(family):
        return "dnf"
    return "pacman" if "arch" in family else None


def memory_available(machine: Machine) -> int:
    """Bytes: what the system calls available, or the container's limit where that is lower."""
    found = re.search(r"MemAvailable:\s+(\d+) kB", machine.read("/proc/meminfo"))
    available = int(found.group(1)) * 1024 if found else 4 * GIB
    limit = machine.read("/sys/fs/cgroup/memory.max").strip()
    return min(available, int(limit)) if limit.isdigit() else available


def check_machine(context: Context) -> None:
    """System, disk and memory; sets how many jobs run at a time."""
    machine, options, say = context.machine, context.options, context.console.say
    system, processor = machine.system()
    if (system, processor) != ("Linux", "x86_64"):
        raise SetupError(
            f"this is {system} on {processor}; Strata runs on Linux on x86-64",
            "use such a machine, or a container or virtual machine of that kind",
        )
    built = [
        preset
        for preset in DISK_NEEDED
        if machine.exists(f"{machine.root}/build/{preset}/build.ninja")
    ]
    needed = sum(DISK_NEEDED[preset] for preset in presets_of(options) if preset not in built)
    free = machine.free_disk(machine.root)
    if free < needed:
        raise SetupError(
            f"{free / GIB:.1f} GiB of disk are free here, building needs {needed / GIB:.1f}",
            "free some space, or move this folder to a larger disk",
        )
    memory = memory_available(machine)
    context.jobs = options.jobs or max(1, min(machine.cores(), int(memory / MEMORY_PER_JOB)))
    name = os_release(machine).get("PRETTY_NAME", "an unnamed Linux")
    say(
        f"Machine:  {name}, {machine.cores()} cores, {memory / GIB:.1f} GiB of memory available, "
        f"Python {platform.python_version()}; {context.jobs} jobs at a time"
    )
    if memory < MEMORY_PER_JOB:
        say(
            f"          little memory: a compiler may need {MEMORY_PER_JOB / GIB:.1f} GiB; if the "
            "build is killed, close other programs or add swap"
        )


def include_paths(machine: Machine) -> list[str]:
    """Where the compiler looks for headers; the usual places when there is no compiler yet."""
    text = machine.output(["g++", "-E", "-x", "c++", "-v", os.devnull]) or ""
    found = re.search(r"#include <\.\.\.>[^\n]*\n(.*?)End of search list", text, re.S)
    usual = ["/usr/local/include", "/usr/include", "/usr/include/x86_64-linux-gnu"]
    return [line.strip() for line in found.group(1).splitlines()] if found else usual


def is_present(package: Package, includes: list[str], machine: Machine) -> bool:
    kind, name = package.probe.split(" ", 1)
    if kind == "program":
        return machine.which(name) is not None
    if kind == "header":
        return any(machine.exists(os.path.join(folder, name)) for folder in includes)
    if kind == "python":
        return machine.output([sys.executable, "-c", f"import {name}"]) is not None
    if kind == "clang-runtime":
        builtins = machine.output(["clang++", "--rtlib=compiler-rt", "-print-libgcc-file-name"])
        return builtins is not None and machine.exists(builtins.replace("builtins", name))
    return machine.output(["pkg-config", "--exists", name]) is not None


def missing_packages(machine: Machine, fuzz: bool = False) -> list[Package]:
    """What is to be installed: nothing when only optional packages are missing."""
    includes = include_paths(machine)
    wanted = PACKAGES + (FUZZ_PACKAGES if fuzz else ())
    missing = [package for package in wanted if not is_present(package, includes, machine)]
    return missing if any(not package.optional for package in missing) else []


def names_for(manager: str, packages: list[Package]) -> list[str]:
    return list(dict.fromkeys(getattr(package, manager) for package in packages))


def confirm(context: Context, question: str) -> bool:
    if context.options.yes:
        return True
    answer = context.machine.ask(question + " [Y/n] ")
    if answer is None:
        raise SetupError("packages are missing and nobody is there to ask", "run again with --yes")
    return answer.strip().lower() in ("", "y", "yes")


def apt_install(context: Context, names: list[str]) -> None:
    machine, console = context.machine, context.console
    by_hand = "as root: apt-get install " + " ".join(names)
    # "env", since sudo would drop the variable.
    apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=120"]
    if not machine.is_root():
        if not machine.which("sudo"):
            raise SetupError("installing packages takes root or sudo", by_hand)
        if machine.attached(["sudo", "-v"]) != 0:  # asks for the password here, not in a pipe
            raise SetupError("sudo refused", by_hand)
        apt = ["sudo", *apt]

    def show(line: str) -> None:
        console.progress("Packages: " + line)

    if context.run([*apt, "update"], on_line=show)[0] != 0:
        console.say("Packages: apt-get update failed; trying with the lists that are here")
    command = [*apt, "install", "-y", "--no-install-recommends", *names]
    status, lines = context.run(command, on_line=show)
    if status != 0:
        errors = [line for line in lines if line.startswith("E:")] or lines[-5:]
        raise SetupError(
            "apt-get could not install the packages:\n    " + "\n    ".join(errors),
            "check the network and the package sources (apt-get update), then run again",
        )


def install_packages(context: Context) -> None:
    machine, say = context.machine, context.console.say
    fuzz = context.options.fuzz > 0
    missing = missing_packages(machine, fuzz)
    if not missing:
        say("Packages: all there")
        return
    manager = package_manager(os_release(machine), machine)
    if manager != "apt":
        install = {"dnf": "dnf install", "pacman": "pacman -S"}.get(
            manager or "", "the packages of"
        )
        names = names_for(manager or "apt", missing)
        note = "" if manager else " (Debian's names; yours may differ)"
        raise SetupError(
            "not found: " + ", ".join(p.probe for p in missing if not p.optional),
            f"{install} {' '.join(names)}{note}, then run again",
        )
    names = names_for("apt", missing)
    say("Packages: to install: " + " ".join(names))
    if not confirm(context, "Install them with apt-get?"):
        raise SetupError("the packages were not installed", "install them, then run again")
    apt_install(context, names)
    still = [package for package in missing_packages(machine, fuzz) if not package.optional]
    if still:
        raise SetupError(
            "apt-get has installed the packages, but this is still not found: "
            + ", ".join(package.probe for package in still),
            f"see {context.console.log_path}",
        )
    say(f"Packages: {len(names)} installed")


def version_of(text: str) -> tuple[int, ...]:
    """The version a program prints: the last dotted number of its first line."""
    numbers = re.findall(r"\d+(?:\.\d+)+", text.split("\n", 1)[0])
    return tuple(int(part) for part in numbers[-1].split(".")) if numbers else (0,)


def check_tools(context: Context) -> None:
    """The versions, once everything is installed."""
    compiler = os.environ.get("CXX") or "c++"  # as CMake chooses
    programs = [(compiler, "set CXX to a later one"), ("cmake", "pip install cmake")]
    programs += [("clang++", "leave out --fuzz")] if context.options.fuzz else []
    for program, way_out in programs:
        text = context.machine.output([program, "--version"])
        if text is None:
            raise SetupError(f"{program} does not run", f"install {program}, or {way_out}")
        least = MIN_CMAKE if program == "cmake" else MIN_GCC
        least = MIN_CLANG if "clang" in text.split("\n", 1)[0] else least
        if version_of(text) < least:
            found, wanted = (".".join(map(str, v)) for v in (version_of(text), least))
            raise SetupError(
                f"{program} is version {found}, but {wanted} or later is needed",
                f"Debian 12 and Ubuntu 24.04 have it; elsewhere install it, or {way_out}",
            )
