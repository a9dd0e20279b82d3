/* tokenizer.c - opens a tokenizer and encodes text: runs the steps in order, then the post-processor. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "tokenizer_impl.h"

#include "base/file.h"
#include "io/text/file_kind.h"
#include "io/text/json_text.h"

#include <stdio.h>
#include <string.h>

/* Chosen as seven times the largest tokenizer.json in use (about 35 MB). */
static const size_t max_file_bytes = 256u << 20;
/* Chosen as three times the largest in use (515 000 merges as lists, 262 000 tokens). */
enum { MOST_NESTED = 1 << 21 };

/* ---- open and close ---- */

static tri_status parse_json(const char *name, const char *bytes, size_t n, json_t **out) {
  const char  *kind = tri_model_kind(bytes, n);
  json_error_t error;

  if (kind) TRI_FAIL(TRI_EINPUT, "%s: is %s", name, kind);
  if (n >= 3 && !memcmp(bytes, "\xef\xbb\xbf", 3)) bytes += 3, n -= 3;
  if (!tri_json_fits(bytes, n, MOST_NESTED))
    TRI_FAIL(TRI_EINPUT, "%s: " TRI_JSON_TOO_LARGE, name, MOST_NESTED);
  *out = json_loadb(bytes, n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);
  if (!*out) TRI_FAIL(TRI_EINPUT, "%s:%d: not readable as JSON: %s", name, error.line, error.text);
  return TRI_OK;
}

tri_status tri_tokenizer_open_files(const tri_tokenizer_file file[TRI_TOKENIZER_FILES], tri_tokenizer **out) {
  const tri_tokenizer_file *own = file + TRI_TOKENIZER_JSON;
  tri_tokenizer            *t = NULL;
  json_t                   *root = NULL;
  tri_status                st = TRI_OK;

  *out = NULL;
  TRI_TRY(parse_json(own->name, own->bytes, own->n, &root));
  TRI_TRY_DONE(TRI_ALLOC(t, 1));
  TRI_TRY_DONE(tri_copy_text(own->name, &t->name));
  TRI_TRY_DONE(tri_tok_draw_key(&t->key));
  TRI_TRY_DONE(tri_tok_load(t, root, file));
  *out = t;
  t = NULL;
done:
  json_decref(root);
  tri_tokenizer_close(&t);
  return st;
}

tri_status tri_tokenizer_open_text(const char *name, const char *bytes, size_t n, tri_tokenizer **out) {
  const tri_tokenizer_file file[TRI_TOKENIZER_FILES] = {{name, bytes, n}};

  return tri_tokenizer_open_files(file, out);
}

tri_status tri_tokenizer_open(const char *path, tri_tokenizer **out) {
  const char        *slash = strrchr(path, '/');
  int                n_folder = slash ? (int)(slash - path) + 1 : 0;
  tri_text           name[TRI_TOKENIZER_FILES] = {0};
  char              *bytes[TRI_TOKENIZER_FILES] = {0};
  tri_tokenizer_file file[TRI_TOKENIZER_FILES] = {0};
  tri_status         st = TRI_OK;

  *out = NULL;
  for (int i = 0; i < TRI_TOKENIZER_FILES; i++) {
    if (i == TRI_TOKENIZER_JSON)
      TRI_TRY_DONE(tri_text_printf(&name[i], "%s", path));
    else
      TRI_TRY_DONE(tri_text_printf(&name[i], "%.*s%s", n_folder, path, tri_tokenizer_file_name(i)));
    file[i].name = name[i].data;
    if (i != TRI_TOKENIZER_JSON && !tri_file_exists(name[i].data)) continue;
    TRI_TRY_DONE(tri_file_read(name[i].data, max_file_bytes, &bytes[i], &file[i].n));
    file[i].bytes = bytes[i];
  }
  TRI_TRY_DONE(tri_tokenizer_open_files(file, out));
done:
  for (int i = 0; i < TRI_TOKENIZER_FILES; i++) {
    TRI_FREE(bytes[i]);
    tri_text_free(&name[i]);
  }
  return st;
}

void tri_tokenizer_close(tri_tokenizer **t) {
  tri_tokenizer *p = *t;

  if (!p) return;
  for (int32_t i = 0; i < p->n_added; i++) TRI_FREE(p->added[i].normal.s);
  for (int32_t i = 0; i < p->n_added; i++) TRI_FREE(p->added_row[i].s);
  for (int64_t i = 0; i < p->post.n; i++) tri_tokens_free(p->post.template + i);
  tri_tok_ops_free(&p->normalizer);
  tri_tok_ops_free(&p->pre_tokenizer);
  tri_tok_ops_free(&p->decoder);
  TRI_FREE(p->post.template);
  TRI_FREE(p->raw.node);
  TRI_FREE(p->normal.node);
  TRI_FREE(p->added);
  TRI_FREE(p->added_row);
  TRI_FREE(p->added_map.slot);
  TRI_FREE(p->added_of);
  for (int64_t i = 0; i < p->n_named; i++) TRI_FREE(p->named[i].key);
  TRI_FREE(p->named);
  tri_tok_unigram_free(&p->unigram);
  TRI_FREE(p->bpe.merge);
  TRI_FREE(p->bpe.id);
  TRI_FREE(p->model.slot);
  TRI_FREE(p->row);
  TRI_FREE(p->arena);
  TRI_FREE(p->bpe.unk);
  TRI_FREE(p->name);
  TRI_FREE(*t);
}

/* ---- encode ---- */

/* Swaps the two piece lists, so that the output of a step becomes the input of the next. */
static void turn(tri_tok_work *w) {
  tri_tok_pieces t = w->a;
  w->a = w->b;
  w->b = t;
}

/* Inserts the ids of the text, from `from` on, into the template. */
static tri_status apply_template(const tri_tok_template *template, int64_t from, tri_tokens *out) {
  tri_tokens text = {0};
  tri_status st = TRI_OK;

  if (out->n > from) TRI_TRY_DONE(tri_tokens_put(&text, out->id + from, out->n - from));
  out->n = from;
  for (int64_t i = 0; i < template->n; i++)
    if (template->id[i] < 0)
      TRI_TRY_DONE(tri_tokens_put(out, text.id, text.n));
    else
      TRI_TRY_DONE(tri_tokens_put(out, template->id + i, 1));
done:
  tri_tokens_free(&text);
  return st;
}

static tri_status encode(const tri_tokenizer *t, const char *text, size_t n, bool special, tri_tokens *out,
                         tri_token_places *places) {
  tri_tok_work w = {.origin.places = places};
  int64_t      before = out->n;
  int32_t      c;
  tri_status   st = TRI_OK;

  if (n) {
    TRI_TRY_DONE(tri_tok_put_lossy(&w.a, text, n));
    if (places) TRI_TRY_DONE(tri_tok_place_input(&w, text, n));
    n = (size_t)w.a.text_n;
    w.most_text = TRI_TOK_MOST_TIMES * w.a.text_n + TRI_TOK_MORE_BYTES;
    TRI_TRY_DONE(tri_tok_push(&w.a, (tri_tok_piece){0, n, (size_t)tri_tok_char(w.a.text, n, &c), -1}));
    TRI_TRY_DONE(tri_tok_split_added(t, &t->raw, &w.a, &w.b));
    turn(&w);
    TRI_TRY_DONE(tri_tok_normalize(&t->normalizer, &w));
    TRI_TRY_DONE(tri_tok_split_added(t, &t->normal, &w.a, &w.b));
    turn(&w);
    TRI_TRY_DONE(tri_tok_pre_tokenize(&t->pre_tokenizer, &w));
    TRI_TRY_DONE(tri_tok_bpe(t, &w, out));
  }
  for (int64_t i = 0; special && i < t->post.n; i++)
    TRI_TRY_DONE(apply_template(t->post.template + i, before, out));
done:
  if (st != TRI_OK) out->n = before;
  if (places && (st != TRI_OK || w.origin.lost)) places->n = 0;
  tri_tok_work_free(&w);
  return st;
}

tri_status tri_tokenizer_encode(const tri_tokenizer *t, const char *text, size_t n, bool special,
                                tri_tokens *out) {
  return encode(t, text, n, special, out, NULL);
}

tri_status tri_tokenizer_encode_places(const tri_tokenizer *t, const char *text, size_t n, tri_tokens *out,
                                       tri_token_places *places) {
  places->n = 0;
  return encode(t, text, n, false, out, places);
}

/* ---- look-ups ---- */

int32_t tri_tokenizer_vocab_size(const tri_tokenizer *t) { return t->n_row; }

int32_t tri_tokenizer_model_size(const tri_tokenizer *t) {
  int32_t n = t->n_row;

  while (n > 0 && (!t->row[n - 1].s || t->added_of[n - 1]))
    n--; /* some files list added tokens in the vocabulary too */
  return n;
}

const char *tri_tokenizer_token(const tri_tokenizer *t, int32_t id) {
  if (id < 0 || id >= t->n_row) return NULL;
  return t->added_of[id] ? t->added_row[t->added_of[id] - 1].s : t->row[id].s;
}

int32_t tri_tokenizer_named(const tri_tokenizer *t, const char *name) {
  for (int64_t i = 0; i < t->n_named; i++)
    if (!strcmp(t->named[i].key, name)) return t->named[i].id;
  return -1;
}

const char *tri_tokenizer_cure(const char *folder, char out[TRI_TOKENIZER_CURE_BYTES]) {
  const char *quote = folder ? "\"" : "", *name = folder ? folder : "FOLDER";

  if (folder && tri_file_in(folder, "MANIFEST.json")) {
    snprintf(out, TRI_TOKENIZER_CURE_BYTES,
             "A checkpoint takes no further files. Write a model folder (trireme export %s MODEL), and copy "
             "tokenizer.json from the model's source to MODEL",
             folder);
    return out;
  }
  snprintf(out, TRI_TOKENIZER_CURE_BYTES,
           "Copy it there from the model's source, or make it with transformers: "
           "AutoTokenizer.from_pretrained(%s%s%s).save_pretrained(%s%s%s)",
           quote, name, quote, quote, name, quote);
  return out;
}
