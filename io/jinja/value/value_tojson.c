/* value_tojson.c - the filter tojson as defined by transformers: json.dumps without escapes for HTML. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "value_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct dump {
  tri_jbuf   b;
  tri_jvalue indent; /* NONE: all on one line. Else the indent of one level */
  tri_jvalue item_end, key_end;
  bool       ascii, sort;
  int64_t    level;
} dump;

static tri_status put(dump *d, tri_jvalue text) {
  return tri_jbuf_put(&d->b, text.as.text.s, text.as.text.n);
}

static tri_status put_point(dump *d, int32_t c) {
  static const char from[] = "\"\\\n\r\t\f\b";
  static const char to[] = "\"\\nrtfb";
  const char       *p = c > 0 && c < 128 ? strchr(from, c) : NULL;

  if (p) return tri_jbuf_printf(&d->b, "\\%c", to[p - from]);
  if (c < 0x10000) return tri_jbuf_printf(&d->b, "\\u%04x", (unsigned)c);
  c -= 0x10000;
  return tri_jbuf_printf(&d->b, "\\u%04x\\u%04x", 0xd800 + (unsigned)(c >> 10),
                         0xdc00 + (unsigned)(c & 0x3ff));
}

static tri_status put_text(dump *d, tri_jvalue v) {
  const char *s = v.as.text.s, *end = s + v.as.text.n, *from = s;
  size_t      bytes;

  TRI_TRY(tri_jarena_step(d->b.a, (int64_t)(v.as.text.n / 32)));
  TRI_TRY(tri_jbuf_text(&d->b, "\""));
  for (; s < end; s += bytes) {
    int32_t c = tri_jpoint_read(s, &bytes);
    if (c >= ' ' && c != '"' && c != '\\' && (!d->ascii || c < 127)) continue;
    TRI_TRY(tri_jbuf_put(&d->b, from, (size_t)(s - from)));
    TRI_TRY(put_point(d, c));
    from = s + bytes;
  }
  TRI_TRY(tri_jbuf_put(&d->b, from, (size_t)(s - from)));
  return tri_jbuf_text(&d->b, "\"");
}

static tri_status put_real(dump *d, double x) {
  char text[TRI_JNUMBER_BYTES];

  if (isnan(x)) return tri_jbuf_text(&d->b, "NaN");
  if (isinf(x)) return tri_jbuf_text(&d->b, x > 0 ? "Infinity" : "-Infinity");
  tri_jreal_text(x, text);
  return tri_jbuf_text(&d->b, text);
}

static tri_status new_line(dump *d) {
  if (d->indent.kind == TRI_J_NONE) return TRI_OK;
  TRI_TRY(tri_jbuf_text(&d->b, "\n"));
  for (int64_t i = 0; i < d->level; i++) TRI_TRY(put(d, d->indent));
  return TRI_OK;
}

static tri_status put_value(dump *d, tri_jvalue v);

static tri_status put_list(dump *d, const tri_jlist *list) {
  if (!list->n) return tri_jbuf_text(&d->b, "[]");
  TRI_TRY(tri_jbuf_text(&d->b, "["));
  d->level++;
  for (int64_t i = 0; i < list->n; i++) {
    if (i) TRI_TRY(put(d, d->item_end));
    TRI_TRY(new_line(d));
    TRI_TRY(put_value(d, list->item[i]));
  }
  d->level--;
  TRI_TRY(new_line(d));
  return tri_jbuf_text(&d->b, "]");
}

/* Writes a key as a JSON string. */
static tri_status put_key(dump *d, tri_jvalue key) {
  if (key.kind == TRI_J_STRING) return put_text(d, key);
  if (key.kind != TRI_J_NONE && key.kind != TRI_J_FLOAT && !tri_jis_whole(key))
    TRI_FAIL(TRI_EINPUT, "keys must be str, int, float, bool or None, not %s", tri_jtype(key));
  TRI_TRY(tri_jbuf_text(&d->b, "\""));
  TRI_TRY(put_value(d, key));
  return tri_jbuf_text(&d->b, "\"");
}

/* Returns the pairs of a mapping as two lists, sorted by key if requested. */
static tri_status order_pairs(dump *d, tri_jvalue map, tri_jvalue **key, tri_jvalue **value) {
  tri_jvalue list, *sorted_by = NULL;
  int64_t    n = tri_jmap_count(map);

  TRI_TRY(tri_jlist_reserve(d->b.a, TRI_J_LIST, n, key, &list));
  TRI_TRY(tri_jlist_reserve(d->b.a, TRI_J_LIST, n, value, &list));
  for (int64_t i = 0; i < n; i++) tri_jmap_at(map, i, &(*key)[i], &(*value)[i]);
  if (!d->sort) return TRI_OK;
  TRI_TRY(tri_jlist_reserve(d->b.a, TRI_J_LIST, n, &sorted_by, &list));
  for (int64_t i = 0; i < n; i++) sorted_by[i] = (*key)[i];
  TRI_TRY(tri_jsort(d->b.a, *value, sorted_by, n, false));
  return tri_jsort(d->b.a, *key, sorted_by, n, false);
}

static tri_status put_map(dump *d, tri_jvalue map) {
  tri_jvalue *key = NULL, *value = NULL;

  if (!tri_jmap_count(map)) return tri_jbuf_text(&d->b, "{}");
  TRI_TRY(order_pairs(d, map, &key, &value));
  TRI_TRY(tri_jbuf_text(&d->b, "{"));
  d->level++;
  for (int64_t i = 0; i < tri_jmap_count(map); i++) {
    if (i) TRI_TRY(put(d, d->item_end));
    TRI_TRY(new_line(d));
    TRI_TRY(put_key(d, key[i]));
    TRI_TRY(put(d, d->key_end));
    TRI_TRY(put_value(d, value[i]));
  }
  d->level--;
  TRI_TRY(new_line(d));
  return tri_jbuf_text(&d->b, "}");
}

static tri_status put_value(dump *d, tri_jvalue v) {
  TRI_TRY(tri_jarena_step(d->b.a, 1));
  switch (v.kind) {
  case TRI_J_NONE:
    return tri_jbuf_text(&d->b, "null");
  case TRI_J_BOOL:
    return tri_jbuf_text(&d->b, v.as.truth ? "true" : "false");
  case TRI_J_INT:
    return tri_jbuf_printf(&d->b, "%lld", (long long)v.as.whole);
  case TRI_J_FLOAT:
    return put_real(d, v.as.real);
  case TRI_J_STRING:
    return put_text(d, v);
  case TRI_J_LIST:
  case TRI_J_TUPLE:
  case TRI_J_MAP:
    break;
  default:
    TRI_FAIL(TRI_EINPUT, "Object of type %s is not JSON serializable", tri_jtype(v));
  }
  TRI_TRY(tri_jarena_enter(d->b.a));
  if (v.kind == TRI_J_MAP)
    TRI_TRY(put_map(d, v));
  else
    TRI_TRY(put_list(d, v.as.list));
  tri_jarena_leave(d->b.a);
  return TRI_OK;
}

/* Reads separators=(item, key), two texts. */
static tri_status read_separators(tri_jarena *a, dump *d, tri_jvalue v) {
  const tri_jlist *list = NULL;

  TRI_TRY(tri_jiterate(a, v, &list));
  if (list->n != 2)
    TRI_FAIL(TRI_EINPUT, "tojson: separators must be two texts, not %lld", (long long)list->n);
  if (list->item[0].kind != TRI_J_STRING || list->item[1].kind != TRI_J_STRING)
    TRI_FAIL(TRI_EINPUT, "tojson: separators must be texts");
  d->item_end = list->item[0];
  d->key_end = list->item[1];
  return TRI_OK;
}

tri_status tri_jf_tojson(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  dump d = {
      .b = {.a = a}, .indent = tri_jnone(), .item_end = TRI_J_LITERAL(", "), .key_end = TRI_J_LITERAL(": ")};
  int64_t width = 0;

  d.ascii = tri_jarg_truth(c, 0, false);
  d.sort = tri_jarg_truth(c, 3, false);
  if (c->arg[1] && c->arg[1]->kind != TRI_J_NONE && c->self.kind != TRI_J_STRING) {
    d.indent = *c->arg[1];
    d.item_end = TRI_J_LITERAL(",");
    if (d.indent.kind != TRI_J_STRING) {
      TRI_TRY(tri_jarg_whole(c, 1, 0, &width));
      TRI_TRY(tri_jtext_repeat(a, TRI_J_LITERAL(" "), width, &d.indent));
    }
  }
  if (c->arg[2] && c->arg[2]->kind != TRI_J_NONE) TRI_TRY(read_separators(a, &d, *c->arg[2]));
  TRI_TRY(put_value(&d, c->self));
  *out = tri_jbuf_value(&d.b, 0);
  return TRI_OK;
}
