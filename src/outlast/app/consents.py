"""Consent to what a project brings along: its allow rules and its hooks count after the user has seen them."""

from __future__ import annotations

from outlast.app.settings import Settings
from outlast.runtime.hooks import load_hooks
from outlast.runtime.permissions.consent import Consents
from outlast.runtime.permissions.rule_files import PendingConsent, load_rules
from outlast.runtime.prompt.project_identity import project_key


def pending_consents(settings: Settings) -> list[PendingConsent]:
    """What the project brings along and the user has not consented to yet: its allow rules, its hooks."""
    project = settings.project_root
    rules = load_rules(home=settings.home, project=project, project_key=project_key(project)).pending
    hooks = load_hooks(home=settings.home, project=project, environment={}).pending
    return [one for one in (rules, hooks) if one is not None]


def consent(settings: Settings, pending: PendingConsent) -> None:
    """The user saw this content and wants it to count; durable on return."""
    Consents(settings.home).give(pending.path, pending.digest)
