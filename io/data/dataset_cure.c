/* dataset_cure.c - answers and labels that cannot be used: what was found, and what to do. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/visible.h"
#include "dataset_line.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { FOUND_BYTES = 96, CURE_BYTES = 256 }; /* chosen: of a text in a message, of a line for jq */

/* A field's name or path as jq writes it: .answer, .extra.answer; NULL where it would need quoting. */
static const char *jq_path(const char *key, char out[CURE_BYTES]) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  static const char all[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  const char       *s = key;

  for (;; s++) {
    if (!*s || !strchr(letters, *s)) return NULL;
    s += strspn(s, all);
    if (!*s) break;
    if (*s != '.') return NULL;
  }
  return snprintf(out, CURE_BYTES, ".%s", key) < CURE_BYTES ? out : NULL;
}

/* "; jq -c 'FILTER' FILE >NEW DOES", with the field's path in place of each % of the filter; "" where the
 * path needs quoting. */
static const char *jq_line(const char *key, const char *filter, const char *does, char out[CURE_BYTES]) {
  char        path[CURE_BYTES];
  size_t      n = 0;
  const char *at = jq_path(key, path);

  *out = 0;
  if (!at) return out;
  n = (size_t)snprintf(out, CURE_BYTES, "; jq -c '");
  for (const char *f = filter; *f && n < CURE_BYTES; f++)
    n += (size_t)snprintf(out + n, CURE_BYTES - n, "%.*s", *f == '%' ? (int)strlen(at) : 1,
                          *f == '%' ? at : f);
  if (n < CURE_BYTES) n += (size_t)snprintf(out + n, CURE_BYTES - n, "' FILE >NEW %s", does);
  if (n >= CURE_BYTES) *out = 0;
  return out;
}

/* The text in quotes, cut where it is long. */
static const char *found(const char *text, size_t n, char out[FOUND_BYTES]) {
  size_t used = 1;

  out[0] = '"';
  used += tri_visible(text, n, "", out + 1, FOUND_BYTES - 5);
  snprintf(out + used, FOUND_BYTES - used, used - 1 < n ? "...\"" : "\"");
  return out;
}

static const char *answer_key_key(const tri_intake *in) {
  return in->opt->from_deck ? "data.answer_key" : "--answer-key";
}

static tri_status refuse_object(const tri_intake *in, const json_t *answer) {
  const char *name, *first = NULL;
  json_t     *value;

  json_object_foreach((json_t *)answer, name,
                      value) if (!first && !strchr(name, '.') && strlen(name) < FOUND_BYTES &&
                                 (json_is_string(value) || json_is_number(value))) first = name;
  if (!first)
    TRI_FAIL_LINE(in, "`%s` is an object: must be text or a number; set %s", in->answer_key,
                  answer_key_key(in));
  TRI_FAIL_LINE(in, "`%s` is an object: must be text or a number; set %s, to %s.%s where that is meant",
                in->answer_key, answer_key_key(in), in->answer_key, first);
}

tri_status tri_intake_refuse_answer(const tri_intake *in, const json_t *answer) {
  char cure[CURE_BYTES];

  if (json_is_object(answer)) return refuse_object(in, answer);
  if (json_is_null(answer))
    TRI_FAIL_LINE(in, "`%s` is null, so the line has no right answer; set %s%s", in->answer_key,
                  answer_key_key(in),
                  jq_line(in->answer_key, "select(% != null)", "leaves such lines out", cure));
  if (json_is_boolean(answer))
    TRI_FAIL_LINE(in, "`%s` is %s: must be text or a number%s", in->answer_key,
                  json_is_true(answer) ? "true" : "false",
                  jq_line(in->answer_key, "% |= if type == \"boolean\" then tostring else . end",
                          "writes it as text", cure));
  TRI_FAIL_LINE(
      in, "`%s` is a list of %zu: must be text or a number%s", in->answer_key, json_array_size(answer),
      json_array_size(answer)
          ? jq_line(in->answer_key, "% |= if type == \"array\" then .[0] else . end", "takes its first", cure)
          : "");
}

tri_status tri_intake_refuse_truth(const tri_intake *in, const char *text, size_t n, const char *why) {
  char cure[CURE_BYTES], quoted[FOUND_BYTES];
  bool blank = strspn(text, " \t\r\n") >= n;

  TRI_FAIL_LINE(
      in, "`%s` = %s %s; write the right answer there, or set %s%s", in->answer_key, found(text, n, quoted),
      why, answer_key_key(in),
      blank ? jq_line(in->answer_key, "select(% | tostring | test(\"\\\\S\"))", "leaves such lines out", cure)
            : "");
}

/* A text may say true, false, 1 or 0. jq leaves any other label a text, which is refused again. */
static const char *text_label_cure(const char *key, const char *text, char out[CURE_BYTES]) {
  static const char filter[] = "% |= (tostring | ascii_downcase | if IN(\"true\", \"1\") then true "
                               "elif IN(\"false\", \"0\") then false else . end)";

  *out = 0;
  if (strcasecmp(text, "true") && strcasecmp(text, "false") && strcmp(text, "1") && strcmp(text, "0"))
    return out;
  return jq_line(key, filter, "writes such texts as true and false", out);
}

tri_status tri_intake_refuse_label(const tri_intake *in, const json_t *label) {
  char        quoted[FOUND_BYTES], cure[CURE_BYTES];
  size_t      n = 0;
  const char *raw = tri_jsonl_raw(in->r, in->label_key, &n);
  const char *text = json_string_value(label), *kind = json_is_null(label) ? "null" : "a list or an object";

  if (text)
    TRI_FAIL_LINE(in, "`%s` is the text %s: must be true or false, or 1 or 0%s", in->label_key,
                  found(text, json_string_length(label), quoted), text_label_cure(in->label_key, text, cure));
  if (json_is_number(label))
    TRI_FAIL_LINE(in, "`%s` = %.*s: must be true or false, or 1 or 0%s", in->label_key,
                  (int)(n < 32 ? n : 32), raw,
                  jq_line(in->label_key, "% |= if type == \"number\" then . > 0 else . end",
                          "makes numbers above 0 true", cure));
  TRI_FAIL_LINE(
      in, "`%s` is %s: must be true or false, or 1 or 0%s", in->label_key, kind,
      json_is_null(label) ? jq_line(in->label_key, "select(% != null)", "leaves such lines out", cure) : "");
}
