/* parse_token.c - gives the parser the current token and one token ahead. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "io/jinja/parse.h"

tri_status tri_jparse_next(tri_jparser *p) {
  if (p->has_ahead) {
    p->token = p->ahead;
    p->has_ahead = false;
    return TRI_OK;
  }
  return tri_jlex_next(&p->lexer, &p->token);
}

tri_status tri_jparse_look(tri_jparser *p, tri_jtoken *out) {
  if (!p->has_ahead) TRI_TRY(tri_jlex_next(&p->lexer, &p->ahead));
  p->has_ahead = true;
  *out = p->ahead;
  return TRI_OK;
}

bool tri_jparse_is(const tri_jparser *p, tri_jtoken_kind kind) { return p->token.kind == kind; }

bool tri_jparse_is_name(const tri_jparser *p, const char *name) {
  return p->token.kind == TRI_JT_NAME && !strcmp(p->token.name->s, name);
}

tri_status tri_jparse_skip_if(tri_jparser *p, tri_jtoken_kind kind, bool *found) {
  *found = tri_jparse_is(p, kind);
  return *found ? tri_jparse_next(p) : TRI_OK;
}

tri_status tri_jparse_skip_name(tri_jparser *p, const char *name, bool *found) {
  *found = tri_jparse_is_name(p, name);
  return *found ? tri_jparse_next(p) : TRI_OK;
}

const char *tri_jparse_token_text(const tri_jparser *p) {
  return p->token.kind == TRI_JT_NAME ? p->token.name->s : tri_jtoken_text(p->token.kind);
}

static tri_status unexpected(const tri_jparser *p, const char *wanted) {
  if (tri_jparse_is(p, TRI_JT_EOF))
    TRI_JFAIL(p->token.line, "unexpected end of template, expected '%s'.", wanted);
  TRI_JFAIL(p->token.line, "expected token '%s', got '%.200s'", wanted, tri_jparse_token_text(p));
}

tri_status tri_jparse_expect(tri_jparser *p, tri_jtoken_kind kind, tri_jname **name) {
  if (!tri_jparse_is(p, kind)) return unexpected(p, tri_jtoken_text(kind));
  if (name) *name = p->token.name;
  return tri_jparse_next(p);
}

tri_status tri_jparse_expect_name(tri_jparser *p, const char *name) {
  if (!tri_jparse_is_name(p, name)) return unexpected(p, name);
  return tri_jparse_next(p);
}
