/* SPDX-License-Identifier: BSD-3-Clause */
/* Who may what: every caller against every access. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <openssl/evp.h>

#include "ctrl/api/auth.h"

static struct ctrl_tenant tenants[3];
static struct ctrl_api none = {.open_read = true};
static struct ctrl_api some = {.open_read = true, .nb_tenants = 3, .tenant = tenants};

static void
make(struct ctrl_tenant *tenant, const char *name, const char *token, bool admin)
{
	strcpy(tenant->name, name);
	tenant->admin = admin;
	EVP_Digest(token, strlen(token), tenant->token_sha256, NULL, EVP_sha256(), NULL);
}

static void
setup(void)
{
	make(&tenants[0], "vision", "token of vision", false);
	make(&tenants[1], "speech", "token of speech", false);
	make(&tenants[2], "ops", "token of ops", true);
}

TestSuite(ctrl_api_auth, .init = setup, .timeout = 90);

static struct api_caller
caller(const struct ctrl_api *api, bool local, uid_t uid, const char *authorization, bool good)
{
	struct api_caller c = {.is_local = local, .uid = uid, .name = "x"};

	cr_assert_eq(api_authenticate(api, authorization, &c), good, "%s", authorization);
	return c;
}

/* SHA-256 of "abc", FIPS 180-2: the hash is the one that sha256sum prints. */
Test(ctrl_api_auth, the_hash_is_sha256)
{
	static const uint8_t abc[] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41,
		0x40, 0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c,
		0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};

	memcpy(tenants[1].token_sha256, abc, sizeof(abc));
	cr_assert_eq(caller(&some, false, 0, "Bearer abc", true).tenant, &tenants[1]);
}

Test(ctrl_api_auth, tokens)
{
	struct api_caller c = caller(&some, false, 0, "Bearer token of vision", true);

	cr_assert_eq(c.tenant, &tenants[0]);
	cr_assert(!c.admin);
	cr_assert_str_eq(c.name, "x tenant=vision");
	cr_assert_eq(caller(&some, false, 0, "bearer token of speech", true).tenant, &tenants[1]);
	cr_assert(caller(&some, false, 0, "Bearer token of ops", true).admin);
}

Test(ctrl_api_auth, wrong_tokens_are_wrong_everywhere)
{
	static const char *const wrong[] = {"", "Bearer", "Bearer ", "Bearer token of visio",
		"Bearer token of visionx", "Bearer  token of vision", "Basic token of vision",
		"token of vision"};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cr_expect(!caller(&some, false, 0, wrong[i], false).admin);
		cr_expect(!caller(&some, true, 0, wrong[i], false).admin, "root: %s", wrong[i]);
	}
	caller(&none, true, 0, "Bearer token of vision", false);
}

Test(ctrl_api_auth, administrators_of_the_unix_socket)
{
	cr_assert(caller(&some, true, 0, NULL, true).admin);
	cr_assert(caller(&some, true, geteuid(), NULL, true).admin);
	cr_assert(!caller(&some, true, geteuid() + 1, NULL, true).admin);
	cr_assert(caller(&none, true, geteuid() + 1, NULL, true).admin);
	cr_assert(!caller(&none, false, 0, NULL, true).admin);
	/* A token given steps down to its tenant's rights. */
	cr_assert(!caller(&some, true, 0, "Bearer token of vision", true).admin);
}

/* By access: PUBLIC READ READ_JOB READ_ALL JOIN CHANGE OPEN ADMIN; + allowed, u unauthorized, f forbidden. */
static void
expect(const struct ctrl_api *api, struct api_caller c, const char *verdicts, const char *who)
{
	for (unsigned int a = API_PUBLIC; a <= API_ADMIN; a++)
		cr_expect_eq("+uf"[api_may(api, &c, (enum api_access)a)], verdicts[a],
			"%s, access %u", who, a);
}

Test(ctrl_api_auth, rights_of_callers)
{
	struct ctrl_api none_closed = none, some_closed = some, open = none;
	struct api_caller tcp = caller(&some, false, 0, NULL, true);
	struct api_caller tenant = caller(&some, false, 0, "Bearer token of vision", true);
	struct api_caller admin = caller(&some, true, 0, NULL, true);
	struct api_caller rank = {.is_local = true, .is_private = true, .instance = 1};

	none_closed.open_read = some_closed.open_read = false;
	expect(&none, tcp, "+++++fff", "TCP without tenants");
	open.open_jobs = 1;
	expect(&open, tcp, "+++++f+f", "TCP where jobs are open");
	expect(&open, rank, "+f+f+fff", "rank token where jobs are open");
	expect(&none_closed, tcp, "ffff+fff", "TCP without tenants, reading closed");
	expect(&some, tcp, "+uuuuuuu", "TCP without token");
	expect(&some_closed, tcp, "uuuuuuuu", "TCP without token, reading closed");
	expect(&some, tenant, "+++f+++f", "tenant");
	expect(&some_closed, tenant, "+++f+++f", "tenant, reading closed");
	expect(&some_closed, admin, "++++++++", "administrator");
	expect(&none_closed, admin, "++++++++", "administrator without tenants");
	expect(&none, rank, "+f+f+fff", "rank token without tenants");
	expect(&some, rank, "+f+f+fff", "rank token");
	expect(&some_closed, rank, "+f+f+fff", "rank token, reading closed");
}

Test(ctrl_api_auth, tenants_own_only_their_jobs)
{
	struct api_caller tenant = caller(&some, false, 0, "Bearer token of vision", true);
	struct api_caller admin = caller(&some, false, 0, "Bearer token of ops", true);
	struct api_caller nobody = caller(&some, false, 0, NULL, true);
	struct api_caller rank = {.instance = 1};

	cr_assert(!api_owns(&some, &rank, NULL) && !api_owns(&none, &rank, NULL));
	cr_assert(api_owns(&some, &tenant, &tenants[0]));
	cr_assert(!api_owns(&some, &tenant, &tenants[1]));
	cr_assert(!api_owns(&some, &tenant, NULL));
	cr_assert(!api_owns(&some, &nobody, NULL));
	cr_assert(api_owns(&some, &admin, &tenants[0]));
	cr_assert(api_owns(&none, &nobody, NULL));
}
