/* SPDX-License-Identifier: GPL-2.0 */
/* attach_floor OBJECT: attaches each program of a BPF object where its section says, prints a line, and takes them away
 * when its standard input ends. */
#include <bpf/libbpf.h>

#include "bench.h"

int main(int argc, char **argv)
{
	struct bpf_object *object = argc == 2 ? bpf_object__open_file(argv[1], NULL) : NULL;
	struct bpf_program *program;

	if (!object || bpf_object__load(object))
		die(argc == 2 ? argv[1] : "usage: attach_floor OBJECT", "cannot be loaded");
	bpf_object__for_each_program(program, object)
	{
		if (!bpf_program__attach(program)) /* it lives as long as this process */
			die(bpf_program__name(program), "cannot be attached");
	}
	puts("attached");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
