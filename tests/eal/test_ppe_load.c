/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs that are loaded and unloaded beside a job: `echo` answers UDP packets to its port at the worker that their number
 * names, and `tap` counts packets and passes them on.
 */
#include <errno.h>

#include "ppe/load.h"
#include "ppe/programs/programs.h"
#include "ppe/program_fast.h"
#include "ppe/ppe_priv.h"
#include "tests/eal/bench.h"

#define PORT  7776 /* and the odd one after it */
#define BYTES 60
#define AT    42 /* of the number in a frame */

/* What a program has made and not yet destroyed, and how it is to behave. */
static struct {
	int states, shards;
	uint64_t ticks, answers, batched;
	int fails_at; /* create() of this worker fails; -1: none */
	bool busy; /* a packet needs its memory */
	unsigned int segments; /* that a thread runs before each hop */
} now;

struct echo {
	unsigned int workers;
	void *shard[WEIR_JOBS_MAX];
	int64_t add;
};

static struct ppe_next
answer(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct echo *echo = ppe_state(worker, thread);
	uint8_t *bytes = rte_pktmbuf_mtod(thread->packet, uint8_t *), other[6];

	memcpy(other, bytes, 6);
	memcpy(bytes, bytes + 6, 6);
	memcpy(bytes + 6, other, 6);
	weir_put32(bytes + AT, weir_get32(bytes + AT) + (uint32_t)echo->add);
	__atomic_add_fetch(&now.answers, 1, __ATOMIC_RELAXED);
	return ppe_send(worker, thread, thread->port, PKTBUF_PRIO_BULK);
}

struct way {
	unsigned int hops, segments;
};

/* On the way, it visits every worker twice. */
static struct ppe_next
travel(struct ppe_worker *worker, struct ppe_thread *thread)
{
	const struct echo *echo = ppe_state(worker, thread);
	struct way *way = ppe_lmem(struct way, thread);

	cr_assert_not_null(echo, "a worker without the program has a thread of it");
	if (way->segments++ < now.segments)
		return PPE_RUN(travel);
	way->segments = 0;
	if (way->hops++ == 2 * echo->workers)
		return PPE_RUN(answer);
	return ppe_hop(worker, thread, (uint16_t)((worker->id + 1) % echo->workers), travel);
}

static struct ppe_next
first(struct ppe_worker *worker, struct ppe_thread *thread)
{
	*ppe_lmem(struct way, thread) = (struct way){0};
	return travel(worker, thread);
}

static struct ppe_next
tick(struct ppe_worker *worker, struct ppe_thread *thread)
{
	cr_assert_not_null(ppe_state(worker, thread));
	now.ticks++;
	return PPE_END;
}

static int
create(const struct ppe_setup *setup, void **state)
{
	const struct ppe_match match = {.conditions = PPE_MATCH_TO_SWITCH_IP | PPE_MATCH_UDP_PORT,
		.udp_port = PORT,
		.udp_any = 1};
	const struct ppe_timer timer = {.segment = tick, .period_us = 1000, .slices = 4};
	struct echo *echo = calloc(1, sizeof(*echo));
	int rc;

	*state = echo;
	echo->workers = setup->workers;
	echo->add = ppe_setting(setup, "add");
	now.states++;
	if (now.fails_at == (int)setup->worker_id)
		return -EIO;
	rc = ppe_match_add(setup, &match);
	return rc == 0 ? ppe_timer_add(setup, &timer) : rc;
}

static void
destroy(void *state, struct ppe_program_leaks *leaks)
{
	(void)leaks;
	now.states -= state != NULL;
	free(state);
}

static bool
idle(const void *state)
{
	(void)state;
	return !now.busy;
}

static int
create_shard(const struct ppe_setup *setup, void *state, const struct ppe_job *job, void **shard)
{
	(void)setup;
	(void)state;
	*shard = malloc(1);
	now.shards++;
	return job->id == 77 ? -ENOSPC : 0;
}

static void
take_shard(void *state, uint8_t id, void *shard)
{
	((struct echo *)state)->shard[id] = shard;
}

static void
taken(void *state)
{
	(void)state;
}

static void
destroy_shard(void *shard, struct ppe_program_leaks *leaks)
{
	(void)leaks;
	now.shards--;
	free(shard);
}

static const struct ppe_jobs_ops jobs_ops = {.create = create_shard,
	.take = take_shard,
	.taken = taken,
	.idle = idle,
	.destroy = destroy_shard};

static uint64_t
read_answers(const void *state)
{
	(void)state;
	return __atomic_load_n(&now.answers, __ATOMIC_RELAXED);
}

static const struct ppe_setting settings[] = {
	{"add", PPE_SETTING_INTEGER, "0", 0, 9, NULL, NULL, "What is added to the number."}, {0}};

/* Not const: a loaded object's memory goes away, which the test plays by overwriting it. */
static char key[] = "echo_answers", metric[] = "weir_echo_answers_total", help[] = "answers";

static const struct ppe_program echo_program = {.name = "echo",
	.first = first,
	.create = create,
	.idle = idle,
	.destroy = destroy,
	.settings = settings,
	.statistics = {{key, metric, help, PPE_STATISTIC_COUNTER, true, read_answers}},
	.jobs = &jobs_ops};

static const struct ppe_value add_one[] = {{.number = 1}};

static struct ppe_next
count(struct ppe_worker *worker, struct ppe_thread *thread)
{
	return ppe_pass_on(worker, thread);
}

static int
create_tap(const struct ppe_setup *setup, void **state)
{
	const struct ppe_match match = {.conditions = PPE_MATCH_ETHER_TYPE, .ether_type = 0x0800};

	(void)state;
	if (now.fails_at == -2 && ppe_program_find(setup, "echo") < 0)
		return -ENOENT;
	return ppe_match_add(setup, &match);
}

static const struct ppe_program tap_program = {
	.name = "tap", .first = count, .ordered = true, .create = create_tap};

/* Send a frame to the switch from a source's port. */
static void
send_number(unsigned int source, uint16_t port, uint32_t number)
{
	uint8_t mac[6];

	rig_source_mac(source, mac);
	memset(frame, 0, BYTES);
	rig_headers(frame, mac, rig_source_ip(source), 5000, port, BYTES - AT);
	rig_fix_checksums(frame);
	weir_put32(frame + AT, number);
	weir_put16(frame + 40, 0); /* no checksum */
	rig_send(&rig, source, frame, BYTES);
}

/* Take the answers that have come; each has a number that one was added to. */
static unsigned int
take_answers(void)
{
	unsigned int n = 0;

	for (unsigned int p = 0; p < rig.ports; p++)
		while (rig_receive(&rig, p, frame, 0) > 0) {
			cr_assert_eq(weir_get16(frame + 36) & ~1, PORT);
			cr_assert_eq(weir_get32(frame + AT) % 10, 1);
			n++;
		}
	return n;
}

static void
begin(void)
{
	memset(&now, 0, sizeof(now));
	now.fails_at = -1;
}

/* Until the program is gone: it has destroyed all that it made. */
static void
expect_gone(const struct ppe_program *program)
{
	const struct ppe_program *gone = NULL;

	for (unsigned int i = 0; i < 1000 && gone == NULL; i++) {
		gone = ppe_program_gone(rig.ppe);
		if (gone == NULL)
			rte_delay_us_sleep(100);
	}
	cr_assert_eq(gone, program);
	cr_expect_null(ppe_program_gone(rig.ppe));
	if (program == &echo_program) {
		cr_expect_eq(now.states, 0);
		cr_expect_eq(now.shards, 0);
	}
}

/* The phase of the loaded program `echo`; -1: it is not there. */
static int
phase(void)
{
	struct ppe_program_info info[PPE_PROGRAMS_MAX];
	unsigned int n = ppe_programs_read(rig.ppe, info, PPE_PROGRAMS_MAX);

	for (unsigned int i = 0; i < n; i++)
		if (info[i].program == &echo_program)
			return (int)info[i].phase;
	return -1;
}

static void
churn(unsigned int workers, unsigned int rounds)
{
	unsigned int sent = 0, answered = 0;

	begin();
	for (uint32_t round = 0; round < rounds; round++) {
		cr_assert_eq(ppe_program_load(rig.ppe, &echo_program, add_one), 0);
		cr_assert_eq(phase(), PPE_PROGRAM_RUNNING);
		cr_expect_eq(now.states, workers);
		cr_expect_eq(now.shards, workers);
		reduce(2 * round);
		if (round % 10 == 0)
			pass_ms(3); /* of timers */
		for (uint32_t i = 0; i < 4; i++, sent++)
			send_number(i % 2, (uint16_t)(PORT + i / 2), 10 * i);
		rig_rest(&rig);
		cr_expect_eq(take_answers(), 4);
		answered += 4;
		/* While packets arrive and hop, the program goes. */
		for (uint32_t i = 0; i < 20; i++, sent++)
			send_number(i % 2, PORT, 10 * i);
		if (round % 2 == 1)
			rig_turn(&rig);
		cr_assert_eq(ppe_program_unload(rig.ppe, "echo"), 0);
		expect_gone(&echo_program);
		rig_rest(&rig);
		answered += take_answers();
		reduce(2 * round + 1);
	}
	cr_expect_gt(answered, 4 * rounds, "no packet was under way when the program went");
	expect_drop(PPE_DROP_NO_EXCEPTION_PORT, sent - answered);
	cr_expect_gt(now.ticks, rounds / 10);
	cr_expect_eq(now.answers, answered);
	stop();
}

ONE_WORKER_AND_TWO(ppe_load, loads_and_unloads_beside_a_job)
{
	start(.workers = workers);
	churn(workers, 100);
}

static void
on_lcores(struct rig_config *config)
{
	config->lcores = true;
}

Test(ppe_load, workers_on_lcores_take_a_program_and_leave_it, .timeout = 90)
{
	start(.workers = 2, .change = on_lcores, .timeout_ms = 20000);
	churn(2, 20);
}

/* A worker that stands does not get hops of a program that it has not taken, and the program waits for it. */
Test(ppe_load, a_worker_that_stands_delays_a_program, .timeout = 90)
{
	begin();
	start(.workers = 2);
	rig.standing = 2;
	cr_assert_eq(ppe_program_load(rig.ppe, &echo_program, add_one), 0);
	cr_expect_eq(phase(), PPE_PROGRAM_LOADING);
	cr_expect_eq(ppe_program_load(rig.ppe, &tap_program, NULL), -EBUSY);
	cr_expect_eq(ppe_program_unload(rig.ppe, "echo"), -EBUSY);
	send_number(0, PORT, 0); /* nobody's yet */
	rig_turns(&rig, 1);
	expect_drop(PPE_DROP_NO_EXCEPTION_PORT, 1);
	rig.standing = 0;
	rig_turns(&rig, 3);
	ppe_programs_tick(rig.ppe);
	cr_expect_eq(phase(), PPE_PROGRAM_RUNNING);
	/* A thread waits for the worker: the program stays until it has ended. */
	send_number(0, PORT, 0);
	rig.standing = 2;
	rig_turn(&rig);
	cr_assert_eq(ppe_program_unload(rig.ppe, "echo"), 0);
	for (unsigned int i = 0; i < 10; i++)
		cr_expect_null(ppe_program_gone(rig.ppe));
	cr_expect_eq(phase(), PPE_PROGRAM_UNLOADING);
	cr_expect_eq(now.states, 2);
	cr_expect_eq(ppe_program_unload(rig.ppe, "echo"), -EALREADY);
	rig.standing = 0;
	expect_gone(&echo_program);
	rig_rest(&rig);
	cr_expect_eq(take_answers(), 1);
	stop();
}

/* Threads that live for several turns at each worker, or wait in a ring, keep the program. */
static void
slow_threads(bool stands)
{
	begin();
	start(.workers = 2);
	cr_assert_eq(ppe_program_load(rig.ppe, &echo_program, add_one), 0);
	now.segments = 1000;
	for (uint32_t i = 0; i < 4; i++)
		send_number(i % 2, PORT, 10 * i);
	rig_turn(&rig);
	cr_assert_eq(ppe_program_unload(rig.ppe, "echo"), 0);
	if (stands) {
		rig.standing = 2;
		for (unsigned int i = 0; i < 100; i++)
			rig_turn(&rig);
		cr_expect_null(ppe_program_gone(rig.ppe));
		cr_expect_eq(phase(), PPE_PROGRAM_UNLOADING);
		rig.standing = 0;
	}
	expect_gone(&echo_program);
	rig_rest(&rig);
	cr_expect_eq(take_answers(), 4);
	stop();
}

CASE(ppe_load, slow_threads_keep_a_program, slow_threads(false))
CASE(ppe_load, threads_in_a_ring_keep_a_program, slow_threads(true))

Test(ppe_load, a_program_stays_while_packets_need_its_memory, .timeout = 90)
{
	begin();
	start(.workers = 2);
	cr_assert_eq(ppe_program_load(rig.ppe, &echo_program, add_one), 0);
	now.busy = true;
	cr_assert_eq(ppe_program_unload(rig.ppe, "echo"), 0);
	for (unsigned int i = 0; i < 10; i++)
		cr_expect_null(ppe_program_gone(rig.ppe));
	cr_expect_eq(phase(), PPE_PROGRAM_LEAVING);
	cr_expect_eq(ppe_program_load(rig.ppe, &echo_program, add_one), -EEXIST);
	/* A job that goes meanwhile has a shard, too. */
	publish(NULL);
	ppe_jobs_leaving(rig.ppe);
	cr_expect_null(ppe_program_gone(rig.ppe));
	cr_expect_eq(now.shards, 2);
	now.busy = false;
	ppe_jobs_leaving(rig.ppe);
	expect_gone(&echo_program);
	cr_expect_eq(ppe_program_load(rig.ppe, &echo_program, add_one), 0);
	stop(); /* with a loaded program */
	cr_expect_eq(now.states, 0);
	cr_expect_eq(now.shards, 0);
}

/* A program has a shard of each job, whichever came first. */
Test(ppe_load, jobs_come_and_go_under_a_program, .timeout = 90)
{
	struct ppe_jobs jobs;
	struct ppe_job job = rig_job(9, 2, 4, 16), full = rig_job(77, 2, 4, 16);
	const struct echo *state;

	begin();
	start(.workers = 2);
	cr_assert_eq(ppe_program_load(rig.ppe, &echo_program, add_one), 0);
	state = ppe_program_state(rig.ppe, &echo_program, 1);
	cr_expect_not_null(state->shard[rig.job[0].id], "the job was there before");
	jobs = rig.jobs;
	jobs.by_id[9] = &job;
	cr_assert_eq(ppe_publish_jobs(rig.ppe, &jobs), 0);
	cr_expect_eq(now.shards, 4);
	cr_expect_not_null(state->shard[9]);
	cr_assert_eq(ppe_program_unload(rig.ppe, "echo"), 0);
	expect_gone(&echo_program);
	cr_assert_eq(ppe_program_load(rig.ppe, &echo_program, add_one), 0);
	cr_expect_eq(now.shards, 4);
	cr_assert_eq(ppe_publish_jobs(rig.ppe, &rig.jobs), 0);
	cr_expect_eq(ppe_jobs_leaving(rig.ppe), 0);
	cr_expect_eq(now.shards, 2);
	jobs.by_id[77] = &full;
	cr_expect_eq(ppe_publish_jobs(rig.ppe, &jobs), -ENOSPC);
	cr_expect_eq(now.shards, 2, "a job that was refused left shards");
	cr_assert_eq(ppe_program_unload(rig.ppe, "echo"), 0);
	expect_gone(&echo_program);
	jobs = rig.jobs;
	jobs.by_id[77] = &full;
	cr_assert_eq(ppe_publish_jobs(rig.ppe, &jobs), 0);
	cr_expect_eq(ppe_program_load(rig.ppe, &echo_program, add_one), -ENOSPC);
	cr_expect_eq(now.states, 0);
	cr_expect_eq(now.shards, 0);
	cr_assert_eq(ppe_publish_jobs(rig.ppe, &rig.jobs), 0);
	ppe_jobs_leaving(rig.ppe);
	stop();
}

Test(ppe_load, wrong_requests_change_nothing, .timeout = 90)
{
	struct ppe_program other = echo_program;

	begin();
	start(.workers = 2);
	now.fails_at = 1;
	cr_expect_eq(ppe_program_load(rig.ppe, &echo_program, add_one), -EIO);
	cr_expect_eq(now.states, 0);
	now.fails_at = -1;
	cr_expect_eq(ppe_program_unload(rig.ppe, "echo"), -ENOENT);
	cr_expect_eq(ppe_program_unload(rig.ppe, "forward"), -EPERM);
	cr_assert_eq(ppe_program_load(rig.ppe, &echo_program, add_one), 0);
	cr_expect_eq(ppe_program_load(rig.ppe, &echo_program, add_one), -EEXIST);
	other.name = "other";
	cr_expect_eq(ppe_program_load(rig.ppe, &other, add_one), -ENOTUNIQ);
	other.name = "Other name";
	cr_expect_eq(ppe_program_load(rig.ppe, &other, add_one), -EINVAL);
	/* A program to which another passes packets stays. */
	now.fails_at = -2;
	cr_assert_eq(ppe_program_load(rig.ppe, &tap_program, NULL), 0);
	cr_expect_eq(ppe_program_unload(rig.ppe, "echo"), -EADDRINUSE);
	cr_assert_eq(ppe_program_unload(rig.ppe, "tap"), 0);
	expect_gone(&tap_program);
	cr_assert_eq(ppe_program_unload(rig.ppe, "echo"), 0);
	expect_gone(&echo_program);
	stop();
}

static struct ppe_match masked;

static struct ppe_next
consume(struct ppe_worker *worker, struct ppe_thread *thread)
{
	return ppe_consume(worker, thread);
}

static int
create_masked(const struct ppe_setup *setup, void **state)
{
	int rc = 0;

	(void)state;
	for (unsigned int i = 0; rc == 0 && i < PPE_PROGRAM_MATCHES; i++)
		rc = ppe_match_add(setup, &masked);
	cr_expect_eq(ppe_match_add(setup, &masked), setup->worker_id == 0 ? -ENOSPC : 0);
	return rc;
}

static const struct ppe_program masked_program = {
	.name = "masked", .first = consume, .create = create_masked};

/* Does a program with this match take a packet from source 0, 10.77.0.1, to the switch, 10.77.0.254, port 7776? */
static bool
takes(struct ppe_match match)
{
	struct ppe_stats stats;
	uint64_t before;

	masked = match;
	cr_assert_eq(ppe_program_load(rig.ppe, &masked_program, NULL), 0);
	ppe_stats_read(rig.ppe, &stats);
	before = stats.consumed;
	send_number(0, PORT, 0);
	rig_rest(&rig);
	cr_assert_eq(ppe_program_unload(rig.ppe, "masked"), 0);
	expect_gone(&masked_program);
	ppe_stats_read(rig.ppe, &stats);
	return stats.consumed > before;
}

#define MATCH(condition, ...) ((struct ppe_match){.conditions = PPE_MATCH_##condition, __VA_ARGS__})

Test(ppe_load, masks_of_matches, .timeout = 90)
{
	begin();
	start(.workers = 1);
	cr_expect(takes(MATCH(UDP_PORT, .udp_port = PORT)));
	cr_expect(takes(MATCH(UDP_PORT, .udp_port = PORT ^ 9, .udp_any = 9)));
	cr_expect_not(takes(MATCH(UDP_PORT, .udp_port = PORT ^ 9, .udp_any = 8)));
	cr_expect(takes(MATCH(ETHER_TYPE, .ether_type = 0x0801, .ether_any = 1)));
	cr_expect_not(takes(MATCH(ETHER_TYPE, .ether_type = 0x0801)));
	cr_expect(takes(MATCH(IP_PROTO, .ip_proto = 1, .ip_proto_any = 16)));
	cr_expect_not(takes(MATCH(IP_PROTO, .ip_proto = 1)));
	cr_expect(takes(MATCH(IP_DST, .ip_dst = RIG_SWITCH_IP)));
	cr_expect(takes(MATCH(IP_DST, .ip_dst = RIG_SWITCH_IP & ~0xffu, .ip_any = 0xff)));
	cr_expect_not(takes(MATCH(IP_DST, .ip_dst = RIG_SWITCH_IP ^ 0x100, .ip_any = 0xff)));
	stop();
}

/* Slots are finite, and free again. */
Test(ppe_load, as_many_programs_as_there_are_slots, .timeout = 90)
{
	static struct ppe_program many[PPE_PROGRAMS_MAX];
	static char name[PPE_PROGRAMS_MAX][16];
	unsigned int n = 0;
	int rc = 0;

	begin();
	start(.workers = 2);
	for (; n < PPE_PROGRAMS_MAX && rc == 0; n++) {
		snprintf(name[n], sizeof(name[n]), "tap%u", n);
		many[n] = tap_program;
		many[n].name = name[n];
		rc = ppe_program_load(rig.ppe, &many[n], NULL);
	}
	cr_expect_eq(rc, -ENOSPC);
	cr_expect_eq(--n, PPE_PROGRAMS_MAX - 3);
	/* All of them pass a packet on, to `exception`. */
	send_number(0, PORT, 0);
	rig_rest(&rig);
	expect_drop(PPE_DROP_NO_EXCEPTION_PORT, 1);
	reduce(0);
	for (unsigned int i = 0; i < n; i++) {
		cr_assert_eq(ppe_program_unload(rig.ppe, name[i]), 0);
		expect_gone(&many[i]);
	}
	cr_assert_eq(ppe_program_load(rig.ppe, &many[0], NULL), 0);
	stop();
}

/* A reader of statistics may keep their texts after the program is gone. */
Test(ppe_load, texts_outlive_a_program, .timeout = 90)
{
	static struct ppe_stats stats;
	const struct ppe_statistic *text = NULL;

	begin();
	start(.workers = 2);
	cr_assert_eq(ppe_program_load(rig.ppe, &echo_program, add_one), 0);
	send_number(0, PORT, 0);
	rig_rest(&rig);
	cr_expect_eq(take_answers(), 1);
	ppe_stats_read(rig.ppe, &stats);
	cr_expect_eq(ppe_statistic_value(&stats, "echo_answers"), 1);
	for (unsigned int i = 0; stats.statistic[i].what != NULL; i++)
		if (strcmp(stats.statistic[i].what->key, "echo_answers") == 0)
			text = stats.statistic[i].what;
	cr_assert_eq(ppe_program_unload(rig.ppe, "echo"), 0);
	expect_gone(&echo_program);
	key[0] = metric[0] = help[0] = 'X';
	cr_assert_not_null(text);
	cr_expect_str_eq(text->key, "echo_answers");
	cr_expect_str_eq(text->metric, "weir_echo_answers_total");
	cr_expect_str_eq(text->help, "answers");
	ppe_stats_read(rig.ppe, &stats);
	cr_expect_eq(ppe_statistic_value(&stats, "echo_answers"), 0);
	stop();
}

/* A batch takes its packets before the first program sees them, and gives some to the other worker, which dispatches them. */
static unsigned int
batch(struct ppe_worker *worker, void *state, struct rte_mbuf **packets, unsigned int n,
	unsigned int *followers)
{
	unsigned int left = 0;

	(void)state;
	(void)followers;
	for (unsigned int i = 0; i < n; i++) {
		const uint8_t *bytes = rte_pktmbuf_mtod(packets[i], const uint8_t *);

		if (weir_get16(bytes + 36) != PORT)
			packets[left++] = packets[i];
		else if (weir_get32(bytes + AT) % 2 == worker->id) {
			now.batched++;
			ppe_consume_packet(worker, packets[i]);
		} else {
			ppe_hop_received(worker, (uint16_t)(1 - worker->id), packets[i]);
		}
	}
	return left;
}

Test(ppe_load, batches_of_a_loaded_program, .timeout = 90)
{
	static struct ppe_program program;

	begin();
	program = echo_program;
	program.batch = batch;
	start(.workers = 2);
	/* Behind a program without batches, there are none. */
	cr_assert_eq(ppe_program_load(rig.ppe, &tap_program, NULL), 0);
	cr_assert_eq(ppe_program_load(rig.ppe, &program, add_one), 0);
	send_number(0, PORT, 0);
	rig_rest(&rig);
	expect_drop(PPE_DROP_NO_EXCEPTION_PORT, 0);
	cr_expect_eq(take_answers(), 1);
	cr_expect_eq(now.batched, 0);
	cr_assert_eq(ppe_program_unload(rig.ppe, "echo"), 0);
	expect_gone(&program);
	cr_assert_eq(ppe_program_unload(rig.ppe, "tap"), 0);
	expect_gone(&tap_program);
	cr_assert_eq(ppe_program_load(rig.ppe, &program, add_one), 0);
	contribute(0, 0);
	for (uint32_t i = 0; i < 10; i++)
		send_number(0, PORT, i);
	contribute(1, 0);
	rig_rest(&rig);
	expect_all(0, WEIR_STATUS_OK, 0);
	cr_expect_eq(now.batched, 10);
	cr_assert_eq(ppe_program_unload(rig.ppe, "echo"), 0);
	expect_gone(&program);
	stop();
}
