"""Commands that need hosts: the forge, git's remote, package indexes, downloads."""

from tests.sandbox.friction.commands.git_work import TRACKING
from tests.sandbox.friction.everyday import Everyday, of, other

COMMANDS: tuple[Everyday, ...] = (
    *of(
        "gh api", "gh api",
        "gh api repos/shop/pulls/7", "gh api repos/shop/pulls/7/comments --jq '.[].body'", "gh api user",
        "gh api repos/shop/pulls/7/comments -f body='Done.' -f in_reply_to=3",
        "gh api graphql -f query='{ viewer { login } }'", "gh api repos/shop/actions/runs > runs.json",
        "gh api repos/shop/issues/3 | jq .id", "gh api --paginate repos/shop/commits | head -c 200",
        "gh api repos/shop/contents/README.md | jq -r .path", "gh api repos/shop/releases/latest | jq .",
    ),
    *of("gh pr", "gh pr", "gh pr view 7", "gh pr create --title 'Add empty' --body 'It is needed.'", "gh pr diff 7 > pr.diff",
        "gh pr list --json number"),
    *of("gh run", "gh run", "gh run view 7 --log-failed | tail -20"),
    *of(
        "git push", "git push",
        "git push origin feature", "git stash -q; git pull -q && git commit -q --allow-empty -m next && git push",
        "git push -u origin HEAD:topic",
    ),
    *of("git fetch", "git fetch", "git fetch origin"),
    *other("gh issue", "gh issue list"),
    *other("gh release", "gh release view"),
    *other("gh repo", "gh repo view"),
    *other("gh pr checkout", "git stash -q; gh pr checkout 7"),
    *other("git pull", "git stash -q; git pull --rebase origin main"),
    *other("git ls-remote", "git ls-remote origin"),
    *other("git clone http", "git clone -q http://git.example.org/shop.git cloned"),
    *other("git fetch --all", "git fetch --all --prune --tags"),
    *other("git push --delete", "git push origin --delete feature"),
    *other("git push --tags", "git push --tags"),
    *other("curl", "curl -sS http://files.example.org/data.txt -o downloaded.txt", "curl -sf http://files.example.org/missing"),
    *other("curl -I", "curl -sI http://files.example.org/data.txt | head -1"),
    *other("wget", "wget -q http://files.example.org/install.txt"),
    *other("go mod download", "go mod download"),
    *other("go get", "go get modules.example.org/text"),
    *other("pip install", "python3 -m pip install -q --target vendor tinytext"),
    *other("pip download", "python3 -m pip download -q -d wheels tinytext"),
    *other("npm install", "npm install --silent tinysum && node -p 'require(\"tinysum\")(1, 2)'"),
    *other("npm view", "npm view tinysum version"),
    *other("python3 -c urllib", "python3 -c 'import urllib.request as r; print(r.urlopen(\"http://files.example.org/data.txt\").read())'"),
    *other("git switch origin", "git stash -q; git branch -q -D feature; git switch feature", differs=TRACKING),
)  # fmt: skip
