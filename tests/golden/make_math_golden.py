# make_math_golden.py - writes answers of mathematics in usual spellings, judged by math-verify, for test_math_golden.c.
# SPDX-License-Identifier: BSD-3-Clause
"""Writes tests/data/math/pairs.jsonl and golds.jsonl.

A line of pairs.jsonl is ["gold", "answer", "rule", verdict]. The verdict is math-verify's, 1 or 0. The rule is the spelling that
turned the gold into the answer, so both have the same value. "own" is a pair of math-verify's own tests. "function", "power", "word"
and "wrong" (two different values) are in KINDS below.
A line of golds.jsonl is ["gold", class]. Two golds have one class if math-verify finds them equal.

Run by hand: python tests/golden/make_math_golden.py MATH_TEST_JSONL
MATH_TEST_JSONL: the test split of MATH (Hendrycks et al. 2021, MIT licence), with a field "solution" per line, as in
src/data/math/test.jsonl of microsoft/ToRA. The script keeps only a sample of its final answers.
Made with: math-verify 0.9.0, latex2sympy2_extended 1.11.0, sympy 1.14.0, Python 3.11

Errors of math-verify, and differences from it:
- It removes single letters after a number as units, so 4t is 4.
- It ignores the case of letters, so 3R^2 is 3r^2.
- It takes the set \\{1,2\\} for the pair (1,2).
- It ignores the index of a number, so 204_5 is 204_7. In trireme two different indices differ.
- It takes words in plain letters for products, so act is cat, BCA is ABC, and on is no.
- It drops a.m. and p.m., so 9 a.m. is 9 p.m. It takes times for ratios, so 4:30 is 2:15.
- It does not know 1e3, \\cos 60^\\circ = 1/2, 7.2\\% = 7.2 (though 7\\% = 7), the character of a root, a full stop inside a formula,
  or an interval written as inequalities. trireme reads all of these.
"""
import collections
import functools
import json
import logging
import os
import random
import re
import sys

import sympy
from math_verify import LatexExtractionConfig, parse, verify
from math_verify.errors import TimeoutException

logging.disable(logging.CRITICAL)

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "math")
N_PAIRS, N_GOLDS = 2600, 200
INTEGER = r"-?\d+"


def box_of(text):
    begin = max(text.rfind("\\boxed"), text.rfind("\\fbox"))
    at = text.index("{", begin) if "{" in text[begin : begin + 8] else -1
    if at < 0:
        return re.match(r"[^$]*", text[begin + 6 :]).group().strip()
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if not depth:
            return text[at + 1 : i]


@functools.cache
def parsed(answer):
    return parse(f"$\\boxed{{{answer}}}$", [LatexExtractionConfig(boxed_match_priority=0)])


def judge(gold, answer):
    """math-verify's verdict, or None if it gave up."""
    try:
        return int(verify(parsed(gold), parsed(answer), raise_on_error=True))
    except TimeoutException:
        return None
    except Exception:  # as in verify itself
        return int(verify(parsed(gold), parsed(answer)))


# ---- spellings, each a function of a gold that returns None where it does not apply ----


def sub(pattern, by, flags=0):
    return lambda g: re.sub(pattern, by, g, flags=flags) if re.search(pattern, g) else None


def when(pattern, make):
    return lambda g: make(re.fullmatch(pattern, g)) if re.fullmatch(pattern, g) else None


def top_level(text, signs):
    """The parts of a text between signs outside brackets."""
    depth, parts = 0, [""]
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c in signs and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts]


def decimal(m):
    sign, a, b = m.group(1), int(m.group(2)), int(m.group(3))
    rest = b
    for p in (2, 5):
        while rest % p == 0:
            rest //= p
    return None if rest > 1 or a % b == 0 else sign + repr(a / b)


def mixed(m):
    sign, a, b = m.group(1), int(m.group(2)), int(m.group(3))
    return None if a < b or a % b == 0 else f"{sign}{a // b}\\frac{{{a % b}}}{{{b}}}"


def improper(m):
    return f"\\frac{{{int(m.group(1)) * int(m.group(3)) + int(m.group(2))}}}{{{m.group(3)}}}"


def turn_sum(g):
    if re.search(r"=|<|>|,|:|_|text|mbox|matrix|pm|\\in|\\le|\.$", g):
        return None
    depth = 0
    for i, c in enumerate(g):
        depth += (c in "([{") - (c in ")]}")
        if c in "+-" and not depth and i and g[:i].strip():
            left, right = g[:i].strip(), g[i:].strip()
            return f"{right.removeprefix('+').strip()} + {left}" if not left.startswith("-") else f"{right.removeprefix('+').strip()} - {left[1:].strip()}"
    return None


def turn_list(g):
    if re.search(r"[=<>]|text|mbox|cup|\\!|\{,\}|matrix|^\D*\d{1,3}(,\d{3})+$", g) or g[0] in "([":
        return None
    parts = top_level(g.removeprefix("\\{").removesuffix("\\}"), ",")
    return ", ".join(reversed(parts)) if len(parts) > 1 else None


def brace_list(g):
    made = turn_list(g) if not g.startswith("\\{") and "cup" not in g else None
    return f"\\{{{g}\\}}" if made else None


def is_number(g):
    return re.fullmatch(r"-?(\d+|\d+\.\d+|\\d?frac\{\d+\}\{\d+\})", g)


def in_front(name):
    plain = r"[^=<>,;:]*"
    return lambda g: f"{name} = {g}" if re.fullmatch(plain, g) and not re.search(r"text|mbox|cup|in\b|matrix|_", g) and is_value(g) else None


def is_value(g):
    return not re.search(r"[a-zA-Z]", re.sub(r"\\(d?frac|tfrac|sqrt|pi|left|right|cdot)", "", g))


def thousands(mark):
    def make(g):
        m = re.fullmatch(r"(-?)(\d{4,})", g.replace(",\\!", "").replace("{,}", ""))
        return m and m.group(1) + f"{int(m.group(2)):,}".replace(",", mark)

    return make


def rewritten(g, by):
    """The gold's value in another form of sympy, for polynomials and rational functions of letters."""
    if not re.fullmatch(r"[-+0-9a-hj-z ^(){}]*(\\frac[-+0-9a-hj-z ^(){}]*)?", g) or not re.search("[a-z]", g.replace("frac", "")) or re.match(r"\(.*,", g):
        return None
    value = parse(f"${g}$", [LatexExtractionConfig()])
    if not value or isinstance(value[0], str) or value[0].free_symbols == set() or not value[0].is_commutative:
        return None
    made = sympy.latex(by(value[0].doit()))
    return made if re.sub("[ {}]", "", made) != re.sub("[ {}]", "", g) else None


UNIT = r"(?<=[0-9}])\s*(?:\\[,;])?\s*\\(?:text|mbox)\s*\{[^{}]*\}(\^\{?[23]\}?)?$"
FRACTION = r"(-?)\\(?:d|t|c)?frac\{(\d+)\}\{(\d+)\}"
RULES = {
    "space": lambda g: None if "\\" in g or "text" in g else " ".join(re.sub(r"([+\-=,()])", r" \1 ", g).split()) if re.search(r"[+=(]", g) and not re.search(r"\d,\d{3}(?!\d)", g) else None,
    "no space": lambda g: re.sub(r"(?<![a-zA-Z]) +|(?<=[a-zA-Z]) +(?![a-zA-Z])", "", g) if " " in g and not re.search(r"text|mbox|matrix|\\ |,\\! |\d \\frac|\d +\d", g) else None,
    "thin space": lambda g: g.replace("\\sqrt", "\\,\\sqrt", 1) if re.search(r"\d *\\sqrt", g) else None,
    "dfrac": sub(r"\\[tc]?frac(?=[^a-z])", r"\\dfrac"),
    "tfrac": sub(r"\\[dc]?frac(?=[^a-z])", r"\\tfrac"),
    "slash": when(FRACTION, lambda m: f"{m.group(1)}{m.group(2)}/{m.group(3)}"),
    "frac12": when(r"(-?)\\(?:d|t)?frac\{(\d)\}\{(\d)\}", lambda m: f"{m.group(1)}\\frac{m.group(2)}{m.group(3)}"),
    "frac braces": sub(r"\\frac ?(\d) ?(\d)", r"\\frac{\1}{\2}"),
    "sign in fraction": when(r"-" + FRACTION[4:], lambda m: f"\\frac{{-{m.group(1)}}}{{{m.group(2)}}}"),
    "decimal": when(FRACTION, decimal),
    "mixed": when(FRACTION, mixed),
    "improper": when(r"(\d+) ?\\frac\{(\d+)\}\{(\d+)\}", improper),
    "left right": lambda g: "\\left" + g[:-1] + "\\right" + g[-1] if g[0] in "([" and g[-1] in ")]" and "\\left" not in g and "cup" not in g and "," in g else None,
    "no left right": sub(r"\\(left|right)(?![a-z])", ""),
    "dollars": lambda g: f"${g}$",
    "full stop": lambda g: None if g.endswith((".", ". i")) else g + ".",
    "display style": lambda g: "\\displaystyle " + g if "frac" in g else None,
    "x =": in_front("x"),
    "no x =": sub(r"^[a-z] *= *(?=[^xyz]*$)", ""),
    "unit": lambda g: g + r"\text{ units}" if is_number(g) else None,
    "no unit": sub(UNIT, ""),
    "commas": thousands(","),
    "braced commas": thousands("{,}"),
    "tight commas": thousands(",\\!"),
    "no commas": lambda g: re.sub(r",\\! ?|\{,\}|(?<=\d),(?=\d{3}\b)", "", g) if re.fullmatch(r"(\\\$)?-?\d{1,3}((,\\! ?|\{,\}|,)\d{3})+", g) else None,
    "point zero": when(r"-?\d+", lambda m: m.group() + ".0"),
    "no leading zero": sub(r"^0\.", "."),
    "no degrees": lambda g: g.replace("^{\\circ}", "").replace("^\\circ", "") if re.fullmatch(r"-?\d+\^(\{\\circ\}|\\circ)", g) else None,
    "braced degrees": lambda g: g.replace("^\\circ", "^{\\circ}") if "^\\circ" in g else None,
    "no percent": sub(r"\\?%$", ""),
    "no dollar sign": sub(r"^\\\$ ?", ""),
    "sum turned": turn_sum,
    "list turned": turn_list,
    "set": brace_list,
    "sqrt3": sub(r"\\sqrt\{(\d)\}", r"\\sqrt\1"),
    "sqrt braces": sub(r"\\sqrt ?(\d)", r"\\sqrt{\1}"),
    "pi apart": when(r"\\frac\{(\d+) ?\\pi\}\{(\d+)\}", lambda m: f"\\frac{{{m.group(1)}}}{{{m.group(2)}}}\\pi"),
    "dot": sub(r"(?<=\d) ?(?=\\(?:pi|sqrt))", r" \\cdot "),
    "bmatrix": lambda g: g.replace("pmatrix", "bmatrix") if "pmatrix" in g else None,
    "plain text": when(r"\\text\{\(?([A-Za-z]+)\)?\}", lambda m: m.group(1)),
    "in text": when(r"[A-Z]", lambda m: f"\\text{{({m.group()})}}"),
    "box": lambda g: f"\\boxed{{{g}}}",
    "inverse root": when(r"\\frac\{\\sqrt\{(\d+)\}\}\{\1\}", lambda m: f"\\frac{{1}}{{\\sqrt{{{m.group(1)}}}}}"),
    "x in": lambda g: f"x \\in {g}" if "cup" in g or ("\\infty" in g and g[0] in "([") else None,
    "minus": sub("^-", "\u2212"),
    "characters": lambda g: re.sub(r"\\pi(?![a-z])", "\u03c0", re.sub(r"\\sqrt\{(\d+)\}", "\u221a\\1", g)) if re.search(r"\\pi|\\sqrt\{\d+\}", g) and not re.search(r"\\sqrt\{[^0-9]", g) else None,
    "plain": lambda g: re.sub(r"\\sqrt\{([^{}]*)\}", r"sqrt(\1)", re.sub(r"\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}", r"(\1)/(\2)", g)).replace("\\pi", "pi") if re.search("sqrt|frac", g) and not re.search(r"left|cup|,|text|frac\{[^}]*\{|sqrt\{[^}]*\\|\d ?\\frac|\} ?[\\a-z(]|pi ?\\", g) else None,
    "plain unit": lambda g: g + " cm" if re.fullmatch(r"\d+", g) else None,
    "unit without text": when(r"(\d+) ?\\text\{ ?(inches|feet|meters|degrees|hours|units|dollars|minutes|square units|ways|cm|ft)\}", lambda m: f"{m.group(1)} {m.group(2)}"),
    "or": lambda g: " \\text{ or } ".join(top_level(g, ",")) if turn_list(g) and "cup" not in g and not g.startswith("\\{") else None,
    "percent": sub(r"\\%$", r"\\text{ percent}"),
    "inequality": when(r"([(\[])(-?\d+), ?(-?\d+)([)\]])", lambda m: None if int(m.group(2)) >= int(m.group(3)) or m.group(1) + m.group(4) == "()" else f"{m.group(2)} {'<' if m.group(1) == '(' else chr(92) + 'le'} x {'<' if m.group(4) == ')' else chr(92) + 'le'} {m.group(3)}"),
    "braced exponent": sub(r"\^(\d)(?!\d)", r"^{\1}"),
    "sides turned": when(r"([^=]+) = ([^=]+)", lambda m: f"{m.group(2)} = {m.group(1)}"),
    "capital": when(r"\\text\{([a-z])([a-z]+)\}", lambda m: f"\\text{{{m.group(1).upper()}{m.group(2)}}}"),
    "expanded": lambda g: rewritten(g, sympy.expand),
    "factored": lambda g: rewritten(g, sympy.factor),
}

# math-verify reads neither a full stop inside a formula nor the character of a root. A few pairs of each show that trireme reads
# both.
FEW = {"full stop": 10, "characters": 15}

# Wrong answers made from a gold.
WRONG = {
    "wrong digit": lambda g: None if re.search("text|mbox", g) else sub(r"\d(?=\D*$)", lambda m: str((int(m.group()) + 1) % 10))(g),
    "wrong sign": lambda g: g[1:] if g.startswith("-") else "-" + g if g != "0" and not re.search(r"text|mbox|[=<,]|cup|matrix|pm", g) else None,
    "wrong sum": when(r"[^(,=]* ?\+ ?[^(,=]*", lambda m: re.sub(r" ?\+ ?", " - ", m.group())),
    "wrong bracket": lambda g: {"(": "[", "[": "("}[g[0]] + g[1:] if g[0] in "[(" and g.count(",") == 1 and not g[1:].startswith("-\\infty") else None,
    "wrong order": lambda g: g[0] + ",".join(reversed(top_level(g[1:-1], ","))) + g[-1] if g[0] == "(" and g[-1] == ")" and len(set(top_level(g[1:-1], ","))) > 1 and "cup" not in g else None,
    "wrong length": lambda g: ",".join(top_level(g, ",")[:-1]) if turn_list(g) and "cup" not in g and not g.startswith("\\{") else None,
    "times ten": when(r"-?[1-9]\d*", lambda m: m.group() + "0"),
    "wrong letter": sub(r"x", "y"),
}

# Pairs from math-verify's own tests (tests/ of its repository, Apache-2.0) with bare answers.
OWN = [
    ("10/9", r"\frac{10}{9}"), ("-10/9", r"-\frac{10}{9}"), ("[0,1)", "[0,1)"), ("[0,9)", "[0,1)"), ("(0,9)", "[0,9)"),
    ("10", "(9+1)"), ("1/3", r"\frac13"), ("1", r"\frac3{3}"), (r"\sqrt{3}", r"\sqrt3"), ("1/3", r"\cfrac{1}{3}"),
    ("1/3", r"\frac{1}{3} \textbf{meters}"), ("1/3", r"k = \frac{1}{3}"), (r"28\%", "28 pct"), (r"28\%", "28 percent"),
    (r"28\%", "28 percentage"), (r"14{,}916", "14916"), (r"(3, \frac{\pi}{2})", r"\left( 3, \frac{\pi}{2} \right)"),
    ("(37,3,3,13),(17,3,3,7),(3,37,3,13),(3,17,3,7),(3,3,2,3)",
     "(3, 37, 3, 13), (3, 17, 3, 7), (3, 3, 2, 3), (3,17,3,7), (17,3,3,7), (37,3,3,13)"),
    ("(p,q)=(3,2)", "(3,2)"), ("-12;-11;-10;-8;-7;-6", r"\{-12, -11, -10, -8, -7, -6\}"), ("AB=4,CD=5", "4, 5"),
    ("(11,7)or(7,11)", r"(7,11),\ (11,7)"), (r"\frac{NO}{BO}=\frac{1}{\sqrt{6}}", r"\frac{1}{\sqrt{6}}"),
    ("V_{1}:V_{2}=11:21", "11:21"), ("(2,1),(1,2),(-1,-20),(-20,-1)", "(1, 2), (2, 1), (-1, -20), (-20, -1)"),
    (r"\text{odd}", "odd"), (r"\text{e}", "e"), (r"\text{E}", "E"), ("d", r"\text{E}"), (r"1,2,3", "1 and 2 and 3"),
    ("(37,3,3),(17,3,3,7)", "(3, 37, 3, 13), (17,3,3,7)"), (r"x = -5,\ p = \frac{14}{3}", r"-5, \frac{14}{3}"),
    (r"a=4,\,-8,\,-10", "-10,-8,4"), (r"p = -1 \text{ and } p = \dfrac{15}{8}", r"p=-1,p=\frac{15}{8}"),
    (r"6 \text{ and } 8", "6,8"), (r"\text{Even}", "Even"), ("21,16,11", "21,16 or 11"), ("f(y) = y", "f(y) = y"),
    ("-793 < a < 10", "(-793, 10)"), ("0<f(x)<1", "(0,1)"), (r"(1, +\infty)", r"(1, \infty)"), ("k \\ge 2", "k \\geq 2"),
    (r"\text{The midpoints form a regular hexagon}", r"\text{The midpoints form a regular hexagon}"),
    (r"a_3 = 2, a_{37} = 19", r"a_{37} = 19, \quad a_3 = 2"), ("(5, 8), (8, 5)", r"(x, y) = (5, 8) \quad \text{and} \quad (8, 5)"),
    (r"x = \frac{1}{2}, x = \frac{-1 \pm \sqrt{13}}{4}", r"x = \frac{-1 \pm \sqrt{13}}{4}, x = \frac{1}{2}"),
    (r"0.06 \text{ yuan}", "0.06"), ("|AB|=1", "1"), ("A:B=1", "1"), ("f(x)=1", "1"),
    (r"x_{1}=10^{\frac{-5+\sqrt{13}}{6}},x_{2}=10^{\frac{-5-\sqrt{13}}{6}}", r"10^{\frac{\sqrt{13} - 5}{6}}, 10^{-\frac{5 + \sqrt{13}}{6}}"),
    ("y_{1}=-2 x^{2}+4 x+3, y_{2}=3 x^{2}+12 x+10", "-2(x - 1)^2 + 5, 3(x + 2)^2 - 2"),
    (r"x_{1}=\frac{1}{2}+\frac{31\sqrt{5}}{216},x_{2}=\frac{1}{2}-\frac{31\sqrt{5}}{216}", r"\dfrac{108 + 31\sqrt{5}}{216}, \dfrac{108 - 31\sqrt{5}}{216}"),
    ("n=1, 2, 3", "n=1, 2, 3"), ("n=2, 3, 4", "n=1, 2, 3"), ("D = (0, 1)", "D = (0, 1)"), ("D = (0, 1)", "D = (0, 1.5)"),
    ("19, 46, and 82", r"19, 46, \text{ and } 82"), ("19, 46, and 82", "21, 36, and 82"), (r"1 - \frac{1}{\mathrm{e}}", r"1 - \frac{1}{\mathrm{e}}"),
    (r"\pm 2021", "2021"), (r"\pm 2021", "-2021, 2021"), ("12:00", "1:00"), ("12:00", "12:00"), ("4", r"4\sqrt{2}"),
    ("f(x)", "f(y)"), (r"(2,12) \cup (12,102)", r"x \in (2,12) \cup (12,102)"), (r"-2 \le x \le 7", r"x \in [-2,7]"),
    ("4.123105625617661", r"\sqrt{17}"), (r"\frac{1}{3}", "0.333333"), (r"\frac{1}{3}", "0.33"), ("35 cm,4", "35,4"),
]


# Kinds of pairs made by hand. A name is that of a rule above, and "wrong ..." has two different values.
KINDS = {
    "function": [
        (r"\frac{\pi}{4}", r"\arctan 1"), (r"\frac{\pi}{4}", r"\arctan(1)"), (r"\frac{\pi}{2}", r"\arcsin 1"), (r"\frac{\pi}{6}", r"\arcsin\frac12"),
        (r"\frac{\pi}{3}", r"\arccos\frac12"), (r"\frac{\pi}{3}", r"\arctan\sqrt3"), (r"\pi", r"\arccos(-1)"), (r"-\frac{\pi}{4}", r"\arctan(-1)"),
        (r"\frac{\pi}{12}", r"\arctan(2-\sqrt3)"), (r"\frac{\pi}{4}", r"\tan^{-1} 1"), (r"\frac{\pi}{6}", r"\sin^{-1} \frac12"), (r"\arctan x", r"\tan^{-1} x"),
        (r"\arctan 2", r"-\arctan(-2)"), ("5", r"\tan(\arctan 5)"), (r"\frac45", r"\cos(\arcsin\frac35)"), (r"\frac{2}{\sqrt5}", r"\sin(\arctan 2)"),
        (r"\frac{\pi}{2}", r"\arctan\infty"), (r"\ln 2x", r"\ln(2x)"), (r"3\ln 2", r"\ln 8"), ("0", r"\ln \ln e"), ("e^2", r"\exp 2"), ("0", r"\sinh 0"),
        (r"\frac{e^x+e^{-x}}{2}", r"\cosh x"), (r"\sqrt2-1", r"\tan\frac{\pi}{8}"), ("2^{1/2}", r"\sqrt 2"),
    ],
    "power": [
        ("x^{a+b}", "x^a x^b"), ("x^{a+b}", r"x^a \cdot x^b"), ("x^{n+1}", "x^n x"), ("x^{a-b}", r"\frac{x^a}{x^b}"), ("x^{2a}", "(x^a)^2"), ("a^{m+n}", "a^n a^m"),
        ("2^{a+b}", "2^a 2^b"), (r"x^{\pi+1}", r"x^\pi x"), (r"2^{\pi+1}", r"2^{\pi}2"), ("x^{n^2+n}", "x^{n^2}x^n"), ("x^{n(n+1)}", "x^{n^2+n}"), ("-(-1)^n", "(-1)^{n+1}"),
        ("(-1)^n", "(-1)^{n+2}"), ("x^{2n}", "x^n x^n"), ("x^{2/n}", "x^{1/n}x^{1/n}"), ("(x+1)^{a+b}", "(x+1)^a(x+1)^b"), (r"\frac{1}{x^n}", "x^{-n}"),
    ],
    "word": [
        ("Amy", "amy"), ("red", r"\text{red}"), ("Evelyn", r"\text{Evelyn}"), (r"\text{cat}", "cat"), (r"\text{ABC}", "ABC"), ("cat,dog", "dog,cat"), ("abc", "cba"),
        ("xyz", "zyx"), ("pqr", "rqp"), ("lwh", "hwl"), ("AB", "BA"), (r"\frac{abc}{2}", r"\frac{cba}{2}"), ("2abc", "2cba"), ("ABC", "A B C"),
    ],
    "wrong function": [
        (r"\frac{\pi}{3}", r"\arctan 1"), (r"\arccos x", r"\arcsin x"), (r"\arcsin x", r"\arctan x"), (r"\frac{1}{\sin x}", r"\sin^{-1} x"), (r"\arctan x", r"\arctan(-x)"),
        (r"\arctan 2", r"\arctan 1"), (r"\frac{\pi}{2}", r"\arcsin 2"), ("e^{2x}", r"\exp(x)"),
    ],
    "wrong power": [
        ("x^{ab}", "x^a x^b"), ("x^{a-b}", "x^a x^b"), ("x^{a+c}", "x^a x^b"), ("x^{a+b}", "x^a y^b"), ("2^n", "(-2)^n"), ("1", "(-1)^n"), ("(-1)^m", "(-1)^n"),
        ("(-1)^{n+1}", "(-1)^n"), ("x^n", "(-x)^n"),
    ],
    "wrong word": [
        ("cat", "act"), ("no", "on"), ("Amy", "May"), ("SSA", "SAS"), ("ABC", "BCA"), (r"\text{no}", r"\text{on}"), (r"\text{cat}", "act"), (r"\text{ASA}", r"\text{AAS}"),
        ("Tue", "Wed"), ("red", "der"), ("dog", "god"), (r"\text{Ann}", r"\text{nan}"), ("SSS", "SAS"), ("abcd", "dcba"),
    ],
}


def main():
    golds = sorted({box_of(json.loads(line)["solution"]) for line in open(sys.argv[1], encoding="utf-8")})
    dice = random.Random(36)
    dice.shuffle(golds)
    by_rule = collections.defaultdict(list)
    for gold in golds:
        for rule, make in (RULES | WRONG).items():
            made = make(gold)
            if made and made != gold:
                by_rule[rule].append((gold, made))
    rows, most = [[a, b, "own"] for a, b in OWN], 1
    rows += [[a, b, kind] for kind, pairs in KINDS.items() for a, b in pairs]
    while sum(min(len(x), most) for x in by_rule.values()) < N_PAIRS:
        most += 1
    for rule in RULES | WRONG:
        rows += [[a, b, rule] for a, b in by_rule[rule][: FEW.get(rule, most)]]
    os.makedirs(OUT, exist_ok=True)
    with open(os.path.join(OUT, "pairs.jsonl"), "w", encoding="utf-8") as out:
        for a, b, rule in rows:
            verdict = judge(a, b)
            if verdict is not None:
                out.write(json.dumps([a, b, rule, verdict], ensure_ascii=False, separators=(",", ":")) + "\n")
    # Golds other than plain numbers. math-verify takes an equation for its right side in one order only, so both orders must
    # agree.
    sample = [g for g in golds if not is_number(g)][:N_GOLDS]
    classes = []
    with open(os.path.join(OUT, "golds.jsonl"), "w", encoding="utf-8") as out:
        for i, gold in enumerate(sample):
            found = next((classes[j] for j in range(i) if judge(sample[j], gold) and judge(gold, sample[j])), i)
            classes.append(found)
            out.write(json.dumps([gold, found], ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
