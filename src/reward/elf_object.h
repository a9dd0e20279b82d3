/* elf_object.h - data of a shared object read from its file. The file is never loaded, so no code of it
 * runs. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_ELF_OBJECT_H
#define TRI_ELF_OBJECT_H

#include "base/error.h"

/* A shared object for this machine, open. Every offset in it is checked against the file's size before it is
 * used. */
typedef struct tri_elf tri_elf;

/* Not collective, as all that follow. Errors are TRI_ECONFIG: the file cannot be read, or the dynamic loader
 * of this machine would refuse it. */
TRI_CHECKED tri_status tri_elf_open(const char *path, tri_elf **out);
void                   tri_elf_close(tri_elf **e);
/* The address of the exported data symbol `name`, before relocation. *found false: there is none. */
TRI_CHECKED tri_status tri_elf_find(const tri_elf *e, const char *name, uint64_t *address, bool *found);
/* The first n bytes at an address, as the file has them: pointers in them are not relocated. */
TRI_CHECKED tri_status tri_elf_read(const tri_elf *e, uint64_t address, void *out, size_t n);
/* Whether the pointer at this address is not NULL once the object is loaded. */
TRI_CHECKED tri_status tri_elf_points(const tri_elf *e, uint64_t address, bool *points);

#endif
