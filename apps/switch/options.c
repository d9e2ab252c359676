/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/switch/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctrl/config/keys.h"

static const char help[] =
	"weir-switch -c FILE [--check] [--forget-state] [--stats-file FILE]\n"
	"\n"
	"Run the switch that FILE configures, in the foreground, until SIGINT or SIGTERM.\n"
	"\n"
	"  -c, --config FILE      the configuration, JSON (docs/configuration.md)\n"
	"  -n, --check            check the configuration, print the memory it needs, and exit\n"
	"  -s, --stats-file FILE  write statistics to FILE as JSON, on SIGUSR1 and at the end\n"
	"      --forget-state     rename state.file to FILE.forgotten and start without it\n"
	"  -k, --keys             print all keys of a configuration as a table\n"
	"  -V, --version          print the version\n"
	"  -h, --help             print this\n"
	"\n"
	"SIGUSR1 prints statistics, SIGHUP reads the configuration again. \"weir-switch: ready\"\n"
	"means that packets flow. The last line is \"weir-switch: stopped, everything returned\",\n"
	"or lists what was not returned, with status 1. A wrong file ends with status 2.\n";

static void
print_keys(void)
{
	puts("| key | type | unit | default | range | meaning |");
	puts("| --- | --- | --- | --- | --- | --- |");
	for (size_t i = 0; i < ctrl_config_schema.count; i++) {
		ctrl_key_row(&ctrl_config_schema.keys[i], stdout);
		putchar('\n');
	}
}

static void __attribute__((noreturn)) wrong(const char *what)
{
	if (what != NULL)
		fprintf(stderr, "weir-switch: %s\n", what);
	fprintf(stderr, "try weir-switch --help\n");
	exit(2);
}

void
options_read(struct options *options, int argc, char **argv)
{
	static const struct option list[] = {
		{"config", required_argument, NULL, 'c'},
		{"check", no_argument, NULL, 'n'},
		{"stats-file", required_argument, NULL, 's'},
		{"forget-state", no_argument, NULL, 'F'},
		{"keys", no_argument, NULL, 'k'},
		{"version", no_argument, NULL, 'V'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int c;

	*options = (struct options){0};
	while ((c = getopt_long(argc, argv, "c:ns:kVh", list, NULL)) != -1) {
		switch (c) {
		case 'c': options->config = optarg; break;
		case 'n': options->check = true; break;
		case 'F': options->forget_state = true; break;
		case 's': options->stats_file = optarg; break;
		case 'k': print_keys(); exit(0);
		case 'V': puts("weir-switch " WEIR_VERSION); exit(0);
		case 'h': fputs(help, stdout); exit(0);
		default: wrong(NULL);
		}
	}
	if (optind < argc)
		wrong("unexpected argument");
	if (options->config == NULL)
		wrong("-c FILE is missing");
}
