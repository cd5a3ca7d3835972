"""Columns of tables as they come, each with one trouble, and what `make_learner` says of it.

Every entry is a function of a random number generator that gives 40 values, the note that is
expected (None: there is nothing to say), and what the column is used as, or why it is left out.
"""

from datetime import time, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl

N = 40
DAYS = pd.date_range("2023-11-20", periods=N, freq="9D")
NUMBERS = np.round(np.exp(np.random.RandomState(7).normal(7, 1, N)), 2)


def some(values, *others):
    """Values of which the first ones are others."""
    made = list(values)
    made[: len(others)] = others
    return made


def cycle(*values):
    return [values[i % len(values)] for i in range(N)]


def written(template):
    return [template.format(value) for value in NUMBERS]


def german(value):
    return f"{value:,.2f}".translate(str.maketrans(",.", ".,"))


def frames(values):
    """The column in pandas and, if it can hold it, in polars."""
    tables = {"pandas": pd.DataFrame({"c": values})}
    try:
        if isinstance(values, list):
            tables["polars"] = pl.DataFrame({"c": values})
    except (TypeError, pl.exceptions.PolarsError):
        pass  # values of several types
    return tables


GERMAN = "Jan. Feb. März Apr. Mai Juni Juli Aug. Sept. Okt. Nov. Dez.".split()
DATES = "dates such as .*, used as year, month.* and days"
TROUBLES = {
    # left out
    "no values": ([None] * N, "left out, no values", "no values"),
    "only texts for gaps": (cycle("?", "n/a", "-", "NULL"), "left out, no values", "no values"),
    "NaN only": ([np.nan] * N, "left out, no values", "no values"),
    "one number": ([3.5] * N, "left out, one value only", "one value only"),
    "one word": (["EUR"] * N, "left out, one value only", "one value only"),
    "one day": ([DAYS[0]] * N, "left out, one value only", "one value only"),
    "row numbers": (list(range(1, N + 1)), "left out, row numbers", "row numbers"),
    "row numbers from 1001, shuffled": (
        list(np.random.RandomState(0).permutation(N) + 1001),
        "left out, row numbers",
        "row numbers",
    ),
    "identifiers": (
        [f"K{i:03}" for i in range(N)],
        "left out, an identifier, 40 different values in 40 rows",
        "an identifier, 40 different values in 40 rows",
    ),
    "codes with zeros in front": (
        [f"{97 * i:05}" for i in range(N)],
        "left out, an identifier",
        "an identifier, 40 different values in 40 rows",
    ),
    "lists": ([[i] for i in range(N)], "left out, values of type list", "values of type list"),
    "text without common words": (
        [f"w{i}a w{i}b w{i}c w{i}d" for i in range(N)],
        "left out, text in which no word occurs twice",
        "text in which no word occurs twice",
    ),
    # missing values
    "? among numbers": (some(map(str, NUMBERS), "?"), r"'\?' is read as a miss", "numbers"),
    "- among numbers": (some(map(str, NUMBERS), "-"), "'-' is read as a miss", "numbers"),
    "n/a among numbers": (some(map(str, NUMBERS), "n/a"), "'n/a' is read as a miss", "numbers"),
    "NULL and #N/A": (
        some(map(str, NUMBERS), *["NULL", "#N/A"] * 3),
        "'NULL' and '#N/A' are missing values",
        "gaps",
    ),
    "? among categories": (some(cycle("a", "b"), "?"), r"'\?' is read as a missing", "categories"),
    "n/a among few whole numbers": (some(cycle("1", "2", "3"), "n/a"), "'n/a' is read", "numbers"),
    "an error among numbers": (
        some(map(str, NUMBERS), "error"),
        "'error' among its numbers is read as missing",
        "numbers",
    ),
    "infinite numbers": (some(NUMBERS, np.inf), "infinite numbers are read as missing", "numbers"),
    "gaps in booleans": (some(cycle(True, False, False), None), None, "numbers"),
    "nothing among words": (some(cycle("a", "b"), None), None, "categories"),
    # numbers
    "thousands": (written("{:,.0f}"), "text such as '.*' is read as numbers", "numbers"),
    "dollars": (written("${:.0f}"), r"text such as '\$.*' is read as numbers", "numbers"),
    "euros": (written("{:.2f} €"), ".* is read as numbers", "numbers"),
    "percent": (written("{:.1f} %"), "text such as '.* %' is read as numbers", "numbers"),
    "decimal commas": (list(map(german, NUMBERS)), ".* is read as numbers", "numbers"),
    "accountants' negatives": (some(written("{:.2f}"), "(12.50)"), ".* is read as num", "numbers"),
    "a unit": (written("{:.1f} kg"), "text such as '.* kg' is read as numbers", "numbers"),
    "a unit and decimal commas": (
        [f"{german(value)} m²" for value in NUMBERS],
        "text such as '.* m²' is read as numbers",
        "numbers",
    ),
    "two units": (cycle("1 kg", "2 lb", "3 kg", "5 lb"), None, "categories"),
    "plain numbers as text": (written("{}"), None, "numbers"),
    "few numbers as text": (cycle("2", "4", "6"), None, "numbers"),
    "decimals of Python": ([Decimal(str(value)) for value in NUMBERS], None, "numbers"),
    "a number within a group": (
        [*range(1, 25), *range(1, 17)],
        "counts up from row to row",
        "numbers",
    ),
    "years, one for each row": (list(range(1950, 1950 + N)), None, "numbers"),
    # categories
    "numbers in part": (cycle("2", "3", "4", "5more"), None, "categories"),
    "numbers and words": (cycle(1, "one"), "all values are taken as text", "categories"),
    "a mixed column": (some(cycle(1, 2, 3), "x"), "all values are taken as text", "categories"),
    "pandas categories": (pd.Categorical(cycle("a", "b", "c")), None, "categories"),
    "categories that are numbers": (pd.Categorical(cycle(1, 2, 3)), None, "codes"),
    # dates and lengths of time
    "datetime64": (DAYS, DATES, "dates"),
    "dates with a zone": (DAYS.tz_localize("Europe/Rome"), DATES, "dates"),
    "dates of Python": ([day.date() for day in DAYS], DATES, "dates"),
    "date-times of Python": (list(DAYS.to_pydatetime()), DATES, "dates"),
    "ISO dates": (DAYS.strftime("%Y-%m-%d"), DATES, "dates"),
    "few ISO dates": (cycle("2024-01-01", "2024-02-03", "2025-03-08"), DATES, "dates"),
    "ISO with time and zone": (
        (DAYS + pd.Timedelta("7h") * 0.37).strftime("%Y-%m-%dT%H:%M:%SZ"),
        DATES,
        "dates",
    ),
    "German dates": (DAYS.strftime("%d.%m.%Y"), DATES, "dates"),
    "American dates": (DAYS.strftime("%m/%d/%Y"), DATES, "dates"),
    "day or month first": (
        cycle("03/04/2020", "05/06/2021", "07/08/2022"),
        DATES + ", the day before the month",
        "dates",
    ),
    "dates in words": (DAYS.strftime("%B %d, %Y"), DATES, "dates"),
    "dates in German": (
        [f"{day.day}. {GERMAN[day.month - 1]} {day.year}" for day in DAYS],
        DATES,
        "dates",
    ),
    "dates in Spanish": (
        cycle("3 de enero de 2021", "5 de marzo de 2022", "7 de mayo de 2022"),
        DATES,
        "dates",
    ),
    "dates with st, nd and th": (
        cycle("March 1st, 2021", "May 2nd, 2022", "June 5th, 2022"),
        DATES,
        "dates",
    ),
    "times of a form in the web": (
        DAYS.strftime("%Y/%m/%d 9:%M:%S AM GMT+1"),
        DATES,
        "dates",
    ),
    "weeks": (DAYS.strftime("%G-W%V"), "dates such as .*, used as", "dates"),
    "dates as whole numbers": ([int(day.strftime("%Y%m%d")) for day in DAYS], DATES, "dates"),
    "an impossible date": (
        some(DAYS.strftime("%Y-%m-%d"), "0000-00-00"),
        "'0000-00-00' among its dates is read as missing",
        "dates",
    ),
    "dates with gaps": (some(DAYS.strftime("%Y-%m-%d"), None, "?"), DATES, "dates"),
    "dates and text of dates": (
        some(list(DAYS.to_pydatetime()), "2024-03-01"),
        DATES,
        "dates",
    ),
    "months before years": (DAYS.strftime("%m/%Y"), DATES, "dates"),
    "months": (pd.period_range("2021-01", periods=N, freq="M"), DATES, "dates"),
    "lengths of time": (list(pd.to_timedelta(NUMBERS, unit="min")), None, "numbers"),
    "lengths of Python": ([timedelta(hours=value) for value in NUMBERS], None, "numbers"),
    "lengths as text": ([f"{i % 23}:{i}:00" for i in range(N)], ".* is read as num", "numbers"),
    "lengths in hours and minutes": (
        [f"{i % 5}h {i}m" for i in range(N)],
        "text such as '.*' is read as numbers",
        "numbers",
    ),
    "times of the day": ([time(i % 24, i) for i in range(N)], None, "numbers"),
    # types
    "nullable whole numbers": (pd.array(some(range(5, 125, 3), None), "Int64"), None, "numbers"),
    "nullable booleans": (pd.array(some(cycle(True, False), None), "boolean"), None, "numbers"),
    "nullable strings": (pd.array(some(cycle("a", "b"), None), "string"), None, "categories"),
    "Arrow numbers": (pd.array(some(NUMBERS, None), "double[pyarrow]"), None, "numbers"),
    "Arrow strings": (pd.array(some(cycle("a", "b"), None), "string[pyarrow]"), None, "categories"),
    "Arrow days": (pd.array([day.date() for day in DAYS], "date32[pyarrow]"), DATES, "dates"),
    "Arrow date-times": (pd.array(DAYS, "timestamp[us][pyarrow]"), DATES, "dates"),
    "Arrow lengths": (pd.array(pd.to_timedelta(NUMBERS, unit="min"), "duration[us][pyarrow]"), None,
                      "numbers"),
}  # fmt: skip

#: columns that polars alone has
POLARS = {
    "Enum": (pl.Series(cycle("a", "b", "c"), dtype=pl.Enum(["a", "b", "c"])), None, "categories"),
    "Categorical": (pl.Series(cycle("a", "b"), dtype=pl.Categorical), None, "categories"),
    "booleans with gaps": (pl.Series(some(cycle(True, False), None)), None, "numbers"),
    "Date": (pl.Series([day.date() for day in DAYS]), DATES, "dates"),
    "Duration": (pl.Series([timedelta(hours=value) for value in NUMBERS]), None, "numbers"),
    "Time": (pl.Series([time(i % 24, i) for i in range(N)]), None, "numbers"),
    "Decimal": (pl.Series([Decimal(str(value)) for value in NUMBERS]), None, "numbers"),
    "one value": (pl.Series(["x"] * N), "left out, one value only", "one value only"),
}
