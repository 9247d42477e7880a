"""Programs that only read, with the options known to be harmless, and a few that are known to write.

Left out on purpose: options that run a program (`rg --pre`, `sort --compress-program`, `file -z`, `diff -l`), write
a file (`sort -o`, `tree -o`), take names or settings from elsewhere (`wc --files0-from`), follow links out of the
project while recursing (`grep -R`, `find -L`), or never end (`tail -f`). Programs whose arguments are a language, such
as `find` and `git`, are in `special_programs` and `git`.
"""

from __future__ import annotations

from outlast.runtime.permissions.shell.arguments import Grammar, OptionKind, grammar

_SUMS = grammar(
    "bctwz", "binary check text tag zero ignore-missing quiet status strict warn", valued="a", loose=True, digits=True
)
_GREP = grammar(
    "EFGPivwxcLloqsbHhnTUzarIyZ",
    "include== exclude== exclude-dir== exclude-from=r color=? colour=? recursive line-number ignore-case "
    "files-with-matches files-without-match count word-regexp line-regexp fixed-strings extended-regexp basic-regexp "
    "perl-regexp invert-match only-matching max-count== after-context== before-context== context== no-filename "
    "with-filename quiet silent no-messages text binary-files== null null-data regexp== file=r label== line-buffered "
    "initial-tab byte-offset directories== devices==",
    valued="emABCdD",
    reads="f",
    pattern=True,
    expressions="-e -f --regexp --file",
    digits=True,
    loose=True,
)

READERS: dict[str, Grammar] = {
    "ls": grammar(
        "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1",
        "all almost-all author escape block-size== ignore-backups color=? directory classify=? file-type format== "
        "full-time group-directories-first no-group human-readable si hide== hyperlink=? indicator-style== inode "
        "ignore== kibibytes dereference numeric-uid-gid literal quote-name quoting-style== reverse recursive size "
        "sort== time== time-style== width== zero",
        valued="IwT",
        loose=True,
    ),
    "cat": grammar(
        "AbeEnstTuv",
        "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting",
        loose=True,
    ),
    "head": grammar(
        "qvz", "lines== bytes== quiet silent verbose zero-terminated", valued="nc", digits=True, loose=True
    ),
    "tail": grammar(
        "qvzr", "lines== bytes== quiet silent verbose zero-terminated", valued="ncb", digits=True, loose=True
    ),
    "wc": grammar("clmwL", "bytes chars lines words max-line-length total==", loose=True),
    "nl": grammar("p", "body-numbering== number-width== number-format== starting-line-number==", valued="bdfhilnsvw"),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "rg": grammar(
        "iSsvwxcnNloqpFPUaHIu0.",
        "ignore-case smart-case case-sensitive invert-match word-regexp line-regexp count count-matches line-number "
        "no-line-number files-with-matches files-without-match only-matching quiet pretty fixed-strings pcre2 "
        "multiline multiline-dotall text with-filename no-filename heading no-heading hidden no-ignore no-ignore-vcs "
        "unrestricted null column glob== iglob== type== type-not== type-list max-count== after-context== "
        "before-context== context== context-separator== threads== max-depth== max-columns== max-filesize== encoding== "
        "replace== regexp== file=r files json stats color== colors== trim vimgrep sort== sortr== no-messages crlf "
        "passthru byte-offset no-config no-follow",
        valued="egtTmABCjdMEr",
        reads="f",
        pattern=True,
        expressions="-e -f --regexp --file --files --type-list",
    ),
    "fd": grammar(
        "HIsigaFpu01q",
        "hidden no-ignore case-sensitive ignore-case glob absolute-path fixed-strings full-path print0 max-results== "
        "max-depth== min-depth== extension== type== exclude== size== changed-within== changed-before== color==",
        valued="detES",
        pattern=True,
        expressions="-e --extension -t --type",
    ),
    "file": grammar("bhikN0L", "brief mime mime-type mime-encoding no-pad dereference no-dereference", valued="F"),
    "stat": grammar("Lftx", "format== printf== terse file-system dereference", valued="c", loose=True),
    "du": grammar(
        "abchHklmsSx0",
        "all apparent-size bytes total human-readable summarize one-file-system max-depth== exclude== threshold== "
        "block-size== si null separate-dirs count-links time=?",
        valued="dBt",
        reads="X",
    ),
    "df": grammar(
        "ahHiklPT", "all human-readable si inodes local portability print-type total", valued="Bt", loose=True
    ),
    "tree": grammar(
        "adfixpsughDFqNQrtcUJnACSv",
        "noreport dirsfirst filesfirst gitignore prune filelimit== sort== inodes device du si matchdirs ignore-case",
        valued="LPI",
    ),
    "uniq": grammar(
        "cdDiuz",
        "count repeated unique ignore-case skip-fields== skip-chars== check-chars== all-repeated=?",
        valued="fsw",
        most=1,
    ),
    "sort": grammar(
        "bdfghiMnRrVcCmsuz",
        "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort ignore-nonprinting month-sort "
        "human-numeric-sort numeric-sort random-sort reverse version-sort check=? merge stable unique zero-terminated "
        "key== field-separator== sort== parallel==",
        valued="ktS",
    ),
    "cut": grammar(
        "nsz", "delimiter== fields== characters== bytes== complement only-delimited output-delimiter==", valued="bcdf"
    ),
    "diff": grammar(
        "abBcdeEiHnNpPqstTuwyZ",
        "brief unified=? context=? ignore-all-space ignore-blank-lines ignore-case ignore-space-change side-by-side "
        "width== color=? text new-file report-identical-files strip-trailing-cr suppress-common-lines label== minimal "
        "no-dereference normal ed rcs show-c-function show-function-line== expand-tabs left-column",
        valued="CUFIWL",
        least=2,
        most=2,
    ),
    "cmp": grammar("bls", "print-bytes verbose quiet silent bytes== ignore-initial==", valued="in", least=2, most=2),
    "md5sum": _SUMS,
    "sha256sum": _SUMS,
    "od": grammar("abcdfilosvxh", "address-radix== format== read-bytes== skip-bytes== width=?", valued="AjNStw"),
    "xxd": grammar("abeipu", valued="lscgo", most=1),
    "realpath": grammar(
        "ePLmqsz", "canonicalize-existing canonicalize-missing relative-to=r relative-base=r strip quiet"
    ),
    "readlink": grammar("femnqsvz", "canonicalize canonicalize-existing canonicalize-missing no-newline"),
}
"""Their operands, and some option values, are paths that are read."""

TALKERS: dict[str, Grammar] = {
    "pwd": grammar("LP", "logical physical", operands=OptionKind.NONE),
    "tr": grammar("cCdst", "complement delete squeeze-repeats truncate-set1", operands=OptionKind.TEXT),
    "basename": grammar("az", "multiple suffix== zero", valued="s", operands=OptionKind.TEXT),
    "dirname": grammar("z", "zero", operands=OptionKind.TEXT),
    "seq": grammar("w", "format== separator== equal-width", valued="fs", operands=OptionKind.TEXT, digits=True),
    "true": grammar(operands=OptionKind.TEXT),
    "false": grammar(operands=OptionKind.TEXT),
    ":": grammar(operands=OptionKind.TEXT),
    "which": grammar("as", "all", operands=OptionKind.TEXT),
    "type": grammar("tpaP", operands=OptionKind.TEXT),
    "uname": grammar("asnrvmpio", "all kernel-name machine kernel-release", operands=OptionKind.NONE),
    "nproc": grammar("", "all ignore==", operands=OptionKind.NONE),
    "whoami": grammar(operands=OptionKind.NONE),
    "id": grammar("ugGnrz", "user group groups name real", operands=OptionKind.TEXT),
    "free": grammar("bkmghtl", "human mega giga total", operands=OptionKind.NONE),
    "sleep": grammar(operands=OptionKind.TEXT, most=1),
}
"""Their operands are text, not paths."""

WRITERS = frozenset({"mkdir", "touch", "tee", "cp", "mv"})
"""Known to write: asked about, and denied in read-only mode."""

BUILTINS = frozenset({"cd", "echo", "printf", "pwd", "test", "[", "true", "false", ":", "type", "command"})
"""Commands that bash runs itself: never looked up in PATH."""
