/* xml_case.h - a strict reader for the subset of XML that an HTML report may use. It finds errors and
 * contents.
 *
 * It accepts only the five entities of XML, and no comments, processing instructions or CDATA. Foreign text
 * that looks like these is an error. Elements and attributes must be in a list, so that no text can become
 * markup. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_XML_CASE_H
#define TRI_TESTS_XML_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char xml_elements[] =
    " html head meta title style body div nav label input i span a main section h1 h2 h3 dl dt dd small b p "
    "code pre table tr th td figure figcaption svg line text path rect details summary footer script ";
static const char xml_attributes[] =
    " lang xmlns charset http-equiv content name class id href type checked title role aria-label dir "
    "data-run data-kind data-log data-low data-high data-from data-to data-first data-width x x1 x2 y y1 y2 "
    "dy d width height viewBox preserveAspectRatio ";

enum { XML_DEPTH = 64, XML_NAME = 32 };

/* The state of the reader. */
typedef struct xml {
  const unsigned char *at, *end;
  const char          *error; /* NULL: no error so far */
  char                 open[XML_DEPTH][XML_NAME];
  int                  depth, n_elements;
} xml;

static inline void xml_bad(xml *x, const char *what) {
  if (!x->error) x->error = what;
}

static inline bool xml_listed(const char *list, const char *name) {
  char wanted[XML_NAME + 3];

  snprintf(wanted, sizeof wanted, " %s ", name);
  return strstr(list, wanted) != NULL;
}

/* Reads one UTF-8 character allowed in XML (https://www.w3.org/TR/xml/#charsets). Invisible ones are errors:
 * C1 controls and direction marks. */
static inline void xml_character(xml *x) {
  uint32_t c = *x->at, least = 0;
  int      more = c < 0x80 ? 0 : c >> 5 == 6 ? 1 : c >> 4 == 14 ? 2 : c >> 3 == 30 ? 3 : -1;

  if (more < 0 || x->end - x->at <= more) {
    xml_bad(x, "bytes outside UTF-8");
    return;
  }
  if (more) c &= 0x3Fu >> more, least = more == 1 ? 0x80 : more == 2 ? 0x800 : 0x10000;
  for (x->at++; more; more--, x->at++) {
    if (*x->at >> 6 != 2) xml_bad(x, "bytes outside UTF-8");
    c = c << 6 | (*x->at & 0x3F);
  }
  if (c < least || c > 0x10FFFF || c == 0xFFFE || c == 0xFFFF || (c >= 0xD800 && c < 0xE000))
    xml_bad(x, "a code without a character");
  if ((c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7F && c < 0xA0)) xml_bad(x, "a control character");
  if (c == 0x200E || c == 0x200F || c == 0x61C || (c >= 0x202A && c <= 0x202E) ||
      (c >= 0x2066 && c <= 0x2069))
    xml_bad(x, "a mark of direction");
}

static inline void xml_reference(xml *x) {
  static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};

  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strncmp((const char *)x->at, known[i], strlen(known[i]))) {
      x->at += strlen(known[i]);
      return;
    }
  xml_bad(x, "an & that begins no reference");
}

static inline void xml_name(xml *x, char name[XML_NAME]) {
  int n = 0;

  while (x->at < x->end && (*x->at == '-' || (*x->at >= '0' && *x->at <= '9') ||
                            (*x->at >= 'a' && *x->at <= 'z') || (*x->at >= 'A' && *x->at <= 'Z'))) {
    if (n < XML_NAME - 1) name[n++] = (char)*x->at;
    x->at++;
  }
  name[n] = 0;
}

static inline bool xml_take(xml *x, const char *text) {
  if (strncmp((const char *)x->at, text, strlen(text)) != 0) return false;
  x->at += strlen(text);
  return true;
}

static inline void xml_attribute(xml *x, char seen[2048]) {
  char name[XML_NAME], wanted[XML_NAME + 3];

  xml_name(x, name);
  snprintf(wanted, sizeof wanted, " %s ", name);
  if (!xml_listed(xml_attributes, name)) xml_bad(x, "an attribute of no page");
  if (strstr(seen, wanted)) xml_bad(x, "an attribute given twice");
  if (strlen(seen) + sizeof wanted < 2048) strcat(seen, wanted);
  if (!xml_take(x, "=\"")) xml_bad(x, "an attribute without =\"");
  if (!strcmp(name, "href") && *x->at != '#') xml_bad(x, "a link to the outside");
  while (!x->error && x->at < x->end && *x->at != '"') {
    if (*x->at == '<')
      xml_bad(x, "a < in an attribute");
    else if (*x->at == '&')
      xml_reference(x);
    else
      xml_character(x);
  }
  if (!xml_take(x, "\"")) xml_bad(x, "an attribute without an end");
}

static inline void xml_element(xml *x) {
  char name[XML_NAME], seen[2048] = "";

  xml_name(x, name);
  x->n_elements++;
  if (!xml_listed(xml_elements, name)) xml_bad(x, "an element of no page");
  while (!x->error && xml_take(x, " ")) xml_attribute(x, seen);
  if (xml_take(x, "/>")) return;
  if (!xml_take(x, ">")) xml_bad(x, "a tag without an end");
  if (x->depth == XML_DEPTH)
    xml_bad(x, "elements too deep");
  else
    memcpy(x->open[x->depth++], name, sizeof name);
}

static inline void xml_close(xml *x) {
  char name[XML_NAME];

  xml_name(x, name);
  if (!x->depth || strcmp(x->open[x->depth - 1], name) != 0)
    xml_bad(x, "a closing tag of another element");
  else
    x->depth--;
  if (!xml_take(x, ">")) xml_bad(x, "a closing tag without an end");
}

/* Returns the error, with its place in `where`, or NULL. The text [n] ends with a NUL. */
static inline const char *xml_error(const char *text, size_t n, char where[100]) {
  xml x = {(const unsigned char *)text, (const unsigned char *)text + n, NULL, {{0}}, 0, 0};

  if (!xml_take(&x, "<!DOCTYPE html>\n<html ")) return "no page begins it";
  x.at -= strlen("html ");
  xml_element(&x);
  while (!x.error && x.at < x.end && x.depth) {
    snprintf(where, 100, "byte %zu: %.40s", (size_t)(x.at - (const unsigned char *)text), (const char *)x.at);
    if (xml_take(&x, "</"))
      xml_close(&x);
    else if (xml_take(&x, "<"))
      xml_element(&x);
    else if (*x.at == '&')
      xml_reference(&x);
    else if (!strncmp((const char *)x.at, "]]>", 3))
      xml_bad(&x, "]]> in text");
    else
      xml_character(&x);
  }
  if (x.depth) xml_bad(&x, "an element without an end");
  if (!x.error && (!xml_take(&x, "\n") || x.at != x.end)) xml_bad(&x, "something behind the page");
  return x.error;
}

/* Reads a whole file of *n bytes with a NUL after them. Release it with free. */
static inline char *xml_file(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  char *text;

  assert_non_null(f);
  assert_int_equal(fseek(f, 0, SEEK_END), 0);
  *n = (size_t)ftell(f);
  rewind(f);
  text = calloc(1, *n + 1);
  assert_non_null(text);
  assert_int_equal(fread(text, 1, *n, f), *n);
  fclose(f);
  return text;
}

static inline void xml_is_page(const char *text, size_t n) {
  char        where[100] = "";
  const char *error = xml_error(text, n, where);

  if (error) fail_msg("%s; %s", error, where);
}

#endif
