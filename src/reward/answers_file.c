/* answers_file.c - writes answers to a file of JSON lines. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "answers_file.h"

#include <string.h>

tri_status tri_answers_file_begin(const char *path, tri_answers_file *out) {
  *out = (tri_answers_file){0};
  return tri_pieces_begin(path, &out->file);
}

tri_status tri_answers_file_begin_new(const char *path, tri_answers_file *out) {
  *out = (tri_answers_file){0};
  return tri_pieces_begin_named(path, false, &out->file);
}

static tri_status decode(const tri_tokenizer *tokenizer, const tri_rollout *r, int q, tri_text *text,
                         tri_rollout_text *out) {
  const int32_t *token = r->token + r->start[q];
  int64_t        n = r->start[q + 1] - r->start[q];

  text->len = 0;
  TRI_TRY(tri_answers_decode(tokenizer, token, r->prompt_len[q], false, text));
  out->prompt_bytes = text->len;
  TRI_TRY(tri_answers_decode(tokenizer, token + r->prompt_len[q], n - r->prompt_len[q], true, text));
  out->response_bytes = text->len - out->prompt_bytes;
  out->prompt = text->data ? text->data : "";
  out->response = out->prompt + out->prompt_bytes;
  return TRI_OK;
}

/* Adds the right answer of the data line if its prompt is the same, since the ids of a replay may belong to
 * other data. */
static void find_answer(const tri_dataset *d, const tri_rollout *r, int q, tri_rollout_text *out) {
  const tri_example *e = tri_dataset_find(d, r->prompt_id[q]);

  if (!e || !e->answer || e->n_token != r->prompt_len[q] ||
      memcmp(e->token, r->token + r->start[q], (size_t)e->n_token * sizeof *e->token) != 0)
    return;
  out->answer = e->answer;
  out->answer_bytes = e->answer_bytes;
  out->answer_is_json = e->answer_is_number;
}

tri_status tri_answers_file_put(tri_answers_file *f, const tri_rollout *r, const tri_answers_form *form) {
  const char      *name[TRI_REWARDS_MAX];
  tri_rollout_form how = {form->set ? name : NULL, form->advantages, form->name};

  for (int i = 0; form->set && i < r->n_reward; i++) name[i] = tri_reward_set_name(form->set, i);
  for (int q = 0; q < r->n_seq; q++) {
    tri_rollout_text text = {0};
    if (form->tokenizer) TRI_TRY(decode(form->tokenizer, r, q, &f->text, &text));
    find_answer(form->data, r, q, &text);
    f->line.len = 0;
    TRI_TRY(tri_rollout_file_line(r, q, &how, &text, &f->line));
    TRI_TRY(tri_text_put(&f->line, "\n", 1));
    TRI_TRY(tri_pieces_put(&f->file, f->line.data, f->line.len));
  }
  return TRI_OK;
}

static void free_texts(tri_answers_file *f) {
  tri_text_free(&f->text);
  tri_text_free(&f->line);
}

tri_status tri_answers_file_end(tri_answers_file *f) {
  free_texts(f);
  return tri_pieces_end(&f->file);
}

void tri_answers_file_drop(tri_answers_file *f) {
  free_texts(f);
  tri_pieces_drop(&f->file);
}
