"""Tests of tools/check_format.py and tools/lint.py.

python3 -m unittest discover -s tests/tools -p '*_test.py'
"""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import check_format  # noqa: E402
import lint  # noqa: E402


class FormatTest(unittest.TestCase):
    def test_good_text_has_no_problem(self):
        self.assertEqual(check_format.text_problems("a.cpp", "int x;\n" * 600), [])
        self.assertEqual(check_format.text_problems("a.cpp", ""), [])

    def test_each_rule_is_checked(self):
        for text, expected in (
            ("x" * 101 + "\n", "a.cpp:1: 101 columns, 100 at most"),
            ("x\ny \n", "a.cpp:2: white space at the end of the line"),
            ("\tx\n", "a.cpp:1: a tab"),
            ("x", "a.cpp: no newline at the end"),
            ("x\n" * 601, "a.cpp: 601 lines, 600 at most"),
        ):
            self.assertEqual(check_format.text_problems("a.cpp", text), [expected])

    def test_only_tables_and_data_are_exempt(self):
        for name in ("src/text/case_table.cpp", "tests/data/x/a.py"):
            self.assertTrue(check_format.GENERATED.search(name), name)
        for name in ("src/text/tables/a.cpp", "src/core/residency.cpp", "tests/gguf/a_test.cpp"):
            self.assertFalse(check_format.GENERATED.search(name), name)

    @unittest.skipUnless(check_format.clang_format(), "needs clang-format")
    def test_clang_format_is_asked(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / ".clang-format").write_text("BasedOnStyle: Google\n")
            (root / "good.cpp").write_text("int x;\n")
            (root / "bad.cpp").write_text("int   x ;\n")
            program = check_format.clang_format()
            found = check_format.format_problems(program, root, ["good.cpp", "bad.cpp"])
            self.assertEqual(found, ["bad.cpp: not as clang-format would have it"])

    @unittest.skipUnless(shutil.which("git"), "needs git")
    def test_only_tracked_files_count(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("tracked.py", "other.py"):
                (Path(folder) / name).touch()
            subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
            subprocess.run(["git", "add", "tracked.py"], cwd=folder, check=True)
            found = check_format.source_files(Path(folder))
            self.assertEqual([path.name for path in found], ["tracked.py"])


class LayersTest(unittest.TestCase):
    def test_files_belong_to_layers(self):
        self.assertEqual(lint.layer_of("include/strata/gguf/file.hpp"), "gguf")
        self.assertEqual(lint.layer_of("src/runtime/sampler.cpp"), "runtime")
        self.assertEqual(lint.layer_of("kernels/cpu/kernels.cpp"), "device")
        self.assertIsNone(lint.layer_of("tests/gguf/file_test.cpp"))

    def test_including_downward_is_right_and_upward_wrong(self):
        down = '#include "strata/base/error.hpp"\n#include "strata/gguf/file.hpp"\n'
        up = '#include "strata/base/error.hpp"\n#include "strata/runtime/sampler.hpp"\n'
        self.assertEqual(lint.layer_problems("src/gguf/a.cpp", down), [])
        (problem,) = lint.layer_problems("src/gguf/a.cpp", up)
        self.assertIn("src/gguf/a.cpp:2: layer gguf includes runtime", problem)

    def test_an_unknown_layer_is_a_problem(self):
        self.assertEqual(len(lint.layer_problems("src/misc/a.cpp", "")), 1)
        self.assertEqual(
            len(lint.layer_problems("src/base/a.cpp", '#include "strata/misc/a.hpp"\n')), 1
        )

    def test_links_must_lead_somewhere(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "docs").mkdir()
            (root / "docs" / "there.md").touch()
            text = "[a](there.md#part) [b](../gone.md) [c](https://example.org/x.md) [d](#here)"
            (root / "docs" / "a.md").write_text(text)
            self.assertEqual(lint.structure_problems(root), ["docs/a.md: no ../gone.md"])

    def test_folders_choose_files(self):
        runtime = lint.chosen_files([str(ROOT / "src" / "runtime")])
        self.assertIn("src/runtime/sampler.cpp", runtime)
        self.assertTrue(all(name.startswith("src/runtime/") for name in runtime))
        one = "src/runtime/sampler.cpp"
        self.assertEqual(lint.chosen_files([str(ROOT / one)]), [one])
        self.assertGreater(len(lint.chosen_files([])), len(runtime))


if __name__ == "__main__":
    unittest.main()
