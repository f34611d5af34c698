/* SPDX-License-Identifier: GPL-2.0 */
/*
 * json_path.c: what lies at a path of keys in an object of JSON.
 */
#include "zernel.h"

#include <string.h>

struct zn_str zn_path_find(struct zn_str value, const char *path)
{
	char key[32];

	while (*path && value.len) {
		size_t n = strcspn(path, ".");

		snprintf(key, sizeof(key), "%.*s", (int)n, path);
		value = zn_json_member(value, key);
		path += n + (path[n] == '.');
	}
	return value;
}

bool zn_path_known(struct zn_str object, const char *path)
{
	struct zn_str value = zn_path_find(object, path);

	return value.len && value.at[0] != 'n';
}

const char *zn_path_text(struct zn_str object, const char *path, char *to, size_t cap)
{
	struct zn_str value = zn_path_find(object, path);

	*to = '\0';
	if (value.len && value.at[0] == '"')
		zn_json_string(value, to, cap);
	else if (value.len && !strchr("n{[", value.at[0]))
		snprintf(to, cap, "%.*s", value.len < cap ? (int)value.len : (int)cap - 1, value.at);
	if (*to == '\0')
		snprintf(to, cap, "-");
	return to;
}
