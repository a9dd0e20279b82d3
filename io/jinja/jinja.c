/* jinja.c - opens and renders templates. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/jinja/jinja.h"

#include <stdio.h>
#include <string.h>

#include "base/host_memory.h"
#include "base/visible.h"
#include "io/jinja/parse.h"
#include "io/jinja/resolve.h"
#include "jinja_run.h"

struct tri_jinja {
  tri_jtree tree;
};

void tri_jinja_text_free(tri_jinja_text *t) {
  tri_text_free(&t->text);
  TRI_FREE(t->span);
  *t = (tri_jinja_text){0};
}

/* ---- open ---- */

static tri_status check_utf8(const char *text, size_t n) {
  int line = 1;

  for (size_t i = 0, k; i < n; i += k) {
    k = tri_character(text + i, n - i);
    if (!k) TRI_JFAIL(line, "byte %zu of the template is not UTF-8", i + 1);
    line += text[i] == '\n';
  }
  return TRI_OK;
}

/* Copies the text with \n for \r\n and \r, and without a newline at its end. */
static tri_status copy_source(tri_jtree *t, const char *text, size_t n) {
  char  *copy;
  size_t used = 0;

  TRI_TRY(tri_jarena_take(&t->arena, n + 1, (void **)&copy));
  for (size_t i = 0; i < n; i++) {
    bool pair = text[i] == '\r' && i + 1 < n && text[i + 1] == '\n';
    if (!pair) copy[used++] = text[i];
    if (!pair && text[i] == '\r') copy[used - 1] = '\n';
  }
  if (used && copy[used - 1] == '\n') used--;
  t->text = copy;
  t->n = used;
  return TRI_OK;
}

static tri_status at_line(tri_status st, int line) {
  char where[32];

  if (st != TRI_EINPUT) return st;
  snprintf(where, sizeof where, "line %d", line);
  return tri_error_at(st, where);
}

/* Adds the line to messages about memory and levels. The parser's own messages have it already. */
static tri_status at_line_once(tri_status st, int line) {
  return strncmp(tri_error_message(), "line ", 5) != 0 ? at_line(st, line) : st;
}

static tri_status parse(tri_jtree *t) {
  tri_jparser p = {.tree = t, .expression = tri_jparse_expression};
  tri_status  st;

  p.lexer = (tri_jlexer){.tree = t, .s = t->text, .n = t->n, .line = 1, .line_starting = true};
  st = tri_jparse_template(&p);
  st = at_line_once(st, p.lexer.line);
  tri_jlex_close(&p.lexer);
  return st;
}

tri_status tri_jinja_open(const char *text, size_t n, tri_jinja **out) {
  tri_jinja *t = NULL;
  tri_status st = TRI_OK;

  *out = NULL;
  TRI_TRY_DONE(TRI_ALLOC(t, 1));
  TRI_TRY_DONE(check_utf8(text, n));
  TRI_TRY_DONE(copy_source(&t->tree, text, n));
  TRI_TRY_DONE(parse(&t->tree));
  t->tree.arena.level = 0;
  TRI_TRY_DONE(tri_jresolve(&t->tree));
  *out = t;
  return TRI_OK;
done:
  tri_jinja_close(&t);
  return at_line_once(st, 1);
}

void tri_jinja_close(tri_jinja **t) {
  if (*t) tri_jarena_free(&(*t)->tree.arena);
  TRI_FREE(*t);
}

bool tri_jinja_marks(const tri_jinja *t) { return t->tree.marks; }

bool tri_jinja_reads(const tri_jinja *t, const char *name) {
  for (int64_t i = 0; i < t->tree.n_global; i++)
    if (!strcmp(t->tree.global[i]->s, name)) return true;
  return false;
}

/* ---- render ---- */

static tri_status load_globals(tri_jrun *r, const json_t *variables) {
  const tri_jtree *t = r->tree;

  TRI_TRY(tri_jarena_take(r->arena, (size_t)t->n_global * sizeof *r->global + 1, (void **)&r->global));
  for (int64_t i = 0; i < t->n_global; i++) {
    const json_t *given = json_object_get(variables, t->global[i]->s);
    if (given)
      TRI_TRY(tri_jvalue_of_json(r->arena, given, &r->global[i]));
    else if (!tri_jglobal_find(t->global[i]->s, t->global[i]->n, &r->global[i]))
      r->global[i] = tri_junset();
  }
  return TRI_OK;
}

static tri_status render(tri_jrun *r, const json_t *variables) {
  tri_jframe *f;

  TRI_TRY(load_globals(r, variables));
  TRI_TRY(tri_jframe_make(r, r->tree->n_slot, NULL, &f));
  tri_jframe_enter(r, f, &r->tree->scope);
  return tri_jexecute(r, f, &r->tree->body);
}

/* Turns the ends of spans from characters into bytes of the text. In transformers, the span of a block inside
 * a macro begins at the end of the text at that time, so it may end past the final text. Here it is cut at
 * the end of the text. */
static void find_ends(tri_jinja_text *out) {
  for (int64_t i = 0; i < out->n_span; i++) {
    size_t at = out->span[i].begin;
    for (size_t left = out->span[i].end; left && at < out->text.len; left--) do
        at++;
      while (at < out->text.len && ((unsigned char)out->text.data[at] & 0xC0) == 0x80);
    out->span[i].end = at;
  }
}

tri_status tri_jinja_render(const tri_jinja *t, const json_t *variables, const char *date,
                            tri_jinja_text *out) {
  tri_jarena arena = {.date = date};
  tri_jrun   r = {.arena = &arena, .tree = &t->tree, .out = out, .line = 1, .body = tri_jexecute};
  tri_status st;

  out->text.len = 0;
  out->n_span = 0;
  TRI_TRY(tri_text_put(&out->text, "", 0));
  st = render(&r, variables);
  st = at_line(st, r.line);
  find_ends(out);
  tri_text_free(&r.captured);
  tri_jarena_free(&arena);
  return st;
}
