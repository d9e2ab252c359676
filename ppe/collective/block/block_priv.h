/* SPDX-License-Identifier: BSD-3-Clause */
/* Layouts of the block room: what ppe/collective/block/block.h owns. */
#ifndef PPE_COLLECTIVE_BLOCK_BLOCK_PRIV_H
#define PPE_COLLECTIVE_BLOCK_BLOCK_PRIV_H

#include <assert.h>

#include "hashengine/hash_fast.h"
#include "pktbuf/tag.h"
#include "ppe/program_fast.h"
#include "rmw/rmw.h"

#define MASK_WORDS (WEIR_SOURCES_MAX / 64)

/*
 * The life of a block: states, the functions that lead from one to the next, and the event.
 * tests/spin/test_names.py compares these lists with the code and the models.
 *
 * At a switch without parents:
 *   none -> BLOCK_OPEN  block_begin: the first contribution to the next block of its residue
 *   BLOCK_OPEN -> BLOCK_OPEN  block_aggregate: a contribution of a further source (in a batch:
 *                             assign, sum)
 *   BLOCK_OPEN -> BLOCK_OPEN  duplicate: a repeated contribution; if the block is overdue, the
 *                             answer is `waiting`
 *   BLOCK_OPEN -> none  block_unopen: in a batch, all contributions to the block have wrong CRCs
 *   BLOCK_OPEN -> BLOCK_DONE  complete: the last contribution; all get `ok`, or `partial` if
 *                             sources are expelled
 *   BLOCK_OPEN -> BLOCK_DONE  straggler: the timeout, unless the policy is wait; `partial`, `error`
 *   BLOCK_OPEN -> BLOCK_DONE  mismatched: a contribution that disagrees with the block; all get
 *                             `mismatch`
 *   BLOCK_OPEN -> BLOCK_DONE  child_failed: a switch's contribution, whose block failed; `error`,
 *                             `mismatch`
 *   BLOCK_DONE -> BLOCK_DONE  answer_late: a contribution after the end; its source gets the result
 *   BLOCK_DONE -> BLOCK_DONE  block_acknowledge: an acknowledgement, or a contribution a window
 *                             later that is held back: the source has the result
 *   BLOCK_DONE -> BLOCK_DONE  block_acknowledged: an acknowledgement of earlier blocks: the source
 *                             lacks the result, and gets it
 *   BLOCK_DONE -> BLOCK_DONE  block_expel_silent: policy partial, and silent sources have held back
 *                             the next block of the residue for dead_after_ms
 *   BLOCK_DONE -> none  block_release_previous: the next block of the residue is done, and all
 *                       sources that are not expelled have the result
 *   BLOCK_OPEN -> none  block_regroup: the sources of a job with a fixed generation change: blocks
 *                       that contain a departed source or depend on ranks are collected again, and
 *                       repetitions to those that were done get `expired`
 *   BLOCK_DONE -> none  block_regroup
 *   BLOCK_OPEN -> none  block_forget_all: a generation begins or ends, or the job is deleted;
 *                       packets get `stale` from now on
 *   BLOCK_DONE -> none  block_forget_all
 *
 * At a switch with parents (docs/tree.md), what differs:
 *   BLOCK_OPEN -> BLOCK_UP  parent_contribute: the last contribution, the timeout, or a
 *                           contribution that disagrees; the sum goes to the parent, and is final
 *   BLOCK_UP -> BLOCK_UP  parent_block_pending: a host's contribution, which is not in the sum if
 *                         it is late; then as parent_ask
 *   BLOCK_UP -> BLOCK_UP  parent_ask: any packet of a host about the block; the sum goes to the
 *                         parent again, or a probe, at most once per millisecond
 *   none -> BLOCK_DONE  answered: the parent's result, in any state; to all hosts
 *   BLOCK_OPEN -> BLOCK_DONE  answered
 *   BLOCK_UP -> BLOCK_DONE  answered
 *   BLOCK_UP -> none  block_forget_all: as above
 */
enum block_state {
	BLOCK_OPEN, /* collecting contributions; 0 in struct block.agreement */
	/* the sum is sent to the parent, and kept to repeat it; only in jobs with parents */
	BLOCK_UP,
	BLOCK_DONE, /* the result is sent, and kept for sources that ask again */
};

/* A block's record in the hash table. The key has generation, job and block id, so that a packet of
 * an old generation does not find a new block. A contribution touches the first line, a batch of
 * contributions also the second. The third line is for losses and timeouts. */
struct block {
	struct hash_record hash;
	uint64_t heard[MASK_WORDS]; /* sources that contributed, also late */
	union { /* what contributions and their block agree on */
		struct {
			uint16_t grad_cnt;
			uint8_t state; /* enum block_state */
			uint8_t final; /* of all contributions */
			uint8_t collective, op, dtype, root;
		};
		uint64_t agreement; /* all of these; an open block has its contributions' word */
	};
	uint32_t block_id;
	uint16_t heard_count;
	uint8_t group; /* in the current batch */
	uint8_t job;

	struct rmw_buffer *buffer; /* line 2; NULL when the block carries nothing */
	const struct rmw_reduction *reduction; /* of the payloads; NULL: they are not reduced */
	uint64_t opened; /* TSC */
	uint64_t progress; /* TSC of the last new contribution */
	uint32_t payload_sum; /* ones-complement sum of the payload that was sent */
	uint32_t payload_bytes;
	uint16_t in_count; /* ranks in what was sent to the parent or, once done, in the result */
	uint8_t status; /* enum weir_status of what was sent */
	uint8_t first_source;
	uint8_t overdue; /* counted as waiting */
	uint8_t copied; /* by its collective's row: payloads are copied, not reduced */
	uint8_t per_receiver; /* by its row: receivers get different results */
	uint8_t on_arrival; /* payloads are reduced as they arrive */
	struct weir_mismatch mismatch;
	uint8_t parent_status; /* BLOCK_UP: enum weir_status for hosts that repeat; 0: nothing */
	uint8_t probed; /* BLOCK_UP: a probe was sent after the last contribution */
	uint8_t asks; /* BLOCK_UP: how often the parent was asked */
	uint8_t backoff; /* BLOCK_UP: doublings of the time to the next question */
	uint8_t spare[4];

	/* Open: ranks that the children's contributions lack. Up: ranks that were sent. Done: ranks
	 * in a degraded result. */
	uint64_t in[MASK_WORDS];
	/* Sources that acknowledged the result other than by a contribution to the next block. */
	uint64_t received[MASK_WORDS];
};
static_assert(sizeof(struct block) == 192 && offsetof(struct block, buffer) == 64 &&
		offsetof(struct block, in) == 128,
	"three cache lines");

/* The blocks of one residue modulo the window. */
struct slot {
	/* Number of the next block to open, without wrapping. Its low 32 bits are the block's id,
	 * whose high block_shift bits are ignored. */
	uint64_t next;
	struct block *current; /* the newest, open or done; NULL before the first */
	struct block *previous; /* the block before it, done but not released, or NULL */
	uint64_t held_since; /* TSC since when contributions wait for `previous`; 0: none waits */
	/* TSC of the last packet to the parent about an unanswered block; 0: none. */
	uint64_t asked;
};

/*
 * A flow cache entry: the frame and headers of a source's last contribution. The next contribution
 * differs in block id, final flag, checksums and IPv4's identification only. An entry never
 * expires; its admission, which depends on jobs, generations and endpoints, has a version. A batch
 * reads the first two lines.
 */
struct flow {
	uint64_t frame[8]; /* its first 64 bytes */

	uint64_t mbuf; /* flow_mbuf() of one segment with one reference; 0: nothing seen yet */
	uint64_t admitted; /* job_shard.version when the packet was admitted here; 0: not */
	uint64_t batched; /* equals `admitted` if batches take its packets; otherwise 0 */
	uint64_t agreement[2]; /* of its block, by final flag; once admitted */
	const uint64_t *mask; /* which bits of `frame` are compared; by header form */
	uint32_t heard; /* heard_now() of the source's last packet, of any flow; 0: none yet */
	uint16_t length; /* bytes */
	uint16_t payload; /* offset in the packet */

	struct pktbuf_head head; /* line 3 */
	struct weir_header header;
} __rte_cache_aligned;
static_assert(sizeof(struct flow) == RTE_ALIGN_CEIL(192, RTE_CACHE_LINE_SIZE) &&
		offsetof(struct flow, head) == 120,
	"three lines of 64 bytes");

/* How much blocks wait for a source; a line is touched once per block. */
struct source_late {
	uint64_t last; /* blocks that it completed */
	uint64_t waited; /* TSC cycles that they waited for it */
	uint64_t until; /* TSC: counted up to here. Blocks overlap, and time counts once */
};

/* Where a result for all sources goes: to each source, or in a job with a group once per port and
 * header form. */
struct destinations {
	uint64_t version; /* of the job shard, when they were collected */
	uint16_t n;
	bool form[2]; /* whether some use the base form, the extended form */
	struct pktbuf_shared_header shared[2]; /* of the last result, by form */
	uint64_t agreement; /* of its block, if that was complete and has a payload; otherwise 0 */
	const struct pktbuf_header_template *headers[WEIR_SOURCES_MAX];
	struct pktbuf_header_template group[PPE_PORTS_MAX][2]; /* to the group, by port and form */
};

/* The state of the emit segment, which sends results that differ by receiver: each is a part of the
 * payload with its own end. */
struct emission {
	struct pktbuf_payload payload;
	struct rmw_buffer *buffer; /* holds the payload, and is held until the end; or NULL */
	uint8_t in[WEIR_BITMAP_BYTES]; /* the bitmap */
	uint8_t job;
	bool copied; /* its packets may not hold the buffer */
	struct weir_header header;
	uint64_t number; /* of the block in its generation */
	uint16_t next, end; /* sources [next, end) are to be served */
	ppe_segment then; /* segment after the last packet; NULL: the thread ends */
};

/* A timer thread's position in its records, and what it found in the last step. */
#define STRAGGLERS_MAX 16
struct stragglers {
	struct ppe_worker *worker;
	struct collective *state;
	uint32_t from, end; /* records to be checked */
	unsigned int count, next;
	struct block *block[STRAGGLERS_MAX];
	uint64_t key[STRAGGLERS_MAX];
};

#endif
