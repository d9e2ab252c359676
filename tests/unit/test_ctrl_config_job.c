/* SPDX-License-Identifier: BSD-3-Clause */
/* A job of the configuration: what its keys mean, and which don't go together. */
#include <sys/stat.h>
#include <unistd.h>

#include "rmw/kernels.h"
#include "tests/unit/config_file.h"

Test(ctrl_config_job, job, .timeout = 90)
{
	struct ctrl_config *c = must_take(text_with(16,
		"\"window\": 16, \"elements\": 300, \"timeout_ms\": 60000, \"policy\": "
		"\"partial\", \"results\": \"239.77.0.1\", \"type\": \"int32\", \"generation\": 9, "
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
}

/* Every type and operation that there is, by its wire's number; others, and what makes no sense,
 * not. */
Test(ctrl_config_job, types_and_operations, .timeout = 90)
{
	char line[96], why[192];

	for (unsigned int type = 0; type < WEIR_DTYPES; type++)
		for (unsigned int op = 0; op < WEIR_OPS; op++) {
			struct ctrl_config *c;

			snprintf(line, sizeof(line), "\"type\": \"%s\", \"op\": \"%s\"",
				weir_dtype_text(type), weir_op_text(op));
			if (weir_dtype_is_float(type) != 0 && op >= WEIR_OP_BAND) {
				snprintf(why, sizeof(why),
					"16:%zu: jobs[0].op: %s is for integers only, and %s is "
					"none",
					19 + strlen(weir_dtype_text(type)), weir_op_text(op),
					weir_dtype_text(type));
				refuse(16, line, why);
				continue;
			}
			c = must_take(text_with(16, line));
			cr_expect_eq(c->jobs.by_id[1]->dtype, type, "%s", line);
			cr_expect_eq(c->jobs.by_id[1]->op, op, "%s", line);
		}
#define X(name, code, text, ...) ", " text
	snprintf(why, sizeof(why), "16:9: jobs[0].type: \"float\" is not one of %s",
		WEIR_DTYPE_LIST(X) + 2);
	refuse(16, "\"type\": \"float\"", why);
	snprintf(why, sizeof(why), "16:7: jobs[0].op: \"median\" is not one of %s",
		WEIR_OP_LIST(X) + 2);
	refuse(16, "\"op\": \"median\"", why);
#undef X
}

Test(ctrl_config_job, deterministic, .timeout = 90)
{
	struct ctrl_config *c = must_take(text_with(16, "\"deterministic\": true"));

	cr_expect(c->jobs.by_id[1]->deterministic);
	c = must_take(text_with(16, "\"window\": 64"));
	cr_expect_not(c->jobs.by_id[1]->deterministic);
	refuse(16, "\"deterministic\": 1",
		"16:18: jobs[0].deterministic: an integer where true or false belongs");
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
	snprintf(why, sizeof(why), "16:13: jobs[0].key_file: %s%s", path, said);
	refuse(16, line, why);
	unlink(path);
}

Test(ctrl_config_job, key_file, .timeout = 90)
{
	static const char wrong[] = ": a key is 64 hexadecimal digits and nothing else; `openssl "
				    "rand -hex 32` makes one";
	struct ctrl_config *c = must_take(text_with(16, key_file(" " KEY "\n", 0640)));
	const struct ppe_job *j = c->jobs.by_id[1];

	cr_expect(j->authenticated);
	for (unsigned int i = 0; i < WEIR_KEY_BYTES; i++)
		cr_expect_eq(j->key[i], i);
	cr_expect_eq(ctrl_job_frame_bytes(j), 14u + 20 + 8 + 16 + 1024 + 16);
	c = must_take(text_with(16, "\"key_file\": \"\""));
	cr_expect_not(c->jobs.by_id[1]->authenticated);
	refuse_key(KEY, 0644,
		" may be read or changed by other users: chmod o= it, and make another key");
	refuse_key(KEY "0", 0600, wrong);
	refuse_key("0" KEY, 0600, wrong);
	refuse_key("", 0600, wrong);
	refuse_key("0x" KEY, 0600, wrong);
	refuse_key(KEY " " KEY KEY KEY, 0600, wrong);
	refuse(16, "\"key_file\": \"/nowhere/weir.key\", \"generation\": 5",
		"16:13: jobs[0].key_file: a job with a fixed generation can't be authenticated: it "
		"has no joins, which make its keys");
	refuse(16, "\"key_file\": \"/nowhere/weir.key\"",
		"16:13: jobs[0].key_file: /nowhere/weir.key: No such file or directory");
}

Test(ctrl_config_job, block_bits, .timeout = 90)
{
	struct ctrl_config *c = must_take(text_with(0, NULL));

	cr_assert_eq(c->jobs.by_id[1]->block_shift, 0);
	c = must_take(text_with(16, "\"generation\": 9, \"block_bits\": 8, \"window\": 64"));
	cr_assert_eq(c->jobs.by_id[1]->block_shift, 24);
	refuse(16, "\"generation\": 9, \"block_bits\": 8, \"window\": 128",
		"16:32: jobs[0].block_bits: 8 bits number 256 blocks, fewer than 4 windows of 128");
	refuse(16, "\"block_bits\": 31",
		"16:15: jobs[0].block_bits: fewer than 32 bits need a fixed generation: sources "
		"that join use 32");
	refuse(16, "\"block_bits\": 7", "16:15: jobs[0].block_bits: 7 is not in 8..32");
	refuse(16, "\"block_bits\": 33", "16:15: jobs[0].block_bits: 33 is not in 8..32");
}

/* Lines 12 to 15 of the file are the sources. */
static const char *
text_with_range(const char *range)
{
	static char text[2048];

	text[0] = '\0';
	for (unsigned int line = 1; line <= sizeof(good) / sizeof(good[0]); line++) {
		const char *part = line == 12 ? range : good[line - 1];

		if (line >= 13 && line <= 15)
			continue;
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s\n", part);
	}
	return text;
}

Test(ctrl_config_job, sources_by_count_and_first, .timeout = 90)
{
	static const struct {
		const char *range, *reason;
	} wrong[] = {
		{"{\"count\": 0, \"first\": \"10.77.0.1\"}",
			"jobs[0].sources.count: 0 is not in 1..256"},
		{"{\"count\": 257, \"first\": \"10.77.0.1\"}",
			"jobs[0].sources.count: 257 is not in 1..256"},
		{"{\"count\": 4}", "jobs[0].sources.first: this key is required"},
		{"{\"first\": \"10.77.0.1\"}", "jobs[0].sources.count: this key is required"},
		{"{\"count\": 4, \"first\": \"10.77.0\"}", "jobs[0].sources.first: "},
		{"{\"count\": 1, \"first\": \"10.78.0.1\"}",
			"jobs[0].sources.first: source 0: 10.78.0.1 is outside the switch's "
			"subnet"},
		{"{\"count\": 9, \"first\": \"10.77.0.250\"}",
			"jobs[0].sources.count: source 4: 10.77.0.254 is the switch's own address"},
		{"{\"count\": 2, \"first\": \"223.255.255.255\"}", "jobs[0].sources.first: "},
		{"{\"count\": 4, \"first\": \"10.77.0.1\", \"last\": 4}",
			"jobs[0].sources.last: unknown key; "},
	};
	char line[128];
	struct ctrl_config *c = must_take(
		text_with_range("\"sources\": {\"count\": 3, \"first\": \"10.77.0.7\"},"));
	const struct ppe_job *j = c->jobs.by_id[1];

	cr_expect_eq(j->nb_sources, 3);
	cr_expect_eq(j->members[0], 7);
	for (unsigned int s = 0; s < 3; s++)
		cr_expect_eq(j->address[s], 0x0a4d0007 + s);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char error[CTRL_ERROR_BYTES];
		const char *text;

		snprintf(line, sizeof(line), "\"sources\": %s,", wrong[i].range);
		text = text_with_range(line);
		cr_expect_eq(
			ctrl_config_parse(text, strlen(text), "x.json", &c, error, sizeof(error)),
			-EINVAL, "%s", line);
		cr_expect_not_null(strstr(error, wrong[i].reason), "%s", error);
		cr_expect_eq(strncmp(error, "x.json:12:", 10), 0, "%s", error);
	}
}
