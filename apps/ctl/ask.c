/* SPDX-License-Identifier: BSD-3-Clause */
/* The switch's address, requests to it, and what went wrong with them. */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "apps/ctl/ctl.h"
#include "apps/ctl/get.h"

/* Of the environment; NULL: it is not set, or to nothing. */
static const char *
variable(const char *name)
{
	const char *value = getenv(name);

	return value == NULL || value[0] == '\0' ? NULL : value;
}

/* One line without blanks; http.c checks the rest. */
static bool
read_token(struct ctl *ctl, const char *name)
{
	FILE *file = fopen(name, "re");
	size_t length;

	ctl->token_from = name;
	if (file == NULL) {
		ctl_say("token file %s: %s", name, strerror(errno));
		return false;
	}
	length = fread(ctl->token, 1, sizeof(ctl->token), file);
	fclose(file);
	while (length > 0 && strchr(" \t\r\n", ctl->token[length - 1]) != NULL)
		length--;
	if (length == 0 || length == sizeof(ctl->token)) {
		ctl_say("token file %s: must contain one token, a line without blanks", name);
		return false;
	}
	ctl->token[length] = '\0';
	return true;
}

static int
is_socket(const struct dirent *entry)
{
	return entry->d_type == DT_SOCK;
}

/* The only socket in CTL_FOLDER. */
static bool
find_socket(char *address, size_t size)
{
	struct dirent **found = NULL;
	int count = scandir(CTL_FOLDER, &found, is_socket, alphasort);
	char names[512] = "";

	for (int i = 0; i < count; i++) {
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
			i > 0 ? ", " : "", found[i]->d_name);
		free(found[i]);
	}
	free(found);
	if (count < 1)
		ctl_say("no socket in " CTL_FOLDER ": is the switch running, and does its "
			"configuration have a section \"api\"? -s or WEIR_SWITCH names another "
			"address");
	else if (count > 1)
		ctl_say("%d switches in " CTL_FOLDER ": %s; choose one with -s unix:" CTL_FOLDER
			"/NAME",
			count, names);
	snprintf(address, size, "unix:" CTL_FOLDER "/%s", names);
	return count == 1;
}

json_t *
ctl_load(const char *name)
{
	bool input = strcmp(name, "-") == 0;
	json_error_t error;
	json_t *root = input ? json_loadf(stdin, JSON_REJECT_DUPLICATES, &error)
			     : json_load_file(name, JSON_REJECT_DUPLICATES, &error);

	if (root == NULL && json_error_code(&error) == json_error_cannot_open_file)
		ctl_say("%s", error.text);
	else if (root == NULL)
		ctl_say("%s:%d:%d: %s", input ? "standard input" : name,
			error.line < 1 ? 1 : error.line, error.column < 1 ? 1 : error.column,
			error.text);
	return root;
}

/* The first Unix socket of a switch's configuration. Other errors of the file are the switch's to report. */
static bool
find_socket_of(const char *file, char *address, size_t size)
{
	json_t *root = ctl_load(file), *api = json_object_get(root, "api");
	json_t *listeners = json_object_get(api, "listen"), *one;
	const char *name = get_text(root, "switch.name");
	size_t i;

	address[0] = '\0';
	if (json_is_object(api) && listeners == NULL && strcmp(name, "-") != 0)
		snprintf(address, size, "unix:" CTL_FOLDER "/%s.sock", name);
	json_array_foreach (listeners, i, one)
		if (address[0] == '\0' && json_is_string(one) &&
			strncmp(json_string_value(one), "unix:", 5) == 0)
			snprintf(address, size, "%s", json_string_value(one));
	if (address[0] == '\0' && root != NULL)
		ctl_say("%s: the switch listens on no Unix socket: the section \"api\" needs a "
			"\"listen\" with unix:PATH",
			file);
	json_decref(root);
	return address[0] != '\0';
}

bool
ctl_token_is_for(const char *address)
{
	const char *named = variable("WEIR_SWITCH");

	return named != NULL ? strcmp(named, address) == 0 : strncmp(address, "http", 4) == 0;
}

int
ctl_connect(struct ctl *ctl)
{
	const struct ctl_options *o = &ctl->options;
	struct weir_http_config config = {.address = o->address, .ca_file = o->ca_file};
	const char *file = o->token_file;
	char why[512];
	bool token, follows = ctl->token_from != NULL;

	ctl->token_from = NULL;
	if (config.address == NULL && o->config == NULL)
		config.address = variable("WEIR_SWITCH");
	if (config.ca_file == NULL)
		config.ca_file = variable("WEIR_CA");
	if (config.address == NULL) {
		if (!(o->config != NULL ? find_socket_of(o->config, ctl->found, sizeof(ctl->found))
					: find_socket(ctl->found, sizeof(ctl->found))))
			return CTL_NO_CONNECTION;
		config.address = ctl->found;
	}
	ctl->address = config.address;
	/* The same variables as libweir's, in the same order. */
	if (o->no_token)
		file = NULL;
	else if (file == NULL && !follows && !ctl_token_is_for(config.address))
		; /* the environment's token is for another switch */
	else if (file == NULL && (config.token = variable("WEIR_TOKEN")) != NULL)
		ctl->token_from = "WEIR_TOKEN";
	else if (file == NULL)
		file = variable("WEIR_TOKEN_FILE");
	if (file != NULL) {
		if (!read_token(ctl, file))
			return CTL_USAGE;
		config.token = ctl->token;
	}
	if (weir_http_open(&config, &ctl->http, why, sizeof(why)) == 0)
		return CTL_OK;
	token = ctl->token_from != NULL && strncmp(why, "the token", 9) == 0;
	ctl_say("%s%s%s", token ? ctl->token_from : "", token ? ": " : "", why);
	return CTL_USAGE;
}

int
ctl_connect_to(struct ctl *ctl, const struct ctl *like, const char *name, const char *address)
{
	*ctl = (struct ctl){.options = like->options,
		.name = name,
		.width = like->width,
		.token_from = like->token_from};
	ctl->options.address = address;
	ctl->options.config = NULL;
	ctl->options.json = false;
	return ctl_connect(ctl);
}

void
ctl_close(struct ctl *ctl)
{
	weir_http_close(ctl->http);
	explicit_bzero(ctl->token, sizeof(ctl->token));
}

static bool
take(void *to, const char *bytes, size_t length)
{
	return fwrite(bytes, 1, length, to) == length;
}

bool
ctl_request(struct ctl *ctl, const char *method, const char *path, const char *body, double more,
	size_t most, struct ctl_answer *answer)
{
	struct weir_http_request request = {
		.method = method,
		.path = path,
		.body = body,
		.timeout_ns = (uint64_t)((ctl->options.timeout + more) * 1e9),
		.take = take,
		.most = most,
	};
	char why[1024];
	FILE *to;
	int rc;

	*answer = (struct ctl_answer){0};
	request.to = to = open_memstream(&answer->body, &answer->length);
	if (to == NULL)
		err(CTL_REFUSED, "answer");
	rc = weir_http_request(ctl->http, &request, &answer->status, why, sizeof(why));
	ctl->answered = rc == 0 ? answer->status : 0;
	if (fclose(to) == 0 && rc == 0)
		return true;
	free(answer->body);
	ctl_say("%s", rc == 0 ? "out of memory" : why);
	ctl->status = CTL_NO_CONNECTION;
	return false;
}

double
ctl_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

char *
ctl_path(const char *before, const char *name, const char *after)
{
	char *escaped = weir_http_escape(name == NULL ? "" : name), *path;

	if (escaped == NULL || asprintf(&path, "%s%s%s", before, escaped, after) < 0)
		err(CTL_REFUSED, "path");
	free(escaped);
	return path;
}

void
ctl_say(const char *format, ...)
{
	static const char begin[] = "weirctl: ";
	va_list arguments;
	char *text, *line;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0 || asprintf(&line, "%s%s", begin, text) < 0)
		err(CTL_REFUSED, "message");
	va_end(arguments);
	get_clean(line);
	fflush(stdout);
	text_print(line, stderr, sizeof(begin) - 1, terminal_width());
	free(line);
	free(text);
}

/* What an operator can do about a refusal that its message can't say. */
static void
advise(const struct ctl *ctl, long status, const char *code)
{
	const char *token = ctl->token_from;

	if (status == 401 && token == NULL)
		ctl_say("the switch requires a tenant's token: --token-file FILE, or "
			"WEIR_TOKEN_FILE or WEIR_TOKEN with the switch's address in WEIR_SWITCH");
	else if (status == 401)
		ctl_say("the switch does not accept the token in %s", token);
	else if (status == 403 && token != NULL)
		ctl_say("the token in %s does not permit this", token);
	else if (status == 403)
		ctl_say("only an administrator may do this: use an administrator's token "
			"(--token-file FILE), or the switch's Unix socket as root");
	else if (strcmp(code, "unknown_job") == 0)
		ctl_say("weirctl jobs lists the jobs");
	else if (strcmp(code, "unknown_path") == 0)
		ctl_say("this switch may be older than weirctl " WEIR_VERSION);
}

void
ctl_refused(const struct ctl *ctl, const struct ctl_answer *answer)
{
	json_t *all = get_parsed(answer->body, answer->length);
	json_t *error = get(all, "error");
	const char *key = get_text(error, "key");
	const char *code = get_text(error, "code");

	if (json_is_string(get(all, "status"))) {
		ctl_say("the switch says: %s", get_text(all, "status"));
	} else if (!json_is_object(error)) {
		ctl_say("%s answers with HTTP status %ld, but not as a switch does", ctl->address,
			answer->status);
	} else {
		ctl_say("%s%s%s%s%s (%s)", ctl->name == NULL ? "" : ctl->name,
			ctl->name == NULL ? "" : ": ", key[0] == '-' ? "" : key,
			key[0] == '-' ? "" : ": ", get_text(error, "message"), code);
	}
	advise(ctl, answer->status, code);
	json_decref(all);
}

/* Parsed; NULL when it is not what a switch says. */
static json_t *
parse(const struct ctl *ctl, const struct ctl_answer *answer)
{
	json_t *all = get_parsed(answer->body, answer->length);

	if (!json_is_object(all)) {
		ctl_say("%s does not answer in JSON: is it a weir-switch?", ctl->address);
		json_decref(all);
		return NULL;
	}
	return all;
}

bool
ctl_lacks(const struct ctl *ctl, json_t *answer, const char *key)
{
	if (key == NULL || get(answer, key) != NULL)
		return false;
	ctl_say("the answer of %s has no \"%s\": it is not a weir-switch, or not of "
		"weirctl's version (" WEIR_VERSION ")",
		ctl->address, key);
	return true;
}

static bool
print_raw(struct ctl *ctl, const struct ctl_answer *answer)
{
	json_t *all = parse(ctl, answer);

	ctl->status = CTL_REFUSED;
	if (all == NULL)
		return false;
	json_decref(all);
	get_print(answer->body, answer->length, stdout);
	if (answer->length > 0 && answer->body[answer->length - 1] != '\n')
		putchar('\n');
	ctl->status = answer->status / 100 == 2 ? CTL_OK : CTL_REFUSED;
	return ctl->status == CTL_OK;
}

bool
ctl_ask(struct ctl *ctl, const char *method, const char *path, json_t *body, json_t **answer)
{
	char *text = body == NULL ? NULL : json_dumps(body, JSON_COMPACT), *target;
	bool answered, dry_run = ctl->options.dry_run && strcmp(method, "GET") != 0;
	struct ctl_answer raw;

	*answer = NULL;
	json_decref(body);
	if (asprintf(&target, "%s%s", path,
		    !dry_run                    ? ""
			    : strchr(path, '?') ? "&dry_run=1"
						: "?dry_run=1") < 0)
		err(CTL_REFUSED, "path");
	answered = ctl_request(ctl, method, target, text, 0, CTL_BODY_MAX, &raw);
	free(target);
	free(text);
	if (!answered)
		return false;
	if (raw.status / 100 != 2) {
		ctl_refused(ctl, &raw);
		ctl->status = CTL_REFUSED;
		/* Programs want the error as JSON. */
		if (ctl->options.json && raw.length > 0 && raw.body[0] == '{')
			print_raw(ctl, &raw);
	} else if (ctl->options.json) {
		print_raw(ctl, &raw);
	} else {
		*answer = parse(ctl, &raw);
		ctl->status = *answer == NULL ? CTL_REFUSED : CTL_OK;
		if (dry_run && *answer != NULL && ctl->name == NULL)
			puts("dry run, nothing changes:");
	}
	free(raw.body);
	return *answer != NULL;
}

bool
ctl_get(struct ctl *ctl, const char *path, json_t **answer)
{
	struct ctl_answer raw;
	bool missing = false;

	*answer = NULL;
	if (!ctl_request(ctl, "GET", path, NULL, 0, CTL_BODY_MAX, &raw))
		return false;
	ctl->status = CTL_REFUSED;
	if (raw.status == 404)
		missing = true;
	else if (raw.status == 200)
		*answer = parse(ctl, &raw);
	else
		ctl_refused(ctl, &raw);
	free(raw.body);
	return missing || *answer != NULL;
}
