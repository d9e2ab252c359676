/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How an operation is cut into blocks, and where in the buffers their elements lie:
 * docs/protocol.md, "Collectives", seen from a host. Pure functions; any thread.
 *
 * All sources derive the same blocks: same number, order, collective, root and length. Only the
 * elements that each source sends and receives differ. If a buffer consists of slices, a block
 * takes the same elements of every slice, so results need no reordering.
 */
#ifndef APPS_LIBWEIR_GEOMETRY_H
#define APPS_LIBWEIR_GEOMETRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pktbuf/wire/wire.h"

/* Bytes of a buffer: `pieces` pieces of `bytes` each, `stride` apart, from `offset` on, without the
 * piece number `skipped`. Empty: pieces is 0. No piece is skipped if skipped is pieces. */
struct weir_span {
	size_t offset, bytes, stride;
	unsigned int pieces, skipped;
};

/* Does the piece belong to the span? */
static inline bool
weir_span_has(const struct weir_span *span, unsigned int piece)
{
	return piece < span->pieces && piece != span->skipped;
}

/* The host's own slice, which is not sent: bytes to copy from the send buffer to the receive
 * buffer. */
struct weir_own {
	size_t from, to, bytes;
};

/* A block of an operation, as this source has it. */
struct weir_shape {
	uint16_t elements; /* of the block: its grad_cnt, at every source */
	uint8_t collective, root; /* in its header */
	struct weir_span send, recv; /* of the send and the receive buffer */
	struct weir_own own;
	size_t first, count; /* elements of recv (of each slice, if it is made of slices) */
};

/* An operation. The caller sets the fields above the blank line; weir_geometry_cut() computes those
 * below. */
struct weir_geometry {
	uint8_t collective;
	unsigned int sources, rank, root; /* [1, 256], [0, sources) */
	unsigned int limit; /* elements of a block at most, [1, WEIR_ELEMENTS_MAX] */
	unsigned int row_room; /* of all rows of an alltoall's block, at least `limit` */
	bool skips_own; /* own slices are left out: pktbuf/wire/collectives.h */
	size_t count; /* elements of a slice, or of a buffer without slices; 0 only for a barrier */
	size_t element_bytes; /* 0 only for a barrier */

	unsigned int per_block; /* of `count`, in a block that is not the last */
	uint32_t blocks;
	/* Blocks of each scatter, if an alltoall is made of one scatter per root; else 0. */
	uint32_t per_root;
};

/*
 * Cut the operation into blocks. 0; -EMSGSIZE: a block has fewer elements than there are sources,
 * too few for slices; -EINVAL: more than 2^31 - 1 blocks, or buffers larger than the address space.
 */
int weir_geometry_cut(struct weir_geometry *geometry);

/* Block number nth, [0, blocks). */
void weir_geometry_block(
	const struct weir_geometry *geometry, uint32_t nth, struct weir_shape *shape);

/* Elements that the buffer must have; 0 if this source does not use the buffer. */
size_t weir_geometry_sent(const struct weir_geometry *geometry);
size_t weir_geometry_received(const struct weir_geometry *geometry);

/* Is a partial result complete, whichever sources are missing? True if only the root has data. */
bool weir_geometry_always_whole(const struct weir_geometry *geometry);

/*
 * Elements that the result of a block carries for a receiver of this rank; -1 if there is no such
 * collective or root.
 */
int32_t weir_geometry_result(
	const struct weir_header *header, unsigned int sources, unsigned int rank, bool skips_own);

/* The row of a collective whose number comes from outside; any number is safe. */
static inline const struct collective_row *
weir_collective_row(unsigned int collective)
{
	return &collective_table[collective < 16 ? collective : WEIR_COLLECTIVE_JOIN];
}

static inline size_t
weir_span_bytes(const struct weir_span *span)
{
	return (span->pieces - (span->skipped < span->pieces)) * span->bytes;
}

#endif
