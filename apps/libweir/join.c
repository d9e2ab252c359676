/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/libweir/weir_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>

#define JOIN_FIRST_NS (10 * WEIR_NS_PER_MS)
#define JOIN_MOST_NS  (500 * WEIR_NS_PER_MS)

static int
send_join(struct weir *weir, uint32_t nonce)
{
	struct weir_header h = {
		.extended = true,
		.job_id = weir->job,
		.src_id = weir->source,
		.block_id = nonce,
		.gen_id = WEIR_GEN_JOIN,
		.collective = WEIR_COLLECTIVE_JOIN,
		.flags = weir->auth != NULL ? WEIR_FLAG_AUTHENTICATED
			: weir->base_form   ? WEIR_FLAG_BASE_RESULTS
					    : 0,
	};
	uint8_t packet[WEIR_EXT_BYTES + sizeof(struct weir_join_proof) + WEIR_TAG_BYTES];
	size_t bytes = weir_header_write(&h, packet);

	if (weir->auth != NULL)
		bytes = weir_auth_join(weir->auth, packet);
	if (bytes == 0)
		return weir_explain(weir, -ENOMEM, "out of memory");
	if (sendto(weir->fd, packet, bytes, 0, (const struct sockaddr *)&weir->switch_ext,
		    sizeof(weir->switch_ext)) >= 0)
		return 0;
	if (errno == EAGAIN || errno == ENOBUFS || errno == EINTR)
		return 0;
	if (!weir_socket_soft_error(errno))
		return weir_explain(weir, -errno, "cannot send to the switch: %s", strerror(errno));
	weir->network_error = errno;
	return 0;
}

/* The reply that begins the generation. 0, or -EPROTO when it is impossible. */
static int
accept_reply(struct weir *weir, const struct weir_header *h, const uint8_t *payload)
{
	struct weir_join_reply r;
	uint32_t window;

	memcpy(&r, payload, sizeof(r));
	window = weir_get16(r.window);
	weir->generation = h->gen_id;
	weir->window_job = (uint16_t)window;
	weir->elements = weir_get16(r.elements);
	weir->sources = weir_get16(r.sources);
	weir->rank = h->root;
	weir->job_dtype = r.dtype_op >> 4;
	weir->job_op = r.dtype_op & 0xf;
	weir->timeout_ms = weir_get32(r.timeout_ms);
	if (r.flags & WEIR_JOIN_MULTICAST)
		memcpy(&weir->group, r.group, sizeof(weir->group));
	if (h->gen_id == WEIR_GEN_JOIN || window == 0 || window > WEIR_WINDOW_MAX ||
		(window & (window - 1)) != 0 || weir->elements == 0 ||
		weir->elements > WEIR_ELEMENTS_MAX || weir->sources == 0 ||
		weir->sources > WEIR_SOURCES_MAX || weir->rank >= weir->sources ||
		weir_dtype_bytes(weir->job_dtype) == 0 || weir->job_op > WEIR_OP_LXOR ||
		((r.flags & WEIR_JOIN_MULTICAST) && !IN_MULTICAST(ntohl(weir->group.s_addr))))
		return weir_explain(weir, -EPROTO,
			"%s: the switch's reply to the join makes no sense (generation %u, "
			"window %u, "
			"%u elements, %u sources): do switch and library have the same version?",
			weir->job_text, h->gen_id, window, weir->elements, weir->sources);
	if (weir->expected != 0 && weir->expected != weir->sources)
		return weir_explain(weir, -EPROTO,
			"%s has %u %ss at the switch, but %u were expected here: one of "
			"the two "
			"configurations is wrong",
			weir->job_text, weir->sources, weir->noun, weir->expected);
	return 0;
}

/* Look at one packet. 1: joined; 0: wait on; -errno. */
static int
take_reply(struct weir *weir, uint32_t nonce, const struct sockaddr_in *from, const uint8_t *packet,
	size_t bytes)
{
	struct weir_header h = {.extended = true};
	const uint8_t *payload = packet + WEIR_EXT_BYTES;
	char own[INET_ADDRSTRLEN];
	size_t more; /* what an authenticated job's payloads have besides */
	bool extended;

	if (!weir_from_switch(weir, from, &extended) || !extended || bytes < WEIR_EXT_BYTES)
		return 0;
	weir_header_read(&h, packet);
	if (h.collective != WEIR_COLLECTIVE_JOIN || h.job_id != weir->job ||
		h.src_id != weir->source || h.block_id != nonce)
		return 0;
	if (weir->auth != NULL) {
		if (!weir_auth_reply(weir->auth, NULL, packet, bytes)) {
			WEIR_COUNT(weir, forged, 1);
			return 0;
		}
		bytes -= WEIR_TAG_BYTES;
	}
	weir->heard_at = weir_now();
	bytes -= WEIR_EXT_BYTES;
	more = weir->auth != NULL ? WEIR_CHALLENGE_BYTES : 0;
	switch (h.status) {
	case WEIR_STATUS_OK:
		if (bytes != sizeof(struct weir_join_reply) + more)
			return weir_explain(weir, -EPROTO,
				"%s: the switch's reply to the join has %zu bytes instead of "
				"%zu: do "
				"switch and library have the same version?",
				weir->job_text, bytes, sizeof(struct weir_join_reply) + more);
		if (weir->auth != NULL) {
			weir_auth_challenge(weir->auth, payload + sizeof(struct weir_join_reply));
			if (!weir_auth_begin(weir->auth, h.gen_id))
				return weir_explain(weir, -ENOMEM, "out of memory");
		}
		return accept_reply(weir, &h, payload) < 0 ? -EPROTO : 1;
	case WEIR_STATUS_WAITING:
		if (bytes == WEIR_BITMAP_BYTES + more) {
			if (weir->auth != NULL)
				weir->join_again |= weir_auth_challenge(
					weir->auth, payload + WEIR_BITMAP_BYTES);
			memcpy(weir->waiting, payload, WEIR_BITMAP_BYTES);
			weir_note_known(weir, payload);
			weir->have_waiting = true;
			weir->waited_for = h.src_cnt != 0 ? h.src_cnt : WEIR_SOURCES_MAX;
		}
		return 0;
	case WEIR_STATUS_REFUSED:
		return weir_explain(weir, -EACCES,
			"the switch refuses %s %u of %s: it is not in the job, or this host's "
			"address, %s, is not the one that it has there",
			weir->noun, weir->source, weir->job_text,
			inet_ntop(AF_INET, &weir->own.sin_addr, own, sizeof(own)));
	default:
		return weir_explain(weir, -EOPNOTSUPP,
			"the switch answers the join of %s with `%s`: has the job a fixed "
			"generation?",
			weir->job_text, weir_status_text(h.status));
	}
}

static int
receive_replies(struct weir *weir, uint32_t nonce)
{
	uint8_t packet[256];
	struct sockaddr_in from;

	for (;;) {
		socklen_t size = sizeof(from);
		ssize_t bytes = recvfrom(weir->fd, packet, sizeof(packet), MSG_DONTWAIT | MSG_TRUNC,
			(struct sockaddr *)&from, &size);
		int code;

		if (bytes < 0)
			return 0;
		if ((size_t)bytes > sizeof(packet))
			continue;
		code = take_reply(weir, nonce, &from, packet, (size_t)bytes);
		if (code != 0)
			return code;
	}
}

int
weir_join(struct weir *weir)
{
	uint64_t begin = weir_now(), deadline = begin + weir->join_timeout, next = begin;
	uint64_t interval = JOIN_FIRST_NS, now;
	uint32_t nonce = 0;

	if (weir->auth != NULL) {
		if (weir_auth_draw(weir->auth, &nonce) < 0)
			return weir_explain(weir, -EIO, "the system has no random bytes");
	} else if (getrandom(&nonce, sizeof(nonce), 0) != sizeof(nonce))
		nonce = (uint32_t)(begin ^ begin >> 32);
	while ((now = weir_now()) < deadline) {
		struct pollfd p = {.fd = weir->fd, .events = POLLIN};
		struct timespec wait;
		uint64_t until;
		int code;

		if (now >= next || weir->join_again) {
			weir->join_again = false;
			code = send_join(weir, nonce);
			if (code < 0)
				return code;
			next = now + interval;
			interval = interval * 2 < JOIN_MOST_NS ? interval * 2 : JOIN_MOST_NS;
		}
		until = (next < deadline ? next : deadline) - now;
		wait.tv_sec = (time_t)(until / 1000000000);
		wait.tv_nsec = (long)(until % 1000000000);
		if (ppoll(&p, 1, &wait, NULL) <= 0)
			continue;
		if (p.revents & POLLERR)
			weir_socket_drain_errors(weir);
		code = receive_replies(weir, nonce);
		if (code != 0)
			return code < 0 ? code : 0;
	}
	return weir_explain_join(weir, now - begin);
}
