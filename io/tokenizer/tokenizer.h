/* tokenizer.h - text to token ids and back, from a Hugging Face tokenizer.json. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TOKENIZER_H
#define TRI_TOKENIZER_H

#include "base/text_buffer.h"
#include "io/text/text_place.h"

/* A tokenizer as the file describes it. Read-only once open: every function below but open and close may be
 * called from several threads at once. The judge is the tokenizers library (0.23): the ids and texts are its
 * own.
 *
 * Understood: model BPE (byte_fallback, ignore_merges, unk_token, fuse_unk; merges as "a b" or ["a", "b"])
 * and Unigram (unk_id, byte_fallback); normalizers NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace, Strip,
 * StripAccents, Nmt, Precompiled, ByteLevel, Sequence; pre-tokenizers Split, ByteLevel, Digits, Metaspace,
 * Punctuation, Whitespace, WhitespaceSplit, Sequence; decoders ByteLevel, ByteFallback, Fuse, Metaspace,
 * Replace, Strip, Sequence; post-processors ByteLevel, TemplateProcessing, Sequence; added tokens with all
 * their flags. Anything else is refused by its name.
 *
 * Unigram's numbers are rounded as the library's JSON reader rounds them, so that ties fall as they do there.
 *
 * Known to differ: a few characters younger than Unicode 9 under NFKC, NFKD and Lowercase, in the order of
 * marks, and under Punctuation, where the library's tables are older or newer; properties other than general
 * categories (\p{Emoji}) follow the Unicode of the PCRE2 at hand. Refused: NUL in a token of a BPE
 * vocabulary, look-behind of variable length, a Unigram token of more than 1024 bytes.
 *
 * What a step makes of a text is bounded (64 times and a MiB), and so is a search of a pattern; beyond it is
 * TRI_EINPUT, naming the step.
 *
 * `truncation` and `padding` are not applied: the library's own encode() would cut and fill, but transformers
 * switches both off for every call that does not ask for them.
 *
 * The id of an added token is the one the library gives it: that of the model's vocabulary where it stands
 * there too, else the next free one. Where the file says another id, that is logged as a warning. With
 * split_special_tokens of tokenizer_config.json, special tokens are not found in texts. */
typedef struct tri_tokenizer tri_tokenizer;
/* What a message says where tokenizer.json is missing. */
#define TRI_TOKENIZER_CURE                                                                                   \
  "where there is tokenizer.model or vocab.json, make it with transformers: "                                \
  "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"

/* Growable list of ids. Zero-initialise; free with tri_tokens_free, which leaves it zeroed. */
typedef struct tri_tokens {
  int32_t *id; /* [n] */
  int64_t  n, cap;
} tri_tokens;
TRI_CHECKED tri_status tri_tokens_put(tri_tokens *list, const int32_t *id, int64_t n); /* append */
void                   tri_tokens_free(tri_tokens *list);

/* Growable list of places. Zero-initialise; free with tri_token_places_free, which leaves it zeroed. */
typedef struct tri_token_places {
  tri_text_place *at; /* [n] */
  int64_t         n, cap;
} tri_token_places;
void tri_token_places_free(tri_token_places *list);

/* The files a tokenizer is read from. Beside tokenizer.json, three may name tokens, their flags and what they
 * are for (eos_token). They count as in AutoTokenizer of transformers 5.24: added_tokens_decoder of
 * tokenizer_config.json in the order of its ids, then tokens with names, then extra_special_tokens (once
 * additional_special_tokens). special_tokens_map.json and added_tokens.json are read only where there is no
 * added_tokens_decoder. A token that tokenizer.json has keeps its id and takes the flags of
 * added_tokens_decoder. A new one gets the id of the model's vocabulary, or the next free one, whatever the
 * file says; another number there is a warning. */
enum {
  TRI_TOKENIZER_JSON,
  TRI_TOKENIZER_CONFIG,
  TRI_TOKENIZER_MAP,
  TRI_TOKENIZER_ADDED,
  TRI_TOKENIZER_FILES
};
/* "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json". */
const char *tri_tokenizer_file_name(int i);
/* One of them in memory, which may go away afterwards; `name` stands in messages. bytes NULL: there is
 * none. */
typedef struct tri_tokenizer_file {
  const char *name, *bytes;
  size_t      n;
} tri_tokenizer_file;

/* Open a tokenizer.json, with the files beside it. A byte order mark at its start is skipped. TRI_EINPUT with
 * one message where a file is broken or asks for what is not understood. The caller closes *out. Not
 * collective. */
TRI_CHECKED tri_status tri_tokenizer_open(const char *path, tri_tokenizer **out);
/* The same from memory. Not collective. */
TRI_CHECKED tri_status tri_tokenizer_open_files(const tri_tokenizer_file file[TRI_TOKENIZER_FILES],
                                                tri_tokenizer          **out);
/* The same of a tokenizer.json alone. Not collective. */
TRI_CHECKED tri_status tri_tokenizer_open_text(const char *name, const char *bytes, size_t n,
                                               tri_tokenizer **out);
void                   tri_tokenizer_close(tri_tokenizer **t);

/* Append the ids of a text of `n` bytes, which may hold NUL, to *out. Bytes that are no UTF-8 are read as
 * U+FFFD, one for each longest part that could begin a character (as Python's errors="replace"). special: run
 * the post-processor, which adds the begin token and the like. On failure *out is as it was. Not
 * collective. */
TRI_CHECKED tri_status tri_tokenizer_encode(const tri_tokenizer *t, const char *text, size_t n, bool special,
                                            tri_tokens *out);
/* The same with special = false; *places gets the place of each token of the text, as the library's offsets
 * are. The begin or end of a token that lies inside a character is inside it here, and where a normalizer
 * (NFC, NFD, NFKC, NFKD, Precompiled) changes characters, tokens of the changed ones have the place of all of
 * them and of the ASCII character before. places->n is 0 where a place is not known: the text is no UTF-8, or
 * has characters that the tokenizer leaves out. Not collective. */
TRI_CHECKED tri_status tri_tokenizer_encode_places(const tri_tokenizer *t, const char *text, size_t n,
                                                   tri_tokens *out, tri_token_places *places);
/* Append the UTF-8 text of `n` ids to *out, as the library's decode(ids, skip_special_tokens=skip_special).
 * Bytes that are no UTF-8 become U+FFFD. An id that names no token is TRI_EINPUT. Not collective. */
TRI_CHECKED tri_status tri_tokenizer_decode(const tri_tokenizer *t, const int32_t *id, int64_t n,
                                            bool skip_special, tri_text *out);

int32_t     tri_tokenizer_vocab_size(const tri_tokenizer *t); /* largest id + 1, added tokens too */
int32_t     tri_tokenizer_model_size(const tri_tokenizer *t); /* the same without added tokens */
const char *tri_tokenizer_token(const tri_tokenizer *t,
                                int32_t              id); /* as the file spells it, or NULL; borrowed */
/* The id of the token that the files call `name` ("eos_token"), or -1. */
int32_t tri_tokenizer_named(const tri_tokenizer *t, const char *name);

#endif
