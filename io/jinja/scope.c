/* scope.c - binds names to slots, scope by scope. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/jinja/scope.h"

/* A slot of a function: the Python variable l_LEVEL_NAME. */
typedef struct tri_jvariable tri_jvariable;
struct tri_jvariable {
  tri_jname     *name;
  tri_jfunc     *func;
  int            level, slot;
  tri_jvariable *below; /* next one of the same name */
  tri_jvariable *next;  /* next one of the same function */
};

void tri_jfunc_begin(tri_jfunc *f, tri_jfunc *outer) {
  *f = (tri_jfunc){.outer = outer, .depth = outer ? outer->depth + 1 : 0};
}

void tri_jfunc_end(tri_jfunc *f) {
  for (tri_jvariable *v = f->variable; v; v = v->next) v->name->variable = v->below;
}

static tri_status find_slot(tri_jtree *t, const tri_jopen_scope *s, tri_jname *name, int *out) {
  tri_jvariable *v;

  for (v = name->variable; v && v->func == s->func; v = v->below)
    if (v->level == s->level) {
      *out = v->slot;
      return TRI_OK;
    }
  TRI_TRY(tri_jarena_take(&t->arena, sizeof *v, (void **)&v));
  *v = (tri_jvariable){.name = name, .func = s->func, .level = s->level, .slot = s->func->n_slot++};
  v->below = name->variable;
  v->next = s->func->variable;
  name->variable = s->func->variable = v;
  *out = v->slot;
  return TRI_OK;
}

void tri_jscope_enter(tri_jopen_scope *s, tri_jopen_scope *outer, tri_jfunc *func) {
  *s = (tri_jopen_scope){.outer = outer, .func = func, .level = outer ? outer->level + 1 : 0, .frame = s};
}

void tri_jscope_enter_branch(tri_jopen_scope *s, tri_jopen_scope *outer) {
  *s = (tri_jopen_scope){.outer = outer, .func = outer->func, .level = outer->level, .frame = outer->frame};
}

static void push(tri_jopen_scope *s, tri_jbinding *b) {
  b->below = b->name->binding;
  b->name->binding = b;
  b->next = s->binding;
  s->binding = b;
}

static tri_status bind(tri_jtree *t, tri_jopen_scope *s, tri_jname *name, tri_jload_kind kind) {
  tri_jbinding *b;

  TRI_TRY(tri_jarena_take(&t->arena, sizeof *b, (void **)&b));
  *b = (tri_jbinding){.name = name, .kind = kind, .scope = s->frame};
  if (kind == TRI_JLOAD_OUTER) b->from = name->binding;
  TRI_TRY(find_slot(t, s, name, &b->slot));
  push(s, b);
  return TRI_OK;
}

static bool knows(const tri_jopen_scope *s, const tri_jname *name) {
  return name->binding && name->binding->scope == s->frame;
}

tri_status tri_jscope_load(tri_jtree *t, tri_jopen_scope *s, tri_jname *name) {
  return name->binding ? TRI_OK : bind(t, s, name, TRI_JLOAD_GLOBAL);
}

tri_status tri_jscope_store(tri_jtree *t, tri_jopen_scope *s, tri_jname *name) {
  if (knows(s, name)) return TRI_OK;
  return bind(t, s, name, name->binding ? TRI_JLOAD_OUTER : TRI_JLOAD_UNSET);
}

tri_status tri_jscope_declare(tri_jtree *t, tri_jopen_scope *s, tri_jname *name, int *slot) {
  if (knows(s, name))
    name->binding->kind = TRI_JLOAD_PARAMETER;
  else
    TRI_TRY(bind(t, s, name, TRI_JLOAD_PARAMETER));
  *slot = name->binding->slot;
  return TRI_OK;
}

void tri_jscope_leave_branch(tri_jopen_scope *s) {
  for (tri_jbinding *b = s->binding; b; b = b->next) b->name->binding = b->below;
}

/* If a branch is the first to write a name, the name begins with its value outside the frame, or with the
 * template's variable (idtracking.py, branch_update). */
void tri_jscope_merge_branch(tri_jopen_scope *s, tri_jopen_scope *into) {
  for (tri_jbinding *b = s->binding, *next; b; b = next) {
    next = b->next;
    if (knows(into, b->name)) continue;
    if (b->kind == TRI_JLOAD_UNSET) b->kind = TRI_JLOAD_GLOBAL;
    push(into, b);
  }
}

static tri_status find_global(tri_jtree *t, tri_jname *name, int *out) {
  if (name->global < 0) {
    if (t->n_global == t->cap_global) {
      int64_t     cap = t->cap_global ? 2 * t->cap_global : 16;
      tri_jname **more;
      TRI_TRY(tri_jarena_take(&t->arena, (size_t)cap * sizeof(tri_jname *), (void **)&more));
      for (int64_t i = 0; i < t->n_global; i++) more[i] = t->global[i];
      t->global = more;
      t->cap_global = cap;
    }
    name->global = (int)t->n_global;
    t->global[t->n_global++] = name;
  }
  *out = name->global;
  return TRI_OK;
}

static tri_jplace place_of(const tri_jopen_scope *s, const tri_jbinding *b) {
  return (tri_jplace){.hops = s->func->depth - b->scope->func->depth, .slot = b->slot};
}

tri_status tri_jscope_leave(tri_jtree *t, tri_jopen_scope *s, tri_jscope *out) {
  int n = 0;

  for (const tri_jbinding *b = s->binding; b; b = b->next) n++;
  TRI_TRY(tri_jarena_take(&t->arena, (size_t)n * sizeof *out->load + 1, (void **)&out->load));
  out->n = n;
  for (tri_jbinding *b = s->binding; b; b = b->next) {
    tri_jload *load = &out->load[--n];
    *load = (tri_jload){.kind = b->kind, .slot = b->slot};
    if (b->kind == TRI_JLOAD_OUTER) load->from = place_of(s, b->from);
    if (b->kind == TRI_JLOAD_GLOBAL) TRI_TRY(find_global(t, b->name, &load->global));
    b->name->binding = b->below;
  }
  return TRI_OK;
}

bool tri_jscope_find(const tri_jopen_scope *s, const tri_jname *name, tri_jplace *out) {
  if (!name->binding) return false;
  *out = place_of(s, name->binding);
  return true;
}
