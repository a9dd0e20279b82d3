# make_tokenizer_golden.py - writes the ids that the tokenizers library gives for texts, for test_tokenizer.c.
# SPDX-License-Identifier: BSD-3-Clause
"""Writes tests/data/tokenizer: small tokenizer.json files shaped like those of real models, and the ids that the tokenizers
library gives for the same texts with each.

Run by hand: python3 tests/golden/make_tokenizer_golden.py
Made with: tokenizers 0.23.3
"""
import json
import os

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "tokenizer")

CORPUS = [
    "The quick brown fox jumps over the lazy dog. The dog doesn't mind; it's asleep, and we'll let it be.",
    "She said: \"I've never seen such a thing!\" They're walking down the long, long road to the old town.",
    "Question: what is 12 + 345? Answer: 357. In 1999 there were 31,415,926 of them; now 2718281828.",
    "for (int i = 0; i < n; i++) {\n\tif (a[i] == b[i]) return i;\n        x += y * 2;\n}\n\n",
    "def f(x):\n    return x ** 2  # square\n\nprint(f(3))\n",
    "Größe, Übermut, straße, naïve café, Ærøskøbing, España, año, über alles, façade.",
    "Привет, мир! Как дела? Всё хорошо, спасибо. Большое небо над большой рекой.",
    "你好，世界！今天天气很好。我们一起去公园吧。深度求索模型可以写代码。",
    "こんにちは世界。今日はいい天気ですね。カタカナとひらがな。",
    "안녕하세요 세계. 오늘 날씨가 좋네요.",
    "مرحبا بالعالم! كيف حالك اليوم؟ السلام عليكم ورحمة الله",
    "नमस्ते दुनिया! आप कैसे हैं? यह एक परीक्षण है।",
    "สวัสดีชาวโลก วันนี้อากาศดีมาก",
    "Xin chào thế giới, tiếng Việt có nhiều dấu.",
    "🙂 👍🏽 👨‍👩‍👧‍👦 🇩🇪 ❤️ emoji are fun 🙂🙂",
] * 3

TEXTS = [
    "",
    " ",
    "a",
    "Hello, world!",
    "The quick brown fox doesn't jump; it's asleep.",
    "  leading and trailing  ",
    "tabs\t\tand\tCRLF\r\nlines\r\n\r\n\nend\n",
    " \t \n \r\n \u00a0\u2003\u3000x\u0085y\u180ez",
    "a" * 300,
    " " * 100,
    "\n" * 33 + "x" + "\n" * 7,
    "I'VE you'Re THEY'LL we'd 'tis 'S ſ 'ſ K",
    "1 12 123 1234 12345 3.14159 -7e10 ½ Ⅷ ² ٣٤٥ १२३",
    "for (int i = 0; i < n; i++) { a[i] = b->c; } // ok\n\n\treturn x;",
    "snake_case CamelCase kebab-case __dunder__ a.b.c",
    "Größe naïve café straße ÆØÅ İstanbul ΣΑΣ",
    "e\u0301 cafe\u0301 a\u0323\u0307 a\u0307\u0323 \u1e69 s\u0323\u0307 \ufb01 \u212b \u1100\u1161\u11a8 \uac01",
    "Привет, мир! Ёлка",
    "你好，世界！今天天气很好。",
    "こんにちは、カタカナ。ｶﾞ",
    "안녕하세요 세계",
    "مرحبا بالعالم! كيف حالك؟ سَلَام",
    "नमस्ते दुनिया क्षत्रिय हैं।",
    "สวัสดีชาวโลก ก็ดี",
    "tiếng Việt có nhiều dấu",
    "🙂👍🏽 👨‍👩‍👧‍👦 🇩🇪❤️ a\u200db a\u200cb",
    "𝒜𝓁𝓅𝒽𝒶 𐍈 𠜎 \U0001f9ff \U000e0001",
    "nul \u0000 bell \u0007 esc \u001b del \u007f \u0080 \u009f",
    "\u0000",
    "bad \ufffd \ufffe \uffff \U0010ffff \ue000",
    "zero\u200bwidth\ufeffbom \u2028 line \u2029 para",
    "<s> a</s> <|endoftext|>b<|im_start|>user\nhi<|im_end|>\n",
    "<0x41><0x00> ▁ ▁▁ a▁b \u2581x",
    "ĠHello Ċ Ġ <unk>",
    "!!!??? ... --- *** ((())) [[]] {{}} `~ @#$%^&*",
    "https://example.org/a/b?c=d&e=%20f#g user@example.org",
    "price: $5.00, €3,50, £2; 50% of 3×4÷2≈6",
    "word " * 40,
    "ab" * 150 + " " + "é" * 50 + "好" * 50,
    "The end.<|endoftext|>",
    "x<|endoftext|>  <|endoftext|>y <s>z",
    "MiXeD   [MASK]  text[mask] foo foobar foo, barfoo Foo",
]

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
             r"|\s*[\r\n]+|\s+(?!\S)|\s+")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s")
KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+")


# Patterns that PCRE2 and Oniguruma read differently, or from real files.
REGEXES = [
    r"\s+", r"\S+", r"\w+", r"[\w]+", r"\W", r"[\W_]+", r"[^\W_]+", r"\b", r"\B", r"\d+", r"\h+", r"\H+", r"\v", r"\R", r"\X",
    r"a{1,2}+", r"a{2}?b", r"a{,2}", r"a**", r"a?+", r"a*?b", r"{", r"a{", r"(?i)ab|C", r"(?i:K|s)", r"x(?i)a|b", r"(?m:.)+", r".+",
    r"^", r"$", r"^a|b$", r"\A.", r".\z", r".\Z", r"[[:alpha:]]+", r"[[:^punct:]]+", r"[[:punct:]]+", r"\p{Punct}+", r"[[:space:]]",
    r"[[:graph:]]+", r"[[:print:]]+", r"\p{Letter}+", r"\p{^Lu}+", r"\P{M}+", r"\pL+", r"\p{Alnum}+", r"\p{Han}+", r"\p{Greek}|\p{Cyrillic}",
    r"[a-c&&[^b]]", r"[^a-c&&b-z]", r"[\w&&\D]+", r"[a[bc]d]+", r"[]a]", r"[a\]-]", r"[^[:^alpha:]]+", r"\x61|\x{3042}|\u4f60", r"\Qa",
    r"(a|b)\1", r"(?<x>a)\k<x>", r"(?<=a)b", r"(?<!a)b", r"a(?!b)", r"(?>a+)b", r"(?=\p{L})", r"(?#note)a", "(?x: a b # note\n )", r"",
    r"a|", r"[\d\s]", r"[^\d\s]+", r"\O", r"\N+", r"\$|\^", r"[$^]", r"\t|\e|\a|\x7F|\0", LLAMA3, DEEPSEEK3, CL100K, KIMI,
]
REGEX_TEXT = ("aabab AB xAxB b1 aaa bb\n\tcab_C-\u017f\u212a \u4f60\u597d\u3042\u30a2 e\u0301\u00e9 \u03a3\u0416 \u00b2\u00bd\u0663 {$^}]"
              "\u00a0\u180e\u0085\u2028.\r\n\U0001f642\U0001f642\U0001fa75 \x07\x1b\x7f\x00'LL 12345 \u2581+<\U0002ebf0b")


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def bytes_only():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def train(tok, size, special=(), alphabet=True):
    start = pre_tokenizers.ByteLevel.alphabet() if alphabet else []
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=list(special), initial_alphabet=start, show_progress=False)
    tok.train_from_iterator(CORPUS, trainer)
    return tok


def byte_level(pre, size, normalizer=None):
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre
    tok.decoder = decoders.ByteLevel()
    if normalizer:
        tok.normalizer = normalizer
    return train(tok, size)


def gpt2():
    tok = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), 400)
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    tok.add_special_tokens([AddedToken("<|endoftext|>", normalized=True, special=True)])
    return tok


def llama3():
    tok = byte_level(pre_tokenizers.Sequence([split(LLAMA3), bytes_only()]), 400)
    tok.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|endoftext|>"])
    begin = tok.token_to_id("<|begin_of_text|>")
    tok.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
                                      special_tokens=[("<|begin_of_text|>", begin)])])
    return tok


def qwen2():
    tok = byte_level(pre_tokenizers.Sequence([split(QWEN2), bytes_only()]), 400, normalizers.NFC())
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    tok.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tok.add_tokens([AddedToken("<tool_call>", normalized=False)])
    return tok


def deepseek2():
    tok = byte_level(pre_tokenizers.Sequence([
        split(r"[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(r"[一-龥ࠀ-一가-퟿]+"),
        pre_tokenizers.Digits(individual_digits=True), bytes_only()]), 400)
    tok.add_special_tokens(["<｜begin▁of▁sentence｜>", "<|endoftext|>"])
    begin = "<｜begin▁of▁sentence｜>"
    tok.post_processor = processors.TemplateProcessing(single=begin + " $A", pair=begin + " $A $B",
                                                       special_tokens=[(begin, tok.token_to_id(begin))])
    return tok


def deepseek3():
    return byte_level(pre_tokenizers.Sequence([
        split(r"\p{N}{1,3}"), split(r"[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK3), bytes_only()]), 380,
        normalizers.Sequence([]))


def kimi():
    return byte_level(pre_tokenizers.Sequence([split(KIMI), bytes_only()]), 380)


def cl100k():
    return byte_level(pre_tokenizers.Sequence([split(CL100K, "removed", True), bytes_only()]), 380)


def digits():
    tok = byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=False),
                                              pre_tokenizers.ByteLevel(add_prefix_space=True)]), 380)
    tok.add_tokens([AddedToken("foo", single_word=True), AddedToken("  ", normalized=False)])
    return tok


def llama2():
    special = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)]
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    train(tok, 600, special, alphabet=False)
    raw = json.loads(tok.to_str())
    raw["added_tokens"] = [a for a in raw["added_tokens"] if a["id"] < 3]
    keep = set(list(raw["model"]["vocab"])[:259]) | {c for c in raw["model"]["vocab"] if len(c) == 1 and ord(c) < 0x500}
    keep.add("▁")
    merges = []
    for a, b in raw["model"]["merges"]:
        if a in keep and b in keep:
            keep.add(a + b)
            merges.append([a, b])
    order = sorted(keep, key=lambda s: raw["model"]["vocab"][s])
    raw["model"]["vocab"] = {s: i for i, s in enumerate(order)}
    raw["model"]["merges"] = merges
    tok = Tokenizer.from_str(json.dumps(raw))
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                     decoders.Strip(" ", 1, 0)])
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    return tok


def mistral():
    tok = llama2()
    tok.normalizer = normalizers.Sequence([])
    tok.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=False)
    tok.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="$A $B", special_tokens=[("<s>", 1), ("</s>", 2)])
    return tok


def metaspace():
    """Unknown characters without byte_fallback. Metaspace is also the decoder."""
    tok = Tokenizer(models.BPE(unk_token="<unk>"))
    tok.normalizer = normalizers.NFKC()
    tok.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="always", split=True)
    tok.decoder = decoders.Metaspace("▁", prepend_scheme="always")
    trainer = trainers.BpeTrainer(vocab_size=330, limit_alphabet=120, special_tokens=["<unk>"], show_progress=False)
    tok.train_from_iterator(CORPUS, trainer)
    return tok


def flags():
    """Every flag of added tokens, a normalizer that changes them, no decoder."""
    tok = Tokenizer(models.BPE())
    tok.normalizer = normalizers.Sequence([normalizers.Lowercase(), normalizers.NFD(), normalizers.Strip(),
                                           normalizers.Replace(Regex(r"[\u0300-\u036f]+"), "")])
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation()])
    trainer = trainers.BpeTrainer(vocab_size=300, limit_alphabet=150, show_progress=False)
    tok.train_from_iterator(CORPUS, trainer)
    tok.add_special_tokens([AddedToken("[MASK]", lstrip=True, normalized=False), AddedToken("<|endoftext|>", rstrip=True),
                            AddedToken("<s>", lstrip=True, rstrip=True)])
    tok.add_tokens([AddedToken("Foo", single_word=True, normalized=True), AddedToken("end", normalized=False),
                    AddedToken("Quick Brown", normalized=True, rstrip=True)])
    return tok


# name -> (maker, merges written as strings, model fields to set)
SHAPES = {
    "gpt2": (gpt2, True, {}),
    "llama3": (llama3, False, {"ignore_merges": True}),
    "qwen2": (qwen2, True, {}),
    "deepseek2": (deepseek2, False, {}),
    "deepseek3": (deepseek3, False, {}),
    "kimi": (kimi, False, {}),
    "cl100k": (cl100k, False, {}),
    "digits": (digits, True, {}),
    "llama2": (llama2, True, {}),
    "mistral": (mistral, False, {}),
    "metaspace": (metaspace, False, {"fuse_unk": True}),
    "flags": (flags, False, {}),
}


def save(name, maker, strings, fields):
    raw = json.loads(maker().to_str())
    raw["model"].update(fields)
    if strings:
        raw["model"]["merges"] = [a + " " + b for a, b in raw["model"]["merges"]]
    path = os.path.join(OUT, name + ".json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(raw, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")
    return Tokenizer.from_file(path)


def pieces(pattern):
    found = pre_tokenizers.Split(Regex(pattern), "isolated").pre_tokenize_str(REGEX_TEXT)
    return [piece for piece, _ in found]


def other_than(text, decoded):
    return None if decoded == text else decoded


def golden(tok):
    """Per text: ids, ids with special tokens, their text, and the text without special tokens (null for the text itself)."""
    rows = []
    for text in TEXTS:
        ids = tok.encode(text, add_special_tokens=False).ids
        full = tok.encode(text, add_special_tokens=True).ids
        rows.append([ids, full, other_than(text, tok.decode(full, skip_special_tokens=False)),
                     other_than(text, tok.decode(full, skip_special_tokens=True))])
    return rows


def odd_ids(tok):
    """Ids that no text gives. They decode to halves of characters and to tokens in odd places."""
    n = tok.get_vocab_size()
    state, rows = 12345, []
    for k in range(12):
        ids = []
        for _ in range(1 + 2 * k):
            state = (state * 1103515245 + 12345) % 2**31
            ids.append(state // 65536 % n)
        rows.append([ids, tok.decode(ids, skip_special_tokens=False), tok.decode(ids, skip_special_tokens=True)])
    return rows


def main():
    os.makedirs(OUT, exist_ok=True)
    with open(os.path.join(OUT, "texts.json"), "w", encoding="utf-8") as f:
        json.dump(TEXTS, f, ensure_ascii=True, indent=0)
        f.write("\n")
    with open(os.path.join(OUT, "regexes.json"), "w", encoding="utf-8") as f:
        json.dump({"text": REGEX_TEXT, "pieces": [[r, pieces(r)] for r in REGEXES]}, f, ensure_ascii=True, indent=0)
        f.write("\n")
    for name, (maker, strings, fields) in SHAPES.items():
        tok = save(name, maker, strings, fields)
        rows = {"encode": golden(tok), "decode": odd_ids(tok)}
        with open(os.path.join(OUT, name + ".golden.json"), "w", encoding="utf-8") as f:
            json.dump(rows, f, ensure_ascii=True, separators=(",", ":"))
            f.write("\n")


if __name__ == "__main__":
    main()
