/* SPDX-License-Identifier: GPL-2.0 */
/* flame_test.c: `zernel flame`: what it asks for, and an answer in words; in place of client.c there is a daemon of the
 * test's. */
#include "zernel.h"
#include "t.h"

#include <string.h>
#include <unistd.h>

static char asked[512], said[1 << 16];
static const char *answers[4];
static int answered;

int zn_client_argument(struct zn_client_args *a, char **argv, int at)
{
	if (argv[at][0] == '-' || a->wanted)
		return -1;
	a->wanted = argv[at];
	return 1;
}

int zn_client_misused(const struct zn_client_args *a, const char *what, const char *argument)
{
	(void)a, (void)what, (void)argument;
	return 2;
}

int zn_client_open(struct zn_client *c, const struct zn_client_args *a, const char *path, char *buffer)
{
	(void)a, (void)buffer;
	*c = (struct zn_client){0};
	snprintf(asked + strlen(asked), sizeof(asked) - strlen(asked), "%s ", path);
	return 0;
}

int zn_client_get(struct zn_client *c)
{
	const char *answer = answers[answered] ? answers[answered++] : NULL;

	c->answer = answer ? (struct zn_str){answer, strlen(answer)} : (struct zn_str){0};
	return answer ? 0 : -1;
}

int zn_client_complain(const struct zn_client *c, const char *verb)
{
	(void)c, (void)verb;
	return 3;
}

bool zn_client_print(struct zn_str json)
{
	return printf("%.*s\n", (int)json.len, json.at) >= 0;
}

/* What the verb says on standard output is in said, what it asked for in asked. */
static int flame(const char *first, const char *second, char *a, char *b, char *c)
{
	char *argv[] = {"flame", a, b, c, NULL};
	FILE *file = tmpfile();
	int out = dup(STDOUT_FILENO), argc = 1 + (a != NULL) + (b != NULL) + (c != NULL), status;
	size_t len;

	answers[0] = first;
	answers[1] = first ? second : NULL;
	answered = 0;
	asked[0] = '\0';
	fflush(stdout);
	dup2(fileno(file), STDOUT_FILENO);
	status = zn_flame_main(argc, argv);
	fflush(stdout);
	dup2(out, STDOUT_FILENO);
	close(out);
	rewind(file);
	len = fread(said, 1, sizeof(said) - 1, file);
	said[len] = '\0';
	fclose(file);
	return status;
}

#define NOTHING "{\"state\":\"attached\",\"why\":\"\",\"processes\":[],\"causes\":[],\"unknown\":[]}"
#define KNOWN   "{\"state\":\"attached\",\"why\":\"\",\"processes\":[{\"pid\":7}],\"causes\":[],\"unknown\":[]}"
#define WITHOUT                                                                                                        \
	"{\"state\":\"attached\",\"why\":\"\",\"processes\":[],\"causes\":[],\"unknown\":[{\"pid\":7,\"why\":\"it is new\"}]}"
#define SOME                                                                                                                                   \
	"{\"state\":\"attached\",\"why\":\"\",\"seconds\":60,\"processes\":[{\"pid\":7}],\"causes\":["                                         \
	"{\"cause\":\"gpu\",\"says\":\"waits for the GPU\",\"unit\":\"seconds\",\"counts\":\"waits\",\"count\":5,\"value\":1.5,"               \
	"\"estimated\":true,\"lines\":[{\"file\":\"/p/a.py\",\"line\":5,\"function\":\"step\",\"count\":4,\"value\":1.25,"                     \
	"\"percent\":83,\"through\":{\"file\":\"/v/site-packages/torch/nn.py\",\"line\":2,\"function\":\"g\"},"                                \
	"\"thread\":\"[thread x]\"}]},{\"cause\":\"alloc\",\"says\":\"takes GPU memory\",\"unit\":\"bytes\",\"counts\":\"calls\",\"count\":1," \
	"\"value\":3221225472,\"estimated\":false,\"lines\":[{\"file\":\"\",\"line\":null,\"function\":\"?\\u001b[2J\","                       \
	"\"count\":1,\"value\":3221225472,\"percent\":100,\"through\":null,\"thread\":null}]}],"                                               \
	"\"unknown\":[{\"pid\":8,\"why\":\"its Python is not known\"}]}"

T(in_words)
{
	CHECK_EQ(flame(SOME, NULL, NULL, NULL, NULL), 0);
	CHECK_STR(asked, "/stacks ");
	CHECK(strstr(said, "the last 60 s\nwaits for the GPU: 1.500 s in 5 waits, estimated\n"));
	CHECK(strstr(
		said, "   83 %  a.py:5 in step, through torch/nn.py:2 in g, for [thread x]  (1.250 s in 4 waits)\n"));
	CHECK(strstr(said, "takes GPU memory: 3.00G in 1 calls\n"));
	CHECK(strstr(said, "process 8 has no stacks: its Python is not known\n"));
	CHECK(!strchr(said, '\033'));
}

T(nothing_is_said_so)
{
	CHECK_EQ(flame(NOTHING, NULL, NULL, NULL, NULL), 0);
	CHECK_STR(said, "no Python function has called a GPU library here\n");
	CHECK_EQ(flame(NOTHING, NOTHING, "nosuch", NULL, NULL), 1);
	CHECK_EQ(flame(NULL, NULL, NULL, NULL, NULL), 3);
}

T(a_number_is_a_job_or_a_process)
{
	CHECK_EQ(flame(KNOWN, SOME, "4711", NULL, NULL), 0);
	CHECK_STR(asked, "/stacks?job=4711 /stacks?job=4711 ");
	CHECK_EQ(flame(WITHOUT, SOME, "4711", NULL, NULL), 0);
	CHECK_STR(asked, "/stacks?job=4711 /stacks?job=4711 ");
	CHECK_EQ(flame(NOTHING, SOME, "7", NULL, NULL), 0);
	CHECK_STR(asked, "/stacks?job=7 /stacks?pid=7 ");
	CHECK_EQ(flame(SOME, NULL, "4711_2", NULL, NULL), 0);
	CHECK_STR(asked, "/stacks?job=4711_2 ");
}

T(other_forms_are_handed_on)
{
	static const struct {
		char *flag;
		const char *asks, *said;
	} rows[] = {{"--folded", "/stacks/folded?cause=gpu ", "as it came"},
		{"--pprof", "/debug/pprof/profile?cause=gpu ", "as it came"},
		{"--speedscope", "/stacks/speedscope?cause=gpu ", "as it came\n"},
		{"--json", "/stacks?cause=gpu ", "as it came\n"}};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		CHECK_EQ(flame("as it came", NULL, rows[i].flag, "--cause", "gpu"), 0);
		CHECK_STR(asked, rows[i].asks);
		CHECK_STR(said, rows[i].said);
	}
}

T(what_is_asked_for_wrongly)
{
	CHECK_EQ(flame(SOME, NULL, "--nonsense", NULL, NULL), 2);
	CHECK_EQ(flame(SOME, NULL, "a", "b", NULL), 2);
	CHECK_EQ(flame(SOME, NULL, "--cause", "a&job=1", NULL), 2);
	CHECK_EQ(flame(SOME, NULL, "--seconds", "", NULL), 2);
	CHECK_STR(asked, "");
}

int main(void)
{
	RUN(in_words);
	RUN(nothing_is_said_so);
	RUN(a_number_is_a_job_or_a_process);
	RUN(other_forms_are_handed_on);
	RUN(what_is_asked_for_wrongly);
	return t_end();
}
