/* channel.h - messages over TCP between ranks before MPI is up, none of them waited for without an end, each
 * authenticated by a secret of the launch. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CHANNEL_H
#define TRI_CHANNEL_H

#include "comm/peers/mac.h"

/* A connection begins with an opening [32 bytes] of the rank that makes it, with a random number of its own.
 * The answer [48] has a random number too, and proves that its sender has the secret; then the opener proves
 * the same [32]. HMAC-SHA-256 of both numbers under the secret is the key of this connection, so nothing that
 * was overheard is of use in another. Each message after that has a code under this key of its direction, its
 * number, its head and its bytes. */
typedef enum {
  TRI_CHANNEL_MEMBER = 1, /* to be a rank of the launch */
  TRI_CHANNEL_PROBER,     /* whether it answers */
  /* of a rank without the secret, so anybody may say it: nothing is proved, and no message follows */
  TRI_CHANNEL_ASKER,  /* for the secret, sealed for this user */
  TRI_CHANNEL_WITHOUT /* it can have no secret, and goes on without meeting others */
} tri_channel_want;

typedef enum {
  TRI_CHANNEL_HELLO = 0x74726901, /* facts; answered by WELCOME */
  TRI_CHANNEL_WELCOME,
  TRI_CHANNEL_PROBE,   /* anything; answered by KNOCK of no bytes */
  TRI_CHANNEL_CLOCK,   /* nothing; answered by a double, seconds since 1970 */
  TRI_CHANNEL_REACH,   /* targets (probe.h); answered by an int32 for each */
  TRI_CHANNEL_VERDICT, /* one byte: tri_channel_verdict */
  TRI_CHANNEL_STAGE,   /* int32 number, text */
  TRI_CHANNEL_FAILED   /* text */
} tri_channel_kind;
typedef enum { TRI_CHANNEL_STOP, TRI_CHANNEL_GO, TRI_CHANNEL_GO_UNWATCHED } tri_channel_verdict;

enum {
  TRI_CHANNEL_MOST_BYTES = 1 << 20,
  TRI_CHANNEL_OPENING_BYTES = 32,
  TRI_CHANNEL_NONCE_BYTES = 16,
  TRI_CHANNEL_ANSWER_BYTES = TRI_CHANNEL_NONCE_BYTES + TRI_SHA256_BYTES,
  TRI_CHANNEL_SEALED_BYTES = 4096 /* of a sealed secret, most */
};

/* What stands before the bytes of every message. */
typedef struct tri_channel_head {
  unsigned char code[TRI_SHA256_BYTES]; /* of all that follows */
  uint32_t      kind;                   /* tri_channel_kind */
  int32_t       task;                   /* of the sender */
  uint32_t      bytes;
  uint32_t      zero;
} tri_channel_head;

/* A message that arrives in pieces. Zero-initialise; tri_channel_drop leaves it zeroed. */
typedef struct tri_channel_in {
  tri_channel_head head;
  char            *bytes; /* [head.bytes], owned */
  size_t           have;  /* of both */
} tri_channel_in;

typedef enum { TRI_CHANNEL_OPENING, TRI_CHANNEL_ANSWERED, TRI_CHANNEL_PROVED } tri_channel_state;

/* One end of a connection. Messages may be sent by one thread while another takes some. */
typedef struct tri_channel {
  int               fd;   /* borrowed */
  int               me;   /* task of this end */
  int               task; /* of the other end, as its opening says it; -1: it has not */
  tri_channel_want  want;
  tri_channel_state state;
  bool              opener;
  unsigned char     raw[TRI_CHANNEL_ANSWER_BYTES]; /* the opening, then what else comes before messages */
  size_t            have;
  unsigned char     key[TRI_KEY_BYTES]; /* of this connection */
  uint64_t          sent, taken;        /* messages */
} tri_channel;

/* Not collective, all that follow. Sockets do not block; what waits, waits until until_s of tri_now_s. */

/* A socket that listens on this port of all addresses, 0: any free one, or -1. *bound: which. */
int tri_channel_listen(int port, int *bound);
/* A socket that is connected, or on its way there (*underway); minus errno where it cannot be. host: a name
 * or an address; from: the address of this machine to go out by, "" for any. */
int tri_channel_start(const char *host, int port, const char *from, bool *underway);
/* Waits for what tri_channel_start began; 0 or errno. */
int tri_channel_finish(int fd, double until_s);
/* The end that listens, of a connection that somebody made. */
void tri_channel_accept(int fd, int me, tri_channel *t);
/* The end that opens. Sends its opening; false: it cannot be sent, or the kernel gives no random number. */
bool tri_channel_open(int fd, const unsigned char secret[TRI_KEY_BYTES], tri_channel_want want, int me,
                      tri_channel *t, double until_s);
/* Waits for the answer to it, and proves who this is. 0; ETIMEDOUT: no answer; EPROTO: whoever listens there
 * does not have the secret. */
int tri_channel_greet(tri_channel *t, double until_s);

/* Whether all of it was sent. Of a connection that is proved. */
bool tri_channel_send(tri_channel *t, tri_channel_kind kind, const void *bytes, size_t n, double until_s);

typedef enum { TRI_CHANNEL_MORE, TRI_CHANNEL_WHOLE, TRI_CHANNEL_LOST, TRI_CHANNEL_ASKED } tri_channel_got;
/* Takes what has arrived, the opening and the proof of the other end too. LOST: the other end is closed, or
 * what came is no message under the secret. ASKED: the opening of a rank without the secret; nothing else is
 * taken of it. After WHOLE the caller drops. secret NULL: there is none, so nobody can prove anything. */
tri_channel_got tri_channel_take(tri_channel *t, const unsigned char *secret, tri_channel_in *in);
void            tri_channel_drop(tri_channel_in *in);
/* Waits for a whole message. */
tri_channel_got tri_channel_wait(tri_channel *t, tri_channel_in *in, double until_s);
/* Bytes before any message, to and from a rank without the secret: all sent; how many came until the other
 * end closed. */
bool   tri_channel_send_raw(int fd, const void *bytes, size_t n, double until_s);
size_t tri_channel_take_raw(int fd, char *out, size_t cap, double until_s);

#endif
