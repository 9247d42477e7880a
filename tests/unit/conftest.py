"""Unit tests start no process and open no network socket: an audit hook refuses the call and fails the test.

Files in a temporary directory, threads, pipes and socket pairs (asyncio has one in each loop) are allowed.
"""

import socket
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent

PROCESSES = {
    "subprocess.Popen",
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "os.startfile",
    "os.system",
    "pty.spawn",
}
CONNECTIONS = {"socket.bind", "socket.connect", "socket.sendto"}
NETWORKS = {socket.AF_INET, socket.AF_INET6}

STILL_STARTING = {
    "app/test_event_feed.py::test_an_interrupted_turn_says_what_it_was_doing",
    "app/test_worker_pool.py::test_a_command_that_runs_when_the_crew_leaves_is_stopped_and_its_outcome_unknown",
    "app/test_worker_pool.py::test_a_mode_that_is_lowered_elsewhere_is_in_force_in_the_turn_that_runs_here",
    "app/test_worker_pool.py::test_a_question_outlives_any_number_of_hand_overs",
    "app/test_worker_pool.py::test_a_turn_that_waits_for_a_person_holds_no_berth_and_gets_one_back",
    "bench/test_workloads.py::test_commands_give_figures_and_leave_nothing_behind",
    "bench/test_workloads.py::test_stores_choose_the_workloads",
    "bench/test_workloads.py::test_workload_gives_positive_figures_and_leaves_nothing_behind",
    "doors/cli/test_models.py::test_models_says_where_the_size_of_the_window_comes_from",
    "doors/cli/test_worker.py::test_a_port_that_is_taken_is_told",
    "doors/repl/test_pieces.py::test_the_picture_in_the_clipboard_becomes_a_file_of_its_own",
    "doors/repl/test_print_mode.py::test_what_nobody_can_be_asked_about_is_denied_and_named_with_its_flag",
    "doors/repl/test_repl.py::test_plan_mode_of_a_new_session_is_stored_with_its_first_message",
    "doors/repl/test_repl.py::test_the_screen_says_where_the_size_of_the_window_comes_from",
    "models/test_prices.py::test_an_unknown_window_is_32k_unless_it_is_set",
    "runtime/permissions/test_tokenizer.py::test_what_is_understood_is_what_bash_runs",
    "runtime/test_budgets.py::test_probe_7_waiting_five_times_is_no_reason_to_stop",
    "runtime/test_dialect.py::test_text_calls_are_unlimited_and_not_scolded",
    "runtime/test_length_limit.py::test_every_reply_of_a_long_turn_may_be_continued",
    "runtime/test_loop_guard.py::test_another_result_is_no_loop",
    "runtime/test_loop_guard.py::test_polling_is_no_loop",
    "runtime/test_observer.py::test_an_observer_is_told_everything_that_a_turn_does",
    "runtime/test_parallel_calls.py::test_an_interrupt_ends_every_sub_agent",
    "runtime/test_parallel_calls.py::test_everything_else_runs_alone_and_in_order",
    "runtime/test_parallel_calls.py::test_questions_of_sub_agents_are_asked_one_at_a_time",
    "runtime/test_parallel_calls.py::test_several_sub_agents_run_side_by_side_and_answer_in_the_models_order",
    "runtime/test_plan_mode.py::test_both_tools_are_always_in_the_list",
    "runtime/test_project_facts.py::test_a_search_in_a_folder_touches_it_and_a_refused_call_does_not",
    "runtime/test_project_facts.py::test_git_is_told_in_the_first_request_and_never_again",
    "runtime/test_project_facts.py::test_two_calls_of_one_reply_tell_each_file_once",
    "runtime/test_project_identity.py::test_without_an_origin_the_first_commit_names_it_and_a_move_does_not_matter",
    "runtime/test_service.py::test_what_needs_the_lease_is_asked_of_the_driver_that_holds_it",
    "runtime/test_session_recall.py::test_calls_are_shown_with_their_arguments",
    "runtime/test_turn.py::test_a_call_beyond_the_mode_is_asked_and_the_answer_decides",
    "runtime/test_turn.py::test_a_long_turn_compacts_after_each_overflow",
    "runtime/test_turn.py::test_a_time_budget_stops_a_command_that_runs",
    "runtime/test_turn.py::test_an_answer_through_another_door_is_taken",
    "runtime/test_turn.py::test_an_interrupt_from_another_door_stops_the_turn_within_a_second",
    "runtime/test_turn.py::test_cancelling_at_any_moment_leaves_every_call_answered",
    "runtime/test_turn.py::test_steering_is_read_between_two_steps_of_the_running_turn",
    "runtime/test_turn.py::test_two_agents_cannot_drive_one_session_at_once",
    "runtime/tools/test_read.py::test_damaged_pdf_is_refused_in_one_sentence",
    "runtime/tools/test_read.py::test_empty_folder_is_told",
    "runtime/tools/test_read.py::test_folder_is_listed_two_levels_deep_with_sizes_and_without_ignored_files",
    "runtime/tools/test_read.py::test_large_folder_says_how_many_entries_are_not_shown",
    "runtime/tools/test_read.py::test_pages_that_are_not_there_are_refused",
    "runtime/tools/test_read.py::test_pdf_is_read_as_text_by_pages",
    "runtime/tools/test_read.py::test_pdftotext_is_used_where_pypdf_is_missing",
    "runtime/tools/test_sandboxed_path.py::test_swapped_links_during_2000_writes_let_none_escape",
    "runtime/tools/test_sandboxed_path.py::test_swapped_links_during_reads_show_nothing_outside",
    "store/test_salvage.py::test_commits_behind_a_damaged_frame_are_a_finding",
    "test_agent.py::test_a_plan_that_was_asked_for_changes_nothing_and_is_carried_out_next",
    "test_looking.py::test_an_agent_that_opens_a_session_or_begins_one_writes_nothing",
    "test_looking.py::test_resuming_writes_one_event_where_another_kind_of_agent_was_there",
    "workflow/test_guided_modes.py::test_a_plan_before_each_task_is_carried_out_by_the_next_message",
    "workflow/test_guided_modes.py::test_a_plan_mode_that_the_user_set_stays_until_the_user_ends_it",
    "workflow/test_guided_modes.py::test_files_outside_the_plan_are_recorded_and_not_argued_about",
    "workflow/test_guided_policy.py::test_a_failure_goes_back_to_the_model_once",
    "workflow/test_guided_policy.py::test_a_failure_is_not_sent_against_a_question",
    "workflow/test_guided_policy.py::test_a_failure_under_another_spelling_is_forgotten_when_the_named_command_passes",
    "workflow/test_guided_policy.py::test_a_named_command_verifies_a_change_and_its_result_is_a_note",
    "workflow/test_guided_policy.py::test_a_pipeline_that_hides_a_failure_is_no_pass",
    "workflow/test_guided_policy.py::test_a_report_of_a_failure_is_the_result",
    "workflow/test_guided_policy.py::test_a_second_failure_ends_the_turn_as_completed_and_is_told",
    "workflow/test_guided_policy.py::test_a_sub_agents_note_is_marked_as_the_runtimes_words",
    "workflow/test_guided_policy.py::test_a_test_run_after_the_last_change_is_not_repeated",
    "workflow/test_guided_policy.py::test_all_requests_of_the_runtime_together_are_one",
    "workflow/test_guided_policy.py::test_settings_of_the_user_name_commands_and_a_project_may_not",
}
"""Tests of this folder that start a process or open a socket: still to be moved to tests/integration. This list only
shrinks (tests/architecture/test_test_files.py)."""

_watching = False
_refusing = True
_called: list[str] = []


class NotAUnitTest(BaseException):
    """A unit test started a process or opened a network socket: move it to tests/integration."""


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching:
        return
    if event in PROCESSES:
        told = f"{event}{arguments[:2]!r}"
    elif event in CONNECTIONS and arguments[0].family in NETWORKS:
        told = f"{event}({arguments[1]!r})"
    else:
        return
    _called.append(told)
    if _refusing:
        raise NotAUnitTest(told)


sys.addaudithook(_audit)


@pytest.fixture(autouse=True)
def _neither_process_nor_network(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Generator[None]:
    """Watch the test. Two things would start processes for tests that are about something else: the search for a
    sandbox, and the question which git project the current folder belongs to."""
    global _watching, _refusing
    monkeypatch.setenv("OUTLAST_SANDBOX", "none")
    monkeypatch.chdir(tmp_path_factory.getbasetemp())
    name = f"{request.path.relative_to(HERE).as_posix()}::{getattr(request.node, 'originalname', request.node.name)}"
    _called.clear()
    _watching, _refusing = True, name not in STILL_STARTING
    try:
        yield
    finally:
        _watching = False
    if _called and _refusing:
        pytest.fail(f"a unit test called {_called[0]}: move it to tests/integration", pytrace=False)
