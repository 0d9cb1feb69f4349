"""Reads objects from s3 with obstore, a client in Rust that needs neither the GIL nor an event loop in Python.

s3fs still lists the bucket, and reads the objects that obstore cannot. docs/cache.md has measurements.
"""

import datetime
import time
from typing import Any
from urllib.request import getproxies

from fsspec.asyn import AsyncFileSystem

from ftloader.cache.readers import LoopReader

_KNOWN = {"key", "secret", "token", "anon", "endpoint_url", "profile", "use_ssl"}
"""Options of s3fs that obstore understands: address and credentials. With any other option s3fs reads."""
_REFRESH = datetime.timedelta(minutes=5)  # botocore renews credentials 10 minutes or more before they expire


def open_bucket(filesystem: AsyncFileSystem, bucket: str, timeout: float) -> Any:
    """Return obstore's client for *bucket*, which threads may share; None if s3fs has to read the bucket."""
    # The address, the region and the credentials are those that s3fs would use: botocore finds them for both.
    options = filesystem.storage_options
    if not (bucket and "s3" in filesystem.protocol and options.keys() <= _KNOWN) or getproxies():
        return None
    try:
        from botocore.session import Session
        from obstore.store import S3Store
    except ImportError:
        return None
    session = Session(profile=options.get("profile"))
    if "key" in options:
        session.set_credentials(options["key"], options.get("secret"), options.get("token"))
    arguments = {"endpoint_url": options.get("endpoint_url"), "use_ssl": options.get("use_ssl", True)}
    where = session.create_client("s3", **arguments).meta
    credentials = session.get_credentials()

    def current() -> dict[str, Any]:
        found = credentials.get_frozen_credentials()
        keys = {"access_key_id": found.access_key, "secret_access_key": found.secret_key, "token": found.token}
        return {**keys, "expires_at": datetime.datetime.now(datetime.UTC) + _REFRESH}

    anonymous = bool(options.get("anon"))
    if credentials is None and not anonymous:
        return None
    return S3Store(
        bucket,
        endpoint=where.endpoint_url,
        region=where.region_name or "us-east-1",
        skip_signature=anonymous,
        credential_provider=None if anonymous else current,
        # Without allow_http no redirect leads from https to http either.
        client_options={"timeout": f"{timeout}s", "allow_http": where.endpoint_url.startswith("http://")},
        retry_config={"max_retries": 0},
    )


class ObjectReader(LoopReader):
    """Reader for the objects of one bucket, used by one thread.

    The server is not trusted: an object larger than *largest* bytes or an answer later than *timeout* seconds is
    refused. s3fs reads an object if obstore has no permission or would alter the key. Until obstore has read a first
    object, s3fs also reads after other errors: the bucket may be in another region, or only s3fs knows its certificate.
    """

    def __init__(self, like: AsyncFileSystem, bucket: Any, timeout: float, largest: int) -> None:
        super().__init__(like, timeout)
        self._bucket, self._largest = bucket, largest
        self._proven = False

    def read(self, path: str) -> bytes:
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        key, deadline = path.partition("/")[2], time.monotonic() + self._timeout
        if key.strip("/") == key:  # obstore would drop these slashes and read another object
            try:
                return self._get(path, key)
            except FileNotFoundError:
                raise FileNotFoundError(f"there is no object {path}") from None
            except (ValueError, PermissionDeniedError, UnauthenticatedError):
                pass
            except BaseError as error:
                if time.monotonic() >= deadline:
                    raise TimeoutError(f"{path}: not all of it came within {self._timeout} seconds") from None
                if self._proven:
                    raise OSError(f"{path}: {str(error).partition('\n')[0]}") from None
        return self._cat(path, deadline - time.monotonic())

    def _get(self, path: str, key: str) -> bytes:
        found = self._bucket.get(key)
        if found.meta["size"] > self._largest:
            raise OSError(f"{path} has more than {self._largest} bytes: if that is right, raise UrlSource's largest")
        data = bytes(found.bytes())
        self._proven = True
        return data
