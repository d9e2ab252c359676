/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The membership room: the sources of a job, and replies to them.
 *
 *   join.c      collect one join from each source
 *   announce.c  tell all shards that a generation begins or ends, or that a source has moved
 *   source.c    endpoints, ranks and expulsion of sources in one shard
 *   keys.c      keys of sources and generations; the tags of joins, contributions and replies
 *   hop.c       what ends a packet of a block: bitmap, and tag or CRC
 *   reply.c     the end of a packet that is not consumed: it is dropped, refused or replied to
 *
 * It owns, of each job: the members (address), the generation and what it contains (hop,
 * is_revoked, pinned, endpoint, header_template, target, in, expelled, bound, the ranks), the keys,
 * and in the home shard (that of residue 0) the joins (struct job_home). A source that leaves takes
 * its entry of the flow cache along.
 *
 * Functions are for the worker that owns the shard, unless a comment says otherwise. "Home shard":
 * they are for the owner of the job's home shard.
 */
#ifndef PPE_COLLECTIVE_MEMBERSHIP_MEMBERSHIP_H
#define PPE_COLLECTIVE_MEMBERSHIP_MEMBERSHIP_H

#include "ppe/collective/collective_priv.h"

/* The peer to reply to, and the bytes that tie the reply to the peer's packet. */
struct reply_peer {
	struct pktbuf_endpoint at;
	struct weir_header header; /* of the packet */
	uint64_t epoch; /* of the key that verified it; if the job has keys */
	uint8_t answered[WEIR_TAG_BYTES]; /* with keys: the packet's tag, or a join's nonce */
};

/* A source's joins; times as heard_now(). Home shard: rw, control: ro. */
struct join_request {
	uint32_t since, last; /* first and last join for the next generation, while it is pending */
	uint32_t accepted; /* last join for the running generation; 0: none */
	uint32_t contested; /* last time that two processes were seen to join in turn; 0: never */
	uint32_t former_nonce; /* of the join that the pending join replaced; 0: none */
};

/* A process that joined as a source. */
struct claim {
	struct pktbuf_endpoint at; /* not valid: no process joined */
	uint32_t order; /* the claim's number in the job */
	uint32_t nonce; /* the join's block_id */
	uint32_t count; /* proved: of its last transmission */
	uint8_t proof[WEIR_CHALLENGE_BYTES]; /* proved: the long nonce */
	uint64_t epoch; /* proved: of its key */
	uint8_t parents; /* of a switch: the set of parents with which it takes part */
	bool asks_list; /* it takes the list of settings */
};

/* The collection of joins, in the home shard. */
struct job_home {
	bool announcing; /* an announcement is in progress */
	uint16_t kept_s; /* seconds that a join counts without being repeated; not 0 */
	uint16_t begun; /* the last generation that was tried, each once; 0: none yet */
	uint16_t pending_count;
	uint32_t claims; /* counts new joins */
	uint64_t pending[MASK_WORDS];
	uint64_t gone[MASK_WORDS]; /* pending sources that left during the announcement */
	uint64_t in[MASK_WORDS]; /* sources whose joins began the running generation */
	uint64_t present[MASK_WORDS]; /* sources of `in` that have neither left nor joined again */
	struct join_request request[WEIR_SOURCES_MAX];
	struct claim asking[WEIR_SOURCES_MAX]; /* of pending joins */
	struct claim joined[WEIR_SOURCES_MAX]; /* of the running generation */
	struct claim displaced[WEIR_SOURCES_MAX]; /* the last displaced process of each source */
	uint64_t to_notify[MASK_WORDS]; /* sources whose displaced process was not told yet */
	uint32_t former[WEIR_SOURCES_MAX]; /* nonces of the former generation; 0: none, or equal */
	struct parents_home *parents; /* tree/; not NULL when the job has parents */
	/* Only if joins are proved, or the job has parents: */
	struct pktbuf_tag_key challenger; /* makes challenges and nonces; drawn at creation */
	uint64_t challenges; /* made so far */
	uint64_t quoted[MASK_WORDS]; /* sources whose challenge has served a join */
	uint8_t challenge[WEIR_SOURCES_MAX][WEIR_CHALLENGE_BYTES]; /* that joins must quote */
	uint8_t generation_challenge[WEIR_CHALLENGE_BYTES]; /* of the generation that begins */
};

/* The keys of a job's sources in one shard. A key is derived when a packet of its source needs it,
 * so that no worker stops to derive all keys at once. It is kept, because deriving costs an HMAC
 * and any host can cause it. While a rank changes hands, two epochs may alternate. */
struct own_keys {
	uint8_t job[WEIR_KEY_BYTES];
	struct own_key {
		uint64_t epoch; /* of the source in the worker's job table */
		uint64_t former_epoch; /* replaced by `epoch` at the same address; 0: none */
		uint64_t derived_epoch; /* of `key` */
		bool derived;
		uint8_t key[WEIR_KEY_BYTES];
	} source[];
};

/* The keys of an authenticated job in one shard. Sources' keys are derived as in own_keys. */
struct job_keys {
	uint8_t challenge[WEIR_CHALLENGE_BYTES]; /* of the running generation */
	uint8_t former_challenge[WEIR_CHALLENGE_BYTES]; /* of the former generation */
	uint64_t epoch[WEIR_SOURCES_MAX]; /* in which the generation's sources joined */
	uint64_t former_epoch[WEIR_SOURCES_MAX]; /* of the former generation's sources */
	uint16_t former; /* the former generation; 0: none */
	uint64_t derived[MASK_WORDS]; /* sources whose key is derived */
	uint8_t results_bytes
		[WEIR_KEY_BYTES]; /* the bytes of `results`; sources get them wrapped */
	struct pktbuf_tag_key results; /* hop.key, if it could be derived */
	struct pktbuf_tag_key source[]; /* contributions' keys of the running generation */
};

/* What a join's tag covers, and the tag. */
struct signed_join {
	uint8_t address[4], port[2]; /* of the sender */
	uint8_t header[WEIR_EXT_BYTES];
	struct weir_join_proof proof;
	uint8_t tag[WEIR_TAG_BYTES];
};

/* What a reply's tag covers, and the tag behind the longest payload. */
#define REPLY_BYTES (WEIR_ACCEPTED_MOST + WEIR_CHALLENGE_BYTES + WEIR_KEY_BYTES)
struct signed_reply {
	uint8_t answered[WEIR_TAG_BYTES];
	uint8_t header[WEIR_EXT_BYTES];
	uint8_t payload[REPLY_BYTES];
	uint8_t tag[WEIR_TAG_BYTES];
};

/* ---- reply.c. Any worker ---- */

/* Drop the packet, and tell the source why. Ends the thread. */
struct ppe_next reply_refuse(struct ppe_worker *worker, struct ppe_thread *thread,
	enum ppe_drop reason, enum weir_status status);

/* Where reply_refuse_unknown() may lead: of struct ppe_segment_name. */
#define REFUSAL_LEADS_TO                                                                           \
	" output drop:unknown_job drop:unknown_source drop:address" CHECKSUMS_LEAD_TO GUARD_LEADS_TO

/* Drop a packet whose sender is no source of the job (NULL: there is no job), and tell the sender,
 * within limits. Ends the thread. */
struct ppe_next reply_refuse_unknown(
	struct ppe_worker *worker, struct ppe_thread *thread, const struct ppe_job *job);

/* The reason under which reply_refuse_unknown() would drop the packet. Only reads; any thread. */
enum ppe_drop reply_unknown_reason(const struct ppe_worker *worker, const struct ppe_thread *thread,
	const struct ppe_job *job, uint8_t source);

/* Reply to the packet's sender, within the port's limit: the header `asked` with this status and no
 * elements. payload: at most 48 bytes, or NULL. While the job is in debt, only joins are replied
 * to. */
void reply_status(struct ppe_worker *worker, const struct ppe_thread *thread,
	const struct weir_header *asked, enum weir_status status, const void *payload,
	uint8_t bytes);

/* reply_status() in two steps: get the sender of the thread's packet, and later reply to it. job:
 * NULL: there is no job. */
struct reply_peer reply_peer_of(const struct ppe_thread *thread, const struct job_shard *job,
	const struct weir_header *asked);
void reply_send(struct ppe_worker *worker, struct collective *state, const struct reply_peer *peer,
	enum weir_status status, const void *payload, uint8_t bytes);

/* Send a small packet to an endpoint, counted as created. job: its rate is charged; NULL: no job.
 * payload: at most REPLY_BYTES + WEIR_TAG_BYTES. */
void reply_send_packet(struct ppe_worker *worker, struct job_shard *job,
	const struct pktbuf_endpoint *to, const struct weir_header *header, const void *payload,
	uint8_t bytes);

/* ---- source.c ---- */

/* The packet's source endpoint. Any worker. */
void source_endpoint_of(
	const struct ppe_thread *thread, bool extended, struct pktbuf_endpoint *endpoint);

/* Set a source's endpoint, and write its header template. The endpoint of a join is bound to its
 * port. */
void source_set_endpoint(struct ppe_worker *worker, struct job_shard *job, uint8_t source,
	const struct pktbuf_endpoint *endpoint);

/* Release what source_set_endpoint() has bound. A source without an endpoint may still be bound. */
void source_unbind(struct ppe_worker *worker, struct job_shard *job, uint8_t source);

/* Expel the source: no more results; its packets are answered `expired`. Its address stays. */
void source_expel(struct job_shard *job, uint8_t source);

/* Set the ranks of the sources of the mask. */
void source_set_ranks(struct job_shard *job, const uint64_t sources[MASK_WORDS]);

/* Take the job's members from the table: if a member left, or has another address, forget its joins
 * and endpoint, and set its bit in `left`. Returns whether any member has changed. */
bool source_set_members(struct ppe_worker *worker, struct job_shard *job,
	const struct ppe_job *table, uint64_t left[MASK_WORDS]);

/* Begin a generation in this shard: forget the former blocks, set the endpoints of the joins.
 * false: a source is no member here, because home and shard have different job tables. */
bool generation_begin(struct collective *state, struct job_shard *job, uint16_t generation,
	const struct job_home *home);

/* End the generation in this shard: forget its blocks and accept no more, but keep what replies to
 * its sources need. why: enum weir_over. */
void generation_end(struct collective *state, struct job_shard *job, uint8_t why);

/* ---- join.c. Home shard, except join_entry() ---- */

/* A join: check its sender, and hop to the home shard. Any worker. Ends the packet, or continues at
 * join_take. */
struct ppe_next join_entry(
	struct ppe_worker *worker, struct ppe_thread *thread, const struct ppe_job *job);

/* Explain a join (struct ppe_program's `explain`). Control thread. */
void join_explain(const struct ppe_worker *worker, const void *const *states,
	struct ppe_thread *thread, struct ppe_explanation *explanation);

/* The segment that takes a join. A join that is not repeated for this long is forgotten, unless
 * ppe_config.joins_s differs. Hosts repeat joins every 500 ms. */
#define JOIN_FORGOTTEN_S 3
struct ppe_next join_take(struct ppe_worker *worker, struct ppe_thread *thread);
extern const struct ppe_segment_name join_segments[];

/* The segment for a packet that is not from its source's endpoint. It drops the packet. If the
 * source's former process sent the packet, it tells the process. */
struct ppe_next join_unbound_at_home(struct ppe_worker *worker, struct ppe_thread *thread);

/* Has the source not repeated its join for too long? Any thread. */
bool join_has_expired(const struct job_home *home, unsigned int source, uint32_t now);

/* Have all sources joined, with the same parents? Forgets joins that are too old. */
bool join_is_complete(struct job_shard *job, uint32_t now);

/* Tell the source's former process, if it has not been told, which process displaced it. */
void join_tell_displaced(struct ppe_worker *worker, struct ppe_thread *thread,
	struct job_shard *job, uint8_t source);

/* Make the pending joins the joins of the running generation. */
void join_adopt(struct job_shard *job);

/* If a member left during the announcement, abandon the generation and its number, which no source
 * knows. The other joins stay. Returns whether it was abandoned. */
bool join_abandon(struct job_home *home);

/* Forget the joins of a source whose membership ended. removed: it has no address any more;
 * otherwise its process stays until the running generation ends. */
void join_forget(struct job_home *home, uint8_t source, bool removed);

/* ---- announce.c. Home shard, if no announcement is in progress. The packet travels along ---- */

/* Announce to all shards that the next generation begins with the pending joins; that the running
 * generation ends; that a source has the endpoint of its last join. */
struct ppe_next announce_begin(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job);
struct ppe_next announce_end(struct ppe_worker *worker, struct ppe_thread *thread,
	struct job_shard *job, enum weir_over why);
struct ppe_next announce_endpoint(struct ppe_worker *worker, struct ppe_thread *thread,
	struct job_shard *job, uint8_t source);
extern const struct ppe_segment_name announce_segments[];

/* The settings of a job, by enum weir_setting. Any thread. */
void announce_settings(const struct ppe_job *job, uint32_t setting[WEIR_SETTINGS]);

/* Answer the join of source `only`, or all joins (only < 0), with the running generation. */
struct ppe_next announce_answer(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job, int only);

/* ---- keys.c ---- */

/* Create a job's keys in a shard, with room for sources [0, source_end): the sources' own, and
 * those of an authenticated job. NULL: no memory. Control thread. */
struct own_keys *keys_own_create(const struct ppe_job *job, uint16_t source_end, int socket);
struct job_keys *keys_create(uint16_t source_end, int socket);

/* Bytes of both. Any thread. */
size_t keys_bytes(const struct ppe_job *job);

/* Draw the key of the job's challenges, and the first challenges. Control thread. -EIO: the system
 * has no random bytes. */
int keys_challenges_create(struct job_home *home);

/* Write the next challenge: never used before, and unpredictable. */
void keys_challenge_next(struct job_home *home, uint8_t challenge[WEIR_CHALLENGE_BYTES]);

/* Begin a generation, before hop.generation is set. joined: by source; fixed generation: NULL. */
void keys_begin(struct collective *state, struct job_shard *job, uint16_t generation,
	const uint8_t challenge[WEIR_CHALLENGE_BYTES], const struct claim *joined);

/* The reason why keys_authentic() would drop the packet, whatever its tag; PPE_DROP_COUNT: the tag
 * decides. Only reads; any thread. */
enum ppe_drop keys_refusal(const struct job_shard *job, const struct contribution *contribution);

/* Verify the tag of a contribution or join, after its checksums; its payload then ends before the
 * tag. false: the packet has been dropped. next: the payload that will be read next, to be fetched
 * meanwhile; NULL: none. */
bool keys_authentic(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job,
	const uint8_t *next);
bool keys_authentic_join(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job);

/* Write the results' key of the running generation for the process of an accepted join; returns its
 * bytes. */
uint8_t keys_wrap_results(struct collective *state, const struct job_shard *job, uint8_t source,
	const struct claim *joined, uint8_t wrapped[WEIR_KEY_BYTES]);

/* Write the tag of a reply behind its payload of at most REPLY_BYTES; returns its bytes. epoch: of
 * the source's key. answered: the bytes that tie it to the peer's packet. */
uint8_t keys_tag_reply(struct collective *state, const struct job_shard *job,
	const struct weir_header *header, uint64_t epoch, const uint8_t answered[WEIR_TAG_BYTES],
	void *payload, uint8_t bytes);

/* Derive a key of a generation from a label, the nonce if not NULL, the challenge and the
 * generation. false: no memory. */
bool keys_derive(const struct collective *state, const uint8_t from[WEIR_KEY_BYTES],
	const char *label, const uint8_t nonce[WEIR_CHALLENGE_BYTES],
	const uint8_t challenge[WEIR_CHALLENGE_BYTES], uint16_t generation,
	uint8_t key[WEIR_KEY_BYTES]);

/* The HMAC tag of up to 240 bytes under a label and a source's key. false: it cannot be made, and
 * is 0. */
bool keys_short_tag(const struct collective *state, const uint8_t *key, const char *label,
	const void *bytes, size_t length, uint8_t tag[WEIR_TAG_BYTES]);

/* ---- hop.c ---- */

/* What ends the packets of a job: WEIR_FLAG_AUTHENTICATED, WEIR_FLAG_CRC or 0. Any thread. */
uint8_t hop_flags(const struct ppe_job *job);

/*
 * Write the end of a packet of a block: the bitmap, if the header says that some sources are
 * missing, then the tag or CRC, if the hop has them. Returns its bytes, at most WEIR_BITMAP_BYTES +
 * WEIR_TAG_BYTES. number: of the block in its generation. slice: 1 + the rank of the receiver, or 0
 * if the result is identical for all. part: the payload before the end. The tag or CRC of a result
 * covers a header that all receivers share, in the extended form, so that it may lie in the buffer,
 * behind the sum.
 */
uint32_t hop_end(const struct hop *hop, const struct weir_header *header, uint64_t number,
	unsigned int slice, const void *bitmap, const struct pktbuf_piece part[2], void *end);

/* Write the CRC of a reply behind its payload; returns its bytes. */
uint8_t hop_crc_reply(const struct weir_header *header, void *payload, uint8_t bytes);

/* Count and drop a forged packet; returns false. */
bool hop_forged(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job);

/* Verify the CRC at the end of a packet from a source, or of a result from a parent, whose payload
 * then ends before the CRC. false: the packet has been dropped. */
bool hop_crc_holds(struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job);

/* Is the CRC at the end of a source's packet right? Only reads; any thread. */
bool hop_crc_is_right(const struct ppe_thread *thread);
bool hop_result_crc_holds(
	struct ppe_worker *worker, struct ppe_thread *thread, struct job_shard *job);

#endif
