/* tokenizer_added.c - assigns ids and flags to added tokens, and finds them in a text. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "base/log.h"
#include "tokenizer_impl.h"

#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

/* ---- trie of bytes ---- */

static int32_t find_child(const tri_tok_trie *trie, int32_t node, uint8_t byte) {
  int32_t i = node ? trie->node[node].child : trie->first[byte];

  while (i && trie->node[i].byte != byte) i = trie->node[i].sibling;
  return i;
}

/* Adds a pattern. If it exists already, it stays and *before is its token. Otherwise *before is -1. */
static tri_status trie_put(tri_tok_trie *trie, tri_tok_row pattern, int32_t added, int32_t *before) {
  int32_t at = 0, i;

  for (size_t k = 0; k < pattern.n; k++, at = i) {
    uint8_t byte = (uint8_t)pattern.s[k];
    if ((i = find_child(trie, at, byte)) > 0) continue;
    TRI_TRY(TRI_GROW(trie->node, trie->cap, (trie->n ? trie->n : 1) + 1));
    if (!trie->n) trie->node[trie->n++] = (tri_tok_node){0, 0, -1, 0};
    i = (int32_t)trie->n++;
    trie->node[i] = (tri_tok_node){0, at ? trie->node[at].child : 0, -1, byte};
    if (at)
      trie->node[at].child = i;
    else
      trie->first[byte] = i;
  }
  *before = trie->node[at].added;
  if (*before < 0) trie->node[at].added = added;
  return TRI_OK;
}

/* Returns the longest token that begins at s, or -1. *n: its bytes. */
static int32_t longest(const tri_tok_trie *trie, const char *s, size_t left, size_t *n) {
  int32_t at = 0, best = -1;

  for (size_t k = 0; k < left && (at = find_child(trie, at, (uint8_t)s[k])) > 0; k++)
    if (trie->node[at].added >= 0) {
      best = trie->node[at].added;
      *n = k + 1;
    }
  return best;
}

/* ---- matching: tokenizers, added_vocabulary.rs, find_matches ---- */

/* \w of Rust's regex: Alphabetic, M, Nd, Pc, Join_Control (UTS #18, annex C). */
static bool is_word(int32_t c) {
  static const char in[] = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl Pc";
  const char       *category = tri_tok_newer_category(c);
  bool              other_alphabetic = (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
                          (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);

  if (!category) category = utf8proc_category_string(c);
  return other_alphabetic || c == 0x200c || c == 0x200d || strstr(in, category);
}

static size_t spaces_after(const char *s, size_t n) {
  size_t  k = 0;
  int32_t c;
  int     step;

  for (; k < n; k += (size_t)step) {
    step = tri_tok_char(s + k, n - k, &c);
    if (!tri_tok_is_space(c)) break;
  }
  return k;
}

static size_t spaces_before(const char *s, size_t n) {
  size_t  k = n;
  int32_t c;

  while (k > 0) {
    int step = tri_tok_char_before(s, k, &c);
    if (!tri_tok_is_space(c)) break;
    k -= (size_t)step;
  }
  return n - k;
}

static bool is_single_word(const char *s, size_t n, size_t from, size_t to) {
  int32_t c;

  if (from > 0) {
    tri_tok_char_before(s, from, &c);
    if (is_word(c)) return false;
  }
  if (to < n) {
    tri_tok_char(s + to, n - to, &c);
    if (is_word(c)) return false;
  }
  return true;
}

static tri_status push_part(const tri_tok_piece *p, size_t from, size_t to, int32_t id, tri_tok_pieces *out) {
  if (from >= to) return TRI_OK;
  return tri_tok_push(out, (tri_tok_piece){p->at + from, to - from, p->zero > from ? p->zero - from : 0, id});
}

/* After a token that took the spaces behind it, another token may still begin among these spaces, as in the
 * library. */
static tri_status split_piece(const tri_tokenizer *t, const tri_tok_trie *trie, const tri_tok_piece *p,
                              tri_tok_pieces *in, tri_tok_pieces *out) {
  const char *s = in->text + p->at;
  size_t      start = 0, i = 0, n = 0;

  while (i < p->n) {
    int32_t              k = trie->first[(uint8_t)s[i]] ? longest(trie, s + i, p->n - i, &n) : -1;
    size_t               from = i, to = i + n;
    const tri_tok_added *a;
    if (k < 0) {
      i++;
      continue;
    }
    a = t->added + k;
    i = to;
    if (a->skipped && t->splits_special) continue;
    if (a->single_word && !is_single_word(s, p->n, from, to)) continue;
    if (a->lstrip) {
      from -= spaces_before(s, from);
      if (from < start) from = start;
    }
    if (a->rstrip) to += spaces_after(s + to, p->n - to);
    TRI_TRY(push_part(p, start, from, -1, out));
    TRI_TRY(push_part(p, from, to, a->id, out));
    start = to;
  }
  return push_part(p, start, p->n, -1, out);
}

tri_status tri_tok_split_added(const tri_tokenizer *t, const tri_tok_trie *trie, tri_tok_pieces *in,
                               tri_tok_pieces *out) {
  tri_tok_reset(out);
  for (int64_t i = 0; i < in->n; i++)
    if (in->piece[i].id >= 0 || !trie->n)
      TRI_TRY(tri_tok_push(out, in->piece[i]));
    else
      TRI_TRY(split_piece(t, trie, in->piece + i, in, out));
  tri_tok_take_text(out, in);
  return TRI_OK;
}

/* ---- loading: tokenizers, added_vocabulary.rs, add_tokens ---- */

static tri_status read_flags(const tri_tokenizer *t, const char *where, const json_t *o, tri_tok_added *a) {
  TRI_TRY(tri_tok_bool(t, where, o, "single_word", -1, &a->single_word));
  TRI_TRY(tri_tok_bool(t, where, o, "lstrip", -1, &a->lstrip));
  TRI_TRY(tri_tok_bool(t, where, o, "rstrip", -1, &a->rstrip));
  TRI_TRY(tri_tok_bool(t, where, o, "normalized", -1, &a->normalized));
  return tri_tok_bool(t, where, o, "special", -1, &a->special);
}

static tri_status copy_text(const char *s, size_t n, tri_tok_row *out) {
  TRI_TRY(TRI_ALLOC(out->s, n + 1));
  memcpy(out->s, s, n);
  out->n = n;
  return TRI_OK;
}

int32_t tri_tok_find(const tri_tokenizer *t, const char *s, size_t n) {
  int32_t k = tri_tok_map_find(&t->added_map, s, n);

  return k >= 0 ? t->added[k].id : tri_tok_map_find(&t->model, s, n);
}

tri_tok_row tri_tok_shown(const tri_tokenizer *t, int32_t i) {
  return t->added[i].normal.s ? t->added[i].normal : t->added_row[i];
}

tri_tok_row tri_tok_pattern(const tri_tokenizer *t, int32_t i) {
  return t->added[i].normalized ? tri_tok_shown(t, i) : t->added_row[i];
}

/* Assigns the id as the library does: the id in the model's vocabulary, else the next free one. */
static tri_status number(tri_tokenizer *t, const tri_tok_row *content, int32_t *next, int32_t *id) {
  int32_t in_model = tri_tok_map_find(&t->model, content->s, content->n);

  *id = in_model >= 0 ? in_model : (*next)++;
  if (*id >= TRI_TOK_MAX_ID)
    TRI_FAIL(TRI_EINPUT, "%s: the added token '%s' would get id %d, which is too large", t->name, content->s,
             *id);
  if (in_model < 0 && *id < t->n_row && t->row[*id].s)
    TRI_FAIL(TRI_EINPUT,
             "%s: the added token '%s' gets id %d, the next after %d tokens, but '%s' has this id", t->name,
             content->s, *id, t->n_model, t->row[*id].s);
  return TRI_OK;
}

static tri_status normalize(tri_tokenizer *t, const tri_tok_row *content, tri_tok_added *a) {
  tri_tok_work w = {0};
  tri_status   st = TRI_OK;

  if (!a->normalized || !t->normalizer.n || a->normal.s) return TRI_OK;
  t->added_in += (int64_t)content->n;
  w.most_text = TRI_TOK_MOST_TIMES_ADDED * t->added_in + TRI_TOK_MORE_BYTES - t->added_out;
  TRI_TRY_DONE(tri_tok_put(&w.a, content->s, content->n));
  TRI_TRY_DONE(tri_tok_push(&w.a, (tri_tok_piece){0, content->n, 1, -1}));
  TRI_TRY_DONE(tri_tok_normalize(&t->normalizer, &w));
  if (!w.a.n)
    TRI_FAIL_DONE(TRI_EINPUT, "%s: the normalizer makes an empty text of the added token '%s'", t->name,
                  content->s);
  TRI_TRY_DONE(copy_text(w.a.text + w.a.piece[0].at, w.a.piece[0].n, &a->normal));
  t->added_out += (int64_t)a->normal.n;
done:
  tri_tok_work_free(&w);
  return st;
}

/* Replaces the flags of an added token. The last flags count. */
static tri_status change_flags(tri_tokenizer *t, int32_t i, const tri_tok_added *fresh) {
  tri_tok_added *a = t->added + i, old = *a;

  *a = *fresh;
  a->id = old.id;
  a->normal = old.normal;
  a->skipped = old.skipped || fresh->special;
  return normalize(t, t->added_row + i, a);
}

tri_status tri_tok_add(tri_tokenizer *t, const tri_tok_row *content, const tri_tok_added *fresh,
                       int32_t *next) {
  int32_t      old = tri_tok_map_find(&t->added_map, content->s, content->n);
  tri_tok_row *row;

  if (!content->n) return TRI_OK;
  if (old >= 0) return change_flags(t, old, fresh);
  TRI_TRY(TRI_GROW(t->added, t->cap_added, t->n_added + 1));
  TRI_TRY(TRI_GROW(t->added_row, t->cap_added_row, t->n_added + 1));
  t->added_map.row = t->added_row;
  row = t->added_row + t->n_added;
  *row = (tri_tok_row){0};
  TRI_TRY(copy_text(content->s, content->n, row));
  t->added[t->n_added++] = (tri_tok_added){.id = -1};
  TRI_TRY(tri_tok_map_add(&t->added_map, t->n_added - 1));
  TRI_TRY(number(t, row, next, &t->added[t->n_added - 1].id));
  return change_flags(t, t->n_added - 1, fresh);
}

static tri_status load_one(tri_tokenizer *t, const char *where, const json_t *o, int32_t *next) {
  const json_t *content = json_object_get(o, "content"), *id = json_object_get(o, "id");
  tri_tok_added fresh = {.id = -1};
  int32_t       n_before = t->n_added, got;

  if (!json_is_string(content)) TRI_FAIL(TRI_EINPUT, "%s: %s has no string 'content'", t->name, where);
  if (!json_is_integer(id)) TRI_FAIL(TRI_EINPUT, "%s: %s has no integer 'id'", t->name, where);
  if (json_integer_value(id) < 0 || json_integer_value(id) >= TRI_TOK_MAX_ID)
    TRI_FAIL(TRI_EINPUT, "%s: %s.id = %lld, but ids must be 0 ... %d", t->name, where,
             (long long)json_integer_value(id), TRI_TOK_MAX_ID - 1);
  TRI_TRY(read_flags(t, where, o, &fresh));
  TRI_TRY(tri_tok_add(
      t, &(tri_tok_row){(char *)(uintptr_t)json_string_value(content), json_string_length(content)}, &fresh,
      next));
  if (t->n_added == n_before) return TRI_OK;
  got = t->added[n_before].id;
  if (json_integer_value(id) != got)
    tri_log(TRI_LOG_WARN,
            "%s: %s '%s' is listed with id %lld, but it gets id %d, as in the tokenizers library", t->name,
            where, t->added_row[n_before].s, (long long)json_integer_value(id), got);
  return TRI_OK;
}

/* Refuses two different tokens written with the same id. */
static tri_status check_written_ids(const tri_tokenizer *t, json_t *list) {
  int64_t    *seen; /* [TRI_TOK_MAX_ID] index + 1 */
  json_t     *o;
  size_t      i;
  tri_status  st = TRI_OK;
  json_int_t  max = 0;
  const char *first, *second;

  json_array_foreach(list, i, o) {
    json_int_t id = json_integer_value(json_object_get(o, "id"));
    if (id > max && id < TRI_TOK_MAX_ID) max = id;
  }
  TRI_TRY(TRI_ALLOC(seen, max + 1));
  json_array_foreach(list, i, o) {
    json_int_t id = json_integer_value(json_object_get(o, "id"));
    if (!json_is_integer(json_object_get(o, "id")) || id < 0 || id > max) continue;
    if (seen[id]) {
      first = json_string_value(json_object_get(json_array_get(list, (size_t)seen[id] - 1), "content"));
      second = json_string_value(json_object_get(o, "content"));
      if (first && second && strcmp(first, second))
        TRI_FAIL_DONE(TRI_EINPUT, "%s: the added tokens '%s' and '%s' have the same id %lld", t->name, first,
                      second, (long long)id);
    }
    seen[id] = (int64_t)i + 1;
  }
done:
  TRI_FREE(seen);
  return st;
}

/* Extends the rows to the largest id and fills the table from id to added token. */
tri_status tri_tok_index_added(tri_tokenizer *t) {
  int32_t      n_row = t->n_row, before = -1;
  tri_tok_row *row = NULL;

  for (int32_t i = 0; i < t->n_added; i++)
    if (t->added[i].id >= n_row) n_row = t->added[i].id + 1;
  if (n_row > t->n_row) {
    TRI_TRY(TRI_ALLOC(row, n_row));
    memcpy(row, t->row, (size_t)t->n_row * sizeof *row);
    TRI_FREE(t->row);
    t->row = row;
    t->model.row = row;
    t->n_row = n_row;
  }
  TRI_TRY(TRI_ALLOC(t->added_of, n_row));
  for (int32_t i = 0; i < t->n_added; i++) {
    tri_tok_added *a = t->added + i;
    t->added_of[a->id] = i + 1;
    TRI_TRY(trie_put(a->normalized ? &t->normal : &t->raw, tri_tok_pattern(t, i), i, &before));
    if (before < 0) continue;
    if (i >= t->n_own)
      tri_log(TRI_LOG_WARN,
              "%s: the normalizer makes the same text of the added tokens '%s' and '%s'. Texts get the first "
              "one",
              t->name, t->added_row[before].s, t->added_row[i].s);
    else
      TRI_FAIL(TRI_EINPUT, "%s: the added tokens '%s' and '%s' are the same to the normalizer", t->name,
               t->added_row[before].s, t->added_row[i].s);
  }
  return TRI_OK;
}

tri_status tri_tok_load_added(tri_tokenizer *t, json_t *list) {
  size_t  n = json_array_size(list), i;
  int32_t next = t->n_model;
  char    where[48];
  json_t *o;

  if (list && !json_is_null(list) && !json_is_array(list))
    TRI_FAIL(TRI_EINPUT, "%s: added_tokens must be a list", t->name);
  if (n >= TRI_TOK_MAX_ID) TRI_FAIL(TRI_EINPUT, "%s: added_tokens has %zu entries, too many", t->name, n);
  TRI_TRY(tri_tok_map_open(&t->added_map, t->key, t->added_row, (int64_t)n));
  TRI_TRY(check_written_ids(t, list));
  json_array_foreach(list, i, o) {
    snprintf(where, sizeof where, "added_tokens[%zu]", i);
    TRI_TRY(load_one(t, where, o, &next));
  }
  t->n_own = t->n_added;
  return TRI_OK;
}
