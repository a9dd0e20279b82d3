/* test_jinja_values.c - values of templates, and Python's rules for them. Judges: Jinja2 3.1.6, configured as
 * in transformers 5.24, and Python 3.11 (tests/golden/make_jinja_values_golden.py). Limits and lists of parts
 * are worked out by hand. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/hash.h"
#include "io/jinja/jinja.h"
#include "io/jinja/value/value_impl.h"
#include "refusal_case.h"

static json_t *golden;

static int load(void **state) {
  json_error_t e;

  (void)state;
  golden = json_load_file(TRI_TEST_DATA "/jinja/values.json", JSON_ALLOW_NUL, &e);
  return golden ? 0 : -1;
}

static int unload(void **state) {
  (void)state;
  json_decref(golden);
  return 0;
}

static tri_status render(const char *text, size_t n, const json_t *variables, const char *date,
                         tri_jinja_text *out) {
  tri_jinja *t = NULL;
  tri_status st;

  tri_error_clear();
  st = tri_jinja_open(text, n, &t);
  if (st == TRI_OK) st = tri_jinja_render(t, variables, date, out);
  tri_jinja_close(&t);
  return st;
}

static bool is_same(const tri_jinja_text *out, const json_t *want) {
  return out->text.len == json_string_length(want) &&
         !memcmp(out->text.len ? out->text.data : "", json_string_value(want), out->text.len);
}

static void as_jinja2(void **state) {
  const json_t  *variables = json_object_get(golden, "variables"), *cases = json_object_get(golden, "cases");
  tri_jinja_text out = {0};
  int            bad = 0;

  (void)state;
  assert_true(json_array_size(cases) > 3000);
  for (size_t i = 0; i < json_array_size(cases); i++) {
    const json_t *t = json_array_get(json_array_get(cases, i), 0),
                 *want = json_array_get(json_array_get(cases, i), 1);
    tri_status st = render(json_string_value(t), json_string_length(t), variables, NULL, &out);
    if (st == TRI_OK ? json_is_string(want) && is_same(&out, want) : st == TRI_EINPUT && json_is_null(want))
      continue;
    print_error("%s\n  Jinja2: %s\n  here: %s\n", json_string_value(t),
                json_is_string(want) ? json_string_value(want) : "an error",
                st != TRI_OK   ? tri_error_message()
                : out.text.len ? out.text.data
                               : "");
    bad++;
  }
  tri_jinja_text_free(&out);
  assert_int_equal(bad, 0);
}

static void dates(void **state) {
  const json_t *list = json_object_get(golden, "dates");

  (void)state;
  assert_true(json_array_size(list) > 50);
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char    *day = json_string_value(json_array_get(json_array_get(list, i), 0));
    const json_t  *want = json_array_get(json_array_get(list, i), 2);
    json_t        *variables = json_pack("{s:O}", "f", json_array_get(json_array_get(list, i), 1));
    tri_jinja_text out = {0};
    assert_int_equal(render("{{ strftime_now(f) }}", 21, variables, day, &out), TRI_OK);
    if (!is_same(&out, want)) print_error("%s:\n%s\n%s\n", day, json_string_value(want), out.text.data);
    assert_true(is_same(&out, want));
    tri_jinja_text_free(&out);
    json_decref(variables);
  }
}

/* Hashes one class or case of characters over all code points, as the golden script does. */
static uint64_t hash_all(const char *method) {
  tri_jarena      arena = {0};
  tri_text        all = {0};
  int64_t         n = 0;
  const tri_jrow *rows = tri_jmethods_text(&n), *row = tri_jrow_find(rows, n, method, strlen(method));
  tri_jargs       none = {0};
  uint64_t        hash;

  assert_non_null(row);
  for (int32_t c = 0; c < 0x110000; c++) {
    char       bytes[4];
    tri_jvalue v;
    if (c >= 0xd800 && c < 0xe000) continue;
    assert_int_equal(
        tri_jrow_call(&arena, row, "method", tri_jtext(bytes, tri_jpoint_write(c, bytes)), &none, &v),
        TRI_OK);
    if (v.kind == TRI_J_BOOL)
      assert_int_equal(tri_text_put(&all, v.as.truth ? "1" : "0", 1), TRI_OK);
    else
      assert_int_equal(tri_text_put(&all, v.as.text.s, v.as.text.n), TRI_OK);
    if (c % 4096 == 0) tri_jarena_free(&arena);
  }
  tri_jarena_free(&arena);
  hash = tri_hash64(all.data, all.len, 0);
  tri_text_free(&all);
  return hash;
}

static void characters(void **state) {
  json_t     *kinds = json_object_get(golden, "characters"), *want;
  const char *method;

  (void)state;
  assert_int_equal(json_object_size(kinds), 14);
  json_object_foreach(kinds, method, want) {
    uint64_t hash = hash_all(method);
    if (hash != strtoull(json_string_value(want), NULL, 16)) print_error("%s\n", method);
    assert_true(hash == strtoull(json_string_value(want), NULL, 16));
  }
}

/* A template, its variables and its output. For an error, `want` is NULL and `message` has facts of the
 * message. */
typedef struct small {
  const char *text, *variables, *want, *message;
} small;

static void check(const small *c, size_t n) {
  for (size_t i = 0; i < n; i++) {
    json_error_t   e;
    json_t        *variables = json_loads(c[i].variables ? c[i].variables : "{}", JSON_ALLOW_NUL, &e);
    tri_jinja_text out = {0};
    tri_status     st = render(c[i].text, strlen(c[i].text), variables, NULL, &out);
    if (c[i].want) {
      if (st != TRI_OK) print_error("%s: %s\n", c[i].text, tri_error_message());
      assert_int_equal(st, TRI_OK);
      assert_string_equal(out.text.len ? out.text.data : "", c[i].want);
    } else {
      assert_int_equal(st, TRI_EINPUT);
      if (!refusal_is(c[i].message)) print_error("%s: %s\n", c[i].text, tri_error_message());
      expect_refusal(c[i].message);
    }
    tri_jinja_text_free(&out);
    json_decref(variables);
  }
}

/* A long conversation stays below the limits. Judge: the length of the text, by hand. Earlier, texts and
 * lists that grow by a piece took memory for all their sizes, and loops over characters and earlier messages
 * took steps and memory for all elements. */
static void long_conversations(void **state) {
  enum { TURNS = 2000, BYTES = 1000 };
  static const small c[] = {
      {"{% set ns = namespace(s='') %}{% for m in messages %}{% set ns.s = ns.s ~ m.role ~ m.content %}"
       "{% endfor %}{{ ns.s|length }}",
       NULL, "2008000", NULL},
      {"{% set ns = namespace(s='', t='') %}{% for m in messages %}{% set ns.s = ns.s + m.content + 'x' %}"
       "{% set ns.t = ns.t + 'y' %}{% endfor %}{{ ns.s|length }} {{ ns.t|length }}",
       NULL, "2002000 2000", NULL},
      {"{% set ns = namespace(l=[]) %}{% for m in messages %}{% set ns.l = ns.l + [m, 1] %}{% endfor %}"
       "{{ ns.l|length }} {{ ns.l[3998].content == messages[1999].content }}",
       NULL, "4000 True", NULL},
      {"{% set ns = namespace(n=0) %}{% for m in messages %}{% for c in m.content %}"
       "{% if c['type'] == 'image' %}"
       "{% set ns.n = 1 %}{% endif %}{% endfor %}{% endfor %}{{ ns.n }}",
       NULL, "0", NULL},
      {"{% set ns = namespace(n=0) %}{% for m in messages %}{% for j in range(loop.index0) %}"
       "{% if messages[j].role == 'tool' %}{% set ns.n = 1 %}{% endif %}{% endfor %}{% endfor %}{{ ns.n }}",
       NULL, "0", NULL},
      /* a shared value keeps its own end */
      {"{% set a = 'ab' ~ 'c' %}{% set b = a ~ 'd' %}{% set c = a ~ 'e' %}"
       "{% set d = b ~ b ~ a %}{{ a, b, c, d }}",
       NULL, "('abc', 'abcd', 'abce', 'abcdabcdabc')", NULL},
      {"{% set a = [1] + [2] %}{% set b = a + [3] %}{% set c = a + [4] %}{% set d = b + b %}{{ a, b, c, d }}",
       NULL, "([1, 2], [1, 2, 3], [1, 2, 4], [1, 2, 3, 1, 2, 3])", NULL},
      /* str(loop) runs the rest of its tests, and these join texts too */
      {"{% set ns = namespace(r='', s='') %}{% macro m(x) %}{% set ns.r = ns.s ~ x %}1{% endmacro %}"
       "{% for x in [1, 2] if m(x) %}{% if loop.first %}{% set ns.s = 'ab' ~ x %}{% set ns.s = ns.s ~ "
       "'yyyyyyyy' * 9 %}{{ (ns.s ~ loop)|length }} {{ ns.r|last }}{% endif %}{% endfor %}",
       NULL, "92 2", NULL},
      {"{% set a = '' ~ '' %}{{ a ~ 'x' }}{{ [] + [] + [1] }}{{ () + (1,) + () }}", NULL, "x[1](1,)", NULL},
      {"{% set ns = namespace() %}{% for x in 'abc' %}{% set ns.l = loop %}{% endfor %}{% for y in 'defg' %}"
       "{{ ns.l.length }}{{ ns.l.last }}{% endfor %}",
       NULL, "3True3True3True3True", NULL},
  };
  json_t *variables = json_object(), *messages = json_array();
  char    content[BYTES + 1];

  (void)state;
  memset(content, 'w', BYTES);
  content[BYTES] = 0;
  for (int i = 0; i < TURNS; i++)
    json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "user", "content", content));
  json_object_set_new(variables, "messages", messages);
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    tri_jinja     *t = NULL;
    tri_jinja_text out = {0};
    tri_error_clear();
    if (tri_jinja_open(c[i].text, strlen(c[i].text), &t) != TRI_OK ||
        tri_jinja_render(t, variables, NULL, &out) != TRI_OK || strcmp(out.text.data, c[i].want) != 0)
      fail_msg("%s: '%s' %s", c[i].text, out.text.data ? out.text.data : "", tri_error_message());
    tri_jinja_text_free(&out);
    tri_jinja_close(&t);
  }
  json_decref(variables);
}

/* Growth without end soon fails with a message. Large values are made. */
static void limits(void **state) {
#define NESTED "{% set ns = namespace(x=[]) %}{% for i in range(5000) %}{% set ns.x = [ns.x] %}{% endfor %}"
#define TWICE  "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = "
  static const small c[] = {
      {"{{ 'a' * 1000000000 }}", NULL, NULL, "1 64 MiB"},
      {"{{ [0] * 1000000000 }}", NULL, NULL, "1 64 MiB"},
      {"{{ ('é' * 9223372036854775807)|length }}", NULL, NULL, "1 64 MiB"},
      {"{{ 'a'.center(9223372036854775807) }}", NULL, NULL, "1 64 MiB"},
      {"{{ '%999999999d' % 1 }}", NULL, NULL, "read_number() width 67108864"},
      {"{{ '%.9999f' % 1 }}", NULL, NULL, "read_spec() precision 1000"},
      {"{{ '{:>999999999}'.format(1) }}", NULL, NULL, "width 67108864"},
      /* lengths by Python's len() */
      {"{{ '{:,.1000f}'.format(1e308)|length }} {{ '{:+_.1000%}'.format(1e305)|length }}", NULL, "1412 1412",
       NULL},
      {"{{ '{:01000,}'.format(1)|length }} {{ '{:0999,.900f}'.format(-1e308)|length }}", NULL, "1001 1313",
       NULL},
      {"{{ '{:01500,.1000f}'.format(1e300) }}", NULL, NULL, "width 1000"},
      {"{{ 'a\t'.expandtabs(9223372036854775807) }}", NULL, NULL, "expandtabs() 1"},
      {"{{ 1|tojson(indent=9223372036854775807) }}", NULL, NULL, "1 64 MiB"},
      {TWICE "ns.x ~ ns.x %}{% endfor %}", NULL, NULL, "count_bytes() 1 64 MiB"},
      {TWICE "[ns.x, ns.x] %}{% endfor %}{{ ns.x }}", NULL, NULL, "count_bytes() 1 64 MiB"},
      {TWICE "[ns.x, ns.x] %}{% endfor %}{{ ns.x|tojson }}", NULL, NULL, "count_bytes() 1 64 MiB"},
      {TWICE "ns.x.replace('', 'ab') %}{% endfor %}", NULL, NULL, "count_bytes() 1 64 MiB"},
      {TWICE "(ns.x, ns.x) %}{% endfor %}{{ {ns.x: 1} }}", NULL, NULL, "steps"},
      {TWICE "[ns.x, ns.x] %}{% endfor %}{% set a = ns.x %}" TWICE
             "[ns.x, ns.x] %}{% endfor %}{{ a == ns.x }}",
       NULL, NULL, "steps"},
      {NESTED "{{ ns.x }}", NULL, NULL, "tri_jarena_enter() 1 1000"},
      {NESTED "{{ ns.x|tojson }}", NULL, NULL, "tri_jarena_enter() 1 1000"},
      {NESTED "{% set a = ns.x %}" NESTED "{{ a == ns.x }}", NULL, NULL, "tri_jarena_enter() 1 1000"},
      {NESTED "{% set a = ns.x %}" NESTED "{{ [a, ns.x]|sort|length }}", NULL, NULL,
       "tri_jarena_enter() 1 1000"},
      {NESTED "{% set a = ns.x %}" NESTED "{{ a in [ns.x] }}", NULL, NULL, "tri_jarena_enter() 1 1000"},
      {"{% set ns = namespace(x=()) %}{% for i in range(5000) %}{% set ns.x = (ns.x,) %}{% "
       "endfor %}{{ {ns.x: 1} }}",
       NULL, NULL, "tri_jarena_enter() 1 1000"},
      {"{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}", NULL, NULL, "tri_jarena_enter() 1 1000"},
      {"{% set ns = namespace(x=[1]) %}{% for i in range(5000) %}{% set ns.x = ns.x|map('abs') "
       "%}{% endfor %}{{ ns.x|list }}",
       NULL, NULL, "tri_jarena_enter() 1 1000"},
      {"{{ (('a' * 1000000) ~ 'b').find('a' * 900000 ~ 'c') }}", NULL, "-1", NULL},
      {"{% for i in range(1000) %}{{ ('a' * 2000000).rfind('b' ~ 'a' * 1000000) }}{% endfor %}", NULL, NULL,
       "count_bytes() 1 64 MiB"},
      {"{% set s = 'a' * 4000000 %}{% for i in range(100000) %}{% if 'b' in s %}{% endif %}{% endfor %}",
       NULL, NULL, "steps"},
      {"{% set s = 'a' * 1000 %}{% for i in range(20000) %}{% if 'ab' in s %}{% endif %}"
       "{% endfor %}",
       NULL, NULL, "steps"},
      {"{% set s = 'a' * 4000000 %}{% for i in range(100000) %}{{ s[-1:0:-1]|length }}{% endfor %}", NULL,
       NULL, "more than"},
      {"{% for i in range(100000) %}{{ ('a' * 100000).replace('a', '') }}{% endfor %}", NULL, NULL, "steps"},
      {"{{ range(100000)|map('string')|sort|last }}", NULL, "99999", NULL},
      {"{{ range(100000)|sort(reverse=true)|first }}", NULL, "99999", NULL},
      {"{{ (range(100000)|map('string')|unique|list)|length }}", NULL, "100000", NULL},
      {"{{ dict(range(50000)|batch(2))|length }}", NULL, "25000", NULL},
      {"{{ range(100000)|sum }} {{ range(100000)|join|length }}", NULL, "4999950000 488890", NULL},
      {"{{ 'x'[9223372036854775807] is undefined }}{{ 'x'[-9223372036854775807 - 1] is "
       "undefined }}{{ 'x'[::9223372036854775807] }}",
       NULL, "TrueTruex", NULL},
      {"{{ 'a'.ljust(-9223372036854775807 - 1) }}{{ '-1'.zfill(-9223372036854775807 - 1) }}", NULL, "a-1",
       NULL},
      {"{{ [1]|slice(9223372036854775807)|list }}", NULL, NULL, "more than"},
      {"{{ [1]|batch(9223372036854775807)|list }}", NULL, "[[1]]", NULL},
      {"{{ 9223372036854775807 + 1 }}", NULL, NULL, "1 64 !MiB"},
      {"{{ -9223372036854775807 - 2 }}", NULL, NULL, "1 64 !MiB"},
      {"{{ 4294967296 * 4294967296 }}", NULL, NULL, "1 64 !MiB"},
      {"{{ 10 ** 19 }}", NULL, NULL, "1 64 !MiB"},
      {"{{ (-9223372036854775807 - 1) // -1 }}", NULL, NULL, "1 64 !MiB"},
      {"{{ (-9223372036854775807 - 1)|abs }}", NULL, NULL, "1 64 !MiB"},
      {"{{ '9223372036854775808'|int }}", NULL, NULL, "1 64 !MiB"},
      {"{{ '-9223372036854775808'|int }}{{ (-9223372036854775807 - 1) % -1 }}", NULL, "-92233720368547758080",
       NULL},
      {"{{ 1e30|int }}", NULL, NULL, "1 64 !MiB"},
      {"{{ (-8) ** 0.5 }}", NULL, NULL, "power_real() 1"},
  };

  (void)state;
  check(c, sizeof c / sizeof *c);
}

/* Known but unsupported features are refused by name. */
static void refused(void **state) {
  static const small c[] = {
      {"{{ 'a'|pprint }}", NULL, NULL, "check_known() 1 filter pprint"},
      {"{{ [1]|random }}", NULL, NULL, "check_known() 1 filter random"},
      {"{{ 'a'|striptags }}", NULL, NULL, "check_known() 1 filter striptags"},
      {"{{ ['a']|map('urlize')|list }}", NULL, NULL, "find_row() 1 urlize"},
      {"{{ 'a'.encode() }}", NULL, NULL, "tri_jrow_call() 1 method encode"},
      {"{{ 'a'.translate({}) }}", NULL, NULL, "tri_jrow_call() 1 method translate"},
      {"{{ lipsum() }}", NULL, NULL, "tri_jrow_call() 1 function lipsum"},
      {"{{ '{0.x}'.format(1) }}", NULL, NULL, "field_value() 1 {0.x}"},
      {"{{ strftime_now('%d') }}", NULL, NULL, "read_day() 1 strftime_now"},
      {"{{ 'a'.upper }}", NULL, NULL, "repr_nested() 1"},
      {"{{ [1]|map('abs') }}", NULL, NULL, "repr_nested() 1"},
      {"{{ l.append(1) }}", "{\"l\": []}", NULL, "tri_jundefined_fail() 1 append list"},
      {"{{ m.update({}) }}", "{\"m\": {}}", NULL, "tri_jundefined_fail() 1 update dict"},
      {"{{ m.__class__() }}", "{\"m\": {}}", NULL, "tri_jundefined_fail() 1 __class__ dict"},
      {"{{ m.x.y }}", "{\"m\": {}}", NULL, "tri_jundefined_fail() dict object x"},
      {"{{ l[3].y }}", "{\"l\": []}", NULL, "tri_jundefined_fail() list object 3"},
      {"{{ none.x.y }}", NULL, NULL, "tri_jundefined_fail() 1 None x"},
      {"{{ x + 1 }}", NULL, NULL, "tri_jundefined_fail() 1 x !None !dict"},
      {"{{ 1 + 'a' }}", NULL, NULL, "unsupported() 1 int str"},
      {"{{ 'a' + 1 }}", NULL, NULL, "add() 1 str int"},
      {"{{ raise_exception('Only \"user\" please') }}", NULL, NULL,
       "raise_exception() 1 Only \"user\" please"},
      {"{{ (l|first).x }}", "{\"l\": []}", NULL, "tri_jundefined_fail() 1 !list !None"},
  };

  (void)state;
  check(c, sizeof c / sizeof *c);
}

/* A list of text parts under `content` acts as its joined texts if a string is needed. Elsewhere it is a
 * list. */
static void parts(void **state) {
  static const char v[] =
      "{\"m\": {\"content\": [{\"type\": \"text\", \"text\": \" Hé\"}, {\"type\": \"text\", "
      "\"text\": \"llo \"}]},"
      " \"e\": {\"content\": []}, \"o\": {\"content\": [{\"type\": \"image\"}]}, \"other\": "
      "[{\"type\": \"text\", \"text\": \"x\"}]}";
  static const small c[] = {
      {"[{{ m.content }}]{{ m['content'] }}", v, "[ Héllo ] Héllo ", NULL},
      {"{{ m.content + '!' }}{{ '<' + m.content }}{{ m.content ~ m.content }}", v,
       " Héllo !< Héllo  Héllo  Héllo ", NULL},
      {"{{ m.content|trim }}|{{ m.content|upper|trim }}|{{ m.content|replace('l', 'L') }}|{{ "
       "m.content|string|length }}",
       v, "Héllo|HÉLLO| HéLLo |7", NULL},
      {"{{ m.content.strip() }}|{{ m.content.split('l') }}|{{ m.content.startswith(' H') }}", v,
       "Héllo|[' Hé', '', 'o ']|True", NULL},
      {"{{ 'éll' in m.content }}{{ 'x' in m.content }}{{ m.content == ' Héllo ' }}{{ m.content "
       "!= 'a' }}{{ 'A' > m.content }}",
       v, "TrueFalseTrueTrueTrue", NULL},
      {"{{ '%s|%d' % (m.content, 1) }}{{ '{}'.format(m.content) }}{{ m.content[0].text }}", v,
       " Héllo |1 Héllo  Hé", NULL},
      {"{{ m.content is string }}{{ m.content is iterable }}{{ m.content is sequence }}{{ "
       "m.content is mapping }}",
       v, "FalseTrueTrueFalse", NULL},
      {"{{ m.content|length }}{% for p in m.content %}<{{ p.text }}>{% endfor %}", v, "2< Hé><llo >", NULL},
      {"{{ m.content|tojson }}", v,
       "[{\"type\": \"text\", \"text\": \" Hé\"}, {\"type\": \"text\", \"text\": \"llo \"}]", NULL},
      {"{{ m.content|map(attribute='text')|join('+') }}|{{ m.content == m.content }}", v, " Hé+llo |True",
       NULL},
      {"[{{ e.content }}]{{ e.content|length }}{{ not e.content }}", v, "[]0True", NULL},
      {"{{ o.content }}{{ other }}", v, "[{'type': 'image'}][{'type': 'text', 'text': 'x'}]", NULL},
      {"{{ o.content + 'x' }}", v, NULL, "add() 1 list str"},
      {"{{ o.content.strip() }}", v, NULL, "tri_jundefined_fail() list object strip"},
  };

  (void)state;
  check(c, sizeof c / sizeof *c);
}

/* The arena counts memory, refuses too much, and lets a buffer grow in place. */
static void arena(void **state) {
  tri_jarena a = {0};
  tri_jbuf   b = {.a = &a};
  void      *p = NULL, *q = NULL;

  (void)state;
  assert_int_equal(tri_jarena_take(&a, 3, &p), TRI_OK);
  assert_int_equal(tri_jarena_take(&a, 1 << 20, &q), TRI_OK);
  assert_true((uintptr_t)p % 8 == 0 && (uintptr_t)q % 8 == 0 && ((char *)q)[(1 << 20) - 1] == 0);
  assert_int_equal(a.bytes, 3 + (1 << 20));
  assert_int_equal(tri_jbuf_put(&b, "abc", 3), TRI_OK);
  for (int i = 0; i < 100000; i++) assert_int_equal(tri_jbuf_put(&b, "0123456789", 10), TRI_OK);
  assert_int_equal(tri_jbuf_value(&b, 0).as.text.n, 1000003);
  assert_memory_equal(b.s + 1000000 - 7, "0123456789", 10);
  assert_int_equal(tri_jarena_take(&a, (size_t)TRI_JINJA_BYTES, &p), TRI_EINPUT);
  assert_null(p);
  assert_int_equal(tri_jarena_take(&a, SIZE_MAX - 3, &p), TRI_EINPUT);
  assert_int_equal(tri_jarena_step(&a, TRI_JINJA_STEPS + 1), TRI_EINPUT);
  tri_jarena_free(&a);
  assert_true(a.block == NULL && a.bytes == 0);
  tri_error_clear();
}
int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(as_jinja2),  cmocka_unit_test(dates),
      cmocka_unit_test(characters), cmocka_unit_test(long_conversations),
      cmocka_unit_test(limits),     cmocka_unit_test(refused),
      cmocka_unit_test(parts),      cmocka_unit_test(arena),
  };
  return cmocka_run_group_tests(tests, load, unload);
}
