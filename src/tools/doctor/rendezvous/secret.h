/* secret.h - shares a secret among the processes of this user in this launch. Rank 0 makes it. It stores the
 * secret in files private to this user, or has munge seal it for this user. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_SECRET_H
#define TRI_SECRET_H

#include "comm/peers/mac.h"
#include "tools/doctor/launch.h"

enum { TRI_SECRET_PLACES = 3, TRI_SECRET_PATH_BYTES = 4096 };

typedef struct tri_secret {
  unsigned char key[TRI_KEY_BYTES];
  int           port;  /* listening port of rank 0 */
  bool          known; /* key and port are known */
  bool          made;  /* this rank has written files, removed by tri_secret_remove */
  int           n;
  bool          written[TRI_SECRET_PLACES];
  char          path[TRI_SECRET_PLACES][TRI_SECRET_PATH_BYTES]; /* [n] files, known or not */
} tri_secret;

/* None of the functions below is collective. Chooses the files: one in `folder`, the folder of the run, one
 * in this user's cache, and one in the folder for temporary files if all ranks are on one machine. */
void tri_secret_begin(const tri_launch *l, const char *folder, tri_secret *s);
/* For rank 0, with its listening port. Makes a new secret and writes as many of the files as possible.
 * TRI_EDEVICE: the kernel gives no random bytes. */
TRI_CHECKED tri_status tri_secret_make(tri_secret *s, int port);
/* For the others. Reads the first file that is whole and private to this user. */
bool tri_secret_find(tri_secret *s);
/* For rank 0. Removes the files. */
void tri_secret_remove(tri_secret *s);

/* Seals the secret with munge, so only this user can open it. Returns false if munge is not installed, or
 * does not answer in time. */
bool tri_secret_seal(const tri_secret *s, char *out, size_t cap);
/* Opens it with unmunge, if this user has sealed it. */
bool tri_secret_open(tri_secret *s, const char *sealed, size_t n);
/* Returns whether unmunge is installed. */
bool tri_secret_can_open(void);

#endif
