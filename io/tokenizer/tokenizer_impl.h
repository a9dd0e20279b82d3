/* tokenizer_impl.h - declarations shared by the files of the tokenizer. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TOKENIZER_IMPL_H
#define TRI_TOKENIZER_IMPL_H

#include "tokenizer.h"

#include <jansson.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* Chosen as 16 times the largest vocabulary in use (262 144). Larger ids are treated as damage. */
enum { TRI_TOK_MAX_ID = 1 << 22 };

/* A step or the template may produce this many times the text, plus this many bytes or ids. Chosen. Real ones
 * produce 11 times (NFKC of U+FDFA), and added tokens 4 times (a mark before one character). */
enum {
  TRI_TOK_MOST_TIMES = 64,
  TRI_TOK_MOST_TIMES_ADDED = 16,
  TRI_TOK_MORE_BYTES = 1 << 20,
  TRI_TOK_MORE_IDS = 1 << 16
};

/* ---- tables ---- */
typedef struct tri_tok_row {
  char  *s; /* the token's UTF-8, NUL-terminated. NULL: no token has this id */
  size_t n; /* bytes */
} tri_tok_row;

/* The key of hashes. It is drawn at random when a tokenizer is opened, so nobody can craft files or texts
 * that collide. Results do not depend on it. */
typedef struct tri_tok_key {
  uint64_t a, b;
} tri_tok_key;

/* Maps a text to the index of its row. Open addressing. `row` is borrowed. */
typedef struct tri_tok_map {
  const tri_tok_row *row;
  uint64_t           n_key;
  tri_tok_key        key;
  int32_t           *slot; /* index + 1, or 0 */
  uint64_t           mask;
} tri_tok_map;
TRI_CHECKED tri_status tri_tok_draw_key(tri_tok_key *key);
uint64_t               tri_tok_hash(tri_tok_key key, const char *s, size_t n);
TRI_CHECKED tri_status tri_tok_map_open(tri_tok_map *map, tri_tok_key key, const tri_tok_row *row,
                                        int64_t n_keys);
int32_t                tri_tok_map_find(const tri_tok_map *map, const char *s, size_t n); /* index or -1 */
void                   tri_tok_map_put(tri_tok_map *map, int32_t index); /* the key must be new */
void                   tri_tok_map_set(tri_tok_map *map, int32_t index); /* replaces an equal key */
/* Adds a key and grows beyond n_keys if needed. */
TRI_CHECKED tri_status tri_tok_map_add(tri_tok_map *map, int32_t index);

/* Reads field `key` of an object as a bool. A missing field is an error unless `fallback` is 0 or 1. `where`
 * names the object. */
TRI_CHECKED tri_status tri_tok_bool(const tri_tokenizer *t, const char *where, const json_t *o,
                                    const char *key, int fallback, bool *out);

/* ---- text cut into pieces ---- */
typedef struct tri_tok_piece {
  size_t at, n; /* place in the text, in bytes */
  /* How many of its first bytes stand for the very first character of the input. */
  size_t zero;
  /* >= 0: an added token. Later steps leave it alone. */
  int32_t id;
} tri_tok_piece;

typedef struct tri_tok_pieces {
  char   *text;
  int64_t text_n, text_cap; /* bytes */
  /* The step that writes, borrowed. It may not exceed most_text. Or NULL. */
  const char    *maker;
  int64_t        most_text;
  tri_tok_piece *piece;
  int64_t        n, cap;
  /* [text_n] The place of each byte in the input, if tri_tok_work.places. */
  tri_text_place *place;
  int64_t         place_cap;
} tri_tok_pieces;
/* Makes space for n_bytes at text + text_n. */
TRI_CHECKED tri_status tri_tok_reserve(tri_tok_pieces *p, size_t n_bytes);
TRI_CHECKED tri_status tri_tok_put(tri_tok_pieces *p, const char *s, size_t n);
TRI_CHECKED tri_status tri_tok_push(tri_tok_pieces *p, tri_tok_piece piece); /* an empty piece is omitted */
void                   tri_tok_reset(tri_tok_pieces *p);
void                   tri_tok_pieces_free(tri_tok_pieces *p);
void                   tri_tok_take_text(tri_tok_pieces *out,
                                         /* Swaps the texts, after a step that changed nothing in it. */
                                         tri_tok_pieces *in);

/* ---- regular expressions ---- */
typedef struct tri_tok_regex {
  pcre2_code *code, *counted; /* counted: with a callout at every item of the pattern, to count steps */
  char       *name;           /* for messages: file, place and pattern */
} tri_tok_regex;

typedef struct tri_tok_match {
  size_t from, to; /* offsets in the piece */
  bool   hit;
} tri_tok_match;

/* The place of each token in the input. */
typedef struct tri_tok_origin {
  tri_token_places *places;     /* borrowed. NULL: not wanted */
  const char       *input;      /* borrowed */
  bool              lost;       /* a place is unknown */
  int64_t           out_before; /* ids in the output before this call */
  /* For each new id of the output, how many bytes of the piece it takes. */
  tri_tokens took;
} tri_tok_origin;

/* Scratch memory of one encode or decode call. Zero-initialise. tri_tok_work_free leaves it zeroed. */
typedef struct tri_tok_work {
  int64_t              most_text; /* most bytes of a step's output */
  tri_tok_pieces       a, b;
  tri_tok_match       *match; /* [n_match] covers the piece in order */
  int64_t              n_match, cap_match;
  int32_t             *code; /* characters of the piece that is normalized */
  int64_t              cap_code;
  pcre2_match_data    *data;
  pcre2_match_context *context;
  int64_t              steps; /* steps left for searches */
  pcre2_jit_stack     *stack;
  /* the merge loop, one entry per symbol of a piece */
  int32_t  *symbol, *prev, *next;
  int64_t   cap_symbol, cap_prev, cap_next;
  uint64_t *heap; /* rank << 32 | position */
  int64_t   n_heap, cap_heap;
  /* Unigram: one entry per byte of a piece, and one more */
  struct tri_tok_best *best;
  int64_t              cap_best;
  /* pieces seen in this call, with their text in `a` and their ids in the output */
  struct tri_tok_seen *seen;
  int64_t              n_seen, cap_seen; /* cap_seen: a power of two, or 0 */
  int32_t             *bytes;            /* bytes of each symbol of a piece */
  int64_t              cap_bytes;
  tri_tok_origin       origin;
} tri_tok_work;
TRI_CHECKED tri_status tri_tok_add_match(tri_tok_work *w, size_t from, size_t to, bool hit);
void                   tri_tok_work_free(tri_tok_work *w);

/* Compiles a pattern in Oniguruma's syntax, or a plain text if `literal`, with PCRE2. `where` stands in
 * messages. */
TRI_CHECKED tri_status tri_tok_regex_open(const char *where, const char *s, size_t n, bool literal,
                                          tri_tok_regex *out);
void                   tri_tok_regex_close(tri_tok_regex *x);
/* Covers the n bytes at s with matches and the stretches between them, in w->match. TRI_EINPUT, naming the
 * pattern: the search takes more steps or memory than a tokenizer's pattern needs. */
TRI_CHECKED tri_status tri_tok_regex_find(const tri_tok_regex *x, const char *s, size_t n, tri_tok_work *w);

/* A set of characters, as the inside of a class that may be negated. */
typedef struct tri_tok_set {
  char        items[256];
  const char *newer; /* categories for tri_tok_put_newer, or NULL */
  bool        negative;
  bool        word; /* the set is \w */
} tri_tok_set;
/* Finds the set of a name as in \p{name}. false: there is none. */
bool tri_tok_set_find(const char *name, size_t n, tri_tok_set *set);
/* Appends the inside, without ^. */
TRI_CHECKED tri_status tri_tok_set_put(const tri_tok_set *set, tri_text *out);
/* Appends the PCRE2 spelling of an Oniguruma pattern to *out. */
TRI_CHECKED tri_status tri_tok_regex_translate(const char *where, const char *s, size_t n, tri_text *out);

/* ---- steps ---- */
typedef enum {
  TRI_TOK_NFC,
  TRI_TOK_NFD,
  TRI_TOK_NFKC,
  TRI_TOK_NFKD,
  TRI_TOK_LOWERCASE,
  TRI_TOK_PREPEND,
  TRI_TOK_REPLACE,
  TRI_TOK_STRIP,
  /* The bytes as printable characters: ByteLevel as a normalizer, and the second half of ByteLevel as a
   * pre-tokenizer. */
  TRI_TOK_BYTES,
  TRI_TOK_SPLIT,
  TRI_TOK_PREFIX_SPACE, /* the first half of ByteLevel */
  TRI_TOK_DIGITS,
  TRI_TOK_METASPACE,
  TRI_TOK_PUNCTUATION,
  TRI_TOK_WHITESPACE_SPLIT,
  TRI_TOK_BYTE_FALLBACK,
  TRI_TOK_FUSE,
  TRI_TOK_NMT,
  TRI_TOK_STRIP_ACCENTS,
  TRI_TOK_CHARSMAP,
} tri_tok_kind;

typedef enum {
  TRI_TOK_REMOVED,
  TRI_TOK_ISOLATED,
  TRI_TOK_PREVIOUS,
  TRI_TOK_NEXT,
  TRI_TOK_CONTIGUOUS
} tri_tok_behavior;
typedef enum { TRI_TOK_ALWAYS, TRI_TOK_NEVER, TRI_TOK_FIRST } tri_tok_scheme;
typedef struct tri_tok_charsmap tri_tok_charsmap;

typedef struct tri_tok_op {
  tri_tok_kind  kind;
  char         *name;    /* for messages: file, place and type */
  tri_tok_regex pattern; /* SPLIT, REPLACE */
  /* The text to insert (PREPEND, REPLACE, METASPACE) or to cut off (STRIP as a decoder). */
  char            *text;
  size_t           text_n; /* bytes */
  tri_tok_behavior behavior;
  bool             invert;
  bool             split;  /* METASPACE */
  tri_tok_scheme   scheme; /* METASPACE */
  /* STRIP: how many characters. As a normalizer 0 or 1. */
  int64_t           left, right;
  tri_tok_charsmap *charsmap; /* CHARSMAP */
} tri_tok_op;

typedef struct tri_tok_ops {
  tri_tok_op *op;
  int64_t     n, cap;
} tri_tok_ops;

/* One TemplateProcessing: its ids in order. -1 stands for the text. */
typedef tri_tokens tri_tok_template;

/* ---- added tokens ---- */
typedef struct tri_tok_added {
  /* The normalized form of the content, owned. No bytes: it equals the content, or was never made. */
  tri_tok_row normal;
  int32_t     id;
  bool        single_word, lstrip, rstrip, normalized, special;
  /* One of the files marked it special, so decoding can skip it. */
  bool skipped;
} tri_tok_added;

/* The role of a token in a file beside tokenizer.json, such as "eos_token". */
typedef struct tri_tok_named {
  char   *key;
  int32_t id; /* -1: the text is empty */
} tri_tok_named;

typedef struct tri_tok_node {
  int32_t child, sibling; /* index, or 0 for none */
  int32_t added;          /* index of the added token that ends here, or -1 */
  uint8_t byte;
} tri_tok_node;

typedef struct tri_tok_trie {
  tri_tok_node *node; /* [n]; 0 is the root */
  int64_t       n, cap;
  int32_t       first[256]; /* children of the root */
} tri_tok_trie;

typedef struct tri_tok_merge {
  uint64_t pair; /* left << 32 | right */
  int32_t  rank; /* -1: the slot is empty */
} tri_tok_merge;
/* The first slot to look for a pair among 2^(64 - shift) slots, as in M. Dietzfelbinger and others, A
 * reliable randomized algorithm for the closest-pair problem, 1997, section 2. The factor is odd and
 * random. */
static inline uint64_t tri_tok_pair_slot(uint64_t pair, tri_tok_key key, int shift) {
  return pair * (key.a | 1) >> shift;
}

/* The BPE model. */
typedef struct tri_tok_merges {
  tri_tok_merge *merge; /* open addressing with `mask` */
  int32_t       *id;    /* by rank: the token made by the merge */
  uint64_t       mask;
  int            shift;         /* for tri_tok_pair_slot */
  int32_t        byte_id[256];  /* byte_fallback: the id of <0xNN>, or -1 */
  int32_t        char_id[1024]; /* the id of each single character below U+0400, or -1 */
  bool           byte_fallback, fuse_unk, ignore_merges;
  char          *unk; /* or NULL */
  int32_t        unk_id;
} tri_tok_merges;

/* A prefix of tokens: the prefix of node `parent` and one more byte. */
typedef struct tri_tok_prefix {
  int32_t parent, id; /* id: the token that equals this prefix, or -1 */
  uint8_t byte;
} tri_tok_prefix;

/* All prefixes of the tokens. Maps a prefix and a byte to the longer prefix. Open addressing. */
typedef struct tri_tok_prefixes {
  tri_tok_prefix *node; /* [n]. Node 0 is the empty prefix */
  int64_t         n, cap;
  tri_tok_key     key;
  int32_t        *slot; /* a node, or 0 for none */
  uint64_t        mask;
  int             shift; /* for tri_tok_pair_slot */
} tri_tok_prefixes;

/* The Unigram model. */
typedef struct tri_tok_unigram {
  bool             on;    /* the tokenizer uses this model */
  double          *score; /* [n_model] log-probabilities, rounded as in the library */
  double           unk_score;
  int32_t          unk_id; /* -1: none */
  bool             byte_fallback;
  int32_t          byte_id[256]; /* the id of <0xNN>, or -1 */
  tri_tok_prefixes prefixes;
} tri_tok_unigram;

/* The best token that ends at a byte of a piece. id -1: none yet. */
typedef struct tri_tok_best {
  double  score; /* score of the whole path to here */
  int32_t from, id;
} tri_tok_best;

/* The post-processor, which adds ids around a text. */
typedef struct tri_tok_post {
  tri_tok_template *template; /* [n] */
  int64_t n, cap;
  int64_t times, more; /* n ids become n * times + more */
  /* ByteLevel: places exclude spaces. keeps_first: but not the first space of the text. */
  bool trims, keeps_first;
} tri_tok_post;

struct tri_tokenizer {
  char       *name; /* for messages */
  tri_tok_key key;

  tri_tok_row *row; /* [n_row] the model's tokens by id */
  int32_t      n_row, n_model;
  char        *arena; /* bytes of the rows */
  tri_tok_map  model;

  tri_tok_merges  bpe;
  tri_tok_unigram unigram;

  tri_tok_added *added;          /* [n_added] */
  tri_tok_row   *added_row;      /* [n_added] their contents */
  int32_t        n_added, n_own; /* n_own: the first n_own come from tokenizer.json */
  int64_t        cap_added, cap_added_row;
  tri_tok_map    added_map;
  int64_t        added_in, added_out; /* bytes of the added tokens, and of their patterns */
  int32_t       *added_of;            /* [n_row] index + 1, or 0 */
  tri_tok_trie   raw, normal;
  bool           splits_special; /* special tokens are not found in texts */
  tri_tok_named *named;          /* [n_named] */
  int64_t        n_named;

  tri_tok_ops  normalizer, pre_tokenizer, decoder;
  bool         has_decoder;
  tri_tok_post post;
};

/* tokenizer_load.c and tokenizer_steps.c fill *t from the parsed file. *t is zeroed except for its name. */
TRI_CHECKED tri_status tri_tok_load(tri_tokenizer *t, json_t *root, const tri_tokenizer_file *file);
TRI_CHECKED tri_status tri_tok_load_steps(tri_tokenizer *t, json_t *root);
TRI_CHECKED tri_status tri_tok_load_post(tri_tokenizer *t, json_t *post);
void                   tri_tok_ops_free(tri_tok_ops *ops);

/* tokenizer_added.c loads the added tokens of tokenizer.json. */
TRI_CHECKED tri_status tri_tok_load_added(tri_tokenizer *t, json_t *list);
/* Adds a token, or gives an existing one the flags of `fresh`. A new token gets its id in the vocabulary, or
 * *next. */
TRI_CHECKED tri_status tri_tok_add(tri_tokenizer *t, const tri_tok_row *content, const tri_tok_added *fresh,
                                   int32_t *next);
/* Builds the search tables. Call it after the last tri_tok_add. */
TRI_CHECKED tri_status tri_tok_index_added(tri_tokenizer *t);
/* Returns the id of an added token or a token of the model, or -1. */
int32_t tri_tok_find(const tri_tokenizer *t, const char *s, size_t n);
/* tri_tok_pattern is searched in texts. It is the content, or the normalized content of a normalized token.
 * tri_tok_shown is written by decoding. It is the normalized content if that was made (tokenizers,
 * added_vocabulary.rs, normalized_cache). Both are borrowed. */
tri_tok_row tri_tok_pattern(const tri_tokenizer *t, int32_t i);
tri_tok_row tri_tok_shown(const tri_tokenizer *t, int32_t i);
/* Splits the pieces of `in` at the trie's tokens. The text moves to `out`. */
TRI_CHECKED tri_status tri_tok_split_added(const tri_tokenizer *t, const tri_tok_trie *trie,
                                           tri_tok_pieces *in, tri_tok_pieces *out);

/* tokenizer_beside.c adds the tokens of the other files to those of tokenizer.json, as transformers does.
 * `list` is added_tokens of tokenizer.json. */
TRI_CHECKED tri_status tri_tok_load_beside(tri_tokenizer *t, const tri_tokenizer_file *file,
                                           const json_t *list);

/* One step on one piece of w->a with the text s [p.n]. The result is appended to w->b. */
typedef tri_status tri_tok_step(const tri_tok_op *op, const char *s, tri_tok_piece p, tri_tok_work *w);
/* tokenizer_places.c */
bool                   tri_tok_keeps_text(const tri_tok_op *op);
TRI_CHECKED tri_status tri_tok_place_input(tri_tok_work *w, const char *text, size_t n);
/* Notes that a token takes n bytes of its piece. */
static inline TRI_CHECKED tri_status tri_tok_took(tri_tok_work *w, size_t n) {
  const int32_t took = (int32_t)n;

  return w->origin.places ? tri_tokens_put(&w->origin.took, &took, 1) : TRI_OK;
}
/* Stores the places of a piece's tokens, which are the ids of the output from `first` on. */
TRI_CHECKED tri_status tri_tok_place_tokens(const tri_tokenizer *t, tri_tok_work *w, tri_tok_piece p,
                                            const tri_tokens *out, int64_t first);
/* Empties w->b for this step and limits it to w->most_text. */
void tri_tok_begin(const tri_tok_op *op, tri_tok_work *w);
/* Runs one step on each piece of w->a that is not an id yet, into w->b. The caller then swaps the two. */
TRI_CHECKED tri_status tri_tok_each(const tri_tok_op *op, tri_tok_work *w, tri_tok_step *step);
/* tokenizer_normalize.c, tokenizer_pre.c: run all steps on w->a. The result is in w->a again. */
TRI_CHECKED tri_status tri_tok_normalize(const tri_tok_ops *ops, tri_tok_work *w);
TRI_CHECKED tri_status tri_tok_pre_tokenize(const tri_tok_ops *ops, tri_tok_work *w);
bool                   tri_tok_is_space(int32_t c);    /* property White_Space */
int tri_tok_char(const char *s, size_t n, int32_t *c); /* bytes of the first character of valid UTF-8 */
int tri_tok_char_before(const char *s, size_t n, int32_t *c); /* bytes of the last character */
int tri_tok_put_char(int32_t c, char *out);                   /* bytes written, at most 4 */
/* The character that GPT-2 writes for a byte. */
int32_t tri_tok_byte_char(uint8_t byte);
int     tri_tok_char_byte(int32_t c); /* the reverse, or -1 */
/* Appends s to the text of p, with U+FFFD for invalid UTF-8 (as Rust's from_utf8_lossy). */
TRI_CHECKED tri_status tri_tok_put_lossy(tri_tok_pieces *p, const char *s, size_t n);

/* tokenizer_normalize.c: appends the GPT-2 characters of the bytes of p to w->b, as one piece. */
TRI_CHECKED tri_status tri_tok_spell_bytes(const char *s, tri_tok_piece p, tri_tok_work *w);

/* tokenizer_newer.c: returns the general category of a character added in Unicode 15 or 16, or NULL. */
const char *tri_tok_newer_category(int32_t c);
/* Says if Unicode 9 has the character as a combining mark, as StripAccents does. */
bool tri_tok_is_old_mark(int32_t c);
/* Appends the newer characters of the categories in `names` ("Lu Ll M"), as ranges of a class. */
TRI_CHECKED tri_status tri_tok_put_newer(const char *names, tri_text *out);

/* tokenizer_bpe.c: appends the ids of every piece of w->a, for either model. */
TRI_CHECKED tri_status tri_tok_bpe(const tri_tokenizer *t, tri_tok_work *w, tri_tokens *out);

/* tokenizer_unigram.c. `file` has the text that was parsed. Scores are read from it. */
TRI_CHECKED tri_status tri_tok_load_unigram(tri_tokenizer *t, json_t *model, const tri_tokenizer_file *file);
void                   tri_tok_unigram_free(tri_tok_unigram *u);
/* Appends the ids of the piece s [n]. */
TRI_CHECKED tri_status tri_tok_unigram_piece(const tri_tokenizer *t, tri_tok_work *w, const char *s, size_t n,
                                             tri_tokens *out);
/* Reads a JSON number as serde_json does. The last bits may differ from the nearest double. */
double tri_tok_score(const char *s, size_t n);

/* tokenizer_charsmap.c: the normalizer Precompiled. `where` stands in messages. */
TRI_CHECKED tri_status tri_tok_charsmap_open(const char *where, const char *base64, size_t n,
                                             tri_tok_charsmap **out);
void                   tri_tok_charsmap_close(tri_tok_charsmap **m);
TRI_CHECKED tri_status tri_tok_charsmap_run(const tri_tok_op *op, const char *s, tri_tok_piece p,
                                            tri_tok_work *w);

#endif
