package shell

import (
	"slices"
	"strings"
)

// This file says what may follow the beginnings of commands that can be allowed
// as such: of each, the options that are known to be harmless. Everything else is
// not covered, also what a later version of a program brings.
//
// In a list, "-x" and "--long" are options without a value, ":" behind one says that it
// takes one, "=" that a value may be attached, "#" that it is a number; "-#" is
// a number for itself; "." lets other words follow, "@" also those that begin
// with an @, which many programs take for the name of a file with more options,
// and "*" anything at all.

const (
	diffs = " -p -u -U# -w -b -M= -C= -R -s -z -c --patch --no-patch --stat= --numstat --shortstat --summary --name-only --name-status --raw --unified= --diff-filter= --word-diff= --color= --no-color --color-words --ignore-all-space --ignore-space-change --ignore-space-at-eol --ignore-blank-lines --no-renames --find-renames= --minimal --patience --histogram --relative= --abbrev= --full-index --no-ext-diff --no-textconv -S: -G: --no-prefix --function-context -W "
	logs  = diffs + " -n# -# -i -g -L: --oneline --graph --all --decorate= --no-decorate --follow --author= --committer= --since= --after= --until= --before= --grep= --invert-grep --format= --pretty= --abbrev-commit --no-abbrev-commit --reverse --merges --no-merges --first-parent --date= --date-order --topo-order --max-count= --skip= --tags= --branches= --remotes= --no-patch --left-right --cherry-pick --no-color --full-history --simplify-merges --ancestry-path . @ "

	goBuild = " -v -x -n -a -race -p: -tags: -trimpath -mod: -buildvcs: -json . "
	cargo   = " -v -q -r -j# -p: -F: --verbose --quiet --release --jobs# --package: --workspace --all --exclude: --lib --bins --bin: --tests --test: --examples --example: --benches --bench: --all-targets --all-features --no-default-features --features: --locked --offline --frozen --keep-going --message-format= --color= "
	prints  = " -f: --filter: --format: "
	counts  = " -A# -B# -C# -m# -# "
	ghLists = " -s: -L: -l: -A: -a: -S: --state: --limit: --label: --author: --assignee: --search: --json: --jq: -q: "
)

// beginning is the words of a command after its name, and what may follow them.
type beginning struct{ verbs, follow string }

// beginnings are the commands of which all that begin alike do alike. What is not
// here can be allowed exactly as it stands and not by its beginning: an
// interpreter, a wrapper or a program nobody knows may do anything with its words.
var beginnings = map[string][]beginning{
	"git": {
		{"status", "-s -b -u= -v -z --short --branch --long --porcelain= --ignored= --untracked-files= --show-stash --ahead-behind ."},
		{"log", logs}, {"show", logs}, {"diff", diffs + "--cached --staged --merge-base --exit-code --quiet -q --check . @"},
		{"branch", "-a -r -v -q -l --all --remotes --list --verbose --show-current --contains= --no-contains= --merged= --no-merged= --points-at= --sort= --format= --column= --color= --no-color . @"},
		{"blame", "-L: -w -M= -C= -s -e -l -t -f -n --date= -p --porcelain --line-porcelain --since= . @"}, {"add", "-A -u -v -n -N --all --update --verbose --dry-run --intent-to-add ."},
		{"commit", "-m: -a -q -v -s --message= --all --quiet --verbose --signoff --allow-empty --dry-run ."}, {"ls-files", "-c -d -m -o -s -u -v -t -z --cached --deleted --modified --others --stage --exclude-standard --error-unmatch --full-name ."},
		{"ls-tree", "-r -t -d -l -z --name-only --name-status --full-name --full-tree --long . @"}, {"rev-parse", "-q --quiet --verify --short= --abbrev-ref= --symbolic --symbolic-full-name --show-toplevel --show-prefix --show-cdup --git-dir --absolute-git-dir --git-common-dir --is-inside-work-tree --is-bare-repository . @"},
		{"describe", "--tags --all --always --long --dirty= --abbrev= --match= --exclude= --exact-match --contains . @"}, {"shortlog", "-s -n -e --all --since= --until= --no-merges --numbered --summary --email . @"},
		{"tag", "-l -n# -i --list= --sort= --contains= --no-contains= --points-at= --merged= --no-merged= --format= --column= . @"}, {"remote get-url", "--all --push ."}, {"remote", "-v --verbose"},
		{"stash list", logs}, {"stash show", logs},
		{"grep", counts + "-n -i -l -L -c -w -v -E -F -P -G -h -H -o -q -a -I -p -W -e: --cached --untracked --count --line-number --column --ignore-case --name-only --files-with-matches --files-without-match --word-regexp --invert-match --extended-regexp --fixed-strings --perl-regexp --heading --break --show-function --color= --no-color --and --or --not --all-match --only-matching --context= --max-depth= . @"},
		{"merge-base", "-a --all --is-ancestor --fork-point --octopus --independent . @"}, {"rev-list", "-n# -# --count --all --max-count= --since= --until= --left-right --merges --no-merges --first-parent --reverse --objects . @"},
		{"cat-file", "-p -t -s -e . @"}, {"count-objects", "-v -H --verbose --human-readable"}, {"check-ignore", "-v -q -n --verbose --quiet --non-matching --no-index ."},
	},
	"go": {
		{"build", goBuild}, {"vet", goBuild}, {"list", goBuild + "-m -f: -deps -test -e -find -versions -export -json="}, {"fmt", "-n -x ."}, {"doc", "-all -short -src -u -c -cmd ."}, {"version", "-m -v ."}, {"env", "-json -changed ."},
		{"test", goBuild + "-run: -skip: -count: -short -timeout: -bench: -benchmem -benchtime: -cover -covermode: -coverpkg: -failfast -fullpath -parallel: -cpu: -shuffle: -list: -vet:"},
		{"mod tidy", "-v -x -e -diff -go: -compat:"}, {"mod download", "-x -json ."}, {"mod verify", ""}, {"mod graph", "-x -go:"}, {"mod why", "-m -vendor ."}, {"work sync", ""},
	},
	"cargo": {
		{"build", cargo}, {"check", cargo}, {"test", cargo + "--no-run --no-fail-fast --doc ."}, {"clippy", cargo + "--no-deps --fix --allow-dirty --allow-staged"}, {"bench", cargo + "--no-run --no-fail-fast ."}, {"fmt", "-v -q -p: --all --check --verbose --quiet --package:"},
		{"doc", cargo + "--no-deps --document-private-items"}, {"tree", "-e: -i: -p: -d -q --edges: --invert: --package: --depth: --duplicates --workspace --all-features --no-default-features --features: --locked --offline --frozen"},
		{"metadata", "--no-deps --format-version: --locked --offline --frozen"}, {"nextest run", cargo + "-E: --no-run --no-fail-fast --fail-fast --retries: ."},
	},
	"npm":  {{"test", "-s --silent --if-present ."}, {"run", "-s --silent --if-present ."}, {"ls", "-a -l --all --long --json --depth= ."}, {"list", "-a -l --all --long --json --depth= ."}, {"outdated", "-l --long --json ."}, {"audit", "--json --audit-level= --omit="}, {"view", "--json . @"}, {"why", "--json . @"}, {"start", "-s --silent"}},
	"pnpm": {{"test", "-s --silent ."}, {"run", "-s --silent --if-present ."}, {"ls", "--depth= --json --long -r ."}, {"list", "--depth= --json --long -r ."}, {"outdated", "--long -r ."}, {"audit", "--json --prod"}, {"why", "--json -r . @"}}, "yarn": {{"test", "-s --silent ."}, {"run", "-s --silent ."}, {"list", "--depth= --json"}, {"outdated", "--json"}, {"why", ". @"}},
	"make": {{"", "-s -k -n -i -w -B -j# --silent --quiet --keep-going --dry-run --just-print --no-print-directory --jobs# --always-make --output-sync="}}, "just": {{"", "-q -n --quiet --dry-run"}}, "ninja": {{"", "-v -n -j# -k# --verbose --quiet"}}, "rake": {{"", "-q -s -t -n -m --quiet --silent --trace --dry-run --multitask"}},
	"cmake":  {{"--build", "-j# -t: -v --parallel# --target: --config: --clean-first --verbose ."}},
	"gradle": {{"build", "-q -i -w -s --quiet --info --warn --stacktrace --offline --no-daemon --continue --rerun-tasks --parallel"}, {"test", "-q -i -w -s --quiet --info --warn --stacktrace --offline --no-daemon --continue --rerun-tasks --parallel --tests:"}, {"check", "-q -i -w -s --quiet --info --warn --stacktrace --offline --no-daemon --continue --rerun-tasks --parallel"}},
	"mvn":    {{"compile", "-q -B -o -e --quiet --batch-mode --offline --errors"}, {"test", "-q -B -o -e --quiet --batch-mode --offline --errors"}, {"verify", "-q -B -o -e --quiet --batch-mode --offline --errors"}, {"package", "-q -B -o -e --quiet --batch-mode --offline --errors"}},
	"dotnet": {{"build", "-c: --configuration: --no-restore --nologo"}, {"test", "-c: --configuration: --no-restore --no-build --nologo --filter:"}, {"format", "--no-restore --verify-no-changes"}},
	"swift":  {{"build", "-c: -v -j# --configuration: --target: --product: --verbose --quiet"}, {"test", "-c: -v -j# --configuration: --filter: --skip: --parallel --verbose --quiet"}}, "zig": {{"build", ""}, {"fmt", "--check ."}},
	"mix": {{"compile", "--warnings-as-errors --all-warnings --force"}, {"test", "--trace --failed --stale --cover --only: --exclude: --seed: --max-failures: ."}, {"format", "--check-formatted --dry-run ."}}, "bundle": {{"check", ""}, {"list", "--name-only --paths"}},
	"pytest": {{"", "-q -v -x -s -l -k: -m: -n: -r: --lf --ff --nf --last-failed --failed-first --sw --stepwise --maxfail= --tb= --co --collect-only --durations= --no-header --no-summary --exitfirst --quiet --verbose --showlocals --strict-markers --disable-warnings --color= ."}},
	"tox":    {{"", "-e: -q -v"}}, "nox": {{"", "-s: -e: -l -r -R -t: --sessions: --list"}},
	"mypy":  {{"", "-p: -m: --strict --ignore-missing-imports --show-error-codes --no-error-summary --pretty --python-version: --follow-imports: --check-untyped-defs --no-incremental --warn-unreachable --explicit-package-bases --namespace-packages ."}},
	"ruff":  {{"check", "-q -v -n -e --fix --unsafe-fixes --no-fix --diff --select= --ignore= --extend-select= --exclude= --output-format= --statistics --exit-zero --show-fixes --no-cache --quiet --verbose --preview --target-version= ."}, {"format", "-q -v -n --check --diff --exclude= --no-cache --quiet --verbose --preview --line-length= --target-version= ."}},
	"black": {{"", "-q -v -S -C -l: -t: --check --diff --color --no-color --quiet --verbose --line-length= --target-version= --skip-string-normalization --fast --safe ."}}, "isort": {{"", "-q -v -c -d -l: --check --check-only --diff --df --quiet --verbose --profile= --line-length= --atomic ."}},
	"flake8": {{"", "-q -v --count --statistics --show-source --max-line-length= --max-complexity= --select= --ignore= --extend-select= --extend-ignore= --exclude= ."}}, "pylint": {{"", "-E -d: -e: -s: -r: --disable= --enable= --errors-only --score= --reports= --recursive= ."}}, "pyright": {{"", "--outputjson --warnings --stats --verbose --level: ."}},
	"uv":     {{"sync", "-q -v --frozen --locked --all-extras --all-groups --dev --no-dev --offline --quiet --verbose"}, {"lock", "-q -v --check --locked --offline --quiet --verbose"}},
	"eslint": {{"", "--fix --fix-dry-run --quiet --cache --max-warnings= --ext= --color --no-color --no-error-on-unmatched-pattern --report-unused-disable-directives ."}}, "prettier": {{"", "-c -w -l -u --check --write --list-different --ignore-unknown --log-level= --no-color --no-error-on-unmatched-pattern ."}}, "biome": {{"check", "--write --fix --max-diagnostics= --diagnostic-level= ."}, {"lint", "--write --fix --max-diagnostics= --diagnostic-level= ."}, {"format", "--write --fix ."}},
	"tsc":  {{"", "-p: --project: --noEmit --pretty= --skipLibCheck --listFiles --strict ."}},
	"jest": {{"", "-i -u -b -t: --runInBand --updateSnapshot --bail= --testNamePattern= --coverage --verbose --silent --ci --no-cache --watchAll=  --passWithNoTests --onlyChanged --listTests --detectOpenHandles --forceExit ."}}, "vitest": {{"", "-u -t: --run --update --coverage --bail= --testNamePattern= --silent --passWithNoTests --no-color ."}}, "mocha": {{"", "-b -g: -f: -t: --bail --grep= --fgrep= --timeout= --recursive --check-leaks --forbid-only --exit --no-color --parallel ."}},
	"gofmt": {{"", "-l -d -w -s -e ."}}, "goimports": {{"", "-l -d -w -e -v -local: ."}}, "shfmt": {{"", "-l -d -w -s -i: -ci -bn -sr -kp -fn -ln: ."}}, "staticcheck": {{"", "-checks: -tests: -f: -tags: ."}}, "govulncheck": {{"", "-test -show: -json -tags: ."}}, "golangci-lint": {{"run", "-v -E: -D: --fix --fast --new --new-from-rev= --timeout= --enable= --disable= --disable-all --enable-all --tests= --build-tags= --max-issues-per-linter= --max-same-issues= --allow-parallel-runners --verbose ."}},
	"rustfmt": {{"", "-q -v -l --check --quiet --verbose --edition: ."}}, "clang-format": {{"", "-i -n --dry-run --Werror --verbose ."}}, "shellcheck": {{"", "-x -a -s: -S: -e: -i: -f: -o: --severity= --shell= --exclude= --include= --format= --color= --external-sources --norc ."}}, "hadolint": {{"", "-f: --format: --no-fail --ignore: --no-color ."}}, "yamllint": {{"", "-s -f: --strict --format: --no-warnings ."}}, "markdownlint": {{"", "-q -f --fix --quiet ."}},
	"rubocop": {{"", "-a -A -x -l -L -P -S -D --autocorrect --autocorrect-all --only= --except= --parallel --display-cop-names --lint --fail-fast ."}}, "phpunit": {{"", "--filter= --testdox --stop-on-failure --stop-on-error --group= --exclude-group= --testsuite= ."}}, "ctest": {{"", "-j# -R: -E: -L: -C: -V -N --output-on-failure --rerun-failed --verbose --test-dir: --parallel# --timeout# --stop-on-failure"}},

	"ls": {{"", "-a -A -b -B -c -C -d -f -F -g -G -h -i -k -l -L -m -n -N -o -p -q -Q -r -R -s -S -t -u -U -v -x -X -Z -1 -I: -T# -w# --all --almost-all --human-readable --color= --group-directories-first --sort= --time= --full-time --recursive --reverse --size ."}}, "cat": {{"", "-A -b -e -E -n -s -t -T -u -v --number --show-all --show-ends --show-tabs --squeeze-blank ."}},
	"head": {{"", "-n# -c# -# -q -v -z --lines# --bytes# --quiet --verbose ."}}, "tail": {{"", "-n# -c# -s# -# -q -v -f -F -r -z --lines# --bytes# --follow= --retry --quiet --verbose ."}}, "wc": {{"", "-c -l -L -m -w --bytes --chars --lines --words --max-line-length ."}}, "nl": {{"", "-b: -n: -s: -v# -w# -i# ."}}, "cut": {{"", "-b: -c: -d: -f: -n -s -z --bytes= --characters= --delimiter= --fields= --output-delimiter= --only-delimited --complement ."}},
	"grep": {{"", greps}}, "egrep": {{"", greps}}, "fgrep": {{"", greps}},
	"rg":   {{"", counts + "-c -F -h -H -i -I -l -L -n -N -o -p -P -q -s -S -u -U -v -w -x -. -e: -g: -j# -M# -t: -T: --count --count-matches --fixed-strings --ignore-case --smart-case --case-sensitive --files-with-matches --files-without-match --files --line-number --no-line-number --only-matching --pretty --pcre2 --invert-match --word-regexp --multiline --hidden --no-ignore --no-ignore-vcs --glob= --iglob= --type= --type-not= --type-list --max-count# --max-depth# --max-columns# --context# --after-context# --before-context# --threads# --heading --no-heading --no-filename --with-filename --column --trim --json --stats --sort= --color= --colors= --follow --null --vimgrep ."}},
	"file": {{"", "-b -i -I -k -L -h -s -N -r --brief --mime --mime-type --mime-encoding --dereference ."}}, "stat": {{"", "-c: -f -t -L -x --format= --printf= --file-system --terse --dereference ."}}, "du": {{"", "-a -b -c -h -H -k -l -L -m -s -S -x -0 -d# -t: --all --apparent-size --bytes --total --human-readable --max-depth# --summarize --si --exclude= --threshold= --one-file-system ."}}, "df": {{"", "-a -h -H -i -k -l -m -P -T -t: -x: --all --human-readable --inodes --local --total --type= --print-type ."}},
	"tree": {{"", "-a -d -l -f -x -L# -I: -P: -i -q -N -Q -p -u -g -s -h -D -F -v -t -c -U -r -J -n -C --dirsfirst --filesfirst --gitignore --noreport --prune --sort= --charset= --du --si ."}}, "diff": {{"", "-a -b -B -c -d -e -E -i -n -N -p -q -r -s -t -T -u -w -y -Z -C# -U# -W# -x: --brief --unified= --context= --recursive --new-file --ignore-case --ignore-all-space --ignore-blank-lines --ignore-space-change --side-by-side --suppress-common-lines --color= --exclude= --strip-trailing-cr --text --minimal --stat ."}}, "cmp": {{"", "-b -l -s -n# -i: --print-bytes --verbose --silent --quiet --bytes# ."}},
	"jq": {{"", "-a -c -C -e -j -M -n -r -R -s -S --ascii-output --compact-output --color-output --exit-status --join-output --monochrome-output --null-input --raw-output --raw-input --slurp --sort-keys --tab --indent# ."}}, "pwd": {{"", "-L -P"}}, "which": {{"", "-a ."}}, "uname": {{"", "-a -i -m -n -o -p -r -s -v"}}, "whoami": {{"", ""}}, "id": {{"", "-u -g -G -n -r ."}},
	"ps": {{"", "-A -a -d -e -f -F -H -j -l -L -N -u: -U: -p: -o: -C: -x --sort= --forest --no-headers --pid= --user= --ppid= ."}}, "echo": {{"", "*"}}, "mkdir": {{"", "-p -v --parents --verbose ."}},
	"docker": {{"ps", "-a -q -s -l -n# --all --quiet --no-trunc --size --latest" + prints}, {"images", "-a -q --all --quiet --no-trunc --digests ." + prints}, {"logs", "-f -t -n: --follow --timestamps --tail: --since: --until: --details ."}, {"inspect", "-s --size --type: -f: --format: ."}, {"version", "-f: --format:"}, {"info", "-f: --format:"}},
	"gh":     {{"pr view", "-c --comments --json: --jq: -q: ."}, {"pr list", ghLists + "-B: -H: -d --base: --head: --draft"}, {"pr diff", "--name-only --patch --color: ."}, {"pr status", "-c --conflict-status --json: --jq: -q:"}, {"pr checks", "--required --watch --json: --jq: -q: ."}, {"issue view", "-c --comments --json: --jq: -q: ."}, {"issue list", ghLists}, {"run view", "-v -j: --verbose --log --log-failed --job: --exit-status --attempt: --json: --jq: -q: ."}, {"run list", "-b: -u: -w: -e: --branch: --user: --workflow: --event: --status: " + ghLists}},
}

const greps = counts + "-a -c -E -F -G -h -H -i -I -l -L -n -o -P -q -r -R -s -T -U -v -w -x -y -z -Z -e: --include= --exclude= --exclude-dir= --color= --colour= --count --extended-regexp --fixed-strings --perl-regexp --ignore-case --files-with-matches --files-without-match --line-number --no-filename --with-filename --only-matching --quiet --silent --no-messages --recursive --dereference-recursive --invert-match --word-regexp --line-regexp --text --null --max-count# --after-context# --before-context# --context# ."

// follows tells whether words may follow a beginning of a program.
func follows(name, list string, words []string) bool {
	spec := map[string]byte{} // an option, and what of a value it takes
	for _, s := range strings.Fields(list) {
		kind := s[len(s)-1]
		switch {
		case s == "*":
			return true
		case s == "-#" || s == "." || s == "@" || s == "-.":
			spec[s] = ' '
		case strings.IndexByte(":=#", kind) >= 0:
			spec[s[:len(s)-1]] = kind
		default:
			spec[s] = ' '
		}
	}
	operand := func(w string) bool {
		_, some := spec["."]
		_, at := spec["@"]
		return some && !strings.HasPrefix(w, "-") && (at || !strings.HasPrefix(w, "@")) && tame(name, w) || w == "-" && some
	}
	for i := 0; i < len(words); i++ {
		w := words[i]
		if w == "--" {
			for _, w := range words[i+1:] {
				if !operand(w) {
					return false
				}
			}
			return !tasks[name] // what it hands on may be a setting there
		}
		if len(w) < 2 || w[0] != '-' {
			if !operand(w) {
				return false
			}
			continue
		}
		// value takes the next word if the option needs one.
		value := func(kind byte, v string, attached bool) bool {
			switch {
			case kind == ' ':
				return !attached || oneDash[name] && slices.Contains([]string{"true", "false"}, v)
			case kind == '#' && attached:
				return isNumber(v)
			case kind == '#':
				if i+1 < len(words) && isNumber(words[i+1]) {
					i++
					return true
				}
				return i+1 == len(words) || len(words[i+1]) > 1 && words[i+1][0] == '-'
			case attached:
				return !strings.HasPrefix(v, "-") && tame(name, v)
			case kind == '=':
				return true
			}
			i++
			return i < len(words) && !strings.HasPrefix(words[i], "-") && tame(name, words[i])
		}
		if oneDash[name] || strings.HasPrefix(w, "--") {
			if oneDash[name] && strings.HasPrefix(w, "--") {
				w = w[1:]
			}
			o, v, attached := strings.Cut(w, "=")
			kind, ok := spec[o]
			if !ok || !value(kind, v, attached) {
				return false
			}
			continue
		}
		if _, ok := spec["-#"]; ok && isNumber(w[1:]) {
			continue
		}
		for j := 1; j < len(w); j++ {
			kind, ok := spec["-"+w[j:j+1]]
			if !ok || w[j] == '#' {
				return false
			}
			if kind == ' ' || kind == '=' && j+1 == len(w) {
				continue
			}
			if !value(kind, w[j+1:], j+1 < len(w)) {
				return false
			}
			break
		}
	}
	return true
}

func isNumber(s string) bool {
	s = strings.TrimLeft(s, "+-")
	return s != "" && strings.Trim(s, "0123456789") == ""
}
