/* tex_words.c - words in answers, in \text or in plain letters. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "tex_words.h"

#include <string.h>

/* ---- words ---- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* Returns the bytes of the command at i if it sets only type or space, else 0. */
static size_t type_command(tri_part t, size_t i) {
  static const char *const list[] = {"text",   "mbox",   "textbf", "textit",      "textrm",
                                     "mathrm", "mathbf", "mathit", "left",        "right",
                                     "boxed",  "quad",   "qquad",  "displaystyle"};
  size_t                   n = 0;

  while (i + 1 + n < t.n && is_letter(t.at[i + 1 + n])) n++;
  for (size_t j = 0; j < sizeof list / sizeof *list; j++)
    if (strlen(list[j]) == n && !memcmp(list[j], t.at + i + 1, n)) return n + 1;
  if (n || i + 1 == t.n || !t.at[i + 1]) return 0;
  return strchr(" ,;:!$", t.at[i + 1]) ? 2 : t.at[i + 1] == '%';
}

/* Returns the number of bytes to skip at i: space, brackets, dollars, full stops, commands for type. */
static size_t skipped(tri_part t, size_t i) {
  char c = t.at[i];

  if (c == '\\') return type_command(t, i);
  if (c == '.') return !(i > 0 && is_digit(t.at[i - 1]) && i + 1 < t.n && is_digit(t.at[i + 1]));
  return c && strchr(" \t\r\n{}()$~", c);
}

/* Returns the next character that is not skipped, from *i on, in lower case. Returns -1 at the end. */
static int next_character(tri_part t, size_t *i) {
  size_t n;
  char   c;

  while (*i < t.n && (n = skipped(t, *i))) *i += n;
  if (*i >= t.n) return -1;
  c = t.at[(*i)++];
  return (unsigned char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

bool tri_tex_words_equal(tri_part a, tri_part b) {
  size_t i = 0, j = 0;
  bool   any = false;

  for (;;) {
    int x = next_character(a, &i), y = next_character(b, &j);
    if (x != y) return false;
    if (x < 0) return any;
    any = true;
  }
}

/* ---- words of letters ---- */

/* Letters side by side, with or without spaces between, such as cat, ABC, Amy Lee, \angle ABC. */
typedef struct letters {
  tri_part text;
  bool     ordered; /* their order counts. cat is not act, but xyz is zyx */
  bool     spelled; /* they are words. Cat is cat, but ABC is not abc */
  bool     angle;   /* \angle precedes them */
} letters;

static bool is_capital(char c) { return c >= 'A' && c <= 'Z'; }
static char lower(char c) { return is_capital(c) ? (char)(c - 'A' + 'a') : c; }
static bool is_vowel(char c) { return c && strchr("aeiou", lower(c)); }
static bool find_letter(tri_part t, char c) { return memchr(t.at, c, t.n) != NULL; }

static int count_capitals(tri_part t) {
  int n = 0;

  for (size_t i = 0; i < t.n; i++) n += is_capital(t.at[i]);
  return n;
}

/* Tells whether the letters are consecutive in the alphabet, such as abc, xyz, cab. These name variables or
 * points. */
static bool are_neighbours(tri_part t) {
  unsigned seen = 0;

  for (size_t i = 0; i < t.n; i++) {
    unsigned bit = 1u << (lower(t.at[i]) - 'a');
    if (seen & bit) return false;
    seen |= bit;
  }
  while (!(seen & 1)) seen >>= 1;
  return !(seen & (seen + 1));
}

/* Tells whether letters without space between are a word. It has three or more letters with a vowel that are
 * not consecutive in the alphabet, or two letters with an o, because o names no variable. */
static bool is_word(tri_part t) {
  bool vowel = false;

  if (t.n == 2 && count_capitals(t) == 2) return find_letter(t, 'N') && find_letter(t, 'O'); /* NO, ON */
  if (t.n == 2) return lower(t.at[0]) == 'o' || lower(t.at[1]) == 'o';
  for (size_t i = 0; i < t.n; i++) vowel = vowel || is_vowel(t.at[i]);
  return t.n > 2 && vowel && !are_neighbours(t);
}

/* Judges one group of letters. Three or more capital letters may give an order, or name an angle by its
 * corner in the middle. */
static void judge_group(tri_part group, letters *out) {
  bool word = is_word(group);

  out->spelled = out->spelled || word;
  out->ordered = out->ordered || word || (group.n > 2 && count_capitals(group) == (int)group.n);
}

static bool is_one_letter(const tri_tex_node *x) {
  return (x->shape == TRI_SHAPE_NAME || x->shape == TRI_SHAPE_EULER || x->shape == TRI_SHAPE_UNIT_I) &&
         x->text.n == 1 && is_letter(*x->text.at);
}

static bool is_angle(const tri_tex_node *x) {
  static const char name[] = "\\angle";

  return x->shape == TRI_SHAPE_NAME && x->text.n == sizeof name - 1 && !memcmp(x->text.at, name, x->text.n);
}

/* Returns false if the node has more than letters. */
static bool letters_of(const tri_tex_tree *tree, int node, letters *out) {
  const tri_tex_node *x = &tree->node[node];
  int                 c = x->first;
  tri_part            group = {NULL, 0};

  *out = (letters){.angle = false};
  if (x->shape != TRI_SHAPE_PRODUCT) return false;
  out->angle = is_angle(&tree->node[c]);
  if (out->angle) c = tree->node[c].next;
  for (; c >= 0; c = tree->node[c].next) {
    const tri_tex_node *y = &tree->node[c];
    size_t              gap = 0;
    if (!is_one_letter(y)) return false;
    if (!group.at) {
      out->text = group = (tri_part){y->text.at, 1};
      continue;
    }
    if (y->text.at < group.at + group.n) return false;
    gap = (size_t)(y->text.at - (group.at + group.n));
    if (!gap) {
      group.n++;
    } else {
      if (strspn(group.at + group.n, " ") < gap) return false;
      judge_group(group, out);
      group = (tri_part){y->text.at, 1};
    }
    out->text.n += gap + 1;
  }
  if (group.at) judge_group(group, out);
  return group.at;
}

/* Tells whether they are the same letters apart from spaces. With `back` b is read from its end. */
static bool same_letters(tri_part a, tri_part b, bool back) {
  size_t i = 0, j = 0;

  for (;; i++, j++) {
    while (i < a.n && a.at[i] == ' ') i++;
    while (j < b.n && b.at[back ? b.n - 1 - j : j] == ' ') j++;
    if (i >= a.n || j >= b.n) return i >= a.n && j >= b.n;
    if (a.at[i] != b.at[back ? b.n - 1 - j : j]) return false;
  }
}

bool tri_tex_compare_letters(const tri_tex_tree *a, int node_a, const tri_tex_tree *b, int node_b,
                             bool *out) {
  letters x, y;

  if (!letters_of(a, node_a, &x) || !letters_of(b, node_b, &y) || x.angle != y.angle ||
      !(x.ordered || y.ordered))
    return false;
  if ((x.spelled || y.spelled) && !x.angle)
    *out = tri_tex_words_equal(x.text, y.text);
  else
    *out = same_letters(x.text, y.text, false) || (x.angle && same_letters(x.text, y.text, true));
  return true;
}

bool tri_tex_is_ordered(const tri_tex_tree *tree, int node) {
  letters x;

  return letters_of(tree, node, &x) && x.ordered;
}
