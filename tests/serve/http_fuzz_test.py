"""A short run of http_fuzz.py; a long one, with sanitizers, is made by hand."""

import unittest

from http_fuzz import fuzz
from live_server import need_program


class FuzzTest(unittest.TestCase):
    def test_nothing_that_comes_in_harms_the_server(self):
        need_program()
        statuses, problems = fuzz(seconds=8, seed=1)
        self.assertEqual(problems, [])
        self.assertGreater(statuses.get("200", 0), 0, statuses)
        self.assertGreater(statuses.get("400", 0), 0, statuses)


if __name__ == "__main__":
    unittest.main()
