"""``fedplus new``: what it writes works at once, as a user would run it."""

import subprocess
import sys
import tomllib

import pytest

from command import environment, fedplus, refused
from fedplus.new import FRAMEWORKS, TEMPLATES

NEEDS = {"torch": "torch", "jax": "equinox", "numpy": "numpy"}
every_framework = pytest.mark.parametrize("framework", FRAMEWORKS)


@pytest.fixture
def made(tmp_path, request):
    """An app for the framework that the test is about."""
    framework = request.getfixturevalue("framework")
    said, _ = fedplus("new", "my-app", "--framework", framework, cwd=tmp_path)
    assert "python -m my_app" in said
    return tmp_path / "my-app"


def run(app, *command, **more):
    done = subprocess.run(
        [sys.executable, *command], cwd=app, env=environment() | more, capture_output=True, text=True,
        check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@every_framework
def test_nothing_of_the_template_is_left(made, framework):
    texts = {path: path.read_text() for path in made.rglob("*") if path.is_file()}
    assert not [p for p, text in texts.items() if "fedapp" in f"{p.name} {text}".lower()]
    assert not [p for p, text in texts.items() if "FRAMEWORK" in text or "DEPENDENCIES" in text]
    about = tomllib.loads((made / "pyproject.toml").read_text())
    assert about["project"]["name"] == "my-app"
    assert about["tool"]["flwr"]["app"]["components"]["clientapp"] == "my_app.party:app"
    for name in ("README.md", "deploy.py", "certificates.py", "my_app/model.py", ".gitignore"):
        assert (made / name).is_file()


@every_framework
def test_the_code_is_in_order(made, framework):
    """ruff with this project's rules, mypy --strict on the app as it will be."""
    pytest.importorskip("flwr")
    settings = ["--config", str(TEMPLATES / "ruff.toml")]
    run(made, "-m", "ruff", "check", *settings, "--config", "src=['.']", ".")
    run(made, "-m", "ruff", "format", "--check", *settings, ".")
    strict = [
        "--strict", "--ignore-missing-imports", "--disable-error-code=untyped-decorator",
        "--follow-imports=silent", "--allow-untyped-calls",
    ]  # fmt: skip
    run(made, "-m", "mypy", *strict, "-p", "my_app")


@every_framework
def test_it_trains_in_process_and_its_own_tests_pass(made, framework):
    pytest.importorskip(NEEDS[framework])
    pytest.importorskip("flwr")
    lines = run(made, "-m", "my_app").splitlines()
    scores = [float(line.split()[1].removesuffix("%")) for line in lines[2:5]]
    assert lines[0].startswith("After 10 rounds")
    assert min(scores) > 70  # The party with negatives, too.
    folder = lines[-1].removeprefix("A report: fedplus report ")
    fedplus("report", folder, cwd=made)
    assert (made / folder / "report.html").is_file()
    assert "4 passed" in run(made, "-m", "pytest", "-q", "-p", "no:cacheprovider")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["7up"], "name must be at most 32 letters, digits, - and _, a letter first, got '7up'."),
        (["json"], "the app itself do not use, got 'json'."),
        (["class"], "the app itself do not use, got 'class'."),
        (["numpy"], "the app itself do not use, got 'numpy'."),
        (["deployment"], "the app itself do not use, got 'deployment'."),
        (["here"], "name must be that of a new folder, got here, which is there."),
        (["x", "--framework", "jaxx"], "framework must be one that fedplus knows, got 'jaxx'. Did you"),
    ],
)  # fmt: skip
def test_refusals_leave_nothing(arguments, said, tmp_path):
    (tmp_path / "here").mkdir()
    assert said in refused("new", *arguments, cwd=tmp_path)
    assert list(tmp_path.rglob("*")) == [tmp_path / "here"]


@pytest.mark.parametrize("framework", ["numpy"])
def test_certificates_and_keys(made, framework):
    pytest.importorskip("flwr")
    run(made, "certificates.py", "server.example.org", "10.0.0.7", "--parties", "2")
    folder = made / "certificates"
    secret = {p.name for p in folder.iterdir() if p.stat().st_mode & 0o077 == 0}
    assert secret == {"server.key", "node-0", "node-1"}
    from cryptography import x509

    server = x509.load_pem_x509_certificate((folder / "server.pem").read_bytes())
    ca = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    server.verify_directly_issued_by(ca)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["server.example.org", "localhost"]
    addresses = map(str, names.get_values_for_type(x509.IPAddress))
    assert list(addresses) == ["10.0.0.7", "127.0.0.1"]
    keys = [(folder / f"node-{k}.pub").read_text() for k in range(2)]
    assert all(key.startswith("ecdsa-sha2-nistp384 ") for key in keys)
    assert keys[0] != keys[1]
    again = subprocess.run(
        [sys.executable, "certificates.py", "x"],
        cwd=made,
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 2
    assert "is there already" in again.stderr
