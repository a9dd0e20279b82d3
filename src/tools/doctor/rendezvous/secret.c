/* secret.c - shares a secret among the processes of this user in this launch, by files of mode 0600 or by
 * munge. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "secret.h"
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The file has magic [8], the port as five digits, a space, the key in hexadecimal digits, and a newline. */
static const char magic[] = "TRIDOC2 ";
enum { TEXT_BYTES = sizeof magic - 1 + 6 + 2 * TRI_KEY_BYTES + 1, NAME_BYTES = 64, ANSWER_BYTES = 4096 };
static const double munge_s = 3; /* chosen. munged answers within milliseconds */

/* ---- as text ---- */

static void write_text(const tri_secret *s, char out[TEXT_BYTES + 1]) {
  int n = snprintf(out, TEXT_BYTES + 1, "%s%05d ", magic, s->port);

  for (int i = 0; i < TRI_KEY_BYTES; i++) n += snprintf(out + n, 3, "%02x", s->key[i]);
  snprintf(out + n, 2, "\n");
}

static int digit_of(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads text [TEXT_BYTES] in exactly the form of write_text. */
static bool read_text(const char *text, tri_secret *s) {
  const char   *at = text + sizeof magic - 1;
  unsigned char key[TRI_KEY_BYTES];
  int           port = 0;

  if (memcmp(text, magic, sizeof magic - 1)) return false;
  for (int i = 0; i < 5; i++, at++) {
    if (*at < '0' || *at > '9') return false;
    port = 10 * port + *at - '0';
  }
  if (*at++ != ' ' || port < 1 || port > 65535) return false;
  for (int i = 0; i < TRI_KEY_BYTES; i++, at += 2) {
    int high = digit_of(at[0]), low = high < 0 ? -1 : digit_of(at[1]);
    if (low < 0) return false;
    key[i] = (unsigned char)(16 * high + low);
  }
  if (*at != '\n') return false;
  memcpy(s->key, key, sizeof key);
  s->port = port;
  s->known = true;
  return true;
}

/* ---- files ---- */

static void add_place(tri_secret *s, const char *folder, const char *below, const char *name) {
  if (snprintf(s->path[s->n], TRI_SECRET_PATH_BYTES - 8, "%s%s/%s", folder, below, name) <
      TRI_SECRET_PATH_BYTES - 8)
    s->n++;
}

void tri_secret_begin(const tri_launch *l, const char *folder, tri_secret *s) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME"), *tmp = getenv("TMPDIR");
  bool        own = cache && cache[0] == '/';
  char        name[NAME_BYTES], own_folder[NAME_BYTES];

  memset(s, 0, sizeof *s);
  snprintf(name, sizeof name, ".trireme-doctor-%016llx-key", (unsigned long long)l->key);
  snprintf(own_folder, sizeof own_folder, "/trireme-%ld", (long)geteuid());
  add_place(s, folder, "", name);
  if (own || (home && home[0] == '/'))
    add_place(s, own ? cache : home, own ? "/trireme" : "/.cache/trireme", name);
  if (l->tasks == l->locals) add_place(s, tmp && tmp[0] == '/' ? tmp : "/tmp", own_folder, name);
}

/* Creates the last two folders of a file's path if they are missing ("trireme" and ".cache"), for this user
 * alone. */
static void make_folders(const char *path) {
  char  folder[TRI_SECRET_PATH_BYTES];
  char *last, *before;

  snprintf(folder, sizeof folder, "%s", path);
  last = strrchr(folder, '/');
  *last = '\0';
  before = strrchr(folder, '/');
  if (before && before > folder) {
    *before = '\0';
    mkdir(folder, 0700); /* errors show when the file is opened */
    *before = '/';
  }
  mkdir(folder, 0700);
}

/* Writes under another name first, so nobody reads half a file. */
static bool write_file(const char *path, const char *text) {
  char tmp[TRI_SECRET_PATH_BYTES];
  bool good;
  int  fd;

  snprintf(tmp, sizeof tmp, "%s.tmp", path);
  unlink(tmp);
  fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  good = !fchmod(fd, 0600) && write(fd, text, TEXT_BYTES) == TEXT_BYTES && !fsync(fd);
  close(fd);
  good = good && !rename(tmp, path);
  if (!good) unlink(tmp);
  return good;
}

tri_status tri_secret_make(tri_secret *s, int port) {
  char text[TEXT_BYTES + 1];

  TRI_TRY(tri_random_bytes(s->key, sizeof s->key));
  s->port = port;
  s->known = true;
  write_text(s, text);
  for (int i = 0; i < s->n; i++) {
    if (i) make_folders(s->path[i]); /* the run's folder, or a parent of it, exists */
    s->written[i] = write_file(s->path[i], text);
    s->made = s->made || s->written[i];
  }
  return TRI_OK;
}

/* Reads a whole regular file of this user. It must have one name, and nobody else may read or write it. */
static bool read_file(const char *path, tri_secret *s) {
  struct stat sb;
  char        text[TEXT_BYTES + 1];
  bool        good;
  int         fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);

  if (fd < 0) return false;
  good = !fstat(fd, &sb) && S_ISREG(sb.st_mode) && sb.st_uid == geteuid() && !(sb.st_mode & 077) &&
         sb.st_nlink == 1 && sb.st_size == TEXT_BYTES && read(fd, text, sizeof text) == TEXT_BYTES;
  close(fd);
  return good && read_text(text, s);
}

/* NFS may hide a new file for half a minute if this node looked before. A change of the folder by this node
 * makes it look again. */
static void refresh(const char *path) {
  char own[TRI_SECRET_PATH_BYTES + 32];

  snprintf(own, sizeof own, "%s.%ld", path, (long)getpid());
  if (!mkdir(own, 0700)) rmdir(own);
}

bool tri_secret_find(tri_secret *s) {
  for (int i = 0; i < s->n; i++)
    if (read_file(s->path[i], s)) return true;
  for (int i = 0; i < s->n; i++) {
    refresh(s->path[i]);
    if (read_file(s->path[i], s)) return true;
  }
  return false;
}

void tri_secret_remove(tri_secret *s) {
  for (int i = 0; s->made && i < s->n; i++)
    if (s->written[i]) unlink(s->path[i]);
  s->made = false;
}

/* ---- munge ---- */

/* Writes the input of a program. Returns whether the program took all of it. If it has ended already, this
 * thread gets no SIGPIPE. */
static bool write_input(int fd, const char *input, size_t n) {
  const struct timespec at_once = {0};
  sigset_t              broken, before;
  bool                  all;

  sigemptyset(&broken);
  sigaddset(&broken, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken, &before);
  all = write(fd, input, n) == (ssize_t)n; /* a pipe takes as much at once */
  if (!all && !sigismember(&before, SIGPIPE)) sigtimedwait(&broken, NULL, &at_once);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return all;
}

/* Runs a program with this input and reads its output. Returns false if it fails or does not end in time. */
static bool run(char *const *argv, const char *input, size_t n, char *out, size_t cap) {
  tri_child c = {0};
  char      how[TRI_CHILD_HOW_BYTES] = "";
  bool      good;

  if (tri_child_start(argv, &c) != TRI_OK) {
    tri_error_clear();
    return false;
  }
  tri_child_close_error(&c);
  good = write_input(c.in, input, n);
  tri_child_close_input(&c);
  good = tri_child_read(&c, munge_s, out, cap) && good;
  tri_child_kill(&c, how);
  return good && !strcmp(how, "it ended with exit code 0");
}

bool tri_secret_can_open(void) {
  bool can = tri_child_check("unmunge") == TRI_OK;

  if (!can) tri_error_clear();
  return can;
}

bool tri_secret_seal(const tri_secret *s, char *out, size_t cap) {
  char  uid[NAME_BYTES], text[TEXT_BYTES + 1];
  char *argv[] = {"munge", uid, NULL};

  snprintf(uid, sizeof uid, "--restrict-uid=%ld", (long)geteuid());
  write_text(s, text);
  return run(argv, text, TEXT_BYTES, out, cap);
}

/* Checks the line "UID: name (1000)" of unmunge. */
static bool is_own(const char *lines) {
  const char *at = strstr(lines, "UID:"), *end = at ? strchr(at, '\n') : NULL, *open;
  char       *behind;
  long        uid;

  if (!end || (at != lines && at[-1] != '\n')) return false;
  open = end;
  while (open > at && *open != '(') open--; /* a name may have any character, but the number is last */
  errno = 0;
  uid = strtol(open + 1, &behind, 10);
  return *open == '(' && behind > open + 1 && *behind == ')' && !errno && uid == (long)geteuid();
}

bool tri_secret_open(tri_secret *s, const char *sealed, size_t n) {
  char *argv[] = {"unmunge", "--keys=STATUS,UID", NULL}, answer[ANSWER_BYTES];
  char *text;

  if (!n || !run(argv, sealed, n, answer, sizeof answer)) return false;
  text = strstr(answer, "\n\n"); /* the payload is behind an empty line */
  if (!text || strlen(text + 2) != TEXT_BYTES) return false;
  text[1] = '\0';
  return is_own(answer) && read_text(text + 2, s);
}
