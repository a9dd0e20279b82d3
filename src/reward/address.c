/* address.c - reads the address of a server from the deck, a file or an environment variable. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "address.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static tri_status check_url(const char *url) {
  size_t lead = !strncmp(url, "http://", 7) ? 7 : !strncmp(url, "https://", 8) ? 8 : 0;

  if (strlen(url) >= TRI_ADDRESS_BYTES)
    TRI_FAIL(TRI_ECONFIG, "has more than %d bytes", TRI_ADDRESS_BYTES - 1);
  for (const char *c = url; *c; c++)
    if ((unsigned char)*c < 0x20 || *c == 0x7F) lead = 0;
  if (lead && url[lead] && url[lead] != '/' && !strchr(url, ' ')) return TRI_OK;
  TRI_FAIL(TRI_ECONFIG, "must be an address, http://HOST:PORT/PATH or https");
}

/* Checks the file's permissions. The group may read it, since a project's group shares its files on
 * purpose. */
static tri_status check_mode(int fd) {
  struct stat s;

  if (fstat(fd, &s)) TRI_FAIL(TRI_ECONFIG, "cannot be read: %s", strerror(errno));
  if (!S_ISREG(s.st_mode)) TRI_FAIL(TRI_ECONFIG, "is not a regular file");
  if (s.st_mode & S_IRWXO)
    TRI_FAIL(TRI_ECONFIG,
             "other users may %s it (mode %03o). Run chmod 600 on it, and renew the secret if others have "
             "accounts here",
             s.st_mode & S_IROTH ? "read" : "change", (unsigned)(s.st_mode & 0777));
  if (s.st_mode & S_IWGRP)
    TRI_FAIL(TRI_ECONFIG, "its group may change it (mode %03o). Run chmod 600 on it",
             (unsigned)(s.st_mode & 0777));
  return TRI_OK;
}

/* Takes the only line, without the space around it. */
static tri_status take_line(const char *bytes, size_t n, tri_text *out) {
  while (n && isspace((unsigned char)bytes[n - 1])) n--;
  while (n && isspace((unsigned char)*bytes)) bytes++, n--;
  if (!n) TRI_FAIL(TRI_ECONFIG, "is empty but must hold the address in one line");
  if (memchr(bytes, '\n', n)) TRI_FAIL(TRI_ECONFIG, "has several lines but must hold the address in one");
  if (memchr(bytes, 0, n)) TRI_FAIL(TRI_ECONFIG, "holds a NUL byte");
  return tri_text_put(out, bytes, n);
}

static tri_status read_file(const char *path, tri_text *out) {
  char       bytes[TRI_ADDRESS_BYTES + 64];
  size_t     n = 0;
  ssize_t    got;
  int        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  tri_status st = TRI_OK;

  if (fd < 0) TRI_FAIL(TRI_ECONFIG, "cannot be read: %s", strerror(errno));
  TRI_TRY_DONE(check_mode(fd));
  while (n < sizeof bytes && (got = read(fd, bytes + n, sizeof bytes - n)) != 0) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) TRI_FAIL_DONE(TRI_ECONFIG, "cannot be read: %s", strerror(errno));
    n += (size_t)got;
  }
  if (n == sizeof bytes)
    TRI_FAIL_DONE(TRI_ECONFIG, "has more than %d bytes. Is it the right file?", TRI_ADDRESS_BYTES);
  TRI_TRY_DONE(take_line(bytes, n, out));
done:
  explicit_bzero(bytes, sizeof bytes);
  close(fd);
  return st;
}

static tri_status read_variable(const char *name, tri_text *out) {
  static const char *const recorded[] = {"TRI_", "OMP_", "NCCL_"};
  const char              *value;

  if (isdigit((unsigned char)name[0]) ||
      name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")])
    TRI_FAIL(TRI_ECONFIG, "must be the name of a variable, with letters, digits and _");
  for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++)
    if (!strncmp(name, recorded[i], strlen(recorded[i])))
      TRI_FAIL(TRI_ECONFIG, "variables with %s are recorded with the run. Use another name", recorded[i]);
  value = getenv(name);
  if (!value || !value[0])
    TRI_FAIL(TRI_ECONFIG, "this variable is %s here. Export it in the job (mpirun -x %.64s, sbatch --export)",
             value ? "empty" : "not set", name);
  return take_line(value, strlen(value), out);
}

tri_status tri_address_read(const tri_reward_opt *o, const char **field, tri_text *out) {
  const char *url = tri_reward_get(o, "url"), *file = tri_reward_get(o, "url_file");

  *field = url ? "url" : file ? "url_file" : "url_env";
  TRI_TRY(url    ? tri_text_put(out, url, strlen(url))
          : file ? read_file(file, out)
                 : read_variable(tri_reward_get(o, "url_env"), out));
  return check_url(out->data ? out->data : "");
}
