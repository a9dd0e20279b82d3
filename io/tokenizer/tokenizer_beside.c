/* tokenizer_beside.c - reads tokens from the files beside tokenizer.json. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/log.h"
#include "tokenizer_impl.h"

#include "io/text/json_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The rules are those of transformers 5.24: tokenization_utils_base.py, _from_pretrained and __init__, and
 * tokenization_utils_tokenizers.py, TokenizersBackend.__init__. */

/* Chosen as twenty times the tokens of the largest file in use. */
enum { MOST_NESTED = 1 << 18 };
/* Chosen as fifteen times the extra tokens of the largest file in use, which are places in images. */
enum { MOST_NAMES = 1 << 14 };
enum { KEY_BYTES = 64 }; /* a token's role in messages */

static const char *const file_name[TRI_TOKENIZER_FILES] = {"tokenizer.json", "tokenizer_config.json",
                                                           "special_tokens_map.json", "added_tokens.json"};
const char              *tri_tokenizer_file_name(int i) { return file_name[i]; }

static const char *const standard[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                       "pad_token", "cls_token", "mask_token"};
enum { N_STANDARD = sizeof standard / sizeof *standard };
static const char extra_key[] = "extra_special_tokens", old_extra_key[] = "additional_special_tokens";

/* A token as transformers holds it: a text, or an AddedToken with flags. */
typedef struct spec {
  const char *s; /* borrowed from the JSON */
  size_t      n;
  bool        text;
  bool        single_word, lstrip, rstrip, special;
  /* -1: not given. Then a token is normalized unless it is special. */
  int     normalized;
  int64_t written; /* the id in a file, or -1 */
  int64_t place;   /* its position in that file */
} spec;

typedef struct specs {
  spec   *item;
  int64_t n, cap;
} specs;

typedef struct beside {
  const tri_tokenizer_file *file;
  /* tokenizer_config.json. special_tokens_map.json is merged into it. */
  json_t *config;
  json_t *map, *added, *own; /* own: model-specific roles */
  specs   decoder;           /* ordered by id */
  /* [n] Tokens with roles. Their roles are key[i]. */
  specs        named;
  const char **key; /* borrowed from the JSON */
  int64_t      key_cap;
  specs        extra, pending;
} beside;

static void beside_free(beside *b) {
  json_decref(b->config);
  json_decref(b->map);
  json_decref(b->added);
  json_decref(b->own);
  TRI_FREE(b->decoder.item);
  TRI_FREE(b->named.item);
  TRI_FREE(b->extra.item);
  TRI_FREE(b->pending.item);
  TRI_FREE(b->key);
}

static tri_status put(specs *list, spec item) {
  TRI_TRY(TRI_GROW(list->item, list->cap, list->n + 1));
  list->item[list->n++] = item;
  return TRI_OK;
}

/* ---- the files ---- */

/* Reads all integers as reals, because some are too large for jansson (model_max_length is 1e30). */
static tri_status parse(const tri_tokenizer_file *file, json_t **out) {
  const char  *bytes = file->bytes;
  size_t       n = file->n;
  json_error_t error;

  if (!bytes) return TRI_OK;
  if (n >= 3 && !memcmp(bytes, "\xef\xbb\xbf", 3)) bytes += 3, n -= 3;
  if (!tri_json_fits(bytes, n, MOST_NESTED))
    TRI_FAIL(TRI_EINPUT, "%s: " TRI_JSON_TOO_LARGE, file->name, MOST_NESTED);
  *out = json_loadb(bytes, n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
  if (!*out) TRI_FAIL(TRI_EINPUT, "%s:%d: not readable as JSON: %s", file->name, error.line, error.text);
  if (!json_is_object(*out)) TRI_FAIL(TRI_EINPUT, "%s: holds no JSON object", file->name);
  return TRI_OK;
}

/* The truth value of Python. */
static bool is_true(const json_t *v) {
  if (json_is_number(v)) return json_number_value(v) != 0;
  if (json_is_string(v)) return json_string_length(v) > 0;
  if (json_is_array(v)) return json_array_size(v) > 0;
  return json_is_object(v) ? json_object_size(v) > 0 : json_is_true(v);
}

static bool is_standard(const char *key) {
  for (int i = 0; i < N_STANDARD; i++)
    if (!strcmp(key, standard[i])) return true;
  return false;
}

static bool names_token(const char *key) { return !is_standard(key) && tri_ends_with(key, "_token"); }

static tri_status flag(const char *file, const char *where, const json_t *o, const char *key, bool *out) {
  const json_t *v = json_object_get(o, key);

  *out = json_is_true(v);
  if (v && !json_is_boolean(v)) TRI_FAIL(TRI_EINPUT, "%s: %s.%s must be true or false", file, where, key);
  return TRI_OK;
}

/* Reads a text or an AddedToken. */
static tri_status read_spec(const char *file, const char *where, const json_t *v, spec *out) {
  const json_t *content = json_is_object(v) ? json_object_get(v, "content") : v;
  bool          normalized;

  if (!json_is_string(content))
    TRI_FAIL(TRI_EINPUT, "%s: %s must be the text of a token, or an object with its 'content'", file, where);
  *out = (spec){json_string_value(content), json_string_length(content), json_is_string(v), .normalized = -1,
                .written = -1};
  if (out->text) return TRI_OK;
  TRI_TRY(flag(file, where, v, "single_word", &out->single_word));
  TRI_TRY(flag(file, where, v, "lstrip", &out->lstrip));
  TRI_TRY(flag(file, where, v, "rstrip", &out->rstrip));
  TRI_TRY(flag(file, where, v, "special", &out->special));
  TRI_TRY(flag(file, where, v, "normalized", &normalized));
  if (json_object_get(v, "normalized")) out->normalized = normalized;
  return TRI_OK;
}

static tri_status check_number(const char *file, const char *key, size_t n) {
  if (n > MOST_NAMES)
    TRI_FAIL(TRI_EINPUT, "%s: %s has %zu entries, but at most %d are accepted", file, key, n, MOST_NAMES);
  return TRI_OK;
}

static tri_status read_list(const char *file, const char *key, const json_t *list, specs *out) {
  char          where[KEY_BYTES + 32];
  const json_t *v;
  size_t        i;
  spec          one;

  if (!list || json_is_null(list)) return TRI_OK;
  if (!json_is_array(list)) TRI_FAIL(TRI_EINPUT, "%s: %s must be a list of tokens", file, key);
  TRI_TRY(check_number(file, key, json_array_size(list)));
  json_array_foreach(list, i, v) {
    snprintf(where, sizeof where, "%s[%zu]", key, i);
    TRI_TRY(read_spec(file, where, v, &one));
    TRI_TRY(put(out, one));
  }
  return TRI_OK;
}

/* ---- tokens with ids: added_tokens_decoder, added_tokens.json ---- */

static int by_id(const void *a, const void *b) {
  const spec *x = a, *y = b;

  if (x->written != y->written) return x->written < y->written ? -1 : 1;
  return x->place < y->place ? -1 : 1;
}

/* Sorts by id. For an id written twice, the last token in the file counts. */
static void sort_decoder(beside *b) {
  spec   *d = b->decoder.item;
  int64_t n = 0;

  if (b->decoder.n) qsort(d, (size_t)b->decoder.n, sizeof *d, by_id);
  for (int64_t i = 0; i < b->decoder.n; i++) {
    if (n && d[n - 1].written == d[i].written) n--;
    d[n++] = d[i];
  }
  b->decoder.n = n;
}

static tri_status read_decoder(beside *b) {
  const char *file = b->file[TRI_TOKENIZER_CONFIG].name, *key;
  json_t     *list = json_object_get(b->config, "added_tokens_decoder"), *v;
  char        where[KEY_BYTES + 32], *end;
  spec        one;

  if (!json_is_object(list)) TRI_FAIL(TRI_EINPUT, "%s: added_tokens_decoder must be an object", file);
  json_object_foreach(list, key, v) {
    long long id;
    snprintf(where, sizeof where, "added_tokens_decoder.%.*s", KEY_BYTES, key);
    errno = 0;
    id = strtoll(key, &end, 10);
    if (end == key || *end || errno || id < 0 || id >= TRI_TOK_MAX_ID)
      TRI_FAIL(TRI_EINPUT, "%s: %s: ids must be 0 ... %d", file, where, TRI_TOK_MAX_ID - 1);
    if (!json_is_object(v)) TRI_FAIL(TRI_EINPUT, "%s: %s must be an object", file, where);
    TRI_TRY(read_spec(file, where, v, &one));
    one.written = id;
    one.place = b->decoder.n;
    TRI_TRY(put(&b->decoder, one));
  }
  return TRI_OK;
}

/* Puts the token of a text or an AddedToken into a set. An object with __type is not an AddedToken yet. */
static void put_name(json_t *set, const json_t *v) {
  if (json_is_object(v) && json_object_get(v, "__type")) return;
  if (json_is_object(v)) v = json_object_get(v, "content");
  if (json_is_string(v)) json_object_set_new(set, json_string_value(v), json_true());
}

/* Returns the tokens with a role. They are special. */
static json_t *names_so_far(const beside *b) {
  json_t       *set = json_object();
  const json_t *v;
  size_t        i;

  for (int k = 0; k < N_STANDARD; k++) put_name(set, json_object_get(b->config, standard[k]));
  json_array_foreach(json_object_get(b->config, extra_key), i, v) put_name(set, v);
  return set;
}

/* Marks the ids written in tokenizer.json. They stay with its tokens. */
static void mark_ids(const json_t *list, bool *taken) {
  const json_t *o;
  size_t        i;

  json_array_foreach(list, i, o) {
    json_int_t id = json_integer_value(json_object_get(o, "id"));
    if (json_is_integer(json_object_get(o, "id")) && id >= 0 && id < TRI_TOK_MAX_ID) taken[id] = true;
  }
}

static tri_status put_added(beside *b, const json_t *names, const bool *taken) {
  const char *file = b->file[TRI_TOKENIZER_ADDED].name, *key;
  json_t     *v;

  json_object_foreach(b->added, key, v) {
    double id = json_number_value(v);
    bool   special = json_object_get(names, key) != NULL;
    if (!json_is_number(v) || id < 0 || id >= TRI_TOK_MAX_ID || id != floor(id))
      TRI_FAIL(TRI_EINPUT, "%s: the id of '%s' must be a whole number, 0 ... %d", file, key,
               TRI_TOK_MAX_ID - 1);
    if (taken[(int64_t)id]) continue;
    TRI_TRY(put(&b->decoder, (spec){key, strlen(key), .special = special, .normalized = !special,
                                    .written = (int64_t)id, .place = b->decoder.n}));
  }
  return TRI_OK;
}

static tri_status read_added(beside *b, const json_t *list) {
  bool      *taken = NULL; /* [TRI_TOK_MAX_ID] */
  json_t    *names;
  tri_status st;

  if (!b->added) return TRI_OK;
  TRI_TRY(TRI_ALLOC(taken, TRI_TOK_MAX_ID));
  mark_ids(list, taken);
  names = names_so_far(b);
  st = put_added(b, names, taken);
  json_decref(names);
  TRI_FREE(taken);
  return st;
}

/* ---- tokens with names ---- */

/* Renames the old list of extra tokens if there is no new one. */
static tri_status rename_extra(beside *b) {
  json_t *old = json_object_get(b->config, old_extra_key);

  if (!old || is_true(json_object_get(b->config, extra_key))) return TRI_OK;
  if (json_object_set(b->config, extra_key, old) || json_object_del(b->config, old_extra_key))
    TRI_FAIL(TRI_ENOMEM, "the host has no memory left for a tokenizer");
  return TRI_OK;
}

/* Gathers the roles that a model adds to the standard ones: an object of them, or any text whose key ends in
 * _token. */
static tri_status gather_own(beside *b, bool texts) {
  json_t     *extra = json_object_get(b->config, extra_key), *v;
  const char *key;

  if (texts)
    json_object_foreach(b->config, key,
                        v) if (names_token(key) && json_is_string(v) && json_object_set(b->own, key, v))
        TRI_FAIL(TRI_ENOMEM, "the host has no memory left for a tokenizer");
  if (!json_is_object(extra)) return TRI_OK;
  if (json_object_update(b->own, extra) || json_object_del(b->config, extra_key))
    TRI_FAIL(TRI_ENOMEM, "the host has no memory left for a tokenizer");
  return TRI_OK;
}

/* Returns a token of special_tokens_map.json, marked special. */
static json_t *as_special(json_t *v) {
  json_t *copy;

  if (!json_is_object(v)) return json_incref(v);
  copy = json_copy(v);
  json_object_del(copy, "__type");
  json_object_set_new(copy, "special", json_true());
  return copy;
}

/* Appends an item to the list. With `once`, an item equal to one in the set is skipped. */
static tri_status put_item(json_t *list, json_t *set, json_t *item, bool once) {
  char *spelled = json_dumps(item, JSON_ENCODE_ANY | JSON_SORT_KEYS);
  bool  done =
      spelled && ((once && json_object_get(set, spelled)) ||
                  (!json_object_set_new(set, spelled, json_true()) && !json_array_append(list, item)));

  free(spelled);
  if (!done) TRI_FAIL(TRI_ENOMEM, "the host has no memory left for a tokenizer");
  return TRI_OK;
}

/* Appends the old list, which may be missing, and then the new tokens of the other list. */
static tri_status join_lists(const json_t *old, const json_t *more, json_t *list) {
  json_t    *set = json_object(), *item, *one;
  tri_status st = TRI_OK;
  size_t     i;

  json_array_foreach(old, i, item) TRI_TRY_DONE(put_item(list, set, item, false));
  json_array_foreach(more, i, item) {
    one = as_special(item);
    st = put_item(list, set, one, true);
    json_decref(one);
    if (st != TRI_OK) goto done;
  }
done:
  json_decref(set);
  return st;
}

/* special_tokens_map.json overrides tokenizer_config.json, but lists of extra tokens are joined. */
static tri_status merge_map(beside *b) {
  const char *key;
  json_t     *v, *list;

  json_object_foreach(b->map, key, v) {
    bool    lists = !strcmp(key, extra_key) && json_is_array(v);
    json_t *old = json_object_get(b->config, extra_key);
    if (!lists) {
      json_object_set_new(b->config, key, strcmp(key, extra_key) != 0 ? as_special(v) : json_incref(v));
      continue;
    }
    TRI_TRY(check_number(b->file[TRI_TOKENIZER_CONFIG].name, key, json_array_size(old)));
    TRI_TRY(check_number(b->file[TRI_TOKENIZER_MAP].name, key, json_array_size(v)));
    list = json_array();
    if (join_lists(old, v, list) != TRI_OK) {
      json_decref(list);
      return TRI_ENOMEM;
    }
    json_object_set_new(b->config, key, list);
  }
  return gather_own(b, false);
}

/* Returns the file that defines a key. */
static const char *blame(const beside *b, const char *key) {
  return b->file[json_object_get(b->map, key) ? TRI_TOKENIZER_MAP : TRI_TOKENIZER_CONFIG].name;
}

static tri_status put_named(beside *b, const char *key, spec one) {
  for (int64_t i = 0; i < b->named.n && i < N_STANDARD; i++) /* only standard roles can occur again */
    if (!strcmp(b->key[i], key)) {
      b->named.item[i] = one;
      return TRI_OK;
    }
  TRI_TRY(check_number(blame(b, key), "the list of named tokens", (size_t)b->named.n));
  TRI_TRY(put(&b->named, one));
  TRI_TRY(TRI_GROW(b->key, b->key_cap, b->named.n));
  b->key[b->named.n - 1] = key;
  return TRI_OK;
}

/* Gives the token of a standard role the flags of its list entry. Flags of tokenizer.json count only if no
 * other file lists tokens. */
static void take_flags(const tri_tokenizer *t, const beside *b, bool lists, spec *one) {
  int32_t k = lists ? -1 : tri_tok_map_find(&t->added_map, one->s, one->n);

  for (int64_t i = 0; i < b->decoder.n && k < 0; i++) {
    const spec *d = b->decoder.item + i;
    if (d->n == one->n && !memcmp(d->s, one->s, d->n)) *one = *d;
  }
  if (k < 0) return;
  one->text = false;
  one->single_word = t->added[k].single_word;
  one->lstrip = t->added[k].lstrip;
  one->rstrip = t->added[k].rstrip;
  one->normalized = t->added[k].normalized;
  one->special = t->added[k].special;
}

static tri_status read_names(const tri_tokenizer *t, beside *b, bool lists) {
  const char *key;
  json_t     *v;
  spec        one;

  for (int i = 0; i < N_STANDARD; i++) {
    v = json_object_get(b->config, standard[i]);
    if (!v || json_is_null(v)) continue;
    TRI_TRY(read_spec(blame(b, standard[i]), standard[i], v, &one));
    take_flags(t, b, lists, &one);
    TRI_TRY(put_named(b, standard[i], one));
  }
  json_object_foreach(b->config, key, v) {
    if (!names_token(key) || json_object_get(b->own, key) || !(json_is_string(v) || json_is_object(v)))
      continue;
    TRI_TRY(read_spec(blame(b, key), key, v, &one));
    TRI_TRY(put_named(b, key, one));
  }
  json_object_foreach(b->own, key, v) {
    TRI_TRY(read_spec(blame(b, key), key, v, &one));
    TRI_TRY(put_named(b, key, one));
  }
  if (json_object_get(b->config, extra_key))
    return read_list(blame(b, extra_key), extra_key, json_object_get(b->config, extra_key), &b->extra);
  return read_list(blame(b, old_extra_key), old_extra_key, json_object_get(b->config, old_extra_key),
                   &b->extra);
}

/* ---- adding the tokens ---- */

static bool is_normalized(const spec *s) { return s->normalized < 0 ? !s->special : s->normalized; }

static bool same_flags(const spec *s, const tri_tok_added *a) {
  return s->single_word == a->single_word && s->lstrip == a->lstrip && s->rstrip == a->rstrip &&
         is_normalized(s) == a->normalized && s->special == a->special;
}

static bool same_spec(const spec *x, const spec *y) {
  return x->text == y->text && x->single_word == y->single_word && x->lstrip == y->lstrip &&
         x->rstrip == y->rstrip && is_normalized(x) == is_normalized(y) && x->special == y->special;
}

/* Warns about ids in a file that do not count. Tokens have their id in the vocabulary, or the next free
 * one. */
static void warn_ids(const tri_tokenizer *t, const beside *b) {
  const spec *first = NULL;
  int64_t     n = 0;
  int32_t     id, got = -1;

  for (int64_t i = 0; i < b->decoder.n; i++) {
    id = tri_tok_find(t, b->decoder.item[i].s, b->decoder.item[i].n);
    if (id == b->decoder.item[i].written || !b->decoder.item[i].n) continue;
    if (!n++) first = b->decoder.item + i, got = id;
  }
  if (first)
    tri_log(TRI_LOG_WARN, "%s: another file lists '%s' with id %lld, but it gets id %d, as in transformers%s",
            t->name, first->s, (long long)first->written, got, n > 1 ? " (the first of several)" : "");
}

/* A table of the pending tokens by text. */
typedef struct waiting {
  tri_tok_row *row; /* [pending.cap] */
  tri_tok_map  map;
} waiting;

static tri_status wait_for(beside *b, waiting *w, spec one) {
  int32_t i = tri_tok_map_find(&w->map, one.s, one.n);

  if (i >= 0 && (same_spec(b->pending.item + i, &one) || b->pending.item[i].written >= 0)) return TRI_OK;
  w->row[b->pending.n] = (tri_tok_row){(char *)(uintptr_t)one.s, one.n};
  if (i < 0) tri_tok_map_put(&w->map, (int32_t)b->pending.n);
  b->pending.item[b->pending.n++] = one;
  return TRI_OK;
}

/* Gathers the tokens that the tokenizer lacks, or has with other flags. */
static tri_status gather_pending(const tri_tokenizer *t, beside *b, waiting *w) {
  int64_t most = b->decoder.n + b->named.n + b->extra.n;

  TRI_TRY(TRI_ALLOC(w->row, most));
  TRI_TRY(tri_tok_map_open(&w->map, t->key, w->row, most));
  TRI_TRY(TRI_GROW(b->pending.item, b->pending.cap, most));
  for (int64_t i = 0; i < b->decoder.n; i++) {
    const spec *s = b->decoder.item + i;
    int32_t     k = tri_tok_map_find(&t->added_map, s->s, s->n);
    if (k >= 0 && same_flags(s, t->added + k)) continue;
    w->row[b->pending.n] = (tri_tok_row){(char *)(uintptr_t)s->s, s->n};
    if (tri_tok_map_find(&w->map, s->s, s->n) < 0) tri_tok_map_put(&w->map, (int32_t)b->pending.n);
    b->pending.item[b->pending.n++] = *s;
  }
  for (int64_t i = 0; i < b->named.n; i++)
    if (tri_tok_map_find(&t->added_map, b->named.item[i].s, b->named.item[i].n) < 0)
      TRI_TRY(wait_for(b, w, b->named.item[i]));
  for (int64_t i = 0; i < b->extra.n; i++)
    if (tri_tok_map_find(&t->added_map, b->extra.item[i].s, b->extra.item[i].n) < 0)
      TRI_TRY(wait_for(b, w, b->extra.item[i]));
  return TRI_OK;
}

/* Marks pending tokens with a role as special, even if another list says otherwise. */
static tri_status mark_named(const tri_tokenizer *t, beside *b) {
  tri_tok_row *row = NULL; /* [named.n] */
  tri_tok_map  map = {0};
  tri_status   st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(row, b->named.n));
  TRI_TRY_DONE(tri_tok_map_open(&map, t->key, row, b->named.n));
  for (int64_t i = 0; i < b->named.n; i++) {
    row[i] = (tri_tok_row){(char *)(uintptr_t)b->named.item[i].s, b->named.item[i].n};
    if (tri_tok_map_find(&map, row[i].s, row[i].n) < 0) tri_tok_map_put(&map, (int32_t)i);
  }
  for (int64_t i = 0; i < b->pending.n; i++) {
    spec *s = b->pending.item + i;
    s->special = s->special || s->text || tri_tok_map_find(&map, s->s, s->n) >= 0;
  }
done:
  TRI_FREE(row);
  TRI_FREE(map.slot);
  return st;
}

static tri_status add_pending(tri_tokenizer *t, beside *b) {
  int32_t next = t->n_model;

  TRI_TRY(mark_named(t, b));
  for (int32_t i = 0; i < t->n_added; i++)
    if (t->added[i].id >= next) next = t->added[i].id + 1;
  for (int64_t i = 0; i < b->pending.n; i++) {
    spec         *s = b->pending.item + i;
    tri_tok_added fresh = {.single_word = s->single_word,
                           .lstrip = s->lstrip,
                           .rstrip = s->rstrip,
                           .normalized = is_normalized(s),
                           .special = s->special};
    TRI_TRY(tri_tok_add(t, &(tri_tok_row){(char *)(uintptr_t)s->s, s->n}, &fresh, &next));
  }
  return TRI_OK;
}

static tri_status remember_names(tri_tokenizer *t, const beside *b) {
  TRI_TRY(TRI_ALLOC(t->named, b->named.n));
  for (int64_t i = 0; i < b->named.n; i++) {
    t->named[i].id = tri_tok_find(t, b->named.item[i].s, b->named.item[i].n);
    t->n_named++;
    TRI_TRY(tri_copy_text(b->key[i], &t->named[i].key));
  }
  return TRI_OK;
}

static tri_status read_all(const tri_tokenizer *t, beside *b, const json_t *list) {
  bool lists;

  TRI_TRY(parse(b->file + TRI_TOKENIZER_CONFIG, &b->config));
  if (!b->config) b->config = json_object();
  b->own = json_object();
  TRI_TRY(rename_extra(b));
  TRI_TRY(gather_own(b, true));
  lists = json_object_get(b->config, "added_tokens_decoder") != NULL;
  if (lists) {
    TRI_TRY(read_decoder(b));
  } else {
    TRI_TRY(parse(b->file + TRI_TOKENIZER_MAP, &b->map));
    TRI_TRY(parse(b->file + TRI_TOKENIZER_ADDED, &b->added));
    TRI_TRY(merge_map(b));
    TRI_TRY(read_added(b, list));
  }
  sort_decoder(b);
  return read_names(t, b, lists);
}

tri_status tri_tok_load_beside(tri_tokenizer *t, const tri_tokenizer_file *file, const json_t *list) {
  beside     b = {.file = file};
  waiting    w = {0};
  tri_status st = TRI_OK;

  TRI_TRY_DONE(read_all(t, &b, list));
  TRI_TRY_DONE(gather_pending(t, &b, &w));
  TRI_TRY_DONE(add_pending(t, &b));
  TRI_TRY_DONE(remember_names(t, &b));
  warn_ids(t, &b);
  t->splits_special = is_true(json_object_get(b.config, "split_special_tokens"));
done:
  TRI_FREE(w.row);
  TRI_FREE(w.map.slot);
  beside_free(&b);
  return st;
}
