# SPDX-License-Identifier: BSD-3-Clause
# Completion of weirctl for bash.

# COMP_WORDS as the shell passes them on: where : and = break words for readline, an address comes in
# pieces. What stood together in the line is one word again: `words`, and the cursor in `at`.
_weirctl_words() {
	local i part before='' line=$COMP_LINE rest
	words=() at=0
	for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
		part=${COMP_WORDS[i]}
		rest=${line#"${line%%[![:space:]]*}"}
		if ((i > 0)) && [[ $line == "$rest" && ($part == [:=]* || $before == [:=]*) ]]; then
			words[-1]+=$part
		else
			words+=("$part")
		fi
		((i == COMP_CWORD)) && at=$((${#words[@]} - 1))
		before=$part line=${rest#"$part"}
	done
}

# The first column of a command's table, names of jobs or ports, from the switch that the line speaks
# of; quickly, or none.
_weirctl_names() {
	local i where=()
	for ((i = 1; i < at; i++)); do
		case ${words[i]} in
		-s | --switch | --config | --token-file | --ca) where+=("${words[i]}" "${words[i + 1]}") ;;
		--switch=* | --config=* | --token-file=* | --ca=*) where+=("${words[i]}") ;;
		esac
	done
	weirctl "${where[@]}" --timeout 500ms "$1" 2>/dev/null |
		awk 'NR > 1 && $1 ~ /^[A-Za-z0-9._-]+$/ { print $1 }'
}

_weirctl_jobs() {
	_weirctl_names jobs
}

_weirctl_ports() {
	_weirctl_names ports
}

# readline replaces what stands behind the last colon alone.
_weirctl() {
	local words at begin
	_weirctl_words
	_weirctl_offer
	begin=${words[at]%"${words[at]##*:}"}
	if [[ -n $begin && $COMP_WORDBREAKS == *:* ]]; then
		COMPREPLY=("${COMPREPLY[@]#"$begin"}")
	fi
}

_weirctl_offer() {
	local word=${words[at]} before=${words[at - 1]} i command='' second='' third=''
	local all='-s --switch --config --token-file --ca -j --json -t --timeout -h --help -V --version'
	local set='--timeout-ms --policy --dead-after-ms --rejoin --rate-mbit --expire-s' own=''
	COMPREPLY=()
	if [[ $word == --*=* ]]; then
		before=${word%%=*} word=${word#*=}
	fi

	case $before in
	-s | --switch)
		mapfile -t COMPREPLY < <(compgen -W "$(printf 'unix:%s ' /run/weir/*.sock)" -- "$word")
		return ;;
	--config | --token-file | --ca | -o | --output)
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		return ;;
	--rejoin) mapfile -t COMPREPLY < <(compgen -W 'wait revoke' -- "$word"); return ;;
	--policy) mapfile -t COMPREPLY < <(compgen -W 'wait partial error' -- "$word"); return ;;
	--type) mapfile -t COMPREPLY < <(compgen -W 'int8 uint8 int16 uint16 int32 uint32 int64 uint64 fp16 bf16 fp32 fp64' -- "$word"); return ;;
	--op) mapfile -t COMPREPLY < <(compgen -W 'sum prod min max avg band bor bxor land lor lxor' -- "$word"); return ;;
	--results) mapfile -t COMPREPLY < <(compgen -W 'unicast' -- "$word"); return ;;
	--direction) mapfile -t COMPREPLY < <(compgen -W 'in out' -- "$word"); return ;;
	--what) mapfile -t COMPREPLY < <(compgen -W 'any contribution result ordinary' -- "$word"); return ;;
	--delay)
		mapfile -t COMPREPLY < <(compgen -W 'constant uniform exponential pareto' -- "$word")
		return ;;
	--port) mapfile -t COMPREPLY < <(compgen -W "$(_weirctl_ports)" -- "$word"); return ;;
	--job) mapfile -t COMPREPLY < <(compgen -W "$(_weirctl_jobs)" -- "$word"); return ;;
	-t | --timeout | --interval | --for | --limit | --count | --size | --id | --window | --elements | \
		--timeout-ms | --dead-after-ms | --rate-mbit | --expire-s | --source | --first-block | \
		--last-block | --percent | --nth | --list | --from-ms | --to-ms | --repeat-ms | --distance | \
		--us | --most-us | --bits | --seed) return ;;
	esac

	for ((i = 1; i < at; i++)); do
		case ${words[i]} in
		-s | --switch | --config | --token-file | --ca | -t | --timeout) ((i++)) ;;
		-*) ;;
		*)
			if [[ -z $command ]]; then command=${words[i]}
			elif [[ -z $second ]]; then second=${words[i]}
			elif [[ -z $third ]]; then third=${words[i]}; fi ;;
		esac
	done
	case $command in
	'') own='status health ports jobs job members member blocks counters trace top faults config reload tenants' ;;
	blocks) own='--stuck --job --limit' ;;
	counters) own='-w --watch --zeros --interval --count' ;;
	trace) own='--for -o --output' ;;
	top) own='--once --interval' ;;
	faults)
		case $second in
		'') own='show set add clear' ;;
		set)
			if [[ -z $third && $word != -* ]]; then
				mapfile -t COMPREPLY < <(compgen -f -- "$word")
				return
			fi ;;
		add)
			[[ -z $third ]] && own='drop blackout duplicate reorder delay corrupt'
			own+=' --port --direction --what --job --source --first-block --last-block --percent'
			own+=' --nth --list --from-ms --to-ms --repeat-ms --distance --delay --us --most-us'
			own+=' --bits --seed' ;;
		esac ;;
	members) [[ -z $second ]] && own=$(_weirctl_jobs) ;;
	member)
		case $second in
		'') own=delete ;;
		delete) [[ -z $third ]] && own=$(_weirctl_jobs) ;;
		esac ;;
	job)
		case $second in
		'') own="create set delete $(_weirctl_jobs)" ;;
		create) own="--size --id --window --elements --type --op --deterministic --results --authenticate $set" ;;
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
