/* SPDX-License-Identifier: BSD-3-Clause */
/* Gloo's side: TCP. Arguments: INTERFACE RENDEZVOUS_FOLDER RANK RANKS. */
#include "apps/compare/bench.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

static std::shared_ptr<gloo::rendezvous::Context> context;
static std::unique_ptr<gloo::Algorithm> prepared; /* an algorithm that is made for its buffers */

/* Call Gloo, which throws. */
template <typename F>
static int
guarded(F &&f)
{
	try {
		f();
	} catch (const std::exception &error) {
		return bench_fail(error.what());
	}
	return 0;
}

int
system_open(int argc, char **argv, unsigned int *rank, unsigned int *ranks)
{
	if (argc != 4)
		return bench_fail("needs four arguments");
	*rank = (unsigned int)atoi(argv[2]);
	*ranks = (unsigned int)atoi(argv[3]);
	return guarded([&] {
		gloo::transport::tcp::attr attributes;

		attributes.iface = argv[0];
		attributes.ai_family = AF_INET;
		std::shared_ptr<gloo::transport::Device> device =
			gloo::transport::tcp::CreateDevice(attributes);
		gloo::rendezvous::FileStore store(argv[1]);
		context = std::make_shared<gloo::rendezvous::Context>(*rank, *ranks);
		context->setTimeout(std::chrono::seconds(60));
		context->connectFullMesh(store, device);
	});
}

template <typename T>
static void
prepare(const struct bench_operation *operation)
{
	prepared.reset();
	if (strcmp(operation->algorithm, "halving") == 0)
		prepared.reset(new gloo::AllreduceHalvingDoubling<T>(context,
			std::vector<T *>{static_cast<T *>(operation->call.recv)},
			(int)operation->call.count));
}

template <typename T>
static void
allreduce(const struct bench_operation *operation)
{
	const struct weir_call &c = operation->call;

	if (prepared) { /* these are in place only */
		memcpy(c.recv, c.send, c.count * sizeof(T));
		prepared->run();
		return;
	}
	gloo::AllreduceOptions options(context);
	options.setInput(const_cast<T *>(static_cast<const T *>(c.send)), c.count);
	options.setOutput(static_cast<T *>(c.recv), c.count);
	options.setReduceFunction(
		static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<T>));
	options.setAlgorithm(strcmp(operation->algorithm, "bcube") == 0
			? gloo::AllreduceOptions::Algorithm::BCUBE
			: gloo::AllreduceOptions::Algorithm::RING);
	gloo::allreduce(options);
}

int
system_prepare(const struct bench_operation *operation)
{
	return guarded([&] {
		operation->call.dtype == WEIR_DTYPE_FP32 ? prepare<float>(operation)
							 : prepare<int32_t>(operation);
	});
}

int
system_run(const struct bench_operation *operation)
{
	const struct weir_call &c = operation->call;

	if (c.collective == WEIR_COLLECTIVE_BROADCAST)
		return guarded([&] { /* 4 bytes are 4 bytes */
			gloo::BroadcastOptions options(context);

			options.setOutput(static_cast<int32_t *>(c.recv), c.count);
			options.setRoot(0);
			gloo::broadcast(options);
		});
	if (c.collective != WEIR_COLLECTIVE_ALLREDUCE)
		return bench_fail("only allreduce and broadcast are compared");
	return guarded([&] {
		c.dtype == WEIR_DTYPE_FP32 ? allreduce<float>(operation)
					   : allreduce<int32_t>(operation);
	});
}

int
system_barrier(void)
{
	return guarded([] {
		gloo::BarrierOptions options(context);
		gloo::barrier(options);
	});
}

void
system_close(void)
{
	prepared.reset();
	context.reset();
}
