/* deck.h - reads a strict two-level YAML file and arguments into a list of (section, key, value, place). Not
 * collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DECK_H
#define TRI_DECK_H

#include "base/text_buffer.h"

typedef struct tri_deck tri_deck;

enum { TRI_DECK_PLAIN = -1, TRI_DECK_EMPTY_LIST = -2, TRI_DECK_MAPPING = -3 };

/* One scalar of a deck. A list gives one entry per item, in order and next to each other. If its items are
 * mappings, it gives one entry per field of each item, and one per part of a field that is a list. A value
 * may be a mapping of single values if its key ends with _kwargs. It gives one entry per field, with index
 * TRI_DECK_MAPPING. An empty mapping gives one entry without field. All text is valid UTF-8, NUL-terminated
 * and borrowed from the deck. */
typedef struct tri_deck_entry {
  const char *section; /* "" for a top-level scalar and an argument without a dot */
  const char *key;     /* "" if the section itself is a list, or is empty */
  const char *field;   /* the name of the field if list items are mappings, else "" */
  const char *value;
  const char *where; /* "FILE:LINE", or "argument 'section.key=value'" */
  int         line;  /* 1-based. 0: an argument */
  /* Index of the list item, TRI_DECK_PLAIN, TRI_DECK_EMPTY_LIST or TRI_DECK_MAPPING. */
  int index;
  /* Index in a field that is a list, TRI_DECK_EMPTY_LIST if that list is empty, else TRI_DECK_PLAIN. */
  int part;
  /* The first entry of its key. The entries up to the next `first` belong to the same key. */
  bool first;
  bool unquoted; /* a plain scalar. Only there null or an empty value has its YAML meaning */
} tri_deck_entry;

/* Reads a file of at most 1 MiB. TRI_ECONFIG with FILE:LINE refuses bytes that are not YAML 1.1 in UTF-8,
 * anchors, aliases, tags, directives, a second document, deeper nesting, and a section or key given twice. A
 * byte order mark is skipped. TRI_EINPUT: the file cannot be read. The caller closes *out. */
TRI_CHECKED tri_status tri_deck_open(const char *path, tri_deck **out);
/* Works as tri_deck_open on n bytes. Messages use `name` as the file's name. */
TRI_CHECKED tri_status tri_deck_open_text(const char *name, const char *bytes, size_t n, tri_deck **out);
/* Appends "section.key=value". The section ends at the first dot. A value starting with [ is a list in YAML's
 * flow style. For a key that ends with _kwargs, a value starting with { is a mapping. Any other value is
 * taken literally. TRI_ECONFIG: two arguments for one key. */
TRI_CHECKED tri_status tri_deck_set(tri_deck *d, const char *argument);
void                   tri_deck_close(tri_deck **d);

const char *tri_deck_name(const tri_deck *d); /* as given to open, borrowed */
int         tri_deck_count(const tri_deck *d);
/* 0 <= i < count, borrowed until the next tri_deck_set. */
const tri_deck_entry *tri_deck_at(const tri_deck *d, int i);
/* Appends the n entries of a mapping, from `first` on, as a JSON object on one line. Unquoted true, false,
 * null (in the spellings of YAML 1.2) and numbers keep their type. All else is text. TRI_ECONFIG, with the
 * place, refuses a field given twice, an unquoted yes, no, on or off (booleans in YAML 1.1), a number beyond
 * 64 bits, and .nan or .inf. */
TRI_CHECKED tri_status tri_deck_put_json(const tri_deck *d, int first, int n, tri_text *out);
/* Appends one such value. `unquoted` is as in tri_deck_entry. */
TRI_CHECKED tri_status tri_deck_put_scalar(const char *value, bool unquoted, tri_text *out);
/* Refuses an unquoted value that other YAML readers would read as another value. Some read a boolean of YAML
 * 1.1 or a longer integer, and this reader has text or a real number. TRI_ECONFIG. `place` names the value in
 * the message. */
TRI_CHECKED tri_status tri_deck_check_scalar(const char *value, const char *place);
/* Says if the entry is an unquoted null. Such a key counts as not given. */
bool tri_deck_is_null(const tri_deck_entry *e);

#endif
