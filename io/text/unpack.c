/* unpack.c - reads the bytes of a file, and unpacks gzip or zstd while reading. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "unpack.h"

#include "base/host_memory.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { PIECE_BYTES = 1 << 16 }; /* chosen, bytes read at once and unpacked at once */
/* Chosen. gzip cannot pack better than 1 : 1032. Identical JSON lines stay below SURELY_FINE. */
enum { MOST_RATIO = 4096, SURELY_FINE = 1 << 30 };

typedef enum { PLAIN, GZIP, ZSTD } packing;
static const char *const packing_name[] = {"", "gzip", "zstd"};

struct tri_unpack {
  const char   *path; /* borrowed */
  int           fd;   /* borrowed */
  packing       packed;
  char         *in, *out;    /* [PIECE_BYTES] bytes as in the file, and unpacked */
  size_t        in_at, in_n; /* bytes of `in` taken, and read */
  int64_t       read, given; /* bytes of the file read, and bytes returned */
  bool          at_end;      /* end of the file */
  bool          whole;       /* a member or frame has just ended */
  z_stream      gzip;
  bool          has_gzip;
  ZSTD_DStream *zstd;
};

static tri_status fill(tri_unpack *u) {
  while (u->in_at == u->in_n && !u->at_end) {
    ssize_t got = read(u->fd, u->in, PIECE_BYTES);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      TRI_FAIL(TRI_EFILE, "%s: reading stopped at byte %lld: %s", u->path, (long long)u->read,
               strerror(errno));
    u->in_at = 0;
    u->in_n = (size_t)got;
    u->read += (int64_t)got;
    u->at_end = !got;
  }
  return TRI_OK;
}

/* Specified by RFC 1952, section 2.3.1, and RFC 8878, sections 3.1.1 and 3.1.2. Files of pzstd begin with a
 * skippable frame. */
static packing packing_of(const char *bytes, size_t n) {
  if (n >= 2 && !memcmp(bytes, "\x1f\x8b", 2)) return GZIP;
  if (n >= 4 && (bytes[0] & 0xf0) == 0x50 && !memcmp(bytes + 1, "\x2a\x4d\x18", 3)) return ZSTD;
  return n >= 4 && !memcmp(bytes, "\x28\xb5\x2f\xfd", 4) ? ZSTD : PLAIN;
}

tri_status tri_unpack_open(const char *path, int fd, tri_unpack **out) {
  tri_status  st = TRI_OK;
  tri_unpack *u = NULL;

  *out = NULL;
  TRI_TRY_DONE(TRI_ALLOC(u, 1));
  u->path = path;
  u->fd = fd;
  TRI_TRY_DONE(TRI_ALLOC(u->in, PIECE_BYTES));
  TRI_TRY_DONE(fill(u));
  u->packed = packing_of(u->in, u->in_n);
  u->whole = true;
  if (u->packed != PLAIN) TRI_TRY_DONE(TRI_ALLOC(u->out, PIECE_BYTES));
  if (u->packed == GZIP) u->has_gzip = inflateInit2(&u->gzip, 16 + MAX_WBITS) == Z_OK; /* 16: gzip only */
  if (u->packed == ZSTD) u->zstd = ZSTD_createDStream();
  if ((u->packed == GZIP && !u->has_gzip) || (u->packed == ZSTD && !u->zstd))
    TRI_FAIL_DONE(TRI_ENOMEM, "%s: no memory to unpack it", path);
done:
  if (st != TRI_OK) tri_unpack_close(&u);
  *out = u;
  return st;
}

void tri_unpack_close(tri_unpack **u) {
  if (!*u) return;
  if ((*u)->has_gzip) inflateEnd(&(*u)->gzip);
  ZSTD_freeDStream((*u)->zstd);
  TRI_FREE((*u)->in);
  TRI_FREE((*u)->out);
  TRI_FREE(*u);
}

bool tri_unpack_is_packed(const tri_unpack *u) { return u->packed != PLAIN; }

static tri_status broken(const tri_unpack *u, const char *why) {
  TRI_FAIL(TRI_EINPUT, "%s: is packed with %s and broken after %lld unpacked bytes: %s", u->path,
           packing_name[u->packed], (long long)u->given, why);
}

/* Both functions run one step of a decoder and return *n bytes in u->out. Decoders hold only their window of
 * at most 128 MiB (ZSTD_WINDOWLOG_LIMIT_DEFAULT). */
static tri_status unpack_gzip(tri_unpack *u, size_t *n) {
  int code;

  *n = 0;
  if (u->whole && u->in[u->in_at] == 0) { /* zero padding after a member, as on tapes */
    u->in_at++;
    return TRI_OK;
  }
  u->gzip.next_in = (Bytef *)u->in + u->in_at;
  u->gzip.avail_in = (uInt)(u->in_n - u->in_at);
  u->gzip.next_out = (Bytef *)u->out;
  u->gzip.avail_out = PIECE_BYTES;
  code = inflate(&u->gzip, Z_NO_FLUSH);
  u->in_at = u->in_n - u->gzip.avail_in;
  *n = PIECE_BYTES - u->gzip.avail_out;
  u->whole = code == Z_STREAM_END;
  if (u->whole && inflateReset(&u->gzip) != Z_OK) return broken(u, "the decoder cannot continue");
  if (code == Z_OK || code == Z_BUF_ERROR || u->whole) return TRI_OK;
  if (code == Z_MEM_ERROR) TRI_FAIL(TRI_ENOMEM, "%s: no memory to unpack it", u->path);
  return broken(u, u->gzip.msg ? u->gzip.msg : "this is no valid gzip data");
}

static tri_status unpack_zstd(tri_unpack *u, size_t *n) {
  ZSTD_inBuffer  in = {u->in, u->in_n, u->in_at};
  ZSTD_outBuffer out = {u->out, PIECE_BYTES, 0};
  size_t         left = ZSTD_decompressStream(u->zstd, &out, &in);

  if (ZSTD_isError(left)) return broken(u, ZSTD_getErrorName(left));
  u->in_at = in.pos;
  *n = out.pos;
  u->whole = left == 0;
  return TRI_OK;
}

static tri_status check_ratio(const tri_unpack *u) {
  if (u->given <= SURELY_FINE || u->given / MOST_RATIO <= u->read) return TRI_OK;
  TRI_FAIL(TRI_EINPUT,
           "%s: is packed with %s and unpacks to more than %d times its size. Such a file is refused",
           u->path, packing_name[u->packed], MOST_RATIO);
}

tri_status tri_unpack_read(tri_unpack *u, const char **bytes, size_t *n) {
  *bytes = u->packed == PLAIN ? u->in : u->out;
  *n = 0;
  TRI_TRY(fill(u));
  if (u->packed == PLAIN) {
    *bytes = u->in + u->in_at;
    *n = u->in_n - u->in_at;
    u->in_at = u->in_n;
    return TRI_OK;
  }
  while (!*n && (u->in_at < u->in_n || !u->whole)) { /* a decoder may still hold output */
    TRI_TRY(u->packed == GZIP ? unpack_gzip(u, n) : unpack_zstd(u, n));
    if (!*n && u->at_end && u->in_at == u->in_n && !u->whole)
      return broken(u, "it ends too early, as if cut off");
    TRI_TRY(fill(u));
  }
  u->given += (int64_t)*n;
  return check_ratio(u);
}

tri_status tri_unpack_seek(tri_unpack *u, int64_t at) {
  TRI_ASSERT(u->packed == PLAIN);
  if (lseek(u->fd, at, SEEK_SET) < 0)
    TRI_FAIL(TRI_EFILE, "%s: cannot seek to byte %lld: %s", u->path, (long long)at, strerror(errno));
  u->in_at = u->in_n = 0;
  u->at_end = false;
  u->read = at;
  return TRI_OK;
}
