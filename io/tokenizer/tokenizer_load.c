/* tokenizer_load.c - loads the model of a tokenizer.json: checks vocabulary and merges and fills the
 * tables. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "tokenizer_impl.h"

#include <stdio.h>
#include <string.h>

/* ---- vocabulary ---- */

static tri_status check_vocab(const tri_tokenizer *t, json_t *vocab, int32_t *n_row, size_t *n_bytes) {
  const char *key;
  json_t     *value;

  *n_row = 0;
  *n_bytes = 0;
  json_object_foreach(vocab, key, value) {
    json_int_t id = json_integer_value(value);
    if (!json_is_integer(value))
      TRI_FAIL(TRI_EINPUT, "%s: the id of token '%s' is not an integer", t->name, key);
    if (id < 0 || id >= TRI_TOK_MAX_ID)
      TRI_FAIL(TRI_EINPUT, "%s: token '%s' has id %lld, but ids must be 0 ... %d", t->name, key,
               (long long)id, TRI_TOK_MAX_ID - 1);
    if (id >= *n_row) *n_row = (int32_t)id + 1;
    *n_bytes += strlen(key) + 1;
  }
  return TRI_OK;
}

static tri_status load_vocab(tri_tokenizer *t, json_t *vocab) {
  const char *key;
  char       *at;
  json_t     *value;
  size_t      n_bytes;
  int32_t     n_row;

  if (!json_is_object(vocab)) TRI_FAIL(TRI_EINPUT, "%s: model has no 'vocab' of token: id pairs", t->name);
  TRI_TRY(check_vocab(t, vocab, &n_row, &n_bytes));
  if (!n_row) TRI_FAIL(TRI_EINPUT, "%s: model.vocab is empty", t->name);
  TRI_TRY(TRI_ALLOC(t->row, n_row));
  TRI_TRY(TRI_ALLOC(t->arena, n_bytes));
  TRI_TRY(tri_tok_map_open(&t->model, t->key, t->row, (int64_t)json_object_size(vocab)));
  t->n_row = n_row;
  t->n_model = (int32_t)json_object_size(vocab);
  at = t->arena;
  json_object_foreach(vocab, key, value) {
    int32_t id = (int32_t)json_integer_value(value);
    size_t  n = strlen(key);
    if (t->row[id].s)
      TRI_FAIL(TRI_EINPUT, "%s: tokens '%s' and '%s' have the same id %d", t->name, t->row[id].s, key, id);
    t->row[id] = (tri_tok_row){at, n};
    memcpy(at, key, n + 1);
    at += n + 1;
    tri_tok_map_put(&t->model, id);
  }
  return TRI_OK;
}

/* Looks up the ids of single characters and of the tokens <0x00> ... <0xFF>. */
static void fill_shortcuts(tri_tokenizer *t) {
  char text[8];

  for (int32_t c = 0; c < 1024; c++)
    t->bpe.char_id[c] = tri_tok_map_find(&t->model, text, (size_t)tri_tok_put_char(c, text));
  for (int b = 0; b < 256; b++) {
    snprintf(text, sizeof text, "<0x%02X>", b);
    t->bpe.byte_id[b] = tri_tok_map_find(&t->model, text, 6);
  }
}

/* ---- merges ---- */

/* Reads the two halves of merges[i], written "a b" or ["a", "b"]. *left is zeroed for a "#version" line. */
static tri_status merge_halves(const tri_tokenizer *t, size_t i, json_t *merge, tri_tok_row *left,
                               tri_tok_row *right) {
  char *s, *space;

  *left = *right = (tri_tok_row){0};
  if (json_is_string(merge)) {
    s = (char *)(uintptr_t)json_string_value(merge);
    if (!strncmp(s, "#version", 8)) return TRI_OK;
    space = strchr(s, ' ');
    if (!space || strchr(space + 1, ' '))
      TRI_FAIL(TRI_EINPUT, "%s: model.merges[%zu] = '%s' must be two tokens with one space between", t->name,
               i, s);
    *left = (tri_tok_row){s, (size_t)(space - s)};
    *right = (tri_tok_row){space + 1, json_string_length(merge) - left->n - 1};
    return TRI_OK;
  }
  if (json_array_size(merge) != 2 || !json_is_string(json_array_get(merge, 0)) ||
      !json_is_string(json_array_get(merge, 1)))
    TRI_FAIL(TRI_EINPUT, "%s: model.merges[%zu] must be \"a b\" or [\"a\", \"b\"]", t->name, i);
  left->s = (char *)(uintptr_t)json_string_value(json_array_get(merge, 0));
  left->n = json_string_length(json_array_get(merge, 0));
  right->s = (char *)(uintptr_t)json_string_value(json_array_get(merge, 1));
  right->n = json_string_length(json_array_get(merge, 1));
  return TRI_OK;
}

static tri_status merge_part(const tri_tokenizer *t, size_t i, tri_tok_row part, int32_t *id) {
  *id = tri_tok_map_find(&t->model, part.s, part.n);
  if (*id < 0)
    TRI_FAIL(TRI_EINPUT, "%s: model.merges[%zu] names '%.*s', a token missing in the vocabulary", t->name, i,
             (int)part.n, part.s);
  return TRI_OK;
}

/* A pair that occurs twice keeps its last rank, as in the library. */
static void put_merge(tri_tokenizer *t, int32_t left, int32_t right, int32_t rank, int32_t id) {
  uint64_t pair = (uint64_t)left << 32 | (uint32_t)right, i;

  for (i = tri_tok_pair_slot(pair, t->key, t->bpe.shift);
       t->bpe.merge[i].rank >= 0 && t->bpe.merge[i].pair != pair;)
    i = (i + 1) & t->bpe.mask;
  t->bpe.merge[i] = (tri_tok_merge){pair, rank};
  t->bpe.id[rank] = id;
}

static tri_status load_merges(tri_tokenizer *t, json_t *merges) {
  size_t      n = json_array_size(merges), n_slot = 16;
  tri_text    whole = {0};
  json_t     *merge;
  size_t      i;
  tri_status  st = TRI_OK;
  tri_tok_row left, right;
  int32_t     l, r, id;

  if (!json_is_array(merges)) TRI_FAIL(TRI_EINPUT, "%s: model has no list 'merges'", t->name);
  if (n >= INT32_MAX / 4) TRI_FAIL(TRI_EINPUT, "%s: model.merges has %zu entries, too many", t->name, n);
  t->bpe.shift = 60;
  for (; n_slot < 2 * n; n_slot *= 2) t->bpe.shift--;
  TRI_TRY(TRI_ALLOC(t->bpe.merge, n_slot));
  TRI_TRY(TRI_ALLOC(t->bpe.id, n));
  t->bpe.mask = n_slot - 1;
  for (i = 0; i < n_slot; i++) t->bpe.merge[i].rank = -1;
  json_array_foreach(merges, i, merge) {
    TRI_TRY_DONE(merge_halves(t, i, merge, &left, &right));
    if (!left.s) continue;
    whole.len = 0;
    TRI_TRY_DONE(tri_text_put(&whole, left.s, left.n));
    TRI_TRY_DONE(tri_text_put(&whole, right.s, right.n));
    TRI_TRY_DONE(merge_part(t, i, left, &l));
    TRI_TRY_DONE(merge_part(t, i, right, &r));
    TRI_TRY_DONE(merge_part(t, i, (tri_tok_row){whole.data, whole.len}, &id));
    put_merge(t, l, r, (int32_t)i, id);
  }
done:
  tri_text_free(&whole);
  return st;
}

/* ---- the rest of the model ---- */

/* Unsupported fields that change the result must be absent, null or empty. */
static tri_status refuse_fields(const tri_tokenizer *t, json_t *model) {
  static const char *const name[] = {"continuing_subword_prefix", "end_of_word_suffix"};
  json_t                  *v = json_object_get(model, "dropout");

  if (v && !json_is_null(v) && !(json_is_number(v) && json_number_value(v) == 0))
    TRI_FAIL(TRI_EINPUT, "%s: model.dropout makes ids random and is not supported. Set it to null", t->name);
  for (int i = 0; i < 2; i++) {
    v = json_object_get(model, name[i]);
    if (v && !json_is_null(v) && !(json_is_string(v) && !json_string_length(v)))
      TRI_FAIL(TRI_EINPUT, "%s: model.%s is not supported. It must be null or \"\"", t->name, name[i]);
  }
  return TRI_OK;
}

/* Old files have no type. */
static const char *type_of(json_t *model) {
  json_t *type = json_object_get(model, "type");

  if (type) return json_string_value(type);
  if (json_object_get(model, "merges")) return "BPE";
  return json_is_array(json_object_get(model, "vocab")) ? "Unigram" : NULL;
}

static tri_status load_model(tri_tokenizer *t, json_t *model, const tri_tokenizer_file *file) {
  json_t     *unk = json_object_get(model, "unk_token");
  const char *type = type_of(model);

  if (!json_is_object(model))
    TRI_FAIL(TRI_EINPUT, "%s has no 'model', so it is not a tokenizer.json", t->name);
  if (!type) TRI_FAIL(TRI_EINPUT, "%s: model has no 'type'", t->name);
  if (!strcmp(type, "Unigram")) return tri_tok_load_unigram(t, model, file);
  if (strcmp(type, "BPE"))
    TRI_FAIL(TRI_EINPUT, "%s: model '%s' is not supported. Supported are BPE and Unigram", t->name, type);
  TRI_TRY(refuse_fields(t, model));
  TRI_TRY(tri_tok_bool(t, "model", model, "byte_fallback", 0, &t->bpe.byte_fallback));
  TRI_TRY(tri_tok_bool(t, "model", model, "fuse_unk", 0, &t->bpe.fuse_unk));
  TRI_TRY(tri_tok_bool(t, "model", model, "ignore_merges", 0, &t->bpe.ignore_merges));
  TRI_TRY(load_vocab(t, json_object_get(model, "vocab")));
  TRI_TRY(load_merges(t, json_object_get(model, "merges")));
  fill_shortcuts(t);
  if (!unk || json_is_null(unk)) return TRI_OK;
  if (!json_is_string(unk)) TRI_FAIL(TRI_EINPUT, "%s: model.unk_token must be a string or null", t->name);
  TRI_TRY(TRI_ALLOC(t->bpe.unk, json_string_length(unk) + 1));
  memcpy(t->bpe.unk, json_string_value(unk), json_string_length(unk) + 1);
  t->bpe.unk_id = tri_tok_map_find(&t->model, t->bpe.unk, json_string_length(unk));
  return TRI_OK;
}

tri_status tri_tok_load(tri_tokenizer *t, json_t *root, const tri_tokenizer_file *file) {
  json_t *version = json_object_get(root, "version"), *added = json_object_get(root, "added_tokens");

  if (!json_is_object(root))
    TRI_FAIL(TRI_EINPUT, "%s is not a tokenizer.json, because it holds no JSON object", t->name);
  if (version && (!json_is_string(version) || strcmp(json_string_value(version), "1.0")))
    TRI_FAIL(TRI_EINPUT, "%s: this version of tokenizer.json is not supported. Supported is \"1.0\"",
             t->name);
  TRI_TRY(load_model(t, json_object_get(root, "model"), file + TRI_TOKENIZER_JSON));
  TRI_TRY(tri_tok_load_steps(t, root));
  TRI_TRY(tri_tok_load_added(t, added));
  TRI_TRY(tri_tok_load_beside(t, file, added));
  TRI_TRY(tri_tok_index_added(t));
  return tri_tok_load_post(t, json_object_get(root, "post_processor"));
}
