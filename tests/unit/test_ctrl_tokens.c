/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank tokens: each is right for one rank of one job, as long as the job exists. */
#include "tests/unit/played.h"

#include "ctrl/api/auth.h"
#include "ctrl/api/call.h"
#include "ctrl/jobs/tokens.h"

TestSuite(ctrl_tokens, .init = setup, .fini = teardown, .timeout = 90);

static struct ctrl_rank_token
token_of(const struct ctrl_job *job, unsigned int rank)
{
	struct ctrl_rank_token token;

	cr_assert(ctrl_rank_token(job, rank, &token));
	return token;
}

/* The job of a token, and its rank; NULL: no job has it. */
static const struct ctrl_job *
find(const char *text, unsigned int *rank)
{
	char name[PPE_JOB_NAME_MAX];
	const struct ctrl_job *job;

	if (!ctrl_rank_token_job(text, name))
		return NULL;
	job = ctrl_running_find_job(running, name);
	return ctrl_rank_token_is(job, text, rank) ? job : NULL;
}

static void
wrong(const char *text)
{
	unsigned int rank;

	cr_expect_null(find(text, &rank), "%s", text);
}

Test(ctrl_tokens, each_is_of_one_rank_of_one_job)
{
	struct ctrl_job *jobs[] = {create("ring"), create("a.b_c-d")};
	struct ctrl_rank_token token[2][4];
	unsigned int rank;

	for (unsigned int j = 0; j < 2; j++)
		for (unsigned int r = 0; r < 4; r++) {
			token[j][r] = token_of(jobs[j], r);
			cr_assert_eq(find(token[j][r].text, &rank), jobs[j]);
			cr_assert_eq(rank, r);
			for (unsigned int i = 0; i < r; i++)
				cr_assert_str_neq(strrchr(token[j][i].text, '~'),
					strrchr(token[j][r].text, '~'));
		}
	cr_assert_str_neq(strrchr(token[0][0].text, '~'), strrchr(token[1][0].text, '~'));
}

/* HMAC-SHA256 of "weir token" and the rank under the job's key, by another program:
 * printf 'weir token\003' | openssl dgst -sha256 -mac HMAC -macopt hexkey:0707... */
Test(ctrl_tokens, a_token_is_what_the_header_says)
{
	struct ctrl_job *ring = create("ring");

	memset(ring->copy->key, 7, sizeof(ring->copy->key));
	cr_assert_str_eq(token_of(ring, 3).text,
		"ring~3~"
		"5D4787E299F90A4B639FACDCF3A4D64E98CAE6044251A18EE5765F97188BA499");
}

Test(ctrl_tokens, changed_tokens_are_wrong)
{
	struct ctrl_rank_token good = token_of(create("ring"), 2),
			       other = token_of(create("pair"), 2);
	const char *mac = strrchr(good.text, '~') + 1;
	char text[256];

	/* What stands before the MAC. */
	static const char *const before[] = {"ring~1~", "ring~3~", "ring~4~", "ring~258~",
		"ring~02~", "ring~ 2~", "ring~+2~", "ring~-2~", "ring~2~ ", "ring~2", "ring~~",
		"~2~", "", "~", "pair~2~", "none~2~", "rin~2~", "Ring~2~",
		"a-name-of-more-than-thirty-one-bytes~2~"};

	for (size_t i = 0; i < RTE_DIM(before); i++) {
		snprintf(text, sizeof(text), "%s%s", before[i], mac);
		wrong(text);
		wrong(before[i]);
	}
	snprintf(text, sizeof(text), "%s0", good.text);
	wrong(text);
	for (size_t i = 0; i < strlen(good.text); i++) {
		struct ctrl_rank_token bad = good;

		bad.text[i] ^= 1;
		wrong(bad.text);
		bad.text[i] = '\0';
		wrong(bad.text);
	}
	snprintf(text, sizeof(text), "ring~2~%s", strrchr(other.text, '~') + 1);
	wrong(text);
}

/* Their key is not secret: it is zeros. */
Test(ctrl_tokens, jobs_of_the_configuration_have_none)
{
	wrong(token_of(running->by_id[of_file.id], 0).text);
}

Test(ctrl_tokens, a_token_ends_with_its_job)
{
	struct ctrl_job *ring = create("ring");
	struct ctrl_rank_token token = token_of(ring, 0);
	unsigned int rank;

	change(ring, "timeout_ms", 5);
	cr_assert_eq(find(token.text, &rank), ring);
	played.leaving[ring->job->id] = true;
	delete (ring);
	wrong(token.text);
	create("ring");
	wrong(token.text);
}

Test(ctrl_tokens, a_token_names_the_caller_and_its_job)
{
	struct api_caller caller = {.name = "x"};
	const struct api_call call = {.running = running};
	struct ctrl_job *ring = create("ring");
	char text[256];

	snprintf(text, sizeof(text), "bearer %s", token_of(ring, 3).text);
	cr_assert(api_authenticate_rank(&call, text, &caller));
	cr_assert_eq(caller.instance, ring->job->instance);
	cr_assert_neq(caller.instance, 0);
	cr_assert_eq(caller.rank, 3);
	cr_assert_str_eq(caller.name, "x token=ring~3");
	caller = (struct api_caller){.name = "x"};
	cr_assert(!api_authenticate_rank(&call, text + 7, &caller), "without the scheme");
	cr_assert_eq(caller.instance, 0);
}
