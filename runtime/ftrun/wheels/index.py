"""The files of a project on a package index: PEP 503 (HTML) and PEP 691 (JSON)."""

from __future__ import annotations

import functools
import html.parser
import json
import math
import os
import re
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

import requests
from packaging.tags import Tag, parse_tag
from packaging.utils import InvalidSdistFilename, parse_sdist_filename
from packaging.version import Version
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError
from urllib3.util import Retry

from ftrun.errors import IndexFailed
from ftrun.wheels.archive import TIMEOUT, received

DEFAULT = "https://pypi.org/simple"
_LARGEST_PAGE = 64 << 20
_LONGEST_TAGS, _MOST_TAGS = 255, 200  # of a file
_ACCEPT = (
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, "
    "text/html;q=0.1"
)


@dataclass(frozen=True)
class File:
    """One file of a project: a wheel, or a source distribution, which has no tags."""

    name: str
    url: str
    version: Version
    tags: frozenset[Tag]
    requires_python: str
    yanked: bool
    hashes: frozenset[str] = frozenset()
    """Hashes of the file that the index gives, such as ``sha256:00ff``."""


def address() -> str:
    """Return the address of the package index, with user and password if it has them."""
    named = os.environ.get("UV_DEFAULT_INDEX")
    if not named:
        named = os.environ.get("PIP_INDEX_URL") or DEFAULT
    return re.sub(r"^[\w.-]+=(?=https?://)", "", named).rstrip("/")  # uv takes NAME=ADDRESS, too


_trusted = functools.cache(ssl.create_default_context)  # it takes half a second


class _Adapter(HTTPAdapter):
    """Adapter that retries failed connections three times.
    Trusts the system's and SSL_CERT_FILE's certificates too.
    """

    def __init__(self) -> None:
        super().__init__(
            max_retries=Retry(
                3, backoff_factor=0.5, status=0, redirect=False, raise_on_status=False
            )
        )

    def init_poolmanager(self, *args, **kwargs):
        super().init_poolmanager(*args, ssl_context=_trusted(), **kwargs)

    def proxy_manager_for(self, *args, **kwargs):
        return super().proxy_manager_for(*args, ssl_context=_trusted(), **kwargs)


class Index:
    """The package index that UV_DEFAULT_INDEX or PIP_INDEX_URL names,
    else PyPI. Owned by one thread.
    """

    def __init__(self) -> None:
        self.url = address()
        self.session = requests.Session()
        self.session.mount("https://", _Adapter())

    @property
    def shown(self) -> str:
        """The index's address, without user and password."""
        try:
            parts = urlsplit(self.url)
        except ValueError:
            return "the index, whose address is none,"
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit(parts._replace(netloc=host))

    def files(self, project: str) -> list[File]:
        """Return the wheels and source distributions
        of *project* (a normalised name); raises ``IndexFailed``.
        """
        url = f"{self.url}/{project}/"
        try:
            with self.session.get(
                url, headers={"Accept": _ACCEPT}, stream=True, timeout=TIMEOUT
            ) as answer:
                return self._files(answer)
        except (requests.RequestException, HTTPError, OSError) as error:
            raise IndexFailed(f"{self.shown} cannot be read: {type(error).__name__}") from error
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise IndexFailed(f"{self.shown} sent no page of a project: {error}") from error

    def _files(self, answer: requests.Response) -> list[File]:
        if answer.status_code == 404:
            raise IndexFailed(f"not on {self.shown}")
        answer.raise_for_status()
        page = received(answer, _LARGEST_PAGE + 1, decoded=True)
        if len(page) > _LARGEST_PAGE:
            raise IndexFailed(f"{self.shown} sent a page of over 64 MiB")
        if "json" in answer.headers.get("Content-Type", ""):
            links = _links_of_json(page)
        else:
            links = _links(page)
        files = [_file(answer.url, *link) for link in links]
        return list(filter(None, files))


def _file(
    page: str, name: str, address: str, requires_python: str, yanked: bool, *hashes: str
) -> File | None:
    address = address.partition("#")[0]
    if not address.startswith("https://"):  # joining takes longer than all else here
        address = urljoin(page, address)
    parsed = _parsed(name)
    if not parsed or not address.startswith(("http://", "https://")):
        return None
    version, tags = parsed
    return File(name, address, version, tags, requires_python, yanked, frozenset(hashes))


def _links_of_json(page: bytes) -> list[tuple]:
    links = []
    for file in json.loads(page)["files"]:
        name, url = str(file["filename"]), str(file["url"])
        requires = str(file.get("requires-python") or "")
        yanked = bool(file.get("yanked"))
        hashes = dict(file.get("hashes") or {})
        links.append((name, url, requires, yanked, *_joined(hashes.items())))
    return links


def _joined(hashes: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{algorithm}:{value}".lower() for algorithm, value in hashes]


def _links(page: bytes) -> list[tuple]:
    """Return (file name, address, requires-python, True if yanked,
    hash …) for each link of an HTML page.
    """
    links = []

    class Parser(html.parser.HTMLParser):
        def handle_starttag(self, tag, attributes) -> None:
            attributes = dict(attributes)
            address = attributes.get("href")
            if tag == "a" and address:
                name = unquote(urlsplit(address).path.rpartition("/")[2])
                requires = attributes.get("data-requires-python") or ""
                hashes = _joined(re.findall(r"#(\w+)=([0-9a-fA-F]+)$", address))
                links.append((name, address, requires, "data-yanked" in attributes, *hashes))

    Parser().feed(page.decode(errors="replace"))
    return links


def _parsed(name: str) -> tuple[Version, frozenset[Tag]] | None:
    """Return the version and tags in a wheel's name,
    the version and no tags for a source archive, else None.
    """
    try:
        if not name.endswith(".whl"):
            return parse_sdist_filename(name)[1], frozenset()
        _, version, *build, python, abi, platform = name.removesuffix(".whl").split("-")
        if len(build) > 1:
            return None
        return _version(version), _tags(python, abi, platform)
    except (InvalidSdistFilename, ValueError):
        # too few parts, InvalidVersion, or a number of over 4300 digits
        return None


# An index may have 100,000 files of a project, and most of their versions and tags more than once.
_version = functools.lru_cache(10_000)(Version)


@functools.lru_cache(10_000)
def _tags(*parts: str) -> frozenset[Tag]:
    # A name of compressed tags stands for all their combinations.
    if (
        sum(map(len, parts)) > _LONGEST_TAGS
        or math.prod(part.count(".") + 1 for part in parts) > _MOST_TAGS
    ):
        raise ValueError("too many tags")
    return parse_tag("-".join(parts))
