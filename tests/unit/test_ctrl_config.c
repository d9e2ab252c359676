/* SPDX-License-Identifier: BSD-3-Clause */
/* Configurations: what is taken, what is refused and in which words, and the defaults. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "ctrl/config.h"
#include "rmw/kernels.h"

/* A small good file; each refusal changes a line of it. */
static const char *const good[] = {
	"{", /* 1 */
	"  \"switch\": { \"address\": \"10.77.0.254/24\" },",
	"  \"memory_mb\": 256,",
	"  \"eal\": [\"--no-huge\", \"--no-pci\"],",
	"  \"workers\": { \"count\": 2 },", /* 5 */
	"  \"ports\": [",
	"    { \"name\": \"p0\", \"device\": \"net_af_packet0,iface=a\" },",
	"    { \"name\": \"p1\", \"device\": \"net_af_packet1,iface=b\" }",
	"  ],",
	"  \"jobs\": [", /* 10 */
	"    { \"id\": 1, \"name\": \"train\",",
	"      \"sources\": [",
	"        { \"id\": 0, \"address\": \"10.77.0.1\" },",
	"        { \"id\": 7, \"address\": \"10.77.0.2\" }",
	"      ],", /* 15 */
	"      \"window\": 64",
	"    }",
	"  ]",
	"}",
};

#define GOOD_LINES (sizeof(good) / sizeof(good[0]))

/* The good file with two lines (from 1; 0: none) replaced. */
static const char *
text_with_two(unsigned int line, const char *other, unsigned int line2, const char *other2)
{
	static char text[8192];

	text[0] = '\0';
	for (unsigned int i = 1; i <= GOOD_LINES; i++) {
		strcat(text, i == line ? other : i == line2 ? other2 : good[i - 1]);
		strcat(text, "\n");
	}
	return text;
}

static const char *
text_with(unsigned int line, const char *other)
{
	return text_with_two(line, other, 0, NULL);
}

static struct ctrl_config *
must_take(const char *text)
{
	char error[CTRL_ERROR_BYTES];
	struct ctrl_config *config;
	int rc = ctrl_config_parse(text, strlen(text), "x.json", &config, error, sizeof(error));

	cr_assert_eq(rc, 0, "%s", error);
	cr_assert_not_null(config);
	return config;
}

static void
refuse_text(const char *text, size_t length, const char *reason)
{
	char error[CTRL_ERROR_BYTES];
	struct ctrl_config *config;
	int rc = ctrl_config_parse(text, length, "x.json", &config, error, sizeof(error));

	cr_expect_eq(rc, -EINVAL, "%s: taken", reason);
	cr_expect_null(config);
	cr_expect_str_eq(error, reason);
	ctrl_config_destroy(config);
}

static void
refuse(unsigned int line, const char *other, const char *reason)
{
	const char *text = text_with(line, other);

	refuse_text(text, strlen(text), reason);
}

#define PORT(arguments)                                                                            \
	"    { \"name\": \"p1\", \"device\": \"net_af_packet1,iface=b," arguments "\" }"
#define SWITCH(more) "  \"switch\": { \"address\": \"10.77.0.254/24\", " more " },"

Test(ctrl_config, defaults, .timeout = 10)
{
	struct ctrl_config *c = must_take(text_with(0, NULL));
	static const uint8_t mac[6] = {0x02, 0x57, 0x45, 0x49, 0x52, 0x01};

	cr_assert_str_eq(c->name, "weir");
	cr_assert_eq(c->ppe.identity.ip, 0x0a4d00feu);
	cr_assert_eq(c->prefix, 24);
	cr_assert_eq(memcmp(c->ppe.identity.mac, mac, sizeof(mac)), 0);
	cr_assert_eq(c->ppe.identity.port_base, 12000);
	cr_assert_eq(c->ppe.identity.port_ext, 12001);
	cr_assert_eq(c->ppe.workers, 2);
	cr_assert_eq(c->ppe.threads, 20);
	cr_assert_eq(c->ppe.burst, 32);
	cr_assert_eq(c->ppe.idle, PPE_IDLE_SLEEP);
	cr_assert_eq(c->ppe.idle_sleep_us, 50);
	cr_assert_eq(c->ppe.queue_depth, 1024);
	cr_assert_eq(c->ppe.crossbar_depth, 1024);
	cr_assert_eq(c->ppe.timer_threads, 100);
	cr_assert_eq(c->ppe.fdb_entries, 4096);
	cr_assert_eq(c->ppe.fdb_timeout_s, 300);
	cr_assert_eq(c->ppe.exception_port, -1);
	cr_assert_eq(c->ppe.packets, 4096);
	cr_assert_eq(c->ppe.packet_bytes, 2048);
	cr_assert_eq(c->ppe.headers, 4096);
	cr_assert_neq(c->ppe.first_generation, 0);
	cr_assert_eq(c->nb_ports, 2);
	cr_assert_str_eq(c->port[1].name, "p1");
	cr_assert_str_eq(c->port[1].device, "net_af_packet1");
	cr_assert_str_eq(c->port_more[1].interface, "b");
	cr_assert_eq(c->port[1].rx_queues, 1);
	cr_assert_eq(c->port[1].tx_descriptors, 512);
	cr_assert_eq(c->port[1].rx_checksum, PKTBUF_CHECKSUM_AUTO);
	cr_assert_eq(c->port[1].mtu, 0);
	cr_assert(c->port[1].promiscuous);
	cr_assert_eq(c->nb_jobs, 1);
	cr_assert_eq(c->jobs.by_id[1], &c->job[0]);
	cr_assert_null(c->jobs.by_id[0]);
	cr_assert_eq(c->memory_mb, 256);
	cr_assert_gt(c->memory.total, 4096u * 2048u);
	ctrl_config_destroy(c);
}

Test(ctrl_config, job, .timeout = 10)
{
	struct ctrl_config *c = must_take(text_with(16,
		"\"window\": 16, \"elements\": 300, \"timeout_ms\": 60000, \"policy\": "
		"\"partial\", "
		"\"results\": \"239.77.0.1\", \"type\": \"int32\", \"generation\": 9, "
		"\"block_bits\": 12"));
	const struct ppe_job *j = c->jobs.by_id[1];

	cr_assert_str_eq(j->name, "train");
	cr_assert_eq(j->nb_sources, 2);
	cr_assert(ppe_job_has(j, 0) && ppe_job_has(j, 7) && !ppe_job_has(j, 1));
	cr_assert_eq(j->address[7], 0x0a4d0002u);
	cr_assert_eq(j->window, 16);
	cr_assert_eq(j->elements, 300);
	cr_assert_eq(j->timeout_ms, 60000);
	cr_assert_eq(j->policy, PPE_POLICY_PARTIAL);
	cr_assert_eq(j->group, 0xef4d0001u);
	cr_assert_eq(j->dtype, WEIR_DTYPE_INT32);
	cr_assert_eq(j->op, WEIR_OP_SUM);
	cr_assert_eq(j->fixed_generation, 9);
	cr_assert_eq(j->block_shift, 32 - 12);
	cr_assert_eq(ctrl_job_frame_bytes(j), 14u + 20 + 8 + 16 + 1200 + 32);
	ctrl_config_destroy(c);
}

/* Every type and operation that there is, by its wire's number; others, and what makes no sense, not. */
Test(ctrl_config, types_and_operations, .timeout = 30)
{
	char line[96], why[192];

	for (unsigned int type = 0; type <= WEIR_DTYPE_FP64; type++)
		for (unsigned int op = 0; op <= WEIR_OP_LXOR; op++) {
			struct ctrl_config *c;

			snprintf(line, sizeof(line), "\"type\": \"%s\", \"op\": \"%s\"",
				rmw_type_name(type), rmw_op_name(op));
			if (type >= WEIR_DTYPE_FP16 && op >= WEIR_OP_BAND) {
				snprintf(why, sizeof(why),
					"x.json:16:23: jobs[0].op: %s is for integers only, and %s "
					"is none",
					rmw_op_name(op), rmw_type_name(type));
				refuse(16, line, why);
				continue;
			}
			c = must_take(text_with(16, line));
			cr_expect_eq(c->jobs.by_id[1]->dtype, type, "%s", line);
			cr_expect_eq(c->jobs.by_id[1]->op, op, "%s", line);
			ctrl_config_destroy(c);
		}
	refuse(16, "\"type\": \"float\"",
		"x.json:16:9: jobs[0].type: \"float\" is not one of int8, uint8, int16, uint16, "
		"int32, uint32, int64, uint64, fp16, bf16, fp32, fp64");
	refuse(16, "\"op\": \"median\"",
		"x.json:16:7: jobs[0].op: \"median\" is not one of sum, prod, min, max, avg, band, "
		"bor, bxor, land, lor, lxor");
}

Test(ctrl_config, deterministic, .timeout = 10)
{
	struct ctrl_config *c = must_take(text_with(16, "\"deterministic\": true"));

	cr_expect(c->jobs.by_id[1]->deterministic);
	ctrl_config_destroy(c);
	c = must_take(text_with(16, "\"window\": 64"));
	cr_expect_not(c->jobs.by_id[1]->deterministic);
	ctrl_config_destroy(c);
	refuse(16, "\"deterministic\": 1",
		"x.json:16:18: jobs[0].deterministic: an integer where true or false belongs");
}

/* Write a key file; returns the job's line that names it. */
static const char *
key_file(const char *text, mode_t mode)
{
	static char line[128];
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/tmp/weir_key_%d", (int)getpid());
	unlink(path);
	file = fopen(path, "w");
	cr_assert_not_null(file);
	fputs(text, file);
	fclose(file);
	cr_assert_eq(chmod(path, mode), 0);
	snprintf(line, sizeof(line), "\"key_file\": \"%s\"", path);
	return line;
}

#define KEY "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F"

/* Refuse this key file; what is said after its name. The file is gone then. */
static void
refuse_key(const char *text, mode_t mode, const char *said)
{
	const char *line = key_file(text, mode);
	char why[384], path[64];

	snprintf(path, sizeof(path), "/tmp/weir_key_%d", (int)getpid());
	snprintf(why, sizeof(why), "x.json:16:13: jobs[0].key_file: %s%s", path, said);
	refuse(16, line, why);
	unlink(path);
}

Test(ctrl_config, key_file, .timeout = 10)
{
	static const char wrong[] = ": a key is 64 hexadecimal digits and nothing else; `openssl "
				    "rand -hex 32` makes one";
	struct ctrl_config *c = must_take(text_with(16, key_file(" " KEY "\n", 0640)));
	const struct ppe_job *j = c->jobs.by_id[1];

	cr_expect(j->authenticated);
	for (unsigned int i = 0; i < WEIR_KEY_BYTES; i++)
		cr_expect_eq(j->key[i], i);
	cr_expect_eq(ctrl_job_frame_bytes(j), 14u + 20 + 8 + 16 + 1024 + 16);
	ctrl_config_destroy(c);
	c = must_take(text_with(16, "\"key_file\": \"\""));
	cr_expect_not(c->jobs.by_id[1]->authenticated);
	ctrl_config_destroy(c);
	refuse_key(KEY, 0644,
		" may be read or changed by everybody: chmod o= "
		"it, and make another key");
	refuse_key(KEY "0", 0600, wrong);
	refuse_key("0" KEY, 0600, wrong);
	refuse_key("", 0600, wrong);
	refuse_key("0x" KEY, 0600, wrong);
	refuse_key(KEY " " KEY KEY KEY, 0600, wrong);
	refuse(16, "\"key_file\": \"/nowhere/weir.key\", \"generation\": 5",
		"x.json:16:13: jobs[0].key_file: a job with a fixed generation has no joins, and "
		"so "
		"no fresh keys: it can't be authenticated");
	refuse(16, "\"key_file\": \"/nowhere/weir.key\"",
		"x.json:16:13: jobs[0].key_file: /nowhere/weir.key: No such file or directory");
}

Test(ctrl_config, block_bits, .timeout = 10)
{
	struct ctrl_config *c = must_take(text_with(0, NULL));

	cr_assert_eq(c->jobs.by_id[1]->block_shift, 0);
	ctrl_config_destroy(c);
	c = must_take(text_with(16, "\"generation\": 9, \"block_bits\": 8, \"window\": 64"));
	cr_assert_eq(c->jobs.by_id[1]->block_shift, 24);
	ctrl_config_destroy(c);
	refuse(16, "\"generation\": 9, \"block_bits\": 8, \"window\": 128",
		"x.json:16:32: jobs[0].block_bits: 8 bits tell 256 blocks apart, and 4 windows of "
		"128 are more");
	refuse(16, "\"block_bits\": 31",
		"x.json:16:15: jobs[0].block_bits: 31 bits go with a fixed generation only: "
		"sources that join count with 32");
	refuse(16, "\"block_bits\": 7", "x.json:16:15: jobs[0].block_bits: 7 is not in 8..32");
	refuse(16, "\"block_bits\": 33", "x.json:16:15: jobs[0].block_bits: 33 is not in 8..32");
}

Test(ctrl_config, eal_arguments, .timeout = 10)
{
	static const char *const want[] = {"weir-switch", "--lcores=0@3,1@4,2@5", "--main-lcore=0",
		"-m256", "--log-level=warning", "--log-level=pmd.net.tap:critical",
		"--no-telemetry", "--file-prefix=weir-weir", "--no-huge", "--no-pci",
		"--vdev=net_af_packet0,iface=a", "--allow=1:0.0,x=1",
		"--vdev=net_tap_weir,iface=weir0,mac=02:57:45:49:52:01"};
	struct ctrl_config *c = must_take(text_with_two(5,
		"\"workers\": { \"count\": 2, \"main_cpu\": 3, \"cpus\": [4, 5, 6] }, "
		"\"exception\": { \"interface\": \"weir0\" },",
		8, "{ \"name\": \"p1\", \"device\": \"1:0.0,x=1\" }"));

	cr_assert_eq(c->argc, (int)(sizeof(want) / sizeof(want[0])));
	for (int i = 0; i < c->argc; i++)
		cr_assert_str_eq(c->argv[i], want[i]);
	cr_assert_null(c->argv[c->argc]);
	cr_assert_eq(c->nb_ports, 3);
	cr_assert_eq(c->ppe.exception_port, 2);
	cr_assert_str_eq(c->port[1].device, "0000:01:00.0");
	cr_assert_str_eq(c->exception, "weir0");
	ctrl_config_destroy(c);
}

Test(ctrl_config, own_prefix_and_log_level_stand, .timeout = 10)
{
	struct ctrl_config *c = must_take(
		text_with(4, "\"eal\": [\"--file-prefix=mine\", \"--log-level=debug\"],"));

	cr_assert_str_eq(c->argv[5], "--file-prefix=mine");
	cr_assert_str_eq(c->argv[6], "--log-level=debug");
	ctrl_config_destroy(c);
}

Test(ctrl_config, levels_of_logs, .timeout = 10)
{
	struct ctrl_config *c = must_take(text_with(4, ""));

	cr_assert_not(c->log.given);
	for (int i = 0; i < CTRL_LOG_ROOM_COUNT; i++)
		cr_assert_eq(c->log.level[i], CTRL_LOG_NOTICE);
	ctrl_config_destroy(c);
	c = must_take(text_with(
		4, "\"log\": { \"level\": \"error\", \"rooms\": { \"api\": \"debug\" } },"));
	cr_assert(c->log.given);
	cr_assert_eq(c->log.level[CTRL_LOG_CTRL], CTRL_LOG_ERROR);
	cr_assert_eq(c->log.level[CTRL_LOG_API], CTRL_LOG_DEBUG);
	ctrl_config_destroy(c);
	refuse(4, "\"log\": { \"level\": \"loud\" },",
		"x.json:4:19: log.level: \"loud\" is not one of error, warning, notice, info, "
		"debug");
	refuse(4, "\"log\": { \"rooms\": { \"attic\": \"info\" } },",
		"x.json:4:21: log.rooms.attic: unknown key; known here: switch, ctrl, api, ppe, "
		"pktbuf, rmw, hashengine");
}

Test(ctrl_config, buffers_follow_the_frames, .timeout = 10)
{
	struct ctrl_config *c = must_take(text_with(8, PORT("framesz=9216,blocksz=36864")));

	cr_assert_eq(c->ppe.packet_bytes, 9216, "%u", c->ppe.packet_bytes);
	cr_assert_eq(c->port_more[1].frame_max, 9216 - 66);
	cr_assert_eq(c->port_more[0].frame_max, 2048 - 66);
	ctrl_config_destroy(c);
	c = must_take(text_with(8, "{ \"name\": \"p1\", \"device\": \"1:0.0\", \"mtu\": 9000 }"));
	cr_assert_eq(c->ppe.packet_bytes, 9024, "%u", c->ppe.packet_bytes);
	ctrl_config_destroy(c);
}

Test(ctrl_config, generations_and_seeds_are_drawn, .timeout = 10)
{
	struct ctrl_config *a = must_take(text_with(0, NULL)), *b = must_take(text_with(0, NULL));

	cr_assert_neq(a->ppe.hash_seed, b->ppe.hash_seed);
	ctrl_config_destroy(a);
	ctrl_config_destroy(b);
	ctrl_config_destroy(NULL);
}

Test(ctrl_config, syntax_is_refused, .timeout = 10)
{
	refuse_text("", 0, "x.json:1:1: '[' or '{' expected near end of file");
	refuse_text("[]", 2, "x.json:1:1: an array where an object belongs");
	refuse(3, "  \"memory_mb\": 64 128,", "x.json:3:21: '}' expected near '128'");
	refuse(3, "  \"memory_mb\": 64, \"memory_mb\": 64,",
		"x.json:3:30: duplicate object key near '\"memory_mb\"'");
	refuse_text("{} {}", 5, "x.json:1:4: end of file expected near '{'");
	refuse_text("{\"a\\u0000b\": 1}", 15,
		"x.json:1:11: NUL byte in object key not supported "
		"near '\"a\\u0000b\"'");
}

Test(ctrl_config, unknown_keys_are_refused, .timeout = 10)
{
	refuse(16, "      \"windw\": 64",
		"x.json:16:7: jobs[0].windw: unknown key; did you mean \"window\"?");
	refuse(5, "  \"wrokers\": {},",
		"x.json:5:3: wrokers: unknown key; did you mean "
		"\"workers\"?");
	refuse(2, SWITCH("\"\\u0061ge\\n\": 1"),
		"x.json:2:44: switch.age?: unknown key; known here: name, address, mac, port_base, "
		"port_extended");
	/* Columns are characters; a key with a path's characters is no path. */
	refuse(2, SWITCH("\"n\xc3\xa4me\": \"x\""),
		"x.json:2:44: switch.n\xc3\xa4me: unknown key; did you mean \"name\"?");
	refuse(3, "  \"switch.name\": \"x\",",
		"x.json:3:3: switch.name: unknown key; known here: comment, memory_mb, capture, "
		"telemetry, switch, log, eal, workers, pools, queues, tables, exception, api, "
		"state, ports, jobs, faults");
	refuse(3, "  \"\": 1,",
		"x.json:3:3: unknown key; known here: comment, memory_mb, capture, telemetry, "
		"switch, log, eal, workers, pools, queues, tables, exception, api, state, "
		"ports, jobs, faults");
}

/* Strings on the way to a place may hold what looks like structure. */
Test(ctrl_config, places_behind_odd_strings, .timeout = 10)
{
	const char *text = text_with_two(
		3, "  \"comment\": \"a \\\" } ] , \\\\\",", 16, "      \"window\": 63");

	refuse_text(text, strlen(text), "x.json:16:17: jobs[0].window: 63 is not a power of two");
}

Test(ctrl_config, missing_keys_are_refused, .timeout = 10)
{
	refuse_text("{}", 2, "x.json:1:1: the key \"switch\" is missing");
	refuse(2, "  \"switch\": { \"name\": \"a\" },",
		"x.json:2:13: switch: the key \"address\" is missing");
	refuse(11, "    { \"name\": \"train\",", "x.json:11:5: jobs[0]: the key \"id\" is missing");
	refuse(14, "        {\"id\": 7}",
		"x.json:14:9: jobs[0].sources[1]: the key \"address\" is missing");
}

Test(ctrl_config, types_are_refused, .timeout = 10)
{
	refuse(16, "      \"window\": \"64\"",
		"x.json:16:17: jobs[0].window: a string where an integer belongs");
	refuse(16, "      \"window\": 64.0",
		"x.json:16:17: jobs[0].window: a number with a fraction or exponent where an "
		"integer "
		"belongs");
	refuse(5, "  \"workers\": 2,", "x.json:5:14: workers: an integer where an object belongs");
	refuse(4, "  \"eal\": \"--no-pci\",", "x.json:4:10: eal: a string where an array belongs");
	refuse(4, "  \"eal\": [\"-n4\", null],",
		"x.json:4:18: eal[1]: null where a string belongs");
	refuse(7, "    { \"name\": \"p0\", \"device\": \"net_null0\", \"promiscuous\": 1 },",
		"x.json:7:59: ports[0].promiscuous: an integer where true or false belongs");
}

Test(ctrl_config, ranges_are_refused, .timeout = 10)
{
	refuse(16, "      \"timeout_ms\": 0",
		"x.json:16:21: jobs[0].timeout_ms: 0 is not in 1..60000");
	refuse(16, "      \"timeout_ms\": 60001",
		"x.json:16:21: jobs[0].timeout_ms: 60001 is not in 1..60000");
	refuse(16, "      \"window\": 63",
		"x.json:16:17: jobs[0].window: 63 is not a power of two");
	refuse(16, "      \"window\": 8192",
		"x.json:16:17: jobs[0].window: 8192 is not in 1..4096");
	refuse(16, "      \"elements\": 4096",
		"x.json:16:19: jobs[0].elements: 4096 is not in 1..4095");
	refuse(16, "      \"policy\": \"hope\"",
		"x.json:16:17: jobs[0].policy: \"hope\" is not one of wait, partial, error");
	refuse(16, "      \"policy\": \"\"",
		"x.json:16:17: jobs[0].policy: \"\" is not one of wait, partial, error");
	refuse(3, "  \"memory_mb\": 99999999999,",
		"x.json:3:16: memory_mb: 99999999999 is not in 64..1048576");
	refuse(5, "  \"workers\": { \"cpus\": [] },",
		"x.json:5:24: workers.cpus: 0 entries are not in 1..64");
	refuse(2, SWITCH("\"name\": \"\""),
		"x.json:2:52: switch.name: 0 characters are not in "
		"1..31");
	refuse(2, SWITCH("\"name\": \"a b\""),
		"x.json:2:52: switch.name: \"a b\" has other characters than letters, digits and . "
		"_ "
		"-");
	refuse(2, SWITCH("\"name\": \"..\""), "x.json:2:52: switch.name: \"..\" begins with a .");
}

Test(ctrl_config, addresses_are_refused, .timeout = 10)
{
	refuse(2, "  \"switch\": { \"address\": \"10.77.0\" },",
		"x.json:2:26: switch.address: \"10.77.0\" is not an IPv4 address and a prefix in "
		"1..30, such as 10.77.0.254/24");
	refuse(2, "  \"switch\": { \"address\": \"10.77.0.254/31\" },",
		"x.json:2:26: switch.address: \"10.77.0.254/31\" is not an IPv4 address and a "
		"prefix "
		"in 1..30, such as 10.77.0.254/24");
	refuse(2, "  \"switch\": { \"address\": \"10.77.0.255/24\" },",
		"x.json:2:26: switch.address: 10.77.0.255/24 is not a host's address");
	refuse(2, SWITCH("\"mac\": \"2:57:45:49:52:1\""),
		"x.json:2:51: switch.mac: \"2:57:45:49:52:1\" is not a MAC address such as "
		"02:57:45:49:52:01");
	refuse(2, SWITCH("\"mac\": \"03:57:45:49:52:01\""),
		"x.json:2:51: switch.mac: 03:57:45:49:52:01 is not a station's address");
	refuse(2, SWITCH("\"port_base\": 7, \"port_extended\": 7"),
		"x.json:2:77: switch.port_extended: 7 is the base form's port too");
	refuse(14, "        { \"id\": 7, \"address\": \"10.77.1.2\" }",
		"x.json:14:31: jobs[0].sources[1].address: 10.77.1.2 is outside the switch's "
		"subnet "
		"10.77.0.0/24");
	refuse(14, "        { \"id\": 7, \"address\": \"10.77.0.254\" }",
		"x.json:14:31: jobs[0].sources[1].address: 10.77.0.254 is the switch's own "
		"address");
	refuse(14, "        { \"id\": 7, \"address\": \"10.77.0.0\" }",
		"x.json:14:31: jobs[0].sources[1].address: 10.77.0.0 is not a host's address in "
		"10.77.0.0/24");
	refuse(14, "        { \"id\": 7, \"address\": \"host\" }",
		"x.json:14:31: jobs[0].sources[1].address: \"host\" is not an IPv4 address such as "
		"10.77.0.1");
	refuse(14, "        { \"id\": 7, \"address\": \"224.0.0.1\" }",
		"x.json:14:31: jobs[0].sources[1].address: 224.0.0.1 is not a host's address");
	refuse(16, "      \"results\": \"10.77.0.9\"",
		"x.json:16:18: jobs[0].results: 10.77.0.9 is not a multicast group: they are in "
		"224.0.0.0/4");
	refuse(16, "      \"results\": \"224.0.0.251\"",
		"x.json:16:18: jobs[0].results: 224.0.0.251 is in 224.0.0.0/24, which is the "
		"network's own: choose a group of 239.0.0.0/8");
	refuse(16, "      \"results\": \"multicast\"",
		"x.json:16:18: jobs[0].results: \"multicast\" is neither \"unicast\" nor an IPv4 "
		"multicast group");
}

Test(ctrl_config, doubles_are_refused, .timeout = 10)
{
	refuse(14, "        { \"address\": \"10.77.0.2\", \"id\": 0 }",
		"x.json:14:41: jobs[0].sources[1].id: 0 is the id of jobs[0].sources[0] already");
	refuse(10,
		"  \"jobs\": [{ \"id\": 1, \"name\": \"a\", \"sources\": "
		"[{ \"id\": 0, \"address\": \"10.77.0.1\" }] },",
		"x.json:11:13: jobs[1].id: 1 is the id of jobs[0] already");
	refuse(10,
		"  \"jobs\": [{ \"id\": 2, \"name\": \"train\", \"sources\": "
		"[{ \"id\": 0, \"address\": \"10.77.0.1\" }] },",
		"x.json:11:24: jobs[1].name: \"train\" is the name of jobs[0] already");
	refuse(8, "    { \"name\": \"p0\", \"device\": \"net_af_packet1,iface=b\" }",
		"x.json:8:15: ports[1].name: \"p0\" is the name of ports[0] already");
	refuse(8, "    { \"name\": \"p1\", \"device\": \"net_af_packet0,iface=b\" }",
		"x.json:8:31: ports[1].device: net_af_packet0 is the device of ports[0] already");
	refuse(8, "    { \"name\": \"p1\", \"device\": \"net_af_packet1,iface=a\" }",
		"x.json:8:31: ports[1].device: interface a is in ports[0] already");
	refuse(3, "  \"exception\": { \"interface\": \"b\" },",
		"x.json:3:31: exception.interface: \"b\" is the interface of ports[1]");
}

Test(ctrl_config, devices_are_refused, .timeout = 10)
{
	refuse(8, "    { \"name\": \"p1\", \"device\": \"eth0\" }",
		"x.json:8:31: ports[1].device: \"eth0\" is neither a PCI address nor a virtual "
		"device (net_...)");
	refuse(8, "    { \"name\": \"p1\", \"device\": \"net_null0, copy=1\" }",
		"x.json:8:31: ports[1].device: device has blanks or characters outside ASCII");
	refuse(8, "    { \"name\": \"p1\", \"device\": \"net_af_packet1\" }",
		"x.json:8:31: ports[1].device: net_af_packet1 needs iface=INTERFACE");
	refuse(8, PORT("framesz=9000"),
		"x.json:8:31: ports[1].device: framesz=9000 is not a multiple of 16 in 256..65536");
	refuse(8, PORT("framesz=9216,blocksz=40960"),
		"x.json:8:31: ports[1].device: blocksz=40960 is not a multiple of framesz=9216 and "
		"of 4096");
	refuse(8, PORT("framecnt=7"),
		"x.json:8:31: ports[1].device: framecnt=7 does not fill blocks of 2 frames "
		"(blocksz=4096, framesz=2048)");
	refuse(8, PORT("framecnt=many"),
		"x.json:8:31: ports[1].device: framecnt=many is not a number in 1..1073741824");
	refuse(8, "    { \"name\": \"p1\", \"device\": \"1:0.0\", \"mtu\": 67 }",
		"x.json:8:47: ports[1].mtu: 67 is less than 68, IPv4's least");
}

Test(ctrl_config, combinations_are_refused, .timeout = 10)
{
	refuse(8, "    { \"name\": \"p1\", \"device\": \"1:0.0\", \"rx_queues\": 3 }",
		"x.json:8:53: ports[1].rx_queues: 3 queues are more than the 2 workers");
	refuse(8,
		"    { \"name\": \"p1\", \"device\": \"net_af_packet1,iface=b\", \"tx_queues\": 2 "
		"}",
		"x.json:8:70: ports[1].tx_queues: 2 queues are more than the device's qpairs=1");
	refuse(16, "      \"elements\": 512",
		"x.json:16:19: jobs[0].elements: 512 elements make frames of 2106 bytes, and port "
		"p0 "
		"carries 1982");
	/* The default is what is too much: the port's MTU is smaller than usual. */
	refuse(8, "    { \"name\": \"p1\", \"device\": \"1:0.0\", \"mtu\": 576 }",
		"x.json:11:5: jobs[0].elements: 256 elements make frames of 1082 bytes, and port "
		"p1 "
		"carries 590");
	refuse(3, "  \"pools\": { \"frame_bytes\": 1024 },",
		"x.json:3:29: pools.frame_bytes: 1024 bytes are too few: the ports and jobs need "
		"2048");
	refuse(8, "    { \"name\": \"p1\", \"device\": \"1:0.0\", \"rx_descriptors\": 4096 }",
		"x.json:1:1: pools.packets: 4096 packets are too few: the ports' receive rings "
		"hold "
		"4096, and the workers need 128");
}

Test(ctrl_config, eal_arguments_of_weir_are_refused, .timeout = 10)
{
	static const char *const bad[][2] = {
		{"-l", "lcores follow from \"workers\""},
		{"-l0-3", "lcores follow from \"workers\""},
		{"--lcore=0", "lcores follow from \"workers\""},
		{"-c1", "lcores follow from \"workers\""},
		{"-m64", "memory is \"memory_mb\""},
		{"--vdev=net_null0", "devices are in \"ports\""},
		{"-a01:00.0", "devices are in \"ports\""},
		{"--", "it would hide Weir's own arguments"},
		{"--help", "it would end the switch"},
		{"--telemetry", "it is \"telemetry\""},
	};
	char line[128], reason[256];

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(line, sizeof(line), "  \"eal\": [\"--no-huge\", \"%s\"],", bad[i][0]);
		snprintf(reason, sizeof(reason), "x.json:4:24: eal[1]: %s is not for this list: %s",
			bad[i][0], bad[i][1]);
		refuse(4, line, reason);
	}
	refuse(4, "  \"eal\": [\"--no-huge\", \"--in-memory\"],",
		"x.json:4:24: eal[1]: EAL does not take --in-memory with --no-huge: use "
		"--no-shconf");
	ctrl_config_destroy(
		must_take(text_with(4, "\"eal\": [\"--huge-dir=/x\", \"-n\", \"4\"],")));
}

Test(ctrl_config, capture_needs_shared_memory, .timeout = 10)
{
	static const char *const bad[] = {"--no-huge", "--no-shconf", "--no-sh", "--in-memory"};
	char line[128], reason[256];
	struct ctrl_config *config;

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(line, sizeof(line),
			"  \"capture\": true, \"eal\": [\"--no-pci\", \"%s\"],", bad[i]);
		snprintf(reason, sizeof(reason),
			"x.json:4:40: eal[1]: with %s nobody can attach to the switch: leave it "
			"out, or \"capture\"",
			bad[i]);
		refuse(4, line, reason);
	}
	config = must_take(text_with(4, "\"capture\": true, \"eal\": [\"--no-pci\"],"));
	cr_assert(config->capture);
	ctrl_config_destroy(config);
	config = must_take(text_with(4, "\"eal\": [\"--no-huge\"],"));
	cr_assert_not(config->capture);
	ctrl_config_destroy(config);
}

static bool
has_argument(const struct ctrl_config *config, const char *argument)
{
	for (int i = 0; i < config->argc; i++)
		if (strcmp(config->argv[i], argument) == 0)
			return true;
	return false;
}

Test(ctrl_config, telemetry_is_asked_for, .timeout = 10)
{
	struct ctrl_config *config = must_take(text_with(4, "\"eal\": [\"--no-huge\"],"));

	cr_assert_not(config->telemetry);
	cr_assert(has_argument(config, "--no-telemetry"));
	ctrl_config_destroy(config);
	config = must_take(text_with(4, "\"telemetry\": true, \"eal\": [\"--no-huge\"],"));
	cr_assert(config->telemetry);
	cr_assert_not(has_argument(config, "--no-telemetry"));
	ctrl_config_destroy(config);
	refuse(4, "  \"telemetry\": true, \"eal\": [\"--no-telemetry\"],",
		"x.json:4:30: eal[0]: with --no-telemetry nobody can ask: leave it out, or "
		"\"telemetry\"");
}

Test(ctrl_config, memory_is_summed, .timeout = 10)
{
	const char *text = text_with(3, "\"memory_mb\": 64, \"pools\": { \"packets\": 65536 },");
	char error[CTRL_ERROR_BYTES];
	struct ctrl_config *config;

	cr_assert_eq(ctrl_config_parse(text, strlen(text), "x.json", &config, error, sizeof(error)),
		-EINVAL);
	cr_assert_eq(
		strncmp(error, "x.json:3:14: memory_mb: 64 MiB are too few: packet pools ", 57), 0,
		"%s", error);
	/* A job's reservation counts: 2 x 4096 buffers of 1 KiB, eight times. */
	text = text_with(3, "\"memory_mb\": 64,");
	ctrl_config_destroy(must_take(text));
	text = text_with(16,
		"\"window\": 4096 } , { \"id\": 2, \"name\": \"b\", \"window\": 4096, "
		"\"elements\": 480, \"sources\": "
		"[{ \"id\": 0, \"address\": \"10.77.0.1\" }]");
	config = must_take(text);
	cr_assert_gt(config->memory.data_memory, 8192u * (1024u + 1920u));
	ctrl_config_destroy(config);
}

Test(ctrl_config, files_that_cannot_be_read, .timeout = 10)
{
	char error[CTRL_ERROR_BYTES];
	struct ctrl_config *config;

	cr_assert_eq(ctrl_config_load("/nowhere/x.json", &config, error, sizeof(error)), -ENOENT);
	cr_assert_str_eq(error, "/nowhere/x.json: No such file or directory");
	cr_assert_eq(ctrl_config_load("/", &config, error, sizeof(error)), -EISDIR);
	cr_assert_str_eq(error, "/: Is a directory");
	cr_assert_null(config);
}

Test(ctrl_config, reasons_fit_small_buffers, .timeout = 10)
{
	const char *text = text_with(16, "      \"window\": 63");
	struct ctrl_config *config;

	for (size_t size = 1; size < 60; size++) {
		char error[64];

		memset(error, 'x', sizeof(error));
		cr_assert_eq(ctrl_config_parse(text, strlen(text), "x.json", &config, error, size),
			-EINVAL);
		cr_assert_lt(strlen(error), size);
		cr_assert_eq(error[size], 'x');
	}
}

Test(ctrl_config, every_prefix_of_a_file_is_refused, .timeout = 30)
{
	static char text[8192];
	char error[CTRL_ERROR_BYTES];
	struct ctrl_config *config;

	strcpy(text, text_with(0, NULL));
	for (size_t n = 0; n + 2 < strlen(text); n++) {
		cr_assert_eq(ctrl_config_parse(text, n, "x.json", &config, error, sizeof(error)),
			-EINVAL, "%zu bytes", n);
		cr_assert_eq(strncmp(error, "x.json:", 7), 0, "%s", error);
	}
}

static unsigned int
seed(void)
{
	const char *given = getenv("WEIR_SEED");
	unsigned int value =
		given != NULL ? (unsigned int)strtoul(given, NULL, 0) : (unsigned int)time(NULL);

	fprintf(stderr, "WEIR_SEED=%u\n", value);
	return value;
}

/* Whatever the text: taken or refused with a place, and nothing worse. */
Test(ctrl_config, random_changes_are_taken_or_refused, .timeout = 60)
{
	static const char bytes[] = "{}[]\",:\\ \n\t0195-.eE+truefalsn\x80\xc3/u";
	unsigned int state = seed(), taken = 0;
	static char text[8192];
	char error[CTRL_ERROR_BYTES];

	for (unsigned int round = 0; round < 20000; round++) {
		struct ctrl_config *config;
		unsigned int line, column;
		size_t length;
		int rc;

		strcpy(text, text_with(0, NULL));
		length = strlen(text);
		for (int changes = rand_r(&state) % 3; changes >= 0; changes--) {
			size_t at = (size_t)rand_r(&state) % length;
			size_t run = (size_t)rand_r(&state) % 12;

			if (rand_r(&state) % 2 == 0 && at + run < length) {
				memmove(text + at, text + at + run, length - at - run + 1);
				length -= run;
			} else {
				text[at] = bytes[(size_t)rand_r(&state) % (sizeof(bytes) - 1)];
			}
		}
		rc = ctrl_config_parse(text, length, "x.json", &config, error, sizeof(error));
		taken += rc == 0;
		ctrl_config_destroy(config);
		if (rc == 0)
			continue;
		cr_assert_eq(rc, -EINVAL);
		cr_assert_eq(sscanf(error, "x.json:%u:%u: ", &line, &column), 2, "%s", error);
		cr_assert(line >= 1 && line <= GOOD_LINES + 12 && column >= 1, "%s", error);
		cr_assert_null(strchr(error, '\n'), "%s", error);
	}
	cr_assert_gt(taken, 0, "no change was harmless: is anything taken?");
}
