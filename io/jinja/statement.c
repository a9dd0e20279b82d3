/* statement.c - executes statements in order. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host_memory.h"
#include "jinja_run.h"

/* For every target ns.x, ns must be a namespace before the value is evaluated. */
static tri_status check_spaces(tri_jframe *f, const tri_jexpr *x) {
  if (x->kind == TRI_JX_NSREF && tri_jframe_at(f, x->as.name.at)->kind != TRI_J_NAMESPACE)
    TRI_FAIL(TRI_EINPUT, "cannot assign attribute on non-namespace object");
  for (int64_t i = 0; x->kind == TRI_JX_TUPLE && i < x->as.list.n; i++)
    TRI_TRY(check_spaces(f, x->as.list.item[i]));
  return TRI_OK;
}

static tri_status execute_set(tri_jrun *r, tri_jframe *f, const tri_jstmt *s) {
  tri_jvalue value;

  TRI_TRY(check_spaces(f, s->as.set.target));
  TRI_TRY(tri_jevaluate(r, f, s->as.set.value, &value));
  r->line = s->line;
  return tri_jassign(r, f, s->as.set.target, value);
}

/* Captures the output of a body. *whole false: the body ended by break or continue, and its output is
 * lost. */
static tri_status capture(tri_jrun *r, tri_jframe *f, const tri_jbody *body, tri_jvalue *out, bool *whole) {
  size_t mark = tri_jcapture_begin(r);

  TRI_TRY(tri_jexecute(r, f, body));
  *whole = r->flow == TRI_JFLOW_ON;
  return tri_jcapture_end(r, mark, out);
}

static tri_status apply_filter(tri_jrun *r, tri_jframe *f, const tri_jexpr *filter, tri_jvalue text,
                               tri_jvalue *out) {
  r->block = text;
  return tri_jevaluate(r, f, filter, out);
}

static tri_status execute_set_block(tri_jrun *r, tri_jframe *f, const tri_jstmt *s) {
  tri_jvalue value;
  bool       whole = false;

  tri_jframe_enter(r, f, &s->as.set.scope);
  TRI_TRY(capture(r, f, &s->as.set.body, &value, &whole));
  if (!whole) return TRI_OK;
  if (s->as.set.value) TRI_TRY(apply_filter(r, f, s->as.set.value, value, &value));
  r->line = s->line;
  TRI_TRY(tri_jassign(r, f, s->as.set.target, value));
  tri_jframe_leave(f, &s->as.set.scope);
  return TRI_OK;
}

static tri_status execute_if(tri_jrun *r, tri_jframe *f, const tri_jstmt *s) {
  for (const tri_jbranch *b = s->as.cond.branch; b; b = b->next) {
    tri_jvalue test;
    TRI_TRY(tri_jevaluate(r, f, b->test, &test));
    if (tri_jtruth(test)) return tri_jexecute(r, f, &b->body);
  }
  return tri_jexecute(r, f, &s->as.cond.otherwise);
}

static tri_status execute_macro(tri_jrun *r, tri_jframe *f, const tri_jstmt *s) {
  return tri_jmacro_make(r, f, s->as.macro.macro, tri_jframe_at(f, s->as.macro.at));
}

static tri_status execute_call(tri_jrun *r, tri_jframe *f, const tri_jstmt *s) {
  tri_jvalue caller, value;

  TRI_TRY(tri_jmacro_make(r, f, s->as.macro.macro, &caller));
  TRI_TRY(tri_jevaluate_call(r, f, s->as.macro.call, &caller, &value));
  return tri_jprint(r->arena, value, tri_jrun_out(r));
}

/* Until the rendering ends, span.end counts characters (jinja.c, find_ends). */
static tri_status put_span(tri_jrun *r, size_t begin, tri_jvalue text) {
  tri_jinja_text *out = r->out;
  size_t          end = 0;

  for (size_t i = 0; i < text.as.text.n; i++) end += ((unsigned char)text.as.text.s[i] & 0xC0) != 0x80;
  TRI_TRY(tri_jarena_step(r->arena, 1));
  TRI_TRY(TRI_GROW(out->span, out->cap, out->n_span + 1));
  out->span[out->n_span++] = (tri_jinja_span){.begin = begin, .end = end};
  return TRI_OK;
}

/* A generation block runs like the body of a call block. Its span begins at the current end of the text, even
 * inside a macro, although the macro's text is written later (chat_template_utils.py, AssistantTracker). */
static tri_status execute_generation(tri_jrun *r, tri_jframe *f, const tri_jstmt *s) {
  tri_jvalue body, value;
  size_t     begin = r->out->text.len;

  TRI_TRY(tri_jmacro_make(r, f, s->as.macro.macro, &body));
  TRI_TRY(tri_jmacro_call(body, &(tri_jargs){0}, &value));
  TRI_TRY(put_span(r, begin, value));
  return tri_jput(r->arena, tri_jrun_out(r), value.as.text.s, value.as.text.n);
}

static tri_status execute_filter(tri_jrun *r, tri_jframe *f, const tri_jstmt *s) {
  tri_jvalue value;
  bool       whole = false;

  tri_jframe_enter(r, f, &s->as.block.scope);
  TRI_TRY(capture(r, f, &s->as.block.body, &value, &whole));
  if (!whole) return TRI_OK;
  TRI_TRY(apply_filter(r, f, s->as.block.filter, value, &value));
  TRI_TRY(tri_jprint(r->arena, value, tri_jrun_out(r)));
  tri_jframe_leave(f, &s->as.block.scope);
  return TRI_OK;
}

/* Executes `with`, and the scope of autoescape. Its values are evaluated with the variables around it. */
static tri_status execute_with(tri_jrun *r, tri_jframe *f, const tri_jstmt *s) {
  tri_jvalue value;

  tri_jframe_enter(r, f, &s->as.block.scope);
  for (int64_t i = 0; i < s->as.block.target.n; i++) {
    TRI_TRY(tri_jevaluate(r, f, s->as.block.value.item[i], &value));
    r->line = s->line;
    TRI_TRY(tri_jassign(r, f, s->as.block.target.item[i], value));
  }
  TRI_TRY(tri_jexecute(r, f, &s->as.block.body));
  if (r->flow == TRI_JFLOW_ON) tri_jframe_leave(f, &s->as.block.scope);
  return TRI_OK;
}

static tri_status execute_print(tri_jrun *r, tri_jframe *f, const tri_jexpr *x) {
  tri_jvalue value;

  TRI_TRY(tri_jevaluate(r, f, x, &value));
  r->line = x->line;
  return tri_jprint(r->arena, value, tri_jrun_out(r));
}

static tri_status execute_statement(tri_jrun *r, tri_jframe *f, const tri_jstmt *s) {
  r->line = s->line;
  switch (s->kind) {
  case TRI_JS_TEXT:
    return tri_jput(r->arena, tri_jrun_out(r), s->as.text.s, s->as.text.n);
  case TRI_JS_PRINT:
    return execute_print(r, f, s->as.print);
  case TRI_JS_SET:
    return execute_set(r, f, s);
  case TRI_JS_SET_BLOCK:
    return execute_set_block(r, f, s);
  case TRI_JS_IF:
    return execute_if(r, f, s);
  case TRI_JS_FOR:
    return tri_jloop_run(r, f, s->as.loop);
  case TRI_JS_MACRO:
    return execute_macro(r, f, s);
  case TRI_JS_CALL:
    return execute_call(r, f, s);
  case TRI_JS_GENERATION:
    return execute_generation(r, f, s);
  case TRI_JS_FILTER:
    return execute_filter(r, f, s);
  case TRI_JS_WITH:
  case TRI_JS_SCOPE:
    return execute_with(r, f, s);
  case TRI_JS_BREAK:
    r->flow = TRI_JFLOW_BREAK;
    return TRI_OK;
  case TRI_JS_CONTINUE:
    r->flow = TRI_JFLOW_CONTINUE;
    return TRI_OK;
  }
  TRI_FAIL(TRI_EINTERNAL, "a statement of kind %d", (int)s->kind);
}

tri_status tri_jexecute(tri_jrun *r, tri_jframe *f, const tri_jbody *body) {
  if (!body->first) return TRI_OK;
  TRI_TRY(tri_jarena_enter(r->arena));
  for (const tri_jstmt *s = body->first; s && r->flow == TRI_JFLOW_ON; s = s->next) {
    TRI_TRY(tri_jarena_step(r->arena, 1));
    TRI_TRY(execute_statement(r, f, s));
  }
  tri_jarena_leave(r->arena);
  return TRI_OK;
}
