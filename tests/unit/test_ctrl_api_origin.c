/* SPDX-License-Identifier: BSD-3-Clause */
/* Host and Origin: what browsers may call the switch, and whose pages may ask it. */
#include <criterion/criterion.h>

#include "ctrl/api/auth.h"

static const struct ctrl_api api = {.nb_names = 2, .name = {"rack7.example.org", "weir"}};

TestSuite(ctrl_api_origin, .timeout = 90);

Test(ctrl_api_origin, addresses_and_known_names)
{
	static const char *const own[] = {"10.77.0.254", "10.77.0.254:8080", "[::1]", "[::1]:80",
		"[fe80::1]:8080", "localhost", "LOCALHOST:8080", "weir", "Weir:80",
		"rack7.EXAMPLE.org"};
	static const char *const others[] = {"", ":80", "evil.example", "evil.example:8080",
		"localhost.evil.example", "10.77.0.254.evil.example", "10.77.0", "0x0a4d00fe",
		"weir.", "xweir", "weir:80x", "weir:80:80", "::1", "[::1", "[evil.example]",
		"[::1]x", "[10.0.0.1]", "127.0.0.1@evil.example", "10.77.0.254 evil"};

	for (unsigned int i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		cr_expect(api_host_is_own(&api, own[i]), "%s", own[i]);
	for (unsigned int i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		cr_expect_not(api_host_is_own(&api, others[i]), "%s", others[i]);
}

Test(ctrl_api_origin, pages)
{
	cr_expect(api_origin_is_host("http://10.77.0.254:8080", "10.77.0.254:8080"));
	cr_expect(api_origin_is_host("https://WEIR", "weir"));
	cr_expect_not(api_origin_is_host("http://10.77.0.254", "10.77.0.254:8080"));
	cr_expect_not(api_origin_is_host("http://evil.example", "10.77.0.254"));
	cr_expect_not(api_origin_is_host("http://10.77.0.254.evil.example", "10.77.0.254"));
	cr_expect_not(api_origin_is_host("null", "null"));
	cr_expect_not(api_origin_is_host("", ""));
	cr_expect_not(api_origin_is_host("ftp://weir", "weir"));
}
