#compdef weirctl
# SPDX-License-Identifier: BSD-3-Clause
# Completion of weirctl for zsh: the commands, options and values that its --help prints, and what it says of them.
local -x ARGP_HELP_FMT=opt-doc-col=60,rmargin=500 # an option and its help on one line
local -a offers
local command option i
local told=$(weirctl --help | sed -nE 's/^  ([a-z]+( [a-z]+)?) +[A-Z ]* {2,}(.*)/\1:\3/p')
for ((i = 2; i < CURRENT; i++)); do
	if [[ $command$words[i] == 'run --' ]]; then
		shift $i words
		((CURRENT -= i))
		_normal
		return
	fi
	[[ $'\n'$told == *$'\n'$command$words[i][\ :]* ]] && command+="$words[i] "
done
option=$words[CURRENT-1]
[[ $words[CURRENT] == --*=* ]] && option=${words[CURRENT]%%=*} && compset -P '*='
if [[ $option == --?* && $option != *=* ]]; then
	offers=(${(s:|:)"$(weirctl $=command --help | sed -nE "s/^ +$option=([a-z|]+)( .*|$)/\1/p")"})
elif [[ $words[CURRENT] == -* ]]; then
	offers=(${(f)"$(weirctl $=command --help | sed -nE '/--usage/!s/^ +(-.,)? *(--[a-z-]+)\S* *(.*)/\2:\3/p')"})
else
	offers=(${(f)"$(sed -nE "s/^$command([a-z]+) .*/\1/p; s/^$command([a-z]+:)/\1/p" <<<$told | sort -r | sort -t: -k1,1 -u)"})
fi
_describe weirctl offers || _files
