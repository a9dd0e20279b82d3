/* scope.h - finds the variable of each name through nested scopes, as Jinja's Symbols (idtracking.py).
 * Private to its room. Jinja compiles the template and each macro to a Python function, and each name of a
 * scope to a Python variable l_LEVEL_NAME. Here a function has a slot for each pair of level and name. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JINJA_SCOPE_H
#define TRI_JINJA_SCOPE_H

#include "io/jinja/tree.h"

typedef struct tri_jfunc tri_jfunc;
struct tri_jfunc {
  tri_jfunc            *outer;
  int                   depth, n_slot;
  struct tri_jvariable *variable; /* the variables of this function */
};

/* A name in a scope. */
typedef struct tri_jbinding tri_jbinding;
struct tri_jbinding {
  tri_jname              *name;
  tri_jload_kind          kind;
  int                     slot;
  struct tri_jopen_scope *scope; /* the frame of the binding, never a branch of it */
  const tri_jbinding     *from;  /* OUTER */
  tri_jbinding           *below; /* the binding of the same name in an outer scope */
  tri_jbinding           *next;  /* next binding of the same scope */
};

typedef struct tri_jopen_scope tri_jopen_scope;
struct tri_jopen_scope {
  tri_jopen_scope *outer;
  tri_jfunc       *func;
  int              level;
  tri_jopen_scope *frame;   /* the scope itself, or the scope around a branch */
  tri_jbinding    *binding; /* the last one first */
};

/* Not collective: all that follow. */
void tri_jscope_enter(tri_jopen_scope *s, tri_jopen_scope *outer, tri_jfunc *func);
/* Closes s. `out` gets the initial values of its names. */
TRI_CHECKED tri_status tri_jscope_leave(tri_jtree *t, tri_jopen_scope *s, tri_jscope *out);
/* Open and close a branch of an if inside s. Leaving drops its names, merging moves them to `into`. */
void tri_jscope_enter_branch(tri_jopen_scope *s, tri_jopen_scope *outer);
void tri_jscope_leave_branch(tri_jopen_scope *s);
void tri_jscope_merge_branch(tri_jopen_scope *s, tri_jopen_scope *into);

/* Note that the name is read, written, or declared in s. */
TRI_CHECKED tri_status tri_jscope_load(tri_jtree *t, tri_jopen_scope *s, tri_jname *name);
TRI_CHECKED tri_status tri_jscope_store(tri_jtree *t, tri_jopen_scope *s, tri_jname *name);
TRI_CHECKED tri_status tri_jscope_declare(tri_jtree *t, tri_jopen_scope *s, tri_jname *name, int *slot);
/* Finds the place of a name as seen from s. false: no scope knows it. */
bool tri_jscope_find(const tri_jopen_scope *s, const tri_jname *name, tri_jplace *out);

void tri_jfunc_begin(tri_jfunc *f, tri_jfunc *outer);
void tri_jfunc_end(tri_jfunc *f); /* all its slots are assigned */

#endif
