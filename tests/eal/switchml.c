/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/eal/switchml.h"

#include <errno.h>
#include <stdlib.h>

struct setup setup;
unsigned int lcores;
bool one_port;
struct answer *answers;
unsigned int first, nb_answers;

/* ---- the switch ---- */

static bool
is_running(void)
{
	struct ppe_program_info infos[PPE_PROGRAMS_MAX];
	unsigned int n = ppe_programs_read(rig.ppe, infos, PPE_PROGRAMS_MAX);

	for (unsigned int p = 0; p < n; p++)
		if (infos[p].program == weir_program.program)
			return infos[p].phase == PPE_PROGRAM_RUNNING;
	return false;
}

/* create() refuses what settings alone cannot tell. */
void
refuses(void)
{
	const struct ppe_value values[] = {{.number = 2}, {.number = SLOTS}, {.number = 64},
		{.number = 0}, {.number = WEIR_PORT_EXT + 1}, {.number = 0}, {.number = 0}};

	cr_assert_eq(ppe_program_load(rig.ppe, weir_program.program, values), -EADDRINUSE);
}

/* Load it with these settings: empty slots, and nobody is known. */
void
load(const struct setup *wanted)
{
	const struct ppe_value values[] = {{.number = wanted->hosts}, {.number = SLOTS},
		{.number = wanted->elements}, {.number = wanted->after}, {.number = PORT},
		{.number = FORGET_S}, {.text = ""}};

	setup = *wanted;
	cr_assert_null(ppe_program_check(weir_program.program));
	cr_assert_eq(ppe_program_load(rig.ppe, weir_program.program, values), 0);
	for (unsigned int i = 0; i < 100 && !is_running(); i++) {
		rig_turn(&rig);
		ppe_programs_tick(rig.ppe);
	}
	cr_assert(is_running());
}

void
unload(void)
{
	const struct ppe_program *gone = NULL;

	cr_assert_eq(ppe_program_unload(rig.ppe, "switchml"), 0);
	for (unsigned int i = 0; i < 100 && gone == NULL; i++) {
		rig_turn(&rig);
		gone = ppe_program_gone(rig.ppe);
	}
	cr_assert_eq(gone, weir_program.program);
}

static void
without_jobs(struct rig_config *config)
{
	config->jobs = 0;
	config->packets = config->frames = 4095;
}

void
start_switch(unsigned int workers, unsigned int threads)
{
	lcores = workers;
	answers = calloc(WAITING, sizeof(*answers));
	start(.workers = workers, .threads = threads, .late = true, .ports = PORTS,
		.change = without_jobs);
}

uint64_t
counter(const char *key)
{
	uint64_t sum = 0;

	for (const struct ppe_statistic *s = weir_program.program->statistics; s->key != NULL; s++)
		for (unsigned int w = 0; strcmp(s->key, key) == 0 && w < lcores; w++)
			sum += s->read(ppe_program_state(rig.ppe, weir_program.program, w));
	return sum;
}

/* Every packet that came has left or was dropped. */
void
settle(void)
{
	struct ppe_stats stats;

	rig_settle(&rig, &stats);
	for (unsigned int port = 0; port < rig.ports; port++)
		for (unsigned int bytes; (bytes = rig_receive(&rig, port, frame, 0)) > 0;) {
			cr_assert_lt(nb_answers, WAITING);
			answers[nb_answers].port = port;
			answers[nb_answers].bytes = bytes;
			memcpy(answers[nb_answers++].frame, frame, RTE_MIN(bytes, FRAME));
		}
}

/* No more answers. */
void
silence(void)
{
	settle();
	cr_assert_eq(first, nb_answers, "%u answers too many", nb_answers - first);
	first = nb_answers = 0;
}

void
stop_switch(void)
{
	stop();
	free(answers);
}

/* ---- frames, by the plainest code there is ---- */

unsigned int
payload_size(void)
{
	return 8 + 2 + 4 * setup.elements;
}

static void
write_message(uint8_t *p, const struct message *m)
{
	uint8_t *data = p + 8 + (setup.after ? 0 : 2), *exponents = p + 8;

	if (setup.after)
		exponents += 4 * setup.elements;
	p[0] = m->type;
	p[1] = m->job;
	weir_put32(p + 2, m->index);
	weir_put16(p + 6, m->pool);
	memcpy(exponents, m->exponent, 2);
	for (unsigned int e = 0; e < setup.elements; e++)
		weir_put32(data + 4 * e, m->element[e]);
}

/* A contribution with values of its own; a chunk is what hosts sum up. */
struct message
message(unsigned int host, uint16_t pool, uint32_t chunk)
{
	struct message m = {.pool = pool,
		.index = chunk,
		.type = setup.after            ? 0x57
			: setup.elements == 64 ? 0x11
					       : 0x13,
		.job = (uint8_t)(chunk >> 3),
		.exponent = {(uint8_t)(chunk + host * 5), (uint8_t)(chunk * 7 - host)}};

	for (unsigned int e = 0; e < setup.elements; e++)
		m.element[e] = (chunk + 1) * 0x9e3779b1 + host * 0x85ebca6b + e * 0x0badcafe;
	return m;
}

/* Clients leave checksums to their cards, or fill them wrongly. */
unsigned int
write_frame_of(unsigned int host, const struct message *m)
{
	uint8_t mac[6];

	rig_source_mac(host, mac);
	rig_headers(frame, mac, rig_source_ip(host), m->udp != 0 ? m->udp : FROM,
		m->to != 0 ? m->to : PORT, payload_size());
	weir_put16(frame + 18, 0x1234);
	frame[22] = 128;
	weir_put16(frame + 24, 0xdead);
	weir_put16(frame + 40, 0xbeef);
	write_message(frame + HEADERS, m);
	return HEADERS + payload_size();
}

unsigned int
port_of(unsigned int host)
{
	return one_port ? 0 : host % rig.ports;
}

void
put(unsigned int host, const struct message *m)
{
	rig_send(&rig, port_of(host), frame, write_frame_of(host, m));
}

void
contribute_to(unsigned int host, uint16_t pool, uint32_t chunk)
{
	const struct message m = message(host, pool, chunk);

	put(host, &m);
}

/* The answer to a host, in `frame`. */
unsigned int
write_answer(unsigned int host, const struct message *m)
{
	uint8_t mac[6];

	rig_source_mac(host, mac);
	rig_headers(frame, rig_switch_mac, RIG_SWITCH_IP, m->to != 0 ? m->to : PORT,
		m->udp != 0 ? m->udp : FROM, payload_size());
	memcpy(frame, mac, 6);
	weir_put32(frame + 30, rig_source_ip(host));
	weir_put16(frame + 20, 0);
	rig_fix_checksums(frame);
	weir_put16(frame + 40, 0); /* no UDP checksum */
	write_message(frame + HEADERS, m);
	return HEADERS + payload_size();
}

static uint8_t
larger(uint8_t a, uint8_t b)
{
	if (setup.after)
		return a > b ? a : b;
	return (int8_t)a > (int8_t)b ? a : b;
}

void
add(struct message *sum, const struct message *m)
{
	for (unsigned int e = 0; e < setup.elements; e++)
		sum->element[e] += m->element[e];
	for (unsigned int i = 0; i < 2; i++)
		sum->exponent[i] = larger(sum->exponent[i], m->exponent[i]);
}

/* The sum of all hosts' contributions. */
struct message
sum_of(uint16_t pool, uint32_t chunk)
{
	struct message sum = message(0, pool, chunk);

	for (unsigned int h = 1; h < setup.hosts; h++) {
		const struct message m = message(h, pool, chunk);

		add(&sum, &m);
	}
	return sum;
}

/* One of the answers that wait is this. */
void
expect_answer(unsigned int host, const struct message *m)
{
	unsigned int bytes;

	settle();
	bytes = write_answer(host, m);
	for (unsigned int i = first; i < nb_answers; i++) {
		struct answer *a = &answers[i];

		if (a->port != port_of(host) || a->bytes != bytes ||
			memcmp(a->frame, frame, bytes) != 0)
			continue;
		*a = answers[first++];
		return;
	}
	cr_assert(false, "host %u does not get this answer, among %u others", host,
		nb_answers - first);
}

void
expect_sum_of(unsigned int host, uint16_t pool, uint32_t chunk)
{
	const struct message sum = sum_of(pool, chunk);

	expect_answer(host, &sum);
}

/* All hosts contribute, one after the other, and get the sum: only then. */
void
reduce_chunk(uint16_t pool, uint32_t chunk)
{
	for (unsigned int h = 0; h < setup.hosts; h++) {
		silence();
		contribute_to(h, pool, chunk);
	}
	for (unsigned int h = 0; h < setup.hosts; h++)
		expect_sum_of(h, pool, chunk);
	silence();
}

bool
has_batches(void)
{
	return rig.config.batch > 1;
}

uint64_t
batched(void)
{
	uint64_t sum = 0;

	for (unsigned int w = 0; w < lcores; w++)
		sum += rig.ppe->worker[w]->count.worker.batched;
	return sum;
}

uint16_t
pool_of(unsigned int slot, uint32_t chunk)
{
	return (uint16_t)(slot | (chunk % 2 != 0 ? SET : 0));
}
