/* SPDX-License-Identifier: BSD-3-Clause */
/* A generation of the job: joined, begun, ended, begun again. */
#include "apps/libweir/engine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "apps/libweir/control.h"
#include "apps/libweir/work.h"
#include "pktbuf/wire/settings.h"

/* ---- joining ---- */

#define JOIN_FIRST_NS (10 * WEIR_NS_PER_MS)
#define SILENT_NS     (500 * WEIR_NS_PER_MS) /* without a packet from the switch */

/* generation: WEIR_GEN_JOIN joins the next one; else this repeats the join of the current one. */
static int
send_join(struct weir_handle *h, uint32_t nonce, uint16_t generation)
{
	const struct weir_header header = {
		.extended = true,
		.job_id = h->job,
		.src_id = h->source,
		.block_id = nonce,
		.gen_id = generation,
		.collective = WEIR_COLLECTIVE_JOIN,
		.op = WEIR_JOIN_ASKS_LIST,
		.flags = (h->auth != NULL ? WEIR_FLAG_AUTHENTICATED : 0) |
			(h->base_form ? WEIR_FLAG_BASE_RESULTS : WEIR_FLAG_SKIPS_OWN),
	};
	uint8_t packet[WEIR_EXT_BYTES + sizeof(struct weir_join_proof) + WEIR_TAG_BYTES];
	struct iovec piece = {.iov_base = packet};
	struct weir_tx tx = {.pieces = &piece, .count = 1, .port = h->switch_ext.sin_port};
	size_t bytes = weir_header_write(&header, packet);
	int code;

	if (h->auth != NULL)
		bytes = weir_auth_join(h->auth, &h->own, packet);
	if (bytes == 0)
		return weir_error_set(h, -ENOMEM, "out of memory");
	h->spoke_at = weir_now();
	tx.bytes = (uint32_t)(piece.iov_len = bytes);
	code = h->transport->ops->send(h->transport, &tx, 1);
	if (code >= 0 || code == -EAGAIN || code == -ENOBUFS || code == -EINTR)
		return 0;
	if (!weir_soft_error(-code))
		return weir_error_set(h, code, "cannot send to the switch: %s", strerror(-code));
	h->network_error = -code;
	return 0;
}

/* Take the job's settings from the reply that begins the generation. 1, or -EPROTO. */
static int
take_settings(struct weir_handle *h, const struct weir_header *reply, const struct weir_accepted *a)
{
	const uint32_t *v = a->setting;
	uint32_t window = v[WEIR_SETTING_WINDOW], group = v[WEIR_SETTING_RESULTS];

	h->generation = reply->gen_id;
	h->window_job = (uint16_t)window;
	h->elements = v[WEIR_SETTING_ELEMENTS];
	h->sources = a->sources;
	h->row_room =
		v[WEIR_SETTING_ALLTOALL] != 0 ? row_room(h->elements, h->sources) : h->elements;
	h->rank = reply->root;
	h->job_dtype = (uint8_t)v[WEIR_SETTING_TYPE];
	h->job_op = (uint8_t)v[WEIR_SETTING_OP];
	h->skips_own = a->skips_own;
	h->more_ports = a->more_ports;
	h->timeout_ms = v[WEIR_SETTING_TIMEOUT];
	h->group.s_addr = htonl(group);
	if (h->generation == WEIR_GEN_JOIN || window == 0 || window > WEIR_WINDOW_MAX ||
		(window & (window - 1)) != 0 || h->elements == 0 ||
		h->elements > WEIR_ELEMENTS_MAX || h->sources == 0 ||
		h->sources > WEIR_SOURCES_MAX || h->rank >= h->sources ||
		!weir_dtype_has_op(h->job_dtype, h->job_op) || (group != 0 && !IN_MULTICAST(group)))
		return weir_error_set(h, -EPROTO,
			"%s: the switch's reply to the join makes no sense (generation %u, window "
			"%u, %u elements, %u sources): do switch and library have the same "
			"version?",
			h->job_text, h->generation, window, h->elements, h->sources);
	if (h->expected != 0 && h->expected != h->sources)
		return weir_error_set(h, -EPROTO,
			"%s has %u %ss at the switch, but %u were expected here: one of the two "
			"configurations is wrong",
			h->job_text, h->sources, h->noun, h->expected);
	return 1;
}

/* The reply that begins the generation. 1; 0: it is damaged; or -errno. */
static int
take_accepted(struct weir_handle *h, const struct weir_header *reply, const uint8_t *payload,
	size_t bytes)
{
	struct weir_accepted a;
	size_t used = weir_accepted_read(payload, bytes, false, &a);
	const uint8_t *challenge = payload + used;
	/* The length also tells whether there is a CRC, and no damaged bit changes it. */
	bool ends_with_crc = h->auth == NULL &&
		(weir_accepted_has_crc(payload, bytes) || bytes == used + WEIR_CRC_BYTES);

	if (ends_with_crc) {
		if (!weir_crc_holds(reply, payload - WEIR_EXT_BYTES, WEIR_EXT_BYTES + bytes)) {
			WEIR_COUNT(h, crc, 1);
			return 0;
		}
		bytes -= WEIR_CRC_BYTES;
	}
	if (used != 0 && a.unknown != 0)
		return weir_error_set(h, -EPROTO,
			"%s has settings that this library does not know (number %u): take a newer "
			"libweir",
			h->job_text, a.unknown);
	h->is_tagged = a.setting[WEIR_SETTING_AUTHENTICATE] != 0;
	h->has_crc = a.setting[WEIR_SETTING_INTEGRITY] != 0;
	if (used == 0 ||
		bytes - used !=
			(h->auth == NULL               ? 0u
					: h->is_tagged ? WEIR_CHALLENGE_BYTES + WEIR_KEY_BYTES
						       : WEIR_CHALLENGE_BYTES) ||
		(h->auth == NULL && h->has_crc != ends_with_crc) ||
		(h->is_tagged && (h->auth == NULL || h->base_form)))
		return weir_error_set(h, -EPROTO,
			"%s: the switch's reply to the join makes no sense (%zu bytes, flags %u): "
			"do switch and library have the same version?",
			h->job_text, bytes, h->is_tagged);
	if (h->auth != NULL)
		weir_auth_challenge(h->auth, challenge);
	if (h->is_tagged &&
		!weir_auth_begin(h->auth, reply->gen_id, challenge + WEIR_CHALLENGE_BYTES))
		return weir_error_set(h, -ENOMEM, "out of memory");
	return take_settings(h, reply, &a);
}

/* The reply that lists the sources which have joined. */
static void
note_waiting(struct weir *weir, const struct weir_header *reply, const uint8_t *payload)
{
	struct weir_handle *h = &weir->h;

	if (h->auth != NULL)
		weir->must_join_now |= weir_auth_challenge(h->auth, payload + WEIR_BITMAP_BYTES);
	for (unsigned int i = 0; h->has_waiting && i < WEIR_BITMAP_BYTES; i++)
		weir->is_join_in_doubt |= (h->waiting[i] & ~payload[i]) != 0;
	memcpy(h->waiting, payload, WEIR_BITMAP_BYTES);
	weir_note_known(h, payload);
	h->has_waiting = true;
	h->waited_for = reply->src_cnt != 0 ? reply->src_cnt : WEIR_SOURCES_MAX;
}

/* Handle one packet. 1: joined; 0: keep waiting; -errno. */
static int
take_reply(struct weir *weir, uint32_t nonce, const struct sockaddr_in *from, const uint8_t *packet,
	size_t bytes)
{
	struct weir_handle *h = &weir->h;
	struct weir_header reply = {.extended = true};
	const uint8_t *payload = packet + WEIR_EXT_BYTES;
	char own[INET_ADDRSTRLEN];
	bool extended;

	if (!weir_from_switch(weir, from, &extended) || !extended || bytes < WEIR_EXT_BYTES)
		return 0;
	weir_header_read(&reply, packet);
	if (reply.collective != WEIR_COLLECTIVE_JOIN || reply.job_id != h->job ||
		reply.src_id != h->source || reply.block_id != nonce)
		return 0;
	if (h->auth != NULL) {
		if (!weir_auth_reply(h->auth, NULL, packet, bytes)) {
			WEIR_COUNT(h, forged, 1);
			/* Refusals have no tags: ask the control API. */
			weir->is_join_in_doubt |= reply.status == WEIR_STATUS_REFUSED;
			return 0;
		}
		bytes -= WEIR_TAG_BYTES;
	}
	h->heard_at = weir_now();
	bytes -= WEIR_EXT_BYTES;
	switch (reply.status) {
	case WEIR_STATUS_OK: return take_accepted(h, &reply, payload, bytes);
	case WEIR_STATUS_WAITING:
		if (bytes == WEIR_BITMAP_BYTES + (h->auth != NULL ? WEIR_CHALLENGE_BYTES : 0u))
			note_waiting(weir, &reply, payload);
		return 0;
	case WEIR_STATUS_DISPLACED:
		return bytes == sizeof(struct weir_displaced) ? weir_error_displaced(h, payload)
							      : 0;
	case WEIR_STATUS_REFUSED:
		return weir_error_set(h, -EACCES,
			"the switch refuses %s %u of %s: it is not in the job, or this host's "
			"address, %s, is not the one that it has there",
			h->noun, h->source, h->job_text,
			inet_ntop(AF_INET, &h->own.sin_addr, own, sizeof(own)));
	default:
		return weir_error_set(h, -EOPNOTSUPP,
			"the switch answers the join of %s with `%s`: %s", h->job_text,
			weir_status_text(reply.status),
			h->auth != NULL && h->base_form
				? "is the job authenticated? The base form has no place for tags"
				: "does the job have a fixed generation, or other settings than "
				  "above this switch? Its log says");
	}
}

/* Bytes of a reply to a join at most; longer datagrams are results of an earlier generation. */
#define REPLY_MOST 256

static int
receive_replies(struct weir *weir, uint32_t nonce)
{
	struct weir_transport *t = weir->h.transport;
	struct weir_rx rx[WEIR_BATCH];
	unsigned int n;
	int code = 0;

	do {
		n = t->ops->receive(t, false, rx, WEIR_BATCH);
		for (unsigned int i = 0; i < n && code == 0; i++)
			if (rx[i].length <= REPLY_MOST)
				code = take_reply(
					weir, nonce, rx[i].from, rx[i].bytes, rx[i].length);
	} while (t->more && code == 0);
	return code;
}

/*
 * Ask the control API when a source that had joined is gone, when the switch seems to refuse the
 * join, and when a message is due. Negative: the join can't succeed any more, with h.error set.
 */
static int
check_members(struct weir *weir, uint64_t begin)
{
	struct weir_handle *h = &weir->h;
	bool late = weir_now() >= weir_warn_due(h, begin);
	char text[WEIR_ERROR_MAX];
	int code;

	if (!late && !weir->is_join_in_doubt)
		return 0;
	weir->is_join_in_doubt = false;
	code = weir_control_query(h, h->has_waiting ? h->waiting : NULL, text, sizeof(text));
	if (code < 0)
		return weir_error_set(h, code, "%s", text);
	if (!late)
		return 0;
	weir_error_join(h, weir_now() - begin);
	weir_error_add(h, text);
	weir_warn_waiting(h, h->error);
	return 0;
}

static int
begin_join(struct weir *weir)
{
	uint64_t now = weir_now();
	uint32_t nonce = 0;

	if (weir->h.auth != NULL) {
		if (weir_auth_draw(weir->h.auth, &nonce) < 0)
			return weir_error_set(&weir->h, -EIO, "the system has no random bytes");
	} else if (getrandom(&nonce, sizeof(nonce), 0) != sizeof(nonce))
		nonce = (uint32_t)(now ^ now >> 32);
	weir->join_nonce = nonce;
	weir->joining = (struct weir_joining){.begin = now,
		.deadline = weir->joining.deadline,
		.next = now,
		.interval = JOIN_FIRST_NS};
	return 0;
}

/* As weir_begin_step(). */
static int
step_join(struct weir *weir, uint64_t *until)
{
	struct weir_joining *j = &weir->joining;
	uint64_t now = weir_now();
	int code;

	weir_take_errors(weir);
	code = receive_replies(weir, weir->join_nonce);
	if (code == 0 && now >= j->deadline)
		return weir_error_join(&weir->h, now - j->begin);
	if (code == 0 && (now >= j->next || weir->must_join_now)) {
		weir->must_join_now = false;
		j->next = now + j->interval;
		j->interval = weir_earlier(j->interval * 2, WEIR_JOIN_REPEAT_NS);
		code = send_join(&weir->h, weir->join_nonce, WEIR_GEN_JOIN);
	}
	if (code == 0)
		code = check_members(weir, j->begin);
	*until =
		weir_earlier(weir_earlier(j->next, j->deadline), weir_warn_due(&weir->h, j->begin));
	return code;
}

void
weir_join_repeat(struct weir *weir, uint64_t now)
{
	uint64_t heard = weir->h.heard_at > weir->progressed ? weir->h.heard_at : weir->progressed;

	if (now < heard + SILENT_NS || now < weir->join_repeat_at)
		return;
	weir->join_repeat_at = now + WEIR_JOIN_REPEAT_NS;
	/* An error is ignored: if it lasts, the next contribution reports it. */
	(void)send_join(&weir->h, weir->join_nonce, weir->h.generation);
}

uint64_t
weir_keepalive_due(const struct weir *weir)
{
	if (weir->h.control == NULL || weir->failed != 0)
		return UINT64_MAX;
	return weir->h.spoke_at + weir->h.keepalive;
}

void
weir_keepalive(struct weir *weir, uint64_t now)
{
	if (now >= weir_keepalive_due(weir))
		(void)send_join(&weir->h, weir->join_nonce, weir->h.generation);
}

/* ---- beginning and ending ---- */

/* Make room in the transport for a window of the job's results. Returns the window that there is
 * room for; 0: no memory. */
static uint32_t
size_window(struct weir *weir)
{
	struct weir_handle *h = &weir->h;
	struct weir_transport *t = h->transport;
	/* The longest result: 4 bytes per element (weir_elements), or one element of 8 bytes. */
	size_t payload = h->elements > 1 ? h->elements * 4u : 8u;
	uint32_t window = h->window_job, room;
	uint64_t granted;

	weir->longest = (uint32_t)(WEIR_EXT_BYTES + payload + WEIR_BITMAP_BYTES + WEIR_TAG_BYTES);
	room = t->ops->size(t, weir->longest, window, &granted);
	while (window > 1 && (window > room || (h->window_limit && window > h->window_limit)))
		window /= 2;
	WEIR_SET(h, window, window);
	WEIR_SET(h, window_job, h->window_job);
	WEIR_SET(h, receive_buffer, granted);
	return room == 0 ? 0 : window;
}

/* Create what depends on the job. */
static int
joined(struct weir *weir)
{
	struct weir_handle *h = &weir->h;
	struct sockaddr_in group = h->base_form ? h->switch_base : h->switch_ext;
	char text[256];
	int code = 0;
	uint32_t window;

	group.sin_addr = h->group;
	if (h->group.s_addr != 0) /* results are multicast */
		code = h->transport->ops->join(h->transport, &group, text, sizeof(text));
	if (code < 0)
		return weir_error_set(h, code, "%s", text);
	window = size_window(weir);
	weir_recovery_init(&weir->ring.recovery, window);
	weir->ring.slots = calloc(window, sizeof(*weir->ring.slots));
	weir->outbox = calloc(1, sizeof(*weir->outbox));
	if (window == 0 || weir->ring.slots == NULL || weir->outbox == NULL ||
		weir_unexpected_create(weir) < 0)
		return weir_error_set(h, -ENOMEM, "out of memory");
	return weir_loop_add(weir);
}

static int
open_transport(struct weir *weir)
{
	struct weir_handle *h = &weir->h;
	struct weir_transport_config config = {
		.own = h->own,
		.switch_address = h->switch_ext.sin_addr,
		.spin_us = (unsigned int)(weir->spin.most / 1000),
		.udp = &weir_transport_udp,
	};
	const struct weir_transport_ops *ops;
	char text[512];
	int code;

	h->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (h->wake_fd < 0)
		return weir_error_set(h, -errno, "eventfd: %s", strerror(errno));
	ops = weir_transport_find(&code, text, sizeof(text));
	if (ops != NULL)
		code = ops->open(&config, &h->transport, text, sizeof(text));
	if (code < 0)
		return weir_error_set(h, code, "%s", text);
	h->own = config.own;
	return 0;
}

int
weir_begin_step(struct weir *weir, uint64_t *until)
{
	int code = 0;

	if (weir->joining.begin != 0)
		return step_join(weir, until);
	/* This waits for the control API, but not for other hosts. */
	if (weir->h.control != NULL)
		code = weir_control_join(&weir->h, weir->joining.deadline, until);
	if (code == 0)
		code = open_transport(weir);
	if (code == 0)
		code = begin_join(weir);
	if (code != 0)
		return code < 0 ? code : 0;
	weir->open_work.fd = weir->h.transport->fd;
	return step_join(weir, until);
}

int
weir_begin_end(struct weir *weir, int code)
{
	return code < 0 ? weir_query_job(weir, code) : joined(weir);
}

int
weir_begin(struct weir *weir)
{
	struct weir_transport *t;
	uint64_t until = 0;
	int code;

	while ((code = weir_begin_step(weir, &until)) == 0) {
		t = weir->h.transport;
		if (t != NULL)
			(void)t->ops->wait(t, -1, false, 0, until);
		else
			weir_sleep(NULL, 0, until); /* the control API is busy */
	}
	return weir_begin_end(weir, code);
}

int
weir_generation_set(struct weir *weir, int code)
{
	pthread_mutex_lock(&weir->lock);
	weir->failed = code;
	weir->h.has_begun |= code == 0;
	snprintf(weir->failure, sizeof(weir->failure), "%s", code < 0 ? weir->h.error : "");
	if (code < 0)
		weir_error_return(&weir->h, code, "%s", weir->failure);
	pthread_mutex_unlock(&weir->lock);
	return code;
}

void
weir_end(struct weir *weir)
{
	weir_loop_remove(weir);
	weir_work_cancel(&weir->query_work);
	weir->is_querying = false;
	if (weir->h.transport != NULL)
		weir->h.transport->ops->leave(weir->h.transport);
	weir->h.group.s_addr = 0;
	weir->h.is_tagged = weir->h.has_crc = false;
	free(weir->ring.slots);
	weir_unexpected_destroy(weir);
	free(weir->outbox);
	weir->outbox = NULL;
	memset(&weir->ring, 0, sizeof(weir->ring));
	weir->next = 0;
	weir->h.generation = 0;
	weir->h.has_waiting = false;
	weir->h.network_error = 0;
	weir->h.sources = 0;
	weir->hot_until = weir->due_at = 0;
	weir->h.error[0] = '\0';
}

/*
 * The membership may have expired, or the job may have been created again, with other keys and
 * another id. The control API gets half of the time: without its answer the former membership may
 * still be valid.
 */
static int
begin_again(struct weir *weir)
{
	uint64_t now = weir_now();
	int code = weir_control_rejoin(&weir->h, now + weir->h.join_timeout / 2);

	weir->joining.deadline = now + weir->h.join_timeout;
	if (code == 0)
		code = begin_join(weir);
	return code < 0 ? code : weir_begin(weir);
}

int
weir_rejoin(struct weir *weir)
{
	bool busy;
	int code = weir != NULL ? weir_check_process(weir) : -EINVAL;

	if (code < 0)
		return code;
	pthread_mutex_lock(&weir->lock);
	busy = weir->is_opening || weir->is_rejoining || !TAILQ_EMPTY(&weir->requests) ||
		!TAILQ_EMPTY(&weir->ended_requests);
	if (!busy)
		weir->is_rejoining = true;
	pthread_mutex_unlock(&weir->lock);
	if (busy)
		return weir_error_return(&weir->h, -EBUSY,
			"weir_iopen or an operation, another thread's perhaps, is under way on "
			"this handle, or its request was not waited for");
	if (weir->h.transport != NULL) {
		weir_end(weir);
		(void)weir_generation_set(weir, begin_again(weir));
	} else { /* weir_open failed before it opened the transport */
		weir_error_return(&weir->h, weir->failed, "%s", weir->failure);
	}
	pthread_mutex_lock(&weir->lock);
	weir->is_rejoining = false;
	pthread_mutex_unlock(&weir->lock);
	return weir->failed;
}
