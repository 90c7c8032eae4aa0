"""A whole analytic workload over temporary tables: 22 queries at two scales, compared with stock serial and stock parallel over unlogged tables.

The data are those of an invented trading company, made here by the server and of
the proportions such companies have: orders with lines, customers and vendors of
countries, items with stock at vendors.  The queries are what its people ask:
aggregates over everything, joins of up to six tables, EXISTS and NOT IN, scalar
subqueries, tops and shares.  Every answer is compared between the variants.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Sequence

import psycopg

from pg_lean.bench import Bench, Check, Headline, LabError, Plot, Result, Series, Table
from pg_lean.measure import Estimate, explain, explain_text, timed, verdict

TITLE = "22 analytic queries over temporary tables: stock serial, stock parallel unlogged, pg_lean"
PRELOAD = ("parallel_temp",)
SETTINGS = {"shared_buffers": "1GB", "work_mem": "64MB", "max_worker_processes": "16", "max_parallel_workers": "16",
            "max_wal_size": "4GB", "checkpoint_timeout": "1h", "autovacuum": "off"}

#: Thousandths of a full data set (1.5 million orders) that are measured.
SCALES = (100, 300)
#: Largest accepted ratio to stock serial: of the sum of all queries, and of any single query.
TOGETHER, ALONE = 0.62, 1.05
#: Where that is not decided after the repetitions, so many times as many, and not less than MOST.
LONGER, MOST = 4, 15
#: The plan of a query that is identical to the server's.
SERIAL = "serial"

#: Hashes of the row's number, so that all variants have the same data and no column follows another.
HASHES = {f"h{seed}": f"(hashint4extended(g::int, {seed}) & 1073741823)" for seed in range(1, 10)}
DATA = {
    "countries": "SELECT g AS country, 'Country ' || g AS name, g % 5 AS zone FROM generate_series(0, 24) g",
    "customers": "SELECT g AS customer, {h1} % 25 AS country, {h2} % 5 AS branch, {h3} % 1000000 / 100.0 AS balance,"
                 " 'Customer ' || md5(g::text) AS name FROM generate_series(1, {customers}) g",
    "vendors": "SELECT g AS vendor, {h1} % 25 AS country, {h2} % 1000000 / 100.0 AS balance, 'Vendor ' || md5(g::text) AS name"
               " FROM generate_series(1, {vendors}) g",
    "items": "SELECT g AS item, {h1} % 50 AS kind, {h2} % 40 AS box, (90000 + {h3} % 20001) / 100.0 AS price,"
             " (ARRAY['steel','copper','oak','wool','glass'])[{h4} % 5 + 1] || ' ' || md5(g::text) AS name FROM generate_series(1, {items}) g",
    "stock": "SELECT (g - 1) / 4 + 1 AS item, ((g - 1) / 4 + (g - 1) % 4 * ({vendors} / 4)) % {vendors} + 1 AS vendor, {h1} % 9999 AS amount,"
             " {h2} % 100000 / 100.0 AS cost FROM generate_series(1, {items} * 4) g",
    "orders": 'SELECT g AS "order", {h1} % {customers} + 1 AS customer, date \'2015-01-01\' + ({h2} % 2400)::int AS day,'
              " {h3} % 5 AS urgency, {h4} % 3 AS state, {h5} % 40000000 / 100.0 AS total, md5((g * 3)::text) AS remark FROM generate_series(1, {orders}) g",
    "lines": 'SELECT o."order", line, item, (item - 1 + {h2} % 4 * ({vendors} / 4)) % {vendors} + 1 AS vendor, ({h3} % 50 + 1)::numeric AS quantity,'
             " {h4} % 9000000 / 100.0 AS price, {h5} % 11 / 100.0 AS rebate, day + ({h6} % 120 + 1)::int AS shipped, day + ({h7} % 130 + 10)::int AS arrived,"
             ' {h8} % 7 AS way, {h9} % 3 AS flag FROM orders o, generate_series(1, 4) line, LATERAL (SELECT o."order" * 4 + line AS g) x,'
             " LATERAL (SELECT {h1} % {items} + 1 AS item) y",
}
INDEXES = {"customers": ("customer",), "vendors": ("vendor",), "items": ("item",), "orders": ('"order"', "customer"),
           "lines": ('"order"', "item, vendor"), "stock": ("item, vendor",)}

QUERIES = {
    "sales by flag": "SELECT flag, way, sum(quantity), sum(price * (1 - rebate)), avg(price), count(*) FROM lines"
                     " WHERE shipped <= '2021-06-01' GROUP BY flag, way ORDER BY flag, way",
    "cheapest source": "SELECT v.name, i.item, s.cost FROM items i JOIN stock s USING (item) JOIN vendors v USING (vendor) WHERE i.box = 15 AND s.cost ="
                       " (SELECT min(s2.cost) FROM stock s2 WHERE s2.item = i.item) ORDER BY s.cost, v.name, i.item LIMIT 100",
    "open orders": "SELECT l.\"order\", sum(l.price * (1 - l.rebate)) AS value, o.day FROM customers c JOIN orders o USING (customer)"
                   " JOIN lines l USING (\"order\") WHERE c.branch = 1 AND o.day < '2018-03-15' AND l.shipped > '2018-03-15'"
                   " GROUP BY l.\"order\", o.day ORDER BY value DESC, o.day, l.\"order\" LIMIT 10",
    "late by urgency": "SELECT urgency, count(*) FROM orders o WHERE day >= '2017-01-01' AND day < '2017-04-01' AND EXISTS"
                       " (SELECT FROM lines l WHERE l.\"order\" = o.\"order\" AND l.arrived < l.shipped) GROUP BY urgency ORDER BY urgency",
    "trade at home": "SELECT n.name, sum(l.price * (1 - l.rebate)) FROM customers c JOIN orders o USING (customer) JOIN lines l USING (\"order\")"
                     " JOIN vendors v ON v.vendor = l.vendor AND v.country = c.country JOIN countries n ON n.country = v.country"
                     " WHERE n.zone = 2 AND o.day >= '2018-01-01' AND o.day < '2019-01-01' GROUP BY n.name ORDER BY 2 DESC, 1",
    "small rebates": "SELECT sum(price * rebate) FROM lines WHERE shipped >= '2018-01-01' AND shipped < '2019-01-01'"
                     " AND rebate BETWEEN 0.05 AND 0.07 AND quantity < 24",
    "between two countries": "SELECT vn.name, cn.name, extract(year FROM l.shipped), sum(l.price * (1 - l.rebate)) FROM vendors v"
                             " JOIN lines l USING (vendor) JOIN orders o USING (\"order\") JOIN customers c ON c.customer = o.customer"
                             " JOIN countries vn ON vn.country = v.country JOIN countries cn ON cn.country = c.country"
                             " WHERE (v.country, c.country) IN ((3, 8), (8, 3)) AND l.shipped BETWEEN '2017-01-01' AND '2018-12-31'"
                             " GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
    "share of a market": "SELECT extract(year FROM o.day), sum(l.price) FILTER (WHERE v.country = 4) / sum(l.price) FROM items i"
                         " JOIN lines l USING (item) JOIN vendors v USING (vendor) JOIN orders o USING (\"order\") JOIN customers c USING (customer)"
                         " JOIN countries n ON n.country = c.country WHERE i.kind = 7 AND n.zone = 1 GROUP BY 1 ORDER BY 1",
    "profit by item name": "SELECT n.name, extract(year FROM o.day) AS year, sum(l.price * (1 - l.rebate) - s.cost * l.quantity) FROM items i"
                           " JOIN lines l USING (item) JOIN stock s ON s.item = l.item AND s.vendor = l.vendor JOIN vendors v ON v.vendor = l.vendor"
                           " JOIN orders o USING (\"order\") JOIN countries n ON n.country = v.country WHERE i.name LIKE 'oak%'"
                           " GROUP BY 1, 2 ORDER BY 1, 2 DESC",
    "who sent back": "SELECT c.customer, c.name, sum(l.price * (1 - l.rebate)) AS lost FROM customers c JOIN orders o USING (customer)"
                     " JOIN lines l USING (\"order\") WHERE o.day >= '2017-10-01' AND o.day < '2018-01-01' AND l.flag = 2"
                     " GROUP BY c.customer, c.name ORDER BY lost DESC, c.customer LIMIT 20",
    "stock that matters": "SELECT s.item, sum(s.cost * s.amount) AS value FROM stock s JOIN vendors v USING (vendor) WHERE v.country = 6 GROUP BY s.item"
                          " HAVING sum(s.cost * s.amount) > (SELECT sum(cost * amount) * 0.00003 FROM stock) ORDER BY value DESC, s.item LIMIT 100",
    "ways of shipping": "SELECT l.way, count(*) FILTER (WHERE o.urgency < 2), count(*) FILTER (WHERE o.urgency >= 2) FROM orders o"
                        " JOIN lines l USING (\"order\") WHERE l.way IN (2, 5) AND l.arrived > l.shipped AND l.arrived >= '2018-01-01'"
                        " AND l.arrived < '2019-01-01' GROUP BY l.way ORDER BY l.way",
    "orders a customer": "SELECT n, count(*) FROM (SELECT c.customer, count(o.\"order\") AS n FROM customers c LEFT JOIN orders o"
                         " ON o.customer = c.customer AND o.remark NOT LIKE '%ab%' GROUP BY c.customer) x GROUP BY n ORDER BY 2 DESC, 1 DESC",
    "promotions": "SELECT 100.0 * sum(CASE WHEN i.name LIKE 'wool%' THEN l.price * (1 - l.rebate) ELSE 0 END) / sum(l.price * (1 - l.rebate))"
                  " FROM lines l JOIN items i USING (item) WHERE l.shipped >= '2018-09-01' AND l.shipped < '2018-10-01'",
    "best vendor": "WITH turnover AS (SELECT vendor, sum(price * (1 - rebate)) AS value FROM lines WHERE shipped >= '2018-01-01'"
                   " AND shipped < '2018-04-01' GROUP BY vendor) SELECT v.vendor, v.name, t.value FROM vendors v JOIN turnover t USING (vendor)"
                   " WHERE t.value = (SELECT max(value) FROM turnover) ORDER BY v.vendor",
    "vendors of kinds": "SELECT i.kind, i.box, count(DISTINCT s.vendor) FROM stock s JOIN items i USING (item) WHERE i.kind <> 30 AND i.box IN"
                        " (3, 9, 14, 19, 23, 36) AND s.vendor NOT IN (SELECT vendor FROM vendors WHERE balance < 500) GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2",
    "small orders": "SELECT sum(l.price) / 7 FROM lines l JOIN items i USING (item) WHERE i.kind = 23 AND i.box = 13"
                    " AND l.quantity < (SELECT 0.4 * avg(l2.quantity) FROM lines l2 WHERE l2.item = i.item)",
    "large orders": "SELECT c.name, o.\"order\", o.total, sum(l.quantity) FROM customers c JOIN orders o USING (customer) JOIN lines l USING (\"order\")"
                    " WHERE o.\"order\" IN (SELECT \"order\" FROM lines GROUP BY \"order\" HAVING sum(quantity) > 120)"
                    " GROUP BY 1, 2, 3 ORDER BY o.total DESC, 2 LIMIT 100",
    "three kinds of boxes": "SELECT sum(l.price * (1 - l.rebate)) FROM lines l JOIN items i USING (item) WHERE l.way IN (1, 4) AND"
                            " (i.box BETWEEN 1 AND 5 AND i.kind = 12 AND l.quantity BETWEEN 1 AND 11 OR i.box BETWEEN 10 AND 15 AND i.kind = 23"
                            " AND l.quantity BETWEEN 10 AND 20 OR i.box BETWEEN 20 AND 35 AND i.kind = 34 AND l.quantity BETWEEN 20 AND 30)",
    "too much in stock": "SELECT v.name FROM vendors v WHERE v.country = 9 AND v.vendor IN (SELECT s.vendor FROM stock s WHERE s.item IN"
                         " (SELECT item FROM items WHERE name LIKE 'glass%') AND s.amount > (SELECT 0.5 * sum(l.quantity) FROM lines l"
                         " WHERE l.item = s.item AND l.vendor = s.vendor AND l.shipped >= '2018-01-01' AND l.shipped < '2019-01-01')) ORDER BY 1",
    "who kept others waiting": "SELECT v.name, count(*) FROM vendors v JOIN lines l USING (vendor) JOIN orders o USING (\"order\") WHERE o.state = 1"
                               " AND v.country = 20 AND l.arrived > l.shipped AND EXISTS (SELECT FROM lines x WHERE x.\"order\" = l.\"order\""
                               " AND x.vendor <> l.vendor) AND NOT EXISTS (SELECT FROM lines x WHERE x.\"order\" = l.\"order\" AND x.vendor <> l.vendor"
                               " AND x.arrived > x.shipped) GROUP BY v.name ORDER BY 2 DESC, 1 LIMIT 100",
    "sleeping customers": "SELECT country, count(*), sum(balance) FROM customers c WHERE branch IN (1, 3) AND balance >"
                          " (SELECT avg(balance) FROM customers WHERE balance > 0) AND NOT EXISTS (SELECT FROM orders o"
                          " WHERE o.customer = c.customer AND o.day > '2021-01-01') GROUP BY country ORDER BY country",
}

VARIANTS = {
    "stock serial": {"parallel_temp.enabled": False, "max_parallel_workers_per_gather": 2},
    "stock unlogged": {"parallel_temp.enabled": False, "max_parallel_workers_per_gather": 2},
    "pg_lean": {"parallel_temp.enabled": True, "max_parallel_workers_per_gather": 2},
}


def run(bench: Bench) -> Result:
    """Every scale: data, answers, times."""
    chosen = chosen_queries(bench.options.queries)
    bench.server.need_function("parallel_temp_stats()")
    bench.server.make_schema()
    scales = bench.pick(full=SCALES, quick=(50,))
    plans = {scale: _measure(bench, scale, chosen) for scale in scales}
    return _present(bench, plans)


def chosen_queries(wanted: Sequence[str]) -> list[str]:
    """Names of the queries that --queries asks for, in their own order; all if it asks for none."""
    names = list(QUERIES)
    found = set()
    for one in map(str.strip, wanted):
        if one in QUERIES:
            found.add(one)
        elif one.isdigit() and 1 <= int(one) <= len(names):
            found.add(names[int(one) - 1])
        else:
            raise LabError(f'there is no query "{one}"', "There are 1 to 22: " + ", ".join(names))
    return [name for name in names if name in found] or names


def _case(scale: int, query: str) -> str:
    return f"scale {scale / 1000:g}, {query}"


def front(bench: Bench) -> tuple[Headline, tuple[str, float]]:
    """All queries at the larger scale, with the same number of repetitions for each."""
    scale = bench.pick(full=max(SCALES), quick=20)
    _measure(bench, scale, list(QUERIES), longer=False)
    return _headline(bench, scale, list(QUERIES)), ("`UNLOGGED`", _milliseconds(bench, scale, "stock unlogged", list(QUERIES)))


def _milliseconds(bench: Bench, scale: int, variant: str, names: Sequence[str]) -> float:
    return sum(bench.estimate("ms", variant, _case(scale, name)).median for name in names)


def _headline(bench: Bench, scale: int, names: Sequence[str]) -> Headline:
    return Headline(
        f"{len(names)} analytic queries over temporary tables, all together",
        bench.raw.ratio_of_sums("ms", "stock serial", "pg_lean", [_case(scale, name) for name in names]),
        [(variant, _milliseconds(bench, scale, variant, names)) for variant in ("stock serial", "pg_lean")],
    )


def _measure(bench: Bench, scale: int, chosen: Sequence[str], longer: bool = True) -> dict[str, str]:
    """Make the data, compare the answers, run the queries in turns; what plan each got: SERIAL (the server's), "parallel", or "serial, another"."""
    kinds = {}
    with contextlib.ExitStack() as stack:
        other = stack.enter_context(bench.connect(jit=False))
        temp = stack.enter_context(bench.connect(temp_buffers="1GB", jit=False))
        for conn in (other, temp):
            conn.prepare_threshold = None  # a prepared statement would keep the plan of the variant that came first
        with bench.activity(f"making the data, scale {scale / 1000:g}"):
            make_tables(other, scale, "UNLOGGED")
            stack.callback(drop_tables, other)
            make_tables(temp, scale, "TEMP")
        conns = {variant: other if variant == "stock unlogged" else temp for variant in VARIANTS}

        def measure(variant: str, query: str) -> Callable[[], dict[str, float]]:
            def one() -> dict[str, float]:
                bench.server.set(conns[variant], VARIANTS[variant])
                sample = timed(conns[variant], query)
                return {**sample, "planning_ms": float(explain(conns[variant], query, "SUMMARY")["Planning Time"])}
            return one

        for name in chosen:
            query = QUERIES[name]
            answers, plans = {}, {}
            for variant, settings in VARIANTS.items():
                bench.server.set(conns[variant], settings)
                answers[variant] = conns[variant].execute(query).fetchall()
                plans[variant] = explain_text(conns[variant], query, "COSTS OFF")
            kinds[name] = "parallel" if "Gather" in plans["pg_lean"] else SERIAL if plans["pg_lean"] == plans["stock serial"] else "serial, another"
            if any(answer != answers["stock serial"] for answer in answers.values()):
                raise LabError(f"{name}: the variants have different answers", "This is a fault of pg_lean; please report it.")
            repetitions, case = bench.all_orders(full=7, quick=2, variants=len(VARIANTS)), _case(scale, name)
            bench.interleave({variant: measure(variant, query) for variant in VARIANTS}, repetitions, case=case, warmup=0,
                             most=0 if bench.quick or not longer else max(repetitions * LONGER, MOST),
                             settled=lambda: verdict(bench.ratio("ms", "pg_lean", "stock serial", case), ALONE) != "undecided")
    return kinds


def make_tables(conn: psycopg.Connection, scale: int, kind: str) -> None:
    """All tables with indexes and statistics in the session's first schema (or its temporary one); scale in thousandths."""
    sizes = {"customers": 150 * scale, "vendors": 10 * scale, "items": 200 * scale, "orders": 1500 * scale}
    for table, rows in DATA.items():
        conn.execute(f"CREATE {kind} TABLE {table} AS {rows.format(**sizes, **HASHES)}")
        for columns in INDEXES.get(table, ()):
            conn.execute(f"CREATE INDEX ON {table} ({columns})")
        conn.execute(f"VACUUM ANALYZE {table}")


def drop_tables(conn: psycopg.Connection) -> None:
    conn.execute(f"DROP TABLE IF EXISTS {', '.join(DATA)}")


def _together(bench: Bench, scale: int, variant: str) -> Estimate:
    """The sum over all queries of a variant's time over that of stock's serial plans, paired within each repetition that all have."""
    return bench.raw.ratio_of_sums("ms", variant, "stock serial", [case for case in bench.raw.cases if case.startswith(_case(scale, ""))])


def _planned_again(bench: Bench, case: str) -> float:
    """What planning takes more than stock's, in percent of stock's serial time: plans with workers are looked for after the server's."""
    more = bench.estimate("planning_ms", "pg_lean", case).median - bench.estimate("planning_ms", "stock serial", case).median
    return 100 * more / bench.estimate("ms", "stock serial", case).median


def _named(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _present(bench: Bench, plans: dict[int, dict[str, str]]) -> Result:
    blocks: list[Any] = []
    checks = []
    for scale, kinds in plans.items():
        ratios = {name: bench.ratio("ms", "pg_lean", "stock serial", _case(scale, name)) for name in kinds}
        together = _together(bench, scale, "pg_lean")
        verdicts = {name: verdict(ratios[name], ALONE) for name in kinds}
        # if the plan is the server's (see its column), they differ only by the planner's time, and a wide interval is noise of the machine
        open_ = [name for name in kinds if verdicts[name] == "undecided" and kinds[name] != SERIAL]
        lost = [name for name in kinds if verdicts[name] == "lost"]
        label = f"scale {scale / 1000:g}"
        blocks += [
            Table(f"All {len(kinds)} together, {label}: time over stock's serial plans", ["variant", "ratio"],
                  [[variant, _together(bench, scale, variant)] for variant in VARIANTS if variant != "stock serial"]),
            Table(f"Each query, {label}", ["query", "stock serial, ms", "over stock serial | pg_lean", "over stock serial | stock unlogged", "plan here",
                                               "planned again, % of stock serial", f"at most {ALONE:.2f}"],
                  [[name, bench.estimate("ms", "stock serial", _case(scale, name)), ratios[name],
                    bench.ratio("ms", "stock unlogged", "stock serial", _case(scale, name)), kinds[name],
                    _planned_again(bench, _case(scale, name)), verdicts[name]] for name in kinds]),
            Plot(f"Each query, {label}: time over stock's serial plan", "query", "ratio",
                 [Series(variant, list(kinds), [bench.ratio("ms", variant, "stock serial", _case(scale, name)).median for name in kinds])
                  for variant in ("pg_lean", "stock unlogged")], kind="bar")]
        checks += [Check.of(f"{label}: all queries over stock serial", together, "<=", TOGETHER),
                   Check(f"{label}: queries that certainly take more than {ALONE:.2f} of stock serial" + _named(lost), float(len(lost)), "<=", 0),
                   Check(f"{label}: queries with another plan of which that is not decided" + _named(open_), float(len(open_)), "<=", 0)]
    scale = max(plans)
    kinds = plans[scale]
    together, unlogged = _together(bench, scale, "pg_lean"), _together(bench, scale, "stock unlogged")
    return Result(
        title=TITLE,
        summary=f"{len(kinds)} analytic queries over temporary tables take {together.median:.2f} of the time of stock's serial plans "
        f"({together.low:.2f} to {together.high:.2f}); stock's parallel plans over unlogged tables take {unlogged.median:.2f}. All answers are equal.",
        what="An invented trading company's tables (orders, their lines, customers, vendors, items, stock, countries) as temporary and as unlogged ones, "
        "with indexes and statistics, and 22 questions that its people ask.",
        how="Variants in turns, in all orders, as pages that the one before has left in the processor's caches shorten a query; so often as it takes to "
            f"tell whether a query takes more than {ALONE:.2f} of stock serial, as far as {LONGER} times as many "
        "repetitions allow. `stock serial` and `pg_lean` are one session over temporary tables with `parallel_temp.enabled` off and on, `stock unlogged` is "
        "the server's "
        "parallel plan; up to two workers and the leader. `planned again` is the planning time of EXPLAIN in excess of stock's. Time as the client "
        "sees it; every answer is compared.",
        headlines=[_headline(bench, scale, list(kinds))],
        blocks=blocks,
        checks=[] if bench.quick or bench.options.queries else checks,
    )
