/* dead_case.h - a rank of a launch dies or stops. The others must end with 76 and name it.
 *
 * A test program starts itself under mpirun, with an argument by which it knows that it is such a rank. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_DEAD_CASE_H
#define TRI_TESTS_DEAD_CASE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static inline void forget_launcher(void) {
  static const char *const launcher[] = {"OMPI_", "PMIX_", "PMI_", "ORTE_", "OPAL_", "SLURM_", "HYDRA_"};
  extern char            **environ;
  char                   **to = environ;

  for (char **e = environ; *e; e++) {
    bool keep = true;
    for (size_t i = 0; i < sizeof launcher / sizeof *launcher; i++)
      keep = keep && strncmp(*e, launcher[i], strlen(launcher[i])) != 0;
    if (keep) *to++ = *e;
  }
  *to = NULL;
}

/* The victim's launcher must not notice its death, because it would end the other ranks first. So it has
 * started a shell, which stays. */
static inline void start_dead_ranks(const char *mpiexec, const char *self, const char *kind,
                                    const char *more) {
  forget_launcher();
  setenv("OMPI_MCA_odls_base_sigkill_timeout", "0", 1);
  dup2(STDOUT_FILENO, STDERR_FILENO);
  execl(mpiexec, mpiexec, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "3", "sh",
        "-c",
        "[ \"$OMPI_COMM_WORLD_RANK\" = 1 ] || exec \"$0\" \"$@\"; \"$0\" \"$@\"; exec tail -f /dev/null",
        self, kind, more, (char *)NULL);
  _exit(127);
}

/* Starts three ranks of this program with these two arguments. Rank 1 must kill or stop itself. The launch
 * must then end with 76, and its words must contain each `fact`, up to NULL. Call it in a program of one
 * rank, before MPI is up. */
static inline void fail_unless_76(const char *mpiexec, const char *kind, const char *more,
                                  const char *const *fact) {
  char    self[4096], said[16384];
  size_t  n = 0;
  ssize_t got;
  int     end[2], status = 0;
  pid_t   pid;
  bool    good;

  got = readlink("/proc/self/exe", self, sizeof self - 1);
  if (got < 0 || pipe(end)) exit(1);
  self[got] = 0;
  if ((pid = fork()) == 0) {
    if (dup2(end[1], STDOUT_FILENO) < 0) _exit(1);
    close(end[0]);
    close(end[1]);
    start_dead_ranks(mpiexec, self, kind, more);
  }
  close(end[1]);
  while (n + 1 < sizeof said && (got = read(end[0], said + n, sizeof said - 1 - n)) > 0) n += (size_t)got;
  said[n] = 0;
  close(end[0]);
  good = waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 76;
  while (good && *fact) good = strstr(said, *fact++) != NULL;
  if (good) return;
  fprintf(stderr, "a lost rank (%s %s): wait status %d, and these words:\n%s", kind, more, status, said);
  exit(1);
}

#endif
