/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts of an authenticated job: they join with tags, tag each contribution anew (a tag holds for one
 * block), and verify results. See generator.h.
 *
 * Making tags is the hosts' work, on the worker's core: its time is noted and taken out of the
 * figures, and what it has read is sent back to L3, where a device would have put it.
 */
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include "apps/bench/generator_priv.h"
#include "pktbuf/tag.h"

#define GENERATION 1
#define JOIN_BYTES (WEIR_EXT_BYTES + sizeof(struct weir_join_proof) + WEIR_TAG_BYTES)

struct generator_auth {
	enum { ASK, ASKED, JOINING, JOINED } state;
	unsigned int asked, answered; /* sources, of those that join */
	uint8_t challenge[WEIR_CHALLENGE_BYTES];
	struct pktbuf_hmac *hmac;
	struct rte_mempool *pool; /* for joins */
	uint8_t member[WEIR_SOURCES_MAX][PKTBUF_MEMBER_KEY_BYTES];
	struct pktbuf_tag_key results;
	struct pktbuf_tag_key *source; /* [sources] */
	uint64_t tagged, cycles; /* contributions, and what they took */
};

int
generator_auth_create(struct generator *g, struct ppe_job *job)
{
	struct generator_auth *a = aligned_alloc(RTE_CACHE_LINE_SIZE, sizeof(*a));
	char name[RTE_MEMPOOL_NAMESIZE];
	bool made = a != NULL && pktbuf_tag_init() == 0;

	if (a == NULL)
		return -1;
	memset(a, 0, sizeof(*a));
	g->auth = a;
	job->authenticated = true;
	job->fixed_generation = 0;
	job->first_generation = GENERATION;
	memset(job->key, 0x57 + job->id, sizeof(job->key));
	snprintf(name, sizeof(name), "bench_joins_%u", g->id);
	a->pool = rte_pktmbuf_pool_create(name, g->work->sources + 1, 0, PKTBUF_PRIV_BYTES,
		RTE_PKTMBUF_HEADROOM + 256, SOCKET_ID_ANY);
	a->hmac = pktbuf_hmac_create();
	a->source = aligned_alloc(RTE_CACHE_LINE_SIZE, g->work->sources * sizeof(*a->source));
	made = made && a->pool != NULL && a->hmac != NULL && a->source != NULL;
	for (unsigned int s = 0; made && s < g->work->sources; s++)
		made = pktbuf_member_key(job->key, (uint8_t)s, a->member[s]);
	return made ? 0 : -1;
}

void
generator_auth_destroy(struct generator_auth *a)
{
	if (a == NULL)
		return;
	rte_mempool_free(a->pool);
	pktbuf_hmac_destroy(a->hmac);
	free(a->source);
	free(a);
}

bool
generator_auth_joined(const struct generator_auth *a)
{
	return a->state == JOINED;
}

/* A source's join, from where its contributions come. */
static struct rte_mbuf *
make_join(struct generator *g, unsigned int source)
{
	struct generator_auth *a = g->auth;
	const struct weir_header header = {.job_id = (uint8_t)g->id,
		.src_id = (uint8_t)source,
		.collective = WEIR_COLLECTIVE_JOIN,
		.flags = WEIR_FLAG_AUTHENTICATED,
		.extended = true};
	struct weir_join_proof proof;
	struct rte_mbuf *packet = rte_pktmbuf_alloc(a->pool);
	uint8_t message[sizeof(WEIR_LABEL_JOIN) - 1 + WEIR_EXT_BYTES + sizeof(proof)];
	uint8_t tag[WEIR_KEY_BYTES], *at = message + sizeof(WEIR_LABEL_JOIN) - 1, *f;

	if (packet == NULL)
		return NULL;
	packet->port = g->port;
	memcpy(proof.challenge, a->challenge, sizeof(proof.challenge));
	memset(proof.nonce, 0, sizeof(proof.nonce));
	memcpy(message, WEIR_LABEL_JOIN, sizeof(WEIR_LABEL_JOIN) - 1);
	weir_header_write(&header, at);
	memcpy(at + WEIR_EXT_BYTES, &proof, sizeof(proof));
	pktbuf_hmac(a->hmac, a->member[source], message, sizeof(message), tag);
	f = (uint8_t *)rte_pktmbuf_append(packet, FRAME_HEADERS + JOIN_BYTES);
	memcpy(f, rte_pktmbuf_mtod(g->frames->mbuf[source], void *), FRAME_HEADERS);
	weir_put16(f + 14 + 2, 20 + 8 + JOIN_BYTES);
	weir_put16(f + 14 + 20 + 4, 8 + JOIN_BYTES);
	memcpy(f + FRAME_HEADERS, at, WEIR_EXT_BYTES + sizeof(proof));
	memcpy(f + FRAME_HEADERS + JOIN_BYTES - WEIR_TAG_BYTES, tag, WEIR_TAG_BYTES);
	return packet;
}

uint16_t
generator_auth_join(struct generator *g, struct rte_mbuf **packets, uint16_t max)
{
	struct generator_auth *a = g->auth;
	uint16_t n = 0;

	if (a->state == ASK) {
		packets[0] = make_join(g, 0);
		a->state = ASKED;
		return packets[0] != NULL;
	}
	while (a->state == JOINING && a->asked < g->work->sources && n < max) {
		packets[n] = make_join(g, a->asked);
		if (packets[n] == NULL)
			break;
		a->asked++;
		n++;
	}
	return n;
}

/* GMAC's key of the generation, from a source's key or the results'. */
static void
derive(struct generator_auth *a, const uint8_t from[WEIR_KEY_BYTES], struct pktbuf_tag_key *key)
{
	const size_t label = sizeof(WEIR_LABEL_GENERATION) - 1;
	uint8_t message[sizeof(WEIR_LABEL_GENERATION) + WEIR_CHALLENGE_BYTES + 1] =
		WEIR_LABEL_GENERATION;
	uint8_t bytes[WEIR_KEY_BYTES];

	memcpy(message + label, a->challenge, WEIR_CHALLENGE_BYTES);
	weir_put16(message + label + WEIR_CHALLENGE_BYTES, GENERATION);
	pktbuf_hmac(a->hmac, from, message, sizeof(message), bytes);
	pktbuf_tag_expand(key, bytes);
}

bool
generator_auth_take(struct generator *g, const struct rte_mbuf *packet)
{
	const uint8_t *at = rte_pktmbuf_mtod_offset(packet, const uint8_t *, FRAME_HEADERS);
	struct weir_header h = {.extended = true};
	struct generator_auth *a = g->auth;

	if (likely(a->state == JOINED))
		return false;
	weir_header_read(&h, at);
	if (h.collective != WEIR_COLLECTIVE_JOIN)
		return false;
	if (h.status == WEIR_STATUS_WAITING && a->state == ASKED) {
		memcpy(a->challenge, at + WEIR_EXT_BYTES + WEIR_BITMAP_BYTES, sizeof(a->challenge));
		a->state = JOINING;
	}
	if (h.status != WEIR_STATUS_OK || ++a->answered < g->work->sources)
		return true;
	for (unsigned int s = 0; s < g->work->sources; s++)
		derive(a, a->member[s], &a->source[s]);
	derive(a, a->member[0] + WEIR_KEY_BYTES, &a->results);
	a->state = JOINED;
	return true;
}

/* Back to L3, on a CPU that can; others take it for no operation. */
static inline void
send_back(const uint8_t *from, unsigned int bytes)
{
	for (unsigned int i = 0; i < bytes; i += RTE_CACHE_LINE_SIZE)
		__asm__ volatile(".byte 0x0f, 0x1c, 0x06" ::"S"(from + i)); /* cldemote */
}

void
generator_auth_tag(struct generator *g, struct rte_mbuf **packets, uint16_t n)
{
	unsigned int bytes = g->work->elements * weir_dtype_bytes(g->work->type);
	struct generator_auth *a = g->auth;
	uint64_t began = rte_rdtsc(), took, usual;

	for (uint16_t i = 0; i < n; i++) {
		uint8_t *header = rte_pktmbuf_mtod_offset(packets[i], uint8_t *, FRAME_HEADERS);
		uint8_t *payload = header + WEIR_EXT_BYTES;

		pktbuf_tag_make(&a->source[header[6]],
			(struct pktbuf_nonce){.number = weir_get32(header + 1)}, header, payload,
			bytes, payload + bytes);
		send_back(header, WEIR_EXT_BYTES + bytes + WEIR_TAG_BYTES);
	}
	took = rte_rdtsc() - began;
	/* What was interrupted counts as the others. */
	usual = a->tagged < 1024 ? took : a->cycles * n / a->tagged;
	if (took > 4 * usual + 1000)
		took = usual;
	a->cycles += took;
	a->tagged += n;
	g->aside += took;
}

bool
generator_auth_holds(const struct generator *g, const uint8_t *header, const uint8_t *payload,
	unsigned int bytes)
{
	uint8_t covered[WEIR_EXT_BYTES], tag[WEIR_TAG_BYTES];

	memcpy(covered, header, sizeof(covered));
	covered[6] = 0; /* src_id: all copies have one tag */
	pktbuf_tag_make(&g->auth->results, (struct pktbuf_nonce){.number = weir_get32(header + 1)},
		covered, payload, bytes, tag);
	return pktbuf_tag_equal(tag, payload + bytes);
}
