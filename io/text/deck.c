/* deck.c - reads strict two-level YAML with libyaml into a flat list of entries. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "deck.h"

#include "base/file.h"
#include "base/host_memory.h"
#include "base/mask.h"

#include <stdio.h>
#include <string.h>
#include <yaml.h>

enum {
  DECK_BYTES = 1 << 20, /* chosen, far above any deck written by hand */
  DECK_ENTRIES = 16384  /* chosen, the search for repeated keys stays below a second */
};

typedef struct entry_node {
  tri_deck_entry e;
  char          *text[5]; /* section, key, field, value, where. The members of e point here. */
} entry_node;

struct tri_deck {
  char       *name;
  entry_node *node;
  int64_t     cap;
  int         n;
};

/* The state while reading a file or the value of one argument. */
typedef struct reader {
  tri_deck     *deck;
  const char   *argument; /* NULL: a file */
  const char   *bytes;
  size_t        n_bytes;
  yaml_parser_t yaml;
  yaml_event_t  event;
  bool          held; /* event must be deleted */
} reader;

/* The place of an entry while it is built. */
typedef struct place {
  const char *section, *key, *field;
  int         line, index, part;
  bool        first;
} place;

static void where_text(const reader *r, int line, tri_text *out) {
  tri_status st = TRI_OK;

  if (!r->argument) {
    st = tri_text_printf(out, "%s:%d", r->deck->name, line);
  } else {
    st = tri_text_printf(out, "argument '");
    if (st == TRI_OK) st = tri_mask_text(r->argument, out);
    if (st == TRI_OK) st = tri_text_put(out, "'", 1);
  }
  if (st != TRI_OK) tri_text_free(out);
}

/* Refuses the text at `line`. */
/* Every refusal has the place of its caller. */
#define refuse(r, line, what) refuse_in(__func__, __LINE__, r, line, what)
static tri_status refuse_in(const char *func, int at, const reader *r, int line, const char *what) {
  tri_text   where = {0};
  tri_status st;

  where_text(r, line, &where);
  st = tri_fail(__FILE__, at, func, TRI_ECONFIG, "%s: %s", where.data ? where.data : r->deck->name, what);
  tri_text_free(&where);
  return st;
}

static void free_node(entry_node *n) {
  for (int i = 0; i < 5; i++) TRI_FREE(n->text[i]);
}

static tri_status append(const reader *r, const place *at, const char *value, bool unquoted) {
  tri_status  st = TRI_OK;
  tri_deck   *d = r->deck;
  tri_text    where = {0};
  entry_node *n;

  if (d->n == DECK_ENTRIES) return refuse(r, at->line, "the deck has too many entries");
  TRI_TRY(TRI_GROW(d->node, d->cap, d->n + 1));
  n = &d->node[d->n];
  memset(n, 0, sizeof *n);
  where_text(r, at->line, &where);
  TRI_TRY_DONE(tri_copy_text(at->section, &n->text[0]));
  TRI_TRY_DONE(tri_copy_text(at->key, &n->text[1]));
  TRI_TRY_DONE(tri_copy_text(at->field ? at->field : "", &n->text[2]));
  TRI_TRY_DONE(tri_copy_text(value, &n->text[3]));
  TRI_TRY_DONE(tri_copy_text(where.data ? where.data : d->name, &n->text[4]));
  n->e = (tri_deck_entry){.section = n->text[0],
                          .key = n->text[1],
                          .field = n->text[2],
                          .value = n->text[3],
                          .where = n->text[4],
                          .line = r->argument ? 0 : at->line,
                          .index = at->index,
                          .part = at->part,
                          .first = at->first,
                          .unquoted = unquoted};
  d->n++;
done:
  if (st != TRI_OK) free_node(n);
  tri_text_free(&where);
  return st;
}

/* For bytes that are not UTF-8, libyaml gives no line, only an offset. */
static tri_status syntax_error(const reader *r) {
  char   what[400];
  int    line = (int)r->yaml.problem_mark.line + 1;
  size_t end = r->yaml.problem_offset < r->n_bytes ? r->yaml.problem_offset : r->n_bytes;

  if (r->yaml.error == YAML_READER_ERROR) {
    line = 1;
    for (size_t i = 0; i < end; i++) line += r->bytes[i] == '\n';
  }
  size_t      mark = r->yaml.problem_mark.index;
  const char *problem = r->yaml.problem ? r->yaml.problem : "no memory",
             *context = r->yaml.context ? r->yaml.context : "";
  if (r->yaml.error == YAML_SCANNER_ERROR && mark < r->n_bytes && r->bytes[mark] == '\t')
    problem = "a tab. Indent with spaces", context = "";
  snprintf(what, sizeof what, "this is not YAML: %s%s%s", problem, context[0] ? " " : "", context);
  return refuse(r, line, what);
}

static int line_of(const reader *r) { return (int)r->event.start_mark.line + 1; }

static tri_status next(reader *r) {
  const yaml_char_t *anchor = NULL, *tag = NULL;

  if (r->held) yaml_event_delete(&r->event);
  r->held = false;
  if (!yaml_parser_parse(&r->yaml, &r->event)) return syntax_error(r);
  r->held = true;
  switch (r->event.type) {
  case YAML_ALIAS_EVENT:
    return refuse(r, line_of(r), "YAML aliases (*name) are not accepted. Write the value out");
  case YAML_SCALAR_EVENT:
    anchor = r->event.data.scalar.anchor;
    tag = r->event.data.scalar.tag;
    if (strlen((const char *)r->event.data.scalar.value) != r->event.data.scalar.length)
      return refuse(r, line_of(r), "a text with the character U+0000 is not accepted");
    break;
  case YAML_SEQUENCE_START_EVENT:
    anchor = r->event.data.sequence_start.anchor;
    tag = r->event.data.sequence_start.tag;
    break;
  case YAML_MAPPING_START_EVENT:
    anchor = r->event.data.mapping_start.anchor;
    tag = r->event.data.mapping_start.tag;
    break;
  case YAML_DOCUMENT_START_EVENT:
    if (r->event.data.document_start.version_directive ||
        r->event.data.document_start.tag_directives.start != r->event.data.document_start.tag_directives.end)
      return refuse(r, line_of(r), "YAML directives (%...) are not accepted");
    break;
  default:
    break;
  }
  if (anchor) return refuse(r, line_of(r), "YAML anchors (&name) are not accepted");
  if (tag) return refuse(r, line_of(r), "YAML tags (!name) are not accepted");
  return TRI_OK;
}

static const char *scalar(const reader *r) { return (const char *)r->event.data.scalar.value; }
static bool        is_plain(const reader *r) { return r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE; }

/* Copies a key of a mapping. The event is that key. The caller frees *out. */
static tri_status take_key(reader *r, char **out) {
  if (r->event.type != YAML_SCALAR_EVENT) return refuse(r, line_of(r), "a key must be a word");
  if (!scalar(r)[0]) return refuse(r, line_of(r), "a key is empty");
  TRI_TRY(tri_copy_text(scalar(r), out));
  return TRI_OK;
}

/* Reads a field of a list item. The event is the start of its value. */
static tri_status read_field(reader *r, place *at) {
  if (r->event.type == YAML_SCALAR_EVENT) {
    at->part = TRI_DECK_PLAIN;
    return append(r, at, scalar(r), is_plain(r));
  }
  if (r->event.type != YAML_SEQUENCE_START_EVENT)
    return refuse(r, at->line, "a field of a list item must be a value or a list of values");
  TRI_TRY(next(r));
  for (at->part = 0; r->event.type != YAML_SEQUENCE_END_EVENT; at->part++) {
    if (r->event.type != YAML_SCALAR_EVENT)
      return refuse(r, line_of(r), "a list in a field of a list item holds single values only");
    TRI_TRY(append(r, at, scalar(r), is_plain(r)));
    at->first = false;
    TRI_TRY(next(r));
  }
  if (at->part > 0) return TRI_OK;
  at->part = TRI_DECK_EMPTY_LIST;
  return append(r, at, "", true);
}

/* Reads the fields of one list item. The event is the start of its mapping. */
static tri_status read_item_fields(reader *r, place *at) {
  tri_status st = TRI_OK;
  char      *field = NULL;
  int        begin = r->deck->n;

  TRI_TRY(next(r));
  while (r->event.type != YAML_MAPPING_END_EVENT) {
    at->line = line_of(r);
    TRI_TRY_DONE(take_key(r, &field));
    for (int i = begin; i < r->deck->n; i++)
      if (!strcmp(r->deck->node[i].e.field, field)) {
        st = refuse(r, at->line, "a field is given twice in one list item");
        goto done;
      }
    TRI_TRY_DONE(next(r));
    at->field = field;
    TRI_TRY_DONE(read_field(r, at));
    at->first = false;
    at->field = NULL;
    TRI_FREE(field);
    TRI_TRY_DONE(next(r));
  }
  if (r->deck->n == begin) st = refuse(r, line_of(r), "a list item is empty");
done:
  TRI_FREE(field);
  return st;
}

/* Reads a list. The event is the start of its sequence. */
static tri_status read_list(reader *r, place *at) {
  int line = at->line;

  at->index = 0;
  TRI_TRY(next(r));
  for (; r->event.type != YAML_SEQUENCE_END_EVENT; at->index++) {
    at->line = line_of(r);
    at->part = TRI_DECK_PLAIN;
    if (r->event.type == YAML_SCALAR_EVENT) {
      TRI_TRY(append(r, at, scalar(r), is_plain(r)));
      at->first = false;
    } else if (r->event.type == YAML_MAPPING_START_EVENT) {
      TRI_TRY(read_item_fields(r, at));
    } else {
      return refuse(r, at->line, "a list inside a list is not accepted");
    }
    TRI_TRY(next(r));
  }
  if (at->index == 0) {
    at->index = TRI_DECK_EMPTY_LIST;
    at->line = line;
    TRI_TRY(append(r, at, "", true));
  }
  return TRI_OK;
}

/* Says if the value of a key may be a mapping. */
static bool takes_mapping(const char *key) { return tri_ends_with(key, "_kwargs"); }

/* Reads a mapping. The event is its start. */
static tri_status read_mapping(reader *r, place *at) {
  tri_status st = TRI_OK;
  char      *field = NULL;
  int        begin = r->deck->n;

  at->index = TRI_DECK_MAPPING;
  TRI_TRY(next(r));
  while (r->event.type != YAML_MAPPING_END_EVENT) {
    at->line = line_of(r);
    TRI_TRY_DONE(take_key(r, &field));
    TRI_TRY_DONE(next(r));
    if (r->event.type != YAML_SCALAR_EVENT) {
      st = refuse(r, at->line, "a mapping holds single values only (texts, numbers, true, false)");
      goto done;
    }
    at->field = field;
    TRI_TRY_DONE(append(r, at, scalar(r), is_plain(r)));
    at->first = false;
    at->field = NULL;
    TRI_FREE(field);
    TRI_TRY_DONE(next(r));
  }
  if (r->deck->n == begin) st = append(r, at, "", true);
done:
  TRI_FREE(field);
  return st;
}

static tri_status refuse_repeated(const reader *r, const char *section, const char *key, int line,
                                  const tri_deck_entry *before) {
  char what[600];

  snprintf(what, sizeof what, "%s%s%s%s is given twice (first: %s)", key[0] ? "" : "section ", section,
           section[0] && key[0] ? "." : "", key, before->where);
  return refuse(r, line, what);
}

/* Reads the keys of one section. The event is the start of its mapping. */
static tri_status read_section(reader *r, const char *section) {
  tri_status st = TRI_OK;
  char      *key = NULL;

  TRI_TRY(next(r));
  while (r->event.type != YAML_MAPPING_END_EVENT) {
    place at = {.section = section,
                .line = line_of(r),
                .index = TRI_DECK_PLAIN,
                .part = TRI_DECK_PLAIN,
                .first = true};
    TRI_TRY_DONE(take_key(r, &key));
    at.key = key;
    for (int i = 0; i < r->deck->n; i++)
      if (!strcmp(r->deck->node[i].e.section, section) && !strcmp(r->deck->node[i].e.key, key)) {
        st = refuse_repeated(r, section, key, at.line, &r->deck->node[i].e);
        goto done;
      }
    TRI_TRY_DONE(next(r));
    if (r->event.type == YAML_SCALAR_EVENT) {
      TRI_TRY_DONE(append(r, &at, scalar(r), is_plain(r)));
    } else if (r->event.type == YAML_SEQUENCE_START_EVENT) {
      TRI_TRY_DONE(read_list(r, &at));
    } else if (r->event.type == YAML_MAPPING_START_EVENT && takes_mapping(key)) {
      TRI_TRY_DONE(read_mapping(r, &at));
    } else {
      st = refuse(r, at.line, "a deck has two levels, section and key, but this key holds a third");
      goto done;
    }
    TRI_FREE(key);
    TRI_TRY_DONE(next(r));
  }
done:
  TRI_FREE(key);
  return st;
}

/* Reads one section with its content. The event is the section's name. */
static tri_status read_top(reader *r) {
  tri_status st = TRI_OK;
  char      *name = NULL;
  int        begin = r->deck->n;
  place      at = {.section = "",
                   .key = "",
                   .line = line_of(r),
                   .index = TRI_DECK_PLAIN,
                   .part = TRI_DECK_PLAIN,
                   .first = true};

  TRI_TRY_DONE(take_key(r, &name));
  for (int i = 0; i < begin; i++) {
    const tri_deck_entry *e = &r->deck->node[i].e;
    if (!strcmp(e->section[0] ? e->section : e->key, name)) {
      st = refuse_repeated(r, name, "", at.line, e);
      goto done;
    }
  }
  TRI_TRY_DONE(next(r));
  at.section = name;
  if (r->event.type == YAML_SEQUENCE_START_EVENT) {
    TRI_TRY_DONE(read_list(r, &at));
  } else if (r->event.type == YAML_MAPPING_START_EVENT) {
    TRI_TRY_DONE(read_section(r, name));
  } else if (!is_plain(r) || (scalar(r)[0] && strcmp(scalar(r), "null"))) {
    at.section = "";
    at.key = name;
    TRI_TRY_DONE(append(r, &at, scalar(r), is_plain(r)));
  }
  if (r->deck->n == begin) { /* an empty section still has a name to check */
    at.index = TRI_DECK_EMPTY_LIST;
    TRI_TRY_DONE(append(r, &at, "", true));
  }
done:
  TRI_FREE(name);
  return st;
}

static tri_status read_file(reader *r) {
  TRI_TRY(next(r)); /* start of the stream */
  TRI_TRY(next(r));
  if (r->event.type == YAML_STREAM_END_EVENT) return refuse(r, 1, "the deck is empty");
  TRI_TRY(next(r));
  if (r->event.type != YAML_MAPPING_START_EVENT)
    return refuse(r, line_of(r),
                  "a deck consists of sections. Write 'section:', and 'key: value' indented below it");
  TRI_TRY(next(r));
  while (r->event.type != YAML_MAPPING_END_EVENT) {
    TRI_TRY(read_top(r));
    TRI_TRY(next(r));
  }
  TRI_TRY(next(r)); /* end of the document */
  TRI_TRY(next(r));
  if (r->event.type != YAML_STREAM_END_EVENT)
    return refuse(r, line_of(r), "a second YAML document is not accepted");
  return TRI_OK;
}

/* Reads a list, or a mapping if the key takes one. */
static tri_status read_argument(reader *r, place *at) {
  bool mapping = r->bytes[0] == '{';

  TRI_TRY(next(r)); /* start of the stream */
  TRI_TRY(next(r)); /* start of the document */
  TRI_TRY(next(r));
  if (r->event.type != (mapping ? YAML_MAPPING_START_EVENT : YAML_SEQUENCE_START_EVENT))
    return refuse(r, 1, mapping ? "this is not one mapping in { }" : "this is not one list in [ ]");
  TRI_TRY(mapping ? read_mapping(r, at) : read_list(r, at));
  TRI_TRY(next(r)); /* end of the document */
  TRI_TRY(next(r));
  if (r->event.type != YAML_STREAM_END_EVENT)
    return refuse(r, 1, mapping ? "something follows the mapping" : "something follows the list");
  return TRI_OK;
}

/* With `at` NULL it reads a file, else the list or mapping of an argument. */
static tri_status with_yaml(reader *r, place *at) {
  tri_status st;

  if (!yaml_parser_initialize(&r->yaml)) TRI_FAIL(TRI_ENOMEM, "no memory to read %s", r->deck->name);
  yaml_parser_set_encoding(&r->yaml, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&r->yaml, (const unsigned char *)r->bytes, r->n_bytes);
  st = at ? read_argument(r, at) : read_file(r);
  if (r->held) yaml_event_delete(&r->event);
  r->held = false;
  yaml_parser_delete(&r->yaml);
  return st;
}

tri_status tri_deck_open_text(const char *name, const char *bytes, size_t n, tri_deck **out) {
  tri_status st = TRI_OK;
  tri_deck  *d = NULL;
  reader     r = {.bytes = bytes, .n_bytes = n};

  *out = NULL;
  if (n > DECK_BYTES)
    TRI_FAIL(TRI_ECONFIG, "%s: the deck has %zu bytes, but at most %d are allowed", name, n, DECK_BYTES);
  if (n >= 3 && !memcmp(bytes, "\xEF\xBB\xBF", 3)) {
    r.bytes += 3;
    r.n_bytes -= 3;
  }
  TRI_TRY_DONE(TRI_ALLOC(d, 1));
  TRI_TRY_DONE(tri_copy_text(name, &d->name));
  r.deck = d;
  TRI_TRY_DONE(with_yaml(&r, NULL));
  *out = d;
  d = NULL;
done:
  tri_deck_close(&d);
  return st;
}

tri_status tri_deck_open(const char *path, tri_deck **out) {
  tri_status st = TRI_OK;
  char      *bytes = NULL;
  size_t     n = 0;

  *out = NULL;
  TRI_TRY_DONE(tri_file_read(path, DECK_BYTES, &bytes, &n));
  TRI_TRY_DONE(tri_deck_open_text(path, bytes, n, out));
done:
  TRI_FREE(bytes);
  return st;
}

/* Checks UTF-8 by table 3-7 of the Unicode standard. */
static bool is_utf8(const char *text) {
  const unsigned char *s = (const unsigned char *)text;

  while (*s) {
    int           more = *s < 0x80 ? 0 : *s >= 0xC2 && *s < 0xE0 ? 1 : (*s & 0xF0) == 0xE0 ? 2 : 3;
    unsigned char lo = *s == 0xE0 ? 0xA0 : *s == 0xF0 ? 0x90 : 0x80;
    unsigned char hi = *s == 0xED ? 0x9F : *s == 0xF4 ? 0x8F : 0xBF;
    if (more == 3 && (*s < 0xF0 || *s > 0xF4)) return false;
    s++;
    for (; more > 0; more--, s++, lo = 0x80, hi = 0xBF)
      if (*s < lo || *s > hi) return false;
  }
  return true;
}

tri_status tri_deck_set(tri_deck *d, const char *argument) {
  tri_status  st = TRI_OK;
  const char *equal = strchr(argument, '='), *dot = NULL;
  char       *name = NULL, *key;
  reader      r = {.deck = d, .argument = argument};
  place       at = {.section = "", .index = TRI_DECK_PLAIN, .part = TRI_DECK_PLAIN, .first = true};

  if (!is_utf8(argument)) TRI_FAIL(TRI_ECONFIG, "argument '%s': is not UTF-8", argument);
  if (!equal || equal == argument)
    TRI_FAIL(TRI_ECONFIG, "argument '%s': expected section.key=value, such as train.steps=10", argument);
  TRI_TRY(tri_copy_text(argument, &name));
  name[equal - argument] = 0;
  key = name;
  dot = strchr(name, '.');
  if (dot) {
    name[dot - name] = 0;
    at.section = name;
    key = name + (dot - name) + 1;
  }
  at.key = key;
  if (!key[0] || (dot && dot == name)) {
    st = refuse(&r, 0, "expected section.key=value, such as train.steps=10");
    goto done;
  }
  for (int i = 0; i < d->n; i++) {
    const tri_deck_entry *e = &d->node[i].e;
    if (e->line == 0 && !strcmp(e->section, at.section) && !strcmp(e->key, key)) {
      st = refuse_repeated(&r, at.section, key, 0, e);
      goto done;
    }
  }
  r.bytes = equal + 1;
  r.n_bytes = strlen(r.bytes);
  if (r.bytes[0] == '[' || (r.bytes[0] == '{' && takes_mapping(key)))
    TRI_TRY_DONE(with_yaml(&r, &at));
  else
    TRI_TRY_DONE(append(&r, &at, r.bytes, true));
done:
  TRI_FREE(name);
  return st;
}

void tri_deck_close(tri_deck **d) {
  if (!*d) return;
  for (int i = 0; i < (*d)->n; i++) free_node(&(*d)->node[i]);
  TRI_FREE((*d)->node);
  TRI_FREE((*d)->name);
  TRI_FREE(*d);
}

const char *tri_deck_name(const tri_deck *d) { return d->name; }
int         tri_deck_count(const tri_deck *d) { return d->n; }

const tri_deck_entry *tri_deck_at(const tri_deck *d, int i) {
  TRI_ASSERT(i >= 0 && i < d->n);
  return &d->node[i].e;
}

bool tri_deck_is_null(const tri_deck_entry *e) {
  return e->unquoted && e->index == TRI_DECK_PLAIN &&
         (!strcmp(e->value, "null") || !strcmp(e->value, "Null") || !strcmp(e->value, "NULL") ||
          !strcmp(e->value, "~"));
}
