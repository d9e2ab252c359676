/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine: how operations proceed. Its files, listed in handle.h, share one state, struct weir.
 *
 * There is one lock: after the join, the thread that holds `lock` owns everything that is not
 * fixed. A caller that submits or waits, or the progress thread, runs the protocol under the lock
 * and releases it only to sleep. One thread at a time sleeps on the sockets: a waiting caller
 * (`is_driven`), so that a result wakes only the thread that wants it; or the progress thread
 * (`watched_events`), if no thread waits for the requests, or if there are no requests and no call
 * is expected soon. All other callers sleep on the condition `ended`.
 */
#ifndef APPS_LIBWEIR_ENGINE_H
#define APPS_LIBWEIR_ENGINE_H

#include <pthread.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "apps/libweir/handle.h"
#include "apps/libweir/recovery.h"
#include "apps/libweir/work.h"

TAILQ_HEAD(weir_requests, weir_request);

/* A place in the window: it takes the blocks of one residue modulo the window, in order. */
struct weir_slot {
	struct weir_flight flight; /* first: see weir_slot_of() */
	uint32_t block; /* unless it is idle */
	uint8_t header_bytes;
	uint8_t header[WEIR_EXT_BYTES];
	struct weir_request *request; /* the block's operation */
	struct weir_shape shape;
	const uint8_t *payload; /* base of shape.send: usually the operation's send buffer */
	uint32_t payload_bytes;
	uint64_t number; /* of the block, without wrapping */
	uint8_t tag_bytes; /* 0: the job has neither tags nor CRCs */
	uint8_t tag[WEIR_TAG_BYTES]; /* or CRC; computed once: repetitions have the same bytes */
};

static inline struct weir_slot *
weir_slot_of(struct weir_flight *flight)
{
	return (struct weir_slot *)flight;
}

/*
 * The window. The result of block b moves its slot on to block b + window, if the operations have
 * that block. So the ring itself enforces the protocol's window, and a gap in one residue delays no
 * other.
 */
struct weir_ring {
	struct weir_slot *slots;
	bool wants_write; /* the socket was full: wait for POLLOUT */
	struct weir_recovery recovery; /* its window is the number of slots, a power of two */
};

/*
 * Unexpected results: results of blocks whose operation the application has not called yet (like
 * MPI's unexpected messages). The blocks of the other sources timed out without this source while
 * its application computed. The next block of a residue can begin only when the switch knows that
 * every source has the result of the block before. So the progress thread keeps such results and
 * acknowledges them, and the other sources go on. When the application calls the operations, their
 * blocks complete at once.
 *
 * An acknowledgement names the expected block, and covers all blocks of the residue before it. The
 * switch answers with the result of the expected block if there is one, so acknowledging also asks.
 * So a residue keeps results only in order; after a loss it has to ask: while it is flying, it
 * waits for its next result. Blocks that time out together do so in any order, within a tenth of
 * the timeout. So a gap counts only when nothing has come for an eighth of the timeout. While
 * results are kept, the other sources are known to go on, and asking does not end.
 *
 * The first missed block could be acknowledged only when the others' contributions to the next
 * block are already on their way, and the switch would hold these back. So after the first partial
 * result (`has_seen_partial`), a source that was idle for half a block's timeout acknowledges in
 * advance what it has (`has_acknowledged_early`).
 */
TAILQ_HEAD(weir_results, weir_kept);

struct weir_residue {
	struct weir_flight flight; /* first: see weir_residue_of() */
	struct weir_results kept; /* a window apart; the first is called next */
};

static inline struct weir_residue *
weir_residue_of(struct weir_flight *flight)
{
	return (struct weir_residue *)flight;
}

struct weir_unexpected {
	/* By block modulo the job's window, which may be larger than this handle's. */
	struct weir_residue *residues;
	struct weir_recovery recovery; /* of the acknowledgements */
	uint64_t limit, bytes; /* memory: the most, and in use */
	uint64_t kept; /* results */
	uint64_t idle_since; /* ns: since when no operation is under way */
	bool has_seen_partial, has_acknowledged_early;
	bool is_closed; /* an operation has failed: no more results are kept */
};

/* A batch of packets to send: as many as there are vectors for their pieces. */
#define WEIR_VECTORS 1024
#define WEIR_SENDS   (WEIR_VECTORS / 2) /* a header and a payload each */
struct weir_outbox {
	struct weir_tx tx[WEIR_SENDS];
	struct weir_slot *slots[WEIR_SENDS];
	struct iovec vectors[WEIR_VECTORS];
	uint8_t notes[WEIR_SENDS][WEIR_EXT_BYTES + WEIR_TAG_BYTES]; /* probes, acknowledgements */
};
static_assert(WEIR_TRANSPORT_PIECES == WEIR_SOURCES_MAX + 2, "header, slices, tag");
static_assert(WEIR_VECTORS >= WEIR_TRANSPORT_PIECES, "one fits");

/* A join under way. Times in ns. */
struct weir_joining {
	uint64_t begin, deadline;
	uint64_t next, interval; /* of repetitions */
};

/* For this time after a call another call is likely, and the progress thread does not drive. */
#define WEIR_HOT_NS (2 * WEIR_NS_PER_MS)
/* How often the progress thread checks whether callers still drive. */
#define WEIR_PARKED_NS (5 * WEIR_NS_PER_MS)

struct weir {
	struct weir_handle h;
	int place; /* in the progress thread's table; -1: none */
	/* A source that had joined no longer waits, or the join seems to be refused. */
	bool is_join_in_doubt;
	bool must_join_now; /* the switch sent its challenge: join with it at once */
	uint32_t join_nonce; /* of the join that began the generation */
	uint64_t join_repeat_at; /* ns: the next repetition, while the switch is silent */
	struct weir_joining joining;
	struct weir_work open_work; /* of weir_iopen */

	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t ended; /* a request has ended, or no caller drives any more */
	bool is_driven; /* a caller drives */
	/* Events for which the progress thread watches the sockets; 0: it does not. */
	uint32_t watched_events;
	uint64_t asleep_until; /* ns: when the caller that drives wakes by itself */
	struct weir_spin spin; /* of a caller that drives */
	bool asleep_for_write; /* it also wakes when the socket has room */
	unsigned int waiters; /* threads in functions that wait for requests of this handle */
	unsigned int held_requests; /* requests that a thread waits for, or will look at again */
	unsigned int unclaimed; /* ended requests that no thread holds, and an ended weir_iopen */
	int ended_fd; /* eventfd: readable while `unclaimed` is not 0; -1: never asked for */
	bool fd_signalled; /* ended_fd is readable */
	uint64_t hot_until; /* ns: until then only callers drive */
	uint64_t drove_at; /* ns: the last pass over the sockets */
	uint64_t due_at; /* ns: when the next pass is due */
	/* ns: the last pass that came late because the process or the machine was stopped. */
	uint64_t resumed_at;
	uint64_t tested_at; /* ns: the last pass by a test */
	/* The last nonblocking call was not soon followed by a wait or a test. */
	bool progress_thread_needed;
	bool is_closing, is_rejoining;
	/* weir_iopen has not ended; the control thread owns the rest of the handle. */
	bool is_opening;
	/* weir_iopen has ended; weir_open_test has not returned its result yet. */
	bool has_open_result;
	bool is_abandoned; /* closed during weir_iopen: the control thread frees the handle */

	/* State of the protocol. */
	struct weir_ring ring;
	uint32_t longest; /* bytes of a datagram of the switch at most */
	struct weir_outbox *outbox;
	struct weir_unexpected unexpected;
	uint64_t unexpected_run; /* unexpected results up to the first gap; relaxed atomic */
	struct weir_requests requests; /* under way, in the order of the calls */
	struct weir_requests ended_requests; /* not waited for yet */
	uint64_t next; /* the first block of the next call, without wrapping */
	/* ns: the last completed block, or the first call's time; moved forward by the length of
	 * stops. */
	uint64_t progressed;
	uint64_t asked_at; /* ns: the last query about these operations; 0: none */
	uint64_t query_at; /* ns: when to ask the control API about a silent switch */
	uint64_t query_after; /* ns of silence before the next query */
	uint64_t query_heard; /* h.heard_at when query_at was set */
	struct weir_work query_work;
	bool is_querying; /* query_work is queued or under way */
	bool is_failing; /* all requests end with `failed`, after a query to the control API */

	/* Results of the request that was waited for last. */
	struct weir_result result;
	struct weir_degraded *degraded;
	size_t degraded_count;

	int failed; /* the -errno that ended the generation; 0: usable */
	char failure[WEIR_ERROR_MAX]; /* its text */
};

/* weir.c: was the handle inherited by fork()? Then it must not be used: a thread that this process
 * does not have may hold its lock. */
bool weir_inherited(const struct weir *weir);
/* 0; or -EINVAL with the thread's error text set: the handle was inherited. */
int weir_check_process(const struct weir *weir);
/* weir.c: ask the control API about an operation or a join that failed with `code`. Returns the
 * code that it fails with, and may add to the text. Call without the lock. */
int weir_query_job(struct weir *weir, int code);

/*
 * generation.c: take part in the next generation: become a member through the control API, if the
 * handle has one and is not a member yet, join by UDP until joining.deadline, and create what
 * depends on the job. 0 or -errno with h.error set.
 */
int weir_begin(struct weir *weir);
/*
 * weir_begin() in steps that do not wait for other hosts: call weir_begin_step() again when the
 * socket is readable, or at *until, as long as it returns 0. Then weir_begin_end() with its code
 * returns what weir_begin() would.
 */
int weir_begin_step(struct weir *weir, uint64_t *until);
int weir_begin_end(struct weir *weir, int code);
/* Store what weir_begin() has returned, and its text. Returns the code. */
int weir_generation_set(struct weir *weir, int code);
/*
 * Under the lock: repeat the accepted join when the switch has been silent for a while. The switch
 * sends to the address of the last join, which repairs a MAC address that has changed or was
 * damaged (docs/protocol.md, "Joining").
 */
void weir_join_repeat(struct weir *weir, uint64_t now);
/*
 * Under the lock: a member that joined through the control API also repeats its join when it has
 * sent nothing for h.keepalive, with or without an operation under way. So its membership does not
 * expire while the application computes. weir_keepalive_due(): ns, or UINT64_MAX.
 */
void weir_keepalive(struct weir *weir, uint64_t now);
uint64_t weir_keepalive_due(const struct weir *weir);
/* Remove the handle from the progress thread, and forget the generation, but not the addresses and
 * the job. */
void weir_end(struct weir *weir);

/*
 * loop.c: the progress thread. After weir_loop_add() the thread looks at the handle: 0 or -errno
 * with h.error set. After weir_loop_remove() it no longer does. Call both without the lock.
 */
int weir_loop_add(struct weir *weir);
void weir_loop_remove(struct weir *weir);
/* getpid(2), usually without a system call. */
pid_t weir_process(void);
/* All that follows under the lock. */
/* Have the thread look at the handle at this time (ns; 0: now) or earlier. */
void weir_loop_look(struct weir *weir, uint64_t at);
/* Have the thread look also when the sockets are ready. false: it cannot. weir_loop_unwatch() ends
 * this, and the thread looks at time `at`. */
bool weir_loop_watch(struct weir *weir);
void weir_loop_unwatch(struct weir *weir, uint64_t at);

/* progress.c; under the lock. */
/* The progress thread looks at the handle: it drives, unless callers do. error: a socket has an
 * error. Returns when to look again (ns). */
uint64_t weir_serve(struct weir *weir, bool error);
/* Ask the control API, in the control thread, about silence or about a failure. */
void weir_query(struct weir *weir);
/* For a caller that drives: sleep on the sockets, without the lock, until something happens or
 * until `until` (ns); then receive, and send what is due. */
void weir_drive(struct weir *weir, uint64_t until);
/* One pass over the sockets, without sleeping: receive, and send what is due. Not while a caller
 * drives. True: more may have come. */
bool weir_drive_once(struct weir *weir);
/* Something was submitted: ensure that a thread drives, and that it does not sleep too long. */
void weir_drive_soon(struct weir *weir);

/* request.c; under the lock. */
void weir_complete(struct weir *weir, struct weir_request *request); /* its last block is done */
/* End all requests with this code, which ends the generation; h.error is its text. All slots are
 * idle afterwards. */
void weir_fail(struct weir *weir, int code);
/* End failing requests with this code, after the query to the control API. */
void weir_fail_all(struct weir *weir, int code);
void weir_request_free(struct weir_request *request);
/* `unclaimed` has changed: make weir_fd()'s descriptor readable or not, if there is one. */
void weir_fd_update(struct weir *weir);

/* window.c */
/* Make the request's first blocks ready, where slots are idle. False: all requests have failed. */
bool weir_window_begin(struct weir *weir, struct weir_request *request);
void weir_window_repeat(struct weir *weir, uint64_t now); /* what is due becomes ready */
/* Receive what has come, up to a bound. group: from the group. True: there may be more. */
bool weir_receive(struct weir *weir, bool group, uint64_t now);
/* Take the errors that the network has reported. */
void weir_take_errors(struct weir *weir);
/* Is the packet from the switch? *extended is its form. */
bool weir_from_switch(const struct weir *weir, const struct sockaddr_in *from, bool *extended);
/* Flags of the packets of this generation. */
uint8_t weir_packet_flags(const struct weir_handle *handle);
/* Is the CRC at the end of a packet from the switch right? header: complete; in the base form the
 * caller fills in the missing fields from the job. */
bool weir_crc_holds(const struct weir_header *header, const uint8_t *packet, size_t bytes);
/* Part of the nonce of a result's tag: rank + 1 if each receiver gets another result; else 0. */
uint32_t weir_result_slice(const struct weir *weir, const struct weir_header *header);

/* outbox.c */
void weir_window_flush(struct weir *weir, uint64_t now); /* send what is ready */
/* The pieces of the slot's datagram: header, payload, tag. vectors: room for the span's pieces and
 * 2 more. Returns the number of pieces. */
unsigned int weir_slot_pieces(struct weir_slot *slot, struct iovec *vectors);
/* Write a packet without elements, with its tag or CRC. A block's packet has the same bytes every
 * time. Returns the number of bytes. */
size_t weir_note_write(const struct weir *weir, uint8_t collective, uint32_t block, uint8_t iv,
	uint64_t number, uint8_t *packet);
/* The UDP port for this block, network byte order. A repetition goes to the form's own port, which
 * every firewall passes. */
in_port_t weir_port(const struct weir *weir, bool extended, uint32_t block, bool repetition);
/* The host refused to send a datagram. A firewall rule may pass only the form's own port, so all
 * datagrams use that port from now on. */
void weir_address_refused(struct weir *weir, int error);

/* unexpected.c. 0 or -ENOMEM; destroy keeps the limit. */
int weir_unexpected_create(struct weir *weir);
void weir_unexpected_destroy(struct weir *weir);
/* Take a packet that is not for a block in flight: keep the result if it is the next of its
 * residue. Returns the counter to increment. */
uint64_t *weir_unexpected_take(struct weir *weir, const struct weir_header *header,
	const uint8_t *packet, size_t bytes, uint64_t now);
void weir_unexpected_flush(struct weir *weir, uint64_t now); /* send what is due */
uint64_t weir_unexpected_due(const struct weir *weir); /* ns: when to look again; UINT64_MAX */
/* The application has called this operation. */
void weir_unexpected_begin(struct weir *weir, const struct weir_request *request);
/* The kept result of this block, with its bitmap; NULL: there is none. Valid until
 * weir_unexpected_delivered(). */
const struct weir_header *weir_unexpected_first(
	const struct weir *weir, uint32_t block, const uint8_t **payload, size_t *bytes);
void weir_unexpected_delivered(struct weir *weir, uint32_t block);
void weir_unexpected_end(struct weir *weir, int code); /* the last operation under way has ended */

#endif
