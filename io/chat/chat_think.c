/* chat_think.c - an answer with its thoughts between <think> and </think>, as Qwen3's template writes it. */
#include "chat_impl.h"

#include <string.h>

typedef struct piece {
  const char *at;
  size_t      n;
} piece;

static bool begins(piece p, const char *with) {
  size_t n = strlen(with);

  return p.n >= n && !memcmp(p.at, with, n);
}

static bool ends(piece p, const char *with) {
  size_t n = strlen(with);

  return p.n >= n && !memcmp(p.at + p.n - n, with, n);
}

/* The first place of `what`, p.n where it is nowhere. */
static size_t find_first(piece p, const char *what) {
  for (size_t i = 0; i < p.n; i++)
    if (begins((piece){p.at + i, p.n - i}, what)) return i;
  return p.n;
}

/* What is behind the last `what`, or all. */
static piece behind_last(piece p, const char *what) {
  for (size_t i = p.n; i > 0; i--)
    if (ends((piece){p.at, i}, what)) return (piece){p.at + i, p.n - i};
  return p;
}

static piece left_strip(piece p) {
  while (p.n && *p.at == '\n') p.at++, p.n--;
  return p;
}

static piece right_strip(piece p) {
  while (p.n && p.at[p.n - 1] == '\n') p.n--;
  return p;
}

int tri_chat_last_question(const tri_chat_message *m, int n) {
  for (int i = n - 1; i >= 0; i--) {
    piece p = {m[i].text, m[i].n};
    if (m[i].by == TRI_CHAT_USER && !(begins(p, "<tool_response>") && ends(p, "</tool_response>"))) return i;
  }
  return n - 1;
}

/* The statements of the template of Qwen/Qwen3-8B, in its order. */
tri_status tri_chat_put_thinking(const tri_chat_message *m, bool asked, bool last, tri_text *out) {
  piece content = {m->text, m->n}, thoughts = {"", 0};

  if (find_first(content, "</think>") < content.n) {
    thoughts = right_strip((piece){content.at, find_first(content, "</think>")});
    thoughts = left_strip(behind_last(thoughts, "<think>"));
    content = left_strip(behind_last(content, "</think>"));
  }
  if (asked && (last || thoughts.n)) {
    thoughts = left_strip(right_strip(thoughts));
    content = left_strip(content);
    TRI_TRY(tri_text_put(out, "<think>\n", 8));
    TRI_TRY(tri_text_put(out, thoughts.at, thoughts.n));
    TRI_TRY(tri_text_put(out, "\n</think>\n\n", 11));
  }
  return tri_text_put(out, content.at, content.n);
}
