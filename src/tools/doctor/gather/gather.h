/* gather.h - collects the facts of this rank from its system and its libraries. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_GATHER_H
#define TRI_GATHER_H

#include "tools/doctor/doctor_facts.h"
#include "tools/doctor/launch.h"

/* Not collective, before MPI is up. Waits for nobody. Facts stay unknown if the system does not report
 * them. */
void tri_gather_facts(const tri_launch *l, tri_facts *out);

/* Its parts, one per file. *out is zero before. */
void tri_gather_host(tri_facts *out);
void tri_gather_nets(tri_facts *out);
void tri_gather_gpu(int local, tri_facts *out);
void tri_gather_versions(tri_facts *out);
/* Writes "AMX, bf16 by amx, f32 by avx512, kernels by avx512": the instructions of the library, and the
 * products of this program. */
void tri_gather_cpu(char *out, size_t cap);
/* Writes the version of the libcudnn.so.9 found by the loader, "9.19.0". "": there is none. */
void tri_gather_cudnn(char *out, size_t cap);
/* Looks up a function among the loaded libraries of this process. call: address of a function pointer to set.
 * Returns false if no library has it. */
bool tri_gather_find(const char *name, void *call);
/* Returns the integer in a small system file. TRI_FACTS_UNKNOWN: there is none. */
int64_t tri_gather_number(const char *path);

#endif
