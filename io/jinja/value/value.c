/* value.c - makes values, and names their types and the messages of undefined ones. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "value_impl.h"

#include <string.h>

tri_jvalue tri_jnone(void) { return (tri_jvalue){.kind = TRI_J_NONE}; }
tri_jvalue tri_jbool(bool x) { return (tri_jvalue){.kind = TRI_J_BOOL, .as.truth = x}; }
tri_jvalue tri_jint(int64_t x) { return (tri_jvalue){.kind = TRI_J_INT, .as.whole = x}; }
tri_jvalue tri_jfloat(double x) { return (tri_jvalue){.kind = TRI_J_FLOAT, .as.real = x}; }

tri_jvalue tri_jtext(const char *s, size_t n) {
  return (tri_jvalue){.kind = TRI_J_STRING, .as.text = {.s = s, .n = n}};
}

tri_jvalue tri_jmarkup(tri_jvalue text, bool markup) {
  text.note = markup ? TRI_J_MARKUP : 0;
  return text;
}

tri_status tri_jtext_copy(tri_jarena *a, const char *s, size_t n, tri_jvalue *out) {
  void *copy = NULL;

  TRI_TRY(tri_jarena_step(a, (int64_t)(n / 64)));
  TRI_TRY(tri_jarena_take(a, n ? n : 1, &copy));
  if (n) memcpy(copy, s, n);
  *out = tri_jtext(copy, n);
  return TRI_OK;
}

tri_jvalue tri_jundefined(const char *name, size_t n) {
  return (tri_jvalue){.kind = TRI_J_UNDEFINED, .as.text = {.s = name, .n = n}};
}

tri_jvalue tri_jmissing(const char *message) {
  return (tri_jvalue){
      .kind = TRI_J_UNDEFINED, .note = TRI_J_MESSAGE, .as.text = {.s = message, .n = strlen(message)}};
}

tri_jvalue tri_jlist_value(tri_jkind kind, const tri_jlist *list) {
  return (tri_jvalue){.kind = kind, .as.list = list};
}

tri_status tri_jlist_reserve(tri_jarena *a, tri_jkind kind, int64_t n, tri_jvalue **item, tri_jvalue *out) {
  tri_jlist *list = NULL;
  void      *memory = NULL;

  TRI_TRY(tri_jarena_step(a, n));
  TRI_TRY(tri_jarena_take(a, sizeof *list, &memory));
  list = memory;
  if (n > TRI_JINJA_BYTES / (int64_t)sizeof **item)
    TRI_FAIL(TRI_EINPUT, "the template takes more than %d MiB of memory", TRI_JINJA_BYTES >> 20);
  TRI_TRY(tri_jarena_take(a, (size_t)n * sizeof **item, &memory));
  *item = memory;
  list->item = memory;
  list->n = n;
  *out = tri_jlist_value(kind, list);
  return TRI_OK;
}

tri_status tri_jlist_make(tri_jarena *a, tri_jkind kind, const tri_jvalue *item, int64_t n, tri_jvalue *out) {
  tri_jvalue *copy = NULL;

  TRI_TRY(tri_jlist_reserve(a, kind, n, &copy, out));
  if (n) memcpy(copy, item, (size_t)n * sizeof *item);
  return TRI_OK;
}

tri_status tri_jstream_make(tri_jarena *a, const char *type, tri_jstream **out, tri_jvalue *value) {
  void *memory = NULL;

  TRI_TRY(tri_jarena_take(a, sizeof **out, &memory));
  *out = memory;
  (*out)->type = type;
  *value = (tri_jvalue){.kind = TRI_J_STREAM, .as.stream = *out};
  return TRI_OK;
}

tri_status tri_jview_make(tri_jarena *a, tri_jvalue map, tri_jpart part, tri_jvalue *out) {
  void      *memory = NULL;
  tri_jview *view;

  TRI_TRY(tri_jarena_take(a, sizeof *view, &memory));
  view = memory;
  *view = (tri_jview){.part = part, .map = map};
  *out = (tri_jvalue){.kind = TRI_J_VIEW, .as.view = view};
  return TRI_OK;
}

static const char *kind_name(tri_jkind kind) {
  static const char *const name[] = {
      [TRI_J_UNDEFINED] = "Undefined",
      [TRI_J_NONE] = "NoneType",
      [TRI_J_BOOL] = "bool",
      [TRI_J_INT] = "int",
      [TRI_J_FLOAT] = "float",
      [TRI_J_STRING] = "str",
      [TRI_J_LIST] = "list",
      [TRI_J_TUPLE] = "tuple",
      [TRI_J_RANGE] = "range",
      [TRI_J_MAP] = "dict",
      [TRI_J_VIEW] = "dict_keys",
      [TRI_J_STREAM] = "generator",
      [TRI_J_NAMESPACE] = "TemplateNamespace",
      [TRI_J_METHOD] = "builtin_function_or_method",
      [TRI_J_FUNCTION] = "function",
      [TRI_J_OBJECT] = "object",
  };
  return name[kind];
}

const char *tri_jtype(tri_jvalue v) {
  static const char *const view_name[] = {"dict_keys", "dict_values", "dict_items"};

  if (v.kind == TRI_J_STRING && v.note == TRI_J_MARKUP) return "Markup";
  if (v.kind == TRI_J_VIEW) return view_name[v.as.view->part];
  if (v.kind == TRI_J_STREAM) return v.as.stream->type;
  if (v.kind == TRI_J_OBJECT) return v.as.object->type;
  return kind_name(v.kind);
}

/* Jinja's object_type_repr, such as "None" or "dict object". A class of a module has the module's name in
 * front. */
static const char *owner_name(tri_jkind kind) {
  switch (kind) {
  case TRI_J_NONE:
    return "None";
  case TRI_J_NAMESPACE:
    return "transformers.utils.chat_template_utils.TemplateNamespace object";
  default:
    return NULL;
  }
}

tri_status tri_jundefined_fail(tri_jvalue u) {
  int         form = u.note % 8, n = (int)(u.as.text.n > 200 ? 200 : u.as.text.n); /* messages are short */
  tri_jkind   kind = (tri_jkind)(u.note / 8);
  const char *s = u.as.text.s ? u.as.text.s : "", *owner = owner_name(kind), *object = owner ? "" : " object";

  if (!owner) owner = kind_name(kind);
  switch (form) {
  case TRI_J_MESSAGE:
    TRI_FAIL(TRI_EINPUT, "%.*s", (int)(u.as.text.n > 1000 ? 1000 : u.as.text.n), s);
  case TRI_J_ATTRIBUTE:
    TRI_FAIL(TRI_EINPUT, "'%s%s' has no attribute '%.*s'", owner, object, n, s);
  case TRI_J_ELEMENT:
    TRI_FAIL(TRI_EINPUT, "%s%s has no element %.*s", owner, object, n, s);
  case TRI_J_UNSAFE:
    TRI_FAIL(TRI_EINPUT, "access to attribute '%.*s' of '%s' object is unsafe.", n, s, kind_name(kind));
  default:
    if (!u.as.text.s) TRI_FAIL(TRI_EINPUT, "an undefined value is used");
    TRI_FAIL(TRI_EINPUT, "'%.*s' is undefined", n, s);
  }
}

tri_status tri_jabsent(tri_jarena *a, tri_jvalue v, tri_jvalue name, int form, tri_jvalue *out) {
  tri_jbuf b = {.a = a};

  *out = (tri_jvalue){.kind = TRI_J_UNDEFINED, .note = form + 8 * (int32_t)v.kind};
  if (v.kind == TRI_J_OBJECT || v.kind == TRI_J_VIEW || v.kind == TRI_J_STREAM) {
    const char *type = tri_jtype(v);
    TRI_TRY(tri_jbuf_text(&b, form == TRI_J_ELEMENT ? "" : "'"));
    TRI_TRY(tri_jbuf_text(&b, type));
    TRI_TRY(
        tri_jbuf_text(&b, form == TRI_J_ELEMENT ? " object has no element " : " object' has no attribute '"));
    TRI_TRY(tri_jbuf_put(&b, name.as.text.s, name.as.text.n < 200 ? name.as.text.n : 200));
    TRI_TRY(tri_jbuf_text(&b, form == TRI_J_ELEMENT ? "" : "'"));
    out->note = TRI_J_MESSAGE;
    out->as.text.s = b.s;
    out->as.text.n = b.n;
    return TRI_OK;
  }
  out->as.text.s = name.as.text.s;
  out->as.text.n = name.as.text.n;
  return TRI_OK;
}

bool tri_jis_text(tri_jvalue v) {
  return v.kind == TRI_J_STRING || (v.kind == TRI_J_LIST && v.as.list->parts);
}

tri_jvalue tri_jas_text(tri_jvalue v) { return v.kind == TRI_J_LIST ? *v.as.list->parts : v; }

bool    tri_jis_whole(tri_jvalue v) { return v.kind == TRI_J_BOOL || v.kind == TRI_J_INT; }
int64_t tri_jwhole(tri_jvalue v) { return v.kind == TRI_J_BOOL ? v.as.truth : v.as.whole; }
