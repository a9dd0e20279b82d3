/* history_impl.h - the parts of a history and the reader of each file. Private to its room. */
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
  TRI_HISTORY_NAME_BYTES = 96,   /* size of a metric's name with its NUL, as in metrics.h */
  TRI_HISTORY_NAMES_MOST = 1024, /* chosen as four times the names in our own lines */
  TRI_HISTORY_NAME_SLOTS = 2 * TRI_HISTORY_NAMES_MOST, /* slots of a hash table, a power of two */
  TRI_HISTORY_ALARMS_MOST = 1000,
  TRI_HISTORY_END_BYTES = 1 << 20, /* chosen as hundreds of lines */
  TRI_HISTORY_SAID_BYTES = 4096    /* kept of an alarm's text, chosen as a screen of text */
};

/* ---- tail.c reads a growing file line by line. Zero-initialise. */

typedef struct tri_history_tail {
  struct stat seen;       /* at the last reading, all zero if never read or there was no file */
  int64_t     at;         /* bytes taken, always whole lines */
  char        before[64]; /* the last n_before of them */
  int         n_before;
  bool        skips;  /* inside a line that is too long */
  char       *buffer; /* the n_buffer bytes after `at` */
  int64_t     cap, n_buffer;
} tri_history_tail;
typedef struct tri_history_reader {
  /* Discards everything read, because the file was replaced or is gone. */
  void (*anew)(void *ctx);
  /* Takes text [n] without its newline, ended by a NUL, borrowed. NULL stands for a line of more than
   * TRI_LINE_BYTES. */
  tri_status (*line)(void *ctx, const char *text, size_t n);
  void   *ctx;
  int64_t most; /* bytes read in one call, the last ones if there are more */
  bool    end;  /* fewer bytes than the file's are wanted, so nothing is said and no line counts as foreign */
} tri_history_reader;
/* Sets *changed if anything is new. A missing file counts as empty. */
TRI_CHECKED tri_status tri_history_tail_read(tri_history_tail *t, const char *path,
                                             const tri_history_reader *to, bool *changed);
void                   tri_history_tail_free(tri_history_tail *t);
bool tri_history_is_same(const struct stat *a, const struct stat *b); /* compares file, size and both times */

/* ---- line.c splits a line of metrics into fields. */

/* Returns the slot at which the search for a name in a table of TRI_HISTORY_NAME_SLOTS begins. */
static inline size_t tri_history_slot(const char *name, size_t n) {
  return (size_t)(tri_hash64(name, n, 0) % TRI_HISTORY_NAME_SLOTS);
}

typedef enum { TRI_FIELD_NUMBER, TRI_FIELD_TEXT, TRI_FIELD_OTHER } tri_history_kind;
typedef struct tri_history_field {
  const char      *name, *text; /* borrowed from the line or its object, without a NUL at the end */
  int              n_name, n_text;
  tri_history_kind kind;
  double           number; /* NaN for null */
  int64_t          step;   /* the number if it is a whole number >= 0, else -1 */
  int64_t          series; /* index of its series, -1 if still unknown, set by rows.c */
} tri_history_field;
typedef struct tri_history_fields {
  tri_history_field *field;
  int64_t            n, cap;
  struct json_t     *object;                       /* set if the line needed jansson */
  uint16_t           slot[TRI_HISTORY_NAME_SLOTS]; /* for a plain line, 1 + the field of a name, or 0 */
} tri_history_fields;
/* *good is true for a JSON object, otherwise no field is read. The fields are borrowed from the line and
 * valid until the next call. */
TRI_CHECKED tri_status tri_history_parse(const char *text, size_t n, tri_history_fields *out, bool *good);
void                   tri_history_fields_free(tri_history_fields *f);

/* ---- rows.c holds the metrics. Zero-initialise. */

typedef struct tri_history_series {
  char     name[TRI_HISTORY_NAME_BYTES];
  int32_t *row;   /* [n] ascending, the lines with the number */
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
  tri_history_fields  fields; /* fields of the current line */
  int64_t            *step;   /* [n_row] */
  int64_t             n_row, row_cap, n_bad;
  tri_history_series *series;
  tri_history_word   *word;
  int64_t             n_series, series_cap, n_word, word_cap;
  uint16_t            slot[TRI_HISTORY_NAME_SLOTS]; /* 1 + the series of a name, or 0 */
} tri_history_table;
/* With `end`, reads the last TRI_HISTORY_END_BYTES only. */
TRI_CHECKED tri_status tri_history_rows_read(tri_history_table *r, const char *folder, bool end,
                                             bool *changed);
void                   tri_history_rows_free(tri_history_table *r);

/* ---- keys.c holds the deck. Zero-initialise. */

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

/* ---- run_events.c holds run.jsonl. Zero-initialise. */

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
  int64_t                n_foreign;     /* lines of another version since the newest start */
  int                    first, starts; /* `first` is the first alarm of the newest start */
  int64_t                steps;
  char                   phase[TRI_HISTORY_PHASE_BYTES];
  int64_t                phase_step;
  tri_ending     end, verdict; /* events of the newest start, or of a later one without a start event */
  tri_ending     done;         /* "finished" event of the newest start */
  struct json_t *start;        /* start event of that start, or NULL */
} tri_history_log;
TRI_CHECKED tri_status tri_history_log_read(tri_history_log *l, const char *folder, bool *changed);
tri_ending             tri_history_log_ending(const tri_history_log *l, const char *tag);
void                   tri_history_log_free(tri_history_log *l);

/* ---- life.c */

/* Reads the signs of life again. Sets *changed if they differ. */
void tri_history_life_look(tri_history_life *life, const char *folder, bool *changed);

#endif
