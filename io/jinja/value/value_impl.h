/* value_impl.h - declarations shared by io/jinja/value: buffers, names of types, calls, streams, text by code
 * points. Not collective: all that follow. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_JINJA_VALUE_IMPL_H
#define TRI_JINJA_VALUE_IMPL_H

#include "value.h"

/* ---- buffers (value_arena.c): a text of the arena that grows at its end ---- */

typedef struct tri_jbuf {
  tri_jarena *a;
  char       *s; /* [n], not NUL-terminated */
  size_t      n, cap;
} tri_jbuf;
/* Appends n bytes and counts them as steps. */
TRI_CHECKED tri_status tri_jbuf_put(tri_jbuf *b, const char *bytes, size_t n);
TRI_CHECKED tri_status tri_jbuf_text(tri_jbuf *b, const char *text); /* NUL-terminated */
TRI_CHECKED tri_status tri_jbuf_fill(tri_jbuf *b, char c, int64_t n);
TRI_CHECKED tri_status tri_jbuf_printf(tri_jbuf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Returns the text of a buffer as a STRING with this note. The buffer is finished. */
tri_jvalue tri_jbuf_value(const tri_jbuf *b, int32_t note);
/* Grows an array in place, or copies it, so that it has space for `need` elements of `size` bytes. */
TRI_CHECKED tri_status tri_jarena_grow(tri_jarena *a, void **p, int64_t *cap, int64_t n, int64_t need,
                                       size_t size);
#define TRI_JGROW(a, p, cap, n, need) tri_jarena_grow((a), (void **)&(p), &(cap), (n), (need), sizeof *(p))

/* ---- values (value.c) ---- */

/* UNDEFINED: note is one of these. For those after MESSAGE, the owner's kind times 8 is added. */
enum { TRI_J_NAMED, TRI_J_MESSAGE, TRI_J_ATTRIBUTE, TRI_J_ELEMENT, TRI_J_UNSAFE };

typedef enum { TRI_J_KEYS, TRI_J_VALUES, TRI_J_ITEMS } tri_jpart;
struct tri_jview {
  tri_jpart  part;
  tri_jvalue map;
};
/* Elements made one at a time. next returns the next one, or *found false. */
struct tri_jstream {
  const char *type; /* "generator", "list_reverseiterator", ... */
  tri_status (*next)(tri_jarena *a, tri_jstream *s, tri_jvalue *out, bool *found);
  void   *state;
  int64_t at;
};
struct tri_jspace {
  tri_jvalue map;
};

const char *tri_jtype(tri_jvalue v);                   /* type(v).__name__ */
tri_status  tri_jundefined_fail(tri_jvalue undefined); /* fails with its message */
/* Returns the undefined value for an attribute or element missing in v. `name` is borrowed. */
TRI_CHECKED tri_status tri_jabsent(tri_jarena *a, tri_jvalue v, tri_jvalue name, int form, tri_jvalue *out);
tri_jvalue             tri_jmarkup(tri_jvalue text, bool markup);
bool                   tri_jis_text(tri_jvalue v);  /* a STRING, or a list that acts as one */
bool                   tri_jis_whole(tri_jvalue v); /* BOOL or INT */
int64_t                tri_jwhole(tri_jvalue v);    /* value of a BOOL or INT */
/* Returns a STRING itself, or the joined texts of a list. Only if tri_jis_text. */
tri_jvalue             tri_jas_text(tri_jvalue v);
TRI_CHECKED tri_status tri_jstream_make(tri_jarena *a, const char *type, tri_jstream **out,
                                        tri_jvalue *value);
TRI_CHECKED tri_status tri_jview_make(tri_jarena *a, tri_jvalue map, tri_jpart part, tri_jvalue *out);
tri_jvalue             tri_jlist_value(tri_jkind kind, const tri_jlist *list);
/* Makes a list with n elements for the caller to fill, *item [n]. */
TRI_CHECKED tri_status tri_jlist_reserve(tri_jarena *a, tri_jkind kind, int64_t n, tri_jvalue **item,
                                         tri_jvalue *out);
#define TRI_J_LITERAL(text) tri_jtext("" text, sizeof(text) - 1)

/* ---- iteration (value_iterate.c) ---- */

/* A walk over anything accepted by Python's iter(). A STREAM gives its elements one by one. */
typedef struct tri_jwalk {
  const tri_jlist *list; /* NULL: walks the stream */
  tri_jstream     *stream;
  int64_t          at;
} tri_jwalk;
TRI_CHECKED tri_status tri_jwalk_open(tri_jarena *a, tri_jvalue v, tri_jwalk *out);
TRI_CHECKED tri_status tri_jwalk_next(tri_jarena *a, tri_jwalk *w, tri_jvalue *out, bool *found);
TRI_CHECKED tri_status tri_jlength(tri_jarena *a, tri_jvalue v, int64_t *out); /* len(v) */

/* ---- numbers (value_number.c) ---- */

enum { TRI_JNUMBER_BYTES = 40 };
/* Writes repr(x), the shortest text that reads back the same, as in Python. */
void tri_jreal_text(double x, char out[TRI_JNUMBER_BYTES]);
/* Compares exactly. Returns -1 if the integer is below the number, 0 if equal, 1 if above, 2 if x is NaN. */
int tri_jcompare_real(int64_t i, double x);
/* Reads an integer in Python's spelling (white space around, signs, underscores, base 2 to 36 or 0). *found
 * false: text is no integer. TRI_EINPUT beyond 64 bits. */
TRI_CHECKED tri_status tri_jparse_whole(tri_jvalue text, int64_t base, int64_t *out, bool *found);
bool                   tri_jparse_real(tri_jvalue text, double *out);
/* int(x), with ValueError and OverflowError. */
TRI_CHECKED tri_status tri_jwhole_of_real(double x, int64_t *out);

/* ---- comparison (value_compare.c) ---- */

TRI_CHECKED tri_status tri_jequal(tri_jarena *a, tri_jvalue x, tri_jvalue y, bool *out);
/* op: TRI_JOP_LT, LE, GT, GE. */
TRI_CHECKED tri_status tri_jorder(tri_jarena *a, tri_jop op, tri_jvalue x, tri_jvalue y, bool *out);
TRI_CHECKED tri_status tri_jcontains(tri_jarena *a, tri_jvalue container, tri_jvalue x, bool *out);
/* Sorts item [n] by key [n] as sorted() does. Stable. */
TRI_CHECKED tri_status tri_jsort(tri_jarena *a, tri_jvalue *item, tri_jvalue *key, int64_t n, bool reverse);

/* ---- text on code points (value_utf8.c, value_text.c) ---- */

int64_t     tri_jpoints(const char *s, size_t n);              /* code points in n bytes */
size_t      tri_jpoint_bytes(const char *s);                   /* bytes of the code point at s */
const char *tri_jpoint_at(const char *s, size_t n, int64_t i); /* place of code point i, at most s + n */
int32_t     tri_jpoint_read(const char *s, size_t *bytes);     /* the code point at s, and its bytes */
size_t      tri_jpoint_write(int32_t c, char out[4]);
/* Return the first (last) place of a STRING in s [n], or NULL. Comparisons count steps here. The caller
 * counts the walk over s. */
TRI_CHECKED tri_status tri_jfind(tri_jarena *a, const char *s, size_t n, tri_jvalue needle, const char **out);
TRI_CHECKED tri_status tri_jfind_last(tri_jarena *a, const char *s, size_t n, tri_jvalue needle,
                                      const char **out);
/* Clips Python's begin:end to a length, as slice.indices does for step 1. */
void                   tri_jrange_clip(int64_t n, int64_t *begin, int64_t *end);
TRI_CHECKED tri_status tri_jtext_replace(tri_jarena *a, tri_jvalue s, tri_jvalue old, tri_jvalue by,
                                         int64_t count, tri_jvalue *out);
/* left, right: the ends to strip. chars NULL: white space. */
TRI_CHECKED tri_status tri_jtext_strip(tri_jarena *a, tri_jvalue s, const tri_jvalue *chars, bool left,
                                       bool right, tri_jvalue *out);
TRI_CHECKED tri_status tri_jtext_split(tri_jarena *a, tri_jvalue s, const tri_jvalue *sep, int64_t most,
                                       bool from_right, tri_jvalue *out);
TRI_CHECKED tri_status tri_jtext_lines(tri_jarena *a, tri_jvalue s, bool keep_ends, tri_jvalue *out);
TRI_CHECKED tri_status tri_jtext_repeat(tri_jarena *a, tri_jvalue s, int64_t times, tri_jvalue *out);
/* Pads to width code points with one fill code point. '<' and '>' align left and right. '^' centers as
 * format() does. 'c' centers as str.center does, with another place for an odd fill. */
TRI_CHECKED tri_status tri_jtext_align(tri_jarena *a, tri_jvalue s, char side, int64_t width, tri_jvalue fill,
                                       tri_jvalue *out);
TRI_CHECKED tri_status tri_jtext_escape(tri_jarena *a, tri_jvalue s, tri_jvalue *out); /* markupsafe.escape */
/* Slices by code points. begin and end are inside the text, and step is not 0. */
TRI_CHECKED tri_status tri_jtext_pick(tri_jarena *a, tri_jvalue s, int64_t begin, int64_t end, int64_t step,
                                      tri_jvalue *out);

/* ---- case and kinds of characters (value_unicode.c): Unicode 14, as Python 3.11 has it ---- */

typedef enum {
  TRI_JC_ALPHA,
  TRI_JC_DECIMAL,
  TRI_JC_DIGIT,
  TRI_JC_NUMERIC,
  TRI_JC_UPPER,
  TRI_JC_LOWER,
  TRI_JC_TITLE,
  TRI_JC_SPACE,
  TRI_JC_PRINTABLE,
  TRI_JC_IGNORABLE, /* case-ignorable, for the final sigma */
  TRI_JC_COUNT
} tri_jclass;
bool tri_jchar_is(int32_t c, tri_jclass class);
int  tri_jdecimal_value(int32_t c); /* 0 to 9, or -1 */
typedef enum { TRI_JCASE_UPPER, TRI_JCASE_LOWER, TRI_JCASE_TITLE, TRI_JCASE_FOLD } tri_jcase;
/* Maps the case of one code point without context, to up to three. Returns how many. */
int tri_jcase_map(tri_jcase to, int32_t c, int32_t out[3]);
/* str.upper, lower, casefold (TITLE: str.title), then str.capitalize and str.swapcase. */
TRI_CHECKED tri_status tri_jtext_case(tri_jarena *a, tri_jvalue s, tri_jcase to, tri_jvalue *out);
TRI_CHECKED tri_status tri_jtext_capitalize(tri_jarena *a, tri_jvalue s, tri_jvalue *out);
TRI_CHECKED tri_status tri_jtext_swapcase(tri_jarena *a, tri_jvalue s, tri_jvalue *out);

/* ---- calls (value_call.c) ---- */

enum { TRI_JARG_MOST = 6 };
typedef struct tri_jcalled {
  /* The value a filter, test or method is applied to. NONE for functions. */
  tri_jvalue  self;
  const char *name; /* the name in the row */
  /* In the order of the row's params. NULL: not given. */
  const tri_jvalue *arg[TRI_JARG_MOST];
  const tri_jargs  *all;
} tri_jcalled;
typedef tri_status tri_jcall_fn(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out);
/* params lists names in order, as in "sep=,maxsplit=". A name with = is optional. "/" in front: by position
 * only. "*": anything. call NULL: known, but not supported. */
struct tri_jrow {
  const char   *name, *params;
  tri_jcall_fn *call;
};
struct tri_jbound {
  tri_jvalue      self;
  const tri_jrow *row;
};
/* Finds a name in rows [n]. NULL: it is not there. */
const tri_jrow        *tri_jrow_find(const tri_jrow *row, int64_t n, const char *name, size_t name_bytes);
TRI_CHECKED tri_status tri_jrow_call(tri_jarena *a, const tri_jrow *row, const char *what, tri_jvalue self,
                                     const tri_jargs *args, tri_jvalue *out);
/* Convert an argument to a C value. A missing one gives `otherwise`. */
TRI_CHECKED tri_status tri_jarg_whole(const tri_jcalled *c, int i, int64_t otherwise, int64_t *out);
TRI_CHECKED tri_status tri_jarg_text(tri_jarena *a, const tri_jcalled *c, int i, tri_jvalue otherwise,
                                     tri_jvalue *out);
bool                   tri_jarg_truth(const tri_jcalled *c, int i, bool otherwise);

/* The methods of a kind. NULL: it has none. */
const tri_jrow *tri_jmethods_text(int64_t *n);
const tri_jrow *tri_jmethods_of(tri_jkind kind, int64_t *n);

/* getattr(v, name), with the sandbox's refusals. *found false: there is no such attribute
 * (value_access.c). */
TRI_CHECKED tri_status tri_jattribute(tri_jarena *a, tri_jvalue v, const char *name, size_t n,
                                      tri_jvalue *out, bool *found);

/* ---- formatting (value_format.c) ---- */

TRI_CHECKED tri_status tri_jpercent(tri_jarena *a, tri_jvalue format, tri_jvalue args, tri_jvalue *out);
TRI_CHECKED tri_status tri_jformat(tri_jarena *a, tri_jvalue format, const tri_jargs *args, tri_jvalue *out);

/* ---- filters, tests, functions: the calls that the tables of value_names.c, value_functions.c list ---- */

/* value_filters_text.c: filters of one text. */
tri_jcall_fn tri_jf_capitalize, tri_jf_center, tri_jf_escape, tri_jf_filesizeformat, tri_jf_float,
    tri_jf_forceescape, tri_jf_format, tri_jf_indent, tri_jf_int, tri_jf_lower, tri_jf_replace, tri_jf_round,
    tri_jf_safe, tri_jf_string, tri_jf_title, tri_jf_trim, tri_jf_truncate, tri_jf_upper, tri_jf_urlencode,
    tri_jf_wordcount, tri_jf_xmlattr, tri_jf_abs;
/* value_filters_list.c: filters of iterables. */
tri_jcall_fn tri_jf_attr, tri_jf_batch, tri_jf_default, tri_jf_dictsort, tri_jf_first, tri_jf_groupby,
    tri_jf_items, tri_jf_join, tri_jf_last, tri_jf_length, tri_jf_list, tri_jf_max, tri_jf_min,
    tri_jf_reverse, tri_jf_slice, tri_jf_sort, tri_jf_sum, tri_jf_unique;
tri_jcall_fn tri_jf_tojson;
/* Tests. *out is a BOOL. */
extern const tri_jrow tri_jtests[];
extern const int64_t  tri_jtests_n;

/* Copies a call so that its arguments live as long as the arena, for streams. */
TRI_CHECKED tri_status tri_jcall_keep(tri_jarena *a, const tri_jcalled *c, tri_jcalled **out);
/* An attribute argument of a filter: "a.b", "0.name", 3, or NONE (the item itself). */
typedef struct tri_jpath {
  tri_jvalue *part; /* [n] */
  int64_t     n;
  tri_jvalue  otherwise; /* replaces UNDEFINED, unless NONE */
  bool        ignore_case;
} tri_jpath;
TRI_CHECKED tri_status tri_jpath_make(tri_jarena *a, const tri_jvalue *attribute, bool ignore_case,
                                      tri_jpath *out);
TRI_CHECKED tri_status tri_jpath_get(tri_jarena *a, const tri_jpath *path, tri_jvalue item, tri_jvalue *out);
/* Formats the date of the arena with strftime's directives. */
TRI_CHECKED tri_status tri_jdate_text(tri_jarena *a, tri_jvalue format, tri_jvalue *out);

/* value_grow.c. tri_jtext_join joins the texts v [n], without Markup. tri_jlist_join returns x + y of two
 * lists or two tuples. Both take steps and memory, amortized, only for the part after the first. */
TRI_CHECKED tri_status tri_jtext_join(tri_jarena *a, const tri_jvalue *v, int64_t n, tri_jvalue *out);
TRI_CHECKED tri_status tri_jlist_join(tri_jarena *a, tri_jvalue x, tri_jvalue y, tri_jvalue *out);
/* Append str(v) and repr(v) to a buffer. */
TRI_CHECKED tri_status tri_jwrite_str(tri_jbuf *b, tri_jvalue v);
TRI_CHECKED tri_status tri_jwrite_repr(tri_jbuf *b, tri_jvalue v);

#endif
