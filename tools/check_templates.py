#!/usr/bin/env python3
"""Compares Strata's Jinja engine with jinja2 as transformers' apply_chat_template sets it up.

Needs jinja2 (pip install jinja2==3.1.6).

    check_templates.py add FILE.json < CASES
        appends templates, separated by lines of "=====", to a case file
    check_templates.py refresh FILE.json ...
        works out anew what jinja2 makes of every case of a case file
    check_templates.py matrix DIR
        renders each DIR/*.jinja with each conversation of DIR/conversations.json; writes
        DIR/expected.json
    check_templates.py compare FILE.json ... --program PROGRAM
    check_templates.py random --program PROGRAM [--count N] [--seed S] [--save FILE.json]
        compares both engines on N random templates
    check_templates.py case-table
        prints src/text/jinja_case_table.cpp

PROGRAM is build/*/tests/strata_jinja_lines. A case file is a JSON list of {"template", "context"
(may be left out), and either "text" or "error" ("syntax" with "line", "runtime", or "raise" with
"message")}. The tests read these files.
"""

import argparse
import datetime
import glob
import json
import os
import random
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from jinja_case_table import case_table  # noqa: E402
from random_templates import Generator  # noqa: E402

NOW = datetime.datetime(2025, 7, 4, 9, 8, 7)  # what strftime_now tells in all expected texts

TEMPLATES = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data", "templates"
)


def environment():
    """The environment of transformers' _compile_jinja_template."""
    import jinja2
    import jinja2.ext
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(jinja2.ext.Extension):
        tags = {"generation"}

        def parse(self, parser):
            lineno = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_generation"), [], [], body).set_lineno(
                lineno
            )

        def _generation(self, caller):
            return caller()

    class Dict:
        def __call__(self, *args, **kwargs):
            return dict(*args, **kwargs)

    class Namespace(jinja2.utils.Namespace):
        def __init__(*args, **kwargs):
            self, args = args[0], args[1:]
            attrs = dict(*args, **kwargs)
            for name in attrs:
                Namespace._check(name)
            jinja2.utils.Namespace.__init__(self, attrs)

        def __setitem__(self, name, value):
            Namespace._check(name)
            jinja2.utils.Namespace.__setitem__(self, name, value)

        @staticmethod
        def _check(name):
            if isinstance(name, str) and name.startswith("_"):
                raise jinja2.exceptions.SecurityError(name)

    def raise_exception(message):
        error = jinja2.exceptions.TemplateError(message)
        error.raised = True
        raise error

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals.update(
        raise_exception=raise_exception, strftime_now=NOW.strftime, dict=Dict(), namespace=Namespace
    )
    return env


def evaluate(env, template, context):
    """What jinja2 makes of a template, in the form the case files have."""
    import jinja2

    try:
        compiled = env.from_string(template)
    except jinja2.TemplateSyntaxError as error:
        return {"error": "syntax", "line": error.lineno}
    except (SyntaxError, RecursionError, MemoryError, ValueError, AssertionError):
        return {"error": "syntax"}  # of the Python that jinja2 makes of the template
    except TypeError:
        return {
            "error": "runtime"
        }  # jinja2 tripped over a constant that fails when it is worked out
    try:
        text = compiled.render(**json.loads(json.dumps(context)))
        text.encode()
        return {"text": text}
    except jinja2.TemplateError as error:
        if getattr(error, "raised", False):
            return {"error": "raise", "message": str(error.message)}
        return {"error": "runtime"}
    except Exception:
        return {"error": "runtime"}


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def save(path, cases):
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            "[\n" + ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases) + "\n]\n"
        )


CONTEXT = load(os.path.join(TEMPLATES, "context.json"))  # of the cases without one of their own


def refreshed(env, case):
    kept = {key: case[key] for key in ("template", "context") if key in case}
    return kept | evaluate(env, case["template"], case.get("context", CONTEXT))


class Program:
    """The engine under test, fed a JSON line at a time. A crash loses the case that caused it."""

    def __init__(self, command):
        self.command = command
        self.process = None

    def ask(self, template, context):
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                [self.command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
            )
        request = json.dumps(
            {
                "template": template,
                "context": context,
                "now": int(NOW.replace(tzinfo=datetime.timezone.utc).timestamp()),
            },
            ensure_ascii=False,
        )
        try:
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            return {"crash": self.process.wait()}
        return json.loads(line)


def same(expected, got):
    if "text" in expected:
        return got.get("text") == expected["text"]
    if "error" not in got or got["stage"] != (
        "parse" if expected["error"] == "syntax" else "render"
    ):
        return False
    if expected["error"] == "raise":
        return expected["message"] in got["error"]
    return "line" not in expected or f"line {expected['line']}:" in got["error"]


def report(template, context, expected, got):
    print("---- template:\n" + template)
    if context is not CONTEXT:
        print("---- context:", json.dumps(context, ensure_ascii=False)[:500])
    print("---- jinja2:", json.dumps(expected, ensure_ascii=False)[:1500])
    print("---- strata:", json.dumps(got, ensure_ascii=False)[:1500], flush=True)


def compare(paths, program):
    env, engine, bad, total = environment(), Program(program), 0, 0
    for path in paths:
        for case in load(path):
            context = case.get("context", CONTEXT)
            expected = evaluate(env, case["template"], context)
            got = engine.ask(case["template"], context)
            total += 1
            if not same(expected, got):
                bad += 1
                report(case["template"], context, expected, got)
    print(f"{total - bad} of {total} cases agree")
    return bad == 0


def matrix(folder):
    env = environment()
    conversations = load(os.path.join(folder, "conversations.json"))
    expected = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.jinja"))):
        with open(path, encoding="utf-8") as file:
            template = file.read()
        name = os.path.basename(path).removesuffix(".jinja")
        expected[name] = {
            each["name"]: evaluate(env, template, each["context"]) for each in conversations
        }
    with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as file:
        json.dump(expected, file, ensure_ascii=False, indent=1)
        file.write("\n")
    flat = [result for results in expected.values() for result in results.values()]
    print(f"{len(flat)} texts, {sum('error' in result for result in flat)} of them errors")


UNSTABLE = re.compile(r" at 0x|TemplateReference|<class|Markup\('|b'|j\)")


def compare_random(args):
    env, engine, rng = environment(), Program(args.program), random.Random(args.seed)
    generator, counts, different = Generator(rng), {}, []
    while sum(counts.values()) < args.count:
        template = generator.template()
        expected = evaluate(env, template, CONTEXT)
        if UNSTABLE.search(expected.get("text", "")) or len(expected.get("text", "")) > 100000:
            continue
        got = engine.ask(template, CONTEXT)
        kind = expected.get("error", "text")
        counts[kind] = counts.get(kind, 0) + 1
        if not same(expected, got):
            different.append({"template": template} | expected)
            report(template, CONTEXT, expected, got)
    print(
        f"{sum(counts.values()) - len(different)} of {sum(counts.values())} templates agree; "
        f"jinja2 gave {counts}"
    )
    if args.save and different:
        save(args.save, (load(args.save) if os.path.exists(args.save) else []) + different)
    return not different


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "action", choices=["add", "refresh", "matrix", "compare", "random", "case-table"]
    )
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--program")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--save", help="append the cases that differ, as jinja2 has them, to this case file"
    )
    args = parser.parse_args()
    if args.action == "add":
        (path,) = args.paths
        env, cases = environment(), load(path) if os.path.exists(path) else []
        known = {case["template"] for case in cases}
        for template in re.split(r"^=====\n", sys.stdin.read(), flags=re.M):
            template = template.removesuffix("\n")
            if template not in known:
                known.add(template)
                cases.append(refreshed(env, {"template": template}))
        save(path, cases)
    elif args.action == "refresh":
        env = environment()
        for path in args.paths:
            save(path, [refreshed(env, case) for case in load(path)])
    elif args.action == "matrix":
        matrix(*args.paths)
    elif args.action == "compare":
        return 0 if compare(args.paths, args.program) else 1
    elif args.action == "random":
        return 0 if compare_random(args) else 1
    else:
        case_table()
    return 0


if __name__ == "__main__":
    sys.exit(main())
