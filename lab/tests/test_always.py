"""The loads of benchmarks of features that are always on."""

from __future__ import annotations

from pg_lean import always


def test_the_analytic_statement_runs_in_new_sessions_and_never_measures_their_first_run(monkeypatch):
    opened, closed, ran = [], [], []

    class Session:
        def __init__(self, kind: str):
            self.kind = kind
            opened.append(self)

        def close(self) -> None:
            closed.append(self)

    monkeypatch.setattr(always, "timed", lambda conn, statement, cpu=False: ran.append((conn, cpu)) or {"ms": 2.0, "cpu_ms": 1.0})
    with always.Analytic({kind: lambda kind=kind: Session(kind) for kind in ("off", "on")}, local=True) as analytic:
        variants = analytic.variants()
        for _ in range(always.Analytic.RUNS + 1):
            analytic.before()
            for kind, run in variants.items():
                assert run() == {"us": 2000.0, "cpu_us": 1000.0} and ran[-1] == (opened[-2 if kind == "off" else -1], True)
    assert [session.kind for session in opened] == ["off", "on"] * 2 and set(closed) == set(opened)
    # each session's first run is not one of the measured, which tell processor time
    assert [ran.index((session, False)) < ran.index((session, True)) for session in opened] == [True] * 4
