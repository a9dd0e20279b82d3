/* value_repr.c - str() and repr() of values, as in Python. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "value_impl.h"

#include <stdio.h>
#include <string.h>

/* str.__repr__: uses the kind of quotes that the text lacks, and escapes for unprintable characters. */
static tri_status repr_text(tri_jbuf *b, tri_jvalue v) {
  const char *s = v.as.text.s, *end = s + v.as.text.n, *from = s;
  char   quote = v.as.text.n && memchr(s, '\'', v.as.text.n) && !memchr(s, '"', v.as.text.n) ? '"' : '\'';
  size_t bytes;

  TRI_TRY(tri_jarena_step(b->a, (int64_t)(v.as.text.n / 32)));
  TRI_TRY(tri_jbuf_put(b, &quote, 1));
  for (; s < end; s += bytes) {
    int32_t c = tri_jpoint_read(s, &bytes);
    bool plain = c >= ' ' && c < 127 ? c != quote && c != '\\' : c > 127 && tri_jchar_is(c, TRI_JC_PRINTABLE);
    if (plain) continue;
    TRI_TRY(tri_jbuf_put(b, from, (size_t)(s - from)));
    from = s + bytes;
    if (c == '\n' || c == '\r' || c == '\t')
      TRI_TRY(tri_jbuf_text(b, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t"));
    else if (c == quote || c == '\\')
      TRI_TRY(tri_jbuf_printf(b, "\\%c", (int)c));
    else
      TRI_TRY(tri_jbuf_printf(b, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)c));
  }
  TRI_TRY(tri_jbuf_put(b, from, (size_t)(s - from)));
  TRI_TRY(tri_jbuf_put(b, &quote, 1));
  return TRI_OK;
}

static tri_status repr_list(tri_jbuf *b, const tri_jlist *list, const char *open, const char *close) {
  TRI_TRY(tri_jbuf_text(b, open));
  for (int64_t i = 0; i < list->n; i++) {
    if (i) TRI_TRY(tri_jbuf_text(b, ", "));
    TRI_TRY(tri_jwrite_repr(b, list->item[i]));
  }
  TRI_TRY(tri_jbuf_text(b, close));
  return TRI_OK;
}

static tri_status repr_map(tri_jbuf *b, tri_jvalue map) {
  tri_jvalue key, value;

  TRI_TRY(tri_jbuf_text(b, "{"));
  for (int64_t i = 0; i < tri_jmap_count(map); i++) {
    tri_jmap_at(map, i, &key, &value);
    if (i) TRI_TRY(tri_jbuf_text(b, ", "));
    TRI_TRY(tri_jwrite_repr(b, key));
    TRI_TRY(tri_jbuf_text(b, ": "));
    TRI_TRY(tri_jwrite_repr(b, value));
  }
  TRI_TRY(tri_jbuf_text(b, "}"));
  return TRI_OK;
}

static tri_status repr_view(tri_jbuf *b, const tri_jview *view, const char *type) {
  tri_jvalue key, value;

  TRI_TRY(tri_jbuf_printf(b, "%s([", type));
  for (int64_t i = 0; i < tri_jmap_count(view->map); i++) {
    tri_jmap_at(view->map, i, &key, &value);
    if (i) TRI_TRY(tri_jbuf_text(b, ", "));
    if (view->part == TRI_J_ITEMS) TRI_TRY(tri_jbuf_text(b, "("));
    if (view->part != TRI_J_VALUES) TRI_TRY(tri_jwrite_repr(b, key));
    if (view->part == TRI_J_ITEMS) TRI_TRY(tri_jbuf_text(b, ", "));
    if (view->part != TRI_J_KEYS) TRI_TRY(tri_jwrite_repr(b, value));
    if (view->part == TRI_J_ITEMS) TRI_TRY(tri_jbuf_text(b, ")"));
  }
  TRI_TRY(tri_jbuf_text(b, "])"));
  return TRI_OK;
}

static tri_status repr_object(tri_jbuf *b, const tri_jobject *o) {
  tri_text   text = {0};
  tri_status st = TRI_OK;

  if (!o->print) return tri_jbuf_printf(b, "<%.100s object>", o->type);
  TRI_TRY_DONE(o->print(b->a, o, &text));
  TRI_TRY_DONE(tri_jbuf_put(b, text.data ? text.data : "", text.len));
done:
  tri_text_free(&text);
  return st;
}

static tri_status repr_nested(tri_jbuf *b, tri_jvalue v) {
  switch (v.kind) {
  case TRI_J_LIST:
    return repr_list(b, v.as.list, "[", "]");
  case TRI_J_TUPLE:
    return repr_list(b, v.as.list, "(", v.as.list->n == 1 ? ",)" : ")");
  case TRI_J_MAP:
    return repr_map(b, v);
  case TRI_J_VIEW:
    return repr_view(b, v.as.view, tri_jtype(v));
  case TRI_J_NAMESPACE:
    TRI_TRY(tri_jbuf_text(b, "<Namespace "));
    TRI_TRY(repr_map(b, v.as.space->map));
    return tri_jbuf_text(b, ">");
  case TRI_J_OBJECT:
    return repr_object(b, v.as.object);
  default:
    TRI_FAIL(TRI_EINPUT, "a value of type %s cannot be printed here (Python would print its address)",
             tri_jtype(v));
  }
}

tri_status tri_jwrite_repr(tri_jbuf *b, tri_jvalue v) {
  char number[TRI_JNUMBER_BYTES];

  TRI_TRY(tri_jarena_step(b->a, 1));
  switch (v.kind) {
  case TRI_J_UNDEFINED:
    return tri_jbuf_text(b, "Undefined");
  case TRI_J_NONE:
    return tri_jbuf_text(b, "None");
  case TRI_J_BOOL:
    return tri_jbuf_text(b, v.as.truth ? "True" : "False");
  case TRI_J_INT:
    return tri_jbuf_printf(b, "%lld", (long long)v.as.whole);
  case TRI_J_FLOAT:
    tri_jreal_text(v.as.real, number);
    return tri_jbuf_text(b, number);
  case TRI_J_STRING:
    if (v.note == TRI_J_MARKUP) TRI_TRY(tri_jbuf_text(b, "Markup("));
    TRI_TRY(repr_text(b, v));
    return v.note == TRI_J_MARKUP ? tri_jbuf_text(b, ")") : TRI_OK;
  case TRI_J_RANGE:
    TRI_TRY(tri_jbuf_printf(b, "range(%lld, %lld", (long long)v.as.range->begin, (long long)v.as.range->end));
    if (v.as.range->step != 1) TRI_TRY(tri_jbuf_printf(b, ", %lld", (long long)v.as.range->step));
    return tri_jbuf_text(b, ")");
  default:
    break;
  }
  TRI_TRY(tri_jarena_enter(b->a));
  TRI_TRY(repr_nested(b, v));
  tri_jarena_leave(b->a);
  return TRI_OK;
}

tri_status tri_jwrite_str(tri_jbuf *b, tri_jvalue v) {
  if (v.kind == TRI_J_UNDEFINED) return TRI_OK;
  if (!tri_jis_text(v)) return tri_jwrite_repr(b, v);
  v = tri_jas_text(v);
  return tri_jbuf_put(b, v.as.text.s, v.as.text.n);
}

tri_status tri_jstr(tri_jarena *a, tri_jvalue v, tri_jvalue *out) {
  tri_jbuf b = {.a = a};

  if (tri_jis_text(v)) {
    *out = tri_jmarkup(tri_jas_text(v), false);
    return TRI_OK;
  }
  TRI_TRY(tri_jwrite_str(&b, v));
  *out = tri_jbuf_value(&b, 0);
  return TRI_OK;
}

tri_status tri_jprint(tri_jarena *a, tri_jvalue v, tri_text *out) {
  tri_jvalue text;

  if (v.kind == TRI_J_UNDEFINED) return TRI_OK;
  TRI_TRY(tri_jstr(a, v, &text));
  return tri_jput(a, out, text.as.text.s, text.as.text.n);
}

tri_status tri_jrepr(tri_jarena *a, tri_jvalue v, tri_text *out) {
  tri_jbuf b = {.a = a};

  TRI_TRY(tri_jwrite_repr(&b, v));
  return tri_jput(a, out, b.s ? b.s : "", b.n);
}
