/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The challenges of an authenticated job: the system is asked for random bytes when the job is made, and
 * never by a worker; no challenge comes twice, whatever else happens.
 */
#include "tests/eal/auth_rig.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_bool no_random; /* the system has none any more */
static atomic_uint keys; /* of 32 bytes that it gave, while it had some */
static atomic_uint asked; /* while it had none */

/* In place of the C library's, for the engines too. */
ssize_t
getrandom(void *to, size_t bytes, unsigned int flags)
{
	if (!atomic_load(&no_random)) {
		atomic_fetch_add(&keys, bytes == WEIR_KEY_BYTES);
		return syscall(SYS_getrandom, to, bytes, flags);
	}
	atomic_fetch_add(&asked, 1);
	errno = ENOSYS;
	return -1;
}

#define GENERATIONS 6

static void
generations(unsigned int workers)
{
	uint8_t seen[GENERATIONS][16];

	start_with(workers, 8, PPE_POLICY_WAIT, 1000);
	cr_expect_eq(atomic_load(&keys), 1, "the challenges are made with what is drawn once");
	atomic_store(&no_random, true);
	for (unsigned int g = 0; g < GENERATIONS; g++) {
		enter();
		whole_block(0, 8);
		memcpy(seen[g], now.challenge, 16);
		for (unsigned int former = 0; former < g; former++)
			cr_expect_neq(memcmp(seen[g], seen[former], 16), 0, "%u is %u", g, former);
	}
	cr_expect_eq(
		atomic_load(&asked), 0, "a worker asked the system %u times", atomic_load(&asked));
	atomic_store(&no_random, false);
	stop();
}

CASE(ppe_auth_challenge, one_worker, generations(1))
CASE(ppe_auth_challenge, two_workers, generations(2))
