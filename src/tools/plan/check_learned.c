/* check_learned.c - prints lines of training data as the model gets them (trireme train --check --show). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "check_learned.h"

#include "base/log.h"
#include "base/print.h"
#include "io/text/json_text.h"
#include "io/text/lines.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Tokens of a line, or of one side of a pair. */
typedef struct side {
  const int32_t *id;   /* [n] */
  const uint8_t *skip; /* [n] or NULL, as in tri_example */
  int            n, n_prompt;
  bool           prompts; /* nothing is learned */
} side;

typedef struct printer {
  const tri_tokenizer *tokenizer;   /* NULL shows tokens as numbers */
  const char          *begin, *end; /* printed around learned tokens */
  bool                 json;
} printer;

static bool is_learned(const side *s, int i) {
  return !s->prompts && i >= (s->n_prompt > 1 ? s->n_prompt : 1) && !(s->skip && s->skip[i]);
}

static int n_learned(const side *s) {
  int n = 0;

  for (int i = 0; i < s->n; i++) n += is_learned(s, i);
  return n;
}

/* Returns the end of the run of tokens that starts at `from` and is learned, or not learned, throughout. */
static int run_end(const side *s, int from) {
  int to = from + 1;

  while (to < s->n && is_learned(s, to) == is_learned(s, from)) to++;
  return to;
}

static size_t common_bytes(const tri_text *a, const tri_text *b) {
  size_t n = 0;

  while (n < a->len && n < b->len && a->data[n] == b->data[n]) n++;
  while (n && n < b->len && ((unsigned char)b->data[n] & 0xC0) == 0x80)
    n--; /* do not cut a UTF-8
                                                                              * character */
  return n;
}

/* Appends the text of tokens [from, to), decoded together with those from `before` on. A decoder may treat
 * the very first token in a special way, and a character may span several tokens. */
static tri_status put_run(const printer *p, const side *s, int before, int from, int to, tri_text *out) {
  tri_text   head = {0}, whole = {0};
  tri_status st = TRI_OK;
  size_t     at;

  if (!p->tokenizer) {
    for (int i = from; i < to; i++) TRI_TRY_DONE(tri_text_printf(out, i ? " %d" : "%d", s->id[i]));
    goto done;
  }
  TRI_TRY_DONE(tri_tokenizer_decode(p->tokenizer, s->id + before, from - before, false, &head));
  TRI_TRY_DONE(tri_tokenizer_decode(p->tokenizer, s->id + before, to - before, false, &whole));
  at = common_bytes(&head, &whole);
  TRI_TRY_DONE(tri_text_put(out, whole.len ? whole.data + at : "", whole.len - at));
done:
  tri_text_free(&head);
  tri_text_free(&whole);
  return st;
}

/* Prints all runs of tokens, with learned ones between p->begin and p->end. */
static tri_status print_marked(const printer *p, const side *s) {
  tri_text   text = {0};
  tri_status st = TRI_OK;

  for (int before = 0, from = 0, to; from < s->n; before = from, from = to) {
    bool marked = is_learned(s, from);
    to = run_end(s, from);
    text.len = 0;
    TRI_TRY_DONE(put_run(p, s, before, from, to, &text));
    if (marked) fputs(p->begin, stdout);
    if (text.len) TRI_TRY_DONE(tri_print(text.data, text.len));
    if (marked) fputs(p->end, stdout);
  }
  TRI_TRY_DONE(tri_print("\n", 1));
done:
  tri_text_free(&text);
  return st;
}

/* ---- JSON ---- */

static tri_status put_json(const printer *p, const side *s, tri_text *out) {
  tri_text   text = {0};
  tri_status st = TRI_OK;

  if (p->tokenizer) {
    TRI_TRY_DONE(tri_tokenizer_decode(p->tokenizer, s->id, s->n, false, &text));
    TRI_TRY_DONE(tri_text_printf(out, "\"text\": "));
    TRI_TRY_DONE(tri_json_put_string(out, text.len ? text.data : "", text.len));
    TRI_TRY_DONE(tri_text_printf(out, ", "));
  }
  TRI_TRY_DONE(tri_text_printf(out, "\"tokens\": ["));
  for (int i = 0; i < s->n; i++) TRI_TRY_DONE(tri_text_printf(out, i ? ", %d" : "%d", s->id[i]));
  TRI_TRY_DONE(tri_text_printf(out, "], \"learned\": ["));
  for (int i = 0; i < s->n; i++)
    TRI_TRY_DONE(tri_text_printf(out, "%s%s", i ? ", " : "", is_learned(s, i) ? "true" : "false"));
  TRI_TRY_DONE(tri_text_printf(out, "]"));
done:
  tri_text_free(&text);
  return st;
}

static tri_status print_json(const printer *p, const tri_example *e, const char *file, int64_t line,
                             const side s[2], tri_data_kind kind) {
  tri_text   out = {0};
  tri_status st = TRI_OK;

  TRI_TRY_DONE(tri_text_printf(&out, "{\"file\": "));
  TRI_TRY_DONE(tri_json_put_string(&out, file, strlen(file)));
  TRI_TRY_DONE(
      tri_text_printf(&out, ", \"line\": %lld, \"cut\": %s, ", (long long)line, e->cut ? "true" : "false"));
  if (e->rejected) TRI_TRY_DONE(tri_text_printf(&out, "\"margin\": %.9g, \"chosen\": {", (double)e->value));
  if (kind == TRI_DATA_LABELLED)
    TRI_TRY_DONE(tri_text_printf(&out, "\"label\": %s, ", e->value > 0 ? "true" : "false"));
  TRI_TRY_DONE(put_json(p, &s[0], &out));
  if (e->rejected) TRI_TRY_DONE(tri_text_printf(&out, "}, \"rejected\": {"));
  if (e->rejected) TRI_TRY_DONE(put_json(p, &s[1], &out));
  TRI_TRY_DONE(tri_text_printf(&out, "%s\n", e->rejected ? "}}" : "}"));
  st = tri_print(out.data, out.len);
done:
  tri_text_free(&out);
  return st;
}

/* ---- text ---- */

/* Prints a heading such as "talk.jsonl:3: chosen: 40 tokens, 12 learned, cut". */
static tri_status print_heading(const tri_example *e, const char *file, int64_t line, const char *name,
                                const side *s) {
  tri_text   out = {0};
  tri_status st = TRI_OK;

  TRI_TRY_DONE(tri_text_printf(&out, "%s:%lld: %s%d token%s", file, (long long)line, name, s->n,
                               s->n == 1 ? "" : "s"));
  if (s->prompts) TRI_TRY_DONE(tri_text_printf(&out, ", a prompt"));
  if (!s->prompts) TRI_TRY_DONE(tri_text_printf(&out, ", %d learned", n_learned(s)));
  if (e->cut) TRI_TRY_DONE(tri_text_printf(&out, ", cut (the line is too long)"));
  TRI_TRY_DONE(tri_text_printf(&out, "\n"));
  st = tri_print(out.data, out.len);
done:
  tri_text_free(&out);
  return st;
}

static tri_status print_example(const printer *p, const tri_example *e, const char *file, int64_t line,
                                tri_data_kind kind) {
  const side s[2] = {{e->token, e->skip, e->n_token, e->n_prompt, tri_data_is_prompts(kind)},
                     {e->rejected, e->rejected_skip, e->n_rejected, e->n_prompt, false}};
  bool       labelled = kind == TRI_DATA_LABELLED;

  if (p->json) return print_json(p, e, file, line, s, kind);
  TRI_TRY(print_heading(e, file, line,
                        e->rejected    ? "chosen: "
                        : !labelled    ? ""
                        : e->value > 0 ? "label true: "
                                       : "label false: ",
                        &s[0]));
  TRI_TRY(print_marked(p, &s[0]));
  if (e->rejected) TRI_TRY(print_heading(e, file, line, "rejected: ", &s[1]));
  return e->rejected ? print_marked(p, &s[1]) : TRI_OK;
}

/* ---- all files ---- */

/* Adds the number of lines of a file to *n. */
static tri_status count_lines(const char *path, int64_t most_bytes, int64_t *n) {
  tri_lines  *lines = NULL;
  const char *text;
  size_t      bytes;
  tri_status  st = TRI_OK;

  TRI_TRY_DONE(tri_lines_open(path, 0, INT64_MAX, &lines));
  if (most_bytes) tri_lines_limit(lines, most_bytes, "data.max_line_bytes");
  do TRI_TRY_DONE(tri_lines_next(lines, &text, &bytes));
  while (text);
  *n += tri_lines_taken(lines);
done:
  tri_lines_close(&lines);
  return st;
}

tri_status tri_check_learned(const tri_trainer *t, const tri_show_learned *show) {
  const tri_config_list *files = &t->cfg->data.train;
  const tri_dataset     *d = t->data;
  bool                   tint = tri_print_is_coloured();
  printer                p = {.tokenizer = tri_source_tokenizer(t->learner[TRI_POLICY].source),
                              .begin = tint ? "\033[32m" : "\xe2\x9f\xa6",
                              .end = tint ? "\033[0m" : "\xe2\x9f\xa7",
                              .json = show->json};
  int64_t                before = 0; /* lines of the earlier files */
  int64_t                i = 0, n = d && tri_dataset_stats(d)->n_line ? tri_dataset_count(d) : 0;

  if (!n) tri_log(TRI_LOG_WARN, "--show: no line of data.train could be read");
  for (int f = 0; n && f < files->n; f++) {
    int64_t shown = 0;
    for (; i < n && tri_dataset_get(d, i)->file == f; i++)
      if (shown++ < show->lines)
        TRI_TRY(print_example(&p, tri_dataset_get(d, i), files->item[f],
                              tri_dataset_get(d, i)->id - before + 1, tri_dataset_kind(d)));
    if (f + 1 < files->n) TRI_TRY(count_lines(files->item[f], t->cfg->data.max_line_bytes, &before));
  }
  if (fflush(stdout)) TRI_FAIL(TRI_EFILE, "standard output cannot be written: %s", strerror(errno));
  return TRI_OK;
}
