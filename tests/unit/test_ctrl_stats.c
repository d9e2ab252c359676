/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics as text and as JSON, from made-up counters: every counter in its place. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <jansson.h>

#include "ctrl/config/config.h"
#include "ctrl/stats/stats.h"

static struct ctrl_config config;
static struct ppe_stats total;
static const struct ppe_statistic statistic = {.key = "seen"};
static struct ppe_job_stats count;
static struct ppe_job job = {.name = "train",
	.id = 9,
	.window = 4,
	.elements = 256,
	.nb_sources = 3,
	.dtype = WEIR_DTYPE_FP32};

/* Every counter gets a number of its own. */
static void
setup(void)
{
	uint64_t next = 1000;

	memset(&config, 0, sizeof(config));
	memset(&total, 0, sizeof(total));
	memset(&count, 0, sizeof(count));
	strcpy(config.name, "weir0");
	strcpy(config.port[0].name, "p0");
	strcpy(config.port[1].name, "p1");
	config.nb_ports = 2;
	config.nb_jobs = 1;
	config.job = &job;
	config.memory_mb = 64;
	config.memory.total = 3 << 20;
	config.ppe.packet_bytes = 2048;
	config.ppe.packets = 4096;
	config.port_more[0].keeps_sent = true;
	config.port_more[0].ring = UINT32_MAX;
	config.port[0].rx_queues = config.port[0].tx_queues = 2;
	config.port[0].rx_descriptors = 256;
	config.port[0].tx_descriptors = 128;
	total.nb_ports = 2;
	total.nb_workers = 1;
	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++)
		total.drops[i] = next++;
#define X(name, help) count.name = next++;
	PPE_JOB_COUNTERS(X)
#undef X
	count.generation = 77;
	total.sent = 5;
	total.consumed = 6;
	total.in_flight = 7;
	total.created = 8;
	total.received = ctrl_stats_dropped(&total) + 5 + 6 + 7 - 8;
	total.port[1].rx_packets = 11;
	total.port[1].tx_packets[0] = 12;
	total.port[1].tx_packets[1] = 13;
	total.port[1].missed = 14;
	total.worker[0].segments = 15;
	total.statistic[0].what = &statistic;
	total.statistic[0].value = 16;
}

TestSuite(ctrl_stats, .init = setup, .timeout = 90);

static json_t *
read_all(void)
{
	json_t *stats = ctrl_stats_json(&config, &total);

	ctrl_stats_add_job(stats, 9, "train", &count);
	return stats;
}

static char *
printed(void)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	json_t *stats = read_all();

	ctrl_stats_print(stats, out);
	json_decref(stats);
	fclose(out);
	return text;
}

Test(ctrl_stats, packet_accounting)
{
	char *text = printed();

	cr_assert_eq(ctrl_stats_off_by(&total), 0);
	cr_assert_not_null(strstr(text, " + in flight 7: balanced\n"), "%s", text);
	free(text);
	total.received += 3;
	cr_assert_eq(ctrl_stats_off_by(&total), 3);
	text = printed();
	cr_assert_not_null(strstr(text, " + in flight 7: OFF BY 3\n"), "%s", text);
	free(text);
	total.received -= 5;
	cr_assert_eq(ctrl_stats_off_by(&total), -2);
}

Test(ctrl_stats, only_what_happened_is_printed)
{
	char *text;

	total.drops[PPE_DROP_LATE] = 0;
	text = printed();
	cr_assert_not_null(
		strstr(text,
			"port p0:\nport p1: rx_packets 11 missed 14 tx_packets.results 12 "
			"tx_packets.bulk 13\nworker 0: segments 15\njob train: id 9"),
		"%s", text);
	cr_assert_null(strstr(text, " late: "));
	cr_assert_not_null(strstr(text, " malformed: "));
	free(text);
}

static json_int_t
number(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	cr_assert(json_is_integer(value), "no %s", key);
	return json_integer_value(value);
}

Test(ctrl_stats, json_has_every_counter)
{
	char folder[] = "/tmp/weir-test-XXXXXX", path[64];
	const json_t *drops, *jobs, *port;
	json_t *root, *stats = read_all();
	const struct ppe_leaks leaks = {.buffers = 2};

	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/stats.json", folder);
	cr_assert_eq(ctrl_stats_write(stats, path), 0);
	root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
	cr_assert_not_null(root);
	cr_assert_eq(number(root, "received"), (json_int_t)total.received);
	cr_assert_eq(number(root, "in_flight"), 7);
	cr_assert_eq(number(root, "seen"), 16);
	cr_assert(json_is_true(json_object_get(root, "balanced")));
	drops = json_object_get(root, "drops");
	cr_assert_eq(json_object_size(drops), PPE_DROP_COUNT);
	for (unsigned int i = 0; i < PPE_DROP_COUNT; i++)
		cr_assert_eq(number(drops, ppe_drop_key((enum ppe_drop)i)), 1000 + i);
	jobs = json_array_get(json_object_get(root, "jobs"), 0);
	cr_assert_eq(number(jobs, "id"), 9);
	cr_assert_eq(number(jobs, "generation"), 77);
#define X(name, help) cr_assert_eq(number(jobs, #name), (json_int_t)count.name);
	PPE_JOB_COUNTERS(X)
#undef X
	port = json_array_get(json_object_get(root, "ports"), 1);
	cr_assert_str_eq(json_string_value(json_object_get(port, "name")), "p1");
	cr_assert_eq(number(port, "rx_packets"), 11);
	cr_assert_eq(number(json_object_get(port, "tx_packets"), "results"), 12);
	cr_assert_eq(number(json_object_get(port, "tx_packets"), "bulk"), 13);
	cr_assert_eq(number(port, "missed"), 14);
	cr_assert_eq(json_array_size(json_object_get(root, "workers")), 1);
	cr_assert_eq(number(json_array_get(json_object_get(root, "workers"), 0), "segments"), 15);
	cr_assert_null(json_object_get(root, "leaks"));
	json_decref(root);

	ctrl_stats_add_leaks(stats, &leaks);
	cr_assert(!ctrl_leaks_none(&leaks));
	cr_assert_eq(ctrl_stats_write(stats, path), 0);
	root = json_load_file(path, 0, NULL);
	cr_assert_eq(number(json_object_get(root, "leaks"), "buffers"), 2);
	json_decref(root);
	json_decref(stats);
	/* Nothing beside it is left: the folder is empty without the file. */
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(rmdir(folder), 0);
}

Test(ctrl_stats, a_file_that_cannot_be_written)
{
	json_t *stats = read_all();

	cr_assert_eq(ctrl_stats_write(stats, "/nowhere/at/stats.json"), -ENOENT);
	json_decref(stats);
}

Test(ctrl_stats, memory_table)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	config.memory.total = 3 << 20;
	ctrl_memory_print(&config, out);
	fclose(out);
	cr_assert_not_null(strstr(text, "total                      3.00 MiB of 64\n"), "%s", text);
	cr_assert_not_null(strstr(text,
				   "port 0    p0: its rings hold up to 768 of 4096 packet buffers, "
				   "1.50 MiB\n"),
		"%s", text);
	cr_assert_null(strstr(text, "port 1"), "%s", text);
	cr_assert_not_null(
		strstr(text,
			"job 9     train: 3 sources, window 4, 256 elements; reserves 12 "
			"buffers of 1056 B, 0.01 MiB\n"),
		"%s", text);
	free(text);
}

/* -- the pulse of workers: which turn, and how busy they were */

static struct ctrl_pulse pulse;
static struct ppe_worker_stats worker;

Test(ctrl_stats, busy_is_of_the_last_second)
{
	worker.turns = 1000;
	worker.busy_turns = 250;
	ctrl_pulse_update(&pulse, &worker, 1, true);
	cr_assert_float_eq(pulse.busy, 0.25, 1e-9);
	worker.turns = 1100;
	worker.busy_turns = 350;
	ctrl_pulse_update(&pulse, &worker, 1.5, false);
	cr_assert_float_eq(pulse.busy, 0.25, 1e-9, "between ticks it stays");
	worker.turns = 1200;
	ctrl_pulse_update(&pulse, &worker, 2, true);
	cr_assert_float_eq(pulse.busy, 0.5, 1e-9);
	ctrl_pulse_update(&pulse, &worker, 3, true);
	cr_assert_float_eq(pulse.busy, 0, 1e-9, "no turn at all");
}

/* Once after a tick is not for ever: each look counts from the last one. */
Test(ctrl_stats, a_worker_that_stops_is_noticed)
{
	worker.turns = 10;
	ctrl_pulse_update(&pulse, &worker, 1, true);
	cr_assert_float_eq(pulse.changed_at, 1, 1e-9);
	worker.turns = 11;
	ctrl_pulse_update(&pulse, &worker, 1.2, false);
	cr_assert_float_eq(pulse.changed_at, 1.2, 1e-9);
	ctrl_pulse_update(&pulse, &worker, 1.9, false);
	cr_assert_float_eq(pulse.changed_at, 1.2, 1e-9);
	ctrl_pulse_update(&pulse, &worker, 2, true);
	cr_assert_float_eq(pulse.changed_at, 1.2, 1e-9);
	worker.turns = 12;
	ctrl_pulse_update(&pulse, &worker, 9, false);
	cr_assert_float_eq(pulse.changed_at, 9, 1e-9);
}
