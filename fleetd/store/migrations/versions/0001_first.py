"""The tables of the first version."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql


revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade():
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger(), autoincrement=True, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("machine_id", sa.BigInteger(), nullable=True),
        sa.Column("run_id", sa.Uuid(), nullable=True),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("detail", postgresql.JSONB(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=True),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("signature", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
        sa.UniqueConstraint("position", name=op.f("uq_audit_position")),
    )
    op.create_index(op.f("ix_audit_at"), "audit", ["at"], unique=False)
    op.create_index(op.f("ix_audit_machine_id"), "audit", ["machine_id"], unique=False)
    op.create_index(op.f("ix_audit_run_id"), "audit", ["run_id"], unique=False)
    op.create_table(
        "certificate",
        sa.Column("serial", sa.String(length=40), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("issuer", sa.String(length=64), nullable=False),
        sa.Column("machine_id", sa.BigInteger(), nullable=False),
        sa.Column("enrollment_id", sa.Uuid(), nullable=False),
        sa.Column("key_hash", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("taken_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("der", sa.LargeBinary(), nullable=True),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=True),
        sa.Column("not_after", sa.DateTime(timezone=True), nullable=True),
        sa.Column("installed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reason", sa.String(length=30), nullable=False),
        sa.PrimaryKeyConstraint("serial", name=op.f("pk_certificate")),
    )
    op.create_index("ix_certificate_machine_id_kind", "certificate", ["machine_id", "kind"], unique=False)
    op.create_index(op.f("ix_certificate_not_after"), "certificate", ["not_after"], unique=False)
    op.create_index(op.f("ix_certificate_revoked_at"), "certificate", ["revoked_at"], unique=False)
    op.create_index(
        "uq_certificate_enrollment_id_key_hash",
        "certificate",
        ["enrollment_id", "key_hash"],
        unique=True,
        postgresql_where="state = 'issued'",
    )
    op.create_table(
        "check_change",
        sa.Column("id", sa.BigInteger(), nullable=False),
        sa.Column("machine_id", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("result", sa.String(length=12), nullable=False),
        sa.Column("findings", postgresql.JSONB(), nullable=False),
        sa.Column("pcr_digest", sa.String(length=128), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_check_change")),
    )
    op.create_index("ix_check_change_machine", "check_change", ["machine_id", "at"], unique=False)
    op.create_table(
        "check_day",
        sa.Column("machine_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("hours", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("machine_id", "day", name=op.f("pk_check_day")),
    )
    op.create_table(
        "check_state",
        sa.Column("machine_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=True),
        sa.Column("due", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_ok", sa.DateTime(timezone=True), nullable=True),
        sa.Column("result", sa.String(length=12), nullable=False),
        sa.Column("findings", postgresql.JSONB(), nullable=False),
        sa.Column("difference", postgresql.JSONB(), nullable=False),
        sa.Column("reset_count", sa.BigInteger(), nullable=True),
        sa.Column("restart_count", sa.BigInteger(), nullable=True),
        sa.Column("clock", sa.BigInteger(), nullable=True),
        sa.Column("clock_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("pcrs", postgresql.JSONB(), nullable=False),
        sa.Column("pcr_digest", sa.String(length=128), nullable=False),
        sa.Column("boot", postgresql.JSONB(), nullable=True),
        sa.Column("redeemed_pcrs", postgresql.JSONB(), nullable=True),
        sa.Column("log_demanded", sa.Boolean(), nullable=False),
        sa.Column("baseline", postgresql.JSONB(), nullable=True),
        sa.Column("baseline_digest", sa.String(length=64), nullable=False),
        sa.Column("baseline_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("offered", postgresql.JSONB(), nullable=True),
        sa.Column("offered_digest", sa.String(length=64), nullable=False),
        sa.Column("decision_seen", sa.BigInteger(), nullable=False),
        sa.Column("reported", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("machine_id", name=op.f("pk_check_state")),
    )
    op.create_index(op.f("ix_check_state_due"), "check_state", ["due"], unique=False)
    op.create_index(op.f("ix_check_state_reported"), "check_state", ["reported"], unique=False)
    op.create_table(
        "endorsement_key",
        sa.Column("public_hash", sa.String(length=64), nullable=False),
        sa.Column("public", sa.LargeBinary(), nullable=False),
        sa.Column("name", sa.LargeBinary(), nullable=False),
        sa.Column("key_type", sa.String(length=20), nullable=False),
        sa.Column("certificate_sha256", sa.String(length=64), nullable=False),
        sa.Column("certificate", sa.LargeBinary(), nullable=True),
        sa.Column("manufacturer", sa.String(length=100), nullable=False),
        sa.Column("model", sa.String(length=100), nullable=False),
        sa.Column("version", sa.String(length=100), nullable=False),
        sa.Column("chain_status", sa.String(length=20), nullable=False),
        sa.Column("findings", postgresql.JSONB(), nullable=False),
        sa.Column("candidates", postgresql.JSONB(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("address", sa.String(length=64), nullable=False),
        sa.Column("first_seen", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_seen", sa.DateTime(timezone=True), nullable=False),
        sa.Column("waits_since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("machine_id", sa.BigInteger(), nullable=True),
        sa.Column("bound_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("rejected", sa.Boolean(), nullable=False),
        sa.Column("reported", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("public_hash", name=op.f("pk_endorsement_key")),
    )
    op.create_index(op.f("ix_endorsement_key_machine_id"), "endorsement_key", ["machine_id"], unique=False)
    op.create_index(op.f("ix_endorsement_key_reported"), "endorsement_key", ["reported"], unique=False)
    op.create_index(
        "ix_endorsement_key_waiting",
        "endorsement_key",
        ["rank", "first_seen"],
        unique=False,
        postgresql_where="machine_id IS NULL",
    )
    op.create_table(
        "enrollment",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("machine_id", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=True),
        sa.Column("address", sa.String(length=64), nullable=False),
        sa.Column("made", sa.DateTime(timezone=True), nullable=False),
        sa.Column("verified", sa.Boolean(), nullable=False),
        sa.Column("ek_hash", sa.String(length=64), nullable=False),
        sa.Column("ek_name", sa.LargeBinary(), nullable=False),
        sa.Column("lak_public", sa.LargeBinary(), nullable=False),
        sa.Column("lak_name", sa.LargeBinary(), nullable=False),
        sa.Column("lak_unique", sa.LargeBinary(), nullable=False),
        sa.Column("ldevid_public", sa.LargeBinary(), nullable=False),
        sa.Column("ldevid_private", sa.LargeBinary(), nullable=False),
        sa.Column("facts", postgresql.JSONB(), nullable=False),
        sa.Column("findings", postgresql.JSONB(), nullable=False),
        sa.Column("pcrs", postgresql.JSONB(), nullable=False),
        sa.Column("pcr_digest", sa.String(length=128), nullable=False),
        sa.Column("boot_judged", sa.Boolean(), nullable=False),
        sa.Column("secure_boot", sa.Boolean(), nullable=True),
        sa.Column("counter", sa.BigInteger(), nullable=False),
        sa.Column("closed", sa.Boolean(), nullable=False),
        sa.Column("reported", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_enrollment")),
    )
    op.create_index("ix_enrollment_machine_made", "enrollment", ["machine_id", "made"], unique=False)
    op.create_index(op.f("ix_enrollment_reported"), "enrollment", ["reported"], unique=False)
    op.create_index(op.f("ix_enrollment_run_id"), "enrollment", ["run_id"], unique=False)
    op.create_table(
        "install",
        sa.Column("machine_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("staged", sa.Boolean(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=True),
        sa.Column("enrollment_id", sa.Uuid(), nullable=False),
        sa.Column("ek_hash", sa.String(length=64), nullable=False),
        sa.Column("lak_public", sa.LargeBinary(), nullable=False),
        sa.Column("lak_name", sa.LargeBinary(), nullable=False),
        sa.Column("lak_unique", sa.LargeBinary(), nullable=False),
        sa.Column("ldevid_public", sa.LargeBinary(), nullable=False),
        sa.Column("ldevid_private", sa.LargeBinary(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("machine_id", "staged", name=op.f("pk_install")),
    )
    op.create_table(
        "issuance_pause",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("by", sa.String(length=100), nullable=False),
        sa.Column("reason", sa.String(length=300), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_issuance_pause")),
    )
    op.create_table(
        "machines",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("node_name", sa.Text(), nullable=False),
        sa.Column("machine_class", sa.Text(), nullable=False),
        sa.Column("disk_serial", sa.Text(), nullable=False),
        sa.Column("declaration", postgresql.JSONB(), nullable=True),
        sa.Column("declared_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("vanished", sa.Boolean(), nullable=False),
        sa.Column("standing", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=True),
        sa.Column("run_open", sa.Boolean(), nullable=False),
        sa.Column("installed_run", sa.Uuid(), nullable=True),
        sa.Column("installed_digest", sa.Text(), nullable=False),
        sa.Column("pxe_open", sa.Boolean(), nullable=False),
        sa.Column("hardware", sa.Boolean(), nullable=False),
        sa.Column("check_state", sa.Text(), nullable=False),
        sa.Column("checked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("check_ok_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("check_due_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("check_findings", postgresql.JSONB(), nullable=False),
        sa.Column("baseline_digest", sa.Text(), nullable=False),
        sa.Column("offered_digest", sa.Text(), nullable=False),
        sa.Column("quarantined_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("quarantine_reason", sa.Text(), nullable=False),
        sa.Column("hold_wanted", sa.Boolean(), nullable=False),
        sa.Column("hold_done", sa.Boolean(), nullable=False),
        sa.Column("release_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("phase_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_seen", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reported", postgresql.JSONB(), nullable=True),
        sa.Column("report_due", sa.Boolean(), nullable=False),
        sa.Column("report_seq", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("wakes", sa.BigInteger(), nullable=False),
        sa.Column("next_look_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("looked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_machines")),
    )
    op.create_index(
        "ix_machines_check_due", "machines", ["check_due_at"], unique=False, postgresql_where="check_due_at IS NOT NULL"
    )
    op.create_index(
        "ix_machines_declared_keys",
        "machines",
        [sa.literal_column("(declaration -> 'keys') jsonb_path_ops")],
        unique=False,
        postgresql_using="gin",
    )
    op.create_index(op.f("ix_machines_disk_serial"), "machines", ["disk_serial"], unique=False)
    op.create_index(
        "ix_machines_due", "machines", ["next_look_at"], unique=False, postgresql_where="next_look_at IS NOT NULL"
    )
    op.create_index(op.f("ix_machines_machine_class"), "machines", ["machine_class"], unique=False)
    op.create_index("ix_machines_report_due", "machines", ["id"], unique=False, postgresql_where="report_due")
    op.create_index(op.f("ix_machines_run_id"), "machines", ["run_id"], unique=False)
    op.create_index(op.f("ix_machines_run_open"), "machines", ["run_open"], unique=False)
    op.create_table(
        "marks",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_marks")),
    )
    op.create_table(
        "outbox",
        sa.Column("id", sa.BigInteger(), autoincrement=True, nullable=False),
        sa.Column("machine_id", sa.BigInteger(), nullable=False),
        sa.Column("body", postgresql.JSONB(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
    )
    op.create_index(op.f("ix_outbox_machine_id"), "outbox", ["machine_id"], unique=False)
    op.create_table(
        "revocation_list",
        sa.Column("issuer", sa.String(length=64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("der", sa.LargeBinary(), nullable=False),
        sa.Column("this_update", sa.DateTime(timezone=True), nullable=False),
        sa.Column("next_update", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("issuer", name=op.f("pk_revocation_list")),
    )
    op.create_table(
        "run_verdicts",
        sa.Column("id", sa.BigInteger(), autoincrement=True, nullable=False),
        sa.Column("machine_id", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("findings", postgresql.JSONB(), nullable=False),
        sa.Column("attestation", postgresql.JSONB(), nullable=False),
        sa.Column("facts", postgresql.JSONB(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run_verdicts")),
    )
    op.create_index(op.f("ix_run_verdicts_machine_id"), "run_verdicts", ["machine_id"], unique=False)
    op.create_index(op.f("ix_run_verdicts_run_id"), "run_verdicts", ["run_id"], unique=False)
    op.create_table(
        "runs",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("machine_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state_name", sa.Text(), nullable=False),
        sa.Column("state", postgresql.JSONB(), nullable=False),
        sa.Column("orders", postgresql.JSONB(), nullable=False),
        sa.Column("was_active", sa.Boolean(), nullable=False),
        sa.Column("began_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("findings", postgresql.JSONB(), nullable=False),
        sa.Column("steps", postgresql.JSONB(), nullable=False),
        sa.Column("outage_seconds", sa.Double(), nullable=False),
        sa.Column("first_leave_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("leaves", sa.Integer(), nullable=False),
        sa.Column("refusals", sa.Integer(), nullable=False),
        sa.Column("redeemed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reboot_told_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lost_by", sa.Text(), nullable=False),
        sa.Column("lost_reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
    )
    op.create_index(op.f("ix_runs_machine_id"), "runs", ["machine_id"], unique=False)
    op.create_index(op.f("ix_runs_state_name"), "runs", ["state_name"], unique=False)
    op.create_table(
        "spent_intents",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_spent_intents")),
    )
    op.create_table(
        "ticket",
        sa.Column("keyed_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("machine_id", sa.BigInteger(), nullable=False),
        sa.Column("made", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("why_burnt", sa.String(length=200), nullable=False),
        sa.Column("redeemed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("redeemed_from", sa.String(length=64), nullable=False),
        sa.Column("seed_sha256", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("keyed_hash", name=op.f("pk_ticket")),
    )
    op.create_index(op.f("ix_ticket_machine_id"), "ticket", ["machine_id"], unique=False)
    op.create_index(op.f("ix_ticket_run_id"), "ticket", ["run_id"], unique=False)
    op.create_table(
        "used_token",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("body_sha256", sa.LargeBinary(length=32), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("retry_after", sa.Integer(), nullable=True),
        sa.Column("content_type", sa.String(length=100), nullable=False),
        sa.Column("answer", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_used_token")),
    )
    op.create_index(op.f("ix_used_token_expires"), "used_token", ["expires"], unique=False)
    op.create_table(
        "archived_workflows",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("part", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("raw", postgresql.JSONB(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_archived_workflows_run_id")),
        sa.PrimaryKeyConstraint("run_id", "part", name=op.f("pk_archived_workflows")),
    )
    op.create_table(
        "endorsement_key_rebind",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_hash", sa.String(length=64), nullable=False),
        sa.Column("old_machine_id", sa.BigInteger(), nullable=True),
        sa.Column("new_machine_id", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["public_hash"], ["endorsement_key.public_hash"], name=op.f("fk_endorsement_key_rebind_public_hash")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_endorsement_key_rebind")),
    )
    op.create_table(
        "run_events",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("percent", sa.Double(), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("data", postgresql.JSONB(), nullable=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_events_run_id")),
        sa.PrimaryKeyConstraint("run_id", "seq", name=op.f("pk_run_events")),
    )
    op.create_table(
        "evidence",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("told", sa.Text(), nullable=False),
        sa.Column("jws", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_evidence_run_id_runs")),
        sa.PrimaryKeyConstraint("run_id", "kind", "subject", name=op.f("pk_evidence")),
    )
    op.create_table(
        "words",
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_words_run_id_runs")),
        sa.PrimaryKeyConstraint("run_id", "subject", name=op.f("pk_words")),
    )
    op.create_table(
        "deeds",
        sa.Column("id", sa.BigInteger(), autoincrement=True, nullable=False),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("detail", postgresql.JSONB(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_deeds_run_id_runs")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deeds")),
        sa.UniqueConstraint("run_id", "step", name=op.f("uq_deeds_run_id_step")),
    )


def downgrade():
    op.drop_table("deeds")
    op.drop_table("words")
    op.drop_table("evidence")
    op.drop_table("run_events")
    op.drop_table("endorsement_key_rebind")
    op.drop_table("archived_workflows")
    op.drop_index(op.f("ix_used_token_expires"), table_name="used_token")
    op.drop_table("used_token")
    op.drop_index(op.f("ix_ticket_run_id"), table_name="ticket")
    op.drop_index(op.f("ix_ticket_machine_id"), table_name="ticket")
    op.drop_table("ticket")
    op.drop_table("spent_intents")
    op.drop_index(op.f("ix_runs_state_name"), table_name="runs")
    op.drop_index(op.f("ix_runs_machine_id"), table_name="runs")
    op.drop_table("runs")
    op.drop_index(op.f("ix_run_verdicts_run_id"), table_name="run_verdicts")
    op.drop_index(op.f("ix_run_verdicts_machine_id"), table_name="run_verdicts")
    op.drop_table("run_verdicts")
    op.drop_table("revocation_list")
    op.drop_index(op.f("ix_outbox_machine_id"), table_name="outbox")
    op.drop_table("outbox")
    op.drop_table("marks")
    op.drop_index(op.f("ix_machines_run_open"), table_name="machines")
    op.drop_index(op.f("ix_machines_run_id"), table_name="machines")
    op.drop_index("ix_machines_report_due", table_name="machines", postgresql_where="report_due")
    op.drop_index(op.f("ix_machines_machine_class"), table_name="machines")
    op.drop_index("ix_machines_due", table_name="machines", postgresql_where="next_look_at IS NOT NULL")
    op.drop_index(op.f("ix_machines_disk_serial"), table_name="machines")
    op.drop_index("ix_machines_declared_keys", table_name="machines", postgresql_using="gin")
    op.drop_index("ix_machines_check_due", table_name="machines", postgresql_where="check_due_at IS NOT NULL")
    op.drop_table("machines")
    op.drop_table("issuance_pause")
    op.drop_table("install")
    op.drop_index(op.f("ix_enrollment_run_id"), table_name="enrollment")
    op.drop_index(op.f("ix_enrollment_reported"), table_name="enrollment")
    op.drop_index("ix_enrollment_machine_made", table_name="enrollment")
    op.drop_table("enrollment")
    op.drop_index("ix_endorsement_key_waiting", table_name="endorsement_key", postgresql_where="machine_id IS NULL")
    op.drop_index(op.f("ix_endorsement_key_reported"), table_name="endorsement_key")
    op.drop_index(op.f("ix_endorsement_key_machine_id"), table_name="endorsement_key")
    op.drop_table("endorsement_key")
    op.drop_index(op.f("ix_check_state_reported"), table_name="check_state")
    op.drop_index(op.f("ix_check_state_due"), table_name="check_state")
    op.drop_table("check_state")
    op.drop_table("check_day")
    op.drop_index("ix_check_change_machine", table_name="check_change")
    op.drop_table("check_change")
    op.drop_index(
        "uq_certificate_enrollment_id_key_hash", table_name="certificate", postgresql_where="state = 'issued'"
    )
    op.drop_index(op.f("ix_certificate_revoked_at"), table_name="certificate")
    op.drop_index(op.f("ix_certificate_not_after"), table_name="certificate")
    op.drop_index("ix_certificate_machine_id_kind", table_name="certificate")
    op.drop_table("certificate")
    op.drop_index(op.f("ix_audit_run_id"), table_name="audit")
    op.drop_index(op.f("ix_audit_machine_id"), table_name="audit")
    op.drop_index(op.f("ix_audit_at"), table_name="audit")
    op.drop_table("audit")
