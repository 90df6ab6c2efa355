"""Tests of what setup.py runs, with the real shell.

python3 -m unittest discover -s tests/setup -p '*_test.py'
"""

import sys
import unittest
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "tools")]

from strata_setup import system, testing  # noqa: E402


class RealCommandsTest(unittest.TestCase):
    """The parts of Machine that run programs, with the real shell."""

    def test_streams_lines_and_returns_the_status(self):
        lines = []
        command = ["sh", "-c", 'echo one; echo two >&2; read line || echo "$WORD"; exit 3']
        status = system.Machine().stream(command, {"WORD": "no input"}, lines.append)
        self.assertEqual((status, lines), (3, ["one", "two", "no input"]))

    def test_output_is_none_for_failures(self):
        machine = system.Machine()
        self.assertEqual(machine.output(["sh", "-c", "echo yes"]), "yes")
        self.assertIsNone(machine.output(["sh", "-c", "echo no; exit 1"]))
        self.assertIsNone(machine.output(["no-such-program-here"]))

    def test_an_interrupted_stream_ends_its_program(self):
        def stop(_):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            system.Machine().stream(["sh", "-c", "echo go; exec sleep 1000"], {}, stop)

    def test_an_interrupt_is_left_to_the_attached_program(self):
        script = "trap 'exit 9' INT; kill -INT $PPID; kill -INT $$; sleep 5"
        self.assertEqual(system.Machine().attached(["sh", "-c", script]), 9)

    def test_failed_output_starts_at_the_first_complaint(self):
        lines = ["      Start  1: A", "1/9 Test #1: A ... Passed", "x", "y", "z", "q: Failure", "w"]
        self.assertEqual(testing.failed_output(lines), ["y", "z", "q: Failure", "w"])


if __name__ == "__main__":
    unittest.main()
