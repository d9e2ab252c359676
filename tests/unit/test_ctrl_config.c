/* SPDX-License-Identifier: BSD-3-Clause */
/* Configurations: what is taken, the defaults, what follows from it, and what is refused. */
#include <arpa/inet.h>

#include "tests/model/doc_page.h"
#include "tests/unit/config_file.h"

TestSuite(ctrl_config, .timeout = 90);

/* -- tests/unit/config_refused.txt */

static struct {
	char name[16], text[512];
} words[16];
static unsigned int nb_words;

static void
expand(const char *from, char *to)
{
	while (*from != '\0') {
		size_t length = *from == '$' ? strspn(from + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") : 0;
		unsigned int i = 0;

		while (i < nb_words &&
			(strlen(words[i].name) != length ||
				memcmp(words[i].name, from + 1, length) != 0))
			i++;
		if (length == 0 || i == nb_words) {
			*to++ = *from++;
			continue;
		}
		to = stpcpy(to, words[i].text);
		from += 1 + length;
	}
	*to = '\0';
}

static void
check_row(char *row)
{
	char *reason = strstr(row, " => "), other[4096], error[CTRL_ERROR_BYTES];
	unsigned int from, to;
	struct ctrl_config *config;
	const char *text;
	size_t length;
	int at = 0;

	cr_assert_not_null(reason, "%s", row);
	*reason = '\0';
	reason += 4;
	if (sscanf(row, "%u-%u%n", &from, &to, &at) < 2) {
		cr_assert_eq(sscanf(row, "%u%n", &from, &at), 1, "%s", row);
		to = from;
	}
	expand(row + at + 1, other);
	text = text_with(from, to, other);
	length = strlen(reason);
	if (strcmp(reason + length - 3, "...") == 0)
		length -= 3;
	else
		length++; /* the end, too */
	cr_expect_eq(ctrl_config_parse(text, strlen(text), "x", &config, error, sizeof(error)),
		-EINVAL, "taken: %s", row);
	cr_expect_null(config);
	cr_expect_eq(strncmp(error + strlen("x:"), reason, length), 0, "%s: %s, not %s", row, error,
		reason);
	ctrl_config_destroy(config);
}

Test(ctrl_config, refused)
{
	char *rows = doc_read("tests/unit/config_refused.txt"), *rest = rows, name[16];
	unsigned int count = 0;

	for (char *row; (row = strsep(&rest, "\n")) != NULL;) {
		char *text = strstr(row, " = ");

		if (row[0] == '$') {
			snprintf(name, sizeof(name), "%.*s", (int)(text - row - 1), row + 1);
			expand(text + 3, words[nb_words].text);
			strcpy(words[nb_words++].name, name);
		} else if (row[0] >= '1' && row[0] <= '9') {
			check_row(row);
			count++;
		}
	}
	cr_assert_gt(count, 150);
	free(rows);
}

/* -- what is taken */

Test(ctrl_config, defaults)
{
	struct ctrl_config *c = take(0, 0, "");

	cr_assert_str_eq(c->name, "weir");
	cr_assert_eq(c->ppe.identity.ip, 0x0a4d00feu);
	cr_assert_eq(c->prefix, 24);
	cr_assert_arr_eq(c->ppe.identity.mac, "\x02\x57\x45\x49\x52\x01", 6);
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
	cr_assert_eq(c->api.nb_listeners, 0);
	cr_assert_eq(c->api.nb_tenants, 0);
}

Test(ctrl_config, eal_arguments)
{
	static const char *const want[] = {"weir-switch", "--lcores=0@3,1@4,2@5", "--main-lcore=0",
		"-m256", "--log-level=warning", "--log-level=pmd.net.tap:critical",
		"--no-telemetry", "--file-prefix=weir-weir", "--no-huge",
		"--vdev=net_af_packet0,iface=a", "--allow=1:0.0,x=1",
		"--vdev=net_tap_weir,iface=weir0,mac=02:57:45:49:52:01"};
	struct ctrl_config *c = take(4, 8,
		"'eal': ['--no-huge'], 'workers': {'count': 2, 'main_cpu': 3, 'cpus': [4, 5, 6]}, "
		"'exception': {'interface': 'weir0'}, 'ports': [{'name': 'p0', 'device': "
		"'net_af_packet0,iface=a'}, {'name': 'p1', 'device': '1:0.0,x=1'}");

	cr_assert_eq(c->argc, (int)(sizeof(want) / sizeof(want[0])));
	for (int i = 0; i < c->argc; i++)
		cr_assert_str_eq(c->argv[i], want[i]);
	cr_assert_null(c->argv[c->argc]);
	cr_assert_eq(c->nb_ports, 3);
	cr_assert_eq(c->ppe.exception_port, 2);
	cr_assert_str_eq(c->port[1].device, "0000:01:00.0");
	cr_assert_str_eq(c->exception, "weir0");
}

/* Which arguments EAL gets, and does not get, for lines in place of "eal". */
Test(ctrl_config, arguments_that_depend)
{
	static const struct {
		const char *line, *argument;
		bool has;
	} rows[] = {
		{"'eal': ['--file-prefix=mine', '--log-level=debug'],", "--file-prefix=mine", true},
		{"'eal': ['--file-prefix=mine'],", "--file-prefix=weir-weir", false},
		{"'eal': ['--log-level=debug'],", "--log-level=debug", true},
		{"'eal': ['--log-level=debug'],", "--log-level=warning", false},
		{"'eal': ['--huge-dir=/x', '-n', '4'],", "--huge-dir=/x", true},
		/* Huge pages leave no files. */
		{"", "--in-memory", true},
		{"'capture': true, 'eal': ['--no-pci'],", "--in-memory", false},
		{"'eal': ['--no-huge'],", "--in-memory", false},
		{"'eal': ['--huge-dir=/x'],", "--in-memory", false},
		{"'eal': ['--huge-unlink=never'],", "--in-memory", false},
		{"'eal': ['--no-huge'],", "--no-telemetry", true},
		{"'telemetry': true, 'eal': ['--no-huge'],", "--no-telemetry", false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct ctrl_config *c = take(4, 4, rows[i].line);
		bool has = false;

		for (int a = 0; a < c->argc; a++)
			has = has || strcmp(c->argv[a], rows[i].argument) == 0;
		cr_expect_eq(has, rows[i].has, "%s: %s", rows[i].line, rows[i].argument);
		cr_expect_eq(c->capture, strstr(rows[i].line, "capture") != NULL);
		cr_expect_eq(c->telemetry, strstr(rows[i].line, "telemetry") != NULL);
	}
}

Test(ctrl_config, hosts_of_ports)
{
	const struct ppe_host want[] = {{0x0a4d0001, 0xffffffff, 1}, {0x0a4d0100, 0xffffff00, 3},
		{0x0a4d0100, 0xfffffff0, 2}};
	struct ctrl_config *c = take(7, 8,
		"{'name': 'p0', 'device': 'net_null0', 'hosts': ['10.77.0.1', '10.77.1.0/24'], "
		"'neighbor': 'spine0'}, {'name': 'p1', 'device': 'net_null1', 'hosts': "
		"['10.77.1.0/24', '10.77.1.0/28']}");

	cr_assert_eq(c->ppe.nb_hosts, 3);
	cr_assert_eq(memcmp(c->ppe.host, want, sizeof(want)), 0);
	cr_expect_str_eq(c->port_more[0].neighbor, "spine0");
	cr_expect_str_eq(c->port_more[1].neighbor, "");
}

Test(ctrl_config, levels_of_logs)
{
	struct ctrl_config *c = take(4, 4, "");

	for (int i = 0; i < CTRL_LOG_MODULE_COUNT; i++)
		cr_assert_eq(c->log.level[i], RTE_LOG_NOTICE);
	c = take(4, 4, "'log': {'level': 'error', 'modules': {'api': 'debug'}},");
	cr_assert_eq(c->log.level[CTRL_LOG_CTRL], RTE_LOG_ERR);
	cr_assert_eq(c->log.level[CTRL_LOG_API], RTE_LOG_DEBUG);
}

Test(ctrl_config, buffers_follow_the_frames)
{
	struct ctrl_config *c = take(8, 8,
		"{'name': 'p1', 'device': 'net_af_packet1,iface=b,framesz=9216,blocksz=36864'}");

	cr_assert_eq(c->ppe.packet_bytes, 9216, "%u", c->ppe.packet_bytes);
	cr_assert_eq(c->port_more[1].frame_max, 9216 - 66);
	cr_assert_eq(c->port_more[0].frame_max, 2048 - 66);
	c = take(8, 8,
		"{'name': 'p1', 'device': '1:0.0', 'mtu': 9000, 'rx_descriptors': 4096, "
		"'tx_descriptors': 1024}");
	cr_assert_eq(c->ppe.packet_bytes, 9024, "%u", c->ppe.packet_bytes);
	cr_assert_eq(c->ppe.packets, 4096 + 1024 + 2048);
}

Test(ctrl_config, devices_have_interfaces_or_sockets)
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

		snprintf(line, sizeof(line), "{'name': 'p1', 'device': '%s'}", known[i].device);
		c = take(8, 8, line);
		cr_assert_str_eq(c->port_more[1].interface, known[i].interface, "%s", line);
		cr_assert_str_eq(c->port_more[1].socket, known[i].socket, "%s", line);
	}
	/* Two devices of memif share a socket. */
	take(8, 8,
		"{'name':'p1','device':'net_memif1,id=1,role=server,socket=/x,socket-abstract=no'},"
		"{'name':'p2','device':'net_memif2,id=2,role=server,socket=/"
		"x,socket-abstract=no'}");
}

Test(ctrl_config, generations_and_seeds_are_drawn)
{
	struct ctrl_config *a = take(0, 0, ""), *b = take(0, 0, "");

	cr_assert_neq(a->ppe.hash_seed, b->ppe.hash_seed);
	ctrl_config_destroy(NULL);
}

Test(ctrl_config, memory_is_summed)
{
	struct ctrl_config *c;

	take(3, 3, "'memory_mb': 64,");
	/* A job's reservation counts: 2 x 4096 buffers of 1 KiB, eight times. */
	c = take(16, 16,
		"'window': 4096}, {'id': 2, 'name': 'b', 'window': 4096, 'elements': 480, "
		"'sources': [{'id': 0, 'address': '10.77.0.1'}]");
	cr_assert_gt(c->memory.data_memory, 8192u * (1024u + 1920u));
}

Test(ctrl_config, files_that_cannot_be_read)
{
	char error[CTRL_ERROR_BYTES];
	struct ctrl_config *config;

	cr_assert_eq(ctrl_config_load("/nowhere/x.json", &config, error, sizeof(error)), -ENOENT);
	cr_assert_str_eq(error, "/nowhere/x.json: No such file or directory");
	cr_assert_eq(ctrl_config_load("/", &config, error, sizeof(error)), -EISDIR);
	cr_assert_str_eq(error, "/: Is a directory");
	cr_assert_null(config);
}

/* The good file up to each byte; the reason fits any buffer. */
Test(ctrl_config, every_prefix_of_a_file_is_refused)
{
	const char *text = text_with(0, 0, "");
	char error[CTRL_ERROR_BYTES + 1];
	struct ctrl_config *config;

	for (size_t n = 0; n + 2 < strlen(text); n++) {
		size_t size = n % 2 == 0 ? CTRL_ERROR_BYTES : 1 + n % 60;

		memset(error, 'x', sizeof(error));
		cr_assert_eq(ctrl_config_parse(text, n, "x.json", &config, error, size), -EINVAL,
			"%zu bytes", n);
		cr_assert_lt(strlen(error), size);
		cr_assert_eq(error[size], 'x');
		cr_assert(size < 8 || strncmp(error, "x.json:", 7) == 0, "%s", error);
	}
}

/* -- the section "api" */

#define HASH_A "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define HASH_B "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AE"
#define TEAM   "'tenants':[{'name':'a','token_sha256':'" HASH_A "'}]"

/* With an exception interface. */
static const struct ctrl_config *
take_api(const char *api)
{
	char line[1024];

	snprintf(line, sizeof(line), "'exception':{'interface':'weir0'},'api':{%s},", api);
	return take(4, 4, line);
}

Test(ctrl_config, listeners)
{
	const struct ctrl_api *api = &take_api("")->api;
	const struct ctrl_listener *l = api->listener;

	cr_assert_eq(api->nb_listeners, 1);
	cr_assert_str_eq(l[0].address.un.sun_path, "/run/weir/weir.sock");
	cr_assert_str_eq(l[0].text, "unix:/run/weir/weir.sock");
	cr_assert(api->open_read);
	api = &take_api("'listen':['unix:/x/y','tcp:127.0.0.1:8080','tcp:[::1]:8080',"
			"'tcp:SWITCH:80'],'names':['a.example.org','b']")
		       ->api;
	l = api->listener;
	cr_assert_eq(api->nb_listeners, 4);
	cr_assert_eq(l[0].address.any.sa_family, AF_UNIX);
	cr_assert_eq(l[1].address.in.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	cr_assert_eq(l[1].address.in.sin_port, htons(8080));
	cr_assert_eq(l[2].address.any.sa_family, AF_INET6);
	cr_assert_eq(memcmp(&l[2].address.in6.sin6_addr, &in6addr_loopback, 16), 0);
	cr_assert(!l[1].exception);
	cr_assert(l[3].exception);
	cr_assert_eq(l[3].address.in.sin_addr.s_addr, htonl(0x0a4d00fe));
	cr_assert_eq(api->nb_names, 2);
	cr_assert_str_eq(api->name[0], "a.example.org");
	cr_assert_str_eq(api->name[1], "b");
}

Test(ctrl_config, tenants)
{
	const struct ctrl_api *api = &take_api(
		"'open_read':false,'tls':{'certificate':'c.pem','key':'k.pem'},'tenants':["
		"{'name':'a','token_sha256':'" HASH_A "'},{'name':'b','admin':true,"
		"'token_sha256':'" HASH_B "','quota':{'jobs':3,'rate_mbit':10}}]")
					      ->api;
	const struct ctrl_tenant *t = api->tenant;

	cr_assert(!api->open_read);
	cr_assert_str_eq(api->certificate, "c.pem");
	cr_assert_str_eq(api->key, "k.pem");
	cr_assert_eq(api->nb_tenants, 2);
	cr_assert_eq(t[0].token_sha256[0], 0xba);
	cr_assert_eq(t[0].token_sha256[31], 0xad);
	cr_assert_eq(t[1].token_sha256[31], 0xae);
	cr_assert(!t[0].admin && t[1].admin);
	cr_assert_eq(t[0].quota.jobs, 32);
	cr_assert_eq(t[1].quota.jobs, 3);
	cr_assert_eq(t[1].quota.rate_mbit, 10);
	/* Not without a limit, unless somebody says so. */
	cr_assert_eq(t[0].quota.changes_per_s, 50);
	cr_assert_eq(t[0].quota.changes_burst, 1024);
	cr_assert_eq(t[1].quota.changes_per_s, 50);
}

/* Where tokens can be read on the way. */
Test(ctrl_config, tokens_in_the_clear)
{
	static const struct {
		const char *api, *listener;
	} all[] = {
		{"'listen':['tcp:10.77.0.254:80']", NULL},
		{TEAM, NULL},
		{"'listen':['unix:/x','tcp:127.0.0.9:80','tcp:[::1]:80']," TEAM, NULL},
		{"'listen':['tcp:127.0.0.1:80','tcp:SWITCH:80']," TEAM, "tcp:SWITCH:80"},
		{"'listen':['tcp:[::]:80']," TEAM, "tcp:[::]:80"},
		{"'listen':['tcp:0.0.0.0:80'],'tls':{'certificate':'c','key':'k'}," TEAM, NULL},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		const struct ctrl_listener *found = ctrl_api_clear_text(&take_api(all[i].api)->api);

		cr_expect_eq(found == NULL, all[i].listener == NULL, "%s", all[i].api);
		if (found != NULL && all[i].listener != NULL)
			cr_expect_str_eq(found->text, all[i].listener);
	}
}

/* -- the configuration as JSON */

static json_t *
at(const json_t *root, const char *section, const char *key)
{
	return json_object_get(json_object_get(root, section), key);
}

Test(ctrl_config, defaults_are_told)
{
	json_t *root = ctrl_config_json(take(10, 18, "'comment': ''"));
	const json_t *port = json_array_get(json_object_get(root, "ports"), 0);

	cr_assert_str_eq(json_string_value(at(root, "switch", "name")), "weir");
	cr_assert_str_eq(json_string_value(at(root, "switch", "mac")), "02:57:45:49:52:01");
	cr_assert_eq(json_integer_value(at(root, "workers", "threads")), 20);
	cr_assert_eq(json_array_size(at(root, "workers", "cpus")), 1);
	cr_assert_eq(json_integer_value(at(root, "policers", "broadcast")), 20000);
	cr_assert_eq(json_integer_value(json_object_get(port, "rx_queues")), 1);
	cr_assert(json_is_true(json_object_get(port, "promiscuous")));
	cr_assert_eq(json_array_size(json_object_get(root, "jobs")), 0);
	cr_assert(json_is_array(json_object_get(root, "jobs")));
	cr_assert_null(json_object_get(root, "exception"));
	cr_assert_null(json_object_get(root, "api"));
	json_decref(root);
}

Test(ctrl_config, secrets_are_not_told)
{
	json_t *root = ctrl_config_json(take_api(TEAM));
	char *text = json_dumps(root, 0);
	const json_t *tenant = json_array_get(at(root, "api", "tenants"), 0);

	cr_assert_null(strstr(text, "token_sha256"));
	cr_assert_null(strstr(text, HASH_A));
	cr_assert_str_eq(json_string_value(json_array_get(at(root, "api", "listen"), 0)),
		"unix:/run/weir/weir.sock");
	cr_assert_str_eq(json_string_value(json_object_get(tenant, "name")), "a");
	cr_assert_eq(json_integer_value(at(tenant, "quota", "jobs")), 32);
	cr_assert_null(at(root, "api", "tls"));
	free(text);
	json_decref(root);
}
