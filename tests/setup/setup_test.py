"""Tests of setup.py on a machine that is only described, so that nothing is installed or built.

python3 -m unittest discover -s tests/setup -p '*_test.py'
"""

import contextlib
import io
import re
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from strata_setup import building, packages, system  # noqa: E402

import setup  # noqa: E402

DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\n'
MINT = "NAME=Mint\nID=linuxmint\nID_LIKE='ubuntu debian'\n".replace("'", '"')
PROBES = {package.probe for package in packages.PACKAGES}
VERSIONS = {
    "c++": "c++ (Debian 12.2.0-14+deb12u1) 12.2.0\nCopyright",
    "clang++": "Debian clang version 14.0.6\nTarget: x86_64-pc-linux-gnu",
    "cmake": "cmake version 3.25.1\n\nCMake suite",
}
CTEST = """Test project /x/build/release
      Start  1: Sampler.Draws
 1/3 Test  #1: Sampler.Draws .................   Passed    0.02 sec
      Start  2: Gguf.Reads
 2/3 Test  #2: Gguf.Reads ....................{second}    0.02 sec
      Start  3: Isa.Amx
 3/3 Test  #3: Isa.Amx .......................***Skipped   0.01 sec

{percent}% tests passed, {failed} tests failed out of 3

Total Test time (real) =   0.08 sec"""


class FakeMachine(system.Machine):
    """A machine that has the probes in `present`; apt-get adds what it is asked for."""

    def __init__(self, root, present=PROBES, release=DEBIAN, answer=None):
        super().__init__(Path(root))
        self.present = set(present)
        self.release = release
        self.answer = answer
        self.root_user = True
        self.disk = 100 * system.GIB
        self.versions = dict(VERSIONS)
        self.kind = ("Linux", "x86_64")
        self.commands = []  # what was run, without the questions that change nothing
        self.script = {}  # word of a command -> (status, output) to answer it with
        self.files = {
            "/proc/meminfo": "MemTotal: 9 kB\nMemAvailable:   16777216 kB\n",
            "/etc/os-release": release,
        }

    def system(self):
        return self.kind

    def which(self, program):
        found = f"program {program}" in self.present or program in ("apt-get", "sudo")
        return f"/usr/bin/{program}" if found else None

    def exists(self, path):
        if path.startswith("/clang/"):
            return f"clang-runtime {path[7:]}" in self.present
        header = path.startswith("/usr/include/")
        return f"header {path[13:]}" in self.present if header else Path(path).exists()

    def read(self, path):
        return self.files.get(path, "")

    def is_root(self):
        return self.root_user

    def free_disk(self, path):
        return self.disk

    def cores(self):
        return 8

    def ask(self, question):
        return self.answer

    def output(self, command):
        if command[0] == "pkg-config":
            known = self.which("pkg-config") and f"pkg-config {command[2]}" in self.present
            return "" if known else None
        if command[1] == "-c":
            return "" if command[2].replace("import", "python") in self.present else None
        if command[-1] == "-print-libgcc-file-name":
            return "/clang/builtins" if self.which("clang++") else None
        if command[-1] == "--version":
            return self.versions.get(command[0])
        return None

    def attached(self, command):
        self.commands.append(command)
        return self.script.get(command[0], (0, ""))[0]

    def stream(self, command, environment, on_line):
        self.commands.append(command)
        if "apt-get" in command and "install" in command and "install" not in self.script:
            names = command[command.index("--no-install-recommends") + 1 :]
            known = packages.PACKAGES + packages.FUZZ_PACKAGES
            self.present |= {p.probe for p in known if p.apt in names}
        if "--preset" in command:
            folder = self.root / "build" / command[2]
            folder.mkdir(parents=True, exist_ok=True)
            for name in ("build.ninja", "CMakeCache.txt"):
                (folder / name).touch()
        for word in command:
            if word in self.script:
                status, text = self.script[word]
                break
        else:
            again = self.commands.count(command) > 1
            status, text = 0, "ninja: no work to do." if again else "[1/2] a\n[2/2] b"
            if command[0] == "ctest":
                text = CTEST.format(second="   Passed", percent=100, failed=0)
        for line in text.split("\n"):
            on_line(line)
        return status

    def ran(self, word):
        return [command for command in self.commands if word in command]


class SetupTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "data").mkdir()
        (self.root / "data" / "strata-demo.gguf").touch()
        tests = self.root / "tests" / "some"
        tests.mkdir(parents=True)
        (tests / "a_test.py").touch()

    def machine(self, **options):
        return FakeMachine(self.root, **options)

    def run_setup(self, machine, *arguments):
        """The exit status and everything printed."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            status = setup.main(list(arguments), machine)
        return status, printed.getvalue()


class PackagesTest(SetupTest):
    def test_nothing_missing_means_no_package_manager(self):
        machine = self.machine()
        status, text = self.run_setup(machine, "--build")
        self.assertEqual(status, 0, text)
        self.assertIn("Packages: all there", text)
        self.assertEqual(machine.ran("apt-get"), [])

    def test_a_missing_optional_package_is_no_reason_to_install(self):
        machine = self.machine(present=PROBES - {"program ccache"})
        self.assertEqual(packages.missing_packages(machine), [])

    def test_lists_exactly_what_is_missing_and_installs_it(self):
        machine = self.machine(present=PROBES - {"header fmt/core.h", "pkg-config hwloc"})
        status, text = self.run_setup(machine, "--build", "--yes")
        self.assertEqual(status, 0, text)
        self.assertIn("to install: libfmt-dev libhwloc-dev\n", text)
        self.assertIn("Packages: 2 installed", text)
        update, install = machine.ran("apt-get")
        self.assertEqual(update[-1], "update")
        self.assertEqual(install[-2:], ["libfmt-dev", "libhwloc-dev"])
        self.assertNotIn("sudo", install)

    def test_every_package_is_found_missing_on_a_bare_machine(self):
        machine = self.machine(present=())
        names = [package.apt for package in packages.missing_packages(machine)]
        self.assertEqual(names, [package.apt for package in packages.PACKAGES])

    def test_asks_and_takes_no_for_an_answer(self):
        machine = self.machine(present=PROBES - {"header fmt/core.h"}, answer="n")
        status, text = self.run_setup(machine, "--build")
        self.assertEqual(status, 1)
        self.assertIn("the packages were not installed", text)
        self.assertEqual(machine.commands, [])

    def test_asks_and_takes_return_for_yes(self):
        machine = self.machine(present=PROBES - {"header fmt/core.h"}, answer="")
        self.assertEqual(self.run_setup(machine, "--build")[0], 0)
        self.assertEqual(len(machine.ran("install")), 1)

    def test_without_a_terminal_it_names_the_option(self):
        status, text = self.run_setup(self.machine(present=()), "--build")
        self.assertEqual(status, 1)
        self.assertIn("to do: run again with --yes", text)

    def test_uses_sudo_when_not_root(self):
        machine = self.machine(present=PROBES - {"program cmake"})
        machine.root_user = False
        self.assertEqual(self.run_setup(machine, "--build", "--yes")[0], 0)
        self.assertEqual(machine.commands[0], ["sudo", "-v"])
        self.assertTrue(all(command[0] == "sudo" for command in machine.ran("apt-get")))

    def test_a_refused_sudo_gives_the_command(self):
        machine = self.machine(present=PROBES - {"program cmake"})
        machine.root_user = False
        machine.script["sudo"] = (1, "")
        status, text = self.run_setup(machine, "--build", "--yes")
        self.assertEqual(status, 1)
        self.assertIn("as root: apt-get install cmake", text)

    def test_a_failed_update_does_not_stop_it(self):
        machine = self.machine(present=PROBES - {"program cmake"})
        machine.script["update"] = (100, "E: no network")
        status, text = self.run_setup(machine, "--build", "--yes")
        self.assertEqual(status, 0, text)
        self.assertIn("apt-get update failed", text)

    def test_shows_what_apt_complained_about(self):
        machine = self.machine(present=PROBES - {"program cmake"})
        machine.script["install"] = (100, "Reading lists\nE: Unable to locate package cmake\nbye")
        status, text = self.run_setup(machine, "--build", "--yes")
        self.assertEqual(status, 1)
        self.assertIn("E: Unable to locate package cmake", text)
        self.assertNotIn("Reading lists", text.split("error:")[1])

    def test_notices_a_package_that_did_not_help(self):
        machine = self.machine(present=PROBES - {"program cmake"})
        machine.script["install"] = (0, "")
        status, text = self.run_setup(machine, "--build", "--yes")
        self.assertEqual(status, 1)
        self.assertIn("still not found: program cmake", text)

    def test_derivatives_count_as_debian(self):
        machine = self.machine(release=MINT)
        self.assertEqual(packages.package_manager(packages.os_release(machine), machine), "apt")

    def test_other_systems_get_their_names_and_go_on_when_all_is_there(self):
        for release, expected in (
            ("ID=fedora\n", "dnf install gcc-c++ fmt-devel, then"),
            ('ID=endeavouros\nID_LIKE="arch"\n', "pacman -S gcc fmt, then"),
            ("ID=nixos\n", "g++ libfmt-dev (Debian's names"),
        ):
            present = PROBES - {"program g++", "header fmt/core.h"}
            machine = self.machine(present=present, release=release)
            status, text = self.run_setup(machine, "--build", "--yes")
            self.assertEqual(status, 1)
            self.assertIn(expected, text)
            self.assertEqual(machine.commands, [])
            self.assertEqual(self.run_setup(self.machine(release=release), "--build")[0], 0)

    def test_the_table_matches_what_cmake_looks_for(self):
        scripts = [ROOT / "CMakeLists.txt", *ROOT.glob("*/CMakeLists.txt"), *ROOT.glob("cmake/*")]
        cmake = "\n".join(path.read_text(encoding="utf-8") for path in scripts)
        # CUDA's toolkit is looked for only where it is asked for, and comes from NVIDIA.
        others = {"Threads", "PkgConfig", "Git", "CUDAToolkit"}
        found = set(re.findall(r"find_package\((\w+)", cmake)) - others
        found |= set(re.findall(r"pkg_check_modules\((\w+)", cmake))
        normal = {re.sub(r"[^a-z0-9]", "", name.lower()) for name in found}
        libraries = [p.apt for p in packages.PACKAGES if not p.probe.startswith("program")]
        for library in normal:
            self.assertTrue(
                any(library in re.sub(r"[^a-z0-9]", "", apt) for apt in libraries),
                f"CMake needs {library}; add its package to PACKAGES",
            )


class MachineTest(SetupTest):
    def refused(self, machine, *expected):
        status, text = self.run_setup(machine, "--build")
        self.assertEqual(status, 1)
        for part in (*expected, "to do: "):
            self.assertIn(part, text)
        self.assertEqual(machine.commands, [])

    def test_refuses_other_processors(self):
        machine = self.machine()
        machine.kind = ("Linux", "aarch64")
        self.refused(machine, "Linux on aarch64", "x86-64")

    def test_refuses_a_full_disk(self):
        machine = self.machine()
        machine.disk = system.GIB // 2
        self.refused(machine, "0.5 GiB of disk", "1.0")

    def test_refuses_an_old_compiler(self):
        machine = self.machine()
        machine.versions["c++"] = "c++ (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0"
        self.refused(machine, "c++ is version 11.4.0, but 12 or later")

    def test_refuses_an_old_clang_by_its_own_minimum(self):
        machine = self.machine()
        machine.versions["c++"] = "Debian clang version 13.0.1"
        self.refused(machine, "13.0.1, but 14 or later")

    def test_refuses_an_old_cmake(self):
        machine = self.machine()
        machine.versions["cmake"] = "cmake version 3.22.1"
        self.refused(machine, "cmake is version 3.22.1", "pip install cmake")

    def test_refuses_a_compiler_that_does_not_run(self):
        machine = self.machine()
        del machine.versions["c++"]
        self.refused(machine, "c++ does not run")

    def test_refuses_an_old_python(self):
        old = setup.MIN_PYTHON
        setup.MIN_PYTHON = (99, 0)
        self.addCleanup(setattr, setup, "MIN_PYTHON", old)
        self.assertEqual(self.run_setup(self.machine(), "--build")[0], 1)

    def test_memory_bounds_the_jobs(self):
        machine = self.machine()
        machine.files["/proc/meminfo"] = "MemAvailable: 5000000 kB\n"
        _, text = self.run_setup(machine, "--build")
        self.assertIn("3 jobs at a time", text)
        self.assertEqual(machine.ran("--build")[0][4], "3")

    def test_the_container_limit_counts(self):
        machine = self.machine()
        machine.files["/sys/fs/cgroup/memory.max"] = "1000000000\n"
        _, text = self.run_setup(machine, "--build")
        self.assertIn("1 jobs at a time", text)
        self.assertIn("little memory", text)

    def test_reads_versions(self):
        self.assertEqual(packages.version_of(VERSIONS["c++"]), (12, 2, 0))
        text = "g++ (GCC) 14.1.1 20240522 (Red Hat 14.1.1-1)"
        self.assertEqual(packages.version_of(text), (14, 1, 1))
        self.assertEqual(packages.version_of("Ubuntu clang version 18.1.3 (1ubuntu1)"), (18, 1, 3))
        self.assertEqual(packages.version_of(""), (0,))


class BuildTest(SetupTest):
    def test_configures_once(self):
        machine = self.machine()
        self.assertEqual(self.run_setup(machine, "--build")[0], 0)
        status, text = self.run_setup(machine, "--build")
        self.assertEqual(status, 0)
        self.assertIn("release is up to date", text)
        self.assertEqual(len(machine.ran("--preset")), 1)

    def test_configures_afresh_when_options_change(self):
        machine = self.machine()
        self.run_setup(machine, "--build")
        self.run_setup(machine, "--build", "--cuda", "on")
        first, second = machine.ran("--preset")
        self.assertIn("-DSTRATA_CUDA=OFF", first)
        self.assertIn("-DSTRATA_CUDA=ON", second)
        self.assertIn("--fresh", second)

    def test_cuda_needs_kernels_and_a_compiler(self):
        machine = self.machine()
        options = setup.parse_options(["--build"])
        self.assertEqual(building.choose_cuda(options, machine)[0], False)
        (self.root / "kernels" / "cuda").mkdir(parents=True)
        (self.root / "kernels" / "cuda" / "a.cu").touch()
        self.assertEqual(building.choose_cuda(options, machine), (False, "no nvcc found"))
        machine.present.add("program nvcc")
        self.assertEqual(building.choose_cuda(options, machine), (True, "nvcc found"))
        off = setup.parse_options(["--build", "--cuda", "off"])
        self.assertEqual(building.choose_cuda(off, machine)[0], False)

    def test_cuda_is_built_for_what_is_there(self):
        machine = self.machine()
        gpu = (0, "GPU 0: NVIDIA GeForce RTX 4070")
        cases = [(None, "--test", "90"), ((9, ""), "--build", ""), (gpu, "--build", "native")]
        for smi, mode, expected in cases:
            if smi is not None:
                machine.present.add("program nvidia-smi")
                machine.script["nvidia-smi"] = smi
            self.run_setup(machine, "--cuda", "on", mode)
            found = [a for a in machine.ran("--preset")[-1] if "ARCHITECTURES=" in a]
            self.assertEqual("".join(found).rpartition("=")[2], expected)

    def test_shows_the_errors_of_a_failed_build(self):
        machine = self.machine()
        output = "[1/9] ok\nFAILED: a.o\ng++ -Werror -fsanitize=undefined -c a.cpp\n"
        output += "a.cpp:1:1: error: 'x' is odd\n   note\nstop"
        machine.script["--build"] = (1, output)
        status, text = self.run_setup(machine, "--run")
        self.assertEqual(status, 1)
        self.assertIn("a.cpp:1:1: error: 'x' is odd", text)
        self.assertNotIn("-Werror", text)
        self.assertNotIn("note", text)
        self.assertIn("to do: see", text)
        self.assertIn("note", (self.root / "build" / "setup.log").read_text(encoding="utf-8"))

    def test_a_killed_compiler_points_at_memory(self):
        machine = self.machine()
        output = "FAILED: a.o\ng++: fatal error: Killed signal terminated program cc1plus"
        machine.script["--build"] = (1, output)
        self.assertIn("--jobs 1", self.run_setup(machine, "--build")[1])

    def test_shows_the_errors_of_cmake(self):
        machine = self.machine()
        output = "-- ok\nCMake Error at CMakeLists.txt:9 (find_package):\n  no fmt"
        machine.script["--preset"] = (1, output)
        status, text = self.run_setup(machine, "--build")
        self.assertEqual(status, 1)
        self.assertIn("find_package", text)
        self.assertNotIn("-- ok", text)

    def test_interrupting_ends_cleanly(self):
        machine = self.machine()

        def interrupted(*_):
            raise KeyboardInterrupt

        machine.stream = interrupted
        status, text = self.run_setup(machine, "--build")
        self.assertEqual(status, 130)
        self.assertIn("Run the same command again", text)

    def test_clean_alone_removes_the_build_folder(self):
        (self.root / "build" / "release").mkdir(parents=True)
        machine = self.machine()
        self.assertEqual(self.run_setup(machine, "--clean")[0], 0)
        self.assertFalse((self.root / "build").exists())
        self.assertEqual(machine.commands, [])


class RunTest(SetupTest):
    def test_runs_the_demo_and_builds_only_the_program(self):
        machine = self.machine()
        status, text = self.run_setup(machine, "--run")
        self.assertEqual(status, 0, text)
        self.assertEqual(machine.ran("--build")[0][-2:], ["--target", "strata"])
        command = ["build/release/strata", "run", "data/strata-demo.gguf"]
        arguments = [setup.DEMO_PROMPT, "-n", "200", "--seed", "2"]
        self.assertEqual(machine.commands[-1], [*command, *arguments])

    def test_runs_another_model(self):
        machine = self.machine()
        model = self.root / "other.gguf"
        model.touch()
        self.run_setup(machine, "--run", "--model", str(model), "--prompt", "Hello")
        self.assertEqual(machine.commands[-1][2:4], [str(model), "Hello"])

    def test_a_missing_model_is_named(self):
        machine = self.machine()
        status, text = self.run_setup(machine, "--run", "--model", "/no/such.gguf")
        self.assertEqual(status, 1)
        self.assertIn("there is no model /no/such.gguf", text)

    def test_the_status_of_the_program_is_ours(self):
        machine = self.machine()
        machine.script["build/release/strata"] = (3, "")
        self.assertEqual(self.run_setup(machine, "--run")[0], 3)

    def test_options_that_make_no_sense_are_refused(self):
        for arguments in ([], ["--yes"], ["--model", "x"], ["--build", "--jobs", "-1"]):
            with self.assertRaises(SystemExit) as caught:
                self.run_setup(self.machine(), *arguments)
            self.assertEqual(caught.exception.code, 2, arguments)


class TestsTest(SetupTest):
    PASSING = "....\nRan 4 tests in 0.1s\n\nOK"

    def test_adds_up_all_suites(self):
        machine = self.machine()
        machine.script["unittest"] = (0, "Ran 4 tests in 0.1s\n\nOK (skipped=1)")
        status, text = self.run_setup(machine, "--test")
        self.assertEqual(status, 0, text)
        self.assertIn("100% tests passed, 0 tests failed out of 3", text)
        self.assertIn("C++: 2 passed, 0 failed, 1 skipped", text)
        self.assertIn("Python, tests/some: 3 passed, 0 failed, 1 skipped", text)
        self.assertEqual(text.strip().split("\n")[-1], "5 passed, 0 failed, 2 skipped")

    def test_a_failed_test_is_shown_and_fails_the_run(self):
        machine = self.machine()
        output = CTEST.format(second="***Failed", percent=67, failed=1)
        output = output.replace("      Start  3", "a.cpp:7: Failure\n  expected 2\n      Start  3")
        machine.script["ctest"] = (8, output)
        machine.script["unittest"] = (0, self.PASSING)
        status, text = self.run_setup(machine, "--test", "--run")
        self.assertEqual(status, 1)
        self.assertIn("FAILED Gguf.Reads", text)
        self.assertIn("a.cpp:7: Failure\n  expected 2", text)
        self.assertIn("5 passed, 1 failed, 1 skipped", text)
        self.assertEqual(machine.ran("run"), [])

    def test_a_failed_python_test_fails_the_run(self):
        machine = self.machine()
        output = "FAIL: test_x\nRan 4 tests in 1s\n\nFAILED (failures=1, errors=1)"
        machine.script["unittest"] = (1, output)
        status, text = self.run_setup(machine, "--test")
        self.assertEqual(status, 1)
        self.assertIn("Python, tests/some: 2 passed, 2 failed", text)

    def test_packages_of_tests_go_to_the_build_folder_or_are_done_without(self):
        (self.root / "tests" / "some" / "requirements.txt").write_text("openai\n")
        own = self.root / "build" / "python" / "some"
        own.mkdir(parents=True)  # as venv does
        for failing, python in (("venv", None), ("pip", None), ("", own), ("pip", own)):
            machine = self.machine()
            machine.script = {"unittest": (0, self.PASSING), failing: (1, "no network")}
            status, text = self.run_setup(machine, "--test", "--yes")
            self.assertEqual(status, 0, text)
            self.assertEqual("tests that need them are skipped" in text, python is None)
            used = str(own / "bin" / "python") if python else sys.executable
            self.assertEqual(machine.ran("unittest")[0][0], used)
        self.assertEqual(machine.ran("pip"), [], "they are there")

    def test_no_tests_at_all_is_an_error(self):
        machine = self.machine()
        machine.script["ctest"] = (8, "No tests were found!!!")
        status, text = self.run_setup(machine, "--test")
        self.assertEqual(status, 1)
        self.assertIn("No tests were found", text)
        machine = self.machine()
        machine.script["unittest"] = (5, "Ran 0 tests in 0.0s\n\nNO TESTS RAN")
        self.assertEqual(self.run_setup(machine, "--test")[0], 1)

    def test_sanitize_builds_and_tests_both(self):
        machine = self.machine()
        status, text = self.run_setup(machine, "--sanitize")
        self.assertEqual(status, 0, text)
        self.assertEqual([command[2] for command in machine.ran("--preset")], ["debug", "tsan"])
        self.assertIn("C++ with thread sanitizer: 2 passed", text)

    def test_builds_only_what_a_preset_needs(self):
        for name in ("base/a_test.cpp", "text/b_test.cpp"):
            path = self.root / "tests" / name
            path.parent.mkdir(exist_ok=True)
            path.touch()
        machine = self.machine()
        for argument, preset, targets in (
            ("--run", "release", ["strata"]),
            ("--test", "release", []),
            ("--sanitize=address", "debug", []),
            ("--sanitize=thread", "tsan", ["strata_base_tests", "strata_tiers_stress"]),
            ("--fuzz=9", "fuzz", []),
        ):
            options = setup.parse_options([argument])
            self.assertEqual(building.presets_of(options), [preset])
            self.assertEqual(building.targets_of(options, machine, preset), targets)

    def test_fuzzing_installs_clang_and_reports_each_fuzzer(self):
        machine = self.machine()
        program = self.root / "build" / "fuzz" / "gguf_fuzz"
        program.parent.mkdir(parents=True)
        program.touch(mode=0o755)
        machine.script[str(program)] = (77, "==1== ERROR: AddressSanitizer: heap-overflow")
        status, text = self.run_setup(machine, "--fuzz", "5", "--yes")
        self.assertEqual(status, 1)
        self.assertIn("to install: clang libclang-rt-dev\n", text)
        self.assertIn("heap-overflow", text)
        self.assertIn("-max_total_time=5", machine.ran(str(program))[0])
        self.assertIn("Fuzzing, gguf_fuzz: 0 passed, 1 failed", text)
        self.assertIn("2 passed, 1 failed", text)  # the tests ran, too

    def test_fuzzing_needs_the_runtime_of_clang_too(self):
        machine = self.machine(present=PROBES | {"program clang++"})
        machine.script["install"] = (0, "")
        status, text = self.run_setup(machine, "--fuzz", "5", "--yes")
        self.assertEqual(status, 1)
        self.assertIn("to install: libclang-rt-dev\n", text)
        self.assertIn("still not found: clang-runtime fuzzer", text)
        self.assertEqual(self.run_setup(machine, "--build")[0], 0)

    def test_fuzzing_refuses_an_old_clang(self):
        present = PROBES | {package.probe for package in packages.FUZZ_PACKAGES}
        machine = self.machine(present=present)
        machine.versions["clang++"] = "clang version 13.0.1"
        status, text = self.run_setup(machine, "--fuzz", "5")
        self.assertEqual(status, 1)
        self.assertIn("clang++ is version 13.0.1, but 14 or later", text)


if __name__ == "__main__":
    unittest.main()
