/* SPDX-License-Identifier: BSD-3-Clause */
/* The section "api", and the configuration told again. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "ctrl/config/config.h"

#define HASH_A             "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define HASH_B             "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AE"
#define TENANT(name, hash) "{\"name\":\"" name "\",\"token_sha256\":\"" hash "\"}"

TestSuite(ctrl_config_api, .timeout = 90);

/* A whole file with this section, or none; with or without an exception interface. */
static int
parse(const char *api, bool exception, struct ctrl_config **config, char *error)
{
	char text[8192];
	int length = snprintf(text, sizeof(text),
		"{\"switch\":{\"name\":\"rack7\",\"address\":\"10.77.0.254/24\"},\n%s%s%s%s"
		"\"ports\":[{\"name\":\"p0\",\"device\":\"net_null0\"}]}",
		api == NULL ? "" : "\"api\":", api == NULL ? "" : api, api == NULL ? "" : ",\n",
		exception ? "\"exception\":{\"interface\":\"weir0\"}," : "");

	cr_assert_lt(length, (int)sizeof(text));
	return ctrl_config_parse(text, (size_t)length, "x", config, error, CTRL_ERROR_BYTES);
}

/* Valid until the next call. */
static struct ctrl_config *
take(const char *api, bool exception)
{
	static struct ctrl_config *taken;
	char error[CTRL_ERROR_BYTES];
	struct ctrl_config *config;

	cr_assert_eq(parse(api, exception, &config, error), 0, "%s", error);
	ctrl_config_destroy(taken);
	taken = config;
	return config;
}

static void
refuse(const char *api, const char *reason)
{
	char error[CTRL_ERROR_BYTES];
	struct ctrl_config *config;

	cr_expect_eq(parse(api, false, &config, error), -EINVAL, "taken: %s", api);
	cr_expect_not_null(strstr(error, reason), "%s: %s", api, error);
	ctrl_config_destroy(config);
}

Test(ctrl_config_api, without_the_section_there_is_none)
{
	struct ctrl_config *config = take(NULL, false);

	cr_assert_eq(config->api.nb_listeners, 0);
	cr_assert_eq(config->api.nb_tenants, 0);
}

Test(ctrl_config_api, the_default_is_a_socket_of_the_switch_s_name)
{
	struct ctrl_config *config = take("{}", false);

	cr_assert_eq(config->api.nb_listeners, 1);
	cr_assert_str_eq(config->api.listener[0].address.un.sun_path, "/run/weir/rack7.sock");
	cr_assert_str_eq(config->api.listener[0].text, "unix:/run/weir/rack7.sock");
	cr_assert(config->api.open_read);
}

Test(ctrl_config_api, listeners)
{
	struct ctrl_config *config = take("{\"listen\":[\"unix:/x/y\",\"tcp:127.0.0.1:8080\","
					  "\"tcp:[::1]:8080\",\"tcp:SWITCH:80\"]}",
		true);
	const struct ctrl_listener *l = config->api.listener;

	cr_assert_eq(config->api.nb_listeners, 4);
	cr_assert_eq(l[0].address.any.sa_family, AF_UNIX);
	cr_assert_eq(l[1].address.in.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	cr_assert_eq(l[1].address.in.sin_port, htons(8080));
	cr_assert_eq(l[2].address.any.sa_family, AF_INET6);
	cr_assert_eq(memcmp(&l[2].address.in6.sin6_addr, &in6addr_loopback, 16), 0);
	cr_assert(!l[1].exception);
	cr_assert(l[3].exception);
	cr_assert_eq(l[3].address.in.sin_addr.s_addr, htonl(0x0a4d00fe));
}

Test(ctrl_config_api, wrong_listeners)
{
	refuse("{\"listen\":[]}", "api.listen: 0 entries are not in 1..8");
	refuse("{\"listen\":[\"http:/x/y\"]}", "api.listen[0]: \"http:/x/y\" begins with neither");
	refuse("{\"listen\":[\"unix:x/y\"]}", "is not an absolute path");
	refuse("{\"listen\":[\"unix:/x/\"]}", "is a folder");
	refuse("{\"listen\":[\"unix:/12345678901234567890123456789012345678901234567890123456789012"
	       "345678901234567890123456789012345678901234567890\"]}",
		"at most 107 characters");
	refuse("{\"listen\":[\"tcp:127.0.0.1\"]}", "is not ADDRESS:PORT");
	refuse("{\"listen\":[\"tcp:127.0.0.1:\"]}", "is not ADDRESS:PORT");
	refuse("{\"listen\":[\"tcp:127.0.0.1:0\"]}", "is not ADDRESS:PORT");
	refuse("{\"listen\":[\"tcp:127.0.0.1:65536\"]}", "is not ADDRESS:PORT");
	refuse("{\"listen\":[\"tcp:127.0.0.1:99999999999\"]}", "is not ADDRESS:PORT");
	refuse("{\"listen\":[\"tcp:127.0.0.1:80x\"]}", "is not ADDRESS:PORT");
	refuse("{\"listen\":[\"tcp:::1:80\"]}", "neither SWITCH nor an address");
	refuse("{\"listen\":[\"tcp:[10.0.0.1]:80\"]}", "neither SWITCH nor an address");
	refuse("{\"listen\":[\"tcp:localhost:80\"]}", "neither SWITCH nor an address");
	refuse("{\"listen\":[\"tcp:SWITCH:80\"]}", "needs the section \"exception\"");
	refuse("{\"listen\":[\"unix:/x\",\"unix:/x\"]}",
		"api.listen[1]: api.listen[0] is the same");
}

Test(ctrl_config_api, tenants)
{
	struct ctrl_config *config = take(
		"{\"open_read\":false,\"tls\":{\"certificate\":\"c.pem\",\"key\":\"k.pem\"},"
		"\"tenants\":[" TENANT("a", HASH_A) ",{\"name\":\"b\",\"admin\":true,"
						    "\"token_sha256\":\"" HASH_B
						    "\",\"quota\":{\"jobs\":3,\"rate_mbit\":10}}]}",
		false);
	const struct ctrl_tenant *t = config->api.tenant;

	cr_assert(!config->api.open_read);
	cr_assert_str_eq(config->api.certificate, "c.pem");
	cr_assert_str_eq(config->api.key, "k.pem");
	cr_assert_eq(config->api.nb_tenants, 2);
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

Test(ctrl_config_api, names)
{
	struct ctrl_config *config = take("{\"names\":[\"a.example.org\",\"b\"]}", false);

	cr_assert_eq(config->api.nb_names, 2);
	cr_assert_str_eq(config->api.name[0], "a.example.org");
	cr_assert_str_eq(config->api.name[1], "b");
	refuse("{\"names\":[\"b:80\"]}", "api.names[0]: \"b:80\" has other characters");
}

/* Where tokens can be read on the way. */
Test(ctrl_config_api, tokens_in_the_clear)
{
	static const struct {
		const char *api, *listener;
	} all[] = {
		{"{\"listen\":[\"tcp:10.77.0.254:80\"]}", NULL},
		{"{\"tenants\":[" TENANT("a", HASH_A) "]}", NULL},
		{"{\"listen\":[\"unix:/x\",\"tcp:127.0.0.9:80\",\"tcp:[::1]:80\"],"
		 "\"tenants\":[" TENANT("a", HASH_A) "]}",
			NULL},
		{"{\"listen\":[\"tcp:127.0.0.1:80\",\"tcp:SWITCH:80\"],"
		 "\"tenants\":[" TENANT("a", HASH_A) "]}",
			"tcp:SWITCH:80"},
		{"{\"listen\":[\"tcp:[::]:80\"],\"tenants\":[" TENANT("a", HASH_A) "]}",
			"tcp:[::]:80"},
		{"{\"listen\":[\"tcp:0.0.0.0:80\"],\"tls\":{\"certificate\":\"c\",\"key\":\"k\"},"
		 "\"tenants\":[" TENANT("a", HASH_A) "]}",
			NULL},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct ctrl_config *config = take(all[i].api, true);
		const struct ctrl_listener *found = ctrl_api_clear_text(&config->api);

		cr_expect_eq(found == NULL, all[i].listener == NULL, "%s", all[i].api);
		if (found != NULL && all[i].listener != NULL)
			cr_expect_str_eq(found->text, all[i].listener);
	}
}

Test(ctrl_config_api, wrong_tenants)
{
	refuse("{\"tenants\":[" TENANT("a", HASH_A) "," TENANT("a", HASH_B) "]}",
		"api.tenants[1].name: \"a\" is the name of api.tenants[0] already");
	refuse("{\"tenants\":[" TENANT("a", HASH_A) "," TENANT("b", HASH_A) "]}",
		"api.tenants[1].token_sha256: api.tenants[0] has the same token");
	refuse("{\"tenants\":[{\"name\":\"a\",\"token_sha256\":"
	       "\"zz7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"}]}",
		"is not 64 hexadecimal digits");
	refuse("{\"tenants\":[" TENANT("a", "12") "]}", "2 characters are not in 64..64");
	refuse("{\"tenants\":[{\"name\":\"a\"}]}", "token_sha256: this key is required");
	refuse("{\"tls\":{\"key\":\"k\"}}", "certificate: this key is required");
	refuse("{\"token\":1}", "api.token: unknown key");
}

/* -- the configuration as JSON */

static const json_t *
at(const json_t *root, const char *section, const char *key)
{
	return json_object_get(json_object_get(root, section), key);
}

Test(ctrl_config_api, defaults_are_told)
{
	struct ctrl_config *config = take(NULL, false);
	json_t *root = ctrl_config_json(config);
	const json_t *port = json_array_get(json_object_get(root, "ports"), 0);

	cr_assert_str_eq(json_string_value(at(root, "switch", "name")), "rack7");
	cr_assert_str_eq(json_string_value(at(root, "switch", "mac")), "02:57:45:49:52:01");
	cr_assert_eq(json_integer_value(at(root, "workers", "threads")), 20);
	cr_assert_eq(json_array_size(at(root, "workers", "cpus")), 1);
	cr_assert_eq(json_integer_value(json_object_get(root, "memory_mb")), 512);
	cr_assert_eq(json_integer_value(json_object_get(port, "rx_queues")), 1);
	cr_assert(json_is_true(json_object_get(port, "promiscuous")));
	cr_assert_eq(json_array_size(json_object_get(root, "jobs")), 0);
	cr_assert(json_is_array(json_object_get(root, "jobs")));
	cr_assert_null(json_object_get(root, "exception"));
	cr_assert_null(json_object_get(root, "api"));
	json_decref(root);
}

Test(ctrl_config_api, secrets_are_not_told)
{
	struct ctrl_config *config = take("{\"tenants\":[" TENANT("a", HASH_A) "]}", true);
	json_t *root = ctrl_config_json(config);
	char *text = json_dumps(root, 0);
	const json_t *tenant = json_array_get(at(root, "api", "tenants"), 0);

	cr_assert_null(strstr(text, "token_sha256"));
	cr_assert_null(strstr(text, HASH_A));
	cr_assert_str_eq(json_string_value(json_array_get(at(root, "api", "listen"), 0)),
		"unix:/run/weir/rack7.sock");
	cr_assert_str_eq(json_string_value(json_object_get(tenant, "name")), "a");
	cr_assert_eq(json_integer_value(at(tenant, "quota", "jobs")), 32);
	cr_assert_null(at(root, "api", "tls"));
	free(text);
	json_decref(root);
}
