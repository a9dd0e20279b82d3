/* gather.h - the facts of this rank, as its system and its libraries tell them. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GATHER_H
#define TRI_GATHER_H

#include "tools/doctor/doctor_facts.h"
#include "tools/doctor/launch.h"

/* Not collective, before MPI is up; waits for nobody. What the system does not tell stays unknown. */
void tri_gather_facts(const tri_launch *l, tri_facts *out);

/* Its parts, each in a file of its own; *out is zero before. */
void tri_gather_host(tri_facts *out);
void tri_gather_nets(tri_facts *out);
void tri_gather_gpu(int local, tri_facts *out);
void tri_gather_versions(tri_facts *out);
/* "AMX, bf16 by amx, f32 by avx512, kernels by avx512": the instructions of the library, and the products of
 * this program. */
void tri_gather_cpu(char *out, size_t cap);
/* "9.19.0", of the libcudnn.so.9 that would be loaded; "": there is none. */
void tri_gather_cudnn(char *out, size_t cap);
/* call: the address of a pointer to a function of a library, which becomes that of this name. False: no
 * library that this process has loaded has it. */
bool tri_gather_find(const char *name, void *call);
/* The whole number in a small file of the system, TRI_FACTS_UNKNOWN: there is none. */
int64_t tri_gather_number(const char *path);

#endif
