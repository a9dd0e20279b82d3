/* channel.h - sends authenticated messages over TCP between ranks before MPI is up. Every wait has a time
 * limit. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_CHANNEL_H
#define TRI_CHANNEL_H

#include "comm/peers/mac.h"

/* A connection begins with an opening [32 bytes] by the connecting rank, with a random number. The answer
 * [48] has another random number and proves the possession of the secret. Then the opener proves the same
 * [32]. The key of the connection is the HMAC-SHA-256 of both numbers under the secret. So overheard bytes
 * are useless in another connection. Each message after this has a code under this key. The code covers the
 * direction, the number of the message, its head and its bytes. */
typedef enum {
  TRI_CHANNEL_MEMBER = 1, /* wants to be a rank of the launch */
  TRI_CHANNEL_PROBER,     /* tests whether this end answers */
  /* The next two come from a rank without the secret, so anybody may send them. Nothing is proved, and no
   * message follows. */
  TRI_CHANNEL_ASKER,  /* asks for the secret, sealed for this user */
  TRI_CHANNEL_WITHOUT /* cannot get a secret, and goes on without the others */
} tri_channel_want;

typedef enum {
  TRI_CHANNEL_HELLO = 0x74726901, /* facts. The reply is WELCOME */
  TRI_CHANNEL_WELCOME,
  TRI_CHANNEL_PROBE,   /* any bytes. The reply is an empty PROBE */
  TRI_CHANNEL_CLOCK,   /* no bytes. The reply is a double, seconds since 1970 */
  TRI_CHANNEL_REACH,   /* targets (probe.h). The reply is an int32 for each */
  TRI_CHANNEL_VERDICT, /* one byte, tri_channel_verdict */
  TRI_CHANNEL_STAGE,   /* int32 number, text */
  TRI_CHANNEL_FAILED   /* text */
} tri_channel_kind;
typedef enum { TRI_CHANNEL_STOP, TRI_CHANNEL_GO, TRI_CHANNEL_GO_UNWATCHED } tri_channel_verdict;

enum {
  TRI_CHANNEL_MOST_BYTES = 1 << 20,
  TRI_CHANNEL_OPENING_BYTES = 32,
  TRI_CHANNEL_NONCE_BYTES = 16,
  TRI_CHANNEL_ANSWER_BYTES = TRI_CHANNEL_NONCE_BYTES + TRI_SHA256_BYTES,
  TRI_CHANNEL_SEALED_BYTES = 4096 /* largest sealed secret */
};

/* Head of every message, in front of its bytes. */
typedef struct tri_channel_head {
  unsigned char code[TRI_SHA256_BYTES]; /* over all following bytes */
  uint32_t      kind;                   /* tri_channel_kind */
  int32_t       task;                   /* task of the sender */
  uint32_t      bytes;
  uint32_t      zero;
} tri_channel_head;

/* A message that arrives in pieces. Initialise with zero. tri_channel_drop leaves it zeroed. */
typedef struct tri_channel_in {
  tri_channel_head head;
  char            *bytes; /* [head.bytes], owned */
  size_t           have;  /* bytes so far, head included */
} tri_channel_in;

typedef enum { TRI_CHANNEL_OPENING, TRI_CHANNEL_ANSWERED, TRI_CHANNEL_PROVED } tri_channel_state;

/* One end of a connection. One thread may send messages while another receives some. */
typedef struct tri_channel {
  int               fd;   /* borrowed */
  int               me;   /* task of this end */
  int               task; /* task of the other end by its opening. -1: not received yet */
  tri_channel_want  want;
  tri_channel_state state;
  bool              opener;
  unsigned char     raw[TRI_CHANNEL_ANSWER_BYTES]; /* the opening, then other bytes before the messages */
  size_t            have;
  unsigned char     key[TRI_KEY_BYTES]; /* key of this connection */
  uint64_t          sent, taken;        /* messages */
} tri_channel;

/* None of the functions below is collective. Sockets do not block. until_s of tri_now_s limits each wait. */

/* Listens on this port of all addresses. 0: any free port. Returns the socket, or -1. *bound: the port. */
int tri_channel_listen(int port, int *bound);
/* Starts a connection. Returns the socket, connected or connecting (*underway), or -errno. host: a name or an
 * address. from: the address of this machine to use, "" for any. */
int tri_channel_start(const char *host, int port, const char *from, bool *underway);
/* Waits for a connection begun by tri_channel_start. Returns 0 or errno. */
int tri_channel_finish(int fd, double until_s);
/* Starts the listening end of an accepted connection. */
void tri_channel_accept(int fd, int me, tri_channel *t);
/* Starts the opening end and sends its opening. Returns false if it cannot be sent, or the kernel gives no
 * random number. */
bool tri_channel_open(int fd, const unsigned char secret[TRI_KEY_BYTES], tri_channel_want want, int me,
                      tri_channel *t, double until_s);
/* Waits for the answer to the opening and proves this end. Returns 0, ETIMEDOUT for no answer, or EPROTO if
 * the listener does not have the secret. */
int tri_channel_greet(tri_channel *t, double until_s);

/* Sends a message on a proved connection. Returns whether all of it was sent. */
bool tri_channel_send(tri_channel *t, tri_channel_kind kind, const void *bytes, size_t n, double until_s);

typedef enum { TRI_CHANNEL_MORE, TRI_CHANNEL_WHOLE, TRI_CHANNEL_LOST, TRI_CHANNEL_ASKED } tri_channel_got;
/* Takes the bytes received so far, including the other end's opening and proof. LOST: the other end has
 * closed, or the bytes are no message under the secret. ASKED: the opening of a rank without the secret.
 * Nothing more is taken from it. After WHOLE the caller calls tri_channel_drop. secret NULL: there is none,
 * so nobody can prove anything. */
tri_channel_got tri_channel_take(tri_channel *t, const unsigned char *secret, tri_channel_in *in);
void            tri_channel_drop(tri_channel_in *in);
/* Waits for a whole message. */
tri_channel_got tri_channel_wait(tri_channel *t, tri_channel_in *in, double until_s);
/* Bytes before any message, to and from a rank without the secret. The first returns whether all were sent.
 * The second returns how many came until the other end closed. */
bool   tri_channel_send_raw(int fd, const void *bytes, size_t n, double until_s);
size_t tri_channel_take_raw(int fd, char *out, size_t cap, double until_s);

#endif
