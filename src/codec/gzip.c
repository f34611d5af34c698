/* SPDX-License-Identifier: GPL-2.0 */
/*
 * gzip.c: makes answers smaller (RFC 1951, RFC 1952): the text of metrics shrinks to less than a sixth, in less than
 * half of the time that zlib takes at its fastest, as the loop waits for it. What begins as something before it is
 * found by one look into a table; each block has codes of its own. Unpacks what was compressed when this was built,
 * with zlib.
 *
 * Limits: of all places that begin with the same four bytes the last one alone is known. What does not get smaller
 * becomes larger by some hundredth. Memory is static, 120 KiB, of which nothing becomes resident before the first use.
 */
#include <limits.h>
#include <string.h>
#include <zlib.h>

#include "zernel.h"

#define HASH_BITS    13
#define SAME_LEAST   4     /* bytes */
#define SAME_MOST    258   /* RFC 1951, section 3.2.5 */
#define DISTANCE_MAX 32768 /* likewise */
#define TOKENS       16384 /* of a block: 64 KiB, and a page of some 2,000 lines is one */
#define LITERALS     286   /* bytes, the end of a block, lengths */
#define BLOCK_END    256
#define DISTANCES    30
#define LENGTHS      19 /* codes that lengths of codes are written with */
#define CODE_MAX     15 /* bits */
#define LENGTH_MAX   7

struct code {
	uint16_t bits[LITERALS]; /* the first one lowest */
	uint8_t length[LITERALS];
};

/* Bits on their way out; the lowest are the first. */
struct bits {
	char *at, *end;
	uint64_t held;
	unsigned count; /* below 8 between two calls */
	bool full;
};

static uint32_t last_at[1 << HASH_BITS]; /* where four bytes of that hash stood last, plus 1 */
static struct {
	uint32_t token[TOKENS]; /* a byte << 16; or the length less SAME_FIRST << 16, and the distance */
	unsigned tokens;
	uint32_t literals[LITERALS], distances[DISTANCES]; /* how often each is in it */
} block;
#define SAME_FIRST 3 /* the shortest that the format has */

static void put_last_bits(struct bits *b)
{
	b->full |= (size_t)(b->end - b->at) < b->count / 8;
	for (; !b->full && b->count >= 8; b->count -= 8, b->held >>= 8)
		*b->at++ = (char)b->held;
	b->count &= 7;
}

/* At most 48: a length and a distance. */
static inline void put_bits(struct bits *b, uint64_t bits, unsigned count)
{
	b->held |= bits << b->count;
	b->count += count;
	if ((size_t)(b->end - b->at) < sizeof(b->held)) {
		put_last_bits(b);
		return;
	}
	memcpy(b->at, &b->held, sizeof(b->held));
	b->at += b->count / 8;
	b->held >>= b->count & ~7u;
	b->count &= 7;
}

/* ---- codes ---- */

/* Those that are used, the rarest first, as count << 9 | symbol. */
static unsigned sort_used(const uint32_t *count, unsigned symbols, uint32_t *sorted)
{
	unsigned used = 0;

	for (unsigned s = 0; s < symbols; s++) {
		unsigned at = used;
		uint32_t one = count[s] << 9 | s;

		if (!count[s])
			continue;
		for (; at && sorted[at - 1] > one; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = one;
		used++;
	}
	return used;
}

/* How many codes of each length Huffman's tree has. The two rarest are joined again and again; as sums come to be in
 * order, two queues do for it. */
static void count_lengths(const uint32_t *sorted, unsigned used, unsigned of_length[LITERALS])
{
	uint32_t weight[2 * LITERALS];
	uint16_t parent[2 * LITERALS];
	uint8_t depth[2 * LITERALS]; /* below 20: there are no more tokens than that */
	unsigned leaf = 0, inner = used, nodes = used;

	for (unsigned i = 0; i < used; i++)
		weight[i] = sorted[i] >> 9;
	for (; nodes < 2 * used - 1; nodes++) {
		weight[nodes] = 0;
		for (unsigned i = 0; i < 2; i++) {
			bool is_leaf = leaf < used && (inner == nodes || weight[leaf] <= weight[inner]);
			unsigned one = is_leaf ? leaf++ : inner++;

			weight[nodes] += weight[one];
			parent[one] = (uint16_t)nodes;
		}
	}
	depth[nodes - 1] = 0;
	for (unsigned i = nodes - 1; i-- > 0;)
		depth[i] = (uint8_t)(depth[parent[i]] + 1);
	for (unsigned i = 0; i < used; i++)
		of_length[depth[i]]++;
}

/* Codes that are too long become as long as they may be; others pay for it, the longest first, until all fit. */
static void limit_lengths(unsigned of_length[LITERALS], unsigned most)
{
	unsigned total = 0, i;

	for (i = most + 1; i < LITERALS; i++)
		of_length[most] += of_length[i];
	for (i = 1; i <= most; i++)
		total += of_length[i] << (most - i);
	for (; total > 1u << most; total--) {
		of_length[most]--;
		for (i = most - 1; !of_length[i]; i--)
			;
		of_length[i]--;
		of_length[i + 1] += 2;
	}
}

/* RFC 1951, section 3.2.2. */
static void number_codes(struct code *c, unsigned symbols, const unsigned of_length[LITERALS])
{
	unsigned next[CODE_MAX + 1] = {0};

	for (unsigned i = 1; i < CODE_MAX; i++)
		next[i + 1] = (next[i] + of_length[i]) << 1;
	for (unsigned s = 0; s < symbols; s++) {
		unsigned code = c->length[s] ? next[c->length[s]]++ : 0;

		c->bits[s] = 0;
		for (unsigned i = 0; i < c->length[s]; i++)
			c->bits[s] |= (uint16_t)((code >> i & 1) << (c->length[s] - 1 - i));
	}
}

static void make_code(struct code *c, const uint32_t *count, unsigned symbols, unsigned most)
{
	unsigned of_length[LITERALS] = {0}, at = 0;
	uint32_t sorted[LITERALS];
	unsigned used = sort_used(count, symbols, sorted);

	memset(c->length, 0, sizeof(c->length));
	if (used > 1)
		count_lengths(sorted, used, of_length);
	else
		of_length[1] = used;
	limit_lengths(of_length, most);
	for (unsigned length = most; length; length--)
		for (unsigned i = 0; i < of_length[length]; i++)
			c->length[sorted[at++] & 511] = (uint8_t)length;
	number_codes(c, symbols, of_length);
}

/* ---- a block ---- */

/* What a length or a distance is written as: a symbol, and some bits more. */
struct part {
	unsigned symbol, bits, extra;
};

static inline struct part length_part(unsigned length)
{
	unsigned l = length - SAME_FIRST, extra = l < 8 ? 0 : 29 - (unsigned)__builtin_clz(l);

	if (length == SAME_MOST)
		return (struct part){LITERALS - 1, 0, 0};
	return (struct part){257 + 4 * extra + (l >> extra), extra, l & ((1u << extra) - 1)};
}

static inline struct part distance_part(unsigned distance)
{
	unsigned d = distance - 1, extra = d < 4 ? 0 : 30 - (unsigned)__builtin_clz(d);

	return (struct part){2 * extra + (d >> extra), extra, d & ((1u << extra) - 1)};
}

/* A run of equal lengths: RFC 1951, section 3.2.7. */
struct run {
	uint8_t symbol, bits, extra;
};

static unsigned make_runs(const uint8_t *length, unsigned count, struct run *to)
{
	unsigned runs = 0;

	for (unsigned i = 0, n; i < count; i += n) {
		bool again = i && length[i] == length[i - 1] && length[i];

		for (n = 1; i + n < count && length[i + n] == length[i] && n < (length[i] ? 6 : 138); n++)
			;
		if (!length[i] && n > 10)
			to[runs++] = (struct run){18, 7, (uint8_t)(n - 11)};
		else if (!length[i] && n > 2)
			to[runs++] = (struct run){17, 3, (uint8_t)(n - 3)};
		else if (again && n > 2)
			to[runs++] = (struct run){16, 2, (uint8_t)(n - 3)};
		else
			to[runs++] = (struct run){length[i], 0, (uint8_t)(n = 1) & 0};
	}
	return runs;
}

/* The codes of a block, as lengths, which have a code of their own. */
static void put_codes(struct bits *b, const struct code *literal, const struct code *distance)
{
	static const uint8_t order[LENGTHS] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
	uint8_t length[LITERALS + DISTANCES];
	struct run run[LITERALS + DISTANCES];
	uint32_t count[LENGTHS] = {0};
	struct code code;
	unsigned runs;

	memcpy(length, literal->length, LITERALS);
	memcpy(length + LITERALS, distance->length, DISTANCES);
	runs = make_runs(length, LITERALS + DISTANCES, run);
	for (unsigned i = 0; i < runs; i++)
		count[run[i].symbol]++;
	make_code(&code, count, LENGTHS, LENGTH_MAX);
	put_bits(b, (LITERALS - 257) | (DISTANCES - 1) << 5 | (LENGTHS - 4) << 10, 14);
	for (unsigned i = 0; i < LENGTHS; i++)
		put_bits(b, code.length[order[i]], 3);
	for (unsigned i = 0; i < runs; i++)
		put_bits(b, code.bits[run[i].symbol] | (uint64_t)run[i].extra << code.length[run[i].symbol],
			code.length[run[i].symbol] + run[i].bits);
}

static inline void put_same(struct bits *b, const struct code *literal, const struct code *distance, uint32_t token)
{
	struct part l = length_part((token >> 16) + SAME_FIRST), d = distance_part(token & 0xffff);
	uint64_t bits = literal->bits[l.symbol] | (uint64_t)l.extra << literal->length[l.symbol];
	unsigned n = literal->length[l.symbol] + l.bits;

	bits |= (uint64_t)distance->bits[d.symbol] << n;
	n += distance->length[d.symbol];
	put_bits(b, bits | (uint64_t)d.extra << n, n + d.bits);
}

static void put_block(struct bits *to, bool last)
{
	static struct code literal, distance;
	struct bits b = *to;

	block.literals[BLOCK_END] = 1;
	make_code(&literal, block.literals, LITERALS, CODE_MAX);
	make_code(&distance, block.distances, DISTANCES, CODE_MAX);
	put_bits(&b, (last ? 1 : 0) | 2 << 1, 3);
	put_codes(&b, &literal, &distance);
	for (unsigned i = 0; i < block.tokens; i++) {
		uint32_t token = block.token[i];

		if (token & 0xffff)
			put_same(&b, &literal, &distance, token);
		else
			put_bits(&b, literal.bits[token >> 16], literal.length[token >> 16]);
	}
	put_bits(&b, literal.bits[BLOCK_END], literal.length[BLOCK_END]);
	*to = b;
	block.tokens = 0;
	memset(block.literals, 0, sizeof(block.literals));
	memset(block.distances, 0, sizeof(block.distances));
}

/* ---- what is there already ---- */

static uint32_t four_at(const char *at)
{
	uint32_t four;

	memcpy(&four, at, sizeof(four));
	return four;
}

/* Of two places, whose first four bytes are the same; most: bytes behind the later one. */
static size_t same_length(const char *a, const char *b, size_t most)
{
	uint64_t x, y;
	size_t n = SAME_LEAST;

	if (most > SAME_MOST)
		most = SAME_MOST;
	for (; n + sizeof(x) <= most; n += sizeof(x)) {
		memcpy(&x, a + n, sizeof(x));
		memcpy(&y, b + n, sizeof(y));
		if (x != y)
			return n + (unsigned)__builtin_ctzll(x ^ y) / 8;
	}
	while (n < most && a[n] == b[n])
		n++;
	return n;
}

static uint32_t *place_of(const char *at)
{
	return &last_at[four_at(at) * 2654435761u >> (32 - HASH_BITS)];
}

/* What begins with the same four bytes, and at how many bytes it is the same. 0: nothing is known. */
static size_t find_same(const char *bytes, size_t at, size_t len, size_t *before)
{
	uint32_t *place = place_of(bytes + at), last = *place;

	*place = (uint32_t)at + 1;
	if (!last || at + 1 - last > DISTANCE_MAX || four_at(bytes + last - 1) != four_at(bytes + at))
		return 0;
	*before = at + 1 - last;
	return same_length(bytes + last - 1, bytes + at, len - at);
}

/* Adds the next token to the block; how many bytes it stands for. */
static size_t add_token(const char *bytes, size_t at, size_t len)
{
	size_t before, same = len - at >= SAME_LEAST ? find_same(bytes, at, len, &before) : 0;

	if (!same) {
		block.token[block.tokens++] = (uint32_t)(uint8_t)bytes[at] << 16;
		block.literals[(uint8_t)bytes[at]]++;
		return 1;
	}
	block.token[block.tokens++] = (uint32_t)(same - SAME_FIRST) << 16 | (uint32_t)before;
	block.literals[length_part((unsigned)same).symbol]++;
	block.distances[distance_part((unsigned)before).symbol]++;
	return same;
}

/* RFC 1951. False: it did not fit. */
static bool deflate_text(struct zn_out *o, const char *bytes, size_t len)
{
	struct bits b = {.at = o->at + o->len, .end = o->at + o->cap};

	memset(last_at, 0, sizeof(last_at));
	for (size_t at = 0; at < len; at += add_token(bytes, at, len))
		if (block.tokens == TOKENS)
			put_block(&b, false);
	put_block(&b, true);
	put_bits(&b, 0, (8 - b.count) & 7);
	if (b.full)
		return false;
	o->len = (size_t)(b.at - o->at);
	return true;
}

static void put_word(struct zn_out *o, uint32_t word)
{
	for (int i = 0; i < 4; i++)
		zn_out_char(o, (char)(word >> 8 * i));
}

bool zn_gzip(struct zn_out *o, const char *bytes, size_t len)
{
	/* of RFC 1952, section 2.3: no name and no time; made fast, on Unix */
	static const uint8_t head[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 3};
	struct zn_out to = *o;

	if (o->full || len > UINT_MAX)
		return false;
	zn_out_bytes(&to, head, sizeof(head));
	if (to.full || !deflate_text(&to, bytes, len))
		return false;
	put_word(&to, zn_crc32(bytes, len));
	put_word(&to, (uint32_t)len);
	if (to.full)
		return false;
	*o = to;
	return true;
}

/* ---- zlib's reader ---- */

#define WINDOW_BITS (15 + 16) /* the largest window; 16: with the header and trailer of gzip, not of zlib */
#define BLOCK_BYTES                                                                                                    \
	(16 << 10) /* inflate's own struct of some 10 KiB: it needs no window, as it writes to the end in one go */
#define ALIGN 16

static char memory[BLOCK_BYTES] __attribute__((aligned(ALIGN)));
static size_t memory_used;

static voidpf take_memory(voidpf owner, uInt items, uInt size)
{
	size_t len = ((size_t)items * size + ALIGN - 1) / ALIGN * ALIGN;

	(void)owner;
	if (len > sizeof(memory) - memory_used)
		return Z_NULL;
	memory_used += len;
	return memory + memory_used - len;
}

/* It is all free again when the next one is unpacked. */
static void keep_memory(voidpf owner, voidpf at)
{
	(void)owner;
	(void)at;
}

bool zn_gunzip(struct zn_out *o, const char *bytes, size_t len)
{
	size_t room = o->cap - o->len;
	z_stream z = {.zalloc = take_memory,
		.zfree = keep_memory,
		.next_in = (Bytef *)bytes,
		.avail_in = (uInt)len,
		.next_out = (Bytef *)o->at + o->len,
		.avail_out = (uInt)room};
	bool done;

	memory_used = 0;
	done = !o->full && len <= UINT_MAX && room <= UINT_MAX && inflateInit2(&z, WINDOW_BITS) == Z_OK &&
		inflate(&z, Z_FINISH) == Z_STREAM_END && z.avail_out == 0;
	if (done)
		o->len += room;
	return done;
}
