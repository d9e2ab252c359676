/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The same AllReduce from C++17: a handle that closes itself, and exceptions for errors. The library itself
 * throws nothing.
 */
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <vector>

#include <weir.h>

using communicator = std::unique_ptr<weir, decltype(&weir_close)>;

static communicator
join()
{
	weir_config config{}; /* the rest is in the environment */
	weir *handle;
	int code = weir_open(&config, &handle);
	communicator made(handle, weir_close);

	if (code != 0)
		throw std::runtime_error(weir_last_error(handle));
	return made;
}

static void
sum(const communicator &with, std::vector<float> &values)
{
	if (weir_allreduce(with.get(), values.data(), values.data(), values.size(), WEIR_DTYPE_FP32,
		    WEIR_OP_SUM) != 0)
		throw std::runtime_error(weir_last_error(with.get()));
}

int
main()
try {
	communicator job = join();
	unsigned int rank = weir_rank(job.get()), ranks = weir_sources(job.get()), wrong = 0;
	std::vector<float> values(1000, static_cast<float>(rank));

	sum(job, values);
	for (float value : values)
		wrong += value != static_cast<float>(ranks * (ranks - 1) / 2);
	std::printf(
		"allreduce.cc: rank %u of %u: %s\n", rank, ranks, wrong == 0 ? "right" : "WRONG");
	return wrong != 0;
} catch (const std::exception &error) {
	std::fprintf(stderr, "allreduce.cc: %s\n", error.what());
	return 1;
}
