/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The payload of a join's reply `ok`: the settings of the job. docs/protocol.md, "The list of
 * settings".
 *
 *   struct weir_join_reply [/ length:16 / entries]       entry: type:8 length:8 value
 *
 * The first 16 bytes are full. To a join that asks for it, a list of all settings follows. A new
 * setting goes into the list alone: a receiver that does not know it skips it, or, if the type's
 * first bit is set, refuses the job. A setting that is 0 is not sent. So 0 must mean what a switch
 * does that does not know the setting.
 *
 * To add a setting: add its line here and in ctrl/config/job_settings.h, its value in
 * announce_settings() of ppe/collective/membership/announce.c, its use and its test.
 */
#ifndef PKTBUF_WIRE_SETTINGS_H
#define PKTBUF_WIRE_SETTINGS_H

#include <stddef.h>

#include "pktbuf/wire/wire.h"

/*
 * X(name, code, key, bytes, must, to, most)
 *
 * code   [1, 127], never that of another setting, even of a former one
 * key    its name in the configuration
 * bytes  of the value: 1, 2 or 4
 * must   a receiver that does not know it refuses the job
 * to     HOST, SWITCH (a child in a tree), BOTH
 * most   the greatest value with a meaning
 */
#define WEIR_SETTING_LIST(X)                                                                       \
	X(WINDOW, 1, "window", 2, true, BOTH, UINT16_MAX)                                          \
	X(ELEMENTS, 2, "elements", 2, true, BOTH, UINT16_MAX)                                      \
	X(TIMEOUT, 3, "timeout_ms", 4, false, BOTH, UINT32_MAX)                                    \
	X(TYPE, 4, "type", 1, true, BOTH, UINT8_MAX)                                               \
	X(OP, 5, "op", 1, true, BOTH, UINT8_MAX)                                                   \
	X(INTEGRITY, 6, "integrity", 1, true, BOTH, 1)                                             \
	X(AUTHENTICATE, 7, "authenticate", 1, true, BOTH, 1)                                       \
	X(RESULTS, 8, "results", 4, true, HOST, UINT32_MAX)                                        \
	X(ALLTOALL, 9, "alltoall", 1, true, HOST, 1)                                               \
	X(POLICY, 10, "policy", 1, true, SWITCH, 2)                                                \
	X(DETERMINISTIC, 11, "deterministic", 1, true, SWITCH, 1)                                  \
	X(NARROW, 12, "narrow", 1, true, SWITCH, 1)                                                \
	X(REJOIN, 13, "rejoin", 1, true, SWITCH, 1)                                                \
	X(DEAD_AFTER, 14, "dead_after_ms", 4, true, SWITCH, UINT32_MAX)

enum weir_setting {
#define X(name, code, ...) WEIR_SETTING_##name = code,
	WEIR_SETTING_LIST(X)
#undef X
		WEIR_SETTINGS, /* one more than the last code */
};

#define WEIR_SETTING_TO_HOST   1u
#define WEIR_SETTING_TO_SWITCH 2u
#define WEIR_SETTING_TO_BOTH   3u

struct weir_setting_row {
	const char *key;
	uint32_t most;
	uint8_t bytes; /* 0: no setting has this code */
	uint8_t to; /* WEIR_SETTING_TO_ */
	bool must;
};

static const struct weir_setting_row weir_setting_table[WEIR_SETTINGS] = {
#define X(name, code, key, bytes, must, to, most)                                                  \
	[code] = {key, most, bytes, WEIR_SETTING_TO_##to, must},
	WEIR_SETTING_LIST(X)
#undef X
};

#define WEIR_JOIN_ASKS_LIST     0x1 /* in a join's op: its sender takes the list */
#define WEIR_SETTING_MUST       0x80 /* in an entry's type */
#define WEIR_SETTINGS_LIST_MOST 128 /* bytes of entries */
#define WEIR_ACCEPTED_MOST      (sizeof(struct weir_join_reply) + 2 + WEIR_SETTINGS_LIST_MOST)

/* All have room in a list. */
#define X(name, code, key, bytes, ...) +(2 + bytes)
static_assert(WEIR_SETTING_LIST(X) <= WEIR_SETTINGS_LIST_MOST, "too many settings");
#undef X

/* What a join's reply `ok` says, as numbers. */
struct weir_accepted {
	uint32_t setting[WEIR_SETTINGS]; /* by enum weir_setting */
	uint16_t sources; /* of the job, [1, 256] */
	uint8_t more_ports; /* UDP ports of each form besides its own */
	bool skips_own; /* this host's own slices are left out */
	/* Only read: the code of a setting that the receiver must know, but does not, or not its
	 * value; WEIR_SETTING_MUST: an unknown option of the 16 bytes. 0: none. */
	uint8_t unknown;
};

/* Does the option say that a CRC ends the reply to a join without a proof? */
static inline bool
weir_accepted_has_crc(const uint8_t *payload, size_t bytes)
{
	return bytes >= sizeof(struct weir_join_reply) &&
		(payload[offsetof(struct weir_join_reply, elements)] >> 4 &
			WEIR_JOIN_MUST_CRC32C) != 0;
}

/*
 * Write the settings of a reply to a host or to a switch (up), with the list if the join asked for
 * it, to `p`, which has WEIR_ACCEPTED_MOST bytes. Returns the bytes written.
 */
static inline unsigned int
weir_accepted_write(const struct weir_accepted *a, bool up, bool list, uint8_t *p)
{
	const uint32_t *v = a->setting;
	const unsigned int to = up ? WEIR_SETTING_TO_SWITCH : WEIR_SETTING_TO_HOST;
	struct weir_join_reply r = {
		.dtype_op = (uint8_t)(v[WEIR_SETTING_TYPE] << 4 | v[WEIR_SETTING_OP]),
		.flags = (uint8_t)((v[WEIR_SETTING_RESULTS] != 0 ? WEIR_JOIN_MULTICAST : 0) |
			(v[WEIR_SETTING_AUTHENTICATE] != 0 ? WEIR_JOIN_AUTHENTICATED : 0) |
			(v[WEIR_SETTING_NARROW] != 0 ? WEIR_JOIN_NARROW : 0) |
			(a->skips_own ? WEIR_JOIN_SKIPS_OWN : 0) |
			a->more_ports << WEIR_JOIN_PORTS_SHIFT),
	};
	uint8_t *at = p + sizeof(r) + 2;

	weir_put16(r.window, (uint16_t)v[WEIR_SETTING_WINDOW]);
	weir_put16(r.elements,
		(uint16_t)(v[WEIR_SETTING_ELEMENTS] |
			((v[WEIR_SETTING_ALLTOALL] != 0 ? WEIR_JOIN_MUST_ALLTOALL : 0) |
				(v[WEIR_SETTING_INTEGRITY] != 0 ? WEIR_JOIN_MUST_CRC32C : 0) |
				(list ? WEIR_JOIN_MUST_LIST : 0))
				<< WEIR_JOIN_MUST_SHIFT));
	weir_put16(r.sources, a->sources);
	weir_put32(r.timeout_ms, v[WEIR_SETTING_TIMEOUT]);
	weir_put32(r.group, v[up ? WEIR_SETTING_DEAD_AFTER : WEIR_SETTING_RESULTS]);
	if (up)
		r.up.agreed = (uint8_t)(v[WEIR_SETTING_POLICY] |
			(v[WEIR_SETTING_DETERMINISTIC] != 0 ? WEIR_JOIN_UP_DETERMINISTIC : 0) |
			(v[WEIR_SETTING_REJOIN] != 0 ? WEIR_JOIN_UP_REVOKE : 0));
	memcpy(p, &r, sizeof(r));
	if (!list)
		return sizeof(r);
	for (unsigned int s = 1; s < WEIR_SETTINGS; s++) {
		const struct weir_setting_row *row = &weir_setting_table[s];

		if (v[s] == 0 || (row->to & to) == 0)
			continue;
		*at++ = (uint8_t)(s | (row->must ? WEIR_SETTING_MUST : 0));
		*at++ = row->bytes;
		for (unsigned int b = row->bytes; b-- > 0;)
			*at++ = (uint8_t)(v[s] >> 8 * b);
	}
	weir_put16(p + sizeof(r), (uint16_t)(at - p - (ptrdiff_t)sizeof(r) - 2));
	return (unsigned int)(at - p);
}

/* Read the entries in [at, end) into cleared settings. false: they are malformed. */
static inline bool
weir_settings_read(const uint8_t *at, const uint8_t *end, struct weir_accepted *a)
{
	uint64_t seen[2] = {0};

	for (; at < end; at += 2 + at[1]) {
		unsigned int code = at[0] & ~(unsigned int)WEIR_SETTING_MUST;
		const struct weir_setting_row *row = &weir_setting_table[code % WEIR_SETTINGS];
		bool known = code < WEIR_SETTINGS && row->bytes != 0;

		if (end - at < 2 || end - at < 2 + at[1] || code == 0 ||
			(known && at[1] != row->bytes) || (seen[code / 64] >> code % 64 & 1) != 0)
			return false;
		seen[code / 64] |= UINT64_C(1) << code % 64;
		for (unsigned int b = 0; known && b < at[1]; b++)
			a->setting[code] = a->setting[code] << 8 | at[2 + b];
		if ((at[0] & WEIR_SETTING_MUST) != 0 && a->unknown == 0 &&
			(!known || a->setting[code] > row->most))
			a->unknown = (uint8_t)code;
	}
	return true;
}

/*
 * Read the settings of a reply to a host or to a switch (up): from the list if there is one, else
 * from the 16 bytes. Returns the bytes that they take at the start of the payload; 0: they are
 * malformed.
 */
static inline size_t
weir_accepted_read(const uint8_t *payload, size_t bytes, bool up, struct weir_accepted *a)
{
	struct weir_join_reply r;
	uint32_t *v = a->setting;
	unsigned int must, list;

	*a = (struct weir_accepted){0};
	if (bytes < sizeof(r))
		return 0;
	memcpy(&r, payload, sizeof(r));
	must = r.elements[0] >> 4;
	a->sources = weir_get16(r.sources);
	a->more_ports = r.flags >> WEIR_JOIN_PORTS_SHIFT;
	a->skips_own = !up && (r.flags & WEIR_JOIN_SKIPS_OWN) != 0;
	if ((must & ~(unsigned int)WEIR_JOIN_MUST_KNOWN) != 0)
		a->unknown = WEIR_SETTING_MUST;
	if ((must & WEIR_JOIN_MUST_LIST) != 0) {
		if (bytes < sizeof(r) + 2)
			return 0;
		list = weir_get16(payload + sizeof(r));
		payload += sizeof(r) + 2;
		return list <= bytes - sizeof(r) - 2 &&
				weir_settings_read(payload, payload + list, a)
			? sizeof(r) + 2 + list
			: 0;
	}
	v[WEIR_SETTING_WINDOW] = weir_get16(r.window);
	v[WEIR_SETTING_ELEMENTS] = weir_get16(r.elements) & WEIR_ELEMENTS_MAX;
	v[WEIR_SETTING_TIMEOUT] = weir_get32(r.timeout_ms);
	v[WEIR_SETTING_TYPE] = r.dtype_op >> 4;
	v[WEIR_SETTING_OP] = r.dtype_op & 0xf;
	v[WEIR_SETTING_INTEGRITY] = (must & WEIR_JOIN_MUST_CRC32C) != 0;
	v[WEIR_SETTING_AUTHENTICATE] = (r.flags & WEIR_JOIN_AUTHENTICATED) != 0;
	if (up) {
		v[WEIR_SETTING_POLICY] = r.up.agreed & WEIR_JOIN_UP_POLICY;
		v[WEIR_SETTING_DETERMINISTIC] = (r.up.agreed & WEIR_JOIN_UP_DETERMINISTIC) != 0;
		v[WEIR_SETTING_NARROW] = (r.flags & WEIR_JOIN_NARROW) != 0;
		v[WEIR_SETTING_REJOIN] = (r.up.agreed & WEIR_JOIN_UP_REVOKE) != 0;
		v[WEIR_SETTING_DEAD_AFTER] = weir_get32(r.group) & 0xffffff;
	} else {
		v[WEIR_SETTING_RESULTS] =
			(r.flags & WEIR_JOIN_MULTICAST) != 0 ? weir_get32(r.group) : 0;
		v[WEIR_SETTING_ALLTOALL] = (must & WEIR_JOIN_MUST_ALLTOALL) != 0;
	}
	return sizeof(r);
}

#endif
