/* value.h - the values of a template during rendering, and Python's rules for them. Not collective: all that
 * follow. A value is passed as a struct and never changes, except namespaces, streams, cyclers and joiners.
 * The memory it points to lies in the arena. The arena is freed as a whole after the rendering. Nothing here
 * knows the tree of a template. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JINJA_VALUE_H
#define TRI_JINJA_VALUE_H

#include <jansson.h>

#include "base/text_buffer.h"

/* The limits of a rendering: steps, levels of nesting, bytes of memory, and bytes of text. Every byte of the
 * variables adds steps and bytes, so that no conversation is too long. These additions are chosen. Some
 * templates look at each character of a conversation, or at each pair of its messages, and make a few copies
 * of it. */
enum {
  TRI_JINJA_STEPS = 10000000,
  TRI_JINJA_LEVELS = 1000,
  TRI_JINJA_BYTES = 64 << 20,
  TRI_JINJA_STEPS_MORE = 100,
  TRI_JINJA_BYTES_MORE = 8
};
enum { TRI_JINJA_TAILS = 8 }; /* chosen, texts and lists growing at the same time */

/* The memory of a text or list, which may have space at its end. Elements are bytes or values. */
typedef struct tri_jtail {
  void   *at;
  int64_t n, cap;
} tri_jtail;

/* ---- the arena: memory, steps and levels of a rendering ---- */

/* The memory and the counters of a rendering. Zero-initialise. tri_jarena_free leaves it zeroed. */
typedef struct tri_jarena {
  struct tri_jblock *block;
  int64_t            given; /* bytes of the variables' texts, and some for each value */
  int64_t            bytes; /* bytes taken, limited by TRI_JINJA_BYTES and by `given` */
  int64_t            steps; /* steps taken, limited by TRI_JINJA_STEPS and by `given` */
  int64_t            level; /* open calls of tri_jarena_enter, at most TRI_JINJA_LEVELS */
  tri_jtail          spare; /* memory for the elements of a walk. `at` NULL: none */
  tri_jtail          tail[TRI_JINJA_TAILS];
  int64_t            next_tail; /* index of the tail to replace next */
  /* The date for strftime_now, such as "2026-11-29", borrowed. NULL: refused. */
  const char *date;
} tri_jarena;
/* Takes memory, 8-byte aligned and zeroed. TRI_EINPUT: the template takes more than TRI_JINJA_BYTES. */
TRI_CHECKED tri_status tri_jarena_take(tri_jarena *a, size_t bytes, void **out);
/* Counts n more steps. TRI_EINPUT past TRI_JINJA_STEPS. A walk over n elements counts n steps, a walk over n
 * bytes counts n / 64. */
TRI_CHECKED tri_status tri_jarena_step(tri_jarena *a, int64_t n);
/* Enter one more level of nesting, and leave it. TRI_EINPUT past TRI_JINJA_LEVELS. Every recursion in C
 * stands between the two. After an error the arena is only freed, so leaving is not needed. */
TRI_CHECKED tri_status tri_jarena_enter(tri_jarena *a);
void                   tri_jarena_leave(tri_jarena *a);
void                   tri_jarena_free(tri_jarena *a);
/* Appends n bytes to out and counts them as steps. TRI_EINPUT if out grows past TRI_JINJA_BYTES. */
TRI_CHECKED tri_status tri_jput(tri_jarena *a, tri_text *out, const char *bytes, size_t n);

/* ---- values ---- */

typedef enum {
  TRI_J_UNDEFINED, /* has a name, for "'x' is undefined" */
  TRI_J_NONE,
  TRI_J_BOOL,
  TRI_J_INT,
  TRI_J_FLOAT,
  TRI_J_STRING,
  TRI_J_LIST,
  TRI_J_TUPLE,
  TRI_J_RANGE,
  TRI_J_MAP,
  TRI_J_VIEW,      /* dict.keys(), dict.values(), dict.items() */
  TRI_J_STREAM,    /* a Python generator or iterator (map, select, reverse, ...), consumed once */
  TRI_J_NAMESPACE, /* changed by tri_jspace_set */
  TRI_J_METHOD,    /* a bound method: its row and its object */
  TRI_J_FUNCTION,  /* a global function (range, dict, namespace, raise_exception, ...) */
  /* The evaluator's loop, macro and caller, and cyclers and joiners. */
  TRI_J_OBJECT
} tri_jkind;

typedef struct tri_jvalue tri_jvalue;
typedef struct tri_jlist {
  const tri_jvalue *item; /* [n] */
  int64_t           n;
  /* The joined texts as a STRING, if the list acts as a string (jinja.h). Or NULL. */
  const tri_jvalue *parts;
  bool              group; /* a tuple of the filter groupby, with .grouper and .list */
} tri_jlist;
typedef struct tri_jrange {
  int64_t begin, end, step, n; /* n elements */
} tri_jrange;
typedef struct tri_jmap    tri_jmap;   /* in order of first insertion, as Python's dict */
typedef struct tri_jspace  tri_jspace; /* a namespace */
typedef struct tri_jview   tri_jview;  /* a view of a mapping */
typedef struct tri_jstream tri_jstream;
typedef struct tri_jbound  tri_jbound;
typedef struct tri_jrow    tri_jrow; /* a row of a table: a filter, test, method or function */

/* An object of the evaluator. get returns an attribute. *found false: it has none of this name. call NULL: it
 * cannot be called. print appends its str and repr, such as "<Macro 'm'>". print NULL: "<TYPE object>". */
typedef struct tri_jobject tri_jobject;
struct tri_jargs;
struct tri_jobject {
  const char *type; /* its name in Python's messages, such as "Macro" */
  tri_status (*get)(tri_jarena *a, const tri_jobject *o, const char *name, size_t n, tri_jvalue *out,
                    bool *found);
  tri_status (*call)(tri_jarena *a, const tri_jobject *o, const struct tri_jargs *args, tri_jvalue *out);
  tri_status (*print)(tri_jarena *a, const tri_jobject *o, tri_text *out);
};

/* tri_jvalue.note of a STRING. It is 1 for Markup, made by the filters safe and escape. */
enum { TRI_J_MARKUP = 1 };

struct tri_jvalue {
  tri_jkind kind;
  /* STRING: 0 or TRI_J_MARKUP. UNDEFINED: the form of its message (value_impl.h). Else 0. */
  int32_t note;
  union {
    bool    truth;
    int64_t whole;
    double  real;
    struct {
      /* UTF-8, n bytes, not NUL-terminated. UNDEFINED: its name or message, or NULL. */
      const char *s;
      size_t      n;
    } text;
    const tri_jlist   *list; /* LIST, TUPLE */
    const tri_jrange  *range;
    tri_jmap          *map;
    const tri_jview   *view;
    tri_jstream       *stream;
    tri_jspace        *space;
    const tri_jbound  *bound;
    const tri_jrow    *function;
    const tri_jobject *object;
  } as;
};

/* Arguments of a call: by position, then by name. Borrowed. */
typedef struct tri_jargs {
  const tri_jvalue *pos; /* [n_pos] */
  int64_t           n_pos;
  const tri_jvalue *key, *named; /* [n_named] strings, and their values */
  int64_t           n_named;
} tri_jargs;

tri_jvalue             tri_jnone(void);
tri_jvalue             tri_jbool(bool x);
tri_jvalue             tri_jint(int64_t x);
tri_jvalue             tri_jfloat(double x);
tri_jvalue             tri_jtext(const char *s, size_t n); /* borrowed, must live as long as the arena */
TRI_CHECKED tri_status tri_jtext_copy(tri_jarena *a, const char *s, size_t n, tri_jvalue *out);
/* Undefined values. Name and message are borrowed. The first reads "'name' is undefined". The second has a
 * message of its own, NUL-terminated. */
tri_jvalue             tri_jundefined(const char *name, size_t n);
tri_jvalue             tri_jmissing(const char *message);
TRI_CHECKED tri_status tri_jlist_make(tri_jarena *a, tri_jkind kind, const tri_jvalue *item, int64_t n,
                                      tri_jvalue *out); /* LIST or TUPLE. The items are copied */
/* Build a mapping. A later value for an equal key replaces the earlier one in place. Lists, mappings and
 * namespaces are refused as keys (unhashable). 1, 1.0 and true are the same key. */
TRI_CHECKED tri_status tri_jmap_make(tri_jarena *a, tri_jvalue *out);
TRI_CHECKED tri_status tri_jmap_put(tri_jarena *a, tri_jvalue map, tri_jvalue key, tri_jvalue value);
TRI_CHECKED tri_status tri_jmap_get(tri_jarena *a, tri_jvalue map, tri_jvalue key, tri_jvalue *out,
                                    bool *found);
int64_t                tri_jmap_count(tri_jvalue map);
void                   tri_jmap_at(tri_jvalue map, int64_t i, tri_jvalue *key, tri_jvalue *value);
/* Executes {% set ns.name = value %}. Refused unless it is a namespace. */
TRI_CHECKED tri_status tri_jspace_set(tri_jarena *a, tri_jvalue space, const char *name, size_t n,
                                      tri_jvalue value);
/* Converts a JSON value. For objects under the key `content`, see jinja.h about parts. An integer is INT, a
 * real FLOAT. */
TRI_CHECKED tri_status tri_jvalue_of_json(tri_jarena *a, const json_t *json, tri_jvalue *out);

/* ---- Python's rules. All may fail with TRI_EINPUT and Python's or Jinja's own message, without a place: the
 * evaluator puts the line in front. ---- */

bool tri_jtruth(tri_jvalue v); /* bool(v); UNDEFINED is false */
/* Appends str(v), the output of {{ v }}. An undefined value prints "", and parts print joined. */
TRI_CHECKED tri_status tri_jprint(tri_jarena *a, tri_jvalue v, tri_text *out);
/* Returns the same as a STRING. */
TRI_CHECKED tri_status tri_jstr(tri_jarena *a, tri_jvalue v, tri_jvalue *out);
TRI_CHECKED tri_status tri_jrepr(tri_jarena *a, tri_jvalue v, tri_text *out);

typedef enum {
  TRI_JOP_ADD,
  TRI_JOP_SUB,
  TRI_JOP_MUL,
  TRI_JOP_DIV,
  TRI_JOP_FLOORDIV,
  TRI_JOP_MOD, /* also printf-style formatting of a string */
  TRI_JOP_POW,
  TRI_JOP_EQ,
  TRI_JOP_NE,
  TRI_JOP_LT,
  TRI_JOP_LE,
  TRI_JOP_GT,
  TRI_JOP_GE,
  TRI_JOP_IN, /* left in right */
  TRI_JOP_NOT_IN
} tri_jop;
TRI_CHECKED tri_status tri_jbinary(tri_jarena *a, tri_jop op, tri_jvalue left, tri_jvalue right,
                                   tri_jvalue *out);
TRI_CHECKED tri_status tri_jnegate(tri_jarena *a, tri_jvalue v, bool plus, tri_jvalue *out); /* -v, +v */
/* a ~ b ~ c: joins the str of each. */
TRI_CHECKED tri_status tri_jconcat(tri_jarena *a, const tri_jvalue *v, int64_t n, tri_jvalue *out);

/* v.name returns the attribute or method, else the item (Jinja's getattr). v[key] returns the item, else the
 * attribute (getitem). If there is neither, the result is UNDEFINED with a message like Jinja's. An undefined
 * v is an error. */
TRI_CHECKED tri_status tri_jattr(tri_jarena *a, tri_jvalue v, const char *name, size_t n, tri_jvalue *out);
TRI_CHECKED tri_status tri_jitem(tri_jarena *a, tri_jvalue v, tri_jvalue key, tri_jvalue *out);
/* v[begin:end:step]. Each may be NULL. */
TRI_CHECKED tri_status tri_jslice(tri_jarena *a, tri_jvalue v, const tri_jvalue *begin, const tri_jvalue *end,
                                  const tri_jvalue *step, tri_jvalue *out);
/* Returns the elements of a for loop as a list: the keys of a mapping, the characters of a string, none for
 * UNDEFINED. A LIST is returned itself. A STREAM gives its remaining elements and is empty afterwards. */
TRI_CHECKED tri_status tri_jiterate(tri_jarena *a, tri_jvalue v, const tri_jlist **out);
/* Tells that the list returned by tri_jiterate for v is no longer used. Its memory may serve another walk. */
void tri_jiterate_done(tri_jarena *a, tri_jvalue v, const tri_jlist *list);
/* Calls a METHOD, FUNCTION, or OBJECT with call. Anything else is an error as in Python. */
TRI_CHECKED tri_status tri_jcall(tri_jarena *a, tri_jvalue f, const tri_jargs *args, tri_jvalue *out);

/* ---- names that a template may use ---- */

typedef tri_jrow tri_jfilter;
typedef tri_jrow tri_jtest;
/* NULL: there is no filter of this name. known_elsewhere: Jinja has one, but it is not supported here. */
const tri_jfilter     *tri_jfilter_find(const char *name, size_t n, bool *known_elsewhere);
TRI_CHECKED tri_status tri_jfilter_call(tri_jarena *a, const tri_jfilter *f, tri_jvalue v,
                                        const tri_jargs *args, tri_jvalue *out);
const tri_jtest       *tri_jtest_find(const char *name, size_t n, bool *known_elsewhere);
TRI_CHECKED tri_status tri_jtest_call(tri_jarena *a, const tri_jtest *t, tri_jvalue v, const tri_jargs *args,
                                      bool *out);
/* Returns a global function (range, dict, namespace, raise_exception, strftime_now, cycler, joiner) as a
 * value. false: there is none. */
bool tri_jglobal_find(const char *name, size_t n, tri_jvalue *out);

#endif
