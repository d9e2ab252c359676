/* SPDX-License-Identifier: BSD-3-Clause */
/* A job's place in a tree of switches: what its keys mean, and which don't go together. */
#include <sys/stat.h>
#include <unistd.h>

#include "ctrl/config/tree.h"
#include "tests/unit/config_file.h"

TestSuite(ctrl_config_tree, .timeout = 90);

#define PARENT(name, address, port, more)                                                          \
	"{\"name\": \"" name "\", \"address\": \"" address                                         \
	"\", \"mac\": \"02:57:45:49:53:00\", \"port\": \"" port "\", \"job\": 3" more "}"
#define SPINE PARENT("spine0", "10.78.0.254", "p1", "")
#define TREE(ranks, ps)                                                                            \
	"\"tree\": {\"ranks\": " #ranks ", \"first_rank\": 4, \"parents\": [" ps "]}"
#define HOSTS "\"sources\": {\"count\": 2, \"first\": \"10.77.0.1\"}, "
#define CHILD(id, address, ranks)                                                                  \
	"{\"id\": " #id ", \"address\": \"" address "\", \"ranks\": " #ranks "}"
#define CHILDREN CHILD(0, "10.99.0.1", 4) ", " CHILD(4, "10.99.0.2", 12)
#define REVOKE   ", \"rejoin\": \"revoke\""

/* The file with one job, 1, that has these keys, in line 11. */
static const char *
text_with_job(const char *keys)
{
	static char text[8192];

	text[0] = '\0';
	for (unsigned int line = 1; line <= GOOD_LINES; line++)
		if (line == 11)
			sprintf(text + strlen(text), "{\"id\": 1, \"name\": \"train\", %s}\n",
				keys);
		else if (line < 11 || line > 17)
			sprintf(text + strlen(text), "%s\n", good[line - 1]);
	return text;
}

static void
refuse_job(const char *keys, const char *reason)
{
	const char *text = text_with_job(keys);
	char error[CTRL_ERROR_BYTES] = "";
	struct ctrl_config *config;

	cr_expect_eq(ctrl_config_parse(text, strlen(text), "x.json", &config, error, sizeof(error)),
		-EINVAL, "taken: %s", keys);
	cr_expect_eq(strncmp(error, "x.json:11:", 10), 0, "%s", error);
	cr_expect_not_null(strstr(error, reason), "%s, not %s", error, reason);
	ctrl_config_destroy(config);
}

Test(ctrl_config_tree, a_leaf)
{
	struct ctrl_config *c = must_take(text_with_job(HOSTS TREE(
		6, SPINE ", " PARENT("s1", "10.78.1.254", "p0", ", \"udp_port\": 12005")) REVOKE));
	const struct ppe_job *j = c->jobs.by_id[1];

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
	c = must_take(text_with_job(
		"\"sources\": [{\"id\": 5, \"address\": \"10.77.0.1\"}, {\"id\": 4, \"address\": "
		"\"10.77.0.1\"}], " TREE(256, SPINE) REVOKE ", \"narrow\": true"));
	cr_expect_eq(c->jobs.by_id[1]->members[0], 0x30);
	cr_expect(c->jobs.by_id[1]->narrow);
	/* The same generation on all switches, and no joins. */
	c = must_take(text_with_job(HOSTS TREE(6, SPINE) ", \"generation\": 7"));
	cr_expect_eq(c->jobs.by_id[1]->fixed_generation, 7);
}

Test(ctrl_config_tree, a_parent)
{
	struct ctrl_config *c = must_take(
		text_with_job("\"sources\": [" CHILDREN "]" REVOKE ", \"elements\": 473"));
	const struct ppe_job *j = c->jobs.by_id[1];

	cr_expect(j->children && ctrl_job_in_tree(j));
	cr_expect_eq(j->nb_sources, 2);
	cr_expect_eq(j->members[0], 0x11);
	cr_expect_eq(j->address[4], 0x0a630002u, "outside the subnet");
	cr_expect_eq(j->ranks[0], 4);
	cr_expect_eq(j->ranks[4], 12);
	cr_expect_eq(ppe_job_tree_ranks(j), 16);
	/* In the middle. */
	c = must_take(text_with_job(
		"\"sources\": [" CHILD(4, "10.99.0.1", 8) "], " TREE(12, SPINE) REVOKE));
	cr_expect(c->jobs.by_id[1]->children);
	cr_expect_eq(c->jobs.by_id[1]->nb_parents, 1);
}

Test(ctrl_config_tree, wrong_parents)
{
	static const struct {
		const char *parents, *reason;
	} wrong[] = {
		{"", "jobs[0].tree.parents: 0 entries are not in 1..8"},
		{PARENT("a", "10.78.0.254", "p2", ""),
			"jobs[0].tree.parents[0].port: \"p2\" is not the name of a port"},
		{SPINE ", " PARENT("spine0", "10.78.1.254", "p0", ""),
			"jobs[0].tree.parents[1].name: \"spine0\" is the name of parents[0] "
			"already"},
		{SPINE ", " PARENT("s1", "10.78.0.254", "p0", ""),
			"jobs[0].tree.parents[1].address: 10.78.0.254 is the address of parents[0] "
			"already"},
		{PARENT("a", "10.77.0.254", "p1", ""),
			"jobs[0].tree.parents[0].address: 10.77.0.254 is the switch's own address"},
		{"{\"name\": \"a\", \"address\": \"10.78.0.254\", \"mac\": \"02:57:45:49:52:01\", "
		 "\"port\": \"p1\", \"job\": 3}",
			"jobs[0].tree.parents[0].mac: it is the switch's own MAC address"},
		{PARENT("a", "10.78.0.254", "p1", ", \"udp_port\": 0"),
			"jobs[0].tree.parents[0].udp_port: 0 is not in 1..65535"},
		{PARENT("a", "10.78.0.254", "p1", ", \"key\": \"00\""),
			"jobs[0].tree.parents[0].key: unknown key"},
		{"{\"name\": \"a\", \"address\": \"10.78.0.254\", \"port\": \"p1\", \"job\": 3}",
			"jobs[0].tree.parents[0].mac: this key is required"},
	};
	char keys[1024];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(keys, sizeof(keys), HOSTS TREE(6, "%s") REVOKE, wrong[i].parents);
		refuse_job(keys, wrong[i].reason);
	}
}

Test(ctrl_config_tree, wrong_ranks)
{
	static const struct {
		const char *keys, *reason;
	} wrong[] = {
		{"\"sources\": [" CHILD(0, "10.99.0.1", 4) ", " CHILD(3, "10.99.0.2", 4) "]" REVOKE,
			"jobs[0].sources[1].id: the source before it covers the ranks up to 3"},
		{"\"sources\": [" CHILD(0, "10.99.0.1", 4) ", " CHILD(6, "10.99.0.2", 4) "]" REVOKE,
			"jobs[0].sources[1].id: no source covers rank 4..5"},
		{"\"sources\": [" CHILD(1, "10.99.0.1", 4) "]" REVOKE,
			"jobs[0].sources[0].id: no source covers rank 0"},
		{"\"sources\": [" CHILD(0, "10.99.0.1", 4) ", " CHILD(4, "10.99.0.1", 4) "]" REVOKE,
			"jobs[0].sources[1].address: 10.99.0.1 is the address of "
			"jobs[0].sources[0] already"},
		{"\"sources\": [" CHILD(0, "10.77.0.254", 4) "]" REVOKE,
			"jobs[0].sources[0].address: 10.77.0.254 is the switch's own address"},
		{"\"sources\": [" CHILD(0, "10.99.0.1", 255) ", " CHILD(
			 255, "10.99.0.2", 2) "]" REVOKE,
			"jobs[0].sources[1].ranks: the ranks 255..256 are not in 0..255"},
		{"\"sources\": [" CHILD(0, "10.99.0.1", 0) "]" REVOKE,
			"jobs[0].sources[0].ranks: 0 is not in 1..256"},
		{"\"sources\": [" CHILD(
			 0, "10.99.0.1", 4) ", {\"id\": 4, \"address\": \"10.77.0.1\"}]" REVOKE,
			"jobs[0].sources[1]: the sources of a job are all hosts or all switches"},
		{"\"sources\": [{\"id\": 0, \"address\": \"10.77.0.1\"}, " CHILD(
			 1, "10.99.0.1", 4) "]" REVOKE,
			"jobs[0].sources[1].ranks: the sources of a job are all hosts or all "
			"switches"},
		{"\"sources\": [{\"id\": 0, \"address\": \"10.99.0.1\"}]",
			"jobs[0].sources[0].address: 10.99.0.1 is outside the switch's subnet"},
		{"\"sources\": [{\"id\": 3, \"address\": \"10.77.0.1\"}], " TREE(6, SPINE) REVOKE,
			"jobs[0].sources[0].id: 3 is below tree.first_rank, 4"},
		{"\"sources\": [{\"id\": 4, \"address\": \"10.77.0.1\"}, {\"id\": 6, \"address\": "
		 "\"10.77.0.2\"}], " TREE(7, SPINE) REVOKE,
			"jobs[0].sources[1].id: no source covers rank 5"},
		{HOSTS TREE(5, SPINE) REVOKE,
			"jobs[0].tree.ranks: 5 ranks are too few: the sources of this switch cover "
			"the ranks 4..5"},
		{HOSTS TREE(257, SPINE) REVOKE, "jobs[0].tree.ranks: 257 is not in 1..256"},
		{"\"sources\": {\"count\": 253, \"first\": \"10.77.0.1\"}, " TREE(256, SPINE)
				REVOKE,
			"jobs[0].sources.count: ids from tree.first_rank on, 4, are not in 0..255"},
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		refuse_job(wrong[i].keys, wrong[i].reason);
}

Test(ctrl_config_tree, wrong_settings)
{
	refuse_job(HOSTS TREE(6, SPINE), "jobs[0].rejoin: it must be \"revoke\" in a tree");
	refuse_job("\"sources\": [" CHILDREN "]", "jobs[0].rejoin: it must be \"revoke\"");
	refuse_job(HOSTS TREE(6, SPINE) REVOKE ", \"alltoall\": \"full\"",
		"jobs[0].alltoall: it must be \"short\" in a tree");
	refuse_job("\"sources\": [" CHILDREN "], \"generation\": 7, \"block_bits\": 16",
		"jobs[0].block_bits: it must be 32 in a tree");
	refuse_job(HOSTS TREE(6, SPINE) ", \"generation\": 7, \"block_bits\": 16",
		"jobs[0].block_bits: it must be 32 in a tree");
	refuse_job("\"sources\": [" CHILDREN "]" REVOKE ", \"results\": \"239.77.0.1\"",
		"jobs[0].results: it must be \"unicast\" if the sources are switches");
	/* A bitmap goes between switches with any policy. */
	must_take(text_with_job(HOSTS "\"elements\": 481"));
	refuse_job(HOSTS TREE(6, SPINE) REVOKE ", \"elements\": 474",
		"jobs[0].elements: 474 elements make frames of 1986 bytes, and port p0 carries "
		"1982");
	refuse_job(HOSTS TREE(6, SPINE) REVOKE
		"}, {\"id\": 2, \"name\": \"other\", " HOSTS TREE(6, SPINE) REVOKE,
		"jobs[1].tree.parents: jobs[0] contributes to the same job of a parent already");
}

#define KEY "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F"

Test(ctrl_config_tree, key_files)
{
	char path[64], leaf[1024], both[2048], without[1024], reason[256];
	struct ctrl_config *c;
	FILE *file;

	snprintf(path, sizeof(path), "/tmp/weir_tree_key_%d", (int)getpid());
	file = fopen(path, "w");
	cr_assert_not_null(file);
	fputs(KEY "\n", file);
	fclose(file);
	cr_assert_eq(chmod(path, 0600), 0);
	snprintf(leaf, sizeof(leaf),
		HOSTS TREE(6, PARENT("s", "10.78.0.254", "p1", ", \"key_file\": \"%s\"")) "%s",
		path, REVOKE);
	snprintf(both, sizeof(both), "%s, \"key_file\": \"%s\"", leaf, path);
	snprintf(without, sizeof(without), HOSTS TREE(6, SPINE) REVOKE ", \"key_file\": \"%s\"",
		path);
	c = must_take(text_with_job(leaf));
	cr_expect(c->jobs.by_id[1]->parent[0].keyed && !c->jobs.by_id[1]->authenticated);
	for (unsigned int i = 0; i < WEIR_KEY_BYTES; i++)
		cr_expect_eq(c->jobs.by_id[1]->parent[0].key[i], i);
	c = must_take(text_with_job(both));
	cr_expect(c->jobs.by_id[1]->parent[0].keyed && c->jobs.by_id[1]->authenticated);
	refuse_job(without,
		"jobs[0].tree.parents[0]: the job is authenticated, and needs the key of this "
		"switch at its parent");
	snprintf(both, sizeof(both),
		HOSTS TREE(6,
			PARENT("s", "10.78.0.254", "p1",
				", \"key_file\": \"%s\"")) ", \"generation\": 7",
		path);
	refuse_job(both,
		"jobs[0].tree.parents[0]: a job with a fixed generation has no joins, which need a "
		"key");
	cr_assert_eq(chmod(path, 0604), 0);
	snprintf(reason, sizeof(reason),
		"jobs[0].tree.parents[0].key_file: %s may be read or changed by other users", path);
	refuse_job(leaf, reason);
	unlink(path);
}

/* What is shown has no keys, and the texts that only people read. */
Test(ctrl_config_tree, shown_tree_has_no_keys)
{
	struct ctrl_config *c = must_take(text_with_job(HOSTS TREE(
		6, PARENT("s", "10.78.0.254", "p1", ", \"api\": \"http://s:80\"")) REVOKE));
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
	c = must_take(text_with(0, NULL));
	cr_expect_null(ctrl_tree_shown(c->jobs.by_id[1], none), "it is in no tree");
	json_decref(none);
}

/* A reload compares these: another tree is another job. */
Test(ctrl_config_tree, trees_are_compared)
{
	static const char *const trees[] = {
		HOSTS TREE(6, SPINE) REVOKE,
		HOSTS TREE(7, SPINE) REVOKE,
		HOSTS TREE(6, SPINE ", " PARENT("s1", "10.78.1.254", "p1", "")) REVOKE,
		HOSTS TREE(6, PARENT("spine0", "10.78.0.253", "p1", "")) REVOKE,
		HOSTS TREE(6, PARENT("spine0", "10.78.0.254", "p0", "")) REVOKE,
		"\"sources\": [" CHILD(0, "10.99.0.1", 4) "]" REVOKE,
		"\"sources\": [" CHILD(0, "10.99.0.1", 5) "]" REVOKE,
	};

	for (size_t i = 0; i < sizeof(trees) / sizeof(trees[0]); i++)
		for (size_t k = 0; k < sizeof(trees) / sizeof(trees[0]); k++) {
			struct ctrl_config *a = must_take(text_with_job(trees[i]));
			struct ctrl_config *b = must_take(text_with_job(trees[k]));

			cr_expect_eq(ctrl_tree_same(a->jobs.by_id[1], b->jobs.by_id[1]), i == k,
				"%zu and %zu", i, k);
		}
}

Test(ctrl_config_tree, neighbor)
{
	struct ctrl_config *c = must_take(text_with(8,
		"    { \"name\": \"p1\", \"device\": \"net_af_packet1,iface=b\", \"neighbor\": "
		"\"spine0\" }"));

	cr_expect_str_eq(c->port_more[0].neighbor, "");
	cr_expect_str_eq(c->port_more[1].neighbor, "spine0");
}
