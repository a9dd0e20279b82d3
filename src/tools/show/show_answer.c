/* show_answer.c - reads one line of a file of answers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "show_answer.h"

#include <math.h>
#include <string.h>

static int64_t count(const tri_json_slice *list) {
  tri_json_walk  w;
  tri_json_slice key, value;
  int64_t        n = 0;

  if (!list->at || *list->at != '[' || !tri_json_walk_begin(list->at, list->n, &w)) return -1;
  while (tri_json_walk_next(&w, &key, &value)) n++;
  return n;
}

static int64_t whole(const tri_json_slice *value) {
  int64_t x;

  return tri_json_integer(value, &x) && x >= 0 ? x : -1;
}

static void take(tri_show_answer *a, const tri_json_slice *key, const tri_json_slice *value) {
  const struct {
    const char     *name;
    tri_json_slice *to;
  } text[] = {{"set", &a->set},      {"prompt", &a->prompt},     {"response", &a->response},
              {"answer", &a->right}, {"tokens", &a->token_list}, {"rewards", &a->rewards},
              {"stop", &a->stop}};
  const struct {
    const char *name;
    int64_t    *to;
  } integer[] = {{"prompt_id", &a->prompt_id}, {"sample", &a->sample}, {"prompt_tokens", &a->prompt_tokens}};

  for (size_t i = 0; i < sizeof text / sizeof *text; i++)
    if (tri_json_is_key(key, text[i].name) && value->n && strncmp(value->at, "null", 4)) *text[i].to = *value;
  for (size_t i = 0; i < sizeof integer / sizeof *integer; i++)
    if (tri_json_is_key(key, integer[i].name)) *integer[i].to = whole(value);
  if (tri_json_is_key(key, "reward")) a->reward = tri_json_number(value);
  if (tri_json_is_key(key, "advantage")) a->advantage = tri_json_number(value);
  if (tri_json_is_key(key, "filler")) a->filler = value->n == 4 && *value->at == 't';
  if (tri_json_is_key(key, "step")) a->has_step = true;
}

bool tri_show_read(const char *line, size_t n, tri_show_answer *out) {
  tri_json_walk  w;
  tri_json_slice key, value;

  *out = (tri_show_answer){.line = line,
                           .n = n,
                           .prompt_id = -1,
                           .sample = -1,
                           .tokens = -1,
                           .prompt_tokens = -1,
                           .reward = NAN,
                           .advantage = NAN};
  if (!tri_json_walk_begin(line, n, &w) || w.close != '}') return false;
  while (tri_json_walk_next(&w, &key, &value)) take(out, &key, &value);
  if (w.bad) return false;
  out->tokens = count(&out->token_list);
  if (out->tokens < 0) out->token_list = (tri_json_slice){0};
  return out->response.at || out->token_list.at;
}

bool tri_show_is_cut(const tri_show_answer *a) {
  return a->stop.n == sizeof "\"length\"" - 1 && !memcmp(a->stop.at, "\"length\"", a->stop.n);
}

int64_t tri_show_length(const tri_show_answer *a) {
  return a->tokens >= 0 && a->prompt_tokens >= 0 && a->prompt_tokens <= a->tokens
             ? a->tokens - a->prompt_tokens
             : -1;
}

static bool same(const tri_json_slice *a, const tri_json_slice *b) {
  return a->n == b->n && (!a->n || !memcmp(a->at, b->at, a->n));
}

bool tri_show_same_prompt(const tri_show_answer *a, const tri_show_answer *b) {
  tri_json_slice x, y;

  if (!same(&a->set, &b->set) || a->prompt_id != b->prompt_id) return false;
  if (a->prompt.at || b->prompt.at) return same(&a->prompt, &b->prompt);
  x = tri_show_tokens(a, true);
  y = tri_show_tokens(b, true);
  return same(&x, &y);
}

tri_json_slice tri_show_tokens(const tri_show_answer *a, bool of_prompt) {
  tri_json_walk  w;
  tri_json_slice key, value, out = {0};
  int64_t        i = 0, split = a->prompt_tokens > 0 ? a->prompt_tokens : 0;

  if (!a->token_list.at || !tri_json_walk_begin(a->token_list.at, a->token_list.n, &w)) return out;
  while (tri_json_walk_next(&w, &key, &value)) {
    if ((i++ < split) != of_prompt) continue;
    if (!out.at) out.at = value.at;
    out.n = (size_t)(value.at + value.n - out.at);
  }
  return out;
}
