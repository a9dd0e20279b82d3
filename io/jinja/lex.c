/* lex.c - splits a template into tokens, with trim_blocks and lstrip_blocks for whitespace around tags. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/jinja/lex.h"

#include <string.h>

#include "base/host_memory.h"
#include "base/visible.h"

#define TRI_X(name, text) [TRI_JT_##name] = text,
static const char *const token_text[] = {TRI_JTOKEN_LIST(TRI_X)};
#undef TRI_X

const char *tri_jtoken_text(tri_jtoken_kind kind) { return token_text[kind]; }

void tri_jlex_close(tri_jlexer *l) { TRI_FREE(l->bracket); }

/* Returns the length of the whitespace character (Python's str.isspace) at the start of s [n], or 0. */
static size_t space_length(const char *s, size_t n) {
  unsigned char c = n ? (unsigned char)s[0] : 0, d = n > 1 ? (unsigned char)s[1] : 0,
                e = n > 2 ? (unsigned char)s[2] : 0;

  if ((c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20)) return 1;
  if (c == 0xC2) return d == 0x85 || d == 0xA0 ? 2 : 0;
  if (c == 0xE1) return d == 0x9A && e == 0x80 ? 3 : 0;
  if (c == 0xE2 && d == 0x80) return (e >= 0x80 && e <= 0x8A) || e == 0xA8 || e == 0xA9 || e == 0xAF ? 3 : 0;
  if (c == 0xE2) return d == 0x81 && e == 0x9F ? 3 : 0;
  return c == 0xE3 && d == 0x80 && e == 0x80 ? 3 : 0;
}

/* Returns the length of s [n] without whitespace at its end. */
static size_t stripped_length(const char *s, size_t n) {
  for (;;) {
    size_t cut = 0;
    for (size_t k = 1; k <= 3 && k <= n && !cut; k++)
      if (space_length(s + n - k, k) == k) cut = k;
    if (!cut) return n;
    n -= cut;
  }
}

static size_t skip_space(const tri_jlexer *l, size_t at) {
  size_t k;

  while ((k = space_length(l->s + at, l->n - at)) > 0) at += k;
  return at;
}

static bool stands_at(const tri_jlexer *l, size_t at, const char *word) {
  size_t n = strlen(word);

  return l->n - at >= n && !memcmp(l->s + at, word, n);
}

/* Moves to byte `to` and counts the lines. */
static void move_to(tri_jlexer *l, size_t to) {
  const char *p = l->s + l->at, *end = l->s + to;

  while (p < end && (p = memchr(p, '\n', (size_t)(end - p))) != NULL) p++, l->line++;
  l->at = to;
}

/* Returns the place behind "+%}", "-%}" and whitespace, or "%}" and a newline, if one of them stands at
 * `at`; else 0. mark is '%' or '#'. */
static size_t tag_end(const tri_jlexer *l, size_t at, char mark) {
  char   word[3] = {mark, '}', 0};
  char   sign = at < l->n ? l->s[at] : 0;
  size_t end;

  if ((sign == '+' || sign == '-') && stands_at(l, at + 1, word)) {
    end = at + 3;
    return sign == '-' ? skip_space(l, end) : end;
  }
  if (!stands_at(l, at, word)) return 0;
  end = at + 2;
  return end < l->n && l->s[end] == '\n' ? end + 1 : end;
}

/* Returns the end of the text before a tag, begin .. end - 1, without the whitespace that the tag removes.
 * The sign '-' removes all of it. Without a sign {% and {# remove the spaces between the start of their
 * line and themselves. */
static size_t text_end(const tri_jlexer *l, size_t begin, size_t end, char sign, bool variable) {
  const char *s = l->s + begin;
  size_t      n = end - begin, kept;

  if (sign == '-') return begin + stripped_length(s, n);
  if (sign == '+' || variable) return end;
  for (kept = n; kept && s[kept - 1] != '\n';) kept--;
  if (!kept && !l->line_starting) return end;
  return stripped_length(s + kept, n - kept) == 0 ? begin + kept : end;
}

static void give_text(const tri_jlexer *l, int line, size_t begin, size_t end, tri_jtoken *out) {
  *out = (tri_jtoken){.kind = TRI_JT_DATA, .line = line, .value = tri_jtext(l->s + begin, end - begin)};
}

/* Skips a comment. l->at is after "{#" and its sign. */
static tri_status skip_comment(tri_jlexer *l) {
  size_t at = l->at, end = 0;

  if (at == l->n) return TRI_OK; /* Jinja accepts this */
  for (; at < l->n && !end; at++) {
    const char *mark = memchr(l->s + at, '#', l->n - at);
    if (!mark) break;
    at = (size_t)(mark - l->s);
    if (at > l->at && (mark[-1] == '-' || mark[-1] == '+')) end = tag_end(l, at - 1, '#');
    if (!end) end = tag_end(l, at, '#');
  }
  if (!end) TRI_JFAIL(l->line, "Missing end of comment tag");
  l->line_starting = l->s[end - 1] == '\n';
  move_to(l, end);
  return TRI_OK;
}

/* Returns the end of the "{% raw %}" that begins at `at`, or 0. */
static size_t raw_begin(const tri_jlexer *l, size_t at) {
  at += 2;
  if (at < l->n && (l->s[at] == '-' || l->s[at] == '+')) at++;
  at = skip_space(l, at);
  if (!stands_at(l, at, "raw")) return 0;
  at = skip_space(l, at + 3);
  if (stands_at(l, at, "-%}")) return skip_space(l, at + 3);
  return stands_at(l, at, "%}") ? at + 2 : 0;
}

/* Returns the end of the "{% endraw %}" that begins at `at`, or 0. */
static size_t raw_end(const tri_jlexer *l, size_t at, char *sign) {
  at += 2;
  *sign = at < l->n && (l->s[at] == '-' || l->s[at] == '+') ? l->s[at] : 0;
  if (*sign) at++;
  at = skip_space(l, at);
  if (!stands_at(l, at, "endraw")) return 0;
  return tag_end(l, skip_space(l, at + 6), '%');
}

static tri_status read_raw(tri_jlexer *l, tri_jtoken *out, bool *found) {
  size_t begin = l->at, at = begin, end = 0, text;
  int    line = l->line;
  char   sign = 0;

  if (at == l->n) return TRI_OK; /* Jinja accepts this */
  for (; at < l->n && !end; at++) {
    const char *mark = memchr(l->s + at, '{', l->n - at);
    if (!mark) break;
    at = (size_t)(mark - l->s);
    if (stands_at(l, at, "{%")) end = raw_end(l, at, &sign);
  }
  if (!end) TRI_JFAIL(line, "Missing end of raw directive");
  text = text_end(l, begin, at - 1, sign, false);
  l->line_starting = l->s[end - 1] == '\n';
  move_to(l, end);
  *found = text > begin;
  give_text(l, line, begin, text, out);
  return TRI_OK;
}

/* Returns the place of the first "{{", "{%" or "{#" from `at` on, or the end. */
static size_t find_tag(const tri_jlexer *l, size_t at) {
  for (; at < l->n; at++) {
    const char *mark = memchr(l->s + at, '{', l->n - at);
    if (!mark) break;
    at = (size_t)(mark - l->s);
    if (at + 1 < l->n && strchr("{%#", l->s[at + 1]) && l->s[at + 1]) return at;
  }
  return l->n;
}

/* Reads the text up to the next tag, and the begin of that tag. *found: *out is a token. */
static tri_status read_root(tri_jlexer *l, tri_jtoken *out, bool *found) {
  size_t begin = l->at, at = find_tag(l, begin), text, raw = 0;
  int    line = l->line;
  char   kind = at < l->n ? l->s[at + 1] : 0, sign = at + 2 < l->n ? l->s[at + 2] : 0;

  if (!kind) {
    move_to(l, l->n);
    *found = true;
    if (at > begin)
      give_text(l, line, begin, at, out);
    else
      *out = (tri_jtoken){.kind = TRI_JT_EOF, .line = line};
    return TRI_OK;
  }
  if (sign != '-' && sign != '+') sign = 0;
  text = text_end(l, begin, at, sign, kind == '{');
  if (kind == '%') raw = raw_begin(l, at);
  move_to(l, raw ? raw : at + 2 + (sign != 0));
  l->line_starting = raw && l->s[raw - 1] == '\n';
  if (text > begin) give_text(l, line, begin, text, out), *found = true;
  if (kind == '#') return skip_comment(l);
  if (raw) {
    if (!*found) return read_raw(l, out, found);
    return read_raw(l, &l->pending, &l->has_pending);
  }
  l->state = kind == '{' ? TRI_JLEX_VARIABLE : TRI_JLEX_BLOCK;
  l->pending =
      (tri_jtoken){.kind = kind == '{' ? TRI_JT_VARIABLE_BEGIN : TRI_JT_BLOCK_BEGIN, .line = l->line};
  if (*found)
    l->has_pending = true;
  else
    *out = l->pending, *found = true;
  return TRI_OK;
}

/* Reads the end of the tag, if it is here and no bracket is open. */
static bool read_tag_end(tri_jlexer *l, tri_jtoken *out) {
  bool   variable = l->state == TRI_JLEX_VARIABLE;
  size_t end = 0;

  if (l->n_bracket) return false;
  if (!variable)
    end = tag_end(l, l->at, '%');
  else if (stands_at(l, l->at, "-}}"))
    end = skip_space(l, l->at + 3);
  else if (stands_at(l, l->at, "}}"))
    end = l->at + 2;
  if (!end) return false;
  *out = (tri_jtoken){.kind = variable ? TRI_JT_VARIABLE_END : TRI_JT_BLOCK_END, .line = l->line};
  l->line_starting = l->s[end - 1] == '\n';
  l->state = TRI_JLEX_ROOT;
  move_to(l, end);
  return true;
}

static tri_status keep_balance(tri_jlexer *l, char c) {
  char close = c == '(' ? ')' : c == '[' ? ']' : c == '{' ? '}' : 0;

  if (close) {
    TRI_TRY(TRI_GROW(l->bracket, l->cap_bracket, l->n_bracket + 1));
    l->bracket[l->n_bracket++] = close;
  } else if (c == ')' || c == ']' || c == '}') {
    if (!l->n_bracket) TRI_JFAIL(l->line, "unexpected '%c'", c);
    if (l->bracket[--l->n_bracket] != c)
      TRI_JFAIL(l->line, "unexpected '%c', expected '%c'", c, l->bracket[l->n_bracket]);
  }
  return TRI_OK;
}

static tri_status read_operator(tri_jlexer *l, tri_jtoken *out) {
  const char *s = l->s + l->at;

  for (int kind = TRI_JT_FLOORDIV; kind < TRI_JT_COUNT; kind++)
    if (stands_at(l, l->at, token_text[kind])) {
      TRI_TRY(keep_balance(l, token_text[kind][0]));
      *out = (tri_jtoken){.kind = (tri_jtoken_kind)kind, .line = l->line};
      l->at += strlen(token_text[kind]);
      return TRI_OK;
    }
  if ((unsigned char)s[0] >= 0x80)
    TRI_JFAIL(l->line, "unexpected char '%.*s'. Names may have ASCII letters, digits and _",
              (int)tri_character(s, l->n - l->at), s);
  TRI_JFAIL(l->line, "unexpected char '%c'", s[0]);
}

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Returns the place after the string that begins at `at`. 0: it does not end. */
static size_t string_end(const tri_jlexer *l, size_t at) {
  char quote = l->s[at];

  for (at++; at < l->n && l->s[at] != quote; at++)
    if (l->s[at] == '\\') at++;
  return at < l->n ? at + 1 : 0;
}

/* Reads a token inside a tag. */
static tri_status read_inside(tri_jlexer *l, tri_jtoken *out) {
  const char *s;
  size_t      left, n;
  bool        real;

  if (read_tag_end(l, out)) return TRI_OK;
  move_to(l, skip_space(l, l->at));
  if (read_tag_end(l, out)) return TRI_OK;
  s = l->s + l->at;
  left = l->n - l->at;
  *out = (tri_jtoken){.kind = TRI_JT_EOF, .line = l->line};
  if (!left) return TRI_OK;
  n = l->at && s[-1] == '.' ? 0 : tri_jlex_float_length(s, left);
  real = n > 0;
  if (!n) n = tri_jlex_integer_length(s, left);
  if (n) {
    out->kind = real ? TRI_JT_FLOAT : TRI_JT_INTEGER;
    l->at += n;
    return tri_jlex_number(l->line, s, n, real, &out->value);
  }
  while (n < left && is_word(s[n])) n++;
  if (n) {
    out->kind = TRI_JT_NAME;
    l->at += n;
    return tri_jtree_name(l->tree, s, n, &out->name);
  }
  if ((s[0] == '\'' || s[0] == '"') && (n = string_end(l, l->at)) > 0) {
    out->kind = TRI_JT_STRING;
    n -= l->at;
    TRI_TRY(tri_jlex_string(l->tree, l->line, s + 1, n - 2, &out->value));
    move_to(l, l->at + n);
    return TRI_OK;
  }
  return read_operator(l, out);
}

tri_status tri_jlex_next(tri_jlexer *l, tri_jtoken *out) {
  bool found = false;

  if (l->has_pending) {
    l->has_pending = false;
    *out = l->pending;
    return TRI_OK;
  }
  if (l->state != TRI_JLEX_ROOT) return read_inside(l, out);
  while (!found) TRI_TRY(read_root(l, out, &found));
  return TRI_OK;
}
