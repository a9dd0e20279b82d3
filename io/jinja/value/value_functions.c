/* value_functions.c - the global functions range, dict, namespace, cycler, joiner, raise_exception and
 * strftime_now. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "value_impl.h"

#include <string.h>

enum { RANGE_MOST = 100000 }; /* MAX_RANGE of jinja2/sandbox.py */

static tri_status make_range(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  int64_t     begin = 0, end = 0, step = 1;
  __int128    n;
  void       *memory = NULL;
  tri_jrange *range;

  TRI_TRY(tri_jarg_whole(c, c->arg[1] ? 1 : 0, 0, &end));
  if (c->arg[1]) TRI_TRY(tri_jarg_whole(c, 0, 0, &begin));
  TRI_TRY(tri_jarg_whole(c, 2, 1, &step));
  if (step == 0) TRI_FAIL(TRI_EINPUT, "range() arg 3 must not be zero");
  n = step > 0 ? ((__int128)end - begin + step - 1) / step
               : ((__int128)begin - end - step - 1) / -(__int128)step;
  if (n < 0 || (step > 0 ? end <= begin : end >= begin)) n = 0;
  if (n > RANGE_MOST)
    TRI_FAIL(TRI_EINPUT, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", RANGE_MOST);
  TRI_TRY(tri_jarena_take(a, sizeof *range, &memory));
  range = memory;
  *range = (tri_jrange){.begin = begin, .end = end, .step = step, .n = (int64_t)n};
  *out = (tri_jvalue){.kind = TRI_J_RANGE, .as.range = range};
  return TRI_OK;
}

/* dict(mapping or pairs, name=value, ...) */
static tri_status make_dict(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  const tri_jlist *list = NULL, *pair = NULL;
  tri_jvalue       from, key, value;

  if (c->all->n_pos > 1)
    TRI_FAIL(TRI_EINPUT, "dict expected at most 1 argument, got %lld", (long long)c->all->n_pos);
  TRI_TRY(tri_jmap_make(a, out));
  from = c->all->n_pos ? c->all->pos[0] : *out;
  if (from.kind == TRI_J_UNDEFINED) return tri_jundefined_fail(from); /* Python reads its keys */
  if (from.kind == TRI_J_MAP)
    for (int64_t i = 0; i < tri_jmap_count(from); i++) {
      tri_jmap_at(from, i, &key, &value);
      TRI_TRY(tri_jmap_put(a, *out, key, value));
    }
  else {
    TRI_TRY(tri_jiterate(a, from, &list));
    for (int64_t i = 0; i < list->n; i++) {
      TRI_TRY(tri_jiterate(a, list->item[i], &pair));
      if (pair->n != 2)
        TRI_FAIL(TRI_EINPUT, "dictionary update sequence element #%lld has length %lld; 2 is required",
                 (long long)i, (long long)pair->n);
      TRI_TRY(tri_jmap_put(a, *out, pair->item[0], pair->item[1]));
    }
  }
  for (int64_t i = 0; i < c->all->n_named; i++)
    TRI_TRY(tri_jmap_put(a, *out, c->all->key[i], c->all->named[i]));
  return TRI_OK;
}

static tri_status make_namespace(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  void       *memory = NULL;
  tri_jspace *space;
  tri_jvalue  map, key, value;

  TRI_TRY(make_dict(a, c, &map));
  TRI_TRY(tri_jarena_take(a, sizeof *space, &memory));
  space = memory;
  space->map = map;
  *out = (tri_jvalue){.kind = TRI_J_NAMESPACE, .as.space = space};
  for (int64_t i = 0; i < tri_jmap_count(map); i++) {
    tri_jmap_at(map, i, &key, &value); /* checked again, as an assignment */
    if (key.kind == TRI_J_STRING) TRI_TRY(tri_jspace_set(a, *out, key.as.text.s, key.as.text.n, value));
  }
  return TRI_OK;
}

static tri_status raise_exception(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jvalue text;

  (void)out;
  TRI_TRY(tri_jstr(a, *c->arg[0], &text));
  TRI_FAIL(TRI_EINPUT, "%.*s", (int)(text.as.text.n < 2000 ? text.as.text.n : 2000), text.as.text.s);
}

static tri_status strftime_now(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jvalue format;

  TRI_TRY(tri_jarg_text(a, c, 0, tri_jnone(), &format));
  return tri_jdate_text(a, format, out);
}

/* ---- cycler and joiner ---- */

typedef struct cycler {
  tri_jobject object; /* first, because a cycler is an object */
  tri_jvalue  items;
  int64_t     at;
} cycler;

static tri_jvalue object_value(const tri_jobject *o) {
  return (tri_jvalue){.kind = TRI_J_OBJECT, .as.object = o};
}

static tri_status cycler_next(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  cycler *cycle = (cycler *)(uintptr_t)c->self.as.object;

  *out = cycle->items.as.list->item[cycle->at];
  cycle->at = (cycle->at + 1) % cycle->items.as.list->n;
  return tri_jarena_step(a, 1);
}

static tri_status cycler_reset(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  ((cycler *)(uintptr_t)c->self.as.object)->at = 0;
  *out = tri_jnone();
  return tri_jarena_step(a, 1);
}

static bool is(const char *name, size_t n, const char *word) {
  return strlen(word) == n && !memcmp(name, word, n);
}

static tri_status cycler_get(tri_jarena *a, const tri_jobject *o, const char *name, size_t n, tri_jvalue *out,
                             bool *found) {
  static const tri_jrow row[] = {{"next", "", cycler_next}, {"reset", "", cycler_reset}};
  const cycler         *cycle = (const cycler *)o;
  void                 *memory = NULL;
  tri_jbound           *bound;

  *found = true;
  if (is(name, n, "current"))
    *out = cycle->items.as.list->item[cycle->at];
  else if (is(name, n, "items"))
    *out = cycle->items;
  else if (is(name, n, "pos"))
    *out = tri_jint(cycle->at);
  else if (is(name, n, "next") || is(name, n, "reset")) {
    TRI_TRY(tri_jarena_take(a, sizeof *bound, &memory));
    bound = memory;
    *bound = (tri_jbound){.self = object_value(o), .row = &row[is(name, n, "reset")]};
    *out = (tri_jvalue){.kind = TRI_J_METHOD, .as.bound = bound};
  } else
    *found = false;
  return TRI_OK;
}

static tri_status make_cycler(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  void   *memory = NULL;
  cycler *cycle;

  if (c->all->n_named) TRI_FAIL(TRI_EINPUT, "cycler() takes no keyword arguments");
  if (!c->all->n_pos) TRI_FAIL(TRI_EINPUT, "at least one item has to be provided");
  TRI_TRY(tri_jarena_take(a, sizeof *cycle, &memory));
  cycle = memory;
  cycle->object = (tri_jobject){.type = "Cycler", .get = cycler_get};
  TRI_TRY(tri_jlist_make(a, TRI_J_TUPLE, c->all->pos, c->all->n_pos, &cycle->items));
  *out = object_value(&cycle->object);
  return TRI_OK;
}

typedef struct joiner {
  tri_jobject object;
  tri_jvalue  sep;
  bool        used;
} joiner;

static tri_status joiner_call(tri_jarena *a, const tri_jobject *o, const tri_jargs *args, tri_jvalue *out) {
  joiner *join = (joiner *)(uintptr_t)o;

  if (args->n_pos || args->n_named) TRI_FAIL(TRI_EINPUT, "a joiner takes no arguments");
  *out = join->used ? join->sep : tri_jtext("", 0);
  join->used = true;
  return tri_jarena_step(a, 1);
}

static tri_status joiner_get(tri_jarena *a, const tri_jobject *o, const char *name, size_t n, tri_jvalue *out,
                             bool *found) {
  const joiner *join = (const joiner *)o;

  *found = true;
  if (is(name, n, "sep"))
    *out = join->sep;
  else if (is(name, n, "used"))
    *out = tri_jbool(join->used);
  else
    *found = false;
  return tri_jarena_step(a, 1);
}

static tri_status make_joiner(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  void   *memory = NULL;
  joiner *join;

  TRI_TRY(tri_jarena_take(a, sizeof *join, &memory));
  join = memory;
  join->object = (tri_jobject){.type = "Joiner", .get = joiner_get, .call = joiner_call};
  join->sep = c->arg[0] ? *c->arg[0] : TRI_J_LITERAL(", ");
  *out = object_value(&join->object);
  return TRI_OK;
}

/* clang-format off */
static const tri_jrow functions[] = {
  {"range", "/start,stop=,step=", make_range}, {"dict", "*", make_dict}, {"namespace", "*", make_namespace},
  {"cycler", "*", make_cycler}, {"joiner", "sep=", make_joiner}, {"raise_exception", "message", raise_exception},
  {"strftime_now", "format", strftime_now}, {"lipsum", "", NULL},
};
/* clang-format on */

bool tri_jglobal_find(const char *name, size_t n, tri_jvalue *out) {
  const tri_jrow *row = tri_jrow_find(functions, sizeof functions / sizeof *functions, name, n);

  if (row) *out = (tri_jvalue){.kind = TRI_J_FUNCTION, .as.function = row};
  return row != NULL;
}
