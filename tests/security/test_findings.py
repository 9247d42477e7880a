"""Every finding of the security trial has tests that show it closed; those without one say why."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tests.conftest import TESTS

DECIDE = "unit/runtime/permissions"
TOOLS = "unit/runtime/tools"
REPL = "unit/doors/repl"

SHOWN_BY: dict[str, tuple[str, ...]] = {
    "C1": (
        "integration/doors/repl/test_hostile_clone.py::test_printf_does_not_choose_the_program_that_runs",
        "integration/doors/repl/test_hostile_clone.py::test_injected_model_alone_cannot_build_and_run_a_program",
        "integration/runtime/tools/test_unasked.py::test_unasked_command_cannot_choose_its_programs",
        "integration/runtime/tools/test_unasked.py::test_command_that_sets_a_variable_is_asked_about",
    ),
    "C2": (
        f"{REPL}/test_project_model.py::test_project_that_names_a_model_of_its_own_is_refused",
        f"{REPL}/test_project_model.py::test_c2_without_consent_to_these_bytes_the_project_chooses_neither_model_nor_persona",
        f"{REPL}/test_project_model.py::test_c2_not_even_with_consent_is_a_file_the_model",
        f"{REPL}/test_project_model.py::test_c2_not_even_with_consent_does_a_project_choose_an_endpoint",
        f"{REPL}/test_project_model.py::test_c2_a_persona_of_the_project_names_a_model_only_after_consent",
        f"{REPL}/test_project_model.py::test_c2_definitions_of_claude_code_choose_no_model_and_no_mode",
        f"{REPL}/test_project_model.py::test_c2_a_project_s_persona_gives_a_sub_agent_no_tool_that_its_parent_lacks",
        "http/test_sessions.py::test_a_file_as_a_model_is_refused_wherever_a_client_names_a_model",
    ),
    "H1": (
        "sandbox/test_sandboxed_agent.py::test_home_keys_and_other_processes_are_out_of_reach",
        "integration/runtime/tools/test_landlock.py::test_confined_command_cannot_read_the_home",
        "integration/doors/repl/test_hostile_clone.py::test_command_that_was_allowed_cannot_read_the_home_and_writes_as_far_as_its_mode",
        "http/test_sessions.py::test_a_file_as_a_model_is_refused_wherever_a_client_names_a_model",
    ),
    "H2": ("integration/doors/repl/test_hostile_clone.py::test_pattern_does_not_become_an_output_file",),
    "H3": (
        "security/test_judged_findings.py::test_reported_command_does_not_run_unasked",
        f"{DECIDE}/test_corpus.py::test_no_hostile_command_is_waved_through",
    ),
    "H4": (
        "security/test_judged_findings.py::test_reported_command_does_not_run_unasked",
        f"{DECIDE}/test_corpus.py::test_no_hostile_command_is_waved_through",
    ),
    "H5": (
        "integration/runtime/permissions/test_git.py::test_a_configuration_that_may_run_something_is_asked_about",
        "integration/runtime/permissions/test_git.py::test_a_git_folder_that_git_passes_over_does_not_hide_the_repository_above",
        "integration/runtime/permissions/test_git.py::test_submodules_that_git_may_look_into_are_asked_about",
        f"{DECIDE}/test_paths.py::test_h5_a_git_directory_of_another_name_is_asked_about",
        "integration/runtime/test_git_facts.py::test_no_program_of_a_hostile_repository_runs",
    ),
    "H6": (
        "integration/doors/repl/test_imported_session.py::test_imported_session_writes_where_it_is_continued_and_nowhere_else",
        "integration/doors/repl/test_imported_session.py::test_file_chooses_no_model",
        "integration/doors/repl/test_imported_session.py::test_workers_doors_and_clients_do_not_take_the_folder_or_the_model_of_the_file",
    ),
    "H7": (
        "integration/doors/repl/test_hostile_clone.py::test_what_was_always_allowed_is_denied_in_read_only_mode",
        "unit/runtime/permissions/test_session_policy.py::test_what_was_allowed_in_another_mode_is_asked_about_in_read_only_and_denied_in_plan_mode",
        "integration/runtime/tools/test_landlock.py::test_command_that_may_only_look_writes_nothing_in_the_project",
    ),
    "M1": (
        "security/test_judged_findings.py::test_reported_command_does_not_run_unasked",
        f"{DECIDE}/test_corpus.py::test_no_hostile_command_is_waved_through",
    ),
    "M2": (f"{DECIDE}/test_corpus.py::test_links_of_a_clone_are_not_followed_by_a_way_round",),
    "M3": (
        f"{TOOLS}/test_environment.py::test_empty_elements_of_path_which_mean_the_current_folder_are_left_out",
        "integration/runtime/tools/test_unasked.py::test_command_is_asked_about_where_the_current_folder_is_in_path",
    ),
    "M4": (f"{TOOLS}/test_environment.py::test_a_locale_in_which_a_backslash_may_be_half_a_character_is_replaced",),
    "M5": (
        "integration/runtime/tools/test_landlock.py::test_confined_command_cannot_read_the_environment_of_the_agent_even_as_root",
        "sandbox/test_landlock_tier.py::test_environment_of_the_agent_cannot_be_read",
    ),
    "M6": (
        f"{TOOLS}/test_environment.py::test_m6_programs_that_act_for_any_client_are_not_named",
        "sandbox/test_landlock_tier.py::test_abstract_socket_and_signals_of_others_are_out_of_reach",
        "sandbox/test_landlock_tier.py::test_socket_of_a_daemon_outside_cannot_be_connected",
    ),
    "M7": ("security/test_sandbox_findings.py::test_m7_mode_owner_and_time_outside_the_roots_stay",),
    "M8": (
        "integration/runtime/tools/test_charset.py::test_m8_hostile_charset_means_utf_8_and_takes_no_time",
        "integration/runtime/tools/test_charset.py::test_m8_a_page_is_decoded_beside_the_loop_and_inside_the_time_limit",
    ),
    "M9": (
        "acceptance/test_output.py::test_m9_an_answer_cannot_steer_the_terminal",
        "acceptance/test_output.py::test_m9_a_pipe_gets_the_answer_as_it_is",
    ),
    "M10": ("security/test_sandbox_findings.py::test_m10_a_file_grows_to_its_limit_and_no_further",),
    "M11": (f"{DECIDE}/test_grants.py::test_m11_an_answer_covers_no_option_that_runs_or_writes_something_else",),
    "M12": (
        f"{DECIDE}/test_paths.py::test_m12_what_other_programs_and_agents_obey_is_asked_about",
        f"{DECIDE}/test_paths.py::test_m12_the_file_tools_ask_about_what_others_obey",
    ),
    "L1": ("unit/runtime/test_private_file.py::test_l1_every_new_folder_above_a_private_one_is_for_the_owner_only",),
    "L2": ("integration/runtime/tools/test_web_fetch.py::test_address_near_us_is_forbidden",),
    "L5": ("unit/core/test_redaction.py::test_l5_shapes_that_were_missed_do_not_get_through",),
    "L6": (f"{DECIDE}/test_paths.py::test_l6_names_of_secrets_are_asked_about_before_they_are_read",),
    "L7": (
        "integration/runtime/test_whole_output.py::test_l7_a_bomb_in_the_facts_is_unpacked_to_a_limit",
        "contract/test_transfer.py::test_l7_a_line_longer_than_any_of_ours_is_refused_before_it_is_read_whole",
    ),
    "L9": ("http/test_guard.py::test_a_page_of_another_site_gets_nothing",),
}
ACCEPTED = {
    "L3": "whether a file exists outside the project is no secret to a command that may read most files anyway; the "
    "sandbox hides what matters",
    "L4": "what is committed is part of the project: every command that reads the history reads it, and so does `git "
    "log -p` without a path; a secret that was committed has to be replaced",
    "L8": "pip and setuptools of the development environment are neither locked nor shipped",
}
FINDINGS = [
    "C1",
    "C2",
    *(f"H{n}" for n in range(1, 8)),
    *(f"M{n}" for n in range(1, 13)),
    *(f"L{n}" for n in range(1, 10)),
]


@cache
def functions_of(name: str) -> frozenset[str]:
    tree = ast.parse((TESTS / name).read_text(encoding="utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in functions)


def test_every_finding_has_a_test_or_a_reason() -> None:
    assert [name for name in FINDINGS if name not in SHOWN_BY and name not in ACCEPTED] == []
    assert set(SHOWN_BY) | set(ACCEPTED) == set(FINDINGS)
    assert not set(SHOWN_BY) & set(ACCEPTED)
    assert not {name for name in ACCEPTED if not name.startswith("L")}, "only low findings may be accepted"


@pytest.mark.parametrize("finding", SHOWN_BY)
def test_the_tests_of_a_finding_exist(finding: str) -> None:
    named = [test.split("::") for test in SHOWN_BY[finding]]
    assert [f"{file}::{name}" for file, name in named if name not in functions_of(file)] == []
