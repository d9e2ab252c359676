/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The test vectors of docs/protocol.md: one packet of each kind, as a row of a table from which its bytes are made with the
 * layouts of pktbuf/wire/wire.h and the tags of tests/model/tags.h. docs/vectors.json has them for other programs
 * (`make keys` writes it), and tests/eal/test_protocol_frames.c exchanges them with a switch.
 */
#ifndef TESTS_MODEL_VECTORS_H
#define TESTS_MODEL_VECTORS_H

#include "pktbuf/wire/settings.h"

#define VECTOR_FRAME_MAX 256
#define VECTOR_HEADERS   42 /* bytes of Ethernet, IPv4 and UDP */
#define VECTOR_NONCE     UINT32_C(0xc0ffee01) /* of joins */
#define VECTOR_EPOCH     UINT64_C(0x0006123456789abc) /* of source 1 */

/* What follows the payload. */
enum vector_end {
	VECTOR_PLAIN, /* nothing */
	VECTOR_CRC,
	VECTOR_CONTRIBUTION, /* the tag of what a source sends for a block */
	VECTOR_RESULT, /* the tag of a result */
	VECTOR_JOIN, /* a proof and its tag */
	VECTOR_REPLY, /* the tag of an answer to one source */
};

struct vector {
	const char *name, *about;
	bool is_answer; /* from the switch; else from the header's source */
	bool upward; /* the other end is a switch */
	bool multicast; /* to the job's group */
	uint16_t port; /* UDP, of the switch; 0: the form's own */
	struct weir_header header;
	/* The payload, in this order. */
	float fp32[4];
	int32_t int32[4];
	unsigned int elements; /* of the header's type */
	bool has_bitmap;
	uint64_t bitmap;
	struct weir_mismatch mismatch; /* field 0: none */
	struct weir_displaced displaced; /* port 0: none */
	struct weir_join_reply reply; /* no sources: none */
	uint8_t list[64]; /* of settings, behind it */
	uint8_t list_bytes; /* 0: no list */
	uint8_t challenge; /* its first byte, the others count up from there; 0: none */
	bool has_key; /* the wrapped key of the results */
	/* The end. */
	enum vector_end end;
	uint8_t iv; /* of a note's tag */
	uint32_t wraps; /* of the block id: bits 32 and up of the number that the tag covers */
	uint32_t transmission; /* of a join with a proof */
	const char
		*answers; /* the vector whose tag the reply's tag covers; NULL: a join, its nonce */
};

extern const struct vector vectors[];
extern const unsigned int nb_vectors;

/* What the tags are made with: of the job, of source 1, and of the generation. */
struct vector_keys {
	uint8_t job[32], source[32], contributions[32], results[32];
	uint8_t nonce[16]; /* of the source's join */
	uint8_t source_challenge[WEIR_CHALLENGE_BYTES], challenge[WEIR_CHALLENGE_BYTES];
};
const struct vector_keys *vector_keys(void);

/* The vector with this name; aborts when there is none. */
const struct vector *vector_named(const char *name);

/* Write the frame, without padding. Returns its bytes. */
unsigned int vector_frame(const struct vector *vector, uint8_t frame[VECTOR_FRAME_MAX]);

#endif
