"""Files in S3, Google Cloud Storage and Azure, through Arrow's file systems; credentials come from the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from naysay.errors import TableError

_STORES = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "S3"),
    **dict.fromkeys(("gs", "gcs"), "Google Cloud Storage"),
    **dict.fromkeys(("abfs", "abfss"), "Azure"),
}
_CREDENTIALS = {
    "S3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, to credentials that may read it",
    "Google Cloud Storage": "set GOOGLE_APPLICATION_CREDENTIALS to a key file of an account that may read it",
    "Azure": "set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or AZURE_TENANT_ID, AZURE_CLIENT_ID and "
    "AZURE_CLIENT_SECRET, to credentials that may read it",
}
_ENDPOINTS = {"S3": ", or AWS_ENDPOINT_URL for a server of your own"}
_CONNECT_SECONDS = 10
_ATTEMPTS = 3
_DENIED = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE_DOES_NOT_MATCH|INVALID_CLIENT_TOKEN|EXPIRED_TOKEN|HTTP status 40[13]|"
    r"credential|access token|PermissionDenied|Unauthenticated|Authentication|Authorization",
    re.IGNORECASE,
)
_UNREACHABLE = re.compile(
    r"NETWORK_CONNECTION|resolve host|connect to|Connection refused|timed? ?out|Unavailable", re.I
)


def is_remote(path: str) -> bool:
    """Whether a path is the address of a file that Arrow can reach over the network."""
    return _scheme(path) in _STORES


def _scheme(path: str) -> str:
    scheme, mark, _ = path.partition("://")
    return scheme.lower() if mark else ""


def open_remote(path: str) -> pa.NativeFile:
    """Open a remote file for reading."""
    with remote_errors(path):
        system, place = _system_of(path)
        return system.open_input_file(place)


def list_remote(path: str) -> list[str] | None:
    """The addresses in a remote folder, folders with a slash at their end; None if the path is a file."""
    from pyarrow import fs

    with remote_errors(path):
        system, place = _system_of(path)
        found = system.get_file_info(place)
        if found.type is fs.FileType.File:
            return None
        if found.type is fs.FileType.NotFound:
            bucket = place.partition("/")[0]
            if system.get_file_info(bucket).type is fs.FileType.NotFound:
                raise TableError(f"{path}: there is no bucket or container {bucket!r}; check its name")
            raise TableError(f"there is no file or folder {path!r}")
        base = path.rstrip("/")
        entries = system.get_file_info(fs.FileSelector(place))
    ends = {fs.FileType.Directory: "/"}
    return [f"{base}/{entry.base_name}{ends.get(entry.type, '')}" for entry in entries]


@contextmanager
def remote_errors(path: str) -> Iterator[None]:
    """Turn what a store answers into one sentence, if the path is remote."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        if not is_remote(path):
            raise
        raise _explained(path, error) from error


def _explained(path: str, error: Exception) -> TableError:
    store, text = _STORES[_scheme(path)], " ".join(str(error).split())
    if isinstance(error, FileNotFoundError):
        return TableError(f"there is no file or folder {path!r}")
    if _UNREACHABLE.search(text) and not (_DENIED.search(text) and not _has_credentials(store)):
        detail = text.rpartition("Details: ")[2][:200]
        return TableError(f"cannot reach {store} for {path}: {detail}; check the network{_ENDPOINTS.get(store, '')}")
    if _DENIED.search(text) or not _has_credentials(store):
        return TableError(f"{path}: {store} denies access; {_CREDENTIALS[store]}")
    return TableError(f"cannot read {path}: {store} answers: {text[:300]}")


def _has_credentials(store: str) -> bool:
    """Whether the environment says anything about credentials; without any, that is the likeliest cause."""
    return any(name in os.environ for name in re.findall(r"[A-Z]+_[A-Z_]+", _CREDENTIALS[store]))


def _system_of(path: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it: the bucket or container comes first."""
    address = urlsplit(path)
    store = _STORES[_scheme(path)]
    if store == "Azure":
        container, mark, host = address.netloc.rpartition("@")
        if not mark:
            raise TableError(f"{path}: write abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH")
        return _azure(host.partition(".")[0]), f"{container}/{path.partition(address.netloc)[2].lstrip('/')}"
    bucket = address.netloc
    if not bucket:
        raise TableError(f"{path}: write the name of the bucket: {_scheme(path)}://BUCKET/PATH")
    # Not `address.path`: a key may contain # and ?.
    place = path.partition("://")[2].rstrip("/")
    if store != "S3":
        return _google(), place
    settings = frozenset((name, value) for name, value in os.environ.items() if name.startswith("AWS_"))
    return _s3(bucket, settings), place


@lru_cache(maxsize=16)
def _s3(bucket: str, settings: frozenset[tuple[str, str]]) -> Any:
    """The file system of a bucket with these environment variables; Arrow itself reads those of credentials."""
    from pyarrow import fs

    given = dict(settings)
    endpoint = given.get("AWS_ENDPOINT_URL_S3") or given.get("AWS_ENDPOINT_URL")
    region = given.get("AWS_REGION") or given.get("AWS_DEFAULT_REGION")
    where: dict[str, str] = {"region": region} if region else {}
    if endpoint:
        found = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
        where |= {"endpoint_override": found.netloc, "scheme": found.scheme}
    elif not region:
        where["region"] = fs.resolve_s3_region(bucket)
    retry = fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS)
    return fs.S3FileSystem(**where, connect_timeout=_CONNECT_SECONDS, retry_strategy=retry)


@lru_cache(maxsize=1)
def _google() -> Any:
    from pyarrow import fs

    return fs.GcsFileSystem(retry_time_limit=timedelta(seconds=_CONNECT_SECONDS))


@lru_cache(maxsize=16)
def _azure(account: str) -> Any:
    from pyarrow import fs

    if not hasattr(fs, "AzureFileSystem"):
        raise TableError(f"this build of pyarrow ({pa.__version__}) has no Azure support; use --engine spark")
    keys = {"account_key": "AZURE_STORAGE_KEY", "sas_token": "AZURE_STORAGE_SAS_TOKEN"}
    given = {name: os.environ[variable] for name, variable in keys.items() if os.environ.get(variable)}
    return fs.AzureFileSystem(account, **given)
