/* SPDX-License-Identifier: BSD-3-Clause */
/* Weir's side. Arguments: SWITCH_ADDRESS OWN_ADDRESS JOB SOURCE SOURCES. */
#include "apps/compare/bench.h"

#include <stdlib.h>

static struct weir *weir;

static int
checked(int code)
{
	return code == 0 ? 0 : bench_fail(weir_last_error(weir));
}

int
system_open(int argc, char **argv, unsigned int *rank, unsigned int *ranks)
{
	struct weir_config config = {0};

	if (argc != 5)
		return bench_fail("needs five arguments");
	config.switch_address = argv[0];
	config.address = argv[1];
	config.job = (uint8_t)atoi(argv[2]);
	config.source = atoi(argv[3]);
	config.sources = (unsigned int)atoi(argv[4]);
	*rank = (unsigned int)config.source;
	*ranks = config.sources;
	return checked(weir_open(&config, &weir));
}

int
system_run(const struct bench_operation *operation)
{
	return checked(weir_collective(weir, &operation->call, NULL));
}

int
system_barrier(void)
{
	return checked(weir_barrier(weir));
}

void
system_close(void)
{
	weir_close(weir);
}
