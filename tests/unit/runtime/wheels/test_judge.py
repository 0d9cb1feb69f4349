"""The judgement of requirements by an index, and the program that prints it."""

import hashlib
import http.server
import io
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.parse
import zipfile

import pytest
from packaging.requirements import Requirement
from packaging.tags import platform_tags

from ftrun.configurations import this_twin
from ftrun.errors import BadArchive
from ftrun.wheels import archive
from ftrun.wheels.index import Index
from ftrun.wheels.judge import Answer, judge
from ftrun.wheels.package import Package
from tests.checkout import importable
from tests.extension_modules import compiled
from tests.unit.runtime.wheels.test_gil_slot import INTERPRETERS, SLOTS

pytestmark = pytest.mark.thread_unsafe(reason="starts a compiler, and has a server")

PLATFORM = next(platform_tags())
HERE = f"3.{sys.version_info.minor}t"


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    """The files of two extension modules: one does not need the GIL, one does."""
    folder = tmp_path_factory.mktemp("modules")
    slots = {"off": "{Py_mod_gil, Py_MOD_GIL_NOT_USED},", "on": INTERPRETERS, "unclear": ""}
    return {
        name: compiled(SLOTS.format(slots=text), folder / f"{name}.so").read_bytes()
        for name, text in slots.items()
    }


def wheel(*files, method=zipfile.ZIP_DEFLATED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file:
        for name, data in (("pkg/__init__.py", b""), *files):
            file.writestr(name, data)
    return buffer.getvalue()


def compiled_wheel(data, tag="313t", **more):
    return wheel((f"pkg/module.cpython-{tag}-x86_64-linux-gnu.so", data), **more)


def described(release, *needs, files=()):
    """A wheel with the metadata that a resolver reads; *release*: such as pkg-1."""
    name, version = release.split("-")
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"]
    metadata += [f"Requires-Dist: {need}\n" for need in needs]
    return wheel((f"{release}.dist-info/METADATA", "".join(metadata)), *files)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body, **headers):
        self.send_response(status)
        for name, value in {"content_length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)

    def do_HEAD(self):  # as uv asks before it fetches the end of a wheel
        self.send_response(200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header(
            "Content-Length", str(len(self.server.files[self.path.rpartition("/")[2]]))
        )
        self.end_headers()

    def do_GET(self):
        files, mode = self.server.files, self.server.mode
        self.server.sent.append(self.path)
        if match := re.fullmatch(r"/simple/([^/]+)/", self.path):
            names = [
                name for name in files if name.lower().replace("_", "-").startswith(match[1] + "-")
            ]
            if not names or mode == "absent":
                self.answer(404, b"")
            elif mode == "no page":
                self.answer(200, b"[]", content_type="application/vnd.pypi.simple.v1+json")
            elif mode == "html":
                links = "".join(
                    f'<a href="../../files/{urllib.parse.quote(name)}#sha256={sha256(files[name])}"'
                    f"{' data-yanked' * (name in self.server.yanked)}>{name}</a>"
                    for name in names
                )
                self.answer(200, links.encode(), content_type="text/html")
            else:
                at = "http://[x" if mode == "bad link" else "../../files/"
                page = {
                    "files": [
                        {
                            "filename": name,
                            "url": f"{at}{name}",
                            "hashes": {"sha256": sha256(files[name])},
                            "yanked": name in self.server.yanked and "broken",
                        }
                        for name in names
                    ]
                }
                self.answer(
                    200,
                    json.dumps(page).encode(),
                    content_type="application/vnd.pypi.simple.v1+json",
                )
            return
        data = files[self.path.rpartition("/")[2]]
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"])
        if mode == "whole":
            self.answer(200, data)
        elif mode == "gone":
            self.answer(404, b"")
        elif mode == "cut" and wanted[1] != "0":
            self.close_connection = True
            self.answer(
                206,
                b"",
                content_length=100,
                content_range=f"bytes {wanted[1]}-{wanted[2]}/{len(data)}",
            )
        elif mode == "slow" and wanted[1] != "0":
            self.send_response(206)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Content-Range", f"bytes {wanted[1]}-{wanted[2]}/{len(data)}")
            self.end_headers()
            while True:  # until the client leaves
                self.wfile.write(b"x")
                time.sleep(0.02)
        elif mode == "short" and wanted[1] != "0":
            self.answer(206, data[:3], content_range=f"bytes {wanted[1]}-{wanted[2]}/{len(data)}")
        elif mode == "elsewhere" and wanted[1] != "0":
            self.answer(
                206,
                data[: int(wanted[2]) - int(wanted[1]) + 1],
                content_range=f"bytes 0-9/{len(data)}",
            )
        else:
            part = data[int(wanted[1]) : int(wanted[2]) + 1]
            self.answer(206, part, content_range=f"bytes {wanted[1]}-{wanted[2]}/{len(data)}")


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        pass  # clients close connections early


@pytest.fixture
def index(monkeypatch):
    """A package index on this machine: ``files`` by name, the ``yanked`` ones of them, and a
    ``mode`` of answering.
    """
    server = Server(("127.0.0.1", 0), Handler)
    server.files, server.yanked, server.mode, server.sent = {}, set(), "", []
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://127.0.0.1:{server.server_port}/simple")
    yield server
    server.shutdown()
    server.server_close()


def answers(text, accepted=""):
    """The answers for a requirement, by interpreter: (version, answer, better)."""
    package = Package(Requirement(text), accepted=Requirement(accepted or text).specifier)
    report = judge(package, Index())
    assert not report.error, report.error
    return {
        series: (each.version, each.answer, each.better) for series, each in report.findings.items()
    }


@pytest.mark.parametrize("mode", ["", "html", "whole"])
@pytest.mark.slow
def test_the_kinds_of_answers(mode, index, modules):
    index.mode = mode
    tag = f"cp313-cp313t-{PLATFORM}"
    index.files = {
        f"pkg-1.0-{tag}.whl": compiled_wheel(modules["off"]),
        f"pkg-2.0-{tag}.whl": compiled_wheel(modules["on"]),
        f"pkg-2.0-cp314-cp314t-{PLATFORM}.whl": compiled_wheel(modules["off"], "314t"),
        "pkg-2.0.tar.gz": b"",
        f"pkg-3.0rc1-{tag}.whl": compiled_wheel(modules["off"]),
        f"pkg-4.0-cp313-cp313-{PLATFORM}.whl": b"",  # for the build with the GIL
        f"pkg-4.0-cp311-abi3-{PLATFORM}.whl": b"",  # which free-threaded builds do not take
    }
    assert answers("pkg") == {
        "3.13t": ("2.0", Answer.ON, "1.0"),
        "3.14t": ("2.0", Answer.OFF, ""),
        "3.15t": ("2.0", Answer.SOURCE, ""),
    }
    assert answers("pkg==1.0")["3.13t"] == ("1.0", Answer.OFF, "")
    assert answers("pkg==3.0rc1")["3.13t"] == ("3.0rc1", Answer.OFF, "")
    assert answers("pkg==4.0")["3.13t"] == ("4.0", Answer.NONE, "1.0")
    assert answers("pkg>4")["3.13t"] == ("", Answer.NONE, "")
    assert answers("pkg==4.0", "pkg>=2")["3.13t"] == ("4.0", Answer.NONE, "")
    assert list(answers("pkg; python_version >= '3.14'")) == ["3.14t", "3.15t"]
    assert answers("pkg; python_version < '3'") == {}


@pytest.mark.slow
def test_only_what_an_interpreter_loads_counts(index, modules):
    index.files[f"pkg-1-py3-none-{PLATFORM}.whl"] = wheel(
        ("pkg/one.cpython-314t-x86_64-linux-gnu.so", modules["on"]),
        ("pkg/two.cpython-313t-x86_64-linux-gnu.so", modules["off"]),
        ("pkg/three.abi3.so", modules["on"]),
        ("pkg.libs/four.so", modules["on"]),
        ("pkg/lib/libfour.so", modules["on"]),
        ("pkg/five.abi3t.so", modules["on"]),  # which 3.15 is the first to load
    )
    found = answers("pkg")
    assert [found[series][1] for series in found] == [Answer.OFF, Answer.ON, Answer.ON]
    index.files = {f"pkg-1-py3-none-{PLATFORM}.whl": wheel(("pkg/lib/_five.so", modules["on"]))}
    assert {each[1] for each in answers("pkg").values()} == {Answer.ON}
    index.files = {"pkg-1-py3-none-any.whl": b"never read"}
    assert {each[1] for each in answers("pkg").values()} == {Answer.PURE}


@pytest.mark.slow
def test_no_placeholder_is_better(index, modules):
    index.files = {
        "pkg-0.0.0a0-py3-none-any.whl": b"never read",
        "pkg-0.0.1-py3-none-any.whl": b"never read",
        f"pkg-2.0-cp313-cp313t-{PLATFORM}.whl": compiled_wheel(modules["on"]),
    }
    assert answers("pkg")["3.13t"] == ("2.0", Answer.ON, "")
    # Of a young package, the early releases are real.
    index.files = {**index.files, "pkg-0.0.9.tar.gz": b""}
    del index.files[f"pkg-2.0-cp313-cp313t-{PLATFORM}.whl"]
    assert answers("pkg")["3.13t"] == ("0.0.9", Answer.SOURCE, "0.0.1")


@pytest.mark.parametrize("mode", ["", "html"])
def test_a_yanked_version_is_for_those_who_name_it(mode, index):
    index.mode, index.yanked = mode, {"pkg-1.1-py3-none-any.whl"}
    index.files = dict.fromkeys(("pkg-1.0-py3-none-any.whl", *index.yanked), b"never read")
    found = [answers(f"pkg{wanted}")["3.13t"] for wanted in ("", "==1.*", "==1.1")]
    assert found == [("1.0", Answer.PURE, ""), ("1.0", Answer.PURE, ""), ("1.1", Answer.PURE, "")]


@pytest.mark.parametrize("mode", ["", "html"])
def test_a_local_version(mode, index):
    index.mode, index.files = mode, {"pkg-2.6+cpu-py3-none-any.whl": b"never read"}
    assert answers("pkg==2.6")["3.13t"] == ("2.6+cpu", Answer.PURE, "")


def test_a_marker_that_only_an_installer_of_a_lock_knows_excludes_nothing(index):
    index.files = {"pkg-1-py3-none-any.whl": b"never read"}
    assert answers("pkg; 'default' in dependency_groups")["3.13t"] == ("1", Answer.PURE, "")


@pytest.mark.parametrize("mode", ["", "html"])
@pytest.mark.slow
def test_a_lock_may_allow_one_wheel_alone(mode, index, modules):
    index.mode = mode
    index.files = {
        "pkg-1-py3-none-any.whl": b"pure",
        f"pkg-1-cp313-cp313t-{PLATFORM}.whl": compiled_wheel(modules["on"]),
    }
    hashes = {
        "pure": f"sha256:{sha256(b'pure')}",
        "all": "sha256:" + sha256(compiled_wheel(modules["on"])),
    }

    def answer(*allowed):
        package = Package(Requirement("pkg==1"), frozenset(hashes[each] for each in allowed))
        return judge(package, Index(), ("3.13t",)).findings

    assert answer("pure")["3.13t"].answer is Answer.PURE
    assert answer("pure", "all")["3.13t"].answer is Answer.ON
    assert answer("all")["3.13t"].answer is Answer.ON


@pytest.mark.slow
def test_ranges_fetch_less_than_the_file(index, modules):
    chance = os.urandom(8 << 20)
    index.files[f"pkg-1-cp313-cp313t-{PLATFORM}.whl"] = wheel(
        ("pkg/data.bin", chance), ("pkg/m.cpython-313t-x86_64-linux-gnu.so", modules["off"])
    )
    assert answers("pkg")["3.13t"][1] is Answer.OFF
    assert len(index.sent) < 8


@pytest.mark.parametrize(
    ("damage", "mode", "says"),
    [
        (lambda data: b"no archive", "", "not a zip file"),
        (lambda data: data[: len(data) // 2], "", "not a zip file"),
        (lambda data: data, "short", "did not send the bytes"),
        (lambda data: data, "elsewhere", "did not send the bytes"),
        (lambda data: data, "cut", "IncompleteRead"),
        (lambda data: data, "gone", "HTTPError 404"),
        (
            lambda data: compiled_wheel(bytes(1000), method=zipfile.ZIP_LZMA),
            "",
            "compressed by method 14",
        ),
        (lambda data: changed(data, 42, 0xFFFFFFF0), "", "a part of it takes -"),
        (lambda data: compiled_wheel(b"MZ"), "", "not a 64-bit"),
        (lambda data: changed(data, 24, 0xFEFFFFFF), "", "over 1 GiB"),
        (lambda data: data.replace(b"pkg/module", b"pkg/moduXX", 1), "", "BadArchive"),
    ],
)
@pytest.mark.slow
def test_damaged_and_hostile_wheels(damage, mode, says, index, modules):
    index.mode = mode
    index.files = {
        f"pkg-1-cp313-cp313t-{PLATFORM}.whl": damage(compiled_wheel(modules["off"])),
        f"fine-1-cp313-cp313t-{PLATFORM}.whl": b"",
    }
    finding = judge(Package(Requirement("pkg")), Index()).findings["3.13t"]
    assert finding.answer is Answer.DAMAGED
    assert says in finding.error


def changed(data, offset, number):
    """A wheel whose directory says of the module that its size (offset 24)
    or its place (42) is *number*.
    """
    at = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 1) + offset
    return data[:at] + number.to_bytes(4, "little") + data[at + 4 :]


def test_no_directory_takes_all_memory():
    with pytest.raises(BadArchive, match="takes 1125899906842624 bytes"):
        archive._WheelReader(io.BytesIO(b"")).read(1 << 50)


@pytest.mark.slow
def test_an_index_page_of_100_000_files(index, modules):
    platforms = [
        f"manylinux_2_{glibc}_{machine}"
        for glibc in range(17, 42)
        for machine in ("x86_64", "riscv64")
    ]
    index.files = {
        f"pkg-{number // 100}.{number % 100}-cp3{minor}-cp3{minor}{gil}-{platform}.whl": b""
        for number in range(500)
        for minor in (13, 14)
        for gil in ("", "t")
        for platform in platforms
    }
    assert len(index.files) == 100_000
    index.files["pkg-5.0-cp314-cp314t-" + PLATFORM + ".whl"] = compiled_wheel(
        modules["off"], "314t"
    )
    begin = time.thread_time()
    assert answers("pkg>4.99")["3.14t"] == ("5.0", Answer.OFF, "")
    assert time.thread_time() - begin < 5


def test_a_name_that_stands_for_a_billion_tags_is_left_out(index):
    tags = ".".join(["a"] * 1000)
    index.files = {f"pkg-1-{tags}-{tags}-{tags}.whl": b""}
    assert {each[1] for each in answers("pkg").values()} == {Answer.NONE}


def test_no_answer_has_the_password_of_the_index(index, monkeypatch):
    monkeypatch.setenv(
        "UV_DEFAULT_INDEX", f"http://user:secret@127.0.0.1:{index.server_port}/simple"
    )
    index.mode, index.files = "gone", {f"pkg-1-cp313-cp313t-{PLATFORM}.whl": b""}
    assert judge(Package(Requirement("pkg")), Index()).findings["3.13t"].error == "HTTPError 404"


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [
        ("pkg", "absent", "not on http://127.0.0.1"),
        ("pkg", "no page", "no page of a project"),
        ("pkg", "bad link", "no page of a project"),
        ("pkg; os_name ~= 'posix'", "", "no requirement that can be judged"),
    ],
)
def test_what_cannot_be_judged(text, mode, says, index):
    index.mode, index.files = mode, {"pkg-1-py3-none-any.whl": b""}
    assert says in judge(Package(Requirement(text)), Index()).error


@pytest.mark.slow
def test_a_server_that_sends_byte_after_byte(index, modules, monkeypatch):
    monkeypatch.setattr(archive, "_LONGEST", 0.2)
    index.mode = "slow"
    index.files = {f"pkg-1-cp313-cp313t-{PLATFORM}.whl": compiled_wheel(modules["off"])}
    assert (
        "the server took more than"
        in judge(Package(Requirement("pkg")), Index()).findings["3.13t"].error
    )


def test_an_index_that_cannot_be_reached_keeps_its_password(monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:secret@127.0.0.1:9/simple")
    error = judge(Package(Requirement("pkg")), Index()).error
    assert "http://127.0.0.1:9/simple cannot be read" in error
    assert "secret" not in error


def test_an_index_whose_address_is_none(monkeypatch):
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://[x/simple")
    assert "cannot be read" in judge(Package(Requirement("pkg")), Index()).error


def info(*arguments):
    command = [sys.executable, "-P", "-m", "ftrun.info", "--requirements", *arguments]
    variables = {**os.environ, "PYTHONPATH": importable(), "COLUMNS": "120"}
    return subprocess.run(command, env=variables, capture_output=True, text=True)


@pytest.mark.slow
def test_the_program(index, modules, tmp_path):
    tag = f"cp313-cp313t-{PLATFORM}"

    def extension(name):
        return ("pkg/module.cpython-313t-x86_64-linux-gnu.so", modules[name])

    index.files = {
        f"pkg-1-{tag}.whl": described("pkg-1", files=[extension("on")]),
        f"fine-2-{tag}.whl": described("fine-2", files=[extension("off")]),
        "plain-3-py3-none-any.whl": described("plain-3", "fine"),
        "above-4-py3-none-any.whl": described(
            "above-4", "pkg", "plain", "gone; python_version < '3'"
        ),
    }
    (tmp_path / "requirements.txt").write_text("fine\n")
    done = info(str(tmp_path / "requirements.txt"))
    # There is no wheel for 3.14t, and so no answer.
    assert (done.returncode, done.stderr) == (3, "")
    assert re.search(
        r"fine==2 +GIL off +nothing fits \(2: wheel\)|fine==2 +GIL off +nothing fits", done.stdout
    )
    done = info("pkg", "fine")
    assert done.returncode == 1
    assert "turns GIL on" in done.stdout
    assert "pkg==1, 3.13t: turns the GIL on: pkg.module" in done.stdout
    assert info("pkg==1; sys_platform == 'win32'").stdout.startswith(
        "not for these interpreters, by their markers: pkg==1"
    )
    # A pure package is no pass if what it needs is none.
    done = info("above")
    assert done.returncode == 1
    assert "pkg==1 (for above)" in done.stdout and "fine==2 (for plain)" in done.stdout
    assert "pure Python: above==4, plain==3" in done.stdout
    done = info("fine", "absent", "--json")
    assert done.returncode == 2
    assert "what the packages need is not looked at: " in done.stderr and "absent" in done.stderr
    packages = json.loads(done.stdout)["packages"]
    assert packages[0]["series"]["3.13t"]["answer"] == "off" and packages[0]["needed_by"] == []
    assert packages[1]["error"].startswith("not on http://127.0.0.1")
    index.files[f"broken-1-{tag}.whl"] = b"no archive"
    assert info("broken").returncode == 2
    index.files[f"vague-1-{tag}.whl"] = described("vague-1", files=[extension("unclear")])
    assert info("vague").returncode == 3  # which is no pass
    index.files["source-1.tar.gz"] = b""
    done = info("source", "fine")
    assert done.returncode == 3
    assert "not known, since there is no wheel of it: what source needs" in done.stderr
    assert re.search(r"source +1 no wheel", done.stdout)
    done = info("no name!")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is no requirement" in done.stderr


@pytest.mark.skipif(this_twin() == "ft", reason="a free-threaded Python can import them")
@pytest.mark.slow
def test_an_import_needs_a_free_threaded_python():
    done = info("numpy", "--import")
    assert (done.returncode, done.stdout) == (2, "")
    assert "needs a free-threaded Python" in done.stderr
