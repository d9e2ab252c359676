/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/config/keys.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>

#include "ctrl/config/config.h"
#include "ctrl/config/job.h"
#include "ctrl/log.h"
#include "ppe/faults/faults.h"
#include "ppe/jobs.h"
#include "ppe/ppe.h"

/* clang-format off */
#define OBJECT(path, help) {path, CTRL_OBJECT, "", "", 0, 0, NULL, help}
#define NUMBER(path, unit, fallback, min, max, help) \
	{path, CTRL_INTEGER, unit, fallback, min, max, NULL, help}
#define POWER(path, unit, fallback, min, max, help) \
	{path, CTRL_POWER, unit, fallback, min, max, NULL, help}
#define WORD(path, fallback, words, help) {path, CTRL_WORD, "", fallback, 0, 0, words, help}

static const struct ctrl_key keys[] = {
	{"comment", CTRL_TEXT, "", "", 0, 4095, NULL, "A comment. Not used."},
	NUMBER("memory_mb", "MiB", "512", 64, 1048576,
		"DPDK memory of the switch (EAL's `-m`). A configuration that needs more is refused."),

	{"capture", CTRL_BOOLEAN, "", "false", 0, 0, NULL,
		"Let `dpdk-dumpcap` attach and capture packets on the ports. Needs huge pages."},

	{"telemetry", CTRL_BOOLEAN, "", "false", 0, 0, NULL,
		"Open DPDK's telemetry socket, for `dpdk-telemetry.py -f weir-NAME`."},

	{"switch", CTRL_OBJECT, "", NULL, 0, 0, NULL, "Name and addresses of the switch."},
	{"switch.name", CTRL_NAME, "", "weir", 1, 31, NULL,
		"Name in output and statistics, and of DPDK's runtime directory."},
	{"switch.address", CTRL_SUBNET, "", NULL, 0, 0, NULL,
		"The switch's IPv4 address and the prefix length of its subnet. All sources of all jobs are in this subnet."},
	{"switch.mac", CTRL_MAC, "", "02:57:45:49:52:01", 0, 0, NULL,
		"The switch's MAC address. Must be unique in the network."},
	NUMBER("switch.port_base", "", "12000", 1, 65535, "UDP port of the base form of the protocol."),
	NUMBER("switch.port_extended", "", "12001", 1, 65535, "UDP port of the extended form of the protocol."),

	OBJECT("log", "Logging to stderr, one line of key=value pairs per event."),
	WORD("log.level", "notice", CTRL_LOG_LEVELS, "Lowest level that is logged."),
	OBJECT("log.modules", "Levels for single modules. Others use `log.level`."),
#define X(name, word, help) {"log.modules." word, CTRL_WORD, "", "", 0, 0, CTRL_LOG_LEVELS, help},
	CTRL_LOG_MODULES(X)
#undef X

	{"eal", CTRL_ARRAY, "", "[]", 0, 64, NULL,
		"More arguments for DPDK's EAL. Weir sets lcores, memory, devices and log levels itself."},
	{"eal[]", CTRL_TEXT, "", NULL, 1, 255, NULL, "One argument."},

	OBJECT("workers", "Worker threads; each runs one engine."),
	NUMBER("workers.count", "lcores", "1", 1, PPE_WORKERS_MAX, "Number of workers. Each has an lcore."),
	{"workers.cpus", CTRL_ARRAY, "", "[0]", 1, 64, NULL,
		"Worker i runs on CPU `cpus[i mod length]`. Workers may share a CPU."},
	NUMBER("workers.cpus[]", "CPU", NULL, 0, 1023, "CPU number."),
	NUMBER("workers.main_cpu", "CPU", "0", 0, 1023, "CPU of the control thread, which mostly sleeps."),
	NUMBER("workers.threads", "", "20", 1, PPE_THREADS_MAX,
		"Thread contexts per engine: packets that it processes concurrently."),
	NUMBER("workers.burst", "packets", "32", 1, 256, "Packets per poll of a queue."),
	WORD("workers.idle", "sleep", "spin|yield|sleep",
		"What an engine without work does: keep polling, yield the CPU, or sleep."),
	NUMBER("workers.idle_sleep_us", "µs", "50", 1, 10000, "Duration of a sleep."),
	WORD("workers.vectors", "auto", "auto|scalar|avx2|avx512",
		"Widest vector instructions that reductions may use. `auto`: the widest that the CPU has."),

	OBJECT("pools", "Packet buffer pools."),
	NUMBER("pools.packets", "packets", "4096", 256, 4194304,
		"Number of packet buffers, for received packets and their copies."),
	NUMBER("pools.frame_bytes", "bytes", "0", 0, 65408,
		"Size of a packet buffer. 0: the largest frame of the ports, at least 2048."),
	NUMBER("pools.headers", "packets", "4096", 256, 4194304,
		"Number of buffers for headers of results and replies, and of buffers for their payloads."),

	OBJECT("queues", "Sizes of internal queues."),
	POWER("queues.output_depth", "packets", "1024", 64, 65536,
		"Length of a port's output queue, for each of the two priorities."),
	POWER("queues.crossbar_depth", "packets", "1024", 64, 65536,
		"Length of the ring from one worker to another."),

	OBJECT("tables", "Forwarding table, block table and timers."),
	NUMBER("tables.fdb_entries", "stations", "4096", 16, 1048576,
		"MAC addresses that each worker can learn."),
	NUMBER("tables.fdb_timeout_s", "s", "300", 1, 1000000,
		"Idle time after which a station is forgotten."),
	NUMBER("tables.blocks", "block records", "16384", 1, 1 << 24,
		"Block records of each worker. A job takes 2 x window, over all workers. "
		"Records for the jobs in `jobs` are always reserved."),
	NUMBER("tables.timer_threads", "", "100", 1, 1000,
		"Timer threads; each scans 1/N of the table."),

	OBJECT("exception", "Interface for packets to the switch itself (ARP, ping). Without it, they are dropped."),
	{"exception.interface", CTRL_NAME, "", NULL, 1, 15, NULL,
		"Name of the TAP interface that Weir creates, with the switch's MAC and IPv4 address."},

	OBJECT("api", "The control API (docs/openapi.yaml). Omit to disable it."),
	{"api.listen", CTRL_ARRAY, "", "[\"unix:/run/weir/NAME.sock\"]", 1, CTRL_LISTENERS_MAX, NULL,
		"Addresses to listen on. NAME is `switch.name`."},
	{"api.listen[]", CTRL_TEXT, "", NULL, 6, 128, NULL,
		"`unix:PATH`, `tcp:ADDRESS:PORT`, or `tcp:SWITCH:PORT` for the switch's own address on the exception interface."},
	{"api.socket_group", CTRL_NAME, "", "", 1, CTRL_NAME_BYTES - 1, NULL,
		"Group that may connect to the `unix:` sockets. Default: the group of the switch's process."},
	{"api.names", CTRL_ARRAY, "", "[]", 0, CTRL_HOSTS_MAX, NULL,
		"Names that TCP clients may send in the Host header, besides IP addresses and `localhost`."},
	{"api.names[]", CTRL_NAME, "", NULL, 1, CTRL_HOST_BYTES - 1, NULL, "A DNS name, without a port."},
	{"api.open_read", CTRL_BOOLEAN, "", "true", 0, 0, NULL,
		"Allow health, readiness, status, metrics and the live page without a token."},
	OBJECT("api.tls", "TLS for the `tcp:` listeners."),
	{"api.tls.certificate", CTRL_TEXT, "", NULL, 1, CTRL_FILE_BYTES - 1, NULL,
		"PEM file with the certificate and its chain."},
	{"api.tls.key", CTRL_TEXT, "", NULL, 1, CTRL_FILE_BYTES - 1, NULL,
		"PEM file with the private key, unencrypted."},
	{"api.tenants", CTRL_ARRAY, "", "[]", 0, CTRL_TENANTS_MAX, NULL, "Tenants, each with a token."},
	OBJECT("api.tenants[]", "A tenant. It sees and changes its own jobs only."),
	{"api.tenants[].name", CTRL_NAME, "", NULL, 1, CTRL_NAME_BYTES - 1, NULL, "Name of the tenant; unique."},
	{"api.tenants[].token_sha256", CTRL_TEXT, "", NULL, 64, 64, NULL,
		"SHA-256 of the token, in hex: `printf %s TOKEN \\| sha256sum`; unique."},
	{"api.tenants[].admin", CTRL_BOOLEAN, "", "false", 0, 0, NULL,
		"Administrator: full access to all jobs."},
	OBJECT("api.tenants[].quota", "Limits of the tenant. 0: no limit."),
	NUMBER("api.tenants[].quota.jobs", "jobs", "0", 0, WEIR_JOBS_MAX, "Number of jobs."),
	NUMBER("api.tenants[].quota.memory_mb", "MiB", "0", 0, 1048576, "Memory for the aggregation buffers of all its jobs."),
	NUMBER("api.tenants[].quota.blocks", "blocks", "0", 0, 16777216,
		"Block records of all its jobs. A job takes twice its window."),
	NUMBER("api.tenants[].quota.rate_mbit", "Mbit/s", "0", 0, 10000000, "Sum of the rates of its jobs. With a limit, each job must set `rate_mbit`."),
	NUMBER("api.tenants[].quota.changes_per_s", "requests/s", "50", 0, 1000000,
		"Average rate of requests that change something (create, set, delete, join, leave)."),
	NUMBER("api.tenants[].quota.changes_burst", "requests", "1024", 1, 1000000,
		"Burst of such requests; should cover the joins of a few large jobs."),

	OBJECT("state", "Persistent state. Without it, jobs created over the API are lost at a restart."),
	{"state.file", CTRL_TEXT, "", NULL, 2, CTRL_FILE_BYTES - 1, NULL,
		"State file, an absolute path such as `/var/lib/weir/NAME.json`. Its directory must exist."},

	{"ports", CTRL_ARRAY, "", NULL, 1, PPE_PORTS_MAX - 1, NULL, "The ports, in order."},
	OBJECT("ports[]", "A port."),
	{"ports[].name", CTRL_NAME, "", NULL, 1, 31, NULL, "Name in output and statistics; unique."},
	{"ports[].device", CTRL_TEXT, "", NULL, 1, 255, NULL,
		"PCI address or virtual device (`net_...`), followed by comma-separated arguments."},
	NUMBER("ports[].rx_queues", "queues", "1", 1, PPE_WORKERS_MAX,
		"Receive queues, at most one per worker."),
	NUMBER("ports[].tx_queues", "queues", "1", 1, PPE_WORKERS_MAX,
		"Transmit queues, at most one per worker. Workers without a queue send through another worker's."),
	NUMBER("ports[].rx_descriptors", "packets", "512", 32, 32768, "Length of a receive queue."),
	NUMBER("ports[].tx_descriptors", "packets", "512", 32, 32768, "Length of a transmit queue."),
	WORD("ports[].rx_checksum", "auto", "auto|software|offload|off",
		"Who verifies IPv4 and UDP checksums: the device where it can, Weir, the device only, or none."),
	WORD("ports[].tx_checksum", "auto", "auto|software|offload|off", "Who computes IPv4 and UDP checksums; values as of `rx_checksum`."),
	NUMBER("ports[].mtu", "bytes", "0", 0, 65407, "MTU to set. 0: keep the device's."),
	{"ports[].promiscuous", CTRL_BOOLEAN, "", "true", 0, 0, NULL,
		"Promiscuous mode. Forwarding to other stations needs it."},

	{"jobs", CTRL_ARRAY, "", "[]", 0, WEIR_JOBS_MAX, NULL, "The jobs."},
	OBJECT("jobs[]", "A job."),
	NUMBER("jobs[].id", "", NULL, 0, WEIR_JOBS_MAX - 1, "Job id in packets; unique."),
	{"jobs[].name", CTRL_NAME, "", NULL, 1, PPE_JOB_NAME_MAX - 1, NULL, "Name of the job; unique."},
	{"jobs[].sources", CTRL_ARRAY, "", NULL, 1, WEIR_SOURCES_MAX, NULL,
		"Sources of the job. Each contributes to every block. For many sources: an object with `count` and `first`."},
	NUMBER("jobs[].sources.count", "sources", NULL, 1, WEIR_SOURCES_MAX, "Number of sources; their ids are 0 to count - 1."),
	{"jobs[].sources.first", CTRL_ADDRESS, "", NULL, 0, 0, NULL,
		"IPv4 address of source 0. The others have the addresses after it, all in the switch's subnet."},
	OBJECT("jobs[].sources[]", "A source."),
	NUMBER("jobs[].sources[].id", "", NULL, 0, WEIR_SOURCES_MAX - 1,
		"Source id in packets; unique in the job."),
	{"jobs[].sources[].address", CTRL_ADDRESS, "", NULL, 0, 0, NULL,
		"IPv4 address, in the switch's subnet. Sources on one host may share an address."},
#define X(key, where, change, kind, field, ...) CTRL_FILE_##where({"jobs[]." #key, CTRL_##kind, __VA_ARGS__},)
	CTRL_JOB_SETTINGS(X)
#undef X
	{"jobs[].key_file", CTRL_TEXT, "", "", 0, CTRL_FILE_BYTES - 1, NULL,
		"File with a key of 64 hexadecimal digits, not readable by other users. All packets of the job then carry authentication tags, and its hosts need the same key."},
	NUMBER("jobs[].block_bits", "bits", "32", 8, 32,
		"Block ids count modulo 2 to this power, which is at least 4 windows. Less than 32 only with a fixed `generation`, for captures that are replayed in a loop."),

	OBJECT("faults", "Fault injection, for tests (docs/faults.md)."),
	NUMBER("faults.seed", "", "1", 0, INT64_MAX, "Random seed. The same seed and packets give the same faults."),
	NUMBER("faults.held", "packets", "1024", 1, PPE_FAULT_HELD_MAX,
		"Maximum of packets that a worker holds for `delay` and `reorder`. Others pass unchanged."),
	{"faults.rules", CTRL_ARRAY, "", NULL, 0, PPE_FAULT_RULES_MAX, NULL,
		"Rules, applied to a packet in this order until one drops it."},
	OBJECT("faults.rules[]", "A rule."),
	{"faults.rules[].port", CTRL_NAME, "", "", 1, 31, NULL, "Name of the port. Default: all ports."},
	{"faults.rules[].direction", CTRL_WORD, "", NULL, 0, 0, "in|out",
		"Match packets that the switch receives or sends."},
	WORD("faults.rules[].what", "any", "any|contribution|result|ordinary",
		"Match contributions and joins, results and replies, or all other packets."),
	NUMBER("faults.rules[].job", "", "-1", -1, WEIR_JOBS_MAX - 1, "Match only this job; -1 matches any."),
	NUMBER("faults.rules[].source", "", "-1", -1, WEIR_SOURCES_MAX - 1,
		"Match only packets from this source or results for it; -1 matches any."),
	NUMBER("faults.rules[].first_block", "", "0", 0, UINT32_MAX, "Match only this block and later ones."),
	NUMBER("faults.rules[].last_block", "", "4294967295", 0, UINT32_MAX, "Match only blocks up to this one."),
	WORD("faults.rules[].choice", "chance", "chance|every|list|burst",
		"How matching packets are selected: at random, every nth, by a list, or in bursts (Gilbert-Elliott)."),
	NUMBER("faults.rules[].chance_ppm", "1/1000000", "1000000", 0, 1000000, "`chance`: probability of each packet."),
	NUMBER("faults.rules[].nth", "packets", "1", 1, UINT32_MAX, "`every`: select each nth packet."),
	{"faults.rules[].list", CTRL_ARRAY, "", "[]", 0, PPE_FAULT_ORDINALS_MAX, NULL,
		"`list`: packet numbers, counted from 1 in each queue of a port."},
	NUMBER("faults.rules[].list[]", "", NULL, 1, INT64_MAX, "Packet number."),
	NUMBER("faults.rules[].enter_ppm", "1/1000000", "0", 0, 1000000, "`burst`: probability that a burst begins, per packet."),
	NUMBER("faults.rules[].leave_ppm", "1/1000000", "1000000", 0, 1000000, "`burst`: probability that a burst ends, per packet."),
	NUMBER("faults.rules[].good_ppm", "1/1000000", "0", 0, 1000000, "`burst`: probability of the action outside bursts."),
	NUMBER("faults.rules[].bad_ppm", "1/1000000", "1000000", 0, 1000000, "`burst`: probability of the action within bursts."),
	NUMBER("faults.rules[].from_ms", "ms", "0", 0, UINT32_MAX, "The rule starts at this time, counted from when the faults are set."),
	NUMBER("faults.rules[].to_ms", "ms", "0", 0, UINT32_MAX, "The rule ends at this time; 0 means never."),
	NUMBER("faults.rules[].repeat_ms", "ms", "0", 0, UINT32_MAX, "Period after which the schedule repeats; 0 disables repetition."),
	{"faults.rules[].action", CTRL_WORD, "", NULL, 0, 0, "drop|blackout|duplicate|reorder|delay|corrupt",
		"What happens to a packet. `blackout` drops it, too, but has its own counter."},
	NUMBER("faults.rules[].distance", "packets", "1", 1, 1000,
		"`reorder`: maximum number of later packets of the queue that overtake it."),
	WORD("faults.rules[].delay", "constant", "constant|uniform|exponential|pareto", "`delay`: distribution of the delay."),
	NUMBER("faults.rules[].us", "µs", "0", 0, PPE_FAULT_DELAY_MAX_US,
		"`delay`: value of `constant`, minimum of `uniform` and `pareto`, mean of `exponential`."),
	NUMBER("faults.rules[].most_us", "µs", "10000000", 0, PPE_FAULT_DELAY_MAX_US,
		"`delay`: maximum, except for `constant`."),
	NUMBER("faults.rules[].shape_percent", "1/100", "200", 1, 10000, "`delay`: shape of `pareto`. A smaller shape has a longer tail."),
	NUMBER("faults.rules[].bits", "bits", "1", 1, PPE_FAULT_BITS_MAX, "`corrupt`: number of bits to flip, anywhere in the frame."),
};
/* clang-format on */

const struct ctrl_schema ctrl_config_schema = {keys, RTE_DIM(keys)};

/* -- values */

static const struct ctrl_key *
key_of(const json_t *object, const char *path, const json_t **value)
{
	const struct ctrl_key *key = ctrl_schema_find(&ctrl_config_schema, path);

	assert(key != NULL);
	*value = json_object_get(object, ctrl_key_name(key));
	assert(*value != NULL || key->fallback != NULL);
	return key;
}

int64_t
ctrl_integer(const json_t *object, const char *path)
{
	const json_t *value;
	const struct ctrl_key *key = key_of(object, path, &value);

	return value != NULL ? json_integer_value(value) : strtoll(key->fallback, NULL, 10);
}

bool
ctrl_boolean(const json_t *object, const char *path)
{
	const json_t *value;
	const struct ctrl_key *key = key_of(object, path, &value);

	return value != NULL ? json_is_true(value) : strcmp(key->fallback, "true") == 0;
}

const char *
ctrl_string(const json_t *object, const char *path)
{
	const json_t *value;
	const struct ctrl_key *key = key_of(object, path, &value);

	return value != NULL ? json_string_value(value) : key->fallback;
}

int
ctrl_word(const json_t *object, const char *path)
{
	return ctrl_parse_word(
		ctrl_schema_find(&ctrl_config_schema, path)->words, ctrl_string(object, path));
}

/* -- the reference table */

static const char *
kind_text(enum ctrl_kind kind)
{
	static const char *const texts[] = {
		[CTRL_OBJECT] = "object",
		[CTRL_ARRAY] = "array",
		[CTRL_INTEGER] = "integer",
		[CTRL_POWER] = "power of two",
		[CTRL_BOOLEAN] = "boolean",
		[CTRL_WORD] = "word",
		[CTRL_TEXT] = "string",
		[CTRL_NAME] = "name",
		[CTRL_ADDRESS] = "IPv4 address",
		[CTRL_SUBNET] = "IPv4 address/prefix",
		[CTRL_RESULTS] = "word or IPv4 address",
		[CTRL_MAC] = "MAC address",
	};

	return texts[kind];
}

static void
print_range(const struct ctrl_key *key, FILE *out)
{
	switch (key->kind) {
	case CTRL_INTEGER:
	case CTRL_POWER: fprintf(out, "%" PRId64 "..%" PRId64, key->min, key->max); break;
	case CTRL_ARRAY:
		fprintf(out, "%" PRId64 "..%" PRId64 " entries", key->min, key->max);
		break;
	case CTRL_TEXT:
	case CTRL_NAME:
		fprintf(out, "%" PRId64 "..%" PRId64 " characters", key->min, key->max);
		break;
	case CTRL_WORD:
		for (const char *p = key->words; *p != '\0'; p++)
			if (*p == '|')
				fputs(", ", out);
			else
				fputc(*p, out);
		break;
	case CTRL_RESULTS: fputs("unicast, 224.0.0.0/4 without 224.0.0.0/24", out); break;
	case CTRL_SUBNET: fputs("prefix 1..30", out); break;
	case CTRL_BOOLEAN: fputs("true, false", out); break;
	case CTRL_ADDRESS:
	case CTRL_MAC:
	case CTRL_OBJECT: break;
	}
}

/* An empty cell is one blank: the table looks the same as text. */
void
ctrl_key_row(const struct ctrl_key *key, FILE *out)
{
	fprintf(out, "| `%s` | %s |%s%s | ", key->path, kind_text(key->kind),
		key->unit[0] != '\0' ? " " : "", key->unit);
	if (key->fallback == NULL)
		fputs("required | ", out);
	else if (key->fallback[0] == '\0')
		fputs("none | ", out);
	else
		fprintf(out, "`%s` | ", key->fallback);
	print_range(key, out);
	fprintf(out, " | %s |", key->help);
}
