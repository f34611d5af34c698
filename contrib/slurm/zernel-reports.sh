#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# zernel-reports.sh: hands what zerneld knows of the jobs of this node on to Slurm and to their users. It is for a timer
# (zernel-reports.timer), never for a prolog or epilog: it asks slurmctld and waits for it.
#
#   zernel-reports.sh [-r] [-c] [-m] [-n NODE] [-d REPORTS] [-s STATE]
#     -r          AdminComment of jobs that run: what is known of them so far
#     -c          AdminComment of jobs that have ended since the last call, in the accounting database (slurmdbd)
#     -m          their reports as mail, to those who asked for mail at the end (--mail-type=END or ALL)
#     -n NODE     what Slurm calls this node, if that is not its short host name
#     -d REPORTS  where the reports are: /var/lib/zernel/jobs
#     -s STATE    a folder of its own: /var/lib/zernel-reports
# Of a job of several nodes its first one speaks. The first call only notes the time. Exit status: 0; 1 if Slurm, the
# daemon or the mailer refused something, which stderr names.
set -u
LC_ALL=C
export LC_ALL

reports=/var/lib/zernel/jobs state=/var/lib/zernel-reports running='' comment='' mail='' status=0
node=${SLURMD_NODENAME:-$(uname -n)}
node=${node%%.*}
while getopts rcmn:d:s: option; do
	case $option in
	r) running=yes ;;
	c) comment=yes ;;
	m) mail=yes ;;
	n) node=$OPTARG ;;
	d) reports=$OPTARG ;;
	s) state=$OPTARG ;;
	*) exit 2 ;;
	esac
done

failed() {
	echo "zernel-reports: $*" >&2
	status=1
}

# Slurm's commands, zernel and the mailer: none may hold the next call up, nor keep the lock when it leaves a process
# behind.
ask() {
	timeout 20 "$@" </dev/null 9>&-
}

slurm_answers() {
	ask sinfo -h -n "$node" -o %n >/dev/null
}

# What Slurm says of a job, as $said. 1: there is none; 2: Slurm does not answer.
ask_slurm() {
	said=$(ask "$@" 2>&1) && return
	case $said in *'Invalid job id'*) return 1 ;; esac
	return 2
}

# A user chooses names of jobs and files, so only ids that are numbers are asked for, and squeue says nothing but ids
# and hosts: of each task where the id is that of an array. 2: Slurm does not answer.
is_first_node() {
	case $1 in '' | *[!0-9]*) return 1 ;; esac
	ask_slurm squeue -h -t all -j "$1" -o '%A %N' || return
	nodes=$(printf '%s\n' "$said" | sed -n "s/^$1 //p")
	[ "$nodes" ] && [ "$(ask scontrol show hostnames "$nodes" | head -n 1)" = "$node" ]
}

comment_running() {
	ask zernel job list | while read -r id _ is _; do
		[ "$is" = running ] || continue
		is_first_node "$id" || continue
		line=$(ask zernel job report "$id" --line) || continue # it has gone meanwhile
		ask scontrol update "JobId=$id" "AdminComment=$line" >/dev/null 2>&1 || true # likewise
	done
}

comment_ended() {
	if line=$(ask zernel job report "$1" --restart "$2" --line) &&
		ask sacctmgr -i modify job where "jobid=$1" set "AdminComment=$line" >/dev/null; then
		return
	fi
	failed "no comment for job $1"
}

# Who asked for mail at the end; of an array of jobs, as Slurm has it, for each task. A name of a job may contain such
# words, and line ends, so the last ones count, which are Slurm's. As $to; 2: Slurm does not answer.
find_address() {
	to=''
	ask_slurm scontrol -o show job "$1" || return
	to=$(printf '%s\n' "$said" |
		sed '/^JobId=[0-9]* ArrayJobId=/{/ MailType=[A-Z_,0-9]*ARRAY_TASKS/!d;}' |
		sed -n 's/.* MailUser=\([A-Za-z0-9][A-Za-z0-9._+@-]*\) MailType=\([A-Z_,]*\).*/\1 ,\2,/p' |
		sed -n 's/ .*,\(END\|ALL\),.*//p' | tail -n 1)
}

mail_report() {
	[ "$to" ] || return 0
	if text=$(ask zernel job report "$1" --restart "$2" --mail) &&
		printf 'To: %s\n%s\n' "$to" "$text" | timeout 20 "${SENDMAIL:-/usr/sbin/sendmail}" -i -- "$to" 9>&-; then
		return
	fi
	failed "no mail for job $1"
}

# Reports written since an hour before the last call, as lines of a time and a path. Only that time tells which is new:
# an owner, a mode or a hard link of a file changes without it.
list_reports() {
	find "$reports" -maxdepth 1 -type f -name '*.json' -newer "$state/young" "$@" -printf '%T@ %p\n' >"$state/found" &&
		sort "$state/found"
}

# Reports since the last call, for each_ended: those that it did not see, behind those that it could not hand on. None
# is missed that was being written then. The mark moves before anything is handed on: nothing is sent twice.
find_ended() {
	touch "$state/next" || return
	[ -e "$state/last" ] || touch -r "$state/next" "$state/last" || return
	touch -r "$state/last" -d '-1 hour' "$state/young" || return
	if [ ! -e "$state/seen" ]; then
		list_reports ! -cnewer "$state/last" >"$state/now" && mv "$state/now" "$state/seen" || return
	fi
	list_reports >"$state/now" && comm -13 "$state/seen" "$state/now" >"$state/new" || return
	touch "$state/again" && tail -n 1000 "$state/again" | cat - "$state/new" >"$state/ended" || return
	mv "$state/now" "$state/seen" && mv "$state/next" "$state/last" && : >"$state/again"
}

# 2: Slurm did not answer, and nothing was handed on.
hand_on() {
	id=${1##*/} restart=0
	id=${id%.json}
	case $id in *_*) restart=${id#*_} id=${id%%_*} ;; esac
	case $id$restart in *[!0-9]*) return ;; esac
	is_first_node "$id" || return
	[ -z "$mail" ] || find_address "$id" || [ $? -eq 1 ] || return 2
	[ -z "$comment" ] || comment_ended "$id" "$restart"
	[ -z "$mail" ] || mail_report "$id" "$restart"
}

# What Slurm did not answer about is for the next call. Where it answers nothing any more, so is the rest.
each_ended() {
	while read -r time path; do
		hand_on "$path"
		[ $? -eq 2 ] || continue
		failed "job $id: Slurm does not answer"
		echo "$time $path" >>"$state/again"
		slurm_answers || break
	done
	cat >>"$state/again"
}

umask 077
mkdir -p "$state" || exit 1
exec 9>"$state/lock"
flock -n 9 || exit 0
if ! slurm_answers; then # what has ended meanwhile is for the next call
	failed "Slurm does not answer"
	exit 1
fi
[ -z "$running" ] || comment_running
if find_ended; then
	each_ended <"$state/ended"
else
	failed "cannot read $reports"
fi
exit $status
