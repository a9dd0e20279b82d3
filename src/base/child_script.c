/* child_script.c - checks that the files named by a command exist, without running any of it. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "child_script.h"

#include "child.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD_BYTES = 256 }; /* specified: the part of a #! line read by Linux (BINPRM_BUF_SIZE) */

/* A program that runs a script, with the options that may precede the script's name. */
typedef struct interpreter {
  const char *name;    /* "python" stands for python3 and python3.12 too */
  const char *instead; /* options that replace the script: -c CODE, -m MODULE */
  const char *valued;  /* options with a value in the next word */
} interpreter;

static const interpreter known[] = {{"python", "cm", "WX"}, {"pypy", "cm", "WX"},      {"bash", "cs", "Oo"},
                                    {"sh", "cs", "o"},      {"dash", "cs", "o"},       {"zsh", "cs", "o"},
                                    {"perl", "eE", "I"},    {"ruby", "e", "Ir"},       {"node", "ep", "r"},
                                    {"Rscript", "e", ""},   {"julia", "eE", "tpLJCH"}, {"lua", "e", "l"}};

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');

  return slash ? slash + 1 : path;
}

static const interpreter *find_interpreter(const char *program) {
  const char *name = base_name(program);

  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    size_t n = strlen(known[i].name);
    if (!strncmp(name, known[i].name, n) && strspn(name + n, "0123456789.") == strlen(name + n))
      return &known[i];
  }
  return NULL;
}

static bool is_assignment(const char *word) {
  size_t n = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");

  return n && !isdigit((unsigned char)word[0]) && word[n] == '=';
}

/* Returns the place of the program run by env, after env itself. n: it cannot be told. */
static int skip_env(const char *const *word, int n) {
  int i = 1;

  while (i < n && is_assignment(word[i])) i++;
  return i < n && word[i][0] == '-' ? n : i;
}

/* Returns the place of the script among an interpreter's words. n: it cannot be told. */
static int find_script(const interpreter *p, const char *const *word, int n) {
  for (int i = 1; i < n; i++) {
    const char *w = word[i];
    if (w[0] == '+') return n; /* an option of a shell */
    if (w[0] != '-') return i;
    if (!w[1]) return n; /* standard input */
    if (!strcmp(w, "--")) return i + 1;
    if (w[1] == '-' && strchr(w, '=')) continue;
    if (w[1] == '-') return n; /* unknown whether the next word is its value */
    for (const char *c = w + 1; *c; c++) {
      if (strchr(p->instead, *c)) return n;
      if (!strchr(p->valued, *c)) continue;
      i += !c[1]; /* its value is the next word, or the rest of this one */
      break;
    }
  }
  return n;
}

static tri_status check_script(const char *path) {
  struct stat s;
  char        here[4096];

  if (!stat(path, &s) && !access(path, R_OK)) return TRI_OK;
  if (errno != ENOENT) TRI_FAIL(TRI_ECONFIG, "%s: the script cannot be read: %s", path, strerror(errno));
  if (path[0] == '/' || !getcwd(here, sizeof here))
    TRI_FAIL(TRI_ECONFIG, "%s: there is no such script", path);
  TRI_FAIL(TRI_ECONFIG, "%s: there is no such script in %s, the working folder of the program", path, here);
}

/* The first line of a script names its interpreter. */
static tri_status check_first_line(const char *path) {
  char    line[HEAD_BYTES + 1], *name, *end;
  int     fd = strchr(path, '/') ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
  ssize_t n = fd < 0 ? -1 : read(fd, line, HEAD_BYTES);

  if (fd >= 0) close(fd);
  if (n < 2 || memcmp(line, "#!", 2) != 0) return TRI_OK;
  line[n] = 0;
  line[strcspn(line, "\n")] = 0;
  name = line + 2 + strspn(line + 2, " \t");
  end = name + strcspn(name, " \t\r");
  bool returns = *end == '\r';
  *end = 0;
  if (returns)
    TRI_FAIL(TRI_ECONFIG, "%s: its first line ends with a carriage return, as on Windows. Run dos2unix on it",
             path);
  if (*name && access(name, X_OK))
    TRI_FAIL(TRI_ECONFIG, "%s: its interpreter %s (first line) cannot be started: %s", path, name,
             strerror(errno));
  return TRI_OK;
}

tri_status tri_child_check_command(const char *const *word, int n) {
  const interpreter *p;
  int                at;

  TRI_TRY(tri_child_check(word[0]));
  if (!strcmp(base_name(word[0]), "env")) {
    at = skip_env(word, n);
    return at < n ? tri_child_check_command(word + at, n - at) : TRI_OK;
  }
  p = find_interpreter(word[0]);
  if (!p) return check_first_line(word[0]);
  at = find_script(p, word, n);
  return at < n ? check_script(word[at]) : TRI_OK;
}
