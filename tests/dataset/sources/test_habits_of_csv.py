"""CSV files as people have them: read as meant, told in one line, or refused with a remedy.

All through `stoker pack`, in the process of the tests. The images 0.png to 3.png are there.
"""

import csv as csv_module

import pytest
from PIL import Image

from stoker.dataset import open_dataset

HEAD = "image,label\n"
LINES = HEAD + "0.png,cat\n1.png,dog\n"


@pytest.fixture
def csv(tmp_path, pack):
    """csv(text or bytes, *flags) -> (exit code, all that it said)."""

    def run(text: str | bytes, *flags: object, name: str = "t.csv") -> tuple[int, str]:
        for number in range(4):
            Image.new("RGB", (9, 8), (number, 0, 0)).save(tmp_path / f"{number}.png")
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return pack(name, *flags)

    return run


def test_the_limit_of_the_csv_module_stays_that_of_the_process(csv):
    before = csv_module.field_size_limit()
    code, out = csv(HEAD + f"0.png,{'x' * (before + 1)}\n1.png,dog\n")
    assert (code, csv_module.field_size_limit()) == (0, before), out
    code, out = csv(HEAD + '0.png,"no end\n', name="u.csv")
    assert (code, csv_module.field_size_limit()) == (2, before), out


def column(tmp_path, name: str) -> list:
    """The values of a field: numbers, names of classes, or texts."""
    with open_dataset(tmp_path / "packed") as dataset:
        field = dataset.schema.field(name)
        values = [dataset.read(name, number) for number in range(len(dataset))]
    if field.kind == "bytes":
        return [bytes(value).decode() for value in values]
    return [field.classes[int(v)] if field.classes else v.item() for v in values]


def rows(*values: str, name: str = "label") -> str:
    """A table of images and one column."""
    lines = (f'{number}.png,"{value}"\n' for number, value in enumerate(values))
    return f"image,{name}\n" + "".join(lines)


@pytest.mark.parametrize(
    ("values", "packed", "said"),
    [
        (("001", "002"), [1, 2], "packed as numbers, without the zeros before '001' in line 2"),
        (("007", "7", "cat"), ["007", "7", "cat"], "because 'cat' in line 4 is not a whole"),
        (("1", "None", "2"), ["1", "None", "2"], "because 'None' in line 3 is not a whole number"),
        (("cat", "nan", "dog"), ["cat", "nan", "dog"], "1 samples have the label 'nan', which is"),
        (("1,000", "250"), ["1,000", "250"], "because '1,000' in line 2 is not a whole number"),
        (("Cat", "cat", "dog"), ["Cat", "cat", "dog"], "the classes 'Cat' and 'cat' differ only"),
        (("True", "true", "TRUE"), ["True", "true", "TRUE"], "'TRUE' and 'True' (and 1 more)"),
        (("caf\u00e9", "cafe\u0301"), ["caf\u00e9", "cafe\u0301"], "'cafe\\u0301' and 'caf\\xe9'"),
        (("cat", "cat\u200b"), ["cat", "cat\u200b"], "'cat' and 'cat\\u200b' differ only in case"),
        (("1234567890123456789", "1"), [1234567890123456789, 1], ""),
        (("2020-01-02", "2020-01-03"), ["2020-01-02", "2020-01-03"], ""),
        (("0.5", "1e3"), [0.5, 1000.0], ""),
    ],
)
def test_labels_are_never_joined_or_renamed_in_silence(csv, tmp_path, values, packed, said):
    code, out = csv(rows(*values))
    assert (code, said in out) == (0, True), out
    assert ("warning" in out) == bool(said)
    assert column(tmp_path, "label") == packed


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (("007", "7", "8"), "'007' in line 2 and '7' in line 3 are two texts of one label"),
        (("7", "8", "+7.0"), "'7' in line 2 and '+7' in line 4 are two texts of one label"),
        (("1e3", "1000"), "expected labels as whole numbers or names, got '1e3' in line 2; write"),
        (
            ("1", "nan", "2"),
            "got 'nan' in line 3; write it as a whole number, leave the cell empty",
        ),
        (("1", "inf"), "got 'inf' in line 3"),
        (
            ("99999999999999999999", "1"),
            "whole numbers of 64 bits or names, got '99999999999999999999' in line 2",
        ),
    ],
)
def test_labels_that_are_refused(csv, values, said):
    code, out = csv(rows(*values))
    assert (code, said in out) == (2, True), out


@pytest.mark.parametrize("text", ["label\ncat\n  \n", "x\n1\n  \n", 'x,label\n1,cat\n2,"  "\n'])
def test_labels_and_numbers_that_are_blank_are_empty(csv, text):
    code, out = csv(text)
    assert (code, "t.csv:3: column" in out, "is empty; if samples may" in out) == (1, True, True), (
        out
    )


def test_two_texts_of_one_number_are_classes_on_request(csv, tmp_path):
    (tmp_path / "classes.txt").write_text("7\n007\n")
    assert csv(rows("007", "7"), "--classes", tmp_path / "classes.txt")[0] == 0
    assert column(tmp_path, "label") == ["007", "7"]


@pytest.mark.parametrize(
    ("values", "packed", "said"),
    [
        (("007", "7"), [7, 7], "before '007' in line 2; to keep the texts: --field x=text"),
        (("1e3", "1000"), [1000.0, 1000.0], ""),
        (("True", "true", "FALSE"), [True, True, False], ""),
        (
            ("1,000", "2,500"),
            ["1,000", "2,500"],
            "packed as text, because '1,000' in line 2 is not",
        ),
        (("1_000", "250"), ["1_000", "250"], "because '1_000' in line 2 is not a number"),
        (
            ("3,5", "4,25"),
            ["3,5", "4,25"],
            "because '3,5' in line 2 is not a number that fits; wri",
        ),
        (("1.5", "NA", "2"), ["1.5", "NA", "2"], "because 'NA' in line 3 is not a number"),
        (("\u0661", "2"), ["\u0661", "2"], "in line 2 is not a number that fits"),
        (("9" * 20, "1"), ["9" * 20, "1"], "in line 2 is not a number that fits"),
        (("2020-01-02", "2020-01-03"), ["2020-01-02", "2020-01-03"], ""),
        (("a\nb", 'say ""c""'), ["a\nb", 'say "c"'], ""),
    ],
)
def test_columns_are_what_their_values_are(csv, tmp_path, values, packed, said):
    code, out = csv(rows(*values, name="x"))
    assert (code, said in out) == (0, True), out
    assert ("warning" in out) == bool(said)
    assert column(tmp_path, "x") == packed
    flags = ("--field", "x=text", "--overwrite")
    assert "warning" not in csv(rows(*values, name="x"), *flags)[1]


@pytest.mark.parametrize("value", ["9" * 20, "1e999", "1_0"])
def test_a_number_that_does_not_fit_is_named_by_line(csv, value):
    kind = "float64" if value == "1e999" else "int64"
    code, out = csv(rows("1", value, name="x"), "--field", f"x={kind}")
    assert (code, f"t.csv:3: column 'x': expected {kind}, got '{value}'" in out) == (1, True), out


@pytest.mark.parametrize(
    "text",
    [
        LINES.replace("\n", "\r\n"),
        LINES.replace("\n", "\r"),
        "image,label\r\n0.png,cat\r1.png,dog\n",
        f"\n\n{HEAD}0.png,cat\n\n   \n1.png,dog\n\n",
        "\ufeff" + '"image","label"\n"0.png",cat\n1.png,"dog"',
        LINES.replace("\n", ",\n"),
        LINES.replace("\n", ",,\n").replace("label,,", "label"),
        LINES.replace("label", "label,"),
    ],
)
def test_line_ends_blank_lines_and_trailing_separators(csv, tmp_path, text):
    code, out = csv(text)
    assert code == 0, out
    assert column(tmp_path, "label") == ["cat", "dog"]
    assert ("2 lines end in separators without a value, such as line 2" in out) == ("cat," in text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LINES.encode("utf-16-le"), "line 1: expected text in UTF-8, got a NUL byte, which UTF-16"),
        (LINES.encode("utf-16"), "expected text in UTF-8, got UTF-16"),
        (f"{LINES}2.png,c\0t\n".encode(), "line 4: expected text in UTF-8, got a NUL byte"),
        (
            f"{LINES}2.png,caf\u00e9\n".encode("latin-1"),
            "line 4: expected UTF-8, got the byte 0xe9",
        ),
        (
            b"image,caf\xe9\n",
            "line 1: expected UTF-8, got the byte 0xe9; save it as UTF-8, as in `ic",
        ),
        (f"{LINES}2.png,".encode() + b"\xc3", "line 4: expected UTF-8, but its last character is"),
        (
            f'{LINES}2.png,"cat\n3.png,dog\n',
            "row that begins in line 4 has a quote that is not clo",
        ),
        ('image, "label"\n0.png,cat\n', 'a blank is before the quote of the column "label"'),
        (
            'image,label\n0.png, "cat"\n',
            "column 'label': a blank is before the quote of ' \"cat\"'",
        ),
        ("image,label,label\n0.png,a,b\n", "two columns are named 'label'; rename one"),
        (",\n", "expected a header with a name per column"),
        ("", "expected a header with a name per column"),
        (HEAD, "has a header, but no rows"),
        (f"# by me\n{LINES}", "its first line has 1 values, but no other line has as many (line 2"),
        (f"sep=,\n{LINES}", "expected the names of the columns in the first line"),
        ("image;x\n0.png;3,5\n", "expected columns separated by ',', got 'image;x'; write it with"),
        ("image;label;a,b\n0.png;cat;x\n", "expected columns separated by ',', got 'image;label;a"),
        ("image|label\n0.png|cat\n", "got 'image|label'"),
        ("image;label;a\n0.png;cat;1,5\n", "got 'image;label;a'"),
    ],
)
def test_tables_that_are_refused(csv, text, said):
    code, out = csv(text)
    assert (code in (1, 2), said in out) == (True, True), out


@pytest.mark.parametrize(
    ("name", "text", "packed"),
    [
        ("t.csv", 'text\n"a"\n" "\n"b"\n', {"text": ["a", " ", "b"]}),
        ("t.csv", "text,x\na,1\n  \nb,2\n", {"text": ["a", "b"], "x": [1, 2]}),
        ("t.csv", "  \n\nx\n1\n\n2\n", {"x": [1, 2]}),
        ("t.csv", f"text\n{'y' * 2**18}\n", {"text": ["y" * 2**18]}),
        ("t.csv", '"question | answer","x|y"\na,b\n', {"question___answer": ["a"], "x_y": ["b"]}),
        ("t.csv", '"a|b"\nc\n', {"a_b": ["c"]}),
        ("t.tsv", "text\tbox (x,y,w,h)\nfoo\t1\nbar\t2\n", {"text": ["foo", "bar"]}),
        ("t.tsv", "text\tbox (x,y,w,h)\nfoo\t1,2,3,4\n", {"text": ["foo"]}),
    ],
)
def test_values_and_names_with_blanks_and_other_separators(csv, tmp_path, name, text, packed):
    code, out = csv(text, name=name)
    assert code == 0, out
    assert {field: column(tmp_path, field) for field in packed} == packed


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a\\0.png", "folders are separated by / here, not by a backslash"),
        ("C:\\photos\\0.png", "it is a path of another computer, with Windows"),
        ("https://example.org/0.png", "it is an address: download the file, and write its path"),
        ("~/0.png", "~ is not expanded here: write the path of the home folder"),
        ("$DATA/0.png", "variables are not expanded here: write their values"),
        ("%DATA%/0.png", "variables are not expanded here: write their values"),
        ("'0.png", "its quotes are taken as a part of it: leave them out"),
        ("\ufeff0.png", "it begins with a byte order mark, as where files were joined"),
        ("gone.png", "gone.png: it cannot be read: No such file or directory repair"),
    ],
)
def test_names_of_files_that_are_not_there_say_what_to_change(csv, name, said):
    code, out = csv(f"{LINES}{name},cat\n")
    assert (code, said in out) == (1, True), out
    assert "1 of 3 samples of" in out


def test_images_by_absolute_and_relative_paths(csv, tmp_path):
    text = f"{HEAD}{tmp_path}/0.png,1\n../{tmp_path.name}/1.png,2\n./2.png,3\n"
    assert csv(text)[0] == 0
    code, out = csv(text, "--images", tmp_path / "nowhere", "--overwrite")
    assert (code, "--images: there is no folder" in out) == (2, True), out


def test_an_image_column_without_images_is_told(csv):
    code, out = csv("image,label\n0,cat\n1,dog\n")
    told = "column 'image' is packed as int64, because no value ends like the name of an image"
    assert (code, told in out) == (0, True), out
    code, out = csv("image_id,file_id,label\n0,7,cat\n1,8,dog\n", "--overwrite")
    assert (code, "no value ends" in out) == (0, False), out
    code, out = csv("image,label\nnotes,cat\n0.png,dog\n", "--overwrite")
    assert (code, "notes: it cannot be read" in out) == (1, True), out
