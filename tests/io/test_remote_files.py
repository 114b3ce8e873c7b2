"""Files in S3, read from a real server (moto, in its own process); and what a store that denies access is told as."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet
import pytest
from pyarrow import fs

from naysay.errors import TableError
from naysay.io import remote
from naysay.io.files import read
from naysay.io.size import expect_table

PEOPLE = pa.table({"id": [1, 2, 3], "zip": [9, 9, 8], "city": ["Ulm", "Bonn", "Kiel"]})
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


@contextmanager
def serve(**settings: str) -> Iterator[str]:
    """Run moto's server until the end of the block; its address."""
    pytest.importorskip("moto.server", reason="moto is not installed: pip install 'moto[s3]' flask flask-cors")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen(command, env=os.environ | settings, **quiet)
    address = f"http://127.0.0.1:{port}"
    try:
        while server.poll() is None:
            try:
                urllib.request.urlopen(f"{address}/moto-api/", timeout=10).close()
                break
            except OSError:
                time.sleep(0.05)
        assert server.poll() is None, "moto's server has ended"
        yield address
    finally:
        server.terminate()
        server.wait()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serve() as address:
        system = fs.S3FileSystem(
            access_key="key",
            secret_key="secret",
            region="us-east-1",
            endpoint_override=address.removeprefix("http://"),
            scheme="http",
            allow_bucket_creation=True,
        )
        system.create_dir("shop")

        def put(place: str, data: bytes) -> None:
            with system.open_output_stream(place) as sink:
                sink.write(data)

        put("shop/people.csv", b"id,zip,city\n1,9,Ulm\n2,9,Bonn\n3,8,Kiel\n")
        put("shop/odd # name?.csv", b"id,zip,city\n1,9,Ulm\n2,9,Bonn\n3,8,Kiel\n")
        put("shop/empty.csv", b"")
        put("shop/parts/1.csv", b"id,zip,city\n1,9,Ulm\n")
        put("shop/parts/2.csv", b"id,zip,city\n2,9,Bonn\n3,8,Kiel\n")
        put("shop/parts/_SUCCESS", b"")
        put("shop/deep/more/1.csv", b"a\n1\n")
        for name, write in WRITERS.items():
            sink = pa.BufferOutputStream()
            write(sink)
            put(f"shop/{name}", sink.getvalue().to_pybytes())
        yield address


WRITERS: dict[str, Callable[[pa.BufferOutputStream], None]] = {
    "people.parquet": lambda sink: pyarrow.parquet.write_table(PEOPLE, sink),
    "people.orc": lambda sink: pyarrow.orc.write_table(PEOPLE, sink),
    "people.arrow": lambda sink: pyarrow.feather.write_feather(PEOPLE, sink),
    "people.jsonl": lambda sink: sink.write(
        "".join(f"{row}\n" for row in PEOPLE.to_pylist()).replace("'", '"').encode()
    ),
}


@pytest.fixture
def shop(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    return "s3://shop"


@pytest.mark.parametrize(
    "name",
    [
        "people.csv",
        "odd # name?.csv",
        "parts",
        "parts/",
        "people.parquet",
        "people.orc",
        "people.arrow",
        "people.jsonl",
    ],
)
def test_files_and_folders_in_s3(shop: str, name: str) -> None:
    assert read(f"{shop}/{name}").to_pydict() == PEOPLE.to_pydict()
    assert read(f"{shop}/{name}", columns=["city", "id"]).column_names == ["city", "id"]


def test_options_and_estimates_apply_to_remote_files(shop: str) -> None:
    assert read(f"{shop}/people.csv", types={"zip": "text"}, null_values=["8"])["zip"].to_pylist() == ["9", "9", None]
    with pytest.raises(TableError, match=r"s3://shop/people.csv:2: 'Ulm' in column 'city' is not an int"):
        read(f"{shop}/people.csv", types={"city": "int"})
    for name in ("people.csv", "people.parquet"):
        expected = expect_table(f"{shop}/{name}", format=None, encoding=None, delimiter=None)
        assert expected is not None
        assert expected.n_rows == 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("shop/peple.csv", "there is no file or folder 's3://shop/peple.csv'"),
        ("stop/people.csv", "there is no bucket or container 'stop'"),
        ("shop/deep", "contains subfolders, such as 'more'; use --engine spark"),
        ("shop/empty.csv", "the file is empty"),
        ("", "write the name of the bucket: s3://BUCKET/PATH"),
        ("shop/people.duckdb", "there is no file"),
    ],
)
def test_what_is_not_in_the_store(shop: str, name: str, message: str) -> None:
    with pytest.raises(TableError, match=message) as told:
        read(f"s3://{name}")
    assert "\n" not in str(told.value)


def test_credentials_that_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(INITIAL_NO_AUTH_ACTION_COUNT="0") as address:
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": address}.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(
            TableError, match="S3 denies access; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) as told:
            read("s3://shop/people.csv")
        assert "\n" not in str(told.value)


def test_a_store_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**KEYS, "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TableError, match=r"cannot reach S3 for s3://shop/people.csv: .*check the network"):
        read("s3://shop/people.csv")


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        (
            "gs://b/f.csv",
            "google::cloud::Status(UNAVAILABLE: Could not create a OAuth2 access token",
            "Google .* denies",
        ),
        ("gs://b/f.csv", "google::cloud::Status(PERMISSION_DENIED: 403", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("abfss://c@a.dfs.core.windows.net/f", "AuthenticationException: Failed to get token", "AZURE_STORAGE_KEY"),
        ("s3://b/f.csv", "AWS Error UNKNOWN (HTTP status 500): No response body", "S3 answers: AWS Error UNKNOWN"),
    ],
)
def test_what_stores_answer(path: str, error: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    with pytest.raises(TableError, match=message), remote.remote_errors(path):
        raise OSError(error)


def test_addresses_of_azure(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(remote, "_azure", lambda account: asked.append(account) or fs.LocalFileSystem())
    assert remote._system_of("abfss://data@lake.dfs.core.windows.net/a/b.csv")[1] == "data/a/b.csv"
    assert asked == ["lake"]
    with pytest.raises(TableError, match="write abfss://CONTAINER@ACCOUNT"):
        read("abfss://data/a.csv")


def test_other_addresses_are_left_to_spark(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="use --engine spark for other addresses"):
        read("hdfs://host/people.csv")
