/* model_kind.h - what a file of a model is that is neither safetensors nor JSON, from its first bytes. */
#ifndef TRI_MODEL_KIND_H
#define TRI_MODEL_KIND_H

#include <stddef.h>

/* Not collective. For a file that begins with these bytes: what it is and what to do, to go on behind "FILE:
 * is "; NULL: none of those known. */
const char *tri_model_kind(const char *bytes, size_t n);

#endif
