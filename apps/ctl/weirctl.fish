# SPDX-License-Identifier: BSD-3-Clause
# Completion of weirctl for fish: the commands, options and values that its --help prints, and what it says of them.
function __weirctl_offers
	set -lx ARGP_HELP_FMT opt-doc-col=60,rmargin=500 # an option and its help on one line
	set -l told (weirctl --help | sed -nE 's/^  ([a-z]+( [a-z]+)?) +[A-Z ]* {2,}(.*)/\1\t\3/p')
	set -l words (commandline -opc)
	set -l rest "$(commandline -ct)"
	set -l option $words[-1]
	set -l before ''
	set -l command ''
	set -l offers
	for i in (seq 2 (count $words))
		if test "$command$words[$i]" = 'run --'
			complete -C "$(string escape -- $words[(math $i + 1)..]) $rest"
			return
		end
		string match -q -- "$command$words[$i]"\t'*' $told
		or string match -q -- "$command$words[$i] *" $told
		and set command "$command$words[$i] "
	end
	if string match -q -- '--*=*' $rest
		set option (string replace -r '=.*' '' -- $rest)
		set before $option=
		set rest (string replace -r '[^=]*=' '' -- $rest)
	end
	if string match -qr -- '^--[a-z-]+$' $option
		set offers (weirctl (string split -n ' ' $command) --help | sed -nE "s/^ +$option=([a-z|]+)( .*|\$)/\1/p" | string split '|')
	else if string match -q -- '-*' $rest
		set offers (weirctl (string split -n ' ' $command) --help | sed -nE '/--usage/!s/^ +(-.,)? *(--[a-z-]+)\S* *(.*)/\2\t\3/p')
	else
		set offers (printf '%s\n' $told | sed -nE "s/^$command([a-z]+) .*/\1/p; s/^$command([a-z]+\t)/\1/p" | sort -r | sort -t\t -k1,1 -u)
	end
	string match -q -- "$rest*" $offers
	or set offers (__fish_complete_path "$rest")
	printf "$before%s\n" $offers
end

complete -c weirctl -f -a '(__weirctl_offers)'
