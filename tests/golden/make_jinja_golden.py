# make_jinja_golden.py - writes tests/data/jinja/statements.json: generated templates, and their output in Jinja2.
# It needs jinja2 3.1.6, set up as in transformers 5.24.0 (_compile_jinja_template). Random numbers are keyed. Run it from the root:
#   python tests/golden/make_jinja_golden.py            (--count N --seed S --out FILE: other cases, for a longer search)
# SPDX-License-Identifier: BSD-3-Clause
import argparse
import json
import random
import re

from transformers.utils.chat_template_utils import _compile_jinja_template, _render_with_assistant_indices

VARIABLES = {
    "n": 3, "neg": -7, "zero": 0, "big": 9007199254740993, "f": 2.5, "whole": 4.0, "s": "abc", "e": "", "u": "ünï→",
    "sp": "  a b \n", "yes": True, "no": False, "nil": None, "l": [1, 2, 3], "empty": [], "ls": ["x", "y", "z", "x"],
    "ll": [[1, 2], [3, 4]], "d": {"a": 1, "b": [1, 2], "items": "own"}, "dd": {"k": {"k": {"k": "deep"}}},
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi <b>"},
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1.5}}}]},
        {"role": "tool", "content": "42"},
    ],
}
NAMES = list(VARIABLES) + ["nope", "x", "y", "i", "ns", "m"]
FILTERS = ["upper", "lower", "trim", "length", "first", "last", "list", "string", "int", "tojson", "join", "join(',')",
           "default('D')", "default('D', true)", "sort", "abs", "capitalize", "replace('a', 'b')", "reverse | list"]
TESTS = ["defined", "undefined", "none", "string", "number", "mapping", "iterable", "sequence", "true", "false", "odd", "even",
         "eq 3", "eq(3)", "in [1, 2]", "in(l)", "sameas none", "divisibleby 3", "boolean", "integer", "callable", "not defined", "not none"]
METHODS = ["upper()", "strip()", "split()", "split('b')", "startswith('a')", "endswith('c')", "items()", "keys()", "get('a')",
           "get('q', 5)", "nothing()", "append(1)", "replace('a', 'z')", "index(2)", "count('x')"]


class Generator:
    def __init__(self, key):
        self.r = random.Random(key)
        self.names = []

    def pick(self, *choices):
        return self.r.choice(choices)

    def chance(self, p):
        return self.r.random() < p

    # ---- expressions ----

    def literal(self):
        return self.pick(
            "1", "0", "2", "-1", "10_000", "0x1F", "0b101", "0o17", "1.5", "1e3", "2.", "1_0.5e-1", ".5", "007", "00", "1.0", "'a'", '"b"',
            "'a' 'b'", "'it''s'", r"'\n\t\\'", r"'\x41\u00e9\U0001F600'", r"'\101\q'", r"'\é'", "'ü'", '"\'"', "true", "True", "false", "none",
            "None", "[]", "{}", "()", "[1, 'a', none]", "[1,]", "(1,)", "(1, 2)", "{'a': 1, 'b': {'c': 2}}", "{1: 2, 1.0: 3}", "'%s-%d' % ('a', 3)",
            "range(3)", "dict(a=1)", "'\n'",
        )

    def name(self):
        return self.pick(*(self.names or NAMES)) if self.chance(0.5) else self.pick(*NAMES)

    def args(self, depth):
        parts = [self.expr(depth - 1) for _ in range(self.r.randrange(3))]
        if self.chance(0.2):
            parts.append(f"{self.pick('a', 'b', 'key')}={self.expr(depth - 1)}")
        if self.chance(0.05):
            parts.append(f"*{self.name()}")
        if self.chance(0.05):
            parts.append(f"**{self.name()}")
        if self.chance(0.05):
            self.r.shuffle(parts)
        return "(" + ", ".join(parts) + self.pick(*[""] * 9, ",") + ")"

    def postfix(self, depth):
        base = self.pick(self.name(), self.name(), self.literal(), f"({self.expr(depth - 1)})")
        # A constant may have no slices. Slicing one is undefined with Jinja's optimizer and an error without it.
        constant = not any(re.search(rf"\b{name}\b", re.sub("'[^']*'", "", base)) for name in NAMES)
        for _ in range(self.pick(0, 1, 1, 2)):
            base += self.r.choice([
                lambda: "." + self.pick("a", "b", "k", "role", "content", "items", "nope", "0", "1"),
                lambda: f"[{self.expr(depth - 1)}]",
                lambda: "[" + self.pick("'role'", "0", "-1", "'a'", "1, 2", "") + "]",
                lambda: "" if constant else "[" + self.pick("1:", ":-1", "::2", "::-1", "0:2", "-2:", ":", "1:2:1", "::0", "n:", f"{self.expr(0)}:") + "]",
                lambda: "." + self.pick(*METHODS),
            ])()
        return base

    def expr(self, depth=2):
        if depth <= 0:
            return self.pick(self.name(), self.literal(), self.name())
        return self.r.choice([
            lambda: self.postfix(depth),
            lambda: self.postfix(depth),
            lambda: f"{self.expr(depth - 1)} {self.pick('+', '-', '*', '/', '//', '%', '**', '~', '~', '+')} {self.expr(depth - 1)}",
            lambda: f"{self.expr(depth - 1)} {self.pick('==', '!=', '<', '<=', '>', '>=', 'in', 'not in')} {self.expr(depth - 1)}",
            lambda: f"{self.expr(depth - 2)} {self.pick('<', '==', 'in')} {self.expr(depth - 2)} {self.pick('<=', '!=')} {self.expr(depth - 2)}",
            lambda: f"{self.expr(depth - 1)} {self.pick('and', 'or')} {self.expr(depth - 1)}",
            lambda: f"{self.pick('not ', '-', '+', 'not not ')}{self.expr(depth - 1)}",
            lambda: f"{self.expr(depth - 1)} if {self.expr(depth - 1)} else {self.expr(depth - 1)}",
            lambda: f"{self.expr(depth - 1)} if {self.expr(depth - 1)}",
            lambda: f"{self.postfix(depth - 1)} | {self.pick(*FILTERS)}",
            lambda: f"{self.postfix(depth - 1)}|{self.pick(*FILTERS)}|{self.pick(*FILTERS)}",
            lambda: f"{self.postfix(depth - 1)} is {self.pick(*TESTS)}",
            lambda: f"({self.expr(depth - 1)}) is {self.pick(*TESTS)} and {self.expr(depth - 1)}",
            lambda: f"[{self.expr(depth - 1)}, {self.expr(depth - 1)}]",
            lambda: "{'a': " + self.expr(depth - 1) + ", " + self.expr(0) + ": " + self.expr(0) + "}",
            lambda: f"({self.expr(depth - 1)})",
        ])()

    # ---- statements ----

    def tag(self, inner):
        left = self.pick("{%", "{%", "{%", "{%-", "{%+")
        right = self.pick("%}", "%}", "%}", "-%}", "+%}")
        return f"{left} {inner} {right}"

    def put(self, x):
        return f"{self.pick('{{', '{{', '{{-', '{{+')} {x} {self.pick('}}', '}}', '-}}')}"

    def text(self):
        return self.pick("", "", "a", "T", "\n", "\n  ", "  ", " x\n", "\t\n\n", "é ", "{", "}", "%}", "#", "\r\n", "\r", "- ", "\u00a0\n")

    def body(self, depth):
        parts = []
        for _ in range(self.pick(1, 1, 2, 3)):
            parts.append(self.text())
            parts.append(self.statement(depth))
        parts.append(self.text())
        return "".join(parts)

    def block(self, depth, head, end, *more):
        out = self.tag(head) + self.body(depth - 1)
        for part in more:
            out += self.tag(part) + self.body(depth - 1)
        return out + self.tag(end)

    def scoped(self, names, make):
        kept = list(self.names)
        self.names += names
        out = make()
        self.names = kept
        return out

    def target(self):
        return self.pick("x", "x", "y", "i", "n", "x, y", "(x, y)", "x, (y, i)")

    def for_block(self, depth):
        over = self.pick("l", "messages", "ls", "ll", "range(3)", "d", "empty", "d.items()", "[]", "s", "nope", "n", self.expr(1))
        head = f"for {self.target()} in {over}"
        if self.chance(0.25):
            head += " if " + self.pick("x", "x != 2", "x is defined", "loop.index", "ns.c != 1", self.expr(1))
        use = self.pick(*["loop." + a for a in ("index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "previtem", "nextitem",
                                               "nope")], "loop.cycle('a', 'b')", "loop.changed(x)", "x", "x", "loop")
        more = ["else"] if self.chance(0.3) else []
        out = self.tag(head) + self.text() + self.put(use)
        if self.chance(0.3):
            out += self.pick("{% if loop.index == 2 %}{% continue %}{% endif %}", "{% if x == 2 %}{% break %}{% endif %}", "{% break %}",
                             "{% continue %}")
        out += self.scoped(["x", "y"], lambda: self.body(depth - 1))
        for part in more:
            out += self.tag(part) + self.body(depth - 1)
        return out + self.tag("endfor")

    def macro(self, depth):
        name = self.pick("m", "m", "q")
        head = self.pick(f"macro {name}()", f"macro {name}(x)", f"macro {name}(x, y=2)", f"macro {name}(x=1, y=x)", f"macro {name}(x, caller=none)",
                         f"macro {name}(x='d', i=[])")
        inner = self.pick("{{ x }}", "{{ varargs }}", "{{ kwargs }}", "{{ caller() }}", "{{ caller(1, 2) }}", "{{ x }}{{ y }}", "{{ n }}",
                          "{{ caller is defined }}", "{{ i }}")
        call = self.pick("m()", "m(1)", "m(1, 2)", "m(x=3)", "m(1, y=2)", "m(1, 2, 3)", "m(1, z=2)", "m(*l)", "m(**d)", "m.name", "m.arguments", "q(1)")
        out = self.tag(head) + inner + self.scoped(["x", "y"], lambda: self.body(depth - 1)) + self.tag("endmacro")
        if self.chance(0.4):
            out += self.tag(self.pick("call m()", "call(x) m(1)", "call(x, y=3) m(x=2)", "call nope()", "call m(1) | upper")) + self.body(depth - 1) + \
                self.tag("endcall")
        return out + self.put(call)

    def statement(self, depth):
        if depth <= 0:
            return self.put(self.expr(1))
        return self.r.choice([
            lambda: self.put(self.expr(2)),
            lambda: self.put(self.name()),
            lambda: self.tag(f"set {self.pick('x', 'y', 'i', 'n')} = {self.expr(1)}") + self.put(self.pick("x", "y", "n")),
            lambda: self.tag(f"set {self.pick('x, y', '(x, y)', 'x, x', 'ns.a', 'x, ns.b', 'd.a', '[x]', 'none')} = {self.pick('1, 2', '[3, 4]', self.expr(1))}"),
            lambda: self.tag(f"set ns = namespace({self.pick('', 'a=1', 'c=0, a=[]')})") + self.tag(f"set ns.{self.pick('a', 'c')} = {self.expr(1)}") + self.put("ns.a"),
            lambda: self.block(depth, f"set {self.pick('x', 'y', 'x | upper', 'x | trim')}", "endset"),
            lambda: self.for_block(depth),
            lambda: self.for_block(depth),
            lambda: self.block(depth, f"if {self.expr(1)}", "endif", *self.pick([], ["else"], [f"elif {self.expr(1)}"], [f"elif {self.expr(1)}", "else"])),
            lambda: self.block(depth, f"if {self.name()}", "endif"),
            lambda: self.macro(depth),
            lambda: self.block(depth, f"filter {self.pick('upper', 'trim', 'lower | trim', 'replace(s, n)', 'nofilter' if self.chance(0.3) else 'upper')}", "endfilter"),
            lambda: self.block(depth, f"with {self.pick('', 'x = 1', 'x = n, y = x', 'x, y = l', '(x, y) = (1, 2)')}", "endwith"),
            lambda: self.block(depth, "generation", "endgeneration"),
            lambda: self.block(depth, "autoescape false", "endautoescape"),
            lambda: self.tag(f"print {self.expr(1)}, {self.expr(1)}"),
            lambda: self.pick("{#", "{#-", "{#+") + self.pick(" c ", "", "\n{{ x }}\n", "#") + self.pick("#}", "-#}", "+#}"),
            lambda: self.tag("raw") + self.pick("{{ x }}", " {% if %}\n", "{#", "") + self.tag("endraw"),
            lambda: self.text() + self.text(),
            lambda: self.put(self.pick("{0} | nofilter if {1} else 2", "2 if {1} else {0} is notest", "[{0} | nofilter]", "{0} is notest").format(self.name(), self.name())),
        ])()

    # ---- broken templates ----

    def mutate(self, template):
        tokens = re.findall(r"\w+|\s+|\{[{%#][-+]?|[-+]?[}%#]\}|.", template, re.S)
        for _ in range(self.pick(1, 1, 2)):
            at = self.r.randrange(len(tokens)) if tokens else 0
            action = self.pick("drop", "double", "swap", "put")
            if not tokens:
                break
            if action == "drop":
                del tokens[at]
            elif action == "double":
                tokens.insert(at, tokens[at])
            elif action == "swap":
                to = self.r.randrange(len(tokens))
                tokens[at], tokens[to] = tokens[to], tokens[at]
            else:
                tokens.insert(at, self.pick("(", ")", "[", "]", "{", "}", "|", ".", ",", ":", "=", "not", "is", "if", "else", "in", "~", "'", "{{", "}}", "%}", "-", "*", "1",
                                            "endif", "endfor", "%", "\n", "recursive", "!", "\\"))
        return "".join(tokens)

    def template(self):
        kind = self.pick("expression", "expression", "expression", "statement", "statement", "statement", "broken")
        if kind == "expression":
            return self.put(self.expr(self.pick(1, 2, 2, 3)))
        if kind == "statement":
            return self.body(self.pick(1, 2, 2, 3))
        return self.mutate(self.body(self.pick(1, 2)))


class Scopes:
    """Templates that only test scopes, with the values of a few names at various places."""

    def __init__(self, key):
        self.r = random.Random(key)

    def pick(self, *choices):
        return self.r.choice(choices)

    def name(self):
        return self.pick("x", "n", "y", "i")

    def expr(self):
        n = self.name
        return self.pick(n(), n(), n(), "1", "'s'", f"{n()} ~ {n()}", f"({n()} if {n()} else {n()})", "loop.index", "caller", "varargs", "kwargs", "ns.x",
                         f"{n()}()", f"{n()}({n()})", f"m({n()})", "m()", f"m({n()}={n()})", "loop.last", "caller()", f"caller({n()})")

    def body(self, depth):
        return "".join(self.statement(depth) for _ in range(self.pick(1, 2, 3)))

    def branches(self, depth):
        parts = self.pick([], ["else"], [f"elif {self.name()}"], [f"elif {self.name()}", f"elif {self.name()}", "else"])
        return "".join(f"{{% {part} %}}{self.body(depth)}" for part in parts)

    def statement(self, depth):
        n = self.name
        plain = [lambda: f"{{{{ {self.expr()} }}}}", lambda: f"{{% set {n()} = {self.expr()} %}}", lambda: f"[{{{{ {n()} }}}}]"]
        if depth <= 0:
            return self.r.choice(plain)()
        inner = lambda: self.body(depth - 1)  # noqa: E731
        return self.r.choice(plain + [
            lambda: f"{{% if {self.expr()} %}}{inner()}{self.branches(depth - 1)}{{% endif %}}",
            lambda: f"{{% for {n()} in {self.pick('l', 'empty', '[[1], [2]]', n(), 'range(3)')}{self.pick('', f' if {n()}', ' if ns.x != 2')} %}}{inner()}"
                    + self.pick("", "", f"{{% if {n()} == 2 %}}{{% continue %}}{{% endif %}}", "{% break %}") + self.pick("", f"{{% else %}}{inner()}") + "{% endfor %}",
            lambda: f"{{% macro {self.pick('m', 'x', 'y')}({self.pick('', n(), 'x, n', 'x, n=x', 'y=n, i=y', 'caller=1', 'x, caller=none')}) %}}{inner()}{{% endmacro %}}"
                    + f"{{{{ {self.pick('m()', 'm(2)', 'x()', 'y(1, 2, 3)', 'm(x=1)', 'm(z=1)')} }}}}",
            lambda: f"{{% call{self.pick('', '(x)', '(x, n=2)')} {self.pick('m()', 'm(1)', 'x()', 'caller()')} %}}{inner()}{{% endcall %}}",
            lambda: f"{{% with {self.pick('', f'{n()} = {self.expr()}', f'x = {n()}, n = x')} %}}{inner()}{{% endwith %}}",
            lambda: f"{{% filter {self.pick('upper', 'replace(n, 1)', 'trim')} %}}{inner()}{{% endfilter %}}",
            lambda: f"{{% set {n()}{self.pick('', '', ' | replace(' + n() + ', 1)')} %}}{inner()}{{% endset %}}",
            lambda: f"{{% generation %}}{inner()}{{% endgeneration %}}",
            lambda: f"{{% set ns = namespace(x={n()}) %}}{{% set ns.x = {n()} %}}",
            lambda: f"{{% autoescape false %}}{inner()}{{% endautoescape %}}",
        ])()

    def template(self):
        front = self.pick("", "{% set ns = namespace(x=1) %}", "{% macro m(x=0) %}({{ x }}{{ n }}{{ y }}{{ caller(x) if caller }}){% endmacro %}")
        return front + self.body(self.pick(1, 2, 2, 3))


def judge(template):
    """The text, and its spans if any. None for an error, False for no case."""
    try:
        compiled = _compile_jinja_template(template)
        context = dict(VARIABLES)
        text, spans = _render_with_assistant_indices(compiled, context.pop("messages"), None, None, False, **context)
    except RecursionError:
        return False
    except Exception:
        return None
    if re.search(r"set ns\.[ac] = [^%]*\bns\b", template): # a namespace containing itself
        return False
    # Other interpreters may differ in addresses, Python's own names, cycles, and integers beyond 64 bits.
    if re.search(r"0x[0-9a-f]{8}|<built-in|<class|<Namespace \{\.\.\.|\d{19}", text, re.I) or len(text) > 600:
        return False
    where = [[len(text[:a].encode()), len(text[:b].encode())] for a, b in spans] # in bytes, within the text
    return [text, where] if where else text


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--count", type=int, default=3600)
    options.add_argument("--seed", type=int, default=36)
    options.add_argument("--out", default="tests/data/jinja/statements.json")
    options = options.parse_args()
    cases, seen, key, errors = [], set(), 0, 0
    while len(cases) < options.count:
        key += 1
        template = (Scopes if key % 5 == 0 else Generator)(f"{options.seed}/{key}").template()
        if template in seen or len(template) > 600:
            continue
        seen.add(template)
        answer = judge(template)
        if answer is False or (answer is None and errors > options.count * 0.35):
            continue
        errors += answer is None
        cases.append([template, answer])
    variables = dict(VARIABLES, tools=None, documents=None, add_generation_prompt=False)
    with open(options.out, "w") as f:
        f.write('{"variables":' + json.dumps(variables, ensure_ascii=False, separators=(",", ":")) + ',"cases":[\n')
        f.write(",\n".join(json.dumps(c, ensure_ascii=False, separators=(",", ":")) for c in cases))
        f.write("\n]}\n")


main()
