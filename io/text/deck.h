/* deck.h - a strict two-level YAML file and arguments as a list of (section, key, value, place). */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_DECK_H
#define TRI_DECK_H

#include "base/text_buffer.h"

typedef struct tri_deck tri_deck;

enum { TRI_DECK_PLAIN = -1, TRI_DECK_EMPTY_LIST = -2, TRI_DECK_MAPPING = -3 };

/* One scalar. A list is one entry per item (or, where its items are mappings, one per field of each item,
 * and one per part of a field that is a list), in order and next to each other. A value may be a mapping of
 * single values where its key ends with _kwargs: one entry per field, index TRI_DECK_MAPPING; an empty one
 * is a single entry without field. All text is valid UTF-8, NUL-terminated and borrowed from the deck. */
typedef struct tri_deck_entry {
  const char *section; /* "" for what stands at the top level, and for an argument without a dot */
  const char *key;     /* "" where the section itself is a list, or is empty */
  const char *field;   /* name of the field where list items are mappings, else "" */
  const char *value;
  const char *where;    /* "FILE:LINE", or "argument 'section.key=value'" */
  int         line;     /* 1-based; 0: an argument */
  int         index;    /* of the list item, TRI_DECK_PLAIN, TRI_DECK_EMPTY_LIST or TRI_DECK_MAPPING */
  int         part;     /* of a field that is a list, else TRI_DECK_PLAIN; TRI_DECK_EMPTY_LIST */
  bool        first;    /* the first entry of its key: 1 + the entries up to the next first belong together */
  bool        unquoted; /* a plain scalar, in which null and nothing at all mean something */
} tri_deck_entry;

/* Not collective. Read a file of at most 1 MiB. Refused with TRI_ECONFIG and FILE:LINE: bytes that are
 * not YAML 1.1 in UTF-8, anchors, aliases, tags, directives, a second document, deeper nesting, a section
 * or key given twice. A byte order mark is skipped. TRI_EINPUT: the file cannot be read. *out is the
 * caller's to close. */
TRI_CHECKED tri_status tri_deck_open(const char *path, tri_deck **out);
/* Not collective. As tri_deck_open, from n bytes; `name` stands for the file in messages. */
TRI_CHECKED tri_status tri_deck_open_text(const char *name, const char *bytes, size_t n, tri_deck **out);
/* Not collective. Append "section.key=value"; the section ends at the first dot. A value that starts with
 * [ is a list in YAML's short form, for a key that ends with _kwargs one that starts with { is a mapping; any
 * other is taken letter by letter. Two arguments for one key: TRI_ECONFIG. */
TRI_CHECKED tri_status tri_deck_set(tri_deck *d, const char *argument);
void                   tri_deck_close(tri_deck **d);

const char           *tri_deck_name(const tri_deck *d); /* as given at open; borrowed */
int                   tri_deck_count(const tri_deck *d);
const tri_deck_entry *tri_deck_at(const tri_deck *d, int i); /* 0 <= i < count; borrowed until the next set */
/* Not collective. Append the n entries of a mapping, from `first` on, as a JSON object on one line: unquoted
 * true, false, null (in the spellings of YAML 1.2) and numbers are these, all else is text. TRI_ECONFIG, with
 * its place: a field that is given twice; an unquoted yes, no, on or off, which YAML 1.1 takes for a truth
 * value; a number beyond 64 bits, or none (.nan, .inf). */
TRI_CHECKED tri_status tri_deck_put_json(const tri_deck *d, int first, int n, tri_text *out);
/* Not collective. Append one such value; unquoted: as in tri_deck_entry. */
TRI_CHECKED tri_status tri_deck_put_scalar(const char *value, bool unquoted, tri_text *out);
/* Not collective. Refuses an unquoted value that other readers of YAML take for another one than this does:
 * text here, a truth value of YAML 1.1 there; a real number here, a longer integer there. TRI_ECONFIG; place:
 * what has it, for the message. */
TRI_CHECKED tri_status tri_deck_check_scalar(const char *value, const char *place);
/* Whether the entry is an unquoted null, that is: as if the key were not given. */
bool tri_deck_is_null(const tri_deck_entry *e);

#endif
