/* SPDX-License-Identifier: BSD-3-Clause */
/* Configurations that are refused: where, and in which words. */
#include <stdlib.h>

#include "tests/unit/config_file.h"

Test(ctrl_config_refused, syntax_is_refused, .timeout = 90)
{
	refuse_text("", 0, "1:1: '[' or '{' expected near end of file");
	refuse_text("[]", 2, "1:1: an array where an object belongs");
	refuse(3, "  \"memory_mb\": 64 128,", "3:21: '}' expected near '128'");
	refuse(3, "  \"memory_mb\": 64, \"memory_mb\": 64,",
		"3:30: duplicate object key near '\"memory_mb\"'");
	refuse_text("{} {}", 5, "1:4: end of file expected near '{'");
	refuse_text("{\"a\\u0000b\": 1}", 15,
		"1:11: NUL byte in object key not supported near '\"a\\u0000b\"'");
}

Test(ctrl_config_refused, unknown_keys_are_refused, .timeout = 90)
{
	refuse(16, "      \"windw\": 64",
		"16:7: jobs[0].windw: unknown key; did you mean \"window\"?");
	refuse(5, "  \"wrokers\": {},", "5:3: wrokers: unknown key; did you mean \"workers\"?");
	refuse(2, SWITCH("\"\\u0061ge\\n\": 1"),
		"2:44: switch.age?: unknown key; known here: name, address, mac, port_base, "
		"port_extended");
	/* Columns are characters; a key with a path's characters is no path. */
	refuse(2, SWITCH("\"n\xc3\xa4me\": \"x\""),
		"2:44: switch.n\xc3\xa4me: unknown key; did you mean \"name\"?");
	refuse(3, "  \"switch.name\": \"x\",",
		"3:3: switch.name: unknown key; known here: comment, memory_mb, capture, "
		"telemetry, switch, log, eal, workers, pools, queues, tables, policers, exception, "
		"api, state, ports, jobs, faults");
	refuse(3, "  \"\": 1,",
		"3:3: unknown key; known here: comment, memory_mb, capture, telemetry, switch, "
		"log, eal, workers, pools, queues, tables, policers, exception, api, state, ports, "
		"jobs, faults");
}

/* Strings on the way to a place may hold what looks like structure. */
Test(ctrl_config_refused, places_behind_odd_strings, .timeout = 90)
{
	const char *text = text_with_two(
		3, "  \"comment\": \"a \\\" } ] , \\\\\",", 16, "      \"window\": 63");

	refuse_text(text, strlen(text), "16:17: jobs[0].window: 63 is not a power of two");
}

Test(ctrl_config_refused, missing_keys_are_refused, .timeout = 90)
{
	refuse_text("{}", 2, "1:1: switch: this key is required");
	refuse(2, "  \"switch\": { \"name\": \"a\" },",
		"2:13: switch.address: this key is required");
	refuse(11, "    { \"name\": \"train\",", "11:5: jobs[0].id: this key is required");
	refuse(14, "        {\"id\": 7}", "14:9: jobs[0].sources[1].address: this key is required");
}

Test(ctrl_config_refused, types_are_refused, .timeout = 90)
{
	refuse(16, "      \"window\": \"64\"",
		"16:17: jobs[0].window: a string where an integer belongs");
	refuse(16, "      \"window\": 64.0",
		"16:17: jobs[0].window: a number with a fraction or exponent where an integer "
		"belongs");
	refuse(5, "  \"workers\": 2,", "5:14: workers: an integer where an object belongs");
	refuse(4, "  \"eal\": \"--no-pci\",", "4:10: eal: a string where an array belongs");
	refuse(4, "  \"eal\": [\"-n4\", null],", "4:18: eal[1]: null where a string belongs");
	refuse(7, "    { \"name\": \"p0\", \"device\": \"net_null0\", \"promiscuous\": 1 },",
		"7:59: ports[0].promiscuous: an integer where true or false belongs");
}

Test(ctrl_config_refused, ranges_are_refused, .timeout = 90)
{
	refuse(16, "      \"timeout_ms\": 0", "16:21: jobs[0].timeout_ms: 0 is not in 1..60000");
	refuse(16, "      \"timeout_ms\": 60001",
		"16:21: jobs[0].timeout_ms: 60001 is not in 1..60000");
	refuse(16, "      \"window\": 63", "16:17: jobs[0].window: 63 is not a power of two");
	refuse(16, "      \"window\": 8192", "16:17: jobs[0].window: 8192 is not in 1..4096");
	refuse(16, "      \"elements\": 4096", "16:19: jobs[0].elements: 4096 is not in 0..4095");
	refuse(16, "      \"elements\": 0",
		"16:19: jobs[0].elements: 0 is for jobs of the control API: what fits the ports is "
		"known when the switch runs");
	refuse(16, "      \"alltoall\": \"fit\"",
		"16:19: jobs[0].alltoall: \"fit\" is for jobs of the control API: what memory is "
		"left is known when the switch runs");
	refuse(16, "      \"policy\": \"hope\"",
		"16:17: jobs[0].policy: \"hope\" is not one of wait, partial, error");
	refuse(16, "      \"policy\": \"\"",
		"16:17: jobs[0].policy: \"\" is not one of wait, partial, error");
	refuse(3, "  \"memory_mb\": 99999999999,",
		"3:16: memory_mb: 99999999999 is not in 64..1048576");
	refuse(5, "  \"workers\": { \"cpus\": [] },",
		"5:24: workers.cpus: 0 entries are not in 1..64");
	refuse(2, SWITCH("\"name\": \"\""), "2:52: switch.name: 0 characters are not in 1..31");
	refuse(2, SWITCH("\"name\": \"a b\""),
		"2:52: switch.name: \"a b\" has other characters than letters, digits and . _ -");
	refuse(2, SWITCH("\"name\": \"..\""), "2:52: switch.name: \"..\" begins with a .");
}

Test(ctrl_config_refused, addresses_are_refused, .timeout = 90)
{
	refuse(2, "  \"switch\": { \"address\": \"10.77.0\" },",
		"2:26: switch.address: \"10.77.0\" is not an IPv4 address and a prefix in 1..30, "
		"such as 10.77.0.254/24");
	refuse(2, "  \"switch\": { \"address\": \"10.77.0.254/31\" },",
		"2:26: switch.address: \"10.77.0.254/31\" is not an IPv4 address and a prefix in "
		"1..30, such as 10.77.0.254/24");
	refuse(2, "  \"switch\": { \"address\": \"10.77.0.255/24\" },",
		"2:26: switch.address: 10.77.0.255/24 is not a host's address");
	refuse(2, SWITCH("\"mac\": \"2:57:45:49:52:1\""),
		"2:51: switch.mac: \"2:57:45:49:52:1\" is not a MAC address such as "
		"02:57:45:49:52:01");
	refuse(2, SWITCH("\"mac\": \"03:57:45:49:52:01\""),
		"2:51: switch.mac: 03:57:45:49:52:01 is not a station's address");
	refuse(2, SWITCH("\"port_base\": 7, \"port_extended\": 7"),
		"2:77: switch.port_extended: 7 is the base form's port too");
	refuse(2, SWITCH("\"port_base\": 12033"),
		"2:57: switch.port_base: 12033 is where the switch takes packets from its parents "
		"(docs/tree.md): use another port");
	refuse(2, SWITCH("\"port_extended\": 12033"),
		"2:61: switch.port_extended: 12033 is where the switch takes packets from its "
		"parents (docs/tree.md): use another port");
	refuse(14, "        { \"id\": 7, \"address\": \"10.77.1.2\" }",
		"14:31: jobs[0].sources[1].address: 10.77.1.2 is outside the switch's subnet "
		"10.77.0.0/24");
	refuse(14, "        { \"id\": 7, \"address\": \"10.77.0.254\" }",
		"14:31: jobs[0].sources[1].address: 10.77.0.254 is the switch's own address");
	refuse(14, "        { \"id\": 7, \"address\": \"10.77.0.0\" }",
		"14:31: jobs[0].sources[1].address: 10.77.0.0 is not a host's address in "
		"10.77.0.0/24");
	refuse(14, "        { \"id\": 7, \"address\": \"host\" }",
		"14:31: jobs[0].sources[1].address: \"host\" is not an IPv4 address such as "
		"10.77.0.1");
	refuse(14, "        { \"id\": 7, \"address\": \"224.0.0.1\" }",
		"14:31: jobs[0].sources[1].address: 224.0.0.1 is not a host's address");
	refuse(16, "      \"results\": \"10.77.0.9\"",
		"16:18: jobs[0].results: 10.77.0.9 is not a multicast group: they are in "
		"224.0.0.0/4");
	refuse(16, "      \"results\": \"224.0.0.251\"",
		"16:18: jobs[0].results: 224.0.0.251 is in 224.0.0.0/24, which is the network's "
		"own: choose a group of 239.0.0.0/8");
	refuse(16, "      \"results\": \"multicast\"",
		"16:18: jobs[0].results: \"multicast\" is neither \"unicast\" nor an IPv4 "
		"multicast group");
}

Test(ctrl_config_refused, doubles_are_refused, .timeout = 90)
{
	refuse(14, "        { \"address\": \"10.77.0.2\", \"id\": 0 }",
		"14:41: jobs[0].sources[1].id: 0 is the id of jobs[0].sources[0] already");
	refuse(10,
		"  \"jobs\": [{ \"id\": 1, \"name\": \"a\", \"sources\": [{ \"id\": 0, "
		"\"address\": \"10.77.0.1\" }] },",
		"11:13: jobs[1].id: 1 is the id of jobs[0] already");
	refuse(10,
		"  \"jobs\": [{ \"id\": 2, \"name\": \"train\", \"sources\": [{ \"id\": 0, "
		"\"address\": \"10.77.0.1\" }] },",
		"11:24: jobs[1].name: \"train\" is the name of jobs[0] already");
	refuse(8, "    { \"name\": \"p0\", \"device\": \"net_af_packet1,iface=b\" }",
		"8:15: ports[1].name: \"p0\" is the name of ports[0] already");
	refuse(8, "    { \"name\": \"p1\", \"device\": \"net_af_packet0,iface=b\" }",
		"8:31: ports[1].device: net_af_packet0 is the device of ports[0] already");
	refuse(8, "    { \"name\": \"p1\", \"device\": \"net_af_packet1,iface=a\" }",
		"8:31: ports[1].device: interface a is in ports[0] already");
	refuse(3, "  \"exception\": { \"interface\": \"b\" },",
		"3:31: exception.interface: \"b\" is the interface of ports[1]");
}

Test(ctrl_config_refused, devices_are_refused, .timeout = 90)
{
	refuse(8, "    { \"name\": \"p1\", \"device\": \"eth0\" }",
		"8:31: ports[1].device: \"eth0\" is neither a PCI address nor a virtual device "
		"(net_...)");
	refuse(8, "    { \"name\": \"p1\", \"device\": \"net_null0, copy=1\" }",
		"8:31: ports[1].device: device has blanks or characters outside ASCII");
	refuse(8, "    { \"name\": \"p1\", \"device\": \"net_af_packet1\" }",
		"8:31: ports[1].device: net_af_packet1 needs iface=INTERFACE");
	refuse(8,
		"    { \"name\": \"p1\", \"device\": "
		"\"net_af_xdp1,iface=interface-of-many-letters\" }",
		"8:31: ports[1].device: interface interface-of-many-letters has more than 15 "
		"characters");
	refuse(8, "    { \"name\": \"p1\", \"device\": \"net_virtio_user1,path=/x,queue_size=0\" }",
		"8:31: ports[1].device: queue_size=0 is not a number in 1..1073741824");
	refuse(8, PORT("framesz=9000"),
		"8:31: ports[1].device: framesz=9000 is not a multiple of 16 in 256..65536");
	refuse(8, PORT("framesz=9216,blocksz=40960"),
		"8:31: ports[1].device: blocksz=40960 is not a multiple of framesz=9216 and of "
		"4096");
	refuse(8, PORT("framecnt=7"),
		"8:31: ports[1].device: framecnt=7 does not fill blocks of 2 frames (blocksz=4096, "
		"framesz=2048)");
	refuse(8, PORT("framecnt=many"),
		"8:31: ports[1].device: framecnt=many is not a number in 1..1073741824");
	refuse(8, "    { \"name\": \"p1\", \"device\": \"1:0.0\", \"mtu\": 67 }",
		"8:47: ports[1].mtu: 67 is less than 68, IPv4's least");
}

static void
refuse_packets(const char *port, unsigned int packets, const char *reason)
{
	char pools[64];
	const char *text;

	snprintf(pools, sizeof(pools), "  \"pools\": { \"packets\": %u },", packets);
	text = text_with_two(3, pools, 8, port);
	refuse_text(text, strlen(text), reason);
}

Test(ctrl_config_refused, rings_of_devices_take_packets, .timeout = 90)
{
	static const struct {
		const char *port;
		unsigned int held; /* default descriptors: 512 each way */
	} rings[] = {
		{"\"net_af_xdp1,iface=b\"", 4096},
		{"\"net_virtio_user1,path=/x,queue_size=128\"", 2 * 128},
		{"\"net_virtio_user1,path=/x,queue_size=4096\", \"rx_descriptors\": 8192",
			4096 + 512},
		{"\"1:0.0\"", 2 * 512},
		{"\"net_vhost1,iface=/x\"", 0},
		{"\"net_memif1\"", 0},
	};

	for (size_t i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
		char line[128], reason[256];

		snprintf(line, sizeof(line), "    { \"name\": \"p1\", \"device\": %s }",
			rings[i].port);
		snprintf(reason, sizeof(reason),
			"3:25: pools.packets: %u packets are too few: the ports' rings hold %u, "
			"and the workers need 128",
			rings[i].held + 127, rings[i].held);
		refuse_packets(line, rings[i].held + 127, reason);
	}
}

Test(ctrl_config_refused, sockets_of_devices_are_refused, .timeout = 90)
{
	char path[128], line[256], reason[256];

	memset(path, 'x', 108);
	path[108] = '\0';
	snprintf(line, sizeof(line),
		"    { \"name\": \"p1\", \"device\": \"net_vhost1,iface=%s\" }", path);
	snprintf(reason, sizeof(reason),
		"8:31: ports[1].device: the path of socket %s has more than 107 characters", path);
	refuse(8, line, reason);
	refuse(8,
		"{ \"name\": \"p1\", \"device\": \"net_vhost1,iface=/run/a\" },{ \"name\": \"p2\", "
		"\"device\": \"net_virtio_user2,path=/run/a,server=1\" }",
		"8:81: ports[2].device: socket /run/a is in ports[1] already");
}

Test(ctrl_config_refused, hosts_of_ports_are_refused, .timeout = 90)
{
	static const char *const wrong[] = {"10.77.0", "10.77.0.1/", "10.77.0.0/33", "10.77.0.1/24",
		"10.77.0.1 /32", "224.0.0.0/4", "0.0.0.0/1", "10.77.0.0/+8"};
	char line[128], reason[256];

	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(line, sizeof(line),
			"{\"name\":\"p1\",\"device\":\"1:0.0\",\"hosts\":[\"10.77.0.1\",\"%s\"]}",
			wrong[i]);
		snprintf(reason, sizeof(reason),
			"8:52: ports[1].hosts[1]: \"%s\" is neither an IPv4 address of a host nor "
			"a prefix such as 10.77.1.0/24",
			wrong[i]);
		refuse(8, line, reason);
	}
	refuse(8, "{\"name\":\"p1\",\"device\":\"1:0.0\",\"hosts\":[\"1.1.1.\"]}",
		"8:40: ports[1].hosts[0]: 6 characters are not in 7..18");
}

Test(ctrl_config_refused, combinations_are_refused, .timeout = 90)
{
	const char *text;

	refuse(8, "    { \"name\": \"p1\", \"device\": \"1:0.0\", \"rx_queues\": 3 }",
		"8:53: ports[1].rx_queues: 3 queues are more than the 2 workers");
	refuse(8,
		"    { \"name\": \"p1\", \"device\": \"net_af_packet1,iface=b\", \"tx_queues\": 2 "
		"}",
		"8:70: ports[1].tx_queues: 2 queues are more than the device's qpairs=1");
	refuse(16, "      \"elements\": 512",
		"16:19: jobs[0].elements: 512 elements make frames of 2106 bytes, and port p0 "
		"carries 1982");
	/* The default is what is too much: the port's MTU is smaller than usual. */
	refuse(8, "    { \"name\": \"p1\", \"device\": \"1:0.0\", \"mtu\": 576 }",
		"11:5: jobs[0].elements: 256 elements make frames of 1082 bytes, and port p1 "
		"carries 590");
	refuse(3, "  \"pools\": { \"frame_bytes\": 1024 },",
		"3:29: pools.frame_bytes: 1024 bytes are too few: the ports and jobs need 2048");
	refuse(3, "  \"pools\": { \"packets\": 100 },",
		"3:25: pools.packets: 100 packets are too few: the ports' rings hold 0, and the "
		"workers need 128");
	text = text_with_two(3, "  \"pools\": { \"packets\": 4096 },", 8,
		"    { \"name\": \"p1\", \"device\": \"1:0.0\", \"rx_descriptors\": 3584 }");
	refuse_text(text, strlen(text),
		"3:25: pools.packets: 4096 packets are too few: the ports' rings hold 4096, and "
		"the workers need 128");
}

Test(ctrl_config_refused, reasons_fit_small_buffers, .timeout = 90)
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

Test(ctrl_config_refused, every_prefix_of_a_file_is_refused, .timeout = 90)
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
