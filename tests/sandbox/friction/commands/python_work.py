"""Python: scripts that reproduce an issue, tests, modules, one-liners."""

from tests.sandbox.friction.everyday import Everyday, of, other

COMMANDS: tuple[Everyday, ...] = (
    *of(
        "python script", "python reproduce.py",
        "python3 reproduce.py", "python reproduce.py", "python3 reproduce_issue.py", "python3 reproduce.py 2>&1 | tail -5",
        "cd %PROJECT% && python3 reproduce.py", "cd %PROJECT% && python3 reproduce_issue.py 2>&1 | head -20",
        "python3 reproduce.py > before.txt; sed -i 's/0.19/0.07/' src/shop/price.py; python3 reproduce.py > after.txt",
        "PYTHONPATH=src python3 reproduce.py", "python3 -W error reproduce.py", "python3 -u reproduce.py",
        "timeout 10 python3 reproduce.py", "python3 -X dev reproduce.py", "python3 -B reproduce.py",
        "python3 missing_script.py", "python3 reproduce.py && python3 reproduce_issue.py",
        "python3 reproduce.py; echo $?", "python3 -v reproduce.py 2> /dev/null", "python3 -q reproduce.py < /dev/null",
    ),
    *of(
        "python script", "python3 scripts/report.py",
        "python3 scripts/report.py", "python3 scripts/report.py report.txt", "python3 scripts/report.py /tmp/report.txt",
        "python3 scripts/report.py data/summary.txt && cat data/summary.txt", "python3 ./scripts/report.py | wc -c",
        "python3 scripts/report.py missing/report.txt",
    ),
    *of(
        "python script", "python3 scripts/migrate.py",
        "python3 scripts/migrate.py shop.sqlite", "python3 scripts/migrate.py data/shop.db",
        "python3 scripts/migrate.py a.db && python3 scripts/migrate.py a.db", "python3 scripts/migrate.py :memory:",
        "python3 scripts/migrate.py build/missing/shop.db", "python3 tests/test_cart.py",
        "python3 docs/conf.py && echo configured",
    ),
    *of(
        "runtests.py", "runtests.py",
        "./tests/runtests.py", "python3 tests/runtests.py cart price", "./tests/runtests.py --verbosity=2 cart",
        "cd tests && python3 runtests.py", "./tests/runtests.py missing", "python3 ./tests/runtests.py -v 2>&1 | tail -3",
    ),
    *of(
        "pytest", "pytest",
        "pytest -q", "pytest -q tests/test_cart.py", "pytest tests/test_price.py -k gross", "pytest --collect-only -q",
        "pytest -q -p no:cacheprovider tests", "pytest tests/missing.py",
    ),
    *of("python -m", "python3 -m pytest", "python3 -m unittest discover -s tests -q"),
    *of("python -m", "python3 -m json.tool", "python3 -m json.tool data/config.json pretty.json"),
    *of("python -m", "python3 -m compileall", "python3 -m compileall -q src"),
    *of(
        "python -c", "python3 -c",
        "python3 -c 'import sys; print(sys.version_info[0])'",
        "python3 -c \"import sys; sys.path.insert(0, 'src'); from shop.cart import total; print(total([1]))\"",
        "python3 -c 'open(\"written.txt\", \"w\").write(\"x\" * 1000)'",
        "python3 -c 'raise SystemExit(5)'",
    ),
    *of(
        "sphinx-build", "sphinx-build",
        "sphinx-build -b html docs build/html", "sphinx-build -W -q docs docs/_build && ls docs/_build",
    ),
    *of(
        "sed -i", "sed -i",
        "sed -i 's/sum(prices)/float(sum(prices))/' src/shop/cart.py", "sed -i '1d' CHANGES.md",
        "sed -i 's/0.19/0.2/; s/round/float/' src/shop/price.py && git diff src/shop/price.py",
        "sed -i '2a\\    # checked' src/shop/cart.py", "sed -i.bak 's/Shop/Store/' README.md",
        "sed -i '/Welcome/d' docs/index.rst", "sed -i -e 's/a/b/g' -e '1i\\top' data/orders.csv",
        "sed -i 's/x/y/' missing.py", "find src -name '*.py' -exec sed -i 's/def /def  /' {} +",
        "sed -i '$a last' README.md && tail -1 README.md", "sed -i '1,3s/^/# /' src/shop/price.py",
        "cd src/shop && sed -i 's/TAX/VAT/g' price.py", "sed -i 's|http://|https://|g' README.md",
        "sed -i \"s/version = .*/version = \\\"2.0\\\"/\" pyproject.toml", "sed -i '3,$d' CHANGES.md",
        "grep -rl total src | xargs sed -i 's/total/summed/g'", "sed -i 's/[[:space:]]*$//' internal/parse/parse.go",
        "sed -i '10r data/config.json' README.md", "sed -i '/^$/d' README.md && wc -l README.md",
        "sed -i 's/sh/bash/' bin/test && bin/test",
    ),
    *of("sed -n", "sed -n", "sed -n '1,5p' src/shop/cart.py", "sed -n '/def/p' src/shop/*.py"),
    *other("python3 -m venv", "python3 -m venv --without-pip .venv && .venv/bin/python -c 'import sys; print(sys.prefix)'"),
    *other("python3 -m py_compile", "python3 -m py_compile src/shop/cart.py"),
    *other("python3 -m http.server", "python3 -m http.server 8123 --bind 127.0.0.1 > /dev/null 2>&1 & "
           "for n in 1 2 3 4 5 6 7 8 9; do curl -sf http://127.0.0.1:8123/CHANGES.md && break; sleep 0.1; done"),
    *other("python3 -m timeit", "python3 -m timeit -n 10 -r 1 pass > /dev/null"),
    *other("python3 -m ast", "python3 -m ast src/shop/price.py | head -3"),
    *other("python3 -m zipfile", "python3 -m zipfile -c src.zip src && python3 -m zipfile -l src.zip | wc -l"),
    *other("python3 -m this", "python3 -m this | head -1"),
    *other("python3 -V", "python3 -V"),
    *other("python3 -m site", "python3 -m site > /dev/null"),
)  # fmt: skip
