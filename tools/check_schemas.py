#!/usr/bin/env python3
"""Compares Strata's grammars of JSON schemas with Python's jsonschema.

Needs jsonschema (pip install 'jsonschema[format]==4.26.0').

    check_schemas.py samples FILE.jsonl ... --program PROGRAM [--samples N] [--seed S]
        writes random texts for each schema; every one must be valid
    check_schemas.py random --program PROGRAM [--count N] [--seed S] [--save FILE.jsonl]
        the same with random schemas
    check_schemas.py suite FOLDER ... --program PROGRAM
        the same with the schemas of https://github.com/json-schema-org/JSON-Schema-Test-Suite;
        also no instance that the suite calls invalid may be accepted

PROGRAM is build/*/tests/strata_schema_samples. A file has a JSON object a line, with "schema".
"""

import argparse
import collections
import glob
import json
import os
import random
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from random_schemas import random_schema  # noqa: E402


class Program:
    """strata_schema_samples: a request a line, an answer a line."""

    def __init__(self, path):
        self.process = subprocess.Popen(
            [path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"the program ended at {json.dumps(request)}")
        return json.loads(answer)


class Check:
    """What was found so far."""

    def __init__(self, program, samples, seed):
        self.program = program
        self.samples = samples
        self.seed = seed
        self.counts = collections.Counter()
        self.reasons = collections.Counter()
        self.problems = []

    def schema(self, schema, instances=(), draft=None):
        """Samples one schema. `instances`: pairs of an instance and whether it is valid."""
        import jsonschema

        draft = draft or jsonschema.Draft202012Validator
        validator = draft(schema, format_checker=draft.FORMAT_CHECKER)
        request = {"schema": schema, "samples": self.samples, "seed": self.seed}
        answer = self.program.ask(request | {"instances": [each for each, _ in instances]})
        self.seed += 1
        if "error" in answer:
            self.counts["refused"] += 1
            self.reasons[answer["error"].split(": ", 1)[1][:60]] += 1
            return False
        self.counts["schemas"] += 1
        for text in answer["samples"]:
            self.counts["samples"] += 1
            self.sample(schema, validator, text)
        for (instance, valid), accepted in zip(instances, answer["accepted"]):
            self.counts["valid instances" if valid else "invalid instances"] += 1
            if accepted:
                self.counts["valid ones accepted" if valid else "invalid ones accepted"] += 1
                if not valid:
                    self.problem(schema, json.dumps(instance), "accepted, but not valid")
        return True

    def sample(self, schema, validator, text):
        try:
            value = json.loads(text)
            error = next(iter(validator.iter_errors(value)), None)
        except ValueError as exception:
            error = exception
        except re.error:  # Python's regular expressions are not ECMA's
            self.counts["samples that could not be judged"] += 1
            return
        if error is not None:
            self.problem(schema, text, str(error).splitlines()[0])

    def problem(self, schema, text, reason):
        self.problems.append(f"{reason}\n  schema: {json.dumps(schema)}\n  text:   {text}")

    def report(self):
        for problem in self.problems[:20]:
            print(problem)
        for reason, count in self.reasons.most_common(40):
            print(f"{count:6} refused: {reason}")
        print(", ".join(f"{count} {what}" for what, count in self.counts.items()), end="; ")
        print(f"{len(self.problems)} problems")
        return 1 if self.problems else 0


def check_files(check, paths):
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for line in file:
                check.schema(json.loads(line)["schema"])


def check_random(check, count, save):
    generator = random.Random(check.seed)
    kept = []
    for _ in range(count):
        schema = random_schema(generator)
        if check.schema(schema):
            kept.append(schema)
    if save:
        with open(save, "w", encoding="utf-8") as file:
            for schema in kept:
                file.write(json.dumps({"schema": schema}, ensure_ascii=False) + "\n")


def check_suite(check, folder):
    import jsonschema

    drafts = {"draft2020-12": jsonschema.Draft202012Validator, "draft7": jsonschema.Draft7Validator}
    for path in sorted(glob.glob(os.path.join(folder, "**", "*.json"), recursive=True)):
        draft = next((kind for name, kind in drafts.items() if name in path), None)
        with open(path, encoding="utf-8") as file:
            groups = json.load(file)
        for group in groups:
            instances = [(test["data"], test["valid"]) for test in group["tests"]]
            check.schema(group["schema"], instances, draft)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mode", choices=["samples", "random", "suite"])
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--program", required=True)
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--save")
    options = parser.parse_args()
    check = Check(Program(options.program), options.samples, options.seed)
    if options.mode == "samples":
        check_files(check, options.paths)
    elif options.mode == "random":
        check_random(check, options.count, options.save)
    else:
        for folder in options.paths:
            check_suite(check, folder)
    return check.report()


if __name__ == "__main__":
    sys.exit(main())
