/* SPDX-License-Identifier: GPL-2.0 */
/*
 * json_fuzz.c: any bytes as a document to read, checked or not, and as orders to the writer, whose output
 * must be good JSON at any capacity that holds it, and read back as what was written.
 */
#include "json.c"

#define TEXT_MAX (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void read_value(struct zn_str value, int depth)
{
	struct zn_str key, inner;
	char text[16];
	size_t at = 0;

	check(zn_json_string(value, text, sizeof(text)) < sizeof(text));
	check(isfinite(zn_json_number(value)));
	zn_json_integer(value);
	zn_json_member(value, "a");
	while (depth < 8 && zn_json_next(value, &at, &key, &inner)) {
		check(zn_json_check(inner) == 0);
		check(inner.at >= value.at && inner.at + inner.len <= value.at + value.len);
		read_value(inner, depth + 1);
	}
}

static void read_bytes(const uint8_t *data, size_t len)
{
	char *block = malloc(len ? len : 1);
	struct zn_str text = {block, len};

	memcpy(block, data, len);
	zn_json_check(text);
	read_value(text, 0);
	free(block);
}

static void write_scalar(struct zn_json *j, const uint8_t *data, size_t len)
{
	uint64_t v = 0;
	double d;

	memcpy(&v, data, len < 8 ? len : 8);
	memcpy(&d, &v, 8);
	switch (data[0] >> 3 & 7) {
	case 0: zn_json_u64(j, v); break;
	case 1: zn_json_scaled(j, v, (int)(v % 20)); break;
	case 2: zn_json_decimal(j, v, (int)(v % 20)); break;
	case 3: zn_json_double(j, d); break;
	case 4: zn_json_bool(j, v & 1); break;
	case 5: zn_json_null(j); break;
	default: zn_json_bytes(j, (const char *)data, len < 40 ? len : 40);
	}
}

/* One order per byte; everything left open is closed at the end. */
static void write_orders(struct zn_json *j, const uint8_t *data, size_t len)
{
	char closing[32], key[2] = "";
	int depth = 1;

	zn_json_open(j, '[');
	closing[0] = ']';
	for (size_t i = 0; i < len; i++) {
		bool open = data[i] % 4 == 1 && depth < 32, object = data[i] & 64;

		key[0] = (char)data[i];
		if (data[i] % 4 == 0 && depth > 1) {
			zn_json_close(j, closing[--depth]);
			continue;
		}
		if (closing[depth - 1] == '}')
			zn_json_key(j, key);
		if (open) {
			zn_json_open(j, object ? '{' : '[');
			closing[depth++] = object ? '}' : ']';
		} else {
			write_scalar(j, data + i, len - i);
		}
	}
	while (depth)
		zn_json_close(j, closing[--depth]);
}

static void check_writer(const uint8_t *data, size_t len)
{
	static char text[TEXT_MAX];
	struct zn_out o = {.at = text, .cap = sizeof(text)};
	struct zn_json j;
	char *block;
	size_t cap;

	zn_json_begin(&j, &o);
	write_orders(&j, data, len);
	check(!o.full && zn_json_check((struct zn_str){text, o.len}) == 0);
	cap = len ? (size_t)data[0] * o.len / 256 : 0;
	block = malloc(cap ? cap : 1);
	o = (struct zn_out){.at = block, .cap = cap};
	zn_json_begin(&j, &o);
	write_orders(&j, data, len);
	check(o.full && o.len <= cap && !memcmp(block, text, o.len));
	free(block);
}

/* Items of a list: pieces of the data. */
static struct {
	const uint8_t *data;
	size_t len;
} pieces;

struct counted {
	uint32_t *count;
};

static bool piece(const void *owner, struct zn_json *j, uint32_t i)
{
	size_t at = 8 * (size_t)i, len = pieces.len - at < 8 ? pieces.len - at : 8;

	if (at >= pieces.len)
		return false;
	++*((const struct counted *)owner)->count;
	if (pieces.data[at] & 1)
		write_orders(j, pieces.data + at, len);
	else
		write_scalar(j, pieces.data + at, len);
	return true;
}

/* A document with a list, in a block of a size that the data chooses: whole, valid, and true about what is missing. */
static void check_list(const uint8_t *data, size_t len)
{
	size_t cap = len ? data[0] * (len + 64) / 16 : 0;
	char *block = malloc(cap ? cap : 1);
	struct zn_out o = {.at = block, .cap = cap};
	struct zn_str text, key, value, list;
	uint32_t written = 0, read = 0;
	struct zn_json j;
	size_t at = 0;
	bool whole;

	pieces.data = data;
	pieces.len = len;
	zn_json_begin(&j, &o);
	zn_json_open(&j, '{');
	zn_json_reserve(&j, ZN_JSON_END);
	whole = zn_json_list(&j, "l", '[', piece, &(struct counted){&written});
	zn_json_end(&j, whole);
	check(o.len <= cap && (!o.full || cap < 1 + ZN_JSON_END));
	text = (struct zn_str){block, o.len};
	if (!o.full) {
		check(o.cap == cap && zn_json_check(text) == 0);
		list = zn_json_member(text, "l");
		while (zn_json_next(list, &at, &key, &value))
			read++;
		check(whole ? read == written && list.len : read + (list.len != 0) == written);
		check(whole == !zn_json_member(text, "truncated").len);
	}
	free(block);
}

/* Shortest of its kind: one digit less reads as another number. */
static void check_double(const uint8_t *data, size_t len)
{
	char text[32], shorter[32];
	struct zn_out o = {.at = text, .cap = sizeof(text) - 1};
	int digits = 0, e = 0;
	double v = 0;

	memcpy(&v, data, len < 8 ? len : 8);
	if (!isfinite(v))
		return;
	zn_out_double(&o, v);
	text[o.len] = 0;
	check(!o.full && zn_json_check((struct zn_str){text, o.len}) == 0 && strtod(text, NULL) == v);
	for (; digits < 17; digits++) {
		snprintf(shorter, sizeof(shorter), "%.*e", digits, v);
		if (strtod(shorter, NULL) == v)
			break;
	}
	sscanf(strchr(shorter, 'e'), "e%d", &e);
	check(o.len <= (size_t)digits + 2 + 1 + 5 && (e < 0 || e > 16 || o.len <= 19));
}

static void check_string(const uint8_t *data, size_t len)
{
	static char text[TEXT_MAX], want[TEXT_MAX], got[TEXT_MAX];
	struct zn_out o = {.at = text, .cap = sizeof(text)}, clean = {.at = want, .cap = sizeof(want)};
	struct zn_json j;

	zn_json_begin(&j, &o);
	zn_json_bytes(&j, (const char *)data, len);
	zn_out_utf8(&clean, (const char *)data, len);
	check(!o.full && !clean.full);
	check(zn_json_string((struct zn_str){text, o.len}, got, sizeof(got)) == clean.len);
	check(!memcmp(got, want, clean.len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	read_bytes(data, len);
	if (len > 4096)
		return 0;
	check_writer(data, len);
	check_list(data, len);
	check_double(data, len);
	check_string(data, len);
	return 0;
}
