/* samples.c - finds the best and the worst answers in a run's newest saved rollouts. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "samples.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/host_memory.h"
#include "escape.h"
#include "io/text/jsonl.h"

enum {
  TEXT_BYTES = 4000,      /* kept of a text, chosen as much as people read in a report */
  READ_BYTES = 256 << 20, /* read of a file, chosen as some seconds of reading */
  PATH_BYTES = 4096 + 64,
  BAD_LINES = 1000 /* chosen, with more it is no file of rollouts */
};

static void free_sample(tri_sample *s) {
  TRI_FREE(s->prompt.data);
  TRI_FREE(s->response.data);
  TRI_FREE(s->answer.data);
  *s = (tri_sample){0};
}

void tri_samples_free(tri_samples *s) {
  for (int i = 0; i < s->n_best; i++) free_sample(&s->best[i]);
  for (int i = 0; i < s->n_worst; i++) free_sample(&s->worst[i]);
  *s = (tri_samples){.step = -1};
}

/* ---- the newest file ---- */

static int64_t find_newest(const char *folder, char path[PATH_BYTES]) {
  DIR           *d;
  struct dirent *e;
  int64_t        newest = -1;
  char           rollouts[PATH_BYTES];

  if (snprintf(rollouts, sizeof rollouts, "%s/rollouts", folder) >= PATH_BYTES) return -1;
  if (!(d = opendir(rollouts))) return -1;
  while ((e = readdir(d)) != NULL) {
    int64_t step = tri_lines_step(e->d_name);
    if (step > newest && snprintf(path, PATH_BYTES, "%s/%s", rollouts, e->d_name) < PATH_BYTES) newest = step;
  }
  closedir(d);
  return newest;
}

/* ---- its lines ---- */

static tri_status take_text(const json_t *object, const char *key, tri_sample_text *out) {
  const json_t *v = json_object_get(object, key);
  const char   *text = json_string_value(v);
  char         *other = v && !text && !json_is_null(v) ? json_dumps(v, JSON_ENCODE_ANY) : NULL;
  tri_status    st = TRI_OK;

  *out = (tri_sample_text){0};
  if (!text && !other) return TRI_OK;
  out->whole = text ? json_string_length(v) : strlen(other);
  out->n = tri_html_cut(text ? text : other, out->whole, TEXT_BYTES);
  TRI_TRY_DONE(TRI_ALLOC(out->data, out->n + 1));
  memcpy(out->data, text ? text : other, out->n);
done:
  free(other);
  return st;
}

static tri_status take_sample(const json_t *object, const tri_sample *known, tri_sample *out) {
  const json_t *stop = json_object_get(object, "stop"), *advantage = json_object_get(object, "advantage");
  tri_status    st = TRI_OK;

  *out = *known;
  out->advantage = json_is_number(advantage) ? json_number_value(advantage) : (double)NAN;
  snprintf(out->stop, sizeof out->stop, "%s", json_is_string(stop) ? json_string_value(stop) : "");
  TRI_TRY_DONE(take_text(object, "prompt", &out->prompt));
  TRI_TRY_DONE(take_text(object, "response", &out->response));
  TRI_TRY_DONE(take_text(object, "answer", &out->answer));
done:
  if (st != TRI_OK) free_sample(out);
  return st;
}

/* Returns the place of s in a list sorted by falling sign * reward, or -1 for none. Each prompt is in the
 * list once. *last is the place of the sample to remove. */
static int place_in(const tri_sample *list, int n, const tri_sample *s, int sign, int *last) {
  int at = 0;

  *last = n;
  while (at < n && sign * list[at].reward >= sign * s->reward) {
    if (s->prompt_id >= 0 && list[at].prompt_id == s->prompt_id) return -1;
    at++;
  }
  for (int i = at; i < n; i++)
    if (s->prompt_id >= 0 && list[i].prompt_id == s->prompt_id) *last = i;
  if (*last == TRI_SAMPLES) *last = TRI_SAMPLES - 1;
  return at < TRI_SAMPLES ? at : -1;
}

static tri_status offer(tri_sample *list, int *n, const json_t *object, const tri_sample *known, int sign) {
  int        last, at = place_in(list, *n, known, sign, &last);
  tri_sample taken;

  if (at < 0) return TRI_OK;
  TRI_TRY(take_sample(object, known, &taken));
  if (last < *n)
    free_sample(&list[last]);
  else
    ++*n;
  memmove(&list[at + 1], &list[at], (size_t)(last - at) * sizeof *list);
  list[at] = taken;
  return TRI_OK;
}

static tri_status take_line(const json_t *object, int64_t line, tri_samples *s) {
  const json_t *reward = json_object_get(object, "reward"), *id = json_object_get(object, "prompt_id");
  tri_sample    known = {.line = line, .prompt_id = json_is_integer(id) ? json_integer_value(id) : -1};

  if (!json_is_number(reward) || json_is_true(json_object_get(object, "filler")))
    return TRI_OK; /* not trained on */
  known.reward = json_number_value(reward);
  s->n++;
  TRI_TRY(offer(s->best, &s->n_best, object, &known, 1));
  return offer(s->worst, &s->n_worst, object, &known, -1);
}

static tri_status read_lines(tri_jsonl *r, tri_samples *s) {
  json_t *object;

  for (;;) {
    tri_status st = tri_jsonl_next(r, &object);
    if (st == TRI_EINPUT && ++s->n_bad < BAD_LINES) {
      tri_error_clear();
      continue;
    }
    if (st != TRI_OK || !object) return st;
    TRI_TRY(take_line(object, tri_jsonl_taken(r), s));
  }
}

/* Removes from the worst the answers that are also among the best, as happens with few answers. */
static void part(tri_samples *s) {
  int n = 0;

  for (int i = 0; i < s->n_worst; i++) {
    bool is_best = false;
    for (int k = 0; k < s->n_best; k++) is_best |= s->best[k].line == s->worst[i].line;
    if (is_best)
      free_sample(&s->worst[i]);
    else
      s->worst[n++] = s->worst[i];
  }
  s->n_worst = n;
}

tri_status tri_samples_read(const char *folder, tri_samples *out) {
  char        path[PATH_BYTES];
  struct stat sb;
  tri_jsonl  *r = NULL;
  tri_status  st;

  *out = (tri_samples){.step = find_newest(folder, path)};
  if (out->step < 0) return TRI_OK;
  out->is_cut = !stat(path, &sb) && sb.st_size > READ_BYTES;
  st = tri_jsonl_open_part(path, 0, READ_BYTES, &r);
  if (st == TRI_OK) st = read_lines(r, out);
  if (r) tri_jsonl_close(&r);
  part(out);
  if (st != TRI_EINPUT && st != TRI_EFILE) return st;
  tri_error_clear(); /* a report without answers is better than none */
  out->n_bad += out->n == 0;
  return TRI_OK;
}
