/* elf_object.c - reads data of a shared object from its file. Layout: System V ABI, chapters 4 and 5. GNU
 * hash table: glibc, elf/dl-lookup.c. It reads no section headers, because the loader needs none and stripped
 * objects may have none. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "elf_object.h"

#include "base/file.h"
#include "base/host_memory.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  MOST_SEGMENTS = 256,  /* chosen: an object has about ten */
  MOST_ENTRIES = 4096,  /* chosen: a dynamic section has about thirty */
  MOST_STEPS = 1 << 20, /* chosen: a hash chain has a few. This also ends a circular chain */
  NAME_BYTES = 128,     /* chosen: longest name of a symbol to find */
  RELA_AT_ONCE = 1024
};

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { MACHINE = EM_AARCH64 };
#else
enum { MACHINE = 0 }; /* unknown machine accepts any object, and the loader decides */
#endif

struct tri_elf {
  int        fd;
  uint64_t   bytes; /* bytes of the file */
  Elf64_Phdr segment[MOST_SEGMENTS];
  int        n_segment; /* number of PT_LOAD segments */
  /* Addresses of tables in the object, 0 without one. */
  uint64_t symbols, strings, strings_bytes, hash, gnu_hash, rela, rela_bytes, flags;
};

/* ---- bytes of the file, and of its loaded image ---- */

static tri_status read_file(const tri_elf *e, uint64_t at, void *out, size_t n) {
  size_t have = 0;

  if (at > e->bytes || n > e->bytes - at)
    TRI_FAIL(TRI_ECONFIG, "it is cut off or damaged: %zu bytes at %llu are past its end, %llu", n,
             (unsigned long long)at, (unsigned long long)e->bytes);
  while (have < n) {
    ssize_t got = pread(e->fd, (char *)out + have, n - have, (off_t)(at + have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) TRI_FAIL(TRI_ECONFIG, "it cannot be read: %s", got ? strerror(errno) : "it has shrunk");
    have += (size_t)got;
  }
  return TRI_OK;
}

tri_status tri_elf_read(const tri_elf *e, uint64_t address, void *out, size_t n) {
  for (int i = 0; i < e->n_segment; i++) {
    const Elf64_Phdr *s = &e->segment[i];
    uint64_t          in = address - s->p_vaddr; /* wraps around for an address before the segment */
    size_t            of_file;
    if (in >= s->p_memsz || n > s->p_memsz - in) continue;
    of_file = in >= s->p_filesz ? 0 : n < s->p_filesz - in ? n : (size_t)(s->p_filesz - in);
    memset((char *)out + of_file, 0, n - of_file); /* the loader puts zeros behind the bytes of the file */
    if (!of_file) return TRI_OK;
    if (s->p_offset > e->bytes) return read_file(e, s->p_offset, out, of_file);
    return read_file(e, s->p_offset + in, out, of_file);
  }
  TRI_FAIL(TRI_ECONFIG, "it is damaged: no segment holds %zu bytes at address %#llx", n,
           (unsigned long long)address);
}

/* ---- kind of file ---- */

static tri_status check_header(const Elf64_Ehdr *h) {
  static const char of_kind[] = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3};
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  enum { ORDER = ELFDATA2LSB };
#else
  enum { ORDER = ELFDATA2MSB };
#endif

  if (memcmp(h->e_ident, of_kind, sizeof of_kind)) TRI_FAIL(TRI_ECONFIG, "it is not an ELF file");
  if (h->e_ident[EI_CLASS] != ELFCLASS64) TRI_FAIL(TRI_ECONFIG, "it is not a 64-bit file");
  if (h->e_ident[EI_DATA] != ORDER || h->e_ident[EI_VERSION] != EV_CURRENT)
    TRI_FAIL(TRI_ECONFIG, "its byte order or ELF version is not this machine's");
  if (MACHINE != 0 && h->e_machine != MACHINE)
    TRI_FAIL(TRI_ECONFIG, "it is made for another processor (ELF machine %d, this machine is %d)",
             h->e_machine, MACHINE);
  if (h->e_type != ET_DYN) TRI_FAIL(TRI_ECONFIG, "it is not a shared object. Link it with -shared");
  if (h->e_phentsize != sizeof(Elf64_Phdr)) TRI_FAIL(TRI_ECONFIG, "it is damaged: no program headers");
  return TRI_OK;
}

static void take_entry(tri_elf *e, const Elf64_Dyn *d) {
  const struct {
    int64_t   tag;
    uint64_t *to;
  } row[] = {{DT_SYMTAB, &e->symbols}, {DT_STRTAB, &e->strings},   {DT_STRSZ, &e->strings_bytes},
             {DT_HASH, &e->hash},      {DT_RELA, &e->rela},        {DT_RELASZ, &e->rela_bytes},
             {DT_FLAGS_1, &e->flags},  {DT_GNU_HASH, &e->gnu_hash}};

  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    if (d->d_tag == row[i].tag) *row[i].to = d->d_un.d_val;
}

static tri_status read_dynamic(tri_elf *e, const Elf64_Phdr *p) {
  Elf64_Dyn d = {.d_tag = DT_NEEDED};

  for (uint64_t i = 0; d.d_tag != DT_NULL && i < p->p_filesz / sizeof d; i++) {
    if (i == MOST_ENTRIES)
      TRI_FAIL(TRI_ECONFIG, "its dynamic section has more than %d entries", MOST_ENTRIES);
    if (p->p_offset > e->bytes) return read_file(e, p->p_offset, &d, sizeof d);
    TRI_TRY(read_file(e, p->p_offset + i * sizeof d, &d, sizeof d));
    take_entry(e, &d);
  }
  return TRI_OK;
}

static tri_status read_segments(tri_elf *e, const Elf64_Ehdr *h) {
  Elf64_Phdr dynamic = {.p_type = PT_NULL}, p;

  for (int i = 0; i < h->e_phnum; i++) {
    if (h->e_phoff > e->bytes) return read_file(e, h->e_phoff, &p, sizeof p);
    TRI_TRY(read_file(e, h->e_phoff + (uint64_t)i * sizeof p, &p, sizeof p));
    if (p.p_type == PT_DYNAMIC) dynamic = p;
    if (p.p_type != PT_LOAD) continue;
    if (e->n_segment == MOST_SEGMENTS)
      TRI_FAIL(TRI_ECONFIG, "it has more than %d segments to load", MOST_SEGMENTS);
    e->segment[e->n_segment++] = p;
  }
  if (dynamic.p_type == PT_NULL || !e->n_segment)
    TRI_FAIL(TRI_ECONFIG, "it is not a shared object, since it has no dynamic section");
  TRI_TRY(read_dynamic(e, &dynamic));
  if (e->flags & DF_1_PIE)
    TRI_FAIL(TRI_ECONFIG, "it is a program and not a shared object. Link it with -shared");
  if (e->flags & DF_1_NOOPEN) TRI_FAIL(TRI_ECONFIG, "it forbids dlopen (DF_1_NOOPEN)");
  return TRI_OK;
}

tri_status tri_elf_open(const char *path, tri_elf **out) {
  struct stat sb;
  Elf64_Ehdr  head;
  tri_status  st = TRI_OK;

  TRI_TRY(TRI_ALLOC(*out, 1));
  (*out)->fd = -1;
  TRI_TRY_DONE(tri_file_open(path, &(*out)->fd));
  if (fstat((*out)->fd, &sb)) TRI_FAIL_DONE(TRI_ECONFIG, "it cannot be read: %s", strerror(errno));
  (*out)->bytes = (uint64_t)sb.st_size;
  if ((*out)->bytes < sizeof head) TRI_FAIL_DONE(TRI_ECONFIG, "it is not an ELF file");
  TRI_TRY_DONE(read_file(*out, 0, &head, sizeof head));
  TRI_TRY_DONE(check_header(&head));
  TRI_TRY_DONE(read_segments(*out, &head));
done:
  if (st != TRI_OK) tri_elf_close(out);
  return st == TRI_EINPUT ? TRI_ECONFIG : st;
}

void tri_elf_close(tri_elf **e) {
  if (!*e) return;
  if ((*e)->fd >= 0) close((*e)->fd);
  TRI_FREE(*e);
}

/* ---- symbols ---- */

/* Tells whether symbol i of the table is data with this name, visible to other objects. If so, it gives the
 * address. */
static tri_status is_symbol(const tri_elf *e, uint64_t i, const char *name, uint64_t *address, bool *is) {
  Elf64_Sym s;
  char      text[NAME_BYTES];
  size_t    n = strlen(name) + 1;
  int       type;

  *is = false;
  TRI_TRY(tri_elf_read(e, e->symbols + i * sizeof s, &s, sizeof s));
  type = ELF64_ST_TYPE(s.st_info);
  if (s.st_shndx == SHN_UNDEF || (type != STT_OBJECT && type != STT_NOTYPE)) return TRI_OK;
  if (ELF64_ST_BIND(s.st_info) == STB_LOCAL) return TRI_OK;
  if (s.st_name >= e->strings_bytes || n > e->strings_bytes - s.st_name) return TRI_OK;
  TRI_TRY(tri_elf_read(e, e->strings + s.st_name, text, n));
  *is = !memcmp(text, name, n);
  if (*is) *address = s.st_value;
  return TRI_OK;
}

static tri_status find_by_gnu_hash(const tri_elf *e, const char *name, uint64_t *address, bool *found) {
  uint32_t head[4], hash = 5381, i, link = 0; /* head: numbers of buckets, first symbol, words of the filter,
                                               * a shift */
  uint64_t buckets;

  for (const unsigned char *c = (const unsigned char *)name; *c; c++) hash = hash * 33 + *c;
  TRI_TRY(tri_elf_read(e, e->gnu_hash, head, sizeof head));
  if (!head[0]) return TRI_OK;
  buckets = e->gnu_hash + sizeof head + (uint64_t)head[2] * sizeof(Elf64_Addr);
  TRI_TRY(tri_elf_read(e, buckets + (uint64_t)(hash % head[0]) * sizeof i, &i, sizeof i));
  if (i < head[1]) return TRI_OK;
  for (uint64_t at = i, steps = 0; !*found && !(link & 1); at++) {
    if (++steps > MOST_STEPS) TRI_FAIL(TRI_ECONFIG, "it is damaged: a chain of its hash table has no end");
    TRI_TRY(
        tri_elf_read(e, buckets + ((uint64_t)head[0] + (at - head[1])) * sizeof link, &link, sizeof link));
    if ((link | 1) == (hash | 1)) TRI_TRY(is_symbol(e, at, name, address, found));
  }
  return TRI_OK;
}

static tri_status find_by_hash(const tri_elf *e, const char *name, uint64_t *address, bool *found) {
  uint32_t head[2], hash = 0, i; /* head: numbers of buckets and symbols */
  uint64_t steps = 0;

  for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
    hash = (hash << 4) + *c;
    hash = (hash ^ (hash & 0xf0000000) >> 24) & 0x0fffffff;
  }
  TRI_TRY(tri_elf_read(e, e->hash, head, sizeof head));
  if (!head[0]) return TRI_OK;
  TRI_TRY(tri_elf_read(e, e->hash + (2 + (uint64_t)(hash % head[0])) * sizeof i, &i, sizeof i));
  while (i && !*found) {
    if (++steps > MOST_STEPS || i >= head[1])
      TRI_FAIL(TRI_ECONFIG, "it is damaged: a chain of its hash table has no end");
    TRI_TRY(is_symbol(e, i, name, address, found));
    TRI_TRY(tri_elf_read(e, e->hash + (2 + (uint64_t)head[0] + i) * sizeof i, &i, sizeof i));
  }
  return TRI_OK;
}

tri_status tri_elf_find(const tri_elf *e, const char *name, uint64_t *address, bool *found) {
  TRI_ASSERT(strlen(name) < NAME_BYTES);
  *found = false;
  *address = 0;
  if (!e->symbols || !e->strings || (!e->gnu_hash && !e->hash)) return TRI_OK;
  return e->gnu_hash ? find_by_gnu_hash(e, name, address, found) : find_by_hash(e, name, address, found);
}

/* Searches the relocations. A RELA table holds their values. With RELR the value stands at the pointer in the
 * file. */
tri_status tri_elf_points(const tri_elf *e, uint64_t address, bool *points) {
  static __thread Elf64_Rela rela[RELA_AT_ONCE];
  uint64_t                   value, n = e->rela ? e->rela_bytes / sizeof *rela : 0;

  TRI_TRY(tri_elf_read(e, address, &value, sizeof value));
  *points = value != 0;
  if (n > e->bytes / sizeof *rela) /* memory behind the file's bytes has no pointers, and may be huge */
    TRI_FAIL(TRI_ECONFIG, "it is damaged: its %llu relocations do not fit into the file",
             (unsigned long long)n);
  for (uint64_t i = 0; !*points && i < n; i += RELA_AT_ONCE) {
    size_t some = n - i < RELA_AT_ONCE ? (size_t)(n - i) : RELA_AT_ONCE;
    TRI_TRY(tri_elf_read(e, e->rela + i * sizeof *rela, rela, some * sizeof *rela));
    for (size_t k = 0; k < some && !*points; k++)
      *points = rela[k].r_offset == address && ELF64_R_TYPE(rela[k].r_info) != 0;
  }
  return TRI_OK;
}
