/* tree.h - the tree of a parsed template: expressions, statements, scopes. Private to its room. The tree lies
 * in its own arena and never changes once the template is open, so several threads may render it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JINJA_TREE_H
#define TRI_JINJA_TREE_H

#include "io/jinja/value/value.h"

/* A name of the template. Each spelling has one tri_jname. */
typedef struct tri_jname tri_jname;
struct tri_jname {
  const char *s; /* [n], and NUL-terminated */
  size_t      n;
  int         global; /* its index in tri_jtree.global, or -1 */
  /* Used while names are resolved (scope.c): the innermost binding, and the slots by function and level. */
  struct tri_jbinding  *binding;
  struct tri_jvariable *variable;
  tri_jname            *next; /* next name in its bucket */
};

/* The place of a variable at run time: `hops` functions further out, at `slot` of that frame. */
typedef struct tri_jplace {
  int hops, slot;
} tri_jplace;

/* How a variable begins when its scope is entered. All variables are unset when the scope is left. */
typedef enum { TRI_JLOAD_PARAMETER, TRI_JLOAD_GLOBAL, TRI_JLOAD_OUTER, TRI_JLOAD_UNSET } tri_jload_kind;
typedef struct tri_jload {
  tri_jload_kind kind;
  int            slot;
  tri_jplace     from;   /* OUTER: the outer variable with the initial value */
  int            global; /* GLOBAL: the index in tri_jtree.global */
} tri_jload;
typedef struct tri_jscope {
  tri_jload *load; /* [n] */
  int        n;
} tri_jscope;

/* ---- expressions ---- */

typedef enum {
  TRI_JX_CONST,
  TRI_JX_NAME,
  TRI_JX_NSREF, /* ns.name as a target of set */
  TRI_JX_TUPLE,
  TRI_JX_LIST,
  TRI_JX_DICT, /* key, value, key, value, ... */
  TRI_JX_CONCAT,
  TRI_JX_BINARY,
  TRI_JX_AND,
  TRI_JX_OR,
  TRI_JX_NOT,
  TRI_JX_NEGATE,
  TRI_JX_PLUS,
  TRI_JX_COMPARE,
  TRI_JX_ATTR,
  TRI_JX_ITEM,
  TRI_JX_SLICE,
  TRI_JX_CALL,
  TRI_JX_FILTER,
  TRI_JX_TEST,
  TRI_JX_COND
} tri_jexpr_kind;

/* The use of a name in the template: read, written by set or for, or declared by a macro or with. */
typedef enum { TRI_JUSE_LOAD, TRI_JUSE_STORE, TRI_JUSE_PARAMETER } tri_juse;

typedef struct tri_jexpr tri_jexpr;

typedef struct tri_jexprs {
  tri_jexpr **item; /* [n] */
  int64_t     n, cap;
} tri_jexprs;

typedef struct tri_jcall_args {
  tri_jexprs  pos, named;
  tri_jname **key;               /* [named.n] */
  tri_jexpr  *more, *more_named; /* *args, **kwargs, or NULL */
} tri_jcall_args;

struct tri_jexpr {
  tri_jexpr_kind kind;
  int            line;
  int            depth; /* its levels, counting itself */
  union {
    tri_jvalue value;
    struct {
      tri_jname *name;
      tri_juse   use;
      tri_jplace at;
      tri_jname *attr; /* NSREF */
    } name;
    tri_jexprs list;
    struct {
      tri_jop    op;
      tri_jexpr *left, *right; /* NOT, NEGATE, PLUS: only left */
    } binary;
    struct {
      tri_jexprs operand; /* one more than ops */
      tri_jop   *op;
    } compare;
    struct {
      tri_jexpr *of;
      tri_jname *name;               /* ATTR */
      tri_jexpr *key;                /* ITEM */
      tri_jexpr *begin, *end, *step; /* SLICE: each may be NULL */
    } part;
    struct {
      tri_jexpr         *of;     /* a FILTER has NULL for the text of its block */
      tri_jname         *name;   /* FILTER, TEST */
      const tri_jfilter *filter; /* NULL: unknown, fails when used */
      const tri_jtest   *test;
      tri_jcall_args    *args;
    } call;
    struct {
      tri_jexpr *test, *yes, *no; /* no may be NULL */
      char      *message;         /* message of the undefined value if there is no else */
    } cond;
  } as;
};

/* ---- statements ---- */

typedef enum {
  TRI_JS_TEXT,
  TRI_JS_PRINT,
  TRI_JS_SET,
  TRI_JS_SET_BLOCK,
  TRI_JS_IF,
  TRI_JS_FOR,
  TRI_JS_MACRO,
  TRI_JS_CALL,
  TRI_JS_GENERATION,
  TRI_JS_FILTER,
  TRI_JS_WITH,
  TRI_JS_SCOPE, /* autoescape false: only a scope */
  TRI_JS_BREAK,
  TRI_JS_CONTINUE
} tri_jstmt_kind;

typedef struct tri_jstmt tri_jstmt;

typedef struct tri_jbody {
  tri_jstmt *first, *last;
} tri_jbody;

/* A macro, or the body of a call block or generation block. */
typedef struct tri_jmacro {
  tri_jname  *name; /* NULL: a call block */
  tri_jname **arg;  /* [n_arg] */
  int        *arg_slot;
  char      **unset;    /* the messages for missing arguments */
  tri_jexprs  defaults; /* defaults of the last defaults.n arguments */
  int64_t     n_arg;
  tri_jbody   body;
  tri_jscope  scope;
  int         n_slot;
  /* Slots of special variables read by the body, or -1. */
  int  caller_slot, kwargs_slot, varargs_slot;
  bool explicit_caller; /* caller is an argument */
  bool reads_caller;
} tri_jmacro;

typedef struct tri_jbranch tri_jbranch;
struct tri_jbranch {
  int          line;
  tri_jexpr   *test;
  tri_jbody    body;
  tri_jbranch *next;
};

typedef struct tri_jfor {
  tri_jexpr *target, *iter;
  /* NULL without `if`. test_target is a copy of the target with the slots of the test. */
  tri_jexpr *test, *test_target;
  tri_jbody  body, otherwise;
  tri_jscope body_scope, else_scope, test_scope;
  int        test_slots;
  int        loop_slot; /* -1: nothing reads `loop` */
} tri_jfor;

struct tri_jstmt {
  tri_jstmt_kind kind;
  int            line;
  tri_jstmt     *next;
  union {
    struct {
      const char *s; /* [n] */
      size_t      n;
    } text;
    tri_jexpr *print;
    struct {
      tri_jexpr *target, *value; /* SET_BLOCK: value is the filter, or NULL */
      tri_jbody  body;
      tri_jscope scope;
    } set;
    struct {
      tri_jbranch *branch;
      tri_jbody    otherwise;
    } cond;
    tri_jfor *loop;
    struct {
      tri_jmacro *macro;
      tri_jexpr  *call; /* CALL */
      tri_jplace  at;   /* MACRO: the place to keep it */
    } macro;
    struct {
      tri_jexpr *filter;        /* FILTER */
      tri_jexprs target, value; /* WITH */
      tri_jbody  body;
      tri_jscope scope;
    } block;
  } as;
};

/* ---- a template ---- */

typedef struct tri_jtree {
  tri_jarena  arena;
  const char *text; /* [n], with newlines as \n */
  size_t      n;
  tri_jname **bucket; /* [n_bucket] */
  int64_t     n_bucket, n_name;
  tri_jname **global; /* [n_global] the names looked up in the variables */
  int64_t     n_global, cap_global;
  tri_jbody   body;
  tri_jscope  scope;
  int         n_slot;
  bool        marks; /* has {% generation %} */
} tri_jtree;

/* Fails with "line N: " and the message. */
#define TRI_JFAIL(line, ...)       TRI_JFAIL_(line, __VA_ARGS__, "")
#define TRI_JFAIL_(line, fmt, ...) TRI_FAIL(TRI_EINPUT, "line %d: " fmt "%s", line, __VA_ARGS__)

/* Not collective: all that follow. Each name is stored once. Nodes and lists lie in the arena of the tree. */
TRI_CHECKED tri_status tri_jtree_name(tri_jtree *t, const char *s, size_t n, tri_jname **out);
/* Returns a printf-formatted text of at most 4,000 bytes. */
TRI_CHECKED tri_status tri_jtree_text(tri_jtree *t, char **out, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
TRI_CHECKED tri_status tri_jexpr_make(tri_jtree *t, tri_jexpr_kind kind, int line, tri_jexpr **out);
TRI_CHECKED tri_status tri_jexprs_put(tri_jtree *t, tri_jexprs *list, tri_jexpr *x);
/* Notes that x contains `part` (may be NULL) and counts its levels. Fails past the limit. */
TRI_CHECKED tri_status tri_jexpr_holds(tri_jexpr *x, const tri_jexpr *part);
TRI_CHECKED tri_status tri_jstmt_put(tri_jtree *t, tri_jbody *body, tri_jstmt_kind kind, int line,
                                     tri_jstmt **out);
/* Copies a target (names and tuples of names) into new nodes. */
TRI_CHECKED tri_status tri_jexpr_copy_target(tri_jtree *t, const tri_jexpr *x, tri_jexpr **out);

#endif
