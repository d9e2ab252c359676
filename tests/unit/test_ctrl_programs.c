/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of programs: which the switch loads, and why it refuses the others. */
#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bsd/string.h>

#include "ctrl/programs/child.h"
#include "ctrl/programs/file.h"
#include "ctrl/programs/programs.h"
#include "ctrl/programs/settings.h"

TestSuite(ctrl_programs, .timeout = 120);

static char folder[] = "/tmp/weir_programs_XXXXXX";
static struct ctrl_program_file file;

static void
set_up(void)
{
	ctrl_child_executable = WEIR_SWITCH;
	cr_assert_not_null(mkdtemp(folder));
}

static void
tear_down(void)
{
	char command[64];

	ctrl_program_close(&file);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	cr_expect_eq(system(command), 0);
}

/* The first bytes of a built file (0: all), as a file of the folder. */
static const char *
put(const char *name, const char *from, size_t bytes, mode_t mode)
{
	static char path[256];
	static char text[4 << 20];
	FILE *in, *out;
	size_t length;

	snprintf(path, sizeof(path), "%s/%s", LOADED, from);
	in = fopen(path, "r");
	cr_assert_not_null(in, "%s", path);
	length = fread(text, 1, bytes > 0 ? bytes : sizeof(text), in);
	fclose(in);
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	out = fopen(path, "w");
	cr_assert_not_null(out);
	cr_assert_eq(fwrite(text, 1, length, out), length);
	fclose(out);
	cr_assert_eq(chmod(path, mode), 0);
	return path;
}

static void
expect_refused(const char *name, const char *why)
{
	cr_expect_eq(ctrl_program_open(&file, folder, name), -EINVAL, "%s", name);
	cr_expect_not_null(strstr(file.reason, why), "%s: %s", name, file.reason);
	cr_expect_null(file.handle, "%s", name);
	ctrl_program_close(&file);
}

Test(ctrl_programs, a_program_is_loaded, .init = set_up, .fini = tear_down)
{
	put("loaded.so", "loaded.so", 0, 0644);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(ctrl_program_open(&file, folder, "loaded.so"), 0, "%s", file.reason);
		cr_expect_str_eq(file.program->name, "loaded");
		ctrl_program_close(&file);
	}
}

Test(ctrl_programs, its_file_may_be_overwritten, .init = set_up, .fini = tear_down)
{
	put("loaded.so", "loaded.so", 0, 0644);
	cr_assert_eq(ctrl_program_open(&file, folder, "loaded.so"), 0, "%s", file.reason);
	put("loaded.so", "loaded.so", 64, 0644);
	cr_expect_str_eq(file.program->settings[0].key, "port");
}

Test(ctrl_programs, names_are_plain, .init = set_up, .fini = tear_down)
{
	put("loaded.txt", "loaded.so", 0, 0644);
	expect_refused("../loaded.so", "is not the name of a file");
	expect_refused("/etc/passwd", "is not the name of a file");
	expect_refused(".hidden.so", "is not the name of a file");
	expect_refused("loaded.txt", "ends in .so");
	expect_refused("nowhere.so", "No such file or directory");
}

Test(ctrl_programs, others_may_write_nothing, .init = set_up, .fini = tear_down)
{
	const char *path = put("loaded.so", "loaded.so", 0, 0664);
	char link[64];

	expect_refused("loaded.so", "may be written by its group: chmod go-w");
	chmod(path, 0646);
	expect_refused("loaded.so", "may be written by all users");
	chmod(path, 0644);
	chmod(folder, 0770);
	expect_refused("loaded.so", "may be written by its group");
	chmod(folder, 0755);
	snprintf(link, sizeof(link), "%s/link.so", folder);
	cr_assert_eq(symlink(path, link), 0);
	expect_refused("link.so", "symbolic link");
	snprintf(link, sizeof(link), "%s/fifo.so", folder);
	cr_assert_eq(mkfifo(link, 0600), 0);
	expect_refused("fifo.so", "no regular file");
	if (geteuid() == 0) {
		cr_assert_eq(chown(path, 12345, 0), 0);
		expect_refused("loaded.so", "belongs to user 12345");
		cr_assert_eq(chown(path, 0, 0), 0);
		cr_assert_eq(chown(folder, 12345, 0), 0);
		expect_refused("loaded.so", "belongs to user 12345");
	}
}

/* Half of them crash the dynamic linker: the child's. */
Test(ctrl_programs, damaged_files_do_no_harm, .init = set_up, .fini = tear_down)
{
	char path[64];
	static const uint8_t arm64[2] = {183, 0}, bits32[1] = {1}, huge[8] = {0x77, 1};
	struct stat stat_of;
	int fd;

	snprintf(path, sizeof(path), "%s/loaded.so", folder);
	cr_assert_eq(stat(put("loaded.so", "loaded.so", 0, 0644), &stat_of), 0);
	for (off_t part = 1; part < 8; part++) {
		put("cut.so", "loaded.so", (size_t)(stat_of.st_size * part / 8), 0644);
		ctrl_program_open(&file, folder, "cut.so"); /* debuggers read what is at the end */
		ctrl_program_close(&file);
	}
	put("cut.so", "loaded.so", 20, 0644);
	expect_refused("cut.so", "does not begin as an ELF file");
	put("cut.so", "loaded.so", 4096, 0644);
	expect_refused("cut.so", "");
	fd = open(path, O_WRONLY);
	cr_assert_eq(pwrite(fd, arm64, 2, 18), 2);
	expect_refused("loaded.so", "for another machine (ELF 64, machine 183)");
	put("loaded.so", "loaded.so", 0, 0644);
	cr_assert_eq(pwrite(fd, bits32, 1, 4), 1);
	expect_refused("loaded.so", "for another machine (ELF 32");
	put("loaded.so", "loaded.so", 0, 0644);
	cr_assert_eq(pwrite(fd, huge, 8, 64 + 16), 8); /* the first segment's address */
	expect_refused("loaded.so", "");
	close(fd);
}

Test(ctrl_programs, other_objects_are_refused, .init = set_up, .fini = tear_down)
{
	static const struct {
		const char *from, *why;
	} rows[] = {
		{"no_symbol.so", "has no symbol weir_program"},
		{"undefined.so", "undefined symbol: ppe_no_such_function"},
		{"version.so", "it was built for version 2 of the contract of programs"},
		{"sizes.so", "other headers of version 1 of the contract"},
		{"crashes.so", "Segmentation fault: the file is damaged, or its constructor"},
		{"hangs.so", "takes longer than 3 s: does its constructor wait?"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		put(rows[i].from, rows[i].from, 0, 0644);
		expect_refused(rows[i].from, rows[i].why);
	}
}

/* -- settings */

static void
expect_wrong(const char *text, const char *path, enum ctrl_wrong wrong, const char *why)
{
	json_t *object = json_loads(text, 0, NULL);
	struct ctrl_error error = {0};
	struct ppe_value *values;

	cr_expect_eq(ctrl_program_settings_read(
			     file.program, object, "programs[3].settings", &values, &error),
		-EINVAL, "%s", text);
	cr_expect_str_eq(ctrl_error_path(&error).text, path);
	cr_expect_eq(error.wrong, wrong, "%s", text);
	cr_expect_not_null(strstr(error.text, why), "%s: %s", text, error.text);
	cr_expect_null(values);
	json_decref(object);
}

Test(ctrl_programs, settings_are_keys_as_all_others, .init = set_up, .fini = tear_down)
{
	json_t *object = json_pack("{s:i, s:s, s:b, s:s, s:s}", "port", 2048, "then", "drop",
		       "quick", 1, "peer", "0.0.0.0", "label", "a b"),
	       *shown;
	struct ctrl_error error = {0};
	struct ppe_value *values;

	put("loaded.so", "loaded.so", 0, 0644);
	cr_assert_eq(ctrl_program_open(&file, folder, "loaded.so"), 0, "%s", file.reason);
	cr_assert_eq(ctrl_program_settings_read(file.program, object, "", &values, &error), 0);
	cr_expect_eq(values[0].number, 2048);
	cr_expect_eq(values[1].number, 1);
	cr_expect_eq(values[2].number, 1);
	cr_expect_eq(values[3].number, 0);
	cr_expect_str_eq(values[4].text, "a b");
	shown = ctrl_program_settings_json(file.program, values);
	cr_expect(json_equal(shown, object));
	json_decref(shown);
	free(values);
	cr_assert_eq(ctrl_program_settings_read(file.program, NULL, "", &values, &error), 0);
	cr_expect_eq(values[0].number, 48864);
	cr_expect_eq(values[1].number, 0);
	cr_expect_eq(values[3].number, 0xef010203);
	cr_expect_str_eq(values[4].text, "");
	free(values);
	json_decref(object);
	expect_wrong("{\"port\": 0}", "programs[3].settings.port", CTRL_WRONG_VALUE,
		"0 is not in 1024..65535");
	expect_wrong("{\"port\": \"x\"}", "programs[3].settings.port", CTRL_WRONG_TYPE,
		"a string where an integer belongs");
	expect_wrong("{\"prot\": 1}", "programs[3].settings.prot", CTRL_WRONG_KEY,
		"did you mean \"port\"?");
	expect_wrong("{\"then\": \"fly\"}", "programs[3].settings.then", CTRL_WRONG_VALUE,
		"not one of consume, drop");
	expect_wrong("{\"peer\": \"10.0\"}", "programs[3].settings.peer", CTRL_WRONG_VALUE,
		"not an IPv4 address");
	expect_wrong("{\"label\": \"0123456789abcdef\"}", "programs[3].settings.label",
		CTRL_WRONG_VALUE, "16 characters are not in 0..15");
}

Test(ctrl_programs, a_setting_without_default_is_required)
{
	static const struct ppe_setting settings[] = {
		{"slots", PPE_SETTING_INTEGER, NULL, 1, 4096, NULL, NULL, ""}, {0}};
	static const struct ppe_program program = {.name = "x", .settings = settings};

	file.program = &program;
	expect_wrong("{}", "programs[3].settings.slots", CTRL_MISSING_KEY, "this key is required");
}

/* In a configuration: with line and column. */
Test(ctrl_programs, a_configuration_names_the_place, .init = set_up, .fini = tear_down)
{
	static const struct {
		const char *entry, *why;
	} rows[] = {
		{"\"settings\": {\n  \"port\": 80}, \"file\": \"loaded.so\"",
			":4:11: programs[0].settings.port: 80 is not in 1024..65535"},
		{"\n\"file\": \"version.so\"",
			":4:9: programs[0].file: it was built for version 2"},
		{"\"file\": \"none.so\"", ":3:23: programs[0].file: "},
	};
	char path[64], error[CTRL_ERROR_BYTES];
	struct ctrl_program *list;
	struct ctrl_config *config;

	put("loaded.so", "loaded.so", 0, 0644);
	put("version.so", "version.so", 0, 0644);
	snprintf(path, sizeof(path), "%s/x.json", folder);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		FILE *out = fopen(path, "w");

		fprintf(out,
			"{\"switch\": {\"address\": \"10.77.0.254/24\"},\n\"ports\": [{\"name\": "
			"\"p0\", \"device\": \"net_null0\"}], \"program_directory\": \"%s\",\n"
			"\"programs\": [{%s}]}",
			folder, rows[i].entry);
		fclose(out);
		cr_assert_eq(ctrl_config_load(path, &config, error, sizeof(error)), 0, "%s", error);
		cr_expect_eq(
			ctrl_programs_open(config, path, &list, error, sizeof(error)), -EINVAL);
		cr_expect_not_null(strstr(error, rows[i].why), "%s", error);
		cr_expect_null(list);
		ctrl_config_destroy(config);
	}
}

Test(ctrl_programs, matches_in_words)
{
	static const struct {
		struct ppe_match match;
		const char *words;
	} rows[] = {
		{{0}, "every packet"},
		{{.conditions = PPE_MATCH_UDP_PORT, .udp_port = 48864, .udp_any = 15},
			"UDP ports 48864..48879"},
		{{.conditions = PPE_MATCH_UDP_PORT | PPE_MATCH_TO_SWITCH_IP, .udp_port = 5},
			"UDP port 5, to the switch's IPv4 address"},
		{{.conditions = PPE_MATCH_TO_SWITCH_IP | PPE_MATCH_TO_SWITCH_MAC}, "to the switch"},
		{{.conditions = PPE_MATCH_ETHER_TYPE, .ether_type = 0x88b5}, "EtherType 0x88b5"},
		{{.conditions = PPE_MATCH_IP_DST, .ip_dst = 0x0a000001, .ip_any = 0xff},
			"IPv4 destination 10.0.0.0/255.255.255.0"},
		{{.conditions = PPE_MATCH_IP_PROTO, .ip_proto = 6, .ip_proto_any = 16},
			"IP protocol 6 but for the bits 0x10"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_expect_str_eq(ctrl_match_text(&rows[i].match).text, rows[i].words);
}
