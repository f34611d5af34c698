/* SPDX-License-Identifier: GPL-2.0 */
/*
 * options_read.c: reads the settings, from a file, the environment and the command line; later ones win. All of it may
 * be hostile: the file is read up to 16 KiB, and what an error line shows of it is short and printable.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zernel.h"

#define FILE_BYTES  (16 * 1024)
#define NAME_BYTES  32
#define SHOWN_BYTES 64 /* of somebody else's text in an error line, "..." and NUL included */
#define NEAR        2  /* edits that still make a suggestion */

/* Where reading stands. */
struct reader {
	struct zn_options *o;
	enum zn_option_origin from;
	const char *file;
	unsigned line;
	struct zn_str given; /* the name as the user wrote it */
	char *why;
};

static const struct zn_option *find_option(struct zn_str name, unsigned where)
{
	for (size_t i = 0; i < zn_option_count; i++)
		if (zn_option_table[i].where & where && strlen(zn_option_table[i].name) == name.len &&
			!memcmp(zn_option_table[i].name, name.at, name.len))
			return &zn_option_table[i];
	return NULL;
}

/* How many characters must be added, taken out or changed to make one name of the other. */
static unsigned count_edits(struct zn_str given, const char *name)
{
	unsigned row[NAME_BYTES], len = (unsigned)strlen(name);

	for (unsigned j = 0; j <= len; j++)
		row[j] = j;
	for (unsigned i = 0; i < given.len; i++) {
		unsigned diagonal = row[0];

		row[0] = i + 1;
		for (unsigned j = 1; j <= len; j++) {
			unsigned best = diagonal + (given.at[i] != name[j - 1]);

			diagonal = row[j];
			if (best > row[j] + 1)
				best = row[j] + 1;
			if (best > row[j - 1] + 1)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[len];
}

/* The option that a name is the beginning of, or a slip away from. NULL: there is none. */
static const struct zn_option *closest_option(struct zn_str name, unsigned where)
{
	const struct zn_option *found = NULL;
	unsigned least = NEAR + 1;

	for (; name.len && *name.at == '-'; name.at++)
		name.len--;
	if (!name.len || name.len >= NAME_BYTES)
		return NULL;
	for (size_t i = 0; i < zn_option_count; i++) {
		bool begins = !strncmp(zn_option_table[i].name, name.at, name.len);
		unsigned distance = begins ? 1 : count_edits(name, zn_option_table[i].name);

		if (!(zn_option_table[i].where & where) || 2 * distance >= strlen(zn_option_table[i].name))
			continue;
		/* of several that begin so, the shortest */
		if (distance < least ||
			(begins && least == 1 && strlen(zn_option_table[i].name) < strlen(found->name))) {
			least = distance;
			found = &zn_option_table[i];
		}
	}
	return found;
}

static const char *show_text(char to[SHOWN_BYTES], struct zn_str text)
{
	size_t len = 0;

	to[0] = '\0';
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.at[i];
		bool printable = c >= 0x20 && c < 0x7f;

		if (len + (printable ? 1 : 4) > SHOWN_BYTES - sizeof("...")) {
			memcpy(to + len, "...", sizeof("..."));
			break;
		}
		len += (size_t)snprintf(to + len, SHOWN_BYTES - len, printable ? "%c" : "\\x%02x", c);
	}
	return to;
}

/* "<file>:<line>: <name>: <message>" with what there is of it; always -EINVAL. The parts before the message
 * take at most 141 bytes. */
__attribute__((format(printf, 2, 3))) static int fail(struct reader *r, const char *format, ...)
{
	char shown[SHOWN_BYTES];
	va_list args;
	int len = 0;

	r->why[0] = '\0';
	if (r->file)
		len += snprintf(r->why, ZN_TEXT_MAX, "%s:", show_text(shown, zn_str_of(r->file)));
	if (r->line)
		len += snprintf(r->why + len, ZN_TEXT_MAX - (size_t)len, "%u:", r->line);
	if (r->file)
		len += snprintf(r->why + len, ZN_TEXT_MAX - (size_t)len, " ");
	if (r->given.len)
		len += snprintf(r->why + len, ZN_TEXT_MAX - (size_t)len, "%s: ", show_text(shown, r->given));
	va_start(args, format);
	vsnprintf(r->why + len, ZN_TEXT_MAX - (size_t)len, format, args);
	va_end(args);
	return -EINVAL;
}

static int fail_unknown(struct reader *r, struct zn_str name)
{
	const struct zn_option *near = closest_option(name, r->from);

	if (find_option(name, ZN_OPTION_ANYWHERE))
		return fail(r, "works only on the command line");
	if (!near)
		return fail(r, "unknown option; --help lists them");
	return fail(r, "unknown option; did you mean %s%s?", r->from == ZN_OPTION_ARGUMENTS ? "--" : "", near->name);
}

/* An empty value counts as missing. */
static int fail_value(struct reader *r, const struct zn_option *opt, const char *value)
{
	char shown[SHOWN_BYTES], range[SHOWN_BYTES];

	zn_option_range(opt, range, sizeof(range));
	if (!value || !*value)
		return fail(r, "needs %s%s", opt->is, range);
	return fail(r, "'%s' is not %s%s", show_text(shown, zn_str_of(value)), opt->is, range);
}

static int take_value(struct reader *r, const struct zn_option *opt, const char *value)
{
	return opt->set(opt, (char *)r->o + opt->offset, value) ? 0 : fail_value(r, opt, value);
}

static int read_defaults(struct zn_options *o, char *why)
{
	struct reader r = {.o = o, .from = ZN_OPTION_ARGUMENTS, .why = why};
	int err = 0;

	for (size_t i = 0; i < zn_option_count && !err; i++)
		if (zn_option_table[i].initial)
			err = take_value(&r, &zn_option_table[i], zn_option_table[i].initial);
	return err;
}

/* Reads a whole file; its length, or -errno. */
static ssize_t read_text(const char *path, char *to, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	size_t len = 0;
	ssize_t got;

	if (fd < 0)
		return -errno;
	do {
		got = read(fd, to + len, cap - len);
		if (got > 0)
			len += (size_t)got;
	} while ((got > 0 && len < cap) || (got < 0 && errno == EINTR));
	got = got < 0 ? -errno : len == cap ? -EFBIG : (ssize_t)len;
	close(fd);
	return got;
}

/* Cuts a comment and the blanks around a line, in place. */
static char *trim_line(char *line)
{
	char *end, *from = line + strspn(line, " \t\r");

	for (end = from; *end; end++)
		if (*end == '#' && (end == from || strchr(" \t", end[-1])))
			break;
	while (end > from && strchr(" \t\r", end[-1]))
		end--;
	*end = '\0';
	return from;
}

static int read_line(struct reader *r, char *line)
{
	char *value;
	const struct zn_option *opt;

	line = trim_line(line);
	if (!*line)
		return 0;
	r->given = (struct zn_str){line, strcspn(line, " \t=")};
	value = line + r->given.len;
	value += strspn(value, " \t");
	if (*value == '=')
		value++;
	value += strspn(value, " \t");
	opt = find_option(r->given, ZN_OPTION_FILE);
	return opt ? take_value(r, opt, value) : fail_unknown(r, r->given);
}

static int read_lines(struct reader *r, char *line, const char *end)
{
	int err = 0;

	for (char *next; line < end && !err; line = next + 1) {
		next = line + strcspn(line, "\n");
		r->line++;
		r->given.len = 0;
		if (!*next && next < end)
			return fail(r, "a NUL byte; this is no text");
		*next = '\0';
		err = read_line(r, line);
	}
	return err;
}

/* file: NULL for the default one, which need not exist. */
static int read_file(struct zn_options *o, const char *file, char *why)
{
	static char text[FILE_BYTES + 1];
	struct reader r = {.o = o, .from = ZN_OPTION_FILE, .file = file ? file : ZN_OPTION_DEFAULT_FILE, .why = why};
	ssize_t len = read_text(r.file, text, FILE_BYTES);

	if (!file && (len == -ENOENT || len == -ENOTDIR))
		return 0;
	if (len == -EFBIG)
		return fail(&r, "larger than %d bytes", FILE_BYTES - 1);
	if (len < 0)
		return fail(&r, "cannot read it: %s", strerror((int)-len));
	text[len] = '\0';
	return read_lines(&r, text, text + len);
}

/* METRICS_PORT as metrics-port; empty if it cannot be the name of an option. */
static struct zn_str option_name(struct zn_str variable, char to[NAME_BYTES])
{
	if (variable.len >= NAME_BYTES)
		return (struct zn_str){to, 0};
	for (size_t i = 0; i < variable.len; i++) {
		char c = variable.at[i];

		to[i] = c == '_' ? '-' : c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : '?';
	}
	return (struct zn_str){to, variable.len};
}

/* Kubernetes sets NAME_PORT=tcp://ADDRESS:PORT for each service, so one named zernel-metrics sets an option. */
static bool is_service_link(const struct zn_option *opt, const char *value)
{
	static const char *const schemes[] = {"tcp://", "udp://", "sctp://"};

	for (size_t i = 0; i < ZN_LEN(schemes); i++)
		if (!strncmp(value, schemes[i], strlen(schemes[i])))
			return opt->argument && !strcmp(opt->argument, "PORT");
	return false;
}

static int take_variable(struct reader *r, const struct zn_option *opt, const char *value)
{
	char name[SHOWN_BYTES], shown[SHOWN_BYTES];

	if (!is_service_link(opt, value))
		return take_value(r, opt, value);
	zn_log(ZN_WARN,
		"%s: '%s' is a variable of a Kubernetes service, ignored; enableServiceLinks: false takes it away",
		show_text(name, r->given), show_text(shown, zn_str_of(value)));
	return 0;
}

/* An unknown variable is no error: a batch system may hand on names of its own. */
static int read_variable(struct reader *r, const char *variable)
{
	char name[NAME_BYTES], shown[SHOWN_BYTES];
	const struct zn_option *opt, *near;
	struct zn_str wanted;

	r->given = (struct zn_str){variable, strcspn(variable, "=")};
	wanted = option_name(
		(struct zn_str){variable + strlen(ZN_OPTION_PREFIX), r->given.len - strlen(ZN_OPTION_PREFIX)}, name);
	opt = find_option(wanted, ZN_OPTION_ENVIRONMENT);
	if (opt)
		return take_variable(r, opt, variable + r->given.len + (variable[r->given.len] == '='));
	near = closest_option(wanted, ZN_OPTION_ENVIRONMENT);
	zn_log(ZN_WARN, "%s: unknown option, ignored%s%s%s", show_text(shown, r->given),
		near ? "; did you mean --" : "", near ? near->name : "", near ? "?" : "");
	return 0;
}

static int read_log_level(struct reader *r)
{
	const char *name = getenv(ZN_OPTION_PREFIX "LOG");
	char shown[SHOWN_BYTES];
	int level;

	if (!name)
		return 0;
	level = zn_log_parse(name);
	r->given = zn_str_of(ZN_OPTION_PREFIX "LOG");
	if (level < 0)
		return fail(r, "'%s' is not error, warn, info or debug", show_text(shown, zn_str_of(name)));
	zn_log_level = (enum zn_level)level;
	return 0;
}

static int read_environment(struct zn_options *o, char *why)
{
	struct reader r = {.o = o, .from = ZN_OPTION_ENVIRONMENT, .why = why};
	int err = read_log_level(&r);

	for (char **at = environ; at && *at && !err; at++)
		if (!strncmp(*at, ZN_OPTION_PREFIX, strlen(ZN_OPTION_PREFIX)) &&
			strncmp(*at, ZN_OPTION_PREFIX "LOG=", strlen(ZN_OPTION_PREFIX "LOG=")))
			err = read_variable(&r, *at);
	return err;
}

/* Takes one option off the command line: how many arguments that were, 1 or 2, or -EINVAL. */
static int read_argument(struct reader *r, const char *arg, const char *next)
{
	size_t len = strcspn(arg, "=");
	const char *value = arg[len] ? arg + len + 1 : NULL;
	const struct zn_option *opt = NULL;
	char shown[SHOWN_BYTES];
	int used = 1;

	if (*arg != '-')
		return fail(r, "'%s' is not an option; --help lists them", show_text(shown, zn_str_of(arg)));
	r->given = (struct zn_str){arg, len};
	if (!strncmp(arg, "--", 2))
		opt = find_option((struct zn_str){arg + 2, len - 2}, ZN_OPTION_ARGUMENTS);
	if (!opt)
		return fail_unknown(r, r->given);
	if (!value && !opt->argument) {
		value = "yes";
	} else if (!value) {
		value = next;
		used = 2;
	}
	if (!value)
		return fail_value(r, opt, NULL);
	return take_value(r, opt, value) ? -EINVAL : used;
}

static int read_arguments(struct zn_options *o, int argc, char **argv, char *why)
{
	struct reader r = {.o = o, .from = ZN_OPTION_ARGUMENTS, .why = why};

	for (int i = 1, used; i < argc; i += used) {
		r.given.len = 0;
		used = read_argument(&r, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
		if (used < 0)
			return used;
	}
	return 0;
}

static int check_ports(const struct zn_options *o, char *why)
{
	struct reader r = {.why = why};

	if (o->metrics_port != o->ws_port || !o->ws_port)
		return 0;
	return fail(&r,
		"--metrics-port and --ws-port are both %" PRIu64 ": they must differ, or be 0 for any free port",
		o->ws_port);
}

#define NOT_GIVEN "?" /* no place: they are absolute */

/* A simulation writes no files unless an option names a folder. */
static void settle_place(char place[ZN_TEXT_MAX], const char *initial, bool simulate)
{
	if (!strcmp(place, NOT_GIVEN))
		strcpy(place, simulate ? "" : initial);
}

/* The command line is read twice: at first for --config and --help, and at last because it has the last word.
 */
int zn_options_read(struct zn_options *o, const char *file, int argc, char **argv, char why[ZN_TEXT_MAX])
{
	struct zn_options first = {0};
	const char *variable = getenv(ZN_OPTION_PREFIX "CONFIG");
	int err;

	*o = (struct zn_options){0};
	why[0] = '\0';
	if ((err = read_arguments(&first, argc, argv, why)) || (err = read_defaults(o, why)))
		return err;
	o->help = first.help;
	o->version = first.version;
	if (o->help || o->version)
		return 0;
	strcpy(o->control, NOT_GIVEN);
	strcpy(o->report_dir, NOT_GIVEN);
	file = first.config ? first.config : variable ? variable : file;
	if ((err = read_file(o, file, why)) || (err = read_environment(o, why)) ||
		(err = read_arguments(o, argc, argv, why)))
		return err;
	if (!o->stacks)
		o->families &= ~(1ULL << ZN_FAM_STACKS);
	settle_place(o->control, ZN_CONTROL_PATH, o->simulate);
	settle_place(o->report_dir, ZN_OPTION_REPORT_PATH, o->simulate);
	return check_ports(o, why);
}

/* Of the environment a client needs these alone; what is wrong with the rest is the daemon's business. */
static int read_client_variables(struct zn_options *o, char *why)
{
	static const struct {
		const char *variable, *name;
	} wanted[] = {
		{ZN_OPTION_PREFIX "CONTROL", "control"},
		{ZN_OPTION_PREFIX "LISTEN", "listen"},
		{ZN_OPTION_PREFIX "METRICS_PORT", "metrics-port"},
	};
	int result = 0;

	for (size_t i = 0; i < ZN_LEN(wanted); i++) {
		struct reader r = {.o = o, .given = zn_str_of(wanted[i].variable), .why = why};
		const struct zn_option *opt = find_option(zn_str_of(wanted[i].name), ZN_OPTION_ENVIRONMENT);
		const char *value = getenv(wanted[i].variable);

		if (value && !is_service_link(opt, value) && take_value(&r, opt, value))
			result = -EINVAL;
	}
	return result;
}

int zn_options_client(struct zn_options *o, char why[ZN_TEXT_MAX])
{
	const char *variable = getenv(ZN_OPTION_PREFIX "CONFIG"), *file = variable ? variable : ZN_OPTION_DEFAULT_FILE;
	int err, later;

	*o = (struct zn_options){0};
	why[0] = '\0';
	read_defaults(o, why);
	err = read_file(o, variable, why);
	if (err) {
		*o = (struct zn_options){0};
		read_defaults(o, why);
		err = access(file, R_OK) && errno == EACCES ? -EACCES : err;
	}
	later = read_client_variables(o, why);
	return later ? later : err;
}

void zn_options_control(char to[ZN_TEXT_MAX])
{
	static struct zn_options o;
	char why[ZN_TEXT_MAX];

	zn_options_client(&o, why);
	memcpy(to, o.control, ZN_TEXT_MAX);
}
