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
	{"comment", CTRL_TEXT, "", "", 0, 4095, NULL, "For people; not used."},
	NUMBER("memory_mb", "MiB", "512", 64, 1048576,
		"DPDK memory of the switch (EAL's `-m`). A configuration that needs more is refused."),

	{"capture", CTRL_BOOLEAN, "", "false", 0, 0, NULL,
		"Let `dpdk-dumpcap` attach and capture what enters and leaves the ports. Needs huge pages."},

	{"telemetry", CTRL_BOOLEAN, "", "false", 0, 0, NULL,
		"Open DPDK's telemetry socket: `dpdk-telemetry.py -f weir-NAME` asks DPDK."},

	{"switch", CTRL_OBJECT, "", NULL, 0, 0, NULL, "Who the switch is."},
	{"switch.name", CTRL_NAME, "", "weir", 1, 31, NULL,
		"Name in printouts and statistics, and of DPDK's run-time folder."},
	{"switch.address", CTRL_SUBNET, "", NULL, 0, 0, NULL,
		"The switch's IPv4 address and the prefix length of its subnet, which all jobs' sources are in."},
	{"switch.mac", CTRL_MAC, "", "02:57:45:49:52:01", 0, 0, NULL,
		"The switch's MAC address; not the same for two switches of one network."},
	NUMBER("switch.port_base", "", "12000", 1, 65535, "UDP port of the base form."),
	NUMBER("switch.port_extended", "", "12001", 1, 65535, "UDP port of the extended form."),

	OBJECT("log", "What is logged, on stderr, a line of key=value an event."),
	WORD("log.level", "notice", CTRL_LOG_LEVELS, "The least important level that is logged."),
	OBJECT("log.modules", "Levels of modules that differ from `log.level`."),
#define X(name, word, help) {"log.modules." word, CTRL_WORD, "", "", 0, 0, CTRL_LOG_LEVELS, help},
	CTRL_LOG_MODULES(X)
#undef X

	{"eal", CTRL_ARRAY, "", "[]", 0, 64, NULL,
		"Further arguments for DPDK's EAL. Lcores, memory, devices and log levels are Weir's."},
	{"eal[]", CTRL_TEXT, "", NULL, 1, 255, NULL, "One argument."},

	OBJECT("workers", "The engines."),
	NUMBER("workers.count", "lcores", "1", 1, PPE_WORKERS_MAX, "Worker lcores, each one engine."),
	{"workers.cpus", CTRL_ARRAY, "", "[0]", 1, 64, NULL,
		"Worker i runs on CPU `cpus[i mod length]`: workers may share a CPU."},
	NUMBER("workers.cpus[]", "CPU", NULL, 0, 1023, "A CPU's number."),
	NUMBER("workers.main_cpu", "CPU", "0", 0, 1023, "Where the control thread runs; it mostly sleeps."),
	NUMBER("workers.threads", "", "20", 1, PPE_THREADS_MAX,
		"Thread contexts of an engine: packets that it works on at a time."),
	NUMBER("workers.burst", "packets", "32", 1, 256, "Packets per poll of a queue."),
	WORD("workers.idle", "sleep", "spin|yield|sleep",
		"What an engine without work does: poll on, give the CPU to others, or sleep."),
	NUMBER("workers.idle_sleep_us", "µs", "50", 1, 10000, "How long `sleep` sleeps."),
	WORD("workers.vectors", "auto", "auto|scalar|avx2|avx512",
		"The widest vector instructions that sums may use; `auto`: what the CPU has."),

	OBJECT("pools", "Packet memory."),
	NUMBER("pools.packets", "packets", "4096", 256, 4194304,
		"Packet buffers, for received packets and their copies."),
	NUMBER("pools.frame_bytes", "bytes", "0", 0, 65408,
		"Size of a packet buffer; 0: the largest frame of the ports, at least 2048."),
	NUMBER("pools.headers", "packets", "4096", 256, 4194304,
		"Buffers for the headers of results and replies, and for as many payloads attached to them."),

	OBJECT("queues", "Rings between the parts."),
	POWER("queues.output_depth", "packets", "1024", 64, 65536,
		"Output queue of a port, each of the two priorities."),
	POWER("queues.crossbar_depth", "packets", "1024", 64, 65536,
		"Ring from one worker to another."),

	OBJECT("tables", "Forwarding table, block table and timers."),
	NUMBER("tables.fdb_entries", "stations", "4096", 16, 1048576,
		"MAC addresses that each worker can learn."),
	NUMBER("tables.fdb_timeout_s", "s", "300", 1, 1000000,
		"A station that was silent for so long is forgotten."),
	NUMBER("tables.blocks", "block records", "16384", 1, 1 << 24,
		"Block records of each worker. A job takes 2 x window, over all workers; "
		"those of `jobs` are there in any case."),
	NUMBER("tables.timer_threads", "", "100", 1, 1000,
		"Timer threads: each scans so small a part of a table, in turn."),

	OBJECT("exception", "Where packets for the switch itself go (ARP, ping); without it they are dropped."),
	{"exception.interface", CTRL_NAME, "", NULL, 1, 15, NULL,
		"TAP interface that Weir makes, with the switch's MAC and IPv4 address."},

	OBJECT("api", "The control API (docs/openapi.yaml); without it there is none."),
	{"api.listen", CTRL_ARRAY, "", "[\"unix:/run/weir/NAME.sock\"]", 1, CTRL_LISTENERS_MAX, NULL,
		"Where it listens. NAME is `switch.name`."},
	{"api.listen[]", CTRL_TEXT, "", NULL, 6, 128, NULL,
		"`unix:PATH`, `tcp:ADDRESS:PORT`, or `tcp:SWITCH:PORT`: the switch's own address, through the exception interface."},
	{"api.socket_group", CTRL_NAME, "", "", 1, CTRL_NAME_BYTES - 1, NULL,
		"Group that may connect to the `unix:` sockets; none: the switch's own."},
	{"api.names", CTRL_ARRAY, "", "[]", 0, CTRL_HOSTS_MAX, NULL,
		"Names that clients over TCP may call the switch by (header Host), besides IP addresses and `localhost`."},
	{"api.names[]", CTRL_NAME, "", NULL, 1, CTRL_HOST_BYTES - 1, NULL, "A DNS name, without a port."},
	{"api.open_read", CTRL_BOOLEAN, "", "true", 0, 0, NULL,
		"Health, readiness, status, metrics and the page need no token."},
	OBJECT("api.tls", "The `tcp:` listeners speak TLS."),
	{"api.tls.certificate", CTRL_TEXT, "", NULL, 1, CTRL_FILE_BYTES - 1, NULL,
		"File with the certificate and those that it depends on, PEM."},
	{"api.tls.key", CTRL_TEXT, "", NULL, 1, CTRL_FILE_BYTES - 1, NULL,
		"File with the certificate's private key, PEM, without a password."},
	{"api.tenants", CTRL_ARRAY, "", "[]", 0, CTRL_TENANTS_MAX, NULL, "Who has a token."},
	OBJECT("api.tenants[]", "A tenant: sees and changes its own jobs."),
	{"api.tenants[].name", CTRL_NAME, "", NULL, 1, CTRL_NAME_BYTES - 1, NULL, "For people; unique."},
	{"api.tenants[].token_sha256", CTRL_TEXT, "", NULL, 64, 64, NULL,
		"SHA-256 of the token, in hex: `printf %s TOKEN \\| sha256sum`; unique."},
	{"api.tenants[].admin", CTRL_BOOLEAN, "", "false", 0, 0, NULL,
		"May do everything, to every job."},
	OBJECT("api.tenants[].quota", "What the tenant may have at most; 0: no limit."),
	NUMBER("api.tenants[].quota.jobs", "jobs", "0", 0, WEIR_JOBS_MAX, "Jobs at a time."),
	NUMBER("api.tenants[].quota.memory_mb", "MiB", "0", 0, 1048576, "Aggregation buffers of all its jobs."),
	NUMBER("api.tenants[].quota.blocks", "blocks", "0", 0, 16777216,
		"Blocks that its jobs may keep: twice their windows."),
	NUMBER("api.tenants[].quota.rate_mbit", "Mbit/s", "0", 0, 10000000, "Sum of its jobs' rates; each needs one then."),
	NUMBER("api.tenants[].quota.changes_per_s", "requests/s", "50", 0, 1000000,
		"Requests that could change something (create, set, delete, join, leave), in the long run."),
	NUMBER("api.tenants[].quota.changes_burst", "requests", "1024", 1, 1000000,
		"Of these, at once after a pause: the joins of some large jobs."),

	OBJECT("state", "What outlives a restart; without it, jobs made over the API do not."),
	{"state.file", CTRL_TEXT, "", NULL, 2, CTRL_FILE_BYTES - 1, NULL,
		"File to keep it in, an absolute path: `/var/lib/weir/NAME.json`. Its folder exists."},

	{"ports", CTRL_ARRAY, "", NULL, 1, PPE_PORTS_MAX - 1, NULL, "The ports, in order."},
	OBJECT("ports[]", "A port."),
	{"ports[].name", CTRL_NAME, "", NULL, 1, 31, NULL, "Name in printouts and statistics; unique."},
	{"ports[].device", CTRL_TEXT, "", NULL, 1, 255, NULL,
		"PCI address, or a virtual device (`net_...`), with its arguments after a comma each."},
	NUMBER("ports[].rx_queues", "queues", "1", 1, PPE_WORKERS_MAX,
		"Receive queues, at most one per worker."),
	NUMBER("ports[].tx_queues", "queues", "1", 1, PPE_WORKERS_MAX,
		"Transmit queues, at most one per worker; workers without one send over another's."),
	NUMBER("ports[].rx_descriptors", "packets", "512", 32, 32768, "Ring of a receive queue."),
	NUMBER("ports[].tx_descriptors", "packets", "512", 32, 32768, "Ring of a transmit queue."),
	WORD("ports[].rx_checksum", "auto", "auto|software|offload|off",
		"Who verifies IPv4 and UDP checksums: the device where it can, Weir, the device, nobody."),
	WORD("ports[].tx_checksum", "auto", "auto|software|offload|off", "Who writes them."),
	NUMBER("ports[].mtu", "bytes", "0", 0, 65407, "MTU to set; 0: leave the device's."),
	{"ports[].promiscuous", CTRL_BOOLEAN, "", "true", 0, 0, NULL,
		"Receive frames for other stations too: a switch has to."},

	{"jobs", CTRL_ARRAY, "", "[]", 0, WEIR_JOBS_MAX, NULL, "The jobs."},
	OBJECT("jobs[]", "A job."),
	NUMBER("jobs[].id", "", NULL, 0, WEIR_JOBS_MAX - 1, "The job's number on the wire; unique."),
	{"jobs[].name", CTRL_NAME, "", NULL, 1, PPE_JOB_NAME_MAX - 1, NULL, "For people; unique."},
	{"jobs[].sources", CTRL_ARRAY, "", NULL, 1, WEIR_SOURCES_MAX, NULL,
		"Who takes part; every block is the sum over all of them. For many sources: an object with `count` and `first`."},
	NUMBER("jobs[].sources.count", "sources", NULL, 1, WEIR_SOURCES_MAX, "The sources 0 to count - 1, ..."),
	{"jobs[].sources.first", CTRL_ADDRESS, "", NULL, 0, 0, NULL,
		"... at consecutive IPv4 addresses, of which this is the first. All are in the switch's subnet."},
	OBJECT("jobs[].sources[]", "A source."),
	NUMBER("jobs[].sources[].id", "", NULL, 0, WEIR_SOURCES_MAX - 1,
		"The source's number on the wire; unique in the job."),
	{"jobs[].sources[].address", CTRL_ADDRESS, "", NULL, 0, 0, NULL,
		"Its IPv4 address, in the switch's subnet. Sources may share one: workers of one host."},
#define X(key, where, change, kind, field, ...) CTRL_FILE_##where({"jobs[]." #key, CTRL_##kind, __VA_ARGS__},)
	CTRL_JOB_SETTINGS(X)
#undef X
	{"jobs[].key_file", CTRL_TEXT, "", "", 0, CTRL_FILE_BYTES - 1, NULL,
		"A file with a key of 64 hexadecimal digits, which others can't read: all packets of the job then bear tags. Its hosts need the same key."},
	NUMBER("jobs[].block_bits", "bits", "32", 8, 32,
		"Block ids count modulo 2 to this power, at least 4 windows. Less than 32 only with a fixed `generation`: for captures that are replayed in a loop."),

	OBJECT("faults", "Faults made on purpose, for tests (docs/faults.md)."),
	NUMBER("faults.seed", "", "1", 0, INT64_MAX, "The same seed and the same packets: the same faults."),
	NUMBER("faults.held", "packets", "1024", 1, PPE_FAULT_HELD_MAX,
		"Packets that a worker holds at most, delayed or to be overtaken; others pass."),
	{"faults.rules", CTRL_ARRAY, "", NULL, 0, PPE_FAULT_RULES_MAX, NULL,
		"A packet goes through them in this order, until one drops it."},
	OBJECT("faults.rules[]", "A rule."),
	{"faults.rules[].port", CTRL_NAME, "", "", 1, 31, NULL, "The port's name; none: all ports."},
	{"faults.rules[].direction", CTRL_WORD, "", NULL, 0, 0, "in|out",
		"Packets that the switch receives, or those that it sends."},
	WORD("faults.rules[].what", "any", "any|contribution|result|ordinary",
		"Which packets: contributions and joins, results and replies, or all others."),
	NUMBER("faults.rules[].job", "", "-1", -1, WEIR_JOBS_MAX - 1, "Those of this job only; -1: of any."),
	NUMBER("faults.rules[].source", "", "-1", -1, WEIR_SOURCES_MAX - 1,
		"Those from this source only, or results for it; -1: any."),
	NUMBER("faults.rules[].first_block", "", "0", 0, UINT32_MAX, "Those of this block and later ones only."),
	NUMBER("faults.rules[].last_block", "", "4294967295", 0, UINT32_MAX, "Those up to this block only."),
	WORD("faults.rules[].choice", "chance", "chance|every|list|burst",
		"Which of them: by chance, every nth, those in the list, or in bursts (Gilbert-Elliott)."),
	NUMBER("faults.rules[].chance_ppm", "1/1000000", "1000000", 0, 1000000, "`chance`: of each packet."),
	NUMBER("faults.rules[].nth", "packets", "1", 1, UINT32_MAX, "`every`: the nth, the 2 nth, and so on."),
	{"faults.rules[].list", CTRL_ARRAY, "", "[]", 0, PPE_FAULT_ORDINALS_MAX, NULL,
		"`list`: numbers of packets, counted from 1 at each queue of a port."},
	NUMBER("faults.rules[].list[]", "", NULL, 1, INT64_MAX, "A packet's number."),
	NUMBER("faults.rules[].enter_ppm", "1/1000000", "0", 0, 1000000, "`burst`: chance of a burst's begin, per packet."),
	NUMBER("faults.rules[].leave_ppm", "1/1000000", "1000000", 0, 1000000, "`burst`: chance of its end, per packet."),
	NUMBER("faults.rules[].good_ppm", "1/1000000", "0", 0, 1000000, "`burst`: chance of the action outside of bursts."),
	NUMBER("faults.rules[].bad_ppm", "1/1000000", "1000000", 0, 1000000, "`burst`: chance of the action within bursts."),
	NUMBER("faults.rules[].from_ms", "ms", "0", 0, UINT32_MAX, "It acts from this time on; 0 is when the faults are set."),
	NUMBER("faults.rules[].to_ms", "ms", "0", 0, UINT32_MAX, "It acts up to this time; 0: for ever."),
	NUMBER("faults.rules[].repeat_ms", "ms", "0", 0, UINT32_MAX, "That time begins again after so long; 0: it does not."),
	{"faults.rules[].action", CTRL_WORD, "", NULL, 0, 0, "drop|blackout|duplicate|reorder|delay|corrupt",
		"What happens to a packet; `blackout` drops, too, and is counted by itself."},
	NUMBER("faults.rules[].distance", "packets", "1", 1, 1000,
		"`reorder`: at most so many later packets of its queue overtake it."),
	WORD("faults.rules[].delay", "constant", "constant|uniform|exponential|pareto", "`delay`: its distribution."),
	NUMBER("faults.rules[].us", "µs", "0", 0, PPE_FAULT_DELAY_MAX_US,
		"`delay`: the constant one, the least one of `uniform` and `pareto`, the mean of `exponential`."),
	NUMBER("faults.rules[].most_us", "µs", "10000000", 0, PPE_FAULT_DELAY_MAX_US,
		"`delay`: the longest one of all but `constant`."),
	NUMBER("faults.rules[].shape_percent", "1/100", "200", 1, 10000, "`delay`: the shape of `pareto`; less: longer tail."),
	NUMBER("faults.rules[].bits", "bits", "1", 1, PPE_FAULT_BITS_MAX, "`corrupt`: bits to flip, anywhere in the frame."),
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
