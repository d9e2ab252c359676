/* SPDX-License-Identifier: BSD-3-Clause */
#include "ppe/collective/table.h"

#define ROW(name, contribution_, result_, to_)                                                     \
	[WEIR_COLLECTIVE_##name] = {                                                               \
		.contribution = CONTRIBUTION_##contribution_,                                      \
		.result = RESULT_##result_,                                                        \
		.to = TO_##to_,                                                                    \
		.served = true,                                                                    \
		.rooted =                                                                          \
			CONTRIBUTION_##contribution_ == CONTRIBUTION_ROOT || TO_##to_ == TO_ROOT,  \
	}

/* What is no collective carries nothing: acknowledgements, and numbers that mean nothing. */
const struct collective_row collective_table[16] = {
	ROW(ALLREDUCE, REDUCE, WHOLE, ALL),
	ROW(REDUCE, REDUCE, WHOLE, ROOT),
	ROW(REDUCESCATTER, REDUCE, SLICE, EACH),
	ROW(BROADCAST, ROOT, WHOLE, ALL),
	ROW(SCATTER, ROOT, SLICE, EACH),
	ROW(GATHER, SLICE, WHOLE, ROOT),
	ROW(ALLGATHER, SLICE, WHOLE, ALL),
	ROW(ALLTOALL, ROW, COLUMN, EACH),
	ROW(BARRIER, NOTHING, NOTHING, ALL),
};
