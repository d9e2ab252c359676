/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The aggregation protocol on the wire: the headers that follow UDP, as C.
 *
 * The normative text is docs/protocol.md, and a test compares that page with this file. Types and
 * operations are in pktbuf/wire/types.h, collectives in pktbuf/wire/collectives.h. The switch and
 * the hosts' library include these files, which need no DPDK.
 *
 *   Ethernet / IPv4 / UDP / weir_base [/ weir_ext] / payload
 *
 * The base form (12 bytes, Trio-ML's own) goes to UDP port 12000, the extended form (12 + 4 bytes)
 * to 12001; both ports are configurable. Header fields are big-endian, bits most significant first;
 * payload elements are little-endian.
 */
#ifndef PKTBUF_WIRE_H
#define PKTBUF_WIRE_H

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "pktbuf/wire/collectives.h"
#include "pktbuf/wire/types.h"

#define WEIR_PORT_BASE    12000 /* default UDP port of the base form */
#define WEIR_PORT_EXT     12001 /* default UDP port of the extended form */
#define WEIR_PORTS_MAX    16 /* UDP ports of a form */
#define WEIR_PORT_UP      12033 /* default UDP port of a leaf for its parents, above the others */
#define WEIR_JOBS_MAX     256 /* job ids are [0, 256) */
#define WEIR_ELEMENTS_MAX 4095 /* grad_cnt has 12 bits */
#define WEIR_BASE_BYTES   12
#define WEIR_EXT_BYTES    16 /* base header and extension */
#define WEIR_CRC_BYTES    4
#define WEIR_GEN_JOIN     0 /* gen_id of a join; never the generation of a running job */

/* age_op and ext.status: the outcome of the block. Fits the 4 bits of age_op. */
#define WEIR_STATUS_LIST(X)                                                                        \
	X(OK, 0, "ok", "every source is in the result")                                            \
	X(PARTIAL, 1, "partial", "timed out: the sources of the bitmap are in the result")         \
	X(ERROR, 2, "error",                                                                       \
		"timed out: the block failed; the bitmap has the sources that contributed")        \
	X(WAITING, 3, "waiting", "not complete yet; the bitmap has the sources that contributed")  \
	X(EXPIRED, 4, "expired", "the block is over and its result is gone")                       \
	X(STALE, 5, "stale", "the packet's generation is not the job's: join again")               \
	X(MISMATCH, 6, "mismatch", "contributions disagree; the payload names the field")          \
	X(WINDOW, 7, "out-of-window", "the block is ahead of what the job's window allows")        \
	X(UNSUPPORTED, 8, "unsupported", "this collective, type or operation is not served here")  \
	X(REFUSED, 9, "refused",                                                                   \
		"there is no such job, this source is not in it, or its address is not the "       \
		"source's")                                                                        \
	X(DISPLACED, 10, "displaced",                                                              \
		"a newer join has taken the source's place; the payload names its sender")

enum weir_status {
#define X(name, code, text, help) WEIR_STATUS_##name = code,
	WEIR_STATUS_LIST(X)
#undef X
};

/* src_cnt of `stale`: why the generation is over. The texts are those of docs/protocol.md and of
 * libweir's errors. */
#define WEIR_OVER_LIST(X)                                                                          \
	X(UNSAID, 0,                                                                               \
		"the switch was restarted, the job was created again, or a host or a switch "      \
		"joined again")                                                                    \
	X(NONE, 1, "the switch was restarted, or the job was created again")                       \
	X(JOINED, 2, "a host or a switch joined again")                                            \
	X(SILENT, 3,                                                                               \
		"a switch of the tree got no answers from its parent and took it for dead; its "   \
		"log names the parent")                                                            \
	X(EXPELLED, 4, "a parent in the tree expelled a switch that was silent for too long")      \
	X(GONE, 5, "a parent in the tree no longer has the job, or no longer has the switch in it")

enum weir_over {
#define X(name, code, text) WEIR_OVER_##name = code,
	WEIR_OVER_LIST(X)
#undef X
};

/* ext.flags */
#define WEIR_FLAG_BASE_RESULTS  0x1 /* in a join: results in the base form are wanted */
#define WEIR_FLAG_AUTHENTICATED 0x2 /* a tag ends the packet */
#define WEIR_FLAG_UP            0x4 /* from a switch to its parent: docs/tree.md */
#define WEIR_FLAG_SKIPS_OWN     0x8 /* in a host's join: it would leave out its own slices */
#define WEIR_FLAG_CRC           0x8 /* in all others: a CRC ends the packet */

/* The base header. All multi-byte fields big-endian. */
struct weir_base {
	uint8_t job_id;
	uint8_t block_id[4];
	uint8_t age_final; /* age_op:4 final:1 degraded:1 reserved:2 */
	uint8_t src_id; /* contribution: the source; unicast result: the receiver; multicast: 0 */
	uint8_t src_cnt; /* result: sources in it, 256 is sent as 0; stale: why; contribution: 0 */
	uint8_t gen_id[2];
	uint8_t grad_cnt[2]; /* reserved:4 grad_cnt:12 */
};
static_assert(sizeof(struct weir_base) == WEIR_BASE_BYTES, "the base header has 12 bytes");

#define WEIR_AGE_SHIFT 4
#define WEIR_FINAL     0x08
#define WEIR_DEGRADED  0x04

/* The extension, right behind the base header on the extended port. */
struct weir_extension {
	uint8_t collective_op; /* collective:4 op:4 */
	uint8_t dtype_flags; /* dtype:4 flags:4 */
	uint8_t root;
	uint8_t status;
};
static_assert(sizeof(struct weir_extension) == WEIR_EXT_BYTES - WEIR_BASE_BYTES, "4 bytes");

/* The payload of an accepted join's reply, or its first part: pktbuf/wire/settings.h. */
struct weir_join_reply {
	uint8_t window[2]; /* blocks in flight at most, a power of two */
	uint8_t elements[2]; /* WEIR_JOIN_MUST_ bits:4, elements per block at most:12, [1, 4095] */
	uint8_t sources[2]; /* sources of the job, [1, 256] */
	uint8_t dtype_op; /* dtype:4 op:4 that the base form means in this job */
	uint8_t flags; /* UDP ports of each form besides its own:4, WEIR_JOIN_ bits:4 */
	uint8_t timeout_ms[4]; /* the job's block timeout */
	union {
		uint8_t group[4]; /* to a host: the multicast group of the results, or 0.0.0.0 */
		struct {
			uint8_t agreed; /* WEIR_JOIN_UP_ bits */
			uint8_t dead_after[3]; /* ms */
		} up; /* to a switch: settings of which the host need not know */
	};
};
static_assert(sizeof(struct weir_join_reply) == 16, "16 bytes");
#define WEIR_JOIN_UP_POLICY        0x3 /* 0: wait; 1: partial; 2: error */
#define WEIR_JOIN_UP_DETERMINISTIC 0x4
#define WEIR_JOIN_UP_REVOKE        0x8
#define WEIR_JOIN_MULTICAST        0x1 /* results come by multicast */
#define WEIR_JOIN_AUTHENTICATED    0x2 /* all packets of the job have tags */
#define WEIR_JOIN_NARROW           0x4 /* narrow types travel upward as they are */
#define WEIR_JOIN_SKIPS_OWN        0x8 /* to this host: its own slices are left out, both ways */
#define WEIR_JOIN_PORTS_SHIFT      4

/* What a host must understand to take part: it refuses a job with other bits. */
#define WEIR_JOIN_MUST_SHIFT    12
#define WEIR_JOIN_MUST_ALLTOALL 0x1 /* blocks of alltoall have room for full rows: row_room() */
#define WEIR_JOIN_MUST_LIST     0x2 /* a list of settings follows these 16 bytes */
#define WEIR_JOIN_MUST_CRC32C   0x8 /* a CRC ends packets other than joins, and this reply */
#define WEIR_JOIN_MUST_KNOWN    0xb /* all of these */

/*
 * Proved joins and authentication: docs/protocol.md, "Proved joins". Keys are derived with
 * HMAC-SHA256 under these labels; a tag is GMAC with AES-256 in contributions and results,
 * HMAC-SHA256 elsewhere.
 */
#define WEIR_TAG_BYTES        16
#define WEIR_CHALLENGE_BYTES  16
#define WEIR_GMAC_IV_BYTES    12 /* slice:24, status:8, number of the block:64 */
#define WEIR_IV_CONTRIBUTION  0 /* in place of the status, in what sources send */
#define WEIR_IV_ACKNOWLEDGE   1
#define WEIR_IV_PROBE         2
#define WEIR_LABEL_SOURCE     "weir source" /* src_id, epoch: a source's key, from the job's */
#define WEIR_LABEL_RESULTS    "weir results" /* challenge, gen_id: GMAC's key, from the job's */
#define WEIR_LABEL_GENERATION "weir generation" /* the same: GMAC's key, from a source's */
#define WEIR_LABEL_WRAP       "weir wrap" /* nonce, challenge, gen_id: hides the results' key */
#define WEIR_LABEL_JOIN       "weir join" /* address, UDP port, header, payload: tag of a join */
#define WEIR_LABEL_REPLY      "weir reply" /* what is answered, header, payload: of a reply */

/* The payload of a proved join. A tag follows. */
struct weir_join_proof {
	uint8_t challenge[WEIR_CHALLENGE_BYTES]; /* the switch's; zeros ask for it */
	uint8_t nonce[WEIR_CHALLENGE_BYTES]; /* the source's */
	uint8_t count[4]; /* transmissions of the join with this nonce, this one included */
};
static_assert(sizeof(struct weir_join_proof) == 36, "36 bytes");

/* The payload of `displaced`: from where the newer join came. */
struct weir_displaced {
	uint8_t address[4]; /* IPv4 */
	uint8_t port[2]; /* UDP */
	uint8_t mac[6];
};
static_assert(sizeof(struct weir_displaced) == 12, "12 bytes");

/* The payload of a mismatch reply. */
struct weir_mismatch {
	uint8_t field; /* enum weir_field */
	uint8_t source; /* the source whose contribution opened the block */
	uint8_t block[2]; /* the value that the block has */
	uint8_t other; /* the source whose contribution disagrees */
	uint8_t reserved;
	uint8_t offered[2]; /* the value that the other offered */
};
static_assert(sizeof(struct weir_mismatch) == 8, "8 bytes");

/* What contributions of one block can disagree in. */
#define WEIR_FIELD_LIST(X)                                                                         \
	X(COLLECTIVE, 1, "collective")                                                             \
	X(OP, 2, "op")                                                                             \
	X(DTYPE, 3, "type")                                                                        \
	X(ROOT, 4, "root")                                                                         \
	X(LENGTH, 5, "grad_cnt")                                                                   \
	X(FINAL, 6, "final")

enum weir_field {
#define X(name, code, text) WEIR_FIELD_##name = code,
	WEIR_FIELD_LIST(X)
#undef X
};

/* A header as numbers: what both forms decode to and encode from. */
struct weir_header {
	uint32_t block_id;
	uint16_t gen_id;
	uint16_t grad_cnt;
	uint8_t job_id;
	uint8_t src_id;
	uint8_t src_cnt;
	uint8_t status; /* enum weir_status; age_op in the base form, both in the extended one */
	uint8_t collective;
	uint8_t op;
	uint8_t dtype;
	uint8_t root;
	uint8_t flags;
	bool final;
	bool degraded;
	bool extended; /* the form */
};

/* Bytes of the header in its form. */
static inline unsigned int
weir_header_bytes(bool extended)
{
	return extended ? WEIR_EXT_BYTES : WEIR_BASE_BYTES;
}

static inline uint16_t
weir_get16(const uint8_t b[2])
{
	return (uint16_t)((unsigned int)b[0] << 8 | b[1]);
}

static inline uint32_t
weir_get32(const uint8_t b[4])
{
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static inline void
weir_put16(uint8_t b[2], uint16_t v)
{
	b[0] = (uint8_t)(v >> 8);
	b[1] = (uint8_t)v;
}

static inline void
weir_put32(uint8_t b[4], uint32_t v)
{
	b[0] = (uint8_t)(v >> 24);
	b[1] = (uint8_t)(v >> 16);
	b[2] = (uint8_t)(v >> 8);
	b[3] = (uint8_t)v;
}

/*
 * Read the header at `p`, which has at least weir_header_bytes(h->extended) readable bytes.
 * In: h->extended says which form. The base form leaves collective, op, dtype, root and flags
 * as the caller set them (the job's defaults). Any 12 or 16 bytes decode; ranges are the
 * caller's to check. Reserved bits are ignored.
 */
static inline void
weir_header_read(struct weir_header *h, const uint8_t *p)
{
	h->job_id = p[0];
	h->block_id = weir_get32(p + 1);
	h->status = p[5] >> WEIR_AGE_SHIFT;
	h->final = (p[5] & WEIR_FINAL) != 0;
	h->degraded = (p[5] & WEIR_DEGRADED) != 0;
	h->src_id = p[6];
	h->src_cnt = p[7];
	h->gen_id = weir_get16(p + 8);
	h->grad_cnt = weir_get16(p + 10) & WEIR_ELEMENTS_MAX;
	if (!h->extended)
		return;
	h->collective = p[12] >> 4;
	h->op = p[12] & 0xf;
	h->dtype = p[13] >> 4;
	h->flags = p[13] & 0xf;
	h->root = p[14];
	h->status |= p[15]; /* the two agree in every packet that means something */
}

/* Write the header in its form (h->extended) to `p`; returns the bytes written, 12 or 16. */
static inline unsigned int
weir_header_write(const struct weir_header *h, uint8_t *p)
{
	p[0] = h->job_id;
	weir_put32(p + 1, h->block_id);
	p[5] = (uint8_t)(h->status << WEIR_AGE_SHIFT | (h->final ? WEIR_FINAL : 0) |
		(h->degraded ? WEIR_DEGRADED : 0));
	p[6] = h->src_id;
	p[7] = h->src_cnt;
	weir_put16(p + 8, h->gen_id);
	weir_put16(p + 10, h->grad_cnt & WEIR_ELEMENTS_MAX);
	if (!h->extended)
		return WEIR_BASE_BYTES;
	p[12] = (uint8_t)(h->collective << 4 | (h->op & 0xf));
	p[13] = (uint8_t)(h->dtype << 4 | (h->flags & 0xf));
	p[14] = h->root;
	p[15] = h->status;
	return WEIR_EXT_BYTES;
}

/* The number in place of the status in the nonce of a source's tag. */
static inline uint8_t
weir_iv(unsigned int collective)
{
	if (collective == WEIR_COLLECTIVE_ACKNOWLEDGE)
		return WEIR_IV_ACKNOWLEDGE;
	return collective == WEIR_COLLECTIVE_PROBE ? WEIR_IV_PROBE : WEIR_IV_CONTRIBUTION;
}

/*
 * What the CRC of a packet from the switch covers in place of its header: the same header in the
 * extended form. src_id counts as 0 in results to all, which share a CRC if they are equal. Type
 * and operation count as 0 if there are no elements. docs/protocol.md, "Integrity".
 */
static inline void
weir_header_covered(const struct weir_header *h, uint8_t covered[WEIR_EXT_BYTES])
{
	const bool whole = h->status == WEIR_STATUS_OK || h->status == WEIR_STATUS_PARTIAL;
	struct weir_header c = *h;

	c.extended = true;
	if ((whole && collective_table[h->collective].to == TO_ALL) ||
		h->status == WEIR_STATUS_ERROR || h->status == WEIR_STATUS_MISMATCH)
		c.src_id = 0;
	if (h->grad_cnt == 0)
		c.op = c.dtype = 0;
	weir_header_write(&c, covered);
}

/*
 * Block numbers wrap at 2^32 and are compared as RFC 1982 serial numbers: negative when a is
 * before b, 0 when equal, positive when after. Valid while they are less than 2^31 apart, which
 * the window (at most 4096) guarantees.
 */
static inline int32_t
weir_block_diff(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b);
}

/* What the bits of a floating-point type mean: its exponent and fraction, the bits of its least
 * magnitude that is no finite number, and its canonical NaN. All 0 for other types. */
struct weir_float {
	unsigned int exponent_bits, fraction_bits;
	uint64_t infinity; /* of a type without infinities: its NaN */
	uint64_t nan;
};

static inline struct weir_float
weir_dtype_float(unsigned int dtype)
{
#define SIGNED(e, f)                                                                               \
	{                                                                                          \
		0, 0, 0, 0                                                                         \
	}
#define UNSIGNED(e, f)                                                                             \
	{                                                                                          \
		0, 0, 0, 0                                                                         \
	}
#define FLOAT(e, f)                                                                                \
	{                                                                                          \
		e, f, ((UINT64_C(1) << e) - 1) << f, ((UINT64_C(2) << e) - 1) << f >> 1            \
	}
#define FINITE(e, f)                                                                               \
	{                                                                                          \
		e, f, (UINT64_C(1) << (e + f)) - 1, (UINT64_C(1) << (e + f)) - 1                   \
	}
#define X(name, code, text, bytes, kind, e, f) [code] = kind(e, f),
	static const struct weir_float table[WEIR_DTYPES] = {WEIR_DTYPE_LIST(X)};
#undef X
#undef SIGNED
#undef UNSIGNED
#undef FLOAT
#undef FINITE
	return table[dtype < WEIR_DTYPES ? dtype : WEIR_DTYPE_INT8];
}

/*
 * The switch's UDP port for packets of this block, by the block's residue: one of `ports`, [1,
 * WEIR_PORTS_MAX], that begin at the form's own port `first` and are 2 apart. window: of the job.
 * docs/protocol.md, "Ports".
 */
static inline uint16_t
weir_block_port(uint16_t first, unsigned int ports, uint8_t job_id, uint16_t window, uint32_t block)
{
	return (uint16_t)(first + 2 * ((job_id + (block & (window - 1u))) % ports));
}

/* Texts for people; "?" for codes that do not exist. */
#define WEIR_TEXT(function, LIST)                                                                  \
	static inline const char *function(unsigned int code)                                      \
	{                                                                                          \
		switch (code) {                                                                    \
			LIST(WEIR_TEXT_CASE)                                                       \
		default: return "?";                                                               \
		}                                                                                  \
	}
#define WEIR_TEXT_CASE(name, code, text, ...)                                                      \
	case code: return text;

/* The code of a text; -EINVAL when there is none. */
#define WEIR_PARSE(function, LIST)                                                                 \
	static inline int function(const char *word)                                               \
	{                                                                                          \
		LIST(WEIR_PARSE_CASE)                                                              \
		return -EINVAL;                                                                    \
	}
#define WEIR_PARSE_CASE(name, code, text, ...)                                                     \
	if (strcmp(word, text) == 0)                                                               \
		return code;

WEIR_TEXT(weir_status_text, WEIR_STATUS_LIST)
WEIR_TEXT(weir_field_text, WEIR_FIELD_LIST)
WEIR_TEXT(weir_over_text, WEIR_OVER_LIST)
WEIR_TEXT(weir_collective_text, WEIR_COLLECTIVE_LIST)
WEIR_TEXT(weir_dtype_text, WEIR_DTYPE_LIST)
WEIR_TEXT(weir_op_text, WEIR_OP_LIST)
WEIR_PARSE(weir_collective_parse, WEIR_COLLECTIVE_LIST)
WEIR_PARSE(weir_dtype_parse, WEIR_DTYPE_LIST)
WEIR_PARSE(weir_op_parse, WEIR_OP_LIST)

#endif
