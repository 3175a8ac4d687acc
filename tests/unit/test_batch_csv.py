"""CSV files read into entries: what people and spreadsheets write, and what they get wrong."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.batch.csv_file import decoded, read_rows, read_table
from stoker.batch.entries import Entry
from stoker.batch.tables import World, table_entries
from stoker.errors import UsageError

OPTIONS = ("gpus", "mem", "priority", "name", "cwd", "out", "env", "time_limit", "max_per_gpu")
TRAINING = "Directory,Executable,Filename,Epochs,Priority\n"


def entries(
    text: str, *, header: int | None = 0, template: str | None = None, files: bool = True
) -> list[Entry]:
    world = World(OPTIONS, "/usr/bin/python3", lambda directory, name: files and " -" not in name)
    return table_entries(read_table(text, "jobs.csv", header), "jobs.csv", template, world)


def refusal(text: str, **options: object) -> str:
    with pytest.raises(UsageError) as caught:
        entries(text, **options)  # type: ignore[arg-type]
    return f"{caught.value.message}; {caught.value.hint}"


# --- the five columns ---


def test_a_row_of_the_priority_scheduler_is_its_command_in_its_directory() -> None:
    (entry,) = entries(TRAINING + "/data,/venv/bin/python,train.py,5,3\n")
    assert entry.command == ["/venv/bin/python", "train.py", "--epochs=5"]
    assert entry.values == {"cwd": "/data", "priority": "3"}
    assert entry.numbered


def test_executable_minus_one_is_the_current_interpreter() -> None:
    (entry,) = entries(TRAINING + "/data,-1,train.py,5,3\n")
    assert entry.command[0] == "/usr/bin/python3"


def test_a_filename_may_bring_arguments() -> None:
    (entry,) = entries(TRAINING + "/data,-1,train.py --lr '0 1',5,3\n")
    assert entry.command[1:] == ["train.py", "--lr", "0 1", "--epochs=5"]


def test_without_a_header_the_five_columns_are_known_by_their_position() -> None:
    (entry,) = entries("/data,-1,train.py,5,3\n", header=None)
    assert entry.line == 1
    assert entry.values["priority"] == "3"


def test_a_header_further_down_leaves_out_what_stands_above_it() -> None:
    (entry,) = entries("my runs\n" + TRAINING + "/data,-1,train.py,5,3\n", header=1)
    assert entry.line == 3


def test_names_of_columns_may_be_written_in_any_case_and_order() -> None:
    (entry,) = entries("PRIORITY, epochs ,Filename,executable,directory\n1,2,t.py,-1,/d\n")
    assert entry.command[1:] == ["t.py", "--epochs=2"]
    assert entry.values == {"cwd": "/d", "priority": "1"}


def test_options_of_add_may_stand_beside_the_five_columns() -> None:
    (entry,) = entries(TRAINING.strip() + ",mem,gpus\n/d,-1,t.py,2,1,8G,2\n")
    assert entry.values == {"cwd": "/d", "priority": "1", "mem": "8G", "gpus": "2"}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("/d,-1,t.py,many,1", "line 2: Epochs: 'many' is not a whole number"),
        ("/d,-1,t.py,2,high", "line 2: Priority: 'high' is not a whole number"),
        ("/d,-1,t.py,2,", "line 2: Priority is empty"),
        ("/d,-1,,2,1", "line 2: Filename is empty"),
        ("/d,-1,t.py,2,1,x", "line 2: there are 6 cells, but 5 columns"),
        ("/d,-1,t.py 'a -b,2,1", "line 2: Filename: 't.py 'a -b' has an open quote"),
    ],
)
def test_a_bad_row_is_named_by_its_line_and_what_is_wrong(row: str, said: str) -> None:
    assert said in refusal(TRAINING + row + "\n")


def test_a_file_that_is_not_there_is_told_of_before_anything_runs() -> None:
    said = refusal(TRAINING + "/d,-1,t.py,2,1\n", files=False)
    assert "line 2: there is no file 't.py' in /d" in said


def test_all_bad_rows_are_told_in_one_line() -> None:
    said = refusal(TRAINING + "/d,-1,t.py,2,x\n/d,-1,t.py,2,1\n/d,-1,t.py,y,1\n")
    assert "line 2: Priority" in said
    assert "line 4 is not valid either" in said
    assert "\n" not in said


def test_a_missing_column_is_named() -> None:
    assert "the column Priority is missing" in refusal("Directory,Executable,Filename,Epochs\n")


def test_no_header_and_not_five_columns_says_what_to_do() -> None:
    assert "--template" in refusal("a,b,c\n", header=None)


# --- any other columns ---


def test_a_command_column_and_options_make_a_job() -> None:
    (entry,) = entries("name,gpus,Time-Limit,command\nbig,2,2h,echo {x} && date\n")
    assert entry.command == "echo {x} && date"
    assert entry.values == {"name": "big", "gpus": "2", "time_limit": "2h"}


def test_a_column_that_is_no_option_is_kept_with_the_job() -> None:
    (entry,) = entries("command,lr,note\ntrue,0.1,\n")
    assert entry.params == {"lr": "0.1"}


def test_a_column_that_is_nearly_an_option_is_taken_for_a_slip() -> None:
    assert "did you mean gpus?" in refusal("command,gpu\ntrue,1\n")
    assert "did you mean max-per-gpu?" in refusal("command,max per gpus\ntrue,1\n")


def test_a_file_without_commands_says_what_to_do() -> None:
    said = refusal("a,b\n1,2\n")
    assert "no column `command`" in said
    assert "--header None" in said


def test_a_template_is_filled_with_the_cells_of_each_row() -> None:
    found = entries("lr,name\n0.1,a\n0.01,b c\n", template="train --lr {lr} --name {name}")
    assert [entry.command for entry in found] == [
        "train --lr 0.1 --name a",
        "train --lr 0.01 --name 'b c'",
    ]
    assert found[1].values == {"name": "b c"}
    assert found[1].params == {"lr": "0.01"}


def test_a_file_that_the_template_hands_on_is_not_the_jobs_output() -> None:
    (entry,) = entries("out\nresult.txt\n", template="train --out {out}")
    assert entry.values == {}


def test_columns_without_a_header_are_numbered_for_a_template() -> None:
    (entry,) = entries("0.1,8\n", header=None, template="train {0} {1}")
    assert entry.command == "train 0.1 8"


# --- the form of the file ---


def test_a_byte_order_mark_and_windows_line_ends_are_taken() -> None:
    text = decoded("\ufeffcommand,gpus\r\ntrue,1\r\n\r\nfalse,2\r\n".encode(), "jobs.csv")
    assert [(e.line, e.command) for e in entries(text)] == [(2, "true"), (4, "false")]


def test_a_cell_in_quotes_may_have_commas_quotes_and_newlines() -> None:
    text = 'command,name\n"echo ""a,b""\n  date",x\ntrue,y\n'
    found = entries(text)
    assert found[0].command == 'echo "a,b"\n  date'
    assert [entry.line for entry in found] == [2, 4]


def test_empty_lines_are_passed_over_and_counted() -> None:
    assert [e.line for e in entries("command\n\n\ntrue\n")] == [4]


def test_an_open_quote_is_named_by_the_line_where_its_row_begins() -> None:
    assert "line 3: a quote is never closed" in refusal('command\ntrue\n"echo\nfalse\n')


def test_text_that_is_not_utf8_is_named_by_its_line() -> None:
    with pytest.raises(UsageError, match="line 2: not valid UTF-8"):
        decoded(b"command\nech\xff\n", "jobs.csv")
    with pytest.raises(UsageError, match="UTF-16"):
        decoded("command\n".encode("utf-16"), "jobs.csv")


def test_an_empty_file_is_refused() -> None:
    assert "empty" in refusal("")
    assert "no header in row 3" in refusal("command\n", header=3)


def test_two_columns_of_the_same_name_are_refused() -> None:
    assert "two columns are named 'GPUS'" in refusal("command,gpus,GPUS\n")


def test_ten_thousand_rows_are_read() -> None:
    text = "command,gpus\n" + "".join(f"echo {n},1\n" for n in range(10_000))
    assert [e.line for e in entries(text)] == list(range(2, 10_002))


@given(
    st.lists(
        st.lists(
            st.text(st.characters(codec="utf-8", exclude_characters="\0")),
            min_size=1,
            max_size=4,
        ),
        max_size=8,
    )
)
def test_whatever_a_csv_writer_writes_is_read_back(rows: list[list[str]]) -> None:
    file = io.StringIO(newline="")
    csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
    kept = [row for row in rows if any(cell.strip() for cell in row)]
    assert [row.cells for row in read_rows(file.getvalue(), "x.csv")] == kept
