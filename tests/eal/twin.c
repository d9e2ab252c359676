/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/eal/twin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_ring.h>

#define LIMIT_MS 10000 /* for what was sent to leave */
#define L2       14
#define L3       (L2 + 20)
#define L4       (L3 + 8)
#define COMPARED 24 /* bytes of a sight before the UDP payload */

/* ---- lists of frames ---- */

static uint8_t *
list_add(struct twin_list *list, unsigned int port, unsigned int size)
{
	if (list->count == list->room) {
		list->room = list->room * 2 + 64;
		list->frame = realloc(list->frame, list->room * sizeof(*list->frame));
	}
	list->frame[list->count] =
		(struct twin_frame){.bytes = malloc(size), .size = size, .port = (uint8_t)port};
	return list->frame[list->count++].bytes;
}

static void
list_clear(struct twin_list *list)
{
	for (unsigned int i = 0; i < list->count; i++)
		free(list->frame[i].bytes);
	list->count = 0;
}

static int
compare(const void *a, const void *b)
{
	const struct twin_frame *x = a, *y = b;

	if (x->port != y->port)
		return x->port < y->port ? -1 : 1;
	if (x->size != y->size)
		return x->size < y->size ? -1 : 1;
	return memcmp(x->bytes, y->bytes, x->size);
}

/* ---- what leaves ---- */

/*
 * A datagram as both sides see it: MAC addresses, IPv4 addresses, UDP ports, UDP payload. What the
 * page leaves open (identification, time to live) is left out.
 */
static void
model_sends(void *argument, const struct model_packet *p)
{
	struct twin *twin = argument;
	uint8_t *at = list_add(&twin->expected, p->to.link, COMPARED + (unsigned int)p->size);
	uint16_t own = p->extended ? WEIR_PORT_EXT : WEIR_PORT_BASE;

	memcpy(at, p->to.mac, 6);
	if (p->multicast) {
		memcpy(at, (const uint8_t[]){0x01, 0x00, 0x5e}, 3);
		at[3] = p->to.address >> 16 & 0x7f;
		at[4] = (uint8_t)(p->to.address >> 8);
		at[5] = (uint8_t)p->to.address;
	}
	memcpy(at + 6, rig_switch_mac, 6);
	weir_put32(at + 12, RIG_SWITCH_IP);
	weir_put32(at + 16, p->to.address);
	weir_put16(at + 20, own);
	weir_put16(at + 22, p->multicast ? own : p->to.port);
	memcpy(at + COMPARED, p->bytes, p->size);
	twin->created++;
}

/* Is the frame what the page says of every frame? */
static bool
well_formed(const uint8_t *frame, unsigned int bytes)
{
	return bytes >= L4 && weir_get16(frame + 12) == 0x0800 && frame[L2] == 0x45 &&
		frame[L2 + 9] == 17 && frame[L2 + 8] != 0 &&
		(weir_get16(frame + L2 + 6) & 0xbfff) == 0 &&
		weir_get16(frame + L2 + 2) == bytes - L2 &&
		weir_get16(frame + L3 + 4) == bytes - L3 && weir_get16(frame + L3 + 6) != 0 &&
		rig_checksums_hold(frame);
}

static void
take_what_left(struct twin *twin)
{
	static uint8_t frame[RIG_FRAME_MAX];
	unsigned int bytes;

	for (unsigned int p = 0; p < twin->rig.ports; p++) {
		while ((bytes = rig_receive(&twin->rig, p, frame, 0)) > 0) {
			bool good = well_formed(frame, bytes);
			uint8_t *at = list_add(&twin->got, good ? p : 255, bytes - L4 + COMPARED);

			memcpy(at, frame, 12);
			memcpy(at + 12, frame + L2 + 12, 8);
			memcpy(at + 20, frame + L3, 4);
			memcpy(at + COMPARED, frame + L4, bytes - L4);
		}
	}
}

static int
describe(char *text, size_t room, const char *who, const struct twin_frame *f)
{
	struct weir_header h = {.extended = weir_get16(f->bytes + 20) == WEIR_PORT_EXT};
	unsigned int start = COMPARED + weir_header_bytes(h.extended);
	int n;

	if (f->size < start)
		return snprintf(text, room, "\n  %s: port %u, %u bytes", who, f->port, f->size);
	weir_header_read(&h, f->bytes + COMPARED);
	n = snprintf(text, room,
		"\n  %s: port %u%s to 10.77.0.%u:%u, job %u block %u gen %u src %u %s cnt %u "
		"elements %u final %d degraded %d coll %u op %u type %u root %u flags %u ext %d, "
		"%u "
		"bytes:",
		who, f->port, f->port == 255 ? " (malformed)" : "", f->bytes[19],
		weir_get16(f->bytes + 22), h.job_id, h.block_id, h.gen_id, h.src_id,
		weir_status_text(h.status), h.src_cnt, h.grad_cnt, h.final, h.degraded,
		h.collective, h.op, h.dtype, h.root, h.flags, h.extended, f->size - start);
	for (unsigned int i = start; i < f->size && i < start + 16 && (size_t)n < room; i++)
		n += snprintf(text + n, room - (size_t)n, " %02x", f->bytes[i]);
	return n;
}

/* Note the first difference between what left and what should have. */
static void
compare_frames(struct twin *twin)
{
	const struct twin_list *e = &twin->expected, *g = &twin->got;
	unsigned int i = 0;
	size_t n;

	qsort(e->frame, e->count, sizeof(*e->frame), compare);
	qsort(g->frame, g->count, sizeof(*g->frame), compare);
	while (i < e->count && i < g->count && compare(&e->frame[i], &g->frame[i]) == 0)
		i++;
	if (i == e->count && i == g->count)
		return;
	n = (size_t)snprintf(twin->text, sizeof(twin->text), "%u frames left, not %u; number %u",
		g->count, e->count, i);
	if (i < e->count)
		n += (size_t)describe(
			twin->text + n, sizeof(twin->text) - n, "expected", &e->frame[i]);
	if (i < g->count)
		describe(twin->text + n, sizeof(twin->text) - n, "got     ", &g->frame[i]);
}

/* ---- what is counted ---- */

/* Note a number that is not what it should be. */
static void
expect(struct twin *twin, const char *what, const char *name, uint64_t got, uint64_t expected)
{
	size_t n = strlen(twin->text);

	if (got != expected)
		snprintf(twin->text + n, sizeof(twin->text) - n,
			"\n  %s %s: %" PRIu64 ", not %" PRIu64, what, name, got, expected);
}

static void
compare_packets(struct twin *twin, const struct ppe_stats *s)
{
	unsigned int asked = 0;

	for (unsigned int p = 0; p < twin->rig.ports; p++)
		asked += twin->rig.asked[p];
	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++)
		expect(twin, "drops", ppe_drop_key((enum ppe_drop)i), s->drops[i], twin->drops[i]);
	expect(twin, "packets", "received", s->received, twin->received);
	expect(twin, "packets", "sent", s->sent, twin->created + asked);
	/* The model has no workers, which tell each other of the guard's questions. */
	expect(twin, "packets", "consumed", s->consumed, twin->consumed + s->created - s->sent);
}

static void
compare_job(struct twin *twin, unsigned int j)
{
	const struct model_counters *c = model_count(twin->model[j]);
	unsigned int open = 0, buffers = 0;
	struct ppe_job_stats s = {0};
	struct model_block b[2];
	char what[32];

	snprintf(what, sizeof(what), "job %u", twin->rig.job[j].id);
	for (uint32_t r = 0; r < twin->rig.job[j].window; r++) {
		model_look(twin->model[j], r, &b[0], &b[1]);
		open += b[1].held && b[1].open;
		for (unsigned int i = 0; i < 2; i++)
			buffers += b[i].held && b[i].elements > 0;
	}
	ppe_job_stats_read(twin->rig.ppe, twin->rig.job[j].id, &s);
#define X(name, help) expect(twin, what, #name, s.name, c->name);
	PPE_JOB_COUNTERS(X)
#undef X
	expect(twin, what, "generation", s.generation, model_generation(twin->model[j]));
	expect(twin, what, "blocks in flight", s.blocks_in_flight, open);
	expect(twin, what, "buffers", s.buffers_used, buffers);
}

/* All that differs, in words; NULL: nothing. */
static const char *
different(struct twin *twin, const struct ppe_stats *stats)
{
	twin->text[0] = '\0';
	compare_frames(twin);
	compare_packets(twin, stats);
	for (unsigned int j = 0; j < twin->jobs; j++)
		compare_job(twin, j);
	return twin->text[0] != '\0' ? twin->text : NULL;
}

/* ---- settling ---- */

const char *
twin_settle(struct twin *twin)
{
	static struct ppe_stats stats;
	const char *wrong = "";

	for (unsigned int i = 0; i < twin->in.count; i++) {
		const struct twin_frame *f = &twin->in.frame[i];

		rig_send(&twin->rig, f->port, f->bytes, f->size);
	}
	twin->received += twin->in.count;
	list_clear(&twin->in);
	/* Blocks that are due are found within a tenth of their timeout. */
	for (unsigned int ms = 0; wrong != NULL && ms < LIMIT_MS; ms++) {
		rig_settle(&twin->rig, &stats);
		take_what_left(twin);
		wrong = stats.in_flight != 0 || stats.received != twin->received
			? "it does not come to rest"
			: different(twin, &stats);
		if (wrong != NULL)
			rig_pass_us(1000);
	}
	list_clear(&twin->expected);
	list_clear(&twin->got);
	return wrong;
}

/* ---- what is offered ---- */

unsigned int
twin_frame(uint8_t frame[RIG_FRAME_MAX], const struct model_peer *from, bool extended,
	const uint8_t *bytes, unsigned int size)
{
	memset(frame, 0, L4);
	memcpy(frame, rig_switch_mac, 6);
	memcpy(frame + 6, from->mac, 6);
	weir_put16(frame + 12, 0x0800);
	frame[L2] = 0x45;
	weir_put16(frame + L2 + 2, (uint16_t)(28 + size));
	weir_put16(frame + L2 + 4, (uint16_t)(from->port * 7 + size));
	weir_put16(frame + L2 + 6, size % 2 != 0 ? 0x4000 : 0);
	frame[L2 + 8] = (uint8_t)(1 + size % 64);
	frame[L2 + 9] = 17;
	weir_put32(frame + L2 + 12, from->address);
	weir_put32(frame + L2 + 16, RIG_SWITCH_IP);
	weir_put16(frame + L3, from->port);
	weir_put16(frame + L3 + 2, extended ? WEIR_PORT_EXT : WEIR_PORT_BASE);
	weir_put16(frame + L3 + 4, (uint16_t)(8 + size));
	memcpy(frame + L4, bytes, size);
	rig_fix_checksums(frame);
	if (weir_get16(frame + L3 + 6) == 0)
		weir_put16(frame + L3 + 6, 0xffff); /* 0 would mean none */
	return L4 + size;
}

/* Count a packet's end, by the model's word for it. */
static void
enter(struct twin *twin, const char *what)
{
	if (strcmp(what, "consumed") == 0 || strcmp(what, "join") == 0) {
		twin->consumed++;
		return;
	}
	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++)
		if (strcmp(what, ppe_drop_key((enum ppe_drop)i)) == 0)
			twin->drops[i]++;
}

void
twin_offer(struct twin *twin, const struct model_peer *from, bool extended, const uint8_t *bytes,
	unsigned int size, unsigned int padding, bool without_checksum)
{
	uint8_t *frame = list_add(&twin->in, from->link, L4 + size + padding);
	struct model *model = twin->model[0];

	memset(frame + L4 + size, 0xa5, padding);
	twin_frame(frame, from, extended, bytes, size);
	if (without_checksum)
		weir_put16(frame + L3 + 6, 0);
	for (unsigned int j = 0; j < twin->jobs; j++)
		if (size > 0 && twin->rig.job[j].id == bytes[0])
			model = twin->model[j];
	enter(twin,
		model_input(model, twin->now_ms, extended, from, bytes, size, model_sends, twin));
}

void
twin_spoiled(struct twin *twin, uint8_t port, const uint8_t *frame, unsigned int bytes,
	enum ppe_drop reason)
{
	memcpy(list_add(&twin->in, port, bytes), frame, bytes);
	twin->drops[reason]++;
}

/* ---- life ---- */

static struct model *
model_of(const struct ppe_job *job, uint16_t first_generation)
{
	struct model_config c = {.job = job->id,
		.sources = job->nb_sources,
		.window = job->window,
		.elements = job->elements,
		.full_rows = job->alltoall == PPE_ALLTOALL_FULL,
		.dtype = (enum weir_dtype)job->dtype,
		.op = (enum weir_op)job->op,
		.policy = (enum model_policy)job->policy,
		.timeout_ms = job->timeout_ms,
		.group = job->group,
		.fixed_generation = job->fixed_generation,
		.block_bits = 32u - job->block_shift,
		.first_generation = first_generation};

	memcpy(c.address, job->address, sizeof(c.address));
	return model_create(&c);
}

void
twin_start(struct twin *twin, const struct rig_config *config)
{
	rig_start(&twin->rig, config);
	twin->jobs = config->jobs;
	for (unsigned int j = 0; j < twin->jobs; j++)
		twin->model[j] = model_of(&config->job[j], twin->rig.config.first_generation);
	for (unsigned int t = 0; t < 2; t++)
		memcpy(twin->job[t], config->job, sizeof(twin->job[t]));
}

const char *
twin_stop(struct twin *twin)
{
	const char *wrong = rig_stop(&twin->rig);

	for (unsigned int j = 0; j < twin->jobs; j++)
		model_destroy(twin->model[j]);
	free(twin->in.frame);
	free(twin->expected.frame);
	free(twin->got.frame);
	return wrong;
}

void
twin_set_policy(
	struct twin *twin, unsigned int job, enum ppe_policy policy, uint32_t timeout_ms, bool due)
{
	unsigned int next = 1 - twin->running;
	struct ppe_job *j = &twin->job[next][job];

	memcpy(twin->job[next], twin->job[twin->running], sizeof(twin->job[next]));
	j->policy = (uint8_t)policy;
	j->timeout_ms = timeout_ms;
	for (unsigned int i = 0; i < twin->jobs; i++)
		twin->table[next].by_id[twin->job[next][i].id] = &twin->job[next][i];
	model_set_policy(twin->model[job], (enum model_policy)policy, timeout_ms);
	if (due) {
		rte_delay_us_sleep(timeout_ms * 1000 + 1000);
		twin->now_ms += timeout_ms + 1;
		model_tick(twin->model[job], twin->now_ms, model_sends, twin);
	}
	ppe_publish_jobs(twin->rig.ppe, &twin->table[next]);
	twin->running = next;
}
