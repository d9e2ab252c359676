/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans and frames of captures: what is refused, and every byte of what is written. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <pcap/pcap.h>

#include "apps/capture/capture.h"

static const struct capture_spec nothing = {.job_id = CAPTURE_UNSET,
	.sources = CAPTURE_UNSET,
	.window = CAPTURE_UNSET,
	.elements = CAPTURE_UNSET,
	.generation = CAPTURE_UNSET,
	.block_bits = CAPTURE_UNSET,
	.blocks = CAPTURE_UNSET,
	.frames = CAPTURE_UNSET,
	.stations = CAPTURE_UNSET,
	.seed = 1};

static struct plan
must_plan(const struct capture_spec *spec)
{
	char error[CAPTURE_ERROR_BYTES] = "";
	struct plan plan;

	cr_assert_eq(plan_make(&plan, spec, error), 0, "%s", error);
	return plan;
}

static void
refuse(const struct capture_spec *spec, const char *reason)
{
	char error[CAPTURE_ERROR_BYTES] = "";
	struct plan plan;

	cr_expect_eq(plan_make(&plan, spec, error), -EINVAL, "%s: taken", reason);
	cr_expect_not_null(strstr(error, reason), "\"%s\" is not in: %s", reason, error);
}

/* The ones-complement sum of big-endian words; of whole headers with their checksum: 0xffff. */
static uint32_t
ones(const uint8_t *p, size_t n, uint32_t sum)
{
	for (size_t i = 0; i < n; i++)
		sum += i % 2 == 0 ? (uint32_t)p[i] << 8 : p[i];
	while (sum > 0xffff)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static void
check_datagram(const uint8_t *f, size_t data)
{
	cr_expect_eq(weir_get16(f + 12), 0x0800);
	cr_expect_eq(f[14], 0x45);
	cr_expect_eq(weir_get16(f + 16), 28 + data);
	cr_expect_eq(ones(f + 14, 20, 0), 0xffff);
	cr_expect_eq(weir_get16(f + 38), 8 + data);
	cr_expect_eq(ones(f + 26, 8, ones(f + 34, 8 + data, 17 + 8 + (uint32_t)data)), 0xffff);
}

Test(capture_plan, defaults, .timeout = 90)
{
	struct plan plan = must_plan(&nothing);

	cr_expect_eq(plan.job.id, 1);
	cr_expect_eq(plan.nb_sources, 2);
	cr_expect_eq(plan.blocks, 256, "4 windows");
	cr_expect_eq(plan.job.fixed_generation, 1);
	cr_expect_eq(plan.job.address[1], 0x0a4d0002u);
	cr_expect_eq(plan.to.ip, 0x0a4d00feu);
	cr_expect_eq(plan_frame_bytes(&plan), 14u + 20 + 8 + 12 + 1024);
}

Test(capture_plan, wrong_specs_are_refused, .timeout = 90)
{
	struct capture_spec w;

#define REFUSE(reason, ...)                                                                        \
	do {                                                                                       \
		w = nothing;                                                                       \
		__VA_ARGS__;                                                                       \
		refuse(&w, reason);                                                                \
	} while (0)
	REFUSE("63 is not a power of two", w.window = 63);
	REFUSE("8 bits hold less than 4 windows of 128", w.window = 128, w.block_bits = 8);
	REFUSE("source 253 would have the switch's address", w.sources = 254);
	REFUSE("has no source 2", w.only = "0-2");
	REFUSE("\"x\" is not a list", w.only = "x");
	REFUSE("\"0-\" is not a list", w.only = "0-");
	REFUSE("\"0;1\" is not a list", w.only = "0;1");
	REFUSE("\"1-0\" names no source", w.only = "1-0");
	REFUSE("exclude each other", w.endless = true, w.blocks = 3);
	REFUSE("--job names a job", w.job = "two");
	REFUSE("go with --ordinary", w.frames = 3);
	REFUSE("at least 64 bytes", w.sizes = "63");
	REFUSE("is not a list such as", w.sizes = "64,");
	REFUSE("leave --only out", w.sizes = "64", w.only = "0");
	REFUSE("leave --first out", w.sizes = "64", w.first = 1);
	REFUSE("leave --order out", w.sizes = "64", w.order = 1);
	REFUSE("leave --duplicates out", w.sizes = "64", w.duplicates = 1);
	REFUSE("leave --extended out", w.sizes = "64", w.extended = true);
	REFUSE("excludes --job-id", w.config = "x.json", w.window = 64);
	REFUSE("is not a MAC address", w.switch_mac = "02:57");
#undef REFUSE
}

Test(capture_plan, a_list_of_sources, .timeout = 90)
{
	struct capture_spec w = nothing;
	static const uint8_t want[] = {0, 3, 4, 5};
	struct plan plan;

	w.sources = 8;
	w.only = "3-5,0";
	plan = must_plan(&w);
	cr_assert_eq(plan.nb_sources, 4);
	cr_assert_arr_eq(plan.source, want, 4);
}

/* A configuration in a file of its own; removed by whoever calls. */
static void
write_config(char path[64], const char *job)
{
	FILE *file;

	snprintf(path, 64, "/tmp/weir-capture-%d.json", (int)getpid());
	file = fopen(path, "w");
	cr_assert_not_null(file);
	fprintf(file,
		"{ \"switch\": { \"address\": \"10.9.0.1/24\", \"mac\": \"02:00:00:00:00:07\", "
		"\"port_base\": 7000 }, \"ports\": [{ \"name\": \"p\", \"device\": \"net_null0\" "
		"}],"
		" \"jobs\": [{ \"id\": 5, \"name\": \"five\", \"elements\": 30, \"type\": "
		"\"int32\", "
		"\"sources\": [{ \"id\": 9, \"address\": \"10.9.0.77\" }]%s }] }",
		job);
	fclose(file);
}

Test(capture_plan, a_configuration_tells_the_job, .timeout = 90)
{
	struct capture_spec w = nothing;
	struct plan plan;
	char path[64], path_error[CAPTURE_ERROR_BYTES];

	write_config(path, ", \"generation\": 3, \"block_bits\": 10");
	w.config = path;
	plan = must_plan(&w);
	cr_expect_eq(plan.job.fixed_generation, 3);
	cr_expect_eq(plan.blocks, 1024, "every id once");
	cr_expect_eq(plan.nb_sources, 1);
	cr_expect_eq(plan.source[0], 9);
	cr_expect_eq(plan.job.address[9], 0x0a09004du);
	cr_expect_eq(plan.to.port_base, 7000);
	cr_expect_eq(plan.to.mac[5], 7);
	w.job = "5";
	must_plan(&w);
	w.job = "five";
	must_plan(&w);
	w.job = "six";
	refuse(&w, "there is no job \"six\"");
	w.job = NULL;
	w.elements = 31;
	refuse(&w, "job \"five\" has 30 at most");
	write_config(path, "");
	w.elements = CAPTURE_UNSET;
	refuse(&w, "begins with joins");
	unlink(path);
	cr_expect_eq(plan_make(&plan, &w, path_error), -ENOENT);
}

static void
check_contribution(bool extended, const char *type, unsigned int elements)
{
	struct capture_spec w = nothing;
	struct weir_header h = {.extended = extended};
	static const uint8_t macs[] = {
		0x02, 0x57, 0x45, 0x49, 0x52, 0x01, 0x02, 0x48, 0, 0, 0x01, 0x00};
	uint8_t frame[2048], payload[2048];
	struct plan plan;
	size_t head, bytes;

	w.extended = extended;
	w.type = type;
	w.elements = elements;
	w.sources = 256;
	w.block_bits = 12;
	w.address = "10.77.4.0";
	plan = must_plan(&w);
	bytes = plan_frame_bytes(&plan);
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
		check_contribution(extended, "int32", 256);
		check_contribution(extended, "fp32", 1);
		check_contribution(extended, "fp32", 0);
	}
}

/* fp32 sums come out the same whichever source is first: they are exact. */
Test(capture_frame, results_are_sums_in_any_order, .timeout = 90)
{
	struct capture_spec w = nothing;
	float result[256], one[256];
	double backwards[256] = {0};
	struct plan plan;
	double total = 0;

	w.sources = 250;
	plan = must_plan(&w);
	frame_result(&plan, 41, (uint8_t *)result);
	for (int s = 249; s >= 0; s--) {
		frame_payload(&plan, (uint8_t)s, 41, (uint8_t *)one);
		for (unsigned int i = 0; i < 256; i++)
			backwards[i] += (double)one[i];
	}
	for (unsigned int i = 0; i < 256; i++) {
		cr_assert_eq((double)result[i], backwards[i], "element %u", i);
		total += backwards[i];
	}
	cr_assert_eq(total, frame_total(&plan, (uint8_t *)result));
	cr_assert_neq(total, 0);
}

Test(capture_frame, ordinary_frames, .timeout = 90)
{
	static const uint16_t sizes[] = {64, 128, 256, 512, 1024, 1280, 1518, 9000};
	static uint8_t frame[CAPTURE_FRAME_MAX], back[CAPTURE_FRAME_MAX];
	struct capture_spec w = nothing;
	struct plan plan;

	w.sizes = "64,128,256,512,1024,1280,1518,9000";
	w.stations = 2;
	plan = must_plan(&w);
	cr_expect_eq(plan.frames, 16, "%u", (unsigned int)plan.frames);
	for (unsigned int i = 0; i < 16; i++) {
		size_t bytes = frame_ordinary(&plan, i, frame);

		cr_expect_eq(bytes, sizes[i % 8] - 4u);
		check_datagram(frame, bytes - 42);
		cr_expect_eq(frame[11], 1 + i / 8, "station");
		plan.reverse = true;
		frame_ordinary(&plan, i, back);
		plan.reverse = false;
		cr_expect_arr_eq(frame, back + 6, 6);
		cr_expect_arr_eq(frame + 6, back, 6);
		cr_expect_arr_eq(frame + 26, back + 30, 4);
	}
}

static void
check_file(bool nanoseconds)
{
	char path[64], error[PCAP_ERRBUF_SIZE] = "";
	struct output_config config = {
		.path = path, .nanoseconds = nanoseconds, .gap_ns = 1000000500};
	uint8_t frame[60] = {1, 2, 3};
	struct pcap_pkthdr *header;
	struct output *output;
	const u_char *bytes;
	pcap_t *file;

	snprintf(path, sizeof(path), "/tmp/weir-capture-%d.pcap", (int)getpid());
	cr_assert_eq(output_open(&output, &config), 0);
	for (unsigned int i = 0; i < 3; i++)
		cr_assert_eq(output_frame(output, frame, sizeof(frame)), 0);
	cr_assert_eq(output_close(output), 0);
	file = pcap_open_offline_with_tstamp_precision(path, PCAP_TSTAMP_PRECISION_NANO, error);
	unlink(path);
	cr_assert_not_null(file, "%s", error);
	for (unsigned int i = 0; i < 3; i++) {
		cr_assert_eq(pcap_next_ex(file, &header, &bytes), 1);
		cr_expect_eq(header->len, 60);
		cr_expect_arr_eq(bytes, frame, sizeof(frame));
		cr_expect_eq(header->ts.tv_sec, (time_t)i);
		cr_expect_eq(header->ts.tv_usec, nanoseconds ? i * 500 : i * 500 / 1000 * 1000);
	}
	cr_expect_eq(pcap_next_ex(file, &header, &bytes), PCAP_ERROR_BREAK);
	pcap_close(file);
}

Test(capture_output, libpcap_reads_it, .timeout = 90)
{
	check_file(false);
	check_file(true);
}

Test(capture_output, a_place_that_does_not_exist, .timeout = 90)
{
	struct output_config config = {.path = "/tmp/weir-none/x.pcap"};
	struct output *output;

	cr_expect_eq(output_open(&output, &config), -ENOENT);
	cr_expect_eq(output_close(NULL), 0);
}
