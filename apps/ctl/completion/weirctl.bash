# SPDX-License-Identifier: BSD-3-Clause
# Completion of weirctl for bash.

# Names of jobs, from the switch that the line speaks of; quickly, or none.
_weirctl_jobs() {
	local i where=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-s | --switch | --config | --token-file | --ca) where+=("${COMP_WORDS[i]}" "${COMP_WORDS[i + 1]}") ;;
		esac
	done
	weirctl "${where[@]}" --timeout 500ms jobs 2>/dev/null |
		awk 'NR > 1 && $1 ~ /^[A-Za-z0-9._-]+$/ { print $1 }'
}

_weirctl() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} i command='' second=''
	local all='-s --switch --config --token-file --ca -j --json -t --timeout -h --help -V --version'
	local set='--timeout-ms --policy --rate-mbit --expire-s' own=''
	COMPREPLY=()

	case $before in
	-s | --switch)
		mapfile -t COMPREPLY < <(compgen -W "$(printf 'unix:%s ' /run/weir/*.sock)" -- "$word")
		return ;;
	--config | --token-file | --ca | -o | --output)
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		return ;;
	--policy) mapfile -t COMPREPLY < <(compgen -W 'wait partial error' -- "$word"); return ;;
	--type) mapfile -t COMPREPLY < <(compgen -W 'fp32 int32' -- "$word"); return ;;
	--op) mapfile -t COMPREPLY < <(compgen -W 'sum' -- "$word"); return ;;
	--results) mapfile -t COMPREPLY < <(compgen -W 'unicast' -- "$word"); return ;;
	--job) mapfile -t COMPREPLY < <(compgen -W "$(_weirctl_jobs)" -- "$word"); return ;;
	-t | --timeout | --interval | --for | --limit | --count | --size | --id | --window | --elements | \
		--timeout-ms | --rate-mbit | --expire-s) return ;;
	esac

	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-s | --switch | --config | --token-file | --ca | -t | --timeout) ((i++)) ;;
		-*) ;;
		*)
			if [[ -z $command ]]; then command=${COMP_WORDS[i]}
			elif [[ -z $second ]]; then second=${COMP_WORDS[i]}; fi ;;
		esac
	done
	case $command in
	'') own='status health ports jobs job members blocks counters trace top config reload tenants' ;;
	blocks) own='--stuck --job --limit' ;;
	counters) own='-w --watch --zeros --interval --count' ;;
	trace) own='--for -o --output' ;;
	top) own='--once --interval' ;;
	members) [[ -z $second ]] && own=$(_weirctl_jobs) ;;
	job)
		case $second in
		'') own="create set delete $(_weirctl_jobs)" ;;
		create) own="--size --id --window --elements --type --op --results --authenticate $set" ;;
		set) own="$set $(_weirctl_jobs)" ;;
		delete) own="--wait $(_weirctl_jobs)" ;;
		esac ;;
	esac
	# Options of all commands are offered when an option is begun.
	if [[ $word == -* ]]; then
		own+=" $all"
	else
		own=" ${own//$'\n'/ } "
		while [[ $own =~ \ -[a-z-]+\  ]]; do own=${own/"${BASH_REMATCH[0]}"/ }; done
	fi
	mapfile -t COMPREPLY < <(compgen -W "$own" -- "$word")
}

complete -F _weirctl weirctl
