/* talk.h - messages over TCP between ranks before MPI is up, none of them waited for without an end. */
#ifndef TRI_TALK_H
#define TRI_TALK_H

#include "base/base.h"

/* What stands before the bytes of every message. */
typedef struct tri_talk_head {
  uint64_t key;  /* of the launch */
  uint32_t kind; /* tri_talk_kind */
  int32_t  task; /* of the sender */
  uint32_t bytes;
  uint32_t zero;
} tri_talk_head;

typedef enum {
  TRI_TALK_HELLO = 0x74726901, /* facts; answered by WELCOME */
  TRI_TALK_WELCOME,
  TRI_TALK_KNOCK,   /* anything; answered by KNOCK of no bytes */
  TRI_TALK_CLOCK,   /* nothing; answered by a double, seconds since 1970 */
  TRI_TALK_PROBE,   /* targets (knock.h); answered by an int32 for each */
  TRI_TALK_VERDICT, /* one byte: go on (1) or stop (0) */
  TRI_TALK_STAGE,   /* int32 number, text */
  TRI_TALK_FAILED   /* text */
} tri_talk_kind;

enum { TRI_TALK_MOST_BYTES = 1 << 20 };

/* Not collective, all that follow. Sockets do not block; what waits, waits until until_s of tri_now_s. */

/* A socket that listens on this port of all addresses, or -1. */
int tri_talk_listen(int port);
/* A socket that is connected, or on its way there (*underway); minus errno where it cannot be. host: a name
 * or an address; from: the address of this machine to go out by, "" for any. */
int tri_talk_start(const char *host, int port, const char *from, bool *underway);
/* Waits for what tri_talk_start began; 0 or errno. */
int tri_talk_finish(int fd, double until_s);
/* Whether all of it was sent. */
bool tri_talk_send(int fd, const tri_talk_head *head, const void *bytes, double until_s);

/* A message that arrives in pieces. Zero-initialise; tri_talk_drop leaves it zeroed. */
typedef struct tri_talk_in {
  tri_talk_head head;
  char         *bytes; /* [head.bytes], owned */
  size_t        have;  /* of both */
} tri_talk_in;
typedef enum { TRI_TALK_MORE, TRI_TALK_WHOLE, TRI_TALK_LOST } tri_talk_got;
/* Takes what has arrived. LOST: the other end is closed, or what came is of no message of this key. After
 * WHOLE the caller drops. */
tri_talk_got tri_talk_take(int fd, uint64_t key, tri_talk_in *in);
void         tri_talk_drop(tri_talk_in *in);
/* Waits for a whole message. */
tri_talk_got tri_talk_wait(int fd, uint64_t key, tri_talk_in *in, double until_s);

#endif
