/* elf_object.h - reads data of a shared object from its file. It never loads the file, so no code of it
 * runs. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_ELF_OBJECT_H
#define TRI_ELF_OBJECT_H

#include "base/error.h"

/* An open shared object for this machine. Each offset in it is checked against the size of the file before
 * use. */
typedef struct tri_elf tri_elf;

/* Not collective, as all that follow. Errors are TRI_ECONFIG. The file cannot be read, or the dynamic loader
 * of this machine would refuse it. */
TRI_CHECKED tri_status tri_elf_open(const char *path, tri_elf **out);
void                   tri_elf_close(tri_elf **e);
/* Finds the address of the exported data symbol `name` before relocation. Sets *found false if there is
 * none. */
TRI_CHECKED tri_status tri_elf_find(const tri_elf *e, const char *name, uint64_t *address, bool *found);
/* Reads n bytes at an address from the file. Pointers in them are not relocated. */
TRI_CHECKED tri_status tri_elf_read(const tri_elf *e, uint64_t address, void *out, size_t n);
/* Tells whether the pointer at this address will be non-NULL once the object is loaded. */
TRI_CHECKED tri_status tri_elf_points(const tri_elf *e, uint64_t address, bool *points);

#endif
