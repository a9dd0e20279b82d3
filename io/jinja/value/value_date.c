/* value_date.c - strftime_now: formats midnight of a day with the directives of strftime in the C locale (C11
 * 7.27.3.5, and glibc's flags, C, D, e, F, g, G, h, k, l, P, r, R, T, V, but not s). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "value_impl.h"

#include <stdio.h>
#include <string.h>

static const char *const day_name[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                       "Thursday", "Friday", "Saturday"};
static const char *const month_name[] = {"January",   "February", "March",    "April",
                                         "May",       "June",     "July",     "August",
                                         "September", "October",  "November", "December"};

typedef struct day {
  int year, month, day; /* month and day from 1 */
  int week_day;         /* 0: Sunday */
  int year_day;         /* from 0 */
} day;

static bool is_leap(int year) { return (year % 4 == 0 && year % 100) || year % 400 == 0; }

static int days_before(int year, int month) {
  static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};

  return before[month - 1] + (month > 2 && is_leap(year));
}

static int month_days(int year, int month) {
  return month == 12 ? 31 : days_before(year, month + 1) - days_before(year, month);
}

static tri_status read_day(const char *date, day *out) {
  char rest;
  int  y;

  if (!date) TRI_FAIL(TRI_EINPUT, "strftime_now: no date is given to this template");
  if (strlen(date) != 10 || sscanf(date, "%4d-%2d-%2d%c", &out->year, &out->month, &out->day, &rest) != 3 ||
      out->year < 1 || out->month < 1 || out->month > 12 || out->day < 1 ||
      out->day > month_days(out->year, out->month))
    TRI_FAIL(TRI_EINPUT, "strftime_now: the date %s is invalid. Give one such as 2026-11-29", date);
  y = out->year - 1;
  out->year_day = days_before(out->year, out->month) + out->day - 1;
  out->week_day = (y * 365 + y / 4 - y / 100 + y / 400 + out->year_day + 1) % 7; /* 0001-01-01 was a Monday */
  return TRI_OK;
}

/* Returns the ISO 8601 week, and the year of that week. */
static int iso_week(const day *d, int *year) {
  int week_day = (d->week_day + 6) % 7, thursday = d->year_day - week_day + 3,
      days = is_leap(d->year) ? 366 : 365;

  *year = d->year;
  if (thursday < 0) {
    --*year;
    thursday += is_leap(*year) ? 366 : 365;
  } else if (thursday >= days) {
    thursday -= days;
    ++*year;
  }
  return thursday / 7 + 1;
}

/* Writes a number with its usual width and fill, or as the flag says ('-', '_', '0'). */
static tri_status put_number(tri_jbuf *b, int x, int width, char fill, char flag) {
  if (flag == '-') return tri_jbuf_printf(b, "%d", x);
  if (flag == '_') fill = ' ';
  if (flag == '0') fill = '0';
  return fill == '0' ? tri_jbuf_printf(b, "%0*d", width, x) : tri_jbuf_printf(b, "%*d", width, x);
}

static tri_status put_name(tri_jbuf *b, const char *name, int most, char flag) {
  tri_jvalue v = tri_jtext(name, most && strlen(name) > (size_t)most ? (size_t)most : strlen(name));

  if (flag == '^' || flag == '#') TRI_TRY(tri_jtext_case(b->a, v, TRI_JCASE_UPPER, &v));
  return tri_jbuf_put(b, v.as.text.s, v.as.text.n);
}

static tri_status put_directive(tri_jbuf *b, const day *d, char what, char flag);

static tri_status put_all(tri_jbuf *b, const day *d, const char *format) {
  for (; *format; format++)
    if (*format != '%')
      TRI_TRY(tri_jbuf_put(b, format, 1));
    else
      TRI_TRY(put_directive(b, d, *++format, 0));
  return TRI_OK;
}

static tri_status put_directive(tri_jbuf *b, const day *d, char what, char flag) {
  int year = d->year, week = iso_week(d, &year);

  switch (what) {
  case 'a':
    return put_name(b, day_name[d->week_day], 3, flag);
  case 'A':
    return put_name(b, day_name[d->week_day], 0, flag);
  case 'b':
  case 'h':
    return put_name(b, month_name[d->month - 1], 3, flag);
  case 'B':
    return put_name(b, month_name[d->month - 1], 0, flag);
  case 'c':
    return put_all(b, d, "%a %b %e %H:%M:%S %Y");
  case 'C':
    return put_number(b, d->year / 100, 2, '0', flag);
  case 'd':
    return put_number(b, d->day, 2, '0', flag);
  case 'D':
  case 'x':
    return put_all(b, d, "%m/%d/%y");
  case 'e':
    return put_number(b, d->day, 2, ' ', flag);
  case 'f':
    return tri_jbuf_text(b, "000000");
  case 'F':
    return put_all(b, d, "%Y-%m-%d");
  case 'g':
    return put_number(b, year % 100, 2, '0', flag);
  case 'G':
    return tri_jbuf_printf(b, "%d", year);
  case 'H':
    return put_number(b, 0, 2, '0', flag);
  case 'k':
    return put_number(b, 0, 2, ' ', flag);
  case 'I':
    return put_number(b, 12, 2, '0', flag);
  case 'l':
    return put_number(b, 12, 2, ' ', flag);
  case 'j':
    return put_number(b, d->year_day + 1, 3, '0', flag);
  case 'm':
    return put_number(b, d->month, 2, '0', flag);
  case 'M':
  case 'S':
    return put_number(b, 0, 2, '0', flag);
  case 'n':
    return tri_jbuf_text(b, "\n");
  case 'p':
    return tri_jbuf_text(b, flag == '#' ? "am" : "AM");
  case 'P':
    return tri_jbuf_text(b, "am");
  case 'r':
    return put_all(b, d, "%I:%M:%S %p");
  case 'R':
    return put_all(b, d, "%H:%M");
  case 't':
    return tri_jbuf_text(b, "\t");
  case 'T':
  case 'X':
    return put_all(b, d, "%H:%M:%S");
  case 'u':
    return put_number(b, d->week_day ? d->week_day : 7, 1, '0', flag);
  case 'U':
    return put_number(b, (d->year_day + 7 - d->week_day) / 7, 2, '0', flag);
  case 'V':
    return put_number(b, week, 2, '0', flag);
  case 'w':
    return put_number(b, d->week_day, 1, '0', flag);
  case 'W':
    return put_number(b, (d->year_day + 7 - (d->week_day + 6) % 7) / 7, 2, '0', flag);
  case 'y':
    return put_number(b, d->year % 100, 2, '0', flag);
  case 'Y':
    return flag == '_'   ? tri_jbuf_printf(b, "%4d", d->year)
           : flag == '0' ? tri_jbuf_printf(b, "%04d", d->year)
                         : tri_jbuf_printf(b, "%d", d->year);
  case 'z':
  case 'Z':
    return TRI_OK; /* a time without a zone */
  case '%':
    return tri_jbuf_text(b, "%");
  default:
    TRI_FAIL(TRI_EINPUT, "strftime_now: the directive %%%c is not supported", what);
  }
}

tri_status tri_jdate_text(tri_jarena *a, tri_jvalue format, tri_jvalue *out) {
  tri_jbuf    b = {.a = a};
  const char *p = format.as.text.s, *end = p + format.as.text.n;
  day         d = {0};
  char        flag;

  TRI_TRY(read_day(a->date, &d));
  while (p < end) {
    if (*p != '%' || p + 1 == end) {
      TRI_TRY(tri_jbuf_put(&b, p++, 1));
      continue;
    }
    flag = 0;
    for (p++; p + 1 < end && strchr("-_0^#", *p); p++) flag = *p;
    TRI_TRY(put_directive(&b, &d, *p++, flag));
  }
  *out = tri_jbuf_value(&b, 0);
  return TRI_OK;
}
