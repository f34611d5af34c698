#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# structure.sh OBJECTS: keeps the rules on folders, headings and prefixes (docs/DESIGN.md), by the names in the
# product's objects, which lie in folders as the sources do; and holds the map of docs/DESIGN.md to the files. What
# breaks a rule is printed.
cd "$(dirname "$0")/.." || exit 1
layers="base codec model alert worker probe job sim output serve cli daemon main"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
functions='function folder(f) { return f ~ "/" ? substr(f, 1, index(f, "/") - 1) : f ~ /^zerneld/ ? "main" : "codec" }
	BEGIN { n = split(layers, l, " "); for (i = 1; i <= n; i++) rank[l[i]] = i }'

sed -n '/^\/\* ---- [^)]*$/{ N; s/\n \* / /; }
	s,^/\* ---- \([a-z0-9_/]*\.c\) (\([^)]*\)): .*,\1 \2,p' zernel.h >"$work/headings"
cut -d' ' -f1 "$work/headings" | sort >"$work/named"
ls ./*.c src/*/*.c | sed 's,^\./,,; s,^src/,,' | sort >"$work/files"
(cd "$1" && find . -name '*.o' | sort | while read -r o; do
	[ -f "$OLDPWD/src/${o%.o}.c" ] || [ -f "$OLDPWD/${o%.o}.c" ] || continue # of a source that has gone
	nm -P -g "$o" | awk -v f="${o#./}" '{ print ($2 == "U" ? "use" : "def"), $1, f }'
done) >"$work/names" || exit 1
[ -s "$work/names" ] || { echo "$1: no objects"; exit 1; }

# greps that must find nothing: RULE PATTERN FILES...
never() {
	rule=$1 pattern=$2
	shift 2
	grep -lE "$pattern" "$@" 2>/dev/null | sed "s,^src/,,; s,\$,: $rule,"
}

{
	comm -3 "$work/named" "$work/files" | sed 's/^\t*//; s/$/: not one heading in zernel.h for one file/'
	awk -v layers="$layers" "$functions"'
		{ r = rank[folder($1)]; if (r < last) print $1 ": its heading is out of order"; last = r
		  for (i = 2; i <= NF; i++) if ($i in of) print $1 ": prefix " $i " is also of " of[$i]; else of[$i] = $1 }' "$work/headings"
	awk -v layers="$layers" -v calls="$work/calls" "$functions"'
	FILENAME ~ /headings$/ { f = $1; sub(/\.c$/, ".o", f); $1 = ""; prefix[f] = $0; next }
	$1 == "use" { use[$3 " " $2]; next }
	$2 ~ /^main$|^__wrap_/ { next }
	{ def[$2] = $3; n = split(prefix[$3], p, " "); ok = !n; for (i = 1; i <= n; i++) ok = ok || index($2, p[i]) == 1
	  if (!ok) print $3 ": " $2 " does not begin with a prefix of its file" }
	END { for (u in use) { split(u, p, " "); from = p[1]; to = def[p[2]]; if (to == "" || to == from) continue
		print from, to > calls
		if (rank[folder(to)] > rank[folder(from)]) print from ": calls " p[2] " of " to } }' "$work/headings" "$work/names"
	# circles: within a folder, as what leads from one folder to another may only lead upwards
	sort -u "$work/calls" | awk "$functions"'
		folder($1) == folder($2) { call[$1 " " $2]; way[$1 " " $2]; file[$1]; file[$2] }
		END { for (k in file) for (i in file) if ((i " " k) in way) for (j in file) if ((k " " j) in way) way[i " " j]
		for (c in call) { split(c, p, " "); if ((p[2] " " p[1]) in way) print p[1] ": calls " p[2] ", which leads back to it" } }'
	never "only probe/ knows libbpf" '#include <bpf/' ./*.c $(ls src/*/*.c | grep -v '^src/probe/')
	never "codec is pure: no descriptors" '[^_a-z](socket|open|openat|epoll_[a-z0-9]+)\(' http.c ws.c json.c src/codec/*.c
	never "no file lets itself into another folder" '#define ZN_IN_' ./*.c src/*/*.c
	never "the model writes no JSON" 'zn_json_' src/model/*.c
	never "has a static function that is named by one word" '^static [^=;(]*[ *][a-z][a-z0-9]*\(([^*]|$)' \
		./*.c src/*/*.c bpf/*.[ch]
	# the map in docs/DESIGN.md has each file of src/ and bpf/, under the heading of its folder
	awk '/^## /{ folder = "" } /^### `/{ match($0, /`[a-z]+\/`/); folder = substr($0, RSTART + 1, RLENGTH - 3) } /^### [^`]/{ folder = "" }
		folder { while (match($0, /`[a-z0-9_.]+\.(c|h|sh)`/)) { print folder "/" substr($0, RSTART + 1, RLENGTH - 2); $0 = substr($0, RSTART + RLENGTH) } }' \
		docs/DESIGN.md | sed 's,^codec/\(http\|ws\|json\)\.c,\1.c,; s,^daemon/zerneld,zerneld,' | sort -u >"$work/map"
	{ cat "$work/files"; ls bpf/*; } | sort -u | comm -3 "$work/map" - | sed 's/^\t*//; s/$/: either only on the map of docs\/DESIGN.md, or not on it/'
	for folder in base codec model alert worker probe job; do
		never "knows struct zn_state" 'zn_state' src/$folder/*.c
	done
} | sort >"$work/broken"

cat "$work/broken"
[ ! -s "$work/broken" ]
