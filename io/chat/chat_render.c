/* chat_render.c - a conversation written by the row of its template. */
#include "chat_impl.h"

#include <string.h>

/* ---- text ---- */

/* A form's text, with the begin and the end token in it. */
static tri_status put(const tri_chat *c, const char *text, tri_text *out) {
  for (; text && *text; text++) {
    const char *token = *text == *TRI_CHAT_BOS ? c->bos : *text == *TRI_CHAT_EOS ? c->eos : NULL;
    TRI_TRY(token ? tri_text_put(out, token, strlen(token)) : tri_text_put(out, text, 1));
  }
  return TRI_OK;
}

/* Bytes of the white space at p [n], as Python's str.isspace has it; 0: there is none. */
static size_t space_at(const unsigned char *p, size_t n) {
  unsigned c;

  if (n >= 1 && (p[0] == ' ' || (p[0] >= 0x09 && p[0] <= 0x0d) || (p[0] >= 0x1c && p[0] <= 0x1f))) return 1;
  if (n >= 2 && p[0] == 0xc2 && (p[1] == 0x85 || p[1] == 0xa0)) return 2;
  if (n < 3 || p[0] < 0xe1 || p[0] > 0xe3) return 0;
  c = (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
  return c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
                 c == 0x205f || c == 0x3000
             ? 3
             : 0;
}

/* Bytes of the white space that ends at p + n. */
static size_t space_before(const unsigned char *p, size_t n) {
  for (size_t k = 1; k <= 3 && k <= n; k++)
    if (space_at(p + n - k, k) == k) return k;
  return 0;
}

static void strip(const char **text, size_t *n) {
  const unsigned char *p = (const unsigned char *)*text;
  size_t               k;

  while ((k = space_before(p, *n))) *n -= k;
  while ((k = space_at(p, *n))) p += k, *n -= k;
  *text = (const char *)p;
}

/* What was put from `begin` on, stripped. */
static void strip_from(tri_text *out, size_t begin) {
  const char *text = out->data + begin;
  size_t      n = out->len - begin;

  strip(&text, &n);
  memmove(out->data + begin, text, n);
  out->len = begin + n;
}

/* ---- what can be written ---- */

static const char *const speaker[] = {"system", "user", "assistant"};

static tri_status check_order(const tri_chat_form *f, const tri_chat_message *m, int n) {
  bool     first = n && m[0].by == TRI_CHAT_SYSTEM;
  unsigned inside = TRI_CHAT_IN_FIRST | TRI_CHAT_IN_LAST;

  if (!n) TRI_FAIL(TRI_EINPUT, "%s", "a conversation without messages");
  if (first && f->rules & TRI_CHAT_NO_SYSTEM)
    TRI_FAIL(TRI_EINPUT, "message 1 is the system's, and the chat template (%s) has none", f->name);
  if (first && n == 1 && f->rules & inside)
    TRI_FAIL(TRI_EINPUT,
             "there is only the system's message, which the chat template (%s) writes into the user's",
             f->name);
  for (int i = first; i < n && f->rules & TRI_CHAT_ALTERNATES; i++)
    if (m[i].by != ((i - first) % 2 ? TRI_CHAT_ASSISTANT : TRI_CHAT_USER))
      TRI_FAIL(TRI_EINPUT,
               "message %d is the %s's, where the %s's is due: the chat template (%s) wants user and "
               "assistant by turns",
               i + 1, speaker[m[i].by], (i - first) % 2 ? "assistant" : "user", f->name);
  return TRI_OK;
}

/* ---- writing ---- */

/* What is written. */
typedef struct talk {
  const tri_chat         *c;
  const tri_chat_message *m; /* [n] */
  int                     n;
  int                     question; /* the last one, where the form asks for it */
} talk;

/* The message into which the system's is written; -1: there is none. */
static int host_of(const tri_chat_form *f, const tri_chat_message *m, int n) {
  if (m[0].by != TRI_CHAT_SYSTEM) return -1;
  if (f->rules & TRI_CHAT_IN_FIRST) return 1;
  return f->rules & TRI_CHAT_IN_LAST && m[n - 1].by == TRI_CHAT_USER ? n - 1 : -1;
}

/* The text of message i, trimmed as the form wants it, perhaps with the system's before it. */
static tri_status put_text(const talk *t, int i, tri_text *out) {
  const tri_chat_message *m = t->m;
  const tri_chat_form    *f = t->c->form;
  const char             *text = m[i].text;
  size_t                  bytes = m[i].n, begin = out->len;

  if (m[i].by == TRI_CHAT_ASSISTANT && f->rules & TRI_CHAT_THINKS)
    return tri_chat_put_thinking(&m[i], i > t->question, i == t->n - 1, out);
  if (f->rules >> m[i].by & 1) strip(&text, &bytes);
  if (i == host_of(f, m, t->n)) {
    TRI_TRY(put(t->c, f->system_head, out));
    TRI_TRY(tri_text_put(out, m[0].text, m[0].n));
    TRI_TRY(put(t->c, f->system_tail, out));
  }
  TRI_TRY(tri_text_put(out, text, bytes));
  if (m[i].by == TRI_CHAT_USER && f->rules & TRI_CHAT_TRIMS_JOINED && out->len > begin)
    strip_from(out, begin);
  return TRI_OK;
}

static tri_status put_message(const talk *t, int i, tri_chat_text *out) {
  const tri_chat      *c = t->c;
  const tri_chat_form *f = c->form;
  tri_chat_speaker     by = t->m[i].by;
  bool                 answer = by == TRI_CHAT_ASSISTANT;
  size_t               begin;

  TRI_TRY(put(c, f->head[by], &out->text));
  begin = out->text.len;
  if (answer) TRI_TRY(put(c, f->lead, &out->text));
  TRI_TRY(put_text(t, i, &out->text));
  TRI_TRY(put(c, f->tail[by], &out->text));
  if (answer) {
    TRI_TRY(TRI_GROW(out->turn, out->cap, out->n_turn + 1));
    out->turn[out->n_turn++] = (tri_chat_turn){begin, out->text.len};
  }
  return put(c, f->rest, &out->text);
}

/* The message that the template writes where a conversation has no system's. */
static tri_status put_system(const tri_chat *c, tri_chat_text *out) {
  tri_chat_message m = {TRI_CHAT_SYSTEM, c->form->system, strlen(c->form->system)};

  return put_message(&(talk){c, &m, 1, 0}, 0, out);
}

tri_status tri_chat_render(const tri_chat *c, const tri_chat_message *m, int n, bool prompt,
                           tri_chat_text *out) {
  const tri_chat_form *f = c->form;
  talk                 t = {c, m, n, 0};

  out->text.len = 0;
  out->n_turn = 0;
  out->system_left_out = false;
  if (!f) TRI_FAIL(TRI_EINPUT, "%s", c->why);
  TRI_TRY(check_order(f, m, n));
  if (f->rules & TRI_CHAT_THINKS) t.question = tri_chat_last_question(m, n);
  TRI_TRY(put(c, f->begin, &out->text));
  if (f->system && m[0].by != TRI_CHAT_SYSTEM) TRI_TRY(put_system(c, out));
  for (int i = 0; i < n; i++) {
    bool inside = m[i].by == TRI_CHAT_SYSTEM && f->rules & (TRI_CHAT_IN_FIRST | TRI_CHAT_IN_LAST);
    if (inside) out->system_left_out = host_of(f, m, n) < 0;
    if (!inside) TRI_TRY(put_message(&t, i, out));
  }
  return prompt ? put(c, f->prompt, &out->text) : TRI_OK;
}

void tri_chat_text_free(tri_chat_text *t) {
  tri_text_free(&t->text);
  TRI_FREE(t->turn);
  *t = (tri_chat_text){.n_turn = 0};
}
