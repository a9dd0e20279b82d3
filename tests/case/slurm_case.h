/* slurm_case.h - fake programs of Slurm, first in PATH, with output chosen by the test. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SLURM_CASE_H
#define TRI_SLURM_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char slurm_folder[64], slurm_path[4096];

static inline void slurm_name(const char *program, char out[128]) {
  snprintf(out, 128, "%s/%s", slurm_folder, program);
}

/* Creates a program of this name, a script of sh. */
static inline void slurm_say(const char *program, const char *script) {
  char  name[128];
  FILE *f;

  slurm_name(program, name);
  f = fopen(name, "w");
  assert_non_null(f);
  fprintf(f, "#!/bin/sh\n%s\n", script);
  assert_int_equal(fclose(f), 0);
  assert_int_equal(chmod(name, 0755), 0);
}

static inline void slurm_silence(const char *program) {
  char name[128];

  slurm_name(program, name);
  unlink(name);
}

/* Set-up and tear-down of a group. No job is known, and the fake programs print nothing yet. */
static inline int slurm_open(void **state) {
  (void)state;
  strcpy(slurm_folder, "/tmp/trireme-slurm.XXXXXX");
  if (!mkdtemp(slurm_folder)) return -1;
  snprintf(slurm_path, sizeof slurm_path, "%s:%s", slurm_folder, getenv("PATH"));
  setenv("PATH", slurm_path, 1);
  unsetenv("SLURM_JOB_START_TIME");
  unsetenv("SLURM_JOB_END_TIME");
  unsetenv("SLURM_JOB_ID");
  return 0;
}

static inline int slurm_close(void **state) {
  static const char *const programs[] = {"sinfo", "squeue", "scontrol"};

  (void)state;
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) slurm_silence(programs[i]);
  return rmdir(slurm_folder);
}

#endif
