# SPDX-License-Identifier: BSD-3-Clause
# Completion of weirctl for bash: weirctl itself says what may follow.

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

# readline replaces what stands behind the last colon or equals sign alone.
_weirctl() {
	local words at begin file
	_weirctl_words
	mapfile -t COMPREPLY < <(weirctl complete "${words[@]:1:at}")
	begin=${words[at]%"${words[at]##*[:=]}"}
	if [[ ${COMPREPLY[0]} == :file* ]]; then
		file=${words[at]#"$begin"}
		mapfile -t COMPREPLY < <(compgen -f -- "$file")
	elif [[ -n $begin && $COMP_WORDBREAKS == *:* ]]; then
		COMPREPLY=("${COMPREPLY[@]#"$begin"}")
	fi
}

complete -F _weirctl weirctl
