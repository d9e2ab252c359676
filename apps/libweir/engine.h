/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine: how operations move. Its files work together on one state, struct weir; handle.h names them.
 *
 * There is one lock: after the join, the thread that holds `lock` owns everything that is not fixed. A caller that
 * submits or waits, or the progress thread, runs the protocol under the lock and gives it up only to sleep. One
 * thread at a time sleeps on the sockets: a waiting caller (`is_driven`), so that a result wakes only the thread that
 * wants it; or the progress thread (`watched_events`), when no thread waits for the requests, or when there are none and
 * another call is not expected at once. All other callers sleep on the condition `ended`.
 */
#ifndef APPS_LIBWEIR_ENGINE_H
#define APPS_LIBWEIR_ENGINE_H

#include <pthread.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "apps/libweir/handle.h"
#include "apps/libweir/timing.h"
#include "apps/libweir/work.h"

TAILQ_HEAD(weir_requests, weir_request);

/*
 * A place in the window: the chain of blocks of one residue modulo the window. It is in exactly
 * one state; the block in it is `block` when it is not idle.
 */
enum weir_slot_state {
	WEIR_SLOT_IDLE, /* in no list */
	WEIR_SLOT_READY, /* in `ready`: to be sent, for the first time or again, or to be probed */
	WEIR_SLOT_FLYING, /* in `flying`: sent, no result yet */
};

struct weir_slot {
	TAILQ_ENTRY(weir_slot) link;
	uint64_t sent_at; /* ns, of the last contribution */
	uint64_t asked_at; /* ns, of the last transmission, or of the answer to a probe */
	uint64_t transmission; /* its number: transmissions are numbered through the handle */
	uint32_t block;
	uint32_t tries; /* contributions so far */
	uint32_t probes; /* since the last contribution and the last answer */
	enum weir_slot_state state;
	bool is_probe; /* what is to be sent is a probe */
	bool found_by_gap; /* the last probe or repetition was gap detection's */
	bool is_at_switch; /* the switch has said that it has the contribution */
	uint8_t header_bytes;
	uint8_t header[WEIR_EXT_BYTES];
	struct weir_request *request; /* whose block it is */
	struct weir_shape shape;
	const uint8_t *payload; /* what shape.send is of: the operation's send buffer */
	uint32_t payload_bytes;
	uint64_t number; /* the block's, without wrapping */
	uint8_t tag_bytes; /* 0: the job has neither tags nor CRCs */
	uint8_t tag[WEIR_TAG_BYTES]; /* or CRC; made once: repetitions are the same bytes */
};
TAILQ_HEAD(weir_slots, weir_slot);

/*
 * The window. A slot moves idle -> ready -> flying -> (ready -> flying ->)* idle. The result of block b moves it on to
 * block b + window, if the operations reach that far. So the shape of the ring is the rule of the protocol, needs no
 * other bookkeeping, and a gap in one residue delays no other. `flying` is in the order of transmission: its head is the
 * next to time out (one timeout for all, RFC 6298 with a common back-off), and the first of a gap.
 *
 * Probes: a block without a result may wait for another source, or its result may be lost, or the contribution. A probe
 * asks (docs/protocol.md): only the answer that the switch lacks the contribution repeats it. The probe follows the
 * contribution through the same queues, so this holds however long the switch does not get a CPU. A block whose
 * contribution is there is asked for again as if it had been sent now, because its result may be lost. When two
 * probes of a block and its retransmission timeout have passed without an answer, or if the switch does not know probes,
 * the contribution is repeated as the last resort.
 *
 * Against floods: when nothing comes for a whole timeout, the likely cause is a slow source. So silence is answered with
 * PROBE packets (for as many blocks, or for the only one, one timeout after the other), then with as many after twice the
 * timeout, up to the retransmission timeout, which itself backs off while no result comes. An answer allows another
 * probe until all blocks are known to be there, and two if the contribution was lost for the first time. So a lost window is
 * repaired as fast as a slow start, and a straggler costs each host PROBE packets per timeout.
 *
 * Gaps: a block counts as lost when a block transmitted `gap` or more transmissions later has its result (only
 * results of blocks sent once, and not probed, prove that). The switch spreads blocks over lcores, so results may change
 * their order: a probe or repetition that is answered far too soon was not needed, and doubles `gap`.
 */
#define WEIR_PROBE     4
#define WEIR_GAP_FIRST 3

struct weir_ring {
	struct weir_slot *slots;
	uint32_t window; /* slots, a power of two */
	struct weir_slots ready, flying;
	struct weir_rtt rtt;
	struct weir_path path;
	bool may_probe; /* the switch may know probes */
	unsigned int silence; /* by how many powers of 2 the probe timeout has backed off */
	uint64_t result_at; /* ns: the last result of a block in flight */
	uint64_t transmissions; /* number of the last one */
	uint64_t answered; /* the highest one with a result, of blocks that were sent once */
	uint64_t gap; /* [WEIR_GAP_FIRST, window] */
	uint64_t allowance; /* probes, or else repetitions, that timeouts may still make */
	uint64_t probe_at; /* ns: when silence is broken next */
	uint64_t retry_at; /* ns: when a refused send is tried again; 0: not refused */
	bool wants_write; /* the socket was full: wait for POLLOUT */
};

/*
 * Unexpected results: results of blocks that the application has not called yet (as MPI's unexpected messages).
 * The blocks of the others timed out without this source while its application computed. The next block of a residue
 * can only follow when the switch knows that every source has the result of the one before. So the progress thread
 * keeps such results and acknowledges them, and the others go on. When the application calls the operations, their
 * blocks complete at once.
 *
 * An acknowledgement names the expected block, and covers all blocks of the residue before it. The switch answers
 * with the result of the expected block if there is one, so acknowledging also asks. A residue therefore keeps
 * results only in order; after a loss it has to ask. `waiting` holds all residues that wait for a result, in the order
 * of their last acknowledgements. Losses are found as the window finds them: by a gap, when later ones are answered
 * first, and in silence by PROBE acknowledgements at a time, with back-off. The switch finds blocks that time out
 * together in any order, within a tenth of the timeout: so a gap counts only when nothing has come for an eighth
 * (`scatter`). While results are kept the others are known to go on, and asking never ends.
 *
 * The first missed block could only be acknowledged when the contributions of the others to the next one are on
 * their way, and these would be held back. So once there have been partial results (`has_seen_partial`), a source that was idle
 * for half a block's timeout acknowledges what it has in advance (`has_acknowledged_early`).
 */
enum weir_residue_state {
	WEIR_RESIDUE_QUIET, /* in no list */
	WEIR_RESIDUE_READY, /* in `ready`: to be acknowledged */
	WEIR_RESIDUE_WAITING, /* in `waiting`: acknowledged, the next result has not come */
};

TAILQ_HEAD(weir_results, weir_kept);

struct weir_residue {
	TAILQ_ENTRY(weir_residue) link;
	struct weir_results kept; /* a window apart; the first is the one that is called next */
	uint64_t sent_at, transmission; /* as a slot's */
	uint32_t tries;
	enum weir_residue_state state;
};
TAILQ_HEAD(weir_residues, weir_residue);

struct weir_unexpected {
	struct weir_residue
		*residues; /* by block modulo the job's window, which may be more than ours */
	struct weir_residues ready, waiting;
	uint64_t limit, bytes; /* of memory, at most and now */
	uint64_t kept; /* results */
	uint64_t transmissions, answered; /* as the ring's */
	uint64_t answered_at; /* ns: the last result that was kept */
	uint64_t scatter, least, most, rto; /* ns */
	uint64_t allowance, probe_at, retry_at; /* as the ring's */
	uint64_t idle_since; /* ns: since when no operation is under way */
	bool has_seen_partial, has_acknowledged_early;
	bool is_closed; /* an operation has failed: nothing is kept any more */
};

/* What a batch of packets is sent from: as many as there are vectors for their pieces. */
#define WEIR_VECTORS 1024
#define WEIR_SENDS   (WEIR_VECTORS / 2) /* a header and a payload each */
struct weir_outbox {
	struct weir_tx tx[WEIR_SENDS];
	struct weir_slot *slots[WEIR_SENDS];
	struct iovec vectors[WEIR_VECTORS];
	uint8_t notes[WEIR_SENDS][WEIR_EXT_BYTES + WEIR_TAG_BYTES]; /* probes, acknowledgements */
};
static_assert(WEIR_VECTORS >= WEIR_SOURCES_MAX + 2, "header, slices, tag");

/* A join under way; ns. */
struct weir_joining {
	uint64_t begin, deadline;
	uint64_t next, interval; /* of repeats */
};

/* After a call, until the progress thread drives: another call is likely. */
#define WEIR_HOT_NS (2 * WEIR_NS_PER_MS)
/* How often the progress thread checks whether callers still drive. */
#define WEIR_PARKED_NS (5 * WEIR_NS_PER_MS)

struct weir {
	struct weir_handle h;
	int place; /* in the progress thread's table; -1: none */
	bool is_join_in_doubt; /* a source that had joined no longer waits, or the join seems to be refused */
	bool must_join_now; /* the switch sent its challenge: join with it, now */
	uint32_t join_nonce; /* of the join that began the generation */
	uint64_t join_repeat_at; /* ns: not before, while the switch is silent */
	struct weir_joining joining;
	struct weir_work open_work; /* of weir_iopen */
	bool udp_join_begun; /* its HTTP is done, and the join by UDP has begun */

	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t ended; /* a request has, or no caller drives any more */
	bool is_driven; /* a caller drives */
	uint32_t
		watched_events; /* events for which the progress thread watches the sockets; 0: it does not */
	uint64_t asleep_until; /* ns: when the caller that drives wakes by itself */
	struct weir_spin spin; /* of a caller that drives */
	bool asleep_for_write; /* or when the socket has room */
	unsigned int waiters; /* threads in functions that wait for requests of this handle */
	unsigned int held_requests; /* requests that a thread has, and will yet look at */
	unsigned int unclaimed; /* requests that have ended, and no thread has; and an opening */
	int ended_fd; /* eventfd: readable while there are any; -1: nobody has asked for it */
	bool fd_signalled; /* it is readable */
	uint64_t hot_until; /* ns: callers drive; until then the progress thread stays away */
	uint64_t drove_at; /* ns: the last pass over the sockets */
	uint64_t due_at; /* ns: when the next one was due */
	uint64_t
		resumed_at; /* ns: the last pass that came late, because the process or machine was stopped */
	uint64_t tested_at; /* ns: the last that a test made */
	bool progress_thread_needed; /* the last nonblocking call was not soon followed by a wait or a test */
	bool is_closing, is_rejoining;
	bool is_opening; /* weir_iopen has not ended; the control thread owns the rest of the handle */
	bool has_open_result; /* it has ended; weir_open_test has not said so */
	bool is_abandoned; /* closed meanwhile: the control thread frees it */

	/* The protocol's. */
	struct weir_ring ring;
	uint32_t longest; /* bytes of a datagram of the switch at most */
	struct weir_outbox *outbox;
	struct weir_unexpected unexpected;
	uint64_t
		unexpected_run; /* unexpected results up to the first gap; relaxed atomic: any reader */
	struct weir_requests requests; /* under way, in the order of the calls */
	struct weir_requests ended_requests; /* ended, not waited for yet */
	uint32_t next_block; /* the first that is not called for */
	uint64_t next_number; /* the same, without wrapping */
	uint64_t
		progressed; /* ns: the last completed block, or the first call's time; later by stops */
	uint64_t asked_at; /* ns: the last query about these operations; 0: none */
	uint64_t query_at; /* ns: when the control API is asked about a silent switch */
	uint64_t query_after; /* ns: of silence */
	uint64_t query_heard; /* h.heard_at then */
	struct weir_work query_work;
	bool is_querying; /* it is queued or under way */
	bool is_failing; /* all requests end with `failed`, once the control API was asked about it */

	/* Of the request that was waited for last. */
	struct weir_result result;
	struct weir_degraded *degraded;
	size_t degraded_count;

	int failed; /* the -errno that ended the generation; 0: usable */
	char failure[WEIR_ERROR_MAX]; /* its text */
};

/* weir.c: was the handle inherited by fork()? Then nothing may be done with it: its lock may belong to a thread
 * that this process does not have. */
bool weir_inherited(const struct weir *weir);
/* 0; or -EINVAL, returned to the thread: it was. */
int weir_check_process(const struct weir *weir);
/* weir.c: ask the control API about an operation or a join that failed in silence. Returns what it fails with, and
 * may add to the text. Without the lock. */
int weir_query_job(struct weir *weir, int code);

/* generation.c: join until the deadline (ns), and create what depends on the job. 0 or -errno with h.error set. */
int weir_begin(struct weir *weir, uint64_t deadline);
/* The same in steps that do not wait for other hosts: begin, then step until it returns 1, joined, or -errno; 0: again
 * when the socket is readable, or at *until. Then weir_joined(). */
int weir_join_begin(struct weir *weir, uint64_t deadline);
int weir_join_step(struct weir *weir, uint64_t *until);
int weir_joined(struct weir *weir);
void weir_generation_set(struct weir *weir, int code); /* what weir_begin() has returned */
/* Under the lock: repeat the accepted join when the switch has been silent for a while. The switch moves a source to
 * where its join comes from, which cures a MAC address that has changed or was damaged (docs/protocol.md,
 * "Joining"). */
void weir_join_repeat(struct weir *weir, uint64_t now);
/* Under the lock: a member of the control API's repeats its join, too, when it has sent nothing for 10 s, with or without
 * an operation under way: its membership does not expire while the application computes. due: ns, or UINT64_MAX. */
void weir_keepalive(struct weir *weir, uint64_t now);
uint64_t weir_keepalive_due(const struct weir *weir);
/* Leave the progress thread and forget the generation, but not the addresses and the job. */
void weir_end(struct weir *weir);

/*
 * loop.c: the progress thread. add: 0 or -errno with h.error set; from then on the thread looks at the handle. remove:
 * without the lock; it no longer does.
 */
int weir_loop_add(struct weir *weir);
void weir_loop_remove(struct weir *weir);
/* The process: getpid(2), without a system call. */
pid_t weir_process(void);
/* All that follows under the lock. */
/* Let the thread look at the handle at this time (ns; 0: now) or earlier. */
void weir_loop_look(struct weir *weir, uint64_t at);
/* Let it look also when the sockets are ready. false: it cannot. Or no longer, but at this time. */
bool weir_loop_watch(struct weir *weir);
void weir_loop_unwatch(struct weir *weir, uint64_t at);

/* progress.c; under the lock. */
/* The progress thread looks at the handle: it drives, unless callers do. error: a socket has one. Returns when to look
 * again (ns). */
uint64_t weir_serve(struct weir *weir, bool error);
/* Ask the control API, in the control thread, about silence or about a failure. */
void weir_query(struct weir *weir);
/* A caller that drives: sleep on the sockets, without the lock, until something happens or until then (ns); then receive, and
 * send what is due. */
void weir_drive(struct weir *weir, uint64_t until);
/* One pass over the sockets, without sleeping: receive, and send what is due. Not while a caller drives. */
void weir_drive_once(struct weir *weir);
/* Something was submitted: see that a thread drives, and that it does not sleep too long. */
void weir_drive_soon(struct weir *weir);

/* request.c; under the lock. */
void weir_complete(struct weir *weir, struct weir_request *request); /* its last block is done */
/* End all requests with this code, which ends the generation; h.error is its text. All slots are idle afterwards. */
void weir_fail(struct weir *weir, int code);
/* The control API has been asked: end failing requests with this. */
void weir_fail_all(struct weir *weir, int code);
void weir_request_free(struct weir_request *request);
/* `unclaimed` has changed: make weir_fd()'s descriptor readable or not, if there is one. */
void weir_fd_update(struct weir *weir);

/* window.c */
int weir_ring_create(struct weir_ring *ring, uint32_t window);
void weir_ring_destroy(struct weir_ring *ring);
/* Make the first blocks of the last request ready whose slots are idle. False: all have failed. */
bool weir_window_begin(struct weir *weir, struct weir_request *request);
void weir_window_repeat(struct weir *weir, uint64_t now); /* what is due becomes ready */
uint64_t weir_window_due(const struct weir *weir); /* ns: when to look again; UINT64_MAX */
/* Receive what has come, up to a bound. group: after WEIR_READY_GROUP. True: there may be more. */
bool weir_receive(struct weir *weir, bool group, uint64_t now);
/* Take the errors that the network has reported. */
void weir_take_errors(struct weir *weir);
/* Is the packet from the switch? *extended is its form. */
bool weir_from_switch(const struct weir *weir, const struct sockaddr_in *from, bool *extended);
/* Flags of the packets of this generation. */
uint8_t weir_packet_flags(const struct weir_handle *handle);
/* Is the CRC right at the end of a packet from the switch? header: all of it, filled in from the job in the base form. */
bool weir_crc_holds(const struct weir_header *header, const uint8_t *packet, size_t bytes);
/* Part of the nonce of a result's tag: rank + 1 where each receiver gets another result; else 0. */
uint32_t weir_result_slice(const struct weir *weir, const struct weir_header *header);

/* outbox.c */
void weir_window_flush(struct weir *weir, uint64_t now); /* send what is ready */
/* The pieces of the slot's datagram: header, payload, tag. `vectors`: for the span's pieces and 2 more. Returns how many. */
unsigned int weir_slot_pieces(struct weir_slot *slot, struct iovec *vectors);
/* Write a packet without elements, with its tag or CRC; the same for a block every time. Returns its bytes. */
size_t weir_note_write(const struct weir *weir, uint8_t collective, uint32_t block, uint8_t iv,
	uint64_t number, uint8_t *packet);
/* The UDP port for this block, network byte order; a repetition goes to the form's own port, which every firewall passes. */
in_port_t weir_port(const struct weir *weir, bool extended, uint32_t block, bool repetition);
/* The host refuses a datagram: a rule may pass only the form's own port, so all use that from now on. */
void weir_address_refused(struct weir *weir, int error);

/* unexpected.c. 0 or -ENOMEM; destroy keeps the limit. */
int weir_unexpected_create(struct weir *weir);
void weir_unexpected_destroy(struct weir *weir);
/* A packet that is not for a block in flight: keep the result if it is the next of its residue. Returns its counter. */
uint64_t *weir_unexpected_take(struct weir *weir, const struct weir_header *header,
	const uint8_t *packet, size_t bytes, uint64_t now);
void weir_unexpected_repeat(struct weir *weir, uint64_t now); /* what is due becomes ready */
void weir_unexpected_flush(struct weir *weir, uint64_t now); /* send what is ready */
uint64_t weir_unexpected_due(const struct weir *weir); /* ns: when to look again; UINT64_MAX */
/* The application has called its blocks. */
void weir_unexpected_begin(struct weir *weir, const struct weir_request *request);
/* The kept result of this block, with its bitmap; NULL: there is none. Valid until it is delivered. */
const struct weir_header *weir_unexpected_first(
	const struct weir *weir, uint32_t block, const uint8_t **payload, size_t *bytes);
void weir_unexpected_delivered(struct weir *weir, uint32_t block);
void weir_unexpected_end(struct weir *weir, int code); /* the last operation under way has ended */

#endif
