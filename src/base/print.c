/* print.c - writes results to standard output, which may be a terminal. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "print.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "visible.h"

enum {
  PIECE_BYTES = 1024,
  CHARACTER_BYTES = 4
}; /* chosen: bytes escaped at once. Specified by UTF-8: the longest character */

/* Returns the bytes of text [n] to take at once, without cutting a character. */
static size_t piece_of(const char *text, size_t n) {
  size_t piece = n < PIECE_BYTES ? n : PIECE_BYTES;

  while (piece < n && piece > PIECE_BYTES - CHARACTER_BYTES && (text[piece] & 0xC0) == 0x80) piece--;
  return piece;
}

bool tri_print_is_terminal(void) {
  static int terminal = -1; /* tested once, not for each of a million lines */

  if (terminal < 0) terminal = isatty(STDOUT_FILENO);
  return terminal;
}

bool tri_print_is_coloured(void) {
  const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

  return tri_print_is_terminal() && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

tri_status tri_print(const char *text, size_t n) {
  bool terminal = tri_print_is_terminal();
  char shown[PIECE_BYTES * TRI_VISIBLE_MOST + 1];

  while (n) {
    size_t      piece = terminal ? piece_of(text, n) : n, bytes = piece;
    const char *from = text;
    if (terminal) {
      bytes = tri_visible(text, piece, "\n\t", shown, sizeof shown);
      from = shown;
    }
    if (fwrite(from, 1, bytes, stdout) != bytes)
      TRI_FAIL(TRI_EFILE, "standard output cannot be written: %s", strerror(errno));
    text += piece;
    n -= piece;
  }
  return TRI_OK;
}
