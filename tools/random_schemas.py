"""Random JSON schemas for check_schemas.py: of every keyword that Strata enforces."""

NAMES = ["id", "name", "kind", "tags", "a b", 'say "hi"', "größe", "x-1", "value", "next", "ok"]
TEXTS = ["", "red", "green", "two words", 'a"b', "back\\slash", "日本", "line\nbreak", "🌍"]
PATTERNS = [
    "^[a-z]+$",
    "^[A-Z]{2,3}-[0-9]{1,4}$",
    "foo|bar",
    "^(?:yes|no)$",
    "^[^@]+@[^@]+$",
    "[0-9]$",
    '^"',
    "^.{3,5}$",
    "^(a|bc)*d?$",
    "x",
]
FORMATS = "date-time date time duration uuid email hostname ipv4 ipv6 uri".split()


class Generator:
    """One schema: its definitions and where it may refer to."""

    def __init__(self, random):
        self.random = random
        self.definitions = random.sample(["node", "item", "pair"], random.randint(0, 2))

    def maybe(self, share):
        return self.random.random() < share

    def document(self):
        schema = self.schema(3)
        if self.definitions and isinstance(schema, dict):
            schema = dict(schema)
            schema["$defs"] = {name: self.definition() for name in self.definitions}
        return schema

    def definition(self):
        # Every way through a definition that comes back to it can be left.
        return self.random.choice([self.object, self.array, self.scalar])(2)

    def schema(self, depth):
        kinds = [self.scalar] * 4
        if depth > 0:
            kinds += [self.object] * 4 + [self.array] * 2 + [self.combined] * 2
            kinds += [self.reference] if self.definitions else []
        schema = self.random.choice(kinds)(depth)
        if isinstance(schema, dict) and self.maybe(0.1):
            schema = dict(schema, description="what it is", title="T")
        return schema

    def reference(self, depth):
        return {"$ref": "#/$defs/" + self.random.choice(self.definitions)}

    def scalar(self, depth=0):
        kinds = [
            self.string,
            self.string,
            self.integer,
            self.number,
            self.integer,
            self.literal,
            lambda: {"type": "boolean"},
            lambda: {"type": "null"},
            lambda: {"type": self.random.sample(["string", "null", "integer", "boolean"], 2)},
            lambda: self.random.choice([True, {}]),
        ]
        return self.random.choice(kinds)()

    def range(self, low, high, largest):
        result = {}
        first = self.random.randint(0, largest)
        if self.maybe(0.5):
            result[low] = first
        if self.maybe(0.5):
            result[high] = first + self.random.randint(0, largest)
        return result

    def string(self):
        schema = {"type": "string"}
        kind = self.random.random()
        if kind < 0.3:
            schema["pattern"] = self.random.choice(PATTERNS)
        elif kind < 0.5:
            schema["format"] = self.random.choice(FORMATS)
        elif kind < 0.8:
            schema.update(self.range("minLength", "maxLength", 30))
        if "pattern" in schema and self.maybe(0.3):
            schema["maxLength"] = self.random.randint(3, 40)
        return schema

    def bounds(self, value):
        schema = {}
        low, high = sorted([value(), value()])
        if self.maybe(0.5):
            schema[self.random.choice(["minimum", "exclusiveMinimum"])] = low
        if self.maybe(0.5):
            schema[self.random.choice(["maximum", "exclusiveMaximum"])] = high
        return schema

    def integer(self):
        sizes = [5, 100, 12345, 10**9, 2**53, 10**17]
        size = self.random.choice(sizes)
        schema = {"type": "integer"} | self.bounds(lambda: self.random.randint(-size, size))
        if self.maybe(0.2):
            schema["multipleOf"] = self.random.choice([1, 2, 5, 7, 60])
        return schema

    def number(self):
        size = self.random.choice([0.001, 1, 10, 1e6, 1e15])
        digits = self.random.choice([1, 3, 17])
        return {"type": "number"} | self.bounds(
            lambda: round(self.random.uniform(-size, size), digits)
        )

    def literal(self):
        values = TEXTS + [0, -1, 1.5, 1e20, True, None, [1, "a"], {"k": []}]
        if self.maybe(0.4):
            return {"const": self.random.choice(values)}
        schema = {"enum": self.random.sample(values, self.random.randint(1, 6))}
        if self.maybe(0.3):
            schema["type"] = self.random.choice(["string", "number", ["string", "null"]])
        return schema

    def object(self, depth):
        schema = {"type": "object"}
        names = self.random.sample(NAMES, self.random.randint(0, 5))
        if names:
            schema["properties"] = {name: self.schema(depth - 1) for name in names}
        if self.maybe(0.6):
            schema["required"] = [name for name in names if self.maybe(0.5)]
            if self.maybe(0.1):
                schema["required"].append("extra")
        if self.maybe(0.4):
            schema["additionalProperties"] = self.random.choice([False, False, True, {}])
        elif self.maybe(0.2):
            schema["additionalProperties"] = self.schema(depth - 1)
        if self.maybe(0.1):
            schema["patternProperties"] = {
                self.random.choice(PATTERNS): self.schema(depth - 1) for _ in range(2)
            }
        if self.maybe(0.1):
            schema["propertyNames"] = self.string()
        if self.maybe(0.1):
            schema["minProperties"] = self.random.randint(0, 2)
        if self.maybe(0.1):
            schema["maxProperties"] = self.random.randint(1, 6)
        if self.maybe(0.1):
            del schema["type"]
        return schema

    def array(self, depth):
        schema = {"type": "array"}
        if self.maybe(0.3):
            schema["prefixItems"] = [
                self.schema(depth - 1) for _ in range(self.random.randint(1, 3))
            ]
        if self.maybe(0.7):
            schema["items"] = self.schema(depth - 1)
        if self.maybe(0.4):
            schema.update(self.range("minItems", "maxItems", 4))
        return schema

    def combined(self, depth):
        kind = self.random.choice(["anyOf", "oneOf", "allOf", "tagged", "both"])
        if kind == "tagged":
            tags = self.random.sample(TEXTS, self.random.randint(2, 4))
            alternatives = []
            for tag in tags:
                each = self.object(depth - 1)
                each["properties"] = {"kind": {"const": tag}} | each.get("properties", {})
                each["properties"]["kind"] = {"const": tag}
                each["required"] = ["kind"] + each.get("required", [])
                alternatives.append(each)
            return {"oneOf": alternatives}
        if kind == "allOf":
            return {"allOf": [self.object(depth - 1) for _ in range(2)]}
        if kind == "both":
            return self.object(depth - 1) | {
                "anyOf": [self.object(0) for _ in range(self.random.randint(1, 3))]
            }
        return {kind: [self.schema(depth - 1) for _ in range(self.random.randint(1, 4))]}


def random_schema(random):
    return Generator(random).document()
