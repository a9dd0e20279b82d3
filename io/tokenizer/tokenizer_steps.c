/* tokenizer_steps.c - reads normalizer, pre_tokenizer, decoder and post_processor of a tokenizer.json as
 * lists of steps. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "tokenizer_impl.h"

#include <stdio.h>
#include <string.h>

/* Reads the fields of one object into its step, the last of ops. It may push more steps. */
typedef tri_status (*reader)(const tri_tokenizer *t, const char *where, json_t *o, tri_tok_ops *ops);

typedef struct step_row {
  const char  *type;
  tri_tok_kind kind;
  reader       read; /* NULL: no fields */
} step_row;

typedef struct family {
  const char     *name, *list; /* the key in the file, and the key of a Sequence's parts */
  const step_row *row;         /* [n_row] */
  int             n_row;
} family;

static tri_status push(tri_tok_ops *ops, tri_tok_kind kind) {
  TRI_TRY(TRI_GROW(ops->op, ops->cap, ops->n + 1));
  ops->op[ops->n++] = (tri_tok_op){.kind = kind};
  return TRI_OK;
}

static tri_tok_op *top(tri_tok_ops *ops) { return ops->op + ops->n - 1; }

void tri_tok_ops_free(tri_tok_ops *ops) {
  for (int64_t i = 0; i < ops->n; i++) {
    tri_tok_regex_close(&ops->op[i].pattern);
    tri_tok_charsmap_close(&ops->op[i].charsmap);
    TRI_FREE(ops->op[i].text);
    TRI_FREE(ops->op[i].name);
  }
  TRI_FREE(ops->op);
  *ops = (tri_tok_ops){0};
}

/* ---- fields ---- */

static tri_status read_string(const tri_tokenizer *t, const char *where, json_t *o, const char *key,
                              tri_tok_op *op) {
  json_t *v = json_object_get(o, key);

  if (!json_is_string(v)) TRI_FAIL(TRI_EINPUT, "%s: %s has no string '%s'", t->name, where, key);
  op->text_n = json_string_length(v);
  TRI_TRY(TRI_ALLOC(op->text, op->text_n + 1));
  memcpy(op->text, json_string_value(v), op->text_n);
  return TRI_OK;
}

static tri_status read_one_char(const tri_tokenizer *t, const char *where, json_t *o, const char *key,
                                tri_tok_op *op) {
  int32_t c;

  TRI_TRY(read_string(t, where, o, key, op));
  if (!op->text_n || (size_t)tri_tok_char(op->text, op->text_n, &c) != op->text_n)
    TRI_FAIL(TRI_EINPUT, "%s: %s.%s must be one character", t->name, where, key);
  return TRI_OK;
}

static tri_status read_pattern(const tri_tokenizer *t, const char *where, json_t *o, tri_tok_op *op) {
  json_t *pattern = json_object_get(o, "pattern"), *plain = json_object_get(pattern, "String"),
         *v = plain ? plain : json_object_get(pattern, "Regex");
  char place[512];

  if (!json_is_string(v) || json_object_size(pattern) != 1)
    TRI_FAIL(TRI_EINPUT, "%s: %s.pattern must be {\"String\": ...} or {\"Regex\": ...}", t->name, where);
  snprintf(place, sizeof place, "%s: %s", t->name, where);
  return tri_tok_regex_open(place, json_string_value(v), json_string_length(v), plain != NULL, &op->pattern);
}

/* Returns the index of field `key` in `name`. Missing: `fallback`, or an error if that is negative. */
static tri_status read_choice(const tri_tokenizer *t, const char *where, json_t *o, const char *key,
                              const char *const *name, int n_name, int fallback, int *out) {
  json_t  *v = json_object_get(o, key);
  tri_text known = {0};

  *out = fallback;
  if (!v && fallback >= 0) return TRI_OK;
  for (*out = 0; *out < n_name; ++*out)
    if (json_is_string(v) && !strcmp(json_string_value(v), name[*out])) return TRI_OK;
  for (int i = 0; i < n_name; i++) TRI_TRY(tri_text_printf(&known, "%s%s", i ? ", " : "", name[i]));
  tri_fail(__FILE__, __LINE__, __func__, TRI_EINPUT, "%s: %s.%s must be one of %s", t->name, where, key,
           known.data);
  tri_text_free(&known);
  return TRI_EINPUT;
}

static tri_status read_behavior(const tri_tokenizer *t, const char *where, json_t *o, int fallback,
                                tri_tok_op *op) {
  static const char *const name[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                     "Contiguous"};
  int                      choice;

  TRI_TRY(read_choice(t, where, o, "behavior", name, 5, fallback, &choice));
  op->behavior = (tri_tok_behavior)choice;
  return TRI_OK;
}

/* ---- one reader per type that has fields ---- */

static tri_status read_prepend(const tri_tokenizer *t, const char *where, json_t *o, tri_tok_ops *ops) {
  return read_string(t, where, o, "prepend", top(ops));
}

static tri_status read_replace(const tri_tokenizer *t, const char *where, json_t *o, tri_tok_ops *ops) {
  TRI_TRY(read_pattern(t, where, o, top(ops)));
  return read_string(t, where, o, "content", top(ops));
}

static tri_status read_charsmap(const tri_tokenizer *t, const char *where, json_t *o, tri_tok_ops *ops) {
  json_t *map = json_object_get(o, "precompiled_charsmap");
  char    place[512];

  if (!json_is_string(map))
    TRI_FAIL(TRI_EINPUT, "%s: %s has no string 'precompiled_charsmap'", t->name, where);
  snprintf(place, sizeof place, "%s: %s", t->name, where);
  return tri_tok_charsmap_open(place, json_string_value(map), json_string_length(map), &top(ops)->charsmap);
}

static tri_status read_strip(const tri_tokenizer *t, const char *where, json_t *o, tri_tok_ops *ops) {
  bool left, right;

  TRI_TRY(tri_tok_bool(t, where, o, "strip_left", -1, &left));
  TRI_TRY(tri_tok_bool(t, where, o, "strip_right", -1, &right));
  top(ops)->left = left;
  top(ops)->right = right;
  return TRI_OK;
}

static tri_status read_strip_decoder(const tri_tokenizer *t, const char *where, json_t *o, tri_tok_ops *ops) {
  json_t *start = json_object_get(o, "start"), *stop = json_object_get(o, "stop");

  TRI_TRY(read_one_char(t, where, o, "content", top(ops)));
  if (!json_is_integer(start) || !json_is_integer(stop) || json_integer_value(start) < 0 ||
      json_integer_value(stop) < 0)
    TRI_FAIL(TRI_EINPUT, "%s: %s.start and .stop must be integers of at least 0", t->name, where);
  top(ops)->left = json_integer_value(start);
  top(ops)->right = json_integer_value(stop);
  return TRI_OK;
}

static tri_status read_split(const tri_tokenizer *t, const char *where, json_t *o, tri_tok_ops *ops) {
  TRI_TRY(read_pattern(t, where, o, top(ops)));
  TRI_TRY(read_behavior(t, where, o, -1, top(ops)));
  return tri_tok_bool(t, where, o, "invert", -1, &top(ops)->invert);
}

static tri_status read_byte_level(const tri_tokenizer *t, const char *where, json_t *o, tri_tok_ops *ops) {
  /* tokenizers, pre_tokenizers/byte_level.rs, RE; GPT-2, encoder.py */
  static const char gpt2[] =
      "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
  bool prefix, regex;

  TRI_TRY(tri_tok_bool(t, where, o, "add_prefix_space", -1, &prefix));
  TRI_TRY(tri_tok_bool(t, where, o, "use_regex", 1, &regex));
  ops->n--;
  if (prefix) TRI_TRY(push(ops, TRI_TOK_PREFIX_SPACE));
  if (regex) {
    TRI_TRY(push(ops, TRI_TOK_SPLIT));
    top(ops)->behavior = TRI_TOK_ISOLATED;
    TRI_TRY(tri_tok_regex_open(t->name, gpt2, sizeof gpt2 - 1, false, &top(ops)->pattern));
  }
  return push(ops, TRI_TOK_BYTES);
}

static tri_status read_digits(const tri_tokenizer *t, const char *where, json_t *o, tri_tok_ops *ops) {
  bool single;

  TRI_TRY(tri_tok_bool(t, where, o, "individual_digits", -1, &single));
  top(ops)->behavior = single ? TRI_TOK_ISOLATED : TRI_TOK_CONTIGUOUS;
  return TRI_OK;
}

static tri_status read_punctuation(const tri_tokenizer *t, const char *where, json_t *o, tri_tok_ops *ops) {
  return read_behavior(t, where, o, TRI_TOK_ISOLATED, top(ops));
}

static tri_status read_whitespace(const tri_tokenizer *t, const char *where, json_t *o, tri_tok_ops *ops) {
  /* tokenizers, pre_tokenizers/whitespace.rs: \w+|[^\w\s]+ of Rust's regex. Its \w includes Join_Control. */
  static const char regex[] = "[\\w\\x{200c}\\x{200d}]+|[^\\w\\s\\x{200c}\\x{200d}]+";

  (void)where, (void)o;
  top(ops)->invert = true;
  top(ops)->behavior = TRI_TOK_REMOVED;
  return tri_tok_regex_open(t->name, regex, sizeof regex - 1, false, &top(ops)->pattern);
}

static tri_status read_metaspace(const tri_tokenizer *t, const char *where, json_t *o, tri_tok_ops *ops) {
  static const char *const name[] = {"always", "never", "first"};
  json_t                  *old = json_object_get(o, "add_prefix_space");
  int                      scheme;

  TRI_TRY(read_one_char(t, where, o, "replacement", top(ops)));
  TRI_TRY(tri_tok_bool(t, where, o, "split", 1, &top(ops)->split));
  TRI_TRY(read_choice(t, where, o, "prepend_scheme", name, 3,
                      json_is_false(old) ? TRI_TOK_NEVER : TRI_TOK_ALWAYS, &scheme));
  if (json_is_false(old) && scheme != TRI_TOK_NEVER)
    TRI_FAIL(TRI_EINPUT, "%s: %s has add_prefix_space false, but prepend_scheme '%s'", t->name, where,
             name[scheme]);
  top(ops)->scheme = (tri_tok_scheme)scheme;
  return TRI_OK;
}

/* ---- families ---- */

static const step_row normalizer_row[] = {
    {"NFC", TRI_TOK_NFC, NULL},
    {"NFD", TRI_TOK_NFD, NULL},
    {"NFKC", TRI_TOK_NFKC, NULL},
    {"NFKD", TRI_TOK_NFKD, NULL},
    {"Lowercase", TRI_TOK_LOWERCASE, NULL},
    {"Prepend", TRI_TOK_PREPEND, read_prepend},
    {"Replace", TRI_TOK_REPLACE, read_replace},
    {"Strip", TRI_TOK_STRIP, read_strip},
    {"ByteLevel", TRI_TOK_BYTES, NULL},
    {"Nmt", TRI_TOK_NMT, NULL},
    {"StripAccents", TRI_TOK_STRIP_ACCENTS, NULL},
    {"Precompiled", TRI_TOK_CHARSMAP, read_charsmap},
};
static const step_row pre_tokenizer_row[] = {
    {"Split", TRI_TOK_SPLIT, read_split},
    {"ByteLevel", TRI_TOK_BYTES, read_byte_level},
    {"Digits", TRI_TOK_DIGITS, read_digits},
    {"Metaspace", TRI_TOK_METASPACE, read_metaspace},
    {"Punctuation", TRI_TOK_PUNCTUATION, read_punctuation},
    {"Whitespace", TRI_TOK_SPLIT, read_whitespace},
    {"WhitespaceSplit", TRI_TOK_WHITESPACE_SPLIT, NULL},
};
static const step_row decoder_row[] = {
    {"ByteLevel", TRI_TOK_BYTES, NULL},
    {"ByteFallback", TRI_TOK_BYTE_FALLBACK, NULL},
    {"Fuse", TRI_TOK_FUSE, NULL},
    {"Metaspace", TRI_TOK_METASPACE, read_metaspace},
    {"Replace", TRI_TOK_REPLACE, read_replace},
    {"Strip", TRI_TOK_STRIP, read_strip_decoder},
};
#define N_ROW(row) (int)(sizeof(row) / sizeof *(row))
static const family normalizers = {"normalizer", "normalizers", normalizer_row, N_ROW(normalizer_row)};
static const family pre_tokenizers = {"pre_tokenizer", "pretokenizers", pre_tokenizer_row,
                                      N_ROW(pre_tokenizer_row)};
static const family decoders = {"decoder", "decoders", decoder_row, N_ROW(decoder_row)};

static tri_status refuse_type(const tri_tokenizer *t, const family *f, const char *type) {
  tri_text known = {0};

  for (int i = 0; i < f->n_row; i++) TRI_TRY(tri_text_printf(&known, "%s, ", f->row[i].type));
  tri_fail(__FILE__, __LINE__, __func__, TRI_EINPUT, "%s: %s '%s' is not supported. Supported are %sSequence",
           t->name, f->name, type, known.data);
  tri_text_free(&known);
  return TRI_EINPUT;
}

/* Names the steps from `first` on, made from one object of the file. */
static tri_status name_steps(const tri_tokenizer *t, const char *where, const char *type, tri_tok_ops *ops,
                             int64_t first) {
  size_t space = strlen(t->name) + strlen(where) + strlen(type) + 8;

  for (int64_t i = first; i < ops->n; i++) {
    TRI_TRY(TRI_ALLOC(ops->op[i].name, space));
    snprintf(ops->op[i].name, space, "%s: %s (%s)", t->name, where, type);
  }
  return TRI_OK;
}

/* Loads one object of the file, with a Sequence flattened. `where` is its path, for messages. */
static tri_status load_step(const tri_tokenizer *t, const family *f, const char *where, json_t *o,
                            tri_tok_ops *ops) {
  const char *type = json_string_value(json_object_get(o, "type"));
  json_t     *list = json_object_get(o, f->list), *part;
  char        place[160];
  size_t      i;
  int64_t     first = ops->n;

  if (!type) TRI_FAIL(TRI_EINPUT, "%s: %s has no 'type'", t->name, where);
  if (!strcmp(type, "Sequence")) {
    if (!json_is_array(list)) TRI_FAIL(TRI_EINPUT, "%s: %s has no list '%s'", t->name, where, f->list);
    json_array_foreach(list, i, part) {
      snprintf(place, sizeof place, "%.100s.%s[%zu]", where, f->list, i);
      TRI_TRY(load_step(t, f, place, part, ops));
    }
    return TRI_OK;
  }
  for (int k = 0; k < f->n_row; k++) {
    if (strcmp(type, f->row[k].type)) continue;
    TRI_TRY(push(ops, f->row[k].kind));
    if (f->row[k].read) TRI_TRY(f->row[k].read(t, where, o, ops));
    return name_steps(t, where, type, ops, first);
  }
  return refuse_type(t, f, type);
}

static tri_status load_family(const tri_tokenizer *t, const family *f, json_t *root, tri_tok_ops *ops) {
  json_t *o = json_object_get(root, f->name);
  return !o || json_is_null(o) ? TRI_OK : load_step(t, f, f->name, o, ops);
}

tri_status tri_tok_load_steps(tri_tokenizer *t, json_t *root) {
  json_t *decoder = json_object_get(root, "decoder");

  t->has_decoder = decoder && !json_is_null(decoder);
  TRI_TRY(load_family(t, &normalizers, root, &t->normalizer));
  TRI_TRY(load_family(t, &pre_tokenizers, root, &t->pre_tokenizer));
  return load_family(t, &decoders, root, &t->decoder);
}

/* ---- post-processor ---- */

static tri_status put_special(const tri_tokenizer *t, json_t *o, const char *name, tri_tok_template *out) {
  json_t *ids =
             json_object_get(json_object_get(json_object_get(o, "special_tokens"), name ? name : ""), "ids"),
         *v;
  size_t i;

  if (!name || !json_is_array(ids))
    TRI_FAIL(TRI_EINPUT, "%s: post_processor.special_tokens does not give the ids of '%s'", t->name,
             name ? name : "");
  json_array_foreach(ids, i, v) {
    json_int_t id = json_integer_value(v);
    int32_t    small = (int32_t)(id >= 0 && id < t->n_row ? id : -1);
    if (!json_is_integer(v) || small < 0 || (!t->row[small].s && !t->added_of[small]))
      TRI_FAIL(TRI_EINPUT, "%s: post_processor.special_tokens gives '%s' an id without a token", t->name,
               name);
    TRI_TRY(tri_tokens_put(out, &small, 1));
  }
  return TRI_OK;
}

/* Bounds the output. Templates of a Sequence multiply. */
static tri_status bound_template(tri_tokenizer *t, const tri_tok_template *template) {
  int64_t times = 0;

  for (int64_t i = 0; i < template->n; i++) times += template->id[i] < 0;
  t->post.more = t->post.more * times + template->n - times;
  t->post.times = (t->post.n == 1 ? 1 : t->post.times) * times;
  if (t->post.times > TRI_TOK_MOST_TIMES || t->post.more > TRI_TOK_MORE_IDS)
    TRI_FAIL(TRI_EINPUT,
             "%s: post_processor (TemplateProcessing) repeats the text %lld times and adds %lld ids, but "
             "at most %d and %d are accepted",
             t->name, (long long)t->post.times, (long long)t->post.more, TRI_TOK_MOST_TIMES,
             TRI_TOK_MORE_IDS);
  return TRI_OK;
}

/* tokenizers, processors/template.rs: `single` is a list of {"Sequence": ...} and {"SpecialToken": ...}. */
static tri_status load_template(tri_tokenizer *t, json_t *o) {
  json_t           *single = json_object_get(o, "single"), *piece;
  tri_tok_template *out;
  size_t            i;
  const int32_t     text = -1;

  if (!json_is_array(single)) TRI_FAIL(TRI_EINPUT, "%s: post_processor has no list 'single'", t->name);
  TRI_TRY(TRI_GROW(t->post.template, t->post.cap, t->post.n + 1));
  out = t->post.template + t->post.n++;
  *out = (tri_tok_template){0};
  json_array_foreach(single, i, piece) {
    json_t *sequence = json_object_get(piece, "Sequence"), *special = json_object_get(piece, "SpecialToken");
    const char *id = json_string_value(json_object_get(sequence ? sequence : special, "id"));
    if (sequence && id && !strcmp(id, "A"))
      TRI_TRY(tri_tokens_put(out, &text, 1));
    else if (special && !sequence)
      TRI_TRY(put_special(t, o, id, out));
    else
      TRI_FAIL(TRI_EINPUT, "%s: post_processor.single[%zu] must be the Sequence A or a SpecialToken", t->name,
               i);
  }
  return bound_template(t, out);
}

tri_status tri_tok_load_post(tri_tokenizer *t, json_t *post) {
  const char *type = json_string_value(json_object_get(post, "type"));
  json_t     *list = json_object_get(post, "processors"), *part;
  size_t      i;

  if (!post || json_is_null(post)) return TRI_OK;
  if (!type) TRI_FAIL(TRI_EINPUT, "%s: post_processor has no 'type'", t->name);
  if (!strcmp(type, "ByteLevel")) { /* it changes places only */
    bool prefix, trims;
    TRI_TRY(tri_tok_bool(t, "post_processor", post, "add_prefix_space", 1, &prefix));
    TRI_TRY(tri_tok_bool(t, "post_processor", post, "trim_offsets", 1, &trims));
    t->post.trims |= trims;
    if (trims) t->post.keeps_first = prefix;
    return TRI_OK;
  }
  if (!strcmp(type, "TemplateProcessing")) return load_template(t, post);
  if (strcmp(type, "Sequence"))
    TRI_FAIL(
        TRI_EINPUT,
        "%s: post_processor '%s' is not supported. Supported are ByteLevel, TemplateProcessing, Sequence",
        t->name, type);
  if (!json_is_array(list)) TRI_FAIL(TRI_EINPUT, "%s: post_processor has no list 'processors'", t->name);
  json_array_foreach(list, i, part) {
    if (json_is_null(part)) TRI_FAIL(TRI_EINPUT, "%s: post_processor.processors[%zu] is null", t->name, i);
    TRI_TRY(tri_tok_load_post(t, part));
  }
  return TRI_OK;
}
