from __future__ import annotations

from pathlib import Path

import pytest

from seqrt.link.address import check_key_may_travel, host_port, key_for, parse, proxy_variable
from seqrt.wire.hosts import is_loopback


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://gpu:8080", "gpu:8080"),
        ("http://gpu", "gpu:80"),
        ("https://gpu.example.org", "gpu.example.org:443"),
        ("https://GPU.Example.org:8443/", "gpu.example.org:8443"),
        ("http://127.0.0.1:8080", "127.0.0.1:8080"),
        ("http://[::1]:8080", "[::1]:8080"),
        ("https://gpu.example.org/robots/pick", "gpu.example.org:443"),
    ],
)
def test_a_url_names_host_and_port(url: str, place: str) -> None:
    assert host_port(parse(url)) == place


@pytest.mark.parametrize(
    "url",
    [
        "",
        "gpu:8080",
        "gpu",
        "ftp://gpu:8080",
        "ws://gpu:8080",
        "http://",
        "http://:8080",
        "http://gpu:0",
        "http://gpu:99999",
        "http://gpu:port",
        "http://gpu:-1",
        "http://[::1",
        "http://gpu:8080?key=1",
        "http://gpu:8080#a",
        "https://user:secret@gpu:8080",
        "https://user@gpu:8080",
    ],
)
def test_a_url_that_is_none_is_refused_when_it_is_given(url: str) -> None:
    with pytest.raises(ValueError, match="base_url") as refused:
        parse(url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("host", "is_it"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("10.0.0.4", False),
        ("localhost.example.org", False),
        ("127.0.0.1.example.org", False),
        ("gpu", False),
        ("", False),
    ],
)
def test_only_this_machine_is_loopback(host: str, is_it: bool) -> None:
    assert is_loopback(host) is is_it


@pytest.mark.parametrize("url", ["http://gpu:8080", "http://10.0.0.4:8080", "http://0.0.0.0:8080", "http://[fe80::1]"])
def test_a_key_never_goes_over_plain_http_to_another_machine(url: str) -> None:
    with pytest.raises(ValueError, match=r"https://.*insecure=True") as refused:
        check_key_may_travel(parse(url), "the-key", insecure=False)
    assert "the-key" not in str(refused.value)
    check_key_may_travel(parse(url), "the-key", insecure=True)
    check_key_may_travel(parse(url), None, insecure=False)


@pytest.mark.parametrize("url", ["https://gpu:8080", "http://localhost:8080", "http://127.0.0.1:8080", "http://[::1]"])
def test_a_key_goes_over_https_and_to_this_machine(url: str) -> None:
    check_key_may_travel(parse(url), "the-key", insecure=False)


GPU = parse("http://gpu.example.org:8080")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "seqrt").mkdir()
    return {"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path / "nobody")}


def write(environment: dict[str, str], text: str | bytes) -> None:
    path = Path(environment["XDG_CONFIG_HOME"]) / "seqrt" / "credentials"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


def test_the_argument_comes_first_then_ours_then_the_file(environment: dict[str, str]) -> None:
    write(environment, "gpu.example.org:8080 from-file\n")
    assert key_for(GPU, None, environment) == "from-file"
    environment["SEQRT_API_KEY"] = " from-ours\n"
    assert key_for(GPU, None, environment) == "from-ours"
    assert key_for(GPU, " from-argument ", environment) == "from-argument"


def test_no_key_anywhere_is_no_key(environment: dict[str, str]) -> None:
    assert key_for(GPU, None, environment) is None
    environment["SEQRT_API_KEY"] = "  "
    assert key_for(GPU, None, environment) is None


def test_the_other_products_key_goes_to_its_own_host_alone(environment: dict[str, str]) -> None:
    environment["SEQUENCES_API_KEY"] = "theirs"
    assert key_for(GPU, None, environment) is None
    environment["SEQUENCES_BASE_URL"] = "https://api.example.com"
    assert key_for(GPU, None, environment) is None
    assert key_for(parse("https://api.example.com:8443"), None, environment) == "theirs"
    environment["SEQUENCES_BASE_URL"] = "http://[::1"
    assert key_for(GPU, None, environment) is None


def test_the_file_gives_a_key_to_the_host_it_names_and_to_no_other(environment: dict[str, str]) -> None:
    write(
        environment,
        "# keys\n\n  \n#gpu.example.org:8080 commented\nlonely-key\nother.example.org other\n"
        "gpu.example.org any-port\nGPU.example.org:8080 this-port\n[::1]:9 six\nthree words here\n",
    )
    assert key_for(GPU, None, environment) == "this-port"  # though the host alone stands before it
    assert key_for(parse("http://gpu.example.org:9090"), None, environment) == "any-port"
    assert key_for(parse("http://example.org"), None, environment) is None
    assert key_for(parse("http://gpu.example.org.evil.com"), None, environment) is None
    assert key_for(parse("http://[::1]:9"), None, environment) == "six"
    assert key_for(parse("http://[::1]:10"), None, environment) is None


def test_without_a_config_folder_of_its_own_the_file_is_looked_for_at_home(tmp_path: Path) -> None:
    folder = tmp_path / ".config" / "seqrt"
    folder.mkdir(parents=True)
    (folder / "credentials").write_text("gpu.example.org at-home\n")
    assert key_for(GPU, None, {"HOME": str(tmp_path)}) == "at-home"


def test_a_file_that_cannot_be_read_is_no_key(environment: dict[str, str]) -> None:
    write(environment, b"\xff\xfe\x00broken\ngpu.example.org ok\n")
    assert key_for(GPU, None, environment) == "ok"
    path = Path(environment["XDG_CONFIG_HOME"]) / "seqrt" / "credentials"
    path.unlink()
    path.mkdir()
    assert key_for(GPU, None, environment) is None


@pytest.mark.parametrize("key", ["", "   ", "two words", "line\nbreak", "schlüssel", "tab\there", "nul\x00"])
def test_a_key_no_header_can_carry_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ValueError, match="key") as refused:
        key_for(GPU, key, {})
    assert not key.strip() or key not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "environment", "named"),
    [
        ("https://gpu.lab:8443", {"HTTPS_PROXY": "http://proxy:3128"}, "HTTPS_PROXY"),
        ("https://gpu.lab:8443", {"https_proxy": "http://proxy:3128", "HTTPS_PROXY": "http://other"}, "https_proxy"),
        ("https://gpu.lab:8443", {"ALL_PROXY": "socks5://proxy:1080"}, "ALL_PROXY"),
        ("http://gpu.lab:8080", {"http_proxy": "http://proxy:3128", "all_proxy": "http://other"}, "http_proxy"),
        ("http://gpu.lab:8080", {"HTTPS_PROXY": "http://proxy:3128"}, None),
        ("https://gpu.lab", {"HTTPS_PROXY": ""}, None),
        ("https://gpu.lab", {}, None),
        ("https://127.0.0.1:8443", {"HTTPS_PROXY": "http://proxy:3128"}, None),
        ("https://gpu.lab", {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "other, .lab"}, None),
        ("https://gpu.lab", {"HTTPS_PROXY": "http://proxy:3128", "no_proxy": "gpu.lab"}, None),
        ("https://gpu.lab", {"HTTPS_PROXY": "http://proxy:3128", "no_proxy": "*"}, None),
        ("https://gpu.lab", {"HTTPS_PROXY": "http://proxy:3128", "no_proxy": "u.lab"}, "HTTPS_PROXY"),
        ("https://gpu.lab", {"HTTPS_PROXY": "http://proxy:3128", "no_proxy": ","}, "HTTPS_PROXY"),
    ],
)
def test_the_proxy_other_programs_would_go_by_is_named(
    url: str, environment: dict[str, str], named: str | None
) -> None:
    assert proxy_variable(parse(url), environment) == named
