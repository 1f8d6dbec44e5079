"""HTML for notebooks: small, static, and safe with any text."""

from __future__ import annotations

import math
from array import array
from html.parser import HTMLParser

import pytest

from compared_records import record, summary
from windlass.client.resources.trial.curves import Curve
from windlass.comparison.tables import Table
from windlass.comparison.trials import Materials, diff_trials
from windlass.display.html.curves import curves_page
from windlass.display.html.elements import MOST_BYTES
from windlass.display.html.experiment import experiment_page
from windlass.display.html.lines import lines_page
from windlass.display.html.listing import listing_page
from windlass.display.html.sparkline import sparkline
from windlass.display.html.status import status_html
from windlass.display.html.trial import CurvePoints, trial_page
from windlass.model.metrics import CurveHead
from windlass.model.records import ErrorInfo, ExperimentRecord, TrialRecord, TrialState

HOSTILE = "</td><script>alert(1)</script>\"'&\x1b[2J\x00\u202e\udcff\n" + "x" * 500
ALLOWED = {
    "div", "style", "span", "table", "thead", "tbody", "tr", "th", "td", "svg", "path", "circle",
}  # fmt: skip
ATTRIBUTES = {
    "class", "style", "width", "height", "viewbox", "role", "d", "fill", "stroke", "stroke-width",
    "stroke-linejoin", "stroke-linecap", "cx", "cy", "r",
}  # fmt: skip


class Page(HTMLParser):
    """Checks that a fragment is well-formed and static, and collects its text."""

    def __init__(self, html: str | None) -> None:
        super().__init__()
        assert html is not None
        assert len(html.encode()) <= MOST_BYTES
        self.open: list[str] = []
        self.texts: list[str] = []
        self.count: dict[str, int] = {}
        self.feed(html)
        self.close()
        assert self.open == []
        assert "nan" not in "".join(self.attributes)
        assert not {"url(", "@import", "http"} & set(html.split())

    attributes: tuple[str, ...] = ()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED
        assert {name for name, _ in attrs} <= ATTRIBUTES
        self.attributes += tuple(str(value) for _, value in attrs)
        self.count[tag] = self.count.get(tag, 0) + 1
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            assert data.replace("\n", "").isprintable()
            self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)


def _hostile(number: int) -> TrialRecord:
    return record(
        number, name=HOSTILE, experiment=HOSTILE, labels=(HOSTILE,) * 5, message=HOSTILE,
        params={HOSTILE + str(n): HOSTILE for n in range(9)}, state=TrialState.FAILED,
        error=ErrorInfo(type=HOSTILE, message=HOSTILE, traceback=HOSTILE),
        metrics={f"{HOSTILE}{n}": summary(math.nan, math.inf) for n in range(20)},
    )  # fmt: skip


@pytest.mark.finding("U17")
def test_hostile_names_are_shown_as_text_and_every_fragment_stays_small() -> None:
    trial = _hostile(1)
    points = CurvePoints(range(5000), [math.sin(n * n) for n in range(5000)])
    experiment = ExperimentRecord(
        id=1, name=HOSTILE, project=HOSTILE, created=0.0, trials=500, states={"FAILED": 500},
        labels=(HOSTILE,), description=HOSTILE,
    )  # fmt: skip
    trials = [_hostile(n) for n in range(30)]
    table = Table([HOSTILE, "b"], [{HOSTILE: HOSTILE, "b": math.nan}] * 3000)
    curve = Curve(
        CurveHead(trial_id=1, name=HOSTILE, role=HOSTILE, count=5000),
        array("q", points.steps), array("d"), array("d", points.values),
    )  # fmt: skip
    diff = diff_trials(record(1), _hostile(2), Materials())
    for html in (
        trial_page(trial, dict.fromkeys(trial.metrics, points), 10.0),
        experiment_page(experiment, trials, 10.0),
        listing_page(trials, 10.0, has_more=True, is_begun=False),
        listing_page([experiment] * 100, 10.0, has_more=True, is_begun=False),
        listing_page([HOSTILE] * 100, 10.0, has_more=True, is_begun=False),
        curves_page([curve] * 50),
        table._repr_html_(),
        diff._repr_html_(),
        lines_page([[(HOSTILE, "red"), (HOSTILE, "")]] * 900),
        status_html([HOSTILE] * 5, HOSTILE, HOSTILE, HOSTILE),
    ):
        page = Page(html)
        assert "<script>alert(1)</script>" in page.text
        assert "\\u202e" in page.text


def test_a_trial_shows_its_state_parameters_outcome_and_curves() -> None:
    trial = record(
        3, params={"lr": 0.1}, metrics={"loss": summary(2.0, 0.5), "system/cpu": summary(1.0, 1.0)}
    )
    page = Page(trial_page(trial, {"loss": CurvePoints([0, 1, 2], [2.0, 1.0, 0.5])}, 10.0))
    assert "Trial 3" in page.text
    assert "SUCCEEDED" in page.text
    assert "lr=0.1" in page.text
    assert page.count["svg"] == 1
    assert "system/cpu" not in page.text
    assert Page(trial_page(trial, {}, 10.0)).count.get("svg") is None


def test_a_table_shows_what_it_leaves_out() -> None:
    page = Page(Table(["value"], [{"value": n} for n in range(5000)])._repr_html_())
    shown = page.count["tr"] - 1
    assert 200 < shown < 5000
    assert f"{5000 - shown} more rows are not shown." in page.text


def test_empty_lists_and_curves_say_so() -> None:
    assert Page(listing_page([], 0.0, has_more=False, is_begun=False)).text == "The list is empty."
    after = listing_page([], 0.0, has_more=False, is_begun=True)
    assert Page(after).text == "The list has no more items."
    assert Page(curves_page([])).text == "No points have been reported."
    assert status_html([], "", "", "") == ""


@pytest.mark.parametrize(
    "values",
    [
        [1.0], [1.0, 1.0, 1.0], [math.nan, 1.0, math.nan, 2.0], [-1.7e308, 1.7e308],
        [5e-324, 0.0], [math.inf, -math.inf, 3.0], [float(n % 7) for n in range(3000)],
    ],
)  # fmt: skip
def test_a_curve_stays_within_its_image(values: list[float]) -> None:
    svg = sparkline(range(len(values)), values, width=120, height=20)
    Page(svg)
    assert len(svg) < 2000
    path = svg.partition(' d="')[2].partition('"')[0]
    numbers = [float(n) for n in path.replace("M", " ").replace("L", " ").split()]
    assert all(0 <= x <= 120 for x in numbers[::2])
    assert all(0 <= y <= 20 for y in numbers[1::2])


def test_a_curve_without_values_has_no_image() -> None:
    assert sparkline([], []) == ""
    assert sparkline([1, 2], [math.nan, math.inf]) == ""
