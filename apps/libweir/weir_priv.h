/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of libweir share. The life of a handle:
 *
 *	weir.c      the public calls about the handle
 *	collective.c the collectives: checked, then submitted
 *	request.c   operations under way: submitted, waited for, ended
 *	geometry.c  how an operation is cut into blocks
 *	socket.c    the sockets: open, options, errors that the kernel queued
 *	control.c   membership by the switch's control API: http.c asks, member.c reads the answers,
 *	            inquiry.c what it knows of a job that hangs, launch.c knows the launchers'
 *	            environments
 *	generation.c what a handle has for one generation: begun, ended, begun anew
 *	join.c      its beginning at the switch; runs in the caller's thread, while there is no
 *	            progress thread
 *	progress.c  the loop around ppoll, and the thread that runs it when no caller does
 *	window.c    which block is sent when, and again: the ring, the timer, the gaps
 *	receive.c   what comes in: checked, then applied
 *	explain.c   every text for people
 *	said.c      the one that a thread was told
 *	partial.c   what becomes of partial results
 *	ahead.c     results of operations that are not called for yet
 *	error_feedback.c contributions that missed their block, for the next call
 *	auth.c      keys and tags of an authenticated job
 *	rtt.h       the round-trip estimator
 *	spin.h      how long a waiting call polls
 *
 * One lock: after the join, everything that is not fixed belongs to whoever holds `lock`. Whoever moves
 * the protocol on (a caller that submits or waits, or the progress thread) does it under the lock and gives
 * it up only to sleep. One thread at a time sleeps on the sockets, the `driver`: a waiting caller, so that a
 * result wakes nobody but who wants it; the progress thread, when requests have no waiting caller, or there are
 * none and another call is not to be expected at once. All others sleep on the condition `ended`.
 */
#ifndef APPS_HOST_WEIR_PRIV_H
#define APPS_HOST_WEIR_PRIV_H

#include <netinet/in.h>
#include <pthread.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "apps/libweir/auth.h"
#include "apps/libweir/geometry.h"
#include "apps/libweir/weir.h"
#include "apps/libweir/rtt.h"
#include "apps/libweir/spin.h"
#include "pktbuf/wire/wire.h"

#define WEIR_BATCH      64 /* packets per system call at most */
#define WEIR_ERROR_MAX  1280
#define WEIR_NS_PER_MS  UINT64_C(1000000)
#define WEIR_WINDOW_MAX 4096

/*
 * A collective call: an operation. All that are under way are a stream of blocks, in the order of the calls;
 * the ring goes on from the last blocks of one to the first of the next, residue by residue, so operations
 * may end in another order. The library's from the call until it has ended, then the one's who waits
 * for it.
 */
struct weir_request {
	TAILQ_ENTRY(weir_request) link; /* in `requests` until it has ended, then in `over` */
	struct weir *weir;
	const uint8_t *send;
	uint8_t *recv;
	uint8_t *copy; /* of send, where an operation in place needs one */
	struct weir_geometry geometry;
	uint8_t op, dtype;
	uint32_t first; /* id of its first block */
	uint64_t number; /* the same, without wrapping */
	uint32_t blocks, done;
	uint64_t started; /* ns */
	bool feeds_back; /* what misses its block is kept */
	struct weir_error_feedback
		*feedback; /* of this call's buffer; NULL: nothing is owed, or missed yet */
	bool finished;
	bool held; /* a thread has it: weir_close waits for that */
	int code; /* what the call returns */
	char *text; /* with it, if it is WEIR_PARTIAL; a failure's is the handle's */
	struct weir_result result;
	struct weir_degraded *degraded;
	size_t degraded_count, degraded_room;
	uint8_t punctual[WEIR_BITMAP_BYTES]; /* those in all its degraded results */
	struct weir_waiter *waiter; /* is told of its end; NULL: nobody but who waits on `ended` */
};
TAILQ_HEAD(weir_requests, weir_request);

/*
 * A place in the window: the chain of blocks of one residue modulo the window. It is in exactly
 * one state; the block in it is `block` when it is not idle.
 */
enum weir_slot_state {
	WEIR_SLOT_IDLE, /* in no list */
	WEIR_SLOT_READY, /* in `ready`: to be sent, for the first time or again */
	WEIR_SLOT_FLYING, /* in `flying`: sent, no result yet */
};

struct weir_slot {
	TAILQ_ENTRY(weir_slot) link;
	uint64_t sent_at; /* ns, of the last transmission */
	uint64_t transmission; /* its number: transmissions are numbered through the handle */
	uint32_t block;
	uint32_t tries; /* transmissions so far */
	enum weir_slot_state state;
	bool by_gap; /* the last repetition was gap detection's */
	uint8_t header_bytes;
	uint8_t header[WEIR_EXT_BYTES];
	struct weir_request *request; /* whose block it is */
	struct weir_shape shape;
	const uint8_t *payload; /* what shape.send is of: the operation's send buffer */
	uint32_t payload_bytes;
	uint64_t number; /* the block's, without wrapping */
	uint8_t tag_bytes; /* 0: the job is not authenticated */
	uint8_t tag[WEIR_TAG_BYTES]; /* made once: repetitions are the same bytes */
};
TAILQ_HEAD(weir_slots, weir_slot);

/*
 * The window. A slot moves idle -> ready -> flying -> (ready -> flying ->)* idle, and with the
 * result of block b in it on to b + window, if the operations reach that far: the rule of the
 * protocol is the shape of the ring, there is no other book-keeping, and a hole in one residue
 * holds nobody else up. `flying` is in the order of transmission, so that its head is the next to
 * time out (one timeout for all, RFC 6298 with a common back-off) and the first of a gap.
 *
 * Against floods: when nothing comes for a whole timeout, the likely cause is a slow source, and
 * repeating the whole window would only burden the switch. So silence is broken by PROBE repetitions (of
 * as many blocks, or of the only one, one timeout after the other), and by as many with twice the timeout,
 * and each result that arrives allows two repetitions more: a lost window is repaired as fast as a slow
 * start, a straggler costs each host PROBE packets a time.
 *
 * Gaps: a block is taken for lost when a block transmitted `gap` or more transmissions later has
 * its result (only results of blocks sent once prove that). Result order may differ, as
 * blocks are spread over the switch's lcores: a repetition that is answered far too soon
 * was not needed, and doubles `gap`.
 */
#define WEIR_PROBE     4
#define WEIR_GAP_FIRST 3

struct weir_ring {
	struct weir_slot *slots;
	uint32_t window; /* slots, a power of two */
	struct weir_slots ready, flying;
	struct weir_rtt rtt;
	uint64_t transmissions; /* number of the last one */
	uint64_t answered; /* the highest one with a result, of blocks that were sent once */
	uint64_t gap; /* [WEIR_GAP_FIRST, window] */
	uint64_t allowance; /* repetitions that timeouts may still make */
	uint64_t probe_at; /* ns: when silence is broken next */
	uint64_t retry_at; /* ns: when a refused send is tried again; 0: not refused */
	bool want_write; /* the socket was full: wait for POLLOUT */
};

/*
 * Results that are ahead of the application: the others' blocks timed out without this source while its
 * application computes. A block of a residue follows only when the switch knows that every source has
 * the result of the one before, so the progress thread keeps such results and acknowledges them, and the
 * others go on. When the application calls for these blocks, they complete at once.
 *
 * What is acknowledged is always all up to a block, so a residue keeps results only in order: who loses
 * one, and gets the next, has to ask. An acknowledgement names the block that is expected, and the switch
 * answers with its result if that is out: so asking and acknowledging are one. All residues that are
 * waited for are in `waiting` in the order of the last acknowledgement; losses are found as the window
 * finds them: a hole when later ones are answered first; and in silence PROBE acknowledgements a time,
 * with back-off. Blocks that time out together are found by the switch in any order, within a tenth of
 * the timeout: so a hole is one only when nothing more has come for an eighth (`scatter`). While results are kept, the others are known to go on: then it is never given up.
 *
 * The first block that is missed could only be acknowledged when the others' contributions to the next
 * one are on their way: these would be held back. Once partial results have been seen (`armed`), a
 * source that was idle for half a block's timeout therefore tells before what it has (`told`).
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

struct weir_ahead {
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
	bool armed, told;
	bool closed; /* an operation has failed: nothing is kept any more */
};

/* Where packets are received into: WEIR_BATCH buffers in one allocation. */
struct weir_inbox {
	uint8_t *bytes;
	size_t stride; /* bytes per buffer: the largest result */
	struct mmsghdr messages[WEIR_BATCH];
	struct iovec vectors[WEIR_BATCH];
	struct sockaddr_in from[WEIR_BATCH];
};

/* What a batch of packets is sent from: as many as there are vectors for their pieces. */
#define WEIR_VECTORS 1024
struct weir_outbox {
	struct mmsghdr messages[WEIR_BATCH];
	struct iovec vectors[WEIR_VECTORS];
};
static_assert(WEIR_VECTORS >= WEIR_SOURCES_MAX + 2, "header, slices, tag");

/* Who sleeps on the sockets. */
enum weir_driver { WEIR_DRIVER_NONE, WEIR_DRIVER_CALLER, WEIR_DRIVER_THREAD };

struct weir {
	/* Fixed after weir_open. */
	struct sockaddr_in switch_base, switch_ext, own;
	uint8_t job, source;
	uint64_t number; /* of the handle, no other's of the process */
	pid_t process; /* that opened it */
	char job_text[96]; /* for people: `job 2`, or `job "ring" (2)` where its name is known */
	const char *noun; /* for people: what `source` is to them, "source" or "rank" */
	bool base_form;
	unsigned int expected; /* config.sources */
	unsigned int waited_for; /* sources of the job, by the switch's last `waiting` to a join */
	uint64_t join_timeout, op_timeout; /* ns */
	uint64_t join_patience; /* the same as join_timeout, of which control.c takes its part */
	enum weir_partial partial;
	bool error_feedback;
	uint64_t error_feedback_limit, error_feedback_bytes; /* at most, and now */
	struct weir_error_feedback *feedback; /* of all buffers that something is owed of */
	unsigned int window_limit;
	uint16_t generation;
	uint16_t window_job, elements, sources;
	uint8_t rank; /* position among the sources */
	uint8_t job_dtype, job_op;
	uint32_t timeout_ms;
	struct in_addr group; /* 0: unicast results */

	int fd; /* sends and receives */
	int group_fd; /* receives multicast results; -1 without */
	int wake_fd; /* eventfd: wakes the driver */
	pthread_t thread;
	bool running; /* the thread exists */
	struct weir_auth *auth; /* NULL: the job is not authenticated */
	bool key_given; /* by the configuration: none of the control API's goes before */
	bool join_again; /* the switch told its challenge: join with it, now */
	struct weir_control *control; /* NULL: joined by addresses */

	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t ended; /* a request has, or there is no driver any more */
	pthread_cond_t called; /* the progress thread has something to do */
	enum weir_driver driver;
	uint64_t asleep_until; /* ns: when the driver wakes by itself */
	struct weir_spin spin; /* of a caller that drives */
	bool asleep_for_write; /* or when the socket has room */
	unsigned int waiters; /* threads in functions that wait for requests of this handle */
	unsigned int held; /* requests that a thread has, and will yet look at */
	uint64_t
		hot_until; /* ns: when a waiting caller leaves, another call is likely until then */
	bool stop, closing, rejoining;

	/* The protocol's. */
	struct weir_ring ring;
	struct weir_inbox inbox;
	struct weir_outbox *outbox;
	struct weir_ahead ahead;
	uint64_t
		ahead_run; /* results kept ahead, up to the first hole. Relaxed atomic: any reader */
	struct weir_requests requests; /* under way, in the order of the calls */
	struct weir_requests over; /* ended, not waited for yet */
	uint32_t next_block; /* the first that is not called for */
	uint64_t next_number; /* the same, without wrapping */
	uint64_t progressed; /* ns: the last completed block, or the first call's time */
	uint64_t heard_at; /* ns: last valid packet from the switch; 0: never */
	int network_error; /* last soft error (ECONNREFUSED, ...); 0: none since the last packet */
	bool have_waiting; /* of the current operation, or join */
	uint32_t waiting_block;
	uint8_t waiting[WEIR_BITMAP_BYTES];
	uint8_t known
		[WEIR_BITMAP_BYTES]; /* sources that were in any bitmap: their ids need not be dense */
	struct weir_stats stats; /* relaxed atomics: one writer at a time, any reader */
	uint64_t inquire_at; /* ns: when the control API is asked about a silent switch */
	uint64_t inquire_after; /* ns: of silence */
	uint64_t inquire_heard; /* packets_received then */
	bool failing; /* all requests end with `failed`, once the control API was asked about it */

	/* Of the request that was waited for last. */
	struct weir_result result;
	struct weir_degraded *degraded;
	size_t degraded_count;

	int failed; /* the -errno that ended the generation; 0: usable */
	char failure[WEIR_ERROR_MAX]; /* its text */
	char error[WEIR_ERROR_MAX]; /* the last text; weir_explain() writes it */
};

/* Count; under the lock (or in the join). */
#define WEIR_COUNT(weir, field, n)                                                                 \
	__atomic_store_n(&(weir)->stats.field, (weir)->stats.field + (n), __ATOMIC_RELAXED)
#define WEIR_SET(weir, field, value)                                                               \
	__atomic_store_n(&(weir)->stats.field, (uint64_t)(value), __ATOMIC_RELAXED)

/* CLOCK_MONOTONIC in ns, never 0. */
uint64_t weir_now(void);

/* weir.c: the key of an authenticated job, once the source is known. 0 or -errno with the text. */
int weir_use_key(struct weir *weir, const uint8_t *key, size_t bytes);
/* What the control API says to an operation or a join that fails in silence: its verdict instead, or what
 * it adds to the text. Without the lock. */
int weir_inquire(struct weir *weir, int code);
/* generation.c: how weir_begin() has ended. */
void weir_generation_set(struct weir *weir, int code);
/* said.c: the text that this thread's weir_last_error() returns, for a handle; and code, which is not 0. A thread has
 * texts of so many handles. */
#define WEIR_SAID_HANDLES 8
int weir_say(const struct weir *weir, int code, const char *text);
int weir_refuse(const struct weir *weir, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* weir.c: has this process the handle by fork()? Then nothing may be done with it: its lock may be a thread's that
 * is not here. */
bool weir_inherited(const struct weir *weir);
/* 0, or -EINVAL with the text said: it has. */
int weir_check_process(const struct weir *weir);

/* generation.c: join, and make what depends on the job as the switch tells it. 0 or -errno with the text. */
int weir_begin(struct weir *weir);
/* Stop the progress thread, forget the generation; but not who and where this host is. */
void weir_end(struct weir *weir);

/* socket.c */
int weir_socket_open(struct weir *weir);
int weir_socket_join_group(struct weir *weir);
void weir_socket_size(struct weir *weir);
void weir_socket_drain_errors(struct weir *weir);
bool weir_socket_soft_error(int error);

/* join.c: 0 or -errno with the text set. */
int weir_join(struct weir *weir);

/* progress.c; all but the first under the lock. */
void *weir_progress(void *weir);
/* Sleep on the sockets, without the lock, until something happens; then take what came and send what is
 * due. The driver. until: ns, at the latest. */
void weir_drive(struct weir *weir, uint64_t until);
/* Something was submitted: see that there is a driver, and that it does not sleep too long. */
void weir_drive_soon(struct weir *weir);

/* request.c; under the lock. */
/* The request's last block is done. */
void weir_complete(struct weir *weir, struct weir_request *request);
/* End all requests with this code, which ends the generation; weir->error is its text. The slots are idle
 * afterwards. */
void weir_fail(struct weir *weir, int code);
/* The control API was asked: what failing requests end with. */
void weir_fail_all(struct weir *weir, int code);
/* Submit one that is allocated and filled in down to `dtype`, its geometry cut. 0: it is the library's. Negative:
 * it is freed; the text is said. */
int weir_submit(struct weir *weir, struct weir_request *request, bool waits);
void weir_request_free(struct weir_request *request);

/* The handle has no generation: -errno, said. Without the lock. */
int weir_unusable(struct weir *weir);
/* weir_wait() of a request of this process. */
int weir_await(struct weir_request **request);

/* window.c */
int weir_ring_create(struct weir_ring *ring, uint32_t window);
void weir_ring_destroy(struct weir_ring *ring);
/* Make those of the last request's first blocks ready whose slots are idle. False: all have failed. */
bool weir_window_begin(struct weir *weir, struct weir_request *request);
/* The block of the slot has its result. False: all have failed. */
bool weir_window_answered(struct weir *weir, struct weir_slot *slot, uint64_t now);
void weir_window_repeat(struct weir *weir, uint64_t now); /* what is due becomes ready */
void weir_window_flush(struct weir *weir, uint64_t now); /* send what is ready */
uint64_t weir_window_due(const struct weir *weir); /* ns: when to look again; UINT64_MAX */

/* ahead.c. 0 or -ENOMEM; destroy keeps the limit. */
int weir_ahead_create(struct weir *weir);
void weir_ahead_destroy(struct weir *weir);
/* A packet that is not for a block in flight: keep the result if it is the next of its residue. Else it
 * is counted. */
void weir_ahead_take(struct weir *weir, const struct weir_header *header, const uint8_t *packet,
	size_t bytes, uint64_t now);
void weir_ahead_repeat(struct weir *weir, uint64_t now); /* what is due becomes ready */
void weir_ahead_flush(struct weir *weir, uint64_t now); /* send what is ready */
uint64_t weir_ahead_due(const struct weir *weir); /* ns: when to look again; UINT64_MAX */
/* Its blocks are called for now. */
void weir_ahead_begin(struct weir *weir, const struct weir_request *request);
/* The block's result, with its bitmap, that is there already; NULL: it is not. Until it is delivered. */
const struct weir_header *weir_ahead_first(
	const struct weir *weir, uint32_t block, const uint8_t **payload, size_t *bytes);
void weir_ahead_delivered(struct weir *weir, uint32_t block);
void weir_ahead_end(struct weir *weir, int code); /* the last operation under way has ended */

/* receive.c: take all that the socket has (bounded); multicast: fd is the group's. */
void weir_receive(struct weir *weir, int fd, bool multicast);
/* Whether the packet is from the switch; *extended says in which form. */
bool weir_from_switch(const struct weir *weir, const struct sockaddr_in *from, bool *extended);

/*
 * What a result says of the slot's block goes to the application. False: the operation has failed. The
 * result fits if it is of this block's type, operation and length.
 */
bool weir_result_fits(const struct weir *weir, const struct weir_slot *slot,
	const struct weir_header *header, size_t payload);
bool weir_result_deliver(struct weir *weir, const struct weir_slot *slot,
	const struct weir_header *header, const uint8_t *payload);
/* Of the nonce of its tag: whose result it is, where results of a block differ; else 0. */
uint32_t weir_result_slice(const struct weir *weir, const struct weir_header *header);

/*
 * Who was not in time in one result at least becomes the result's `missing`. Ids below the number of
 * sources are taken for all of them until a higher one is seen: then those are known that were seen.
 * False: who else is missing is not known.
 */
bool weir_find_missing(struct weir *weir, struct weir_request *request);

/* partial.c: whether this source could do what it is to do with partial results, and what an operation
 * returns when it has completed. */
bool weir_partial_can(const struct weir *weir, const struct weir_request *request);
/* Whether the operation is one with error feedback. */
bool weir_partial_feeds_back(const struct weir *weir, const struct weir_request *request);
int weir_partial_conclude(struct weir *weir, struct weir_request *request);

/* error_feedback.c. What is owed, of the buffer that the operation reads. 0 or -ENOMEM. */
int weir_error_feedback_begin(struct weir *weir, struct weir_request *request);
/* What goes out for its block number nth: NULL, or elements in place of the buffer's. */
const uint8_t *weir_error_feedback_payload(const struct weir_request *request, uint32_t nth);
/* The block is done without this source: keep what it sent. Before the result is written. False: no
 * memory. */
bool weir_error_feedback_keep(struct weir *weir, struct weir_request *request, uint32_t nth,
	const uint8_t *payload, uint32_t bytes);
/* The operation has ended: if it has completed, what was delivered is owed no more. */
void weir_error_feedback_end(struct weir *weir, struct weir_request *request);

/* explain.c: set weir->error and return `code`. */
int weir_explain(struct weir *weir, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
const char *weir_dtype_text(unsigned int dtype);
const char *weir_op_text(unsigned int op);
int weir_explain_join(struct weir *weir, uint64_t waited);
int weir_explain_timeout(struct weir *weir, uint64_t now);
int weir_explain_status(struct weir *weir, const struct weir_slot *slot,
	const struct weir_header *header, const uint8_t *payload, size_t bytes);
int weir_explain_size(struct weir *weir, const struct weir_slot *slot, size_t datagram);
int weir_explain_partial(struct weir *weir, struct weir_request *request);
int weir_explain_ahead(
	struct weir *weir, const struct weir_slot *slot, const struct weir_header *kept);

/* receive.c, join.c: sets of sources */
static inline bool
weir_bitmap_has(const uint8_t *bitmap, unsigned int source)
{
	return (bitmap[source / 8] >> (source % 8) & 1) != 0;
}

static inline void
weir_note_known(struct weir *weir, const uint8_t *bitmap)
{
	for (unsigned int i = 0; i < WEIR_BITMAP_BYTES; i++)
		weir->known[i] |= bitmap[i];
}

/* Bytes of a UDP datagram with this payload on the wire; see struct weir_stats. */
static inline uint64_t
weir_wire_bytes(size_t datagram)
{
	uint64_t frame = datagram + 14 + 20 + 8;

	return frame < 60 ? 60 : frame;
}

#endif
