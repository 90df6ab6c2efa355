"""Random Jinja templates, for tools/check_templates.py."""


class Generator:
    """Templates that mostly mean something, with a mistake now and then."""

    NAMES = {
        "int": ["n", "zero", "neg"],
        "str": ["s", "empty", "u", "html", "lines", "padded"],
        "list": ["l", "words", "nested", "mixed", "el", "people", "messages"],
        "dict": ["d", "ed", "people[0]"],
        "float": ["pi"],
        "bool": ["t", "f"],
    }
    STRINGS = [
        "'a'",
        "'Hello'",
        "''",
        "' x '",
        "'a,b,c'",
        "'\\n'",
        "'é世'",
        '"it\'s"',
        "'ABC'",
        "'x1'",
        "'42'",
        "'-7.5'",
        "'<b>'",
        "'a\\nb\\n'",
        "'%s'",
        "'{}'",
        "'name'",
        "'a' 'b'",
    ]

    def __init__(self, rng):
        self.rng = rng
        self.locals = []
        self.depth = 0
        self.loops = 0

    def pick(self, *options):
        return self.rng.choice(options)

    def chance(self, share):
        return self.rng.random() < share

    def expr(self, kind=None):
        if kind is None or self.chance(0.04):
            kind = self.pick("int", "str", "list", "dict", "bool", "float", "any")
        if self.locals and self.chance(0.15):
            return self.rng.choice(self.locals)
        self.depth += 1
        try:
            if self.depth > 4 or self.chance(0.25):
                return self.leaf(kind)
            made = getattr(self, "make_" + kind)()
            return f"({made})" if "|" in made and self.chance(0.85) else made
        finally:
            self.depth -= 1

    def leaf(self, kind):
        if kind in self.NAMES and self.chance(0.6):
            return self.rng.choice(self.NAMES[kind])
        if kind == "int":
            return str(self.rng.choice([0, 1, 2, 3, 5, -1, -2, 10, 255]))
        if kind == "float":
            return self.pick("0.5", "2.5", "1.0", "-3.7", "1e3", "1e-7", "100.25")
        if kind == "str":
            return self.rng.choice(self.STRINGS)
        if kind == "list":
            return (
                "["
                + ", ".join(
                    self.leaf(self.pick("int", "str", "bool"))
                    for _ in range(self.rng.randint(0, 4))
                )
                + "]"
            )
        if kind == "dict":
            return (
                "{"
                + ", ".join(
                    f"'{key}': {self.leaf(self.pick('int', 'str'))}"
                    for key in self.rng.sample("abcxyz", self.rng.randint(0, 3))
                )
                + "}"
            )
        if kind == "bool":
            return self.pick("true", "false")
        return self.pick(
            "none", "missing", "d.nope", "d.z", "loop", "n", "s", "l", "d", "(1, 'a')", "big"
        )

    def make_int(self):
        e = self.expr
        return self.pick(
            lambda: f"({e('int')} {self.pick('+', '-', '*', '//', '%')} {e('int')})",
            lambda: f"{e('str')}|length",
            lambda: f"{e('list')}|length",
            lambda: f"{e('list')}|sum",
            lambda: f"{e('str')}|int",
            lambda: f"-{e('int')}",
            lambda: f"{e('float')}|int",
            lambda: f"{e('int')}|abs",
            lambda: f"{e('str')}.count({e('str')})",
            lambda: f"{e('str')}.find({e('str')})",
            lambda: f"({e('int')} if {e('bool')} else {e('int')})",
            lambda: f"{e('list')}[{e('int')}]",
            lambda: f"({e('int')} ** {self.rng.randint(0, 3)})",
            lambda: f"{e('list')}|map('length')|sum",
            lambda: f"{e('list')}|max",
            lambda: f"{e('list')}.index({e()})",
            lambda: f"{e('str')}|wordcount",
            lambda: f"({e('int')} or {e('int')})",
            lambda: f"range({e('int')})|length",
        )()

    def make_float(self):
        e = self.expr
        return self.pick(
            lambda: (
                f"({e('float')} {self.pick('+', '-', '*', '//', '%', '/')} "
                f"{e(self.pick('int', 'float'))})"
            ),
            lambda: f"({e('int')} / {e('int')})",
            lambda: f"{e('float')}|round({self.rng.randint(-1, 3)})",
            lambda: f"{e('str')}|float",
            lambda: f"{e('float')}|round(1, '{self.pick('ceil', 'floor', 'common')}')",
            lambda: f"{e('float')}|abs",
            lambda: f"({e('float')} ** 2)",
        )()

    def make_str(self):
        e = self.expr
        filters = [
            "upper",
            "lower",
            "title",
            "capitalize",
            "trim",
            "reverse",
            "string",
            "safe",
            "e",
            "forceescape",
            "tojson",
            "indent",
            "indent(2, true)",
            "first",
            "last",
            "center(9)",
            "truncate(5)",
            "default('D')",
            "truncate(6, true, '.', 0)",
            "replace('a', 'b')",
            "trim('a')",
            "join('-')",
            "d('q', true)",
        ]
        methods = [
            "upper()",
            "lower()",
            "title()",
            "capitalize()",
            "strip()",
            "lstrip()",
            "rstrip('\\n')",
            "swapcase()",
            "replace('a', 'bb')",
            "zfill(6)",
            "center(8, '*')",
            "ljust(7)",
            "rjust(7, '.')",
            "strip('aHx')",
            "removeprefix('a')",
            "removesuffix('c')",
            "split(',')[0]",
            "partition('l')[2]",
            "rsplit(' ', 1)[-1]",
            "splitlines()[0]",
            "format(1, 'x')",
        ]
        return self.pick(
            lambda: f"({e('str')} + {e('str')})",
            lambda: f"({e('str')} ~ {e()})",
            lambda: f"({e()} ~ {e()} ~ {e()})",
            lambda: f"{e('str')}|{self.rng.choice(filters)}",
            lambda: f"{e('str')}|{self.rng.choice(filters)}",
            lambda: f"{e('str')}.{self.rng.choice(methods)}",
            lambda: f"{e('str')}.{self.rng.choice(methods)}",
            lambda: f"{e('str')}[{e('int')}]",
            lambda: f"{e('str')}[{self.slice()}]",
            lambda: f"({e('str')} * {e('int')})",
            lambda: f"{e('list')}|join({e('str')})",
            lambda: f"{e('str')}.join({e('list')}|map('string'))",
            lambda: f"('%{self.pick('s', '5s', '-4s|', '.2s', 'r')}' % {e('str')})",
            lambda: f"{e()}|tojson",
            lambda: (
                f"('%{self.pick('d', '5d', '-5d|', '05d', '+d', 'x', '.3f', 'e', 'g')}' % "
                f"{e(self.pick('int', 'float'))})"
            ),
            lambda: (
                f"'{{{self.pick('', ':>6', ':<6', ':^7', ':*^9', '!r', ':.2')}}}'"
                f".format({e('str')})"
            ),
            lambda: (
                "'{"
                + self.pick("", ":6", ":<6", ":^7", ":06", ":+", ":,", ":.2f", ":e", ":g", ":%")
                + "}'.format("
                + e(self.pick("int", "float"))
                + ")"
            ),
            lambda: f"{e()}|tojson(indent={self.rng.randint(0, 3)})",
            lambda: f"({e('str')} if {e('bool')} else {e('str')})",
            lambda: f"{e()}|string",
            lambda: f"{e('dict')}|tojson",
            lambda: f"{e('str')}|replace({e('str')}, {e('str')})",
            lambda: f"({e('str')} or {e('str')})",
            lambda: f"{e('str')}.replace({e('str')}, {e('str')}, {e('int')})",
        )()

    def make_list(self):
        e = self.expr
        filters = [
            "list",
            "sort",
            "sort(reverse=true)",
            "unique|list",
            "reverse|list",
            "map('string')|list",
            "map('upper')|list",
            "select('string')|list",
            "reject('none')|list",
            "select|list",
            "batch(2)|list",
            "map('length')|list",
            "slice(2)|list",
            "map(attribute='name')|list",
            "selectattr('age')|list",
            "selectattr('age', 'gt', 26)|list",
            "rejectattr('role', 'equalto', 'user')|list",
            "default([])",
            "sort(attribute='name')",
            "groupby('age')",
            "map(attribute='age', default=1)|list",
            "sort(case_sensitive=true)",
            "map('replace', 'a', 'o')|list",
            "select('in', [1, 'a'])|list",
            "map('tojson')|list",
        ]
        return self.pick(
            lambda: f"{e('list')}|{self.rng.choice(filters)}",
            lambda: f"{e('list')}|{self.rng.choice(filters)}",
            lambda: f"{e('list')}[{self.slice()}]",
            lambda: f"({e('list')} + {e('list')})",
            lambda: f"{e('str')}|list",
            lambda: f"[{e()}, {e()}]",
            lambda: f"range({e('int')}, {e('int')})|list",
            lambda: f"{e('dict')}.items()|list",
            lambda: f"{e('str')}.split({self.pick('', '', repr(','), repr(' '), 'none, 1')})",
            lambda: f"{e('dict')}|dictsort",
            lambda: f"{e('dict')}.keys()|list",
            lambda: f"{e('str')}.splitlines()",
            lambda: f"({e('list')} * 2)",
            lambda: f"{e('dict')}|items|list",
            lambda: f"({e()}, {e()})",
            lambda: f"{e('str')}.rsplit({e('str')}, 2)",
        )()

    def make_dict(self):
        e = self.expr
        return self.pick(
            lambda: f"{{'a': {e()}, 'b': {e()}}}",
            lambda: f"dict(a={e()}, b={e()})",
            lambda: f"dict({e('dict')}, c={e()})",
            lambda: f"{{{e(self.pick('str', 'int'))}: {e()}}}",
            lambda: f"({e('dict')} or {e('dict')})",
            lambda: f"dict({e('dict')}.items())",
        )()

    def make_bool(self):
        e = self.expr
        test = self.pick(
            "defined",
            "undefined",
            "none",
            "string",
            "number",
            "mapping",
            "sequence",
            "iterable",
            "boolean",
            "true",
            "false",
            "integer",
            "float",
            "odd",
            "even",
            "lower",
            "upper",
            "divisibleby 3",
            "in [1, 'a', 2]",
            "eq 1",
            "callable",
            "escaped",
            "sameas none",
            "gt 2",
        )
        return self.pick(
            lambda: (
                f"({e('int')} {self.pick('==', '!=', '<', '<=', '>', '>=')} "
                f"{e(self.pick('int', 'float'))})"
            ),
            lambda: f"({e()} {self.pick('==', '!=')} {e()})",
            lambda: f"({e('str')} {self.pick('in', 'not in')} {e('str')})",
            lambda: f"({e()} {self.pick('in', 'not in')} {e('list')})",
            lambda: f"(not {e()})",
            lambda: f"({e()} {self.pick('and', 'or')} {e()})",
            lambda: f"({e()} is {self.pick('', 'not ')}{test})",
            lambda: f"({e()} is {self.pick('', 'not ')}{test})",
            lambda: f"({e('str')} < {e('str')})",
            lambda: f"({e('int')} < {e('int')} <= {e('int')})",
            lambda: f"{e('str')}.startswith({e('str')})",
            lambda: f"{e('str')}.endswith({e('str')})",
            lambda: f"({e('str')} in {e('dict')})",
            lambda: (
                f"{e('str')}."
                f"{self.pick('isdigit', 'isalpha', 'isspace', 'isupper', 'islower', 'isalnum')}()"
            ),
        )()

    def make_any(self):
        e = self.expr
        return self.pick(
            lambda: f"{e('dict')}.{self.pick('a', 'b', 'x', 'name', 'items')}",
            lambda: f"{e('dict')}[{e('str')}]",
            lambda: f"{e('list')}[{e('int')}]",
            lambda: f"{e('list')}|{self.pick('first', 'last', 'min', 'max')}",
            lambda: f"{e('dict')}.get({e('str')}, {e()})",
            lambda: f"({e()} if {e('bool')})",
            lambda: f"{e()}|default({e()})",
            lambda: f"({e()} or {e()})",
            lambda: f"({e()} and {e()})",
            lambda: f"{e('list')}[0].{self.pick('name', 'role', 'age')}",
            lambda: f"{e()}|attr('{self.pick('a', 'name')}')",
            lambda: f"{e()}.{self.pick('x', 'name', 'b')}",
        )()

    def slice(self):
        part = lambda: self.pick("", "", str(self.rng.randint(-4, 4)), self.leaf("int"))
        return f"{part()}:{part()}" + (
            f":{self.pick('', '1', '2', '-1', '-2')}" if self.chance(0.4) else ""
        )

    # Statements.

    def text(self):
        if self.chance(0.003):
            return "{"
        return self.pick(
            "", " ", "\n", "a", " b ", "\n  ", "x\ny", "\t", "  \n", "é", "}", "# ", "\n\n"
        )

    def tag(self, content, print_tag=False):
        begin, end = ("{{", "}}") if print_tag else ("{%", "%}")
        return (
            begin
            + self.pick("", "", "", "-", "+" if not print_tag else "")
            + " "
            + content
            + " "
            + self.pick("", "", "", "-", "+" if not print_tag else "")
            + end
        )

    def block(self, depth=0):
        return (
            "".join(self.text() + self.statement(depth) for _ in range(self.rng.randint(1, 3)))
            + self.text()
        )

    def statement(self, depth):
        kinds = [self.output] * 4
        if depth < 3:
            kinds += (
                [self.if_block] * 2
                + [self.for_block] * 3
                + [self.set_tag] * 3
                + [
                    self.set_block,
                    self.macro,
                    self.with_block,
                    self.filter_block,
                    self.comment,
                    self.namespace,
                    self.loop_output,
                    self.generation,
                    self.call_block,
                    self.raw,
                    self.loop_control,
                ]
            )
        return self.rng.choice(kinds)(depth)

    def output(self, _):
        return self.tag(self.expr(), print_tag=True)

    def loop_output(self, _):
        return self.tag(
            "loop."
            + self.pick(
                "index",
                "index0",
                "first",
                "last",
                "length",
                "revindex",
                "previtem",
                "nextitem",
                "cycle('x', 'y')",
                "changed(n)",
                "depth",
            ),
            print_tag=True,
        )

    def comment(self, _):
        return "{#" + self.pick("", "-", "+") + " note " + self.pick("", "-", "+") + "#}"

    def raw(self, _):
        return "{% raw %}" + self.text() + "{{ x }} {% y %}" + self.text() + self.tag("endraw")

    def loop_control(self, _):
        if not self.loops and self.chance(0.98):
            return ""
        return (
            self.tag("if " + self.expr("bool"))
            + self.tag(self.pick("break", "continue"))
            + self.tag("endif")
        )

    def inner(self, depth, *names):
        saved = list(self.locals)
        self.locals += names
        body = self.block(depth + 1)
        self.locals = saved
        return body

    def if_block(self, depth):
        out = self.tag("if " + self.expr(self.pick("bool", None))) + self.inner(depth)
        if self.chance(0.3):
            out += self.tag("elif " + self.expr("bool")) + self.inner(depth)
        if self.chance(0.5):
            out += self.tag("else") + self.inner(depth)
        return out + self.tag("endif")

    def for_block(self, depth):
        target, names, items = self.pick(
            ("x", ["x"], self.expr("list")),
            ("c", ["c"], self.expr("str")),
            ("k", ["k"], self.expr("dict")),
            ("k, v", ["k", "v"], self.expr("dict") + ".items()"),
            ("p", ["p", "p.name"], "people"),
            ("i", ["i"], f"range({self.rng.randint(0, 4)})"),
        )
        condition = " if " + self.expr("bool") if self.chance(0.2) else ""
        self.loops += 1
        out = self.tag(f"for {target} in {items}{condition}") + self.inner(depth, *names)
        self.loops -= 1
        if self.chance(0.2):
            out += self.tag("else") + self.inner(depth)
        return out + self.tag("endfor")

    def set_tag(self, _):
        name = self.pick("v", "w", "n", "s")
        out = self.tag(f"set {name} = {self.expr()}")
        self.locals.append(name)
        return out

    def set_block(self, depth):
        return (
            self.tag("set w" + self.pick("", " | upper", " | trim"))
            + self.inner(depth)
            + self.tag("endset")
        )

    def macro(self, depth):
        parameters = self.pick("", "a", "a, b=" + self.expr(), "a=1, b=a")
        body = self.inner(depth, *[name for name in "ab" if name in parameters])
        self.locals.append(
            self.pick("m()", "m(1)", f"m({self.expr()})", f"m(1, b={self.expr()})", "m(1, 2, 3)")
        )
        return self.tag(f"macro m({parameters})") + body + self.tag("endmacro")

    def call_block(self, depth):
        head = (
            self.tag("macro q(a)")
            + self.text()
            + self.tag("caller(a)", True)
            + self.tag("endmacro")
        )
        return (
            head
            + self.tag(f"call(y) q({self.expr()})")
            + self.inner(depth, "y")
            + self.tag("endcall")
        )

    def with_block(self, depth):
        return self.tag(f"with v = {self.expr()}") + self.inner(depth, "v") + self.tag("endwith")

    def filter_block(self, depth):
        return (
            self.tag(
                "filter " + self.pick("upper", "trim", "replace('a', 'b')", "indent", "title|e")
            )
            + self.inner(depth)
            + self.tag("endfilter")
        )

    def generation(self, depth):
        return self.tag("generation") + self.inner(depth) + self.tag("endgeneration")

    def namespace(self, _):
        self.locals.append("ns.v")
        return (
            self.tag(f"set ns = namespace(v={self.expr()})")
            if self.chance(0.5)
            else self.tag(f"set ns.v = {self.expr()}")
        )

    def template(self):
        self.locals = []
        self.depth = self.loops = 0
        if self.chance(0.5):
            return self.tag(self.expr(), print_tag=True)
        text = self.block()
        if self.chance(0.02):  # a broken one
            at = self.rng.randrange(len(text))
            text = text[:at] + self.pick("", "{", "%}", "(", "'", "|", "-") + text[at + 1 :]
        return text


# Printing these gives memory addresses, or Python objects that no template means to print.
