/* macro.c - macros as values: their attributes, and their arguments as in Jinja's Macro.__call__. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "jinja_run.h"

typedef struct macro_object {
  tri_jobject       object; /* first, so a pointer to it points to this struct */
  tri_jrun         *run;
  tri_jframe       *closure;
  const tri_jmacro *macro;
} macro_object;

static bool is_name(tri_jvalue v, const char *name) {
  return v.as.text.n == strlen(name) && !memcmp(v.as.text.s, name, v.as.text.n);
}

static tri_status get_arguments(tri_jarena *a, const tri_jmacro *m, tri_jvalue *out) {
  tri_jvalue *item;

  TRI_TRY(tri_jarena_take(a, (size_t)m->n_arg * sizeof *item + 1, (void **)&item));
  for (int64_t i = 0; i < m->n_arg; i++) item[i] = tri_jtext(m->arg[i]->s, m->arg[i]->n);
  return tri_jlist_make(a, TRI_J_TUPLE, item, m->n_arg, out);
}

static tri_status get_attribute(tri_jarena *a, const tri_jobject *o, const char *name, size_t n,
                                tri_jvalue *out, bool *found) {
  const tri_jmacro *m = ((const macro_object *)o)->macro;
  tri_jvalue        asked = tri_jtext(name, n);

  *found = true;
  if (is_name(asked, "arguments")) return get_arguments(a, m, out);
  if (is_name(asked, "name"))
    *out = m->name ? tri_jtext(m->name->s, m->name->n) : tri_jnone();
  else if (is_name(asked, "catch_kwargs"))
    *out = tri_jbool(m->kwargs_slot >= 0);
  else if (is_name(asked, "catch_varargs"))
    *out = tri_jbool(m->varargs_slot >= 0);
  else if (is_name(asked, "caller"))
    *out = tri_jbool(m->reads_caller);
  else if (is_name(asked, "explicit_caller"))
    *out = tri_jbool(m->explicit_caller);
  else
    *found = false;
  return TRI_OK;
}

static tri_status print_macro(tri_jarena *a, const tri_jobject *o, tri_text *out) {
  const tri_jmacro *m = ((const macro_object *)o)->macro;
  tri_jvalue        name;

  if (!m->name) return tri_jput(a, out, "<Macro anonymous>", 17);
  name = tri_jtext(m->name->s, m->name->n);
  TRI_TRY(tri_jput(a, out, "<Macro ", 7));
  TRI_TRY(tri_jrepr(a, name, out));
  return tri_jput(a, out, ">", 1);
}

/* ---- arguments ---- */

/* The named arguments left over. One of them may be the caller. */
typedef struct naming {
  const tri_jargs *args;
  bool            *taken; /* [n_named] */
  int64_t          left;
} naming;

static bool take_named(naming *n, const char *name, tri_jvalue *out) {
  for (int64_t i = 0; i < n->args->n_named; i++) {
    if (n->taken[i] || !is_name(n->args->key[i], name)) continue;
    *out = n->args->named[i];
    n->taken[i] = true;
    n->left--;
    return true;
  }
  return false;
}

static tri_status fill_kwargs(tri_jarena *a, const naming *n, tri_jvalue *out) {
  TRI_TRY(tri_jmap_make(a, out));
  for (int64_t i = 0; i < n->args->n_named; i++)
    if (!n->taken[i]) TRI_TRY(tri_jmap_put(a, *out, n->args->key[i], n->args->named[i]));
  return TRI_OK;
}

static tri_status refuse_named(const tri_jmacro *m, const naming *n) {
  const char *name = m->name ? m->name->s : "None";

  for (int64_t i = 0; i < n->args->n_named; i++) {
    if (n->taken[i]) continue;
    if (is_name(n->args->key[i], "caller"))
      TRI_FAIL(TRI_EINPUT,
               "macro '%.200s' was invoked with two values for the special caller argument. This is most "
               "likely a bug.",
               name);
    TRI_FAIL(TRI_EINPUT, "macro '%.200s' takes no keyword argument '%.*s'", name,
             (int)(n->args->key[i].as.text.n > 200 ? 200 : n->args->key[i].as.text.n),
             n->args->key[i].as.text.s);
  }
  return TRI_OK;
}

static tri_status deal_arguments(const macro_object *o, const tri_jargs *args, tri_jframe *f) {
  const tri_jmacro *m = o->macro;
  tri_jarena       *a = o->run->arena;
  naming            n = {.args = args, .left = args->n_named};
  bool              found_caller = false;
  int64_t           given = args->n_pos < m->n_arg ? args->n_pos : m->n_arg;

  TRI_TRY(tri_jarena_take(a, (size_t)args->n_named + 1, (void **)&n.taken));
  TRI_TRY(tri_jarena_step(a, m->n_arg + args->n_named * (m->n_arg - given + 1)));
  for (int64_t i = 0; i < given; i++) f->slot[m->arg_slot[i]] = args->pos[i];
  for (int64_t i = given; i < m->n_arg; i++) take_named(&n, m->arg[i]->s, &f->slot[m->arg_slot[i]]);
  found_caller = m->explicit_caller;
  if (m->reads_caller && !found_caller) {
    tri_jvalue *caller = &f->slot[m->caller_slot];
    if (!take_named(&n, "caller", caller) || caller->kind == TRI_J_NONE)
      *caller = tri_jmissing("No caller defined");
  }
  if (m->kwargs_slot >= 0)
    TRI_TRY(fill_kwargs(a, &n, &f->slot[m->kwargs_slot]));
  else if (n.left)
    return refuse_named(m, &n);
  if (m->varargs_slot >= 0)
    return tri_jlist_make(a, TRI_J_TUPLE, args->pos ? args->pos + given : NULL, args->n_pos - given,
                          &f->slot[m->varargs_slot]);
  if (args->n_pos > m->n_arg)
    TRI_FAIL(TRI_EINPUT, "macro '%.200s' takes not more than %lld argument(s)", m->name ? m->name->s : "None",
             (long long)m->n_arg);
  return TRI_OK;
}

static tri_status fill_defaults(tri_jrun *r, const tri_jmacro *m, tri_jframe *f) {
  int64_t without = m->n_arg - m->defaults.n;

  for (int64_t i = 0; i < m->n_arg; i++) {
    tri_jvalue value;
    if (!tri_jis_unset(f->slot[m->arg_slot[i]])) continue;
    if (i < without)
      value = tri_jmissing(m->unset[i]);
    else
      TRI_TRY(tri_jevaluate(r, f, m->defaults.item[i - without], &value));
    f->slot[m->arg_slot[i]] = value;
  }
  return TRI_OK;
}

static tri_status call_macro(tri_jarena *a, const tri_jobject *o, const tri_jargs *args, tri_jvalue *out) {
  const macro_object *m = (const macro_object *)o;
  tri_jrun           *r = m->run;
  tri_jframe         *f;
  size_t              mark;

  TRI_TRY(tri_jarena_enter(a));
  TRI_TRY(tri_jframe_make(r, m->macro->n_slot, m->closure, &f));
  TRI_TRY(deal_arguments(m, args, f));
  tri_jframe_enter(r, f, &m->macro->scope);
  mark = tri_jcapture_begin(r);
  TRI_TRY(fill_defaults(r, m->macro, f));
  TRI_TRY(r->body(r, f, &m->macro->body));
  TRI_TRY(tri_jcapture_end(r, mark, out));
  tri_jarena_leave(a);
  return TRI_OK;
}

tri_status tri_jmacro_call(tri_jvalue macro, const tri_jargs *args, tri_jvalue *out) {
  return call_macro(((const macro_object *)macro.as.object)->run->arena, macro.as.object, args, out);
}

tri_status tri_jmacro_make(tri_jrun *r, tri_jframe *f, const tri_jmacro *m, tri_jvalue *out) {
  macro_object *o;

  TRI_TRY(tri_jarena_take(r->arena, sizeof *o, (void **)&o));
  o->object = (tri_jobject){.type = "Macro", .get = get_attribute, .call = call_macro, .print = print_macro};
  o->run = r;
  o->closure = f;
  o->macro = m;
  *out = (tri_jvalue){.kind = TRI_J_OBJECT, .as.object = &o->object};
  return TRI_OK;
}
