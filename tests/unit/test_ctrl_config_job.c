/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs of the configuration, and their places in a tree of switches: what their keys mean. */
#include <sys/stat.h>
#include <unistd.h>

#include "ctrl/config/tree.h"
#include "rmw/kernels.h"
#include "tests/unit/config_file.h"

TestSuite(ctrl_config_job, .timeout = 90);

/* Job 1 of the good file with these keys in place of its window. */
static const struct ppe_job *
take_more(const char *keys)
{
	return take(16, 16, keys)->jobs.by_id[1];
}

/* Job 1 with these keys alone. */
static const struct ppe_job *
take_job(const char *keys)
{
	char line[2048];

	snprintf(line, sizeof(line), "{'id': 1, 'name': 'train', %s}", keys);
	return take(11, 17, line)->jobs.by_id[1];
}

Test(ctrl_config_job, settings)
{
	const struct ppe_job *j = take_more(
		"'window': 16, 'elements': 300, 'timeout_ms': 60000, 'policy': 'partial', "
		"'results': '239.77.0.1', 'type': 'int32', 'generation': 9, 'block_bits': 12, "
		"'deterministic': true");

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
	cr_assert(j->deterministic);
	cr_assert_eq(ctrl_job_frame_bytes(j), 14u + 20 + 8 + 16 + 1200 + 32);
	j = take_more("'key_file': ''");
	cr_assert(!j->authenticated && !j->deterministic);
	cr_assert_eq(j->block_shift, 0);
	j = take_more("'generation': 9, 'block_bits': 8, 'window': 64");
	cr_assert_eq(j->block_shift, 24);
}

/* Every type and operation that there is, by its wire's number; what makes no sense, not. */
Test(ctrl_config_job, types_and_operations)
{
	char line[96], error[CTRL_ERROR_BYTES];

	for (unsigned int i = 0; i < WEIR_DTYPES * WEIR_OPS; i++) {
		unsigned int type = i / WEIR_OPS, op = i % WEIR_OPS;
		bool good_pair = !weir_dtype_is_float(type) || op < WEIR_OP_BAND;
		struct ctrl_config *c;
		const char *text;

		snprintf(line, sizeof(line), "\"type\": \"%s\", \"op\": \"%s\"",
			weir_dtype_text(type), weir_op_text(op));
		text = text_with(16, 16, line);
		cr_expect_eq(ctrl_config_parse(text, strlen(text), "x", &c, error, sizeof(error)),
			good_pair ? 0 : -EINVAL, "%s", line);
		cr_expect(
			!good_pair || (c->job[0].dtype == type && c->job[0].op == op), "%s", line);
		ctrl_config_destroy(c);
	}
}

#define KEY "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F"

static char key_path[64];

static void
write_key(const char *text, mode_t mode)
{
	FILE *file;

	snprintf(key_path, sizeof(key_path), "/tmp/weir_key_%d", (int)getpid());
	unlink(key_path);
	file = fopen(key_path, "w");
	cr_assert_not_null(file);
	fputs(text, file);
	fclose(file);
	cr_assert_eq(chmod(key_path, mode), 0);
}

/* Keys with %s where the key file's path belongs. */
static const char *
with_path(const char *keys)
{
	static char text[1024];

	text[0] = '\0';
	for (const char *path; (path = strstr(keys, "%s")) != NULL; keys = path + 2) {
		strncat(text, keys, (size_t)(path - keys));
		strcat(text, key_path);
	}
	return strcat(text, keys);
}

/* A job with these keys is refused; the path of the wrong value, and after the file's name, if
 * it has one, the reason. */
static void
refuse_keys(const char *keys, const char *path, const char *reason)
{
	char line[1024] = "{'id': 1, 'name': 'train', ", error[CTRL_ERROR_BYTES], *at;
	struct ctrl_config *config;
	const char *text;

	strcat(strcat(line, with_path(keys)), "}");
	for (at = line; *at != '\0'; at++)
		*at = *at == '\'' ? '"' : *at;
	text = text_with(11, 17, line);
	cr_expect_eq(ctrl_config_parse(text, strlen(text), "x", &config, error, sizeof(error)),
		-EINVAL, "taken: %s", keys);
	at = strstr(error, path);
	cr_expect_not_null(at, "%s", error);
	cr_expect_str_eq(error + strlen(error) - strlen(reason), reason, "%s", error);
}

#define HOSTS "'sources': {'count': 2, 'first': '10.77.0.1'}, "
#define LEAF(ranks, ...)                                                                           \
	"'tree': {'ranks': " #ranks ", 'first_rank': 4, 'parents': [" __VA_ARGS__ "]}"
#define PARENT(name, address, port, more)                                                          \
	"{'name': '" name "', 'address': '" address                                                \
	"', 'mac': '02:57:45:49:53:00', 'port': '" port "', 'job': 3" more "}"
#define SPINE PARENT("spine0", "10.78.0.254", "p1", "")
#define KEYED PARENT("s", "10.78.0.254", "p1", ", 'key_file': '%s'")
#define CHILDREN(a, b)                                                                             \
	"'sources': [{'id': 0, 'address': '10.99.0.1', 'ranks': " #a "}, {'id': " #a               \
	", 'address': '10.99.0.2', 'ranks': " #b "}]"
#define REVOKE ", 'rejoin': 'revoke'"

Test(ctrl_config_job, key_files)
{
	static const struct {
		const char *text;
		mode_t mode;
		const char *reason;
	} wrong[] = {
#define DIGITS ": a key is 64 hexadecimal digits and nothing else; `openssl rand -hex 32` makes one"
		{KEY, 0644,
			" may be read or changed by other users: chmod o= it, and make another "
			"key"},
		{KEY "0", 0600, DIGITS},
		{"0" KEY, 0600, DIGITS},
		{"", 0600, DIGITS},
		{"0x" KEY, 0600, DIGITS},
		{KEY " " KEY KEY KEY, 0600, DIGITS},
	};
	const struct ppe_job *j;

	write_key(" " KEY "\n", 0640);
	j = take_more(with_path("'key_file': '%s'"));
	cr_expect(j->authenticated);
	for (unsigned int i = 0; i < WEIR_KEY_BYTES; i++)
		cr_expect_eq(j->key[i], i);
	cr_expect_eq(ctrl_job_frame_bytes(j), 14u + 20 + 8 + 16 + 1024 + 16);
	j = take_job(with_path(HOSTS LEAF(6, KEYED) REVOKE));
	cr_expect(j->parent[0].keyed && !j->authenticated);
	for (unsigned int i = 0; i < WEIR_KEY_BYTES; i++)
		cr_expect_eq(j->parent[0].key[i], i);
	j = take_job(with_path(HOSTS LEAF(6, KEYED) REVOKE ", 'key_file': '%s'"));
	cr_expect(j->parent[0].keyed && j->authenticated);
	refuse_keys(HOSTS LEAF(6, SPINE) REVOKE ", 'key_file': '%s'", "jobs[0].tree.parents[0]: ",
		"the job is authenticated, and needs the key of this switch at its parent");
	refuse_keys(HOSTS LEAF(6, KEYED) ", 'generation': 7", "jobs[0].tree.parents[0]: ",
		"a job with a fixed generation has no joins, which need a key");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		write_key(wrong[i].text, wrong[i].mode);
		refuse_keys(HOSTS "'key_file': '%s'", "jobs[0].key_file: /tmp/", wrong[i].reason);
		refuse_keys(HOSTS LEAF(6, KEYED) REVOKE, "jobs[0].tree.parents[0].key_file: /tmp/",
			wrong[i].reason);
	}
	unlink(key_path);
}

Test(ctrl_config_job, sources_by_count_and_first)
{
	const struct ppe_job *j = take_job("'sources': {'count': 3, 'first': '10.77.0.7'}");

	cr_expect_eq(j->nb_sources, 3);
	cr_expect_eq(j->members[0], 7);
	for (unsigned int s = 0; s < 3; s++)
		cr_expect_eq(j->address[s], 0x0a4d0007 + s);
}

/* -- trees */

Test(ctrl_config_job, a_leaf)
{
	const struct ppe_job *j = take_job(HOSTS LEAF(
		6, SPINE ", " PARENT("s1", "10.78.1.254", "p0", ", 'udp_port': 12005")) REVOKE);

	cr_expect_eq(j->nb_sources, 2);
	cr_expect_eq(j->members[0], 0x30);
	cr_expect_eq(j->address[4], 0x0a4d0001u);
	cr_expect_eq(j->address[5], 0x0a4d0002u);
	cr_expect_eq(j->first_rank, 4);
	cr_expect_eq(ppe_job_tree_ranks(j), 6);
	cr_expect_eq(j->nb_parents, 2);
	cr_expect_str_eq(j->parent[0].name, "spine0");
	cr_expect_eq(j->parent[0].address, 0x0a4e00feu);
	cr_expect_arr_eq(j->parent[0].mac, "\x02\x57\x45\x49\x53\x00", 6);
	cr_expect_eq(j->parent[0].port, 1);
	cr_expect_eq(j->parent[0].udp, 12001);
	cr_expect_eq(j->parent[0].job, 3);
	cr_expect_not(j->parent[0].keyed);
	cr_expect_eq(j->parent[1].port, 0);
	cr_expect_eq(j->parent[1].udp, 12005);
	cr_expect(!j->children && !j->narrow && ctrl_job_in_tree(j));
	j = take_job(
		"'sources': [{'id': 5, 'address': '10.77.0.1'}, "
		"{'id': 4, 'address': '10.77.0.1'}], " LEAF(256, SPINE) REVOKE ", 'narrow': true");
	cr_expect_eq(j->members[0], 0x30);
	cr_expect(j->narrow);
	/* The same generation on all switches, and no joins. */
	cr_expect_eq(take_job(HOSTS LEAF(6, SPINE) ", 'generation': 7")->fixed_generation, 7);
	/* Alone; in a tree, a bitmap goes between switches with any policy, and 474 are refused. */
	take_job(HOSTS "'elements': 481");
}

Test(ctrl_config_job, a_parent)
{
	const struct ppe_job *j = take_job(CHILDREN(4, 12) REVOKE ", 'elements': 473");

	cr_expect(j->children && ctrl_job_in_tree(j));
	cr_expect_eq(j->nb_sources, 2);
	cr_expect_eq(j->members[0], 0x11);
	cr_expect_eq(j->address[4], 0x0a630002u, "outside the subnet");
	cr_expect_eq(j->ranks[0], 4);
	cr_expect_eq(j->ranks[4], 12);
	cr_expect_eq(ppe_job_tree_ranks(j), 16);
	/* In the middle. */
	j = take_job("'sources': [{'id': 4, 'address': '10.99.0.1', 'ranks': 8}], " LEAF(12, SPINE)
			REVOKE);
	cr_expect(j->children);
	cr_expect_eq(j->nb_parents, 1);
}

/* What is shown has no keys, and the texts that only people read. */
Test(ctrl_config_job, shown_tree_has_no_keys)
{
	struct ctrl_config *c = take(11, 17,
		"{'id': 1, 'name': 'train', " HOSTS LEAF(
			6, PARENT("s", "10.78.0.254", "p1", ", 'api': 'http://s:80'")) REVOKE "}");
	json_t *job = json_array_get(json_object_get(c->document, "jobs"), 0), *shown, *right;
	json_t *none = json_object();

	json_object_set_new(
		json_array_get(json_object_get(json_object_get(job, "tree"), "parents"), 0), "key",
		json_string(KEY));
	shown = ctrl_tree_shown(c->jobs.by_id[1], job);
	right = json_pack("{s:{s:i, s:i, s:[{s:s, s:s, s:s, s:s, s:i, s:i, s:s}]}}", "tree",
		"ranks", 6, "first_rank", 4, "parents", "name", "s", "address", "10.78.0.254",
		"mac", "02:57:45:49:53:00", "port", "p1", "udp_port", 12001, "job", 3, "api",
		"http://s:80");
	cr_assert_not_null(right);
	cr_expect(json_equal(shown, right), "%s", json_dumps(shown, 0));
	json_decref(shown);
	json_decref(right);
	cr_expect_null(ctrl_tree_shown(take_more("'window': 64"), none), "it is in no tree");
	json_decref(none);
}

/* A reload compares these: another tree is another job. */
Test(ctrl_config_job, trees_are_compared)
{
	static const char *const trees[] = {
		HOSTS LEAF(6, SPINE) REVOKE,
		HOSTS LEAF(7, SPINE) REVOKE,
		HOSTS LEAF(6, SPINE ", " PARENT("s1", "10.78.1.254", "p1", "")) REVOKE,
		HOSTS LEAF(6, PARENT("spine0", "10.78.0.253", "p1", "")) REVOKE,
		HOSTS LEAF(6, PARENT("spine0", "10.78.0.254", "p0", "")) REVOKE,
		CHILDREN(4, 1) REVOKE,
		CHILDREN(4, 2) REVOKE,
	};
	const size_t count = sizeof(trees) / sizeof(trees[0]);

	for (size_t i = 0; i < count * count; i++)
		cr_expect_eq(ctrl_tree_same(take_job(trees[i / count]), take_job(trees[i % count])),
			i / count == i % count, "%zu and %zu", i / count, i % count);
}
