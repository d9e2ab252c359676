/* SPDX-License-Identifier: BSD-3-Clause */
/* What hosts and the control API say to each other: what is sent, and answers right and hostile. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/libweir/control_json.h"

static const struct weir_launcher who = {.rank = 2, .size = 4};
static const char good[] =
	"{'job': 7, 'name': 'ring', 'source': 2, 'size': 4, 'generation': 0, 'window': 64, "
	"'elements': 256, 'type': 'fp32', 'op': 'sum', 'timeout_ms': 1000, 'key': null, 'more': "
	"[1], 'datagram_bytes': 1068, 'switch': {'address': '10.77.0.254', 'mtu': 1500, "
	"'udp_port': 12000, 'udp_port_ext': 12001}}";

static char text[640];

/* JSON written with single quotes. */
static char *
quoted(const char *single)
{
	char *copy = strdup(single);

	for (char *c = copy; *c != '\0'; c++)
		if (*c == '\'')
			*c = '"';
	return copy;
}

static int
read_text(const char *json, struct weir_member *member)
{
	/* An allocation of just its length: a read past the end is seen by the sanitizer. */
	size_t length = strlen(json);
	char *exact = malloc(length ? length : 1);
	int code;

	memcpy(exact, json, length);
	text[0] = '\0';
	code = weir_member_read(exact, length, &who, member, text, sizeof(text));
	free(exact);
	return code;
}

Test(weir_member, the_answer, .timeout = 90)
{
	struct weir_member m;
	char *json = quoted(good);

	cr_assert_eq(read_text(json, &m), 0, "%s", text);
	cr_assert(m.job == 7 && m.source == 2 && m.window == 64 && m.elements == 256);
	cr_assert(m.port_base == 12000 && m.port_ext == 12001);
	cr_assert(m.mtu == 1500 && m.datagram_bytes == 1068);
	cr_assert_eq(m.address.s_addr, inet_addr("10.77.0.254"));
	free(json);
}

/* A member sends often enough not to expire, and at most three times a second, whatever the answer says. */
Test(weir_member, how_often_it_sends, .timeout = 90)
{
	static const struct {
		const char *expire_s;
		unsigned int ms;
	} rows[] = {{"1", 333}, {"2", 666}, {"29", 9666}, {"30", 10000}, {"31", 10000},
		{"1000000", 10000}, {"0", 10000}, {"-1", 10000}, {"1000001", 10000},
		{"4294967297", 10000}, {"18446744073709551617", 0}, {"0.1", 10000}, {"null", 10000},
		{"\"1\"", 10000}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir_member m = {0};
		char *base = quoted(good), *json;

		cr_assert_gt(
			asprintf(&json, "{\"expire_s\": %s, %s", rows[i].expire_s, base + 1), 0);
		if (rows[i].ms == 0)
			cr_expect_eq(read_text(json, &m), -EPROTO);
		else
			cr_expect_eq(read_text(json, &m), 0, "%s", text);
		if (rows[i].ms != 0)
			cr_expect_eq(weir_member_keepalive(&m) / 1000000, rows[i].ms, "%s",
				rows[i].expire_s);
		free(json);
		free(base);
	}
}

/* 32 bytes in base64. */
Test(weir_member, key_of_the_source, .timeout = 90)
{
	static const char right[] = "'AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8='";
	static const char *const wrong[] = {"''", "7", "true", "[]", "'AAECAwQ='",
		"'AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg=='",
		"'AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g'",
		"'AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh!='",
		"'AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g"
		"ISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw=='"};
	char *json = quoted(good), *other = quoted(right), *made;
	struct weir_member m;
	json_t *all = json_loads(json, 0, NULL);

	cr_assert_eq(read_text(json, &m), 0, "%s", text);
	cr_assert_not(m.has_key);
	json_object_set_new(all, "key", json_loads(other, JSON_DECODE_ANY, NULL));
	made = json_dumps(all, 0);
	cr_assert_eq(read_text(made, &m), 0, "%s", text);
	cr_assert(m.has_key);
	for (unsigned int i = 0; i < sizeof(m.key); i++)
		cr_assert_eq(m.key[i], i);
	free(made);
	free(other);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		other = quoted(wrong[i]);
		json_object_set_new(all, "key", json_loads(other, JSON_DECODE_ANY, NULL));
		made = json_dumps(all, 0);
		cr_assert_eq(read_text(made, &m), -EPROTO, "taken: %s", made);
		free(made);
		free(other);
	}
	json_decref(all);
	free(json);
}

/* Every key that matters, missing and with values of other types and ranges. */
Test(weir_member, wrong_answers, .timeout = 90)
{
	static const char *const keys[] = {"job", "source", "size", "window", "elements", "switch",
		"switch.address", "switch.udp_port", "switch.udp_port_ext"};
	static const char *const values[] = {"null", "true", "-1", "1e300", "2.0", "65536", "0.5",
		"9223372036854775807", "\"\"", "\"7\"", "[]", "{}", "[[[[]]]]", "257", "3000",
		"\"10.77.0\"", "\"::1\"", "\"10.77.0.254 \""};
	char *json = quoted(good);
	struct weir_member m;

	for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
		const char *dot = strchr(keys[k], '.'), *key = dot != NULL ? dot + 1 : keys[k];

		for (size_t v = 0; v <= sizeof(values) / sizeof(values[0]); v++) {
			bool missing = v == sizeof(values) / sizeof(values[0]);
			bool right = (v == 13 || v == 14) &&
				(strcmp(key, "elements") == 0 || strncmp(key, "udp_port", 8) == 0);
			json_t *all, *in;
			char *made;

			if (right && !missing)
				continue;
			all = json_loads(json, 0, NULL);
			in = dot != NULL ? json_object_get(all, "switch") : all;
			if (missing)
				json_object_del(in, key);
			else
				json_object_set_new(
					in, key, json_loads(values[v], JSON_DECODE_ANY, NULL));
			made = json_dumps(all, 0);
			cr_assert_eq(read_text(made, &m), -EPROTO, "taken: %s", made);
			cr_assert(strstr(text, keys[k]) != NULL || strcmp(keys[k], "switch") == 0,
				"%s not named: %s", keys[k], text);
			free(made);
			json_decref(all);
		}
	}
	free(json);
}

Test(weir_member, no_json_at_all, .timeout = 90)
{
	static const char *const bodies[] = {"", "null", "[]", "1", "\"x\"", "{", "{}x", "\xff\xfe",
		"<html>404</html>", "{\"job\": 1, \"job\": 2}", "{\"job\": \"\\u0000\"}"};
	struct weir_member m;
	char deep[60001], *json = quoted(good), *cut;

	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
		cr_assert_eq(read_text(bodies[i], &m), -EPROTO, "taken: %s", bodies[i]);
	memset(deep, '[', sizeof(deep) - 1);
	deep[sizeof(deep) - 1] = '\0';
	cr_assert_eq(read_text(deep, &m), -EPROTO);
	for (size_t end = 0; end < strlen(json); end++) {
		cut = strndup(json, end);
		cr_assert_eq(read_text(cut, &m), -EPROTO, "taken: %s", cut);
		free(cut);
	}
	free(json);
}

Test(weir_member, the_status, .timeout = 90)
{
	static const char fine[] = "{\"address\": \"10.77.0.254\", \"name\": \"x\"}";
	static const char none[] = "{\"address\": 3}";
	struct in_addr to;

	cr_assert_eq(weir_member_read_status(fine, strlen(fine), &to, text, sizeof(text)), 0);
	cr_assert_eq(to.s_addr, inet_addr("10.77.0.254"));
	cr_assert_eq(weir_member_read_status(none, strlen(none), &to, text, sizeof(text)), -EPROTO);
	cr_assert_eq(weir_member_read_status("x", 1, &to, text, sizeof(text)), -EPROTO);
}

/* With this in it; all of it, if it begins as a request does. */
static void
requests(const struct weir_config *config, const char *part)
{
	char *body = weir_member_request(config, &who, "10.77.0.3");

	if (strncmp(part, "{", 1) == 0)
		cr_assert_str_eq(body, part);
	else
		cr_assert_not_null(strstr(body, part), "%s", body);
	free(body);
}

Test(weir_member, the_request, .timeout = 90)
{
	struct weir_config config = {.settings = "window=128 type=int32  policy=error"};

	requests(&config, "{\"rank\":2,\"size\":4,\"address\":\"10.77.0.3\"}");
	config.create = true;
	requests(&config,
		"{\"rank\":2,\"size\":4,\"address\":\"10.77.0.3\",\"create\":{\"window\":128,"
		"\"type\":\"int32\",\"policy\":\"error\"}}");
	config.settings = NULL;
	requests(&config, "\"create\":{}");
	config.settings = "authenticate=true";
	requests(&config, "\"create\":{\"authenticate\":true}");
	config.temporary = true;
	requests(&config, "\"create\":{\"authenticate\":true,\"temporary\":true}");
	config.temporary = false;
	config.settings = "op=avg deterministic=true";
	requests(&config, "\"create\":{\"op\":\"avg\",\"deterministic\":true}");
	for (const char *const *wrong =
			(const char *const[]){"op=\xff", "window", "=3", "window=64 op", NULL};
		*wrong != NULL; wrong++) {
		config.settings = *wrong;
		cr_assert_null(weir_member_request(&config, &who, "10.77.0.3"), "%s", *wrong);
	}
}

static void
refused(long status, const char *single, const char *token, int code, const char *words)
{
	const struct weir_refused about = {
		.where = "http://10.0.0.1:8080", .job = "ring", .token_from = token};
	char *body = quoted(single);

	cr_assert_eq(weir_member_refused(&about, status, body, strlen(body), text, sizeof(text)),
		code, "%ld: %s", status, text);
	cr_assert(strstr(text, words) != NULL, "\"%s\" is not in: %s", words, text);
	for (const char *c = text; *c != '\0'; c++)
		cr_assert(*c >= ' ' && *c <= '~', "no printable ASCII: %s", text);
	free(body);
}

Test(weir_member, refusals, .timeout = 90)
{
	refused(401, "{'error': {'code': 'unauthorized', 'message': 'no'}}", NULL, -EACCES,
		"WEIR_TOKEN_FILE");
	refused(401, "{'error': {'code': 'unauthorized', 'message': 'no'}}", "WEIR_TOKEN", -EACCES,
		"the token of WEIR_TOKEN");
	refused(403, "{'error': {'code': 'forbidden', 'message': 'another tenant'}}", "t", -EACCES,
		"another tenant");
	refused(403, "{'error': {'code': 'quota', 'message': '2 jobs'}}", "t", -EDQUOT, "quota");
	refused(404, "{'error': {'code': 'unknown_job', 'message': 'no job ring'}}", NULL, -ENOENT,
		"--create");
	refused(404, "{'error': {'code': 'unknown_path', 'message': 'no'}}", NULL, -EPROTO,
		"versions");
	refused(409, "{'error': {'code': 'conflict', 'key': 'size', 'message': '3'}}", NULL,
		-EPROTO, "disagree about the size");
	refused(409, "{'error': {'code': 'conflict', 'key': 'address', 'message': 'alive'}}", NULL,
		-EADDRINUSE, "another host");
	refused(507,
		"{'error': {'code': 'no_memory', 'message': 'full', 'needed': {'memory': 4096}, "
		"'free': {'memory': 512, 'blocks': 3}}}",
		NULL, -ENOSPC, "memory 4096 needed; memory 512, blocks 3 free");
	refused(400, "{'error': {'code': 'out_of_range', 'key': 'create.window', 'message': 'x'}}",
		NULL, -EINVAL, "create.window: x");
	refused(400, "{'error': {'code': 'out_of_range', 'key': 'create.window', 'message': 'x'}}",
		NULL, -EINVAL, "correct weir_config.job_name");
	refused(400, "{'error': {'code': 'bad_request', 'key': 'port', 'message': 'x'}}", NULL,
		-EINVAL, "versions");
	refused(429, "{'error': {'code': 'too_often', 'message': 'x'}}", NULL, -EBUSY, "too fast");
	refused(503, "{'error': {'code': 'busy', 'message': 'x'}}", NULL, -EBUSY, "overloaded");
}

Test(weir_member, hostile_refusals, .timeout = 90)
{
	char huge[40000], *body;
	size_t at;

	refused(404, "", NULL, -EPROTO, "HTTP status 404");
	refused(200000, "[]", NULL, -EPROTO, "HTTP status 200000");
	refused(500, "{'error': {'code': 1, 'key': [], 'message': {}, 'free': 3}}", NULL, -EPROTO,
		"nothing");
	refused(409, "{'error': {'message': 'a\\u001b[2Jb\\nc\\u009bd'}}", NULL, -EADDRINUSE,
		"a?[2Jb?c??d");
	memset(huge, 'm', sizeof(huge) - 1);
	huge[sizeof(huge) - 1] = '\0';
	cr_assert(asprintf(&body,
			  "{'error': {'code': 'x', 'key': '%s', 'message': '%s', 'free': {'%s': "
			  "1e300, 'b': -1e308, 'c': 3}}}",
			  huge, huge, huge) > 0);
	refused(507, body, NULL, -ENOSPC, "mmm");
	free(body);
	/* Many amounts: the text ends, and nothing is written behind it. */
	at = (size_t)snprintf(huge, sizeof(huge), "{'error': {'free': {'a': 1");
	for (int i = 0; i < 500; i++)
		at += (size_t)snprintf(huge + at, sizeof(huge) - at, ", 'k%d': %d", i, 1000000 + i);
	snprintf(huge + at, sizeof(huge) - at, "}}}");
	refused(507, huge, NULL, -ENOSPC, "a 1, k0 1000000, k1 1000001");
}

/* What a host, rank 2, makes of the answer about its job: of the job itself, or of a block. */
static int
ask(struct weir_job_query *query, bool block, const char *format, ...)
{
	char single[500], *body;
	va_list arguments;
	int verdict;

	query->text = text;
	query->size = sizeof(text);
	query->where = "http://10.0.0.1:8080";
	query->name = "ring";
	query->address = "10.77.0.3";
	query->job = 7;
	query->source = 2;
	va_start(arguments, format);
	vsnprintf(single, sizeof(single), format, arguments);
	va_end(arguments);
	body = quoted(single);
	verdict = block ? weir_job_query_read_block(query, body, strlen(body))
			: weir_job_query_read(query, 200, body, strlen(body));
	free(body);
	return verdict;
}

#define OWN "{'rank': 2, 'address': '10.77.0.3', 'state': 'joined'}"

/* What a host of generation `own` (0: it joins) and membership 77 hears of the job of a silent switch: its generation,
 * and of this host's member state, address and membership. */
static void
settles(uint16_t own, int generation, const char *state, const char *address, int membership,
	int verdict, const char *words)
{
	cr_assert_eq(
		ask(&(struct weir_job_query){.membership = 77, .generation = own}, false,
			"{'id': 7, 'name': 'ring', 'state': 'running', 'generation': %d, "
			"'members': [{'rank': 2, 'address': '%s', 'state': '%s', 'last_heard': "
			"0.5, 'membership': %d}]}",
			generation, address, state, membership),
		verdict);
	cr_assert(strstr(text, words) != NULL, "\"%s\" is not in: %s", words, text);
}

Test(weir_member, a_job_that_hangs, .timeout = 90)
{
	static const char own[] = "10.77.0.3";

	settles(4, 4, "joined", own, 77, 0, "rank 2 (10.77.0.3, last heard 0.5 s ago)");
	settles(4, 4, "expected", own, 77, 0, "rank 2");
	settles(4, 5, "joined", own, 77, -ESTALE, "has generation 5 now");
	settles(4, 0, "joined", own, 77, -ESTALE, "has not begun at the switch");
	settles(4, 4, "left", own, 77, -EACCES, "it has left, or was removed");
	settles(4, 4, "expired", own, 77, -EACCES, "silent for longer than");
	settles(4, 4, "joined", "10.77.0.4", 77, -EACCES, "is another host now, 10.77.0.4");
	/* Another process has joined as this rank: one that runs may go on until the switch says so. */
	settles(4, 4, "joined", own, 78, 0, "rank 2");
	settles(0, 3, "expected", own, 78, -EEXIST, "is another process running as rank 2?");
	settles(0, 3, "expected", own, 77, 0, "rank 2");
}

/* Another member left so many seconds ago; this one joined 4 s ago, and the job has not begun. */
static int
another_left(double ago, double joined_s)
{
	return ask(&(struct weir_job_query){.joined_s = joined_s}, false,
		"{'id': 7, 'state': 'joining', 'generation': 0, 'members': [{'rank': 1, 'address': "
		"'10.77.0.2', 'state': 'left', 'gone': %.1f}, " OWN "]}",
		ago);
}

Test(weir_member, another_leaves_before_the_job_has_begun, .timeout = 90)
{
	cr_expect_eq(another_left(1.5, 4), -ECONNABORTED);
	cr_expect(strstr(text, "rank 1 (10.77.0.2) left job \"ring\"") != NULL, "%s", text);
	cr_expect_eq(another_left(5, 4), 0, "it left before this one joined");
	cr_expect_eq(another_left(1.5, 0), 0, "a generation has begun");
}

/* What the job says of a rank that a block waits for, or has, while this rank's operation waits. */
static int
lost(const char *temporary, uint16_t generation, const char *state, const uint8_t *present)
{
	struct weir_job_query query = {.generation = generation, .present = present};
	int verdict = ask(&query, false,
		"{'id': 7, 'generation': %u, 'temporary': %s, 'members': [{'rank': 1, 'address': "
		"'10.77.0.2', 'state': '%s', 'gone': 1.0}, " OWN "]}",
		generation, temporary, state);

	if (verdict != 0 || present != NULL)
		return verdict;
	return ask(&query, true,
		"{'blocks': [{'missing': [{'rank': 1, 'address': '10.77.0.2', 'state': '%s'}]}]}",
		state);
}

/* Nobody takes the place of a member that a temporary job has lost. */
Test(weir_member, a_lost_member, .timeout = 90)
{
	static const uint8_t without[WEIR_BITMAP_BYTES] = {1 << 2};
	static const uint8_t with[WEIR_BITMAP_BYTES] = {1 << 2 | 1 << 1};

	cr_assert_eq(lost("true", 4, "left", NULL), -ECONNABORTED);
	cr_assert(strstr(text, "rank 1 (10.77.0.2) has left job \"ring\"") != NULL, "%s", text);
	cr_assert_eq(lost("true", 4, "expired", NULL), -ECONNABORTED);
	cr_assert(strstr(text, "has expired in job \"ring\"") != NULL, "%s", text);
	cr_assert_eq(lost("true", 4, "joined", NULL), 0);
	cr_assert_eq(lost("true", 4, "left", without), -ECONNABORTED);
	cr_assert_eq(lost("true", 4, "left", with), 0);
	cr_assert_eq(lost("false", 4, "left", NULL), 0);
	cr_assert_eq(lost("false", 4, "left", without), 0);
	/* Before the first generation other rules hold. */
	cr_assert_eq(lost("true", 0, "expired", without), 0);
}
