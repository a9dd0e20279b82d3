/* tokenizer.h - converts text to token ids and back, with a Hugging Face tokenizer.json. Not collective, all
 * that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TOKENIZER_H
#define TRI_TOKENIZER_H

#include "base/text_buffer.h"
#include "io/text/text_place.h"

/* A tokenizer as described by its file. It is read-only once open. All functions below except open and close
 * may be called from several threads at once. Ids and texts equal those of the tokenizers library (0.23).
 *
 * Supported are the models BPE (byte_fallback, ignore_merges, unk_token, fuse_unk, merges as "a b" or
 * ["a", "b"]) and Unigram (unk_id, byte_fallback). Normalizers are NFC, NFD, NFKC, NFKD, Lowercase,
 * Prepend, Replace, Strip, StripAccents, Nmt, Precompiled, ByteLevel and Sequence. Pre-tokenizers are
 * Split, ByteLevel, Digits, Metaspace, Punctuation, Whitespace, WhitespaceSplit and Sequence. Decoders are
 * ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Strip and Sequence. Post-processors are ByteLevel,
 * TemplateProcessing and Sequence. Added tokens have all their flags. Anything else is refused by its
 * name.
 *
 * Unigram scores are rounded as in the library's JSON reader, so ties are broken alike.
 *
 * A few characters younger than Unicode 9 differ under NFKC, NFKD, Lowercase and Punctuation, and in the
 * order of marks. The library's tables are older or newer there. Properties other than general categories
 * (\p{Emoji}) follow the Unicode version of the installed PCRE2. Refused are NUL in a token of a BPE
 * vocabulary, look-behind of variable length, and a Unigram token of more than 1024 bytes.
 *
 * The output of each step is bounded (64 times the text plus a MiB), and so is the work of a pattern search.
 * TRI_EINPUT beyond these limits names the step.
 *
 * `truncation` and `padding` are ignored. The library's own encode() would apply them, but transformers turns
 * both off unless a call asks for them.
 *
 * Added tokens get their ids as in the library: the id in the model's vocabulary if the token is there too,
 * else the next free id. A different id in the file is logged as a warning. With split_special_tokens in
 * tokenizer_config.json, special tokens are not found in texts. */
typedef struct tri_tokenizer tri_tokenizer;
enum { TRI_TOKENIZER_CURE_BYTES = 4096 }; /* chosen: two paths of the usual length */
/* Not collective. Writes the cure for a model whose folder has no tokenizer.json, as one line for a message
 * that names the folder, a model folder or a checkpoint. folder may be NULL. Returns out. */
const char *tri_tokenizer_cure(const char *folder, char out[TRI_TOKENIZER_CURE_BYTES]);

/* A growable list of ids. Zero-initialise. tri_tokens_free frees it and leaves it zeroed. */
typedef struct tri_tokens {
  int32_t *id; /* [n] */
  int64_t  n, cap;
} tri_tokens;
TRI_CHECKED tri_status tri_tokens_put(tri_tokens *list, const int32_t *id, int64_t n); /* appends */
void                   tri_tokens_free(tri_tokens *list);

/* A growable list of places. Zero-initialise. tri_token_places_free frees it and leaves it zeroed. */
typedef struct tri_token_places {
  tri_text_place *at; /* [n] */
  int64_t         n, cap;
} tri_token_places;
void tri_token_places_free(tri_token_places *list);

/* The files of a tokenizer. Beside tokenizer.json, three more may list tokens, their flags and their roles
 * (eos_token). They are read as in AutoTokenizer of transformers 5.24. First comes added_tokens_decoder of
 * tokenizer_config.json in the order of its ids, then tokens with roles, then extra_special_tokens (formerly
 * additional_special_tokens). special_tokens_map.json and added_tokens.json are read only if there is no
 * added_tokens_decoder. A token of tokenizer.json keeps its id and takes the flags of added_tokens_decoder. A
 * new token gets its id in the model's vocabulary, or the next free id. A different id in the file is logged
 * as a warning. */
enum {
  TRI_TOKENIZER_JSON,
  TRI_TOKENIZER_CONFIG,
  TRI_TOKENIZER_MAP,
  TRI_TOKENIZER_ADDED,
  TRI_TOKENIZER_FILES
};
/* "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json". */
const char *tri_tokenizer_file_name(int i);
/* One of these files in memory. It is needed only during the call. Messages use `name`. bytes NULL: no such
 * file. */
typedef struct tri_tokenizer_file {
  const char *name, *bytes;
  size_t      n;
} tri_tokenizer_file;

/* Opens a tokenizer.json with the files beside it. A byte order mark at its start is skipped. TRI_EINPUT: a
 * file is broken or needs an unsupported feature. The caller closes *out. */
TRI_CHECKED tri_status tri_tokenizer_open(const char *path, tri_tokenizer **out);
/* Opens a tokenizer from memory. */
TRI_CHECKED tri_status tri_tokenizer_open_files(const tri_tokenizer_file file[TRI_TOKENIZER_FILES],
                                                tri_tokenizer          **out);
/* Opens a tokenizer from a tokenizer.json alone, in memory. */
TRI_CHECKED tri_status tri_tokenizer_open_text(const char *name, const char *bytes, size_t n,
                                               tri_tokenizer **out);
void                   tri_tokenizer_close(tri_tokenizer **t);

/* Appends the ids of a text of `n` bytes, which may contain NUL, to *out. Invalid UTF-8 is read as U+FFFD,
 * one for each longest part that could begin a character (as Python's errors="replace"). special: run the
 * post-processor, for example to add the begin token. On failure *out is unchanged. */
TRI_CHECKED tri_status tri_tokenizer_encode(const tri_tokenizer *t, const char *text, size_t n, bool special,
                                            tri_tokens *out);
/* Works as tri_tokenizer_encode without `special`. *places gets the place of each token in the text, as the
 * library's offsets. If a token begins or ends inside a character, so does its place. If a normalizer (NFC,
 * NFD, NFKC, NFKD, Precompiled) changes several characters together, their tokens have the place of all these
 * characters and of the ASCII character before them. places->n is 0 if a place is unknown, because the text
 * is not UTF-8 or has characters that become no token. */
TRI_CHECKED tri_status tri_tokenizer_encode_places(const tri_tokenizer *t, const char *text, size_t n,
                                                   tri_tokens *out, tri_token_places *places);
/* Appends the UTF-8 text of `n` ids to *out, as the library's decode(ids, skip_special_tokens=skip_special).
 * Invalid UTF-8 becomes U+FFFD. TRI_EINPUT: an id has no token. */
TRI_CHECKED tri_status tri_tokenizer_decode(const tri_tokenizer *t, const int32_t *id, int64_t n,
                                            bool skip_special, tri_text *out);

int32_t tri_tokenizer_vocab_size(const tri_tokenizer *t); /* largest id + 1, with added tokens */
int32_t tri_tokenizer_model_size(const tri_tokenizer *t); /* largest id + 1, without added tokens */
/* Returns a token as spelled in the file, borrowed. NULL: there is no such id. */
const char *tri_tokenizer_token(const tri_tokenizer *t, int32_t id);
/* Returns the id of the token with the role `name` ("eos_token"), or -1. */
int32_t tri_tokenizer_named(const tri_tokenizer *t, const char *name);

#endif
