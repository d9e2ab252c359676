/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/stragglers/train.h"

#include <errno.h>

/* Large, so not on the stack; zero. */
static struct train_run run;

static enum train_exit
train(const struct train_options *options, struct weir *weir)
{
	unsigned int rank = weir == NULL ? 0 : weir_source(weir);
	unsigned int ranks = weir == NULL ? options->weir.sources : weir_sources(weir);
	enum train_exit status;
	int code;

	run.rank = rank;
	if (rank >= ranks) {
		train_say(&run, "the job has %u sources, and weir-train needs them numbered from 0",
			ranks);
		return TRAIN_FAILED;
	}
	code = train_prepare(&run, options, weir, rank, ranks);
	if (code < 0)
		return code == -EINVAL ? TRAIN_USAGE : TRAIN_FAILED;
	train_report_header(&run);
	code = weir == NULL ? train_run_alone(&run) : train_run_switch(&run);
	train_report_end(&run);
	status = code < 0 || run.parted ? TRAIN_FAILED : run.reached ? TRAIN_REACHED : TRAIN_MISSED;
	if (train_report_json(&run, code < 0 && weir != NULL ? weir_last_error(weir) : NULL) < 0)
		status = TRAIN_FAILED;
	return status;
}

int
main(int argc, char **argv)
{
	struct train_options options;
	struct weir *weir = NULL;
	enum train_exit status;
	int code = train_options_parse(&options, argc, argv);

	if (code != 0)
		return code - 1;
	if (!options.alone && weir_open(&options.weir, &weir) < 0) {
		run.options = &options;
		run.rank = options.weir.source < 0 ? 0 : (unsigned int)options.weir.source;
		train_say(&run, "%s", weir_last_error(weir));
		(void)train_report_json(&run, weir_last_error(weir));
		weir_close(weir);
		return TRAIN_FAILED;
	}
	status = train(&options, weir);
	train_destroy(&run);
	weir_close(weir);
	return (int)status;
}
