/* columns.c - numbers and text formatted to a width for people. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "columns.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- cells ---- */

/* Fills the cell of a value that does not fit at all. */
static void put_too_long(int width, char *out) {
  memset(out, '#', (size_t)width);
  out[width] = 0;
}

static bool fits(const char *text, int width) { return strlen(text) <= (size_t)width; }

/* Turns 1.2e-05 into 1.2e-5. */
static void strip_exponent(char *text) {
  char *e = strchr(text, 'e'), *digits = e ? e + 1 : NULL, *from;

  if (!e) return;
  if (*digits == '+') memmove(digits, digits + 1, strlen(digits));
  if (*digits == '-') digits++;
  for (from = digits; *from == '0' && from[1]; from++) {
  }
  memmove(digits, from, strlen(from) + 1);
}

static void put_exponent(double x, int width, char out[TRI_CELL_BYTES]) {
  for (int digits = 2; digits >= 0; digits--) {
    snprintf(out, TRI_CELL_BYTES, "%.*e", digits, x);
    strip_exponent(out);
    if (fits(out, width)) return;
  }
  if (fabs(x) < 1)
    snprintf(out, TRI_CELL_BYTES, x < 0 ? "-0" : "0");
  else
    put_too_long(width, out);
}

/* Formats with at most `digits` decimals. False: it is too long, or would show a small number as 0. */
static bool put_decimals(double x, int digits, int width, char out[TRI_CELL_BYTES]) {
  if (fabs(x) >= 1e15 || (x != 0 && fabs(x) < 1e-3)) return false;
  for (; digits >= 0; digits--) {
    snprintf(out, TRI_CELL_BYTES, "%.*f", digits, x + 0.0); /* -0 becomes 0 */
    if (fits(out, width)) return x == 0 || strpbrk(out, "123456789");
  }
  return false;
}

void tri_cell_number(double x, int width, char out[TRI_CELL_BYTES]) {
  if (!isfinite(x))
    snprintf(out, TRI_CELL_BYTES, "%s", isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
  else if (!put_decimals(x, 4, width, out))
    put_exponent(x, width, out);
}

void tri_cell_digits(double x, int width, char out[TRI_CELL_BYTES]) {
  snprintf(out, TRI_CELL_BYTES, "%.3g", x);
  strip_exponent(out);
  if (!fits(out, width)) tri_cell_number(x, width, out);
}

void tri_cell_count(double x, int width, char out[TRI_CELL_BYTES]) {
  static const char unit[] = "kMGTP";

  if (!isfinite(x) || x < 0) {
    tri_cell_number(x, width, out);
    return;
  }
  if (x < 1e15) {
    snprintf(out, TRI_CELL_BYTES, "%.*f", x < 10 && x != floor(x) ? 1 : 0, x);
    if (fits(out, width)) return;
  }
  for (int i = 0; unit[i]; i++) {
    x /= 1000;
    if (x >= 1000) continue;
    snprintf(out, TRI_CELL_BYTES, "%.*f%c", x < 100 && x != floor(x) ? 1 : 0, x, unit[i]);
    if (fits(out, width)) return;
    snprintf(out, TRI_CELL_BYTES, "%.0f%c", x, unit[i]);
    if (fits(out, width)) return;
  }
  put_too_long(width, out);
}

void tri_cell_share(double x, int width, char out[TRI_CELL_BYTES]) {
  double percent = 100 * x;

  if (!isfinite(x)) {
    tri_cell_number(x, width, out);
    return;
  }
  snprintf(out, TRI_CELL_BYTES, "%.*f%%", percent > 0 && percent < 9.95 ? 1 : 0, percent);
  if (!fits(out, width)) put_too_long(width, out);
}

void tri_cell_steps(int64_t step, int64_t steps, int width, char out[TRI_CELL_BYTES]) {
  char done[TRI_CELL_BYTES], all[TRI_CELL_BYTES];

  snprintf(out, TRI_CELL_BYTES, "%lld/%lld", (long long)step, (long long)steps);
  if (fits(out, width)) return;
  tri_cell_count((double)steps, 4, all);
  snprintf(out, TRI_CELL_BYTES, "%lld/%s", (long long)step, all);
  if (fits(out, width)) return;
  tri_cell_count((double)step, 4, done);
  snprintf(out, TRI_CELL_BYTES, "%.10s/%.10s", done, all);
  if (!fits(out, width)) put_too_long(width, out);
}

void tri_cell_bytes(int64_t n, char out[TRI_CELL_BYTES]) {
  static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double                   x = (double)n;
  int                      i = 0;

  for (; x >= 1023.5; i++) x /= 1024;
  snprintf(out, TRI_CELL_BYTES, "%.*f %s", i && x < 9.995 ? 2 : i && x < 99.95 ? 1 : 0, x, unit[i]);
}

void tri_cell_memory(size_t n, char out[TRI_CELL_BYTES]) {
  bool small = (double)n < 1023.95 * 0x1p20; /* a larger one would show 1024.0 MiB */

  snprintf(out, TRI_CELL_BYTES, small ? "%.1f MiB" : "%.3f GiB", (double)n / (small ? 0x1p20 : 0x1p30));
}

void tri_cell_duration(double s, char out[TRI_CELL_BYTES]) {
  long long n = isfinite(s) && s > 0 ? (long long)(s < 1e12 ? s : 1e12) : 0, minutes = n / 60,
            hours = n / 3600, days = n / 86400;

  if (n < 60)
    snprintf(out, TRI_CELL_BYTES, "%llds", n);
  else if (hours < 1)
    snprintf(out, TRI_CELL_BYTES, "%lldm%02llds", minutes, n % 60);
  else if (hours < 100)
    snprintf(out, TRI_CELL_BYTES, "%lldh%02lldm", hours, minutes % 60);
  else if (days < 100)
    snprintf(out, TRI_CELL_BYTES, "%lldd%02lldh", days, hours % 24);
  else
    snprintf(out, TRI_CELL_BYTES, "%lldd", days < 99999 ? days : 99999);
}

/* ---- tables ---- */

void tri_columns_fit(tri_column *c, int n, int most) {
  for (;;) {
    int total = n - 1, giver = 0;
    for (int i = 0; i < n; i++) {
      total += c[i].width;
      if (c[i].width - c[i].least > c[giver].width - c[giver].least) giver = i;
    }
    if (total <= most || c[giver].width <= c[giver].least) return;
    c[giver].width--;
  }
}

/* ---- text ---- */

/* Columns of the character that begins here. A byte inside a character has 0. Characters from U+0800 on are
 * usually wide. */
static int columns_of(char byte) {
  unsigned char b = (unsigned char)byte;

  return b >= 0x80 && b < 0xC0 ? 0 : b >= 0xE0 ? 2 : 1;
}

int tri_text_columns(const char *text, size_t n) {
  int columns = 0;

  for (size_t i = 0; i < n; i++) columns += columns_of(text[i]);
  return columns;
}

static bool inside_character(char byte) { return ((unsigned char)byte & 0xC0) == 0x80; }

void tri_text_shorten(const char *text, int width, char *out, size_t cap) {
  size_t n = strlen(text), head = 0, tail = n;
  int    space = width - 3, used = 0;

  if (tri_text_columns(text, n) <= width) {
    snprintf(out, cap, "%s", text);
    return;
  }
  /* A third is for the beginning, because the end of a path says more. */
  while (used + columns_of(text[head]) <= space / 3) used += columns_of(text[head++]);
  while (head < n && inside_character(text[head])) head++;
  for (size_t at = n; at > head; at--) {
    used += columns_of(text[at - 1]);
    if (used > space) break;
    if (!inside_character(text[at - 1])) tail = at - 1;
  }
  snprintf(out, cap, "%.*s...%s", (int)head, text, text + tail);
}

/* Bytes of the first line of text [n] in `width` columns, without the space after it. */
static size_t line_bytes(const char *text, size_t n, int width) {
  size_t space = 0, stop = 0, first = strspn(text, " "); /* no break after leading spaces */
  int    columns = 0;

  for (size_t i = 0; i < n; i++) {
    bool gap = text[i] == ' ' && i > first;
    if (gap && columns <= width) space = i;
    if (gap && columns <= width && columns > width / 2 && strchr(":;,", text[i - 1])) stop = i;
    columns += columns_of(text[i]);
    if (columns > width && space) return stop ? stop : space;
    if (columns > width && gap) return i;
  }
  return n;
}

tri_status tri_text_wrap(const char *text, int width, tri_text *out) {
  static const char indent[] = "    ";
  size_t            n_indent = 0;

  while (*text) {
    size_t all = strcspn(text, "\n");
    bool   is_command = !n_indent && strspn(text, " ") == sizeof indent - 1;
    size_t n = is_command ? all : line_bytes(text, all, width - (int)n_indent);
    size_t shown = n;
    while (n < all && shown && text[shown - 1] == ' ') shown--;
    TRI_TRY(tri_text_put(out, indent, n_indent));
    TRI_TRY(tri_text_put(out, text, shown));
    n_indent = n < all ? sizeof indent - 1 : 0;
    text += n;
    while (n_indent && *text == ' ') text++;
    if (*text == '\n') text++;
    if (*text) TRI_TRY(tri_text_put(out, "\n", 1));
  }
  return TRI_OK;
}

tri_status tri_text_line(const char *text, tri_text *out) {
  TRI_TRY(tri_text_wrap(text, TRI_SCREEN_COLUMNS, out));
  return out->len && out->data[out->len - 1] != '\n' ? tri_text_put(out, "\n", 1) : TRI_OK;
}

tri_status tri_text_put_word(tri_text *out, const char *word) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+,:@%=-";

  if (word[0] && strspn(word, plain) == strlen(word)) return tri_text_printf(out, "%s", word);
  TRI_TRY(tri_text_printf(out, "'"));
  for (; *word; word++) TRI_TRY(tri_text_put(out, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1));
  return tri_text_printf(out, "'");
}
