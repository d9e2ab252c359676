/* SPDX-License-Identifier: BSD-3-Clause */
/* Configurations: what is taken, the defaults, and what follows from it. */
#include "tests/unit/config_file.h"

Test(ctrl_config, defaults, .timeout = 90)
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
	cr_assert_eq(c->ppe.policers.broadcast, 20000);
	cr_assert_eq(c->ppe.policers.refusals, 1000);
	cr_assert_eq(c->ppe.nb_hosts, 0);
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
}

Test(ctrl_config, eal_arguments, .timeout = 90)
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
}

Test(ctrl_config, hosts_of_ports, .timeout = 90)
{
	const struct ppe_host want[] = {{0x0a4d0001, 0xffffffff, 1}, {0x0a4d0100, 0xffffff00, 3},
		{0x0a4d0100, 0xfffffff0, 2}};
	struct ctrl_config *c = must_take(text_with_two(7,
		"{ \"name\": \"p0\", \"device\": \"net_af_packet0,iface=a\", \"hosts\": "
		"[\"10.77.0.1\", \"10.77.1.0/24\"] },",
		8,
		"{ \"name\": \"p1\", \"device\": \"net_af_packet1,iface=b\", \"hosts\": "
		"[\"10.77.1.0/24\", \"10.77.1.0/28\"] }"));

	cr_assert_eq(c->ppe.nb_hosts, 3);
	cr_assert_eq(memcmp(c->ppe.host, want, sizeof(want)), 0);
}

Test(ctrl_config, own_prefix_and_log_level_stand, .timeout = 90)
{
	struct ctrl_config *c = must_take(
		text_with(4, "\"eal\": [\"--file-prefix=mine\", \"--log-level=debug\"],"));

	cr_assert_str_eq(c->argv[5], "--file-prefix=mine");
	cr_assert_str_eq(c->argv[6], "--log-level=debug");
}

Test(ctrl_config, eal_arguments_of_weir_are_refused, .timeout = 90)
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
		snprintf(reason, sizeof(reason), "4:24: eal[1]: %s is not for this list: %s",
			bad[i][0], bad[i][1]);
		refuse(4, line, reason);
	}
	refuse(4, "  \"eal\": [\"--no-huge\", \"--in-memory\"],",
		"4:24: eal[1]: EAL does not take --in-memory with --no-huge: use --no-shconf");
	must_take(text_with(4, "\"eal\": [\"--huge-dir=/x\", \"-n\", \"4\"],"));
}

Test(ctrl_config, levels_of_logs, .timeout = 90)
{
	struct ctrl_config *c = must_take(text_with(4, ""));

	for (int i = 0; i < CTRL_LOG_MODULE_COUNT; i++)
		cr_assert_eq(c->log.level[i], RTE_LOG_NOTICE);
	c = must_take(text_with(
		4, "\"log\": { \"level\": \"error\", \"modules\": { \"api\": \"debug\" } },"));
	cr_assert_eq(c->log.level[CTRL_LOG_CTRL], RTE_LOG_ERR);
	cr_assert_eq(c->log.level[CTRL_LOG_API], RTE_LOG_DEBUG);
	refuse(4, "\"log\": { \"level\": \"loud\" },",
		"4:19: log.level: \"loud\" is not one of error, warning, notice, info, debug");
	refuse(4, "\"log\": { \"modules\": { \"attic\": \"info\" } },",
		"4:23: log.modules.attic: unknown key; known here: switch, ctrl, api, ppe, pktbuf, "
		"rmw, hashengine");
}

Test(ctrl_config, buffers_follow_the_frames, .timeout = 90)
{
	struct ctrl_config *c = must_take(text_with(8, PORT("framesz=9216,blocksz=36864")));

	cr_assert_eq(c->ppe.packet_bytes, 9216, "%u", c->ppe.packet_bytes);
	cr_assert_eq(c->port_more[1].frame_max, 9216 - 66);
	cr_assert_eq(c->port_more[0].frame_max, 2048 - 66);
	c = must_take(text_with(8, "{ \"name\": \"p1\", \"device\": \"1:0.0\", \"mtu\": 9000 }"));
	cr_assert_eq(c->ppe.packet_bytes, 9024, "%u", c->ppe.packet_bytes);
}

Test(ctrl_config, devices_have_interfaces_or_sockets, .timeout = 90)
{
	static const struct {
		const char *device, *interface, *socket;
	} known[] = {
		{"net_pcap1,iface=b", "b", ""},
		{"net_vhost1,iface=/tmp/a-path-of-more-than-15", "", "/tmp/a-path-of-more-than-15"},
		{"net_vhost1,iface=/x,client=1", "", ""},
		{"net_virtio_user1,path=/x,server=1", "", "/x"},
		{"net_virtio_user1,path=/x", "", ""},
		{"net_virtio_user1,path=/dev/vhost-net,iface=tap0", "", ""},
		{"net_memif1,role=server,socket=/x,socket-abstract=no", "", "/x"},
		{"net_memif1,role=server,socket=/x", "", ""},
		{"net_memif1,role=client,socket=/x,socket-abstract=no", "", ""},
		{"net_tap1,iface=made", "", ""},
		{"net_tap1,iface=made,remote=b", "b", ""},
		{"net_null1", "", ""},
	};
	char line[256];

	for (unsigned int i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		struct ctrl_config *c;

		snprintf(line, sizeof(line), "{ \"name\": \"p1\", \"device\": \"%s\" }",
			known[i].device);
		c = must_take(text_with(8, line));
		cr_assert_str_eq(c->port_more[1].interface, known[i].interface, "%s", line);
		cr_assert_str_eq(c->port_more[1].socket, known[i].socket, "%s", line);
	}
	/* Two devices of memif share a socket. */
	must_take(text_with(8,
		"{\"name\":\"p1\",\"device\":\"net_memif1,id=1,role=server,socket=/"
		"x,socket-abstract=no\"},{\"name\":\"p2\",\"device\":\"net_memif2,id=2,role=server,"
		"socket=/x,socket-abstract=no\"}"));
}

Test(ctrl_config, generations_and_seeds_are_drawn, .timeout = 90)
{
	struct ctrl_config *a = must_take(text_with(0, NULL)), *b = must_take(text_with(0, NULL));

	cr_assert_neq(a->ppe.hash_seed, b->ppe.hash_seed);
	ctrl_config_destroy(NULL);
}

Test(ctrl_config, capture_needs_shared_memory, .timeout = 90)
{
	static const char *const bad[] = {"--no-huge", "--no-shconf", "--no-sh", "--in-memory"};
	char line[128], reason[256];
	struct ctrl_config *config;

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(line, sizeof(line),
			"  \"capture\": true, \"eal\": [\"--no-pci\", \"%s\"],", bad[i]);
		snprintf(reason, sizeof(reason),
			"4:40: eal[1]: with %s no program can attach to the switch: leave it out, "
			"or \"capture\"",
			bad[i]);
		refuse(4, line, reason);
	}
	config = must_take(text_with(4, "\"capture\": true, \"eal\": [\"--no-pci\"],"));
	cr_assert(config->capture);
	config = must_take(text_with(4, "\"eal\": [\"--no-huge\"],"));
	cr_assert_not(config->capture);
}

static bool
has_argument(const struct ctrl_config *config, const char *argument)
{
	for (int i = 0; i < config->argc; i++)
		if (strcmp(config->argv[i], argument) == 0)
			return true;
	return false;
}

Test(ctrl_config, huge_pages_leave_no_files, .timeout = 90)
{
	static const char *const own[] = {"\"capture\": true,", "\"eal\": [\"--no-huge\"],",
		"\"eal\": [\"--huge-dir=/x\"],", "\"eal\": [\"--huge-unlink=never\"],"};
	struct ctrl_config *config = must_take(text_with(4, ""));

	cr_assert(has_argument(config, "--in-memory"));
	for (unsigned int i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		config = must_take(text_with(4, own[i]));
		cr_assert_not(has_argument(config, "--in-memory"), "%s", own[i]);
	}
}

Test(ctrl_config, packets_suffice_for_rings, .timeout = 90)
{
	struct ctrl_config *config = must_take(text_with_two(4, "", 8,
		"{ \"name\": \"p1\", \"device\": \"1:0.0\", \"rx_descriptors\": 4096, "
		"\"tx_descriptors\": 1024 }"));

	cr_assert_eq(config->ppe.packets, 4096 + 1024 + 2048);
}

Test(ctrl_config, telemetry_is_asked_for, .timeout = 90)
{
	struct ctrl_config *config = must_take(text_with(4, "\"eal\": [\"--no-huge\"],"));

	cr_assert_not(config->telemetry);
	cr_assert(has_argument(config, "--no-telemetry"));
	config = must_take(text_with(4, "\"telemetry\": true, \"eal\": [\"--no-huge\"],"));
	cr_assert(config->telemetry);
	cr_assert_not(has_argument(config, "--no-telemetry"));
	refuse(4, "  \"telemetry\": true, \"eal\": [\"--no-telemetry\"],",
		"4:30: eal[0]: with --no-telemetry no program can ask: leave it out, or "
		"\"telemetry\"");
}

Test(ctrl_config, memory_is_summed, .timeout = 90)
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
	must_take(text);
	text = text_with(16,
		"\"window\": 4096 } , { \"id\": 2, \"name\": \"b\", \"window\": 4096, "
		"\"elements\": 480, \"sources\": [{ \"id\": 0, \"address\": \"10.77.0.1\" }]");
	config = must_take(text);
	cr_assert_gt(config->memory.data_memory, 8192u * (1024u + 1920u));
}

Test(ctrl_config, files_that_cannot_be_read, .timeout = 90)
{
	char error[CTRL_ERROR_BYTES];
	struct ctrl_config *config;

	cr_assert_eq(ctrl_config_load("/nowhere/x.json", &config, error, sizeof(error)), -ENOENT);
	cr_assert_str_eq(error, "/nowhere/x.json: No such file or directory");
	cr_assert_eq(ctrl_config_load("/", &config, error, sizeof(error)), -EISDIR);
	cr_assert_str_eq(error, "/: Is a directory");
	cr_assert_null(config);
}
