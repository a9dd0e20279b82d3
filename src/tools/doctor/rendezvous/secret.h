/* secret.h - what only processes of this user in this launch know: rank 0 makes it and keeps it in files that
 * nobody else can read or write, or has munge seal it for this user. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SECRET_H
#define TRI_SECRET_H

#include "comm/peers/mac.h"
#include "tools/doctor/launch.h"

enum { TRI_SECRET_PLACES = 3, TRI_SECRET_PATH_BYTES = 4096 };

typedef struct tri_secret {
  unsigned char key[TRI_KEY_BYTES];
  int           port;  /* at which rank 0 listens */
  bool          known; /* key and port are */
  bool          made;  /* by this rank, in a file: tri_secret_remove is due */
  int           n;
  bool          written[TRI_SECRET_PLACES];
  char          path[TRI_SECRET_PLACES][TRI_SECRET_PATH_BYTES]; /* [n] files, known or not */
} tri_secret;

/* Not collective, all that follow. Names the files: in `folder`, where the run writes; in this user's cache;
 * and, where all ranks are on one machine, in its folder of temporary files. */
void tri_secret_begin(const tri_launch *l, const char *folder, tri_secret *s);
/* Of rank 0, which listens at this port: a new one, written to each file that can be had. TRI_EDEVICE: the
 * kernel gives no random bytes. */
TRI_CHECKED tri_status tri_secret_make(tri_secret *s, int port);
/* Of the others: reads the first file that is there, this user's, and nobody else's to read or write. */
bool tri_secret_find(tri_secret *s);
/* Of rank 0. The files are gone. */
void tri_secret_remove(tri_secret *s);

/* By munge and unmunge, where they are installed and munged runs: a text that only this user can open. False:
 * they are not, or do not answer in time. */
bool tri_secret_seal(const tri_secret *s, char *out, size_t cap);
/* Opens it where this user sealed it. */
bool tri_secret_open(tri_secret *s, const char *sealed, size_t n);
/* Whether there is such a program. */
bool tri_secret_can_open(void);

#endif
