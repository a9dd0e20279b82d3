/* begun.c - reads the facts a run wrote about itself in the start event of its run.jsonl. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "begun.h"

#include "base/host_memory.h"
#include "base/text_buffer.h"
#include "base/visible.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum {
  TEXT_BYTES = 400, /* bytes kept of a text, chosen */
  TABLE_ROWS = 200, /* chosen as a few times the longest table */
  NAME_COLUMNS = 32 /* chosen, since the longest names have 30 */
};

void tri_html_begun_free(tri_html_begun *b) {
  TRI_FREE(b->model);
  TRI_FREE(b->ranks);
  TRI_FREE(b->loss);
  TRI_FREE(b->memory);
  b->n_ranks = 0;
}

/* Returns "" if the member is no text. */
static const char *text_of(const json_t *object, const char *name, char out[TEXT_BYTES]) {
  const json_t *value = json_object_get(object, name);
  const char   *text = json_string_value(value);

  out[0] = 0;
  if (text) tri_visible(text, json_string_length(value), "", out, TEXT_BYTES);
  return out;
}

/* Copies the text to *out if it is not empty, and frees it. */
static tri_status keep(tri_text *text, tri_status made, char **out) {
  if (made == TRI_OK && text->len) made = tri_copy_text(text->data, out);
  tri_text_free(text);
  return made;
}

static long long count_of(const json_t *object, const char *name) {
  return (long long)json_integer_value(json_object_get(object, name));
}

/* Writes "qwen3, 0.60 G parameters, 28 layers, width 1024, vocabulary 151936, bf16". */
static tri_status put_model(const json_t *model, tri_text *out) {
  char   type[TEXT_BYTES], dtype[TEXT_BYTES];
  double n = (double)count_of(model, "parameters");

  if (!text_of(model, "type", type)[0] || n <= 0) return TRI_OK;
  return tri_text_printf(out, "%s, %.2f %s parameters, %lld layer%s, width %lld, vocabulary %lld, %s", type,
                         n < 1e9 ? n / 1e6 : n / 1e9, n < 1e9 ? "M" : "G", count_of(model, "layers"),
                         count_of(model, "layers") == 1 ? "" : "s", count_of(model, "width"),
                         count_of(model, "vocabulary"), text_of(model, "dtype", dtype));
}

static tri_status put_ranks(const json_t *start, tri_text *out) {
  char      collectives[TEXT_BYTES];
  long long ranks = count_of(start, "ranks"), nodes = count_of(start, "nodes");

  if (ranks < 1) return TRI_OK;
  TRI_TRY(tri_text_printf(out, "%lld", ranks));
  if (nodes > 0) TRI_TRY(tri_text_printf(out, " on %lld node%s", nodes, nodes == 1 ? "" : "s"));
  return text_of(start, "collectives", collectives)[0]
             ? tri_text_printf(out, ", collectives: %s", collectives)
             : TRI_OK;
}

static tri_status put_memory(const json_t *rows, tri_text *out) {
  size_t  i;
  json_t *row;

  json_array_foreach(rows, i, row) {
    char name[TEXT_BYTES], phase[TEXT_BYTES], where[TEXT_BYTES];
    if (i == TABLE_ROWS || !text_of(row, "name", name)[0]) break;
    if (i == 0)
      TRI_TRY(tri_text_printf(out, "%-*s %12s  %-8s %s\n", NAME_COLUMNS, "rank 0", "MiB", "phase", "where"));
    TRI_TRY(tri_text_printf(out, "%-*s %12.2f  %-8s %s\n", NAME_COLUMNS, name,
                            (double)count_of(row, "bytes") / 0x1p20, text_of(row, "phase", phase),
                            text_of(row, "where", where)));
  }
  return TRI_OK;
}

tri_status tri_html_begun_read(const tri_history *h, tri_html_begun *out) {
  const json_t *start = tri_history_start(h);
  tri_text      text = {0};
  char          loss[TEXT_BYTES];
  tri_status    st = TRI_OK;

  *out = (tri_html_begun){.n_ranks = count_of(start, "ranks")};
  if (out->n_ranks < 0) out->n_ranks = 0;
  TRI_TRY_DONE(keep(&text, put_model(json_object_get(start, "model"), &text), &out->model));
  TRI_TRY_DONE(keep(&text, put_ranks(start, &text), &out->ranks));
  TRI_TRY_DONE(keep(&text, put_memory(json_object_get(start, "memory"), &text), &out->memory));
  if (text_of(start, "loss", loss)[0]) TRI_TRY_DONE(tri_copy_text(loss, &out->loss));
done:
  if (st != TRI_OK) tri_html_begun_free(out);
  return st;
}
