/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/config/keys.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <rte_common.h>

#include "ctrl/config/config.h"
#include "ctrl/config/job.h"
#include "ctrl/config/tree.h"
#include "ctrl/config/filter_keys.h"
#include "ctrl/log.h"
#include "ppe/faults/faults.h"
#include "ppe/filters/filters.h"
#include "ppe/jobs.h"
#include "ppe/ppe.h"

/* clang-format off */
#define OBJECT(path, ...) {path, CTRL_OBJECT, "", "", 0, 0, NULL, .help = __VA_ARGS__}
/* An object that need not be there, because all its keys have defaults. */
#define SECTION(path, help_) {path, CTRL_OBJECT, "", "{}", 0, 0, NULL, .help = help_}
#define NUMBER(path, unit, fallback, min, max, ...) \
	{path, CTRL_INTEGER, unit, fallback, min, max, NULL, .help = __VA_ARGS__}
#define POWER(path, unit, fallback, min, max, ...) \
	{path, CTRL_POWER, unit, fallback, min, max, NULL, .help = __VA_ARGS__}
#define WORD(path, fallback, words, ...) \
	{path, CTRL_WORD, "", fallback, 0, 0, words, .help = __VA_ARGS__}
/* The field that holds the value. */
#define CONFIG(field) CTRL_FIELD(struct ctrl_config, field)
#define TENANT(field) CTRL_FIELD(struct ctrl_tenant, field)
#define PORT(field)   CTRL_FIELD(struct pktbuf_port_config, field)
#define SPEC(field)   CTRL_FIELD(struct ctrl_job_spec, field)
#define FAULTS(field) CTRL_FIELD(struct ppe_faults, field)
#define RULE(field)   CTRL_FIELD(struct ppe_fault_rule, field)

static const struct ctrl_key keys[] = {
	{"comment", CTRL_TEXT, "", "", 0, 4095, NULL, .help = "A comment. Not used."},
	NUMBER("memory_mb", "MiB", "512", 64, 1048576,
		"DPDK memory of the switch (EAL's `-m`). A configuration that needs more is "
		"refused.", CONFIG(memory_mb)),

	{"capture", CTRL_BOOLEAN, "", "false", 0, 0, NULL,
		.help = "Let `dpdk-dumpcap` attach and capture packets on the ports. Needs huge "
		"pages.", CONFIG(capture)},

	{"telemetry", CTRL_BOOLEAN, "", "false", 0, 0, NULL,
		.help = "Open DPDK's telemetry socket, for `dpdk-telemetry.py -f weir-NAME`.",
		CONFIG(telemetry)},

	{"switch", CTRL_OBJECT, "", NULL, 0, 0, NULL, .help = "Name and addresses of the switch."},
	{"switch.name", CTRL_NAME, "", "weir", 1, 31, NULL,
		.help = "Name in output and statistics, and of DPDK's runtime directory.",
		CONFIG(name)},
	{"switch.address", CTRL_SUBNET, "", NULL, 0, 0, NULL,
		.help = "The switch's IPv4 address and the prefix length of its subnet. All hosts "
		"of all jobs are in this subnet."},
	{"switch.mac", CTRL_MAC, "", "02:57:45:49:52:01", 0, 0, NULL,
		.help = "The switch's MAC address. Must be unique in the network.",
		CONFIG(ppe.identity.mac)},
	NUMBER("switch.port_base", "", "12000", 1, 65535,
		"UDP port of the base form of the protocol.", CONFIG(ppe.identity.port_base)),
	NUMBER("switch.port_extended", "", "12001", 1, 65535,
		"UDP port of the extended form of the protocol.", CONFIG(ppe.identity.port_ext)),

	SECTION("log", "Logging to stderr, one line of key=value pairs per event."),
	WORD("log.level", "notice", CTRL_LOG_LEVELS, "Lowest level that is logged."),
	SECTION("log.modules", "Levels for single modules. Others use `log.level`."),
#define X(name, word, help_) \
	{"log.modules." word, CTRL_WORD, "", "", 0, 0, CTRL_LOG_LEVELS, .help = help_},
	CTRL_LOG_MODULES(X)
#undef X

	{"eal", CTRL_ARRAY, "", "[]", 0, 64, NULL,
		.help = "More arguments for DPDK's EAL. Weir sets lcores, memory, devices and log "
		"levels itself."},
	{"eal[]", CTRL_TEXT, "", NULL, 1, 255, NULL, .help = "One argument."},

	SECTION("workers", "Worker threads; each runs one engine."),
	NUMBER("workers.count", "lcores", "1", 1, PPE_WORKERS_MAX,
		"Number of workers. Each has an lcore.", CONFIG(ppe.workers)),
	{"workers.cpus", CTRL_ARRAY, "", "[0]", 1, 64, NULL,
		.help = "Worker i runs on CPU `cpus[i mod length]`. Workers may share a CPU.",
		CONFIG(nb_cpus)},
	NUMBER("workers.cpus[]", "CPU", NULL, 0, 1023, "CPU number.", CONFIG(cpu[0])),
	NUMBER("workers.main_cpu", "CPU", "0", 0, 1023,
		"CPU of the control thread, which mostly sleeps.", CONFIG(main_cpu)),
	NUMBER("workers.threads", "", "20", 1, PPE_THREADS_MAX,
		"Thread contexts per engine: packets that it processes concurrently.",
		CONFIG(ppe.threads)),
	NUMBER("workers.burst", "packets", "32", 1, 256, "Packets per poll of a queue.",
		CONFIG(ppe.burst)),
	NUMBER("workers.batch", "packets", "256", 1, 256,
		"Contributions that a worker takes through each step together; 1: one thread for "
		"each.", CONFIG(ppe.batch)),
	WORD("workers.idle", "sleep", "spin|yield|sleep",
		"What an engine without work does: keep polling, yield the CPU, or sleep.",
		CONFIG(ppe.idle)),
	NUMBER("workers.idle_sleep_us", "µs", "50", 1, 10000, "Duration of a sleep.",
		CONFIG(ppe.idle_sleep_us)),
	WORD("workers.vectors", "auto", "auto|scalar|avx2|avx512",
		"Widest vector instructions that reductions may use. `auto`: the widest that the "
		"CPU has.", CONFIG(ppe.isa)),

	SECTION("pools", "Packet buffer pools."),
	NUMBER("pools.packets", "packets", "0", 0, 4194304,
		"Number of packet buffers, for received packets and their copies. 0: 4096, or 2048 "
		"more than the ports' rings hold if that is more.", CONFIG(ppe.packets)),
	NUMBER("pools.frame_bytes", "bytes", "0", 0, 65408,
		"Size of a packet buffer. 0: the largest frame of the ports, at least 2048.",
		CONFIG(ppe.packet_bytes)),
	NUMBER("pools.headers", "packets", "0", 0, 4194304,
		"Number of buffers for headers of results and replies, and of buffers for their "
		"payloads. 0: 4096, or 2048 more than the transmit rings of cards hold if that is "
		"more.", CONFIG(ppe.headers)),

	SECTION("queues", "Sizes of internal queues."),
	POWER("queues.output_depth", "packets", "1024", 64, 65536,
		"Length of a port's output queue, for each of the two priorities.",
		CONFIG(ppe.queue_depth)),
	NUMBER("queues.output_wait_ms", "ms", "100", 1, 10000,
		"How long a packet may wait for a port. At the latest after twice that time it is "
		"dropped.", CONFIG(ppe.queue_wait_ms)),
	POWER("queues.crossbar_depth", "packets", "1024", 64, 65536,
		"Length of the ring from one worker to another.", CONFIG(ppe.crossbar_depth)),

	SECTION("tables", "Forwarding table, block table and timers."),
	NUMBER("tables.fdb_entries", "stations", "4096", 16, 1048576,
		"MAC addresses that each worker can learn.", CONFIG(ppe.fdb_entries)),
	NUMBER("tables.fdb_timeout_s", "s", "300", 1, 1000000,
		"Idle time after which a station is forgotten.", CONFIG(ppe.fdb_timeout_s)),
	NUMBER("tables.blocks", "block records", "16384", 1, 1 << 24,
		"Block records of each worker. A job takes 2 x window, over all workers. "
		"Records for the jobs in `jobs` are always reserved.", CONFIG(ppe.blocks)),
	NUMBER("tables.timer_threads", "", "100", 1, 1000,
		"Timer threads; each scans 1/N of the table.", CONFIG(ppe.timer_threads)),

	SECTION("policers", "Rates that each port is limited to, by each worker. 0: no limit."),
#define X(name, key, fallback, counted) \
	NUMBER("policers." #key, "frames/s", fallback, 0, PPE_POLICER_MAX, counted, \
		CONFIG(ppe.policers.key)),
	PPE_POLICERS(X)
#undef X

	OBJECT("exception",
		"Interface for packets to the switch itself (ARP, ping). Without it, they are "
		"dropped."),
	{"exception.interface", CTRL_NAME, "", NULL, 1, 15, NULL,
		.help = "Name of the TAP interface that Weir creates, with the switch's MAC and "
		"IPv4 address.", CONFIG(exception)},

	OBJECT("api", "The control API (docs/api.md). Omit to disable it."),
	{"api.listen", CTRL_ARRAY, "", "[\"unix:/run/weir/NAME.sock\"]", 1, CTRL_LISTENERS_MAX,
		NULL,
		.help = "Addresses to listen on. NAME is `switch.name`."},
	{"api.listen[]", CTRL_TEXT, "", NULL, 6, 128, NULL,
		.help = "`unix:PATH`, `tcp:ADDRESS:PORT`, or `tcp:SWITCH:PORT` for the switch's "
		"own address on the exception interface."},
	{"api.socket_group", CTRL_NAME, "", "", 1, CTRL_NAME_BYTES - 1, NULL,
		.help = "Group that may connect to the `unix:` sockets. Default: the group of the "
		"switch's process.", CONFIG(api.socket_group)},
	{"api.names", CTRL_ARRAY, "", "[]", 0, CTRL_HOSTS_MAX, NULL,
		.help = "Names that TCP clients may send in the Host header, besides IP addresses "
		"and `localhost`.", CONFIG(api.nb_names)},
	{"api.names[]", CTRL_NAME, "", NULL, 1, CTRL_HOST_BYTES - 1, NULL,
		.help = "A DNS name, without a port.", CONFIG(api.name[0])},
	{"api.open_read", CTRL_BOOLEAN, "", "true", 0, 0, NULL,
		.help = "Allow health, readiness, status, metrics and the live page without a "
		"token.", CONFIG(api.open_read)},
	NUMBER("api.open_jobs", "jobs", "0", 0, WEIR_JOBS_MAX,
		"Number of temporary jobs that clients over TCP may have made without a token, for "
		"hosts on a trusted rack (docs/operations.md). They also delete such jobs. Not "
		"with `api.tenants`.", CONFIG(api.open_jobs)),
	{"api.load_programs_over_tcp", CTRL_BOOLEAN, "", "false", 0, 0, NULL,
		.help = "Allow administrators to load programs over TCP. Programs run with all "
		"rights of the switch (docs/programs.md).", CONFIG(api.load_over_tcp)},
	OBJECT("api.tls", "TLS for the `tcp:` listeners."),
	{"api.tls.certificate", CTRL_TEXT, "", NULL, 1, CTRL_FILE_BYTES - 1, NULL,
		.help = "PEM file with the certificate and its chain.", CONFIG(api.certificate)},
	{"api.tls.key", CTRL_TEXT, "", NULL, 1, CTRL_FILE_BYTES - 1, NULL,
		.help = "PEM file with the private key, unencrypted.", CONFIG(api.key)},
	{"api.tenants", CTRL_ARRAY, "", "[]", 0, CTRL_TENANTS_MAX, NULL,
		.help = "Tenants, each with a token."},
	OBJECT("api.tenants[]", "A tenant. It sees and changes its own jobs only."),
	{"api.tenants[].name", CTRL_NAME, "", NULL, 1, CTRL_NAME_BYTES - 1, NULL,
		.help = "Name of the tenant; unique.", TENANT(name), .unique = true},
	{"api.tenants[].token_sha256", CTRL_HEX, "", NULL, 64, 64, NULL,
		.help = "SHA-256 of the token, in hex: `printf %s TOKEN \\| sha256sum`; unique.",
		TENANT(token_sha256), .unique = true},
	{"api.tenants[].admin", CTRL_BOOLEAN, "", "false", 0, 0, NULL,
		.help = "Administrator: full access to all jobs.", TENANT(admin)},
	SECTION("api.tenants[].quota", "Limits of the tenant. 0: no limit."),
	NUMBER("api.tenants[].quota.jobs", "jobs", "32", 0, WEIR_JOBS_MAX,
		"Number of jobs. A switch has 256 job ids, for all tenants.", TENANT(quota.jobs)),
	NUMBER("api.tenants[].quota.members", "members", "1024", 0, 65536,
		"Members of all its jobs, their sizes together. A switch binds the addresses of "
		"2048 to their ports (docs/security.md).", TENANT(quota.members)),
	NUMBER("api.tenants[].quota.memory_mb", "MiB", "0", 0, 1048576,
		"Memory of all its jobs: buffers, tables, keys.", TENANT(quota.memory_mb)),
	NUMBER("api.tenants[].quota.blocks", "blocks", "0", 0, 16777216,
		"Block records of all its jobs. A job takes twice its window.",
		TENANT(quota.blocks)),
	NUMBER("api.tenants[].quota.rate_mbit", "Mbit/s", "0", 0, 10000000,
		"Sum of the rates of its jobs. With a limit, each job must set `rate_mbit`.",
		TENANT(quota.rate_mbit)),
	NUMBER("api.tenants[].quota.changes_per_s", "requests/s", "50", 0, 1000000,
		"Average rate of requests that change something (create, set, delete, join, "
		"leave).", TENANT(quota.changes_per_s)),
	NUMBER("api.tenants[].quota.changes_burst", "requests", "1024", 1, 1000000,
		"Burst of such requests; should cover the joins of a few large jobs.",
		TENANT(quota.changes_burst)),

	OBJECT("state",
		"Persistent state. Without it, jobs created over the API are lost at a restart."),
	{"state.file", CTRL_TEXT, "", NULL, 2, CTRL_FILE_BYTES - 1, NULL,
		.help = "State file, an absolute path such as `/var/lib/weir/NAME.json`. Its "
		"directory must exist.", CONFIG(state_file)},

	{"ports", CTRL_ARRAY, "", NULL, 1, PPE_PORTS_MAX - 1, NULL, .help = "The ports, in order.",
		CONFIG(nb_ports)},
	OBJECT("ports[]", "A port.", CONFIG(port[0])),
	{"ports[].name", CTRL_NAME, "", NULL, 1, 31, NULL,
		.help = "Name in output and statistics; unique.", PORT(name), .unique = true},
	{"ports[].device", CTRL_TEXT, "", NULL, 1, 255, NULL,
		.help = "PCI address or virtual device (`net_...`), followed by comma-separated "
		"arguments."},
	NUMBER("ports[].rx_queues", "queues", "1", 1, PPE_WORKERS_MAX,
		"Receive queues, at most one per worker.", PORT(rx_queues)),
	NUMBER("ports[].tx_queues", "queues", "1", 1, PPE_WORKERS_MAX,
		"Transmit queues, at most one per worker. Workers without a queue send through "
		"another worker's.", PORT(tx_queues)),
	NUMBER("ports[].rx_descriptors", "packets", "512", 32, 32768, "Length of a receive queue.",
		PORT(rx_descriptors)),
	NUMBER("ports[].tx_descriptors", "packets", "512", 32, 32768, "Length of a transmit queue.",
		PORT(tx_descriptors)),
	WORD("ports[].rx_checksum", "auto", "auto|software|offload|off",
		"Who verifies IPv4 and UDP checksums: the device where it can, Weir, the device "
		"only, or none.", PORT(rx_checksum)),
	WORD("ports[].tx_checksum", "auto", "auto|software|offload|off",
		"Who computes IPv4 and UDP checksums; values as of `rx_checksum`.",
		PORT(tx_checksum)),
	NUMBER("ports[].mtu", "bytes", "0", 0, 65407,
		"MTU to set. 0: keep the device's.", PORT(mtu)),
	{"ports[].promiscuous", CTRL_BOOLEAN, "", "true", 0, 0, NULL,
		.help = "Promiscuous mode. Forwarding to other stations needs it.",
		PORT(promiscuous)},
	{"ports[].neighbor", CTRL_NAME, "", "", 1, CTRL_NAME_BYTES - 1, NULL,
		.help = "Name of the switch (its `switch.name`) or host at the other end of the "
		"link. The switch only shows it; `weirctl tree create` finds links by it."},
	{"ports[].forward", CTRL_BOOLEAN, "", "true", 0, 0, NULL,
		.help = "Does the port take part in forwarding? If not, frames between stations "
		"neither enter nor leave by it; those to and from the switch do. Breaks loops of "
		"links between switches."},
	{"ports[].hosts", CTRL_ARRAY, "", "[]", 0, PPE_HOSTS_MAX, NULL,
		.help = "IPv4 addresses of the hosts behind the port. Packets with one of these "
		"source addresses enter only by ports that list it, and the port takes no other "
		"source addresses. Default: any address that no port lists; that of a joined "
		"source belongs to the port where it joined."},
	{"ports[].hosts[]", CTRL_TEXT, "", NULL, 7, 18, NULL,
		.help = "`ADDRESS`, or `ADDRESS/LENGTH` for a prefix."},

	{"program_directory", CTRL_TEXT, "", "", 2, CTRL_FILE_BYTES - 1, NULL,
		.help = "Directory of the files of programs, an absolute path "
		"(docs/programs.md). Default: `weir/programs` in the installation's directory of "
		"libraries.", CONFIG(program_directory)},
	{"programs", CTRL_ARRAY, "", "[]", 0, PPE_PROGRAMS_MAX, NULL,
		.help = "Programs to load. A packet that several match is the first one's."},
	OBJECT("programs[]", "A program."),
	{"programs[].file", CTRL_NAME, "", NULL, 4, CTRL_PROGRAM_BYTES - 1, NULL,
		.help = "File in the directory of programs, such as `switchml.so`; unique.",
		.unique = true},
	{"programs[].settings", CTRL_SETTINGS, "", "{}", 0, 0, NULL,
		.help = "The program's own settings. `weir-switch --check` checks them."},

	{"filter_directory", CTRL_TEXT, "", "", 2, CTRL_FILE_BYTES - 1, NULL,
		.help = "Directory of the files of filters, an absolute path (docs/filters.md). "
		"Default: `weir/filters` in the installation's directory of libraries.",
		CONFIG(filter_directory)},
	{"filters", CTRL_ARRAY, "", "[]", 0, PPE_FILTERS_MAX, NULL,
		.help = "Filters of received packets to load (docs/filters.md), in this order."},
	OBJECT("filters[]", "A filter."),
	CTRL_FILTER_KEYS("filters[].")

	{"jobs", CTRL_ARRAY, "", "[]", 0, WEIR_JOBS_MAX, NULL, .help = "The jobs."},
	OBJECT("jobs[]", "A job."),
	NUMBER("jobs[].id", "", NULL, 0, WEIR_JOBS_MAX - 1, "Job id in packets; unique.", SPEC(id),
		.unique = true),
	{"jobs[].name", CTRL_NAME, "", NULL, 1, PPE_JOB_NAME_MAX - 1, NULL,
		.help = "Name of the job; unique.", SPEC(shape.name), .unique = true},
	{"jobs[].sources", CTRL_ARRAY, "", NULL, 1, WEIR_SOURCES_MAX, NULL,
		.help = "Sources of the job. Each contributes to every block. For many sources: an "
		"object with `count` and `first`."},
	NUMBER("jobs[].sources.count", "sources", NULL, 1, WEIR_SOURCES_MAX,
		"Number of sources; their ids are 0 to count - 1, or begin with "
		"`tree.first_rank`."),
	{"jobs[].sources.first", CTRL_ADDRESS, "", NULL, 0, 0, NULL,
		.help = "IPv4 address of the first source. The others have the addresses after it, "
		"all in the switch's subnet."},
	OBJECT("jobs[].sources[]", "A source."),
	NUMBER("jobs[].sources[].id", "", NULL, 0, WEIR_SOURCES_MAX - 1,
		"Source id in packets; unique in the job.", .unique = true),
	{"jobs[].sources[].address", CTRL_ADDRESS, "", NULL, 0, 0, NULL,
		.help = "IPv4 address, in the switch's subnet. Sources on one host may share an "
		"address. That of a switch may be elsewhere."},
	CTRL_CHILD_KEYS("jobs[].", "")
	CTRL_TREE_KEYS("jobs[].")
	{"jobs[].tree.parents[].key_file", CTRL_TEXT, "", "", 0, CTRL_FILE_BYTES - 1, NULL,
		.help = "File as of `jobs[].key_file`, with the [key of this "
		"source](protocol.md#proved-joins) of the parent's job. Required if this job is "
		"authenticated."},
#define X(key, where, change, needs, tree, kind, field, ...) \
	CTRL_FILE_##where({"jobs[]." #key, CTRL_##kind, __VA_ARGS__, SPEC(field)},)
	CTRL_JOB_SETTINGS(X)
#undef X
	{"jobs[].key_file", CTRL_TEXT, "", "", 0, CTRL_FILE_BYTES - 1, NULL,
		.help = "File with a key of 64 hexadecimal digits, not readable by other users. "
		"All packets of the job then carry authentication tags, and its hosts need the "
		"same key. Without it, hosts are known by their addresses alone."},
	NUMBER("jobs[].block_bits", "bits", "32", 8, 32,
		"Block ids count modulo 2 to this power, which is at least 4 windows. Less than 32 "
		"only with a fixed `generation`, for captures that are replayed in a loop."),

	OBJECT("faults", "Fault injection, for tests (docs/faults.md).", CONFIG(faults)),
	NUMBER("faults.seed", "", "1", 0, INT64_MAX,
		"Random seed. The same seed and packets give the same faults.", FAULTS(seed)),
	NUMBER("faults.held", "packets", "1024", 1, PPE_FAULT_HELD_MAX,
		"Maximum of packets that a worker holds for `delay` and `reorder`. Others pass "
		"unchanged.", FAULTS(held)),
	{"faults.rules", CTRL_ARRAY, "", NULL, 0, PPE_FAULT_RULES_MAX, NULL,
		.help = "Rules, applied to a packet in this order until one drops it.",
		FAULTS(nb_rules)},
	OBJECT("faults.rules[]", "A rule.", FAULTS(rule[0])),
	{"faults.rules[].port", CTRL_NAME, "", "", 1, 31, NULL,
		.help = "Name of the port. Default: all ports."},
	{"faults.rules[].direction", CTRL_WORD, "", NULL, 0, 0, "in|out",
		.help = "Match packets that the switch receives or sends.", RULE(direction)},
	WORD("faults.rules[].what", "any", "any|contribution|result|ordinary",
		"Match contributions and joins, results and replies, or all other packets.",
		RULE(what)),
	NUMBER("faults.rules[].job", "", "-1", -1, WEIR_JOBS_MAX - 1,
		"Match only this job; -1 matches any.", RULE(job)),
	NUMBER("faults.rules[].source", "", "-1", -1, WEIR_SOURCES_MAX - 1,
		"Match only packets from this source or results for it; -1 matches any.",
		RULE(source)),
	NUMBER("faults.rules[].first_block", "", "0", 0, UINT32_MAX,
		"Match only this block and later ones.", RULE(first)),
	NUMBER("faults.rules[].last_block", "", "4294967295", 0, UINT32_MAX,
		"Match only blocks up to this one.", RULE(last)),
	WORD("faults.rules[].choice", "chance", "chance|every|list|burst",
		"How matching packets are selected: at random, every nth, by a list, or in bursts "
		"(Gilbert-Elliott).", RULE(choice)),
	NUMBER("faults.rules[].chance_ppm", "1/1000000", "1000000", 0, 1000000,
		"`chance`: probability of each packet.", RULE(probability)),
	NUMBER("faults.rules[].nth", "packets", "1", 1, UINT32_MAX,
		"`every`: select each nth packet.", RULE(nth)),
	{"faults.rules[].list", CTRL_ARRAY, "", "[]", 0, PPE_FAULT_ORDINALS_MAX, NULL,
		.help = "`list`: packet numbers, counted from 1 in each queue of a port.",
		RULE(ordinals)},
	NUMBER("faults.rules[].list[]", "", NULL, 1, INT64_MAX, "Packet number.", RULE(ordinal[0])),
	NUMBER("faults.rules[].enter_ppm", "1/1000000", "0", 0, 1000000,
		"`burst`: probability that a burst begins, per packet.", RULE(enter)),
	NUMBER("faults.rules[].leave_ppm", "1/1000000", "1000000", 0, 1000000,
		"`burst`: probability that a burst ends, per packet.", RULE(leave)),
	NUMBER("faults.rules[].good_ppm", "1/1000000", "0", 0, 1000000,
		"`burst`: probability of the action outside bursts.", RULE(good)),
	NUMBER("faults.rules[].bad_ppm", "1/1000000", "1000000", 0, 1000000,
		"`burst`: probability of the action within bursts.", RULE(bad)),
	NUMBER("faults.rules[].from_ms", "ms", "0", 0, UINT32_MAX,
		"The rule starts at this time, counted from when the faults are set.",
		RULE(from_ms)),
	NUMBER("faults.rules[].to_ms", "ms", "0", 0, UINT32_MAX,
		"The rule ends at this time; 0 means never.", RULE(to_ms)),
	NUMBER("faults.rules[].repeat_ms", "ms", "0", 0, UINT32_MAX,
		"Period after which the schedule repeats; 0 disables repetition.", RULE(repeat_ms)),
	{"faults.rules[].action", CTRL_WORD, "", NULL, 0, 0,
		"drop|blackout|duplicate|reorder|delay|corrupt",
		.help = "What happens to a packet. `blackout` drops it, too, but has its own "
		"counter.", RULE(action)},
	NUMBER("faults.rules[].distance", "packets", "1", 1, 1000,
		"`reorder`: maximum number of later packets of the queue that overtake it.",
		RULE(distance)),
	WORD("faults.rules[].delay", "constant", "constant|uniform|exponential|pareto",
		"`delay`: distribution of the delay.", RULE(delay)),
	NUMBER("faults.rules[].us", "µs", "0", 0, PPE_FAULT_DELAY_MAX_US,
		"`delay`: value of `constant`, minimum of `uniform` and `pareto`, mean of "
		"`exponential`.", RULE(us)),
	NUMBER("faults.rules[].most_us", "µs", "10000000", 0, PPE_FAULT_DELAY_MAX_US,
		"`delay`: maximum, except for `constant`.", RULE(most_us)),
	NUMBER("faults.rules[].shape_percent", "1/100", "200", 1, 10000,
		"`delay`: shape of `pareto`. A smaller shape has a longer tail.", RULE(shape)),
	NUMBER("faults.rules[].bits", "bits", "1", 1, PPE_FAULT_BITS_MAX,
		"`corrupt`: number of bits to flip, anywhere in the frame.", RULE(bits)),
};
/* clang-format on */

const struct ctrl_schema ctrl_config_schema = {keys, RTE_DIM(keys)};

/* A kind's name in the schema, its name and range for people. With bounds, `range` is what they
 * count. */
static const struct {
	const char *word, *name;
	bool is_string, bounds;
	const char *range;
} kinds[] = {
	[CTRL_OBJECT] = {"object", "object", false, false, ""},
	[CTRL_ARRAY] = {"array", "array", false, true, " entries"},
	[CTRL_INTEGER] = {"integer", "integer", false, true, ""},
	[CTRL_POWER] = {"power", "power of two", false, true, ""},
	[CTRL_BOOLEAN] = {"boolean", "boolean", false, false, "true, false"},
	[CTRL_WORD] = {"word", "word", true, false, ""},
	[CTRL_TEXT] = {"text", "string", true, true, " characters"},
	[CTRL_NAME] = {"name", "name", true, true, " characters"},
	[CTRL_ADDRESS] = {"address", "IPv4 address", true, false, ""},
	[CTRL_IPV4] = {"ipv4", "IPv4 address", true, false, ""},
	[CTRL_SUBNET] = {"subnet", "IPv4 address/prefix", true, false, "prefix 1..30"},
	[CTRL_RESULTS] = {"results", "word or IPv4 address", true, false,
		"unicast, 224.0.0.0/4 without 224.0.0.0/24"},
	[CTRL_MAC] = {"mac", "MAC address", true, false, ""},
	[CTRL_HEX] = {"hex", "hexadecimal digits", true, true, " digits"},
	[CTRL_SETTINGS] = {"settings", "object", false, false, ""},
};

/* -- values */

/* The key of an array's elements. */
static const struct ctrl_key *
element_of(const struct ctrl_key *array)
{
	return ctrl_schema_find(&ctrl_config_schema, ctrl_path("%s[]", array->path).text);
}

/* The elements that have a field, one behind the other from there on. */
static void
read_array(const struct ctrl_key *key, const json_t *array, char *base)
{
	const struct ctrl_key *element = element_of(key);
	json_t *fallback = NULL;

	if (array == NULL && key->bytes > 0 && key->fallback != NULL)
		array = fallback = json_loads(key->fallback, 0, NULL);
	ctrl_key_set(key, array, base);
	for (size_t i = 0; element->bytes > 0 && i < json_array_size(array); i++) {
		const json_t *value = json_array_get(array, i);
		char *at = base + i * element->bytes;

		if (element->kind == CTRL_OBJECT)
			ctrl_keys_read(element->path, value, at + element->offset);
		else
			ctrl_key_set(element, value, at);
	}
	json_decref(fallback);
}

void
ctrl_keys_read(const char *at, const json_t *object, void *base)
{
	for (const struct ctrl_key *key = keys; key < keys + RTE_DIM(keys); key++) {
		const char *name = ctrl_key_in(key, at);
		const json_t *value = name == NULL ? NULL : json_object_get(object, name);

		if (name == NULL)
			continue;
		if (key->kind == CTRL_OBJECT)
			ctrl_keys_read(key->path, value, (char *)base + key->offset);
		else if (key->kind == CTRL_ARRAY)
			read_array(key, value, base);
		else
			ctrl_key_set(key, value, base);
	}
}

void
ctrl_keys_put(const char *at, const void *base, json_t *object)
{
	for (const struct ctrl_key *key = keys; key < keys + RTE_DIM(keys); key++) {
		const char *name = ctrl_key_in(key, at);
		json_t *value;

		if (name == NULL || key->bytes == 0)
			continue;
		value = ctrl_key_get(key, base);
		if (key->kind == CTRL_ARRAY) {
			const struct ctrl_key *element = element_of(key);
			json_int_t count = json_integer_value(value);

			json_decref(value);
			value = json_array();
			for (json_int_t i = 0; i < count; i++)
				json_array_append_new(value,
					ctrl_key_get(element,
						(const char *)base + (size_t)i * element->bytes));
		}
		json_object_set_new(object, name, value);
	}
}

int
ctrl_keys_fill(const char *at, json_t *object)
{
	int rc = 0;

	for (const struct ctrl_key *key = keys; key < keys + RTE_DIM(keys); key++) {
		const char *name = ctrl_key_in(key, at);
		json_t *value = name == NULL ? NULL : json_object_get(object, name), *element;
		size_t i;

		if (name != NULL && value == NULL && key->fallback != NULL &&
			key->fallback[0] != '\0') {
			value = kinds[key->kind].is_string
				? json_string(key->fallback)
				: json_loads(key->fallback, JSON_DECODE_ANY, NULL);
			rc |= json_object_set_new(object, name, value);
		}
		if (json_is_object(value))
			rc |= ctrl_keys_fill(key->path, value);
		json_array_foreach (value, i, element) {
			rc |= ctrl_keys_fill(element_of(key)->path, element);
		}
	}
	return rc;
}

int64_t
ctrl_integer(const json_t *object, const char *path)
{
	const struct ctrl_key *key = ctrl_schema_find(&ctrl_config_schema, path);
	const json_t *value = json_object_get(object, ctrl_key_name(key));

	return value != NULL ? json_integer_value(value) : strtoll(key->fallback, NULL, 10);
}

const char *
ctrl_string(const json_t *object, const char *path)
{
	const struct ctrl_key *key = ctrl_schema_find(&ctrl_config_schema, path);
	const json_t *value = json_object_get(object, ctrl_key_name(key));

	return value != NULL ? json_string_value(value) : key->fallback;
}

/* -- the reference table */

const char *
ctrl_kind_word(enum ctrl_kind kind)
{
	return kinds[kind].word;
}

/* An empty cell is one blank, so that the table is readable as text. */
void
ctrl_key_row(const struct ctrl_key *key, FILE *out)
{
	fprintf(out, "| `%s` | %s |%s%s | ", key->path, kinds[key->kind].name,
		key->unit[0] != '\0' ? " " : "", key->unit);
	if (key->fallback == NULL)
		fputs("required | ", out);
	else if (key->fallback[0] == '\0')
		fputs("none | ", out);
	else
		fprintf(out, "`%s` | ", key->fallback);
	if (kinds[key->kind].bounds)
		fprintf(out, "%" PRId64 "..%" PRId64, key->min, key->max);
	fprintf(out, "%s%s | %s |", kinds[key->kind].range,
		key->kind == CTRL_WORD ? ctrl_words_text(key->words).text : "", key->help);
}
