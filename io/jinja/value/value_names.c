/* value_names.c - the tables of filters and tests, and the filters that take the name of another one. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "value_impl.h"

#include <string.h>

static tri_jcall_fn map, select_, reject, selectattr, rejectattr;

/* clang-format off */
static const tri_jrow filters[] = {
  {"abs", "", tri_jf_abs}, {"attr", "name", tri_jf_attr}, {"batch", "linecount,fill_with=", tri_jf_batch},
  {"capitalize", "", tri_jf_capitalize}, {"center", "width=", tri_jf_center}, {"count", "", tri_jf_length},
  {"d", "default_value=,boolean=", tri_jf_default}, {"default", "default_value=,boolean=", tri_jf_default},
  {"dictsort", "case_sensitive=,by=,reverse=", tri_jf_dictsort}, {"e", "", tri_jf_escape}, {"escape", "", tri_jf_escape},
  {"filesizeformat", "binary=", tri_jf_filesizeformat}, {"first", "", tri_jf_first}, {"float", "default=", tri_jf_float},
  {"forceescape", "", tri_jf_forceescape}, {"format", "*", tri_jf_format},
  {"groupby", "attribute,default=,case_sensitive=", tri_jf_groupby}, {"indent", "width=,first=,blank=", tri_jf_indent},
  {"int", "default=,base=", tri_jf_int}, {"items", "", tri_jf_items}, {"join", "d=,attribute=", tri_jf_join},
  {"last", "", tri_jf_last}, {"length", "", tri_jf_length}, {"list", "", tri_jf_list}, {"lower", "", tri_jf_lower},
  {"map", "*", map}, {"max", "case_sensitive=,attribute=", tri_jf_max}, {"min", "case_sensitive=,attribute=", tri_jf_min},
  {"reject", "*", reject}, {"rejectattr", "*", rejectattr}, {"replace", "old,new,count=", tri_jf_replace},
  {"reverse", "", tri_jf_reverse}, {"round", "precision=,method=", tri_jf_round}, {"safe", "", tri_jf_safe},
  {"select", "*", select_}, {"selectattr", "*", selectattr}, {"slice", "slices,fill_with=", tri_jf_slice},
  {"sort", "reverse=,case_sensitive=,attribute=", tri_jf_sort}, {"string", "", tri_jf_string},
  {"sum", "attribute=,start=", tri_jf_sum}, {"title", "", tri_jf_title},
  {"tojson", "ensure_ascii=,indent=,separators=,sort_keys=", tri_jf_tojson}, {"trim", "chars=", tri_jf_trim},
  {"truncate", "length=,killwords=,end=,leeway=", tri_jf_truncate}, {"unique", "case_sensitive=,attribute=", tri_jf_unique},
  {"upper", "", tri_jf_upper}, {"urlencode", "", tri_jf_urlencode}, {"wordcount", "", tri_jf_wordcount},
  {"xmlattr", "autospace=", tri_jf_xmlattr},
  /* filters of Jinja refused by name, because they need chance, a width of 79, or HTML entities and links */
  {"pprint", "", NULL}, {"random", "", NULL}, {"striptags", "", NULL}, {"urlize", "", NULL}, {"wordwrap", "", NULL},
};
/* clang-format on */
enum { N_FILTER = sizeof filters / sizeof *filters };

const tri_jfilter *tri_jfilter_find(const char *name, size_t n, bool *known_elsewhere) {
  const tri_jrow *row = tri_jrow_find(filters, N_FILTER, name, n);

  *known_elsewhere = row && !row->call;
  return row && row->call ? row : NULL;
}

tri_status tri_jfilter_call(tri_jarena *a, const tri_jfilter *f, tri_jvalue v, const tri_jargs *args,
                            tri_jvalue *out) {
  return tri_jrow_call(a, f, "filter", v, args, out);
}

static tri_status is_filter(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  bool       elsewhere = false, known = tri_jis_text(c->self);
  tri_jvalue none, old;

  TRI_TRY(tri_jmap_make(a, &none));
  if (!known)
    TRI_TRY(tri_jmap_get(a, none, c->self, &old, &known)); /* as in Python, a list cannot be looked up */
  if (tri_jis_text(c->self)) {
    tri_jvalue name = tri_jas_text(c->self);
    known = tri_jfilter_find(name.as.text.s, name.as.text.n, &elsewhere) || elsewhere;
  }
  *out = tri_jbool(known);
  return tri_jarena_step(a, 1);
}

static tri_status is_test(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  tri_jvalue name = tri_jis_text(c->self) ? tri_jas_text(c->self) : tri_jtext("", 0);
  bool       elsewhere = false;
  tri_jvalue none, old;

  TRI_TRY(tri_jmap_make(a, &none));
  if (!tri_jis_text(c->self)) TRI_TRY(tri_jmap_get(a, none, c->self, &old, &elsewhere));
  *out = tri_jbool(tri_jtest_find(name.as.text.s, name.as.text.n, &elsewhere) != NULL);
  return tri_jarena_step(a, 1);
}

static const tri_jrow by_name[] = {{"filter", "", is_filter}, {"test", "", is_test}};

const tri_jtest *tri_jtest_find(const char *name, size_t n, bool *known_elsewhere) {
  const tri_jrow *row = tri_jrow_find(tri_jtests, tri_jtests_n, name, n);

  *known_elsewhere = false; /* all tests of Jinja are supported */
  return row ? row : tri_jrow_find(by_name, 2, name, n);
}

tri_status tri_jtest_call(tri_jarena *a, const tri_jtest *t, tri_jvalue v, const tri_jargs *args, bool *out) {
  tri_jvalue result;

  TRI_TRY(tri_jrow_call(a, t, "test", v, args, &result));
  *out = tri_jtruth(result);
  return TRI_OK;
}

/* ---- map, select, reject: generators that call a filter or test for each element ---- */

typedef struct calls {
  tri_jcalled    *called;
  tri_jwalk       walk;
  tri_jpath       path; /* for selectattr, rejectattr, map(attribute=) */
  const tri_jrow *row;  /* NULL: the value itself, or its truth */
  tri_jargs       args; /* the arguments for the row, without those before them */
  bool            is_select, by_attribute, negate, open;
} calls;

static tri_status find_row(calls *s, tri_jvalue name, bool is_filter_name) {
  bool elsewhere = false;

  if (name.kind != TRI_J_STRING)
    TRI_FAIL(TRI_EINPUT, "No %s named %s.", is_filter_name ? "filter" : "test", tri_jtype(name));
  s->row = is_filter_name ? tri_jfilter_find(name.as.text.s, name.as.text.n, &elsewhere)
                          : tri_jtest_find(name.as.text.s, name.as.text.n, &elsewhere);
  if (elsewhere)
    TRI_FAIL(TRI_EINPUT, "the filter %.*s is not supported", (int)name.as.text.n, name.as.text.s);
  if (!s->row)
    TRI_FAIL(TRI_EINPUT, "No %s named '%.*s'.", is_filter_name ? "filter" : "test",
             (int)(name.as.text.n < 100 ? name.as.text.n : 100), name.as.text.s);
  return TRI_OK;
}

static bool is(tri_jvalue key, const char *word) {
  return key.as.text.n == strlen(word) && !memcmp(key.as.text.s, word, key.as.text.n);
}

/* prepare_map: map(attribute=..., default=...) or map(filter, arguments...). */
static tri_status prepare_map(tri_jarena *a, calls *s) {
  const tri_jargs  *all = s->called->all;
  const tri_jvalue *attribute = NULL, *otherwise = NULL;

  for (int64_t i = 0; i < all->n_named && !all->n_pos; i++) {
    if (is(all->key[i], "attribute")) attribute = &all->named[i];
    if (is(all->key[i], "default")) otherwise = &all->named[i];
  }
  if (!attribute) {
    if (!all->n_pos) TRI_FAIL(TRI_EINPUT, "map requires a filter argument");
    s->args = *all;
    s->args.pos++;
    s->args.n_pos--;
    return find_row(s, all->pos[0], true);
  }
  if (all->n_named > 1 + (otherwise != NULL)) TRI_FAIL(TRI_EINPUT, "map: unexpected keyword argument");
  TRI_TRY(tri_jpath_make(a, attribute, false, &s->path));
  if (otherwise) s->path.otherwise = *otherwise;
  return TRI_OK;
}

/* prepare_select_or_reject: [attribute,] [test, arguments...] */
static tri_status prepare_select(tri_jarena *a, calls *s) {
  const tri_jargs *all = s->called->all;
  int64_t          at = s->by_attribute;

  if (s->by_attribute && !all->n_pos) TRI_FAIL(TRI_EINPUT, "Missing parameter for attribute name");
  if (s->by_attribute) TRI_TRY(tri_jpath_make(a, &all->pos[0], false, &s->path));
  if (all->n_pos <= at) return TRI_OK;
  s->args = *all;
  s->args.pos += at + 1;
  s->args.n_pos -= at + 1;
  return find_row(s, all->pos[at], false);
}

static tri_status next_call(tri_jarena *a, tri_jstream *stream, tri_jvalue *out, bool *found) {
  calls     *s = stream->state;
  tri_jvalue item, v;
  bool       holds;

  *found = false;
  if (!s->open) {
    s->open = true;
    if (!tri_jtruth(s->called->self)) { /* nothing is examined */
      TRI_TRY(tri_jwalk_open(a, tri_jundefined(NULL, 0), &s->walk));
      return TRI_OK;
    }
    if (s->is_select)
      TRI_TRY(prepare_select(a, s));
    else
      TRI_TRY(prepare_map(a, s));
    TRI_TRY(tri_jwalk_open(a, s->called->self, &s->walk));
  }
  for (;;) {
    TRI_TRY(tri_jwalk_next(a, &s->walk, &item, found));
    if (!*found) return TRI_OK;
    v = item;
    if (s->path.n) TRI_TRY(tri_jpath_get(a, &s->path, item, &v));
    if (s->row) TRI_TRY(tri_jrow_call(a, s->row, s->is_select ? "test" : "filter", v, &s->args, &v));
    *out = s->is_select ? item : v;
    holds = tri_jtruth(v) != s->negate;
    if (!s->is_select || holds) return TRI_OK;
  }
}

static tri_status make_calls(tri_jarena *a, const tri_jcalled *c, bool is_select, bool by_attribute,
                             bool negate, tri_jvalue *out) {
  void        *memory = NULL;
  calls       *s;
  tri_jstream *stream = NULL;

  TRI_TRY(tri_jarena_take(a, sizeof *s, &memory));
  s = memory;
  *s = (calls){.is_select = is_select, .by_attribute = by_attribute, .negate = negate};
  TRI_TRY(tri_jcall_keep(a, c, &s->called));
  TRI_TRY(tri_jstream_make(a, "generator", &stream, out));
  stream->next = next_call;
  stream->state = s;
  return TRI_OK;
}

static tri_status map(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return make_calls(a, c, false, false, false, out);
}
static tri_status select_(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return make_calls(a, c, true, false, false, out);
}
static tri_status reject(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return make_calls(a, c, true, false, true, out);
}
static tri_status selectattr(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return make_calls(a, c, true, true, false, out);
}
static tri_status rejectattr(tri_jarena *a, const tri_jcalled *c, tri_jvalue *out) {
  return make_calls(a, c, true, true, true, out);
}
