"""JSON schemas through HTTP, at a temperature at which the model says anything: every answer that
was not cut off satisfies its schema.

All schemas, not some: python3 tests/serve/schemas_test.py --all
"""

import concurrent.futures
import json
import re
import sys
import unittest

from live_server import ROOT, LiveTest

try:
    import jsonschema
except ImportError:
    jsonschema = None

FOREIGN = r"\(\?<|\\\\c|\\\\u"
EVERY = 1 if "--all" in sys.argv else 9


def schemas():
    found = []
    for name in ("features", "random"):
        lines = (ROOT / "tests/data/schemas" / f"{name}.jsonl").read_text().splitlines()
        found += [json.loads(line)["schema"] for line in lines]
    # Python's regular expressions are not ECMAScript's: it cannot judge these.
    return [each for each in found if not re.search(FOREIGN, json.dumps(each))][::EVERY]


@unittest.skipUnless(jsonschema, "the jsonschema package is not installed")
class SchemasTest(LiveTest):
    def answer(self, number, schema):
        body = {
            "messages": [{"role": "user", "content": "Write something."}],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "some", "schema": schema},
            },
            "max_tokens": 300,
            "temperature": 2,
            "top_k": 0,
            "top_p": 1,
            "seed": number,
        }
        return self.server.post("/v1/chat/completions", body)

    def check(self, number, schema):
        """Whether the answer had an end."""
        reply = self.answer(number, schema)
        self.assertEqual(reply.status, 200, reply.body)
        choice = reply.json()["choices"][0]
        if choice["finish_reason"] == "length":
            return False
        self.assertEqual(choice["finish_reason"], "stop")
        validator = jsonschema.Draft202012Validator(
            schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
        )
        errors = list(validator.iter_errors(json.loads(choice["message"]["content"])))
        self.assertEqual(errors, [], f"{schema}\n{choice['message']['content']}")
        return True

    def test_every_answer_satisfies_its_schema(self):
        some = schemas()
        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            ended = sum(clients.map(self.check, range(len(some)), some))
        print(f"{ended} of {len(some)} answers had an end, all valid", file=sys.stderr)
        self.assertGreater(ended, len(some) / 2)


if __name__ == "__main__":
    unittest.main(argv=[word for word in sys.argv if word != "--all"])
