# make_reward_golden.py - writes rewards of answers by other programs, for test_reward.c (length) and test_math_answer.c (math).
# length: TRL's soft overlong punishment of answers of every length, as L, B, T, punishment. Made with trl 1.16, Python 3.11:
#   python tests/golden/make_reward_golden.py length tests/data/reward/length.txt          (from the root)
# math: JSON lines of answers and pairs. The answers are in the spellings of Hendrycks' MATH by verl 0.5.0 (strip, null if it fails)
# and of Minerva by lm-eval 0.4.9 (final). The pairs are judged by MATH's is_equiv. VERL and LM_EVAL are their unpacked wheels:
#   python tests/golden/make_reward_golden.py math tests/data/reward/math.jsonl VERL LM_EVAL
# SPDX-License-Identifier: BSD-3-Clause
import json
import sys
import types


def write_length(path):
    from trl.rewards import get_soft_overlong_punishment

    with open(path, "w") as out:
        for longest, buffer in ((10, 4), (10, 10), (7, 1), (100, 30)):
            for n in range(longest + 1):
                x = get_soft_overlong_punishment(longest, buffer)([[1] * n])[0]
                out.write(f"{longest} {buffer} {n} {x!r}\n")


ANSWERS = r"""72
72.0
72.00
1,000
1{,}000
1,\!000
10,000,000
1000
.5
0.5
-.5
{.5}
x = .5
1/2
-1/2
01/2
a/b
3/4/5
1/ 2
\frac12
\frac1{2}
\frac{1}{2}
\frac{1}2
\dfrac{1}{2}
\tfrac{1}{2}
\dfrac12
-\frac 12
\frac{\sqrt3}{2}
\frac\pi2
\frac
\frac1
\frac12+\frac34
3\frac{1}{7}
\sqrt3
\sqrt{3}
\sqrt 3
2\sqrt{2}
\sqrt
\sqrt2\sqrt3
x=5
k = 5
x = 5
xyz=5
x=y=5
x \le 5
f(x)=5
50\%
50%
50\text{ percent}
90^\circ
90^{\circ}
90^{\circ}C
\$18.90
18.90
\$ 5
5\text{ cm}
5\text{cm}
5\text{ cm}^2
5 \text{ square units}
5\ \mathrm{cm}
5\text{ m}\text{ s}
5 cm
10 square feet
12 inches
\text{east}
\text{ east}
\text{(A)}
\text{A and B}
\mbox{yes}
\textbf{7}
\overline{AB}
\boxed{5}
(1, 2)
(1,2)
\left(1, 2\right)
\left( \frac{1}{2}, 3 \right)
\left[0,1\right)
[0, 1)
\{1, 2\}
\left\{ 1,2 \right\}
3 and 4
3, 4
a 5
an integer
an apple
1\,000
7!
2^{10}
2^10
x^2 + 3x + 2
x^2+3x+2
\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}
\begin{pmatrix}1&2\\3&4\end{pmatrix}
\pi
\pi r^2
é=5
éà = 5
ééé=5
\sqrté
\fracéà
\infty
 7
7 
17th
17\mathrm{th}
4 \times 10^5
"5"
$5$
It is $5$ or $6$
a$5
\ldots
1\ldots
\text{}
\text{
3\;000
12\text{ h }30\text{ min}
\text{Monday}
Monday
\left\lfloor x \right\rfloor
-0/5
5/-3
+1/2
٣/4"""

PAIRS = [("72", " 72 "), ("72", "73"), (r"\dfrac12", "1/2"), (r"\tfrac{1}{2}", "0.5"), ("0.5", "1/2"), ("0.50", "1/2"),
         (r"\left(1, 2\right)", "(1,2)"), (r"\left[0,1\right)", "[0, 1)"), ("k = 5", "5"), ("xyz = 5", "5"), (r"50\%", "50"),
         (r"90^\circ", "90"), (r"90^{\circ}", "90"), (r"\$18.90", "18.90"), (r"5\text{ cm}", "5"), (r"5\text{ cm}^2", "5"),
         (r"\sqrt3", r"\sqrt{3}"), (r"\frac{\sqrt3}{2}", r"\frac{\sqrt{3}}{2}"), (r"10,\!000", "10,000"), (".5", "0.5"),
         (r"\frac", r"\frac"), (r"\frac", r"\sqrt"), ("x^2 + 1", "x^2+1"), (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}",
         r"\begin{pmatrix}1\2\end{pmatrix}"), ("", ""), ("", "1"), ("3/4", r"\frac34"), ("03/4", r"\frac34"), ("-3/4", r"-\frac34"),
         ("-3/4", r"\frac{-3}{4}"), (r"2\text{ a}\text{ b}", r"2\text{ a}\text{ b}"), (r"2\text{ a}\text{ b}", "2")]


def load(path):
    for module in ("datasets", "antlr4", "sympy", "math_verify", "sympy.parsing", "sympy.parsing.latex"):
        sys.modules.setdefault(module, types.ModuleType(module))  # imported there but not needed here
    sys.modules["datasets"].Dataset = object
    sys.modules["math_verify"].parse = sys.modules["math_verify"].verify = None
    sys.modules["sympy.parsing.latex"].parse_latex = None
    got = {}
    exec(open(path).read().replace("from importlib.metadata import version", "version = lambda name: '4.11'"), got)
    return got


def write_math(path, verl, lm_eval):
    hendrycks = load(f"{verl}/verl/utils/reward_score/math.py")
    minerva = load(f"{lm_eval}/lm_eval/tasks/minerva_math/utils.py")

    def strip(x):
        try:
            return hendrycks["strip_string"](x)
        except Exception:
            return None

    with open(path, "w") as out:
        for x in ANSWERS.split("\n"):
            row = {"answer": x, "strip": strip(x), "final": minerva["normalize_final_answer"](x)}
            if x.count("=") > 1 or x == "3, 4" or x == "٣/4":
                del row["final"]  # trireme differs on purpose, or the digits are not ASCII
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
        for a, b in PAIRS:
            out.write(json.dumps({"a": a, "b": b, "equal": hendrycks["is_equiv"](a, b)}, ensure_ascii=False) + "\n")


if sys.argv[1] == "length":
    write_length(sys.argv[2])
else:
    write_math(*sys.argv[2:])
