"""File types for `search`: language names as ripgrep knows them, each with the patterns of its file names.

The table is ours, so that a type means the same with and without ripgrep.
"""

from __future__ import annotations

from outlast.runtime.tools.port import ToolFault

TYPES: dict[str, tuple[str, ...]] = {
    name: tuple(patterns.split())
    for name, patterns in {
        "asm": "*.asm *.s *.S",
        "bat": "*.bat *.cmd",
        "c": "*.c *.h *.H *.cats",
        "clojure": "*.clj *.cljc *.cljs *.cljx",
        "cmake": "CMakeLists.txt *.cmake",
        "cpp": "*.C *.H *.cc *.cpp *.cxx *.h *.hh *.hpp *.hxx *.inl",
        "cs": "*.cs",
        "css": "*.css *.scss *.sass *.less",
        "csv": "*.csv *.tsv",
        "cuda": "*.cu *.cuh",
        "dart": "*.dart",
        "docker": "*Dockerfile* *.dockerfile",
        "elixir": "*.ex *.exs *.eex *.heex *.leex",
        "elm": "*.elm",
        "erlang": "*.erl *.hrl",
        "fortran": "*.f *.F *.f77 *.f90 *.F90 *.f95 *.F95 *.for",
        "fsharp": "*.fs *.fsi *.fsx",
        "go": "*.go",
        "graphql": "*.graphql *.graphqls *.gql",
        "groovy": "*.groovy *.gradle",
        "haskell": "*.hs *.lhs *.cabal",
        "html": "*.html *.htm *.ejs",
        "java": "*.java *.jsp *.properties",
        "js": "*.js *.jsx *.mjs *.cjs *.vue",
        "json": "*.json *.jsonl *.json5",
        "julia": "*.jl",
        "jupyter": "*.ipynb",
        "kotlin": "*.kt *.kts",
        "log": "*.log",
        "lua": "*.lua",
        "make": "[Mm]akefile* GNUmakefile* *.mk *.mak",
        "md": "*.md *.markdown *.mdown *.mdx",
        "nix": "*.nix",
        "objc": "*.m *.h",
        "ocaml": "*.ml *.mli *.mll *.mly",
        "perl": "*.pl *.pm *.PL *.plx *.t",
        "php": "*.php *.phtml *.php3 *.php4 *.php5 *.php7 *.php8",
        "proto": "*.proto",
        "ps": "*.ps1 *.psm1 *.psd1 *.ps1xml",
        "py": "*.py *.pyi",
        "r": "*.r *.R *.Rmd *.Rnw",
        "rst": "*.rst",
        "ruby": "*.rb *.gemspec *.rbw Gemfile Rakefile config.ru",
        "rust": "*.rs",
        "scala": "*.scala *.sbt",
        "sh": "*.sh *.bash *.zsh *.ksh *.csh *.fish .bashrc .zshrc .profile .bash_profile",
        "sql": "*.sql *.psql",
        "svelte": "*.svelte",
        "swift": "*.swift",
        "tex": "*.tex *.ltx *.cls *.sty *.bib",
        "tf": "*.tf *.tfvars *.hcl",
        "toml": "*.toml Cargo.lock",
        "ts": "*.ts *.tsx *.mts *.cts",
        "txt": "*.txt",
        "vim": "*.vim .vimrc vimrc",
        "vue": "*.vue",
        "xml": "*.xml *.xsd *.xsl *.xslt *.svg *.dtd *.rng",
        "yaml": "*.yaml *.yml",
        "zig": "*.zig",
    }.items()
}
OTHER_NAMES = {
    "python": "py", "javascript": "js", "typescript": "ts", "jsx": "js", "tsx": "ts", "golang": "go", "rs": "rust",
    "rb": "ruby", "c++": "cpp", "csharp": "cs", "bash": "sh", "shell": "sh", "markdown": "md", "yml": "yaml",
    "terraform": "tf", "powershell": "ps", "dockerfile": "docker", "kt": "kotlin", "hs": "haskell", "text": "txt",
}  # fmt: skip


def patterns_of(language: str | None) -> tuple[str, ...]:
    """Return the name patterns of a type, none for None. Raises ToolFault with the known types if it is unknown."""
    if language is None:
        return ()
    name = language.strip().lower()
    patterns = TYPES.get(OTHER_NAMES.get(name, name))
    if patterns is None:
        raise ToolFault(f"there is no type '{language[:40]}'; there are {', '.join(TYPES)}; for others use glob")
    return patterns
