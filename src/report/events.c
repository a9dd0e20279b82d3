/* events.c - writes records of a TensorBoard event file, which are protobuf messages in frames with CRCs. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "events.h"

#include <string.h>

/* ---- frames ---- */

/* Table of the reflected polynomial of CRC-32C, for four bits at a time. */
uint32_t tri_events_crc(const void *bytes, size_t n) {
  static const uint32_t of_nibble[16] = {
      0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
      0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
  const unsigned char *p = bytes;
  uint32_t             crc = 0xffffffffu;

  for (size_t i = 0; i < n; i++) {
    crc = of_nibble[(crc ^ p[i]) & 15] ^ (crc >> 4);
    crc = of_nibble[(crc ^ (p[i] >> 4)) & 15] ^ (crc >> 4);
  }
  return ~crc;
}

static tri_status put_little(tri_text *t, uint64_t x, int bytes) {
  char out[8];

  for (int i = 0; i < bytes; i++) out[i] = (char)(x >> (8 * i) & 0xff);
  return tri_text_put(t, out, (size_t)bytes);
}

/* Masks a CRC, as TensorFlow does for bytes that hold CRCs themselves (crc32c.h). */
static uint32_t masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; }

/* Writes length, its CRC, the message, and its CRC. */
static tri_status put_record(tri_text *file, const tri_text *message) {
  size_t at = file->len;

  TRI_TRY(put_little(file, message->len, 8));
  TRI_TRY(put_little(file, masked(tri_events_crc(file->data + at, 8)), 4));
  TRI_TRY(tri_text_put(file, message->data, message->len));
  return put_little(file, masked(tri_events_crc(message->data, message->len)), 4);
}

/* ---- fields of messages ---- */

/* Wire types (protobuf, "Encoding"). */
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static tri_status put_varint(tri_text *t, uint64_t x) {
  char out[10];
  int  n = 0;

  for (; x >= 0x80; x >>= 7) out[n++] = (char)((x & 0x7f) | 0x80);
  out[n++] = (char)x;
  return tri_text_put(t, out, (size_t)n);
}

static tri_status put_key(tri_text *t, int field, int wire) {
  return put_varint(t, (uint64_t)(field << 3 | wire));
}

static tri_status put_number(tri_text *t, int field, uint64_t x) {
  TRI_TRY(put_key(t, field, VARINT));
  return put_varint(t, x);
}

static tri_status put_double(tri_text *t, int field, double x) {
  uint64_t bits;

  memcpy(&bits, &x, sizeof bits);
  TRI_TRY(put_key(t, field, FIXED64));
  return put_little(t, bits, 8);
}

static tri_status put_float(tri_text *t, int field, float x) {
  uint32_t bits;

  memcpy(&bits, &x, sizeof bits);
  TRI_TRY(put_key(t, field, FIXED32));
  return put_little(t, bits, 4);
}

/* Writes a string or a message. */
static tri_status put_bytes(tri_text *t, int field, const char *bytes, size_t n) {
  TRI_TRY(put_key(t, field, BYTES));
  TRI_TRY(put_varint(t, n));
  return tri_text_put(t, bytes, n);
}

static tri_status put_string(tri_text *t, int field, const char *text) {
  return put_bytes(t, field, text, strlen(text));
}

/* Writes and frees *message. `built` is the status of building it. */
static tri_status put_message(tri_text *t, int field, tri_text *message, tri_status built) {
  if (built == TRI_OK) built = put_bytes(t, field, message->data, message->len);
  tri_text_free(message);
  return built;
}

/* ---- summaries ---- */

/* Fields of Summary.Value: tag, simple_value, tensor, metadata. A Summary has Values in its field 1. */
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2, VALUE_TENSOR = 8, VALUE_METADATA = 9 };
/* Fields of TensorProto: dtype (DT_STRING is 7), shape, string_val. A shape without dimensions means a single
 * value. */
enum { TENSOR_DTYPE = 1, TENSOR_SHAPE = 2, TENSOR_STRING = 8, DT_STRING = 7 };
/* Fields of SummaryMetadata: plugin_data with its plugin_name. Readers know the data class of the plugin
 * "text". */
enum { METADATA_PLUGIN = 1, PLUGIN_NAME = 1 };

tri_status tri_events_put_scalar(tri_text *summary, const char *tag, float x) {
  tri_text   value = {0};
  tri_status st = put_string(&value, VALUE_TAG, tag);

  if (st == TRI_OK) st = put_float(&value, VALUE_SIMPLE, x);
  return put_message(summary, SUMMARY_VALUE, &value, st);
}

static tri_status put_text_tensor(tri_text *value, const char *text, size_t n) {
  tri_text   tensor = {0};
  tri_status st = put_number(&tensor, TENSOR_DTYPE, DT_STRING);

  if (st == TRI_OK) st = put_bytes(&tensor, TENSOR_SHAPE, "", 0);
  if (st == TRI_OK) st = put_bytes(&tensor, TENSOR_STRING, text, n);
  return put_message(value, VALUE_TENSOR, &tensor, st);
}

static tri_status put_text_metadata(tri_text *value) {
  tri_text   metadata = {0}, plugin = {0};
  tri_status st = put_message(&metadata, METADATA_PLUGIN, &plugin, put_string(&plugin, PLUGIN_NAME, "text"));

  return put_message(value, VALUE_METADATA, &metadata, st);
}

tri_status tri_events_put_text(tri_text *summary, const char *tag, const char *text, size_t n) {
  tri_text   value = {0};
  tri_status st = put_string(&value, VALUE_TAG, tag);

  if (st == TRI_OK) st = put_text_tensor(&value, text, n);
  if (st == TRI_OK) st = put_text_metadata(&value);
  return put_message(summary, SUMMARY_VALUE, &value, st);
}

/* ---- events ---- */

enum { EVENT_WALL = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum { SESSION_STATUS = 1, SESSION_START = 1 };

/* Writes an event with its field `field`, after its time and step. Step 0 is left out, as in proto3. */
static tri_status put_event(tri_text *file, double wall_s, int64_t step, int field, const tri_text *body) {
  tri_text   event = {0};
  tri_status st = put_double(&event, EVENT_WALL, wall_s);

  if (st == TRI_OK && step) st = put_number(&event, EVENT_STEP, (uint64_t)step);
  if (st == TRI_OK) st = put_bytes(&event, field, body->data, body->len);
  if (st == TRI_OK) st = put_record(file, &event);
  tri_text_free(&event);
  return st;
}

tri_status tri_events_put_version(tri_text *file, double wall_s) {
  static char name[] = "brain.Event:2";

  return put_event(file, wall_s, 0, EVENT_VERSION, &(tri_text){.data = name, .len = sizeof name - 1});
}

tri_status tri_events_put_start(tri_text *file, double wall_s, int64_t step) {
  static char status[] = {SESSION_STATUS << 3 | VARINT, SESSION_START};

  return put_event(file, wall_s, step, EVENT_SESSION, &(tri_text){.data = status, .len = sizeof status});
}

tri_status tri_events_put_summary(tri_text *file, double wall_s, int64_t step, const tri_text *summary) {
  return put_event(file, wall_s, step, EVENT_SUMMARY, summary);
}
