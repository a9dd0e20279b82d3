/* tokenizer_sets.c - named character sets of Oniguruma's patterns, as the inside of a PCRE2 class. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "tokenizer_impl.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define SPACES                                                                                               \
  "\\t-\\r\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"

/* Maps a name (lower case, without space, _ and -) to the inside of a class. newer: the categories whose
 * characters of Unicode 15 and 16 belong to it. */
static const struct {
  const char *name, *items, *newer;
  bool        negative;
} set_row[] = {
    {"space", SPACES, NULL, false},
    {"whitespace", SPACES, NULL, false},
    {"alphabetic", "\\p{Alphabetic}", "L Nl", false},
    {"lowercase", "\\p{Lowercase}", "Ll", false},
    {"uppercase", "\\p{Uppercase}", "Lu", false},
    {"word", WORD, "L M Nd Nl Pc", false},
    {"alpha", "\\p{Alphabetic}", "L Nl", false},
    {"alnum", "\\p{Alphabetic}\\p{Nd}", "L Nl Nd", false},
    {"digit", "\\p{Nd}", "Nd", false},
    {"xdigit", "0-9a-fA-F", NULL, false},
    {"blank", "\\t\\p{Zs}", NULL, false},
    {"cntrl", "\\p{Cc}", NULL, false},
    {"lower", "\\p{Lowercase}", "Ll", false},
    {"upper", "\\p{Uppercase}", "Lu", false},
    {"punct", "\\p{P}", "P", false},
    {"posixpunct", "\\p{P}\\p{S}", "P S", false},
    {"graph", "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Cf}\\p{Co}", "L M N P S", false},
    {"print", "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Zs}\\p{Cf}\\p{Co}", "L M N P S", false},
    {"ascii", "\\x{0}-\\x{7f}", NULL, false},
    {"any", "\\x{0}-\\x{10ffff}", NULL, false},
    {"assigned", "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{Cc}\\p{Cf}\\p{Co}\\p{Cs}", "L M N P S", false},
    {"other", "\\p{C}", NULL, false},
    {"control", "\\p{Cc}", NULL, false},
    {"format", "\\p{Cf}", NULL, false},
    {"unassigned", "\\p{Cn}", NULL, false},
    {"privateuse", "\\p{Co}", NULL, false},
    {"surrogate", "\\p{Cs}", NULL, false},
    {"letter", "\\p{L}", "L", false},
    {"casedletter", "\\p{Lu}\\p{Ll}\\p{Lt}", "Lu Ll Lt", false},
    {"lc", "\\p{Lu}\\p{Ll}\\p{Lt}", "Lu Ll Lt", false},
    {"lowercaseletter", "\\p{Ll}", "Ll", false},
    {"modifierletter", "\\p{Lm}", "Lm", false},
    {"otherletter", "\\p{Lo}", "Lo", false},
    {"titlecaseletter", "\\p{Lt}", "Lt", false},
    {"uppercaseletter", "\\p{Lu}", "Lu", false},
    {"mark", "\\p{M}", "M", false},
    {"combiningmark", "\\p{M}", "M", false},
    {"spacingmark", "\\p{Mc}", "Mc", false},
    {"enclosingmark", "\\p{Me}", "Me", false},
    {"nonspacingmark", "\\p{Mn}", "Mn", false},
    {"number", "\\p{N}", "N", false},
    {"decimalnumber", "\\p{Nd}", "Nd", false},
    {"letternumber", "\\p{Nl}", "Nl", false},
    {"othernumber", "\\p{No}", "No", false},
    {"punctuation", "\\p{P}", "P", false},
    {"connectorpunctuation", "\\p{Pc}", "Pc", false},
    {"dashpunctuation", "\\p{Pd}", "Pd", false},
    {"closepunctuation", "\\p{Pe}", "Pe", false},
    {"finalpunctuation", "\\p{Pf}", "Pf", false},
    {"initialpunctuation", "\\p{Pi}", "Pi", false},
    {"otherpunctuation", "\\p{Po}", "Po", false},
    {"openpunctuation", "\\p{Ps}", "Ps", false},
    {"symbol", "\\p{S}", "S", false},
    {"currencysymbol", "\\p{Sc}", "Sc", false},
    {"modifiersymbol", "\\p{Sk}", "Sk", false},
    {"mathsymbol", "\\p{Sm}", "Sm", false},
    {"othersymbol", "\\p{So}", "So", false},
    {"separator", "\\p{Z}", NULL, false},
    {"lineseparator", "\\p{Zl}", NULL, false},
    {"paragraphseparator", "\\p{Zp}", NULL, false},
    {"spaceseparator", "\\p{Zs}", NULL, false},
    {"han", "\\p{sc:Han}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}", NULL, false},
    {"hani", "\\p{sc:Han}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}", NULL, false},
};

static bool compiles(const char *pattern) {
  int         code;
  PCRE2_SIZE  where;
  pcre2_code *re =
      pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code, &where, NULL);

  pcre2_code_free(re);
  return re != NULL;
}

/* Finds a category by its letters, another property, or a script. A script means only its own characters.
 * PCRE2's plain name would add its script extensions. */
static bool find_plain(const char *name, tri_tok_set *set) {
  size_t n_row = sizeof set_row / sizeof *set_row;

  snprintf(set->items, sizeof set->items, "\\p{sc:%.60s}", name);
  if (!compiles(set->items)) snprintf(set->items, sizeof set->items, "\\p{%.60s}", name);
  for (size_t i = 0; i < n_row; i++)
    if (set_row[i].newer && !strcasecmp(set_row[i].newer, name)) set->newer = set_row[i].newer;
  return *name && compiles(set->items);
}

bool tri_tok_set_find(const char *name, size_t n, tri_tok_set *set) {
  char   plain[64];
  size_t k = 0;

  for (size_t i = 0; i < n && k + 1 < sizeof plain; i++)
    if (isalnum((unsigned char)name[i])) plain[k++] = (char)tolower((unsigned char)name[i]);
  plain[k] = 0;
  *set = (tri_tok_set){.word = !strcmp(plain, "word")};
  for (size_t i = 0; i < sizeof set_row / sizeof *set_row; i++)
    if (!strcmp(plain, set_row[i].name)) {
      snprintf(set->items, sizeof set->items, "%s", set_row[i].items);
      set->newer = set_row[i].newer;
      set->negative = set_row[i].negative;
      return true;
    }
  return find_plain(plain, set);
}

tri_status tri_tok_set_put(const tri_tok_set *set, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "%s", set->items));
  return set->newer ? tri_tok_put_newer(set->newer, out) : TRI_OK;
}
