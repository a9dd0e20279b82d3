/* view.c - prints answers for people. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "view.h"

#include <math.h>
#include <string.h>

#include "base/columns.h"
#include "base/host_memory.h"
#include "base/visible.h"
#include "fold.h"

enum {
  NAME_BYTES = 200,
  MOST_PARTS = 16
}; /* chosen: bytes of a shown name, and as many rewards as a run
                                             * has */

void tri_show_view_free(tri_show_view *v) { TRI_FREE(v->last); }

/* ---- parts of a line ---- */

static tri_status put_value(tri_pager *p, const tri_json_slice *value) {
  tri_text   said = {0};
  tri_status st = TRI_OK;

  if (!tri_json_is_string(value)) return tri_fold_text(p, value->at ? value->at : "", value->n);
  TRI_TRY_DONE(tri_json_put_said(value, &said));
  TRI_TRY_DONE(tri_fold_text(p, said.data ? said.data : "", said.len));
done:
  tri_text_free(&said);
  return st;
}

/* Prints the text, or the tokens if there is none. */
static tri_status put_side(tri_pager *p, const tri_show_answer *a, const tri_json_slice *text,
                           bool of_prompt) {
  tri_json_slice tokens = tri_show_tokens(a, of_prompt);

  if (text->at) return put_value(p, text);
  if (!tokens.at && of_prompt) return TRI_OK;
  TRI_TRY(tri_fold_words(p, tokens.at ? "  tokens:" : "  no tokens", "2"));
  return tokens.at ? tri_fold_text(p, tokens.at, tokens.n) : TRI_OK;
}

/* Appends a name of the line on one line, made visible. Another value than a string is shown as written. */
static tri_status put_name(const tri_json_slice *name, tri_text *out) {
  tri_text   said = {0};
  tri_status st = TRI_OK;
  char       shown[NAME_BYTES];

  if (tri_json_is_string(name))
    TRI_TRY_DONE(tri_json_put_said(name, &said));
  else
    TRI_TRY_DONE(tri_text_put(&said, name->at, name->n));
  tri_visible(said.data ? said.data : "", said.len, "", shown, sizeof shown);
  TRI_TRY_DONE(tri_text_printf(out, "%s", shown));
done:
  tri_text_free(&said);
  return st;
}

/* Appends " (exact 1, length -0.5)", unless it repeats the sum. */
static tri_status put_parts(const tri_show_answer *a, tri_text *out) {
  tri_json_walk  w;
  tri_json_slice key, value;
  size_t         before = out->len;
  int            n = 0;
  bool           more = false;

  if (!a->rewards.at || !tri_json_walk_begin(a->rewards.at, a->rewards.n, &w) || w.close != '}')
    return TRI_OK;
  for (; tri_json_walk_next(&w, &key, &value); n++) {
    double x = tri_json_number(&value);
    if (n < MOST_PARTS) {
      TRI_TRY(tri_text_printf(out, "%s", n ? ", " : " ("));
      TRI_TRY(put_name(&key, out));
      TRI_TRY(tri_text_printf(out, isnan(x) ? " none" : " %.4g", x));
    }
    more = more || x != a->reward;
  }
  if (n > MOST_PARTS) TRI_TRY(tri_text_printf(out, ", and %d more", n - MOST_PARTS));
  if (n) TRI_TRY(tri_text_printf(out, ")"));
  if (n > 1 || more || !n) return TRI_OK;
  out->len = before; /* a single reward of weight 1 repeats the sum */
  out->data[before] = 0;
  return TRI_OK;
}

static tri_status put_stop(const tri_show_answer *a, tri_text *out) {
  static const struct {
    const char *word, *means;
  } known[] = {
      {"\"eos\"", "ended"}, {"\"stop\"", "ended by a stop string"}, {"\"length\"", "cut at the length"}};

  if (!a->stop.at) return TRI_OK;
  TRI_TRY(tri_text_printf(out, ", "));
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (a->stop.n == strlen(known[i].word) && !memcmp(a->stop.at, known[i].word, a->stop.n))
      return tri_text_printf(out, "%s", known[i].means);
  return put_name(&a->stop, out);
}

/* ---- an answer ---- */

/* Prints "step 5, prompt 17 of easy". */
static tri_status put_heading(tri_show_view *v, const tri_show_answer *a) {
  tri_text   text = {0};
  tri_status st = TRI_OK;

  if (v->by_steps) TRI_TRY_DONE(tri_text_printf(&text, "step %lld, ", (long long)v->step));
  TRI_TRY_DONE(tri_text_printf(&text, "prompt"));
  if (a->prompt_id >= 0) TRI_TRY_DONE(tri_text_printf(&text, " %lld", (long long)a->prompt_id));
  if (a->set.at) TRI_TRY_DONE(tri_text_printf(&text, " of "));
  if (a->set.at) TRI_TRY_DONE(put_name(&a->set, &text));
  if (v->begun || !v->by_steps) TRI_TRY_DONE(tri_pager_put(v->p, "\n", 1));
  TRI_TRY_DONE(tri_fold_words(v->p, text.data, "1"));
done:
  tri_text_free(&text);
  return st;
}

/* Prints the right answer, on one line if it fits. */
static tri_status put_right(tri_pager *p, const tri_show_answer *a) {
  static const char label[] = "right answer: ";
  tri_text          said = {0}, line = {0};
  tri_status        st = TRI_OK;
  char              shown[NAME_BYTES];
  size_t            n;

  if (!a->right.at) return TRI_OK;
  if (tri_json_is_string(&a->right))
    TRI_TRY_DONE(tri_json_put_said(&a->right, &said));
  else
    TRI_TRY_DONE(tri_text_put(&said, a->right.at, a->right.n));
  n = said.len;
  if (n && n < sizeof shown / TRI_VISIBLE_MOST && !memchr(said.data, '\n', n)) {
    tri_visible(said.data, n, "", shown, sizeof shown);
    TRI_TRY_DONE(tri_text_printf(&line, "%s%s", label, shown));
    if (tri_text_columns(line.data, line.len) <= p->columns) {
      TRI_TRY_DONE(tri_fold_words(p, line.data, ""));
      goto done;
    }
  }
  TRI_TRY_DONE(tri_fold_words(p, "right answer:", ""));
  TRI_TRY_DONE(tri_fold_text(p, n ? said.data : "", n));
done:
  tri_text_free(&said);
  tri_text_free(&line);
  return st;
}

/* Green for good answers and red for bad ones, by the advantage if there is one, else by the reward against
 * the mean. */
static const char *colour_of(const tri_show_view *v, const tri_show_answer *a) {
  double x = isnan(a->advantage) ? a->reward - v->mean : a->advantage;

  return x > 0 ? "32" : x < 0 ? "31" : "";
}

/* Prints "answer 2: reward 1 (exact 1, length 0), advantage 0.35, 34 tokens, ended". */
static tri_status put_figures(tri_show_view *v, const tri_show_answer *a) {
  int64_t    n = tri_show_length(a);
  tri_text   text = {0};
  tri_status st = TRI_OK;

  TRI_TRY_DONE(tri_text_printf(&text, "answer"));
  if (a->sample >= 0) TRI_TRY_DONE(tri_text_printf(&text, " %lld", (long long)a->sample));
  TRI_TRY_DONE(tri_text_printf(&text, isnan(a->reward) ? ": no reward" : ": reward %.4g", a->reward));
  TRI_TRY_DONE(put_parts(a, &text));
  if (!isnan(a->advantage)) TRI_TRY_DONE(tri_text_printf(&text, ", advantage %.3g", a->advantage));
  if (n >= 0) TRI_TRY_DONE(tri_text_printf(&text, ", %lld token%s", (long long)n, n == 1 ? "" : "s"));
  TRI_TRY_DONE(put_stop(a, &text));
  if (a->filler) TRI_TRY_DONE(tri_text_printf(&text, ", only fills the step"));
  TRI_TRY_DONE(tri_fold_words(v->p, text.data, colour_of(v, a)));
done:
  tri_text_free(&text);
  return st;
}

static tri_status remember(tri_show_view *v, const tri_show_answer *a) {
  TRI_TRY(TRI_GROW(v->last, v->cap, (int64_t)a->n));
  memcpy(v->last, a->line, a->n);
  v->n_last = (int64_t)a->n;
  v->last_step = v->step;
  v->begun = true;
  return TRI_OK;
}

tri_status tri_show_answer_put(tri_show_view *v, const tri_show_answer *a) {
  tri_show_answer last;
  bool same = v->begun && tri_show_read(v->last, (size_t)v->n_last, &last) && tri_show_same_prompt(&last, a);

  if (!same || v->last_step != v->step) TRI_TRY(put_heading(v, a));
  if (!same) TRI_TRY(put_side(v->p, a, &a->prompt, true));
  if (!same) TRI_TRY(put_right(v->p, a));
  TRI_TRY(put_figures(v, a));
  TRI_TRY(put_side(v->p, a, &a->response, false));
  return remember(v, a);
}

/* ---- a file ---- */

void tri_show_sum_add(tri_show_sum *s, const tri_show_answer *a, const tri_show_answer *before) {
  int64_t n = tri_show_length(a);

  s->answers++;
  s->prompts += !before || !tri_show_same_prompt(before, a);
  s->cut += tri_show_is_cut(a);
  s->measured += n >= 0;
  s->length += n >= 0 ? (double)n : 0;
  if (isnan(a->reward)) return;
  if (!s->rewarded || a->reward < s->least) s->least = a->reward;
  if (!s->rewarded || a->reward > s->most) s->most = a->reward;
  s->reward += a->reward;
  s->rewarded++;
}

tri_status tri_show_sum_put(tri_pager *p, const char *file, int64_t step, const tri_show_sum *s) {
  tri_text   text = {0};
  tri_status st = TRI_OK;
  char       visible[NAME_BYTES * 4], shown[NAME_BYTES * 4];

  tri_visible(file, strlen(file), "", visible, sizeof visible);
  tri_text_shorten(visible, p->columns - 1, shown, sizeof shown); /* leaves a column for the colon */
  TRI_TRY_DONE(tri_text_printf(&text, "%s: ", shown));
  if (step >= 0) TRI_TRY_DONE(tri_text_printf(&text, "step %lld, ", (long long)step));
  TRI_TRY_DONE(tri_text_printf(&text, "%lld answer%s to %lld prompt%s", (long long)s->answers,
                               s->answers == 1 ? "" : "s", (long long)s->prompts,
                               s->prompts == 1 ? "" : "s"));
  if (s->rewarded && s->least == s->most)
    TRI_TRY_DONE(tri_text_printf(&text, ", every reward %.4g", s->most));
  if (s->rewarded && s->least < s->most)
    TRI_TRY_DONE(tri_text_printf(&text, ", reward %.4g in the mean, %.4g to %.4g",
                                 s->reward / (double)s->rewarded, s->least, s->most));
  if (s->measured)
    TRI_TRY_DONE(tri_text_printf(&text, ", %.4g tokens in the mean", s->length / (double)s->measured));
  if (s->cut) TRI_TRY_DONE(tri_text_printf(&text, ", %lld cut at the length", (long long)s->cut));
  TRI_TRY_DONE(tri_fold_words(p, text.data, "1"));
done:
  tri_text_free(&text);
  return st;
}
