"""Every path of a patch is judged as an edit of it would be; a stored output is no path."""

from pathlib import Path

import pytest

from outlast.core.messages import ToolCall
from outlast.runtime.permissions.call_paths import named_paths, patch_paths
from outlast.runtime.permissions.evaluate import Verdict, decide
from outlast.runtime.permissions.rules import PermissionRule, RuleSet
from outlast.runtime.tools.files.patch import MalformedPatch, parsed_patch
from tests.unit.runtime.permissions.place import call, make_project, policy_of

MODES = ("read-only", "workspace-write", "danger-full-access", "prompt", "allow")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("paths"))


def patch(*headers: str) -> ToolCall:
    return call("apply_patch", patch="\n".join(["*** Begin Patch", *headers, "*** End Patch"]))


@pytest.mark.parametrize(
    ("header", "verdicts"),
    [
        ("*** Update File: a.txt", "deny allow allow ask allow"),
        ("*** Add File: new/x.py", "deny allow allow ask allow"),
        ("*** Delete File: a.txt", "deny allow allow ask allow"),
        ("*** Delete File: ../outside.txt", "deny ask allow ask allow"),
        ("*** Update File: link_secret", "deny ask allow ask allow"),
        ("*** Add File: .git/hooks/pre-commit", "deny ask allow ask allow"),
        ("*** Update File: a.txt\n*** Move to: ../x", "deny ask allow ask allow"),
        ("*** Update File: a.txt\r\n*** Move to:/etc/x \t\r", "deny ask allow ask allow"),
        ("*** Update File: a.txt\n*** Add File: .bashrc", "deny ask allow ask allow"),
    ],
)
def test_a_patch_is_judged_by_all_its_paths(project: Path, header: str, verdicts: str) -> None:
    said = [decide(patch(header), policy_of(project, mode, prompting=True)).verdict for mode in MODES]
    assert said == verdicts.split()


def test_rules_find_the_paths_of_a_patch(project: Path) -> None:
    made = patch("*** Update File: a.txt", "@@", "-x", "+y", "*** Delete File: src/main.py")
    for tool in ("", "apply_patch", "edit", "write"):
        denied = RuleSet(deny=(PermissionRule(tool=tool, path_contains="src/main"),))
        assert decide(made, policy_of(project, "allow", rules=denied)).code == "rule-deny"
    for part, code in {"proj/": "rule-allow", "src/": "mode-prompt"}.items():
        allowed = RuleSet(allow=(PermissionRule(tool="apply_patch", path_contains=part),))
        assert decide(made, policy_of(project, "prompt", rules=allowed, prompting=True)).code == code
    other = RuleSet(allow=(PermissionRule(tool="edit"),))
    assert decide(made, policy_of(project, "prompt", rules=other, prompting=True)).verdict is Verdict.ASK


@pytest.mark.parametrize(
    "lines",
    [
        ["*** Update File: a", "@@", "-x", "+*** Delete File: b"],
        ["*** Add File: a", "+*** Move to: b"],
        ["  *** Delete File: hidden", "*** Delete File: a"],
        ["*** Delete File: a", "\t*** Delete File: b"],
    ],
)
def test_what_the_parser_touches_was_judged(lines: list[str]) -> None:
    text = "\n".join(["*** Begin Patch", *lines, "*** End Patch"])
    try:
        touched = {section.path for section in parsed_patch(text)}
    except MalformedPatch:
        return
    assert touched <= set(patch_paths(text)) == {"a"}


def test_a_stored_output_is_allowed_in_every_mode_unless_a_rule_says_otherwise(project: Path) -> None:
    made = call("read", file_path="output:call_1")
    assert [decide(made, policy_of(project, mode)).verdict for mode in MODES] == ["allow"] * 5
    rules = RuleSet(deny=(PermissionRule(tool="read"),))
    assert decide(made, policy_of(project, rules=rules)).verdict is Verdict.DENY
    assert decide(call("read", file_path="./output:x"), policy_of(project, "prompt")).verdict is Verdict.DENY


def test_arguments_of_another_type_name_no_path() -> None:
    assert named_paths("apply_patch", {"patch": 3}) == []
    assert named_paths("read", {"file_path": None, "path": ["x"]}) == []
    assert named_paths("search", {"path": "a", "pattern": "b"}) == ["a"]
