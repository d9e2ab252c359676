/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A handle and an operation, as every file of libweir sees them. The library has two layers:
 *
 *	helpers (this header; they never include engine.h)
 *	  transport.c     the transport of the process (transport.h); udp.c is over sockets
 *	  auth.c          the source's key: proofs of joins, tags of an authenticated job
 *	  geometry.c      how an operation is cut into blocks
 *	  partial.c       partial results: missing sources, rescaling, error feedback
 *	  error.c         every text for people, and the last one that each thread was given
 *	  control.c       membership through the switch's control API; http.c sends requests on
 *	                  connections of connection.c, control_json.c handles their bodies
 *	  work.c          the control thread: what may wait for the control API
 *	  timing.h        round-trip time, and how long a waiting call polls
 *	  recovery.c      loss recovery: which packets are lost, and are probed or sent again
 *
 *	the engine (engine.h)
 *	  weir.c          the public calls about a handle
 *	  request.c       operations: checked, submitted, waited for, ended
 *	  generation.c    a generation of the job: joined, begun, ended
 *	  window.c        blocks in flight, and their results; outbox.c sends them
 *	  unexpected.c    results of operations that the application has not called yet
 *	  progress.c      driving: receives what has come, sends what is due
 *	  loop.c          the progress thread, which drives the handles that no caller drives
 */
#ifndef APPS_LIBWEIR_HANDLE_H
#define APPS_LIBWEIR_HANDLE_H

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include "apps/libweir/auth.h"
#include "apps/libweir/geometry.h"
#include "apps/libweir/transport.h"
#include "apps/libweir/weir.h"
#include "pktbuf/wire/wire.h"

#define WEIR_JOIN_REPEAT_NS UINT64_C(500000000) /* the longest pause between repeats of a join */

#define WEIR_BATCH          64 /* packets per system call at most */
#define WEIR_ERROR_MAX      1280
#define WEIR_NS_PER_MS      UINT64_C(1000000)
#define WEIR_WINDOW_MAX     4096

struct weir_control;
struct weir_error_feedback;

/* The part of a handle that the helpers use. Once the handle has joined, its lock protects this
 * part. */
struct weir_handle {
	/* Fixed after weir_open. */
	uint64_t number; /* unique in the process */
	pid_t process; /* the process that opened it */
	struct sockaddr_in switch_base, switch_ext, own;
	uint8_t job, source;
	unsigned int mtu; /* of the interface towards the switch; 0: unknown */
	char job_text[96]; /* for people: `job 2`, or `job "ring" (2)` where its name is known */
	const char *noun; /* for people: "source" or "rank" */
	bool base_form;
	unsigned int expected; /* config.sources */
	uint64_t join_timeout, op_timeout, silence_timeout, contact_timeout; /* ns */

	enum weir_partial partial;
	bool error_feedback;
	uint64_t error_feedback_limit;
	unsigned int window_limit;
	void (*warn)(void *context, const char *text); /* NULL: stderr */
	void *warn_context;
	bool is_muted; /* no warnings, not even to stderr */
	pthread_mutex_t warn_lock; /* of these three fields */
	bool is_key_configured; /* the configured key overrides the control API's */
	struct weir_control *control; /* NULL: joined by addresses */
	uint64_t keepalive; /* ns: a member that has sent nothing for this time repeats its join */

	bool has_begun; /* a generation has begun on this handle, now or before */

	/* Fixed for a generation. */
	uint16_t generation;
	uint16_t window_job, elements, sources;
	uint32_t row_room; /* 4-byte elements in all rows of an alltoall's block */
	uint8_t rank; /* position among the sources */
	uint8_t job_dtype, job_op;
	bool skips_own; /* own slices are left out of contributions and results */
	uint8_t more_ports; /* UDP ports of each form besides its own */
	uint32_t timeout_ms;
	struct in_addr group; /* 0: unicast results */
	struct weir_auth *auth; /* proves joins; NULL: they prove nothing */
	bool is_tagged; /* the job is authenticated: its data packets have tags, too */
	bool has_crc; /* the job's packets end with a CRC; then it is not authenticated */

	struct weir_transport *transport; /* NULL: not open */
	int wake_fd; /* eventfd: wakes the thread that sleeps on the sockets */

	/* The last packets and errors. */
	uint64_t spoke_at; /* ns: last packet to the switch; 0: never */
	uint64_t heard_at; /* ns: last valid packet from the switch; 0: never */
	uint64_t join_heard_at; /* ns: last answer to a join repeated in the generation; 0: never */
	int network_error; /* last soft error (ECONNREFUSED, ...); 0: none since the last packet */
	unsigned int waited_for; /* sources of the job, by the last reply `waiting` to a join */
	bool has_waiting; /* a reply has listed the sources that contributed, or have joined */
	uint32_t waiting_block;
	uint8_t waiting[WEIR_BITMAP_BYTES];
	uint8_t known[WEIR_BITMAP_BYTES]; /* sources seen in any bitmap: ids may have gaps */

	uint64_t waits_since, warn_at; /* ns: see weir_warn_due() */

	LIST_HEAD(, weir_error_feedback) feedback; /* buffers with kept contributions */
	uint64_t error_feedback_bytes;
	struct weir_stats stats; /* relaxed atomics: one writer at a time, any reader */
	char error[WEIR_ERROR_MAX]; /* the last text of weir_error_set() */
};

/* Count. Under the lock, or during the join. */
#define WEIR_COUNT(handle, field, n)                                                               \
	__atomic_store_n(&(handle)->stats.field, (handle)->stats.field + (n), __ATOMIC_RELAXED)
#define WEIR_SET(handle, field, value)                                                             \
	__atomic_store_n(&(handle)->stats.field, (uint64_t)(value), __ATOMIC_RELAXED)

/*
 * An operation: one collective call. All operations under way form one stream of blocks, in the
 * order of the calls. The window moves from the last blocks of one operation to the first of the
 * next, so operations may end in another order. The library owns an operation until it has ended;
 * then the thread that waits for it does.
 */
struct weir_request {
	TAILQ_ENTRY(weir_request) link; /* in `requests`, then in `ended_requests` */
	struct weir *weir;
	const uint8_t *send;
	uint8_t *recv;
	uint8_t *copy; /* of send, if an operation in place needs it */
	struct weir_geometry geometry;
	uint8_t op, dtype;
	uint32_t first; /* id of its first block */
	uint64_t number; /* `first` without wrapping */
	uint32_t blocks, done;
	uint64_t started; /* ns */
	uint64_t submitted; /* ns: when the nonblocking call returned */
	bool feeds_back; /* contributions that miss their block are kept */
	struct weir_error_feedback *feedback; /* of this call's buffer; NULL: none yet */
	bool is_finished;
	/* A thread waits for it, or will look at it again: weir_close waits for that thread. */
	bool is_held;
	int code; /* what the call returns */
	char *text; /* of WEIR_PARTIAL; a failure's text is the handle's */
	struct weir_result result;
	struct weir_degraded *degraded;
	size_t degraded_count, degraded_room;
	uint8_t punctual[WEIR_BITMAP_BYTES]; /* sources that are in all its degraded results */
	bool is_attended; /* a thread has waited for it, or tested it */
	sem_t *waiter; /* of a thread that waits for one of several requests; NULL */
};

/* CLOCK_MONOTONIC in ns, never 0. */
static inline uint64_t
weir_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec + 1;
}

/* The earlier of two times; UINT64_MAX is never. */
static inline uint64_t
weir_earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Sets of sources. */
static inline bool
weir_bitmap_has(const uint8_t *bitmap, unsigned int source)
{
	return (bitmap[source / 8] >> (source % 8) & 1) != 0;
}

static inline void
weir_note_known(struct weir_handle *h, const uint8_t *bitmap)
{
	for (unsigned int i = 0; i < WEIR_BITMAP_BYTES; i++)
		h->known[i] |= bitmap[i];
}

/* Bytes of a UDP datagram with this payload on the wire; see struct weir_stats. */
static inline uint64_t
weir_wire_bytes(size_t datagram)
{
	uint64_t frame = datagram + 14 + 20 + 8;

	return frame < 60 ? 60 : frame;
}

/* ---- error.c ---- */

/* Set h->error and return `code`. */
int weir_error_set(struct weir_handle *h, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Append to h->error. */
void weir_error_add(struct weir_handle *h, const char *text);
/* Set the text that weir_last_error() returns to this thread for this handle, and return `code`,
 * which is not 0. A thread keeps the texts of WEIR_ERROR_HANDLES handles. */
#define WEIR_ERROR_HANDLES 8
int weir_error_return(const struct weir_handle *h, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
const char *weir_error_last(const struct weir_handle *h);

/* Texts of failures; each sets h->error and returns the code. */
int weir_error_join(struct weir_handle *h, uint64_t waited);
/* The oldest operation under way has made no progress since `progressed`. */
int weir_error_timeout(struct weir_handle *h, const struct weir_request *oldest,
	uint64_t progressed, uint64_t now);
/* The switch has been silent for this time (ns). */
int weir_error_silence(struct weir_handle *h, const struct weir_request *oldest, uint64_t silent);
/* The reply to this block is not a result. */
int weir_error_status(struct weir_handle *h, const struct weir_request *request, uint32_t block,
	const struct weir_shape *shape, const struct weir_header *header, const uint8_t *payload,
	size_t bytes);
/* The reply to a join, struct weir_displaced: a newer join has taken this source's place. */
int weir_error_displaced(struct weir_handle *h, const uint8_t *payload);
/* The switch answers that the handle's generation is over. */
int weir_error_stale(struct weir_handle *h, const struct weir_header *reply);
int weir_error_partial(struct weir_handle *h, struct weir_request *request);
/* An unexpected result belongs to another operation than the call. */
int weir_error_unexpected(struct weir_handle *h, const struct weir_request *request, uint32_t block,
	const struct weir_shape *shape, const struct weir_header *kept);

/* Report `text` through weir_config.warn, or on stderr, there after a prefix. */
void weir_warn(struct weir_handle *h, const char *prefix, const char *text);

/*
 * When to report the reason of a wait that began at `since` (ns): after 3 s, and each time the wait
 * has doubled. weir_warn_waiting() reports it, and sets the next time. A handle has one wait at a
 * time. Under the lock.
 */
uint64_t weir_warn_due(struct weir_handle *h, uint64_t since);
void weir_warn_waiting(struct weir_handle *h, const char *text);

/* Sleep until a descriptor is ready, or until `due` (ns): then no descriptor has events.
 * UINT64_MAX: without end. */
static inline void
weir_sleep(struct pollfd *polls, nfds_t count, uint64_t due)
{
	uint64_t now = due != UINT64_MAX ? weir_now() : 0, left = due > now ? due - now : 0;
	const struct timespec wait = {(time_t)(left / 1000000000), (long)(left % 1000000000)};

	if (ppoll(polls, count, due != UINT64_MAX ? &wait : NULL, NULL) < 0)
		for (nfds_t i = 0; i < count; i++)
			polls[i].revents = 0;
}

/* auth.c: prove joins with this key: the source's; or, if of_job, the job's, which the source's
 * derives from. The source must be known. 0 or -ENOMEM with h->error set. */
int weir_auth_use(struct weir_handle *h, const uint8_t key[WEIR_KEY_BYTES], bool of_job);

/* ---- partial.c ---- */

/* Can the configured treatment of partial results be applied to this operation? */
bool weir_partial_can(const struct weir_handle *h, const struct weir_request *request);
/* Record a partial result of these sources. False: no memory for the record where rescaling needs
 * it. */
bool weir_partial_note(struct weir_handle *h, struct weir_request *request,
	const struct weir_shape *shape, const uint8_t *present);
/*
 * Compute request->result.missing. The ids are taken to be [0, sources) until a higher id is seen;
 * from then on only ids that were seen count. False: not all missing sources are known.
 */
bool weir_partial_missing(const struct weir_handle *h, struct weir_request *request);
/* What the completed operation returns, after rescaling. */
int weir_partial_conclude(const struct weir_handle *h, struct weir_request *request);

bool weir_error_feedback_wanted(const struct weir_handle *h, const struct weir_request *request);
/* Add the kept contributions of former calls to what this operation sends. 0, or -ENOMEM with
 * h->error set. */
int weir_error_feedback_begin(struct weir_handle *h, struct weir_request *request);
/* What to send for block nth instead of the buffer's elements; NULL: send the buffer's. */
const uint8_t *weir_error_feedback_payload(const struct weir_request *request, uint32_t nth);
/* The block has completed without this source: keep what this source sent. Call it before the
 * result is written. False: no memory. */
bool weir_error_feedback_keep(struct weir_handle *h, struct weir_request *request, uint32_t nth,
	const uint8_t *payload, uint32_t bytes);
/* The operation has ended: if it has completed, forget what was delivered. */
void weir_error_feedback_end(struct weir_handle *h, struct weir_request *request);
/* Forget what is kept for a buffer, or for all (NULL). Returns the number of bytes. */
uint64_t weir_error_feedback_drop(struct weir_handle *h, const void *buffer);

#endif
