/* scope.h - the variable behind each name, by scopes inside each other: Jinja's Symbols (idtracking.py).
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
  struct tri_jvariable *variable; /* those of this function */
};

/* A name in a scope. */
typedef struct tri_jbinding tri_jbinding;
struct tri_jbinding {
  tri_jname              *name;
  tri_jload_kind          kind;
  int                     slot;
  struct tri_jopen_scope *scope; /* the frame it belongs to, not a branch of it */
  const tri_jbinding     *from;  /* OUTER */
  tri_jbinding           *below; /* the binding of the same name further out */
  tri_jbinding           *next;  /* of the same scope */
};

typedef struct tri_jopen_scope tri_jopen_scope;
struct tri_jopen_scope {
  tri_jopen_scope *outer;
  tri_jfunc       *func;
  int              level;
  tri_jopen_scope *frame;   /* itself; of a branch: the scope whose branch it is */
  tri_jbinding    *binding; /* the last one first */
};

/* Not collective: all that follow. */
void tri_jscope_enter(tri_jopen_scope *s, tri_jopen_scope *outer, tri_jfunc *func);
/* Closes s; what its names begin with goes into out. */
TRI_CHECKED tri_status tri_jscope_leave(tri_jtree *t, tri_jopen_scope *s, tri_jscope *out);
/* A branch of an if inside s; leaving it takes its names away, merging gives them to `into`. */
void tri_jscope_enter_branch(tri_jopen_scope *s, tri_jopen_scope *outer);
void tri_jscope_leave_branch(tri_jopen_scope *s);
void tri_jscope_merge_branch(tri_jopen_scope *s, tri_jopen_scope *into);

/* The name is read, written, declared in s. */
TRI_CHECKED tri_status tri_jscope_load(tri_jtree *t, tri_jopen_scope *s, tri_jname *name);
TRI_CHECKED tri_status tri_jscope_store(tri_jtree *t, tri_jopen_scope *s, tri_jname *name);
TRI_CHECKED tri_status tri_jscope_declare(tri_jtree *t, tri_jopen_scope *s, tri_jname *name, int *slot);
/* Where the name lies, as seen from s; false: no scope knows it. */
bool tri_jscope_find(const tri_jopen_scope *s, const tri_jname *name, tri_jplace *out);

void tri_jfunc_begin(tri_jfunc *f, tri_jfunc *outer);
void tri_jfunc_end(tri_jfunc *f); /* its slots are all given out */

#endif
