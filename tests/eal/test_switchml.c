/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program switchml in a real switch: what the packet tests of microsoft/SwitchML ask for, in both dialects; hosts that
 * come, go and are strangers; and random traffic. Every frame that leaves is compared byte for byte. All of it with batches
 * and without.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_malloc.h>

#include "ppe/simulate.h"
#include "tests/eal/switchml.h"

/* ---- the protocol ---- */

static void
reduction(void)
{
	reduce_chunk(0, 1);
	cr_expect_eq(counter("switchml_sums"), 1);
	cr_expect_eq(counter("switchml_added"), setup.hosts);
	cr_expect_eq(counter("switchml_answers"), setup.hosts);
}

static void
the_other_set_first(void)
{
	reduce_chunk(SET, 1);
	reduce_chunk(SET | 3, 2);
}

static void
both_sets_of_all_slots(void)
{
	for (uint16_t slot = 0; slot < SLOTS; slot++)
		reduce_chunk(slot, slot);
	for (uint16_t slot = 0; slot < SLOTS; slot++)
		reduce_chunk(SET | slot, 100u + slot);
}

static void
slots_are_used_again(void)
{
	for (uint32_t chunk = 0; chunk < 12; chunk++)
		reduce_chunk((uint16_t)(5 | (chunk % 2 != 0 ? SET : 0)), chunk);
}

static void
repeated_before_the_sum(void)
{
	const uint64_t before = drops(PPE_DROP_DUPLICATE);

	for (unsigned int i = 0; i < 3; i++) {
		contribute_to(0, SET, 1);
		silence();
	}
	for (unsigned int h = 1; h < setup.hosts; h++)
		contribute_to(h, SET, 1);
	for (unsigned int h = 0; h < setup.hosts; h++)
		expect_sum_of(h, SET, 1);
	cr_expect_eq(counter("switchml_early"), 2);
	cr_expect_eq(drops(PPE_DROP_DUPLICATE) - before, 2);
}

static void
repeated_after_the_sum(void)
{
	reduce_chunk(0, 1);
	for (unsigned int i = 0; i < 3; i++) {
		contribute_to(1, 0, 1);
		expect_sum_of(1, 0, 1);
		silence();
	}
	for (unsigned int i = 0; i < 2; i++) {
		contribute_to(0, 0, 1);
		expect_sum_of(0, 0, 1);
		silence();
	}
	cr_expect_eq(counter("switchml_repeated"), 5);
}

/* A host that has not got the sum of a set asks for it while others use the other set. */
static void
repeated_of_the_former_set(void)
{
	reduce_chunk(SET, 1);
	contribute_to(1, 0, 2);
	for (unsigned int i = 0; i < 3; i++) {
		contribute_to(0, SET, 1);
		expect_sum_of(0, SET, 1);
		silence();
	}
}

static void
slots_are_used_again_and_repeated(void)
{
	reduce_chunk(0, 1);
	reduce_chunk(SET, 2);
	reduce_chunk(0, 3);
	contribute_to(1, SET, 4);
	silence();
	contribute_to(0, 0, 3); /* what it has lost is not what the set had before */
	expect_sum_of(0, 0, 3);
	contribute_to(1, SET, 4); /* early */
	silence();
	for (unsigned int h = 0; h < setup.hosts; h++)
		if (h != 1)
			contribute_to(h, SET, 4);
	for (unsigned int h = 0; h < setup.hosts; h++)
		expect_sum_of(h, SET, 4);
	contribute_to(0, 0, 5); /* the set is free again */
	silence();
	for (unsigned int h = 1; h < setup.hosts; h++)
		contribute_to(h, 0, 5);
	for (unsigned int h = 0; h < setup.hosts; h++)
		expect_sum_of(h, 0, 5);
}

/* Hosts that were ended begin with any set, and nothing is left of what they had begun. */
static void
hosts_start_again(void)
{
	reduce_chunk(0, 1);
	contribute_to(0, SET, 2);
	reduce_chunk(0, 3);
	contribute_to(0, SET, 4);
	contribute_to(0, 0, 4);
	reduce_chunk(SET, 5);
}

/* The largest exponent of each place: signed before the elements, unsigned after them. */
static void
exponents(void)
{
	static const uint8_t exponent[3][2] = {{0x7f, 0x80}, {0x80, 0xff}, {1, 0x90}};
	struct message sum = message(0, 2, 9);

	memcpy(sum.exponent, exponent[0], 2);
	for (unsigned int h = 0; h < setup.hosts; h++) {
		struct message m = message(h, 2, 9);

		memcpy(m.exponent, exponent[h], 2);
		put(h, &m);
		if (h > 0)
			add(&sum, &m);
	}
	cr_assert_eq(sum.exponent[0], setup.after ? 0x80 : 0x7f);
	cr_assert_eq(sum.exponent[1], 0xff);
	for (unsigned int h = 0; h < setup.hosts; h++)
		expect_answer(h, &sum);
}

/* A host gets answers where it sent from last in that slot, from the port that the last contribution went to. */
static void
udp_ports(void)
{
	for (unsigned int h = 0; h < setup.hosts; h++) {
		struct message m = message(h, 1, 1);

		m.udp = (uint16_t)(3000 + h);
		m.to = (uint16_t)(PORT + 1 + h);
		put(h, &m);
		settle();
	}
	for (unsigned int h = 0; h < setup.hosts; h++) {
		struct message sum = sum_of(1, 1);

		sum.udp = (uint16_t)(3000 + h);
		sum.to = (uint16_t)(PORT + setup.hosts);
		expect_answer(h, &sum);
	}
	for (unsigned int h = 0; h < setup.hosts; h++) {
		struct message m = message(h, 1, 1), sum = sum_of(1, 1);

		sum.udp = m.udp = (uint16_t)(4000 + h);
		put(h, &m);
		expect_answer(h, &sum);
	}
}

/* What is opaque to the switch comes back from the last contribution; bit 14 of the pool index does not. */
static void
opaque_fields(void)
{
	struct message sum = sum_of(3, 1);

	for (unsigned int h = 0; h < setup.hosts; h++) {
		struct message m = message(h, 3 | 0x4000, 1);

		m.index = 0xfffffff0 + h;
		m.job = (uint8_t)(0xf0 + h);
		m.type = (uint8_t)(0xa1 + h);
		sum.index = m.index;
		sum.job = m.job;
		sum.type = setup.after ? m.type : 0x10 | (m.type & 7);
		put(h, &m);
		settle();
	}
	for (unsigned int h = 0; h < setup.hosts; h++)
		expect_answer(h, &sum);
}

static void
several_segments(void)
{
	rig.seed = rig_seed();
	for (uint32_t chunk = 0; chunk < 40; chunk++)
		reduce_chunk((uint16_t)(chunk / 2 % SLOTS | (chunk % 2 != 0 ? SET : 0)), chunk);
	rig.seed = 0;
}

/* ---- packets that are not contributions ---- */

static void
refused(const char *key, unsigned int port, unsigned int bytes)
{
	uint64_t before = counter(key), dropped = drops(PPE_DROP_PROGRAM);

	rig_send(&rig, port, frame, bytes);
	silence();
	cr_assert_eq(counter(key) - before, 1, "%s", key);
	cr_assert_eq(drops(PPE_DROP_PROGRAM) - dropped, 1, "%s", key);
}

static uint64_t
hops_out(void)
{
	uint64_t sum = 0;

	for (unsigned int w = 0; w < lcores; w++)
		sum += rig.ppe->worker[w]->count.worker.hops_out;
	return sum;
}

static void
foreign_packets(void)
{
	const unsigned int stranger = setup.hosts;
	const uint64_t spoofed = drops(PPE_DROP_SPOOFED_SWITCH);
	struct message m = message(0, 0, 1);
	unsigned int bytes = write_frame_of(0, &m);

	weir_put32(frame + 26, RIG_SWITCH_IP);
	rig_send(&rig, 0, frame, bytes);
	cr_assert_eq(drops(PPE_DROP_SPOOFED_SWITCH) - spoofed, 1);
	/* Before hosts are known, and after. */
	for (unsigned int round = 0; round < 2; round++) {
		for (unsigned int cut = 1; cut <= payload_size(); cut += cut < 12 ? 1 : 61) {
			bytes = write_frame_of(0, &m);
			weir_put16(frame + 16, (uint16_t)(bytes - 14 - cut));
			weir_put16(frame + 38, (uint16_t)(bytes - 34 - cut));
			refused("switchml_malformed", 0, RTE_MAX(60u, bytes - cut));
		}
		bytes = write_frame_of(0, &m) + 4;
		weir_put16(frame + 16, (uint16_t)(bytes - 14));
		weir_put16(frame + 38, (uint16_t)(bytes - 34));
		refused("switchml_malformed", 0, bytes);
		bytes = write_frame_of(0, &m); /* with IPv4 options */
		memmove(frame + 38, frame + 34, bytes - 34);
		memset(frame + 34, 1, 4);
		frame[14] = 0x46;
		weir_put16(frame + 16, (uint16_t)(bytes - 14 + 4));
		refused("switchml_malformed", 0, bytes + 4);
		m.pool = SLOTS;
		bytes = write_frame_of(0, &m);
		refused("switchml_no_slot", 0, bytes);
		m.pool = 0;
		reduce_chunk(round == 0 ? 1 : SET | 1, 7);
	}
	m = message(stranger, 1, 1); /* the lcore of slot 1 knows all hosts */
	bytes = write_frame_of(stranger, &m);
	refused("switchml_strangers", port_of(stranger), bytes);
	bytes = write_frame_of(1, &m); /* from another port, and with another MAC address */
	refused("switchml_strangers", port_of(2), bytes);
	frame[11] ^= 0x40;
	refused("switchml_strangers", port_of(1), bytes);
	/* Other ports are not the program's: forwarded to a stranger, or nobody's. */
	for (unsigned int to = 0; to < 2; to++) {
		m.to = to == 0 ? PORT - 1 : PORT + 16;
		rig_send(&rig, 0, frame, write_frame_of(0, &m));
		settle();
		cr_assert_eq(first, nb_answers);
	}
	/* Nor are frames for another station, which keep their order. */
	m.to = PORT;
	for (m.pool = 0; m.pool < 2; m.pool++) {
		const uint64_t hops = hops_out();

		bytes = write_frame_of(0, &m);
		rig_source_mac(1, frame);
		rig_send(&rig, 0, frame, bytes);
		settle();
		for (; first < nb_answers; first++) /* flooded, or forwarded */
			cr_assert_eq(answers[first].frame[5], 2);
		cr_assert(m.pool == 0 || hops_out() == hops); /* first its sender is learned */
	}
	cr_expect_eq(counter("switchml_added"), 2 * setup.hosts);
}

/* Longer frames than their IPv4 packets are usual. */
static void
padding(void)
{
	for (uint32_t chunk = 0; chunk < 4; chunk++) {
		for (unsigned int h = 0; h < setup.hosts; h++) {
			const struct message m = message(h, chunk % 2 != 0 ? SET : 0, chunk);

			rig_send(&rig, port_of(h), frame, write_frame_of(h, &m) + h);
		}
		for (unsigned int h = 0; h < setup.hosts; h++)
			expect_sum_of(h, chunk % 2 != 0 ? SET : 0, chunk);
	}
}

/* ---- batches ---- */

/* Known hosts' contributions are taken in batches, in one turn, whatever is between them. */
static void
batches(void)
{
	uint64_t before;

	for (uint16_t slot = 0; slot < SLOTS; slot++)
		reduce_chunk(slot, slot);
	before = batched();
	for (unsigned int h = 0; h < setup.hosts; h++)
		for (uint16_t slot = 0; slot < SLOTS; slot++) {
			contribute_to(h, SET | slot, 50u + slot);
			memset(frame, 0, 60); /* nobody's: a reserved address */
			memcpy(frame, "\1\x80\xc2\0\0\0\2", 7);
			rig_send(&rig, port_of(h), frame, 60);
		}
	for (unsigned int h = 0; h < setup.hosts; h++)
		for (uint16_t slot = 0; slot < SLOTS; slot++)
			expect_sum_of(h, SET | slot, 50u + slot);
	cr_expect_eq(batched() - before, has_batches() ? SLOTS * setup.hosts : 0);
}

/* A contribution in several mbufs is for a thread, and the host's next one does not overtake it. */
static void
nothing_overtakes(void)
{
	for (uint32_t chunk = 1; chunk < 60; chunk += 3) {
		const uint16_t set = chunk % 2 != 0 ? SET : 0;
		const struct message again = message(0, set, chunk);

		reduce_chunk(set, chunk);
		rig.seed = chunk; /* in several mbufs */
		rig_send(&rig, 0, frame, write_frame_of(0, &again));
		rig.seed = 0;
		for (unsigned int h = 0; h < setup.hosts; h++)
			contribute_to(h, set ^ SET, chunk + 1);
		for (unsigned int h = 0; h < setup.hosts; h++)
			expect_sum_of(h, set ^ SET, chunk + 1);
		expect_sum_of(0, set, chunk);
		silence();
		reduce_chunk(set, chunk + 2);
	}
}

/* ---- sessions ---- */

/* After a silence there are other hosts, and slots are empty. */
static void
silence_ends_a_session(void)
{
	reduce_chunk(0, 1);
	contribute_to(0, SET, 2);
	silence();
	cr_expect_eq(counter("switchml_sessions"), 0);
	rig_pass_us(FORGET_S * 1000000 / 2);
	contribute_to(0, SET, 2);
	rig_pass_us(FORGET_S * 1000000 / 2 + 100000);
	contribute_to(setup.hosts, 0, 1);
	silence();
	cr_expect_eq(counter("switchml_strangers"), 1, "the time is that of the last packet");
	rig_pass_us(FORGET_S * 1000000 + 100000);
	for (unsigned int h = 1; h <= setup.hosts; h++)
		contribute_to(h, SET, 2);
	settle();
	cr_assert_eq(nb_answers - first, setup.hosts);
	first = nb_answers;
	cr_expect_eq(counter("switchml_sessions"), 1);
}

/* The session service says that a session begins. */
static void
the_service_begins_a_session(void)
{
	char name[64];
	uint32_t *word;
	int fd;

	reduce_chunk(0, 1);
	contribute_to(0, SET, 2);
	silence();
	snprintf(name, sizeof(name), "/weir-switchml-%d", (int)getpid());
	fd = shm_open(name, O_RDWR, 0);
	cr_assert_geq(fd, 0);
	word = mmap(NULL, sizeof(*word), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert_neq(word, MAP_FAILED);
	++*word;
	reduce_chunk(SET, 3); /* without host 0's former contribution */
	contribute_to(1, SET, 3);
	expect_sum_of(1, SET, 3);
	cr_expect_eq(counter("switchml_sessions"), 1);
	munmap(word, sizeof(*word));
	close(fd);
}

/* A program that leaves in the middle of a sum leaves nothing, and comes back with empty slots. */
static void
unloaded_and_loaded(void)
{
	struct rte_malloc_socket_stats memory;
	size_t used = 0;
	char name[64];

	for (unsigned int round = 0; round < 3; round++) {
		const struct setup same = setup;

		reduce_chunk(0, round);
		contribute_to(0, SET, 7);
		contribute_to(0, SET | 1, 7); /* under way */
		unload();
		contribute_to(0, SET, 7); /* for the kernel, which there is none of */
		settle();
		first = nb_answers = 0;
		rig_check(&rig);
		snprintf(name, sizeof(name), "/weir-switchml-%d", (int)getpid());
		cr_assert_lt(shm_open(name, O_RDWR, 0), 0);
		rte_malloc_get_socket_stats(0, &memory);
		cr_assert(round == 0 || memory.heap_allocsz_bytes == used, "%zu bytes, not %zu",
			memory.heap_allocsz_bytes, used);
		used = memory.heap_allocsz_bytes;
		load(&same);
	}
	reduce_chunk(0, 9);
}

/* ---- what operators see ---- */

static void
table_of_hosts(void)
{
	const struct ppe_table *table = weir_program.program->tables;
	const void *states[2] = {NULL};
	uint64_t rows[HOSTS][PPE_TABLE_COLUMNS];
	uint8_t mac[6];

	for (unsigned int w = 0; w < lcores; w++)
		states[w] = ppe_program_state(rig.ppe, weir_program.program, w);
	cr_assert_eq(table->read(states, lcores, rows, HOSTS), 0);
	reduce_chunk(0, 1);
	reduce_chunk(1, 1);
	contribute_to(1, 0, 1);
	expect_sum_of(1, 0, 1);
	for (unsigned int h = 1; h < setup.hosts; h++)
		contribute_to(h, SET, 1);
	contribute_to(1, SET | 1, 1);
	settle();
	cr_assert_eq(table->read(states, lcores, rows, 1), 1);
	cr_assert_eq(table->read(states, lcores, rows, HOSTS), setup.hosts);
	for (unsigned int h = 0; h < setup.hosts; h++) {
		const uint64_t more[] = {0, 2, 1};

		rig_source_mac(h, mac);
		cr_expect_eq(rows[h][0], rig_source_ip(h));
		cr_expect_eq(rows[h][1], (uint64_t)weir_get16(mac) << 32 | weir_get32(mac + 2));
		cr_expect_eq(rows[h][2], port_of(h));
		cr_expect_eq(rows[h][3], 2 + more[h]);
		cr_expect_eq(rows[h][4], h == 1);
		cr_expect_eq(rows[h][5], h == 0 ? 2 : h == 1 ? 0 : 1);
	}
}

/* What the switch would do with the frame of so many bytes, and then does with it. */
static void
explains(unsigned int host, unsigned int bytes, const char *segment, const char *way)
{
	struct ppe_explanation to;
	uint8_t copy[FRAME];

	cr_assert_eq(ppe_simulate(rig.ppe, frame, bytes, port_of(host), &to), 0);
	cr_expect_str_eq(to.program, "switchml");
	cr_assert_gt(to.nb_steps, 0);
	cr_expect_str_eq(to.step[to.nb_steps - 1].segment, segment);
	cr_expect_str_eq(to.end, way);
	memcpy(copy, frame, bytes);
	rig_send(&rig, port_of(host), frame, bytes);
	settle();
	memcpy(frame, copy, bytes);
	first = nb_answers;
}

static void
explains_what_it_does(void)
{
	const uint64_t dropped = drops(PPE_DROP_PROGRAM);
	struct message m = message(0, 1, 1);
	unsigned int bytes;

	for (unsigned int h = 0; h < setup.hosts; h++) {
		m = message(h, 1, 1);
		bytes = write_frame_of(h, &m);
		explains(h, bytes, "take", h + 1 < setup.hosts ? "consume" : "send");
		explains(h, bytes, "take", h + 1 < setup.hosts ? "drop:duplicate" : "send");
	}
	explains(setup.hosts, write_frame_of(setup.hosts, &m), "take", "drop:program");
	m.pool = SET | SLOTS;
	explains(0, write_frame_of(0, &m), "check", "drop:program");
	bytes = write_frame_of(0, &m);
	weir_put16(frame + 16, (uint16_t)(bytes - 15));
	weir_put16(frame + 38, (uint16_t)(bytes - 35));
	explains(0, bytes, "check", "drop:program");
	cr_expect_eq(counter("switchml_sums"), 1);
	cr_expect_eq(counter("switchml_early"), setup.hosts - 1);
	cr_expect_eq(counter("switchml_repeated"), 1);
	cr_expect_eq(drops(PPE_DROP_PROGRAM) - dropped, 3);
}

/* ---- all of it ---- */

static void
hosts(void)
{
	const unsigned int last = setup.hosts - 1;

	for (uint32_t chunk = 0; chunk < 6; chunk++)
		reduce_chunk(pool_of(chunk / 2, chunk), chunk);
	contribute_to(last, 2 | SET, 5);
	expect_sum_of(last, 2 | SET, 5);
}

static const struct test {
	const char *name;
	void (*run)(void);
} tests[] = {
#define T(name)                                                                                    \
	{                                                                                          \
#name, name                                                                        \
	}
	T(reduction), T(the_other_set_first), T(both_sets_of_all_slots), T(slots_are_used_again),
	T(repeated_before_the_sum), T(repeated_after_the_sum), T(repeated_of_the_former_set),
	T(slots_are_used_again_and_repeated), T(hosts_start_again), T(exponents), T(udp_ports),
	T(opaque_fields), T(several_segments), T(foreign_packets), T(padding), T(batches),
	T(nothing_overtakes), T(silence_ends_a_session), T(the_service_begins_a_session),
	T(unloaded_and_loaded), T(table_of_hosts), T(explains_what_it_does), T(random_traffic)};

/* With a program that was just loaded. */
static void
once(const struct test *test, unsigned int nb_hosts, unsigned int elements, bool after)
{
	fprintf(stderr, "%s, %u hosts, %u elements%s\n", test->name, nb_hosts, elements,
		after ? ", exponents after them" : "");
	load(&(struct setup){.hosts = nb_hosts, .elements = elements, .after = after});
	test->run();
	silence();
	unload();
	rig_check(&rig);
}

/* Each in both dialects. */
static void
all(unsigned int workers, unsigned int threads, const char *batch)
{
	static const unsigned int counts[] = {1, 5, 8, 32};
	static const struct test many = T(hosts);

	setenv("WEIR_BATCH", batch, 1);
	start_switch(workers, threads);
	refuses();
	for (const struct test *t = tests; t < tests + RTE_DIM(tests); t++) {
		once(t, 2, 64, false);
		once(t, t->run == random_traffic ? 5 : 3, 256, true);
	}
	for (unsigned int n = 0; n < RTE_DIM(counts); n++) {
		once(&many, counts[n], 64, true);
		once(&many, counts[n], n == 0 ? 256 : 1 + 37 * n, false);
	}
	stop_switch();
}

CASE(switchml, one_lcore, all(1, 20, "256"))
CASE(switchml, one_thread, all(1, 1, "1"))
CASE(switchml, two_lcores, all(2, 20, "256"))
CASE(switchml, two_lcores_threads, all(2, 20, "1"))
