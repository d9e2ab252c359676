/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans and frames of captures: what is refused, and every byte of what is written. */
#include <errno.h>
#include <unistd.h>

#include "apps/capture/capture.h"
#include "tests/unit/packet.h"

static const struct plan nothing = {.elements = CAPTURE_UNSET, .blocks = CAPTURE_UNSET, .seed = 1};

/* The configuration of a job, in a file. */
static const char *
configure(const char *job)
{
	static char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/tmp/weir-capture-%d.json", (int)getpid());
	file = fopen(path, "w");
	cr_assert_not_null(file);
	fprintf(file,
		"{ \"switch\": { \"address\": \"10.9.0.1/24\", \"mac\": \"02:00:00:00:00:07\", "
		"\"port_base\": 7000 }, \"ports\": [{ \"name\": \"p\", \"device\": \"net_null0\" "
		"}], \"jobs\": [%s] }",
		job);
	fclose(file);
	return path;
}

#define FIVE                                                                                       \
	"{ \"id\": 5, \"name\": \"five\", \"elements\": 30, \"type\": \"int32\", \"sources\": "    \
	"[{ \"id\": 9, \"address\": \"10.9.0.77\" }]"
#define EIGHT                                                                                      \
	"{ \"id\": 1, \"name\": \"eight\", \"window\": 32, \"generation\": 1, \"sources\": { "     \
	"\"count\": 8, \"first\": \"10.9.0.10\" } }"

static int
complete(struct plan *plan, const char *job, char *error)
{
	int rc;

	plan->config = configure(job);
	rc = plan_complete(plan, error);
	unlink(plan->config);
	return rc;
}

static void
refuse(const struct plan *wrong, const char *job, const char *reason)
{
	char error[CAPTURE_ERROR_BYTES] = "";
	struct plan plan = *wrong;

	cr_expect_eq(complete(&plan, job, error), -EINVAL, "%s: taken", reason);
	cr_expect_not_null(strstr(error, reason), "\"%s\" is not in: %s", reason, error);
}

static void
check_datagram(const uint8_t *f, size_t data)
{
	cr_expect_eq(weir_get16(f + 12), 0x0800);
	cr_expect_eq(f[14], 0x45);
	cr_expect_eq(weir_get16(f + 16), 28 + data);
	cr_expect_eq(packet_sum(0, f + 14, 20), 0xffff);
	cr_expect_eq(weir_get16(f + 38), 8 + data);
	cr_expect_eq(packet_sum(packet_sum(17 + 8 + (uint32_t)data, f + 26, 8), f + 34, 8 + data),
		0xffff);
}

Test(capture_plan, a_configuration_tells_the_job, .timeout = 90)
{
	static const char *const names[] = {NULL, "5", "five"};
	char error[CAPTURE_ERROR_BYTES] = "";

	for (unsigned int i = 0; i < 3; i++) {
		struct plan plan = nothing;

		plan.job_name = names[i];
		cr_assert_eq(
			complete(&plan, FIVE ", \"generation\": 3, \"block_bits\": 10 }", error), 0,
			"%s", error);
		cr_expect_eq(plan.job.fixed_generation, 3);
		cr_expect_eq(plan.blocks, 1024, "every id once");
		cr_expect_eq(plan.nb_sources, 1);
		cr_expect_eq(plan.source[0], 9);
		cr_expect_eq(plan.job.address[9], 0x0a09004du);
		cr_expect_eq(plan.to.port_base, 7000);
		cr_expect_eq(plan.to.mac[5], 7);
		cr_expect_eq(frame_bytes(&plan), 14u + 20 + 8 + 12 + 120);
	}
}

Test(capture_plan, defaults, .timeout = 90)
{
	char error[CAPTURE_ERROR_BYTES] = "";
	struct plan plan = nothing;

	cr_assert_eq(complete(&plan, EIGHT, error), 0, "%s", error);
	cr_expect_eq(plan.nb_sources, 8);
	cr_expect_eq(plan.blocks, 128, "4 windows");
	cr_expect_eq(plan.elements, 256);
	plan = nothing;
	plan.endless = true;
	cr_assert_eq(complete(&plan, EIGHT, error), 0, "%s", error);
	cr_expect_eq(plan.blocks, 0);
	plan = nothing;
	plan.only = "3-5,0";
	cr_assert_eq(complete(&plan, EIGHT, error), 0, "%s", error);
	cr_assert_eq(plan.nb_sources, 4);
	cr_assert_arr_eq(plan.source, ((const uint8_t[]){0, 3, 4, 5}), 4);
	plan = nothing;
	plan.config = "/nowhere.json";
	cr_expect_eq(plan_complete(&plan, error), -ENOENT);
}

Test(capture_plan, wrong_options_are_refused, .timeout = 90)
{
	struct plan w;

#define REFUSE(reason, job, ...)                                                                   \
	do {                                                                                       \
		w = nothing;                                                                       \
		__VA_ARGS__;                                                                       \
		refuse(&w, job, reason);                                                           \
	} while (0)
	REFUSE("has no source 8", EIGHT, w.only = "7-8");
	REFUSE("\"x\" is not a list", EIGHT, w.only = "x");
	REFUSE("\"0-\" is not a list", EIGHT, w.only = "0-");
	REFUSE("\"1-0\" names no source", EIGHT, w.only = "1-0");
	REFUSE("exclude each other", EIGHT, w.endless = true, w.blocks = 3);
	REFUSE("there is no job \"six\"", EIGHT, w.job_name = "six");
	REFUSE("has 2 jobs: name one", EIGHT ", " FIVE " }");
	REFUSE("job \"eight\" has 256 at most", EIGHT, w.elements = 257);
	REFUSE("begins with joins", FIVE " }");
	REFUSE("adds up neither int32 nor fp32", FIVE ", \"generation\": 1, \"op\": \"max\" }");
#undef REFUSE
}

/* The plan of a job of `sources`. */
static struct plan
plan_of(unsigned int sources, uint8_t dtype, unsigned int elements)
{
	struct plan plan = {.elements = elements,
		.seed = 1,
		.to = {.mac = {0x02, 0x57, 0x45, 0x49, 0x52, 0x01},
			.ip = 0x0a4d00fe,
			.port_base = 12000,
			.port_ext = 12001},
		.job = {.id = 1, .fixed_generation = 1, .dtype = dtype, .op = WEIR_OP_SUM}};

	for (unsigned int s = 0; s < sources; s++) {
		plan.job.members[s / 64] |= UINT64_C(1) << (s % 64);
		plan.job.address[s] = 0x0a4d0400 + s;
	}
	return plan;
}

static void
check_contribution(bool extended, uint8_t dtype, unsigned int elements)
{
	struct weir_header h = {.extended = extended};
	static const uint8_t macs[] = {
		0x02, 0x57, 0x45, 0x49, 0x52, 0x01, 0x02, 0x48, 0, 0, 0x01, 0x00};
	struct plan plan = plan_of(256, dtype, elements);
	_Alignas(16) uint8_t frame[2048];
	uint8_t payload[2048];
	size_t head, bytes;

	plan.extended = extended;
	plan.job.block_shift = 32 - 12;
	bytes = frame_bytes(&plan);
	frame_contribution(&plan, 255, 4096 + 77, frame);
	frame_payload(&plan, 255, 77, payload);
	head = weir_header_bytes(extended);
	cr_expect_arr_eq(frame, macs, sizeof(macs));
	check_datagram(frame, head + (size_t)elements * 4);
	cr_expect_eq(weir_get32(frame + 26), 0x0a4d04ffu);
	cr_expect_eq(weir_get16(frame + 36), extended ? 12001 : 12000);
	bytes = bytes == 60 ? 42 + head + (size_t)elements * 4 : bytes; /* padded */
	cr_expect_eq(bytes, 42 + head + (size_t)elements * 4);
	weir_header_read(&h, frame + 42);
	cr_expect_eq(h.block_id, 77, "modulo 2^12");
	cr_expect(h.job_id == 1 && h.src_id == 255 && h.gen_id == 1 && h.grad_cnt == elements);
	cr_expect(h.src_cnt == 0 && h.status == 0 && !h.degraded);
	if (extended)
		cr_expect(h.collective ==
				(elements > 0 ? WEIR_COLLECTIVE_ALLREDUCE
					      : WEIR_COLLECTIVE_BARRIER) &&
			h.dtype == plan.job.dtype && h.op == WEIR_OP_SUM);
	cr_expect_arr_eq(frame + 42 + head, payload, (size_t)elements * 4);
}

Test(capture_frame, contributions, .timeout = 90)
{
	for (unsigned int extended = 0; extended < 2; extended++) {
		check_contribution(extended, WEIR_DTYPE_INT32, 256);
		check_contribution(extended, WEIR_DTYPE_FP32, 1);
		check_contribution(extended, WEIR_DTYPE_FP32, 0);
	}
}
