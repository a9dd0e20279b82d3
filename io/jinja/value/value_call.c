/* value_call.c - finds and calls rows of tables, with arguments by position and by name. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "value_impl.h"

#include <string.h>

const tri_jrow *tri_jrow_find(const tri_jrow *row, int64_t n, const char *name, size_t name_bytes) {
  for (int64_t i = 0; i < n; i++)
    if (row[i].name[0] == (name_bytes ? name[0] : 0) && strlen(row[i].name) == name_bytes &&
        !memcmp(row[i].name, name, name_bytes))
      return &row[i];
  return NULL;
}

/* Reads the next parameter's name of "sep=,maxsplit=". */
static const char *next_param(const char *params, size_t *n, bool *optional) {
  *n = strcspn(params, "=,");
  *optional = params[*n] == '=';
  params += *n + *optional;
  return *params == ',' ? params + 1 : params;
}

static tri_status bind(const tri_jrow *row, const tri_jargs *args, tri_jcalled *c) {
  const char *params = row->params, *name;
  bool        by_name = *params != '/', optional, known;
  int         n = 0;
  size_t      bytes;

  for (params += !by_name; *params; n++) {
    name = params;
    params = next_param(params, &bytes, &optional);
    TRI_ASSERT(n < TRI_JARG_MOST);
    if (n < args->n_pos) c->arg[n] = &args->pos[n];
    for (int64_t i = 0; by_name && i < args->n_named; i++) {
      if (args->key[i].as.text.n != bytes || memcmp(args->key[i].as.text.s, name, bytes)) continue;
      if (c->arg[n])
        TRI_FAIL(TRI_EINPUT, "%s() got multiple values for argument '%.*s'", row->name, (int)bytes, name);
      c->arg[n] = &args->named[i];
    }
    if (!c->arg[n] && !optional)
      TRI_FAIL(TRI_EINPUT, "%s() missing required argument: '%.*s'", row->name, (int)bytes, name);
  }
  if (args->n_pos > n)
    TRI_FAIL(TRI_EINPUT, "%s() takes at most %d arguments (%lld given)", row->name, n,
             (long long)args->n_pos);
  for (int64_t i = 0; i < args->n_named; i++) {
    known = false;
    for (params = row->params; by_name && *params;) {
      name = params;
      params = next_param(params, &bytes, &optional);
      known = known || (args->key[i].as.text.n == bytes && !memcmp(args->key[i].as.text.s, name, bytes));
    }
    if (!known)
      TRI_FAIL(TRI_EINPUT,
               by_name ? "%s() got an unexpected keyword argument '%.*s'" : "%s() takes no keyword arguments",
               row->name, (int)(args->key[i].as.text.n < 100 ? args->key[i].as.text.n : 100),
               args->key[i].as.text.s);
  }
  return TRI_OK;
}

tri_status tri_jrow_call(tri_jarena *a, const tri_jrow *row, const char *what, tri_jvalue self,
                         const tri_jargs *args, tri_jvalue *out) {
  tri_jcalled c = {.self = self, .name = row->name, .all = args};

  TRI_TRY(tri_jarena_step(a, 1));
  if (!row->call) TRI_FAIL(TRI_EINPUT, "%s %s is not supported", what, row->name);
  if (*row->params != '*') TRI_TRY(bind(row, args, &c));
  TRI_TRY(tri_jarena_enter(a)); /* a filter may call a filter */
  TRI_TRY(row->call(a, &c, out));
  tri_jarena_leave(a);
  return TRI_OK;
}

tri_status tri_jcall(tri_jarena *a, tri_jvalue f, const tri_jargs *args, tri_jvalue *out) {
  switch (f.kind) {
  case TRI_J_UNDEFINED:
    return tri_jundefined_fail(f);
  case TRI_J_METHOD:
    return tri_jrow_call(a, f.as.bound->row, "method", f.as.bound->self, args, out);
  case TRI_J_FUNCTION:
    return tri_jrow_call(a, f.as.function, "function", tri_jnone(), args, out);
  case TRI_J_OBJECT:
    if (f.as.object->call) return f.as.object->call(a, f.as.object, args, out);
    /* fallthrough */
  default:
    TRI_FAIL(TRI_EINPUT, "'%s' object is not callable", tri_jtype(f));
  }
}

tri_status tri_jarg_whole(const tri_jcalled *c, int i, int64_t otherwise, int64_t *out) {
  *out = otherwise;
  if (!c->arg[i]) return TRI_OK;
  if (c->arg[i]->kind == TRI_J_UNDEFINED) return tri_jundefined_fail(*c->arg[i]);
  if (!tri_jis_whole(*c->arg[i]))
    TRI_FAIL(TRI_EINPUT, "%s(): '%s' object cannot be interpreted as an integer", c->name,
             tri_jtype(*c->arg[i]));
  *out = tri_jwhole(*c->arg[i]);
  return TRI_OK;
}

tri_status tri_jarg_text(tri_jarena *a, const tri_jcalled *c, int i, tri_jvalue otherwise, tri_jvalue *out) {
  *out = otherwise;
  TRI_TRY(tri_jarena_step(a, 1));
  if (!c->arg[i]) return TRI_OK;
  if (!tri_jis_text(*c->arg[i]))
    TRI_FAIL(TRI_EINPUT, "%s() argument %d must be str, not %s", c->name, i + 1, tri_jtype(*c->arg[i]));
  *out = tri_jas_text(*c->arg[i]);
  return TRI_OK;
}

bool tri_jarg_truth(const tri_jcalled *c, int i, bool otherwise) {
  return c->arg[i] ? tri_jtruth(*c->arg[i]) : otherwise;
}
