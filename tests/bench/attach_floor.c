/* SPDX-License-Identifier: GPL-2.0 */
/* attach_floor OBJECT [LETTER]: attaches each program of a BPF object where its section says (with a letter, those
 * whose section begins with it), prints a line, and takes them away when its standard input ends. */
#include <bpf/libbpf.h>

#include "bench.h"

int main(int argc, char **argv)
{
	struct bpf_object *object = argc >= 2 ? bpf_object__open_file(argv[1], NULL) : NULL;
	char letter = argc == 3 ? argv[2][0] : 0;
	struct bpf_program *program;

	if (!object)
		die("attach_floor", "usage: attach_floor OBJECT [LETTER]");
	bpf_object__for_each_program (program, object)
		bpf_program__set_autoload(program, !letter || bpf_program__section_name(program)[0] == letter);
	if (bpf_object__load(object))
		die(argv[1], "cannot be loaded");
	bpf_object__for_each_program (program, object) {
		if (bpf_program__autoload(program) &&
			!bpf_program__attach(program)) /* it lives as long as this process */
			die(bpf_program__name(program), "cannot be attached");
	}
	puts("attached");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
