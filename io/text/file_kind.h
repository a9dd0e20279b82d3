/* file_kind.h - what a file is that is not JSON lines, from its first bytes. Private to its room. */
#ifndef TRI_FILE_KIND_H
#define TRI_FILE_KIND_H

#include <stddef.h>

/* Not collective. For a file that begins with these bytes: what it is and how it becomes JSON lines, to go on
 * behind "FILE: is "; NULL: nothing speaks against JSON lines. */
const char *tri_file_kind(const char *bytes, size_t n);

#endif
