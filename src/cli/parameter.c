/* SPDX-License-Identifier: GPL-2.0 */
/* parameter.c: what client verbs ask for by the query of a path. */
#include "zernel.h"

#include <string.h>

/* A value goes into the query as it is: the daemon says what is wrong with it. */
static bool is_plain(const char *text)
{
	for (; *text; text++)
		if (!((*text >= '0' && *text <= '9') || (*text >= 'A' && *text <= 'Z') ||
			    (*text >= 'a' && *text <= 'z') || strchr("._-", *text)))
			return false;
	return true;
}

bool zn_parameter_add(char path[ZN_PARAMETER_PATH], const char *name, const char *value)
{
	size_t len = strlen(path);

	if (!value)
		return true;
	if (!*value || !is_plain(value))
		return false;
	return snprintf(path + len, ZN_PARAMETER_PATH - len, "%c%s=%s", strchr(path, '?') ? '&' : '?', name, value) <
		(int)(ZN_PARAMETER_PATH - len);
}
