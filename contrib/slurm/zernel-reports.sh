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
# Of a job of several nodes its first one speaks, of one that was queued again its last run, and of each no sooner than
# it is over. The first call only notes the time. Exit status: 0; 1 if Slurm, the daemon or the mailer refused
# something, which stderr names.
set -u
LC_ALL=C
export LC_ALL

reports=/var/lib/zernel/jobs state=/var/lib/zernel-reports running='' comment='' mail='' away='' status=0
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

# For this node alone: without one, slurmctld sends its records of all nodes. Of a node that it does not know sinfo says
# nothing, and that all is well. As $named.
slurm_answers() {
	named=$(ask sinfo -h -n "$node" -o %n)
}

# What Slurm says of a job, as $said. 1: there is none any more; 2: Slurm does not answer.
ask_slurm() {
	said=$(ask "$@" 2>&1) && return
	case $said in *'Invalid job id'* | *'already finished'*) return 1 ;; esac
	return 2
}

# A user chooses names of jobs and files, so only ids that are numbers are asked for, and squeue says nothing but ids,
# states and hosts: of each task where the id is that of an array. As $phase, $nodes and $task, by which scontrol and
# sacctmgr mean this job alone: an array's id would be all of its tasks. 1: there is no such job; 2: Slurm does not
# answer.
find_job() {
	case $1 in '' | *[!0-9]*) return 1 ;; esac
	ask_slurm squeue -h -t all -j "$1" -o '%A %F %K %T %N' || return
	line=$(printf '%s\n' "$said" | sed -n "s/^$1 //p")
	read -r array index phase nodes <<-END
		$line
	END
	case $index in *[!0-9]*) task=$1 ;; *) task=${array}_$index ;; esac
	[ "$phase" ]
}

# 2: Slurm does not answer.
is_first_node() {
	[ "$nodes" ] || return
	hosts=$(ask scontrol show hostnames "$nodes" 2>/dev/null) && [ "$hosts" ] || return 2
	[ "$(printf '%s\n' "$hosts" | head -n 1)" = "$node" ]
}

# It may have been queued again, wait for an epilog, or pause between two steps: a report of it is not the last one.
is_over() {
	case $phase in
	PENDING | CONFIGURING | RUNNING | SUSPENDED | STOPPED | SIGNALING | RESIZING | COMPLETING | STAGE_OUT) return 1 ;;
	REQUEUE* | SPECIAL_EXIT | RESV_DEL_HOLD) return 1 ;;
	esac
}

# Of a job that was queued again the last run counts. 2: Slurm does not answer.
is_last_run() {
	ask_slurm squeue -h -t all -j "$1" -O JobID:20,RestartCnt:20 || return
	printf '%s\n' "$said" | grep -q "^$1  *$2 *\$"
}

# 1: Slurm refused something.
comment_running() {
	find_job "$1"
	case $? in
	1) return 0 ;;
	2) failed "job $1: Slurm does not answer" && return 1 ;;
	esac
	is_first_node
	case $? in
	1) return 0 ;;
	2) failed "job $1: Slurm does not answer" && return 1 ;;
	esac
	! is_over || return 0
	if ! line=$(ask zernel job report "$1" --line); then
		failed "no comment for job $1"
		return 0
	fi
	ask_slurm scontrol update "JobId=$task" "AdminComment=$line"
	[ $? -ne 2 ] || { failed "no comment for job $1: $said" && return 1; }
}

each_running() {
	while read -r id _ is _; do
		case $id in '('*) failed "zernel job list has no room for all jobs" ;; esac
		[ "$is" != running ] || comment_running "$id" || slurm_answers || break
	done
}

# A report of the last ten minutes: the database may not know its job yet.
is_young() {
	[ $(($(date +%s) - ${time%%.*})) -lt 600 ]
}

# 1: the database does not answer, or may not know the job yet.
comment_ended() {
	[ -z "$away" ] || return
	ask sacctmgr -i modify job where "jobid=$task" set "AdminComment=$line" >/dev/null && return
	failed "no comment for job $1"
	ask sacctmgr -n list cluster format=cluster >/dev/null || away=yes
	[ -z "$away" ] && ! is_young
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
	printf 'To: %s\n%s\n' "$to" "$text" | timeout 20 "${SENDMAIL:-/usr/sbin/sendmail}" -i -- "$to" 9>&- ||
		failed "no mail for job $1"
}

# Reports written since an hour before the last call, as lines of a time and a path. Only that time tells which is new:
# an owner, a mode or a hard link of a file changes without it.
list_reports() {
	find "$reports" -maxdepth 1 -type f -name '*.json' -newer "$state/young" "$@" -printf '%T@ %p\n' >"$state/found" &&
		sort "$state/found"
}

# $state/all without what was handed on: of each path the newest line, and none of what is written again within an hour.
list_left() {
	awk '{ time = $1; sub(/^[^ ]* /, "") }
		FILENAME == ARGV[1] { done[$0] = time; next }
		!($0 in newest) { path[++count] = $0 }
		{ newest[$0] = time }
		END {
			for (i = 1; i <= count; i++)
				if (!(path[i] in done) || newest[path[i]] - done[path[i]] >= 3600)
					print newest[path[i]], path[i]
		}' "$state/done" "$state/all"
}

# Reports that are to be handed on, as $state/queue: what earlier calls left there, whatever ended them, and what they
# did not see. None is missed that was being written then.
find_ended() {
	touch "$state/next" "$state/queue" "$state/done" "$state/uncommented" || return
	[ -e "$state/last" ] || touch -r "$state/next" "$state/last" || return
	touch -r "$state/last" -d '-1 hour' "$state/young" || return
	if [ ! -e "$state/seen" ]; then
		list_reports ! -cnewer "$state/last" >"$state/now" && mv "$state/now" "$state/seen" || return
	fi
	list_reports >"$state/now" && comm -13 "$state/seen" "$state/now" >"$state/new" || return
	cat "$state/queue" "$state/uncommented" "$state/new" >"$state/all" && list_left >"$state/left" || return
	tail -n 1000 "$state/left" >"$state/all" && mv "$state/all" "$state/queue" && : >"$state/uncommented" || return
	mv "$state/now" "$state/seen" && mv "$state/next" "$state/last" || return
	tail -n 1000 "$state/done" >"$state/all" && mv "$state/all" "$state/done"
}

# Whether a report is to be handed on, or its comment alone, about which Slurm was asked before. 1: never; 2: Slurm does
# not answer; 3: not yet.
is_due() {
	case $id$restart in *[!0-9]*) return 1 ;; esac
	to='' task=${path#comment }
	task=${task%% *}
	case $path in 'comment '*) return ;; esac
	find_job "$id" || return
	[ -z "$nodes" ] || is_first_node || return
	is_over || return 3
	is_last_run "$id" "$restart" || return
	[ -z "$mail" ] || find_address "$id" || [ $? -eq 1 ] || return 2
}

# What stands in $state/done is not handed on again.
end_with() {
	echo "$time $path" >>"$state/done"
}

# What is to be told of the job, as $line and $text.
read_report() {
	line='' text=''
	[ -z "$comment" ] || line=$(ask zernel job report "$id" --restart "$restart" --line) || return
	[ -z "$to" ] || text=$(ask zernel job report "$id" --restart "$restart" --mail)
}

# A comment may be set twice, and one that the database does not take is for the next call. A mail may not be sent
# twice: it is marked before, once all of it is there. What zerneld does not tell while a report is young is for the
# next call too. 1: it does not answer.
hand_on() {
	if ! read_report; then
		failed "no report of job $id"
		ask zernel job list >/dev/null || return 1
		is_young || end_with
		return 0
	fi
	if [ "$comment" ] && ! comment_ended "$id"; then
		case $path in 'comment '*) return 0 ;; esac
		echo "$time comment $task $path" >>"$state/uncommented"
	fi
	! end_with || mail_report "$id"
	return 0
}

# What Slurm did not answer about is for the next call. Where it answers nothing any more, so is the rest.
each_ended() {
	while read -r time path; do
		id=${path##*/} restart=0
		id=${id%.json}
		case $id in *_*) restart=${id#*_} id=${id%%_*} ;; esac
		is_due
		case $? in
		0) hand_on || break ;;
		1) end_with ;;
		2)
			failed "job $id: Slurm does not answer"
			slurm_answers || break
			;;
		esac
	done
}

umask 077
mkdir -p "$state" || exit 1
exec 9>"$state/lock"
flock -n 9 || exit 0
# what has ended meanwhile is for the next call
if ! slurm_answers; then
	failed "Slurm does not answer"
	exit 1
fi
if [ ! "$named" ]; then
	failed "Slurm knows no node $node; -n says what it calls this one"
	exit 1
fi
if ! ask zernel job list >"$state/jobs"; then
	failed "zerneld does not answer"
	exit 1
fi
[ -z "$running" ] || each_running <"$state/jobs"
if find_ended; then
	each_ended <"$state/queue"
else
	failed "cannot read $reports"
fi
exit $status
