/* screen.h - what a run said of itself when it started, as log.txt keeps it. Private to its room. */
#ifndef TRI_PAGE_SCREEN_H
#define TRI_PAGE_SCREEN_H

#include "base/base.h"

typedef enum {
  TRI_SAID_RANKS,
  TRI_SAID_DEVICE,
  TRI_SAID_MODEL,
  TRI_SAID_LOSS,
  TRI_SAID_PLAN,
  TRI_SAID_BATCH,
  TRI_SAID_LINES
} tri_said_line;

/* Of the newest start. All owned; NULL: not said. */
typedef struct tri_page_screen {
  char   *line[TRI_SAID_LINES]; /* what follows the word, bytes as they stand there */
  char   *memory;               /* the table of memory, a line each */
  int64_t ranks;                /* 0: not said */
} tri_page_screen;

/* Not collective. Zeros where there is no log, or none that can be read. Of a long one the end is read. */
TRI_CHECKED tri_status tri_page_screen_read(const char *folder, tri_page_screen *out);
void                   tri_page_screen_free(tri_page_screen *s);
/* Pure. What the line begins with, "ranks". */
const char *tri_said_word(tri_said_line line);

#endif
