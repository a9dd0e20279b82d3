/* history_impl.h - the parts of a history and what each of its files reads. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_HISTORY_IMPL_H
#define TRI_HISTORY_IMPL_H

#include "base/hash.h"
#include "ending.h"
#include "history.h"

#include <sys/stat.h>

struct json_t;

enum {
  TRI_HISTORY_PATH_BYTES = 4096 + 64,
  TRI_HISTORY_NAME_BYTES = 96,                         /* of a metric and its end, as metrics.h has it */
  TRI_HISTORY_NAMES_MOST = 1024,                       /* chosen: four times what a line of ours has */
  TRI_HISTORY_NAME_SLOTS = 2 * TRI_HISTORY_NAMES_MOST, /* of a hash table; a power of two */
  TRI_HISTORY_ALARMS_MOST = 1000,
  TRI_HISTORY_SAID_BYTES = 4096 /* of an alarm's text that is kept; chosen: a screen of text */
};

/* ---- tail.c: a file that grows, line by line. Zero-initialise. */

typedef struct tri_history_tail {
  struct stat seen;       /* at the last reading; all zero: never, or there was no file */
  int64_t     at;         /* bytes taken: all whole lines */
  char        before[64]; /* the last of them */
  int         n_before;
  bool        skips;  /* within a line that is too long */
  char       *buffer; /* what follows `at`, n_buffer bytes of it */
  int64_t     cap, n_buffer;
} tri_history_tail;
typedef struct tri_history_reader {
  /* Forget all: what was read is another file, or none, now. */
  void (*anew)(void *ctx);
  /* text [n] without the newline, a NUL behind it, borrowed; NULL: a line of more than TRI_LINE_BYTES. */
  tri_status (*line)(void *ctx, const char *text, size_t n);
  void   *ctx;
  int64_t most; /* bytes that are read at once: of more the last ones are */
} tri_history_reader;
/* Sets *changed where there is anything new. A file that is not there has no lines. */
TRI_CHECKED tri_status tri_history_tail_read(tri_history_tail *t, const char *path,
                                             const tri_history_reader *to, bool *changed);
void                   tri_history_tail_free(tri_history_tail *t);
bool tri_history_is_same(const struct stat *a, const struct stat *b); /* file, size, both times */

/* ---- line.c: a line of metrics as fields. */

/* Where a name stands in a table of TRI_HISTORY_NAME_SLOTS, or would: the first place to look at. */
static inline size_t tri_history_slot(const char *name, size_t n) {
  return (size_t)(tri_hash64(name, n, 0) % TRI_HISTORY_NAME_SLOTS);
}

typedef enum { TRI_FIELD_NUMBER, TRI_FIELD_TEXT, TRI_FIELD_OTHER } tri_history_kind;
typedef struct tri_history_field {
  const char      *name, *text; /* borrowed from the line or from its object; not ended by a NUL */
  int              n_name, n_text;
  tri_history_kind kind;
  double           number; /* NaN: null */
  int64_t          step;   /* of a whole number from 0 on; -1: else */
  int64_t          series; /* its place among the series, -1: it has none yet; rows.c's */
} tri_history_field;
typedef struct tri_history_fields {
  tri_history_field *field;
  int64_t            n, cap;
  struct json_t     *object;                       /* where the line was not a plain one */
  uint16_t           slot[TRI_HISTORY_NAME_SLOTS]; /* of a plain line: 1 + the field of a name; 0: none */
} tri_history_fields;
/* *good: it is a JSON object; else nothing is read. The fields are borrowed from the line until the next
 * call. */
TRI_CHECKED tri_status tri_history_parse(const char *text, size_t n, tri_history_fields *out, bool *good);
void                   tri_history_fields_free(tri_history_fields *f);

/* ---- rows.c: metrics. Zero-initialise. */

typedef struct tri_history_series {
  char     name[TRI_HISTORY_NAME_BYTES];
  int32_t *row;   /* [n] ascending, of the lines that have the number */
  double  *value; /* [n] */
  int64_t  n, row_cap, value_cap;
} tri_history_series;
typedef struct tri_history_word {
  char    name[TRI_HISTORY_NAME_BYTES];
  char   *text;
  int64_t step;
} tri_history_word;
typedef struct tri_history_table {
  tri_history_tail    tail;
  tri_history_fields  fields; /* of the line that is read */
  int64_t            *step;   /* [n_row] */
  int64_t             n_row, row_cap, n_bad;
  tri_history_series *series;
  tri_history_word   *word;
  int64_t             n_series, series_cap, n_word, word_cap;
  uint16_t            slot[TRI_HISTORY_NAME_SLOTS]; /* 1 + the series of a name; 0: none */
} tri_history_table;
TRI_CHECKED tri_status tri_history_rows_read(tri_history_table *r, const char *folder, bool *changed);
void                   tri_history_rows_free(tri_history_table *r);

/* ---- keys.c: the deck. Zero-initialise. */

typedef struct tri_history_key_row {
  char *key, *value;
} tri_history_key_row;
typedef struct tri_history_keys {
  struct stat          seen;
  tri_history_key_row *row;
  int64_t              n, cap;
  char                *error;
} tri_history_keys;
TRI_CHECKED tri_status tri_history_keys_read(tri_history_keys *k, const char *folder, bool *changed);
void                   tri_history_keys_free(tri_history_keys *k);

/* ---- run_events.c: run.jsonl. Zero-initialise. */

typedef struct tri_history_alarm_row {
  char   *text, *code;
  bool    is_error;
  int64_t step;
} tri_history_alarm_row;
enum { TRI_HISTORY_PHASE_BYTES = 32 };
typedef struct tri_history_log {
  tri_history_tail       tail;
  tri_history_alarm_row *alarm;
  int64_t                n, cap, n_bad;
  int64_t                n_foreign;     /* lines of another version, since the newest start */
  int                    first, starts; /* first: alarm of the newest start */
  int64_t                steps;
  char                   phase[TRI_HISTORY_PHASE_BYTES];
  int64_t                phase_step;
  tri_ending             end, verdict; /* of the newest start, or of one behind it that has no start event */
  tri_ending             done;         /* "finished" of the newest start */
  struct json_t         *start;        /* that start's line; NULL: none */
} tri_history_log;
TRI_CHECKED tri_status tri_history_log_read(tri_history_log *l, const char *folder, bool *changed);
tri_ending             tri_history_log_ending(const tri_history_log *l, const char *tag);
void                   tri_history_log_free(tri_history_log *l);

/* ---- life.c */

/* Looks anew; *changed where it is another. */
void tri_history_life_look(tri_history_life *life, const char *folder, bool *changed);

#endif
