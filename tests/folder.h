/* SPDX-License-Identifier: GPL-2.0 */
/* folder.h: a folder of files for one test, in place of /proc and the like. */
#ifndef FOLDER_H
#define FOLDER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char root[] = "/tmp/zernel-test-XXXXXX";

static inline void open_folder(void)
{
	if (!mkdtemp(root))
		abort();
}

static inline void close_folder(void)
{
	char command[sizeof(root) + 16];

	snprintf(command, sizeof(command), "rm -rf %s", root);
	if (system(command))
		abort();
}

/* Makes the folders of "a/b/c" below root, and at its end a file of that text; NULL: a folder. */
static inline void put(const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s%s", root, name, text ? "" : "/");
	for (char *at = path + sizeof(root); (at = strchr(at, '/')); *at++ = '/') {
		*at = 0;
		mkdir(path, 0700);
	}
	f = text ? fopen(path, "w") : NULL;
	if (!f && text)
		abort();
	if (f) {
		fputs(text, f);
		fclose(f);
	}
}

#endif
