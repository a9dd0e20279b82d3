/* dataset_cure.c - refuses unusable answers and labels, with the value found and a cure. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/visible.h"
#include "line_parser.h"
#include "io/text/rewrite.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { FOUND_BYTES = 96, CURE_BYTES = 256 }; /* chosen for a text in a message, and for a path in jq */

/* Writes a field's name or path for jq, such as .answer or .extra.answer. Returns NULL if it needs
 * quoting. */
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

/* A command that rewrites the file. */
typedef struct cure {
  char     said[CURE_BYTES]; /* a clause, empty if rewriting does not help */
  tri_text command;          /* a shell command, and how to use its file */
} cure;

/* Makes the clause "; this DOES:" and the command. The field's path replaces each % of the filter. Makes
 * nothing if the path needs quoting or `does` is NULL. */
static tri_status rewrite(const tri_line_parser *in, const char *key, const char *filter, const char *does,
                          cure *out) {
  char        path[CURE_BYTES];
  const char *at = does ? jq_path(key, path) : NULL;
  tri_text    jq = {0};
  tri_status  st = TRI_OK;

  if (!at) return TRI_OK;
  TRI_TRY_DONE(tri_text_printf(&jq, "jq -c '"));
  for (const char *f = filter; *f; f++)
    TRI_TRY_DONE(tri_text_printf(&jq, "%.*s", *f == '%' ? (int)strlen(at) : 1, *f == '%' ? at : f));
  TRI_TRY_DONE(tri_text_printf(&jq, "'"));
  TRI_TRY_DONE(tri_rewrite_put(tri_jsonl_path(in->r), jq.data, tri_line_parser_file_key(in), &out->command));
  snprintf(out->said, sizeof out->said, "; this %s:", does);
done:
  tri_text_free(&jq);
  return st;
}

/* Ends a line's message, which has the cure's clause, with the command. */
static tri_status close_with(cure *c, tri_status st) {
  if (c->command.len) tri_error_lines(c->command.data);
  tri_text_free(&c->command);
  return st;
}

/* Like TRI_FAIL_LINE, but gives the status to the caller. */
#define FAIL_LINE(in, fmt, ...)                                                                              \
  tri_fail(__FILE__, __LINE__, __func__, TRI_EINPUT, "%s:%lld: " fmt, tri_jsonl_path((in)->r),               \
           (long long)tri_jsonl_line((in)->r), __VA_ARGS__)

/* Writes the text in quotes, and shortens a long one. */
static const char *found(const char *text, size_t n, char out[FOUND_BYTES]) {
  size_t used = 1;

  out[0] = '"';
  used += tri_visible(text, n, "", out + 1, FOUND_BYTES - 5);
  snprintf(out + used, FOUND_BYTES - used, used - 1 < n ? "...\"" : "\"");
  return out;
}

static const char *answer_key_key(const tri_line_parser *in) {
  return in->opt->from_deck ? "data.answer_key" : "--answer-key";
}

static tri_status refuse_object(const tri_line_parser *in, const json_t *answer) {
  const char *name, *first = NULL;
  json_t     *value;

  json_object_foreach((json_t *)answer, name,
                      value) if (!first && !strchr(name, '.') && strlen(name) < FOUND_BYTES &&
                                 (json_is_string(value) || json_is_number(value))) first = name;
  if (!first)
    TRI_FAIL_LINE(in, "`%s` is an object, but must be text or a number; set %s", in->answer_key,
                  answer_key_key(in));
  TRI_FAIL_LINE(in, "`%s` is an object, but must be text or a number; set %s, for example to %s.%s",
                in->answer_key, answer_key_key(in), in->answer_key, first);
}

tri_status tri_line_parser_refuse_answer(const tri_line_parser *in, const json_t *answer) {
  const char *key = in->answer_key;
  cure        c = {.said = ""};

  if (json_is_object(answer)) return refuse_object(in, answer);
  if (json_is_null(answer)) {
    TRI_TRY(rewrite(in, key, "select(% != null)", "leaves such lines out", &c));
    return close_with(&c, FAIL_LINE(in, "`%s` is null, so the line has no right answer; set %s%s", key,
                                    answer_key_key(in), c.said));
  }
  if (json_is_boolean(answer)) {
    TRI_TRY(
        rewrite(in, key, "% |= if type == \"boolean\" then tostring else . end", "writes it as text", &c));
    return close_with(&c, FAIL_LINE(in, "`%s` is %s, but must be text or a number%s", key,
                                    json_is_true(answer) ? "true" : "false", c.said));
  }
  TRI_TRY(rewrite(in, key, "% |= if type == \"array\" then .[0] else . end",
                  json_array_size(answer) ? "takes its first item" : NULL, &c));
  return close_with(&c, FAIL_LINE(in, "`%s` is a list of %zu, but must be text or a number%s", key,
                                  json_array_size(answer), c.said));
}

tri_status tri_line_parser_refuse_truth(const tri_line_parser *in, const char *text, size_t n,
                                        const char *why) {
  char quoted[FOUND_BYTES];
  bool blank = strspn(text, " \t\r\n") >= n;
  cure c = {.said = ""};

  TRI_TRY(rewrite(in, in->answer_key, "select(% | tostring | test(\"\\\\S\"))",
                  blank ? "leaves such lines out" : NULL, &c));
  return close_with(&c, FAIL_LINE(in, "`%s` = %s %s; write the right answer there, or set %s%s",
                                  in->answer_key, found(text, n, quoted), why, answer_key_key(in), c.said));
}

/* Converts texts true, false, 1 or 0. jq leaves any other label as text, which is refused again. */
static tri_status cure_text_label(const tri_line_parser *in, const char *text, cure *out) {
  static const char filter[] = "% |= (tostring | ascii_downcase | if IN(\"true\", \"1\") then true "
                               "elif IN(\"false\", \"0\") then false else . end)";

  if (strcasecmp(text, "true") && strcasecmp(text, "false") && strcmp(text, "1") && strcmp(text, "0"))
    return TRI_OK;
  return rewrite(in, in->label_key, filter, "writes such texts as true and false", out);
}

tri_status tri_line_parser_refuse_label(const tri_line_parser *in, const json_t *label) {
  char        quoted[FOUND_BYTES];
  size_t      n = 0;
  const char *raw = tri_jsonl_raw(in->r, in->label_key, &n);
  const char *text = json_string_value(label), *kind = json_is_null(label) ? "null" : "a list or an object";
  cure        c = {.said = ""};

  if (text) {
    TRI_TRY(cure_text_label(in, text, &c));
    return close_with(&c, FAIL_LINE(in, "`%s` is the text %s, but must be true or false, or 1 or 0%s",
                                    in->label_key, found(text, json_string_length(label), quoted), c.said));
  }
  if (json_is_number(label)) {
    TRI_TRY(rewrite(in, in->label_key, "% |= if type == \"number\" then . > 0 else . end",
                    "makes numbers above 0 true", &c));
    return close_with(&c, FAIL_LINE(in, "`%s` = %.*s, but must be true or false, or 1 or 0%s", in->label_key,
                                    (int)(n < 32 ? n : 32), raw, c.said));
  }
  TRI_TRY(rewrite(in, in->label_key, "select(% != null)",
                  json_is_null(label) ? "leaves such lines out" : NULL, &c));
  return close_with(
      &c, FAIL_LINE(in, "`%s` is %s, but must be true or false, or 1 or 0%s", in->label_key, kind, c.said));
}
