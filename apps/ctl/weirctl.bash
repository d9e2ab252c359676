# SPDX-License-Identifier: BSD-3-Clause
# Completion of weirctl for bash: the commands, options and values that its --help prints.
_weirctl() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command='' commands words i
	commands=$'\n'$(weirctl --help | sed -nE 's/^  ([a-z]+( [a-z]+)?) .*/\1/p')$'\n'
	for ((i = 1; i < COMP_CWORD; i++)); do
		# The command that runs, as bash-completion completes it where that is loaded.
		if [[ $command == 'run ' && ${COMP_WORDS[i]} == -- ]]; then
			if declare -F _command_offset >/dev/null; then
				_command_offset $((i + 1))
			elif ((i + 1 == COMP_CWORD)); then
				mapfile -t COMPREPLY < <(compgen -c -- "$word")
			fi
			return
		fi
		[[ $commands == *$'\n'"$command${COMP_WORDS[i]}"[[:space:]]* ]] && command+="${COMP_WORDS[i]} "
	done
	# An equals sign is a word of its own.
	[[ $before == '=' ]] && before=${COMP_WORDS[COMP_CWORD - 2]}
	[[ $word == '=' ]] && word=''
	if [[ $before == --* ]]; then
		words=$(weirctl $command --help | sed -nE "s/^ +$before=([a-z|]+)( .*|$)/\1/p" | tr '|' ' ')
	elif [[ $word == -* ]]; then
		words=$(weirctl $command --help | sed -nE '/--usage/!s/^ +(-.,)? *(--[a-z-]+).*/\2/p')
	else
		words=$(sed -nE "s/^$command([a-z]+)( .*|$)/\1/p" <<<"$commands")
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -o default -F _weirctl weirctl
