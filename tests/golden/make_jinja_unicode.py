# make_jinja_unicode.py - writes io/jinja/value/value_unicode_table.c: kinds and cases of characters in Python 3.11 (Unicode 14).
# Run it with Python 3.11 from the root of the tree.
# SPDX-License-Identifier: BSD-3-Clause
import sys, unicodedata

assert sys.version_info[:2] == (3, 11) and unicodedata.unidata_version == "14.0.0"
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def ignorable(c):
    return ("A" + chr(c) + "\u03a3").lower()[-1] == "\u03c2" and (chr(c) + "\u03a3").lower()[-1] == "\u03c3"


def istitle(c):
    return unicodedata.category(chr(c)) == "Lt"


CLASSES = [
    ("alpha", lambda c: chr(c).isalpha()), ("decimal", lambda c: chr(c).isdecimal()), ("digit", lambda c: chr(c).isdigit()),
    ("numeric", lambda c: chr(c).isnumeric()), ("upper", lambda c: chr(c).isupper() and not istitle(c)), ("lower", lambda c: chr(c).islower()),
    ("title", istitle), ("space", lambda c: chr(c).isspace()), ("printable", lambda c: chr(c).isprintable()), ("ignorable", ignorable),
]


def ranges(is_in):
    out = []
    for c in ALL:
        if is_in(c):
            if out and out[-1] == c - 1:
                out[-1] = c
            else:
                out += [c, c]
    return out


def rules(mapping):
    """Single characters as (first, last, step, delta), and longer results separately."""
    single, longer = [], []
    for c in ALL:
        to = [ord(x) for x in mapping(c)]
        if len(to) > 1:
            longer.append((c, to))
        elif to[0] != c:
            delta = to[0] - c
            if single and single[-1][3] == delta and (c - single[-1][1] == single[-1][2] or single[-1][0] == single[-1][1] and c - single[-1][1] <= 2):
                first, last = single[-1][0], single[-1][1]
                single[-1] = (first, c, c - last, delta)
            else:
                single.append((c, c, 1, delta))
    return single, longer


def put_numbers(f, numbers, width=170):
    line = " "
    for x in numbers:
        if len(line) + len(x) + 2 > width:
            f.write(line + "\n")
            line = " "
        line += " " + x + ","
    f.write(line + "\n")


with open("io/jinja/value/value_unicode_table.c", "w") as f:
    f.write("/* value_unicode_table.c - kinds and cases of characters, Unicode 14, as Python 3.11 has them; written by\n"
            " * tests/golden/make_jinja_unicode.py. */\n#include \"value_unicode.h\"\n\n/* clang-format off */\n")
    for name, is_in in CLASSES:
        r = ranges(is_in)
        f.write(f"static const int32_t {name}[] = {{\n")
        put_numbers(f, [str(x) for x in r])
        f.write("};\n")
    f.write("const tri_junicode_ranges tri_junicode_class[] = {\n")
    for name, _ in CLASSES:
        f.write(f"  {{{name}, sizeof {name} / sizeof *{name} / 2}},\n")
    f.write("};\n")
    cases = [("upper", lambda c: chr(c).upper()), ("lower", lambda c: chr(c).lower()), ("title", lambda c: chr(c).title()),
             ("fold", lambda c: chr(c).casefold())]
    # for title and fold, only the differences from upper and lower
    plain = {"title": cases[0][1], "fold": cases[1][1]}
    for name, mapping in cases:
        if name in plain:
            base = plain[name]
            differs = {c: mapping(c) for c in ALL if mapping(c) != base(c)}
            single = [(c, c, 1, ord(t) - c) for c, t in differs.items() if len(t) == 1]
            longer = [(c, [ord(x) for x in t]) for c, t in differs.items() if len(t) > 1]
        else:
            single, longer = rules(mapping)
        f.write(f"static const tri_junicode_rule {name}_rule[] = {{\n")
        put_numbers(f, ["{%d, %d, %d, %d}" % r for r in single])
        f.write("};\n")
        f.write(f"static const tri_junicode_longer {name}_longer[] = {{\n")
        put_numbers(f, ["{%d, {%s}}" % (c, ", ".join(map(str, to + [0] * (3 - len(to))))) for c, to in longer])
        f.write("};\n")
    f.write("const tri_junicode_mapping tri_junicode_case[] = {\n")
    for name, _ in cases:
        f.write(f"  {{{name}_rule, sizeof {name}_rule / sizeof *{name}_rule, {name}_longer, sizeof {name}_longer / sizeof *{name}_longer}},\n")
    f.write("};\n/* clang-format on */\n")
