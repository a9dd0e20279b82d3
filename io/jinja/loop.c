/* loop.c - for loops and the variable loop, as Jinja's LoopContext. A loop with an `if` tests an element
 * only when the body needs it, like the generator of Jinja's compiler. Later tests see changes made by the
 * body. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "jinja_run.h"

typedef struct loop_object {
  tri_jobject      object; /* first, so a pointer to it points to this struct */
  tri_jrun        *run;
  const tri_jfor  *loop;
  tri_jframe      *test_frame; /* NULL without `if` */
  tri_jvalue       walked;     /* the value of `all` */
  const tri_jlist *all;        /* the elements of the loop */
  /* Index in `all` of the next element to test. */
  int64_t at_all;
  /* [n_ahead], from at_ahead on. Elements that passed the test but were not used yet. */
  tri_jvalue *ahead;
  int64_t     at_ahead, n_ahead, cap_ahead;
  int64_t     index0, length; /* length -1: not yet known */
  tri_jvalue  before, current, changed;
} loop_object;

/* ---- elements ---- */

/* Returns an element as the test passes it on. For a tuple of targets, this is a new tuple. */
static tri_status rebuild(tri_jrun *r, tri_jframe *f, const tri_jexpr *target, tri_jvalue value,
                          tri_jvalue *out) {
  *out = value;
  return target->kind == TRI_JX_TUPLE ? tri_jevaluate(r, f, target, out) : TRI_OK;
}

static tri_status passes(loop_object *o, tri_jvalue *value, bool *yes) {
  const tri_jfor *l = o->loop;
  tri_jvalue      v;

  TRI_TRY(tri_jassign(o->run, o->test_frame, l->test_target, *value));
  TRI_TRY(tri_jevaluate(o->run, o->test_frame, l->test, &v));
  *yes = tri_jtruth(v);
  return *yes ? rebuild(o->run, o->test_frame, l->test_target, *value, value) : TRI_OK;
}

static tri_status put_ahead(loop_object *o, tri_jvalue value) {
  if (o->n_ahead == o->cap_ahead) {
    int64_t     cap = o->cap_ahead ? 2 * o->cap_ahead : 4;
    tri_jvalue *more;
    TRI_TRY(tri_jarena_take(o->run->arena, (size_t)cap * sizeof *more, (void **)&more));
    if (o->n_ahead) memcpy(more, o->ahead, (size_t)o->n_ahead * sizeof *more);
    o->ahead = more;
    o->cap_ahead = cap;
  }
  o->ahead[o->n_ahead++] = value;
  return TRI_OK;
}

/* Adds one more element to `ahead`, if there is one. */
static tri_status pull(loop_object *o) {
  bool yes = false;

  while (!yes && o->at_all < o->all->n) {
    tri_jvalue value = o->all->item[o->at_all++];
    TRI_TRY(passes(o, &value, &yes));
    if (yes) TRI_TRY(put_ahead(o, value));
  }
  return TRI_OK;
}

/* Returns the next element without taking it. *found false: there is none. */
static tri_status peek(loop_object *o, tri_jvalue *out, bool *found) {
  if (o->at_ahead == o->n_ahead && o->test_frame) {
    o->at_ahead = o->n_ahead = 0;
    TRI_TRY(pull(o));
  }
  *found = o->at_ahead < o->n_ahead;
  if (*found) *out = o->ahead[o->at_ahead];
  return TRI_OK;
}

static tri_status find_length(loop_object *o) {
  int64_t before = -1;

  if (o->length >= 0) return TRI_OK;
  while (o->n_ahead != before) {
    before = o->n_ahead;
    TRI_TRY(pull(o));
  }
  o->length = o->index0 + 1 + o->n_ahead - o->at_ahead;
  return TRI_OK;
}

/* ---- loop.x ---- */

typedef struct loop_method {
  tri_jobject  object;
  loop_object *loop;
} loop_method;

static tri_status call_cycle(tri_jarena *a, const tri_jobject *m, const tri_jargs *args, tri_jvalue *out) {
  (void)a;
  if (args->n_named) TRI_FAIL(TRI_EINPUT, "LoopContext.cycle() got an unexpected keyword argument");
  if (!args->n_pos) TRI_FAIL(TRI_EINPUT, "no items for cycling given");
  *out = args->pos[((const loop_method *)m)->loop->index0 % args->n_pos];
  return TRI_OK;
}

static tri_status call_changed(tri_jarena *a, const tri_jobject *m, const tri_jargs *args, tri_jvalue *out) {
  loop_object *o = ((const loop_method *)m)->loop;
  tri_jvalue   now;

  if (args->n_named) TRI_FAIL(TRI_EINPUT, "LoopContext.changed() got an unexpected keyword argument");
  TRI_TRY(tri_jlist_make(a, TRI_J_TUPLE, args->pos, args->n_pos, &now));
  *out = tri_jbool(true);
  if (!tri_jis_unset(o->changed)) TRI_TRY(tri_jbinary(a, TRI_JOP_NE, o->changed, now, out));
  if (out->as.truth) o->changed = now;
  return TRI_OK;
}

static tri_status call_loop(tri_jarena *a, const tri_jobject *o, const tri_jargs *args, tri_jvalue *out) {
  (void)a, (void)o, (void)args, (void)out;
  TRI_FAIL(TRI_EINPUT, "The loop must have the 'recursive' marker to be called recursively.");
}

static tri_status get_method(tri_jarena *a, loop_object *o, bool cycle, tri_jvalue *out) {
  loop_method *m;

  TRI_TRY(tri_jarena_take(a, sizeof *m, (void **)&m));
  m->object = (tri_jobject){.type = "method", .call = cycle ? call_cycle : call_changed};
  m->loop = o;
  *out = (tri_jvalue){.kind = TRI_J_OBJECT, .as.object = &m->object};
  return TRI_OK;
}

static tri_status get_index(loop_object *o, tri_jvalue *out) {
  *out = tri_jint(o->index0 + 1);
  return TRI_OK;
}
static tri_status get_index0(loop_object *o, tri_jvalue *out) {
  *out = tri_jint(o->index0);
  return TRI_OK;
}
static tri_status get_revindex(loop_object *o, tri_jvalue *out) {
  TRI_TRY(find_length(o));
  *out = tri_jint(o->length - o->index0);
  return TRI_OK;
}
static tri_status get_revindex0(loop_object *o, tri_jvalue *out) {
  TRI_TRY(find_length(o));
  *out = tri_jint(o->length - o->index0 - 1);
  return TRI_OK;
}
static tri_status get_length(loop_object *o, tri_jvalue *out) {
  TRI_TRY(find_length(o));
  *out = tri_jint(o->length);
  return TRI_OK;
}
static tri_status get_first(loop_object *o, tri_jvalue *out) {
  *out = tri_jbool(o->index0 == 0);
  return TRI_OK;
}
static tri_status get_last(loop_object *o, tri_jvalue *out) {
  tri_jvalue ignored;
  bool       found = false;

  TRI_TRY(peek(o, &ignored, &found));
  *out = tri_jbool(!found);
  return TRI_OK;
}
static tri_status get_previtem(loop_object *o, tri_jvalue *out) {
  *out = o->index0 ? o->before : tri_jmissing("there is no previous item");
  return TRI_OK;
}
static tri_status get_nextitem(loop_object *o, tri_jvalue *out) {
  bool found = false;

  TRI_TRY(peek(o, out, &found));
  if (!found) *out = tri_jmissing("there is no next item");
  return TRI_OK;
}
static tri_status get_depth(loop_object *o, tri_jvalue *out) {
  (void)o;
  *out = tri_jint(1); /* for a loop that is not recursive */
  return TRI_OK;
}
static tri_status get_depth0(loop_object *o, tri_jvalue *out) {
  (void)o;
  *out = tri_jint(0);
  return TRI_OK;
}
static tri_status get_cycle(loop_object *o, tri_jvalue *out) {
  return get_method(o->run->arena, o, true, out);
}
static tri_status get_changed(loop_object *o, tri_jvalue *out) {
  return get_method(o->run->arena, o, false, out);
}

static const struct {
  const char *name;
  tri_status (*get)(loop_object *o, tri_jvalue *out);
} attributes[] = {
    {"first", get_first},       {"last", get_last},         {"index0", get_index0},
    {"index", get_index},       {"length", get_length},     {"previtem", get_previtem},
    {"nextitem", get_nextitem}, {"revindex", get_revindex}, {"revindex0", get_revindex0},
    {"cycle", get_cycle},       {"changed", get_changed},   {"depth", get_depth},
    {"depth0", get_depth0},
};

static tri_status get_attribute(tri_jarena *a, const tri_jobject *o, const char *name, size_t n,
                                tri_jvalue *out, bool *found) {
  (void)a;
  *found = false;
  for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
    if (strlen(attributes[i].name) != n || memcmp(attributes[i].name, name, n)) continue;
    *found = true;
    return attributes[i].get((loop_object *)o, out);
  }
  return TRI_OK;
}

static tri_status print_loop(tri_jarena *a, const tri_jobject *object, tri_text *out) {
  loop_object *o = (loop_object *)object;
  char         text[80];

  TRI_TRY(find_length(o));
  snprintf(text, sizeof text, "<LoopContext %lld/%lld>", (long long)o->index0 + 1, (long long)o->length);
  return tri_jput(a, out, text, strlen(text));
}

/* ---- the statement ---- */

static tri_status open_loop(tri_jrun *r, tri_jframe *f, const tri_jfor *l, loop_object **out) {
  loop_object *o;
  tri_jvalue   v;

  TRI_TRY(tri_jarena_take(r->arena, sizeof *o, (void **)&o));
  o->object =
      (tri_jobject){.type = "LoopContext", .get = get_attribute, .call = call_loop, .print = print_loop};
  o->run = r;
  o->loop = l;
  o->index0 = o->length = -1;
  o->changed = tri_junset();
  TRI_TRY(tri_jevaluate(r, f, l->iter, &v));
  o->walked = v;
  TRI_TRY(tri_jiterate(r->arena, v, &o->all));
  if (l->test) {
    TRI_TRY(tri_jframe_make(r, l->test_slots, f, &o->test_frame));
    tri_jframe_enter(r, o->test_frame, &l->test_scope);
  } else {
    o->ahead = (tri_jvalue *)o->all->item; /* read-only */
    o->n_ahead = o->cap_ahead = o->length = o->all->n;
  }
  *out = o;
  return TRI_OK;
}

/* Assigns the next element to the targets. *found false: there is none. */
static tri_status advance(loop_object *o, tri_jframe *f, bool *found) {
  tri_jvalue value;

  TRI_TRY(peek(o, &value, found));
  if (!*found) return TRI_OK;
  o->at_ahead++;
  o->index0++;
  o->before = o->current;
  o->current = value;
  TRI_TRY(tri_jarena_step(o->run->arena, 1));
  if (o->loop->loop_slot >= 0)
    f->slot[o->loop->loop_slot] = (tri_jvalue){.kind = TRI_J_OBJECT, .as.object = &o->object};
  return tri_jassign(o->run, f, o->loop->target, value);
}

/* Releases the elements of a finished loop, even if something still holds the variable loop. */
static tri_status let_go(loop_object *o) {
  static const tri_jlist none = {0};

  TRI_TRY(find_length(o));
  tri_jiterate_done(o->run->arena, o->walked, o->all);
  o->all = &none;
  o->at_all = o->at_ahead = o->n_ahead = 0;
  return TRI_OK;
}

tri_status tri_jloop_run(tri_jrun *r, tri_jframe *f, const tri_jfor *l) {
  loop_object *o = NULL;
  bool         found = false, otherwise = true;

  TRI_TRY(open_loop(r, f, l, &o));
  for (;;) {
    TRI_TRY(advance(o, f, &found));
    if (!found) TRI_TRY(let_go(o));
    if (!found) break;
    tri_jframe_enter(r, f, &l->body_scope);
    TRI_TRY(r->body(r, f, &l->body));
    if (r->flow == TRI_JFLOW_ON)
      otherwise = false; /* as in Jinja, only if the body did not end by continue or break */
    found = r->flow != TRI_JFLOW_BREAK;
    r->flow = TRI_JFLOW_ON;
    if (!found) break;
  }
  tri_jframe_leave(f, &l->body_scope);
  if (!otherwise) return TRI_OK;
  tri_jframe_enter(r, f, &l->else_scope);
  TRI_TRY(r->body(r, f, &l->otherwise));
  tri_jframe_leave(f, &l->else_scope);
  return TRI_OK;
}
