/* jinja_run.h - the state of a rendering in progress. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JINJA_RUN_H
#define TRI_JINJA_RUN_H

#include "io/jinja/jinja.h"
#include "io/jinja/tree.h"

/* The variables of one function call. A function is the template, a macro, or the test of a loop. */
typedef struct tri_jframe tri_jframe;
struct tri_jframe {
  tri_jframe *outer;
  tri_jvalue  slot[];
};

/* How a body ended: at its end, by break, or by continue. */
typedef enum { TRI_JFLOW_ON, TRI_JFLOW_BREAK, TRI_JFLOW_CONTINUE } tri_jflow;

typedef struct tri_jrun tri_jrun;
struct tri_jrun {
  tri_jarena      *arena;
  const tri_jtree *tree;
  tri_jvalue      *global; /* [tree->n_global] */
  tri_jinja_text  *out;
  /* The output of macros and blocks, each after the one around it. */
  tri_text   captured;
  int        captures; /* open captures. 0: output goes to the text itself */
  int        line;     /* for messages */
  tri_jflow  flow;
  tri_jvalue block; /* the text to be filtered, in a filter block */
  /* statement.c sets it, for macros and loops. */
  tri_status (*body)(tri_jrun *r, tri_jframe *f, const tri_jbody *body);
};

/* Not collective: all that follow. frame.c. A variable without a value is unset. Templates see it as
 * undefined. */
tri_jvalue             tri_junset(void);
bool                   tri_jis_unset(tri_jvalue v);
TRI_CHECKED tri_status tri_jframe_make(tri_jrun *r, int n_slot, tri_jframe *outer, tri_jframe **out);
void                   tri_jframe_enter(tri_jrun *r, tri_jframe *f, const tri_jscope *s);
void                   tri_jframe_leave(tri_jframe *f, const tri_jscope *s);
tri_jvalue            *tri_jframe_at(tri_jframe *f, tri_jplace at);
/* Output between begin, which returns a mark, and end goes into a text of its own. tri_jcapture_end returns
 * the text. */
size_t                 tri_jcapture_begin(tri_jrun *r);
TRI_CHECKED tri_status tri_jcapture_end(tri_jrun *r, size_t mark, tri_jvalue *out);
tri_text              *tri_jrun_out(tri_jrun *r); /* the current target of output */

/* jinja_evaluate.c */
TRI_CHECKED tri_status tri_jevaluate(tri_jrun *r, tri_jframe *f, const tri_jexpr *x, tri_jvalue *out);
/* x is a call. `caller` is the value of its keyword argument `caller`, or NULL. */
TRI_CHECKED tri_status tri_jevaluate_call(tri_jrun *r, tri_jframe *f, const tri_jexpr *x,
                                          const tri_jvalue *caller, tri_jvalue *out);
/* Assigns a value to a name, an attribute of a namespace, or a tuple of them. */
TRI_CHECKED tri_status tri_jassign(tri_jrun *r, tri_jframe *f, const tri_jexpr *target, tri_jvalue value);

/* macro.c: a macro as a value. */
TRI_CHECKED tri_status tri_jmacro_make(tri_jrun *r, tri_jframe *f, const tri_jmacro *m, tri_jvalue *out);
TRI_CHECKED tri_status tri_jmacro_call(tri_jvalue macro, const tri_jargs *args, tri_jvalue *out);

/* loop.c */
TRI_CHECKED tri_status tri_jloop_run(tri_jrun *r, tri_jframe *f, const tri_jfor *l);

/* statement.c */
TRI_CHECKED tri_status tri_jexecute(tri_jrun *r, tri_jframe *f, const tri_jbody *body);

#endif
