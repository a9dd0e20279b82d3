# make_unigram_golden.py - writes the ids that the tokenizers library gives for texts with Unigram models, for test_tokenizer.c.
# SPDX-License-Identifier: BSD-3-Clause
"""Writes tests/data/tokenizer/unigram_*.json: tokenizer.json files of Unigram models, shaped like those of real models. One has
SentencePiece's compiled normalizer (nmt_nfkc). unigram_golden.json has texts and the ids that the tokenizers library gives.

Run by hand: python3 tests/golden/make_unigram_golden.py
Made with: tokenizers 0.23.3, sentencepiece 0.2.3
"""
import io
import json
import os
import random
import re
import tempfile

import sentencepiece
from make_tokenizer_golden import CORPUS, OUT, TEXTS, other_than
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

ALPHABETS = [
    "abcdefghij   ", "aaab  ", "=-_*#  \n\t", "éèüñçß ", "e\u0301a\u0308o\u0323\u0307 n\u0303", "ﬁﬂﬃ①②Ⅷ½²³ ", "ＡＢＣａｂｃ１２３　！", "日本語東京大学の ",
    "ｶﾞｷﾞﾊﾟ ア゙", "가나다각힣\u1100\u1161\u11a8 ", "приветмир ", "नमस्तेक्षत्रिय ", "สวัสดีก็ ", "مرحباسَلَام ", "\u0600\u0601١٢٣ ", "🙂👍🏽👨\u200d👩\u200d👧🇩🇪❤\ufe0f☝",
    "\u00a0\u2003\u3000\u200b\u200c\u200d\ufeff \u2028", "\x00\x01\x07\x1b\x7f\x85\x9f a", "\r\n\t ", "▁ ▁a▁▁", "\u0130\u0131ſ\u212aK ", "ℌ℡™℠㎏㏒㋿ ", "\ufdfa\ufdfb\u3300 ",
    "a\u20e3b\u0338c\u0897d\u1acf\U0001e4ec", "<s></s><unk>", "0123456789.,", "𝒜𝓁𝓅𝒽𝒶𐍈𠜎", "‐‑–—…‥''“”", "\ufffd\ufffe\uffff\ue000", "ঀকিকোক্ষ", "ㄱㅏㅁ\u0300 x\u0300",
]


def texts():
    out = [*TEXTS, "a\x9f\u0897b", "a\u0897b\u200b\u0897", "\x9f\u0300\u0300a\u1acf"]
    r = random.Random(20)
    for alphabet in ALPHABETS:
        for _ in range(5):
            out.append("".join(r.choice(alphabet) for _ in range(r.randint(1, 40))))
    for _ in range(60):
        mixed = "".join(r.sample(ALPHABETS, 3))
        out.append("".join(r.choice(mixed) for _ in range(r.randint(1, 50))))
    return out


def field(proto, number):
    """The bytes of a field of a protobuf message."""
    def varint(at):
        value, shift = 0, 0
        while True:
            value |= (proto[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if proto[at - 1] < 128:
                return value, at
    at = 0
    while at < len(proto):
        key, at = varint(at)
        if key & 7 == 2:
            size, at = varint(at)
            if key >> 3 == number:
                return proto[at:at + size]
            at += size
        elif key & 7 == 0:
            _, at = varint(at)
        else:
            at += 8 if key & 7 == 1 else 4
    return b""


def train(size, **options):
    """Pieces with their scores, and the compiled normalizer."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS * 2), model_writer=model, vocab_size=size, model_type="unigram",
                                             hard_vocab_limit=False, minloglevel=2, num_threads=1, **options)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = [(processor.id_to_piece(i), processor.get_score(i)) for i in range(processor.get_piece_size())]
    return pieces, field(field(model.getvalue(), 3), 2)


def llm_jp():
    """Unigram with byte fallback, as in llm-jp-3."""
    pieces, _ = train(700, byte_fallback=True, normalization_rule_name="identity", add_dummy_prefix=False, remove_extra_whitespaces=False)
    tok = Tokenizer(models.Unigram(pieces, 0, True))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tok.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in ["<unk>", "<s>", "</s>", "<|endoftext|>"]])
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", tok.token_to_id("<s>"))])
    return tok


def t5():
    """The compiled nmt_nfkc, as in T5 and XLM-R. Everything unknown is one token."""
    pieces, charsmap = train(500, normalization_rule_name="nmt_nfkc")
    tok = Tokenizer(models.Unigram(pieces, 0, False))
    tok.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap), normalizers.Strip(left=False, right=True),
                                           normalizers.Replace(Regex(" {2,}"), "▁")])
    tok.pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme="always")
    tok.decoder = decoders.Metaspace("▁", prepend_scheme="always")
    tok.add_special_tokens(["<s>", "</s>", "<unk>"])
    tok.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", tok.token_to_id("</s>"))])
    return tok


def albert():
    """A small compiled map made here, with sequences, deletions and expansions. Accents and case are removed before it."""
    rules = [("a", "xyz"), ("b", ""), ("c d", "e"), ("f", "g"), ("f g", "hh"), ("é", "E"), ("\r", " "), ("\r \n", "N"), ("日", "本日"), ("\u200d", ""), ("q \u0301", "Q")]
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as f:
        for source, target in rules:
            codes = [" ".join("%X" % ord(c) for c in text.replace(" ", "")) for text in (source, target)]
            f.write("\t".join(codes) + "\n")
        f.flush()
        pieces, charsmap = train(400, normalization_rule_tsv=f.name)
    tok = Tokenizer(models.Unigram(pieces, 0, False))
    tok.normalizer = normalizers.Sequence([normalizers.Replace("``", '"'), normalizers.Nmt(), normalizers.Precompiled(charsmap),
                                           normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()])
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace("▁", prepend_scheme="first")])
    tok.decoder = decoders.Metaspace("▁", prepend_scheme="first")
    return tok


def ties():
    """Scores that differ only by rounding, duplicate tokens, a token equal to an unknown text, unk_id in the middle."""
    r = random.Random(3)
    pieces = [("a", -r.random()), ("aa", -2 * r.random()), ("aaa", -3 * r.random()), ("=", -1.1), ("==", -2.2), ("===", -3.3000000000000003),
              ("<unk>", -5), ("b", -0.1), ("aa", -0.7), (" ", -1e-3), ("-", -12345678901234567890.5e-19), ("--", -0.00000123456789012345678901),
              ("éè", -40), ("*#", -1), ("ab", -0.30000000000000004), ("", -9), ("a\x00", -3)]
    tok = Tokenizer(models.Unigram(pieces, 6, False))
    text = tok.to_str(pretty=False)
    # No library writes numbers like these. Their digits decide the rounding.
    for token, score in [("b", "-0.1000000000000000055511151231257827"), ("<unk>", "-5"), ("=", "-110000000000000000000000e-23"), ("==", "-22E-1"),
                         ("*#", "-18446744073709551616.0001e-19"), ("ab", "-0.00000000000000000000030000000000000004e+21")]:
        text, n = re.subn(r'\["%s",[^\]]*\]' % re.escape(token), '["%s",%s]' % (token, score), text)
        assert n == 1, token
    return text


def main():
    kinds = {"unigram_llmjp": llm_jp, "unigram_t5": t5, "unigram_albert": albert, "unigram_ties": ties}
    all_texts = texts()
    golden = {"texts": all_texts, "kinds": {}}
    for name, maker in kinds.items():
        made = maker()
        raw = made if isinstance(made, str) else json.dumps(json.loads(made.to_str()), ensure_ascii=False, separators=(",", ":"))
        path = os.path.join(OUT, name + ".json")
        with open(path, "w", encoding="utf-8") as f:
            f.write(raw + "\n")
        tok = Tokenizer.from_file(path)
        rows = []
        for text in all_texts:
            ids = tok.encode(text, add_special_tokens=False).ids
            full = tok.encode(text, add_special_tokens=True).ids
            rows.append([ids, None if full == ids else full, other_than(text, tok.decode(full, skip_special_tokens=False)),
                         other_than(text, tok.decode(full, skip_special_tokens=True))])
        golden["kinds"][name] = rows
    with open(os.path.join(OUT, "unigram_golden.json"), "w", encoding="utf-8") as f:
        json.dump(golden, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")
    print(len(all_texts), "texts")


if __name__ == "__main__":
    main()
