/* jinja_evaluate.c - evaluates expressions. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "jinja_run.h"

static tri_status evaluate_name(tri_jrun *r, tri_jframe *f, const tri_jexpr *x, tri_jvalue *out) {
  (void)r;
  *out = *tri_jframe_at(f, x->as.name.at);
  if (tri_jis_unset(*out)) *out = tri_jundefined(x->as.name.name->s, x->as.name.name->n);
  return TRI_OK;
}

static tri_status evaluate_list(tri_jrun *r, tri_jframe *f, const tri_jexprs *list, tri_jvalue **out) {
  TRI_TRY(tri_jarena_take(r->arena, (size_t)list->n * sizeof **out + 1, (void **)out));
  for (int64_t i = 0; i < list->n; i++) TRI_TRY(tri_jevaluate(r, f, list->item[i], &(*out)[i]));
  return TRI_OK;
}

static tri_status evaluate_sequence(tri_jrun *r, tri_jframe *f, const tri_jexpr *x, tri_jvalue *out) {
  tri_jvalue *item;

  TRI_TRY(evaluate_list(r, f, &x->as.list, &item));
  r->line = x->line;
  if (x->kind == TRI_JX_CONCAT) return tri_jconcat(r->arena, item, x->as.list.n, out);
  return tri_jlist_make(r->arena, x->kind == TRI_JX_LIST ? TRI_J_LIST : TRI_J_TUPLE, item, x->as.list.n, out);
}

static tri_status evaluate_dict(tri_jrun *r, tri_jframe *f, const tri_jexpr *x, tri_jvalue *out) {
  tri_jvalue key, value;

  TRI_TRY(tri_jmap_make(r->arena, out));
  for (int64_t i = 0; i + 1 < x->as.list.n; i += 2) {
    TRI_TRY(tri_jevaluate(r, f, x->as.list.item[i], &key));
    TRI_TRY(tri_jevaluate(r, f, x->as.list.item[i + 1], &value));
    r->line = x->line;
    TRI_TRY(tri_jmap_put(r->arena, *out, key, value));
  }
  return TRI_OK;
}

static tri_status evaluate_binary(tri_jrun *r, tri_jframe *f, const tri_jexpr *x, tri_jvalue *out) {
  tri_jvalue left, right;

  TRI_TRY(tri_jevaluate(r, f, x->as.binary.left, &left));
  TRI_TRY(tri_jevaluate(r, f, x->as.binary.right, &right));
  r->line = x->line;
  return tri_jbinary(r->arena, x->as.binary.op, left, right, out);
}

static tri_status evaluate_unary(tri_jrun *r, tri_jframe *f, const tri_jexpr *x, tri_jvalue *out) {
  tri_jvalue of;

  TRI_TRY(tri_jevaluate(r, f, x->as.binary.left, &of));
  r->line = x->line;
  if (x->kind != TRI_JX_NOT) return tri_jnegate(r->arena, of, x->kind == TRI_JX_PLUS, out);
  *out = tri_jbool(!tri_jtruth(of));
  return TRI_OK;
}

/* Evaluates and/or: the left value, or the right one. */
static tri_status evaluate_logic(tri_jrun *r, tri_jframe *f, const tri_jexpr *x, tri_jvalue *out) {
  TRI_TRY(tri_jevaluate(r, f, x->as.binary.left, out));
  if (tri_jtruth(*out) == (x->kind == TRI_JX_OR)) return TRI_OK;
  return tri_jevaluate(r, f, x->as.binary.right, out);
}

/* a < b < c: a < b and b < c, with b evaluated once. */
static tri_status evaluate_compare(tri_jrun *r, tri_jframe *f, const tri_jexpr *x, tri_jvalue *out) {
  const tri_jexprs *operand = &x->as.compare.operand;
  tri_jvalue        left, right;

  TRI_TRY(tri_jevaluate(r, f, operand->item[0], &left));
  for (int64_t i = 1; i < operand->n; i++) {
    TRI_TRY(tri_jevaluate(r, f, operand->item[i], &right));
    r->line = x->line;
    TRI_TRY(tri_jbinary(r->arena, x->as.compare.op[i - 1], left, right, out));
    if (!tri_jtruth(*out)) return TRI_OK;
    left = right;
  }
  return TRI_OK;
}

static tri_status evaluate_attr(tri_jrun *r, tri_jframe *f, const tri_jexpr *x, tri_jvalue *out) {
  tri_jvalue of;

  TRI_TRY(tri_jevaluate(r, f, x->as.part.of, &of));
  r->line = x->line;
  return tri_jattr(r->arena, of, x->as.part.name->s, x->as.part.name->n, out);
}

static tri_status evaluate_item(tri_jrun *r, tri_jframe *f, const tri_jexpr *x, tri_jvalue *out) {
  tri_jvalue of, key;

  TRI_TRY(tri_jevaluate(r, f, x->as.part.of, &of));
  TRI_TRY(tri_jevaluate(r, f, x->as.part.key, &key));
  r->line = x->line;
  return tri_jitem(r->arena, of, key, out);
}

static tri_status evaluate_slice(tri_jrun *r, tri_jframe *f, const tri_jexpr *x, tri_jvalue *out) {
  const tri_jexpr *part[3] = {x->as.part.begin, x->as.part.end, x->as.part.step};
  tri_jvalue       of, bound[3];

  TRI_TRY(tri_jevaluate(r, f, x->as.part.of, &of));
  for (int i = 0; i < 3; i++)
    if (part[i]) TRI_TRY(tri_jevaluate(r, f, part[i], &bound[i]));
  r->line = x->line;
  return tri_jslice(r->arena, of, part[0] ? &bound[0] : NULL, part[1] ? &bound[1] : NULL,
                    part[2] ? &bound[2] : NULL, out);
}

/* ---- calls ---- */

/* Arguments under construction. */
typedef struct argument_list {
  tri_jvalue *pos, *key, *named;
  tri_jargs   args;
} argument_list;

static tri_status put_more(tri_jrun *r, tri_jframe *f, const tri_jcall_args *c, argument_list *a) {
  const tri_jlist *more;
  tri_jvalue       v, *pos;

  TRI_TRY(tri_jevaluate(r, f, c->more, &v));
  TRI_TRY(tri_jiterate(r->arena, v, &more));
  TRI_TRY(tri_jarena_step(r->arena, more->n));
  TRI_TRY(tri_jarena_take(r->arena, (size_t)(a->args.n_pos + more->n) * sizeof *pos + 1, (void **)&pos));
  if (a->args.n_pos) memcpy(pos, a->pos, (size_t)a->args.n_pos * sizeof *pos);
  if (more->n) memcpy(pos + a->args.n_pos, more->item, (size_t)more->n * sizeof *pos);
  a->pos = pos;
  a->args.n_pos += more->n;
  return TRI_OK;
}

static bool same_text(tri_jvalue a, tri_jvalue b) {
  return a.as.text.n == b.as.text.n && !memcmp(a.as.text.s, b.as.text.s, a.as.text.n);
}

/* Appends the keys and values of **kwargs after the existing n. a->key and a->named have space for them. */
static tri_status put_mapping(tri_jrun *r, tri_jvalue map, argument_list *a) {
  int64_t n = a->args.n_named;

  for (int64_t i = 0; i < tri_jmap_count(map); i++) {
    tri_jvalue key, value;
    tri_jmap_at(map, i, &key, &value);
    if (key.kind != TRI_J_STRING) TRI_FAIL(TRI_EINPUT, "keywords must be strings");
    TRI_TRY(tri_jarena_step(r->arena, n + 1));
    for (int64_t k = 0; k < n; k++)
      if (same_text(a->key[k], key))
        TRI_FAIL(TRI_EINPUT, "got multiple values for keyword argument '%.*s'", (int)key.as.text.n,
                 key.as.text.s);
    a->key[a->args.n_named] = key;
    a->named[a->args.n_named++] = value;
  }
  return TRI_OK;
}

static tri_status put_named(tri_jrun *r, tri_jframe *f, const tri_jcall_args *c, const tri_jvalue *caller,
                            argument_list *a) {
  tri_jvalue map;
  int64_t    n = c->named.n + (caller != NULL);

  if (c->more_named) {
    TRI_TRY(tri_jevaluate(r, f, c->more_named, &map));
    if (map.kind == TRI_J_UNDEFINED) TRI_TRY(tri_jattr(r->arena, map, "keys", 4, &map));
    if (map.kind != TRI_J_MAP) TRI_FAIL(TRI_EINPUT, "argument after ** must be a mapping");
    n += tri_jmap_count(map);
  }
  if (!n) return TRI_OK;
  TRI_TRY(tri_jarena_take(r->arena, (size_t)n * sizeof *a->key, (void **)&a->key));
  TRI_TRY(tri_jarena_take(r->arena, (size_t)n * sizeof *a->named, (void **)&a->named));
  for (int64_t i = 0; i < c->named.n; i++) {
    a->key[i] = tri_jtext(c->key[i]->s, c->key[i]->n);
    TRI_TRY(tri_jevaluate(r, f, c->named.item[i], &a->named[i]));
  }
  a->args.n_named = c->named.n;
  if (caller) {
    a->key[a->args.n_named] = tri_jtext("caller", 6);
    a->named[a->args.n_named++] = *caller;
  }
  return c->more_named ? put_mapping(r, map, a) : TRI_OK;
}

static tri_status evaluate_args(tri_jrun *r, tri_jframe *f, const tri_jcall_args *c, const tri_jvalue *caller,
                                tri_jargs *out) {
  argument_list a = {0};

  if (c->pos.n) TRI_TRY(evaluate_list(r, f, &c->pos, &a.pos));
  a.args.n_pos = c->pos.n;
  if (c->more) TRI_TRY(put_more(r, f, c, &a));
  if (c->named.n || c->more_named || caller) TRI_TRY(put_named(r, f, c, caller, &a));
  *out = a.args;
  out->pos = a.pos;
  out->key = a.key;
  out->named = a.named;
  return TRI_OK;
}

tri_status tri_jevaluate_call(tri_jrun *r, tri_jframe *f, const tri_jexpr *x, const tri_jvalue *caller,
                              tri_jvalue *out) {
  tri_jvalue of;
  tri_jargs  args;

  TRI_TRY(tri_jevaluate(r, f, x->as.call.of, &of));
  TRI_TRY(evaluate_args(r, f, x->as.call.args, caller, &args));
  r->line = x->line;
  return tri_jcall(r->arena, of, &args, out);
}

static tri_status fail_unknown(const tri_jexpr *x) {
  const tri_jname *name = x->as.call.name;
  const char      *what = x->kind == TRI_JX_FILTER ? "filter" : "test";
  bool             elsewhere = false;

  if (x->kind == TRI_JX_FILTER)
    tri_jfilter_find(name->s, name->n, &elsewhere);
  else
    tri_jtest_find(name->s, name->n, &elsewhere);
  if (elsewhere) TRI_FAIL(TRI_EINPUT, "the %s '%s' of Jinja is not supported", what, name->s);
  TRI_FAIL(TRI_EINPUT, "No %s named '%.200s' found.", what, name->s);
}

/* Evaluates a filter or a test. */
static tri_status evaluate_filter(tri_jrun *r, tri_jframe *f, const tri_jexpr *x, tri_jvalue *out) {
  tri_jvalue of = r->block;
  tri_jargs  args;
  bool       truth;

  if (x->as.call.of) TRI_TRY(tri_jevaluate(r, f, x->as.call.of, &of));
  TRI_TRY(evaluate_args(r, f, x->as.call.args, NULL, &args));
  r->line = x->line;
  if (x->as.call.filter) return tri_jfilter_call(r->arena, x->as.call.filter, of, &args, out);
  if (!x->as.call.test) return fail_unknown(x);
  TRI_TRY(tri_jtest_call(r->arena, x->as.call.test, of, &args, &truth));
  *out = tri_jbool(truth);
  return TRI_OK;
}

static tri_status evaluate_cond(tri_jrun *r, tri_jframe *f, const tri_jexpr *x, tri_jvalue *out) {
  tri_jvalue test;

  TRI_TRY(tri_jevaluate(r, f, x->as.cond.test, &test));
  if (tri_jtruth(test)) return tri_jevaluate(r, f, x->as.cond.yes, out);
  if (x->as.cond.no) return tri_jevaluate(r, f, x->as.cond.no, out);
  *out = tri_jmissing(x->as.cond.message);
  return TRI_OK;
}

static tri_status evaluate_kind(tri_jrun *r, tri_jframe *f, const tri_jexpr *x, tri_jvalue *out) {
  switch (x->kind) {
  case TRI_JX_CONST:
    *out = x->as.value;
    return TRI_OK;
  case TRI_JX_NAME:
  case TRI_JX_NSREF:
    return evaluate_name(r, f, x, out);
  case TRI_JX_TUPLE:
  case TRI_JX_LIST:
  case TRI_JX_CONCAT:
    return evaluate_sequence(r, f, x, out);
  case TRI_JX_DICT:
    return evaluate_dict(r, f, x, out);
  case TRI_JX_BINARY:
    return evaluate_binary(r, f, x, out);
  case TRI_JX_AND:
  case TRI_JX_OR:
    return evaluate_logic(r, f, x, out);
  case TRI_JX_NOT:
  case TRI_JX_NEGATE:
  case TRI_JX_PLUS:
    return evaluate_unary(r, f, x, out);
  case TRI_JX_COMPARE:
    return evaluate_compare(r, f, x, out);
  case TRI_JX_ATTR:
    return evaluate_attr(r, f, x, out);
  case TRI_JX_ITEM:
    return evaluate_item(r, f, x, out);
  case TRI_JX_SLICE:
    return evaluate_slice(r, f, x, out);
  case TRI_JX_CALL:
    return tri_jevaluate_call(r, f, x, NULL, out);
  case TRI_JX_FILTER:
  case TRI_JX_TEST:
    return evaluate_filter(r, f, x, out);
  case TRI_JX_COND:
    return evaluate_cond(r, f, x, out);
  }
  TRI_FAIL(TRI_EINTERNAL, "an expression of kind %d", (int)x->kind);
}

tri_status tri_jevaluate(tri_jrun *r, tri_jframe *f, const tri_jexpr *x, tri_jvalue *out) {
  r->line = x->line;
  if (x->kind == TRI_JX_CONST) {
    *out = x->as.value;
    return TRI_OK;
  }
  TRI_TRY(tri_jarena_step(r->arena, 1));
  TRI_TRY(tri_jarena_enter(r->arena));
  TRI_TRY(evaluate_kind(r, f, x, out));
  tri_jarena_leave(r->arena);
  return TRI_OK;
}

/* ---- targets ---- */

static tri_status assign_tuple(tri_jrun *r, tri_jframe *f, const tri_jexprs *list, tri_jvalue value) {
  const tri_jlist *item;

  TRI_TRY(tri_jiterate(r->arena, value, &item));
  if (item->n > list->n)
    TRI_FAIL(TRI_EINPUT, "too many values to unpack (expected %lld)", (long long)list->n);
  if (item->n < list->n)
    TRI_FAIL(TRI_EINPUT, "not enough values to unpack (expected %lld, got %lld)", (long long)list->n,
             (long long)item->n);
  for (int64_t i = 0; i < list->n; i++) TRI_TRY(tri_jassign(r, f, list->item[i], item->item[i]));
  return TRI_OK;
}

tri_status tri_jassign(tri_jrun *r, tri_jframe *f, const tri_jexpr *target, tri_jvalue value) {
  const tri_jname *attr = target->as.name.attr;

  if (target->kind == TRI_JX_TUPLE) return assign_tuple(r, f, &target->as.list, value);
  if (target->kind == TRI_JX_NSREF)
    return tri_jspace_set(r->arena, *tri_jframe_at(f, target->as.name.at), attr->s, attr->n, value);
  *tri_jframe_at(f, target->as.name.at) = value;
  return TRI_OK;
}
